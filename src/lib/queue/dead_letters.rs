//! Dead letters, messages that were given up: a dead letter is retried, or dropped. Each is an input, `in-<seq>` or its id, or a part, `out-<row>`.

use rusqlite::Connection;

use super::inbox::Accepted;
use super::outbox::Part;
use super::{Store, inbox, json, outbox, to_json};
use crate::db;
use crate::db::Statements;
use crate::message::Envelope;

/// Which rows of the inbox are meant: all, one with those that were one turn with it, or those of a session.
const INPUTS: &str = "state = 'dead' AND (?2 IS NULL OR session_key = ?2) AND (?1 IS NULL OR id = ?1 OR 'in-' || seq = ?1
    OR run_id = (SELECT run_id FROM inbox WHERE id = ?1 OR 'in-' || seq = ?1))";
/// Which parts: those of a session are those of its inputs.
const PARTS: &str = "state = 'dead' AND (?1 IS NULL OR 'out-' || id = ?1)
    AND (?2 IS NULL OR inbox_id IN (SELECT id FROM inbox WHERE session_key = ?2))";

/// Which dead letters are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// One, by its id; `None` = all.
    pub letter: Option<String>,
    /// Those of this session alone.
    pub session: Option<String>,
}

/// What was tried again.
#[derive(Debug, Default)]
pub struct Retried {
    /// Inputs.
    pub inbox: Vec<Accepted>,
    /// Parts.
    pub outbox: Vec<Part>,
}

impl Store {
    /// Returns the inputs among dead letters.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn dead_inputs(&self, which: Which) -> Result<Vec<Envelope>, db::Error> {
        let sql = format!("SELECT envelope FROM inbox WHERE {INPUTS} ORDER BY seq");
        self.writer
            .read(move |connection| {
                // One that is damaged stays as it is.
                let letter = |row: &rusqlite::Row| Ok(json(row, 0).ok());
                let values = (&which.letter, &which.session);
                let letters: Vec<Option<Envelope>> = connection.all(&sql, values, letter)?;
                Ok(letters.into_iter().flatten().collect())
            })
            .await
    }

    /// Changes where dead letters belong and go.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn readdress_dead(&self, letters: Vec<Envelope>) -> Result<(), db::Error> {
        let sql =
            "UPDATE inbox SET envelope = ?2, session_key = ?3 WHERE id = ?1 AND state = 'dead'";
        self.writer
            .write(move |connection| {
                letters.iter().try_for_each(|letter| {
                    connection.run(sql, (&letter.id, to_json(letter)?, &letter.session_key.0))
                })
            })
            .await
    }

    /// Makes dead letters new: their turns run again, their parts are sent again. A sub-agent whose sender has
    /// heard of its end stays dead.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn retry_dead(&self, which: Which) -> Result<Retried, db::Error> {
        self.writer
            .write(move |connection| {
                let values = (&which.letter, &which.session);
                let inputs = ids(
                    connection,
                    &format!("SELECT seq FROM inbox WHERE {INPUTS} AND told_in IS NULL ORDER BY seq"),
                    values,
                )?;
                let parts = ids(
                    connection,
                    &format!("SELECT id FROM outbox WHERE {PARTS} ORDER BY id"),
                    values,
                )?;
                let revive = "UPDATE inbox SET state = 'pending', run_id = NULL, attempts = 0, finished_at = NULL, result = NULL, reason = NULL,
                     wake_at = NULL, suspended = NULL, deaths = 0, deaths_alone = 0, first_death_at = NULL WHERE seq = ?1";
                let resend = "UPDATE outbox SET state = 'pending', attempts = 0, unknowns = 0, reason = NULL WHERE id = ?1";
                for seq in &inputs {
                    connection.run(revive, [seq])?;
                }
                for id in &parts {
                    connection.run(resend, [id])?;
                }
                let mut retried = Retried {
                    inbox: inbox::open(connection)?,
                    outbox: outbox::open(connection)?,
                };
                retried.inbox.retain(|row| inputs.contains(&row.seq));
                retried.outbox.retain(|part| parts.contains(&part.id));
                Ok(retried)
            })
            .await
    }

    /// Ends dead letters permanently: what their senders wrote stays known for as long as other inputs do. Returns how
    /// many there were.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn drop_dead(&self, which: Which) -> Result<usize, db::Error> {
        self.writer
            .write(move |connection| {
                let values = (&which.letter, &which.session);
                let parts =
                    connection.execute(&format!("DELETE FROM outbox WHERE {PARTS}"), values)?;
                let inputs = connection.execute(
                    &format!("UPDATE inbox SET state = 'done', reason = 'dropped' WHERE {INPUTS}"),
                    values,
                )?;
                Ok(inputs + parts)
            })
            .await
    }
}

fn ids(
    connection: &Connection,
    sql: &str,
    values: (&Option<String>, &Option<String>),
) -> rusqlite::Result<Vec<i64>> {
    connection.all(sql, values, |row| row.get(0))
}
