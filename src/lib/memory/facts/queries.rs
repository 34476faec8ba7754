//! Reads facts. Nothing is written here, and no database is no facts.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row};

use super::commitments;
use super::commitments::Commitment;
use super::episodes;
use super::episodes::Episode;
use super::normalize::folded;
use super::{Error, Fact, Origin, schema};
use crate::db;
use crate::memory::scope::Scope;

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
        let text = folded(&format!(
            "{} {} {} {}",
            fact.scope, fact.entity, fact.attribute, fact.value
        ));
        (self.all || fact.is_current())
            && self
                .scopes
                .as_ref()
                .is_none_or(|scopes| scopes.contains(&fact.scope))
            && words.iter().all(|word| text.contains(word))
    }
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
    let order = "ORDER BY scope, entity_key, attribute_key, valid_from, id";
    let mut facts = select(&connection, path, order)?;
    let query = folded(filter.query.as_deref().unwrap_or_default());
    let words: Vec<String> = query.split_whitespace().map(str::to_owned).collect();
    facts.retain(|fact| filter.lets_through(fact, &words));
    Ok(facts)
}

/// What words may mean.
#[derive(Debug, Clone, PartialEq)]
pub enum Meant {
    /// One fact.
    One(Box<Fact>),
    /// Several: those that hold now, if there are any.
    Several(Vec<Fact>),
    /// Nothing.
    Nothing,
}

/// Returns the fact of the database at `path` that has the number `words`, else the one that has all these words: of those
/// that hold now, if there are any. `scopes` says whose count; `None` is no limit.
///
/// # Errors
/// As [`list`].
pub fn find(path: &Path, words: &str, scopes: Option<&[Scope]>) -> Result<Meant, Error> {
    let scopes = scopes.map(<[Scope]>::to_vec);
    let everything = list(
        path,
        &Filter {
            all: true,
            scopes,
            ..Filter::default()
        },
    )?;
    let number = words.trim().trim_start_matches('#').parse::<i64>().ok();
    if let Some(fact) = everything.iter().find(|fact| Some(fact.id) == number) {
        return Ok(Meant::One(Box::new(fact.clone())));
    }
    let words: Vec<String> = folded(words)
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let (all, now) = (
        Filter {
            all: true,
            ..Filter::default()
        },
        Filter::default(),
    );
    let having = |filter: &Filter| -> Vec<Fact> {
        everything
            .iter()
            .filter(|fact| filter.lets_through(fact, &words))
            .cloned()
            .collect()
    };
    let mut found = having(&now);
    if found.is_empty() {
        found = having(&all);
    }
    Ok(match found.as_slice() {
        [] => Meant::Nothing,
        [fact] => Meant::One(Box::new(fact.clone())),
        _ => Meant::Several(found),
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
    let mut places = Places::of(path);
    let read = || -> rusqlite::Result<Option<(Fact, Vec<Origin>)>> {
        let view = connection.unchecked_transaction()?;
        let found = view
            .query_row(
                &format!("SELECT {COLUMNS} FROM facts WHERE id = ?1"),
                [id],
                fact_of,
            )
            .optional()?;
        let Some(mut fact) = found else {
            return Ok(None);
        };
        mark_forgotten(&view, std::iter::once(&mut fact))?;
        let sql = "SELECT path, line, session_id, seq, quote, at FROM fact_sources WHERE fact = ?1 ORDER BY at DESC, path, line";
        let mut query = view.prepare(sql)?;
        let origins = query
            .query_map([id], origin_of)?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Some((fact, origins)))
    };
    let found = read().map_err(|error| db::Error::of(path, error))?;
    Ok(found.map(|(mut fact, mut origins)| {
        places.bring_up_to_date(&mut fact.source);
        origins
            .iter_mut()
            .for_each(|origin| places.bring_up_to_date(&mut origin.path));
        (fact, origins)
    }))
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

fn select(connection: &Connection, path: &Path, rest: &str) -> Result<Vec<Fact>, Error> {
    let read = || -> rusqlite::Result<Vec<Fact>> {
        let mut query = connection.prepare(&format!("SELECT {COLUMNS} FROM facts {rest}"))?;
        let mut facts = query
            .query_map([], fact_of)?
            .collect::<rusqlite::Result<Vec<Fact>>>()?;
        mark_forgotten(connection, facts.iter_mut())?;
        Ok(facts)
    };
    let mut facts = read().map_err(|error| db::Error::of(path, error))?;
    let mut places = Places::of(path);
    facts
        .iter_mut()
        .for_each(|fact| places.bring_up_to_date(&mut fact.source));
    Ok(facts)
}

/// Marks the facts that ended because they were forgotten.
fn mark_forgotten<'a>(
    connection: &Connection,
    facts: impl Iterator<Item = &'a mut Fact>,
) -> rusqlite::Result<()> {
    if !schema::has_promises(connection)? {
        return Ok(());
    }
    let moments: HashSet<i64> = connection
        .prepare("SELECT at FROM forgotten")?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    facts
        .for_each(|fact| fact.is_forgotten = fact.valid_to.is_some_and(|to| moments.contains(&to)));
    Ok(())
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
        is_forgotten: false,
    })
}

/// Where transcripts lie now: a conversation that ended was moved to the archive, its name is the same.
pub(crate) struct Places {
    sessions: PathBuf,
    known: HashMap<String, bool>,
}

impl Places {
    /// `memory.db` stands beside the directory of the transcripts.
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
    open: Option<Open>,
}

struct Open {
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
            open: None,
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
        self.open
            .take()
            .into_iter()
            .for_each(|open| db::abandon(open.connection));
    }

    fn read(&mut self) -> Result<Option<Stated>, Error> {
        let identity = db::identity(&self.path)?;
        let was_open = self.open.is_some();
        if self.open.as_ref().map(|open| open.identity) != identity {
            self.close();
        }
        if self.open.is_none()
            && let Some(identity) = identity
        {
            self.open = schema::open_read(&self.path)?.map(|connection| Open {
                connection,
                identity,
                version: None,
            });
        }
        let Some(open) = &mut self.open else {
            return Ok(was_open.then(Stated::default));
        };
        let version = open
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| db::Error::of(&self.path, error))?;
        if open.version == Some(version) {
            return Ok(None);
        }
        let current = "WHERE valid_to IS NULL ORDER BY scope, entity_key, attribute_key";
        let stated = Stated {
            facts: select(&open.connection, &self.path, current)?,
            commitments: commitments::select(
                &open.connection,
                &self.path,
                "WHERE status = 'open'",
            )?,
            episodes: episodes::select(&open.connection, &self.path)?,
        };
        open.version = Some(version);
        Ok(Some(stated))
    }
}
