//! `audit`: what was done and who allowed it, and whether the record of it is whole.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::app::cli::Failure;
use crate::audit;
use crate::audit::{Place, Report};
use crate::config::Home;
use crate::sys::lock;

/// `audit`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Audit {
    /// Entries as they were written, oldest first; a line that is none has the kind `unreadable`.
    pub entries: Vec<Map<String, Value>>,
}

/// Returns the newest `count` entries; none when nothing was recorded.
pub(crate) fn audit(home: &Home, count: usize) -> Result<Audit, Failure> {
    Ok(Audit {
        entries: audit::newest(&Place::of(home), count)?,
    })
}

/// Returns what the audit log is, from its first line to its last; a daemon may be writing it.
pub(crate) fn verify(home: &Home) -> Result<Report, Failure> {
    let is_alive = || lock::holder(&home.lock()).is_ok_and(|holder| holder.is_some());
    Ok(audit::verify(&Place::of(home), &is_alive)?)
}
