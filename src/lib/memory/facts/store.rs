//! Takes in what a file or a span of a conversation states, inside the caller's transaction.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row};

use super::aliases;
use super::aliases::Aliases;
use super::forgotten::Forgotten;
use super::normalize::{Key, folded, value_key};
use super::queries::{COLUMNS, fact_of};
use super::run_log::Log;
use super::supersede;
use super::supersede::{Known, Period, Said};
use super::{Change, Fact};
use crate::memory::extract::opposite;
use crate::memory::scope::Scope;
use crate::{db, text};

/// Less sure statements are not kept (specification §13).
pub(crate) const MIN_CONFIDENCE: f64 = 0.6;
/// Longer names and values are no facts, and longer words are cut.
const MAX_NAME: usize = 120;
const MAX_VALUE: usize = 600;
const MAX_QUOTE: usize = 400;

/// Something that is stated somewhere.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub scope: Scope,
    pub entity: String,
    pub attribute: String,
    pub value: String,
    /// That it was so and is no longer: ends a fact of this value, and makes none.
    pub ended: bool,
    pub confidence: f64,
    /// The file, as printed, and the line in it from 1.
    pub path: String,
    pub line: i64,
    /// The conversation and the event in it.
    pub session: Option<(String, i64)>,
    pub quote: String,
    /// Milliseconds since 1970 UTC.
    pub at: i64,
}

/// What was read as a whole: what it stated before and does not now is withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    File(&'a str),
    /// Events `from` to `to` of a conversation.
    Span {
        session: &'a str,
        from: i64,
        to: i64,
    },
}

/// What came of it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Applied {
    pub changes: Vec<Change>,
    /// Facts that only got one more source.
    pub touched: usize,
}

impl Applied {
    /// Returns how many facts are new, superseded and gone.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let count = |wanted: fn(&Change) -> bool| {
            self.changes.iter().filter(|change| wanted(change)).count()
        };
        (
            count(|change| matches!(change, Change::New(_))),
            count(|change| matches!(change, Change::Superseded { .. })),
            count(|change| matches!(change, Change::Gone(_))),
        )
    }
}

/// A source, new or known.
#[derive(Debug, Clone)]
struct Source {
    /// Its row, `None` for a new one.
    id: Option<i64>,
    fact: Option<i64>,
    key: Key,
    value: String,
    statement: Statement,
}

/// Makes the facts follow from what `part` states now and everything else states still. Aliases come first, so that
/// the rest is filed under the name that everybody knows. `run` may be undone later.
pub(crate) fn restate(
    connection: &Connection,
    run: &str,
    part: Part<'_>,
    statements: &[Statement],
    now: i64,
) -> rusqlite::Result<Applied> {
    let mut before = sources_of_part(connection, part)?;
    let mut fresh: Vec<Source> = Vec::new();
    let mut aliases = Aliases::new(connection);
    for statement in aliases_first(statements) {
        let Some(statement) = aliases.resolve(statement)? else {
            continue;
        };
        let key = Key::new(
            &statement.scope,
            &statement.entity,
            &statement.attribute,
            &statement.value,
        );
        let value = value_key(&statement.value);
        let is_same = |source: &Source| source.key == key && source.value == value;
        let is_here = |source: &Source| {
            source.statement.path == statement.path && source.statement.line == statement.line
        };
        if let Some(twin) = fresh
            .iter_mut()
            .find(|source| is_same(source) && is_here(source))
        {
            // "I work at Siemens … no longer": in one line the last word counts.
            let confidence = twin.statement.confidence.max(statement.confidence);
            twin.statement = Statement {
                confidence,
                at: twin.statement.at,
                ..statement
            };
            continue;
        }
        let is_alike =
            |source: &Source| is_same(source) && source.statement.ended == statement.ended;
        let exact = before
            .iter()
            .position(|source| is_alike(source) && is_here(source));
        let moved = || before.iter().position(is_alike);
        match exact.or_else(moved).map(|found| before.swap_remove(found)) {
            // Since when it stands there is known already.
            Some(old) => {
                let statement = Statement {
                    at: old.statement.at,
                    ..statement
                };
                fresh.push(Source { statement, ..old });
            }
            None => fresh.push(Source {
                id: None,
                fact: None,
                key,
                value,
                statement,
            }),
        }
    }
    // A line that says the same words in the same file is read in another way now: it is no newer for that.
    for source in fresh.iter_mut().filter(|source| source.id.is_none()) {
        let same = before
            .iter()
            .filter(|old| old.statement.quote == source.statement.quote)
            .map(|old| old.statement.at);
        source.statement.at = same.fold(source.statement.at, i64::min);
    }
    let known = |source: &Source| {
        source.id.map_or(Ok(false), |id| {
            is_as_it_was(connection, id, &source.statement)
        })
    };
    let mut changed = Vec::new();
    for source in fresh {
        if !known(&source)? {
            changed.push(source);
        }
    }
    let log = Log { run, at: now };
    rewrite(connection, Some(log), &before, &changed, now)
}

