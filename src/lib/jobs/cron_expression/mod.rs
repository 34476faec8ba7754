//! A crontab line: five fields as crontab(5) means them, and the next time they name in a zone.
//!
//! The `cron` crate finds the next wall-clock time of given minutes, hours and days. It counts Sunday as 1, wants
//! seconds, joins both day fields by AND, skips a day whose time DST skips and repeats one that DST repeats
//! (measured with 0.17.0), so lines are read here, handed to it as plain lists, and asked on wall-clock time only.
//!
//! What crontab(5) leaves to its readers is decided as Vixie cron does (entry.c, cron.c of ISC cron 4.1):
//! - A day field that begins with `*` restricts nothing by itself, so `0 0 */2 * 1` are the odd days that are Mondays;
//!   only when neither begins with `*` is a day meant that either names.
//! - A line whose minute or hour begins with `*` runs at intervals: what DST skips is left out, what DST repeats is
//!   run again. All others run at fixed times: a skipped one at the first instant after the gap, a repeated one
//!   once, when it first comes.
//! - Several skipped times of one gap are one run.
//!
//! Read beyond it: names and Sundays in ranges (`fri-sun`, `6-0`, `7-2`). Refused although some crons take them:
//! `?`, `L`, `W`, `#`, a step after a single number (`5/15` is `5` here and `5-59/15` there).

mod dst;

use std::str::FromStr;

use chrono::{DateTime, NaiveDateTime, Utc};
use chrono_tz::Tz;

use super::Error;
use dst::Pace;

/// No crontab line names a time from here on: 2101-01-01, where the calendar of the cron crate ends.
const END_MS: i64 = 4_133_980_800_000;

/// A crontab line.
#[derive(Clone, Debug)]
pub struct Crontab {
    text: String,
    /// Any of these, on wall-clock time; two when either day field names the day.
    days: Vec<cron::Schedule>,
    pace: Pace,
}

impl PartialEq for Crontab {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Crontab {
    /// Returns the crontab line in `text`: five fields, or one of the words @hourly, @daily, @midnight, @weekly,
    /// @monthly, @yearly, @annually.
    ///
    /// # Errors
    /// What is wrong, in which field, and what to write instead; also for a line that no day matches (February 30).
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        let line = fields.join(" ");
        let (text, fields) = match fields.as_slice() {
            [word] if word.starts_with('@') => (word.to_ascii_lowercase(), of_word(word)?),
            [minute, hour, day, month, weekday] => (line, [*minute, *hour, *day, *month, *weekday]),
            other => {
                return Err(Error::Fields {
                    found: other.len(),
                    write: instead(other),
                    line,
                });
            }
        };
        let [minute, hour, day, month, weekday] = fields;
        let times = [MINUTE.read(minute)?, HOUR.read(hour)?].join(" ");
        let (days, months, weekdays) = (DAY.read(day)?, MONTH.read(month)?, WEEKDAY.read(weekday)?);
        let either = !day.starts_with('*') && !weekday.starts_with('*');
        let lines = if either {
            vec![
                format!("0 {times} {days} {months} *"),
                format!("0 {times} * {months} {weekdays}"),
            ]
        } else {
            vec![format!("0 {times} {days} {months} {weekdays}")]
        };
        let days = lines.iter().map(|line| cron::Schedule::from_str(line));
        let days = days
            .collect::<Result<_, _>>()
            .map_err(|_| Error::Never { line: text.clone() })?;
        let pace = Pace::of(minute, hour);
        let line = Self { text, days, pace };
        if line.next_wall(NaiveDateTime::default()).is_none() {
            Err(Error::Never { line: line.text })
        } else {
            Ok(line)
        }
    }

    /// Returns the line, its fields apart by one space.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the first time of the line after `after_ms` in `zone`, milliseconds since 1970 UTC. No line
    /// names a time before 1970 or after 2100.
    pub fn next_after(&self, after_ms: i64, zone: Tz) -> Option<i64> {
        if after_ms >= END_MS {
            return None;
        }
        let after = DateTime::from_timestamp_millis(after_ms.max(-1))?.with_timezone(&zone);
        let ahead = self.ahead(after);
        let again = if self.pace == Pace::Interval {
            self.again(after)
        } else {
            None
        };
        ahead
            .into_iter()
            .chain(again)
            .min()
            .filter(|next| *next < END_MS)
    }

