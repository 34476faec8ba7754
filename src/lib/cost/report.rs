//! The cost report, for any process that can read `cost.db`; needs no daemon.

use std::collections::BTreeMap;
use std::path::Path;

use chrono_tz::Tz;
use rusqlite::types::ValueRef;

use super::ledger::until;
use crate::clock;
use crate::db;
use crate::db::Statements;

/// Days are put together from these: local midnights fall on a quarter of an hour of UTC in every time
/// zone of today.
const QUARTER_MS: i64 = 900_000;

/// A share of what was spent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Whose: the model's configured name, the session's id (empty: none), the source, or the local
    /// date.
    pub name: String,
    /// Calls made.
    pub calls: i64,
    /// Calls without a price.
    pub unpriced_calls: i64,
    /// Input tokens, without cached ones.
    pub input_tokens: i64,
    /// Those of them that were made vectors: no cache has a part in that.
    pub vector_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// Tokens read from the vendor's cache.
    pub cache_read_tokens: i64,
    /// Tokens written to it.
    pub cache_write_tokens: i64,
    /// Nano US dollars.
    pub cost_nano_usd: i64,
    /// Those of them that are the most it can have been: the call runs, broke off, or its vendor
    /// counted nothing.
    pub estimated_nano_usd: i64,
}

impl Line {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.unpriced_calls += other.unpriced_calls;
        self.input_tokens += other.input_tokens;
        self.vector_tokens += other.vector_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_write_tokens += other.cache_write_tokens;
        self.cost_nano_usd = self.cost_nano_usd.saturating_add(other.cost_nano_usd);
        self.estimated_nano_usd = self
            .estimated_nano_usd
            .saturating_add(other.estimated_nano_usd);
    }

    /// Returns the input tokens of conversations, cached ones too.
    pub fn all_input_tokens(&self) -> i64 {
        self.input_tokens - self.vector_tokens + self.cache_read_tokens + self.cache_write_tokens
    }

    /// Returns which part of that was read from the vendor's cache, 0 to 1; `None` without input.
    pub fn cache_read_ratio(&self) -> Option<f64> {
        let all = self.all_input_tokens();
        (all > 0).then(|| self.cache_read_tokens as f64 / all as f64)
    }

    /// Returns the sum of `lines`, without a name.
    pub fn sum(lines: &[Self]) -> Self {
        let mut sum = Self::default();
        lines.iter().for_each(|line| sum.add(line));
        sum
    }
}

/// The kind of the groups of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Configured models.
    Model,
    /// Sessions.
    Session,
    /// Where the messages came from.
    Source,
    /// Days in this zone.
    Day(Tz),
}

impl Group {
    fn column(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Session => "coalesce(session_id, '')",
            Self::Source => "source",
            Self::Day(_) => "ts / 900000",
        }
    }

    fn name(self, value: ValueRef<'_>) -> rusqlite::Result<String> {
        match self {
            Self::Model | Self::Session | Self::Source => Ok(value.as_str()?.to_owned()),
            Self::Day(zone) => {
                Ok(clock::local_date(value.as_i64()?.saturating_mul(QUARTER_MS), zone).to_string())
            }
        }
    }
}

/// What was spent in a period.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// A line a model, dearest first.
    pub models: Vec<Line>,
    /// A line a group: days in order, others dearest first.
    pub groups: Vec<Line>,
}

/// Returns what was spent from `since` to `now` (milliseconds since 1970 UTC), `None` being ever; empty when there is no ledger
/// yet. Models and groups are of one moment and have the same sum.
///
/// # Errors
/// See [`db::Error`].
pub fn report(
    path: &Path,
    (since, now): (i64, Option<i64>),
    group: Group,
) -> Result<Report, db::Error> {
    report_between(path, (since, now.map_or(i64::MAX, until)), group)
}

/// Returns how many calls are dated later than `now`: a clock was ahead when they were made.
///
/// # Errors
/// See [`db::Error`].
pub fn later_calls(path: &Path, now: i64) -> Result<i64, db::Error> {
    let sql = "SELECT count(*) FROM costs WHERE ts >= ?1";
    let count = db::read(path, |connection| {
        connection.one(sql, [until(now)], |row| row.get(0))
    });
    count.map(Option::unwrap_or_default)
}

