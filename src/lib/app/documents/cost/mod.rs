//! `cost`: what was spent, of which models, sessions, sources or days, and what the limits leave.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chrono::{Datelike, Days, Months, NaiveDate};
use chrono_tz::Tz;
use clap::ValueEnum;
use serde::Serialize;

use crate::app::cli::Failure;
use crate::config;
use crate::config::{Environment, Home};
use crate::cost;
use crate::cost::Line;
use crate::session;
use crate::session::Head;
use crate::{clock, db};

/// A span of time that ends now, in the agent's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Period {
    /// Since midnight
    Today,
    /// Today and the six days before
    Week,
    /// This calendar month
    Month,
    /// Ever
    All,
}

impl Period {
    /// Returns when it began, milliseconds since 1970 UTC; `None` = with the first call.
    fn start(self, now: i64, zone: Tz) -> Option<i64> {
        match self {
            Self::Today => Some(cost::start_of_day(now, zone)),
            Self::Week => Some(cost::start_of_week(now, zone)),
            Self::Month => Some(cost::start_of_month(now, zone)),
            Self::All => None,
        }
    }
}

/// What the lines of a cost report stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    /// Configured models
    Model,
    /// Conversations
    Session,
    /// Where the messages came from
    Source,
    /// Local days
    Day,
}

/// `cost`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cost {
    /// The period that was asked for.
    pub period: Period,
    /// When it began, RFC 3339 UTC; `null` = with the first call.
    pub since: Option<String>,
    /// US dollars, without calls that have no price.
    pub total_cost_usd: f64,
    /// Those of them that are the most it can have been: the call runs, broke off, or its vendor
    /// counted nothing.
    pub estimated_usd: f64,
    /// Which part of the input was read from the vendors' caches, 0 to 1; `null` without input.
    pub cache_read_ratio: Option<f64>,
    /// What this month will have cost at the pace of the last seven whole days; `null` for other periods, and
    /// before there was a whole day.
    pub forecast_usd: Option<f64>,
    /// Calls made, failed ones too.
    pub calls: i64,
    /// Calls without a price: they are not in any sum of money.
    pub unpriced_calls: i64,
    /// Calls that are not in the sums, because their time has not come: a clock was ahead. `all` counts them.
    pub later_calls: i64,
    /// A line a model, dearest first.
    pub(crate) models: Vec<Model>,
    /// What the groups stand for, when groups were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// A line a group: days in order, others dearest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<Group>>,
    /// The limits of agent.toml.
    pub caps: Caps,
    /// That settings files are not as the running daemon has read them: it keeps other limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unread_settings: Option<String>,
}

/// What one model took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Model {
    /// Its configured name.
    pub(crate) model: String,
    /// How much.
    #[serde(flatten)]
    pub numbers: Numbers,
}

/// What one group took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Group {
    /// The model's configured name, the session's id (empty: calls of no session), the source, or the
    /// local date.
    pub name: String,
    /// Of a session: its key, when its transcript is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Of a session: the contact, if its transcript still exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Of a session: it was reset, and its key means another one now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// How much.
    #[serde(flatten)]
    pub numbers: Numbers,
}

/// Calls, tokens and money.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Numbers {
    /// Calls made, failed ones too.
    pub calls: i64,
    /// Calls without a price: `cost_usd` does not know them.
    pub unpriced_calls: i64,
    /// Input tokens, without cached ones.
    pub input_tokens: i64,
    /// Output tokens.
    pub output_tokens: i64,
    /// Tokens read from the vendor's cache.
    pub cache_read_tokens: i64,
    /// Tokens written to it.
    pub cache_write_tokens: i64,
    /// US dollars.
    pub cost_usd: f64,
}

/// The limits of agent.toml; 0 = none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Caps {
    /// US dollars a local day.
    pub day_usd: f64,
    /// US dollars a local calendar month.
    pub month_usd: f64,
    /// What is left of today's; `null` = no limit.
    pub day_left_usd: Option<f64>,
    /// What is left of this month's; `null` = no limit.
    pub month_left_usd: Option<f64>,
}

/// Returns the cost document; zeros when there is no ledger. Days are those of the agent's time zone.
///
/// # Errors
/// When the ledger or the settings cannot be read: without them a limit would be kept secret, and a
/// day would be another one.
pub(crate) fn cost(
    home: &Home,
    env: &Environment,
    period: Period,
    by: Option<By>,
) -> Result<Cost, Failure> {
    let config = config::load_config(home, env)?;
    let mut cost = at(clock::now_ms(), home, &config, period, by)?;
    cost.unread_settings = super::status::unread_settings(home)?;
    Ok(cost)
}

