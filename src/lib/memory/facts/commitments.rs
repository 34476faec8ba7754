//! Commitments: who promised what, until when, and whether it was kept.
//!
//! Like a fact, an open commitment is removed when the line that states it is removed. One that is done, expired or cancelled
//! stays as history.

use std::path::Path;

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};
use chrono_tz::Tz;
use rusqlite::{Connection, Row, ToSql};

use super::forgotten::Forgotten;
use super::normalize::{folded, value_key};
use super::queries::read_rows;
use super::store::Part;
use super::{Error, schema};
use crate::db::Statements;
use crate::memory::scope::Scope;
use crate::{clock, db, text};

/// Longer ones are no promises, and longer words are cut.
const MAX_WHO: usize = 120;
const MAX_WHAT: usize = 600;
const MAX_QUOTE: usize = 400;
/// How a time in the agent's zone is written.
const LOCAL: &str = "%Y-%m-%dT%H:%M";
/// One that nobody was shown expires this long after its deadline nevertheless.
const UNSHOWN_MS: i64 = 7 * 24 * 3600 * 1000;
/// How long before the end of its turn a message may have been written, milliseconds: what it promises in addition to what it settles
/// was not read before.
const TURN_MS: i64 = 600_000;

/// The state of a commitment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It waits.
    Open,
    /// It was kept.
    Done,
    /// Its time is over.
    Expired,
    /// It was called off.
    Cancelled,
}

impl Status {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Done => "done",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the one that is called `word`.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Open, Self::Done, Self::Expired, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// A promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commitment {
    /// Never used twice.
    pub(crate) id: i64,
    pub(crate) scope: Scope,
    /// `user`, or a name.
    pub(crate) who: String,
    pub(crate) what: String,
    /// A day (`2026-05-08`) or a time of it (`2026-05-08T17:00`) in the agent's zone, or a moment in RFC 3339.
    pub(crate) deadline: Option<String>,
    pub(crate) status: Status,
    /// The file that states it, as printed; where that lies now.
    pub(crate) source: String,
    /// From 1.
    pub(crate) source_line: i64,
    pub(crate) quote: String,
    /// Milliseconds since 1970 UTC.
    pub(crate) created_at: i64,
    /// When it was brought up after its deadline.
    pub(crate) shown_at: Option<i64>,
    /// When it was said last, or changed after that.
    pub(crate) updated_at: i64,
}

impl Commitment {
    /// Returns when it is overdue, milliseconds since 1970 UTC: after the day, or the moment, of its deadline.
    pub fn due_ms(&self, zone: Tz) -> Option<i64> {
        due_ms(self.deadline.as_deref()?, zone)
    }

    /// Returns the words that it is found by.
    pub fn words(&self) -> String {
        format!("{} {} {}", self.who, self.what, self.quote)
    }

    /// Returns true when it is open and its time is over.
    pub fn is_overdue(&self, now: i64, zone: Tz) -> bool {
        self.status == Status::Open && self.due_ms(zone).is_some_and(|due| due <= now)
    }
}

/// Returns when the time of `deadline` is over, milliseconds since 1970 UTC; `None` when it is none.
pub fn due_ms(deadline: &str, zone: Tz) -> Option<i64> {
    if let Ok(day) = deadline.parse::<NaiveDate>() {
        return day.succ_opt().map(|next| clock::start_of_day(next, zone));
    }
    let local = NaiveDateTime::parse_from_str(deadline, LOCAL);
    local.map_or_else(
        |_| clock::parse_rfc3339(deadline),
        |local| Some(clock::instant_of(local, zone)),
    )
}

/// Returns a day, or a time of it, as a deadline is written.
pub(crate) fn written(date: NaiveDate, time: Option<NaiveTime>) -> String {
    time.map_or_else(
        || date.to_string(),
        |time| date.and_time(time).format(LOCAL).to_string(),
    )
}

/// A promise as it is stated somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Promise {
    pub scope: Scope,
    pub who: String,
    pub what: String,
    /// See [`Commitment::deadline`].
    pub deadline: Option<String>,
    pub path: String,
    pub line: i64,
    /// The conversation and the event in it.
    pub session: Option<(String, i64)>,
    pub quote: String,
    /// The time of the statement, milliseconds since 1970 UTC.
    pub at: i64,
}

