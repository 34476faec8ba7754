//! What a crontab line means, rule by rule; `oracle_tests` has the random ones.

use chrono::SecondsFormat;
use chrono_tz::{Africa, America, Asia, Australia, Europe, Pacific};
use proptest::prelude::*;

use super::*;
use crate::clock;

fn ms(text: &str) -> i64 {
    clock::parse_rfc3339(text).unwrap_or_else(|| panic!("{text}"))
}

/// Checks the times of `line` after `after`, given with the offset of `zone`.
fn check(line: &str, zone: Tz, after: &str, expected: &[&str]) {
    let read = Crontab::parse(line).unwrap_or_else(|error| panic!("{error}"));
    let times = std::iter::successors(read.next_after(ms(after), zone), |last| {
        read.next_after(*last, zone)
    });
    let shown = |ms| {
        DateTime::from_timestamp_millis(ms)
            .expect("time")
            .with_timezone(&zone)
    };
    let times = times.take(expected.len()).map(|ms| {
        shown(ms)
            .to_rfc3339_opts(SecondsFormat::Secs, true)
            .replace(":00Z", "Z")
    });
    let times: Vec<String> = times.collect();
    let expected: Vec<String> = expected.iter().map(|time| (*time).to_owned()).collect();
    assert_eq!(times, expected, "{line} in {zone} after {after}");
}