fn at(
    now: i64,
    home: &Home,
    config: &config::Config,
    period: Period,
    by: Option<By>,
) -> Result<Cost, db::Error> {
    let (ledger, zone) = (home.cost_db(), config.agent.timezone.0);
    let start = period.start(now, zone);
    let group = match by {
        None | Some(By::Model) => cost::Group::Model,
        Some(By::Session) => cost::Group::Session,
        Some(By::Source) => cost::Group::Source,
        Some(By::Day) => cost::Group::Day(zone),
    };
    let until = (period != Period::All).then_some(now);
    let report = cost::report(&ledger, (start.unwrap_or(0), until), group)?;
    let later_calls = match until {
        Some(now) => cost::later_calls(&ledger, now)?,
        None => 0,
    };
    let total = Line::sum(&report.models);
    let left = |limit: f64, since: i64| -> Result<Option<f64>, db::Error> {
        if limit <= 0.0 {
            return Ok(None);
        }
        let spent = Line::sum(&cost::by_model(&ledger, since, now)?).cost_nano_usd;
        Ok(Some(cost::left_usd(limit, spent)))
    };
    let caps = Caps {
        day_usd: config.cost.day_usd,
        month_usd: config.cost.month_usd,
        day_left_usd: left(config.cost.day_usd, cost::start_of_day(now, zone))?,
        month_left_usd: left(config.cost.month_usd, cost::start_of_month(now, zone))?,
    };
    let forecast_usd = match period {
        Period::Month => forecast(&ledger, now, zone, total.cost_nano_usd)?,
        Period::Today | Period::Week | Period::All => None,
    };
    Ok(Cost {
        period,
        since: start.map(clock::rfc3339),
        forecast_usd,
        total_cost_usd: cost::usd(total.cost_nano_usd),
        estimated_usd: cost::usd(total.estimated_nano_usd),
        cache_read_ratio: total.cache_read_ratio(),
        calls: total.calls,
        unpriced_calls: total.unpriced_calls,
        later_calls,
        models: report
            .models
            .into_iter()
            .map(|line| Model {
                numbers: (&line).into(),
                model: line.name,
            })
            .collect(),
        by,
        groups: by.map(|by| groups(home, by, report.groups)),
        caps,
        unread_settings: None,
    })
}

/// Days before today whose average is the pace.
const PACE_DAYS: u64 = 7;

/// Returns what the month will have cost in US dollars when it continues as in the last seven whole local days, or as many
/// as there were since the first call: what is `spent`, what of a day's average today has not cost yet, and the
/// average for each day that is left. `None` on the first day, when nothing is known of a whole one.
fn forecast(ledger: &Path, now: i64, zone: Tz, spent: i64) -> Result<Option<f64>, db::Error> {
    let Some(first) = cost::first_call(ledger)? else {
        return Ok(None);
    };
    let today = clock::local_date(now, zone);
    let begun = clock::local_date(first, zone).max(
        today
            .checked_sub_days(Days::new(PACE_DAYS))
            .unwrap_or(today),
    );
    let whole_days = (today - begun).num_days();
    if whole_days < 1 {
        return Ok(None);
    }
    let since = |date: NaiveDate| -> Result<f64, db::Error> {
        Ok(cost::total_usd(&cost::by_model(
            ledger,
            clock::start_of_day(date, zone),
            now,
        )?))
    };
    let of_today = since(today)?;
    let average = (since(begun)? - of_today) / whole_days as f64;
    let next_month = today
        .with_day(1)
        .and_then(|first| first.checked_add_months(Months::new(1)));
    let days_left = next_month.map_or(0, |next| (next - today).num_days() - 1);
    Ok(Some(
        cost::usd(spent) + (average - of_today).max(0.0) + average * days_left as f64,
    ))
}

fn groups(home: &Home, by: By, lines: Vec<Line>) -> Vec<Group> {
    let mut heads: BTreeMap<String, (Head, bool)> = BTreeMap::new();
    if by == By::Session {
        let wanted: BTreeSet<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        for (dir, archived) in [(home.archive(), true), (home.sessions(), false)] {
            let found = session::heads(&dir, |id| wanted.contains(id));
            heads.extend(
                found
                    .into_iter()
                    .map(|head| (head.session_id.clone(), (head, archived))),
            );
        }
    }
    let group = |line: Line| {
        let (head, archived) = heads.remove(&line.name).unzip();
        let (key, contact) = head.map(|head| (head.key, head.contact)).unzip();
        Group {
            numbers: (&line).into(),
            name: line.name,
            key,
            contact,
            archived: archived.unwrap_or(false),
        }
    };
    lines.into_iter().map(group).collect()
}

impl From<&Line> for Numbers {
    fn from(line: &Line) -> Self {
        Self {
            calls: line.calls,
            unpriced_calls: line.unpriced_calls,
            input_tokens: line.input_tokens,
            output_tokens: line.output_tokens,
            cache_read_tokens: line.cache_read_tokens,
            cache_write_tokens: line.cache_write_tokens,
            cost_usd: cost::usd(line.cost_nano_usd),
        }
    }
}

#[cfg(test)]
mod tests;
