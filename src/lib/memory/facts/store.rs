//! Stores what a file or a span of a conversation states, inside the caller's transaction.

use std::collections::BTreeSet;

use rusqlite::Connection;

use super::aliases::{Aliases, is_alias};
use super::forgotten::Forgotten;
use super::normalize::{Key, folded, value_key};
use super::queries::{COLUMNS, fact_of};
use super::rows::Source;
use super::supersede::Period;
use super::{Change, Fact, rows, run_log, supersede};
use crate::db::Statements;
use crate::memory::extract::opposite;
use crate::memory::scope::Scope;
use crate::{db, text};

/// Less sure statements are not kept (specification §13).
const MIN_CONFIDENCE: f64 = 0.6;
/// Longer names and values are no facts, and longer words are cut.
const MAX_NAME: usize = 120;
const MAX_VALUE: usize = 600;
const MAX_QUOTE: usize = 400;
/// The most aliases of aliases that are followed.
const MAX_CHAIN: usize = 8;

/// Something that is stated somewhere.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    pub scope: Scope,
    pub entity: String,
    /// The name that was said, where it is or was filed under another one.
    pub said_of: Option<String>,
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

impl Statement {
    pub(super) fn key(&self) -> Key {
        Key::new(&self.scope, &self.entity, &self.attribute, &self.value)
    }

    /// Returns what it is about as it was said.
    fn said_key(&self) -> Key {
        let said = self.said_of.as_ref().unwrap_or(&self.entity);
        Key::new(&self.scope, said, &self.attribute, &self.value)
    }

    /// Returns true when `other` is the same, in the same message of a conversation.
    fn is_said_again_by(&self, other: &Self) -> bool {
        (&self.session, self.ended) == (&other.session, other.ended)
            && (self.key() == other.key() || self.said_key() == other.said_key())
            && value_key(&self.value) == value_key(&other.value)
    }

    /// Returns true when it is in the same line.
    fn is_beside(&self, other: &Self) -> bool {
        (&self.path, self.line) == (&other.path, other.line)
    }
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

/// How the facts changed.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Applied {
    pub changes: Vec<Change>,
    /// Facts that only got one more source.
    pub touched: usize,
}

/// Returns what is known of `part` as it is stated there.
pub(crate) fn stated(connection: &Connection, part: Part<'_>) -> rusqlite::Result<Vec<Statement>> {
    let stored = rows::of_part(connection, part)?;
    Ok(stored.into_iter().map(|source| source.statement).collect())
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
    let stored = rows::of_part(connection, part)?;
    let mut gone = stored.clone();
    let mut stated: Vec<Source> = Vec::new();
    let mut aliases = Aliases::new(connection);
    let undone = run_log::undone(connection, part)?;
    let is_undone = |statement: &Statement| {
        let is_it = |other: &Statement| other.is_said_again_by(statement);
        undone.iter().any(is_it) && !stored.iter().any(|source| is_it(&source.statement))
    };
    for statement in prepared(statements) {
        // Before, for what is undone must not become a name, and after, for it was filed under the name that counts.
        if is_undone(&statement) {
            continue;
        }
        let resolved = aliases.resolve(statement)?;
        let Some(statement) = resolved.filter(|statement| !is_undone(statement)) else {
            continue;
        };
        let mut source = Source::new(statement);
        let is_same = |other: &Source| (&other.key, &other.value) == (&source.key, &source.value);
        let is_here = |other: &Source| other.statement.is_beside(&source.statement);
        if let Some(twin) = stated
            .iter_mut()
            .find(|other| is_same(other) && is_here(other))
        {
            // "I work at Siemens … no longer": in one line the last word counts.
            let confidence = twin.statement.confidence.max(source.statement.confidence);
            let at = twin.statement.at;
            twin.statement = Statement {
                confidence,
                at,
                ..source.statement
            };
            continue;
        }
        let is_alike =
            |other: &Source| is_same(other) && other.statement.ended == source.statement.ended;
        let exact = gone
            .iter()
            .position(|other| is_alike(other) && is_here(other));
        if let Some(known) = exact.or_else(|| gone.iter().position(is_alike)) {
            // Since when it is there is known already.
            let known = gone.swap_remove(known);
            (source.id, source.fact) = (known.id, known.fact);
            source.statement.at = known.statement.at;
        }
        stated.push(source);
    }
    // A line that says the same words in the same file is read in another way now: it is no newer for that.
    for source in stated.iter_mut().filter(|source| source.id.is_none()) {
        let same = gone
            .iter()
            .filter(|old| old.statement.quote == source.statement.quote)
            .map(|old| old.statement.at);
        source.statement.at = same.fold(source.statement.at, i64::min);
    }
    stated.retain(|source| !is_as_it_was(source, &stored));
    let mut applied = rewrite(connection, Some(run), &gone, &stated, now)?;
    if gone
        .iter()
        .chain(&stated)
        .any(|source| is_alias(&source.statement))
    {
        refile(connection, now, &mut applied)?;
    }
    Ok(applied)
}

