//! Parts on their way out, and what is known of their arrival.

use rusqlite::types::FromSql;
use rusqlite::{Connection, Row};

use super::after_takeover;
use super::context_notes::Note;
use super::{Store, json, route, to_json};
use super::{context_notes, tasks};
use crate::db;
use crate::db::Statements;
use crate::message::{Button, OutFile, Route, SessionKey};
use crate::text;

/// Parts that are looked through for one that somebody answers; what is older is not known any more. An index of all
/// would cost every message a page.
const NEWEST: i64 = 50_000;

/// A part to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPart {
    /// Where it goes.
    pub route: Route,
    /// The message it answers.
    pub reply_to: Option<String>,
    /// The channel's own markup; `None` sends `plain`.
    pub markup: Option<String>,
    /// The words without markup: sent when the markup is refused.
    pub plain: String,
    /// Files that go with the words; several are one album.
    pub files: Vec<OutFile>,
    /// An emoji put on the message `reply_to`, instead of a message.
    pub reaction: Option<String>,
    /// Buttons below the words, in rows.
    pub buttons: Vec<Vec<Button>>,
    /// The batch of requests that it asks the owner about.
    pub asks: Option<String>,
}

impl NewPart {
    /// Returns a part of words alone that answers nothing.
    pub fn plain(route: Route, plain: String) -> Self {
        let (files, buttons) = (Vec::new(), Vec::new());
        Self {
            route,
            reply_to: None,
            markup: None,
            plain,
            files,
            reaction: None,
            buttons,
            asks: None,
        }
    }
}

/// A stored part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its row.
    pub id: i64,
    /// What and where.
    pub content: NewPart,
    /// How often nobody could say whether it arrived.
    pub unknowns: i64,
    /// When it may have arrived, milliseconds since 1970 UTC: its last try, and once nobody can say
    /// what became of one, that one.
    pub sending_at: Option<i64>,
    /// When it was stored, milliseconds since 1970 UTC.
    pub created_at: i64,
    /// The task of a plan that it belongs to.
    pub task: Option<i64>,
    /// It was noted as being sent when it was stored; see [`Finish::sends_at_once`](super::Finish::sends_at_once).
    pub is_claimed: bool,
}

impl Part {
    /// Returns what it is known by wherever it is sent again: when it was stored, and its row. It sorts by time.
    pub fn key(&self) -> String {
        format!("{}-{}", self.created_at, self.id)
    }

    /// Returns the row and the time of storing that a key names.
    pub fn of_key(key: &str) -> Option<(i64, i64)> {
        let (created_at, id) = key.split_once('-')?;
        let (created_at, id) = (created_at.parse().ok()?, id.parse().ok()?);
        // As it is written, and no other way.
        (format!("{created_at}-{id}") == key).then_some((id, created_at))
    }
}

/// What is known after an attempt to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aftermath {
    /// It arrived under this id.
    Sent {
        /// The channel's message id.
        message_id: String,
    },
    /// It surely did not arrive; it is tried again.
    NotSent,
    /// Its markup was refused; it is sent as plain text.
    Plain,
    /// Nobody can say.
    Unknown,
    /// It is given up: a dead letter.
    Dead {
        /// Why.
        reason: String,
    },
}

