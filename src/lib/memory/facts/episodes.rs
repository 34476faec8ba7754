//! Episodes: a model's summary of a part of a conversation: when, with whom, about what, and what was decided.

use std::path::Path;

use rusqlite::{Connection, Row};

use super::forgotten::Forgotten;
use super::queries::read_rows;
use super::store::Part;
use super::{Error, schema};
use crate::db::Statements;
use crate::memory::scope::Scope;
use crate::text;

/// Characters of a summary and of each word next to it.
const MAX_SUMMARY: usize = 1_200;
const MAX_WORD: usize = 160;
/// Participants, topics and decisions, each.
const MAX_LISTED: usize = 8;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Episode {
    /// Never used twice.
    pub(crate) id: i64,
    pub(crate) scope: Scope,
    pub(crate) session_id: String,
    /// The day, in the agent's zone.
    pub(crate) date: String,
    pub(crate) participants: Vec<String>,
    pub(crate) topics: Vec<String>,
    pub(crate) decisions: Vec<String>,
    pub(crate) summary: String,
    /// May be empty.
    pub(crate) emotional_tone: String,
    /// The transcript, as printed, and the line, from 1, where it begins.
    pub(crate) source: String,
    pub(crate) source_line: i64,
}

impl Episode {
    /// Returns the words that it is found by.
    pub fn words(&self) -> String {
        words(
            &self.summary,
            [&self.participants, &self.topics, &self.decisions],
        )
    }
}

fn words(summary: &str, lists: [&Vec<String>; 3]) -> String {
    format!("{summary} {}", lists.map(|list| list.join(" ")).join(" "))
}

/// An episode as it is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NewEpisode {
    pub date: String,
    pub participants: Vec<String>,
    pub topics: Vec<String>,
    pub decisions: Vec<String>,
    pub summary: String,
    pub emotional_tone: String,
    pub path: String,
    pub line: i64,
    /// When the last of it was said, milliseconds since 1970 UTC.
    pub at: i64,
}

/// Puts `told` in the place of what was told of that part of a conversation before; returns its number.
pub(crate) fn restate(
    connection: &Connection,
    run: &str,
    scope: &Scope,
    part: Part<'_>,
    told: Option<&NewEpisode>,
    now: i64,
) -> rusqlite::Result<Option<i64>> {
    let Part::Span { session, from, to } = part else {
        return Ok(None);
    };
    let sql = "DELETE FROM episodes WHERE session_id = ?1 AND first BETWEEN ?2 AND ?3";
    connection.run(sql, (session, from, to))?;
    let forgotten = Forgotten::read(connection)?;
    let counts = |told: &&NewEpisode| {
        let words = words(
            &told.summary,
            [&told.participants, &told.topics, &told.decisions],
        );
        !forgotten.has(scope, &words, told.at)
    };
    let Some(told) = told.filter(counts) else {
        return Ok(None);
    };
    let list = |words: &[String]| {
        let words = words
            .iter()
            .map(|word| text::shorten(word.trim(), MAX_WORD))
            .filter(|word| !word.is_empty());
        serde_json::Value::from(words.take(MAX_LISTED).collect::<Vec<_>>()).to_string()
    };
    let sql =
        "INSERT INTO episodes(scope, session_id, first, last, date, participants, topics, decisions, summary, emotional_tone,
                 path, line, run, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    connection.run(
        sql,
        rusqlite::params![
            scope.to_string(),
            session,
            from,
            to,
            told.date,
            list(&told.participants),
            list(&told.topics),
            list(&told.decisions),
            text::shorten(told.summary.trim(), MAX_SUMMARY),
            text::shorten(told.emotional_tone.trim(), MAX_WORD),
            told.path,
            told.line,
            run,
            now
        ],
    )?;
    Ok(Some(connection.last_insert_rowid()))
}

/// Returns the episodes of the database at `path`, the newest first.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn list(path: &Path) -> Result<Vec<Episode>, Error> {
    let Some(connection) = schema::open_read(path)? else {
        return Ok(Vec::new());
    };
    select(&connection, path)
}

pub(crate) fn select(connection: &Connection, path: &Path) -> Result<Vec<Episode>, Error> {
    let sql = "SELECT id, scope, session_id, date, participants, topics, decisions, summary, emotional_tone, path, line
               FROM episodes ORDER BY date DESC, id DESC";
    read_rows(connection, path, sql, episode_of, |one| &mut one.source)
}

fn episode_of(row: &Row<'_>) -> rusqlite::Result<Episode> {
    let scope: String = row.get(1)?;
    let list = |column: usize| -> rusqlite::Result<Vec<String>> {
        Ok(serde_json::from_str(&row.get::<_, String>(column)?).unwrap_or_default())
    };
    Ok(Episode {
        id: row.get(0)?,
        scope: Scope::stored(scope),
        session_id: row.get(2)?,
        date: row.get(3)?,
        participants: list(4)?,
        topics: list(5)?,
        decisions: list(6)?,
        summary: row.get(7)?,
        emotional_tone: row.get(8)?,
        source: row.get(9)?,
        source_line: row.get(10)?,
    })
}