/// Returns true for a source that is among those `stored`, without any change.
fn is_as_it_was(source: &Source, stored: &[Source]) -> bool {
    let now = &source.statement;
    stored.iter().any(|old| {
        let was = &old.statement;
        old.id == source.id
            && was.is_beside(now)
            && (&was.quote, was.confidence, &was.said_of)
                == (&now.quote, now.confidence, &now.said_of)
    })
}

/// Files what was said of a name under the one that counts now: with an alias that was taken back, what was said of it is its
/// own again. No run is noted for that: what undoes one puts the alias back, and all of this follows.
fn refile(connection: &Connection, now: i64, applied: &mut Applied) -> rusqlite::Result<()> {
    // An alias of an alias moves before what was said of it.
    for _ in 0..MAX_CHAIN {
        let (mut aliases, forgotten) = (Aliases::new(connection), Forgotten::read(connection)?);
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for source in rows::of_other_names(connection)? {
            // What was forgotten stays so under the name that it had.
            let said_at = source.statement.at;
            if forgotten
                .since(&source.key, &source.statement.value, said_at)
                .is_some()
            {
                continue;
            }
            let filed = Source::new(aliases.filed(source.statement.clone())?);
            if filed.key != source.key {
                old.push(source);
                new.push(filed);
            }
        }
        if old.is_empty() {
            break;
        }
        let Applied { changes, touched } = rewrite(connection, None, &old, &new, now)?;
        applied.changes.extend(changes);
        applied.touched += touched;
    }
    Ok(())
}

/// Takes `gone` out of the sources, and `changed`, which comes in again, and brings their facts in line. What is stored
/// then is noted under the name of `run`.
fn rewrite(
    connection: &Connection,
    run: Option<&str>,
    gone: &[Source],
    changed: &[Source],
    now: i64,
) -> rusqlite::Result<Applied> {
    let delete = "DELETE FROM fact_sources WHERE id = ?1";
    for id in gone.iter().chain(changed).filter_map(|source| source.id) {
        if let Some(run) = run {
            run_log::note(connection, (run, now), false, ("s.id = ?4", id))?;
        }
        connection.run(delete, [id])?;
    }
    let sql = "SELECT coalesce(max(id), 0) FROM fact_sources";
    let last: i64 = connection.one(sql, [], |row| row.get(0))?;
    let keys: BTreeSet<&Key> = gone
        .iter()
        .chain(changed)
        .map(|source| &source.key)
        .collect();
    let applied = settle_all(connection, keys, changed, now)?;
    if let Some(run) = run {
        run_log::note(connection, (run, now), true, ("s.id > ?4", last))?;
    }
    Ok(applied)
}

/// Brings the facts of `keys` in line with their sources, of which some no longer count.
pub(super) fn resettle<'a>(
    connection: &Connection,
    keys: impl IntoIterator<Item = &'a Key>,
    now: i64,
) -> rusqlite::Result<Applied> {
    let mut applied = settle_all(connection, keys, &[], now)?;
    refile(connection, now, &mut applied)?;
    Ok(applied)
}

