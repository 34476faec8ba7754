//! Commands about jobs: adding, removing, running, pausing; and their list.

use std::sync::Arc;

use chrono_tz::Tz;

use crate::clock;
use crate::control::replies::Reply;
use crate::jobs;
use crate::jobs::heartbeat_gate::Hours;
use crate::jobs::{Ask, Job, Jobs, Status, Time};
use crate::message::{Address, Envelope, JobOrder, Source};
use crate::pipeline::intake::recipients::address;
use crate::pipeline::persist::Unrecorded;
use crate::pipeline::turn::outcome::{Outcome, said};
use crate::pipeline::{Live, Pipeline};
use crate::queue::Stop;
use crate::text;

/// Jobs there may be; more is a slip, or somebody who means no good.
const MOST: usize = 500;
/// Messages that one person, or the agent, may have waiting to be sent at their time.
const MOST_MESSAGES: usize = 50;
/// Times that are shown of a new job.
const SHOWN: usize = 3;
/// Jobs that are shown in a chat.
const LISTED: usize = 30;

/// What became of an order: words for people, and the job.
type Made = Result<(String, Option<serde_json::Value>), String>;

impl Pipeline {
    /// Carries an order about a job out.
    pub(in crate::pipeline) async fn order_job(
        self: &Arc<Self>,
        envelope: &Envelope,
        order: &JobOrder,
    ) -> Outcome {
        let live = self.live();
        let ordered = match self.for_an_id(order, &live).await {
            Ok(ordered) => ordered,
            Err(why) => return crate::pipeline::turn::outcome::declined(envelope, &why),
        };
        let (pipeline, now) = (self.clone(), envelope.received_at);
        let (left, input) = (self.runs_left_by(order), envelope.id.clone());
        let work = move || {
            if let Some(why) = pipeline.too_small_a_budget(&ordered, &live, now) {
                return Err(why);
            }
            let made = pipeline
                .schedule
                .jobs
                .change(|jobs| carry_out(jobs, (&ordered, &input), &live, now));
            made.unwrap_or_else(|error| Err(error.to_string()))
        };
        let made = crate::sys::blocking(work).await;
        self.schedule.news.notify_one();
        for id in left.into_iter().filter(|_| made.is_ok()) {
            let message = id.clone();
            if let Err(Unrecorded::Failed(why)) = self.stop(Stop::Message { id }).await {
                tracing::warn!(
                    why,
                    run_of = message,
                    "a run of a deleted job could not be stopped and continues"
                );
            }
        }
        match made {
            Ok((text, job)) => {
                let id = job.as_ref().and_then(|job| job["id"].as_str());
                let unheard = self
                    .why_unheard(id.unwrap_or(order.job()))
                    .await
                    .map(|why| {
                        let why = why.trim_start_matches("not delivered: ");
                        format!("\nNobody would hear it now: {why}.")
                    });
                said(
                    envelope,
                    &format!("{text}{}", unheard.unwrap_or_default()),
                    None,
                )
                .with_job(job)
            }
            Err(why) => crate::pipeline::turn::outcome::declined(envelope, &why),
        }
    }

    /// Returns the order with the id of the contact whom a new job is for by name: who has the name when the job runs may be
    /// somebody else.
    async fn for_an_id(&self, order: &JobOrder, live: &Live) -> Result<JobOrder, String> {
        let JobOrder::Add { job, ask } = order else {
            return Ok(order.clone());
        };
        let mut ask = ask.clone();
        if let Some(to) = ask.get_mut("to")
            && let Some(name) = to.as_str()
            && name != "owner"
            && address(&live.config, name).is_none()
        {
            let known = self.people.read().map_err(|error| error.to_string())?;
            match known.find_one(name) {
                Ok(contact) => *to = contact.id.to_string().into(),
                // The id of a channel that is off now.
                Err(_) if Address::parse(name).is_some() => {}
                Err(why) => return Err(why),
            }
        }
        let job = job.clone();
        Ok(JobOrder::Add { job, ask })
    }

