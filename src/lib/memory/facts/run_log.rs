//! The changes of runs to the sources, and undoing a run.

use rusqlite::Connection;

use super::rows::{STATEMENT, statement_of};
use super::store;
use super::store::{Applied, Part, Statement};
use crate::db::Statements;

/// The columns of a statement in the log, in the order of [`statement_of`].
const LOGGED: &str = "scope, entity, attribute, value, path, line, session_id, seq, quote, confidence, said_at, ended, \
                      said_of";
/// In the place of the run: what was undone that was said in a conversation. The same message, which may be read again, does
/// not state it any more.
pub(crate) const UNDONE: &str = "undone";

/// Notes, under the name of `run`, stored sources that it took out, before they go, or put in. `which` names them by `?4`.
pub(super) fn note(
    connection: &Connection,
    (run, now): (&str, i64),
    put_in: bool,
    (which, id): (&str, i64),
) -> rusqlite::Result<()> {
    let sql = format!(
        "INSERT INTO source_log(run, put_in, at, scope, entity, attribute, value, path, line, session_id, seq, quote, confidence,
           said_at, ended, said_of)
         SELECT ?1, ?2, ?3, {STATEMENT} FROM fact_sources s JOIN facts f ON f.id = s.fact WHERE {which} ORDER BY s.id"
    );
    connection.run(&sql, (run, put_in, now, id))
}

/// Takes back what `run` did to the sources: what it put in goes, wherever it is in its file by now; what it took out
/// comes back where no later run read that file or conversation again. How far everything was read stays, and what was said
/// in a conversation is kept as [`UNDONE`], so that the next run does not do the same again. `None` when there is nothing of
/// that run.
pub(crate) fn undo(
    connection: &Connection,
    run: &str,
    now: i64,
) -> rusqlite::Result<Option<Applied>> {
    if run == UNDONE {
        return Ok(None);
    }
    let changes = |put_in: bool| -> rusqlite::Result<Vec<(i64, Statement)>> {
        let sql = format!(
            "SELECT {LOGGED}, id FROM source_log WHERE run = ?1 AND put_in = ?2 ORDER BY id DESC"
        );
        connection.all(&sql, (run, put_in), |row| {
            Ok((row.get(13)?, statement_of(row)?))
        })
    };
    let (mut added, mut removed) = (changes(true)?, changes(false)?);
    if added.is_empty() && removed.is_empty() {
        return Ok(None);
    }
    // Words that only stood elsewhere afterwards, in a line further down or in a note of another name, are as they were.
    removed.retain(
        |(_, old)| match added.iter().position(|(_, new)| is_moved(old, new)) {
            Some(moved) => {
                added.swap_remove(moved);
                false
            }
            None => true,
        },
    );
    let later = "SELECT EXISTS(SELECT 1 FROM spans WHERE source = ?2 AND run <> ?1
                   AND id > (SELECT coalesce(max(id), 0) FROM spans WHERE run = ?1))";
    let mut back = Vec::new();
    for (_, statement) in removed {
        let source = statement
            .session
            .as_ref()
            .map_or(&statement.path, |(id, _)| id);
        let is_read_again: bool = connection.one(later, (run, source), |row| row.get(0))?;
        if !is_read_again {
            back.push(statement);
        }
    }
    let keep = "UPDATE source_log SET run = ?2 WHERE id = ?1 AND session_id IS NOT NULL";
    for (id, _) in &added {
        connection.run(keep, (id, UNDONE))?;
    }
    let added: Vec<Statement> = added.into_iter().map(|(_, statement)| statement).collect();
    let applied = store::exchange(connection, &added, back, now)?;
    connection.execute("DELETE FROM source_log WHERE run = ?1", [run])?;
    Ok(Some(applied))
}

/// Returns what was undone of what `part` states.
pub(super) fn undone(connection: &Connection, part: Part<'_>) -> rusqlite::Result<Vec<Statement>> {
    let Part::Span { session, from, to } = part else {
        return Ok(Vec::new());
    };
    let sql = format!(
        "SELECT {LOGGED} FROM source_log WHERE run = ?1 AND session_id = ?2 AND seq BETWEEN ?3 AND ?4"
    );
    connection.all(&sql, (UNDONE, session, from, to), statement_of)
}

fn is_moved(old: &Statement, new: &Statement) -> bool {
    let same = Statement {
        path: new.path.clone(),
        line: new.line,
        at: new.at,
        confidence: new.confidence,
        ..old.clone()
    };
    same == *new
}
