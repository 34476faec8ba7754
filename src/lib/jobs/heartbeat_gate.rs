//! The heartbeat gate: decides whether the agent wakes for a heartbeat. Pure: the caller reads the file, the clock and
//! everything else.

use std::fmt;

use chrono::NaiveTime;
use chrono_tz::Tz;

use crate::{clock, config};

/// Hours of a day in which people may be spoken to, both ends in them; they may go over midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hours {
    /// The first minute.
    pub start: NaiveTime,
    /// The last minute.
    pub end: NaiveTime,
}

impl Hours {
    /// Returns those of `[heartbeat]`.
    pub fn of(settings: &config::Heartbeat) -> Self {
        Self {
            start: settings.active_start.0,
            end: settings.active_end.0,
        }
    }

    /// Returns true when `now` is one of them in `zone`.
    pub fn contain(self, now: i64, zone: Tz) -> bool {
        // To the minute: 23:00 is in hours that end at 23:00.
        let time = clock::local(now, zone).time();
        let minute = chrono::Timelike::with_second(&time, 0)
            .and_then(|time| chrono::Timelike::with_nanosecond(&time, 0));
        let time = minute.unwrap_or(time);
        if self.start <= self.end {
            (self.start..=self.end).contains(&time)
        } else {
            time >= self.start || time <= self.end
        }
    }
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}–{}",
            self.start.format("%H:%M"),
            self.end.format("%H:%M")
        )
    }
}

/// What the world is like when the agent might wake.
#[derive(Debug, Clone)]
pub struct World<'a> {
    /// The content of HEARTBEAT.md; `None` when there is none.
    pub file: Option<&'a str>,
    /// The hours in which it may wake.
    pub hours: Hours,
    /// The agent's zone.
    pub zone: Tz,
    /// The time.
    pub now: i64,
    /// How often it wakes at most, milliseconds.
    pub every_ms: i64,
    /// Whether it woke in this stretch of time already, see [`slot`].
    pub woke: bool,
    /// Whether it works on something, or something waits for it.
    pub is_busy: bool,
    /// Why its model cannot be asked, if it cannot.
    pub down: Option<String>,
    /// Whether its owner can be told anything.
    pub has_way: bool,
    /// US dollars that heartbeats cost today, and may cost a day; 0 = as much as they like.
    pub spent: (f64, f64),
    /// US dollars that one call can cost at least; `None` when it is not known, or costs nothing.
    pub least_usd: Option<f64>,
}

/// Why it does not wake.
#[derive(Debug, Clone, PartialEq)]
pub enum Asleep {
    /// There is no HEARTBEAT.md.
    NoFile,
    /// There is nothing to look after in it.
    NoItem,
    /// It is not the time of day.
    Hours(Hours),
    /// It woke a moment ago.
    Woke {
        /// How often it wakes at most, milliseconds.
        every_ms: i64,
    },
    /// It works on something.
    Busy,
    /// Its model cannot be asked.
    Down(String),
    /// Nobody could be told.
    NoWay,
    /// The money for today is spent.
    Spent {
        /// US dollars that heartbeats may cost a day.
        limit: f64,
    },
    /// What they may cost a day holds no call.
    TooLittle {
        /// US dollars that heartbeats may cost a day.
        limit: f64,
        /// US dollars with which one call is reserved at least.
        least: f64,
    },
}

impl fmt::Display for Asleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFile => f.write_str("there is no workspace/HEARTBEAT.md"),
            Self::NoItem => f.write_str("workspace/HEARTBEAT.md has no item"),
            Self::Hours(hours) => write!(
                f,
                "the time is outside {hours} ([heartbeat] active_start, active_end)"
            ),
            Self::Woke { every_ms } => {
                write!(
                    f,
                    "it woke already in these {} ([heartbeat] every)",
                    super::job::period(*every_ms)
                )
            }
            Self::Busy => f.write_str("something else is being worked on"),
            Self::Down(why) => f.write_str(why),
            Self::NoWay => f.write_str("no owner configured: agent-send --pair owner"),
            Self::Spent { limit } => write!(
                f,
                "its cost limit of today is reached ([heartbeat] day_usd = {limit})"
            ),
            Self::TooLittle { limit, least } => write!(
                f,
                "[heartbeat] day_usd = {limit} is too small for a call, which may cost up to {}: write at least that",
                super::job::enough(*least)
            ),
        }
    }
}

