//! Due jobs and heartbeats become inputs like any other.
//!
//! ```text
//! jobs.json: next_at passes, the time is in `running`          (1) on the disk
//! queue.db:  key job:<id>:<time> and its inbox row             (2) one transaction, never twice
//! … lanes → turn → outbox …
//! runs/<id>.jsonl, then jobs.json: the time leaves `running`   (3)
//! ```
//! After a crash behind (1) the time is in `running`, and is claimed; after a crash behind (2) its row is there. So a due time
//! is never lost, and never runs twice.

mod commands;
mod heartbeat;
mod job_input;
mod leftovers;

pub use heartbeat::{heartbeat, least_usd, waking};

use chrono_tz::Tz;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Moment;
use crate::config::Config;
use crate::control::replies::{Reply, Status as Answered};
use crate::jobs;
use crate::jobs::heartbeat_gate::{Hours, slot};
use crate::jobs::{Due, Job, Jobs, Missed, Skipped, Status, Stuck, Time, When, run_log};
use crate::pipeline::{Live, Pipeline};
use crate::queue::Progress;
use crate::sys::clock_check::{self, Reading};
use crate::{clock, sys, text};

/// The jobs are looked at this often, whatever their times are: a clock may jump, a machine may sleep, and
/// somebody may write into the file.
const LOOK_MS: i64 = 5_000;
/// What a job remembers of later than so is from a clock that was ahead; what is less waits until it is there. The second is
/// for a clock that was seen to be set back.
const AHEAD_MS: i64 = 24 * 3_600_000;
const SET_BACK_MS: i64 = 3_600_000;
/// A clock that is behind at the start is set by then, where something sets it.
const SETTLED: Duration = Duration::from_secs(120);
/// Characters of an answer that are in the log of a job.
const REPLY: usize = 500;

/// What is done at its times.
pub(crate) struct Schedule {
    /// The jobs.
    pub(crate) jobs: jobs::Store,
    /// Where it is written down what came of them.
    pub(crate) runs: std::path::PathBuf,
    /// Told when a job was changed, or one of its runs ended.
    pub(crate) news: Notify,
    /// One look at a time: a second one would find a run that the first has put down and not claimed yet.
    looking: tokio::sync::Mutex<()>,
    /// When a heartbeat was thought of last.
    beat: Mutex<heartbeat::Beat>,
    /// What was said in the log already, so that it is said once.
    told: Mutex<BTreeSet<String>>,
    /// Since when there is it.
    since: Moment,
    /// The newest time of jobs that wait for the clock and that the owner was told of.
    told_waiting: Mutex<Option<i64>>,
}

impl Schedule {
    /// Returns the jobs of the file `jobs`, whose logs are in the directory `runs`, at the start of a daemon with
    /// these settings.
    pub(crate) fn new(jobs: &std::path::Path, runs: std::path::PathBuf, config: &Config) -> Self {
        let now = clock::now_ms();
        let now_slot = slot(now, config.heartbeat.every.0, config.agent.timezone.0);
        Self {
            jobs: jobs::Store::new(jobs),
            runs,
            news: Notify::new(),
            looking: tokio::sync::Mutex::default(),
            beat: Mutex::new(heartbeat::Beat::at_start(now_slot, now)),
            told: Mutex::default(),
            since: Moment::now(),
            told_waiting: Mutex::default(),
        }
    }

    /// Returns true when `trouble` was not told of yet.
    fn is_news(&self, trouble: &str) -> bool {
        self.told.lock().insert(trouble.to_owned())
    }

    /// Forgets what was told and is not one of `troubles` any more, and returns it.
    fn forget_told(&self, troubles: &BTreeSet<String>) -> Vec<String> {
        let mut told = self.told.lock();
        let over = told.difference(troubles).cloned().collect();
        told.retain(|told| troubles.contains(told));
        over
    }
}

/// Returns what a person knows a job by, and its id: `Backup (7a31b049)`.
fn called(job: &Job) -> String {
    match job.name.trim() {
        "" => job.id.clone(),
        name => format!("{} ({})", text::visible(&text::shorten(name, 60)), job.id),
    }
}

