//! Schedules of jobs: once, at an interval, or by a crontab line; and parsing of these times.
//!
//! Nothing here reads a clock: every call has its time as an argument, in milliseconds since 1970 UTC.

use std::collections::VecDeque;

use chrono::{NaiveDate, NaiveTime};
use chrono_tz::{TZ_VARIANTS, Tz};

use super::{Crontab, Error};
use crate::clock;
use crate::config::edits;

/// So many missed times are counted, and no more: 69 days of a job that runs every minute.
pub const MOST_COUNTED: u64 = 100_000;

/// The shortest and the longest interval of a job.
const MIN_EVERY_MS: i64 = 10_000;
const MAX_EVERY_MS: i64 = 366 * 86_400_000;

/// How a moment is written.
pub(super) const MOMENT: &str = "a date and a time of day such as `2026-03-08T14:30`, or with an offset `2026-03-08T14:30:00+01:00`";

/// How an interval is written.
pub(super) const SPAN: &str =
    "whole numbers with s, m, h or d such as `90m`, `1h30m` or `7d`, from 10s to 366d in all";

/// When a job runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Once.
    At {
        /// When, milliseconds since 1970 UTC.
        at_ms: i64,
    },
    /// Every so often, whatever the clocks on the wall show.
    Every {
        /// Milliseconds from one run to the next; never, when it is not above 0.
        every_ms: i64,
        /// One interval before the first run, milliseconds since 1970 UTC.
        from_ms: i64,
    },
    /// At the times of a crontab line.
    Cron {
        /// The line.
        line: Crontab,
        /// Whose clocks it speaks of.
        zone: Tz,
    },
}

impl Schedule {
    /// Returns the first time after `after_ms`, if there is one.
    pub fn next_after(&self, after_ms: i64) -> Option<i64> {
        match self {
            Self::At { at_ms } => Some(*at_ms).filter(|at_ms| *at_ms > after_ms),
            Self::Every { every_ms, from_ms } => {
                let next = rounds(*every_ms, *from_ms, after_ms)?.checked_add(1)?;
                nth(*every_ms, *from_ms, next)
            }
            Self::Cron { line, zone } => line.next_after(after_ms, *zone),
        }
    }

    /// Returns the first times after `after_ms`, at most `most`, oldest first.
    pub fn times_after(&self, after_ms: i64, most: usize) -> Vec<i64> {
        std::iter::successors(self.next_after(after_ms), |last| self.next_after(*last))
            .take(most)
            .collect()
    }

    /// Returns the times after `last_ms` up to `now_ms`: the newest `most` of them, oldest first, and how many there
    /// were. Of a crontab line no more than [`MOST_COUNTED`] are counted, and returned.
    pub fn missed(&self, last_ms: i64, now_ms: i64, most: usize) -> (Vec<i64>, u64) {
        match self {
            Self::At { .. } | Self::Cron { .. } => self.walked(last_ms, now_ms, most),
            Self::Every { every_ms, from_ms } => {
                let before = rounds(*every_ms, *from_ms, last_ms);
                let (Some(before), Some(until)) = (before, rounds(*every_ms, *from_ms, now_ms))
                else {
                    return (Vec::new(), 0);
                };
                let count = u64::try_from(until.saturating_sub(before)).unwrap_or(0);
                let shown = count.min(most as u64).min(MOST_COUNTED);
                let first = until - i64::try_from(shown).unwrap_or(0) + 1;
                (
                    (first..=until)
                        .filter_map(|round| nth(*every_ms, *from_ms, round))
                        .collect(),
                    count,
                )
            }
        }
    }

    /// Returns what [`Self::missed`] does, by going from one time to the next.
    fn walked(&self, last_ms: i64, now_ms: i64, most: usize) -> (Vec<i64>, u64) {
        let most = most.min(usize::try_from(MOST_COUNTED).unwrap_or(usize::MAX));
        let (newest, count) = self.newest(last_ms, now_ms, most, MOST_COUNTED);
        if count < MOST_COUNTED {
            return (newest, count);
        }
        // There are more than it counts, so it did not come as far as the newest: these lie close before now.
        let mut span_ms = 86_400_000;
        loop {
            let from_ms = now_ms.saturating_sub(span_ms).max(last_ms);
            let (newest, _) = self.newest(from_ms, now_ms, most, u64::MAX);
            if newest.len() >= most || from_ms == last_ms {
                return (newest, count);
            }
            span_ms = span_ms.saturating_mul(2);
        }
    }