/// Returns whether the agent wakes.
///
/// # Errors
/// Why it does not.
pub fn gate(world: &World<'_>) -> Result<(), Asleep> {
    match world.file {
        None => return Err(Asleep::NoFile),
        Some(text) if !has_item(text) => return Err(Asleep::NoItem),
        Some(_) => {}
    }
    if !world.hours.contain(world.now, world.zone) {
        return Err(Asleep::Hours(world.hours));
    }
    if world.woke {
        return Err(Asleep::Woke {
            every_ms: world.every_ms,
        });
    }
    if world.is_busy {
        return Err(Asleep::Busy);
    }
    if let Some(why) = &world.down {
        return Err(Asleep::Down(why.clone()));
    }
    if !world.has_way {
        return Err(Asleep::NoWay);
    }
    let (spent, limit) = world.spent;
    let least = world.least_usd.unwrap_or(0.0);
    if limit > 0.0 && limit < least {
        return Err(Asleep::TooLittle { limit, least });
    }
    if limit > 0.0 && (spent >= limit || limit - spent < least) {
        return Err(Asleep::Spent { limit });
    }
    Ok(())
}

/// Returns true when HEARTBEAT.md has something to look after: a line that is not a heading, no comment and no
/// empty item of a list.
pub fn has_item(text: &str) -> bool {
    let mut in_comment = false;
    text.lines().any(|line| {
        let mut rest = line.trim();
        while in_comment || rest.starts_with("<!--") {
            let Some((_, after)) = rest.split_once("-->") else {
                in_comment = true;
                return false;
            };
            (in_comment, rest) = (false, after.trim());
        }
        let item = rest.trim_start_matches(['-', '*', '+']).trim();
        let item = ["[ ]", "[x]", "[X]"]
            .iter()
            .find_map(|mark| item.strip_prefix(mark))
            .unwrap_or(item);
        // What is ticked off is done.
        let is_done = ["[x]", "[X]"].iter().any(|mark| {
            rest.trim_start_matches(['-', '*', '+', ' '])
                .starts_with(mark)
        });
        !rest.starts_with('#') && !is_done && !item.trim().is_empty()
    })
}

