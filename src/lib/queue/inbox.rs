//! Accepted inputs: accepting them, starting and finishing their turns.

use rusqlite::{Connection, Row};

use super::after_takeover;
use super::approvals;
use super::context_notes;
use super::context_notes::{Heard, Note};
use super::continued_conversations;
use super::crash_count::Deaths;
use super::dedup::remember;
use super::outbox;
use super::outbox::{NewPart, Part};
use super::subagents;
use super::subagents::Ending;
use super::suspend::Suspended;
use super::tasks;
use super::tasks::NewTask;
use super::{Store, json, routes, to_json};
use crate::control::replies::{Reply, STOPPED};
use crate::db;
use crate::db::Statements;
use crate::message::{Envelope, Route, SessionKey, Source, Task};
use crate::secret;

/// An input that was received and is not yet recorded, with its deduplication key.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// `tg:<bot>:<update_id>`, `ch:<channel>:…` or `cmd:<id>`.
    pub key: String,
    /// The digest of its content, stored with the key: the same key with another digest is another input.
    pub digest: Option<String>,
    /// The decision about it.
    pub verdict: Verdict,
}

impl Arrival {
    /// Returns an input that its key alone tells from others.
    pub fn new(key: impl Into<String>, verdict: Verdict) -> Self {
        Self {
            key: key.into(),
            digest: None,
            verdict,
        }
    }
}

/// What access decided.
#[derive(Debug, Clone)]
pub enum Verdict {
    /// It becomes inbox rows; one, unless an order means several sessions.
    Accept(Vec<Envelope>),
    /// It is kept for the next turn of its session and begins none.
    Note(SessionKey, Note),
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
    /// The run it was part of when the daemon ended: inputs of one run stay one turn.
    pub run_id: Option<String>,
    /// When it is woken, milliseconds since 1970 UTC; `None` = it is not suspended.
    pub wake_at: Option<i64>,
    /// What it waits for, or last waited for.
    pub suspended: Option<Suspended>,
    /// How often it died with the daemon.
    pub deaths: Deaths,
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
        /// The inputs it answers: those not finished or stopped meanwhile.
        inbox_ids: Vec<String>,
        /// What the conversation heard since its last turn.
        heard: Heard,
    },
    /// All of it was finished or stopped meanwhile.
    Gone,
}

/// What a stop means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// All that was accepted before this input.
    All { before: i64 },
    /// What was accepted before this input in a session, its sub-agents, and jobs that are heard in it.
    Session { before: i64, key: SessionKey },
    /// One message, and the sub-agents of its run: what else its conversation was told stays.
    Message { id: String },
}

impl Stop {
    /// Returns the input before which everything is meant.
    pub fn before(&self) -> i64 {
        match self {
            Self::All { before } | Self::Session { before, .. } => *before,
            Self::Message { .. } => i64::MAX,
        }
    }
}

/// An input that a stop ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Stopped {
    /// The input.
    pub inbox_id: String,
    /// Its session.
    pub session_key: SessionKey,
    /// Whether a caller reads its answer file.
    pub wants_reply: bool,
    /// What the sub-agent was sent for that it was.
    pub task: Option<Box<Task>>,
    /// Where somebody wrote it who waits there for an answer.
    pub chat: Option<Route>,
}

/// How a run ended for the queue.
#[derive(Debug, Clone)]
pub struct Finish {
    /// The run, for an input that never had one.
    pub run_id: String,
    /// The inputs it answered, at least one; what is said answers the first.
    pub inbox_ids: Vec<String>,
    /// Done or dead.
    pub ended: Ended,
    /// For the caller who waits; also kept for those who ask later.
    pub result: Option<Reply>,
    /// What is to be said.
    pub parts: Vec<NewPart>,
    /// The first part leaves as soon as it is stored, so that it is noted as being sent in the same transaction. Whoever
    /// does not send it after all says so ([`Aftermath::NotSent`](super::Aftermath::NotSent)).
    pub sends_at_once: bool,
    /// What another conversation is to know of it.
    pub note: Option<(SessionKey, Note)>,
    /// How the sub-agent ended that the first input is.
    pub subagent: Option<(Box<Task>, Ending)>,
    /// Whether untrusted text may be in its answer.
    pub tainted: bool,
    /// The plan that answers it.
    pub tasks: Vec<NewTask>,
}

