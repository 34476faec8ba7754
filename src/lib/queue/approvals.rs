//! Approvals as rows: requests to the owner, and the decisions.
//!
//! A request is bound to one call of one input and to the digest of everything that the call would use. An approval is used
//! once ([`Store::use_up`]), before it expires; anything else is another request.

use std::path::Path;

use rusqlite::{Connection, Row};

use super::{NewPart, Part};
use super::{Store, outbox, tasks};
use crate::db;
use crate::db::Statements;
use crate::message::{Approval, Route, Wanted, approval_reply};
use crate::text::sha256_hex;

/// How long the owner may take, milliseconds (specification §22).
pub const PATIENCE_MS: i64 = 15 * 60 * 1000;
/// How the keys of what is asked outside the turns begin: no turn waits for it.
pub const BESIDE_TURNS: &str = "skill:";
/// How late we may hear that a question arrived, and how far the clock of a channel may be behind ours then, milliseconds.
const SKEW_MS: i64 = 5_000;
/// What the one who wrote a word at ?1, in a chat or not (?2), can have been shown: asked before it, and arrived. The shell and
/// HTTP show what waits without sending it; of a channel the times are whole seconds.
const SHOWN: &str = "CASE
    WHEN NOT ?2 THEN created_at <= ?1
    WHEN created_at / 1000 > ?1 / 1000 THEN 0
    WHEN EXISTS (SELECT 1 FROM outbox WHERE asks = batch) THEN EXISTS (
      SELECT 1 FROM outbox
      WHERE asks = batch AND message_id IS NOT NULL AND outbox.sent_at / 1000 <= (?1 + ?3) / 1000)
    ELSE 1
  END";
/// The state of a request in words for people and models: "withdrawn" with an answer means that the owner wrote something else.
pub(super) const STATE: &str =
    "CASE WHEN state = 'withdrawn' AND answer IS NOT NULL THEN 'unanswered' ELSE state END";
/// Nobody reads a question and answers it in less, milliseconds: a word so early is about what was said before.
const READING_MS: i64 = 1_000;
/// How long a yes is good for: others of its message may be answered later, and a place be free later.
const GOOD_FOR_MS: i64 = 2 * PATIENCE_MS;
/// Grants of conversations that were not renewed so long ago are forgotten.
const KEEP_GRANTS_MS: i64 = 30 * 24 * 3_600_000;

/// Something the owner is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What it goes by.
    pub id: String,
    /// What those of one message go by together; one that is alone goes by its id.
    pub batch: String,
    /// The conversation.
    pub session_key: String,
    /// Its session.
    pub session_id: String,
    /// The input that led to it.
    pub inbox_id: String,
    /// The run.
    pub run_id: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What would be done.
    pub question: String,
    /// Why it is asked.
    pub why: String,
    /// The digest of everything the call would use.
    pub bound: String,
    /// What may be allowed for the rest of the conversation or always: in words, and its digest.
    pub rule: Option<(String, String)>,
    /// What it wants, when it is answered with words.
    pub wanted: Option<Wanted>,
    /// When it was asked, milliseconds since 1970 UTC.
    pub created_at: i64,
    /// When it counts as denied.
    pub expires_at: i64,
}

/// When and where a word of the owner was written: one that names no request is about what they had been shown then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// When, milliseconds since 1970 UTC, by the clock of the channel where that is known.
    pub at: i64,
    /// Whether in a chat, where a question has to arrive first.
    pub in_chat: bool,
}

/// The state of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has answered.
    Pending,
    /// Yes; not used yet. Carries the words of the owner, when they were wanted.
    Approved(Option<String>),
    /// No. Carries the words of the owner, if there are any.
    Denied(Option<String>),
    /// The owner wrote something else.
    Unanswered,
    /// Its yes is used, by a call that a restart may have cut off.
    Used,
    /// Nobody answered in time, or it was withdrawn.
    Over,
}

/// What a word of the owner did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// It was taken, for these requests.
    Taken(Vec<Request>),
    /// No request goes by that id.
    Unknown,
    /// It was answered, is over, or its call was granted for the conversation. Carries how it ended.
    Over(String),
    /// This one may only be allowed once.
    OnlyOnce,
    /// It is somebody else's wish: what is always allowed is the owner's alone.
    NotAlways,
    /// It is not a question that is answered with words.
    NoWords,
    /// No id was named, and it cannot be told which is meant. Carries those that wait.
    Several(Vec<Request>),
}

