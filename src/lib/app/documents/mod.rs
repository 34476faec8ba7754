//! The documents of the queries, which work with or without a daemon: read from files, in the form of the specification's
//! Appendix B. All output, as JSON or for people, is produced from them.

mod audit;
pub(crate) mod cost;
pub(crate) mod explain;
pub(crate) mod history;
pub(crate) mod jobs;
pub(crate) mod log;
pub(crate) mod monitor;
pub(crate) mod queue;
pub(crate) mod reply;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod titles;

pub(crate) use audit::{audit, verify};
pub(crate) use cost::cost;
pub(crate) use explain::explain;
pub(crate) use history::history;
pub(crate) use jobs::{jobs, wake};
pub(crate) use log::log;
pub(crate) use monitor::monitor;
pub(crate) use queue::{approvals, queue};
pub(crate) use reply::reply;
pub(crate) use sessions::sessions;
pub(crate) use status::status;

use chrono_tz::Tz;

use super::cli::Failure;
use crate::config;
use crate::config::{Environment, Home};

/// Returns the agent's time zone; UTC, and why, when its settings cannot be read.
pub(crate) fn zone(home: &Home, env: &Environment) -> (Tz, Option<Failure>) {
    match config::load_config(home, env) {
        Ok(config) => (config.agent.timezone.0, None),
        Err(error) => (Tz::UTC, Some(error.into())),
    }
}