fn aliases_first(statements: &[Statement]) -> impl Iterator<Item = Statement> {
    let both = |statement: Statement| opposed(&statement).into_iter().chain([statement]);
    let mut kept: Vec<Statement> = statements.iter().filter_map(kept).flat_map(both).collect();
    // A stable sort: what was said later still counts later.
    kept.sort_by_key(|statement| !aliases::is_one(statement));
    kept.into_iter()
}

/// Takes `gone` out of the sources, and `changed`, which comes in again, and brings their facts in line.
fn rewrite(
    connection: &Connection,
    log: Option<Log<'_>>,
    gone: &[Source],
    changed: &[Source],
    now: i64,
) -> rusqlite::Result<Applied> {
    let mut delete = connection.prepare_cached("DELETE FROM fact_sources WHERE id = ?1")?;
    for id in gone.iter().chain(changed).filter_map(|source| source.id) {
        log.map_or(Ok(()), |log| log.taken_out(connection, id))?;
        delete.execute([id])?;
    }
    for source in changed {
        log.map_or(Ok(()), |log| log.put_in(connection, &source.statement))?;
    }
    let keys: BTreeSet<Key> = gone
        .iter()
        .chain(changed)
        .map(|source| source.key.clone())
        .collect();
    let (mut applied, forgotten) = (Applied::default(), Forgotten::read(connection)?);
    for key in keys {
        let mut sources = sources_of_key(connection, &key)?;
        sources.extend(
            changed
                .iter()
                .filter(|source| source.key == key)
                .map(|source| Source {
                    id: None,
                    ..source.clone()
                }),
        );
        settle(connection, &key, &sources, &forgotten, now, &mut applied)?;
    }
    Ok(applied)
}

/// Brings the facts of `keys` in line with their sources once more, after something was forgotten.
pub(super) fn settle_again(
    connection: &Connection,
    keys: &[Key],
    now: i64,
) -> rusqlite::Result<Applied> {
    let (mut applied, forgotten) = (Applied::default(), Forgotten::read(connection)?);
    for key in keys {
        settle(
            connection,
            key,
            &sources_of_key(connection, key)?,
            &forgotten,
            now,
            &mut applied,
        )?;
    }
    Ok(applied)
}

/// Takes out the sources in which `hit` finds something, and those of `fact`; returns how many.
pub(super) fn withdraw(
    connection: &Connection,
    hit: &db::Hit,
    fact: Option<&Fact>,
    now: i64,
) -> rusqlite::Result<usize> {
    let mut gone: Vec<Source> = connection
        .prepare(SOURCES)?
        .query_map([], source_of)?
        .collect::<rusqlite::Result<_>>()?;
    let wanted = fact.map(|fact| {
        (
            Key::new(&fact.scope, &fact.entity, &fact.attribute, &fact.value),
            value_key(&fact.value),
        )
    });
    gone.retain(|source| {
        let Statement {
            scope,
            entity,
            attribute,
            value,
            path,
            quote,
            ..
        } = &source.statement;
        let is_it = wanted
            .as_ref()
            .is_some_and(|(key, value)| (key, value) == (&source.key, &source.value));
        // What another fact consists of may have the same words.
        let said = if fact.is_some() {
            String::new()
        } else {
            format!("{scope}\n{entity}\n{attribute}\n{value}\n")
        };
        is_it || hit(&format!("{said}{path}\n{quote}"))
    });
    let count = gone.len();
    rewrite(connection, None, &gone, &[], now)?;
    Ok(count)
}

/// Returns what the current facts are about, and their values as they are compared.
pub(super) fn current(connection: &Connection) -> rusqlite::Result<Vec<(Key, String)>> {
    let sql = "SELECT scope, entity_key, attribute_key, value_key FROM facts WHERE valid_to IS NULL ORDER BY id";
    let read = |row: &Row<'_>| {
        Ok((
            Key {
                scope: row.get(0)?,
                entity: row.get(1)?,
                attribute: row.get(2)?,
            },
            row.get(3)?,
        ))
    };
    connection
        .prepare_cached(sql)?
        .query_map([], read)?
        .collect()
}

