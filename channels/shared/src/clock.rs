//! The one clock of the channels.

use std::time::UNIX_EPOCH;

/// Returns the time of day, milliseconds since 1970 UTC.
pub fn now_ms() -> u64 {
    let since = UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