    /// Returns the inputs that are runs of the job that is to be removed and do not work now, but wait.
    fn runs_left_by(&self, order: &JobOrder) -> Vec<String> {
        let (JobOrder::Remove { job }, Ok(jobs)) = (order, self.schedule.jobs.look()) else {
            return Vec::new();
        };
        let id = jobs.id_of(job).ok().flatten();
        let Some(job) = id.and_then(|id| jobs.get(&id)) else {
            return Vec::new();
        };
        let keys = job.running.iter().map(|at| job.key_of_run(at.0));
        let runs = self.runs();
        let works = |id: &String| {
            (runs.values()).any(|run| run.inputs.envelopes().any(|input| input.id == *id))
        };
        keys.filter(|id| !works(id)).collect()
    }

    /// Returns why no run of the job that is to be added could be paid for: each would fail.
    fn too_small_a_budget(&self, order: &JobOrder, live: &Live, now: i64) -> Option<String> {
        let JobOrder::Add { ask, .. } = order else {
            return None;
        };
        let ask: Ask = serde_json::from_value(ask.clone()).ok()?;
        let budget = ask
            .budget_usd
            .filter(|budget| *budget > 0.0 && !ask.literal)?;
        let model = ask.model.unwrap_or_else(|| super::system_model(live));
        let run = Envelope {
            source: Source::Job,
            text: ask.text,
            ..super::heartbeat(now)
        };
        let settings = (&live.config, live.agent.client().models());
        let least = super::least_usd(&self.prompt, settings, &model, &run)?;
        (budget < least).then(|| {
            format!(
                "a budget of {budget} US dollars is too small for a call of the model {model}, which may cost up to {least}: give at least that",
                least = jobs::enough(least)
            )
        })
    }

    /// Returns the jobs, for a chat.
    pub(in crate::pipeline) fn jobs_text(&self) -> String {
        let jobs = match self.schedule.jobs.look() {
            Ok(jobs) => jobs,
            Err(error) => return format!("The jobs cannot be read: {error}"),
        };
        let zone = self.live().config.agent.timezone.0;
        let mut lines: Vec<String> = jobs
            .iter()
            .take(LISTED)
            .map(|job| line(job, zone))
            .collect();
        let more = jobs.iter().count().saturating_sub(LISTED);
        if more > 0 {
            lines.push(format!(
                "… and {more} more: on the machine where I run, agent-send --job list shows all"
            ));
        }
        if lines.is_empty() {
            lines.push("There are no jobs.".to_owned());
        }
        lines.extend(
            self.schedule
                .jobs
                .aside()
                .map(|words| format!("⚠️ {words}")),
        );
        lines.join("\n")
    }
}

fn line(job: &Job, agents: Tz) -> String {
    let zone = job.zone(agents).unwrap_or(agents);
    let time = |at: Option<Time>| {
        at.map_or_else(|| "never".to_owned(), |at| clock::local_text(at.0, zone))
    };
    let last = match (job.last_status, job.last_at) {
        (Some(status), at) => format!("; last {}: {}", time(at), status_word(status)),
        (None, _) => String::new(),
    };
    let next = if job.enabled {
        format!("next {}", time(job.next_at))
    } else {
        "paused".to_owned()
    };
    let to = job.to.as_ref().map(|to| format!(" → {to}"));
    format!(
        "`{}` {}{} ({}): {next}{last}",
        job.id,
        job.name.replace('`', "'"),
        to.unwrap_or_default(),
        job.schedule_in_short(agents)
    )
}

fn status_word(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Ok => "done",
        Status::Error => "failed",
        Status::Skipped => "left out",
    }
}

