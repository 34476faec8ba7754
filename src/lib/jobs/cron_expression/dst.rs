//! Daylight saving time (DST): what a crontab line does when the clock is set forward, which skips times, and when it is set
//! back, which repeats them. `mod.rs` has the rules.

use chrono::{DateTime, LocalResult, NaiveDateTime, TimeZone};
use chrono_tz::{GapInfo, Tz};

use super::Crontab;

/// How a line takes a clock that is set ahead or back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// Each time comes once a day.
    Fixed,
    /// Times come as the clock shows them.
    Interval,
}

impl Pace {
    /// Returns the pace of a line with these fields: at intervals when either begins with `*`.
    pub(super) fn of(minute: &str, hour: &str) -> Self {
        match minute.starts_with('*') || hour.starts_with('*') {
            true => Self::Interval,
            false => Self::Fixed,
        }
    }

    /// Returns when a job of this pace runs that the clock of `zone` shows, skips or shows twice as `wall`.
    pub(super) fn instants(self, wall: NaiveDateTime, zone: Tz) -> impl Iterator<Item = i64> {
        let (first, second) = match (zone.from_local_datetime(&wall), self) {
            (LocalResult::Single(only), _) | (LocalResult::Ambiguous(only, _), Self::Fixed) => {
                (Some(only), None)
            }
            (LocalResult::Ambiguous(first, second), Self::Interval) => (Some(first), Some(second)),
            (LocalResult::None, Self::Fixed) => {
                (GapInfo::new(&wall, &zone).and_then(|gap| gap.end), None)
            }
            (LocalResult::None, Self::Interval) => (None, None),
        };
        first
            .into_iter()
            .chain(second)
            .map(|time| time.timestamp_millis())
    }
}

impl Crontab {
    /// Returns the first time of the line that comes when the clock, not yet set back, shows again what it showed
    /// up to `after`.
    pub(super) fn again(&self, after: DateTime<Tz>) -> Option<i64> {
        let now = after.naive_local();
        let LocalResult::Ambiguous(first, second) = after.timezone().from_local_datetime(&now)
        else {
            return None;
        };
        if first != after {
            return None;
        }
        let mut wall = now.checked_sub_signed(second.signed_duration_since(first))?;
        loop {
            wall = self.next_wall(wall).filter(|wall| *wall <= now)?;
            let second = self.pace.instants(wall, after.timezone()).nth(1);
            if second.is_some() {
                return second;
            }
        }
    }
}
