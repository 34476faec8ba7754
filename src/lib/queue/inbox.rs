//! Accepted inputs: taking them in, starting and finishing their turns.

use rusqlite::{Connection, OptionalExtension, Row};

use super::outbox::{self, NewPart, Part};
use super::{Store, from_json, remember, routes, to_json};
use crate::control::replies::Reply;
use crate::db;
use crate::message::Envelope;

/// An input that stands at the door, with the key it is remembered by.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// `tg:<bot>:<update_id>` or `cmd:<id>`.
    pub key: String,
    /// What was decided about it.
    pub verdict: Verdict,
}

/// What access decided.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It becomes inbox rows; one, unless an order means several sessions.
    Accept(Vec<Envelope>),
    /// Only its key is kept; the notice (a pairing code), if any, goes out.
    Refuse(Option<NewPart>),
}

/// An inbox row that waits for its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    /// The order of arrival.
    pub seq: i64,
    /// How often a turn was started for it.
    pub attempts: i64,
    /// The input.
    pub envelope: Envelope,
}

/// The answer to "may this turn start?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    /// Yes.
    Run {
        /// The run's id; the same at every start, so that what a message costs is one sum.
        run_id: String,
    },
    /// It was finished or stopped meanwhile.
    Gone,
}

/// An input that a stop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The input.
    pub inbox_id: String,
    /// Whether a caller reads its answer file.
    pub wants_reply: bool,
}

/// How a run ended for the queue.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The run, for an input that never had one.
    pub run_id: String,
    /// The input it answered.
    pub inbox_id: String,
    /// Done or dead.
    pub ended: Ended,
    /// For the caller who waits; also kept for those who ask later.
    pub result: Option<Reply>,
    /// What is to be said.
    pub parts: Vec<NewPart>,
}

/// Done, or dead with a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Answered (an error message is an answer).
    Done,
    /// Given up: a dead letter.
    Dead(String),
}

impl Store {
    /// Takes `arrivals` in and moves the poll offset, in one transaction: when it returns, the
    /// channel may be told. Inputs seen before are left out of the result.
    ///
    /// # Errors
    /// See [`db::Error`]; nothing is then accepted.
    pub async fn accept(
        &self,
        arrivals: Vec<Arrival>,
        offset: Option<(i64, i64)>,
        now: i64,
    ) -> Result<(Vec<Accepted>, Vec<Part>), db::Error> {
        self.writer
            .write(move |connection| {
                let mut accepted = Vec::new();
                let mut notices = Vec::new();
                for arrival in &arrivals {
                    if !remember(connection, &arrival.key, now)? {
                        continue;
                    }
                    match &arrival.verdict {
                        Verdict::Accept(envelopes) => {
                            for envelope in envelopes {
                                accepted.extend(insert(connection, envelope)?);
                            }
                        }
                        Verdict::Refuse(Some(notice)) => {
                            notices.push(outbox::insert(connection, None, None, notice, (1, 1), now)?)
                        }
                        Verdict::Refuse(None) => {}
                    }
                }
                if let Some((bot, next)) = offset {
                    connection
                        .prepare_cached(
                            "INSERT INTO offsets(bot, next_update_id, updated_at) VALUES (?1, ?2, ?3)
                             ON CONFLICT(bot) DO UPDATE SET next_update_id = ?2, updated_at = ?3",
                        )?
                        .execute((bot, next, now))?;
                }
                Ok((accepted, notices))
            })
            .await
    }

