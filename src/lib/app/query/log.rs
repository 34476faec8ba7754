//! `log`: the newest entries of the log.

use serde::Serialize;
use serde_json::{Map, Value};

use super::super::cli::Failure;
use crate::config::Home;
use crate::logging;

/// `log`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Log {
    /// Entries as they were written (`timestamp`, `level`, `message` and the fields of the event),
    /// oldest first.
    pub entries: Vec<Map<String, Value>>,
}

/// Returns the newest `count` entries; none when there is no log.
///
/// # Errors
/// When the log cannot be read.
pub fn log(home: &Home, count: usize) -> Result<Log, Failure> {
    Ok(Log { entries: logging::newest(&home.logs(), count)? })
}