    /// Returns the first time of the line whose wall-clock time is later than that of `after`.
    fn ahead(&self, after: DateTime<Tz>) -> Option<i64> {
        let mut wall = after.naive_local();
        loop {
            wall = self.next_wall(wall)?;
            let next = self
                .pace
                .instants(wall, after.timezone())
                .find(|next| *next > after.timestamp_millis());
            if next.is_some() {
                return next;
            }
        }
    }

    /// Returns the first wall-clock time of the line after `wall`.
    fn next_wall(&self, wall: NaiveDateTime) -> Option<NaiveDateTime> {
        let wall: DateTime<Utc> = wall.and_utc();
        self.days
            .iter()
            .filter_map(|days| days.after(&wall).next())
            .min()
            .map(|next| next.naive_utc())
    }
}

/// Returns the five fields that `word` stands for.
fn of_word(word: &str) -> Result<[&'static str; 5], Error> {
    match word.to_ascii_lowercase().as_str() {
        "@hourly" => Ok(["0", "*", "*", "*", "*"]),
        "@daily" | "@midnight" => Ok(["0", "0", "*", "*", "*"]),
        "@weekly" => Ok(["0", "0", "*", "*", "0"]),
        "@monthly" => Ok(["0", "0", "1", "*", "*"]),
        "@yearly" | "@annually" => Ok(["0", "0", "1", "1", "*"]),
        other => {
            let write = match other {
                "@reboot" => {
                    "a time instead of a start of the machine: @hourly, @daily, @weekly, @monthly, @yearly or five fields"
                }
                _ => {
                    "@hourly, @daily, @weekly, @monthly, @yearly or five fields such as `30 7 * * 1-5`"
                }
            };
            Err(Error::Word {
                word: word.to_owned(),
                write,
            })
        }
    }
}

/// Returns what to write instead of a line of so many fields.
fn instead(fields: &[&str]) -> &'static str {
    match fields {
        [first, ..] if first.starts_with('@') => "write the word with @ alone",
        [_, _, _, _, _, _, ..] => {
            "seconds, a year and a command are no fields: leave them out, as in `30 7 * * 1-5` (7:30 from Monday to Friday)"
        }
        _ => "write all five, as in `30 7 * * 1-5` (7:30 from Monday to Friday)",
    }
}

/// One of the five fields.
struct Field {
    name: &'static str,
    /// The numbers it takes.
    min: u32,
    max: u32,
    /// Names of its numbers from `min` on.
    names: &'static [&'static str],
}

