//! `cost.db`: a row for every paid call, written before the call and settled after it.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::{Datelike, Days};
use chrono_tz::Tz;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::Notify;

use super::alerts;
use super::alerts::Span;
use super::caps;
use super::caps::Refusal;
use super::rates::nano;
use crate::clock;
use crate::config::Cost;
use crate::db;
use crate::db::Statements;
use crate::message::Usage;

const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_ledger.sql"),
    include_str!("migrations/0002_caps.sql"),
    include_str!("migrations/0003_view.sql"),
];

/// A clock may have been set back by so much in its zone or by hand, and what was paid before counts still.
const LEEWAY_MS: i64 = 24 * 3_600_000;

/// The ledger, shared by every process that pays.
#[derive(Clone)]
pub struct Ledger {
    pub(super) writer: db::Writer,
    zone: Arc<Mutex<Tz>>,
    /// Told when there is something new that the owner is to know.
    pub news: Arc<Notify>,
    /// Notified when a call of this process has settled: others may fit below a cap now.
    pub settled: Arc<Notify>,
    /// Calls of this process that run: what they reserve more than they cost comes back.
    running: Running,
}

/// Reservations of calls that run, by call.
type Running = Arc<Mutex<HashMap<String, Held>>>;

#[derive(Debug, Clone)]
struct Held {
    run_id: String,
    session_id: String,
    bound: i64,
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
    /// The most its run may cost, US dollars, when somebody said so.
    pub budget_usd: Option<f64>,
    /// The most its session may cost of that: a sub-agent's own budget.
    pub share_usd: Option<f64>,
    /// Whether somebody else than the owner has it made: the last part of a day's and a month's limit is not theirs.
    pub of_others: bool,
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
    /// Words spoken.
    Tts,
}

impl Kind {
    /// Returns the word in `cost.db`.
    fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Embedding => "embedding",
            Self::Stt => "stt",
            Self::Tts => "tts",
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

/// A call that may be made, at the most it can cost.
#[derive(Debug)]
pub struct Reserved {
    call_id: String,
    spans: Vec<Span>,
    running: Running,
    settled: Arc<Notify>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.running.lock().remove(&self.call_id);
        self.settled.notify_waiters();
    }
}

/// The model of what an earlier ledger counted.
const EARLIER: &str = "(before cost.db was lost)";

