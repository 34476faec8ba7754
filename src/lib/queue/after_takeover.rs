//! After a takeover: answers that the other machine may have sent without this queue knowing. They are marked "(resent)", like
//! parts with an unknown outcome.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::schema;
use crate::db;
use crate::db::Statements;
use crate::message::Envelope;

/// The key in `seen` whose time says until when the other machine may have answered.
const KEY: &str = "doubt";

/// Marks what is open in the queue at `path`, which was copied from a machine that continued after that, until `until`
/// (milliseconds since 1970 UTC) at most. Messages that were written before then and are not known here are marked when they
/// come. Returns how many inputs and parts are open. To be called before a daemon opens the queue; twice is as good as once.
///
/// # Errors
/// See [`db::Error`].
pub fn doubt(path: &Path, until: i64) -> Result<usize, db::Error> {
    let mut connection = schema::open(path)?;
    let marked = mark_open(&mut connection, until).map_err(|error| db::Error::of(path, error))?;
    connection
        .close()
        .map_err(|(_, error)| db::Error::of(path, error))?;
    Ok(marked)
}

fn mark_open(connection: &mut Connection, until: i64) -> rusqlite::Result<usize> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let inputs = transaction.execute(
        "UPDATE inbox SET envelope = json_set(envelope, '$.perhaps_answered', json('true'))
         WHERE state IN ('pending', 'running') AND json_valid(envelope)",
        [],
    )?;
    // How long ago that was says nothing: it may have been lost with the machine.
    let parts = transaction.execute(
        "UPDATE outbox SET unknowns = max(unknowns, iif(state = 'pending', 1, 0)), sending_at = NULL,
           state = iif(state = 'pending', 'unknown', state)
         WHERE state IN ('pending', 'sending', 'unknown')",
        [],
    )?;
    transaction.execute(
        "INSERT INTO seen(key, at) VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET at = ?2",
        (KEY, until),
    )?;
    transaction.commit()?;
    Ok(inputs + parts)
}

/// Marks an input that is being taken in and may have been answered elsewhere.
pub(super) fn mark(connection: &Connection, envelope: &mut Envelope) -> rusqlite::Result<()> {
    let Some(sent_at) = envelope.sent_at else {
        return Ok(());
    };
    let sql = "SELECT at FROM seen WHERE key = ?1";
    let until: Option<i64> = connection.first(sql, [KEY], |row| row.get(0))?;
    envelope.perhaps_answered = until.is_some_and(|until| sent_at <= until);
    Ok(())
}

/// Returns how often a part of the answer to an input may have been sent before.
pub(super) fn of(connection: &Connection, inbox_id: Option<&str>) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce(iif(json_valid(envelope), envelope ->> '$.perhaps_answered', 0), 0) FROM inbox WHERE id = ?1";
    let known: Option<bool> = connection.first(sql, [inbox_id], |row| row.get(0))?;
    Ok(i64::from(known.unwrap_or(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ChatRef, Route, Sender, SessionKey, Source};
    use crate::queue::{Arrival, NewPart, Store, Verdict, outbox};

    fn message(id: &str, sent_at: Option<i64>) -> Arrival {
        let ada = Sender {
            id: "1001".to_owned(),
            name: "Ada".to_owned(),
            username: None,
        };
        let key = SessionKey("agent:main".to_owned());
        let envelope = Envelope {
            sent_at,
            ..Envelope::new(
                id.to_owned(),
                Source::Telegram,
                ada,
                key,
                "hi".to_owned(),
                5,
            )
        };
        Arrival {
            key: id.to_owned(),
            digest: None,
            verdict: Verdict::Accept(vec![envelope]),
        }
    }

    #[tokio::test]
    async fn what_another_machine_may_have_answered_is_marked_and_nothing_else() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("queue.db");
        let store = Store::start(&path).expect("open");
        let route = Route {
            channel: "telegram".to_owned(),
            chat: ChatRef::default(),
        };
        let part = NewPart::plain(route, "hello".to_owned());
        let notice = Arrival {
            key: "notice".to_owned(),
            digest: None,
            verdict: Verdict::Refuse(Some(part.clone())),
        };
        let before = vec![message("open", Some(900)), notice];
        store.accept(before, None, 5).await.expect("accepted");
        drop(store);

        assert_eq!(doubt(&path, 1000).expect("marked"), 2);
        assert_eq!(doubt(&path, 1000).expect("marked"), 2, "again");
        let store = Store::start(&path).expect("open");
        let after = vec![
            message("lost", Some(1000)),
            message("new", Some(1001)),
            message("undated", None),
        ];
        store.accept(after, None, 6).await.expect("accepted");
        let recovered = store.recover(Vec::new(), 7).await.expect("read");
        let marked: Vec<(&str, bool)> = recovered
            .inbox
            .iter()
            .map(|one| (one.envelope.id.as_str(), one.envelope.perhaps_answered))
            .collect();
        assert_eq!(
            marked,
            [
                ("open", true),
                ("lost", true),
                ("new", false),
                ("undated", false)
            ]
        );
        assert_eq!(recovered.outbox.len(), 1);
        assert_eq!(
            (recovered.outbox[0].unknowns, recovered.outbox[0].sending_at),
            (1, None)
        );
        drop(store);
        let connection = schema::open(&path).expect("open");
        let answer =
            |id| outbox::insert(&connection, Some(id), None, &part, (1, 1), 8).expect("stored");
        assert_eq!([answer("open").unknowns, answer("new").unknowns], [1, 0]);
    }
}