const MINUTE: Field = Field {
    name: "minute",
    min: 0,
    max: 59,
    names: &[],
};
const HOUR: Field = Field {
    name: "hour",
    min: 0,
    max: 23,
    names: &[],
};
const DAY: Field = Field {
    name: "day of month",
    min: 1,
    max: 31,
    names: &[],
};
const MONTH: Field = Field {
    name: "month",
    min: 1,
    max: 12,
    names: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
const WEEKDAY: Field = Field {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl Field {
    /// Returns the numbers that `text` names as a list for the cron crate, `*` for all.
    fn read(&self, text: &str) -> Result<String, Error> {
        let mut named = [false; 60];
        for item in text.split(',') {
            let (from, to, step) = self.item(item, text)?;
            for number in (from..=to).step_by(step) {
                // Sunday is 0 and 7.
                let number = if self.is_weekday() {
                    number % 7
                } else {
                    number
                };
                if let Some(named) = named.get_mut(number as usize) {
                    *named = true;
                }
            }
        }
        let last = if self.is_weekday() { 6 } else { self.max };
        let numbers =
            || (self.min..=last).filter(|number| named.get(*number as usize) == Some(&true));
        if numbers().count() == (self.min..=last).count() {
            return Ok("*".to_owned());
        }
        // The cron crate calls Sunday 1.
        let shift = u32::from(self.is_weekday());
        Ok(numbers()
            .map(|number| (number + shift).to_string())
            .collect::<Vec<_>>()
            .join(","))
    }

    /// Returns the first and last number of `item` and the step between, as one item of `field`.
    fn item(&self, item: &str, field: &str) -> Result<(u32, u32, usize), Error> {
        if item.is_empty() {
            return Err(self.wrong(
                field,
                "has an item with nothing in it",
                "write one comma between two items, none at the ends",
            ));
        }
        let (range, step) = item
            .split_once('/')
            .map_or((item, None), |(range, step)| (range, Some(step)));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => {
                self.ordered(self.number(from, item)?, self.number(to, item)?, item)?
            }
            None if range == "*" => (self.min, self.max),
            None => {
                let number = self.number(range, item)?;
                if step.is_some() {
                    let write = format!(
                        "write `{number}-{}/{}` or `*/{}`",
                        self.max,
                        step.unwrap_or(""),
                        step.unwrap_or("")
                    );
                    return Err(self.wrong(item, "has a step after a single number", &write));
                }
                (number, number)
            }
        };
        Ok((from, to, step.map_or(Ok(1), |step| self.step(step, item))?))
    }

    /// Returns the ends of a range in order.
    fn ordered(&self, from: u32, to: u32, item: &str) -> Result<(u32, u32), Error> {
        match (from, to) {
            (from, to) if from <= to => Ok((from, to)),
            // Sunday ends a week as 7 and begins one as 0, whichever is written.
            (from, 0) if self.is_weekday() => Ok((from, 7)),
            (7, to) if self.is_weekday() => Ok((0, to)),
            (from, to) => {
                let last = if self.is_weekday() { 6 } else { self.max };
                let span = |from, to| {
                    if from == to {
                        format!("{from}")
                    } else {
                        format!("{from}-{to}")
                    }
                };
                let write = format!(
                    "write `{},{}` for what goes past the end",
                    span(from, last),
                    span(self.min, to)
                );
                Err(self.wrong(item, "runs backwards", &write))
            }
        }
    }

    /// Returns the number that `text`, a part of `item`, is or names.
    fn number(&self, text: &str, item: &str) -> Result<u32, Error> {
        if let Some(at) = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text))
        {
            return Ok((self.min..).nth(at).unwrap_or(self.min));
        }
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(self.no_number(text, item));
        }
        let number = text
            .parse()
            .ok()
            .filter(|number| (self.min..=self.max).contains(number));
        number.ok_or_else(|| self.wrong(item, "is out of range", &self.takes()))
    }

    /// Returns the refusal of `text`, a part of `item` that is neither a number nor a name.
    fn no_number(&self, text: &str, item: &str) -> Error {
        let upper = text.to_ascii_uppercase();
        let name = self
            .names
            .iter()
            .find(|name| upper.starts_with(&name.to_ascii_uppercase()));
        let foreign = |c: char| "LW#?".contains(c);
        match name {
            _ if upper == "?" => self.wrong(item, "is not of crontab(5)", "write `*`"),
            Some(name) if text.chars().all(char::is_alphabetic) => self.wrong(
                item,
                "is a name at length",
                &format!("write its first three letters, `{name}`"),
            ),
            _ if upper.contains(foreign)
                && upper.chars().all(|c| foreign(c) || c.is_ascii_digit())
                || upper.contains('#') =>
            {
                let write = format!("L, W and # have no meaning here; {}", self.takes());
                self.wrong(item, "is not of crontab(5)", &write)
            }
            _ => self.wrong(item, "is not a number", &self.takes()),
        }
    }

    /// Returns the step `text` of `item`.
    fn step(&self, text: &str, item: &str) -> Result<usize, Error> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let step = text
            .parse()
            .ok()
            .filter(|step| digits && (1..=self.max).contains(step));
        // A longer step would come round at the start of the field: `*/90` would be each hour.
        let wrong = || {
            let write = format!(
                "write a whole number from 1 to {} after the `/`; `every` takes other intervals",
                self.max
            );
            self.wrong(item, "has a step that is out of range", &write)
        };
        step.map(|step: u32| step as usize).ok_or_else(wrong)
    }

    fn is_weekday(&self) -> bool {
        self.max == 7
    }

    /// Returns what the field takes.
    fn takes(&self) -> String {
        let names = match (self.names.first(), self.names.last()) {
            _ if self.is_weekday() => " (Sunday is 0 or 7) or sun to sat",
            (Some(_), Some(_)) => " or jan to dec",
            _ => "",
        };
        format!(
            "write {} to {}{names}, `*`, a range `a-b`, a step `*/n` or `a-b/n`, or a list of these",
            self.min, self.max
        )
    }

    fn wrong(&self, value: &str, wrong: &str, write: &str) -> Error {
        Error::Field {
            field: self.name,
            value: value.to_owned(),
            wrong: wrong.to_owned(),
            write: write.to_owned(),
        }
    }
}

#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod tests;
