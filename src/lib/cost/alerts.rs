//! Warnings before a limit of a day or month is reached, once each: at 50, 80 and 100 %.
//!
//! ```text
//! reserve (refused) or settle  → a row in `alerts`, in the same transaction, by whichever process
//! daemon: untold → its queue, by a key that is never taken twice → told
//! ```

use std::path::Path;

use chrono::{Datelike, Days, Months, NaiveDate};
use chrono_tz::Tz;
use rusqlite::{Connection, Row};

use super::ledger::Ledger;
use super::rates::{dollars, nano, usd};
use crate::config::Cost;
use crate::db::Statements;
use crate::{clock, db};

/// Parts of a limit at which it is told, percent.
const STEPS: [i64; 3] = [50, 80, 100];
/// A call that was not settled for so long never will be: it was lost in a crash, and stays at its reservation.
const LOST_MS: i64 = 3_600_000;

/// That a part of a limit is used up.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// The local date, or year and month: `2026-11-23`, `2026-11`.
    pub span: String,
    /// The limit.
    pub limit_usd: f64,
    /// 50, 80 or 100.
    pub percent: i64,
    /// What was spent then; when a call was refused, with what was reserved.
    pub spent_usd: f64,
    /// When, milliseconds since 1970 UTC.
    pub at: i64,
}

impl Alert {
    /// Returns the setting of its limit.
    pub fn setting(&self) -> &'static str {
        if self.is_of_a_day() {
            "day_usd"
        } else {
            "month_usd"
        }
    }

    fn is_of_a_day(&self) -> bool {
        self.span.len() > "2026-11".len()
    }

    /// Returns true when a call was refused although not all was spent.
    pub fn is_refusal(&self) -> bool {
        self.percent == 100 && self.spent_usd < self.limit_usd
    }

    /// Returns it in a sentence.
    pub fn text(&self) -> String {
        let whose = if self.is_of_a_day() { "day" } else { "month" };
        let what = match self.is_refusal() {
            true => format!(
                "The limit of the {whose} is reached (100 %): a call was refused. ${:.4} of ",
                self.spent_usd
            ),
            false => format!(
                "{} % of the {whose}'s limit is spent: ${:.4} of ",
                self.part(),
                self.spent_usd
            ),
        };
        let kind = if self.is_refusal() {
            " are spent or reserved"
        } else {
            ""
        };
        let (limit, setting) = (dollars(self.limit_usd), self.setting());
        format!(
            "{what}${limit}{kind} ({}; [cost] {setting} = {limit} in agent.toml)",
            self.span
        )
    }

    /// Returns a name that no other has.
    pub fn key(&self) -> String {
        format!(
            "alert:{}:{}:{}",
            self.span,
            nano(self.limit_usd),
            self.percent
        )
    }

    /// Returns the step that was passed; beyond the limit, what was really spent of it, percent.
    fn part(&self) -> i64 {
        let (spent, limit) = (nano(self.spent_usd), nano(self.limit_usd).max(1));
        let really = i128::from(spent) * 100 / i128::from(limit);
        match self.percent {
            100 => i64::try_from(really).unwrap_or(i64::MAX).max(100),
            step => step,
        }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let amount = |column: &str| row.get(column).map(usd);
        Ok(Self {
            span: row.get("span")?,
            limit_usd: amount("limit_nano_usd")?,
            percent: row.get("percent")?,
            spent_usd: amount("spent_nano_usd")?,
            at: row.get("at")?,
        })
    }
}

/// A day or month with a limit, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    name: String,
    since: i64,
    until: i64,
    limit: i64,
}

/// Returns the local day and the local month of `now`, those that have a limit.
pub(super) fn spans(now: i64, zone: Tz, caps: &Cost) -> Vec<Span> {
    let today = clock::local_date(now, zone);
    let first = today.with_day(1).unwrap_or(today);
    let span = |name: String, from: NaiveDate, next: Option<NaiveDate>, limit: f64| Span {
        name,
        since: clock::start_of_day(from, zone),
        until: next.map_or(i64::MAX, |next| clock::start_of_day(next, zone)),
        limit: nano(limit),
    };
    let day = span(
        today.to_string(),
        today,
        today.checked_add_days(Days::new(1)),
        caps.day_usd,
    );
    let month = span(
        today.format("%Y-%m").to_string(),
        first,
        first.checked_add_months(Months::new(1)),
        caps.month_usd,
    );
    [day, month]
        .into_iter()
        .filter(|span| span.limit > 0)
        .collect()
}