/// What a look at the jobs found.
#[derive(Default)]
struct Look {
    /// Times that were left out, by job.
    skipped: Vec<(String, Skipped)>,
    /// What is wrong, in words for the log and the status.
    troubles: BTreeSet<String>,
    /// The next time of any job.
    next_at: Option<i64>,
    /// Jobs of a clock that was ahead, which continue from now.
    brought_back: Vec<String>,
    /// Jobs that wait until the clock shows what they remember, hours or days ahead, and the newest of these times.
    waiting: Vec<String>,
    waiting_until: i64,
}

impl Pipeline {
    /// Does what is due at `now` (milliseconds since 1970 UTC) and returns when to look again at the latest.
    pub async fn tick(self: &Arc<Self>, now: i64) -> i64 {
        let _alone = self.schedule.looking.lock().await;
        let live = self.live();
        if let Err(error) = self.note_people().await {
            tracing::debug!(%error, "people.json cannot be read");
        }
        let looked = self.look_at_jobs(&live, now).await;
        let next_job = match looked {
            Ok(next) => next,
            Err(error) => {
                let trouble = format!("the jobs cannot be read: {error}");
                if self.schedule.is_news(&trouble) {
                    tracing::error!("{trouble}");
                    self.note_trouble_of(&trouble, &trouble);
                }
                None
            }
        };
        let next_beat = self.beat(&live, now).await;
        let soon = now + LOOK_MS;
        [next_job, next_beat]
            .into_iter()
            .flatten()
            .fold(soon, i64::min)
            .max(now + 100)
    }

    async fn look_at_jobs(
        self: &Arc<Self>,
        live: &Arc<Live>,
        now: i64,
    ) -> Result<Option<i64>, sys::Error> {
        let jobs = self.schedule.jobs.look()?;
        if jobs.iter().any(|job| !job.running.is_empty()) {
            // What ended may have freed a job.
            self.settle_runs(now).await?;
        }
        let (reading, zone) = (clock_check::read(now), live.config.agent.timezone.0);
        let may_speak = hours(live).contain(now, zone);
        let model = system_model(live);
        // One run of a job that lets missed times go begins at its time and waits in its turn: the daemon was there.
        let waits = |job: &Job| {
            // A reminder is taken in nevertheless: its words are sent while it waits.
            !job.literal
                && !job.is_reminder()
                && (job.missed != Missed::Skip || !job.running.is_empty())
                && live
                    .agent
                    .client()
                    .is_down(job.model.as_deref().unwrap_or(&model))
        };
        let known = self.schedule.jobs.look()?;
        let mut jobs = known.clone();
        let ahead = if clock_check::was_set_back() {
            SET_BACK_MS
        } else {
            AHEAD_MS
        };
        let view = (now, zone, reading, ahead);
        let mut look = plan(&mut jobs, view, may_speak, &waits);
        // Nothing is written when nothing is due: this is what an idle day does.
        if jobs != known {
            let change = || {
                self.schedule
                    .jobs
                    .change(|jobs| plan(jobs, view, may_speak, &waits))
            };
            look = tokio::task::block_in_place(change)?;
            self.tell_brought_back(&look.brought_back, now).await;
            for (id, skipped) in &look.skipped {
                self.note_skipped(id, skipped, now)?;
            }
            self.settle_runs(now).await?;
        }
        if reading == Reading::Plausible {
            self.tell_who_waits(&look, now).await;
        }
        if let Some(words) = self.schedule.jobs.aside() {
            if self.schedule.jobs.is_aside_news() {
                self.warn_owner("jobs-aside", &words, now).await;
            }
            look.troubles.insert(words);
        }
        for trouble in look
            .troubles
            .iter()
            .filter(|trouble| self.schedule.is_news(trouble))
        {
            tracing::error!("{trouble}");
            self.note_trouble_of(trouble, trouble);
        }
        for over in self.schedule.forget_told(&look.troubles) {
            self.end_troubles(&over);
        }
        Ok(look.next_at)
    }

    /// Tells the owner once which jobs continue from `now`, because a clock that was ahead had moved them.
    async fn tell_brought_back(self: &Arc<Self>, names: &[String], now: i64) {
        if names.is_empty() {
            return;
        }
        let words = format!(
            "the clock had been ahead; jobs that it had moved run at their own times again from now on: {}",
            names.join(", ")
        );
        tracing::warn!("{words}");
        self.note_trouble(&words);
        self.warn_owner("clock", &words, now).await;
    }

