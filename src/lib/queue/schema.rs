//! The tables of queue.db, brought up to this version.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::db;

pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_path.sql"),
    include_str!("migrations/0002_routes.sql"),
    include_str!("migrations/0003_groups.sql"),
    include_str!("migrations/0004_approvals.sql"),
    include_str!("migrations/0005_subagents.sql"),
    include_str!("migrations/0006_indexes.sql"),
    include_str!("migrations/0007_tasks.sql"),
    include_str!("migrations/0008_suspended.sql"),
    include_str!("migrations/0009_rules.sql"),
    include_str!("migrations/0010_digests.sql"),
    include_str!("migrations/0011_words.sql"),
    include_str!("migrations/0012_damaged.sql"),
    include_str!("migrations/0013_continued.sql"),
];

/// Opens the database for reading and writing.
///
/// # Errors
/// See [`db::Error`].
pub(super) fn open(path: &Path) -> Result<Connection, db::Error> {
    let mut connection = db::open(path, MIGRATIONS)?;
    complete(&mut connection).map_err(|error| db::Error::of(path, error))?;
    Ok(connection)
}

/// Brings the database up to this version; `None` when there is none.
///
/// # Errors
/// See [`db::Error`].
pub fn migrate(path: &Path) -> Result<Option<db::Migrated>, db::Error> {
    let done = db::bring_up(path, MIGRATIONS)?;
    if done.is_some() {
        open(path)?;
    }
    Ok(done)
}

/// Adds what the first version's tables lacked: the first migration was changed when there were homes already, so
/// that the number of the schema does not tell.
fn complete(connection: &mut Connection) -> rusqlite::Result<()> {
    let lacks = |connection: &Connection| {
        let asked = "SELECT NOT EXISTS (SELECT 1 FROM pragma_table_info('outbox') WHERE name = 'sending_at')";
        connection.query_row(asked, [], |row| row.get::<_, bool>(0))
    };
    if !lacks(connection)? {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it while we waited for the lock.
    if lacks(&transaction)? {
        transaction.execute_batch(
            "ALTER TABLE outbox ADD COLUMN sending_at INTEGER;
             CREATE INDEX IF NOT EXISTS inbox_results ON inbox(finished_at) WHERE result IS NOT NULL;",
        )?;
    }
    transaction.commit()
}
