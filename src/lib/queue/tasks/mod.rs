//! Tasks of plans: one graph a conversation, saved after each task.
//!
//! A task is `blocked` until everything it depends on is done, then `ready`; it is due `lead_ms` later. Its results (parts to
//! be sent, inputs) are stored in the transaction that makes it `done`, so it is executed once, whatever is killed. Dependent
//! tasks begin when its parts have arrived. If a part certainly did not arrive, the task is `blocked` again by a `wait` task
//! and keeps its parts, which are not sent until it is `done`. A message that calls for an answer cancels open tasks in the
//! transaction that accepts it, except a task that waits for the owner's approval.

mod failure;

use rusqlite::{Connection, Row};

use super::inbox::{Accepted, Stop};
use super::outbox::{NewPart, Part};
use super::{Store, inbox, json, outbox, to_json};
use crate::db;
use crate::db::Statements;
use crate::message::{Command, Envelope, SessionKey};

/// Tasks of a conversation that its next plan receives.
const TOLD: i64 = 500;

/// A task to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id in the graph.
    pub id: String,
    /// Its kind.
    pub kind: &'static str,
    /// The tasks of the graph that come before it.
    pub depends_on: Vec<String>,
    /// How long after that it is done, milliseconds.
    pub lead_ms: i64,
    /// What it does, as JSON that only its writer reads.
    pub task: String,
    /// The answer of the model that it is in.
    pub answer: String,
}

/// A task that is due, now or later.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyTask {
    /// Its row.
    pub seq: i64,
    /// The conversation.
    pub session_key: SessionKey,
    /// The message that its plan answers.
    pub envelope: Envelope,
    /// The run that made the plan.
    pub run_id: String,
    /// Its id in the graph.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// What it does.
    pub task: String,
    /// When it is done, milliseconds since 1970 UTC.
    pub due_at: i64,
    /// Whether its parts are stored already and only are to be sent again.
    pub is_stored: bool,
}

/// A task as the next plan receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The answer of the model that it stood in.
    pub answer: String,
    /// What it did.
    pub task: String,
    /// `blocked`, `ready`, `done`, `dead` or `cancelled`.
    pub state: String,
    /// When, milliseconds since 1970 UTC.
    pub finished_at: Option<i64>,
    /// The channel's id of its message.
    pub message_id: Option<String>,
}

/// What becomes of a task that could not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is tried again, after a pause.
    Again,
    /// What depends on it is dropped, after the last retry all of its graph, and its message is a dead letter.
    GivenUp,
    /// It was cancelled meanwhile.
    Gone,
}

/// What becomes of a part of a task that surely did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Postponed {
    /// It belongs to no plan that is carried out: its sender tries again.
    No,
    /// Its task is tried again after a pause, or was cancelled: its sender leaves it alone.
    Held,
    /// After the last retry the graph is dropped, and the part is a dead letter.
    GivenUp,
}

