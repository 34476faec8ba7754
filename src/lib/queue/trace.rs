//! Everything in `queue.db` about one run: its inputs, sub-agents, approval requests and deliveries. For any process that can
//! read it; needs no daemon.

use std::path::Path;

use rusqlite::{Connection, Row, params_from_iter};

use super::approvals::STATE;
use super::suspend::Suspended;
use super::{json, subagents, suspend};
use crate::control::replies::Reply;
use crate::db;
use crate::db::Statements;
use crate::message::Envelope;

/// What is known of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The run; `None` for an input that has none yet.
    pub run_id: Option<String>,
    /// What it answers, in order.
    pub inputs: Vec<Traced>,
    /// The sub-agents that it started, and those whose end is reported to it.
    pub children: Vec<Traced>,
    /// What the owner was asked, in order.
    pub approvals: Vec<Asking>,
    /// What went out, or is to, in order.
    pub deliveries: Vec<Delivery>,
}

/// An input, however far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// What came in.
    pub envelope: Envelope,
    /// `pending`, `running`, `done` or `dead`.
    pub state: String,
    /// Why it was given up, or how it ended when not with an answer.
    pub reason: Option<String>,
    /// Its run.
    pub run_id: Option<String>,
    /// How often its turn was begun.
    pub attempts: i64,
    /// When it ended, milliseconds since 1970 UTC.
    pub finished_at: Option<i64>,
    /// What its caller was told.
    pub result: Option<Reply>,
    /// Whether untrusted text may be in its answer.
    pub tainted: bool,
    /// What its turn waits for, while it is suspended.
    pub suspended: Option<Suspended>,
    /// Since when its turn had to wait for something, milliseconds since 1970 UTC; `None` = it never had to.
    pub waited_since: Option<i64>,
}

/// Something that the owner was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asking {
    /// By what it is approved or denied.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What would be done; others may have chosen these words.
    pub question: String,
    /// Why it is asked.
    pub why: String,
    /// Its state, see [`super::ending`].
    pub state: String,
    /// The owner's words.
    pub answer: Option<String>,
    /// When it was asked, milliseconds since 1970 UTC.
    pub created_at: i64,
    /// When it counts as denied.
    pub expires_at: i64,
    /// When it was decided.
    pub decided_at: Option<i64>,
}

/// A part on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its row.
    pub id: i64,
    /// Which part of how many.
    pub part: (i64, i64),
    /// The channel's name.
    pub channel: String,
    /// The chat.
    pub chat: String,
    /// `pending`, `sending`, `sent`, `unknown` or `dead`.
    pub state: String,
    /// How often it was tried.
    pub attempts: i64,
    /// The channel's id of it.
    pub message_id: Option<String>,
    /// When it was stored, milliseconds since 1970 UTC.
    pub created_at: i64,
    /// When it was tried.
    pub sending_at: Option<i64>,
    /// When it had arrived.
    pub sent_at: Option<i64>,
    /// Why it was given up.
    pub reason: Option<String>,
    /// Whether it asks the owner, and answers nothing.
    pub asks: bool,
}

/// What a channel's id of a message may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meant {
    /// The chat.
    pub chat: String,
    /// Its run, or its input; `None` for what went out by itself.
    pub id: Option<String>,
    /// When it was stored, milliseconds since 1970 UTC.
    pub at: i64,
}

/// Returns what is known of the input or the run `id`; `None` when that is nothing.
///
/// # Errors
/// See [`db::Error`].
pub fn trace(path: &Path, id: &str) -> Result<Option<Trace>, db::Error> {
    db::read(path, |connection| {
        // All of it at one moment.
        let moment = connection.unchecked_transaction()?;
        let of_input = inputs(&moment, "id = ?1", &[id])?;
        let run_id = match of_input.first() {
            Some(input) => input.run_id.clone(),
            None => Some(id.to_owned()),
        };
        let inputs = match &run_id {
            Some(run) => inputs(&moment, "run_id = ?1", &[run])?,
            None => of_input,
        };
        let run = run_id.as_deref().unwrap_or_default();
        let ids: Vec<&str> = inputs
            .iter()
            .map(|input| input.envelope.id.as_str())
            .collect();
        let found = Trace {
            children: children(&moment, run, &ids)?,
            approvals: approvals(&moment, run, &ids)?,
            deliveries: deliveries(&moment, run, &ids)?,
            run_id: run_id.clone(),
            inputs,
        };
        let is_nothing = found
            == Trace {
                run_id,
                ..Trace::default()
            };
        Ok((!is_nothing).then_some(found))
    })
    .map(Option::flatten)
}

