//! Compares random crontab lines with two other implementations: croner, and a walk over every minute.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use chrono::{Datelike, Days, NaiveDate, TimeDelta, Timelike};
use chrono_tz::{Africa, America, Asia, Australia, Europe};
use croner::parser::CronParser;
use proptest::prelude::*;

use super::*;

/// The years looked at.
const FIRST_YEAR: i32 = 2020;
const YEARS: i32 = 10;

const MINUTE_MS: i64 = 60_000;

/// DST of an hour, of half an hour, none, at midnight (Cairo, and Santiago the other way round), four times a year.
const ZONES: &[Tz] = &[
    Tz::UTC,
    America::New_York,
    Europe::Berlin,
    Australia::Lord_Howe,
    Asia::Kolkata,
    Africa::Cairo,
    America::Santiago,
    Africa::Casablanca,
];

/// A field as written, and the numbers it means.
#[derive(Clone, Debug)]
struct Part {
    text: String,
    numbers: BTreeSet<u32>,
}

impl Part {
    fn starred(&self) -> bool {
        self.text.starts_with('*')
    }
}

/// A line as written, and what it means.
#[derive(Clone, Debug)]
struct Line {
    minute: Part,
    hour: Part,
    day: Part,
    month: Part,
    weekday: Part,
}

impl Line {
    fn text(&self) -> String {
        [
            &self.minute,
            &self.hour,
            &self.day,
            &self.month,
            &self.weekday,
        ]
        .map(|part| part.text.as_str())
        .join(" ")
    }

    fn names_day(&self, date: NaiveDate) -> bool {
        let day = self.day.numbers.contains(&date.day());
        let weekday = self
            .weekday
            .numbers
            .contains(&date.weekday().num_days_from_sunday());
        let either = !self.day.starred() && !self.weekday.starred();
        self.month.numbers.contains(&date.month())
            && if either {
                day || weekday
            } else {
                day && weekday
            }
    }

    fn names(&self, wall: NaiveDateTime) -> bool {
        self.minute.numbers.contains(&wall.minute())
            && self.hour.numbers.contains(&wall.hour())
            && wall.second() == 0
            && self.names_day(wall.date())
    }

    fn at_intervals(&self) -> bool {
        self.minute.starred() || self.hour.starred()
    }
}

const MONTHS: &[&str] = &[
    "", "Jan", "FEB", "mar", "apr", "may", "jun", "jul", "Aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: &[&str] = &["Sun", "mon", "TUE", "wed", "thu", "fri", "sat"];

/// Fields of numbers from `low` to `high`; numbers up to `often` come more often than the others.
fn part(
    low: u32,
    high: u32,
    often: u32,
    names: &'static [&'static str],
) -> impl Strategy<Value = Part> {
    let number = || prop_oneof![low..=often, low..=high];
    let written = move |number: u32, named: bool| {
        let name = names
            .get(number as usize)
            .filter(|name| named && !name.is_empty());
        name.map_or_else(|| number.to_string(), |name| (*name).to_owned())
    };
    let single = (number(), any::<bool>())
        .prop_map(move |(number, named)| (written(number, named), vec![number]));
    let range = (
        number(),
        number(),
        any::<(bool, bool)>(),
        prop_oneof![Just(None), (1..=high).prop_map(Some)],
    )
        .prop_map(move |(a, b, (named_a, named_b), step)| {
            let (from, to) = (a.min(b), a.max(b));
            // Not `0-sun`: that is a Sunday (0-0) here, and to croner a week (0-7).
            let text = format!(
                "{}-{}",
                written(from, named_a),
                written(to, named_b && to > 0)
            );
            let numbers = (from..=to).step_by(step.unwrap_or(1) as usize).collect();
            (
                step.map_or(text.clone(), |step| format!("{text}/{step}")),
                numbers,
            )
        });
    let stars = (1..=high).prop_map(move |step| {
        (
            format!("*/{step}"),
            (low..=high).step_by(step as usize).collect::<Vec<u32>>(),
        )
    });
    let list =
        prop::collection::vec(prop_oneof![2 => single, 1 => range], 1..4).prop_map(|items| {
            let texts: Vec<String> = items.iter().map(|(text, _)| text.clone()).collect();
            (
                texts.join(","),
                items.into_iter().flat_map(|(_, numbers)| numbers).collect(),
            )
        });
    let star = Just(("*".to_owned(), (low..=high).collect::<Vec<u32>>()));
    prop_oneof![2 => star, 1 => stars, 3 => list].prop_map(move |(text, numbers)| Part {
        text,
        numbers: numbers
            .into_iter()
            .map(|number| if high == 7 { number % 7 } else { number })
            .collect(),
    })
}