fn report_between(
    path: &Path,
    (since, until): (i64, i64),
    group: Group,
) -> Result<Report, db::Error> {
    let sql = format!(
        "SELECT model, {}, count(*), sum(cost_nano_usd IS NULL), sum(input_tokens), sum(output_tokens),
                sum(cache_read_tokens), sum(cache_write_tokens), coalesce(sum(cost_nano_usd), 0),
                coalesce(sum(cost_nano_usd) FILTER (WHERE estimated), 0),
                coalesce(sum(input_tokens) FILTER (WHERE kind = 'embedding'), 0)
         FROM costs WHERE ts >= ?1 AND ts < ?2 GROUP BY 1, 2",
        group.column()
    );
    db::read(path, |connection| {
        let (mut models, mut groups) = (BTreeMap::new(), BTreeMap::new());
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([since, until])?;
        while let Some(row) = rows.next()? {
            let line = Line {
                name: String::new(),
                calls: row.get(2)?,
                unpriced_calls: row.get(3)?,
                input_tokens: row.get(4)?,
                output_tokens: row.get(5)?,
                cache_read_tokens: row.get(6)?,
                cache_write_tokens: row.get(7)?,
                cost_nano_usd: row.get(8)?,
                estimated_nano_usd: row.get(9)?,
                vector_tokens: row.get(10)?,
            };
            models
                .entry(row.get(0)?)
                .or_insert_with(Line::default)
                .add(&line);
            groups
                .entry(group.name(row.get_ref(1)?)?)
                .or_insert_with(Line::default)
                .add(&line);
        }
        let (models, mut groups) = (named(models), named(groups));
        let models = dearest_first(models);
        if !matches!(group, Group::Day(_)) {
            groups = dearest_first(groups);
        }
        Ok(Report { models, groups })
    })
    .map(Option::unwrap_or_default)
}

/// Returns what runs that `source` began cost from `since` to `now` (milliseconds since 1970 UTC), in US dollars: the calls of
/// the sub-agents that they sent, and of the tool servers that they asked, too.
///
/// # Errors
/// See [`db::Error`].
pub fn spent_by_runs_of(
    path: &Path,
    (since, now): (i64, i64),
    source: &str,
) -> Result<f64, db::Error> {
    // A run may have begun before `since`: its own calls are looked for at any time. What sums a sub-agent's
    // conversation up has a run of its own, in the same session.
    let sql = "SELECT coalesce(sum(cost_nano_usd), 0) FROM costs AS call WHERE ts >= ?1 AND ts < ?3 AND (source = ?2
                 OR (run_id != '' AND EXISTS (SELECT 1 FROM costs WHERE run_id = call.run_id AND source = ?2))
                 OR (session_id != '' AND EXISTS (SELECT 1 FROM costs AS sub WHERE sub.session_id = call.session_id
                     AND sub.source IN ('subagent', 'sampling') AND sub.run_id != ''
                     AND EXISTS (SELECT 1 FROM costs WHERE run_id = sub.run_id AND source = ?2))))";
    let values = (since, source, until(now));
    let sum = db::read(path, |connection| {
        connection.one(sql, values, |row| row.get(0))
    });
    Ok(super::usd(sum?.unwrap_or_default()))
}

/// Returns when the first call was made, milliseconds since 1970 UTC; `None` when there was none.
///
/// # Errors
/// See [`db::Error`].
pub fn first_call(path: &Path) -> Result<Option<i64>, db::Error> {
    let sql = "SELECT min(ts) FROM costs";
    let first = db::read(path, |connection| connection.one(sql, [], |row| row.get(0)));
    first.map(Option::flatten)
}

/// Returns what was spent from `since` to `now` (milliseconds since 1970 UTC), a line a model, dearest
/// first; empty when there is no ledger yet.
///
/// # Errors
/// See [`db::Error`].
pub fn by_model(path: &Path, since: i64, now: i64) -> Result<Vec<Line>, db::Error> {
    report_between(path, (since, until(now)), Group::Model).map(|report| report.models)
}

/// Returns the sum of `lines` in US dollars.
pub fn total_usd(lines: &[Line]) -> f64 {
    super::usd(Line::sum(lines).cost_nano_usd)
}

fn named(lines: BTreeMap<String, Line>) -> Vec<Line> {
    lines
        .into_iter()
        .map(|(name, line)| Line { name, ..line })
        .collect()
}

fn dearest_first(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by_key(|line| std::cmp::Reverse(line.cost_nano_usd));
    lines
}