/// What a [`Commitment`] is read from.
const COLUMNS: &str =
    "id, scope, who, what, deadline, status, path, line, quote, created_at, shown_at, updated_at";

/// Makes the commitments of `part` follow from what it states now; returns the new ones.
pub(crate) fn restate(
    connection: &Connection,
    run: &str,
    part: Part<'_>,
    promises: &[Promise],
    episode: Option<i64>,
    now: i64,
) -> rusqlite::Result<usize> {
    let mut before = of_part(connection, part, "id", |row| row.get::<_, i64>(0))?;
    let (mut new, forgotten) = (0, Forgotten::read(connection)?);
    let is_short = |text: &str, max: usize| !text.is_empty() && text.chars().count() <= max;
    for promise in promises {
        let (who, what) = (promise.who.trim(), promise.what.trim());
        let words = format!("{who} {what} {}", promise.quote);
        if !is_short(who, MAX_WHO)
            || !is_short(what, MAX_WHAT)
            || forgotten.has(&promise.scope, &words, promise.at)
        {
            continue;
        }
        let (scope, path, line) = (promise.scope.to_string(), &promise.path, promise.line);
        let (session, seq) = promise.session.clone().unzip();
        let quote = text::shorten(promise.quote.trim(), MAX_QUOTE);
        let key = format!("{}\n{}", folded(who), value_key(what));
        if let Some(id) = known(connection, &key, promise)? {
            before.retain(|other| *other != id);
            say_again(connection, id, promise, (&quote, run))?;
            continue;
        }
        let sql = "INSERT INTO commitments(scope, who, what, what_key, deadline, status, path, line, session_id, seq, quote, run,
                     created_at, updated_at, said_at, episode_id)
                   VALUES (?1, ?2, ?3, ?4, ?5, 'open', ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13, ?14)";
        connection.run(
            sql,
            rusqlite::params![
                scope,
                who,
                what,
                key,
                promise.deadline,
                path,
                line,
                session,
                seq,
                quote,
                run,
                now,
                promise.at,
                episode
            ],
        )?;
        new += 1;
    }
    let delete = "DELETE FROM commitments WHERE id = ?1 AND status = 'open'";
    before
        .into_iter()
        .try_for_each(|id| connection.run(delete, [id]))?;
    Ok(new)
}

/// Returns the commitment that `promise` is of: the same promise in other lines is one, and was settled with it. What is
/// said later is another promise, also in the message that settles the first.
fn known(connection: &Connection, key: &str, promise: &Promise) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT id FROM commitments WHERE scope = ?1 AND what_key = ?2
                 AND (status = 'open' OR coalesce(said_at, updated_at) >= ?3 OR (path = ?4 AND line = ?5)
                      OR (status != 'expired' AND updated_at > ?3 + ?6))
               ORDER BY status = 'open' DESC LIMIT 1";
    let scope = promise.scope.to_string();
    let (path, line) = (&promise.path, promise.line);
    let values = (scope, key, promise.at, path, line, TURN_MS);
    connection.first(sql, values, |row| row.get(0))
}

/// Has the words that were said last decide where commitment `id` stands and until when it is to be kept; another deadline
/// is brought up again when that is over, and an undo takes it back with the run that read them. Older words, which are read
/// again, move nothing.
fn say_again(
    connection: &Connection,
    id: i64,
    promise: &Promise,
    (quote, run): (&str, &str),
) -> rusqlite::Result<()> {
    let deadline = "CASE WHEN updated_at < ?8 THEN coalesce(?2, deadline)
                         WHEN updated_at = ?8 THEN coalesce(deadline, ?2) ELSE deadline END";
    let sql = format!(
        "UPDATE commitments SET deadline = {deadline}, shown_at = CASE WHEN deadline IS ({deadline}) THEN shown_at END,
           run = CASE WHEN updated_at < ?8 THEN ?9 ELSE run END, path = ?3, line = ?4, session_id = ?5, seq = ?6, quote = ?7,
           updated_at = max(updated_at, ?8), said_at = max(coalesce(said_at, ?8), ?8)
         WHERE id = ?1 AND (updated_at <= ?8 OR (session_id, seq) IS (?5, ?6))"
    );
    let (session, seq) = promise.session.clone().unzip();
    let (path, line) = (&promise.path, promise.line);
    let values = (
        id,
        &promise.deadline,
        path,
        line,
        session,
        seq,
        quote,
        promise.at,
        run,
    );
    connection.run(&sql, values)
}

