//! `cost.db`: a row for every paid call, written before the call and settled after it.

use std::path::Path;
use std::time::Duration;

use chrono::{Datelike, Days};
use chrono_tz::Tz;
use rusqlite::Connection;

use super::rates::{self, nano, usd};
use crate::clock;
use crate::config::Cost;
use crate::db;
use crate::message::Usage;

const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_ledger.sql")];

/// The ledger, shared by every process that pays.
#[derive(Clone)]
pub struct Ledger {
    writer: db::Writer,
    zone: Tz,
}

/// A call that is about to be made.
#[derive(Debug, Clone)]
pub struct NewCall {
    /// Its id.
    pub call_id: String,
    /// The run it belongs to; empty for none: then no limit of one message holds it.
    pub run_id: String,
    /// The session it belongs to; empty for none.
    pub session_id: String,
    /// The source of the turn; of vectors `index` or `search`.
    pub source: &'static str,
    /// The provider's configured name.
    pub provider: String,
    /// The model's configured name.
    pub model: String,
    /// What it is asked for.
    pub kind: Kind,
    /// The most it can cost, nano US dollars; `None` = unpriced.
    pub bound: Option<i64>,
}

/// What a model is paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An answer.
    Chat,
    /// Texts made vectors.
    Embedding,
    /// Speech put into words.
    Stt,
}

impl Kind {
    /// Returns the word in `cost.db`.
    fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embedding => "embedding",
            Self::Stt => "stt",
        }
    }

    /// Returns the line of a provider file that says that a model is free.
    fn free(self) -> &'static str {
        match self {
            Self::Chat | Self::Embedding => "cost_per_mtok = [0, 0, 0, 0]",
            Self::Stt => "cost_per_minute = 0",
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub enum Outcome {
    /// It answered.
    Answered {
        /// Its tokens.
        usage: Usage,
        /// Its price; `None` = unpriced.
        cost: Option<i64>,
    },
    /// It failed and cannot have been charged.
    Free,
    /// It failed and may have been charged: it stays at its reservation.
    Unknown,
}

/// Why a call may not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A cap would be exceeded.
    #[error(
        "the {period} limit is reached: {setting} = {} in agent.toml, spent or reserved {}, this call may cost up to {} (US dollars)",
        rates::dollars(*limit), rates::dollars(*spent), rates::dollars(*bound)
    )]
    Cap {
        /// `day`, `month` or `message`.
        period: &'static str,
        /// The setting.
        setting: &'static str,
        /// Its value.
        limit: f64,
        /// What is spent or reserved.
        spent: f64,
        /// The most this call could cost.
        bound: f64,
    },
    /// A cap is set and the model has no price.
    #[error("the model {model} has no price, so no limit could be kept; write its price, or for a free one: {line}")]
    Unpriced {
        /// The model.
        model: String,
        /// The line that is missing.
        line: &'static str,
    },
}