/// A plain yes or no that stands in a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainWord {
    /// The input that it is.
    pub id: String,
    /// The channel's id of its message, where those of a chat count up.
    pub number: Option<i64>,
    /// The message that it answers.
    pub quoted: Option<String>,
    /// When it was written by the channel's clock, milliseconds since 1970 UTC.
    pub at: i64,
    /// When we took it, by ours.
    pub received_at: i64,
}

impl PlainWord {
    /// Returns whether it came after the message `shown` that was sent at `sent_at` by our clock, and after somebody can
    /// have read that. Where the ids of a chat do not count up the channel's clock is believed.
    fn is_after(&self, shown: &str, sent_at: i64) -> bool {
        let is_later = match (self.number, shown.parse::<i64>()) {
            (Some(own), Ok(shown)) => own > shown,
            _ => sent_at <= self.at + SKEW_MS,
        };
        is_later && sent_at + READING_MS <= self.received_at
    }
}

/// A question that the owner was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Whether all parts of its message arrived: nobody says yes to what they have not read whole.
    pub all_parts_delivered: bool,
    /// What it asks.
    pub requests: Vec<Request>,
}

/// A message that asked the owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The channel's name.
    pub channel: String,
    /// The chat.
    pub chat: String,
    /// The channel's id of the message.
    pub message_id: String,
    /// Its words: the last part's, when there are several.
    pub plain: String,
}

/// Requests that were put down.
#[derive(Debug)]
pub struct PutDown {
    /// Which of the calls need no word: they were allowed for the conversation.
    pub granted: Vec<bool>,
    /// The ids of the requests of the others, in order.
    pub ids: Vec<String>,
    /// What is to be sent to the owner; none when it was sent before a restart.
    pub parts: Vec<Part>,
}

impl Store {
    /// Puts requests of one step down with the message that asks for them, in one transaction. A request
    /// that is there from before a restart stays as it is, and nobody is asked twice.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn ask<F>(&self, requests: Vec<Request>, message: F) -> Result<PutDown, db::Error>
    where
        F: FnOnce(&[Request]) -> Vec<NewPart> + Send + 'static,
    {
        self.writer
            .write(move |connection| {
                let mut put = PutDown {
                    granted: Vec::new(),
                    ids: Vec::new(),
                    parts: Vec::new(),
                };
                let mut new = Vec::new();
                for request in requests {
                    let granted = match &request.rule {
                        Some((_, digest)) => is_granted(connection, &request, digest)?,
                        None => false,
                    };
                    put.granted.push(granted);
                    if granted {
                        continue;
                    }
                    match known(connection, &request)? {
                        Some(id) => put.ids.push(id),
                        None => {
                            put.ids.push(request.id.clone());
                            new.push(request);
                        }
                    }
                }
                if let [alone] = new.as_mut_slice() {
                    alone.batch.clone_from(&alone.id);
                }
                new.iter()
                    .try_for_each(|request| insert(connection, request))?;
                // The rest of a plan does not wait for the answer.
                new.iter().try_for_each(|request| {
                    tasks::unblock(connection, &request.run_id, request.created_at)
                })?;
                if let Some(first) = new.first() {
                    let parts = message(&new);
                    let count = i64::try_from(parts.len()).unwrap_or(i64::MAX);
                    for (number, part) in (1..).zip(&parts) {
                        put.parts.push(outbox::insert(
                            connection,
                            None,
                            Some(&first.run_id),
                            part,
                            (number, count),
                            first.created_at,
                        )?);
                    }
                }
                Ok(put)
            })
            .await
    }

