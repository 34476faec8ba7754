//! A job as it is in `jobs.json`, and the request that adds one.

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Error;
use super::cron_expression::Crontab;
use super::schedule::{Schedule, parse_at, parse_every, parse_zone};
use crate::{clock, text};

/// The longest name of a job, characters.
const MAX_NAME: usize = 80;
/// The longest words of a job, bytes.
const MAX_TEXT: usize = 20_000;

/// Something that is to happen at its times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub id: String,
    /// What its owner calls it.
    #[serde(default)]
    pub name: String,
    /// Whether it is enabled.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// When.
    pub schedule: When,
    /// The time zone of the schedule, an IANA name; that of the agent when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// The instruction for the agent; of a `literal` job the text to send.
    pub text: String,
    /// Whether the words are sent as they are, with no model call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub literal: bool,
    /// Whether the answer goes to somebody.
    #[serde(default = "yes")]
    pub deliver: bool,
    /// To whom: a chat id, an @username, a name; the owner's last route when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The topic of that chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// In which conversation it is thought about.
    #[serde(default)]
    pub session: Talk,
    /// The configured model; that of `[routing]` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What becomes of times that passed while nobody looked.
    #[serde(default)]
    pub missed: Missed,
    /// What becomes of a time at which it still runs.
    #[serde(default)]
    pub overlap: Overlap,
    /// Whether it goes when it ran for the last time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delete_after_run: bool,
    /// The most one run may cost, US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// Who asked for it, by their id, when that is not the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether untrusted text chose its text, and nobody agreed to it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub untrusted: bool,
    /// Since when there is it; `every` counts from here. RFC 3339 UTC, as the other times.
    #[serde(default)]
    pub created_at: Time,
    /// When it runs next; the daemon finds it when it is absent.
    #[serde(default)]
    pub next_at: Option<Time>,
    /// The agent's zone by which `next_at` was found, where it depends on that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_by: Option<String>,
    /// The time of its last run.
    #[serde(default)]
    pub last_at: Option<Time>,
    /// Its result.
    #[serde(default)]
    pub last_status: Option<Status>,
    /// Why nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Times that were claimed and whose end is not in its log yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Time>,
    /// When a clock that had been ahead was corrected. A later due time that occurs again has its own key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brought_back: Option<Time>,
    /// The keys of those of `running` that were claimed before `brought_back` and lie after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claimed_ahead: Vec<ClaimedAhead>,
    /// What a newer version, or its owner, added.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A run that a clock which was ahead began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedAhead {
    /// Its time.
    pub at: Time,
    /// Its key, see [`Job::key_of_run`].
    pub key: String,
}

impl Job {
    /// Returns true when it comes once and somebody is to learn of it: hours later that is of no use.
    pub fn is_reminder(&self) -> bool {
        self.deliver && matches!(self.schedule, When::At(_))
    }

    /// Returns true when it came once and that is over.
    pub fn is_over(&self) -> bool {
        matches!(self.schedule, When::At(_))
            && self.last_at.is_some()
            && self.next_at.is_none()
            && self.running.is_empty()
    }
}

/// When it happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Once, at this instant (ISO 8601; without an offset in the job's zone).
    At(String),
    /// Again and again, so many milliseconds after the job was made; a text such as `30m` is read, too.
    Every(Period),
    /// At the times of a line of crontab(5), in the job's zone.
    Cron(String),
}

/// Milliseconds; `30m` is read, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "i64")]
pub struct Period(pub i64);

impl TryFrom<Value> for Period {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match &value {
            Value::String(text) => parse_every(text)
                .map(Self)
                .map_err(|error| error.to_string()),
            Value::Number(millis) if millis.as_i64().is_some_and(|millis| millis >= 10_000) => {
                Ok(Self(millis.as_i64().unwrap_or_default()))
            }
            _ => Err(format!(
                "`every` must be at least 10000 milliseconds, or a text such as \"30m\", not {value}"
            )),
        }
    }
}

impl From<Period> for i64 {
    fn from(period: Period) -> Self {
        period.0
    }
}

/// Milliseconds since 1970 UTC, written as RFC 3339.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time(pub i64);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        clock::parse_rfc3339(&text)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not an RFC 3339 time"))
    }
}

impl From<Time> for String {
    fn from(time: Time) -> Self {
        clock::rfc3339(time.0)
    }
}

/// In which conversation a job is thought about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Talk {
    /// One of its own, new each time: it costs what it costs, however often it ran.
    #[default]
    Isolated,
    /// That of the recipient.
    Main,
}