impl Store {
    /// Returns whether untrusted text may be in the message that was sent under `message_id`: all except the answer of an ended
    /// input that is known to be clean. `None` when it is not known any more.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn is_untrusted(
        &self,
        route: Route,
        message_id: String,
    ) -> Result<Option<bool>, db::Error> {
        let sql = "SELECT coalesce(max(inbox.tainted OR inbox.state IN ('pending', 'running')), 1) FROM outbox LEFT JOIN inbox ON inbox.run_id = outbox.run_id
             WHERE outbox.channel = ?1 AND outbox.chat = ?2 AND outbox.message_id = ?3
               AND outbox.id > (SELECT max(id) FROM outbox) - ?4 GROUP BY outbox.id";
        self.of_sent(sql, route, message_id).await
    }

    /// Returns the words that were sent under `message_id`; `None` when it is not a message of ours, or not known any more.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn words_sent_as(
        &self,
        route: Route,
        message_id: String,
    ) -> Result<Option<String>, db::Error> {
        let sql = "SELECT plain FROM outbox WHERE channel = ?1 AND chat = ?2 AND message_id = ?3 AND state = 'sent'
               AND id > (SELECT max(id) FROM outbox) - ?4 LIMIT 1";
        self.of_sent(sql, route, message_id).await
    }

    /// Returns the first column of what `sql` finds of the message that was sent under `message_id`, among the newest.
    async fn of_sent<T: FromSql + Send + 'static>(
        &self,
        sql: &'static str,
        route: Route,
        message_id: String,
    ) -> Result<Option<T>, db::Error> {
        let values = (route.channel, route.chat.chat, message_id, NEWEST);
        let read = move |c: &Connection| c.first(sql, values, |row| row.get(0));
        self.writer.read(read).await
    }

    /// Records that the part `id`, which was stored at `created_at` for `channel`, arrived; false when there is none of
    /// that kind that waits.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn arrived(
        &self,
        (id, created_at): (i64, i64),
        channel: String,
        message_id: String,
        now: i64,
    ) -> Result<bool, db::Error> {
        self.writer
            .write(move |connection| {
                let sql = "UPDATE outbox SET state = 'sent', message_id = ?4, sent_at = ?5
                     WHERE id = ?1 AND created_at = ?2 AND channel = ?3 AND state IN ('pending', 'sending', 'unknown')";
                let rows = connection.change(sql, (id, created_at, channel, message_id, now))?;
                if rows == 1 {
                    go_on(connection, id, now)?;
                }
                Ok(rows == 1)
            })
            .await
    }

    /// Returns true when the part `id` was stored at `created_at` for `channel`, whatever became of it.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn is_part_of(
        &self,
        (id, created_at): (i64, i64),
        channel: String,
    ) -> Result<bool, db::Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE id = ?1 AND created_at = ?2 AND channel = ?3)";
        self.writer
            .read(move |connection| {
                connection.one(sql, (id, created_at, channel), |row| row.get(0))
            })
            .await
    }

    /// Returns whether all parts of its message before the part `id` have arrived.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn all_parts_delivered(&self, id: i64) -> Result<bool, db::Error> {
        self.writer
            .read(move |connection| all_parts_delivered(connection, id))
            .await
    }

    /// Records that `id` is about to be sent; from here until [`Store::settle`] a crash leaves
    /// it unknown.
    ///
    /// # Errors
    /// See [`db::Error`]; it must then not be sent.
    pub async fn sending(&self, id: i64, now: i64) -> Result<(), db::Error> {
        self.writer
            .write(move |connection| sending(connection, id, now))
            .await
    }

    /// Records what became of `id`.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn settle(&self, id: i64, aftermath: Aftermath, now: i64) -> Result<(), db::Error> {
        self.writer
            .write(move |connection| {
                match &aftermath {
                    Aftermath::Sent { message_id } => connection.change(
                        "UPDATE outbox SET state = 'sent', message_id = ?2, sent_at = ?3 WHERE id = ?1",
                        (id, message_id, now),
                    )
                        .and_then(|_| go_on(connection, id, now)),
                    Aftermath::NotSent => {
                        let sql = "UPDATE outbox SET state = 'pending' WHERE id = ?1";
                        connection.run(sql, [id])
                    }
                    Aftermath::Plain => connection.run(
                        "UPDATE outbox SET state = 'pending', markup = NULL WHERE id = ?1",
                        [id],
                    ),
                    Aftermath::Unknown => connection.run(
                        "UPDATE outbox SET state = 'unknown', unknowns = unknowns + 1 WHERE id = ?1",
                        [id],
                    ),
                    Aftermath::Dead { reason } => {
                        give_up(connection, id, reason, now)?;
                        drop_what_followed(connection, id, now)?;
                        go_on(connection, id, now)
                    }
                }
            })
            .await
    }
}

/// Returns whether all parts before the part `id` of a message have arrived.
pub(super) fn all_parts_delivered(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM outbox earlier JOIN outbox last ON last.id = ?1
         WHERE earlier.id < last.id AND earlier.id > last.id - last.part AND earlier.state != 'sent'";
    let missing: i64 = connection.one(sql, [id], |row| row.get(0))?;
    Ok(missing == 0)
}

/// See [`Store::sending`].
pub(super) fn sending(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE outbox SET state = 'sending', sending_at = CASE WHEN unknowns > 0 THEN sending_at ELSE ?2 END, attempts = attempts + 1
         WHERE id = ?1 AND state != 'sent'";
    connection.run(sql, (id, now))
}

fn give_up(connection: &Connection, id: i64, reason: &str, now: i64) -> rusqlite::Result<()> {
    tell_the_agent(connection, id, reason, now)?;
    let sql = "UPDATE outbox SET state = 'dead', reason = ?2 WHERE id = ?1";
    connection.run(sql, (id, reason))
}

/// Makes the parts of a task that did not arrive dead letters.
pub(super) fn give_up_task(
    connection: &Connection,
    task: i64,
    reason: &str,
    now: i64,
) -> rusqlite::Result<()> {
    for part in open_of_task(connection, task)? {
        give_up(connection, part.id, reason, now)?;
    }
    Ok(())
}

/// Nobody sends the parts of a task until it is done again.
pub(super) fn hold(connection: &Connection, task: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE outbox SET state = 'pending' WHERE task = ?1 AND state IN ('pending', 'sending', 'unknown')";
    connection.run(sql, [task])
}