impl Store {
    /// Returns the tasks that wait for nothing but their time, the earliest first.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn ready_tasks(&self) -> Result<Vec<ReadyTask>, db::Error> {
        let sql = "SELECT t.seq, t.session_key, i.envelope, t.run_id, t.id, t.kind, t.task, t.due_at,
               EXISTS (SELECT 1 FROM outbox o WHERE o.task = t.seq)
             FROM tasks t JOIN inbox i ON i.id = t.inbox_id WHERE t.state = 'ready' ORDER BY t.due_at, t.seq";
        self.writer
            .read(move |connection| connection.all(sql, [], ready))
            .await
    }

    /// Records that a task is done and what it leads to; `None` when it was cancelled meanwhile.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn complete_task(
        &self,
        task: &ReadyTask,
        parts: Vec<NewPart>,
        input: Option<Envelope>,
        now: i64,
    ) -> Result<Option<(Vec<Part>, Option<Accepted>)>, db::Error> {
        let (seq, inbox_id, run_id) = (task.seq, task.envelope.id.clone(), task.run_id.clone());
        self.writer
            .write(move |connection| {
                let sql = "UPDATE tasks SET state = 'done', finished_at = ?2 WHERE seq = ?1 AND state = 'ready'";
                let done = connection.change(sql, (seq, now))?;
                if done == 0 {
                    return Ok(None);
                }
                let count = i64::try_from(parts.len()).unwrap_or(i64::MAX);
                let mut stored = Vec::with_capacity(parts.len());
                for (number, part) in (1..).zip(&parts) {
                    let mut part = outbox::insert(connection, Some(&inbox_id), Some(&run_id), part, (number, count), now)?;
                    part.task = Some(seq);
                    let sql = "UPDATE outbox SET task = ?2 WHERE id = ?1";
                    connection.run(sql, (part.id, seq))?;
                    stored.push(part);
                }
                if parts.is_empty() {
                    stored = outbox::open_of_task(connection, seq)?;
                }
                let input = input.map(|envelope| inbox::insert(connection, &envelope)).transpose()?.flatten();
                unblock(connection, &run_id, now)?;
                Ok(Some((stored, input)))
            })
            .await
    }

    /// Records that a task could not be done. What may succeed later is tried again after a `wait` task, at most ten
    /// times.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn fail_task(
        &self,
        task: &ReadyTask,
        reason: &str,
        is_retryable: bool,
        now: i64,
    ) -> Result<AfterFailure, db::Error> {
        let (seq, reason) = (task.seq, reason.to_owned());
        self.writer
            .write(move |connection| failure::fail(connection, seq, &reason, is_retryable, now))
            .await
    }

    /// Records that a part of a task surely did not arrive: its task is tried again after a `wait` task, at most ten
    /// times.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn postpone(
        &self,
        part: i64,
        reason: &str,
        now: i64,
    ) -> Result<Postponed, db::Error> {
        let reason = reason.to_owned();
        self.writer
            .write(move |connection| failure::postpone(connection, part, &reason, now))
            .await
    }

    /// Records that a task was skipped; its dependents continue.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn skip_task(
        &self,
        task: &ReadyTask,
        reason: &str,
        now: i64,
    ) -> Result<(), db::Error> {
        let (seq, run_id, reason) = (task.seq, task.run_id.clone(), reason.to_owned());
        self.writer
            .write(move |connection| {
                let sql = "UPDATE tasks SET state = 'dead', reason = ?2, finished_at = ?3 WHERE seq = ?1 AND state = 'ready'";
                connection.run(sql, (seq, &reason, now))?;
                unblock(connection, &run_id, now)
            })
            .await
    }

    /// Returns what became of the newest tasks of a conversation, oldest first.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn told_tasks(&self, session: &SessionKey) -> Result<Vec<Told>, db::Error> {
        let key = session.0.clone();
        self.writer
            .read(move |connection| {
                let sql = "SELECT answer, task,
                       CASE WHEN EXISTS (SELECT 1 FROM outbox o WHERE o.task = t.seq AND o.state = 'dead') THEN 'dead'
                         WHEN EXISTS (SELECT 1 FROM outbox o WHERE o.task = t.seq AND o.state = 'sent') THEN 'done' ELSE state END,
                       finished_at, (SELECT o.message_id FROM outbox o WHERE o.task = t.seq ORDER BY o.id DESC LIMIT 1)
                     FROM tasks t WHERE session_key = ?1 AND kind != 'wait' ORDER BY seq DESC LIMIT ?2";
                let mut told: Vec<Told> = connection.all(sql, (key, TOLD), |row| {
                    Ok(Told {
                        answer: row.get(0)?,
                        task: row.get(1)?,
                        state: row.get(2)?,
                        finished_at: row.get(3)?,
                        message_id: row.get(4)?,
                    })
                })?;
                told.reverse();
                Ok(told)
            })
            .await
    }
}

/// Returns the id under which the owner is asked about a task.
pub fn call_id(task: &str) -> String {
    format!("plan-{task}")
}

/// Stores the graph of a run. What was open in the conversation is cancelled; so is the graph itself when a newer
/// message waits for its own.
pub(super) fn insert(
    connection: &Connection,
    (inbox_id, run_id): (&str, &str),
    tasks: &[NewTask],
    now: i64,
) -> rusqlite::Result<()> {
    let sql = "SELECT session_key, seq FROM inbox WHERE id = ?1";
    let (key, seq): (String, i64) =
        connection.one(sql, [inbox_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    cancel(connection, &key, now)?;
    let new = "INSERT OR IGNORE INTO tasks(session_key, inbox_id, run_id, id, kind, depends_on, lead_ms, task, answer, state, due_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    for task in tasks {
        let is_ready = task.depends_on.is_empty();
        connection.run(
            new,
            rusqlite::params![
                key,
                inbox_id,
                run_id,
                task.id,
                task.kind,
                to_json(&task.depends_on)?,
                task.lead_ms,
                task.task,
                task.answer,
                if is_ready { "ready" } else { "blocked" },
                is_ready.then_some(now + task.lead_ms),
                now
            ],
        )?;
    }
    let sql = "SELECT EXISTS (SELECT 1 FROM inbox WHERE session_key = ?1 AND seq > ?2 AND state IN ('pending', 'running')
           AND CASE WHEN json_valid(envelope)
             THEN envelope ->> '$.command' IS NULL AND envelope ->> '$.reply_to' IS NOT NULL END)";
    let newer: bool = connection.one(sql, (&key, seq), |row| row.get(0))?;
    if newer {
        cancel(connection, &key, now)?;
    }
    Ok(())
}

