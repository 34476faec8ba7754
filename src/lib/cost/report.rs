//! What was spent, for anybody who may read `cost.db`; needs no daemon.

use std::path::Path;

use crate::db;

/// One model's share of a period.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// The model's configured name.
    pub model: String,
    /// Calls made.
    pub calls: i64,
    /// Calls without a price.
    pub unpriced_calls: i64,
    /// Input tokens, without cached ones.
    pub input_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// Tokens read from the vendor's cache.
    pub cache_read_tokens: i64,
    /// Tokens written to it.
    pub cache_write_tokens: i64,
    /// Nano US dollars.
    pub cost_nano_usd: i64,
}

/// Returns the sum of `lines` in US dollars.
pub fn total_usd(lines: &[Line]) -> f64 {
    super::usd(lines.iter().map(|line| line.cost_nano_usd).sum())
}

/// Returns what was spent since `since` (milliseconds since 1970 UTC), a line a model, dearest
/// first; empty when there is no ledger yet.
///
/// # Errors
/// See [`db::Error`].
pub fn by_model(path: &Path, since: i64) -> Result<Vec<Line>, db::Error> {
    let Some(connection) = db::open_read(path)? else { return Ok(Vec::new()) };
    let query = || -> rusqlite::Result<Vec<Line>> {
        connection
            .prepare(
                "SELECT model, count(*), sum(cost_nano_usd IS NULL), sum(input_tokens), sum(output_tokens),
                        sum(cache_read_tokens), sum(cache_write_tokens), coalesce(sum(cost_nano_usd), 0)
                 FROM costs WHERE ts >= ?1 GROUP BY model ORDER BY 8 DESC, 1",
            )?
            .query_map([since], |row| {
                Ok(Line {
                    model: row.get(0)?,
                    calls: row.get(1)?,
                    unpriced_calls: row.get(2)?,
                    input_tokens: row.get(3)?,
                    output_tokens: row.get(4)?,
                    cache_read_tokens: row.get(5)?,
                    cache_write_tokens: row.get(6)?,
                    cost_nano_usd: row.get(7)?,
                })
            })?
            .collect()
    };
    query().map_err(|source| db::Error::of(path, source))
}