/// Checks the days of `line`, which names midnight, in UTC from 2026-11-01 (a Sunday) on.
fn days(line: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|day| format!("{day}T00:00Z")).collect();
    check(
        line,
        Tz::UTC,
        "2026-10-31T23:59:59Z",
        &expected.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

/// Checks that two lines come at the same times for two years.
fn same(one: &str, other: &str) {
    let read = |line| Crontab::parse(line).unwrap_or_else(|error| panic!("{error}"));
    let times = |line: Crontab| {
        let times = std::iter::successors(
            line.next_after(ms("2026-01-01T00:00:00Z"), Tz::UTC),
            |last| line.next_after(*last, Tz::UTC),
        );
        times.take(200).collect::<Vec<_>>()
    };
    assert_eq!(times(read(one)), times(read(other)), "{one} and {other}");
}

/// Checks that `line` is refused in a sentence with all of `words`.
fn refused(line: &str, words: &[&str]) {
    let error = Crontab::parse(line)
        .map(|line| line.text)
        .expect_err(line)
        .to_string();
    for word in words {
        assert!(error.contains(word), "{line}: {error}");
    }
}

#[test]
fn a_line_is_kept_as_it_was_written_with_one_space_between_fields() {
    let line = Crontab::parse("  0\t7   * *  MON-fri ").expect("line");
    assert_eq!(line.as_str(), "0 7 * * MON-fri");
    assert_eq!(line, Crontab::parse("0 7 * * MON-fri").expect("line"));
    assert_ne!(line, Crontab::parse("0 7 * * 1-5").expect("line"));
    assert_eq!(Crontab::parse(line.as_str()), Ok(line));
    assert_eq!(Crontab::parse("@Daily").expect("line").as_str(), "@daily");
}

#[test]
fn sunday_is_0_and_7_and_may_begin_or_end_a_range() {
    days("0 0 * * 0", &["2026-11-01", "2026-11-08"]);
    days("0 0 * * 7", &["2026-11-01", "2026-11-08"]);
    days("0 0 * * 1", &["2026-11-02", "2026-11-09"]);
    days("0 0 * * 6", &["2026-11-07", "2026-11-14"]);
    days(
        "0 0 * * fri-sun",
        &[
            "2026-11-01",
            "2026-11-06",
            "2026-11-07",
            "2026-11-08",
            "2026-11-13",
        ],
    );
    for (one, other) in [
        ("fri-sun", "0,5,6"),
        ("5-7", "0,5,6"),
        ("5-0", "0,5,6"),
        ("6-0", "0,6"),
        ("7-2", "0,1,2"),
        ("sun-tue", "0,1,2"),
        ("0-7", "*"),
        ("1-7", "*"),
        ("sun-sun", "0"),
        ("7-7", "0"),
        ("7-0", "0"),
        ("1-7/3", "1,4,0"),
        ("*/7", "0"),
        ("*/2", "0,2,4,6"),
    ] {
        same(&format!("0 0 * * {one}"), &format!("0 0 * * {other}"));
    }
}

#[test]
fn names_are_numbers_in_any_letter_case() {
    same("0 0 * JAN,mAr-may *", "0 0 * 1,3-5 *");
    same("0 0 * * Mon-FRI/2,sAt", "0 0 * * 1,3,5,6");
    same("0 0 * jun-8 *", "0 0 * 6-8 *");
}

#[test]
fn steps_ranges_and_lists_add_up() {
    let minutes = |line, expected: &[&str]| {
        let expected: Vec<String> = expected
            .iter()
            .map(|time| format!("2026-11-01T{time}Z"))
            .collect();
        check(
            line,
            Tz::UTC,
            "2026-11-01T00:00:00Z",
            &expected.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    };
    minutes("*/20 * * * *", &["00:20", "00:40", "01:00"]);
    minutes(
        "50-59/4,3 * * * *",
        &["00:03", "00:50", "00:54", "00:58", "01:03"],
    );
    minutes("05,5,5-7 00 * * *", &["00:05", "00:06", "00:07"]);
    minutes("*,3 * * * *", &["00:01", "00:02", "00:03"]);
    minutes("0 */9 * * *", &["09:00", "18:00"]);
}

#[test]
fn either_day_field_names_the_day_when_neither_begins_with_a_star() {
    days(
        "0 0 13 * 5",
        &[
            "2026-11-06",
            "2026-11-13",
            "2026-11-20",
            "2026-11-27",
            "2026-12-04",
            "2026-12-11",
            "2026-12-13",
        ],
    );
    days("0 0 1-31 * 5", &["2026-11-01", "2026-11-02"]);
    days("0 0 30 2 1", &["2027-02-01", "2027-02-08"]);
}

#[test]
fn a_day_field_that_begins_with_a_star_only_narrows_the_other() {
    days("0 0 */2 * 1", &["2026-11-09", "2026-11-23", "2026-12-07"]);
    days("0 0 13 * *", &["2026-11-13", "2026-12-13"]);
    days("0 0 13 * */5", &["2026-11-13", "2026-12-13", "2027-06-13"]);
    days("0 0 * * 5", &["2026-11-06", "2026-11-13"]);
    // Not at its beginning a star restricts nothing, and so every day is one of either field.
    days("0 0 3,* * 5", &["2026-11-01", "2026-11-02"]);
}

#[test]
fn words_stand_for_lines() {
    for (word, line) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@MONTHLY", "0 0 1 * *"),
    ] {
        same(word, line);
    }
    days("@yearly", &["2027-01-01", "2028-01-01"]);
    days("@annually", &["2027-01-01", "2028-01-01"]);
}

#[test]
fn a_skipped_time_comes_at_the_first_instant_after_the_gap() {
    let (new_york, lord_howe) = (America::New_York, Australia::Lord_Howe);
    let expected = [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ];
    check(
        "30 2 * * *",
        new_york,
        "2026-03-07T00:00:00-05:00",
        &expected,
    );
    check(
        "30 2 8 3 *",
        new_york,
        "2026-01-01T00:00:00-05:00",
        &["2026-03-08T03:00:00-04:00", "2027-03-08T02:30:00-05:00"],
    );
    // Three skipped times and the first that is shown again are one.
    let expected = ["2026-03-08T03:00:00-04:00", "2026-03-08T03:20:00-04:00"];
    check(
        "0,20,40 2,3 * * *",
        new_york,
        "2026-03-08T00:00:00-05:00",
        &expected,
    );
    check(
        "10 2 * * *",
        lord_howe,
        "2026-10-04T00:00:00+10:30",
        &["2026-10-04T02:30:00+11:00", "2026-10-05T02:10:00+11:00"],
    );
    check(
        "45 2 * * *",
        lord_howe,
        "2026-10-04T00:00:00+10:30",
        &["2026-10-04T02:45:00+11:00"],
    );
    check(
        "0 0 * * *",
        Africa::Cairo,
        "2026-04-23T12:00:00+02:00",
        &["2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"],
    );
    // A whole day that Samoa left out.
    check(
        "0 12 * * *",
        Pacific::Apia,
        "2011-12-29T12:00:00-10:00",
        &["2011-12-31T00:00:00+14:00", "2011-12-31T12:00:00+14:00"],
    );
}

#[test]
fn a_repeated_time_comes_once_when_it_is_first_shown() {
    let expected = ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"];
    check(
        "30 1 * * *",
        America::New_York,
        "2026-10-31T12:00:00-04:00",
        &expected,
    );
    // Asked while it is shown again, it has been.
    check(
        "30 1 * * *",
        America::New_York,
        "2026-11-01T01:10:00-05:00",
        &["2026-11-02T01:30:00-05:00"],
    );
    let expected = ["2026-04-05T01:45:00+11:00", "2026-04-06T01:45:00+10:30"];
    check(
        "45 1 * * *",
        Australia::Lord_Howe,
        "2026-04-05T00:00:00+11:00",
        &expected,
    );
    let expected = [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T03:00:00+01:00",
    ];
    check(
        "0,30 2,3 * * *",
        Europe::Berlin,
        "2026-10-25T00:00:00+02:00",
        &expected,
    );
}

#[test]
fn a_line_at_intervals_leaves_out_what_is_skipped_and_comes_again_with_what_is_repeated() {
    let expected = ["2026-03-08T01:30:00-05:00", "2026-03-08T03:30:00-04:00"];
    check(
        "30 * * * *",
        America::New_York,
        "2026-03-08T01:00:00-05:00",
        &expected,
    );
    check(
        "30 */2 * * *",
        America::New_York,
        "2026-03-08T01:00:00-05:00",
        &["2026-03-08T04:30:00-04:00"],
    );
    let expected = [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:00:00-05:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-01T02:00:00-05:00",
    ];
    check(
        "*/30 * * * *",
        America::New_York,
        "2026-11-01T00:45:00-04:00",
        &expected,
    );
    check(
        "*/30 1 * * *",
        America::New_York,
        "2026-11-01T00:45:00-04:00",
        &expected[..4],
    );
    let expected = [
        "2026-04-05T01:45:00+11:00",
        "2026-04-05T01:45:00+10:30",
        "2026-04-05T02:45:00+10:30",
    ];
    check(
        "45 * * * *",
        Australia::Lord_Howe,
        "2026-04-05T01:00:00+11:00",
        &expected,
    );
}

#[test]
fn offsets_of_half_an_hour_and_parts_of_a_minute_are_no_trouble() {
    check(
        "0 9 * * *",
        Asia::Kolkata,
        "2026-11-22T09:00:00+05:30",
        &["2026-11-23T09:00:00+05:30"],
    );
    check(
        "0 9 * * *",
        Asia::Kolkata,
        "2026-11-22T08:59:59.999+05:30",
        &["2026-11-22T09:00:00+05:30"],
    );
    check(
        "0 9 * * *",
        Asia::Kolkata,
        "2026-11-22T09:00:00.001+05:30",
        &["2026-11-23T09:00:00+05:30"],
    );
}

#[test]
fn no_time_lies_before_1970_or_after_2100() {
    let (every, rare) = (
        Crontab::parse("* * * * *").expect("line"),
        Crontab::parse("0 0 29 2 *").expect("line"),
    );
    for zone in [Tz::UTC, Asia::Kolkata] {
        for after in [i64::MIN, -1, -86_400_000_000] {
            assert_eq!(every.next_after(after, zone), Some(0));
        }
        assert_eq!(
            [END_MS, END_MS + 1, i64::MAX].map(|after| every.next_after(after, zone)),
            [None; 3]
        );
    }
    assert_eq!(
        every.next_after(END_MS - 60_001, Tz::UTC),
        Some(END_MS - 60_000)
    );
    assert_eq!(every.next_after(END_MS - 60_000, Tz::UTC), None);
    assert_eq!(ms("2101-01-01T00:00:00Z"), END_MS);
    assert_eq!(
        rare.next_after(ms("2092-03-01T00:00:00Z"), Tz::UTC),
        Some(ms("2096-02-29T00:00:00Z"))
    );
    assert_eq!(rare.next_after(ms("2096-03-01T00:00:00Z"), Tz::UTC), None);
}

#[test]
fn a_wrong_number_of_fields_is_refused() {
    refused(
        "",
        &[
            "0 of the five fields",
            "minute, hour, day of month, month, day of week",
        ],
    );
    refused("0 7 * *", &["4 of the five", "write all five"]);
    refused(
        "0 0 7 * * *",
        &["6 of the five", "seconds", "leave them out"],
    );
    refused("0 0 7 * * * 2027", &["7 of the five", "a year"]);
    refused("@daily 5", &["write the word with @ alone"]);
}

#[test]
fn what_a_field_does_not_take_is_refused_by_its_name_with_what_it_takes() {
    refused(
        "60 * * * *",
        &["`60` in the field minute is out of range", "write 0 to 59"],
    );
    refused("* 24 * * *", &["`24` in the field hour", "0 to 23"]);
    refused("* * 0 * *", &["`0` in the field day of month", "1 to 31"]);
    refused("* * 1-32 * *", &["`1-32` in the field day of month"]);
    refused("* * * 13 *", &["`13` in the field month", "jan to dec"]);
    refused(
        "* * * * 8",
        &["`8` in the field day of week", "Sunday is 0 or 7"],
    );
    refused("99999999999999999999 * * * *", &["out of range"]);
    refused("+5 * * * *", &["`+5`", "is not a number"]);
    refused("٣ * * * *", &["is not a number"]);
    refused("5- * * * *", &["`5-` in the field minute is not a number"]);
    refused("1-2-3 * * * *", &["is not a number"]);
    refused("* mon * * *", &["`mon` in the field hour is not a number"]);
    refused(
        "* * * * monday",
        &["`monday`", "write its first three letters, `mon`"],
    );
    refused(
        "1,,2 * * * *",
        &["`1,,2` in the field minute", "nothing in it"],
    );
    refused(", * * * *", &["nothing in it"]);
    refused("1, * * * *", &["nothing in it"]);
}

#[test]
fn steps_that_are_not_whole_numbers_within_the_field_are_refused() {
    refused(
        "*/0 * * * *",
        &["`*/0` in the field minute", "a whole number from 1 to 59"],
    );
    refused("*/90 * * * *", &["from 1 to 59", "`every`"]);
    refused("*/-5 * * * *", &["out of range"]);
    refused("*/ * * * *", &["out of range"]);
    refused("*/2/3 * * * *", &["out of range"]);
    refused("5/15 * * * *", &["`5-59/15` or `*/15`"]);
}

#[test]
fn a_range_that_runs_backwards_is_refused_with_what_was_meant() {
    refused(
        "* 22-2 * * *",
        &["`22-2` in the field hour runs backwards", "`22-23,0-2`"],
    );
    refused("* * * nov-feb *", &["`11-12,1-2`"]);
    refused("* * * * sat-mon", &["`6,0-1`"]);
    assert!(Crontab::parse("* 22-23,0-2 * * *").is_ok() && Crontab::parse("* * * * 6,0-1").is_ok());
}

#[test]
fn what_only_other_crons_know_is_refused() {
    refused(
        "0 0 L * *",
        &["`L` in the field day of month is not of crontab(5)"],
    );
    refused("0 0 15W * *", &["`15W`", "not of crontab(5)"]);
    refused("0 0 LW * *", &["`LW`", "not of crontab(5)"]);
    refused(
        "0 0 * * 5#2",
        &["`5#2` in the field day of week", "not of crontab(5)"],
    );
    refused("0 0 * * fri#2", &["`fri#2`", "not of crontab(5)"]);
    refused("0 0 * * 5L", &["`5L`", "not of crontab(5)"]);
    refused("0 0 ? * 1", &["`?` in the field day of month", "write `*`"]);
    refused("H * * * *", &["`H` in the field minute is not a number"]);
    refused(
        "@reboot",
        &["`@reboot`", "instead of a start of the machine"],
    );
    refused("@dayly", &["`@dayly`", "@daily"]);
}

#[test]
fn a_day_that_no_year_has_is_refused() {
    for line in ["0 0 30 2 *", "0 0 31 feb,apr,jun,sep,nov *", "0 0 31 2 */2"] {
        refused(
            line,
            &["never occurs", "write a day of month that the month has"],
        );
    }
    days("0 0 29 2 *", &["2028-02-29", "2032-02-29"]);
}

#[test]
fn a_refusal_shows_no_more_than_a_line_of_what_was_written() {
    let error = Crontab::parse(&format!("\u{7}{} * * * *", "x".repeat(100_000)))
        .expect_err("refused")
        .to_string();
    assert!(
        error.chars().count() < 400 && !error.contains('\u{7}'),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_text_is_too_much(text in ".*", fields in "[0-9*/,a-zA-Z#?@ -]{0,40}", after in any::<i64>()) {
        for text in [text, fields] {
            if let Ok(line) = Crontab::parse(&text) {
                prop_assert!(line.next_after(after, America::New_York).is_none_or(|next| next > after));
            }
        }
    }
}