/// Cancels what is open in a conversation, before a message is answered that `envelope` is.
pub(super) fn cancel_open_tasks(
    connection: &Connection,
    envelope: &Envelope,
    now: i64,
) -> rusqlite::Result<()> {
    let calls_for_an_answer =
        envelope.source.is_person() && matches!(envelope.command, None | Some(Command::New { .. }));
    if calls_for_an_answer {
        cancel(connection, &envelope.session_key.0, now)?;
    }
    Ok(())
}

/// Cancels what is open in a conversation, except for what waits for the owner; its question goes by [`call_id`].
pub(super) fn cancel(
    connection: &Connection,
    session_key: &str,
    now: i64,
) -> rusqlite::Result<usize> {
    let sql = "UPDATE tasks SET state = 'cancelled', finished_at = ?2 WHERE session_key = ?1 AND state IN ('blocked', 'ready')
           AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.inbox_id = tasks.inbox_id AND a.call_id = 'plan-' || tasks.id
             AND a.state IN ('pending', 'approved', 'used'))";
    let count = connection.change(sql, (session_key, now))?;
    if count > 0 {
        drop_parts(connection)?;
    }
    Ok(count)
}

/// Removes the parts of cancelled tasks that surely did not arrive.
fn drop_parts(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "DELETE FROM outbox WHERE state IN ('pending', 'sending', 'unknown') AND state = 'pending' AND unknowns = 0
           AND EXISTS (SELECT 1 FROM tasks t WHERE t.seq = outbox.task AND t.state = 'cancelled')";
    connection.run(sql, [])
}

/// Cancels what is open of what is stopped.
pub(super) fn stop(connection: &Connection, stop: &Stop, now: i64) -> rusqlite::Result<()> {
    let (which, name) = match stop {
        Stop::All { .. } => ("?1 IS NULL", None),
        Stop::Session { key, .. } => ("session_key = ?1", Some(&key.0)),
        Stop::Message { id } => ("inbox_id = ?1", Some(id)),
    };
    let sql = format!(
        "UPDATE tasks SET state = 'cancelled', finished_at = ?2
         WHERE state IN ('blocked', 'ready') AND {which}"
    );
    connection.run(&sql, (name, now))?;
    drop_parts(connection)
}

/// Cancels what depends on a task, and on that.
pub(super) fn cancel_after(connection: &Connection, seq: i64, now: i64) -> rusqlite::Result<()> {
    let sql = "WITH RECURSIVE after(run_id, id) AS (
           SELECT run_id, id FROM tasks WHERE seq = ?1
           UNION SELECT t.run_id, t.id FROM tasks t, json_each(t.depends_on) d
             JOIN after ON after.id = d.value AND after.run_id = t.run_id)
         UPDATE tasks SET state = 'cancelled', finished_at = ?2
         WHERE state IN ('blocked', 'ready') AND (run_id, id) IN (SELECT run_id, id FROM after)";
    connection.run(sql, (seq, now))
}

/// Makes ready what waited only for a task whose parts have arrived.
pub(super) fn unblock_after(connection: &Connection, seq: i64, now: i64) -> rusqlite::Result<()> {
    let sql = "SELECT run_id FROM tasks WHERE seq = ?1";
    let run_id: Option<String> = connection.first(sql, [seq], |row| row.get(0))?;
    run_id.map_or(Ok(()), |run_id| unblock(connection, &run_id, now))
}

/// Makes ready what waited only for tasks that are done and whose parts have arrived, or about which the owner is asked;
/// its time begins now.
pub(super) fn unblock(connection: &Connection, run_id: &str, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE tasks SET state = 'ready', due_at = ?2 + lead_ms WHERE run_id = ?1 AND state = 'blocked'
           AND NOT EXISTS (SELECT 1 FROM json_each(tasks.depends_on) d
             JOIN tasks before ON before.run_id = tasks.run_id AND before.id = d.value
             WHERE before.state NOT IN ('done', 'dead') AND NOT EXISTS (SELECT 1 FROM approvals a
                 WHERE a.inbox_id = before.inbox_id AND a.call_id = 'plan-' || before.id
                   AND a.state IN ('pending', 'approved', 'used'))
               OR EXISTS (SELECT 1 FROM outbox o
               WHERE o.task = before.seq AND o.state IN ('pending', 'sending', 'unknown')))";
    connection.run(sql, (run_id, now))
}

fn ready(row: &Row<'_>) -> rusqlite::Result<ReadyTask> {
    Ok(ReadyTask {
        seq: row.get(0)?,
        session_key: SessionKey(row.get(1)?),
        envelope: json(row, 2)?,
        run_id: row.get(3)?,
        id: row.get(4)?,
        kind: row.get(5)?,
        task: row.get(6)?,
        due_at: row.get(7)?,
        is_stored: row.get(8)?,
    })
}

#[cfg(test)]
mod tests;
