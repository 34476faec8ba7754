//! The days that a question mentions: `yesterday`, `last May`, `in March 2025`, `three weeks ago`. Texts of these days
//! rank higher; nothing is filtered out, because people are often wrong about days.

use std::ops::RangeInclusive;

use chrono::{Datelike, Days, Months, NaiveDate, Weekday};

use super::rank::Ranked;
use super::search::Files;
use crate::memory::index::chunk_columns::day_of;

/// The bonus of a line of a mentioned day. On the scale of a line's score, as in `line_signals.rs`.
const BONUS: f32 = 0.02;
const DAYS: &str = "monday tuesday wednesday thursday friday saturday sunday";
const MONTHS: &str =
    "january february march april may june july august september october november december";
const NUMBERS: &str = "one two three four five six seven eight nine ten eleven twelve";
/// Numbers that may be years: those of which the index knows days.
const YEARS: RangeInclusive<i32> = 1970..=2148;

/// Adds the bonus to the lines of texts of these days.
pub(crate) fn boost(ranked: &mut Ranked<'_>, files: &Files, days: &RangeInclusive<u16>) {
    for (id, lines) in ranked {
        let file = files.get(id);
        if file.is_some_and(|file| days.contains(&day_of(file.time))) {
            lines.values_mut().for_each(|line| line.rank += BONUS);
        }
    }
}

/// Returns the first and the last day that a question in English mentions; `today` is the asker's.
pub(crate) fn days(question: &str, today: NaiveDate) -> Option<RangeInclusive<NaiveDate>> {
    let folded = question.to_lowercase();
    let words: Vec<&str> = folded
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    (0..words.len()).find_map(|at| leading_days(words.get(at..).unwrap_or_default(), today))
}

/// Returns the days that `words` begin with.
fn leading_days(words: &[&str], today: NaiveDate) -> Option<RangeInclusive<NaiveDate>> {
    let one = |day: NaiveDate| Some(day..=day);
    match *words {
        ["today", ..] => one(today),
        ["yesterday", ..] => one(today.pred_opt()?),
        [count, unit, "ago", ..] => ago(count, unit, today),
        ["last" | "past", unit @ ("week" | "month" | "year"), ..] => ago("one", unit, today),
        ["this", unit @ ("week" | "month" | "year"), ..] => ago("0", unit, today),
        ["last" | "past", "weekend", ..] => {
            let monday = monday(today)?;
            Some(monday.checked_sub_days(Days::new(2))?..=monday.pred_opt()?)
        }
        ["last" | "on", name, ..] if let Some(day) = position(DAYS, name) => {
            let day = Weekday::try_from(u8::try_from(day).ok()?).ok()?;
            let back =
                (7 + today.weekday().num_days_from_monday() - day.num_days_from_monday() + 6) % 7
                    + 1;
            one(today.checked_sub_days(Days::new(back.into()))?)
        }
        // A question begins so.
        ["this", "may", ..] => None,
        ["last" | "in" | "this" | "since", name, ref rest @ ..]
            if let Some(number) = month_of(name) =>
        {
            let year = rest.first().and_then(|year| year_of(year));
            // Without a year the newest one that has begun.
            let year = year.unwrap_or_else(|| today.year() - i32::from(number > today.month()));
            month(year, number)
        }
        [name, year, ..] if let (Some(number), Some(year)) = (month_of(name), year_of(year)) => {
            month(year, number)
        }
        [year, ..] if let Some(year) = year_of(year) => of_year(year),
        _ => None,
    }
}

/// Returns the day, week, month or year that lies `count` of them before `today`.
fn ago(count: &str, unit: &str, today: NaiveDate) -> Option<RangeInclusive<NaiveDate>> {
    let count = position(NUMBERS, count)
        .map(|at| at + 1)
        .or((count == "a" || count == "an").then_some(1))
        .or_else(|| count.parse().ok())?;
    let count = u32::try_from(count).ok()?;
    match unit.strip_suffix('s').unwrap_or(unit) {
        "day" => today
            .checked_sub_days(Days::new(count.into()))
            .map(|day| day..=day),
        "week" => {
            let monday = monday(today)?.checked_sub_days(Days::new(7 * u64::from(count)))?;
            Some(monday..=monday.checked_add_days(Days::new(6))?)
        }
        "month" => {
            let then = today.checked_sub_months(Months::new(count))?;
            month(then.year(), then.month())
        }
        "year" => of_year(today.year().checked_sub_unsigned(count)?),
        _ => None,
    }
}

fn monday(day: NaiveDate) -> Option<NaiveDate> {
    day.checked_sub_days(Days::new(day.weekday().num_days_from_monday().into()))
}

fn month(year: i32, number: u32) -> Option<RangeInclusive<NaiveDate>> {
    let first = NaiveDate::from_ymd_opt(year, number, 1)?;
    Some(first..=first.checked_add_months(Months::new(1))?.pred_opt()?)
}

fn of_year(year: i32) -> Option<RangeInclusive<NaiveDate>> {
    Some(NaiveDate::from_ymd_opt(year, 1, 1)?..=NaiveDate::from_ymd_opt(year, 12, 31)?)
}

fn month_of(name: &str) -> Option<u32> {
    u32::try_from(position(MONTHS, name)? + 1).ok()
}

fn position(list: &str, name: &str) -> Option<usize> {
    list.split(' ').position(|one| one == name)
}

fn year_of(word: &str) -> Option<i32> {
    word.parse()
        .ok()
        .filter(|year| word.len() == 4 && YEARS.contains(year))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_askers_calendar() {
        // A Wednesday.
        let today = NaiveDate::from_ymd_opt(2026, 3, 4).expect("a day");
        let check = |question: &str, expected: Option<(&str, &str)>| {
            let found = days(question, today)
                .map(|days| (days.start().to_string(), days.end().to_string()));
            assert_eq!(
                found,
                expected.map(|(first, last)| (first.to_owned(), last.to_owned())),
                "{question}"
            );
        };
        check(
            "What did I do yesterday?",
            Some(("2026-03-03", "2026-03-03")),
        );
        check("Who called today?", Some(("2026-03-04", "2026-03-04")));
        check(
            "what happened last week",
            Some(("2026-02-23", "2026-03-01")),
        );
        check(
            "What did we plan this month?",
            Some(("2026-03-01", "2026-03-31")),
        );
        check("last weekend", Some(("2026-02-28", "2026-03-01")));
        check(
            "where was I last Wednesday?",
            Some(("2026-02-25", "2026-02-25")),
        );
        check(
            "What did she say on Tuesday?",
            Some(("2026-03-03", "2026-03-03")),
        );
        check("three days ago", Some(("2026-03-01", "2026-03-01")));
        check("a month ago", Some(("2026-02-01", "2026-02-28")));
        check("2 years ago", Some(("2024-01-01", "2024-12-31")));
        check(
            "Where did we go last May?",
            Some(("2025-05-01", "2025-05-31")),
        );
        check("in March", Some(("2026-03-01", "2026-03-31")));
        check(
            "what was said in March 2025?",
            Some(("2025-03-01", "2025-03-31")),
        );
        check(
            "Our trip, December 2024",
            Some(("2024-12-01", "2024-12-31")),
        );
        check("the budget of 2023", Some(("2023-01-01", "2023-12-31")));
        for question in [
            "may I march in?",
            "the code is 47110 or 1234",
            "When did Ana move?",
            "",
            "0 ago",
            "Could this may be a bug?",
            "99999999999 days ago",
        ] {
            check(question, None);
        }
    }
}
