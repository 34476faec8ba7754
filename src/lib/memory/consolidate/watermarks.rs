//! The rows that record how far files and conversations were read, and claims of conversations.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::lease::{COLUMNS, Holder, LEASE_MS, Owner};
use crate::db::Statements;
use crate::memory::facts::Change;
use crate::memory::facts::store::Applied;
use crate::memory::sources::Stamp;
use crate::text;

/// What a file was when it was read: a row of `consolidation_file_hashes`.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub stamp: Stamp,
    /// `None` until it was read.
    pub sha256: Option<Vec<u8>>,
}

/// Returns what is known of files, by path; one that is only the source of a fact is known too.
pub(super) fn files(connection: &Connection) -> rusqlite::Result<BTreeMap<String, File>> {
    let sql = "SELECT path, size, mtime, ctime, sha256 FROM consolidation_file_hashes
               UNION ALL SELECT DISTINCT path, 0, 0, 0, NULL FROM fact_sources WHERE session_id IS NULL
                 AND path NOT IN (SELECT path FROM consolidation_file_hashes)";
    connection.all(sql, [], |row| {
        let stamp = Stamp {
            size: row.get(1)?,
            times: (row.get(2)?, row.get(3)?),
        };
        let sha256 = row.get(4)?;
        Ok((row.get(0)?, File { stamp, sha256 }))
    })
}

/// Returns true when the file was `sha256` when it was read last: no other run read it meanwhile.
pub(super) fn is_as_read(
    connection: &Connection,
    path: &str,
    sha256: Option<&[u8]>,
) -> rusqlite::Result<bool> {
    let sql = "SELECT sha256 FROM consolidation_file_hashes WHERE path = ?1";
    let known: Option<Option<Vec<u8>>> = connection.first(sql, [path], |row| row.get(0))?;
    Ok(known.flatten().as_deref() == sha256)
}

/// Notes what a file was that was read; `None` for one that is gone.
pub(super) fn file_done(
    connection: &Connection,
    path: &str,
    read: Option<(Stamp, &[u8])>,
) -> rusqlite::Result<()> {
    let Some((stamp, sha256)) = read else {
        let sql = "DELETE FROM consolidation_file_hashes WHERE path = ?1";
        return connection.run(sql, [path]);
    };
    let sql = "INSERT INTO consolidation_file_hashes(path, sha256, size, mtime, ctime) VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT(path) DO UPDATE SET sha256 = ?2, size = ?3, mtime = ?4, ctime = ?5, run = NULL";
    connection.run(
        sql,
        (path, sha256, stamp.size, stamp.times.0, stamp.times.1),
    )
}

/// Returns the last event that was read of each conversation, by id, and what its files looked like when nothing
/// was left to do.
pub(super) fn sessions(
    connection: &Connection,
) -> rusqlite::Result<BTreeMap<String, (i64, Option<String>)>> {
    let sql = "SELECT session_id, watermark, seen FROM consolidation_state";
    connection.all(sql, [], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))
}

/// Returns the last event of a conversation that was read, and who claimed what follows.
fn session(connection: &Connection, id: &str) -> rusqlite::Result<(i64, Holder)> {
    let sql = format!("SELECT watermark, {COLUMNS} FROM consolidation_state WHERE session_id = ?1");
    Ok(connection
        .first(&sql, [id], |row| Ok((row.get(0)?, Holder::of(row, 1)?)))?
        .unwrap_or_default())
}

/// Claims the conversation from event `watermark` to event `to`; false when somebody else read it, or is at it.
pub(super) fn claim_span(
    connection: &Connection,
    id: &str,
    watermark: i64,
    to: i64,
    owner: &Owner,
    now: i64,
) -> rusqlite::Result<bool> {
    let (read_to, holder) = session(connection, id)?;
    if !holder.is_free_for(owner, now) || read_to != watermark {
        return Ok(false);
    }
    let sql = "INSERT INTO consolidation_state(session_id, claimed_to, run, lease_until, pid, started, boot_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(session_id)
         DO UPDATE SET claimed_to = ?2, run = ?3, lease_until = ?4, pid = ?5, started = ?6, boot_id = ?7";
    connection.run(
        sql,
        (
            id,
            to,
            &owner.run,
            now + LEASE_MS,
            owner.pid,
            owner.started,
            &owner.boot_id,
        ),
    )?;
    Ok(true)
}