    /// Returns about how many inputs of a conversation, except for this one, something was asked since then.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn asked_since(
        &self,
        session_key: String,
        but: String,
        since: i64,
    ) -> Result<i64, db::Error> {
        let sql = "SELECT count(DISTINCT batch) FROM approvals WHERE (session_key = ?1 OR substr(session_key, 1, length(?1) + 7) = ?1 || ':topic:') AND inbox_id != ?2 AND created_at >= ?3";
        self.writer
            .read(move |connection| {
                connection.one(sql, (session_key, but, since), |row| row.get(0))
            })
            .await
    }

    /// Returns the state of each request at `now`.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn standing(&self, ids: Vec<String>, now: i64) -> Result<Vec<Standing>, db::Error> {
        self.writer
            .read(move |connection| {
                let query = &format!(
                    "SELECT {STATE}, answer, expires_at, decided_at FROM approvals WHERE id = ?1"
                );
                let one = |id: &String| {
                    let row: Option<(String, Option<String>, i64, Option<i64>)> = connection
                        .first(query, [id], |row| {
                            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                        })?;
                    Ok(match row {
                        Some((state, _, expires_at, _))
                            if state == "pending" && now < expires_at =>
                        {
                            Standing::Pending
                        }
                        Some((state, answer, _, Some(at)))
                            if state == "approved" && now < at + GOOD_FOR_MS =>
                        {
                            Standing::Approved(answer)
                        }
                        Some((state, answer, ..)) if state == "denied" => Standing::Denied(answer),
                        Some((state, ..)) if state == "used" => Standing::Used,
                        Some((state, ..)) if state == "unanswered" => Standing::Unanswered,
                        _ => Standing::Over,
                    })
                };
                ids.iter().map(one).collect()
            })
            .await
    }

    /// Takes the owner's word about a request, or about all of a batch that are still open.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn decide(
        &self,
        id: String,
        verdict: Approval,
        why: Option<String>,
        written: Written,
        now: i64,
    ) -> Result<Decided, db::Error> {
        self.writer
            .write(move |connection| {
                let all = if id == approval_reply::ONLY {
                    match only(connection, verdict, written, now)? {
                        Ok(all) => all,
                        Err(several) => return Ok(Decided::Several(several)),
                    }
                } else {
                    of_id(connection, &id)?
                };
                if all.is_empty() {
                    return Ok(Decided::Unknown);
                }
                let is_open = |(request, state): &&(Request, String)| state == "pending" && now < request.expires_at;
                let open: Vec<Request> = all.iter().filter(is_open).map(|(request, _)| request.clone()).collect();
                if open.is_empty() {
                    let state = all.first().map(|(_, state)| state.as_str()).unwrap_or_default();
                    // What is open and none of `open` is out of its time.
                    let state = if state == "pending" { "expired" } else { state };
                    return Ok(Decided::Over(ending(state).to_owned()));
                }
                if matches!(verdict, Approval::Session | Approval::Always) && !open.iter().all(|request| request.rule.is_some()) {
                    return Ok(Decided::OnlyOnce);
                }
                for request in open.iter().filter(|_| verdict == Approval::Always) {
                    if let Some(Some(_)) = guest(connection, &request.inbox_id)? {
                        return Ok(Decided::NotAlways);
                    }
                }
                if verdict == Approval::Approve && why.is_some() && !open.iter().all(|request| request.wanted.is_some()) {
                    return Ok(Decided::NoWords);
                }
                let state = if verdict == Approval::Deny { "denied" } else { "approved" };
                for request in &open {
                    let sql = "UPDATE approvals SET state = ?2, answer = ?3, decided_at = ?4 WHERE id = ?1";
                    connection.run(sql, (&request.id, state, &why, now))?;
                    if let (Approval::Session, Some((_, digest))) = (verdict, &request.rule)
                        && let Some(bound) = granted_to(connection, &request.inbox_id, digest)?
                    {
                        let sql = "INSERT OR REPLACE INTO grants(session_id, bound, at) VALUES (?1, ?2, ?3)";
                        connection.run(sql, (&request.session_id, bound, now))?;
                    }
                }
                Ok(Decided::Taken(open))
            })
            .await
    }

    /// Takes back what is open of a conversation, because its owner wrote something else, and returns it.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn leave_unanswered(
        &self,
        session_key: String,
        now: i64,
    ) -> Result<Vec<Request>, db::Error> {
        let sql = "UPDATE approvals SET state = 'withdrawn', answer = 'a message', decided_at = ?2
             WHERE session_key = ?1 AND state = 'pending' AND expires_at > ?2 RETURNING *";
        self.writer
            .write(move |connection| connection.all(sql, (session_key, now), request))
            .await
    }

    /// Returns the question above `word` in a chat, with what of it was undecided then: the one in the message that it
    /// answers, else the last message that was sent there before it. `None` where the last was anything else, or is about to
    /// be, or where the question's conversation heard something else since.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn question_above(
        &self,
        word: PlainWord,
        route: Route,
    ) -> Result<Option<Shown>, db::Error> {
        let recent = "SELECT 1 FROM approvals WHERE state = 'pending' OR decided_at >= ?1 LIMIT 1";
        let last = "SELECT id, message_id, asks, sent_at FROM outbox
             WHERE channel = ?1 AND chat = ?2 AND topic IS ?3 AND state != 'dead' AND reaction IS NULL
               AND (?4 IS NULL OR message_id = ?4)
             ORDER BY id DESC LIMIT 1";
        let undecided = "SELECT * FROM approvals
             WHERE batch = ?1 AND (state = 'pending' OR decided_at >= ?2) ORDER BY rowid";
        let heard_since = "SELECT 1 FROM approvals a JOIN inbox i ON i.session_key = a.session_key
             WHERE a.batch = ?1 AND a.state = 'pending' AND i.received_at > ?2 AND i.id != ?3 LIMIT 1";
        self.writer
            .read(move |connection| {
                if connection.first(recent, [word.at], |_| Ok(()))?.is_none() {
                    return Ok(None);
                }
                let place = (
                    &route.channel,
                    &route.chat.chat,
                    &route.chat.topic,
                    &word.quoted,
                );
                type Last = (i64, Option<String>, Option<String>, Option<i64>);
                let last: Option<Last> = connection.first(last, place, |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?;
                let Some((part, Some(shown), Some(batch), Some(sent_at))) = last else {
                    return Ok(None);
                };
                let heard = (&batch, sent_at, &word.id);
                let is_clear = word.quoted.is_some()
                    || word.is_after(&shown, sent_at)
                        && connection.first(heard_since, heard, |_| Ok(()))?.is_none();
                if !is_clear {
                    return Ok(None);
                }
                Ok(Some(Shown {
                    all_parts_delivered: outbox::all_parts_delivered(connection, part)?,
                    requests: connection.all(undecided, (&batch, word.at), request)?,
                }))
            })
            .await
    }

    /// Uses the yes to `id` up; false when there is none any more. From here on the call may have happened. Words that
    /// came with it are kept no longer.
    ///
    /// # Errors
    /// See [`db::Error`]; the call must then not be made.
    pub async fn use_up(&self, id: String, now: i64) -> Result<bool, db::Error> {
        self.writer
            .write(move |connection| {
                let sql = "UPDATE approvals SET state = 'used', answer = NULL WHERE id = ?1 AND state = 'approved' AND decided_at > ?2";
                connection.change(sql, (id, now - GOOD_FOR_MS)).map(|rows| rows == 1)
            })
            .await
    }

    /// Takes back what is open of an input whose turn is over, or whose time is, and returns it.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn withdraw(&self, inbox_id: String, now: i64) -> Result<Vec<Request>, db::Error> {
        let sql = "UPDATE approvals SET state = CASE WHEN expires_at <= ?2 THEN 'expired' ELSE 'withdrawn' END, decided_at = ?2
             WHERE inbox_id = ?1 AND state = 'pending' RETURNING *";
        self.writer
            .write(move |connection| connection.all(sql, (inbox_id, now), request))
            .await
    }

    /// Returns where the message is that asked for a batch; `None` when it was not sent.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn where_asked(&self, batch: String) -> Result<Option<Asked>, db::Error> {
        let sql = "SELECT channel, chat, message_id, plain FROM outbox WHERE asks = ?1 AND message_id IS NOT NULL";
        self.writer
            .read(move |connection| {
                connection.first(sql, [batch], |row| {
                    Ok(Asked {
                        channel: row.get(0)?,
                        chat: row.get(1)?,
                        message_id: row.get(2)?,
                        plain: row.get(3)?,
                    })
                })
            })
            .await
    }

    /// Returns the requests of a batch in order, each with its state, see [`ending`].
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn batch(&self, batch: String) -> Result<Vec<(Request, String)>, db::Error> {
        self.writer
            .read(move |connection| of_id(connection, &batch))
            .await
    }
}