/// Returns what is known of `part` as it was promised there, settled or not.
pub(crate) fn stated(connection: &Connection, part: Part<'_>) -> rusqlite::Result<Vec<Promise>> {
    let promise_of = |row: &Row<'_>| {
        let session: Option<String> = row.get(6)?;
        Ok(Promise {
            scope: Scope::stored(row.get(0)?),
            who: row.get(1)?,
            what: row.get(2)?,
            deadline: row.get(3)?,
            path: row.get(4)?,
            line: row.get(5)?,
            session: session.zip(row.get(7)?),
            quote: row.get(8)?,
            at: row.get(9)?,
        })
    };
    let columns = "scope, who, what, deadline, path, line, session_id, seq, quote, coalesce(said_at, updated_at)";
    of_part(connection, part, columns, promise_of)
}

fn of_part<T>(
    connection: &Connection,
    part: Part<'_>,
    columns: &str,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let (condition, values): (_, &[&dyn ToSql]) = match &part {
        Part::File(path) => ("path = ?1 AND session_id IS NULL", &[path]),
        Part::Span { session, from, to } => (
            "session_id = ?1 AND seq BETWEEN ?2 AND ?3",
            &[session, from, to],
        ),
    };
    let sql = format!("SELECT {columns} FROM commitments WHERE {condition} ORDER BY id");
    connection.all(&sql, values, read)
}

/// Returns commitments of the database at `path`: the open ones, with `all` the settled ones too. Those with a
/// deadline first, the nearest first.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn list(path: &Path, all: bool) -> Result<Vec<Commitment>, Error> {
    let Some(connection) = schema::open_read(path)? else {
        return Ok(Vec::new());
    };
    select(
        &connection,
        path,
        if all { "" } else { "WHERE status = 'open'" },
    )
}

pub(crate) fn select(
    connection: &Connection,
    path: &Path,
    filter: &str,
) -> Result<Vec<Commitment>, Error> {
    let sql = format!(
        "SELECT {COLUMNS} FROM commitments {filter} ORDER BY deadline IS NULL, deadline, id"
    );
    read_rows(connection, path, &sql, commitment_of, |one| &mut one.source)
}

fn commitment_of(row: &Row<'_>) -> rusqlite::Result<Commitment> {
    let (scope, status): (String, String) = (row.get(1)?, row.get(5)?);
    Ok(Commitment {
        id: row.get(0)?,
        scope: Scope::stored(scope),
        who: row.get(2)?,
        what: row.get(3)?,
        deadline: row.get(4)?,
        status: Status::parse(&status).unwrap_or(Status::Cancelled),
        source: row.get(6)?,
        source_line: row.get(7)?,
        quote: row.get(8)?,
        created_at: row.get(9)?,
        shown_at: row.get(10)?,
        updated_at: row.get(11)?,
    })
}

/// What becomes of a commitment; `None` leaves it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub(crate) status: Option<Status>,
    /// `Some(None)` takes it away.
    pub(crate) deadline: Option<Option<String>>,
}

/// Returns true for what may be as a deadline.
pub fn is_deadline(text: &str) -> bool {
    due_ms(text, Tz::UTC).is_some()
}