/// Returns when the newest of the sources of `keys` was stated.
pub(super) fn newest_source(
    connection: &Connection,
    keys: &[Key],
) -> rusqlite::Result<Option<i64>> {
    let mut newest = None;
    for key in keys {
        newest = newest.max(
            sources_of_key(connection, key)?
                .iter()
                .map(|source| source.statement.at)
                .max(),
        );
    }
    Ok(newest)
}

/// Takes those sources out that state `gone`, word for word and in that file, and puts `back` in.
pub(super) fn exchange(
    connection: &Connection,
    gone: &[Statement],
    back: &[Statement],
    now: i64,
) -> rusqlite::Result<Applied> {
    let key_of = |one: &Statement| Key::new(&one.scope, &one.entity, &one.attribute, &one.value);
    let mut taken = Vec::new();
    for statement in gone {
        let (key, value) = (key_of(statement), value_key(&statement.value));
        let is_it = |source: &Source| {
            let there = &source.statement;
            source.value == value
                && there.ended == statement.ended
                && (&there.path, &there.quote) == (&statement.path, &statement.quote)
        };
        let mut found: Vec<Source> = sources_of_key(connection, &key)?
            .into_iter()
            .filter(is_it)
            .collect();
        // Lines may have come in above it.
        found.sort_by_key(|source| source.statement.line.abs_diff(statement.line));
        taken.extend(
            found
                .into_iter()
                .find(|one| taken.iter().all(|other: &Source| other.id != one.id)),
        );
    }
    let source = |one: &Statement| Source {
        id: None,
        fact: None,
        key: key_of(one),
        value: value_key(&one.value),
        statement: one.clone(),
    };
    rewrite(
        connection,
        None,
        &taken,
        &back.iter().map(source).collect::<Vec<_>>(),
        now,
    )
}

/// Returns what is over when `statement` holds.
fn opposed(statement: &Statement) -> Option<Statement> {
    let attribute = opposite(&folded(&statement.attribute)).filter(|_| !statement.ended)?;
    Some(Statement {
        attribute: attribute.to_owned(),
        ended: true,
        ..statement.clone()
    })
}

/// Returns the statement as it is kept; `None` for one that is none.
fn kept(statement: &Statement) -> Option<Statement> {
    let bounded = |text: &str, max: usize| {
        let text = text.trim();
        (!text.is_empty() && text.chars().count() <= max).then(|| text.to_owned())
    };
    // False for what is no number, too.
    (statement.confidence >= MIN_CONFIDENCE).then_some(())?;
    Some(Statement {
        entity: bounded(&statement.entity, MAX_NAME)?,
        attribute: bounded(&statement.attribute, MAX_NAME)?,
        value: bounded(&statement.value, MAX_VALUE)?,
        confidence: statement.confidence.min(1.0),
        quote: text::shorten(statement.quote.trim(), MAX_QUOTE),
        ..statement.clone()
    })
}

/// Brings the facts of one key in line with `sources`.
fn settle(
    connection: &Connection,
    key: &Key,
    sources: &[Source],
    forgotten: &Forgotten,
    now: i64,
    applied: &mut Applied,
) -> rusqlite::Result<()> {
    let facts = facts_of(connection, key)?;
    let known: Vec<Known> = facts
        .iter()
        .map(|fact| Known {
            id: fact.id,
            is_current: fact.is_current(),
        })
        .collect();
    let mut said: Vec<Said> = sources
        .iter()
        .enumerate()
        .map(|(number, source)| said_of(source, number, forgotten))
        .collect();
    let periods = supersede::periods(&mut said, &known);
    let old = facts.iter().find(|fact| fact.is_current());
    // Only one may be current at any moment.
    if let Some(old) = old
        && periods.last().is_none_or(|last| last.fact != Some(old.id))
    {
        connection
            .prepare_cached("UPDATE facts SET valid_to = ?2 WHERE id = ?1")?
            .execute((old.id, now))?;
    }
    let mut heirs = Vec::new();
    let (mut next, mut newest) = (None, None);
    for period in periods.iter().rev() {
        let stated: Vec<&Source> = said
            .get(period.said.clone())
            .unwrap_or_default()
            .iter()
            .filter_map(|one| sources.get(one.number))
            .collect();
        let fact = period
            .fact
            .and_then(|id| facts.iter().find(|fact| fact.id == id));
        let id = write(connection, key, period, fact, &stated, next, now)?;
        let is_new = stated
            .iter()
            .any(|source| source.id.is_none() && source.fact.is_none() && !source.statement.ended);
        applied.touched +=
            usize::from(fact.is_some() && is_new && old.is_some_and(|old| old.id == id));
        for source in stated {
            heirs.extend(source.fact.filter(|was| *was != id).map(|was| (was, id)));
            point(connection, source, id)?;
        }
        next = Some(id);
        newest = newest.or(next);
    }
    if let Some(old) = old.filter(|old| periods.iter().all(|period| period.fact != Some(old.id))) {
        // What was put in its place took over; what only came to light again did not.
        let heir = heirs
            .iter()
            .find(|(was, _)| *was == old.id)
            .map(|(_, heir)| *heir);
        let new = periods.last().filter(|last| last.fact.is_none());
        let until = new.map_or(now, |new| new.from.max(old.valid_from));
        let by = heir.or(new.and(newest));
        connection
            .prepare_cached(
                "UPDATE facts SET valid_to = ?2, superseded_by = ?3, updated_at = ?4, invalidated_at = ?4 WHERE id = ?1",
            )?
            .execute((old.id, until, by, now))?;
    }
    let new = facts_of(connection, key)?
        .into_iter()
        .find(Fact::is_current);
    applied.changes.extend(match (old.cloned(), new) {
        (None, Some(new)) => Some(Change::New(new)),
        (Some(old), None) => Some(Change::Gone(old)),
        (Some(old), Some(new)) if value_key(&old.value) != value_key(&new.value) => {
            Some(Change::Superseded {
                old: Box::new(old),
                new: Box::new(new),
            })
        }
        _ => None,
    });
    Ok(())
}

