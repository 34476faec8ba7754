//! Next and missed times; times, intervals and zones as people write them.

use chrono_tz::{Africa, America, Australia, Europe};
use proptest::prelude::*;

use super::*;

const HOUR_MS: i64 = 3_600_000;

fn ms(text: &str) -> i64 {
    clock::parse_rfc3339(text).unwrap_or_else(|| panic!("{text}"))
}

fn cron(line: &str, zone: Tz) -> Schedule {
    Schedule::Cron {
        line: Crontab::parse(line).expect("line"),
        zone,
    }
}

#[test]
fn a_moment_comes_once() {
    let once = Schedule::At { at_ms: 1000 };
    assert_eq!(
        [0, 999, 1000, 1001].map(|after| once.next_after(after)),
        [Some(1000), Some(1000), None, None]
    );
    assert_eq!(once.times_after(0, 5), [1000]);
    assert_eq!(once.missed(0, 999, 5), (vec![], 0));
    assert_eq!(once.missed(0, 1000, 5), (vec![1000], 1));
    assert_eq!(once.missed(1000, 2000, 5), (vec![], 0));
    assert_eq!(once.missed(0, 1000, 0), (vec![], 1));
}

#[test]
fn an_interval_counts_from_its_beginning_and_first_comes_after_one() {
    let every = Schedule::Every {
        every_ms: 100,
        from_ms: 50,
    };
    let asked = [i64::MIN, 0, 50, 149, 150, 151, 250];
    assert_eq!(
        asked.map(|after| every.next_after(after)),
        [150, 150, 150, 150, 250, 250, 350].map(Some)
    );
    assert_eq!(every.times_after(160, 3), [250, 350, 450]);
    assert_eq!(every.missed(50, 149, 9), (vec![], 0));
    assert_eq!(every.missed(50, 150, 9), (vec![150], 1));
    assert_eq!(every.missed(150, 450, 2), (vec![350, 450], 3));
    assert_eq!(every.missed(-1000, 260, 9), (vec![150, 250], 2));
    assert_eq!(every.missed(450, 150, 9), (vec![], 0));
    assert_eq!(every.missed(150, 450, 0), (vec![], 3));
}

#[test]
fn an_interval_at_the_ends_of_time_has_no_next() {
    let every = Schedule::Every {
        every_ms: 100,
        from_ms: 0,
    };
    assert_eq!(every.next_after(i64::MAX), None);
    assert_eq!(
        Schedule::Every {
            every_ms: i64::MAX,
            from_ms: i64::MAX
        }
        .next_after(0),
        None
    );
    assert_eq!(
        Schedule::Every {
            every_ms: 1,
            from_ms: i64::MIN
        }
        .missed(i64::MIN, i64::MAX, 3),
        (vec![], 0)
    );
    for every_ms in [0, -5, i64::MIN] {
        let never = Schedule::Every {
            every_ms,
            from_ms: 0,
        };
        assert_eq!(
            (never.next_after(0), never.missed(0, 1000, 5)),
            (None, (vec![], 0))
        );
    }
    let (newest, count) = Schedule::Every {
        every_ms: 1,
        from_ms: 0,
    }
    .missed(0, i64::MAX, 2);
    assert_eq!(
        (newest, count),
        (vec![i64::MAX - 1, i64::MAX], i64::MAX as u64)
    );
}

#[test]
fn an_interval_does_not_care_for_the_clock_on_the_wall() {
    let every = Schedule::Every {
        every_ms: 24 * HOUR_MS,
        from_ms: ms("2026-03-07T02:30:00-05:00"),
    };
    assert_eq!(
        every.next_after(ms("2026-03-07T12:00:00-05:00")),
        Some(ms("2026-03-08T03:30:00-04:00"))
    );
}

#[test]
fn what_a_line_missed_is_counted_and_the_newest_are_told() {
    let daily = cron("30 2 * * *", America::New_York);
    let (last, now) = (
        ms("2026-03-06T02:30:00-05:00"),
        ms("2026-03-09T02:30:00-04:00"),
    );
    let newest = ["2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"]
        .map(ms)
        .to_vec();
    assert_eq!(daily.missed(last, now, 2), (newest, 3));
    assert_eq!(daily.missed(last, now, 9).0, daily.times_after(last, 3));
    assert_eq!(daily.missed(last, last, 9), (vec![], 0));
    assert_eq!(daily.missed(now, last, 9), (vec![], 0));
    assert_eq!(daily.missed(last, now, 0), (vec![], 3));
}

