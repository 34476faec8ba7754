//! Rows of `fact_sources`: what is stated where, and of which fact it is a source.

use rusqlite::{Connection, Row, ToSql};

use super::normalize::{Key, value_key};
use super::store::{Part, Statement};
use crate::db::Statements;
use crate::memory::scope::Scope;

/// A place that states something, stored or not yet.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Its row; `None` for a new one.
    pub id: Option<i64>,
    /// The fact it was a source of so far.
    pub fact: Option<i64>,
    pub key: Key,
    /// In the form in which values are compared.
    pub value: String,
    /// When that was forgotten, if it was.
    pub forgotten: Option<i64>,
    pub statement: Statement,
}

/// The columns of a statement in a row of `fact_sources s` and its fact `f`, in the order of [`statement_of`].
pub(super) const STATEMENT: &str = "f.scope, f.entity, f.attribute, f.value, s.path, s.line, s.session_id, s.seq, s.quote, \
                                    s.confidence, s.at, s.ended, s.said_of";

/// Reads a statement from the first thirteen columns.
pub(super) fn statement_of(row: &Row<'_>) -> rusqlite::Result<Statement> {
    let session: Option<String> = row.get(6)?;
    Ok(Statement {
        scope: Scope::stored(row.get(0)?),
        entity: row.get(1)?,
        attribute: row.get(2)?,
        value: row.get(3)?,
        path: row.get(4)?,
        line: row.get(5)?,
        session: session.zip(row.get(7)?),
        quote: row.get(8)?,
        confidence: row.get(9)?,
        at: row.get(10)?,
        ended: row.get(11)?,
        said_of: row.get(12)?,
    })
}

fn select(
    connection: &Connection,
    condition: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<Vec<Source>> {
    let sql = format!(
        "SELECT {STATEMENT}, f.entity_key, f.attribute_key, f.value_key, s.id, s.fact
         FROM fact_sources s JOIN facts f ON f.id = s.fact WHERE {condition} ORDER BY s.id"
    );
    let source_of = |row: &Row<'_>| {
        Ok(Source {
            id: Some(row.get(16)?),
            fact: Some(row.get(17)?),
            key: Key {
                scope: row.get(0)?,
                entity: row.get(13)?,
                attribute: row.get(14)?,
            },
            value: row.get(15)?,
            forgotten: None,
            statement: statement_of(row)?,
        })
    };
    connection.all(&sql, values, source_of)
}

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Source>> {
    select(connection, "true", &[])
}

/// Returns those whose fact is, or was, filed under another name than the one that was said.
pub(super) fn of_other_names(connection: &Connection) -> rusqlite::Result<Vec<Source>> {
    select(connection, "s.said_of IS NOT NULL", &[])
}

pub(super) fn of_current_facts(connection: &Connection) -> rusqlite::Result<Vec<Source>> {
    select(connection, "f.valid_to IS NULL", &[])
}

pub(super) fn of_part(connection: &Connection, part: Part<'_>) -> rusqlite::Result<Vec<Source>> {
    match part {
        Part::File(path) => select(connection, "s.path = ?1", &[&path]),
        Part::Span { session, from, to } => select(
            connection,
            "s.session_id = ?1 AND s.seq BETWEEN ?2 AND ?3",
            &[&session, &from, &to],
        ),
    }
}

pub(super) fn of_key(connection: &Connection, key: &Key) -> rusqlite::Result<Vec<Source>> {
    select(
        connection,
        "f.scope = ?1 AND f.entity_key = ?2 AND f.attribute_key = ?3",
        &[&key.scope, &key.entity, &key.attribute],
    )
}

impl Source {
    /// Returns a source that is not stored yet.
    pub(super) fn new(statement: Statement) -> Self {
        Self {
            id: None,
            fact: None,
            key: statement.key(),
            value: value_key(&statement.value),
            forgotten: None,
            statement,
        }
    }

    /// Makes it one of fact `id`.
    pub(super) fn store(&self, connection: &Connection, id: i64) -> rusqlite::Result<()> {
        if self.id.is_some() && self.fact == Some(id) {
            return Ok(());
        }
        if let Some(row) = self.id {
            let sql = "UPDATE fact_sources SET fact = ?2 WHERE id = ?1";
            return connection.run(sql, (row, id));
        }
        let one = &self.statement;
        let (session, seq) = one.session.clone().unzip();
        let sql = "INSERT INTO fact_sources(fact, path, line, session_id, seq, quote, confidence, at, ended, said_of)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT(fact, path, line) DO NOTHING";
        connection.run(
            sql,
            rusqlite::params![
                id,
                one.path,
                one.line,
                session,
                seq,
                one.quote,
                one.confidence,
                one.at,
                one.ended,
                one.said_of
            ],
        )
    }
}
