//! Decides whether a conversation has expired. Pure.

use chrono::{Days, TimeZone};
use chrono_tz::Tz;

use crate::clock;
use crate::config;
use crate::config::Reset;
use crate::message::KeyKind;

/// Why a conversation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Nobody said anything for so long.
    Idle,
    /// A new day began.
    Daily,
}

impl Over {
    /// Returns why a conversation of `kind`, in which a person spoke last at `last`, is over at `now`
    /// (milliseconds since 1970 UTC); `None` when it continues. When both are true it was idle. A clock that
    /// was set back ends nothing.
    pub fn at(
        settings: &config::Session,
        kind: KeyKind,
        zone: Tz,
        last: i64,
        now: i64,
    ) -> Option<Self> {
        let reset = settings.reset_of(kind);
        let idle = i64::try_from(settings.idle_minutes)
            .unwrap_or(i64::MAX)
            .saturating_mul(60_000);
        let is_idle =
            || matches!(reset, Reset::Idle | Reset::Both) && now.saturating_sub(last) > idle;
        let is_daily = || {
            matches!(reset, Reset::Daily | Reset::Both)
                && last < newest_boundary(settings, zone, now)
        };
        if last > now {
            None
        } else if is_idle() {
            Some(Self::Idle)
        } else {
            is_daily().then_some(Self::Daily)
        }
    }
}

/// Returns the last time not after `now` at which a day began.
fn newest_boundary(settings: &config::Session, zone: Tz, now: i64) -> i64 {
    let today = clock::local_date(now, zone);
    let days = [Some(today), today.checked_sub_days(Days::new(1))];
    let of_day = |date: chrono::NaiveDate| {
        // A time that the clock skips (DST) is the first one after it; of one that comes twice the first.
        let wanted = date.and_time(settings.reset_at.0);
        (0..24 * 4)
            .filter_map(|quarter| {
                wanted.checked_add_signed(chrono::TimeDelta::minutes(15 * quarter))
            })
            .find_map(|time| zone.from_local_datetime(&time).earliest())
            .map(|time| time.timestamp_millis())
    };
    days.into_iter()
        .flatten()
        .filter_map(of_day)
        .find(|at| *at <= now)
        .unwrap_or(i64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ResetFor, TimeOfDay};

    fn settings(reset: Reset) -> config::Session {
        config::Session {
            reset,
            idle_minutes: 90,
            ..config::Session::default()
        }
    }

    fn ms(text: &str) -> i64 {
        clock::parse_rfc3339(text).expect("a time")
    }

    fn over(settings: &config::Session, zone: Tz, last: &str, now: &str) -> Option<Over> {
        Over::at(settings, KeyKind::Dm, zone, ms(last), ms(now))
    }

    #[test]
    fn a_day_ends_at_four_and_not_at_midnight() {
        let daily = settings(Reset::Daily);
        let check = |last: &str, now: &str, expected| {
            assert_eq!(over(&daily, Tz::UTC, last, now), expected, "{last} {now}")
        };
        check("2026-05-04T23:00:00Z", "2026-05-05T03:59:59Z", None);
        check(
            "2026-05-05T03:59:59Z",
            "2026-05-05T04:00:00Z",
            Some(Over::Daily),
        );
        check("2026-05-05T04:00:00Z", "2026-05-05T23:00:00Z", None);
        check("2026-05-04T04:00:00Z", "2026-05-05T03:00:00Z", None);
        check(
            "2026-05-01T12:00:00Z",
            "2026-05-05T03:00:00Z",
            Some(Over::Daily),
        );
        assert_eq!(
            over(
                &settings(Reset::Never),
                Tz::UTC,
                "2020-01-01T00:00:00Z",
                "2026-05-05T03:00:00Z"
            ),
            None
        );
    }

    #[test]
    fn silence_ends_a_conversation_and_comes_before_the_day() {
        let check = |reset, now: &str, expected| {
            assert_eq!(
                over(&settings(reset), Tz::UTC, "2026-05-05T03:00:00Z", now),
                expected,
                "{reset:?} {now}"
            );
        };
        check(Reset::Idle, "2026-05-05T04:30:00Z", None);
        check(Reset::Idle, "2026-05-05T04:30:01Z", Some(Over::Idle));
        check(Reset::Both, "2026-05-05T03:59:00Z", None);
        check(Reset::Both, "2026-05-05T04:30:00Z", Some(Over::Daily));
        check(Reset::Both, "2026-05-05T04:30:01Z", Some(Over::Idle));
    }

    #[test]
    fn a_kind_of_its_own_and_a_clock_that_is_set_back() {
        let mut own = settings(Reset::Daily);
        own.reset_for = ResetFor {
            group: Some(Reset::Never),
            ..ResetFor::default()
        };
        let (last, now) = (ms("2026-05-01T12:00:00Z"), ms("2026-05-05T12:00:00Z"));
        assert_eq!(Over::at(&own, KeyKind::Group, Tz::UTC, last, now), None);
        assert_eq!(
            Over::at(&own, KeyKind::Cli, Tz::UTC, last, now),
            Some(Over::Daily)
        );
        assert_eq!(
            Over::at(&settings(Reset::Both), KeyKind::Dm, Tz::UTC, now, last),
            None
        );
        let forever = config::Session {
            idle_minutes: u64::MAX,
            ..settings(Reset::Idle)
        };
        assert_eq!(
            Over::at(&forever, KeyKind::Dm, Tz::UTC, i64::MIN, i64::MAX),
            None
        );
    }

    #[test]
    fn a_boundary_that_the_clock_skips_or_repeats_is_there_once() {
        let zone = Tz::Europe__Berlin;
        let at = |hour, minute| {
            TimeOfDay(chrono::NaiveTime::from_hms_opt(hour, minute, 0).expect("a time"))
        };
        let half_past_two = config::Session {
            reset_at: at(2, 30),
            ..settings(Reset::Daily)
        };
        let check = |last: &str, now: &str, expected| {
            assert_eq!(
                over(&half_past_two, zone, last, now),
                expected,
                "{last} {now}"
            )
        };
        // 2026-03-29 goes from 01:59:59+01 to 03:00+02.
        check("2026-03-29T00:30:00Z", "2026-03-29T00:59:59Z", None);
        check(
            "2026-03-29T00:59:59Z",
            "2026-03-29T01:00:00Z",
            Some(Over::Daily),
        );
        check("2026-03-29T01:00:00Z", "2026-03-29T20:00:00Z", None);
        // 2026-10-25 has 02:30 twice, at 00:30 and at 01:30 UTC.
        check(
            "2026-10-25T00:29:59Z",
            "2026-10-25T00:30:00Z",
            Some(Over::Daily),
        );
        check("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", None);
        // In a zone east of the date line the local day counts.
        let four = settings(Reset::Daily);
        assert_eq!(
            over(
                &four,
                Tz::Pacific__Auckland,
                "2026-05-04T15:59:00Z",
                "2026-05-04T16:01:00Z"
            ),
            Some(Over::Daily)
        );
    }
}