    /// Returns the last `most` of the first `limit` times after `last_ms` up to `now_ms`, oldest first, and how many
    /// it went through.
    fn newest(&self, last_ms: i64, now_ms: i64, most: usize, limit: u64) -> (Vec<i64>, u64) {
        let (mut newest, mut count, mut at) = (VecDeque::new(), 0, last_ms);
        while let Some(next) = self
            .next_after(at)
            .filter(|next| *next <= now_ms && count < limit)
        {
            newest.push_back(next);
            if newest.len() > most {
                newest.pop_front();
            }
            (at, count) = (next, count + 1);
        }
        (newest.into(), count)
    }
}

/// Returns how many whole intervals lie between `from_ms` and `until_ms`, 0 before; none when that cannot be said.
fn rounds(every_ms: i64, from_ms: i64, until_ms: i64) -> Option<i64> {
    if every_ms <= 0 {
        return None;
    }
    let rounds = (i128::from(until_ms) - i128::from(from_ms)).div_euclid(i128::from(every_ms));
    i64::try_from(rounds.max(0)).ok()
}

/// Returns the end of the interval `round`.
fn nth(every_ms: i64, from_ms: i64, round: i64) -> Option<i64> {
    i64::try_from(i128::from(from_ms) + i128::from(every_ms) * i128::from(round)).ok()
}

/// Returns the moment that `text` names (ISO 8601): a date, `T` or a space, a time of day to the minute or finer, and
/// an offset or `Z`. Without one it is a time of `zone`: one that DST skips is the first instant after it, one that DST
/// repeats is the first of both. Milliseconds since 1970 UTC.
///
/// # Errors
/// What is wrong with it, and how a moment is written.
pub fn parse_at(text: &str, zone: Tz) -> Result<i64, Error> {
    let trimmed = text.trim();
    let wrong = |wrong| Error::At {
        text: trimmed.to_owned(),
        wrong,
    };
    let (date, rest) = match trimmed.split_at_checked(10) {
        Some((date, rest)) if shaped(date, "0000-00-00") => (date, rest),
        _ => return Err(wrong("does not begin with a date")),
    };
    let Some(rest) = rest
        .strip_prefix(['T', 't', ' '])
        .filter(|rest| !rest.is_empty())
    else {
        return Err(wrong(if rest.len() < 2 {
            "has no time of day"
        } else {
            "has no T or space after its date"
        }));
    };
    let end = rest
        .find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.')
        .unwrap_or(rest.len());
    let (time, offset) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let date: NaiveDate = date
        .parse()
        .map_err(|_| wrong("is a day that no calendar has"))?;
    let local = date.and_time(time_of_day(time).map_err(wrong)?);
    if offset.is_empty() {
        return Ok(clock::instant_of(local, zone));
    }
    let ahead_ms = offset_ms(offset.strip_prefix(' ').unwrap_or(offset));
    let ahead_ms =
        ahead_ms.ok_or_else(|| wrong("does not end in an offset (a zone is named apart)"))?;
    Ok(local.and_utc().timestamp_millis() - ahead_ms)
}

