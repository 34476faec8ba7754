//! Days and times as people say them ("by Friday", "am 3. Mai um 17 Uhr"), counted from the moment
//! they are said. What two readers would read differently ("3/5", "at 5") is not read.

use chrono::{Datelike, Days, Months, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

use super::calendar::Calendar;
use super::vocabulary as v;
use super::words::{Word, phrase_at};

/// How long ago a day without its year may be for nobody to know whether it or the next such day is meant.
const JUST_PAST: Days = Days::new(90);

/// Between two days of which the second may take the place of the first.
const INSTEAD: &str = "or no not but rather better actually sorry wait i mean oder nein nicht sondern aber lieber besser o sino mejor ou non mais plutôt pas à to through";

/// Behind a day that may be another, whatever follows.
const OR: &str = "or oder o ou";

/// Before a day that it is not.
const NOT: &str = "not nicht no pas";

/// A day by which something is to be done, in the zone it was said in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The last day: "before Friday" is Thursday, "by the end of the month" its last day.
    pub date: NaiveDate,
    /// The time of that day, when one was said.
    pub time: Option<NaiveTime>,
}

/// Returns the first deadline in `words`, said at `now`, and where it stands.
pub(super) fn first(
    words: &[Word],
    calendar: &Calendar,
    now: NaiveDateTime,
) -> Option<(std::ops::Range<usize>, Deadline)> {
    (0..words.len()).find_map(|at| {
        let free = at
            .checked_sub(1)
            .is_none_or(|before| !is(words, before, calendar.no_deadline));
        let (end, deadline) = at_start(words.get(at..)?, calendar, now)?;
        // "on Friday's list"
        let owns = is(words, at + end, "'s");
        let has_preposition = is(words, at, calendar.by)
            || is(words, at, calendar.before)
            || is(words, at, calendar.within);
        ((free || has_preposition) && !owns).then_some((at..at + end, deadline))
    })
}

/// Returns true when `words` leave open which day it is: "on Friday or Monday", "on Friday, no, on Monday", "not on Friday",
/// or name several: "from Friday to Monday".
pub(super) fn wavers(words: &[Word], calendar: &Calendar, now: NaiveDateTime) -> bool {
    let at_start = |at: usize| at_start(words.get(at..)?, calendar, now);
    (0..words.len()).any(|at| {
        let Some((length, day)) = at_start(at) else {
            return false;
        };
        let end = at + length;
        let between = words
            .iter()
            .skip(end)
            .take_while(|word| word.is_mark() || v::among(INSTEAD, &word.low))
            .count();
        let is_instead = words
            .iter()
            .skip(end)
            .take(between)
            .any(|word| !word.is_mark());
        let or = end + usize::from(words.get(end).is_some_and(Word::is_mark));
        at > 0 && is(words, at - 1, NOT)
            || is(words, or, OR)
            || is_instead && at_start(end + between).is_some_and(|(_, other)| other != day)
    })
}

fn is(words: &[Word], at: usize, list: &str) -> bool {
    words
        .get(at)
        .is_some_and(|word| list.split(['|', ' ']).any(|one| one == word.low))
}

/// Returns the deadline that `words` begin with and how many words it has.
pub(super) fn at_start(
    words: &[Word],
    calendar: &Calendar,
    now: NaiveDateTime,
) -> Option<(usize, Deadline)> {
    let mut reader = Reader {
        words,
        at: 0,
        calendar,
        now,
    };
    if let Some(moment) = reader.span_of_time() {
        return Some((reader.at, moment));
    }
    let early = reader.time();
    let behind_early = reader.at;
    let before = reader.eat(calendar.before);
    let prepared = before || reader.eat(calendar.by);
    let spread = reader.at;
    // "by 5pm on Friday"
    let late = if prepared && early.is_none() {
        reader.time()
    } else {
        None
    };
    if late.is_some() && !reader.eat(calendar.by) {
        reader.eat(calendar.article);
    }
    let day = reader.day(prepared);
    if day.is_none() {
        reader.at = if late.is_some() {
            reader.at.max(spread)
        } else {
            behind_early
        };
    } else {
        while reader.eat(calendar.part) {}
    }
    let time = early.or(late).or_else(|| day.and_then(|_| reader.time()));
    if day.is_some() {
        while reader.eat(calendar.part) {}
    }
    // "by 2026-11-20" is overdue, "the photos taken on 2026-11-20" are of that day.
    if day.is_some_and(|day| day < now.date()) && (!prepared || is(words, 0, "on am el le ce")) {
        return None;
    }
    let date = match (day, time) {
        (Some(day), None) if before && day != now.date() => day.checked_sub_days(Days::new(1))?,
        (Some(day), _) => day,
        (None, Some(time)) if time > now.time() => now.date(),
        (None, Some(_)) => now.date().checked_add_days(Days::new(1))?,
        (None, None) => return None,
    };
    Some((reader.at, Deadline { date, time }))
}