/// What becomes of times that passed while nobody looked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// One run makes up for all of them.
    #[default]
    Once,
    /// They are gone.
    Skip,
    /// Each is made up for.
    All,
}

/// What becomes of a time at which the job still runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// It is gone.
    #[default]
    Skip,
    /// It comes after that run.
    Queue,
}

/// The result of the last run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is accepted, or runs.
    Running,
    /// It was done.
    Ok,
    /// It failed.
    Error,
    /// It was left out: too late, or the run before it continued.
    Skipped,
}

impl Status {
    /// Returns its word in files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Skipped => "skipped",
        }
    }
}

/// What somebody asks for who adds a job: the fields of `job add`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ask {
    /// Its name; the first words of `text` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Once, at this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// Again and again: `30m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// At the times of a crontab line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// The time zone; the agent's when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// What the agent receives.
    pub text: String,
    /// Whether the words are sent as they are.
    #[serde(skip_serializing_if = "is_false")]
    pub literal: bool,
    /// Whether the answer goes to somebody.
    #[serde(skip_serializing_if = "is_false")]
    pub deliver: bool,
    /// To whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// In which topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// In which conversation it is thought about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Talk>,
    /// The configured model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What becomes of missed times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// What becomes of overlapping times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// Whether it goes after its last run; true of `at` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_after_run: Option<bool>,
    /// The most one run may cost, US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    /// Who asks, when it is not the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether untrusted text may have chosen the text, and nobody agreed to it.
    #[serde(skip_serializing_if = "is_false")]
    pub untrusted: bool,
}

impl Ask {
    /// Returns the job that is asked for, called `id`; `zone` is the agent's.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what to write instead.
    pub fn job(self, id: &str, zone: Tz, now: i64) -> Result<Job, String> {
        let own = self.tz.as_deref().map(parse_zone).transpose();
        let own = own.map_err(|error| error.to_string())?;
        let zone = own.unwrap_or(zone);
        let schedule = match (&self.at, &self.every, &self.cron) {
            // The instant is kept, not the words: what a zone means may change.
            (Some(at), None, None) => When::At(clock::rfc3339(
                parse_at(at, zone).map_err(|error| error.to_string())?,
            )),
            (None, Some(every), None) => When::Every(Period(
                parse_every(every).map_err(|error| error.to_string())?,
            )),
            (None, None, Some(line)) => {
                Crontab::parse(line).map_err(|error| error.to_string())?;
                When::Cron(line.trim().to_owned())
            }
            (None, None, None) => return Err("a job needs a time: at, every or cron".to_owned()),
            _ => return Err("a job has one time: at, every or cron".to_owned()),
        };
        let words = self.text.trim();
        if words.is_empty() || words.len() > MAX_TEXT {
            return Err(format!(
                "the text of a job must say something, in at most {MAX_TEXT} bytes"
            ));
        }
        let name = self
            .name
            .as_deref()
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .unwrap_or(words);
        let name = text::shorten(&text::visible(name), MAX_NAME);
        if self
            .budget_usd
            .is_some_and(|usd| !usd.is_finite() || usd < 0.0)
        {
            return Err("the budget of a job is an amount of US dollars, such as 0.05".to_owned());
        }
        let once = matches!(schedule, When::At(_));
        let mut job = Job {
            id: id.to_owned(),
            name,
            enabled: true,
            schedule,
            tz: own.map(|own| own.name().to_owned()),
            text: words.to_owned(),
            literal: self.literal,
            deliver: self.deliver || self.literal || self.to.is_some(),
            to: self.to.filter(|to| to != "owner"),
            topic: self.topic,
            session: self.session.unwrap_or_default(),
            model: self.model,
            missed: self.missed.unwrap_or_default(),
            overlap: self.overlap.unwrap_or_default(),
            delete_after_run: self.delete_after_run.unwrap_or(once),
            budget_usd: self.budget_usd.filter(|usd| *usd > 0.0),
            by: self.by,
            untrusted: self.untrusted,
            created_at: Time(now),
            next_at: None,
            next_by: None,
            last_at: None,
            last_status: None,
            last_error: None,
            running: Vec::new(),
            brought_back: None,
            claimed_ahead: Vec::new(),
            rest: Map::new(),
        };
        let next_at = job.first_after(now, zone)?;
        job.set_next(next_at, zone);
        Ok(job)
    }
}