/// Returns true when the claim is still ours and the watermark where it was.
pub(super) fn holds_span(
    connection: &Connection,
    id: &str,
    watermark: i64,
    owner: &Owner,
) -> rusqlite::Result<bool> {
    let (read_to, holder) = session(connection, id)?;
    Ok(holder.run.as_ref() == Some(&owner.run) && read_to == watermark)
}

/// How the work on a claimed span ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanEnd {
    /// It was read up to this event.
    ReadTo(i64),
    /// It is to be read again.
    Waits,
    /// As `Waits`, because a model failed.
    Failed,
}

/// Notes how the work on a span ended and lets go of it; returns how often in a row a model failed at it.
pub(super) fn release_span(
    connection: &Connection,
    id: &str,
    end: SpanEnd,
) -> rusqlite::Result<i64> {
    let change = match end {
        SpanEnd::ReadTo(event) => format!("watermark = {event}, failures = 0"),
        SpanEnd::Waits => "failures = failures".to_owned(),
        SpanEnd::Failed => "failures = failures + 1".to_owned(),
    };
    let sql = format!(
        "UPDATE consolidation_state SET {change}, claimed_to = NULL, run = NULL, lease_until = NULL, pid = NULL, started = NULL,
           boot_id = NULL WHERE session_id = ?1 RETURNING failures"
    );
    connection.one(&sql, [id], |row| row.get(0))
}

/// Notes that no model could read the span, and why.
pub(super) fn park(
    connection: &Connection,
    id: &str,
    (first, last): (i64, i64),
    why: &str,
    now: i64,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO parked(session_id, first, last, why, at) VALUES (?1, ?2, ?3, ?4, ?5)";
    connection.run(sql, (id, first, last, text::shorten(why, 300), now))
}

/// Notes what the files of a conversation look like in which nothing is left to do.
pub(super) fn seen(connection: &Connection, id: &str, seen: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO consolidation_state(session_id, seen) VALUES (?1, ?2) ON CONFLICT(session_id) DO UPDATE SET seen = ?2";
    connection.run(sql, (id, seen))
}

/// Lets go of everything that `owner` claimed.
pub(super) fn release(connection: &Connection, owner: &Owner) -> rusqlite::Result<()> {
    let sql = "UPDATE consolidation_state SET run = NULL WHERE run = ?1";
    connection.execute(sql, [&owner.run]).map(drop)
}

/// Forgets how far everything was read. Facts and their sources stay.
pub(super) fn reset(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "UPDATE consolidation_state SET watermark = 0, seen = NULL, failures = 0;
         DELETE FROM parked;
         UPDATE consolidation_file_hashes SET sha256 = NULL, size = 0, mtime = 0, ctime = 0;",
    )
}

/// Returns the conversations that are the source of a fact.
pub(super) fn sessions_of_facts(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT DISTINCT session_id FROM fact_sources WHERE session_id IS NOT NULL";
    connection.all(sql, [], |row| row.get(0))
}

/// Returns the names that facts of `scope` have, as `Robert (also Bob)`, the newest first, at most `most`: whoever reads on
/// uses them again.
pub(super) fn names(
    connection: &Connection,
    scope: &str,
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT entity || coalesce(' (also ' || group_concat(value, ', ') FILTER (WHERE attribute = 'alias') || ')', '')
               FROM facts WHERE scope = ?1 AND entity_key <> 'user' AND valid_to IS NULL
               GROUP BY entity_key ORDER BY max(updated_at) DESC, entity LIMIT ?2";
    connection.all(
        sql,
        (scope, i64::try_from(most).unwrap_or(i64::MAX)),
        |row| row.get(0),
    )
}

/// Notes what was done.
pub(super) fn done(
    connection: &Connection,
    owner: &Owner,
    source: &str,
    (first, last): (i64, i64),
    applied: &Applied,
    now: i64,
) -> rusqlite::Result<()> {
    let [added, superseded, gone] = Change::counts(&applied.changes);
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let sql = "INSERT INTO spans(run, source, first, last, added, touched, superseded, gone, at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.run(
        sql,
        params![
            owner.run,
            source,
            first,
            last,
            count(added),
            count(applied.touched),
            count(superseded),
            count(gone),
            now
        ],
    )?;
    Ok(())
}
