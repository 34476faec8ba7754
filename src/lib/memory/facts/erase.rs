//! Erases text permanently: the caller holds the locks of the daemon and of `agent-consolidate`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::normalize::value_key;
use super::queries::origin_of;
use super::{Fact, Origin, schema, store};
use crate::db;
use crate::db::Hit;
use crate::db::Statements;

/// Deletes what `hit` finds in the database at `path`, and `fact` with all that states it; returns how many rows of each
/// table that is. With `dry_run` nothing is written.
///
/// # Errors
/// See [`db::Error`].
pub(crate) fn erase(
    path: &Path,
    hit: &Hit,
    fact: Option<&Fact>,
    dry_run: bool,
    now: i64,
) -> Result<BTreeMap<String, usize>, db::Error> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let mut connection = schema::open(path)?;
    let mut work = || -> rusqlite::Result<_> {
        // A fact may name one that goes; what is left is put in order below.
        connection.execute_batch("PRAGMA foreign_keys=OFF;")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut counts = BTreeMap::new();
        let mut add =
            |table: &str, count: usize| *counts.entry(table.to_owned()).or_default() += count;
        if let Some(fact) = fact {
            let [sources, commitments] = reword_others(&transaction, hit, fact)?;
            add("fact_sources", sources);
            add("commitments", commitments);
        }
        add(
            "fact_sources",
            store::withdraw(&transaction, hit, fact, now)?,
        );
        if let Some(fact) = fact {
            let (facts, log) = erase_fact(&transaction, fact)?;
            add("facts", facts);
            add("source_log", log);
        }
        // What another fact consists of may have the same words.
        let but: &[&str] = if fact.is_some() {
            &["facts", "source_log"]
        } else {
            &[]
        };
        for (table, count) in db::erase_rows(&transaction, hit, but)? {
            add(&table, count);
        }
        if fact.is_some() {
            add(
                "source_log",
                transaction.execute("DELETE FROM source_log WHERE is_hit(path, quote)", [])?,
            );
        }
        transaction.execute_batch(
            "DELETE FROM fact_sources WHERE fact NOT IN (SELECT id FROM facts);
             UPDATE facts SET superseded_by = NULL WHERE superseded_by NOT IN (SELECT id FROM facts);
             UPDATE commitments SET episode_id = NULL WHERE episode_id NOT IN (SELECT id FROM episodes);",
        )?;
        counts.retain(|_, count| *count > 0);
        if dry_run {
            return Ok(counts);
        }
        transaction.commit()?;
        db::vacuum(&connection)?;
        Ok(counts)
    };
    work().map_err(|error| db::Error::of(path, error))
}

/// What states a fact, and what states others.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Where it is stated, and where it was as far as runs are noted.
    pub origins: Vec<Origin>,
    /// The words of what states others, elsewhere.
    pub others: Vec<String>,
}

/// Returns by what `fact` is known in the database at `path`.
///
/// # Errors
/// See [`db::Error`].
pub(crate) fn evidence(path: &Path, fact: &Fact) -> Result<Evidence, db::Error> {
    let Some(connection) = schema::open_read(path)? else {
        return Ok(Evidence::default());
    };
    let key = fact.key();
    let read = || -> rusqlite::Result<Evidence> {
        let sql = "SELECT s.path, s.line, s.session_id, s.seq, s.quote, s.at,
                     f.scope = ?1 AND f.entity_key = ?2 AND f.attribute_key = ?3 AND f.value_key = ?4
                   FROM fact_sources s JOIN facts f ON f.id = s.fact";
        let values = (
            &key.scope,
            &key.entity,
            &key.attribute,
            value_key(&fact.value),
        );
        let rows: Vec<(bool, Origin)> =
            connection.all(sql, values, |row| Ok((row.get(6)?, origin_of(row)?)))?;
        let (own, others): (Vec<_>, Vec<_>) = rows.into_iter().partition(|one| one.0);
        let mut origins: Vec<Origin> = own.into_iter().map(|(_, origin)| origin).collect();
        // By where it is stated now: what stood there before may have been this.
        let place = |origin: &Origin| (origin.path.clone(), origin.line);
        let own: BTreeSet<_> = origins.iter().map(place).collect();
        let others = others
            .into_iter()
            .filter(|(_, other)| !own.contains(&place(other)))
            .map(|(_, other)| other.quote)
            .collect();
        let sql = format!(
            "SELECT path, line, session_id, seq, quote, said_at FROM source_log WHERE {OF_FACT}"
        );
        let values = (&key.scope, &fact.entity, &fact.attribute, &fact.value);
        origins.extend(connection.all::<_, Vec<_>>(&sql, values, origin_of)?);
        Ok(Evidence { origins, others })
    };
    read().map_err(|error| db::Error::of(path, error))
}

/// Stands in the place of words that were erased.
const REWORDED: &str = "[forgotten]";

/// Takes the words of `fact` from what else was said with them in a conversation: that stays. Returns how many sources of
/// other facts and how many commitments that are.
fn reword_others(connection: &Connection, hit: &Hit, fact: &Fact) -> rusqlite::Result<[usize; 2]> {
    db::define_is_hit(connection, hit)?;
    let key = fact.key();
    let sources = "UPDATE fact_sources SET quote = ?1 WHERE session_id IS NOT NULL AND is_hit(quote) AND fact NOT IN
                     (SELECT id FROM facts WHERE scope = ?2 AND entity_key = ?3 AND attribute_key = ?4 AND value_key = ?5)";
    let values = (
        REWORDED,
        key.scope,
        key.entity,
        key.attribute,
        value_key(&fact.value),
    );
    let commitments = "UPDATE commitments SET quote = ?1
                       WHERE session_id IS NOT NULL AND is_hit(quote) AND NOT is_hit(who, what)";
    Ok([
        connection.execute(sources, values)?,
        connection.execute(commitments, [REWORDED])?,
    ])
}

/// What runs noted of a fact.
const OF_FACT: &str = "scope = ?1 AND lower(?2) IN (lower(entity), lower(said_of)) AND lower(attribute) = lower(?3) AND lower(value) = lower(?4)";

/// Deletes the rows that have the value of `fact`, now and before, and what runs noted of it.
fn erase_fact(connection: &Connection, fact: &Fact) -> rusqlite::Result<(usize, usize)> {
    let key = fact.key();
    let sql = "DELETE FROM facts WHERE scope = ?1 AND entity_key = ?2 AND attribute_key = ?3 AND value_key = ?4";
    let values = (
        &key.scope,
        &key.entity,
        &key.attribute,
        value_key(&fact.value),
    );
    let facts = connection.execute(sql, values)?;
    let log = format!("DELETE FROM source_log WHERE {OF_FACT}");
    let values = (&key.scope, &fact.entity, &fact.attribute, &fact.value);
    Ok((facts, connection.execute(&log, values)?))
}
