//! How far files and conversations were worked through, as rows; claims of them.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::claim::{COLUMNS, Holder, LEASE_MS, Owner};
use crate::memory::facts::Change;
use crate::memory::facts::store::Applied;
use crate::memory::sources::Stamp;

/// A row of `consolidation_file_hashes`.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub stamp: Stamp,
    /// `None` until it was worked through.
    pub sha256: Option<Vec<u8>>,
    holder: Holder,
}

impl File {
    /// Returns the run that claimed it and died.
    pub(super) fn left_by(&self, owner: &Owner, now: i64) -> Option<&str> {
        self.holder
            .run
            .as_deref()
            .filter(|_| self.holder.is_free_for(owner, now))
    }
}

/// Returns what is known of files, by path; one that is only the source of a fact is known too.
pub(super) fn files(connection: &Connection) -> rusqlite::Result<BTreeMap<String, File>> {
    let sql = format!(
        "SELECT path, size, mtime, ctime, sha256, {COLUMNS} FROM consolidation_file_hashes"
    );
    let mut query = connection.prepare(&sql)?;
    let rows = query.query_map([], |row| {
        let stamp = Stamp {
            size: row.get(1)?,
            times: (row.get(2)?, row.get(3)?),
        };
        Ok((
            row.get(0)?,
            File {
                stamp,
                sha256: row.get(4)?,
                holder: Holder::of(row, 5)?,
            },
        ))
    })?;
    let mut known: BTreeMap<String, File> = rows.collect::<rusqlite::Result<_>>()?;
    let mut query =
        connection.prepare("SELECT DISTINCT path FROM fact_sources WHERE session_id IS NULL")?;
    for path in query.query_map([], |row| row.get(0))? {
        known.entry(path?).or_default();
    }
    Ok(known)
}

fn file(connection: &Connection, path: &str) -> rusqlite::Result<File> {
    let sql = format!("SELECT sha256, {COLUMNS} FROM consolidation_file_hashes WHERE path = ?1");
    let read = |row: &rusqlite::Row<'_>| {
        Ok(File {
            stamp: Stamp::default(),
            sha256: row.get(0)?,
            holder: Holder::of(row, 1)?,
        })
    };
    Ok(connection
        .prepare_cached(&sql)?
        .query_row([path], read)
        .optional()?
        .unwrap_or_default())
}

/// Claims the file that was `sha256` when it was worked through last; false when somebody else did, or
/// is at it.
pub(super) fn claim_file(
    connection: &Connection,
    path: &str,
    sha256: Option<&[u8]>,
    owner: &Owner,
    now: i64,
) -> rusqlite::Result<bool> {
    let row = file(connection, path)?;
    if !row.holder.is_free_for(owner, now) || row.sha256.as_deref() != sha256 {
        return Ok(false);
    }
    connection
        .prepare_cached(
            "INSERT INTO consolidation_file_hashes(path, run, lease_until, pid, started, boot_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT(path) DO UPDATE SET run = ?2, lease_until = ?3, pid = ?4, started = ?5, boot_id = ?6",
        )?
        .execute((path, &owner.run, now + LEASE_MS, owner.pid, owner.started, &owner.boot_id))?;
    Ok(true)
}

/// Returns true when the claim is still ours and nobody worked the file through.
pub(super) fn holds_file(
    connection: &Connection,
    path: &str,
    sha256: Option<&[u8]>,
    owner: &Owner,
) -> rusqlite::Result<bool> {
    let row = file(connection, path)?;
    Ok(row.holder.run.as_ref() == Some(&owner.run) && row.sha256.as_deref() == sha256)
}

/// Notes that the file was worked through as `done`, or is gone, and lets go of it.
pub(super) fn file_done(
    connection: &Connection,
    path: &str,
    done: Option<(Stamp, &[u8])>,
) -> rusqlite::Result<()> {
    let Some((stamp, sha256)) = done else {
        connection
            .prepare_cached("DELETE FROM consolidation_file_hashes WHERE path = ?1")?
            .execute([path])?;
        return Ok(());
    };
    connection
        .prepare_cached(
            "UPDATE consolidation_file_hashes SET sha256 = ?2, size = ?3, mtime = ?4, ctime = ?5,
               run = NULL, lease_until = NULL, pid = NULL, started = NULL, boot_id = NULL WHERE path = ?1",
        )?
        .execute((path, sha256, stamp.size, stamp.times.0, stamp.times.1))?;
    Ok(())
}

/// Notes what a file looks like that says what it said; the claim of `dead`, a run, ends.
pub(super) fn restamp(
    connection: &Connection,
    path: &str,
    stamp: Stamp,
    dead: Option<&str>,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE consolidation_file_hashes SET size = ?2, mtime = ?3, ctime = ?4, run = nullif(run, ?5) WHERE path = ?1",
        )?
        .execute((path, stamp.size, stamp.times.0, stamp.times.1, dead))?;
    Ok(())
}

/// A row of `consolidation_state`.
#[derive(Debug, Clone, Default)]
pub(super) struct Session {
    /// The last event that was worked through.
    pub watermark: i64,
    /// What its files looked like when nothing was left to do.
    pub seen: Option<String>,
    holder: Holder,
}