/// Carries out the order that the input of this id is.
fn carry_out(jobs: &mut Jobs, (order, input): (&JobOrder, &str), live: &Live, now: i64) -> Made {
    let zone = live.config.agent.timezone.0;
    let called = order.job();
    let none = || no_job(called);
    let id = match order {
        JobOrder::Add { .. } => called.to_owned(),
        // Its name may be gone already.
        JobOrder::Remove { .. } => String::new(),
        _ => one_called(jobs, called)?,
    };
    let id = id.as_str();
    match order {
        JobOrder::Add { ask, .. } => {
            let ask: Ask =
                serde_json::from_value(ask.clone()).map_err(|error| error.to_string())?;
            add(jobs, id, ask, live, now)
        }
        JobOrder::Remove { .. } => remove(jobs, called, input),
        JobOrder::Run { .. } => {
            let job = jobs.get_mut(id).ok_or_else(none)?;
            if !job.running.contains(&Time(now)) {
                job.running.push(Time(now));
                (job.last_at, job.last_status, job.last_error) =
                    (Some(Time(now)), Some(Status::Running), None);
            }
            Ok((format!("Job {id} runs now."), Some(job.document(zone))))
        }
        JobOrder::Pause { .. } => {
            let job = jobs.get_mut(id).ok_or_else(none)?;
            job.enabled = false;
            Ok((format!("Job {id} paused."), Some(job.document(zone))))
        }
        JobOrder::Resume { .. } => {
            let job = jobs.get_mut(id).ok_or_else(none)?;
            job.enabled = true;
            job.go_on_from(now, zone)?;
            let next = times_text(job, zone, super::hours(live), now);
            Ok((
                format!("Job {id} resumed: {next}."),
                Some(document(job, zone, now)),
            ))
        }
    }
}

fn no_job(called: &str) -> String {
    format!("no job {:?}", shown(called))
}

fn shown(called: &str) -> String {
    text::shorten(&text::visible(called), 80)
}

/// Returns the id of the only job with this name.
fn one_called(jobs: &Jobs, called: &str) -> Result<String, String> {
    let id = jobs.id_of(called).map_err(|ids| {
        format!(
            "several jobs are called {:?}; use an id: {}",
            shown(called),
            ids.join(", ")
        )
    })?;
    id.ok_or_else(|| no_job(called))
}

/// Removes a job because `input` asks for it. After a crash that comes again, and what it removed is not looked for once more.
fn remove(jobs: &mut Jobs, called: &str, input: &str) -> Made {
    let removed = |id: &str| (format!("Job {id} removed."), None);
    if let Some(id) = jobs.removed_by(input) {
        return Ok(removed(id));
    }
    let id = one_called(jobs, called)?;
    if !jobs.remove(&id) {
        return Err(no_job(called));
    }
    jobs.note_removed(input, &id);
    Ok(removed(&id))
}

fn add(jobs: &mut Jobs, id: &str, ask: Ask, live: &Live, now: i64) -> Made {
    if let Some(name) = &ask.model {
        live.agent
            .client()
            .models()
            .get(name, "the job's model")
            .map_err(|error| error.to_string())?;
    }
    let is_named = ask.name.is_some();
    let zone = live.config.agent.timezone.0;
    let mut job = ask.job(id, zone, now)?;
    job.name = free_name(jobs, &job, is_named)?;
    if let Some(old) = jobs.get(id) {
        // The same command again, after a crash, or the same job with a new text: a running run of it continues.
        job.take_over_runs(old);
        if old.created_at == job.created_at {
            (job.next_at, job.next_by) = (old.next_at, old.next_by.clone());
        }
    } else {
        make_room(jobs, &job)?;
    }
    let times = times_text(&job, zone, super::hours(live), now);
    let text = format!("Job {id} ({}): {times}.", job.name);
    let document = document(&job, zone, now);
    jobs.put(job);
    Ok((text, Some(document)))
}

/// Makes room for a new job. What is over and stays, because nothing came of it or its owner wants it to, takes up none; the
/// oldest of those makes way.
fn make_room(jobs: &mut Jobs, job: &Job) -> Result<(), String> {
    let count = |counts: &dyn Fn(&Job) -> bool| {
        let waits = jobs.iter().filter(|other| !other.is_over());
        waits.filter(|other| counts(other)).count()
    };
    if count(&|_| true) >= MOST {
        return Err(format!("there are {MOST} jobs already: remove one first"));
    }
    if job.literal && count(&|other| other.literal && other.by == job.by) >= MOST_MESSAGES {
        return Err(format!(
            "{MOST_MESSAGES} messages wait for their time already"
        ));
    }
    if jobs.iter().count() >= MOST {
        let over = jobs.iter().filter(|other| other.is_over());
        let oldest = over.min_by_key(|other| other.last_at);
        if let Some(id) = oldest.map(|oldest| oldest.id.clone()) {
            jobs.remove(&id);
        }
    }
    Ok(())
}