struct Reader<'a> {
    words: &'a [Word],
    at: usize,
    calendar: &'a Calendar,
    now: NaiveDateTime,
}

impl Reader<'_> {
    /// Goes behind one of `phrases`, parted by `|`, when it stands here.
    fn eat(&mut self, phrases: &str) -> bool {
        let end = phrases
            .split('|')
            .filter(|phrase| !phrase.is_empty())
            .find_map(|phrase| phrase_at(self.words, self.at, phrase));
        self.at = end.unwrap_or(self.at);
        end.is_some()
    }

    fn low(&self, ahead: usize) -> &str {
        self.words
            .get(self.at + ahead)
            .map_or("", |word| word.low.as_str())
    }

    /// "in two weeks", "in 20 minutes".
    fn span_of_time(&mut self) -> Option<Deadline> {
        let (calendar, now, began) = (self.calendar, self.now, self.at);
        if !self.eat(calendar.within) {
            return None;
        }
        let count = match self.low(0).parse::<u32>() {
            Ok(count) if (1..=999).contains(&count) => {
                self.at += 1;
                Some(count)
            }
            Ok(_) => None,
            Err(_) => [2, 1, 3, 4, 5, 6, 7, 8, 9, 10]
                .into_iter()
                .zip(calendar.counts)
                .find_map(|(count, words)| self.eat(words).then_some(count)),
        };
        let deadline = count.and_then(|count| {
            let today = now.date();
            let whole = |date: Option<NaiveDate>| date.map(|date| Deadline { date, time: None });
            let moment = |length: TimeDelta| {
                let at = now.checked_add_signed(length)?;
                Some(Deadline {
                    date: at.date(),
                    time: at.time().with_second(0),
                })
            };
            if self.eat(calendar.minutes) {
                moment(TimeDelta::minutes(i64::from(count)))
            } else if self.eat(calendar.hours) {
                moment(TimeDelta::hours(i64::from(count)))
            } else if self.eat(calendar.days) {
                whole(today.checked_add_days(Days::new(u64::from(count))))
            } else if self.eat(calendar.weeks) {
                whole(today.checked_add_days(Days::new(u64::from(count) * 7)))
            } else if self.eat(calendar.month_units) {
                whole(today.checked_add_months(Months::new(count)))
            } else {
                None
            }
        });
        if deadline.is_some() {
            // "in two weeks' time"
            self.eat("'s time|time");
        } else {
            self.at = began;
        }
        deadline
    }

    /// A day; `prepared` says that "by" or "on" stands before it.
    fn day(&mut self, prepared: bool) -> Option<NaiveDate> {
        let (calendar, today, began) = (self.calendar, self.now.date(), self.at);
        let plus = |days: u64| today.checked_add_days(Days::new(days));
        for (phrases, days) in [
            (calendar.after_tomorrow, 2),
            (calendar.tomorrow, 1),
            (calendar.today, 0),
        ] {
            if self.eat(phrases) {
                return plus(days);
            }
        }
        if let Some(day) = self.far(prepared) {
            return Some(day);
        }
        let article = self.eat(calendar.article);
        let found = self
            .dated(prepared, article)
            .or_else(|| self.weekday(prepared));
        if found.is_none() {
            self.at = began;
        }
        found
    }

    /// The end of a week or a month.
    fn far(&mut self, prepared: bool) -> Option<NaiveDate> {
        let (calendar, today, began) = (self.calendar, self.now.date(), self.at);
        let next_week = today.checked_add_days(Days::new(
            7 - u64::from(today.weekday().num_days_from_monday()),
        ))?;
        let last_of = |day: NaiveDate| {
            day.with_day(1)?
                .checked_add_months(Months::new(1))?
                .pred_opt()
        };
        self.eat("the");
        if self.eat(calendar.next_week) {
            return next_week.checked_add_days(Days::new(4));
        }
        if self.eat(calendar.next_month) {
            return last_of(today.with_day(1)?.checked_add_months(Months::new(1))?);
        }
        if self.eat(calendar.end_of_month) {
            return last_of(today);
        }
        if self.eat(calendar.end_of_week) {
            // Who says it on a Saturday has Sunday in mind.
            let friday = next_week.checked_sub_days(Days::new(3))?;
            return if friday >= today {
                Some(friday)
            } else {
                next_week.pred_opt()
            };
        }
        let meant = self.eat(calendar.this);
        if (prepared || meant) && self.eat(calendar.weekend) {
            return next_week
                .checked_sub_days(Days::new(2))
                .map(|saturday| saturday.max(today));
        }
        self.at = began;
        None
    }

    /// "Friday", "this Friday", "next Friday", "Friday next week".
    fn weekday(&mut self, prepared: bool) -> Option<NaiveDate> {
        let (calendar, today) = (self.calendar, self.now.date());
        let this = self.eat(calendar.this);
        let mut next = !this && self.eat(calendar.next);
        let low = self.low(0).to_owned();
        // "Freitagabend"
        let bare = [
            "abend",
            "nachmittag",
            "vormittag",
            "mittag",
            "morgen",
            "früh",
        ]
        .into_iter()
        .filter(|_| calendar.dotted)
        .find_map(|part| low.strip_suffix(part).filter(|day| day.len() > 4))
        .unwrap_or(&low);
        // "sat", "sun" and "mon" are other words, too.
        let clear = prepared || this || next || bare.chars().count() > 4;
        let number = (0_u64..)
            .zip(calendar.weekdays.split(' '))
            .find_map(|(number, names)| {
                names.split('|').any(|name| name == bare).then_some(number)
            });
        let wanted = number.filter(|_| clear)?;
        self.at += 1;
        next |= self.eat(calendar.next);
        let now = u64::from(today.weekday().num_days_from_monday());
        let ahead = (wanted + 7 - now) % 7;
        let in_next_week = (next && !calendar.next_is_coming) || self.eat(calendar.next_week);
        let days = if in_next_week {
            7 - now + wanted
        } else if ahead == 0 && !this {
            7
        } else {
            ahead
        };
        today.checked_add_days(Days::new(days))
    }

    /// "3 May", "May 3rd, 2027", "2026-05-03", "3.5.", "the 15th".
    fn dated(&mut self, prepared: bool, article: bool) -> Option<NaiveDate> {
        if let Some((day, month, year)) = self.fields(prepared) {
            self.at += 1;
            return self.resolve(day, month, year);
        }
        let began = self.at;
        let (day, month) = if let Some(month) = self.month(0).filter(|_| !self.calendar.day_first) {
            let day = ordinal(self.low(1))?;
            self.at += 2;
            (day, month)
        } else {
            let day = ordinal(self.low(0))?;
            let is_ordinal = self.low(0).ends_with(|c: char| c.is_alphabetic())
                || self.calendar.dotted
                    && self
                        .words
                        .get(self.at)
                        .is_some_and(|word| word.raw.ends_with('.'));
            self.at += 1;
            self.eat(self.calendar.of);
            match self.month(0) {
                Some(month) => {
                    self.at += 1;
                    (day, month)
                }
                // "by the 15th", "am 15."
                None if prepared && is_ordinal && (article || self.calendar.dotted) => {
                    return self.next_such_day(day);
                }
                None => {
                    self.at = began;
                    return None;
                }
            }
        };
        let mark = usize::from(self.low(0) == "," || self.low(0) == "de");
        let year = self
            .low(mark)
            .parse::<i32>()
            .ok()
            .filter(|year| (2000..2200).contains(year));
        if year.is_some() {
            self.at += mark + 1;
        }
        self.resolve(day, month, year)
    }

    fn month(&self, ahead: usize) -> Option<u32> {
        let low = self.low(ahead);
        (1_u32..)
            .zip(self.calendar.months.split(' '))
            .find_map(|(number, names)| names.split('|').any(|name| name == low).then_some(number))
    }

    /// A date that is written in numbers: day, month, year.
    fn fields(&self, prepared: bool) -> Option<(u32, u32, Option<i32>)> {
        let low = self.low(0);
        let split = |mark: char| {
            low.split(mark)
                .map(|part| part.parse::<u32>().ok())
                .collect::<Option<Vec<u32>>>()
        };
        let full = |year: u32| i32::try_from(if year < 100 { year + 2000 } else { year }).ok();
        match (
            split('-').as_deref(),
            split('.').as_deref(),
            split('/').as_deref(),
        ) {
            (Some([year, month, day]), ..) if *year > 1999 => Some((*day, *month, full(*year))),
            (_, Some([day, month, year]), _) => Some((*day, *month, full(*year))),
            (_, Some([day, month]), _) if self.calendar.dotted && prepared => {
                Some((*day, *month, None))
            }
            (.., Some([day, month, rest @ ..])) if rest.len() < 2 && prepared => {
                let year = rest.first().map(|year| full(*year));
                match (self.calendar.day_first || *day > 12, *month > 12) {
                    (true, false) => Some((*day, *month, year?)),
                    (false, true) => Some((*month, *day, year?)),
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
        let found = years
            .filter_map(|year| NaiveDate::from_ymd_opt(year, month, day))
            .find(|date| *date >= just_past);
        found.filter(|date| *date >= today)
    }

    fn next_such_day(&self, day: u32) -> Option<NaiveDate> {
        let first = self.now.date().with_day(1)?;
        (0..12)
            .filter_map(|months| first.checked_add_months(Months::new(months))?.with_day(day))
            .find(|date| *date >= self.now.date())
    }

    /// "at 5pm", "17:30", "um 17 Uhr", "noon". "At 5" may be either half of the day.
    fn time(&mut self) -> Option<NaiveTime> {
        let began = self.at;
        self.eat(self.calendar.at);
        let time = if self.eat(self.calendar.noon) {
            NaiveTime::from_hms_opt(12, 0, 0)
        } else if self.eat(self.calendar.midnight) {
            NaiveTime::from_hms_opt(23, 59, 0)
        } else {
            self.clock()
        };
        if time.is_none() {
            self.at = began;
        }
        time
    }

    fn clock(&mut self) -> Option<NaiveTime> {
        let low = self.words.get(self.at)?.low.clone();
        let digits = low.trim_end_matches(|c: char| c.is_alphabetic() || c == '.');
        let (hour, minute) = digits.split_once([':', 'h']).unwrap_or((digits, ""));
        let is_clock = minute.len() == 2;
        let (hour, minute) = (
            hour.parse::<u32>().ok()?,
            if minute.is_empty() {
                0
            } else {
                minute.parse::<u32>().ok()?
            },
        );
        self.at += 1;
        let behind = low.get(digits.len()..).filter(|tail| !tail.is_empty());
        let half = |word: &str| match word {
            "am" | "a.m" => Some(0),
            "pm" | "p.m" => Some(12),
            _ => None,
        };
        let hour = match behind.map_or_else(|| half(self.low(0)), half) {
            Some(noon) if (1..=12).contains(&hour) => {
                self.at += usize::from(behind.is_none());
                hour % 12 + noon
            }
            Some(_) => return None,
            None => {
                let hour_word = self
                    .calendar
                    .oclock
                    .split('|')
                    .any(|word| behind == Some(word));
                let said = if behind.is_none() {
                    self.eat(self.calendar.oclock)
                } else {
                    hour_word
                };
                // "5 o'clock" may be either, "17 Uhr" is not.
                let clear = is_clock || said && self.calendar.day_first;
                if !clear || behind.is_some() && !hour_word {
                    return None;
                }
                hour
            }
        };
        NaiveTime::from_hms_opt(hour, minute, 0)
    }
}

/// "3", "3rd", "1er".
fn ordinal(low: &str) -> Option<u32> {
    let digits = low.trim_end_matches(char::is_alphabetic);
    let end = low.get(digits.len()..).unwrap_or("");
    digits.parse::<u32>().ok().filter(|day| {
        (1..=31).contains(day) && matches!(end, "" | "st" | "nd" | "rd" | "th" | "er")
    })
}
