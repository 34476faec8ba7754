//! Sub-agents in the queue. Each is an input; its end is reported to its parent in the transaction that records it, so it is
//! reported once, whatever is killed.

use rusqlite::{Connection, Row};

use super::context_notes;
use super::context_notes::Note;
use super::inbox;
use super::inbox::Accepted;
use super::{Store, json};
use crate::control::replies::Reply;
use crate::db;
use crate::db::Statements;
use crate::message::{Envelope, SessionKey, Task};

/// Characters of an answer that a note tells.
const NOTED: usize = 2_000;

/// How a sub-agent ended (specification §7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It answered.
    Ok,
    /// It failed.
    Error,
    /// Its time was over.
    Timeout,
    /// It was stopped.
    Killed,
    /// It died with the daemon again and again.
    Lost,
}

impl Ending {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Timeout => "timeout",
            Self::Killed => "killed",
            Self::Lost => "lost",
        }
    }

    fn of(state: &str, reason: Option<&str>) -> Option<Self> {
        match (state, reason) {
            ("done", None) => Some(Self::Ok),
            ("done", Some("timeout")) => Some(Self::Timeout),
            ("done", Some("stopped")) => Some(Self::Killed),
            ("done", Some(_)) => Some(Self::Error),
            ("dead", _) => Some(Self::Lost),
            _ => None,
        }
    }
}

/// A sub-agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Subagent {
    /// What it was sent for.
    pub envelope: Envelope,
    /// How it ended; `None` while it works.
    pub ending: Option<Ending>,
    /// What it answered, or why not.
    pub words: String,
    /// Whether untrusted text may be in that.
    pub tainted: bool,
}

impl Store {
    /// Returns the sub-agent whose input is `id`; `None` when there is none, or none any more.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn subagent(&self, id: &str) -> Result<Option<Subagent>, db::Error> {
        self.subagents("id", id).await.map(|mut found| found.pop())
    }

    /// Returns the sub-agents of whose end the input `report` tells, in the order in which they were sent.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn reported(&self, report: &str) -> Result<Vec<Subagent>, db::Error> {
        self.subagents("told_in", report).await
    }

    /// Returns how many sub-agents of `run` work.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn working_for(&self, run: &str) -> Result<i64, db::Error> {
        let run = run.to_owned();
        self.writer
            .read(move |connection| working(connection, &run))
            .await
    }

    async fn subagents(
        &self,
        column: &'static str,
        value: &str,
    ) -> Result<Vec<Subagent>, db::Error> {
        let value = value.to_owned();
        self.writer
            .read(move |connection| {
                let sql = format!("SELECT envelope, state, reason, result, tainted FROM inbox WHERE {column} = ?1 ORDER BY seq");
                connection.all(&sql, [value], subagent)
            })
            .await
    }
}

fn subagent(row: &Row<'_>) -> rusqlite::Result<Subagent> {
    let envelope: Envelope = json(row, 0)?;
    let (state, reason): (String, Option<String>) = (row.get(1)?, row.get(2)?);
    let reply: Option<Reply> = json(row, 3)?;
    let said = reply.and_then(|reply| reply.error.or(reply.reply));
    let words = said.or_else(|| reason.clone()).unwrap_or_default();
    Ok(Subagent {
        envelope,
        ending: Ending::of(&state, reason.as_deref()),
        words,
        tainted: row.get(4)?,
    })
}

/// The run that sent a sub-agent, of a row of the inbox: what its index is of. One whose JSON is damaged has none.
pub(super) const RUN_OF_TASK: &str =
    "CASE WHEN json_valid(envelope) THEN envelope ->> '$.task.run_id' END";

fn working(connection: &Connection, run: &str) -> rusqlite::Result<i64> {
    let sql = format!(
        "SELECT count(*) FROM inbox WHERE {RUN_OF_TASK} = ?1 AND state IN ('pending', 'running')"
    );
    connection.one(&sql, [run], |row| row.get(0))
}

/// Tells the parent of the sub-agent `id` of its end: when it was the last of its run, by an input that tells of
/// all that ended. One that is waited for is told by the wait.
pub(super) fn tell(
    connection: &Connection,
    id: &str,
    task: &Task,
    now: i64,
) -> rusqlite::Result<Option<Accepted>> {
    // Whoever waited for it may wait no more.
    let sql = "SELECT CASE WHEN json_valid(envelope) THEN envelope ->> '$.task.waits' END FROM inbox WHERE id = ?1";
    let waits: Option<Option<bool>> = connection.first(sql, [id], |row| row.get(0))?;
    if waits.flatten().unwrap_or(task.waits) || working(connection, &task.run_id)? > 0 {
        return Ok(None);
    }
    let report = format!("report:{id}");
    let sql = format!(
        "UPDATE inbox SET told_in = ?1 WHERE {RUN_OF_TASK} = ?2 AND told_in IS NULL
           AND NOT (envelope ->> '$.task.waits') AND coalesce(reason, '') != 'stopped'"
    );
    connection.run(&sql, (&report, &task.run_id))?;
    inbox::insert(
        connection,
        &Envelope {
            id: report,
            received_at: now,
            ..task.report.clone()
        },
    )
}

/// Has the sub-agents reported that the run waited for, which waits no more: its conversation hears of their end.
pub(super) fn wait_no_more(connection: &Connection, run: &str) -> rusqlite::Result<()> {
    let sql = format!(
        "UPDATE inbox SET envelope = json_set(envelope, '$.task.waits', json('false'))
         WHERE {RUN_OF_TASK} = ?1 AND state IN ('pending', 'running') AND envelope ->> '$.task.waits'
           AND envelope ->> '$.task.report.route' IS NOT NULL"
    );
    connection.run(&sql, [run])
}

/// Records for their parent that the sub-agents of `tasks` were stopped, and what others of their runs had
/// brought by then: they are not woken for it.
pub(super) fn tell_stopped(
    connection: &Connection,
    tasks: &[&Task],
    now: i64,
) -> rusqlite::Result<()> {
    let note = |session: &SessionKey, of_owner: bool, text: String| {
        context_notes::insert(
            connection,
            session,
            &Note {
                who: None,
                of_owner,
                at: now,
                text,
                ..Note::default()
            },
        )
    };
    for task in tasks {
        note(
            &task.bounds.parent,
            true,
            // A run that had read anything may have chosen what it is called.
            "a sub-agent of yours was stopped before it had answered (killed)".to_owned(),
        )?;
        let sql = format!(
            "UPDATE inbox SET told_in = 'stopped' WHERE {RUN_OF_TASK} = ?1 AND told_in IS NULL
               AND NOT (envelope ->> '$.task.waits') AND state IN ('done', 'dead') AND coalesce(reason, '') != 'stopped'
             RETURNING envelope, state, reason, result, tainted",
        );
        let untold: Vec<Subagent> = connection.all(&sql, [&task.run_id], subagent)?;
        for one in untold {
            let label = one
                .envelope
                .task
                .as_ref()
                .map(|task| task.label.clone())
                .unwrap_or_default();
            let ending = one.ending.map_or("ended", Ending::as_str);
            let words = crate::text::shorten(&one.words, NOTED);
            note(
                &task.bounds.parent,
                !one.tainted,
                format!("your sub-agent {label:?} had ended ({ending}): {words}"),
            )?;
        }
    }
    Ok(())
}