/// Takes back what is open of an input that is over.
pub(super) fn take_back(connection: &Connection, inbox_id: &str, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE approvals SET state = 'withdrawn', decided_at = ?2 WHERE inbox_id = ?1 AND state = 'pending'";
    connection.run(sql, (inbox_id, now))
}

/// Forgets requests that ended before `before`, and old grants.
pub(super) fn prune(connection: &Connection, before: i64, now: i64) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM approvals WHERE created_at < ?1", [before])?;
    connection
        .execute("DELETE FROM grants WHERE at < ?1", [now - KEEP_GRANTS_MS])
        .map(drop)
}

/// Returns what is open at `now`, oldest first, from the file at `path`.
///
/// # Errors
/// See [`db::Error`].
pub fn approvals(path: &Path, now: i64) -> Result<Vec<Request>, db::Error> {
    db::read(path, |connection| {
        // The file may be of a release before it asked anybody.
        if !connection.table_exists(None, "approvals")? {
            return Ok(Vec::new());
        }
        let sql = "SELECT * FROM approvals WHERE state = 'pending' AND expires_at > ?1 ORDER BY created_at, rowid";
        connection.all(sql, [now], request)
    })
    .map(Option::unwrap_or_default)
}

/// Returns how a request ended, in words.
pub fn ending(state: &str) -> &'static str {
    match state {
        "approved" | "used" => "approved",
        "denied" => "denied",
        "expired" => "nobody answered in time",
        "unanswered" => "not answered: you wrote something else",
        "withdrawn" => "taken back: its turn is over",
        _ => "open",
    }
}