/// Returns the time of day in `text`, or what is wrong with it.
fn time_of_day(text: &str) -> Result<NaiveTime, &'static str> {
    let (whole, fraction) = text
        .split_once('.')
        .map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let digits = |text: &str| {
        (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let seconds = shaped(whole, "00:00:00") && fraction.is_none_or(digits);
    if !seconds && (!shaped(whole, "00:00") || fraction.is_some()) {
        return Err("has no time of day with hours and minutes of two digits");
    }
    let part = |at: usize| {
        text.get(at..at + 2)
            .and_then(|part| part.parse().ok())
            .unwrap_or(0)
    };
    let millis = fraction.map_or(0, |fraction| {
        fraction
            .chars()
            .chain("00".chars())
            .take(3)
            .fold(0, |ms, c| ms * 10 + c.to_digit(10).unwrap_or(0))
    });
    NaiveTime::from_hms_milli_opt(part(0), part(3), part(6), millis)
        .ok_or("is a time of day that no clock shows")
}

/// Returns how far `text` (`Z`, `+01`, `+01:00`, `+0100`) is ahead of UTC.
fn offset_ms(text: &str) -> Option<i64> {
    if text.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let digits = text.strip_prefix(['+', '-']).filter(|digits| {
        ["00:00", "0000", "00"]
            .iter()
            .any(|shape| shaped(digits, shape))
    })?;
    let hours: i64 = digits.get(..2)?.parse().ok()?;
    let minutes: i64 = digits
        .get(digits.len() - 2..)
        .filter(|_| digits.len() > 2)
        .map_or(Ok(0), str::parse)
        .ok()?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
}

/// Returns true when `text` has a digit wherever `shape` has one, and is the same elsewhere.
fn shaped(text: &str, shape: &str) -> bool {
    let same = |(byte, shape): (u8, u8)| {
        if shape == b'0' {
            byte.is_ascii_digit()
        } else {
            byte == shape
        }
    };
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(same)
}

/// Returns the interval that `text` names, such as `30m` or `1h30m`, milliseconds: at least 10 s, at most 366 days.
///
/// # Errors
/// What is wrong with it, and how an interval is written.
pub fn parse_every(text: &str) -> Result<i64, Error> {
    let trimmed = text.trim();
    let wrong = |wrong: &str| Error::Every {
        text: trimmed.to_owned(),
        wrong: wrong.to_owned(),
    };
    let mut every_ms: i64 = 0;
    let mut rest = trimmed;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(|| wrong("has a number without a unit"))?;
        let (number, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let unit_end = after
            .find(|c: char| !c.is_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(unit_end).unwrap_or((after, ""));
        if number.is_empty() || unit.is_empty() {
            return Err(wrong("is not a number with a unit"));
        }
        let unit_ms = match unit {
            "s" | "S" => 1_000,
            "m" | "M" => 60_000,
            "h" | "H" => 3_600_000,
            "d" | "D" => 86_400_000,
            _ => {
                return Err(wrong(&format!(
                    "has the unknown unit `{}`; use s, m, h or d",
                    super::shown(unit)
                )));
            }
        };
        let part_ms = number
            .parse::<i64>()
            .ok()
            .and_then(|number| number.checked_mul(unit_ms));
        every_ms = part_ms
            .and_then(|part_ms| every_ms.checked_add(part_ms))
            .unwrap_or(i64::MAX);
        if every_ms > MAX_EVERY_MS {
            return Err(wrong("is more than 366 days"));
        }
        rest = after.trim_start();
    }
    match every_ms {
        _ if trimmed.is_empty() => Err(wrong("is not an interval")),
        ..MIN_EVERY_MS => Err(wrong("is less than 10 seconds")),
        _ => Ok(every_ms),
    }
}

/// Returns the time zone with the IANA name `text`, in whatever letter case.
///
/// # Errors
/// The names that are most alike.
pub fn parse_zone(text: &str) -> Result<Tz, Error> {
    let name = text.trim();
    let known = TZ_VARIANTS
        .iter()
        .find(|zone| zone.name().eq_ignore_ascii_case(name));
    known.copied().ok_or_else(|| Error::Zone {
        name: name.to_owned(),
        near: near(name),
    })
}

/// Returns the zones whose name, or whose place, is most alike `name`; examples, when none is.
fn near(name: &str) -> String {
    // No zone has a name half as long as this, and edits are counted in the square of the length.
    let letters = name
        .chars()
        .take(64)
        .collect::<String>()
        .to_lowercase()
        .replace(' ', "_");
    let alike = |zone: &Tz| {
        let full = zone.name().to_lowercase();
        let whole = apart(&full, &letters);
        let far = whole
            .into_iter()
            .chain(apart(place(&full), place(&letters)))
            .min()?;
        // Of two as near, the one whose region was named too.
        Some((far, whole.is_none(), zone.name()))
    };
    let mut found: Vec<_> = TZ_VARIANTS.iter().filter_map(alike).collect();
    found.sort_unstable();
    let best = found.first().map_or(0, |(far, ..)| *far);
    let names: Vec<String> = found
        .iter()
        .filter(|(far, ..)| *far == best)
        .take(3)
        .map(|(.., name)| format!("`{name}`"))
        .collect();
    if names.is_empty() {
        "an IANA name such as `Europe/Berlin`, `America/New_York` or `UTC`".to_owned()
    } else {
        names.join(" or ")
    }
}

/// Returns the last part of a zone's name.
fn place(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Returns how many edits lie between two names that are alike.
fn apart(known: &str, written: &str) -> Option<usize> {
    // Of four letters one other makes another zone: CEST is neither CET nor EST.
    let letters = written.chars().count();
    let enough = if letters < 5 { 0 } else { (letters / 4).min(3) };
    Some(edits(known, written)).filter(|edits| *edits <= enough)
}

#[cfg(test)]
mod tests;
