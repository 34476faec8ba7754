//! What was read, for the screen: monitor.json, the databases, the log.

use chrono_tz::Tz;
use serde_json::{Map, Value};

use crate::app::documents;
use crate::app::documents::cost::Cost;
use crate::app::documents::queue::{Queue, Waiting};
use crate::app::documents::status::Status;
use crate::app::monitor::advice::Advice;
use crate::app::monitor::health::Pulse;
use crate::app::monitor::liveness::Life;
use crate::app::monitor::styled_line::{Ink, Line};
use crate::app::monitor::{NextJob, View};
use crate::clock;
use crate::memory::facts::commitments::Commitment;
use crate::memory::index;
use crate::monitor_state;
use crate::monitor_state::Lane;

const WIDEST: usize = 500;

#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) now: i64,
    /// The agent's; UTC while its settings are not read.
    pub(super) zone: Tz,
    pub(super) pulse: Pulse,
    /// Why the lock or monitor.json could not be read just now.
    pub(super) blind: Option<String>,
    pub(super) books: Books,
    /// The log, a line an entry, the newest last.
    pub(super) log: Vec<Line>,
    pub(super) advice: Advice,
}

#[derive(Debug, Clone, Default)]
pub(super) enum Part<T> {
    #[default]
    Unread,
    Read(T),
    Failed(String),
}

impl<T> Part<T> {
    pub(super) fn read(&self) -> Option<&T> {
        match self {
            Self::Read(part) => Some(part),
            Self::Unread | Self::Failed(_) => None,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Books {
    pub(super) queue: Part<Queue>,
    pub(super) costs: Part<Costs>,
    pub(super) memory: Part<Memory>,
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
    pub(super) commitments: Vec<Commitment>,
    pub(super) index: index::Status,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Milliseconds since 1970 UTC.
    pub(super) at: Option<i64>,
    /// `ERROR`, `WARN` …
    pub(super) level: String,
    pub(super) words: String,
}

impl Entry {
    pub(super) fn of(entry: &Map<String, Value>) -> Self {
        let word = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        Self {
            at: clock::parse_rfc3339(word("timestamp")),
            level: word("level").to_owned(),
            words: documents::log::log_words(entry),
        }
    }

    pub(super) fn line(&self, zone: Tz) -> Line {
        let ink = match self.level.as_str() {
            "ERROR" => Ink::Red,
            "WARN" => Ink::Yellow,
            "INFO" => Ink::Plain,
            _ => Ink::Dim,
        };
        let time = self
            .at
            .map(|at| clock::local(at, zone).format("%H:%M:%S ").to_string());
        let mut line = Line::of(Ink::Dim, &time.unwrap_or_default());
        // Colour says nothing that the words do not say.
        if self.level != "INFO" {
            line.push(ink, &format!("{} ", self.level));
        }
        line.push(ink, &self.words);
        line.cut(WIDEST)
    }
}

pub(super) fn id(lane: &Lane) -> &str {
    if lane.run_id.is_empty() {
        &lane.session
    } else {
        &lane.run_id
    }
}

impl Seen {
    pub(super) fn life(&self) -> Life {
        self.pulse.life(self.now)
    }

    /// Returns the turns that run, or ran when a stale daemon last wrote.
    pub(super) fn lanes(&self) -> &[Lane] {
        match self.life() {
            Life::Up | Life::Stopping | Life::Stale { .. } => {
                self.pulse.own().map_or(&[], |state| &state.lanes)
            }
            Life::Never | Life::Starting { .. } | Life::Stopped { .. } | Life::Dead { .. } => &[],
        }
    }

    pub(super) fn asks(&self) -> Vec<&Waiting> {
        let is_open =
            |ask: &&Waiting| clock::parse_rfc3339(&ask.expires_at).is_none_or(|at| at > self.now);
        self.books.queue.read().map_or_else(Vec::new, |queue| {
            queue.approvals.iter().filter(is_open).collect()
        })
    }

    pub(super) fn status(&self) -> Status {
        let own = self
            .pulse
            .own()
            .filter(|_| self.pulse.pid.is_some())
            .cloned()
            .unwrap_or_default();
        let last = self.pulse.own().cloned().unwrap_or_default();
        let costs = self.books.costs.read();
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let queue = match self.books.queue.read() {
            Some(queue) => monitor_state::Queue {
                inbox: count(queue.inbox.len()),
                outbox: count(queue.outbox.len()),
                dead: count(queue.dead.len()),
            },
            None => own.queue,
        };
        Status {
            alerts: Vec::new(),
            running: self.pulse.pid.is_some(),
            pid: self.pulse.pid,
            version: None,
            uptime_secs: None,
            channels: own.channels,
            providers: own.providers,
            models: own.models,
            active_sessions: last.active_sessions,
            queue,
            today_cost_usd: costs.map_or(own.today_cost_usd, |costs| costs.today.total_cost_usd),
            today_cap_usd: costs.map_or(0.0, |costs| costs.today.caps.day_usd),
            today_unpriced_calls: costs.map_or(0, |costs| costs.today.unpriced_calls),
            sandbox: own.sandbox,
            sandbox_risk: own.sandbox_risk,
            last_error: last.last_error,
        }
    }

    pub(super) fn view<'a>(&'a self, status: &'a Status) -> View<'a> {
        View {
            life: self.life(),
            status,
            state: self.pulse.own(),
            now: self.now,
            advice: self.advice.clone(),
            next_job: self.books.next_job.clone(),
        }
    }
}
