//! Deletes old rows without reading all others: there may be a million of them, and every message waits meanwhile.

use rusqlite::Connection;

use super::{KEEP, KEEP_DEAD_MS, approvals};

/// A row that claims to be from later than this is from a clock that was wrong, and tells nothing of the rows behind it.
const LEEWAY_MS: i64 = 24 * 3_600_000;
/// Rows are numbered as they come: those to forget (finished before ?1) are before the first that came since, until ?2.
const INBOX: &str = "DELETE FROM inbox WHERE state = 'done' AND finished_at < ?1 AND seq < \
    coalesce((SELECT seq FROM inbox WHERE received_at BETWEEN ?1 AND ?2 ORDER BY seq LIMIT 1), 9223372036854775807)";
const OUTBOX: &str = "DELETE FROM outbox WHERE state = 'sent' AND sent_at < ?1 AND id < \
    coalesce((SELECT id FROM outbox WHERE created_at BETWEEN ?1 AND ?2 ORDER BY id LIMIT 1), 9223372036854775807)";

/// Forgets keys and finished rows older than [`KEEP`], dead letters older than [`KEEP_DEAD_MS`].
pub(super) fn prune(connection: &Connection, now: i64) -> rusqlite::Result<()> {
    let before = now - i64::try_from(KEEP.as_millis()).unwrap_or(i64::MAX);
    for sql in [
        // A reminder of a promise that its owner removed is ordered again for as long as the promise is open.
        "DELETE FROM seen WHERE at < ?1 AND key NOT GLOB 'cmd:commitment-*'",
        "DELETE FROM notes WHERE at < ?1",
        "DELETE FROM tasks WHERE finished_at < ?1",
    ] {
        connection.execute(sql, [before])?;
    }
    for sql in [INBOX, OUTBOX] {
        connection.execute(sql, [before, now + LEEWAY_MS])?;
    }
    approvals::prune(connection, before, now)?;
    let buried = now - KEEP_DEAD_MS;
    for sql in [
        "DELETE FROM inbox WHERE state = 'dead' AND received_at < ?1",
        "DELETE FROM outbox WHERE state = 'dead' AND created_at < ?1",
    ] {
        connection.execute(sql, [buried])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::db;
    use crate::queue::MIGRATIONS;

    const NOW: i64 = 2_000_000_000_000;
    const DAY: i64 = 24 * 3_600_000;

    fn connection() -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().expect("dir");
        let connection = db::open(&dir.path().join("queue.db"), MIGRATIONS).expect("open");
        (dir, connection)
    }

    /// Adds a message that came at `at` and was answered at once, and the answer.
    fn add(connection: &Connection, id: i64, state: &str, at: i64) {
        connection
            .execute(
                "INSERT INTO inbox(seq, id, session_key, envelope, state, received_at, finished_at) VALUES (?1, ?1, 'k', '{}', ?2, ?3, ?3)",
                (id, state, at),
            )
            .expect("inbox");
        let sent = if state == "done" { "sent" } else { state };
        connection
            .execute(
                "INSERT INTO outbox(id, channel, chat, part, parts, plain, state, created_at, sent_at) VALUES (?1, 'c', '1', 1, 1, 'x', ?2, ?3, ?3)",
                (id, sent, at),
            )
            .expect("outbox");
    }

    fn left(connection: &Connection, sql: &str) -> Vec<i64> {
        let mut statement = connection.prepare(sql).expect("SQL");
        let rows = statement.query_map([], |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }

    #[test]
    fn what_is_old_and_finished_goes_and_nothing_else() {
        let (_dir, connection) = connection();
        for (id, state, at) in [
            (1, "done", NOW - 100 * DAY),
            (2, "dead", NOW - 20 * DAY),
            (3, "pending", NOW - 20 * DAY),
            // While a clock was wrong.
            (4, "done", NOW + 3000 * DAY),
            (5, "done", NOW - 15 * DAY),
            (6, "dead", NOW - 91 * DAY),
            (7, "done", NOW - 13 * DAY),
            (8, "done", NOW),
        ] {
            add(&connection, id, state, at);
        }
        prune(&connection, NOW).expect("pruned");
        let expected = [2, 3, 4, 7, 8];
        assert_eq!(
            left(&connection, "SELECT seq FROM inbox ORDER BY seq"),
            expected
        );
        assert_eq!(
            left(&connection, "SELECT id FROM outbox ORDER BY id"),
            expected
        );
        // All are old.
        prune(&connection, NOW + 5000 * DAY).expect("pruned");
        assert_eq!(left(&connection, "SELECT seq FROM inbox ORDER BY seq"), [3]);
    }

    #[test]
    fn orders_of_reminders_stay_known() {
        let (_dir, connection) = connection();
        for key in ["cmd:commitment-7-0a1b2c", "cmd:commit", "tg:1"] {
            let sql = "INSERT INTO seen(key, at) VALUES (?1, ?2)";
            connection
                .execute(sql, (key, NOW - 15 * DAY))
                .expect("seen");
        }
        prune(&connection, NOW).expect("pruned");
        let known: String = connection
            .query_row("SELECT group_concat(key) FROM seen", [], |row| row.get(0))
            .expect("one");
        assert_eq!(known, "cmd:commitment-7-0a1b2c");
    }

    #[test]
    fn what_stays_is_not_looked_at() {
        let (_dir, connection) = connection();
        let rows = 5000;
        connection.execute_batch("BEGIN").expect("begun");
        for id in 0..rows {
            add(
                &connection,
                id,
                "done",
                NOW - 14 * DAY - DAY / 10 + id * 14 * DAY / rows,
            );
        }
        connection.execute_batch("COMMIT").expect("committed");
        for sql in [INBOX, OUTBOX] {
            let mut statement = connection.prepare(sql).expect("SQL");
            let gone = statement
                .execute([NOW - 14 * DAY, NOW + LEEWAY_MS])
                .expect("executed");
            let steps = statement.get_status(StatementStatus::VmStep);
            assert!((20..60).contains(&gone), "{gone} rows");
            assert!(
                steps < 10_000,
                "{steps} steps to forget {gone} rows of {rows}"
            );
        }
    }
}
