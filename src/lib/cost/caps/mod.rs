//! The limits that a call is checked against in the transaction that reserves it, so that parallel calls cannot exceed a
//! limit together.
//!
//! | limit | what is summed |
//! |---|---|
//! | `day_usd`, `month_usd` | everything since the local midnight, or the first of the month; calls made for others than the owner leave the last fifth of it |
//! | `session_usd` | the session and its sub-agents; not consolidation and search vectors |
//! | `message_usd` | the run of the message, including its sub-agents and their reports |
//! | `job_usd` and a job's `budget_usd` | the run of the job, likewise |
//! | a sub-agent's `budget_usd` | its own session |
//! | a tool server's `sampling_usd` | its sampling requests in one run |

use rusqlite::{Connection, ToSql};

use super::ledger::{Kind, NewCall};
use super::rates;
use super::rates::{nano, usd};
use crate::config::Cost;
use crate::db::Statements;

/// What others than the owner may have of a day's and a month's limit: whoever spends all of it would silence the owner, too.
const PART_OF_OTHERS: f64 = 0.8;

/// Why a call may not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A cap would be exceeded.
    #[error(
        "the {period} limit is reached: {setting} = {} in {file}, spent or reserved {}, this call may cost up to {} (US dollars){}",
        rates::dollars(*limit), rates::cents(*spent), rates::cents(*bound), way_out(period)
    )]
    Cap {
        /// `day`, `month`, `session`, `message`, `job` …
        period: &'static str,
        /// The setting.
        setting: &'static str,
        /// Where it is.
        file: &'static str,
        /// Its value.
        limit: f64,
        /// What is spent or reserved.
        spent: f64,
        /// The most this call could cost.
        bound: f64,
        /// Whether it fits when the calls that run have settled.
        held: bool,
        /// When the cap begins again, milliseconds since 1970 UTC; `None` = not by itself, or too late for this call.
        resets_at: Option<i64>,
    },
    /// A cap is set and the model has no price.
    #[error(
        "the model {model} has no price, so no limit can be enforced; set its price, or for a free model: {line}"
    )]
    Unpriced {
        /// The model.
        model: String,
        /// The line that is missing.
        line: &'static str,
    },
}

/// A day's and a month's limit are over by themselves; a session's never is.
fn way_out(period: &str) -> &'static str {
    if period == "session" {
        "; /new begins another session"
    } else {
        ""
    }
}

impl Kind {
    /// Returns the line of a provider file that says that a model is free.
    fn free(self) -> &'static str {
        match self {
            Self::Chat | Self::Embedding => "cost_per_mtok = [0, 0, 0, 0]",
            Self::Stt => "cost_per_minute = 0",
            Self::Tts => "cost_per_mchar = 0",
        }
    }
}

/// What a limit is compared with.
#[derive(Clone, Copy)]
enum Scope<'a> {
    /// All calls from then until then; what was paid while the clock was ahead is not of this day.
    Between(i64, i64),
    /// Those of a run.
    Run(&'a str),
    /// Those of a session.
    Session(&'a str),
    /// Those of a session, of the sub-agents it sent and of the tool servers it called.
    Tree(&'a str),
}

impl Scope<'_> {
    /// Returns false for a call that belongs to no run or session: then no limit of one holds it.
    fn exists(self) -> bool {
        match self {
            Self::Between(..) => true,
            Self::Run(id) | Self::Session(id) | Self::Tree(id) => !id.is_empty(),
        }
    }

    fn spent(self, connection: &Connection) -> rusqlite::Result<i64> {
        let sum = |condition: &str, parameters: &[&dyn ToSql]| {
            let sql =
                format!("SELECT coalesce(sum(cost_nano_usd), 0) FROM costs WHERE {condition}");
            connection.one(&sql, parameters, |row| row.get(0))
        };
        match self {
            Self::Between(since, until) => sum("ts >= ?1 AND ts < ?2", &[&since, &until]),
            Self::Run(run) => sum("run_id = ?1", &[&run]),
            Self::Session(session) => sum("session_id = ?1", &[&session]),
            Self::Tree(session) => sum(
                "source != 'consolidation' AND session_id IN (SELECT ?1 UNION SELECT session_id FROM costs WHERE source IN ('subagent', 'sampling')
                   AND run_id IN (SELECT run_id FROM costs WHERE session_id = ?1 AND run_id != ''))",
                &[&session],
            ),
        }
    }
}

/// Of when the calls are that a day's and a month's limit hold, milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spans {
    /// When the day began.
    pub(super) day: i64,
    /// When the month began.
    pub(super) month: i64,
    /// When both end.
    pub(super) until: i64,
}

/// A limit.
struct Cap<'a> {
    period: &'static str,
    setting: &'static str,
    file: &'static str,
    limit: f64,
    scope: Scope<'a>,
}