/// Returns the guest who sent the message `inbox_id`, or none for the owner; `None` where nobody knows who did.
fn guest(connection: &Connection, inbox_id: &str) -> rusqlite::Result<Option<Option<String>>> {
    let sql = "SELECT envelope ->> '$.from_owner', envelope ->> '$.sender.id' FROM inbox WHERE id = ?1 AND json_valid(envelope)";
    connection.first(sql, [inbox_id], |row| {
        let (from_owner, id): (bool, String) = (row.get(0)?, row.get(1)?);
        Ok((!from_owner).then_some(id))
    })
}

/// Returns what a grant of a rule is bound to, which is for those alone who asked: the owner, or this guest; `None` where
/// nobody knows who did.
fn granted_to(
    connection: &Connection,
    inbox_id: &str,
    digest: &str,
) -> rusqlite::Result<Option<String>> {
    let asker = guest(connection, inbox_id)?;
    let bound = |asker| sha256_hex(serde_json::json!([asker, digest]).to_string().as_bytes());
    Ok(asker.map(bound))
}

fn is_granted(connection: &Connection, request: &Request, digest: &str) -> rusqlite::Result<bool> {
    let Some(bound) = granted_to(connection, &request.inbox_id, digest)? else {
        return Ok(false);
    };
    let sql = "SELECT 1 FROM grants WHERE session_id = ?1 AND bound = ?2";
    connection
        .first(sql, (&request.session_id, bound), |_| Ok(()))
        .map(|found| found.is_some())
}

fn known(connection: &Connection, request: &Request) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT id FROM approvals WHERE inbox_id = ?1 AND call_id = ?2 AND bound = ?3";
    connection.first(
        sql,
        (&request.inbox_id, &request.call_id, &request.bound),
        |row| row.get(0),
    )
}

fn insert(connection: &Connection, request: &Request) -> rusqlite::Result<()> {
    let sql = "INSERT INTO approvals(id, batch, session_key, session_id, inbox_id, run_id, call_id, tool, question, why, bound,
           repeatable, created_at, expires_at, rule, rule_bound, wanted)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    connection.run(
        sql,
        rusqlite::params![
            request.id,
            request.batch,
            request.session_key,
            request.session_id,
            request.inbox_id,
            request.run_id,
            request.call_id,
            request.tool,
            request.question,
            request.why,
            request.bound,
            request.rule.is_some(),
            request.created_at,
            request.expires_at,
            request.rule.as_ref().map(|(words, _)| words),
            request.rule.as_ref().map(|(_, digest)| digest),
            request
                .wanted
                .as_ref()
                .map(|wanted| serde_json::json!(wanted).to_string()),
        ],
    )
}