impl Job {
    /// Returns the zone of its times: its own, or `agents`.
    ///
    /// # Errors
    /// A sentence: the file may have been written by hand.
    pub fn zone(&self, agents: Tz) -> Result<Tz, String> {
        let own = self.tz.as_deref().map_or(Ok(agents), parse_zone);
        own.map_err(|error| error.to_string())
    }

    /// Returns when it happens, for an agent whose zone is `agents`.
    ///
    /// # Errors
    /// See [`Job::zone`].
    pub fn times(&self, agents: Tz) -> Result<Schedule, String> {
        let zone = self.zone(agents)?;
        let schedule = match &self.schedule {
            When::At(at) => parse_at(at, zone).map(|at_ms| Schedule::At { at_ms }),
            When::Every(every) => Ok(Schedule::Every {
                every_ms: every.0,
                from_ms: self.created_at.0,
            }),
            When::Cron(line) => Crontab::parse(line).map(|line| Schedule::Cron { line, zone }),
        };
        schedule.map_err(|error: Error| error.to_string())
    }

    /// Notes when it runs next, for an agent whose zone is `agents`.
    pub fn set_next(&mut self, next_at: Option<i64>, agents: Tz) {
        let by_agents = self.tz.is_none() && matches!(self.schedule, When::Cron(_));
        self.next_at = next_at.map(Time);
        self.next_by = (by_agents && next_at.is_some()).then(|| agents.name().to_owned());
    }

    /// Returns its times as they were when it was found out when it runs next, where the agent has another zone now.
    pub fn times_before(&self, agents: Tz) -> Option<Schedule> {
        let zone = parse_zone(self.next_by.as_deref()?).ok()?;
        (zone != agents && self.tz.is_none()).then(|| self.times(zone).ok())?
    }

    /// Returns its first time after `now`; that of an `at` which is past already is now.
    ///
    /// # Errors
    /// See [`Job::times`].
    pub fn first_after(&self, now: i64, agents: Tz) -> Result<Option<i64>, String> {
        Ok(match self.times(agents)? {
            Schedule::At { at_ms } => Some(at_ms),
            times => times.next_after(now),
        })
    }

    /// Returns the newest time that it remembers.
    pub fn newest_time(&self) -> i64 {
        self.last_at
            .map_or(self.created_at, |last| last.max(self.created_at))
            .0
    }

    /// Lets it continue from `now`: no time before is made up for, and none that it remembers lies ahead.
    ///
    /// # Errors
    /// See [`Job::times`].
    pub fn go_on_from(&mut self, now: i64, agents: Tz) -> Result<(), String> {
        let newest = self.running.iter().map(|at| at.0).max();
        if newest.max(Some(self.newest_time())) > Some(now) {
            let ahead = self.running.iter().filter(|at| at.0 > now);
            let ahead = ahead.map(|at| ClaimedAhead {
                at: *at,
                key: self.key_of_run(at.0),
            });
            self.claimed_ahead = ahead.collect();
            self.brought_back = Some(Time(now));
        }
        self.created_at = self.created_at.min(Time(now));
        self.last_at = self.last_at.map(|at| at.min(Time(now)));
        let next_at = self.times(agents)?.next_after(now);
        self.set_next(next_at, agents);
        Ok(())
    }

    /// Returns the key of its run of `at`, in `queue.db`: `job:<id>:<at>`, and for a time after [`Job::brought_back`] that one
    /// behind it.
    pub fn key_of_run(&self, at: i64) -> String {
        let ahead = self.claimed_ahead.iter().find(|run| run.at.0 == at);
        if let Some(run) = ahead {
            return run.key.clone();
        }
        let id = &self.id;
        match self.brought_back {
            Some(since) if at > since.0 => format!("job:{id}:{at}:{}", since.0),
            _ => format!("job:{id}:{at}"),
        }
    }

    /// Returns the id and the time that a key of [`Self::key_of_run`] names.
    pub fn of_key(key: &str) -> Option<(&str, Option<i64>)> {
        let (id, at) = key.strip_prefix("job:")?.split_once(':')?;
        Some((id, at.split(':').next()?.parse().ok()))
    }

    /// Notes that its run of `at` has ended.
    pub fn end_run(&mut self, at: Time) {
        self.running.retain(|running| *running != at);
        self.claimed_ahead.retain(|run| run.at != at);
    }

    /// Takes over what is known of the runs of the job in whose place it comes.
    pub fn take_over_runs(&mut self, old: &Self) {
        (self.running, self.last_at) = (old.running.clone(), old.last_at);
        (self.last_status, self.last_error) = (old.last_status, old.last_error.clone());
        (self.brought_back, self.claimed_ahead) = (old.brought_back, old.claimed_ahead.clone());
    }

