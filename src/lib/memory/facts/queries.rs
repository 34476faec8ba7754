//! Reads facts. Nothing is written here; without a database there are no facts.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Row};

use super::commitments;
use super::commitments::Commitment;
use super::episodes;
use super::episodes::Episode;
use super::normalize::folded;
use super::{Error, Fact, Origin, schema};
use crate::db;
use crate::db::Statements;
use crate::memory::scope::Scope;
use crate::text;

pub(super) const COLUMNS: &str = "id, scope, entity, attribute, value, confidence, source, source_line, valid_from, valid_to, \
                                  superseded_by, created_at, updated_at, invalidated_at, \
                                  coalesce(valid_to IN (SELECT at FROM forgotten), 0)";

/// Which facts are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Words that all are in scope, entity, attribute or value, in any letter case.
    pub(crate) query: Option<String>,
    /// Those too that hold no longer.
    pub(crate) all: bool,
    /// Whose they are; `None` is not a limit.
    pub(crate) scopes: Option<Vec<Scope>>,
}

/// Returns true when all `words`, which are folded, `stand` in a fact.
fn has_all(fact: &Fact, words: &[String], stand: fn(&str, &str) -> bool) -> bool {
    let text = folded(&format!(
        "{} {} {} {}",
        fact.scope, fact.entity, fact.attribute, fact.value
    ));
    words.iter().all(|word| stand(&text, word))
}

fn words_of(query: &str) -> Vec<String> {
    folded(query)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

/// Returns the facts of the database at `path` that `filter` lets through: by scope, entity and
/// attribute, the oldest value first.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn list(path: &Path, filter: &Filter) -> Result<Vec<Fact>, Error> {
    let Some(connection) = schema::open_read(path)? else {
        return Ok(Vec::new());
    };
    let mut facts = select(
        &connection,
        path,
        "ORDER BY scope, entity_key, attribute_key, valid_from, id",
    )?;
    let words = words_of(filter.query.as_deref().unwrap_or_default());
    let stand = |text: &str, word: &str| text.contains(word);
    let is_theirs = |fact: &Fact| {
        let scopes = filter.scopes.as_ref();
        scopes.is_none_or(|scopes| scopes.contains(&fact.scope))
    };
    facts.retain(|fact| {
        (filter.all || fact.is_current()) && is_theirs(fact) && has_all(fact, &words, stand)
    });
    Ok(facts)
}

/// The possible meanings of words.
#[derive(Debug, Clone, PartialEq)]
pub enum Meant {
    /// One fact.
    One(Box<Fact>),
    /// Several: those that hold now, if there are any.
    Several(Vec<Fact>),
    /// Nothing.
    Nothing,
}

/// Returns the fact of the database at `path` that has the number `words`, else the one in which words begin with all of these
/// (who forgets "car" does not mean Oscar): of those that hold now, if there are any. `scopes` says whose count; `None` is not a limit.
///
/// # Errors
/// As [`list`].
pub fn find(path: &Path, words: &str, scopes: Option<&[Scope]>) -> Result<Meant, Error> {
    let filter = Filter {
        all: true,
        scopes: scopes.map(<[Scope]>::to_vec),
        ..Filter::default()
    };
    let mut facts = list(path, &filter)?;
    let number = words.trim().trim_start_matches('#').parse::<i64>().ok();
    if let Some(at) = facts.iter().position(|fact| Some(fact.id) == number) {
        return Ok(Meant::One(Box::new(facts.swap_remove(at))));
    }
    let words = words_of(words);
    facts.retain(|fact| has_all(fact, &words, text::has_beginning));
    if facts.iter().any(Fact::is_current) {
        facts.retain(Fact::is_current);
    }
    Ok(match facts.len() {
        0 => Meant::Nothing,
        1 => Meant::One(Box::new(facts.remove(0))),
        _ => Meant::Several(facts),
    })
}

/// Returns fact `id` and where it was stated, the newest first; `None` when there is no such fact.
///
/// # Errors
/// As [`list`].
pub fn why(path: &Path, id: i64) -> Result<Option<(Fact, Vec<Origin>)>, Error> {
    let Some(connection) = schema::open_read(path)? else {
        return Ok(None);
    };
    // Both as they are at one moment.
    let view = connection
        .unchecked_transaction()
        .map_err(|error| db::Error::of(path, error))?;
    let Some(fact) = select(&view, path, &format!("WHERE id = {id}"))?.pop() else {
        return Ok(None);
    };
    let sql = format!(
        "SELECT path, line, session_id, seq, quote, at FROM fact_sources WHERE fact = {id} ORDER BY at DESC, path, line"
    );
    let origins = read_rows(&view, path, &sql, origin_of, |origin| &mut origin.path)?;
    Ok(Some((fact, origins)))
}

