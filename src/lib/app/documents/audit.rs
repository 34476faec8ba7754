//! `audit`: the entries of the audit log, and whether it is intact.

use super::log::Entries;
use crate::app::cli::Failure;
use crate::audit;
use crate::audit::{Place, Report};
use crate::config::Home;
use crate::sys::lock;

/// Returns the newest `count` entries; none when nothing was recorded. A line that is none has the kind `unreadable`.
pub(crate) fn audit(home: &Home, count: usize) -> Result<Entries, Failure> {
    Ok(Entries {
        entries: audit::newest(&Place::of(home), count)?,
    })
}

/// Returns what the audit log is, from its first line to its last; a daemon may be writing it.
pub(crate) fn verify(home: &Home) -> Result<Report, Failure> {
    let is_alive = || lock::holder(&home.lock()).is_ok_and(|holder| holder.is_some());
    Ok(audit::verify(&Place::of(home), &is_alive)?)
}