fn said_of(source: &Source, number: usize, forgotten: &Forgotten) -> Said {
    let Statement {
        path,
        line,
        at,
        ended,
        ..
    } = &source.statement;
    let forgotten = forgotten.since(&source.key, &source.value, *at);
    let (value, path) = (source.value.clone(), path.clone());
    Said {
        value,
        ended: *ended,
        at: *at,
        path,
        line: *line,
        fact: source.fact,
        forgotten,
        number,
    }
}

/// Writes the fact of a period and returns its number. `next` is the one that came after it.
fn write(
    connection: &Connection,
    key: &Key,
    period: &Period,
    fact: Option<&Fact>,
    stated: &[&Source],
    next: Option<i64>,
    now: i64,
) -> rusqlite::Result<i64> {
    let confidence = stated
        .iter()
        .map(|source| source.statement.confidence)
        .fold(0.0, f64::max);
    // Where it was said to be over is no place that states it.
    let Some(newest) = stated.iter().rfind(|source| !source.statement.ended) else {
        return Ok(0);
    };
    let Statement {
        entity,
        attribute,
        value,
        path,
        line,
        ..
    } = &newest.statement;
    let Some(fact) = fact else {
        connection
            .prepare_cached(
                "INSERT INTO facts(scope, entity, attribute, value, entity_key, attribute_key, value_key, confidence, source,
                   source_line, valid_from, valid_to, superseded_by, created_at, updated_at, invalidated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?15)",
            )?
            .execute(rusqlite::params![
                key.scope,
                entity,
                attribute,
                value,
                key.entity,
                key.attribute,
                period.value,
                confidence,
                path,
                line,
                period.from,
                period.to,
                next,
                now,
                period.to.map(|_| now),
            ])?;
        return Ok(connection.last_insert_rowid());
    };
    // A source that is known only by its row has no words of its own here.
    let (entity, attribute, value) = if newest.id.is_some() {
        (&fact.entity, &fact.attribute, &fact.value)
    } else {
        (entity, attribute, value)
    };
    let wanted = Fact {
        entity: entity.clone(),
        attribute: attribute.clone(),
        value: value.clone(),
        confidence,
        source: path.clone(),
        source_line: *line,
        valid_from: period.from,
        valid_to: period.to,
        superseded_by: next,
        invalidated_at: period.to.map(|_| fact.invalidated_at.unwrap_or(now)),
        ..fact.clone()
    };
    if wanted != *fact || stated.iter().any(|source| source.id.is_none()) {
        connection
            .prepare_cached(
                "UPDATE facts SET entity = ?2, attribute = ?3, value = ?4, confidence = ?5, source = ?6, source_line = ?7,
                   valid_from = ?8, valid_to = ?9, superseded_by = ?10, updated_at = ?11, invalidated_at = ?12 WHERE id = ?1",
            )?
            .execute(rusqlite::params![
                fact.id,
                wanted.entity,
                wanted.attribute,
                wanted.value,
                wanted.confidence,
                wanted.source,
                wanted.source_line,
                wanted.valid_from,
                wanted.valid_to,
                wanted.superseded_by,
                now,
                wanted.invalidated_at,
            ])?;
    }
    Ok(fact.id)
}