    /// Returns true when an input with this key was taken in, or refused, already.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn knows(&self, key: &str) -> Result<bool, db::Error> {
        let key = key.to_owned();
        self.writer
            .write_lazily(move |connection| {
                connection.prepare_cached("SELECT EXISTS (SELECT 1 FROM seen WHERE key = ?1)")?.query_row([key], |row| row.get(0))
            })
            .await
    }

    /// Records that the turn of `inbox_id` starts, as `run_id` if it is the first time.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn start_run(&self, run_id: &str, inbox_id: &str) -> Result<Started, db::Error> {
        let (run_id, inbox_id) = (run_id.to_owned(), inbox_id.to_owned());
        self.writer
            .write(move |connection| {
                let run_id = connection
                    .prepare_cached(
                        "UPDATE inbox SET state = 'running', run_id = coalesce(run_id, ?1), attempts = attempts + 1
                         WHERE id = ?2 AND state IN ('pending', 'running') RETURNING run_id",
                    )?
                    .query_row((run_id, inbox_id), |row| row.get(0))
                    .optional()?;
                Ok(run_id.map_or(Started::Gone, |run_id| Started::Run { run_id }))
            })
            .await
    }

    /// Ends what was accepted before input `before` and is not answered yet, waiting or running,
    /// in one session or in all; commands stay. Whoever waits for an answer is told "stopped".
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn stop(&self, before: i64, session: Option<&str>, now: i64) -> Result<Vec<Stopped>, db::Error> {
        let session = session.map(str::to_owned);
        self.writer
            .write(move |connection| {
                let stopped: Vec<Stopped> = connection
                    .prepare_cached(
                        "UPDATE inbox SET state = 'done', reason = 'stopped', finished_at = ?3
                         WHERE seq < ?1 AND state IN ('pending', 'running') AND (?2 IS NULL OR session_key = ?2)
                           AND envelope ->> '$.command' IS NULL
                         RETURNING id, envelope ->> '$.wants_reply'",
                    )?
                    .query_map((before, session, now), |row| Ok(Stopped { inbox_id: row.get(0)?, wants_reply: row.get(1)? }))?
                    .collect::<rusqlite::Result<_>>()?;
                for one in stopped.iter().filter(|one| one.wants_reply) {
                    connection
                        .prepare_cached("UPDATE inbox SET result = ?1 WHERE id = ?2")?
                        .execute((to_json(&Reply::error(&one.inbox_id, "stopped"))?, &one.inbox_id))?;
                }
                Ok(stopped)
            })
            .await
    }

    /// Takes back the attempt of a run that the daemon itself broke off at its end: a restart
    /// that was asked for is not a death.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn release_run(&self, inbox_id: &str) -> Result<(), db::Error> {
        let inbox_id = inbox_id.to_owned();
        self.writer
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE inbox SET state = 'pending', attempts = max(attempts - 1, 0) WHERE id = ?1 AND state = 'running'",
                    )?
                    .execute([inbox_id])
                    .map(drop)
            })
            .await
    }

    /// Marks the input answered and stores what is to be said, in one transaction. `None` when
    /// the run was stopped meanwhile: then nothing is to be said.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn finish(&self, finish: Finish, now: i64) -> Result<Option<Vec<Part>>, db::Error> {
        self.writer
            .write(move |connection| {
                let (state, reason) = match &finish.ended {
                    Ended::Done => ("done", None),
                    Ended::Dead(reason) => ("dead", Some(reason.as_str())),
                };
                let result = finish.result.as_ref().map(to_json).transpose()?;
                let run_id: Option<String> = connection
                    .prepare_cached(
                        "UPDATE inbox SET state = ?1, reason = ?2, result = ?3, finished_at = ?4, run_id = coalesce(run_id, ?5)
                         WHERE id = ?6 AND state IN ('pending', 'running') RETURNING run_id",
                    )?
                    .query_row((state, reason, result, now, &finish.run_id, &finish.inbox_id), |row| row.get(0))
                    .optional()?;
                let Some(run_id) = run_id else { return Ok(None) };
                let count = i64::try_from(finish.parts.len()).unwrap_or(i64::MAX);
                let parts = (1..).zip(&finish.parts).map(|(number, part)| {
                    outbox::insert(connection, Some(&finish.inbox_id), Some(&run_id), part, (number, count), now)
                });
                parts.collect::<rusqlite::Result<Vec<Part>>>().map(Some)
            })
            .await
    }
}

fn insert(connection: &Connection, envelope: &Envelope) -> rusqlite::Result<Option<Accepted>> {
    let rows = connection
        .prepare_cached("INSERT OR IGNORE INTO inbox(id, session_key, envelope, received_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute((&envelope.id, &envelope.session_key.0, to_json(envelope)?, envelope.received_at))?;
    let seq = connection.last_insert_rowid();
    routes::note(connection, envelope)?;
    Ok((rows == 1).then(|| Accepted { seq, attempts: 0, envelope: envelope.clone() }))
}

pub(super) fn open(connection: &Connection) -> rusqlite::Result<Vec<Accepted>> {
    connection
        .prepare("SELECT seq, attempts, envelope FROM inbox WHERE state IN ('pending', 'running') ORDER BY seq")?
        .query_map([], accepted)?
        .collect()
}

fn accepted(row: &Row<'_>) -> rusqlite::Result<Accepted> {
    Ok(Accepted { seq: row.get(0)?, attempts: row.get(1)?, envelope: from_json(row.get_ref(2)?.as_str()?, 2)? })
}
