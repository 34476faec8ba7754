//! What can be asked with or without a daemon: read from files, answered as the documents of the
//! specification's Appendix B. Whoever prints them, as JSON or for people, takes them from here.

mod audit;
mod cost;
mod explain;
mod history;
mod jobs;
mod log;
mod monitor;
mod queue;
mod reply;
mod sessions;
mod status;

pub use audit::{Audit, audit, verify};
pub use cost::{By, Caps, Cost, Group, Model, Numbers, Period, cost};
pub use explain::{
    Approval, Block, Child, Delivery, Explain, Job as ExplainedJob, ModelCall, Parent, Step,
    ToolCall, Waits, explain,
};
pub use history::{Events, History, Shown, history};
pub use jobs::{Job, Jobs, Wake, jobs, wake};
pub use log::{Log, log, log_words};
pub use monitor::{Monitor, monitor};
pub use queue::{Approvals, Dead, Open, Queue, Waiting, approvals, queue};
pub use reply::{Part, reply};
pub use sessions::{Session, Sessions, sessions};
pub use status::{Status, status, status_with};

use chrono_tz::Tz;

use super::cli::Failure;
use crate::config;
use crate::config::{Environment, Home};

/// Returns the agent's time zone; UTC, and why, when its settings cannot be read.
pub fn zone(home: &Home, env: &Environment) -> (Tz, Option<Failure>) {
    match config::load_config(home, env) {
        Ok(config) => (config.agent.timezone.0, None),
        Err(error) => (Tz::UTC, Some(error.into())),
    }
}
