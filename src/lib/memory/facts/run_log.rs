//! What runs put in and took out among the sources, and how one run is undone.

use rusqlite::{Connection, Row};

use super::store;
use super::store::{Applied, Statement};
use crate::memory::scope::Scope;

/// What a run changes is written down under its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log<'a> {
    pub run: &'a str,
    pub at: i64,
}

const INSERT: &str = "INSERT INTO source_log(run, put_in, scope, entity, attribute, value, path, line, session_id, seq, quote, \
                      confidence, said_at, at, ended)";

impl Log<'_> {
    /// Notes source `id`, which will be deleted.
    pub(super) fn taken_out(self, connection: &Connection, id: i64) -> rusqlite::Result<()> {
        let sql = format!(
            "{INSERT} SELECT ?2, 0, f.scope, f.entity, f.attribute, f.value, s.path, s.line, s.session_id, s.seq, s.quote,
               s.confidence, s.at, ?3, s.ended FROM fact_sources s JOIN facts f ON f.id = s.fact WHERE s.id = ?1"
        );
        connection
            .prepare_cached(&sql)?
            .execute((id, self.run, self.at))
            .map(drop)
    }

    pub(super) fn put_in(
        self,
        connection: &Connection,
        statement: &Statement,
    ) -> rusqlite::Result<()> {
        let Statement {
            scope,
            entity,
            attribute,
            value,
            confidence,
            path,
            line,
            session,
            quote,
            at,
            ended,
        } = statement;
        let (session, seq) = session
            .as_ref()
            .map_or((None, None), |(id, seq)| (Some(id), Some(seq)));
        let sql = format!(
            "{INSERT} VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
        );
        connection
            .prepare_cached(&sql)?
            .execute(rusqlite::params![
                self.run,
                scope.to_string(),
                entity,
                attribute,
                value,
                path,
                line,
                session,
                seq,
                quote,
                confidence,
                at,
                self.at,
                ended
            ])
            .map(drop)
    }
}

/// Takes back what `run` did to the sources: what it put in goes, wherever it stands in its file by now; what it took out
/// comes back where no later run read that file or conversation again. How far everything was gone through stays, so that
/// the next run does not do the same again. `None` when there is nothing of that run.
pub(crate) fn undo(
    connection: &Connection,
    run: &str,
    now: i64,
) -> rusqlite::Result<Option<Applied>> {
    let changes = |put_in: bool| -> rusqlite::Result<Vec<Statement>> {
        let sql = "SELECT scope, entity, attribute, value, path, line, session_id, seq, quote, confidence, said_at, ended
                   FROM source_log WHERE run = ?1 AND put_in = ?2 ORDER BY id DESC";
        connection
            .prepare(sql)?
            .query_map((run, put_in), statement_of)?
            .collect()
    };
    let (mut added, mut removed) = (changes(true)?, changes(false)?);
    if added.is_empty() && removed.is_empty() {
        return Ok(None);
    }
    // Words that only stood elsewhere afterwards, in a line further down or in a note of another name, are as they were.
    removed.retain(
        |old| match added.iter().position(|new| is_moved(old, new)) {
            Some(moved) => {
                added.swap_remove(moved);
                false
            }
            None => true,
        },
    );
    let later = "SELECT EXISTS(SELECT 1 FROM spans WHERE source = ?2 AND run <> ?1
                   AND id > (SELECT coalesce(max(id), 0) FROM spans WHERE run = ?1))";
    let mut later = connection.prepare(later)?;
    let mut back = Vec::new();
    for statement in removed {
        let source = statement
            .session
            .as_ref()
            .map_or(&statement.path, |(id, _)| id);
        let is_read_again: bool = later.query_row((run, source), |row| row.get(0))?;
        if !is_read_again {
            back.push(statement);
        }
    }
    let applied = store::exchange(connection, &added, &back, now)?;
    connection.execute("DELETE FROM source_log WHERE run = ?1", [run])?;
    Ok(Some(applied))
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

fn statement_of(row: &Row<'_>) -> rusqlite::Result<Statement> {
    let scope: String = row.get(0)?;
    let (session, seq): (Option<String>, Option<i64>) = (row.get(6)?, row.get(7)?);
    Ok(Statement {
        scope: Scope::stored(scope),
        entity: row.get(1)?,
        attribute: row.get(2)?,
        value: row.get(3)?,
        path: row.get(4)?,
        line: row.get(5)?,
        session: session.zip(seq),
        quote: row.get(8)?,
        confidence: row.get(9)?,
        at: row.get(10)?,
        ended: row.get(11)?,
    })
}
