//! Erases words for good: whoever asks holds the locks of the daemon and of `agent-consolidate`.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::key::{Key, value_key};
use super::{Fact, schema, store};
use crate::db::{self, Hit};

/// Deletes what `hit` finds in the database at `path`, and `fact` with all that states it; returns how many rows of each
/// table that is. With `dry_run` nothing is written.
///
/// # Errors
/// See [`db::Error`].
pub fn erase(path: &Path, hit: &Hit, fact: Option<&Fact>, dry_run: bool, now: i64) -> Result<BTreeMap<String, usize>, db::Error> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let mut connection = schema::open(path)?;
    let mut work = || -> rusqlite::Result<_> {
        // A fact may name one that goes; what is left is put in order below.
        connection.execute_batch("PRAGMA foreign_keys=OFF;")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut counts = BTreeMap::new();
        let mut add = |table: &str, count: usize| *counts.entry(table.to_owned()).or_default() += count;
        add("fact_sources", store::withdraw(&transaction, hit, fact, now)?);
        if let Some(fact) = fact {
            let (facts, log) = erase_fact(&transaction, fact)?;
            add("facts", facts);
            add("source_log", log);
        }
        for (table, count) in db::erase_rows(&transaction, hit)? {
            add(&table, count);
        }
        transaction.execute_batch(
            "DELETE FROM fact_sources WHERE fact NOT IN (SELECT id FROM facts);
             UPDATE facts SET superseded_by = NULL WHERE superseded_by NOT IN (SELECT id FROM facts);
             UPDATE commitments SET episode_id = NULL WHERE episode_id NOT IN (SELECT id FROM episodes);",
        )?;
        counts.retain(|_, count| *count > 0);
        if dry_run {
            return Ok(counts);
        }
        transaction.commit()?;
        db::wring_out(&connection)?;
        Ok(counts)
    };
    work().map_err(|error| db::Error::of(path, error))
}

/// Deletes the rows that have the value of `fact`, now and before, and what runs noted of it.
fn erase_fact(connection: &Connection, fact: &Fact) -> rusqlite::Result<(usize, usize)> {
    let Key { scope, entity, attribute } = Key::new(&fact.scope, &fact.entity, &fact.attribute, &fact.value);
    let sql = "DELETE FROM facts WHERE scope = ?1 AND entity_key = ?2 AND attribute_key = ?3 AND value_key = ?4";
    let facts = connection.execute(sql, (&scope, &entity, &attribute, value_key(&fact.value)))?;
    let forgotten = "DELETE FROM forgotten WHERE scope = ?1 AND entity_key = ?2 AND attribute_key = ?3";
    connection.execute(forgotten, (&scope, &entity, &attribute))?;
    let log = "DELETE FROM source_log WHERE scope = ?1 AND lower(entity) = lower(?2) AND lower(attribute) = lower(?3)
                 AND lower(value) = lower(?4)";
    Ok((facts, connection.execute(log, (&scope, &fact.entity, &fact.attribute, &fact.value))?))
}
