//! The data for the screen: monitor.json, the databases, the log.

use chrono_tz::Tz;
use serde_json::{Map, Value};

use crate::app::documents;
use crate::app::documents::cost::Cost;
use crate::app::documents::queue::{Queue, Waiting};
use crate::app::monitor::health::Life;
use crate::app::monitor::styled_line::{Ink, Line};
use crate::app::monitor::{NextJob, Totals, View};
use crate::clock;
use crate::memory::facts::commitments::Commitment;
use crate::memory::index;
use crate::monitor_state;
use crate::monitor_state::Lane;

/// No terminal has more room for a line of the log.
const WIDEST: usize = 500;

#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    /// What one frame would be drawn from.
    pub(super) view: View,
    /// The agent's; UTC while its settings are not read.
    pub(super) zone: Tz,
    /// Why the lock or monitor.json could not be read just now.
    pub(super) blind: Option<String>,
    pub(super) databases: Databases,
    /// The log, a line an entry, the newest last.
    pub(super) log: Vec<Line>,
}

/// What was read of a database.
#[derive(Debug, Clone, Default)]
pub(super) enum Loaded<T> {
    #[default]
    NotYet,
    Read(T),
    Failed(String),
}

impl<T> Loaded<T> {
    pub(super) fn read(&self) -> Option<&T> {
        match self {
            Self::Read(part) => Some(part),
            Self::NotYet | Self::Failed(_) => None,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Databases {
    pub(super) queue: Loaded<Queue>,
    pub(super) costs: Loaded<Costs>,
    pub(super) memory: Loaded<Memory>,
    pub(super) next_job: Option<NextJob>,
}

#[derive(Debug, Clone)]
pub(super) struct Costs {
    pub(super) today: Cost,
    pub(super) month: Cost,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) facts: usize,
    pub(super) episodes: usize,
    /// The open ones, the nearest deadline first.
    pub(super) commitments: Vec<Commitment>,
    pub(super) index: index::Status,
}

/// Returns an entry of the log as a line of the screen.
pub(super) fn log_line(entry: &Map<String, Value>, zone: Tz) -> Line {
    let word = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let level = word("level");
    let ink = match level {
        "ERROR" => Ink::Red,
        "WARN" => Ink::Yellow,
        "INFO" => Ink::Plain,
        _ => Ink::Dim,
    };
    let time = clock::parse_rfc3339(word("timestamp"));
    let time = time.map(|at| clock::local(at, zone).format("%H:%M:%S ").to_string());
    let mut line = Line::of(Ink::Dim, &time.unwrap_or_default());
    // Colour says nothing that the words do not say.
    if level != "INFO" {
        line.push(ink, &format!("{level} "));
    }
    line.push(ink, &documents::log::log_words(entry));
    line.cut(WIDEST)
}

/// Returns by what a lane is known: its run, or where none runs and sub-agents still work its conversation.
pub(super) fn id(lane: &Lane) -> &str {
    if lane.run_id.is_empty() {
        &lane.session
    } else {
        &lane.run_id
    }
}

impl Snapshot {
    pub(super) fn life(&self) -> Life {
        self.view.life()
    }

    /// Returns the turns that run, or ran when a stale daemon last wrote.
    pub(super) fn lanes(&self) -> &[Lane] {
        match self.life() {
            Life::Up | Life::Full | Life::Stopping | Life::Stale { .. } => self.view.lanes(),
            Life::Never | Life::Starting { .. } | Life::Stopped { .. } | Life::Dead { .. } => &[],
        }
    }

    /// Returns the approval requests that can still be decided.
    pub(super) fn requests(&self) -> Vec<&Waiting> {
        let now = self.view.now;
        let is_open = |request: &&Waiting| {
            clock::parse_rfc3339(&request.expires_at).is_none_or(|at| at > now)
        };
        let queue = self.databases.queue.read();
        let requests = queue.iter().flat_map(|queue| &queue.approvals);
        requests.filter(is_open).collect()
    }

    /// Brings the totals up to date; until the databases are read they are those of monitor.json.
    pub(super) fn count(&mut self) {
        let state = self.view.health.live();
        let costs = self.databases.costs.read().map(|costs| &costs.today);
        let count = |rows: usize| i64::try_from(rows).unwrap_or(i64::MAX);
        let queue = match self.databases.queue.read() {
            Some(queue) => monitor_state::Queue {
                inbox: count(queue.inbox.len()),
                outbox: count(queue.outbox.len()),
                dead: count(queue.dead.len()),
            },
            None => state.map(|state| state.queue).unwrap_or_default(),
        };
        let spent = state.map_or(0.0, |state| state.today_cost_usd);
        self.view.totals = Totals {
            queue,
            today_usd: costs.map_or(spent, |cost| cost.total_cost_usd),
            cap_usd: costs.map_or(0.0, |cost| cost.caps.day_usd),
            unpriced_calls: costs.map_or(0, |cost| cost.unpriced_calls),
            // The panes show each of them.
            questions: (0, 0),
            next_job: self.databases.next_job.clone(),
        };
    }
}
