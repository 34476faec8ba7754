//! Erases text permanently: the caller holds the daemon's lock.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::TransactionBehavior;

use super::schema;
use crate::db;
use crate::db::Hit;

/// Deletes what `hit` finds in the database at `path` and returns how many rows of each table that is; with `dry_run` only
/// counts them. An input that waits is not answered, a part that waits does not go out.
///
/// # Errors
/// See [`db::Error`].
pub fn erase(path: &Path, hit: &Hit, dry_run: bool) -> Result<BTreeMap<String, usize>, db::Error> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let mut connection = schema::open(path)?;
    let mut work = || -> rusqlite::Result<_> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let counts = db::erase_rows(&transaction, hit, &[])?;
        if dry_run {
            return Ok(counts);
        }
        // A digest of words that are gone would still prove a guess.
        transaction.execute(
            "UPDATE seen SET digest = NULL WHERE digest IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.id = substr(seen.key, 5))",
            [],
        )?;
        transaction.commit()?;
        db::vacuum(&connection)?;
        Ok(counts)
    };
    work().map_err(|error| db::Error::of(path, error))
}