/// Changes commitment `id` of the database at `path`, if `may` says yes to it; returns it as it is then, `None` when
/// there is no such one. One that is open again, or has another deadline, is brought up again when that is over.
///
/// # Errors
/// When the database cannot be used.
pub fn update(
    path: &Path,
    id: i64,
    change: Change,
    may: impl Fn(&Commitment) -> bool,
) -> Result<Option<Commitment>, Error> {
    if !path.exists() {
        return Ok(None);
    }
    schema::transact(&mut schema::open(path)?, path, |connection| {
        let found = select(connection, path, &format!("WHERE id = {id}"))?.pop();
        let Some(mut one) = found.filter(may) else {
            return Ok(None);
        };
        let deadline = change.deadline.unwrap_or_else(|| one.deadline.clone());
        let status = change.status.unwrap_or(one.status);
        let is_open_again = one.status != Status::Open && status == Status::Open;
        if is_open_again || deadline != one.deadline {
            one.shown_at = None;
        }
        (one.status, one.deadline, one.updated_at) = (status, deadline, clock::now_ms());
        let sql = "UPDATE commitments SET status = ?2, deadline = ?3, shown_at = ?4, updated_at = ?5 WHERE id = ?1";
        let values = (
            id,
            status.as_str(),
            &one.deadline,
            one.shown_at,
            one.updated_at,
        );
        connection
            .execute(sql, values)
            .map_err(|error| db::Error::of(path, error))?;
        Ok(Some(one))
    })
}

/// Lets those expire whose time is over and who were brought up after it, or whose time has been over for a week;
/// returns them. Inside the caller's transaction.
pub(crate) fn expire(
    connection: &Connection,
    path: &Path,
    zone: Tz,
    now: i64,
) -> Result<Vec<Commitment>, Error> {
    let mut over = select(
        connection,
        path,
        "WHERE status = 'open' AND deadline IS NOT NULL",
    )?;
    over.retain(|one| {
        let was_shown =
            one.shown_at.is_some() || one.due_ms(zone).is_some_and(|due| due + UNSHOWN_MS <= now);
        one.is_overdue(now, zone) && was_shown
    });
    let sql = "UPDATE commitments SET status = 'expired', updated_at = ?2 WHERE id = ?1 AND status = 'open'";
    set_each(connection, path, sql, over.iter().map(|one| one.id), now)?;
    Ok(over)
}

/// Notes that overdue commitments were brought up: all of them, or none.
///
/// # Errors
/// When the database cannot be used.
pub(crate) fn shown(path: &Path, ids: &[i64], now: i64) -> Result<(), Error> {
    let sql = "UPDATE commitments SET shown_at = ?2 WHERE id = ?1 AND shown_at IS NULL";
    schema::transact(&mut schema::open(path)?, path, |connection| {
        set_each(connection, path, sql, ids.iter().copied(), now)
    })
}