/// Returns a name that no other job has: that which was given, or for one that was made from the text also with a
/// number behind it.
fn free_name(jobs: &Jobs, job: &Job, is_given: bool) -> Result<String, String> {
    let taken = |name: &str| {
        jobs.iter()
            .find(|other| other.id != job.id && other.name == name)
    };
    match taken(&job.name) {
        None => Ok(job.name.clone()),
        Some(other) if is_given => Err(format!(
            "the name {:?} is that of the job {}; choose another name, or change that job by its id",
            job.name, other.id
        )),
        Some(_) => (2..)
            .map(|number| format!("{} ({number})", job.name))
            .find(|name| taken(name).is_none())
            .ok_or_else(|| "no name is left".to_owned()),
    }
}

/// Returns when a job runs next, in its own zone: what somebody meant is seen here. What is late already waits for `hours`.
fn times_text(job: &Job, agents: Tz, hours: Hours, now: i64) -> String {
    let zone = job.zone(agents).unwrap_or(agents);
    let times: Vec<String> = next_times(job, zone, now)
        .into_iter()
        .map(|at| clock::local_text(at, zone))
        .collect();
    match job.next_at {
        Some(Time(at)) if at <= now => {
            let waits = jobs::due(job, agents, now, hours.contain(now, agents)) == Ok(None);
            match waits {
                true => format!(
                    "that time is past, so it runs at {}, when the active hours begin",
                    hours.start.format("%H:%M")
                ),
                false => "that time is past, so it runs now".to_owned(),
            }
        }
        Some(_) => format!("runs {}", times.join(", then ")),
        None => "it has no time left".to_owned(),
    }
}

fn next_times(job: &Job, agents: Tz, now: i64) -> Vec<i64> {
    jobs::Job::times(job, agents)
        .map(|times| times.times_after(now, SHOWN))
        .unwrap_or_default()
}

fn document(job: &Job, agents: Tz, now: i64) -> serde_json::Value {
    let mut document = job.document(agents);
    let times: Vec<String> = next_times(job, agents, now)
        .into_iter()
        .map(clock::rfc3339)
        .collect();
    document["next_times"] = times.into();
    document
}