/// Returns what a channel's `message_id` means, in this chat or in any: what went out, and what came in.
///
/// # Errors
/// See [`db::Error`].
pub fn meant(path: &Path, message_id: &str, chat: Option<&str>) -> Result<Vec<Meant>, db::Error> {
    db::read(path, |connection| {
        let sql = "SELECT chat, coalesce(inbox_id, run_id), created_at FROM outbox WHERE message_id = ?1 AND (?2 IS NULL OR chat = ?2)
             UNION
             SELECT envelope ->> '$.route.chat', id, received_at FROM inbox
             WHERE CASE WHEN json_valid(envelope) THEN envelope ->> '$.reply_to' = ?1 AND envelope ->> '$.route.chat' IS NOT NULL
               AND (?2 IS NULL OR envelope ->> '$.route.chat' = ?2) END
             ORDER BY 3";
        connection.all(
            sql,
            (message_id, chat),
            |row| Ok(Meant { chat: row.get(0)?, id: row.get(1)?, at: row.get(2)? }),
        )
    })
    .map(Option::unwrap_or_default)
}

fn inputs(connection: &Connection, which: &str, values: &[&str]) -> rusqlite::Result<Vec<Traced>> {
    // The file may be of a release before it.
    let tainted = if connection.column_exists(None, "inbox", "tainted")? {
        "tainted"
    } else {
        "0"
    };
    let suspended = suspend::column(connection)?;
    let since = suspend::column_since(connection)?;
    let sql = format!(
        "SELECT envelope, state, reason, run_id, attempts, finished_at, result, {tainted}, {suspended}, {since} FROM inbox WHERE {which} ORDER BY seq"
    );
    connection.all(&sql, params_from_iter(values), traced)
}

fn traced(row: &Row<'_>) -> rusqlite::Result<Traced> {
    Ok(Traced {
        envelope: json(row, 0)?,
        state: row.get(1)?,
        reason: row.get(2)?,
        run_id: row.get(3)?,
        attempts: row.get(4)?,
        finished_at: row.get(5)?,
        result: json(row, 6)?,
        tainted: row.get(7)?,
        suspended: json(row, 8)?,
        waited_since: row.get(9)?,
    })
}

fn children(connection: &Connection, run: &str, ids: &[&str]) -> rusqlite::Result<Vec<Traced>> {
    if !connection.column_exists(None, "inbox", "told_in")? {
        return Ok(Vec::new());
    }
    let which = format!(
        "{} = ?1 OR told_in IN ({})",
        subagents::RUN_OF_TASK,
        marks(ids)
    );
    inputs(connection, &which, &beside(run, ids))
}

fn approvals(connection: &Connection, run: &str, ids: &[&str]) -> rusqlite::Result<Vec<Asking>> {
    if !connection.table_exists(None, "approvals")? {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT id, tool, question, why, {STATE}, CASE WHEN state != 'withdrawn' THEN answer END, created_at, expires_at, decided_at FROM approvals
         WHERE run_id = ?1 OR inbox_id IN ({}) ORDER BY created_at, rowid",
        marks(ids)
    );
    let asking = |row: &Row<'_>| {
        Ok(Asking {
            id: row.get(0)?,
            tool: row.get(1)?,
            question: row.get(2)?,
            why: row.get(3)?,
            state: row.get(4)?,
            answer: row.get(5)?,
            created_at: row.get(6)?,
            expires_at: row.get(7)?,
            decided_at: row.get(8)?,
        })
    };
    connection.all(&sql, params_from_iter(beside(run, ids)), asking)
}

fn deliveries(connection: &Connection, run: &str, ids: &[&str]) -> rusqlite::Result<Vec<Delivery>> {
    let asks = if connection.column_exists(None, "outbox", "asks")? {
        "asks IS NOT NULL"
    } else {
        "0"
    };
    let sql = format!(
        "SELECT id, part, parts, channel, chat, state, attempts, message_id, created_at, sending_at, sent_at, reason, {asks}
         FROM outbox WHERE run_id = ?1 OR inbox_id IN ({}) ORDER BY outbox.id",
        marks(ids)
    );
    let delivery = |row: &Row<'_>| {
        Ok(Delivery {
            id: row.get(0)?,
            part: (row.get(1)?, row.get(2)?),
            channel: row.get(3)?,
            chat: row.get(4)?,
            state: row.get(5)?,
            attempts: row.get(6)?,
            message_id: row.get(7)?,
            created_at: row.get(8)?,
            sending_at: row.get(9)?,
            sent_at: row.get(10)?,
            reason: row.get(11)?,
            asks: row.get(12)?,
        })
    };
    connection.all(&sql, params_from_iter(beside(run, ids)), delivery)
}

/// Returns a mark for each of `ids`, the first value being the run.
fn marks(ids: &[&str]) -> String {
    (0..ids.len())
        .map(|number| format!("?{}", number + 2))
        .collect::<Vec<_>>()
        .join(", ")
}

