//! Days and times as people say them ("by Friday", "am 3. Mai um 17 Uhr"), counted from the moment
//! they are said. Ambiguous forms ("3/5", "at 5") are not read.

use std::ops::Range;

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

use super::value::ordinal;
use super::words::{Word, low, opens, tail};
use crate::language::pack::{Calendar, Pack, Phrases};

/// How long ago a day without its year may be for nobody to know whether it or the next such day is meant.
const JUST_PAST: Days = Days::new(90);

/// A deadline, in the speaker's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The last day: "before Friday" is Thursday, "by the end of the month" its last day.
    pub date: NaiveDate,
    /// The time of day, if one was stated.
    pub time: Option<NaiveTime>,
}

/// Returns the first deadline in `words`, said at `now`, and where it is.
pub(super) fn first(
    words: &[Word],
    pack: &Pack,
    now: NaiveDateTime,
) -> Option<(Range<usize>, Deadline)> {
    let calendar = &pack.calendar;
    (0..words.len()).find_map(|at| {
        let is_free = at == 0 || !calendar.no_deadline.has(low(words, at - 1));
        let (end, deadline) = at_start(tail(words, at), pack, now)?;
        let prepositions = [&calendar.by, &calendar.before, &calendar.within];
        let has_preposition = prepositions
            .iter()
            .any(|list| opens(words, at, list).is_some());
        // "on Friday's list"
        let owns = low(words, at + end) == "'s";
        ((is_free || has_preposition) && !owns).then_some((at..at + end, deadline))
    })
}

/// Returns true when `words` leave open which day it is: "on Friday or Monday", "on Friday, no, on Monday", "not on Friday",
/// or name several: "from Friday to Monday".
pub(super) fn wavers(words: &[Word], pack: &Pack, now: NaiveDateTime) -> bool {
    let calendar = &pack.calendar;
    (0..words.len()).any(|at| {
        let Some((length, day)) = at_start(tail(words, at), pack, now) else {
            return false;
        };
        let rest = tail(words, at + length);
        let is_between = |word: &&Word| word.is_mark() || calendar.instead.has(&word.low);
        let between = rest.iter().take_while(is_between).count();
        let is_instead = rest.iter().take(between).any(|word| !word.is_mark());
        let other = || at_start(tail(rest, between), pack, now);
        let or = usize::from(rest.first().is_some_and(Word::is_mark));
        at > 0 && calendar.not.has(low(words, at - 1))
            || calendar.or.has(low(rest, or))
            || is_instead && other().is_some_and(|(_, other)| other != day)
    })
}

/// Returns the deadline that `words` begin with and how many words it has.
pub(super) fn at_start(
    words: &[Word],
    pack: &Pack,
    now: NaiveDateTime,
) -> Option<(usize, Deadline)> {
    let calendar = &pack.calendar;
    let mut reader = Reader {
        words,
        at: 0,
        pack,
        calendar,
        now,
    };
    if let Some(moment) = reader.span_of_time() {
        return Some((reader.at, moment));
    }
    let early = reader.time();
    let behind_early = reader.at;
    let is_before = reader.eat(&calendar.before);
    let is_prepared = is_before || reader.eat(&calendar.by);
    // "by 5pm on Friday"
    let late = match is_prepared && early.is_none() {
        true => reader.time(),
        false => None,
    };
    let behind_late = reader.at;
    if late.is_some() && !reader.eat(&calendar.by) {
        reader.eat(&calendar.article);
    }
    let day = reader.day(is_prepared);
    if day.is_none() {
        reader.at = if late.is_some() {
            behind_late
        } else {
            behind_early
        };
    }
    while day.is_some() && reader.eat(&calendar.part) {}
    let time = early.or(late).or_else(|| day.and_then(|_| reader.time()));
    while day.is_some() && reader.eat(&calendar.part) {}
    // "by 2026-11-20" is overdue, "the photos taken on 2026-11-20" are of that day.
    let is_past = day.is_some_and(|day| day < now.date());
    if is_past && (!is_prepared || matches!(low(words, 0), "on" | "am" | "el" | "le" | "ce")) {
        return None;
    }
    let date = match (day, time) {
        (Some(day), None) if is_before && day != now.date() => day.pred_opt()?,
        (Some(day), _) => day,
        (None, Some(time)) if time > now.time() => now.date(),
        (None, Some(_)) => now.date().succ_opt()?,
        (None, None) => return None,
    };
    Some((reader.at, Deadline { date, time }))
}