    /// Returns its schedule as a person writes it: `0 9 * * *`, `every 30m`, `at 2026-11-24T08:00:00.000Z`.
    pub fn schedule_text(&self) -> String {
        match &self.schedule {
            When::At(at) => format!("at {at}"),
            When::Every(every) => format!("every {}", period(every.0)),
            When::Cron(line) => line.clone(),
        }
    }

    /// Returns its schedule for a reader who sees the next time beside it: `once`, `every 30m`, `0 9 * * *`, with the zone when it is
    /// not the agent's.
    pub fn schedule_in_short(&self, agents: Tz) -> String {
        match (&self.schedule, &self.tz) {
            (When::At(_), _) => "once".to_owned(),
            (When::Cron(line), Some(own)) if own != agents.name() => format!("{line}, {own}"),
            _ => self.schedule_text(),
        }
    }

    /// Returns it as the documents of the specification's Appendix B show it, for an agent whose zone is `agents`.
    pub fn document(&self, agents: Tz) -> Value {
        let zone = self.tz.as_deref().unwrap_or(agents.name());
        let time = |time: &Option<Time>| time.map(|time| clock::rfc3339(time.0));
        let mut document = json!({
            "id": self.id, "name": self.name, "enabled": self.enabled, "schedule": self.schedule_text(), "tz": zone,
            "next_at": time(&self.next_at.filter(|_| self.enabled)), "last_at": time(&self.last_at),
            "last_status": self.last_status, "last_error": self.last_error, "text": self.text, "deliver": self.deliver,
            "to": self.to.as_deref().unwrap_or("owner"), "literal": self.literal, "session": self.session,
            "missed": self.missed, "overlap": self.overlap, "delete_after_run": self.delete_after_run,
            "model": self.model, "budget_usd": self.budget_usd,
        });
        if let Some(fields) = document.as_object_mut() {
            fields.retain(|name, value| {
                !value.is_null() || ["next_at", "last_at", "last_status"].contains(&name.as_str())
            });
        }
        document
    }
}

/// Returns `usd` rounded up to whole cents, to be written into a setting.
pub fn enough(usd: f64) -> String {
    format!("{:.2}", (usd * 100.0).ceil() / 100.0)
}

/// Returns `millis` as `1d`, `2h`, `90m` or `45s`, in the largest unit that it is whole in.
pub fn period(millis: i64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1000, "s"),
    ];
    let unit = units.into_iter().find(|(size, _)| millis % size == 0);
    unit.map_or_else(
        || format!("{millis}ms"),
        |(size, name)| format!("{}{name}", millis / size),
    )
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands a reference over"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_a_clock_ahead_ran_has_another_key_when_it_really_comes() {
        let at = |text: &str| clock::parse_rfc3339(text).expect("a time");
        let now = at("2026-03-01T10:00:00Z");
        let ask = Ask {
            cron: Some("0 9 * * *".into()),
            text: "look".into(),
            ..Ask::default()
        };
        let mut job = ask.job("a", Tz::UTC, now).expect("a job");
        let (early, later) = (at("2026-03-03T09:00:00Z"), at("2026-03-04T09:00:00Z"));
        let before = job.key_of_run(early);
        assert_eq!(before, format!("job:a:{early}"));
        job.go_on_from(now, Tz::UTC).expect("it goes on");
        assert_eq!(job.key_of_run(early), before, "the clock was right");

        (job.running, job.last_at) = (vec![Time(early)], Some(Time(early)));
        job.go_on_from(now, Tz::UTC).expect("it goes on");
        assert_eq!(job.key_of_run(early), before, "that run goes on");
        job.end_run(Time(early));
        assert!(job.running.is_empty());
        assert_eq!(job.key_of_run(early), format!("{before}:{now}"));
        assert_eq!(job.key_of_run(now - 1), format!("job:a:{}", now - 1));
        // It happens again, while a run of that time goes on.
        let second = job.key_of_run(later);
        (job.running, job.last_at) = (vec![Time(later)], Some(Time(later)));
        job.go_on_from(now + 1, Tz::UTC).expect("it goes on");
        assert_eq!(job.key_of_run(later), second);
        job.end_run(Time(later));
        assert_eq!(job.key_of_run(later), format!("job:a:{later}:{}", now + 1));
        let text = serde_json::to_string(&job).expect("plain data");
        assert_eq!(serde_json::from_str::<Job>(&text).expect("a job"), job);
    }
}
