//! Forgotten facts. The lines that state them may stay: existing statements are not used again, however often they are read;
//! later statements are.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row};

use super::commitments;
use super::commitments::Commitment;
use super::episodes;
use super::episodes::Episode;
use super::normalize::{Key, folded};
use super::store;
use super::store::Applied;
use super::{Change, Fact, rows};
use crate::db::Statements;
use crate::language::pack::is_month;
use crate::language::stop_words::is_stop;
use crate::memory::extract::listed;
use crate::memory::scope::Scope;
use crate::text;

/// What is to be forgotten.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// A fact.
    Fact(Box<Fact>),
    /// Somebody.
    Person(Person),
}

/// Somebody, by all that they are called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Person {
    /// Names, other names, the username, in lower case.
    pub names: Vec<String>,
    /// Ids: what is theirs has the scope `person:<id>`.
    pub ids: Vec<String>,
}

/// What was forgotten.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forgot {
    /// How the current facts changed.
    pub changes: Vec<Change>,
    /// Commitments that were open; they are cancelled.
    pub commitments: Vec<Commitment>,
    /// Episodes; they are deleted.
    pub episodes: Vec<Episode>,
}

impl Forgot {
    /// Returns true when there was nothing to forget.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.commitments.is_empty() && self.episodes.is_empty()
    }
}

/// All orders to forget, and until when what was stated is meant.
#[derive(Debug, Default)]
pub(super) struct Forgotten(Vec<(Order, i64)>);

/// What one row of `forgotten` means.
#[derive(Debug)]
enum Order {
    Fact(Key),
    /// Folded.
    Name(String),
    /// A scope.
    Of(String),
}

impl Order {
    fn is_of(&self, key: &Key, value: &str) -> bool {
        match self {
            Self::Fact(other) => other == key || is_listed_in(key, other),
            Self::Name(name) => text::has_word(&key.entity, name) || names(value, name),
            Self::Of(scope) => *scope == key.scope,
        }
    }

    fn is_in(&self, scope: &Scope, words: &str) -> bool {
        match self {
            Self::Fact(_) => false,
            Self::Name(name) => names(words, name),
            Self::Of(person) => *person == scope.to_string(),
        }
    }

    fn of(target: &Target) -> Vec<Self> {
        match target {
            Target::Fact(fact) => vec![Self::Fact(fact.key())],
            Target::Person(Person { names, ids }) => {
                let scopes = ids
                    .iter()
                    .map(|id| Self::Of(Scope::Person(id.clone()).to_string()));
                names
                    .iter()
                    .map(|name| Self::Name(folded(name)))
                    .chain(scopes)
                    .collect()
            }
        }
    }
}

/// Returns true when `list` is a fact of several things, one of which is `key`: what was forgotten together stays so, in
/// whatever pieces it is read again.
fn is_listed_in(key: &Key, list: &Key) -> bool {
    let [one, all] = [key, list].map(|of| of.attribute.split_once('='));
    let is_in = |((of, value), (other, all))| of == other && listed(of, all).contains(&value);
    (&key.scope, &key.entity) == (&list.scope, &list.entity) && one.zip(all).is_some_and(is_in)
}

/// Returns true when `text` speaks of somebody called `name`, which is folded.
fn names(text: &str, name: &str) -> bool {
    text::has_word(&folded(text), name) && (!is_word_too(name) || names_by_word(text, name))
}

/// Returns true for a name that is a word of every day, too: Will, May.
pub(crate) fn is_word_too(name: &str) -> bool {
    is_month(name) || is_stop(name)
}

