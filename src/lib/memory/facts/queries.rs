//! Reads facts. Nothing is written here, and no database is no facts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row};

use super::super::scope::Scope;
use super::key::folded;
use super::{Error, Fact, Origin, schema};
use crate::db;

pub(super) const COLUMNS: &str = "id, scope, entity, attribute, value, confidence, source, source_line, valid_from, valid_to, \
                                  superseded_by, created_at, updated_at, invalidated_at";

/// Which facts are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Words that all stand in scope, entity, attribute or value, in any letter case.
    pub query: Option<String>,
    /// Those too that hold no longer.
    pub all: bool,
    /// Whose they are; `None` is no limit.
    pub scopes: Option<Vec<Scope>>,
}

impl Filter {
    fn lets_through(&self, fact: &Fact, words: &[String]) -> bool {
        let text = folded(&format!("{} {} {} {}", fact.scope, fact.entity, fact.attribute, fact.value));
        (self.all || fact.is_current())
            && self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&fact.scope))
            && words.iter().all(|word| text.contains(word))
    }
}

/// Returns the facts of the database at `path` that `filter` lets through: by scope, entity and
/// attribute, the oldest value first.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn list(path: &Path, filter: &Filter) -> Result<Vec<Fact>, Error> {
    let Some(connection) = schema::open_read(path)? else { return Ok(Vec::new()) };
    let order = "ORDER BY scope, entity_key, attribute_key, valid_from, id";
    let mut facts = select(&connection, path, order)?;
    let query = folded(filter.query.as_deref().unwrap_or_default());
    let words: Vec<String> = query.split_whitespace().map(str::to_owned).collect();
    facts.retain(|fact| filter.lets_through(fact, &words));
    Ok(facts)
}

/// Returns fact `id` and where it was stated, the newest first; `None` when there is no such fact.
///
/// # Errors
/// As [`list`].
pub fn why(path: &Path, id: i64) -> Result<Option<(Fact, Vec<Origin>)>, Error> {
    let Some(connection) = schema::open_read(path)? else { return Ok(None) };
    let mut places = Places::of(path);
    let read = || -> rusqlite::Result<Option<(Fact, Vec<Origin>)>> {
        let view = connection.unchecked_transaction()?;
        let found = view.query_row(&format!("SELECT {COLUMNS} FROM facts WHERE id = ?1"), [id], fact_of).optional()?;
        let Some(fact) = found else { return Ok(None) };
        let sql = "SELECT path, line, session_id, seq, quote, at FROM fact_sources WHERE fact = ?1 ORDER BY at DESC, path, line";
        let mut query = view.prepare(sql)?;
        let origins = query.query_map([id], |row| {
            Ok(Origin {
                path: row.get(0)?,
                line: row.get(1)?,
                session_id: row.get(2)?,
                seq: row.get(3)?,
                quote: row.get(4)?,
                at: row.get(5)?,
            })
        })?;
        Ok(Some((fact, origins.collect::<rusqlite::Result<_>>()?)))
    };
    let found = read().map_err(|error| db::Error::of(path, error))?;
    Ok(found.map(|(mut fact, mut origins)| {
        places.bring_up_to_date(&mut fact.source);
        origins.iter_mut().for_each(|origin| places.bring_up_to_date(&mut origin.path));
        (fact, origins)
    }))
}

fn select(connection: &Connection, path: &Path, rest: &str) -> Result<Vec<Fact>, Error> {
    let read = || -> rusqlite::Result<Vec<Fact>> {
        let mut query = connection.prepare(&format!("SELECT {COLUMNS} FROM facts {rest}"))?;
        query.query_map([], fact_of)?.collect()
    };
    let mut facts = read().map_err(|error| db::Error::of(path, error))?;
    let mut places = Places::of(path);
    facts.iter_mut().for_each(|fact| places.bring_up_to_date(&mut fact.source));
    Ok(facts)
}

/// Reads a row of [`COLUMNS`].
pub(super) fn fact_of(row: &Row<'_>) -> rusqlite::Result<Fact> {
    let scope: String = row.get(1)?;
    Ok(Fact {
        id: row.get(0)?,
        // A scope of a newer version is nobody's that this one knows.
        scope: Scope::parse(&scope).unwrap_or(Scope::Chat(scope)),
        entity: row.get(2)?,
        attribute: row.get(3)?,
        value: row.get(4)?,
        confidence: row.get(5)?,
        source: row.get(6)?,
        source_line: row.get(7)?,
        valid_from: row.get(8)?,
        valid_to: row.get(9)?,
        superseded_by: row.get(10)?,
        created_at: row.get(11)?,
        updated_at: row.get(12)?,
        invalidated_at: row.get(13)?,
    })
}

/// Where transcripts lie now: a conversation that ended was moved to the archive, its name is the same.
pub(in crate::memory) struct Places {
    sessions: PathBuf,
    known: HashMap<String, bool>,
}

impl Places {
    /// `memory.db` stands beside the directory of the transcripts.
    pub(in crate::memory) fn of(database: &Path) -> Self {
        Self { sessions: database.with_file_name("sessions"), known: HashMap::new() }
    }

    pub(in crate::memory) fn bring_up_to_date(&mut self, shown: &mut String) {
        let Some(name) = shown.strip_prefix("state/sessions/").filter(|name| !name.contains('/')) else { return };
        let sessions = &self.sessions;
        let look = || !sessions.join(name).exists() && sessions.join("archive").join(name).exists();
        if *self.known.entry(name.to_owned()).or_insert_with(look) {
            *shown = format!("state/sessions/archive/{name}");
        }
    }
}

/// All current facts, kept in memory and read again only when they may have changed.
pub struct Reader {
    path: PathBuf,
    open: Option<Open>,
    facts: Vec<Fact>,
}

struct Open {
    connection: Connection,
    /// Which file it is: device and number.
    identity: (u64, u64),
    /// What `PRAGMA data_version` said when the facts were read.
    version: Option<i64>,
}

impl Reader {
    /// Returns a reader of the database at `path`, which need not be there yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), open: None, facts: Vec::new() }
    }

    /// Returns all current facts by scope, entity and attribute.
    ///
    /// # Errors
    /// As [`list`]; the next call tries again.
    pub fn current(&mut self) -> Result<&[Fact], Error> {
        let identity = db::identity(&self.path)?;
        if self.open.as_ref().map(|open| open.identity) != identity {
            self.open.take().into_iter().for_each(|open| db::abandon(open.connection));
            self.facts.clear();
        }
        if self.open.is_none()
            && let Some(identity) = identity
        {
            self.open = schema::open_read(&self.path)?.map(|connection| Open { connection, identity, version: None });
        }
        let Some(open) = &mut self.open else { return Ok(&self.facts) };
        let version = open
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| db::Error::of(&self.path, error))?;
        if open.version != Some(version) {
            // Nothing old is shown when the reading fails.
            self.facts.clear();
            open.version = None;
            self.facts =
                select(&open.connection, &self.path, "WHERE valid_to IS NULL ORDER BY scope, entity_key, attribute_key")?;
            open.version = Some(version);
        }
        Ok(&self.facts)
    }
}