/// Lines, many of them of every day, and of the hours after midnight in which clocks are set.
fn line() -> impl Strategy<Value = Line> {
    let days = (
        part(1, 31, 31, &[]),
        part(1, 12, 12, MONTHS),
        part(0, 7, 7, WEEKDAYS),
        any::<bool>(),
    );
    (part(0, 59, 59, &[]), part(0, 23, 4, &[]), days).prop_map(
        |(minute, hour, (day, month, weekday, daily))| {
            let every = |low, high| Part {
                text: "*".to_owned(),
                numbers: (low..=high).collect(),
            };
            let (day, month, weekday) = if daily {
                (every(1, 31), every(1, 12), every(0, 6))
            } else {
                (day, month, weekday)
            };
            Line {
                minute,
                hour,
                day,
                month,
                weekday,
            }
        },
    )
}

/// Returns the line as we read it; none when it never comes, after a look at 28 years.
fn read(line: &Line) -> Option<Crontab> {
    match Crontab::parse(&line.text()) {
        Ok(ours) => Some(ours),
        Err(Error::Never { .. }) => {
            let days = NaiveDate::from_ymd_opt(2000, 1, 1)
                .expect("date")
                .iter_days()
                .take(28 * 366);
            assert_eq!(
                days.filter(|day| line.names_day(*day)).count(),
                0,
                "{}",
                line.text()
            );
            None
        }
        Err(error) => panic!("{}: {error}", line.text()),
    }
}

fn utc_ms(year: i32, month: u32, day: u32) -> i64 {
    let date = NaiveDate::from_ymd_opt(year, month, day).expect("date");
    date.and_time(chrono::NaiveTime::MIN)
        .and_utc()
        .timestamp_millis()
}

fn wall(ms: i64, zone: Tz) -> NaiveDateTime {
    DateTime::from_timestamp_millis(ms)
        .expect("time")
        .with_timezone(&zone)
        .naive_local()
}

/// The first minutes after clocks were set, in each of the zones.
static CHANGES: LazyLock<Vec<(Tz, Vec<i64>)>> = LazyLock::new(|| {
    let ahead = |ms: i64, zone| wall(ms, zone).signed_duration_since(wall(ms, Tz::UTC));
    let quarters = || (utc_ms(FIRST_YEAR, 1, 1)..utc_ms(FIRST_YEAR + YEARS, 1, 1)).step_by(900_000);
    let of = |zone| {
        quarters()
            .filter(|ms| ahead(*ms, zone) != ahead(ms - 900_000, zone))
            .collect()
    };
    ZONES.iter().map(|zone| (*zone, of(*zone))).collect()
});

/// Returns the times of `line` from `from_ms` on, before `until_ms`.
fn ours(line: &Crontab, zone: Tz, from_ms: i64, until_ms: i64) -> Vec<i64> {
    let times = std::iter::successors(line.next_after(from_ms - 1, zone), |last| {
        line.next_after(*last, zone)
    });
    times.take_while(|time| *time < until_ms).collect()
}

/// Returns the same by looking at the clock every minute.
fn walked(line: &Line, zone: Tz, from_ms: i64, until_ms: i64) -> Vec<i64> {
    // What was shown in the hours before counts as shown.
    let mut shown: HashSet<NaiveDateTime> = (1..=180)
        .map(|minutes| wall(from_ms - minutes * MINUTE_MS, zone))
        .collect();
    let mut before = wall(from_ms - MINUTE_MS, zone);
    let mut times = Vec::new();
    for now_ms in (from_ms..until_ms).step_by(60_000) {
        let now = wall(now_ms, zone);
        let mut skipped = before + TimeDelta::minutes(1);
        let mut due = line.names(now) && (line.at_intervals() || !shown.contains(&now));
        while skipped < now {
            due |= line.names(skipped) && !line.at_intervals();
            skipped += TimeDelta::minutes(1);
        }
        if due {
            times.push(now_ms);
        }
        shown.insert(now);
        before = now;
    }
    times
}

/// Returns the same as croner has it.
fn croners(line: &Line, zone: Tz, from_ms: i64, until_ms: i64) -> Vec<i64> {
    // Of itself it takes `*/2` for a restriction; crontab(5) does not, see the head of mod.rs.
    let both = line.day.starred() || line.weekday.starred();
    let cron = CronParser::builder()
        .dom_and_dow(both)
        .build()
        .parse(&line.text());
    let cron = cron.unwrap_or_else(|error| panic!("{}: {error}", line.text()));
    let from = DateTime::from_timestamp_millis(from_ms - 1000)
        .expect("time")
        .with_timezone(&zone);
    let times = cron
        .iter_from(from, croner::Direction::Forward)
        .map(|time| time.timestamp_millis());
    times
        .skip_while(|time| *time < from_ms)
        .take_while(|time| *time < until_ms)
        .collect()
}