#[test]
fn of_more_than_are_counted_the_newest_are_told_all_the_same() {
    let (last, now) = (ms("2025-11-23T00:00:00Z"), ms("2026-11-23T00:00:00Z"));
    let minutes = cron("* * * * *", Europe::Berlin);
    assert_eq!(
        minutes.missed(last, now, 2),
        (vec![now - 60_000, now], MOST_COUNTED)
    );
    // Many days lie between the newest and now.
    let january = cron("* * * 1-3 *", Tz::UTC);
    let end = ms("2026-04-01T00:00:00Z");
    assert_eq!(
        january.missed(last, now, 2),
        (vec![end - 120_000, end - 60_000], MOST_COUNTED)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_was_missed_is_what_would_have_come(every_ms in 1i64..500, from_ms in -2000i64..2000, last_ms in -3000i64..3000, span_ms in 0i64..5000, most in 0usize..20) {
        let every = Schedule::Every { every_ms, from_ms };
        let (newest, count) = every.missed(last_ms, last_ms + span_ms, most);
        let mut all = every.times_after(last_ms, 6000);
        all.retain(|time| *time <= last_ms + span_ms);
        prop_assert_eq!(count, all.len() as u64);
        prop_assert_eq!(newest.as_slice(), &all[all.len().saturating_sub(most)..]);
    }

    #[test]
    fn no_text_is_too_much(text in ".*", like in "[0-9TZ:.+ -]{0,32}", span in "[0-9smhd ]{0,24}") {
        for text in [text, like, span] {
            let _ = parse_at(&text, Australia::Lord_Howe);
            let _ = parse_zone(&text);
            if let Ok(every_ms) = parse_every(&text) {
                prop_assert!((MIN_EVERY_MS..=MAX_EVERY_MS).contains(&every_ms), "{}", text);
            }
        }
    }

    #[test]
    fn a_moment_survives_being_written(ms in 0i64..4_000_000_000_000) {
        prop_assert_eq!(parse_at(&clock::rfc3339(ms), America::New_York), Ok(ms));
    }
}

#[test]
fn a_moment_with_an_offset_is_that_instant() {
    let expected = ms("2026-03-08T12:30:00Z");
    for text in [
        "2026-03-08T12:30:00Z",
        "2026-03-08t12:30z",
        "2026-03-08 12:30 Z",
        "2026-03-08T14:30+02:00",
        "2026-03-08T14:30+0200",
        "2026-03-08T14:30:00.000+02",
        " 2026-03-08T07:00:00 -05:30\n",
    ] {
        assert_eq!(parse_at(text, America::New_York), Ok(expected), "{text}");
    }
    assert_eq!(
        parse_at("2026-03-08T12:30:00.5Z", Tz::UTC),
        Ok(expected + 500)
    );
    assert_eq!(
        parse_at("2026-03-08T12:30:00.123456789Z", Tz::UTC),
        Ok(expected + 123)
    );
}

#[test]
fn a_moment_without_an_offset_is_of_the_zone() {
    let check = |text: &str, zone, expected: &str| {
        assert_eq!(parse_at(text, zone), Ok(ms(expected)), "{text}")
    };
    check(
        "2026-07-01T09:00",
        Europe::Berlin,
        "2026-07-01T09:00:00+02:00",
    );
    check(
        "2026-07-01 09:00:30",
        Europe::Berlin,
        "2026-07-01T09:00:30+02:00",
    );
    // Skipped, and shown twice.
    check(
        "2026-03-08T02:30",
        America::New_York,
        "2026-03-08T03:00:00-04:00",
    );
    check(
        "2026-10-04T02:10",
        Australia::Lord_Howe,
        "2026-10-04T02:30:00+11:00",
    );
    check(
        "2026-04-24T00:07",
        Africa::Cairo,
        "2026-04-24T01:00:00+03:00",
    );
    check(
        "2026-11-01T01:30",
        America::New_York,
        "2026-11-01T01:30:00-04:00",
    );
}

#[test]
fn what_is_no_moment_is_refused_with_an_example() {
    for (text, wrong) in [
        ("", "does not begin with a date"),
        ("tomorrow", "does not begin with a date"),
        ("2026-3-8 02:00", "does not begin with a date"),
        ("20260308T0200", "does not begin with a date"),
        ("２０２６-03-08T02:00", "does not begin with a date"),
        ("2026-03-08", "has no time of day"),
        ("2026-03-08T", "has no time of day"),
        ("2026-03-08x02:00", "has no T or space"),
        ("2026-03-08T2:00", "hours and minutes of two digits"),
        ("2026-03-08T02", "hours and minutes of two digits"),
        ("2026-03-08T02:00.5", "hours and minutes of two digits"),
        ("2026-03-08T02:00:00.", "hours and minutes of two digits"),
        ("2026-03-08T24:00", "no clock shows"),
        ("2026-03-08T02:60", "no clock shows"),
        ("2026-03-08T02:00:60Z", "no clock shows"),
        ("2026-02-30T02:00", "no calendar has"),
        ("2026-03-08T02:00 PST", "does not end in an offset"),
        ("2026-03-08T02:00+24:00", "does not end in an offset"),
        ("2026-03-08T02:00+1", "does not end in an offset"),
        (
            "2026-03-08T02:00[Europe/Berlin]",
            "does not end in an offset",
        ),
    ] {
        let error = parse_at(text, Tz::UTC).expect_err(text).to_string();
        assert!(
            error.contains(wrong) && error.contains("write a date and a time of day such as"),
            "{text}: {error}"
        );
    }
}

#[test]
fn an_interval_is_written_with_units() {
    for (text, secs) in [
        ("30s", 30),
        ("90m", 5400),
        ("2h", 7200),
        ("1d", 86_400),
        ("1h30m", 5400),
        (" 1H 30M ", 5400),
        ("10s", 10),
    ] {
        assert_eq!(parse_every(text), Ok(secs * 1000), "{text}");
    }
    assert_eq!(parse_every("366d"), Ok(MAX_EVERY_MS));
}

#[test]
fn what_is_no_interval_is_refused_with_an_example() {
    for (text, wrong) in [
        ("", "is not an interval"),
        ("30", "without a unit"),
        ("1h30", "without a unit"),
        ("h", "is not a number with a unit"),
        ("-5m", "is not a number with a unit"),
        ("1.5h", "is not a number with a unit"),
        ("30min", "has the unknown unit `min`"),
        ("500ms", "has the unknown unit `ms`"),
        ("2w", "has the unknown unit `w`"),
        ("9s", "less than 10 seconds"),
        ("0d", "less than 10 seconds"),
        ("366d1s", "more than 366 days"),
        ("99999999999999999999d", "more than 366 days"),
        ("9223372036854775807s", "more than 366 days"),
    ] {
        let error = parse_every(text).expect_err(text).to_string();
        assert!(
            error.contains(wrong) && error.contains("such as `90m`"),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_zone_is_found_by_its_name_in_any_letter_case() {
    assert_eq!(parse_zone("Europe/Berlin"), Ok(Europe::Berlin));
    assert_eq!(parse_zone(" america/NEW_YORK "), Ok(America::New_York));
    assert_eq!(parse_zone("UTC"), Ok(Tz::UTC));
}

#[test]
fn a_wrong_zone_is_refused_with_the_names_most_alike() {
    for (text, near) in [
        ("Berlin", "write `Europe/Berlin`"),
        ("New York", "write `America/New_York`"),
        ("europe/belin", "write `Europe/Berlin`"),
        ("Asia/Calcuta", "write `Asia/Calcutta`"),
        ("Germany/Berlin", "write `Europe/Berlin`"),
        ("CEST", "write an IANA name such as `Europe/Berlin`"),
        ("", "write an IANA name such as"),
        (&"x/".repeat(100_000), "write an IANA name such as"),
    ] {
        let error = parse_zone(text).expect_err(text).to_string();
        assert!(
            error.contains("no time zone is called") && error.contains(near),
            "{error}"
        );
    }
}