/// As [`names`], for one that [`is_word_too`]: it counts where it is alone in its line, where something is filed under it,
/// or with a capital letter, and that of a month ("3 May") not next to a number.
pub(crate) fn names_by_word(text: &str, name: &str) -> bool {
    let is_filed = |under: &str| text::has_word(&folded(text), &format!("{under}{name}"));
    if text.lines().any(|line| folded(line) == name)
        || ["person:", "people/"].into_iter().any(is_filed)
    {
        return true;
    }
    let is_month = is_month(name);
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let is_day = |at: Option<usize>| {
        let word = at.and_then(|at| words.get(at));
        word.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_name = |(at, word): (usize, &&str)| {
        word.starts_with(char::is_uppercase)
            && folded(word) == name
            && !(is_month && (is_day(at.checked_sub(1)) || is_day(Some(at + 1))))
    };
    words.iter().enumerate().any(is_name)
}

fn order_of(row: &Row<'_>) -> rusqlite::Result<(Order, i64)> {
    let order = match (row.get(0)?, row.get(1)?, row.get(2)?) {
        (Some(scope), Some(entity), Some(attribute)) => Order::Fact(Key {
            scope,
            entity,
            attribute,
        }),
        (Some(scope), _, _) => Order::Of(scope),
        (None, name, _) => Order::Name(name.unwrap_or_default()),
    };
    Ok((order, row.get(3)?))
}

impl Forgotten {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let sql = "SELECT scope, entity_key, attribute_key, at FROM forgotten ORDER BY at, id";
        Ok(Self(connection.all(sql, [], order_of)?))
    }

    /// Returns when that was forgotten which was stated at `at`; `None` when it counts.
    pub(super) fn since(&self, key: &Key, value: &str, at: i64) -> Option<i64> {
        self.0
            .iter()
            .find(|(order, until)| at <= *until && order.is_of(key, value))
            .map(|(_, until)| *until)
    }

    /// Returns true when `words`, said at `at` and of `scope`, speak of somebody who was forgotten since.
    pub(super) fn has(&self, scope: &Scope, words: &str, at: i64) -> bool {
        self.0
            .iter()
            .any(|(order, until)| at <= *until && order.is_in(scope, words))
    }
}

/// Forgets `target`, inside the caller's transaction; `path` is that of the database.
pub(crate) fn forget(
    connection: &Connection,
    path: &std::path::Path,
    target: &Target,
    now: i64,
) -> Result<Forgot, super::Error> {
    let fail = |error| crate::db::Error::of(path, error);
    let orders = Order::of(target);
    let open = commitments::select(connection, path, "WHERE status = 'open'")?;
    let told = episodes::select(connection, path)?;
    let is_meant =
        |scope: &Scope, words: &str| orders.iter().any(|order| order.is_in(scope, words));
    let commitments: Vec<_> = open
        .into_iter()
        .filter(|one| is_meant(&one.scope, &one.words()))
        .collect();
    let episodes: Vec<_> = told
        .into_iter()
        .filter(|one| is_meant(&one.scope, &one.words()))
        .collect();
    let write = || -> rusqlite::Result<Applied> {
        let mut meant = rows::of_current_facts(connection)?;
        meant.retain(|source| {
            orders
                .iter()
                .any(|order| order.is_of(&source.key, &source.statement.value))
        });
        // The day of a note may not have begun yet, and clocks are set back: what is there now is forgotten nevertheless.
        let stated_at = meant.iter().map(|source| source.statement.at);
        let at = stated_at.fold(now, i64::max);
        for order in &orders {
            let (scope, entity, attribute) = match order {
                Order::Fact(key) => (Some(&key.scope), Some(&key.entity), Some(&key.attribute)),
                Order::Name(name) => (None, Some(name), None),
                Order::Of(scope) => (Some(scope), None, None),
            };
            let sql = "INSERT INTO forgotten(scope, entity_key, attribute_key, at) VALUES (?1, ?2, ?3, ?4)";
            connection.run(sql, (scope, entity, attribute, at))?;
        }
        for one in &commitments {
            connection.execute(
                "UPDATE commitments SET status = 'cancelled', updated_at = ?2 WHERE id = ?1",
                (one.id, now),
            )?;
        }
        for one in &episodes {
            connection.execute("DELETE FROM episodes WHERE id = ?1", [one.id])?;
        }
        let keys: BTreeSet<&Key> = meant.iter().map(|source| &source.key).collect();
        store::resettle(connection, keys, now)
    };
    let Applied { changes, .. } = write().map_err(fail)?;
    Ok(Forgot {
        changes,
        commitments,
        episodes,
    })
}