/// Reads path, line, conversation, event, words and time, the first columns of a row.
pub(super) fn origin_of(row: &Row<'_>) -> rusqlite::Result<Origin> {
    Ok(Origin {
        path: row.get(0)?,
        line: row.get(1)?,
        session_id: row.get(2)?,
        seq: row.get(3)?,
        quote: row.get(4)?,
        at: row.get(5)?,
    })
}

/// Returns the rows of `sql`, the file that each names (`source`) where it lies now. `path` is that of the database.
pub(super) fn read_rows<T>(
    connection: &Connection,
    path: &Path,
    sql: &str,
    of: fn(&Row<'_>) -> rusqlite::Result<T>,
    source: fn(&mut T) -> &mut String,
) -> Result<Vec<T>, Error> {
    let found = connection.all(sql, [], of);
    let mut found: Vec<T> = found.map_err(|error| db::Error::of(path, error))?;
    let mut places = Places::of(path);
    found
        .iter_mut()
        .for_each(|one| places.bring_up_to_date(source(one)));
    Ok(found)
}

fn select(connection: &Connection, path: &Path, rest: &str) -> Result<Vec<Fact>, Error> {
    let sql = format!("SELECT {COLUMNS} FROM facts {rest}");
    read_rows(connection, path, &sql, fact_of, |fact| &mut fact.source)
}

/// Reads a row of [`COLUMNS`].
pub(super) fn fact_of(row: &Row<'_>) -> rusqlite::Result<Fact> {
    let scope: String = row.get(1)?;
    Ok(Fact {
        id: row.get(0)?,
        scope: Scope::stored(scope),
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
        // That it was forgotten, and when it was, is the same moment.
        is_forgotten: row.get(14)?,
    })
}

/// Where transcripts lie now: a conversation that ended was moved to the archive, its name is the same.
pub(crate) struct Places {
    sessions: PathBuf,
    known: HashMap<String, bool>,
}

impl Places {
    /// `memory.db` is next to the directory of the transcripts.
    pub(crate) fn of(database: &Path) -> Self {
        Self {
            sessions: database.with_file_name("sessions"),
            known: HashMap::new(),
        }
    }

    pub(crate) fn bring_up_to_date(&mut self, shown: &mut String) {
        let Some(name) = shown
            .strip_prefix("state/sessions/")
            .filter(|name| !name.contains('/'))
        else {
            return;
        };
        let sessions = &self.sessions;
        let look = || !sessions.join(name).exists() && sessions.join("archive").join(name).exists();
        if *self.known.entry(name.to_owned()).or_insert_with(look) {
            *shown = format!("state/sessions/archive/{name}");
        }
    }
}

/// What is known, was promised and happened.
#[derive(Default)]
pub(crate) struct Stated {
    /// All current facts by scope, entity and attribute.
    pub facts: Vec<Fact>,
    /// The open ones.
    pub commitments: Vec<Commitment>,
    /// All, the newest first.
    pub episodes: Vec<Episode>,
}

/// Reads all of it, and again only when it may have changed.
pub(crate) struct Reader {
    path: PathBuf,
    watched: Option<Watched>,
}

/// A connection that only tells whether somebody wrote.
struct Watched {
    connection: Connection,
    /// Which file it is: device and number.
    identity: (u64, u64),
    /// What `PRAGMA data_version` said when it was read.
    version: Option<i64>,
}

impl Reader {
    /// Returns a reader of the database at `path`, which need not be there yet.
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            watched: None,
        }
    }

    /// Returns what the database holds; `None` when that is what the last call returned.
    ///
    /// # Errors
    /// As [`list`]. What was returned before counts no more, and the next call reads everything again.
    pub(crate) fn changed(&mut self) -> Result<Option<Stated>, Error> {
        let read = self.read();
        if read.is_err() {
            self.close();
        }
        read
    }

    fn close(&mut self) {
        if let Some(watched) = self.watched.take() {
            db::abandon(watched.connection);
        }
    }

    fn read(&mut self) -> Result<Option<Stated>, Error> {
        let identity = db::identity(&self.path)?;
        let was_open = self.watched.is_some();
        if self.watched.as_ref().map(|watched| watched.identity) != identity {
            self.close();
        }
        if self.watched.is_none()
            && let Some(identity) = identity
        {
            self.watched = db::open_read(&self.path)?.map(|connection| Watched {
                connection,
                identity,
                version: None,
            });
        }
        let Some(watched) = &mut self.watched else {
            return Ok(was_open.then(Stated::default));
        };
        let version = watched
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| db::Error::of(&self.path, error))?;
        if watched.version == Some(version) {
            return Ok(None);
        }
        let Some(connection) = schema::open_read(&self.path)? else {
            return Ok(None);
        };
        let current = "WHERE valid_to IS NULL ORDER BY scope, entity_key, attribute_key";
        let open = "WHERE status = 'open'";
        let stated = Stated {
            facts: select(&connection, &self.path, current)?,
            commitments: commitments::select(&connection, &self.path, open)?,
            episodes: episodes::select(&connection, &self.path)?,
        };
        watched.version = Some(version);
        Ok(Some(stated))
    }
}