/// The plan of a part whose sending is over continues.
fn go_on(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<()> {
    let sql = "SELECT task FROM outbox WHERE id = ?1";
    let task: Option<i64> = connection.first(sql, [id], |row| row.get(0))?.flatten();
    task.map_or(Ok(()), |task| tasks::unblock_after(connection, task, now))
}

/// Cancels what a plan would do after words that did not arrive. A reaction that is refused is not a loss.
fn drop_what_followed(connection: &Connection, id: i64, now: i64) -> rusqlite::Result<()> {
    let sql = "SELECT task FROM outbox WHERE id = ?1 AND reaction IS NULL";
    let task: Option<i64> = connection.first(sql, [id], |row| row.get(0))?.flatten();
    task.map_or(Ok(()), |task| tasks::cancel_after(connection, task, now))
}

/// Leaves word of a lost part for the next turn of its conversation: the agent is not to think that it
/// was read.
fn tell_the_agent(
    connection: &Connection,
    id: i64,
    reason: &str,
    now: i64,
) -> rusqlite::Result<()> {
    let sql = "SELECT i.session_key, o.plain, i.tainted OR i.state IN ('pending', 'running') FROM outbox o JOIN inbox i ON i.id = o.inbox_id WHERE o.id = ?1 AND o.state != 'dead'";
    let lost: Option<(String, String, bool)> =
        connection.first(sql, [id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let Some((session, words, is_untrusted)) = lost else {
        return Ok(());
    };
    let text = format!(
        "your message {:?} did not arrive: {reason}",
        text::shorten(&words, 200)
    );
    context_notes::insert(
        connection,
        &SessionKey(session),
        &Note {
            who: None,
            of_owner: !is_untrusted,
            at: now,
            text,
            ..Note::default()
        },
    )
}

pub(super) fn insert(
    connection: &Connection,
    inbox_id: Option<&str>,
    run_id: Option<&str>,
    content: &NewPart,
    (part, parts): (i64, i64),
    now: i64,
) -> rusqlite::Result<Part> {
    let unknowns = after_takeover::of(connection, inbox_id)?;
    let sql = "INSERT INTO outbox(inbox_id, run_id, channel, chat, topic, reply_to, part, parts, markup, plain, created_at, files, reaction, buttons, asks, unknowns)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)";
    connection.run(
        sql,
        rusqlite::params![
            inbox_id,
            run_id,
            content.route.channel,
            content.route.chat.chat,
            content.route.chat.topic,
            content.reply_to,
            part,
            parts,
            content.markup,
            content.plain,
            now,
            (!content.files.is_empty())
                .then(|| to_json(&content.files))
                .transpose()?,
            content.reaction,
            (!content.buttons.is_empty())
                .then(|| to_json(&content.buttons))
                .transpose()?,
            content.asks,
            unknowns
        ],
    )?;
    Ok(Part {
        id: connection.last_insert_rowid(),
        content: content.clone(),
        unknowns,
        sending_at: None,
        created_at: now,
        task: None,
        is_claimed: false,
    })
}

const COLUMNS: &str = "id, channel, chat, topic, reply_to, markup, plain, unknowns, sending_at, created_at, files, reaction, buttons, asks, task";

/// Makes dead letters of open parts that cannot be read; their words stay. Returns what to say of each.
pub(super) fn bury_unreadable(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let open = format!(
        "SELECT {COLUMNS} FROM outbox WHERE state IN ('pending', 'sending', 'unknown') ORDER BY id"
    );
    let unreadable = super::unreadable(connection, &open, |row| part(row).map(drop))?;
    let mut told = Vec::new();
    for (id, why) in unreadable {
        connection.execute(
            "UPDATE outbox SET state = 'dead', reason = ?2, files = NULL, buttons = NULL WHERE id = ?1",
            (id, format!("its row in queue.db cannot be read: {why}")),
        )?;
        told.push(format!(
            "the answer out-{id} cannot be read in queue.db and was not sent: {why}"
        ));
    }
    Ok(told)
}

/// Returns what is to be sent. The parts of a task that is to be tried again are sent when it is done.
pub(super) fn open(connection: &Connection) -> rusqlite::Result<Vec<Part>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM outbox WHERE state IN ('pending', 'sending', 'unknown')
           AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.seq = outbox.task AND t.state IN ('blocked', 'ready')) ORDER BY id",
    );
    connection.all(&sql, [], part)
}

/// Returns what of a task is to be sent.
pub(super) fn open_of_task(connection: &Connection, task: i64) -> rusqlite::Result<Vec<Part>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM outbox WHERE task = ?1 AND state IN ('pending', 'sending', 'unknown') ORDER BY id",
    );
    connection.all(&sql, [task], part)
}

fn part(row: &Row<'_>) -> rusqlite::Result<Part> {
    Ok(Part {
        id: row.get(0)?,
        content: NewPart {
            route: route(row, 1)?,
            reply_to: row.get(4)?,
            markup: row.get(5)?,
            plain: row.get(6)?,
            files: json::<Option<_>>(row, 10)?.unwrap_or_default(),
            reaction: row.get(11)?,
            buttons: json::<Option<_>>(row, 12)?.unwrap_or_default(),
            asks: row.get(13)?,
        },
        unknowns: row.get(7)?,
        sending_at: row.get(8)?,
        created_at: row.get(9)?,
        task: row.get(14)?,
        is_claimed: false,
    })
}