/// What a finish leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Parts to be sent.
    pub parts: Vec<Part>,
    /// The input by which the parent of a sub-agent learns of its end.
    pub report: Option<Accepted>,
}

/// An input whose end is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// `pending`, `running`, `done` or `dead`.
    pub state: String,
    /// Why it was given up, or `stopped`.
    pub reason: Option<String>,
    /// Its result.
    pub result: Option<Reply>,
    /// Its run.
    pub run_id: Option<String>,
    /// When it was accepted, milliseconds since 1970 UTC.
    pub received_at: i64,
    /// When it ended, milliseconds since 1970 UTC.
    pub finished_at: Option<i64>,
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
                let take = |envelope: &Envelope| take_in(connection, envelope, now).transpose();
                for arrival in &arrivals {
                    if !remember(connection, &arrival.key, arrival.digest.as_deref(), now)? {
                        continue;
                    }
                    match &arrival.verdict {
                        Verdict::Accept(envelopes) => {
                            let new = envelopes.iter().filter_map(take);
                            accepted.extend(new.collect::<Result<Vec<_>, _>>()?);
                        }
                        Verdict::Note(session, note) => {
                            context_notes::insert(connection, session, note)?
                        }
                        Verdict::Refuse(Some(notice)) => notices.push(outbox::insert(
                            connection,
                            None,
                            None,
                            notice,
                            (1, 1),
                            now,
                        )?),
                        Verdict::Refuse(None) => {}
                    }
                }
                if let Some((bot, next)) = offset {
                    let sql =
                        "INSERT INTO offsets(bot, next_update_id, updated_at) VALUES (?1, ?2, ?3)
                         ON CONFLICT(bot) DO UPDATE SET next_update_id = ?2, updated_at = ?3";
                    connection.run(sql, (bot, next, now))?;
                }
                Ok((accepted, notices))
            })
            .await
    }

    /// Returns the id of the newest command that said the same since `since`, when it still runs, or `ended` ones
    /// are meant too.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn said_already(
        &self,
        digest: &str,
        since: i64,
        ended: bool,
    ) -> Result<Option<String>, db::Error> {
        let digest = digest.to_owned();
        let sql = "SELECT inbox.id FROM seen JOIN inbox ON inbox.id = substr(seen.key, 5)
             WHERE seen.digest = ?1 AND seen.at >= ?2 AND (?3 OR inbox.state IN ('pending', 'running'))
             ORDER BY seen.at DESC LIMIT 1";
        self.writer
            .read(move |connection| connection.first(sql, (digest, since, ended), |row| row.get(0)))
            .await
    }

    /// Returns the conversation of an input; `None` for what is not an input, or none any more.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn session_of(&self, id: &str) -> Result<Option<String>, db::Error> {
        let id = id.to_owned();
        let sql = "SELECT session_key FROM inbox WHERE id = ?1";
        self.writer
            .read(move |connection| connection.first(sql, [id], |row| row.get(0)))
            .await
    }

    /// Returns the conversations that have an input which is no command and is not answered yet.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn unanswered_sessions(&self) -> Result<Vec<SessionKey>, db::Error> {
        let sql = "SELECT DISTINCT session_key FROM inbox WHERE state IN ('pending', 'running')
            AND json_valid(envelope) AND envelope ->> '$.command' IS NULL";
        let key = |row: &rusqlite::Row| row.get(0).map(SessionKey);
        self.writer
            .read(move |connection| connection.all(sql, [], key))
            .await
    }

    /// Returns how far each of `ids` is; `None` for what is not an input, or none any more.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn progress_of(&self, ids: Vec<String>) -> Result<Vec<Option<Progress>>, db::Error> {
        self.writer
            .read(move |connection| {
                let sql = "SELECT state, reason, result, run_id, received_at, finished_at FROM inbox WHERE id = ?1";
                ids.iter().map(|id| connection.first(sql, [id], progress)).collect()
            })
            .await
    }

    /// Returns true when the very words `plain` went out for an input of `source`, whose results are kept, since `since`.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn said_before(
        &self,
        source: Source,
        plain: Vec<String>,
        since: i64,
    ) -> Result<bool, db::Error> {
        self.writer
            .read(move |connection| {
                let mut query = connection.prepare_cached(
                    "SELECT (SELECT json_group_array(o.plain) FROM (SELECT plain FROM outbox WHERE inbox_id = i.id ORDER BY id) o)
                     FROM inbox i WHERE i.state = 'done' AND i.result IS NOT NULL AND i.finished_at >= ?1 AND i.envelope ->> '$.source' = ?2",
                )?;
                let mut rows = query.query((since, source.as_str()))?;
                while let Some(row) = rows.next()? {
                    let said: Vec<String> = json(row, 0)?;
                    if said == plain {
                        return Ok(true);
                    }
                }
                Ok(false)
            })
            .await
    }

    /// Records that the turn of `inbox_ids` in `session` starts, as `run_id` if it is the first time. A power cut may take the start
    /// of a turn of one message back, a crash of the process may not.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn start_run(
        &self,
        run_id: &str,
        session: &SessionKey,
        inbox_ids: &[String],
    ) -> Result<Started, db::Error> {
        let (run_id, inbox_ids) = (run_id.to_owned(), inbox_ids.to_vec());
        let session = session.clone();
        // That several are one turn must not be forgotten: the transcript has them under the id of the first.
        let durable = inbox_ids.len() > 1;
        self.writer
            .write_if(durable, move |connection| {
                let start = "UPDATE inbox SET state = 'running', run_id = coalesce(run_id, ?1), attempts = attempts + 1, wake_at = NULL, idle = 0
                     WHERE id = ?2 AND state IN ('pending', 'running') RETURNING run_id";
                let mut run: Option<String> = None;
                let mut started = Vec::with_capacity(inbox_ids.len());
                for id in inbox_ids {
                    let named = connection.first(start, (run.as_ref().unwrap_or(&run_id), &id), |row| row.get(0))?;
                    if let Some(named) = named {
                        run.get_or_insert(named);
                        started.push(id);
                    }
                }
                let Some(run_id) = run else { return Ok(Started::Gone) };
                let heard = context_notes::of(connection, &session)?;
                Ok(Started::Run { run_id, inbox_ids: started, heard })
            })
            .await
    }

    /// Ends what is meant and not answered yet, waiting or running; commands stay. Anyone who waits for an answer is
    /// told "stopped". What a run said until then counts as untrusted, see [`Self::was_clean`].
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn stop(&self, stop: Stop, now: i64) -> Result<Vec<Stopped>, db::Error> {
        let message = format!(
            "(id = ?2 OR {} = (SELECT run_id FROM inbox WHERE id = ?2 AND state IN ('pending', 'running')))",
            subagents::RUN_OF_TASK
        );
        let (which, name) = match &stop {
            Stop::All { .. } => ("?2 IS NULL", None),
            Stop::Session { key, .. } => (
                "(session_key = ?2 OR envelope ->> '$.task.bounds.parent' = ?2 OR envelope ->> '$.heard_in' = ?2)",
                Some(key.0.clone()),
            ),
            Stop::Message { id } => (message.as_str(), Some(id.clone())),
        };
        let sql = format!(
            "UPDATE inbox SET state = 'done', reason = 'stopped', finished_at = ?3, tainted = run_id IS NOT NULL
             WHERE seq < ?1 AND state IN ('pending', 'running') AND {which}
               AND (envelope ->> '$.command' IS NULL OR envelope ->> '$.command.name' = 'compact'
                    OR (envelope ->> '$.command.name' = 'new'
                        AND (state = 'running' OR envelope ->> '$.command.words' IS NOT NULL)))
             RETURNING id, envelope ->> '$.wants_reply', envelope ->> '$.task', session_key,
               envelope -> '$.source', envelope ->> '$.route'"
        );
        self.writer
            .write(move |connection| {
                let stopped: Vec<Stopped> =
                    connection.all(&sql, (stop.before(), &name, now), |row| {
                        let source: Option<Source> = json(row, 4)?;
                        let route: Option<Route> = json(row, 5)?;
                        Ok(Stopped {
                            inbox_id: row.get(0)?,
                            session_key: SessionKey(row.get(3)?),
                            wants_reply: row.get(1)?,
                            task: json(row, 2)?,
                            chat: route.filter(|_| source.is_some_and(Source::is_chat)),
                        })
                    })?;
                let tasks: Vec<&Task> = stopped
                    .iter()
                    .filter_map(|one| one.task.as_deref())
                    .collect();
                subagents::tell_stopped(connection, &tasks, now)?;
                stopped
                    .iter()
                    .try_for_each(|one| approvals::take_back(connection, &one.inbox_id, now))?;
                if !stopped.is_empty() || !matches!(stop, Stop::Message { .. }) {
                    tasks::stop(connection, &stop, now)?;
                }
                for one in stopped.iter().filter(|one| one.wants_reply) {
                    let sql = "UPDATE inbox SET result = ?1 WHERE id = ?2";
                    connection.run(
                        sql,
                        (
                            to_json(&Reply::error(&one.inbox_id, STOPPED))?,
                            &one.inbox_id,
                        ),
                    )?;
                }
                Ok(stopped)
            })
            .await
    }

    /// Ends inputs whose turn runs and gives way to the next message of the same person. What it said until then counts as
    /// untrusted, see [`Self::was_clean`].
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn interrupt(&self, inbox_ids: &[String], now: i64) -> Result<(), db::Error> {
        let inbox_ids = inbox_ids.to_vec();
        self.writer
            .write(move |connection| {
                let end = "UPDATE inbox SET state = 'done', reason = 'interrupted', finished_at = ?2, tainted = run_id IS NOT NULL
                     WHERE id = ?1 AND state IN ('pending', 'running') RETURNING run_id";
                inbox_ids.iter().try_for_each(|id| {
                    approvals::take_back(connection, id, now)?;
                    let run: Option<Option<String>> = connection.first(end, (id, now), |row| row.get(0))?;
                    run.flatten().map_or(Ok(()), |run| subagents::wait_no_more(connection, &run))
                })
            })
            .await
    }

    /// Notes that the run of inputs that were stopped or interrupted had read nothing untrusted.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn was_clean(&self, inbox_ids: &[String]) -> Result<(), db::Error> {
        let inbox_ids = inbox_ids.to_vec();
        self.writer
            .write(move |connection| {
                let clean = "UPDATE inbox SET tainted = 0 WHERE id = ?1 AND reason IN ('stopped', 'interrupted')";
                inbox_ids
                    .iter()
                    .try_for_each(|id| connection.run(clean, [id]))
            })
            .await
    }

    /// Takes back the attempt of a run that the daemon itself broke off at its end: a restart that
    /// was asked for is not a death.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn release_run(&self, inbox_ids: &[String]) -> Result<(), db::Error> {
        let inbox_ids = inbox_ids.to_vec();
        self.writer
            .write(move |connection| {
                let release = "UPDATE inbox SET state = 'pending', attempts = max(attempts - 1, 0)
                     WHERE id = ?1 AND state = 'running'";
                inbox_ids
                    .iter()
                    .try_for_each(|id| connection.run(release, [id]))
            })
            .await
    }

    /// Replaces inputs, so that nothing of the old ones is left in the pages of the file.
    ///
    /// # Errors
    /// See [`db::Error`]; nothing is then replaced.
    pub async fn rewrite(&self, envelopes: Vec<Envelope>) -> Result<(), db::Error> {
        self.writer
            .write(move |connection| {
                connection.execute_batch("PRAGMA secure_delete=ON")?;
                let rewritten = envelopes.iter().try_for_each(|envelope| {
                    let sql = "UPDATE inbox SET envelope = ?2 WHERE id = ?1";
                    connection.run(sql, (&envelope.id, to_json(envelope)?))
                });
                connection.execute_batch("PRAGMA secure_delete=OFF")?;
                rewritten
            })
            .await
    }

    /// Marks the inputs answered and stores what is to be said, in one transaction. `None` when
    /// all of them were stopped meanwhile: then nothing is to be said.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn finish(&self, finish: Finish, now: i64) -> Result<Option<Finished>, db::Error> {
        self.writer
            .write(move |connection| {
                let (state, reason) = match &finish.ended {
                    Ended::Done => {
                        let ending = finish.subagent.as_ref().map(|(_, ending)| *ending).filter(|ending| *ending != Ending::Ok);
                        ("done", ending.map(Ending::as_str))
                    }
                    Ended::Dead(reason) => ("dead", Some(reason.as_str())),
                };
                let result = finish.result.as_ref().map(to_json).transpose()?;
                let end = "UPDATE inbox SET state = ?1, reason = ?2, result = ?3, finished_at = ?4, run_id = coalesce(run_id, ?5), tainted = ?7, wake_at = NULL
                     WHERE id = ?6 AND state IN ('pending', 'running') RETURNING run_id";
                let mut run: Option<String> = None;
                for id in &finish.inbox_ids {
                    approvals::take_back(connection, id, now)?;
                    let ended = connection.first(end, (state, reason, &result, now, &finish.run_id, id, finish.tainted), |row| row.get(0))?;
                    run = run.or(ended);
                }
                let (Some(run_id), Some(first)) = (run, finish.inbox_ids.first()) else { return Ok(None) };
                subagents::wait_no_more(connection, &run_id)?;
                if let Some((session, note)) = &finish.note {
                    context_notes::insert(connection, session, note)?;
                }
                let count = i64::try_from(finish.parts.len()).unwrap_or(i64::MAX);
                let parts = (1..)
                    .zip(&finish.parts)
                    .map(|(number, part)| outbox::insert(connection, Some(first), Some(&run_id), part, (number, count), now));
                let mut parts = parts.collect::<rusqlite::Result<Vec<Part>>>()?;
                // A copy of what may have been said before is marked, and begins with a doubt of its own.
                if let Some(part) = parts.first_mut().filter(|part| finish.sends_at_once && part.unknowns == 0) {
                    outbox::sending(connection, part.id, now)?;
                    (part.is_claimed, part.sending_at) = (true, Some(now));
                }
                if !finish.tasks.is_empty() {
                    tasks::insert(connection, (first, &run_id), &finish.tasks, now)?;
                }
                let of_subagent = finish.subagent.as_ref().map(|(task, _)| subagents::tell(connection, first, task, now));
                Ok(Some(Finished { parts, report: of_subagent.transpose()?.flatten() }))
            })
            .await
    }
}

