//! Tasks that could not be done, and parts of theirs that did not arrive.

use rusqlite::Connection;

use super::{AfterFailure, Postponed, cancel_after, drop_parts};
use crate::db::Statements;
use crate::queue::outbox;

/// How often a task is tried again, and after how long (specification §17).
const RETRIES: i64 = 10;
const RETRY_MS: i64 = 10_000;

pub(super) fn fail(
    connection: &Connection,
    seq: i64,
    reason: &str,
    is_retryable: bool,
    now: i64,
) -> rusqlite::Result<AfterFailure> {
    let sql = "SELECT retries, run_id, inbox_id FROM tasks WHERE seq = ?1 AND state = 'ready'";
    let known: Option<(i64, String, String)> = connection.first(sql, [seq], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })?;
    let Some((retries, run_id, inbox_id)) = known else {
        return Ok(AfterFailure::Gone);
    };
    if is_retryable && retries < RETRIES {
        try_again(connection, (seq, retries), reason, now)?;
        return Ok(AfterFailure::Again);
    }
    end(connection, seq, reason, now)?;
    if is_retryable {
        cancel_run(connection, &run_id, now)?;
    } else {
        cancel_after(connection, seq, now)?;
    }
    let sql = "UPDATE inbox SET state = 'dead', reason = ?2 WHERE id = ?1";
    connection.run(sql, (&inbox_id, format!("its plan was given up: {reason}")))?;
    Ok(AfterFailure::GivenUp)
}

/// Blocks a task behind a `wait` task of its own.
fn try_again(
    connection: &Connection,
    (seq, retries): (i64, i64),
    reason: &str,
    now: i64,
) -> rusqlite::Result<()> {
    let retry = format!("retry-{seq}-{}", retries + 1);
    let sql = "INSERT INTO tasks(session_key, inbox_id, run_id, id, kind, depends_on, lead_ms, task, answer, state, due_at, created_at)
         SELECT session_key, inbox_id, run_id, ?2, 'wait', '[]', ?3, json_object('id', ?2, 'kind', 'wait', 'delay', ?3 / 1000.0), answer, 'ready', ?4 + ?3, ?4
         FROM tasks WHERE seq = ?1";
    connection.run(sql, (seq, &retry, RETRY_MS, now))?;
    let sql = "UPDATE tasks SET state = 'blocked', due_at = NULL, finished_at = NULL, lead_ms = 0, retries = retries + 1, reason = ?3,
           depends_on = json_insert(depends_on, '$[#]', ?2) WHERE seq = ?1";
    connection.run(sql, (seq, &retry, reason))
}

fn end(connection: &Connection, seq: i64, reason: &str, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE tasks SET state = 'dead', reason = ?2, finished_at = ?3 WHERE seq = ?1";
    connection.run(sql, (seq, reason, now))
}

/// Cancels what is left of a graph: nothing works, and the rest would fare no better.
fn cancel_run(connection: &Connection, run_id: &str, now: i64) -> rusqlite::Result<()> {
    let sql = "UPDATE tasks SET state = 'cancelled', finished_at = ?2 WHERE run_id = ?1 AND state IN ('blocked', 'ready')";
    connection.run(sql, (run_id, now))?;
    drop_parts(connection)
}

pub(super) fn postpone(
    connection: &Connection,
    part: i64,
    reason: &str,
    now: i64,
) -> rusqlite::Result<Postponed> {
    // What may have arrived is its sender's, who marks the copy.
    let sql = "SELECT t.seq, t.retries, t.run_id, EXISTS (SELECT 1 FROM inbox i WHERE i.session_key = t.session_key
           AND i.run_id IS NOT t.run_id AND i.seq > (SELECT own.seq FROM inbox own WHERE own.id = t.inbox_id)
           AND CASE WHEN json_valid(i.envelope)
             THEN i.envelope ->> '$.command' IS NULL AND i.envelope ->> '$.reply_to' IS NOT NULL END)
         FROM outbox o JOIN tasks t ON t.seq = o.task WHERE o.id = ?1 AND o.unknowns = 0 AND t.state = 'done'";
    let known: Option<(i64, i64, String, bool)> = connection.first(sql, [part], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    })?;
    let Some((seq, retries, run_id, is_outdated)) = known else {
        return Ok(Postponed::No);
    };
    if is_outdated || retries < RETRIES {
        outbox::hold(connection, seq)?;
        try_again(connection, (seq, retries), reason, now)?;
        if is_outdated {
            cancel_run(connection, &run_id, now)?;
        }
        return Ok(Postponed::Held);
    }
    end(connection, seq, reason, now)?;
    outbox::give_up_task(connection, seq, reason, now)?;
    cancel_run(connection, &run_id, now)?;
    Ok(Postponed::GivenUp)
}