/// Returns true when croner takes the line for one at intervals or for one of fixed times as we do. It calls fixed what
/// has one minute and one hour; Vixie cron, and we, all that has no star: `45 1,2 * * *`.
fn same_pace(line: &Line) -> bool {
    let single = |part: &Part| part.numbers.len() == 1 && !part.text.contains(['*', '/']);
    line.at_intervals() != (single(&line.minute) && single(&line.hour))
}

fn texts(times: &[i64], zone: Tz) -> Vec<String> {
    times
        .iter()
        .map(|time| {
            DateTime::from_timestamp_millis(*time)
                .expect("time")
                .with_timezone(&zone)
                .to_rfc3339()
        })
        .collect()
}

#[test]
fn around_every_change_of_the_clocks_the_times_are_those_of_a_walk_over_every_minute() {
    let changes: Vec<(Tz, i64)> = CHANGES
        .iter()
        .flat_map(|(zone, at)| at.iter().map(|at| (*zone, *at)))
        .collect();
    assert!(changes.len() > 100, "{}", changes.len());
    let some = prop::sample::subsequence(changes, 10);
    proptest!(ProptestConfig::with_cases(100), |(line in line(), some in some)| {
        let Some(read) = read(&line) else { return Ok(()) };
        for (zone, change) in some {
            let (from, until) = (change - 240 * MINUTE_MS, change + 240 * MINUTE_MS);
            let (got, expected) = (ours(&read, zone, from, until), walked(&line, zone, from, until));
            prop_assert_eq!(texts(&got, zone), texts(&expected, zone), "{} in {}", line.text(), zone);
        }
    });
}

#[test]
fn croner_has_the_same_times_over_ten_years() {
    let span = utc_ms(FIRST_YEAR, 1, 1)..utc_ms(FIRST_YEAR + YEARS, 1, 1);
    let zone = prop::sample::select(CHANGES.as_slice());
    let (starts, picks) = (
        prop::collection::vec(span, 3),
        prop::collection::vec(any::<prop::sample::Index>(), 3),
    );
    proptest!(ProptestConfig::with_cases(125), |(line in line(), (zone, changes) in zone, starts in starts, picks in picks)| {
        let Some(read) = read(&line) else { return Ok(()) };
        let mut windows: Vec<(i64, i64)> = starts.iter().map(|start| (*start, *start + 86_400_000)).collect();
        for pick in picks.iter().filter(|_| !changes.is_empty()) {
            let change = pick.get(&changes);
            windows.push((change - 300 * MINUTE_MS, change + 300 * MINUTE_MS));
        }
        for (from, until) in windows {
            let near = |change: &i64| (from - 86_400_000..until + 86_400_000).contains(change);
            if !same_pace(&line) && changes.iter().any(near) {
                continue;
            }
            let (got, expected) = (ours(&read, zone, from, until), croners(&line, zone, from, until));
            prop_assert_eq!(texts(&got, zone), texts(&expected, zone), "{} in {}", line.text(), zone);
        }
    });
}

#[test]
fn times_are_in_order_and_each_is_named_by_the_line_or_follows_a_gap() {
    let zones = prop::sample::select(ZONES);
    let span = utc_ms(FIRST_YEAR, 1, 1)..utc_ms(FIRST_YEAR + YEARS, 1, 1);
    proptest!(ProptestConfig::with_cases(150), |(line in line(), zone in zones, start in span)| {
        let Some(read) = read(&line) else { return Ok(()) };
        let mut last = start;
        for _ in 0..40 {
            let Some(next) = read.next_after(last, zone) else { break };
            prop_assert!(next > last, "{}: {} then {}", line.text(), last, next);
            let gap = wall(next, zone).signed_duration_since(wall(next - MINUTE_MS, zone)) > TimeDelta::minutes(1);
            prop_assert!(line.names(wall(next, zone)) || gap, "{} in {}: {}", line.text(), zone, next);
            // Whatever is between, asked from there it is the same.
            prop_assert_eq!(read.next_after(last.midpoint(next), zone), Some(next), "{} in {}", line.text(), zone);
            last = next;
        }
    });
}

#[test]
fn rare_lines_come_on_the_first_day_they_name() {
    proptest!(ProptestConfig::with_cases(60), |(line in line(), start in 0u64..3650)| {
        let Some(read) = read(&line) else { return Ok(()) };
        let first = NaiveDate::from_ymd_opt(FIRST_YEAR, 1, 1).expect("date") + Days::new(start);
        let day = first.iter_days().take(12 * 366).find(|day| line.names_day(*day)).expect("a day in twelve years");
        let next = read.next_after(first.and_time(chrono::NaiveTime::MIN).and_utc().timestamp_millis() - 1, Tz::UTC);
        prop_assert_eq!(next.map(|next| wall(next, Tz::UTC).date()), Some(day), "{}", line.text());
    });
}