/// Returns the newest row and when it was received; zeros when there is none.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let sql = "SELECT seq, received_at FROM inbox ORDER BY seq DESC LIMIT 1";
    let newest = connection.first(sql, [], |row| Ok((row.get(0)?, row.get(1)?)));
    newest.map(Option::unwrap_or_default)
}

/// Inserts an envelope, before which the plan of its conversation makes way; `None` when it is there already.
fn take_in(
    connection: &Connection,
    envelope: &Envelope,
    now: i64,
) -> Result<Option<Accepted>, rusqlite::Error> {
    let place = envelope.session_key.clone();
    let mut envelope = envelope.clone();
    continued_conversations::place(connection, &mut envelope)?;
    after_takeover::mark(connection, &mut envelope)?;
    if envelope.edited && !is_changed(connection, &place, &envelope)? {
        return Ok(None);
    }
    let new = insert(connection, &envelope)?;
    routes::note(connection, &place, &envelope)?;
    if new.is_some() {
        tasks::cancel_open_tasks(connection, &envelope, now)?;
    }
    Ok(new)
}

pub(super) fn insert(
    connection: &Connection,
    envelope: &Envelope,
) -> rusqlite::Result<Option<Accepted>> {
    let sql = "INSERT OR IGNORE INTO inbox(id, session_key, envelope, received_at) VALUES (?1, ?2, ?3, ?4)";
    let rows = connection.change(
        sql,
        (
            &envelope.id,
            &envelope.session_key.0,
            to_json(envelope)?,
            envelope.received_at,
        ),
    )?;
    let seq = connection.last_insert_rowid();
    Ok((rows == 1).then(|| Accepted {
        seq,
        attempts: 0,
        run_id: None,
        wake_at: None,
        suspended: None,
        deaths: Deaths::default(),
        envelope: envelope.clone(),
    }))
}

