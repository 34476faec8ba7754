//! The clock: the only place that asks the machine what time it is.
//!
//! Stored times are milliseconds since 1970 UTC; text times are RFC 3339 UTC with milliseconds.

use std::time::{Duration, SystemTime};

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, SecondsFormat, TimeZone, Utc};
use chrono_tz::{GapInfo, Tz};
use nix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Returns the time now, as the file system counts it.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// Returns the time now, milliseconds since 1970 UTC.
pub fn now_ms() -> i64 {
    let since = now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// What the clocks show at one moment: the one that timers go by, and two that continue while the machine
/// sleeps (clock_gettime(2)).
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// Time awake: what `Instant`s and timers count.
    awake: Duration,
    /// Time since the boot, sleep included.
    boot: Duration,
    /// Wall clock; a machine that was paused from outside learns of it here, when the clock is set.
    wall_ms: i64,
}

impl Moment {
    /// Returns this moment.
    pub fn now() -> Self {
        let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
        Self {
            awake: read(ClockId::CLOCK_MONOTONIC),
            boot: read(ClockId::CLOCK_BOOTTIME),
            wall_ms: now_ms(),
        }
    }

    /// Returns how much time went by since `before`, whatever the wall clock shows; sleep counts.
    pub fn since(self, before: Self) -> Duration {
        self.boot.saturating_sub(before.boot)
    }

    /// Returns how much more time went by outside than our timers counted since `before`: how long the
    /// machine slept or was paused, or how far its clock was set ahead. A clock set back is no time.
    pub fn lost_since(self, before: Self) -> Duration {
        let awake = self.awake.saturating_sub(before.awake);
        let wall = u64::try_from(self.wall_ms.saturating_sub(before.wall_ms)).unwrap_or(0);
        let outside = self
            .boot
            .saturating_sub(before.boot)
            .max(Duration::from_millis(wall));
        outside.saturating_sub(awake)
    }
}

/// Less time lost than this is none: the clocks are read one after the other, and count in different steps.
const SKEW: Duration = Duration::from_secs(1);

/// A point in time to come. Timers stand still while the machine sleeps, so it comes by whichever clock says so first.
#[derive(Debug, Clone, Copy)]
pub struct Alarm {
    /// When it comes on a machine that stays awake.
    at: Instant,
    /// When it was set.
    set: Moment,
}

impl Alarm {
    /// Returns the one that comes at `at` by the timers.
    pub fn at(at: Instant) -> Self {
        let set = Moment::now();
        Self { at, set }
    }

    /// Returns when it comes by the timers alone.
    pub fn instant(&self) -> Instant {
        self.at
    }

    /// Returns how long it takes from `now` on until it comes.
    pub fn left(&self, now: Instant) -> Duration {
        self.left_at(now, Moment::now())
    }

    /// Returns true when it has come at `now`.
    pub fn has_come(&self, now: Instant) -> bool {
        self.left(now).is_zero()
    }

    /// Returns the one of both that comes later.
    pub fn or_later(self, other: Self) -> Self {
        let now = Instant::now();
        if other.left(now) > self.left(now) {
            other
        } else {
            self
        }
    }

    fn left_at(&self, now: Instant, moment: Moment) -> Duration {
        let awake = self.at.saturating_duration_since(now);
        let lost = moment.lost_since(self.set);
        awake.saturating_sub(if lost < SKEW { Duration::ZERO } else { lost })
    }
}

/// Returns `ms` as RFC 3339 UTC with milliseconds, `1970-01-01T00:00:00.000Z` when out of range.
pub fn rfc3339(ms: i64) -> String {
    at(ms).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns the milliseconds of an RFC 3339 text, or `None`.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.timestamp_millis())
}

/// Returns the date of `ms` in `zone`: the date in file names.
pub fn local_date(ms: i64, zone: Tz) -> NaiveDate {
    at(ms).with_timezone(&zone).date_naive()
}

/// Returns what clock and calendar show at `ms` in `zone`.
pub fn local(ms: i64, zone: Tz) -> NaiveDateTime {
    at(ms).with_timezone(&zone).naive_local()
}