    /// Tells the owner once which jobs are silent because the clock shows less than they remember.
    async fn tell_who_waits(self: &Arc<Self>, look: &Look, now: i64) {
        let until = look.waiting_until;
        let is_settled = Moment::now().since(self.schedule.since) > SETTLED;
        if look.waiting.is_empty() || !is_settled {
            return;
        }
        if self.schedule.told_waiting.lock().replace(until) == Some(until) {
            return;
        }
        let zone = self.live().config.agent.timezone.0;
        let words = format!(
            "the clock shows {} and was ahead before, so these jobs wait until it shows {}: {}. If it is right now: \
             agent-send --job resume ID",
            clock::local_stamp(now, zone),
            clock::local_stamp(until, zone),
            look.waiting.join(", ")
        );
        tracing::warn!("{words}");
        // By that time: a restart does not tell it again.
        self.warn_owner("job-clock", &words, until).await;
    }

    async fn warn_owner(self: &Arc<Self>, of: &str, words: &str, now: i64) {
        let key = format!("{of}:{now}");
        if let Err(error) = self.tell_owner_of(key, "jobs", words).await {
            tracing::warn!(%error, "cannot notify the owner");
        }
    }

    /// Says which jobs keep another zone than that of the agent, which is another one than before.
    pub(in crate::pipeline) fn note_other_zones(&self, zone: Tz) {
        let Ok(jobs) = self.schedule.jobs.look() else {
            return;
        };
        let keeps = |job: &&Job| job.tz.as_deref().is_some_and(|own| own != zone.name());
        let kept: Vec<String> = jobs
            .iter()
            .filter(|job| matches!(job.schedule, When::Cron(_)))
            .filter(keeps)
            .map(|job| format!("{} ({})", job.id, job.tz.as_deref().unwrap_or_default()))
            .collect();
        if kept.is_empty() {
            return;
        }
        let words = format!(
            "the timezone is {zone} now, and these jobs keep their own: {}; to give one that of the agent, remove its \"tz\" in state/cron/jobs.json",
            text::visible(&text::shorten(&kept.join(", "), 1000))
        );
        tracing::warn!("{words}");
        self.note_trouble(&words);
    }

    fn note_skipped(&self, id: &str, skipped: &Skipped, now: i64) -> Result<(), sys::Error> {
        let Skipped { at, count, why } = skipped;
        tracing::warn!(job = id, at = clock::rfc3339(*at), count, "left out: {why}");
        let run = run_log::Run {
            count: Some(*count),
            reason: Some((*why).to_owned()),
            ..run_log::Run::new(*at, Status::Skipped, now)
        };
        run_log::note(&self.schedule.runs, id, &run)
    }

    /// Returns the job whose run is the input `id`.
    pub(in crate::pipeline) fn job_of_run(&self, id: &str) -> Option<Job> {
        let jobs = self.schedule.jobs.look().ok()?;
        let is_of = |job: &&Job| job.running.iter().any(|at| job.key_of_run(at.0) == id);
        jobs.iter().find(is_of).cloned()
    }