/// Returns false for an edit that says what was said before: channels also report changes that nobody
/// reads. It may have been said before the conversation of its `place` continued in another one.
fn is_changed(
    connection: &Connection,
    place: &SessionKey,
    envelope: &Envelope,
) -> rusqlite::Result<bool> {
    let sql = "SELECT envelope FROM inbox WHERE session_key IN (?1, ?4) AND envelope ->> '$.reply_to' = ?2
           AND envelope ->> '$.route.chat' = ?3 ORDER BY seq DESC LIMIT 1";
    let before: Option<Envelope> = connection.first(
        sql,
        (
            &envelope.session_key.0,
            &envelope.reply_to,
            envelope.route.as_ref().map(|route| &route.chat.chat),
            &place.0,
        ),
        |row| json(row, 0),
    )?;
    let is_same = |before: &Envelope| {
        before.kind == envelope.kind
            && (before.text == envelope.text
                || secret::withhold(&envelope.text).is_some_and(|kept| before.text == kept))
    };
    Ok(!before.as_ref().is_some_and(is_same))
}

/// What is not answered yet.
const OPEN: &str = "SELECT seq, attempts, run_id, envelope, wake_at, suspended, deaths, deaths_alone, first_death_at FROM inbox
    WHERE state IN ('pending', 'running') ORDER BY seq";