/// Makes `source` one of fact `id`.
fn point(connection: &Connection, source: &Source, id: i64) -> rusqlite::Result<()> {
    let Statement {
        path,
        line,
        session,
        quote,
        confidence,
        at,
        ended,
        ..
    } = &source.statement;
    match source.id {
        Some(_) if source.fact == Some(id) => {}
        Some(row) => {
            connection
                .prepare_cached("UPDATE fact_sources SET fact = ?2 WHERE id = ?1")?
                .execute((row, id))?;
        }
        None => {
            let (session, seq) = session
                .as_ref()
                .map_or((None, None), |(id, seq)| (Some(id), Some(seq)));
            connection
                .prepare_cached(
                    "INSERT INTO fact_sources(fact, path, line, session_id, seq, quote, confidence, at, ended)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )?
                .execute(rusqlite::params![id, path, line, session, seq, quote, confidence, at, ended])?;
        }
    }
    Ok(())
}

fn facts_of(connection: &Connection, key: &Key) -> rusqlite::Result<Vec<Fact>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM facts WHERE scope = ?1 AND entity_key = ?2 AND attribute_key = ?3 ORDER BY id"
    );
    connection
        .prepare_cached(&sql)?
        .query_map((&key.scope, &key.entity, &key.attribute), fact_of)?
        .collect()
}

const SOURCES: &str = "SELECT s.id, s.fact, f.scope, f.entity_key, f.attribute_key, f.value_key, s.path, s.line, s.session_id, \
                       s.seq, s.quote, s.confidence, s.at, s.ended FROM fact_sources s JOIN facts f ON f.id = s.fact";

fn source_of(row: &Row<'_>) -> rusqlite::Result<Source> {
    let scope: String = row.get(2)?;
    let (session, seq): (Option<String>, Option<i64>) = (row.get(8)?, row.get(9)?);
    let (entity, attribute, value): (String, String, String) =
        (row.get(3)?, row.get(4)?, row.get(5)?);
    let statement = Statement {
        scope: Scope::stored(scope.clone()),
        entity: entity.clone(),
        attribute: attribute.clone(),
        value: value.clone(),
        confidence: row.get(11)?,
        path: row.get(6)?,
        line: row.get(7)?,
        session: session.zip(seq),
        quote: row.get(10)?,
        at: row.get(12)?,
        ended: row.get(13)?,
    };
    Ok(Source {
        id: Some(row.get(0)?),
        fact: Some(row.get(1)?),
        key: Key {
            scope,
            entity,
            attribute,
        },
        value,
        statement,
    })
}

fn sources_of_part(connection: &Connection, part: Part<'_>) -> rusqlite::Result<Vec<Source>> {
    match part {
        Part::File(path) => {
            let sql = format!("{SOURCES} WHERE s.path = ?1 ORDER BY s.id");
            connection
                .prepare_cached(&sql)?
                .query_map([path], source_of)?
                .collect()
        }
        Part::Span { session, from, to } => {
            let sql = format!(
                "{SOURCES} WHERE s.session_id = ?1 AND s.seq BETWEEN ?2 AND ?3 ORDER BY s.id"
            );
            connection
                .prepare_cached(&sql)?
                .query_map((session, from, to), source_of)?
                .collect()
        }
    }
}

fn sources_of_key(connection: &Connection, key: &Key) -> rusqlite::Result<Vec<Source>> {
    let sql = format!(
        "{SOURCES} WHERE f.scope = ?1 AND f.entity_key = ?2 AND f.attribute_key = ?3 ORDER BY s.id"
    );
    connection
        .prepare_cached(&sql)?
        .query_map((&key.scope, &key.entity, &key.attribute), source_of)?
        .collect()
}

fn is_as_it_was(connection: &Connection, id: i64, now: &Statement) -> rusqlite::Result<bool> {
    let sql = "SELECT s.path, s.line, s.quote, s.confidence FROM fact_sources s WHERE s.id = ?1";
    connection.prepare_cached(sql)?.query_row([id], |row| {
        Ok((
            row.get::<_, String>(0)?,
            row.get::<_, i64>(1)?,
            row.get::<_, String>(2)?,
            row.get::<_, f64>(3)?,
        ) == (
            now.path.clone(),
            now.line,
            now.quote.clone(),
            now.confidence,
        ))
    })
}