impl Ledger {
    /// Opens `cost.db` and starts its writing thread. Days and months are those of `zone`.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub fn start(path: &Path, zone: Tz) -> Result<Self, db::Error> {
        Ok(Self {
            writer: db::Writer::start(path, MIGRATIONS)?,
            zone: Arc::new(Mutex::new(zone)),
            news: Arc::default(),
            settled: Arc::default(),
            running: Arc::default(),
        })
    }

    /// Completes the file of the database before the process ends, see [`db::Writer::checkpoint`].
    pub async fn checkpoint(&self) {
        self.writer.checkpoint().await;
    }

    /// Waits until the database is damaged beyond use, see [`db::Writer::lost`].
    pub async fn lost(&self) {
        self.writer.lost().await;
    }

    /// Returns true while another program holds the database, see [`db::Writer::is_held`].
    pub fn is_held(&self) -> bool {
        self.writer.is_held()
    }

    /// Counts days and months in `zone` from now on, here and in all clones.
    pub fn set_zone(&self, zone: Tz) {
        *self.zone.lock() = zone;
    }

    /// Returns what was spent from `since` to `now` (milliseconds since 1970 UTC), in US dollars.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn spent_since(&self, since: i64, now: i64) -> Result<f64, db::Error> {
        let sql = "SELECT coalesce(sum(cost_nano_usd), 0) FROM costs WHERE ts >= ?1 AND ts < ?2";
        let spent = self
            .writer
            .read(move |connection| connection.one(sql, [since, until(now)], |row| row.get(0)));
        spent.await.map(super::usd)
    }

    /// Counts what an earlier ledger knew: `usd` dollars, spent at `at`, milliseconds since 1970 UTC. Only a ledger without any
    /// call takes it; true when it did.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn count_earlier(&self, usd: f64, at: i64) -> Result<bool, db::Error> {
        let sql = "INSERT INTO costs(ts, call_id, source, provider, model, kind, cost_nano_usd, ok, estimated)
             SELECT ?1, 'earlier', 'cli', 'unknown', ?2, 'chat', ?3, 1, 1 WHERE NOT EXISTS (SELECT 1 FROM costs)";
        let cost = super::rates::nano(usd);
        self.writer
            .write(move |connection| connection.change(sql, (at, EARLIER, cost)))
            .await
            .map(|rows| rows > 0)
    }

    /// Reserves the most a call can cost, or refuses it: in one transaction with the sums it is
    /// checked against, so that parallel payers cannot exceed a cap together.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn reserve(
        &self,
        call: NewCall,
        caps: &Cost,
        now: i64,
    ) -> Result<Result<Reserved, Refusal>, db::Error> {
        let caps = caps.clone();
        let zone = *self.zone.lock();
        let since = caps::Spans {
            day: start_of_day(now, zone),
            month: start_of_month(now, zone),
            until: until(now),
        };
        let spans = alerts::spans(now, zone, &caps);
        // Calls that settle while this is decided still count as running: then it is asked again.
        let mut held = self.running.lock().clone();
        let (running, settled) = (self.running.clone(), self.settled.clone());
        let (reserved, is_news) = self
            .writer
            .write(move |connection| {
                if let Some(refusal) = caps::refusal(connection, &call, &caps, since)? {
                    held.extend(running.lock().clone());
                    let refusal = judged(refusal, &call, &held, (now, zone));
                    let is_news = match &refusal {
                        // What is left is the owner's: the limit is not reached.
                        Refusal::Cap { .. } if call.of_others => false,
                        Refusal::Cap { period: period @ ("day" | "month"), spent, held: false, .. } => {
                            alerts::refused(connection, &spans, (*period == "day", *spent), now)?
                        }
                        Refusal::Cap { .. } | Refusal::Unpriced { .. } => false,
                    };
                    return Ok((Err(refusal), is_news));
                }
                let sql = "INSERT INTO costs(ts, call_id, run_id, session_id, source, provider, model, kind, cost_nano_usd, estimated)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 1)";
                connection.run(
                    sql,
                    (
                        now,
                        &call.call_id,
                        &call.run_id,
                        &call.session_id,
                        call.source,
                        &call.provider,
                        &call.model,
                        call.kind.as_str(),
                        call.bound,
                    ),
                )?;
                // Known before the next call is judged; dropped, also when nobody waits for it any more, it is not.
                let reserved = Reserved {
                    call_id: call.call_id.clone(),
                    spans,
                    running,
                    settled,
                };
                let held = Held {
                    run_id: call.run_id,
                    session_id: call.session_id,
                    bound: call.bound.unwrap_or(0),
                };
                reserved.running.lock().insert(call.call_id, held);
                Ok((Ok(reserved), false))
            })
            .await?;
        if is_news {
            self.news.notify_one();
        }
        Ok(reserved)
    }

    /// Replaces the reservation by what the call cost. Waits for no disk: a settle lost in a
    /// power cut leaves the higher reservation.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn settle(
        &self,
        reserved: Reserved,
        outcome: Outcome,
        latency_ms: i64,
    ) -> Result<(), db::Error> {
        let (call_id, spans) = (reserved.call_id.clone(), reserved.spans.clone());
        let now = clock::now_ms();
        let is_news = self
            .writer
            .write_lazily(move |connection| {
                book(connection, &call_id, outcome, latency_ms)?;
                alerts::note(connection, &spans, now)
            })
            .await?;
        if is_news {
            self.news.notify_one();
        }
        Ok(())
    }

    /// As [`Self::settle`], of a call that took so long. When that fails its reservation stays counted.
    pub(crate) async fn close(&self, reserved: Reserved, outcome: Outcome, took: Duration) {
        let latency_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        if let Err(error) = self.settle(reserved, outcome, latency_ms).await {
            tracing::error!(%error, "the actual cost of a call could not be recorded; its full reservation is counted");
        }
    }
}