/// Brings the facts of `keys` in line with their sources and those of `new`, which are not stored yet.
fn settle_all<'a>(
    connection: &Connection,
    keys: impl IntoIterator<Item = &'a Key>,
    new: &[Source],
    now: i64,
) -> rusqlite::Result<Applied> {
    let (mut applied, forgotten) = (Applied::default(), Forgotten::read(connection)?);
    for key in keys {
        let mut sources = rows::of_key(connection, key)?;
        let new = new.iter().filter(|source| source.key == *key).cloned();
        sources.extend(new.map(|source| Source { id: None, ..source }));
        for source in &mut sources {
            let Statement { value, at, .. } = &source.statement;
            source.forgotten = forgotten.since(key, value, *at);
        }
        settle(connection, key, sources, now, &mut applied)?;
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
    let mut gone = rows::all(connection)?;
    let wanted = fact.map(|fact| (fact.key(), value_key(&fact.value)));
    gone.retain(|source| {
        let Statement {
            scope,
            entity,
            said_of,
            attribute,
            value,
            path,
            quote,
            ..
        } = &source.statement;
        let said_of = said_of.as_deref().unwrap_or_default();
        let is_it = wanted
            .as_ref()
            .is_some_and(|(key, value)| (key, value) == (&source.key, &source.value));
        // What another fact consists of may have the same words.
        let said = if fact.is_some() {
            String::new()
        } else {
            format!("{scope}\n{entity}\n{said_of}\n{attribute}\n{value}\n")
        };
        is_it || hit(&format!("{said}{path}\n{quote}"))
    });
    let mut applied = rewrite(connection, None, &gone, &[], now)?;
    refile(connection, now, &mut applied)?;
    Ok(gone.len())
}

/// Takes those sources out that state `gone`, word for word and in that file, and puts `back` in.
pub(super) fn exchange(
    connection: &Connection,
    gone: &[Statement],
    back: Vec<Statement>,
    now: i64,
) -> rusqlite::Result<Applied> {
    let mut taken: Vec<Source> = Vec::new();
    let mut aliases = Aliases::new(connection);
    for statement in gone {
        let value = value_key(&statement.value);
        // It may be filed under another name by now.
        let keys = BTreeSet::from([statement.key(), aliases.filed(statement.clone())?.key()]);
        let mut found = Vec::new();
        for key in &keys {
            found.extend(rows::of_key(connection, key)?);
        }
        found.retain(|source| {
            let there = &source.statement;
            source.value == value
                && there.ended == statement.ended
                && (&there.path, &there.quote) == (&statement.path, &statement.quote)
                && taken.iter().all(|other| other.id != source.id)
        });
        // Lines may have come in above it.
        let nearest = |source: &Source| source.statement.line.abs_diff(statement.line);
        taken.extend(found.into_iter().min_by_key(nearest));
    }
    let back: Vec<Source> = back.into_iter().map(Source::new).collect();
    let mut applied = rewrite(connection, None, &taken, &back, now)?;
    refile(connection, now, &mut applied)?;
    Ok(applied)
}

/// Returns the statements that are kept, as they are kept, each after what it ends; aliases first, else in their order:
/// what was said later counts later.
fn prepared(statements: &[Statement]) -> Vec<Statement> {
    let with_opposite =
        |statement: Statement| opposite_of(&statement).into_iter().chain([statement]);
    let mut kept: Vec<Statement> = statements
        .iter()
        .filter_map(kept)
        .flat_map(with_opposite)
        .collect();
    kept.sort_by_key(|statement| !is_alias(statement));
    kept
}

/// Returns what is over when `statement` holds.
fn opposite_of(statement: &Statement) -> Option<Statement> {
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
    // False for what is not a number, too.
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
    mut sources: Vec<Source>,
    now: i64,
    applied: &mut Applied,
) -> rusqlite::Result<()> {
    let facts = facts_of(connection, key)?;
    let old = facts.iter().find(|fact| fact.is_current());
    let periods = supersede::periods(&mut sources, old.map(|old| old.id));
    // Only one may be current at any moment.
    if let Some(old) = old
        && periods.last().is_none_or(|last| last.fact != Some(old.id))
    {
        let sql = "UPDATE facts SET valid_to = ?2 WHERE id = ?1";
        connection.run(sql, (old.id, now))?;
    }
    let mut heirs = Vec::new();
    let (mut next, mut newest) = (None, None);
    for period in periods.iter().rev() {
        let stated = sources.get(period.sources.clone()).unwrap_or_default();
        let fact = facts.iter().find(|fact| Some(fact.id) == period.fact);
        let id = write(connection, period, fact, stated, next, now)?;
        let is_new = stated
            .iter()
            .any(|source| source.id.is_none() && source.fact.is_none() && !source.statement.ended);
        applied.touched +=
            usize::from(fact.is_some() && is_new && old.is_some_and(|old| old.id == id));
        for source in stated {
            heirs.extend(source.fact.filter(|was| *was != id).map(|was| (was, id)));
            source.store(connection, id)?;
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
        let sql = "UPDATE facts SET valid_to = ?2, superseded_by = ?3, updated_at = ?4, invalidated_at = ?4 WHERE id = ?1";
        connection.run(sql, (old.id, until, by, now))?;
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

/// Writes the fact of a period and returns its number. `next` is the one that came after it.
fn write(
    connection: &Connection,
    period: &Period,
    fact: Option<&Fact>,
    stated: &[Source],
    next: Option<i64>,
    now: i64,
) -> rusqlite::Result<i64> {
    let confidences = stated.iter().map(|source| source.statement.confidence);
    // Where it was said to be over is not a place that states it.
    let Some(newest) = stated.iter().rfind(|source| !source.statement.ended) else {
        return Ok(0);
    };
    let words = newest.statement.clone();
    let new = Fact {
        id: fact.map_or(0, |fact| fact.id),
        scope: words.scope,
        entity: words.entity,
        attribute: words.attribute,
        value: words.value,
        confidence: confidences.fold(0.0, f64::max),
        source: words.path,
        source_line: words.line,
        valid_from: period.from,
        valid_to: period.to,
        superseded_by: next,
        created_at: fact.map_or(now, |fact| fact.created_at),
        updated_at: fact.map_or(now, |fact| fact.updated_at),
        invalidated_at: period
            .to
            .map(|_| fact.and_then(|fact| fact.invalidated_at).unwrap_or(now)),
        is_forgotten: fact.is_some_and(|fact| fact.is_forgotten),
    };
    if fact == Some(&new) && stated.iter().all(|source| source.id.is_some()) {
        return Ok(new.id);
    }
    let sql = "INSERT INTO facts(id, scope, entity, attribute, value, entity_key, attribute_key, value_key, confidence, source,
                 source_line, valid_from, valid_to, superseded_by, created_at, updated_at, invalidated_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
               ON CONFLICT(id) DO UPDATE SET entity = ?3, attribute = ?4, value = ?5, confidence = ?9, source = ?10,
                 source_line = ?11, valid_from = ?12, valid_to = ?13, superseded_by = ?14, updated_at = ?16, invalidated_at = ?17
               RETURNING id";
    connection.one(
        sql,
        rusqlite::params![
            fact.map(|fact| fact.id),
            newest.key.scope,
            new.entity,
            new.attribute,
            new.value,
            newest.key.entity,
            newest.key.attribute,
            period.value,
            new.confidence,
            new.source,
            new.source_line,
            new.valid_from,
            new.valid_to,
            new.superseded_by,
            new.created_at,
            now,
            new.invalidated_at,
        ],
        |row| row.get(0),
    )
}

fn facts_of(connection: &Connection, key: &Key) -> rusqlite::Result<Vec<Fact>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM facts WHERE scope = ?1 AND entity_key = ?2 AND attribute_key = ?3 ORDER BY id"
    );
    connection.all(&sql, (&key.scope, &key.entity, &key.attribute), fact_of)
}