pub(super) fn open(connection: &Connection) -> rusqlite::Result<Vec<Accepted>> {
    connection.all(OPEN, [], accepted)
}

/// Makes dead letters of open rows that cannot be read, so that they keep nothing else from being answered. Returns what to
/// say of each.
pub(super) fn bury_unreadable(connection: &Connection, now: i64) -> rusqlite::Result<Vec<String>> {
    let unreadable = super::unreadable(connection, OPEN, |row| accepted(row).map(drop))?;
    let mut told = Vec::new();
    for (seq, why) in unreadable {
        let id: String = connection.query_row(
            "UPDATE inbox SET state = 'dead', finished_at = ?2, reason = ?3, suspended = NULL, wake_at = NULL
             WHERE seq = ?1 RETURNING id",
            (seq, now, format!("its row in queue.db cannot be read: {why}")),
            |row| row.get(0),
        )?;
        told.push(format!(
            "the message {id} cannot be read in queue.db and will not be answered: {why}"
        ));
    }
    if !told.is_empty() {
        // What the index has of a row that was damaged on disk leads nowhere once the row goes.
        connection.execute_batch("REINDEX inbox")?;
    }
    Ok(told)
}

fn progress(row: &Row<'_>) -> rusqlite::Result<Progress> {
    Ok(Progress {
        state: row.get(0)?,
        reason: row.get(1)?,
        result: json(row, 2)?,
        run_id: row.get(3)?,
        received_at: row.get(4)?,
        finished_at: row.get(5)?,
    })
}

fn accepted(row: &Row<'_>) -> rusqlite::Result<Accepted> {
    Ok(Accepted {
        seq: row.get(0)?,
        attempts: row.get(1)?,
        run_id: row.get(2)?,
        wake_at: row.get(4)?,
        suspended: json(row, 5)?,
        deaths: Deaths {
            count: row.get(6)?,
            alone: row.get(7)?,
            first_at: row.get(8)?,
        },
        envelope: json(row, 3)?,
    })
}
