//! One statement, its values and what is read of its rows, in one call. Each is prepared once a connection.

use rusqlite::{Connection, OptionalExtension, Params, Row};

/// What a connection, and so a transaction, is asked and told.
pub trait Statements {
    /// Runs a statement.
    ///
    /// # Errors
    /// When SQLite refuses it.
    fn run(&self, sql: &str, values: impl Params) -> rusqlite::Result<()>;

    /// Runs a statement and returns how many rows it changed.
    ///
    /// # Errors
    /// When SQLite refuses it.
    fn change(&self, sql: &str, values: impl Params) -> rusqlite::Result<usize>;

    /// Returns the first row.
    ///
    /// # Errors
    /// When SQLite refuses the statement, there is no row, or `read` fails.
    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T>;

    /// Returns the first row, if there is one.
    ///
    /// # Errors
    /// When SQLite refuses the statement, or `read` fails.
    fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        self.one(sql, values, read).optional()
    }

    /// Returns all rows, in their order.
    ///
    /// # Errors
    /// When SQLite refuses the statement, or `read` fails.
    fn all<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<C>;
}

impl Statements for Connection {
    fn run(&self, sql: &str, values: impl Params) -> rusqlite::Result<()> {
        self.change(sql, values).map(drop)
    }

    fn change(&self, sql: &str, values: impl Params) -> rusqlite::Result<usize> {
        self.prepare_cached(sql)?.execute(values)
    }

    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.prepare_cached(sql)?.query_row(values, read)
    }

    fn all<T, C: FromIterator<T>>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<C> {
        self.prepare_cached(sql)?.query_map(values, read)?.collect()
    }
}