/// Writes down which steps of `spans` are passed; returns true when one is new. What is only reserved does not
/// count: most of it comes back.
pub(super) fn note(connection: &Connection, spans: &[Span], now: i64) -> rusqlite::Result<bool> {
    let mut is_news = false;
    for span in spans {
        let sql = "SELECT coalesce(sum(cost_nano_usd), 0) FROM costs WHERE ts >= ?1 AND ts < ?2 AND (ok IS NOT NULL OR ts < ?3)";
        let spent: i64 = connection.one(sql, (span.since, span.until, now - LOST_MS), |row| {
            row.get(0)
        })?;
        let passed = |percent: &&i64| {
            i128::from(spent) * 100 >= i128::from(span.limit) * i128::from(**percent)
        };
        for percent in STEPS.iter().filter(passed) {
            is_news |= insert(connection, span, *percent, spent, now)?;
        }
    }
    Ok(is_news)
}

/// Writes down that a call was refused because of `setting`; returns true when that is new.
pub(super) fn refused(
    connection: &Connection,
    spans: &[Span],
    (is_of_a_day, spent): (bool, f64),
    now: i64,
) -> rusqlite::Result<bool> {
    let is_meant = |span: &&Span| (span.name.len() > "2026-11".len()) == is_of_a_day;
    spans.iter().find(is_meant).map_or(Ok(false), |span| {
        insert(connection, span, 100, nano(spent), now)
    })
}

fn insert(
    connection: &Connection,
    span: &Span,
    percent: i64,
    spent: i64,
    now: i64,
) -> rusqlite::Result<bool> {
    let sql = "INSERT OR IGNORE INTO alerts(span, limit_nano_usd, percent, spent_nano_usd, at) VALUES (?1, ?2, ?3, ?4, ?5)";
    let rows = connection.change(sql, (&span.name, span.limit, percent, spent, now))?;
    Ok(rows > 0)
}

impl Ledger {
    /// Returns what the owner was not told yet, in order.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn untold(&self) -> Result<Vec<Alert>, db::Error> {
        let sql =
            "SELECT * FROM alerts WHERE told_at IS NULL ORDER BY at, length(span) DESC, percent";
        self.writer
            .read(move |connection| connection.all(sql, [], Alert::read))
            .await
    }

    /// Notes that the owner was notified of `alert`.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn told(&self, alert: &Alert, now: i64) -> Result<(), db::Error> {
        let (span, limit, percent) = (alert.span.clone(), nano(alert.limit_usd), alert.percent);
        let sql = "UPDATE alerts SET told_at = ?4 WHERE span = ?1 AND limit_nano_usd = ?2 AND percent = ?3";
        self.writer
            .write_lazily(move |connection| connection.run(sql, (span, limit, percent, now)))
            .await
    }
}

/// Returns the alerts of the local day and month of `now`, for the active limits, in order.
///
/// # Errors
/// See [`db::Error`].
pub fn alerts(path: &Path, now: i64, zone: Tz, caps: &Cost) -> Result<Vec<Alert>, db::Error> {
    db::read(path, |connection| {
        // A ledger that no newer program has opened yet.
        let known: i64 = connection.query_row(
            "SELECT count(*) FROM pragma_table_list WHERE name = 'alerts'",
            [],
            |row| row.get(0),
        )?;
        let mut found = Vec::new();
        for span in spans(now, zone, caps).iter().filter(|_| known > 0) {
            let sql =
                "SELECT * FROM alerts WHERE span = ?1 AND limit_nano_usd = ?2 ORDER BY percent";
            found.extend(connection.all::<_, Vec<_>>(
                sql,
                (&span.name, span.limit),
                Alert::read,
            )?);
        }
        Ok(found)
    })
    .map(Option::unwrap_or_default)
}