/// Returns the one request that is meant by a word that names none, or all that wait when it cannot be told. A
/// yes is for the last question that its writer was shown, a no may be for the only one that waits.
#[expect(clippy::type_complexity, reason = "two plain lists")]
fn only(
    connection: &Connection,
    verdict: Approval,
    written: Written,
    now: i64,
) -> rusqlite::Result<Result<Vec<(Request, String)>, Vec<Request>>> {
    let Written { at, in_chat } = written;
    let open = connection
        .prepare_cached(&format!(
            "SELECT *, {SHOWN} AS shown FROM approvals WHERE state = 'pending' AND expires_at > ?4 ORDER BY created_at, rowid"
        ))?
        .query_map((at, in_chat, SKEW_MS, now), |row| {
            Ok(((request(row)?, row.get("state")?), row.get("shown")?))
        })?
        .collect::<rusqlite::Result<Vec<((Request, String), bool)>>>()?;
    let waiting: Vec<Request> = open
        .iter()
        .map(|((request, _), _)| request.clone())
        .collect();
    let is_no = verdict == Approval::Deny;
    let could_be = open.into_iter().filter(|(_, is_shown)| is_no || *is_shown);
    // Of both kinds the one is meant that a turn waits for.
    let (beside, waited): (Vec<_>, Vec<_>) = could_be
        .map(|(one, _)| one)
        .partition(|(request, _)| request.session_key.starts_with(BESIDE_TURNS));
    let meant = if waited.is_empty() { beside } else { waited };
    let is_clear = match meant.as_slice() {
        [] => waiting.is_empty(),
        [(request, _)] => {
            is_no
                || last_shown(connection, written)?.as_ref() == Some(&request.batch)
                    && (!written.in_chat || arrived_whole(connection, &request.batch)?)
        }
        _ => false,
    };
    Ok(if is_clear { Ok(meant) } else { Err(waiting) })
}

/// Returns the batch of the last question that the one who wrote a word had been shown, also when it has ended since; except for
/// one that they knew to be answered.
fn last_shown(connection: &Connection, written: Written) -> rusqlite::Result<Option<String>> {
    let sql = format!(
        "SELECT batch FROM approvals
         WHERE {SHOWN} AND ({STATE} NOT IN ('approved', 'used', 'denied', 'unanswered') OR decided_at > ?1 - ?3)
         ORDER BY created_at DESC, rowid DESC LIMIT 1"
    );
    connection.first(&sql, (written.at, written.in_chat, SKEW_MS), |row| {
        row.get(0)
    })
}

/// Returns whether all parts of the message that asks arrived.
fn arrived_whole(connection: &Connection, batch: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT id FROM outbox WHERE asks = ?1";
    let part = connection.first(sql, [batch], |row| row.get(0))?;
    part.map_or(Ok(true), |part| {
        outbox::all_parts_delivered(connection, part)
    })
}

fn of_id(connection: &Connection, id: &str) -> rusqlite::Result<Vec<(Request, String)>> {
    let all = |which: &str| {
        let sql = format!(
            "SELECT *, {STATE} AS standing FROM approvals WHERE {which} = ?1 ORDER BY rowid"
        );
        connection.all(&sql, [id], |row| Ok((request(row)?, row.get("standing")?)))
    };
    let single: Vec<_> = all("id")?;
    if !single.is_empty() {
        return Ok(single);
    }
    all("batch")
}

/// Requests of before there were rules are bound to their own call.
fn rule(row: &Row<'_>) -> rusqlite::Result<Option<(String, String)>> {
    let has = |column: &str| row.as_ref().column_index(column).is_ok();
    if !has("rule") || !has("rule_bound") {
        return Ok(None);
    }
    let words: Option<String> = row.get("rule")?;
    let digest: Option<String> = row.get("rule_bound")?;
    Ok(words.zip(digest))
}

/// None wants words that is of before they could.
fn wanted(row: &Row<'_>) -> rusqlite::Result<Option<Wanted>> {
    if row.as_ref().column_index("wanted").is_err() {
        return Ok(None);
    }
    let wanted: Option<String> = row.get("wanted")?;
    Ok(wanted.and_then(|wanted| serde_json::from_str(&wanted).ok()))
}

fn request(row: &Row<'_>) -> rusqlite::Result<Request> {
    Ok(Request {
        id: row.get("id")?,
        batch: row.get("batch")?,
        session_key: row.get("session_key")?,
        session_id: row.get("session_id")?,
        inbox_id: row.get("inbox_id")?,
        run_id: row.get("run_id")?,
        call_id: row.get("call_id")?,
        tool: row.get("tool")?,
        question: row.get("question")?,
        why: row.get("why")?,
        bound: row.get("bound")?,
        rule: rule(row)?,
        wanted: wanted(row)?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
    })
}

#[cfg(test)]
mod tests;