    /// Claims what is to run and has no row yet, and writes down what ended.
    async fn settle_runs(self: &Arc<Self>, now: i64) -> Result<(), sys::Error> {
        let jobs = self.schedule.jobs.look()?;
        let open: Vec<(Job, Time)> = jobs
            .iter()
            .flat_map(|job| job.running.iter().map(|at| (job.clone(), *at)))
            .collect();
        let keys: Vec<String> = open.iter().map(|(job, at)| job.key_of_run(at.0)).collect();
        // A queue that cannot be read now is asked again at the next look.
        let Ok(progress) = self.queue.progress_of(keys).await else {
            return Ok(());
        };
        let mut ended = Vec::new();
        for ((job, at), progress) in open.into_iter().zip(progress) {
            let run = match progress {
                Some(progress) => ended_run(at.0, &progress),
                None => match self.claim(&job, at.0, now).await {
                    Claim::Done | Claim::NotNow => None,
                    Claim::Gone => {
                        let reason = Some(
                            "what became of it is not known: its row is gone from queue.db"
                                .to_owned(),
                        );
                        Some(run_log::Run {
                            reason,
                            ..run_log::Run::new(at.0, Status::Error, now)
                        })
                    }
                },
            };
            ended.extend(run.map(|run| (job.id, run)));
        }
        if ended.is_empty() {
            return Ok(());
        }
        for (id, run) in &ended {
            run_log::note(&self.schedule.runs, id, run)?;
        }
        self.schedule.jobs.change(|jobs| {
            for (id, run) in &ended {
                let Some(job) = jobs.get_mut(id) else {
                    continue;
                };
                job.end_run(run.at);
                job.last_status = Some(if job.running.is_empty() {
                    run.status
                } else {
                    Status::Running
                });
                job.last_error = run.reason.clone();
                // What failed stays, to be seen.
                let is_over = job.running.is_empty() && job.next_at.is_none();
                if is_over && job.delete_after_run && run.status == Status::Ok {
                    jobs.remove(id);
                }
            }
        })
    }

    /// Makes a time of a job an input: one transaction, by a key that is never taken twice.
    async fn claim(self: &Arc<Self>, job: &Job, at: i64, now: i64) -> Claim {
        let Some(envelope) = self.input_of(job, at, now).await else {
            return Claim::NotNow;
        };
        match self.accept_once(envelope).await {
            Ok(true) => Claim::Done,
            Ok(false) => Claim::Gone,
            Err(error) => {
                tracing::error!(%error, job = job.id, "cannot start a job; retrying");
                Claim::NotNow
            }
        }
    }
}

/// What became of a claim.
enum Claim {
    Done,
    /// It was claimed before, and its row is gone.
    Gone,
    NotNow,
}

/// Puts into `jobs` what is to be done about each at `now`.
fn plan(
    jobs: &mut Jobs,
    (now, zone, reading, ahead_ms): (i64, Tz, Reading, i64),
    may_speak: bool,
    waits: &dyn Fn(&Job) -> bool,
) -> Look {
    let mut look = Look::default();
    if let Reading::Ahead { known_at } = reading {
        look.troubles.insert(format!(
            "the clock shows {} and nothing confirms it: by what was known it is {}. Nothing old is deleted and reminders of \
             before wait, until the clock is right or synchronised, or the daemon ran for a day",
            clock::local_date(now, zone),
            clock::local_date(known_at, zone)
        ));
    }
    for broken in jobs.broken() {
        look.troubles.insert(format!(
            "cron/jobs.json: the entry {} is invalid: {}",
            broken.id, broken.why
        ));
    }
    for job in jobs.iter().filter(|job| !job.rest.is_empty()) {
        let keys: Vec<&String> = job.rest.keys().collect();
        look.troubles.insert(text::visible(&format!(
            "cron/jobs.json: the job {} runs without its unknown keys: {keys:?}",
            job.id
        )));
    }
    for job in jobs.iter_mut() {
        let is_ahead = job.newest_time() > now.saturating_add(ahead_ms);
        if job.enabled
            && reading == Reading::Plausible
            && is_ahead
            && job.go_on_from(now, zone).is_ok()
        {
            look.brought_back.push(called(job));
        }
        match jobs::due(job, zone, now, may_speak) {
            Ok(None) => {}
            Ok(Some(_)) if is_still_to_come(job, reading) => {}
            Ok(Some(due)) if !due.runs.is_empty() && waits(job) => {}
            Ok(Some(Due {
                runs,
                skipped,
                next_at,
            })) => {
                let last = runs
                    .last()
                    .copied()
                    .or(skipped.as_ref().map(|skipped| skipped.at));
                job.last_at = last.map(Time).or(job.last_at);
                job.set_next(next_at, zone);
                if !runs.is_empty() {
                    (job.last_status, job.last_error) = (Some(Status::Running), None);
                } else if skipped.is_some() && job.running.is_empty() {
                    job.last_status = Some(Status::Skipped);
                }
                job.running.extend(runs.into_iter().map(Time));
                look.skipped
                    .extend(skipped.map(|skipped| (job.id.clone(), skipped)));
            }
            Err(Stuck::Schedule(why)) => {
                let why = text::visible(&why);
                look.troubles
                    .insert(format!("the job {} cannot run: {why}", job.id));
                (job.next_at, job.last_status, job.last_error) =
                    (None, Some(Status::Error), Some(why));
            }
            Err(Stuck::Clock) => {
                if job.newest_time() > now.saturating_add(SET_BACK_MS) {
                    look.waiting.push(called(job));
                    look.waiting_until = look.waiting_until.max(job.newest_time());
                }
                look.troubles.insert(format!(
                    "the job {} waits: it remembers a later time than the clock shows; if the clock is right: agent-send --job resume {}",
                    job.id, job.id
                ));
            }
        }
        if job.enabled {
            // A job that waits for something else than its time is checked again and again.
            let next_at = job.next_at.map(|at| at.0).filter(|at| *at > now);
            look.next_at = [look.next_at, next_at].into_iter().flatten().min();
        }
    }
    look
}