/// Returns the beginning of the stretch of time that `now` is in: the local day is cut into stretches of
/// `every_ms`, and the agent wakes once in each, no matter who asks it to and however often it is restarted.
pub fn slot(now: i64, every_ms: i64, zone: Tz) -> i64 {
    let midnight = clock::start_of_day(clock::local_date(now, zone), zone);
    let every = every_ms.max(1);
    midnight + (now - midnight).max(0) / every * every
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(start: &str, end: &str) -> Hours {
        let time = |text: &str| NaiveTime::parse_from_str(text, "%H:%M").expect("a time");
        Hours {
            start: time(start),
            end: time(end),
        }
    }

    fn at(text: &str) -> i64 {
        clock::parse_rfc3339(text).expect("a time")
    }

    #[test]
    fn headings_comments_and_empty_or_done_items_are_nothing_to_look_after() {
        for nothing in [
            "",
            "\n\n",
            "# Heading\n## more",
            "# - item",
            "- \n* [ ]\n",
            "<!-- - look -->",
            "<!--\n- look\n-->\n",
            "- [x] done",
        ] {
            assert!(!has_item(nothing), "{nothing:?}");
        }
        for something in [
            "- look",
            "look",
            "# A\n\n* [ ] look",
            "<!-- a --> look",
            "<!--\na\n--> look",
            "1. look",
        ] {
            assert!(has_item(something), "{something:?}");
        }
    }

    #[test]
    fn hours_have_both_their_ends_and_may_go_over_midnight() {
        let check = |hours: Hours, time: &str, expected: bool| {
            assert_eq!(
                hours.contain(at(&format!("2026-03-01T{time}Z")), Tz::UTC),
                expected,
                "{hours} {time}"
            );
        };
        let day = hours("08:00", "23:00");
        for (time, is_in) in [
            ("07:59:59", false),
            ("08:00:00", true),
            ("23:00:59", true),
            ("23:01:00", false),
        ] {
            check(day, time, is_in);
        }
        let night = hours("22:00", "06:00");
        for (time, is_in) in [
            ("21:59:00", false),
            ("22:00:00", true),
            ("00:00:00", true),
            ("06:00:30", true),
            ("06:01:00", false),
        ] {
            check(night, time, is_in);
        }
        assert!(
            day.contain(
                at("2026-07-01T21:30:00Z"),
                "Pacific/Auckland".parse().expect("zone")
            ),
            "09:30 there"
        );
    }

    #[test]
    fn it_wakes_only_when_there_is_nothing_against_it() {
        let world = || World {
            file: Some("- look at the mail"),
            hours: hours("08:00", "23:00"),
            zone: Tz::UTC,
            now: at("2026-03-01T12:00:00Z"),
            every_ms: 1_800_000,
            woke: false,
            is_busy: false,
            down: None,
            has_way: true,
            spent: (0.4, 0.5),
            least_usd: Some(0.05),
        };
        let little = |spent, least| World {
            spent,
            least_usd: Some(least),
            ..world()
        };
        assert_eq!(gate(&world()), Ok(()));
        let against = |world: World<'_>| gate(&world).expect_err("asleep").to_string();
        assert_eq!(
            against(little((0.0, 0.05), 0.0712)),
            "[heartbeat] day_usd = 0.05 is too small for a call, which may cost up to 0.08: write at least that"
        );
        assert_eq!(
            against(little((0.45, 0.5), 0.0712)),
            "its cost limit of today is reached ([heartbeat] day_usd = 0.5)"
        );
        assert_eq!(gate(&little((0.4, 0.0), 0.0712)), Ok(()), "no limit");
        assert_eq!(
            against(World {
                file: None,
                ..world()
            }),
            "there is no workspace/HEARTBEAT.md"
        );
        assert_eq!(
            against(World {
                file: Some("# nothing"),
                ..world()
            }),
            "workspace/HEARTBEAT.md has no item"
        );
        let night = against(World {
            now: at("2026-03-01T03:00:00Z"),
            ..world()
        });
        assert_eq!(
            night,
            "the time is outside 08:00–23:00 ([heartbeat] active_start, active_end)"
        );
        assert_eq!(
            against(World {
                woke: true,
                ..world()
            }),
            "it woke already in these 30m ([heartbeat] every)"
        );
        assert_eq!(
            against(World {
                is_busy: true,
                ..world()
            }),
            "something else is being worked on"
        );
        assert_eq!(
            against(World {
                down: Some("the provider is down".into()),
                ..world()
            }),
            "the provider is down"
        );
        assert_eq!(
            against(World {
                has_way: false,
                ..world()
            }),
            "no owner configured: agent-send --pair owner"
        );
        let spent = against(World {
            spent: (0.5, 0.5),
            ..world()
        });
        assert_eq!(
            spent,
            "its cost limit of today is reached ([heartbeat] day_usd = 0.5)"
        );
        assert_eq!(
            gate(&World {
                spent: (9.0, 0.0),
                ..world()
            }),
            Ok(())
        );
    }

    #[test]
    fn a_day_is_cut_into_the_same_stretches_at_every_start() {
        let half_hour = 1_800_000;
        assert_eq!(
            slot(at("2026-03-01T12:29:59Z"), half_hour, Tz::UTC),
            at("2026-03-01T12:00:00Z")
        );
        assert_eq!(
            slot(at("2026-03-01T12:30:00Z"), half_hour, Tz::UTC),
            at("2026-03-01T12:30:00Z")
        );
        let zone: Tz = "Asia/Kolkata".parse().expect("zone");
        assert_eq!(
            slot(at("2026-03-01T12:10:00Z"), 3_600_000, zone),
            at("2026-03-01T11:30:00Z"),
            "17:00 there"
        );
        // 50 minutes do not divide a day: it starts over at midnight.
        assert_eq!(
            slot(at("2026-03-01T23:59:00Z"), 3_000_000, Tz::UTC),
            at("2026-03-01T23:20:00Z")
        );
        assert_eq!(
            slot(at("2026-03-02T00:01:00Z"), 3_000_000, Tz::UTC),
            at("2026-03-02T00:00:00Z")
        );
    }
}