fn set_each(
    connection: &Connection,
    path: &Path,
    sql: &str,
    mut ids: impl Iterator<Item = i64>,
    now: i64,
) -> Result<(), Error> {
    let done = ids.try_for_each(|id| connection.execute(sql, (id, now)).map(drop));
    Ok(done.map_err(|error| db::Error::of(path, error))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(what: &str, line: i64, deadline: Option<&str>) -> Promise {
        Promise {
            scope: Scope::Owner,
            who: "user".to_owned(),
            what: what.to_owned(),
            deadline: deadline.map(str::to_owned),
            path: "state/sessions/a.jsonl".to_owned(),
            line,
            session: Some(("a".to_owned(), line)),
            quote: what.to_owned(),
            at: line,
        }
    }

    struct Place {
        dir: tempfile::TempDir,
        connection: Connection,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("dir");
            let connection = schema::open(&dir.path().join("memory.db")).expect("open");
            Self { dir, connection }
        }

        fn path(&self) -> std::path::PathBuf {
            self.dir.path().join("memory.db")
        }

        fn state(&self, promises: &[Promise]) -> usize {
            let part = Part::Span {
                session: "a",
                from: 0,
                to: 99,
            };
            restate(&self.connection, "r", part, promises, None, 10).expect("restate")
        }

        fn shown(&self, all: bool) -> Vec<(String, Option<String>, &'static str)> {
            let found = list(&self.path(), all).expect("list");
            found
                .into_iter()
                .map(|one| (one.what, one.deadline, one.status.as_str()))
                .collect()
        }
    }

    #[test]
    fn a_promise_made_twice_is_one_and_one_that_is_taken_back_is_none() {
        let place = Place::new();
        let all = [
            promise("send Bob the report", 1, None),
            promise("Send Bob the report.", 3, Some("2026-05-08")),
        ];
        assert_eq!((place.state(&all), place.state(&all)), (1, 0));
        assert_eq!(
            place.shown(false),
            [(
                "send Bob the report".to_owned(),
                Some("2026-05-08".to_owned()),
                "open"
            )]
        );
        assert_eq!(place.state(&[promise("call mum", 2, None)]), 1);
        assert_eq!(place.shown(true), [("call mum".to_owned(), None, "open")]);
    }

    #[test]
    fn a_settled_promise_stays_and_is_not_made_again_by_the_same_line() {
        let place = Place::new();
        let one = [promise("call mum", 1, None)];
        place.state(&one);
        let id = list(&place.path(), false).expect("list")[0].id;
        let done = || Change {
            status: Some(Status::Done),
            deadline: None,
        };
        assert_eq!(
            update(&place.path(), id, done(), |_| false).expect("update"),
            None,
            "it is somebody else's"
        );
        assert_eq!(
            update(&place.path(), id + 1, done(), |_| true).expect("update"),
            None,
            "there is none"
        );
        assert!(
            update(&place.path(), id, done(), |_| true)
                .expect("update")
                .is_some()
        );
        assert_eq!(
            (place.state(&one), place.shown(true)),
            (0, vec![("call mum".to_owned(), None, "done")])
        );
        let twice = [one[0].clone(), promise("Call mum.", 7, None)];
        assert_eq!(place.state(&twice), 0, "both were said before it was done");
        // Not yet read when it was done, as the message that says both.
        let later = Promise {
            at: clock::now_ms() - 1_000,
            ..promise("call mum", 9, None)
        };
        assert_eq!(
            place.state(&[one[0].clone(), later]),
            1,
            "it was promised again"
        );
        place.state(&[]);
        assert_eq!(place.shown(true), [("call mum".to_owned(), None, "done")]);
    }

    #[test]
    fn a_promise_that_was_said_twice_stays_settled_whichever_line_is_read_again() {
        let place = Place::new();
        let twice = [
            promise("call mum", 1, None),
            promise("Call mum.", 3, Some("2026-05-08")),
        ];
        place.state(&twice);
        let id = list(&place.path(), false).expect("list")[0].id;
        let done = Change {
            status: Some(Status::Done),
            deadline: None,
        };
        update(&place.path(), id, done, |_| true).expect("update");
        for again in [&twice[..], &twice[..1], &twice[1..], &twice[..]] {
            assert_eq!(place.state(again), 0);
        }
        let settled = ("call mum".to_owned(), Some("2026-05-08".to_owned()), "done");
        assert_eq!(place.shown(true), [settled]);
    }

    #[test]
    fn a_promise_that_is_renewed_is_brought_up_again_and_only_once() {
        let place = Place::new();
        let (old, new) = (Some("2026-05-08"), Some("2026-05-15"));
        let first = promise("call mum", 1, old);
        place.state(std::slice::from_ref(&first));
        let id = list(&place.path(), false).expect("list")[0].id;
        let shown_at = || {
            let one = list(&place.path(), false).expect("list").remove(0);
            (one.deadline, one.shown_at)
        };
        let deadline = |words: Option<&str>| words.map(str::to_owned);
        shown(&place.path(), &[id], 7).expect("shown");
        let renewed = [first, promise("Call mum.", 3, new)];
        place.state(&renewed);
        assert_eq!(shown_at(), (deadline(new), None));
        shown(&place.path(), &[id], 8).expect("shown");
        place.state(&renewed);
        assert_eq!(shown_at(), (deadline(new), Some(8)), "nothing is new");
        // What somebody changed since is not changed back by words from before.
        let change = Change {
            status: None,
            deadline: Some(deadline(old)),
        };
        update(&place.path(), id, change, |_| true).expect("update");
        place.state(&renewed);
        assert_eq!(shown_at(), (deadline(old), None));
    }

    #[test]
    fn a_promise_with_a_new_deadline_is_brought_up_again() {
        let place = Place::new();
        let one = [promise("call mum", 1, Some("2026-05-08"))];
        place.state(&one);
        let id = list(&place.path(), false).expect("list")[0].id;
        let changed = |status: Option<Status>, deadline: Option<Option<&str>>| {
            shown(&place.path(), &[id], 7).expect("shown");
            let change = Change {
                status,
                deadline: deadline.map(|deadline| deadline.map(str::to_owned)),
            };
            let changed = update(&place.path(), id, change, |_| true)
                .expect("update")
                .expect("it is there");
            assert_eq!(
                list(&place.path(), true).expect("list").first(),
                Some(&changed)
            );
            (changed.deadline, changed.status, changed.shown_at)
        };
        let (old, new) = (Some("2026-05-08".to_owned()), Some("2026-05-09".to_owned()));
        assert_eq!(
            changed(None, Some(Some("2026-05-08"))),
            (old, Status::Open, Some(7))
        );
        assert_eq!(
            changed(None, Some(Some("2026-05-09"))),
            (new.clone(), Status::Open, None)
        );
        assert_eq!(place.state(&one), 0);
        assert_eq!(
            changed(Some(Status::Cancelled), None),
            (new.clone(), Status::Cancelled, Some(7)),
            "the same line moves nothing"
        );
        assert_eq!(changed(Some(Status::Open), None), (new, Status::Open, None));
        assert_eq!(changed(None, Some(None)), (None, Status::Open, None));
    }

    #[test]
    fn what_is_overdue_expires_when_it_was_brought_up_or_after_a_week() {
        let place = Place::new();
        place.state(&[
            promise("a", 1, Some("2026-05-08")),
            promise("b", 2, Some("2026-05-08T12:00")),
            promise("c", 3, None),
        ]);
        let zone = chrono_tz::Europe::Berlin;
        let at = |text: &str| clock::parse_rfc3339(text).expect("time");
        let overdue = |now: i64| -> Vec<String> {
            let open = list(&place.path(), false).expect("list");
            open.into_iter()
                .filter(|one| one.is_overdue(now, zone))
                .map(|one| one.what)
                .collect()
        };
        assert_eq!(overdue(at("2026-05-08T09:59:59Z")), [] as [&str; 0]);
        assert_eq!(overdue(at("2026-05-08T10:00:00Z")), ["b"]);
        assert_eq!(
            overdue(at("2026-05-08T21:59:59Z")),
            ["b"],
            "the day is over at midnight in Berlin"
        );
        let now = at("2026-05-08T22:00:00Z");
        assert_eq!(overdue(now), ["a", "b"]);
        let expire = |now: i64| {
            expire(&place.connection, &place.path(), zone, now)
                .expect("expire")
                .len()
        };
        assert_eq!(expire(now), 0, "nobody was told");
        let b = list(&place.path(), false)
            .expect("list")
            .into_iter()
            .find(|one| one.what == "b")
            .expect("b")
            .id;
        shown(&place.path(), &[b], now).expect("shown");
        assert_eq!((expire(now), expire(now)), (1, 0));
        assert_eq!(expire(now + UNSHOWN_MS), 1);
        assert_eq!(place.shown(false), [("c".to_owned(), None, "open")]);
    }

    #[test]
    fn several_are_changed_together_or_not_at_all() {
        let place = Place::new();
        let all = [("a", 1), ("b", 2)].map(|(what, line)| promise(what, line, Some("2026-05-08")));
        place.state(&all);
        let ids: Vec<i64> = list(&place.path(), false)
            .expect("list")
            .iter()
            .map(|one| one.id)
            .collect();
        place
            .connection
            .execute_batch("CREATE TRIGGER full BEFORE UPDATE ON commitments WHEN OLD.what = 'b' BEGIN SELECT RAISE(FAIL, 'full'); END")
            .expect("a trigger");
        let before = list(&place.path(), true).expect("list");
        shown(&place.path(), &ids, 7).expect_err("the second cannot be written");
        assert_eq!(list(&place.path(), true).expect("list"), before);
    }

    #[test]
    fn nobody_changes_a_commitment_between_its_reading_and_its_writing() {
        let place = Place::new();
        place.state(&[promise("a", 1, None)]);
        let id = list(&place.path(), false).expect("list")[0].id;
        let other = schema::open(&place.path()).expect("open");
        other
            .busy_timeout(std::time::Duration::ZERO)
            .expect("no waiting");
        let sql = "UPDATE commitments SET status = 'done'";
        let may = |_: &Commitment| other.execute(sql, []).is_err();
        let done = update(&place.path(), id, Change::default(), may).expect("update");
        assert!(done.is_some(), "the other had to wait");
    }
}