impl Ledger {
    /// Opens `cost.db` and starts its writing thread. Days and months are those of `zone`.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub fn start(path: &Path, zone: Tz) -> Result<Self, db::Error> {
        Ok(Self { writer: db::Writer::start(path, MIGRATIONS)?, zone })
    }

    /// Reserves the most a call can cost, or refuses it: in one transaction with the sums it is
    /// checked against, so that parallel payers cannot exceed a cap together.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn reserve(&self, call: NewCall, caps: &Cost, now: i64) -> Result<Result<(), Refusal>, db::Error> {
        let caps = caps.clone();
        let (day, month) = (start_of_day(now, self.zone), start_of_month(now, self.zone));
        self.writer
            .write(move |connection| {
                if let Some(refusal) = refusal(connection, &call, &caps, day, month)? {
                    return Ok(Err(refusal));
                }
                connection
                    .prepare_cached(
                        "INSERT INTO costs(ts, call_id, run_id, session_id, source, provider, model, kind, cost_nano_usd, estimated)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1)",
                    )?
                    .execute((
                        now,
                        call.call_id,
                        call.run_id,
                        call.session_id,
                        call.source,
                        call.provider,
                        call.model,
                        call.kind.as_str(),
                        call.bound,
                    ))?;
                Ok(Ok(()))
            })
            .await
    }

    /// Replaces the reservation by what the call cost. Waits for no disk: a settle lost in a
    /// power cut leaves the higher reservation.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn settle(&self, call_id: &str, outcome: Outcome, latency_ms: i64) -> Result<(), db::Error> {
        let call_id = call_id.to_owned();
        self.writer
            .write_lazily(move |connection| match outcome {
                Outcome::Answered { usage, cost } => connection
                    .prepare_cached(
                        "UPDATE costs SET ok = 1, latency_ms = ?2, cost_nano_usd = ?3, input_tokens = ?4, output_tokens = ?5,
                         cache_read_tokens = ?6, cache_write_tokens = ?7, estimated = ?8 WHERE call_id = ?1",
                    )?
                    .execute((
                        call_id,
                        latency_ms,
                        cost,
                        signed(usage.input_tokens),
                        signed(usage.output_tokens),
                        signed(usage.cache_read_tokens),
                        signed(usage.cache_write_tokens),
                        usage.estimated,
                    ))
                    .map(drop),
                Outcome::Free => connection
                    .prepare_cached(
                        "UPDATE costs SET ok = 0, latency_ms = ?2, estimated = 0,
                         cost_nano_usd = CASE WHEN cost_nano_usd IS NULL THEN NULL ELSE 0 END WHERE call_id = ?1",
                    )?
                    .execute((call_id, latency_ms))
                    .map(drop),
                Outcome::Unknown => connection
                    .prepare_cached("UPDATE costs SET ok = 0, latency_ms = ?2 WHERE call_id = ?1")?
                    .execute((call_id, latency_ms))
                    .map(drop),
            })
            .await
    }
}

fn refusal(connection: &Connection, call: &NewCall, caps: &Cost, day: i64, month: i64) -> rusqlite::Result<Option<Refusal>> {
    if !caps.capped() {
        return Ok(None);
    }
    let Some(bound) = call.bound else {
        return Ok(Some(Refusal::Unpriced { model: call.model.clone(), line: call.kind.free() }));
    };
    let sum = |sql: &str, parameter: &dyn rusqlite::ToSql| -> rusqlite::Result<i64> {
        connection.prepare_cached(sql)?.query_row([parameter], |row| row.get(0))
    };
    let since = "SELECT coalesce(sum(cost_nano_usd), 0) FROM costs WHERE ts >= ?1";
    let of_run = "SELECT coalesce(sum(cost_nano_usd), 0) FROM costs WHERE run_id = ?1";
    let checks: [(&'static str, &'static str, f64, &str, &dyn rusqlite::ToSql); 3] = [
        ("day", "[cost] day_usd", caps.day_usd, since, &day),
        ("month", "[cost] month_usd", caps.month_usd, since, &month),
        ("message", "[cost] message_usd", caps.message_usd, of_run, &call.run_id),
    ];
    for (period, setting, limit, sql, parameter) in checks {
        if limit <= 0.0 || (period == "message" && call.run_id.is_empty()) {
            continue;
        }
        let spent = sum(sql, parameter)?;
        if spent.saturating_add(bound) > nano(limit) {
            return Ok(Some(Refusal::Cap { period, setting, limit, spent: usd(spent), bound: usd(bound) }));
        }
    }
    Ok(None)
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Returns how the file itself is, looking for at most `patience`.
///
/// # Errors
/// See [`db::Error`].
pub fn examine(path: &Path, patience: Duration) -> Result<db::Health, db::Error> {
    db::examine(path, MIGRATIONS, patience)
}

/// Returns when the local day of `now` began.
pub fn start_of_day(now: i64, zone: Tz) -> i64 {
    clock::start_of_day(clock::local_date(now, zone), zone)
}

/// Returns when the sixth local day before that of `now` began.
pub fn start_of_week(now: i64, zone: Tz) -> i64 {
    let today = clock::local_date(now, zone);
    clock::start_of_day(today.checked_sub_days(Days::new(6)).unwrap_or(today), zone)
}

/// Returns when the local calendar month of `now` began.
pub fn start_of_month(now: i64, zone: Tz) -> i64 {
    let today = clock::local_date(now, zone);
    clock::start_of_day(today.with_day(1).unwrap_or(today), zone)
}