/// Returns why `call` may not be made; `None` when it may.
pub(super) fn refusal(
    connection: &Connection,
    call: &NewCall,
    caps: &Cost,
    spans: Spans,
) -> rusqlite::Result<Option<Refusal>> {
    let (budget, share) = budgets(call);
    if !caps.capped() && budget <= 0.0 && share <= 0.0 {
        return Ok(None);
    }
    let Some(bound) = call.bound else {
        return Ok(Some(Refusal::Unpriced {
            model: call.model.clone(),
            line: call.kind.free(),
        }));
    };
    let root = root(connection, call)?;
    let session = if caps.session_usd > 0.0 {
        sender(connection, call)?
    } else {
        String::new()
    };
    for cap in limits(call, caps, spans, (&root, &session)) {
        if cap.limit <= 0.0 || !cap.scope.exists() {
            continue;
        }
        let spent = cap.scope.spent(connection)?;
        if spent.saturating_add(bound) > nano(cap.limit) {
            return Ok(Some(Refusal::Cap {
                period: cap.period,
                setting: cap.setting,
                file: cap.file,
                limit: cap.limit,
                spent: usd(spent),
                bound: usd(bound),
                held: false,
                resets_at: None,
            }));
        }
    }
    Ok(None)
}

/// Returns the limits that hold for `call`, in the order in which they are named to the owner; 0 is not a limit.
fn limits<'a>(
    call: &'a NewCall,
    caps: &Cost,
    spans: Spans,
    (root, session): (&str, &'a str),
) -> [Cap<'a>; 7] {
    let settings = "agent.toml";
    let (whose, its_setting, its_file) = match root {
        "job" => ("job", "budget_usd", "state/cron/jobs.json"),
        "heartbeat" => (
            "heartbeat",
            "[heartbeat] day_usd, what is left of it",
            settings,
        ),
        _ => ("run", "budget_usd", "what began it"),
    };
    let job_usd = if root == "job" { caps.job_usd } else { 0.0 };
    let (run, own) = (Scope::Run(&call.run_id), Scope::Session(&call.session_id));
    let since = |begin| Scope::Between(begin, spans.until);
    let (since_day, since_month) = (since(spans.day), since(spans.month));
    let (budget, share) = budgets(call);
    let (day, month, part) = match call.of_others {
        true => (
            "80 % of [cost] day_usd",
            "80 % of [cost] month_usd",
            PART_OF_OTHERS,
        ),
        false => ("[cost] day_usd", "[cost] month_usd", 1.0),
    };
    let cap = |period, (setting, file), limit, scope| Cap {
        period,
        setting,
        file,
        limit,
        scope,
    };
    let (of_whom, share_setting) = match call.source {
        "sampling" => ("tool server", ("sampling_usd", settings)),
        _ => ("sub-agent", ("budget_usd", "the call of sessions_spawn")),
    };
    [
        cap("day", (day, settings), caps.day_usd * part, since_day),
        cap(
            "month",
            (month, settings),
            caps.month_usd * part,
            since_month,
        ),
        cap(
            "session",
            ("[cost] session_usd", settings),
            caps.session_usd,
            Scope::Tree(session),
        ),
        cap(
            "message",
            ("[cost] message_usd", settings),
            caps.message_usd,
            run,
        ),
        cap("job", ("[cost] job_usd", settings), job_usd, run),
        cap(whose, (its_setting, its_file), budget, run),
        cap(of_whom, share_setting, share, own),
    ]
}

/// Returns the limit of the run and that of the sub-agent in dollars, 0 = none.
fn budgets(call: &NewCall) -> (f64, f64) {
    (
        call.budget_usd.unwrap_or(0.0),
        call.share_usd.unwrap_or(0.0),
    )
}

/// Returns the source of what began the run: a sub-agent that a job sent, and its report, are the job's.
fn root(connection: &Connection, call: &NewCall) -> rusqlite::Result<String> {
    let known = || {
        let sql =
            "SELECT source FROM costs WHERE run_id = ?1 AND source IN ('job', 'heartbeat') LIMIT 1";
        connection.first(sql, [&call.run_id], |row| row.get(0))
    };
    let found = if call.run_id.is_empty() {
        None
    } else {
        known()?
    };
    Ok(found.unwrap_or_else(|| call.source.to_owned()))
}

/// Returns the session whose limit holds the call: of a sub-agent's the one that sent it. Empty for none; what is
/// remembered of a session is not a part of it, or one that is spent would be forgotten.
fn sender(connection: &Connection, call: &NewCall) -> rusqlite::Result<String> {
    if call.source == "consolidation" || call.session_id.is_empty() {
        return Ok(String::new());
    }
    let one = |sql: &str, id: &str| -> rusqlite::Result<Option<String>> {
        connection.first(sql, [id], |row| row.get(0))
    };
    let run = match call.source {
        "subagent" | "sampling" => Some(call.run_id.clone()),
        // What sums a sub-agent's conversation up has a run of its own.
        _ => one(
            "SELECT run_id FROM costs WHERE session_id = ?1 AND source = 'subagent' LIMIT 1",
            &call.session_id,
        )?,
    };
    let sent_by = match run {
        Some(run) => one(
            "SELECT session_id FROM costs WHERE run_id = ?1 AND source NOT IN ('subagent', 'sampling') AND session_id != ''
             ORDER BY ts DESC LIMIT 1",
            &run,
        )?,
        None => None,
    };
    Ok(sent_by.unwrap_or_else(|| call.session_id.clone()))
}

#[cfg(test)]
mod tests;