/// Returns what is known of conversations, by id.
pub(super) fn sessions(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Session>> {
    let sql = format!("SELECT session_id, watermark, seen, {COLUMNS} FROM consolidation_state");
    let mut query = connection.prepare(&sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok((
            row.get(0)?,
            Session {
                watermark: row.get(1)?,
                seen: row.get(2)?,
                holder: Holder::of(row, 3)?,
            },
        ))
    };
    query.query_map([], read)?.collect()
}

fn session(connection: &Connection, id: &str) -> rusqlite::Result<Session> {
    let sql = format!("SELECT watermark, {COLUMNS} FROM consolidation_state WHERE session_id = ?1");
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Session {
            watermark: row.get(0)?,
            seen: None,
            holder: Holder::of(row, 1)?,
        })
    };
    Ok(connection
        .prepare_cached(&sql)?
        .query_row([id], read)
        .optional()?
        .unwrap_or_default())
}

/// Claims the conversation from event `watermark` to event `to`; false when somebody else worked it
/// through, or is at it.
pub(super) fn claim_span(
    connection: &Connection,
    id: &str,
    watermark: i64,
    to: i64,
    owner: &Owner,
    now: i64,
) -> rusqlite::Result<bool> {
    let row = session(connection, id)?;
    if !row.holder.is_free_for(owner, now) || row.watermark != watermark {
        return Ok(false);
    }
    connection
        .prepare_cached(
            "INSERT INTO consolidation_state(session_id, claimed_to, run, lease_until, pid, started, boot_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(session_id)
             DO UPDATE SET claimed_to = ?2, run = ?3, lease_until = ?4, pid = ?5, started = ?6, boot_id = ?7",
        )?
        .execute((id, to, &owner.run, now + LEASE_MS, owner.pid, owner.started, &owner.boot_id))?;
    Ok(true)
}

/// Returns true when the claim is still ours and the watermark where it was.
pub(super) fn holds_span(
    connection: &Connection,
    id: &str,
    watermark: i64,
    owner: &Owner,
) -> rusqlite::Result<bool> {
    let row = session(connection, id)?;
    Ok(row.holder.run.as_ref() == Some(&owner.run) && row.watermark == watermark)
}

/// Notes that the conversation was worked through up to event `to` and lets go of it.
pub(super) fn span_done(connection: &Connection, id: &str, to: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE consolidation_state SET watermark = ?2, failures = 0, claimed_to = NULL, run = NULL, lease_until = NULL, pid = NULL,
               started = NULL, boot_id = NULL WHERE session_id = ?1",
        )?
        .execute((id, to))?;
    Ok(())
}

/// Lets go of a span that could not be worked through; returns how often in a row that was because it `failed`.
pub(super) fn let_go(connection: &Connection, id: &str, failed: bool) -> rusqlite::Result<i64> {
    connection
        .prepare_cached(
            "UPDATE consolidation_state SET failures = failures + ?2, claimed_to = NULL, run = NULL, lease_until = NULL, pid = NULL,
               started = NULL, boot_id = NULL WHERE session_id = ?1 RETURNING failures",
        )?
        .query_row((id, failed), |row| row.get(0))
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
    connection
        .prepare_cached(sql)?
        .execute((id, first, last, crate::text::shorten(why, 300), now))
        .map(drop)
}

/// Notes what the files of a conversation look like in which nothing is left to do.
pub(super) fn seen(connection: &Connection, id: &str, seen: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO consolidation_state(session_id, seen) VALUES (?1, ?2) ON CONFLICT(session_id) DO UPDATE SET seen = ?2",
        )?
        .execute((id, seen))?;
    Ok(())
}

/// Lets go of everything that `owner` claimed.
pub(super) fn release(connection: &Connection, owner: &Owner) -> rusqlite::Result<()> {
    for table in ["consolidation_file_hashes", "consolidation_state"] {
        connection.execute(
            &format!("UPDATE {table} SET run = NULL WHERE run = ?1"),
            [&owner.run],
        )?;
    }
    Ok(())
}

/// Forgets how far everything was worked through. Facts and their sources stay.
pub(super) fn forget(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "UPDATE consolidation_state SET watermark = 0, seen = NULL, failures = 0;
         DELETE FROM parked;
         UPDATE consolidation_file_hashes SET sha256 = NULL, size = 0, mtime = 0, ctime = 0;",
    )
}

/// Returns the conversations that are the source of a fact.
pub(super) fn sessions_of_facts(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut query = connection
        .prepare("SELECT DISTINCT session_id FROM fact_sources WHERE session_id IS NOT NULL")?;
    query.query_map([], |row| row.get(0))?.collect()
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
    connection
        .prepare_cached(sql)?
        .query_map((scope, i64::try_from(most).unwrap_or(i64::MAX)), |row| {
            row.get(0)
        })?
        .collect()
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
    connection
        .prepare_cached(
            "INSERT INTO spans(run, source, first, last, added, touched, superseded, gone, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            owner.run,
            source,
            first,
            last,
            count(added),
            count(applied.touched),
            count(superseded),
            count(gone),
            now
        ])?;
    Ok(())
}
