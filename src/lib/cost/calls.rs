//! The single calls of runs, for any process that can read `cost.db`; needs no daemon.

use std::path::Path;

use rusqlite::Row;

use crate::db;
use crate::db::Statements;
use crate::message::Usage;

/// A paid call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The run it counts for.
    pub run_id: String,
    /// The session it was made in; empty for none.
    pub session_id: String,
    /// When it began, milliseconds since 1970 UTC.
    pub at: i64,
    /// The source of its turn, or what else it was for: `recall`, `compaction` …
    pub source: String,
    /// The model's configured name.
    pub model: String,
    /// `chat`, `stt` …
    pub kind: String,
    /// Its tokens.
    pub usage: Usage,
    /// Nano US dollars; `None` = unpriced.
    pub cost_nano_usd: Option<i64>,
    /// How long it took; `None` while it runs, or when it was lost.
    pub duration_ms: Option<i64>,
    /// Whether it answered; `None` while it runs, or when it was lost.
    pub ok: Option<bool>,
}

/// Returns the calls that count for any of `runs`, in the order in which they began; none when there is no ledger.
///
/// # Errors
/// See [`db::Error`].
pub fn calls(path: &Path, runs: &[&str]) -> Result<Vec<Call>, db::Error> {
    db::read(path, |connection| {
        let sql = "SELECT ts, run_id, coalesce(session_id, '') AS session_id, source, model, kind, input_tokens, output_tokens,
                    cache_read_tokens, cache_write_tokens, cost_nano_usd, latency_ms, ok, estimated
             FROM costs WHERE run_id = ?1 ORDER BY ts, rowid";
        let mut found = Vec::new();
        for run in runs.iter().filter(|run| !run.is_empty()) {
            found.extend(connection.all::<_, Vec<Call>>(sql, [run], call)?);
        }
        found.sort_by_key(|call| call.at);
        Ok(found)
    })
    .map(Option::unwrap_or_default)
}

fn call(row: &Row<'_>) -> rusqlite::Result<Call> {
    let tokens = |column: &str| {
        row.get::<_, i64>(column)
            .map(|tokens| u64::try_from(tokens).unwrap_or(0))
    };
    let ok: Option<bool> = row.get("ok")?;
    Ok(Call {
        run_id: row.get("run_id")?,
        session_id: row.get("session_id")?,
        at: row.get("ts")?,
        source: row.get("source")?,
        model: row.get("model")?,
        kind: row.get("kind")?,
        usage: Usage {
            input_tokens: tokens("input_tokens")?,
            output_tokens: tokens("output_tokens")?,
            cache_read_tokens: tokens("cache_read_tokens")?,
            cache_write_tokens: tokens("cache_write_tokens")?,
            estimated: row.get("estimated")?,
        },
        cost_nano_usd: row.get("cost_nano_usd")?,
        duration_ms: row.get("latency_ms")?,
        ok,
    })
}