struct Reader<'a> {
    words: &'a [Word],
    at: usize,
    pack: &'a Pack,
    calendar: &'a Calendar,
    now: NaiveDateTime,
}

impl Reader<'_> {
    /// Goes behind one of `phrases` when it is here.
    fn eat(&mut self, phrases: &Phrases) -> bool {
        let end = opens(self.words, self.at, phrases);
        self.at = end.unwrap_or(self.at);
        end.is_some()
    }

    fn low(&self, ahead: usize) -> &str {
        low(self.words, self.at + ahead)
    }

    /// Returns what `read` finds; where it finds nothing, nothing is read.
    fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let began = self.at;
        let found = read(self);
        if found.is_none() {
            self.at = began;
        }
        found
    }

    /// "in two weeks", "in 20 minutes".
    fn span_of_time(&mut self) -> Option<Deadline> {
        self.attempt(|reader| {
            let calendar = reader.calendar;
            if !reader.eat(&calendar.within) {
                return None;
            }
            let count = reader.count()?;
            let (date, hours) = (reader.now.date(), i64::from(count));
            let moment = if reader.eat(&calendar.minutes) {
                Some(reader.now + TimeDelta::minutes(hours))
            } else if reader.eat(&calendar.hours) {
                Some(reader.now + TimeDelta::hours(hours))
            } else {
                None
            };
            let day = if reader.eat(&calendar.days) {
                date.checked_add_days(Days::new(u64::from(count)))
            } else if reader.eat(&calendar.weeks) {
                date.checked_add_days(Days::new(u64::from(count) * 7))
            } else if reader.eat(&calendar.month_units) {
                date.checked_add_months(Months::new(count))
            } else {
                None
            };
            // "in two weeks' time"
            reader.at += usize::from(reader.low(0) == "'s");
            reader.at += usize::from(reader.low(0) == "time");
            let time = moment.and_then(|at| at.time().with_second(0));
            let date = moment.map(|at| at.date()).or(day)?;
            Some(Deadline { date, time })
        })
    }

    fn count(&mut self) -> Option<u32> {
        if let Ok(count) = self.low(0).parse() {
            self.at += 1;
            return (1..=999).contains(&count).then_some(count);
        }
        let counts = (1..).zip(&self.calendar.counts);
        let ends =
            counts.filter_map(|(count, names)| Some((opens(self.words, self.at, names)?, count)));
        let (end, count) = ends.max()?;
        self.at = end;
        Some(count)
    }

    /// A day; `is_prepared` says that "by" or "on" is before it.
    fn day(&mut self, is_prepared: bool) -> Option<NaiveDate> {
        let calendar = self.calendar;
        let near = [
            &calendar.today,
            &calendar.tomorrow,
            &calendar.after_tomorrow,
        ];
        for (days, phrases) in (0..).zip(near) {
            if self.eat(phrases) {
                return self.now.date().checked_add_days(Days::new(days));
            }
        }
        self.attempt(|reader| reader.far(is_prepared)).or_else(|| {
            self.attempt(|reader| {
                let article = reader.eat(&calendar.article);
                let dated = reader.attempt(|reader| reader.dated(is_prepared, article));
                dated.or_else(|| reader.weekday(is_prepared))
            })
        })
    }

    /// The end of a week or a month.
    fn far(&mut self, is_prepared: bool) -> Option<NaiveDate> {
        let (calendar, today) = (self.calendar, self.now.date());
        let to_monday = 7 - u64::from(today.weekday().num_days_from_monday());
        let monday = today.checked_add_days(Days::new(to_monday))?;
        let last_of = |months| {
            let first = today.with_day(1)?.checked_add_months(Months::new(months))?;
            first.checked_add_months(Months::new(1))?.pred_opt()
        };
        self.at += usize::from(self.low(0) == "the");
        if self.eat(&calendar.next_week) {
            return monday.checked_add_days(Days::new(4));
        }
        if self.eat(&calendar.next_month) {
            return last_of(1);
        }
        if self.eat(&calendar.end_of_month) {
            return last_of(0);
        }
        if self.eat(&calendar.end_of_week) {
            // Who says it on a Saturday has Sunday in mind.
            let friday = monday.checked_sub_days(Days::new(3))?;
            return if friday >= today {
                Some(friday)
            } else {
                monday.pred_opt()
            };
        }
        let is_this = self.eat(&calendar.this);
        let saturday = monday.checked_sub_days(Days::new(2))?;
        ((is_prepared || is_this) && self.eat(&calendar.weekend)).then(|| saturday.max(today))
    }

    /// "Friday", "this Friday", "next Friday", "Friday next week", "Freitagabend".
    fn weekday(&mut self, is_prepared: bool) -> Option<NaiveDate> {
        let (calendar, today) = (self.calendar, self.now.date());
        let is_this = self.eat(&calendar.this);
        let mut is_next = !is_this && self.eat(&calendar.next);
        let word = self.low(0);
        let parts = calendar.day_parts.iter();
        let mut days = parts.filter_map(|part| word.strip_suffix(part.as_str()));
        let day = days.find(|day| day.len() > 4).unwrap_or(word);
        // "sat", "sun" and "mon" are other words, too.
        let is_clear = is_prepared || is_this || is_next || day.chars().count() > 4;
        let wanted = u64::from(self.pack.weekday(day).filter(|_| is_clear)?) - 1;
        self.at += 1;
        is_next |= self.eat(&calendar.next);
        let now = u64::from(today.weekday().num_days_from_monday());
        let in_next_week = is_next && !calendar.next_is_coming || self.eat(&calendar.next_week);
        let days = match (wanted + 7 - now) % 7 {
            _ if in_next_week => 7 - now + wanted,
            0 if !is_this => 7,
            ahead => ahead,
        };
        today.checked_add_days(Days::new(days))
    }

    /// "3 May", "May 3rd, 2027", "2026-05-03", "3.5.", "the 15th".
    fn dated(&mut self, is_prepared: bool, article: bool) -> Option<NaiveDate> {
        if let Some((day, month, year)) = self.fields(is_prepared) {
            self.at += 1;
            return self.resolve(day, month, year);
        }
        let calendar = self.calendar;
        let month = self.pack.month(self.low(0)).filter(|_| !calendar.day_first);
        let (day, month) = if let Some(month) = month {
            let day = ordinal(self.low(1), 31)?;
            self.at += 2;
            (day, month)
        } else {
            let word = self.words.get(self.at)?;
            let day = ordinal(&word.low, 31)?;
            let is_dotted = calendar.dotted && word.raw.ends_with('.');
            let is_ordinal = word.low.ends_with(char::is_alphabetic) || is_dotted;
            self.at += 1;
            self.eat(&calendar.of);
            match self.pack.month(self.low(0)) {
                Some(month) => {
                    self.at += 1;
                    (day, month)
                }
                // "by the 15th", "am 15."
                None if is_prepared && is_ordinal && (article || calendar.dotted) => {
                    return self.next_such_day(day);
                }
                None => return None,
            }
        };
        let mark = usize::from(matches!(self.low(0), "," | "de"));
        let year = self.low(mark).parse().ok();
        let year = year.filter(|year| (2000..2200).contains(year));
        if year.is_some() {
            self.at += mark + 1;
        }
        self.resolve(day, month, year)
    }

    /// A date that is written in numbers: day, month, year.
    fn fields(&self, is_prepared: bool) -> Option<(u32, u32, Option<i32>)> {
        let low = self.low(0);
        let split = |mark: char| -> Vec<u32> {
            let parts = low.split(mark).map(|part| part.parse().ok());
            parts.collect::<Option<Vec<u32>>>().unwrap_or_default()
        };
        let full = |year: u32| i32::try_from(if year < 100 { year + 2000 } else { year }).ok();
        match (&*split('-'), &*split('.'), &*split('/')) {
            ([year, month, day], ..) if *year > 1999 => Some((*day, *month, full(*year))),
            (_, [day, month, year], _) => Some((*day, *month, full(*year))),
            (_, [day, month], _) if self.calendar.dotted && is_prepared => {
                Some((*day, *month, None))
            }
            (.., [first, second, rest @ ..]) if rest.len() < 2 && is_prepared => {
                let year = rest.first().map(|year| full(*year));
                match (self.calendar.day_first || *first > 12, *second > 12) {
                    (true, false) => Some((*first, *second, year?)),
                    (false, true) => Some((*second, *first, year?)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns the day in the year that was said, or the next one that comes; none when the last one is just past.
    fn resolve(&self, day: u32, month: u32, year: Option<i32>) -> Option<NaiveDate> {
        if let Some(year) = year {
            return NaiveDate::from_ymd_opt(year, month, day);
        }
        let today = self.now.date();
        let just_past = today.checked_sub_days(JUST_PAST)?;
        let years = today.year() - 1..=today.year() + 8;
        let mut dates = years.filter_map(|year| NaiveDate::from_ymd_opt(year, month, day));
        let found = dates.find(|date| *date >= just_past);
        found.filter(|date| *date >= today)
    }

    fn next_such_day(&self, day: u32) -> Option<NaiveDate> {
        let today = self.now.date();
        let first = today.with_day(1)?;
        let of_month = |months| first.checked_add_months(Months::new(months))?.with_day(day);
        (0..12).filter_map(of_month).find(|date| *date >= today)
    }

    /// "at 5pm", "17:30", "um 17 Uhr", "noon". "At 5" may be either half of the day.
    fn time(&mut self) -> Option<NaiveTime> {
        self.attempt(|reader| {
            reader.eat(&reader.calendar.at);
            if reader.eat(&reader.calendar.noon) {
                NaiveTime::from_hms_opt(12, 0, 0)
            } else if reader.eat(&reader.calendar.midnight) {
                NaiveTime::from_hms_opt(23, 59, 0)
            } else {
                reader.clock()
            }
        })
    }

    fn clock(&mut self) -> Option<NaiveTime> {
        let word = self.low(0);
        let digits = word.trim_end_matches(|c: char| c.is_alphabetic() || c == '.');
        let (hour, minute) = digits.split_once([':', 'h']).unwrap_or((digits, "0"));
        let is_clock = digits.len() > hour.len() && minute.len() == 2;
        let (hour, minute) = (hour.parse::<u32>().ok()?, minute.parse().ok()?);
        // What is behind the number, grown together with it or a word of its own.
        let unit = word.get(digits.len()..).unwrap_or("");
        let is_grown = !unit.is_empty();
        let unit = if is_grown { unit } else { self.low(1) };
        let noon = match unit {
            "am" | "a.m" => Some(0),
            "pm" | "p.m" => Some(12),
            _ => None,
        };
        let is_oclock = self.calendar.oclock.iter().any(|word| word == unit);
        let hour = match noon {
            Some(noon) if (1..=12).contains(&hour) => hour % 12 + noon,
            Some(_) => return None,
            None if is_grown && !is_oclock => return None,
            // "5 o'clock" may be either, "17 Uhr" is not.
            None if !(is_clock || is_oclock && self.calendar.day_first) => return None,
            None => hour,
        };
        self.at += 1 + usize::from(!is_grown && (noon.is_some() || is_oclock));
        NaiveTime::from_hms_opt(hour, minute, 0)
    }
}