/// Returns whether `job` is due only by a clock that is doubted. A run that was too early cannot be taken back, and one
/// that comes again continues at its times.
fn is_still_to_come(job: &Job, reading: Reading) -> bool {
    let Reading::Ahead { known_at } = reading else {
        return false;
    };
    // One that was made by that clock goes by it.
    matches!(job.schedule, When::At(_))
        && job.created_at.0 <= known_at
        && job.next_at.is_some_and(|at| at.0 > known_at)
}

/// Returns the log entry of a run that has ended; `None` while it is running.
fn ended_run(at: i64, progress: &Progress) -> Option<run_log::Run> {
    let ended_at = progress
        .finished_at
        .filter(|_| ["done", "dead"].contains(&progress.state.as_str()))?;
    let result: Option<&Reply> = progress.result.as_ref();
    let failed = result
        .filter(|reply| reply.status == Answered::Error)
        .and_then(|reply| reply.error.clone());
    let reason = progress.reason.clone().or(failed);
    Some(run_log::Run {
        duration_ms: Some(ended_at - progress.received_at),
        run_id: progress.run_id.clone(),
        session_id: result.and_then(|reply| reply.session_id.clone()),
        cost_usd: result.and_then(|reply| reply.cost_usd),
        tokens: result.and_then(|reply| reply.tokens),
        reply: result
            .and_then(|reply| reply.reply.as_deref())
            .map(|reply| text::shorten(reply, REPLY)),
        reason: reason.clone(),
        ..run_log::Run::new(
            at,
            if reason.is_none() {
                Status::Ok
            } else {
                Status::Error
            },
            ended_at,
        )
    })
}

/// Returns the hours in which people are spoken to unasked.
fn hours(live: &Live) -> Hours {
    Hours::of(&live.config.heartbeat)
}

/// Returns the model of events.
fn system_model(live: &Live) -> String {
    let model = live.agent.client().models().for_role("system");
    model.map_or_else(|| "primary".to_owned(), |model| model.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::Ask;

    #[test]
    fn what_a_clock_ran_ahead_waits_and_is_named_or_is_brought_back_when_it_was_seen_to_go_back() {
        let now = clock::parse_rfc3339("2026-03-01T10:00:30Z").expect("a time");
        let ask = Ask {
            cron: Some("* * * * *".into()),
            text: "look".into(),
            ..Ask::default()
        };
        let mut job = ask.job("a", Tz::UTC, now).expect("a job");
        let ahead = now + 8 * SET_BACK_MS;
        job.last_at = Some(Time(ahead));
        job.next_at = Some(Time(ahead + 30_000));
        let look = |ahead_ms| {
            let mut jobs = Jobs::default();
            jobs.put(job.clone());
            let view = (now, Tz::UTC, Reading::Plausible, ahead_ms);
            let look = plan(&mut jobs, view, true, &|_| false);
            let next = jobs.get("a").and_then(|job| job.next_at);
            (look.waiting, look.waiting_until, look.brought_back, next)
        };
        let name = || vec!["look (a)".to_owned()];
        assert_eq!(look(AHEAD_MS), (name(), ahead, vec![], job.next_at));
        let next = Some(Time(now + 30_000));
        assert_eq!(look(SET_BACK_MS), (vec![], 0, name(), next));
    }
}
