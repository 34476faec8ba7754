//! Jobs: tasks of the agent at scheduled times.
//!
//! ```text
//! state/cron/jobs.json        {"version":1,"jobs":[{"id":"a1b2c3d4","name":"briefing","schedule":{"cron":"0 8 * * 1-5"}, …}]}
//! state/cron/runs/<job>.jsonl {"at":"2026-11-23T07:00:00.000Z","status":"ok","run_id":"…","cost_usd":0.0031, …}
//! ```
//!
//! The times of a job are computed without reading a clock: `cron_expression` parses the five fields of a line, `schedule`
//! knows the three kinds of schedules (once, at an interval, by a crontab line), `due` decides what to do with a job now,
//! `heartbeat_gate` whether the agent wakes.

mod cron_expression;
mod due;
pub mod heartbeat_gate;
mod job;
pub mod run_log;
mod schedule;
mod store;

pub use cron_expression::Crontab;
pub use due::{Due, Skipped, Stuck, due};
pub use job::{Ask, Job, Missed, Overlap, Period, Status, Talk, Time, When, enough, period};
pub use schedule::{MOST_COUNTED, Schedule, parse_at, parse_every, parse_zone};
pub use store::{Broken, Jobs, Store, read, set_aside};

use crate::text;

/// Why a time cannot be used; each message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A crontab line has more or fewer fields than five.
    #[error(
        "`{line}` has {found} of the five fields of a crontab line (minute, hour, day of month, month, day of week); {write}",
        line = shown(.line)
    )]
    Fields {
        /// The line.
        line: String,
        /// How many fields it has.
        found: usize,
        /// What to write instead.
        write: &'static str,
    },
    /// One field of a crontab line says what no such field can say.
    #[error("`{value}` in the field {field} {wrong}; {write}", value = shown(.value))]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The part of it that is wrong.
        value: String,
        /// What is wrong with it.
        wrong: String,
        /// What to write instead.
        write: String,
    },
    /// A word with an @ that names no time.
    #[error("`{}` is not a valid time; write {write}", shown(.word))]
    Word {
        /// The word.
        word: String,
        /// What to write instead.
        write: &'static str,
    },
    /// A crontab line whose day is in no year.
    #[error("`{}` never occurs: none of its months has such a day; write a day of month that the month has", shown(.line))]
    Never {
        /// The line.
        line: String,
    },
    /// A text that is not a moment.
    #[error("`{}` {wrong}; write {write}", shown(.text), write = schedule::MOMENT)]
    At {
        /// The text.
        text: String,
        /// What is wrong with it.
        wrong: &'static str,
    },
    /// A text that is no span of time, or one too short or too long for a job.
    #[error("`{}` {wrong}; write {write}", shown(.text), write = schedule::SPAN)]
    Every {
        /// The text.
        text: String,
        /// What is wrong with it.
        wrong: String,
    },
    /// A name that no time zone has.
    #[error("no time zone is called `{}`; write {near}", shown(.name))]
    Zone {
        /// The name.
        name: String,
        /// Names that are alike, or examples.
        near: String,
    },
}

/// Returns what somebody wrote for a sentence about it: on one line, and not the whole of a page.
fn shown(written: &str) -> String {
    text::visible(&text::shorten(written, 80))
}