/// Returns seconds as milliseconds; what is no time is none.
pub fn millis(seconds: f64) -> i64 {
    let duration = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns `ms` in `zone` as a person writes it, with weekday and zone.
pub fn local_text(ms: i64, zone: Tz) -> String {
    at(ms)
        .with_timezone(&zone)
        .format("%A, %Y-%m-%d %H:%M %Z")
        .to_string()
}

/// Returns `ms` in `zone` for a column: `2025-11-21 22:56:01`.
pub fn local_stamp(ms: i64, zone: Tz) -> String {
    at(ms)
        .with_timezone(&zone)
        .format("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// Returns `ms` in `zone` for a column, to the minute: `2025-11-21 22:56`.
pub fn local_minute(ms: i64, zone: Tz) -> String {
    at(ms)
        .with_timezone(&zone)
        .format("%Y-%m-%d %H:%M")
        .to_string()
}

/// Returns `ms` in `zone` for a column in which zones differ: `2025-11-21 22:56 CET`.
pub fn zoned_minute(ms: i64, zone: Tz) -> String {
    at(ms)
        .with_timezone(&zone)
        .format("%Y-%m-%d %H:%M %Z")
        .to_string()
}

/// Returns the first instant of `date` in `zone`, milliseconds since 1970 UTC. Where the clock
/// skips midnight (DST), the day begins at the first time that exists.
pub fn start_of_day(date: NaiveDate, zone: Tz) -> i64 {
    instant_of(date.and_time(NaiveTime::MIN), zone)
}

/// Returns the first instant at which clock and calendar show `local` in `zone`, or where they skip it (DST), the
/// first instant after what they skip; milliseconds since 1970 UTC.
pub fn instant_of(local: NaiveDateTime, zone: Tz) -> i64 {
    let shown = zone.from_local_datetime(&local).earliest();
    let time = shown.or_else(|| GapInfo::new(&local, &zone)?.end);
    time.map_or(0, |time| time.timestamp_millis())
}

fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(ms).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_begins_at_the_first_time_that_exists() {
        let zone: Tz = "America/Sao_Paulo".parse().expect("zone");
        let date = NaiveDate::from_ymd_opt(2018, 11, 4).expect("date");
        assert_eq!(
            rfc3339(start_of_day(date, zone)),
            "2018-11-04T03:00:00.000Z"
        );
    }

    #[test]
    fn a_skipped_time_is_the_first_instant_after_the_gap() {
        let local = |text: &str| text.parse::<NaiveDateTime>().expect("local time");
        let check = |text: &str, zone: Tz, expected: &str| {
            assert_eq!(rfc3339(instant_of(local(text), zone)), expected, "{text}")
        };
        check(
            "2026-03-29T02:07:30",
            Tz::Europe__Berlin,
            "2026-03-29T01:00:00.000Z",
        );
        check(
            "2026-10-04T02:07:30",
            Tz::Australia__Lord_Howe,
            "2026-10-03T15:30:00.000Z",
        );
        check(
            "2026-10-25T02:30:00",
            Tz::Europe__Berlin,
            "2026-10-25T00:30:00.000Z",
        );
    }

    #[test]
    fn sleep_and_a_clock_set_ahead_are_lost_time_and_a_clock_set_back_is_none() {
        let at = |awake, boot, wall_secs: i64| Moment {
            awake: Duration::from_secs(awake),
            boot: Duration::from_secs(boot),
            wall_ms: wall_secs * 1000,
        };
        let check = |after: Moment, lost| {
            assert_eq!(
                after.lost_since(at(100, 500, 9_000)),
                Duration::from_secs(lost),
                "{after:?}"
            )
        };
        check(at(105, 505, 9_005), 0);
        check(at(105, 505 + 36_000, 9_005 + 36_000), 36_000);
        // A virtual machine that was paused: only the wall clock knows, once it was set.
        check(at(105, 505, 9_005 + 36_000), 36_000);
        check(at(105, 505, 9_005 + 315_360_000), 315_360_000);
        check(at(105, 505, 0), 0);
        check(at(105, 505, i64::MIN / 1000), 0);
        assert!(Moment::now().lost_since(Moment::now()) < Duration::from_secs(1));
    }

    #[test]
    fn an_alarm_comes_while_the_machine_sleeps() {
        let (now, hour) = (Instant::now(), Duration::from_secs(3600));
        let alarm = Alarm::at(now + 2 * hour);
        let Moment {
            awake,
            boot,
            wall_ms,
        } = alarm.set;
        let slept = |hours: u32| Moment {
            awake,
            boot: boot + hours * hour,
            wall_ms,
        };
        assert_eq!(alarm.left_at(now, slept(0)), 2 * hour);
        assert_eq!(alarm.left_at(now + hour, slept(0)), hour);
        assert_eq!(alarm.left_at(now, slept(1)), hour);
        assert_eq!(alarm.left_at(now + hour, slept(1)), Duration::ZERO);
        assert_eq!(alarm.left_at(now, slept(9)), Duration::ZERO);
        let soon = Alarm::at(now + hour);
        assert_eq!(soon.or_later(alarm).instant(), alarm.instant());
        assert_eq!(alarm.or_later(soon).instant(), alarm.instant());
    }

    #[test]
    fn times_survive_text() {
        assert_eq!(
            parse_rfc3339(&rfc3339(1_700_000_000_123)),
            Some(1_700_000_000_123)
        );
    }
}
