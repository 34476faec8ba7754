//! Erases text from a database: rows, and the remains of deleted rows in the file and its log.

use super::Statements;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension};

/// Says whether something in a text is to be erased.
pub type Hit = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Deletes every row in whose words `hit` finds something, of all tables but `but`, and returns how many there were in each. The
/// caller's transaction must not check references.
///
/// # Errors
/// What SQLite says.
pub fn erase_rows(
    connection: &Connection,
    hit: &Hit,
    but: &[&str],
) -> rusqlite::Result<BTreeMap<String, usize>> {
    with_rows(connection, hit, |table, condition| {
        match but.contains(&table) {
            true => Ok(0),
            false => connection.execute(&format!("DELETE FROM \"{table}\" WHERE {condition}"), []),
        }
    })
}

/// Counts those rows, of one table alone.
///
/// # Errors
/// What SQLite says.
pub fn count_rows(connection: &Connection, table: &str, hit: &Hit) -> rusqlite::Result<usize> {
    let count = |name: &str, condition: &str| {
        let sql = format!("SELECT count(*) FROM \"{name}\" WHERE {condition}");
        connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .map(|count| usize::try_from(count).unwrap_or(0))
    };
    let all = with_rows(connection, hit, |name, condition| {
        if name == table {
            count(name, condition)
        } else {
            Ok(0)
        }
    })?;
    Ok(all.into_values().sum())
}

/// Defines the SQL function `is_hit(…)`: whether `hit` matches the words of these values.
///
/// # Errors
/// What SQLite says.
pub fn define_is_hit(connection: &Connection, hit: &Hit) -> rusqlite::Result<()> {
    let hit = AssertUnwindSafe(hit.clone());
    connection.create_scalar_function("is_hit", -1, FunctionFlags::SQLITE_UTF8, move |context| {
        let hit = &hit;
        let mut words = String::new();
        for number in 0..context.len() {
            if let ValueRef::Text(bytes) | ValueRef::Blob(bytes) = context.get_raw(number) {
                words.push_str(&String::from_utf8_lossy(bytes));
                words.push('\n');
            }
        }
        Ok(hit(&words))
    })
}

fn with_rows(
    connection: &Connection,
    hit: &Hit,
    work: impl Fn(&str, &str) -> rusqlite::Result<usize>,
) -> rusqlite::Result<BTreeMap<String, usize>> {
    define_is_hit(connection, hit)?;
    let list = |sql: &str, of: &[&str]| -> rusqlite::Result<Vec<String>> {
        connection.all(sql, rusqlite::params_from_iter(of), |row| row.get(0))
    };
    let tables = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'";
    let mut counts = BTreeMap::new();
    for table in list(tables, &[])? {
        let columns = list("SELECT name FROM pragma_table_info(?1)", &[&table])?;
        let names: Vec<String> = columns
            .iter()
            .map(|column| format!("\"{column}\""))
            .collect();
        let count = work(&table, &format!("is_hit({})", names.join(", ")))?;
        if count > 0 {
            counts.insert(table, count);
        }
    }
    Ok(counts)
}

/// Rewrites the file without what was deleted, and empties its log. Nothing of it goes to a temporary file.
///
/// # Errors
/// What SQLite says; busy when somebody else reads or writes.
pub fn vacuum(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA temp_store=MEMORY; VACUUM;")?;
    // Answers with a row: whether it was kept from it.
    let busy = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
            row.get::<_, i64>(0)
        })
        .optional()?;
    match busy {
        Some(1) => Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY),
            None,
        )),
        _ => Ok(()),
    }
}