/// Says of a refusal whether it is over when the calls that run have settled, or at a known time.
fn judged(
    refusal: Refusal,
    call: &NewCall,
    running: &HashMap<String, Held>,
    (now, zone): (i64, Tz),
) -> Refusal {
    let Refusal::Cap {
        period,
        setting,
        file,
        limit,
        spent,
        bound,
        ..
    } = refusal
    else {
        return refusal;
    };
    let counts = |held: &&Held| match period {
        "day" | "month" => true,
        "session" | "sub-agent" => held.session_id == call.session_id,
        _ => held.run_id == call.run_id,
    };
    let reserved: i64 = running.values().filter(counts).map(|held| held.bound).sum();
    let (limit_nano, bound_nano) = (nano(limit), nano(bound));
    let fits_alone = bound_nano <= limit_nano;
    let resets_at = match period {
        "day" => Some(next_day(now, zone)),
        "month" => Some(next_month(now, zone)),
        _ => None,
    };
    Refusal::Cap {
        period,
        setting,
        file,
        limit,
        spent,
        bound,
        held: reserved > 0 && nano(spent) - reserved + bound_nano <= limit_nano,
        resets_at: resets_at.filter(|_| fits_alone),
    }
}

fn book(
    connection: &Connection,
    call_id: &str,
    outcome: Outcome,
    latency_ms: i64,
) -> rusqlite::Result<()> {
    match outcome {
        Outcome::Answered { usage, cost } => connection.change(
            "UPDATE costs SET ok = 1, latency_ms = ?2, cost_nano_usd = ?3, input_tokens = ?4, output_tokens = ?5,
             cache_read_tokens = ?6, cache_write_tokens = ?7, estimated = ?8 WHERE call_id = ?1",
            (
                call_id,
                latency_ms,
                cost,
                signed(usage.input_tokens),
                signed(usage.output_tokens),
                signed(usage.cache_read_tokens),
                signed(usage.cache_write_tokens),
                usage.estimated,
            ),
        ),
        Outcome::Free => connection.change(
            "UPDATE costs SET ok = 0, latency_ms = ?2, estimated = 0,
             cost_nano_usd = CASE WHEN cost_nano_usd IS NULL THEN NULL ELSE 0 END WHERE call_id = ?1",
            (call_id, latency_ms),
        ),
        Outcome::Unknown => connection.change(
            "UPDATE costs SET ok = 0, latency_ms = ?2 WHERE call_id = ?1",
            (call_id, latency_ms),
        ),
    }
    .map(drop)
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}

/// Brings the database up to this version; `None` when there is none.
///
/// # Errors
/// See [`db::Error`].
pub fn migrate(path: &Path) -> Result<Option<db::Migrated>, db::Error> {
    db::bring_up(path, MIGRATIONS)
}

/// Returns how the file itself is, looking for at most `patience`.
///
/// # Errors
/// See [`db::Error`].
pub fn examine(path: &Path, patience: Duration) -> Result<db::Health, db::Error> {
    db::examine(path, MIGRATIONS, patience)
}

/// Returns the end of what counts as spent by `now`. A call of later was paid while the clock was ahead: else it would count
/// on every day until its own.
pub(super) fn until(now: i64) -> i64 {
    now.saturating_add(LEEWAY_MS)
}

/// Returns when the local day of `now` began.
pub fn start_of_day(now: i64, zone: Tz) -> i64 {
    clock::start_of_day(clock::local_date(now, zone), zone)
}

/// Returns when the local day after that of `now` begins.
fn next_day(now: i64, zone: Tz) -> i64 {
    let today = clock::local_date(now, zone);
    clock::start_of_day(today.succ_opt().unwrap_or(today), zone)
}

/// Returns when the local calendar month after that of `now` begins.
fn next_month(now: i64, zone: Tz) -> i64 {
    let today = clock::local_date(now, zone);
    let next = today.with_day(1).unwrap_or(today) + chrono::Months::new(1);
    clock::start_of_day(next, zone)
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