impl Outcome {
    /// Returns it with what an order made of a job, for the caller.
    fn with_job(self, job: Option<serde_json::Value>) -> Self {
        self.mapped(|reply| Reply { job, ..reply })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_to_remove_that_comes_again_after_a_crash_has_removed_its_job_and_no_other() {
        let job = |id: &str, name: &str| {
            let ask = Ask {
                every: Some("1h".into()),
                name: Some(name.into()),
                text: "look".into(),
                ..Ask::default()
            };
            ask.job(id, Tz::UTC, 0).expect("a job")
        };
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("jobs.json");
        let order = |called: &str, input: &str| {
            let store = jobs::Store::new(&path);
            let made = store.change(|jobs| remove(jobs, called, input));
            made.expect("written").map(|(words, _)| words)
        };
        let store = jobs::Store::new(&path);
        let put = |jobs: &mut Jobs| [job("a", "b"), job("b", "c")].map(|job| jobs.put(job));
        store.change(put).expect("written");
        let removed = Ok("Job b removed.".to_owned());
        assert_eq!(order("b", "one"), removed);
        // The name of the other one is the id of that which is gone.
        assert_eq!(order("b", "one"), removed);
        let left = jobs::Store::new(&path).look().expect("read");
        assert_eq!(left.iter().count(), 1);
        assert_eq!(order("b", "two"), Ok("Job a removed.".to_owned()));
        assert_eq!(order("b", "three"), Err("no job \"b\"".to_owned()));
        for n in 0..40 {
            store
                .change(|jobs| jobs.put(job("z", "z")))
                .expect("written");
            order("z", &format!("more {n}")).expect("removed");
        }
        let bytes = std::fs::read(&path).expect("read");
        let file: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(file["removed"].as_array().map(Vec::len), Some(16));
    }

    #[test]
    fn only_what_waits_for_its_time_counts_and_the_oldest_that_is_over_makes_way() {
        let message = |id: &str| {
            let ask = Ask {
                at: Some("2026-03-02 09:00".into()),
                text: "hello".into(),
                literal: true,
                ..Ask::default()
            };
            ask.job(id, Tz::UTC, 0).expect("a job")
        };
        let failed = |id: &str, at: i64| Job {
            next_at: None,
            last_at: Some(Time(at)),
            last_status: Some(Status::Error),
            ..message(id)
        };
        let dir = tempfile::tempdir().expect("a directory");
        let store = jobs::Store::new(&dir.path().join("jobs.json"));
        let changed = store.change(|jobs| {
            (0..50).for_each(|n| jobs.put(failed(&format!("failed-{n}"), 100 - n)));
            for n in 0..50 {
                assert_eq!(make_room(jobs, &message("new")), Ok(()));
                jobs.put(message(&format!("waits-{n}")));
            }
            let why = make_room(jobs, &message("new")).expect_err("that is all");
            assert_eq!(why, "50 messages wait for their time already");
            (0..400).for_each(|n| jobs.put(failed(&format!("more-{n}"), 1000)));
            let other = Job {
                by: Some("1002".into()),
                ..message("new")
            };
            assert_eq!(make_room(jobs, &other), Ok(()));
            assert_eq!(jobs.iter().count(), 499);
            assert!(jobs.get("failed-49").is_none());
        });
        changed.expect("written");
    }

    #[test]
    fn what_is_late_outside_of_the_active_hours_is_said_to_run_when_they_begin() {
        let at = |time: &str| clock::parse_rfc3339(time).expect("a time");
        let hour = |hour| chrono::NaiveTime::from_hms_opt(hour, 0, 0).expect("a time");
        let hours = Hours {
            start: hour(8),
            end: hour(22),
        };
        let told = |now: &str, deliver: bool| {
            let ask = Ask {
                at: Some("2026-03-01 12:00".into()),
                text: "look".into(),
                deliver,
                ..Ask::default()
            };
            let job = ask.job("a", Tz::UTC, at("2026-03-01T11:00:00Z"));
            times_text(&job.expect("a job"), Tz::UTC, hours, at(now))
        };
        let now = "that time is past, so it runs now";
        assert_eq!(told("2026-03-01T15:00:00Z", true), now);
        assert_eq!(told("2026-03-01T23:00:00Z", false), now);
        assert_eq!(
            told("2026-03-01T23:00:00Z", true),
            "that time is past, so it runs at 08:00, when the active hours begin"
        );
    }

    #[test]
    fn a_line_gives_every_time_in_one_zone_and_names_it() {
        let now = clock::parse_rfc3339("2026-03-01T00:00:00Z").expect("a time");
        let line = |ask: Ask| {
            let ask = Ask {
                text: "look".into(),
                ..ask
            };
            super::line(
                &ask.job("a", Tz::Europe__Paris, now).expect("a job"),
                Tz::Europe__Paris,
            )
        };
        let once = Ask {
            at: Some("2026-03-02 09:00".into()),
            ..Ask::default()
        };
        assert_eq!(
            line(once),
            "`a` look (once): next Monday, 2026-03-02 09:00 CET"
        );
        let abroad = Ask {
            cron: Some("0 9 * * *".into()),
            tz: Some("Asia/Tokyo".into()),
            ..Ask::default()
        };
        assert_eq!(
            line(abroad),
            "`a` look (0 9 * * *, Asia/Tokyo): next Monday, 2026-03-02 09:00 JST"
        );
    }
}
