//! `monitor`: what the daemon does right now, or did when it wrote last.

use serde::Serialize;

use crate::app::cli::Failure;
use crate::config::Home;
use crate::monitor_state;
use crate::monitor_state::State;

/// `monitor`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Monitor {
    Known(Box<State>),
    Unknown {
        /// `unknown`.
        state: &'static str,
    },
}

impl Monitor {
    pub(crate) fn of(state: Option<State>) -> Self {
        state.map_or(Self::Unknown { state: "unknown" }, |state| {
            Self::Known(Box::new(state))
        })
    }
}

/// Returns the monitor document; a daemon need not run.
pub(crate) fn monitor(home: &Home) -> Result<Monitor, Failure> {
    Ok(Monitor::of(monitor_state::read(&home.monitor())?))
}