fn beside<'a>(run: &'a str, ids: &[&'a str]) -> Vec<&'a str> {
    std::iter::once(run).chain(ids.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ChatRef, Route, Sender, SessionKey, Source};
    use crate::queue::MIGRATIONS;

    /// A queue as the release with the first `schema` migrations left it.
    fn queue(schema: usize) -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        let connection = Connection::open(&path).expect("open");
        MIGRATIONS
            .iter()
            .take(schema)
            .for_each(|sql| connection.execute_batch(sql).expect("migrate"));
        connection
            .pragma_update(None, "user_version", i64::try_from(schema).expect("few"))
            .expect("version");
        let sender = Sender {
            id: "1".into(),
            name: "Ada".into(),
            username: None,
        };
        let chat = ChatRef {
            chat: "1001".into(),
            topic: None,
        };
        let envelope = Envelope {
            route: Some(Route {
                channel: "telegram".into(),
                chat,
            }),
            reply_to: Some("7".into()),
            ..Envelope::new(
                "a".into(),
                Source::Telegram,
                sender,
                SessionKey("cli:a".into()),
                "hi".into(),
                5,
            )
        };
        let insert = "INSERT INTO inbox(id, session_key, envelope, run_id, received_at) VALUES (?1, 'cli:a', ?2, ?3, 5)";
        for (id, run) in [("a", Some("r")), ("b", Some("r")), ("c", None)] {
            let envelope = Envelope {
                id: id.to_owned(),
                ..envelope.clone()
            };
            connection
                .execute(
                    insert,
                    (id, serde_json::to_string(&envelope).expect("JSON"), run),
                )
                .expect("insert");
        }
        let sent = "INSERT INTO outbox(inbox_id, run_id, channel, chat, part, parts, plain, created_at, message_id)
                    VALUES (?1, ?2, 'telegram', ?3, 1, 1, 'x', 6, '8')";
        for (inbox, run, chat) in [(Some("a"), Some("r"), "1001"), (None, None, "1002")] {
            connection
                .execute(sent, (inbox, run, chat))
                .expect("insert");
        }
        (dir, path)
    }

    #[test]
    fn a_run_is_traced_in_the_queue_of_every_release() {
        for schema in 1..=MIGRATIONS.len() {
            let (_dir, path) = queue(schema);
            let of = |id: &str| {
                trace(&path, id).unwrap_or_else(|error| panic!("schema {schema}: {error}"))
            };
            let found = of("b").expect("a trace");
            let ids: Vec<&str> = found
                .inputs
                .iter()
                .map(|input| input.envelope.id.as_str())
                .collect();
            assert_eq!(
                (ids, found.deliveries.len(), found.children.len()),
                (vec!["a", "b"], 1, 0)
            );
            assert_eq!(of("r"), Some(found));
            let waiting = of("c").expect("a trace");
            assert_eq!(
                (
                    waiting.run_id,
                    waiting.inputs.len(),
                    waiting.deliveries.len()
                ),
                (None, 1, 0)
            );
            assert_eq!((of("nothing"), of("")), (None, None));
        }
    }

    #[test]
    fn that_a_turn_had_to_wait_is_known_also_when_it_goes_on() {
        let (_dir, path) = queue(MIGRATIONS.len());
        let since = || {
            let found = trace(&path, "a").expect("read").expect("a trace");
            let input = &found.inputs[0];
            (input.suspended.is_some(), input.waited_since)
        };
        assert_eq!(since(), (false, None));
        let connection = Connection::open(&path).expect("open");
        let suspended = Suspended {
            since: 7,
            wake_at: 9,
            waits_for: String::new(),
            detail: String::new(),
            on: crate::queue::WaitsOn::Time,
            tries: 1,
            faults: 0,
        };
        let suspended = serde_json::to_string(&suspended).expect("JSON");
        let sql = "UPDATE inbox SET suspended = ?1, wake_at = 9 WHERE id = 'a'";
        connection.execute(sql, [suspended]).expect("suspend");
        assert_eq!(since(), (true, Some(7)));
        let sql = "UPDATE inbox SET state = 'running', wake_at = NULL WHERE id = 'a'";
        connection.execute(sql, []).expect("go on");
        assert_eq!(since(), (false, Some(7)));
    }

    #[test]
    fn the_number_of_a_message_means_what_went_out_or_came_in_under_it() {
        let (_dir, path) = queue(MIGRATIONS.len());
        let found = |message: &str, chat: Option<&str>| -> Vec<(String, Option<String>)> {
            meant(&path, message, chat)
                .expect("read")
                .into_iter()
                .map(|one| (one.chat, one.id))
                .collect()
        };
        let (ours, theirs) = (
            ("1001".to_owned(), Some("a".to_owned())),
            ("1002".to_owned(), None),
        );
        assert_eq!(found("8", None), [ours.clone(), theirs.clone()]);
        assert_eq!(found("8", Some("1002")), [theirs]);
        assert!(found("7", Some("1001")).contains(&ours) && found("9", None).is_empty());
        assert_eq!(
            meant(&path.with_extension("absent"), "8", None).expect("no queue"),
            []
        );
    }
}
