//! Decides what to do with a job now. Pure: the caller reads the file, the clock and the queue.

use chrono_tz::Tz;

use super::job::{Job, Missed, Overlap, Time};
use super::schedule::Schedule;

/// A run that begins later than this after its time was missed: nobody looked when it was time.
const LATE_MS: i64 = 60_000;
/// A machine whose clock shows less than what a job remembers, by more than this, does not know the time.
const BEHIND_MS: i64 = 60_000;
/// Missed times that are made up for at most, the newest; who sleeps a month is not to be woken by a thousand.
const MOST: usize = 100;

/// What is to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Due {
    /// Times that run now, oldest first.
    pub runs: Vec<i64>,
    /// Times that are left out, and why.
    pub skipped: Option<Skipped>,
    /// When it is time next; `None` when it never is.
    pub next_at: Option<i64>,
}

/// Times that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The last of them.
    pub at: i64,
    /// How many.
    pub count: u64,
    /// Why: lower case, no full stop.
    pub why: &'static str,
}

/// Why nothing can be done about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stuck {
    /// Its schedule makes no sense; in words.
    Schedule(String),
    /// The clock shows less than what the job remembers: it is wrong now, or was wrong then.
    Clock,
}

/// Returns what is to be done about `job` at `now`, for an agent whose zone is `zone`; `None` when that is nothing but to wait. `may_speak`
/// is false in hours in which nobody is told what is late already.
///
/// # Errors
/// When nothing can be done about it until somebody mends it.
pub fn due(job: &Job, zone: Tz, now: i64, may_speak: bool) -> Result<Option<Due>, Stuck> {
    if !job.enabled {
        return Ok(None);
    }
    let times = job.times(zone).map_err(Stuck::Schedule)?;
    if job.newest_time() > now + BEHIND_MS {
        return Err(Stuck::Clock);
    }
    // A schedule that was made denser by hand has an earlier time; what it remembers is never done again.
    let first = times.next_after(now.max(job.newest_time()));
    let is_next = |at: &Time| {
        first == Some(at.0) || first.is_none_or(|first| at.0 < first) && is_time(&times, at.0)
    };
    let before = due_before(job, zone, now);
    let is_due = |at: &Time| before.is_some() || is_next(at);
    let Some(Time(at)) = job.next_at.filter(is_due) else {
        // It is new, or its schedule was changed by hand; one that is over has no next time.
        let next_at = if job.last_at.is_some() {
            times.next_after(now)
        } else {
            job.first_after(now, zone).map_err(Stuck::Schedule)?
        };
        let is_news = next_at != job.next_at.map(|at| at.0);
        return Ok(is_news.then_some(Due {
            next_at,
            ..Due::default()
        }));
    };
    if at > now {
        return Ok(None);
    }
    let past = before.as_ref().unwrap_or(&times);
    let (missed, count) = past.missed(at - 1, now, MOST);
    let is_late = now - missed.last().copied().unwrap_or(at) > LATE_MS;
    if is_late && !may_speak && job.deliver && job.missed != Missed::Skip {
        return Ok(None);
    }
    let (runs, why) = match job.missed {
        // The newest is on time, whatever passed before it.
        _ if count == 1 && !is_late => (missed, ""),
        Missed::All => (missed, "more were missed than are made up for"),
        Missed::Once => (
            missed.last().copied().into_iter().collect(),
            "missed; one run makes up for all",
        ),
        Missed::Skip if !is_late => (missed.last().copied().into_iter().collect(), "missed"),
        Missed::Skip => (Vec::new(), "missed"),
    };
    let next_at = times.next_after(now);
    if let Some(last) = runs.last().copied()
        && job.overlap == Overlap::Skip
        && !job.running.is_empty()
    {
        let skipped = Skipped {
            at: last,
            count,
            why: "the run before it has not ended",
        };
        return Ok(Some(Due {
            runs: Vec::new(),
            skipped: Some(skipped),
            next_at,
        }));
    }
    let left_out = count.saturating_sub(u64::try_from(runs.len()).unwrap_or(u64::MAX));
    let skipped = (left_out > 0).then(|| {
        // The last of all, or the one before the first that runs.
        let until = runs.first().map_or(now, |first| first - 1);
        let last = past.missed(at - 1, until, 1).0.last().copied();
        Skipped {
            at: last.unwrap_or(at),
            count: left_out,
            why,
        }
    });
    Ok(Some(Due {
        runs,
        skipped,
        next_at,
    }))
}

/// Returns the times by which `job` was due before the agent had another zone: what was due by then is done.
fn due_before(job: &Job, zone: Tz, now: i64) -> Option<Schedule> {
    let at = job.next_at.map(|at| at.0)?;
    let before = job.times_before(zone)?;
    (at <= now && at > job.newest_time() && is_time(&before, at)).then_some(before)
}

fn is_time(times: &Schedule, at: i64) -> bool {
    times.next_after(at - 1) == Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{parse_rfc3339, rfc3339};
    use crate::jobs::Ask;

    fn at(text: &str) -> i64 {
        parse_rfc3339(text).expect("a time")
    }

    fn daily() -> Job {
        let ask = Ask {
            cron: Some("0 9 * * *".into()),
            text: "look".into(),
            deliver: true,
            ..Ask::default()
        };
        ask.job("a", Tz::UTC, at("2026-03-01T00:00:00Z"))
            .expect("a job")
    }

    /// `runs/left out (how many)/next`.
    fn told(due: Result<Option<Due>, Stuck>) -> String {
        let Some(due) = due.expect("not stuck") else {
            return "wait".to_owned();
        };
        let day = |at: &i64| rfc3339(*at).chars().skip(5).take(11).collect::<String>();
        let runs: Vec<String> = due.runs.iter().map(day).collect();
        let skipped = due.skipped.map_or_else(String::new, |skipped| {
            format!("{} ({})", day(&skipped.at), skipped.count)
        });
        format!(
            "{}/{skipped}/{}",
            runs.join(" "),
            due.next_at
                .map_or_else(|| "never".to_owned(), |at| day(&at))
        )
    }

    #[test]
    fn a_time_runs_once_it_is_there_and_the_next_one_is_known() {
        let job = daily();
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-03-01T08:59:59Z"), true)),
            "wait"
        );
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-03-01T09:00:00Z"), true)),
            "03-01T09:00//03-02T09:00"
        );
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-03-01T09:01:00Z"), false)),
            "03-01T09:00//03-02T09:00"
        );
        assert_eq!(
            told(due(
                &Job {
                    enabled: false,
                    ..job
                },
                Tz::UTC,
                at("2026-03-01T09:00:00Z"),
                true
            )),
            "wait"
        );
    }

    #[test]
    fn a_schedule_that_was_made_denser_by_hand_has_its_next_time_at_once() {
        let mut job = daily();
        job.last_at = Some(Time(at("2026-03-01T09:00:00Z")));
        // It was weekly: the next time is one of both schedules.
        job.next_at = Some(Time(at("2026-03-08T09:00:00Z")));
        let now = at("2026-03-01T10:00:00Z");
        assert_eq!(told(due(&job, Tz::UTC, now, true)), "//03-02T09:00");
        // A clock that was set back a little does nothing again.
        job.next_at = Some(Time(at("2026-03-02T09:00:00Z")));
        let back = at("2026-03-01T08:59:59Z");
        assert_eq!(told(due(&job, Tz::UTC, back, true)), "wait");
    }

    #[test]
    fn what_was_missed_is_made_up_for_as_the_job_says() {
        let check = |missed, now: &str, expected: &str| {
            assert_eq!(
                told(due(&Job { missed, ..daily() }, Tz::UTC, at(now), true)),
                expected,
                "{missed:?} {now}"
            );
        };
        let four_days_later = "2026-03-05T08:00:00Z";
        check(
            Missed::Once,
            four_days_later,
            "03-04T09:00/03-03T09:00 (3)/03-05T09:00",
        );
        check(
            Missed::Skip,
            four_days_later,
            "/03-04T09:00 (4)/03-05T09:00",
        );
        check(
            Missed::All,
            four_days_later,
            "03-01T09:00 03-02T09:00 03-03T09:00 03-04T09:00//03-05T09:00",
        );
        // The newest is on time.
        check(
            Missed::Skip,
            "2026-03-05T09:00:01Z",
            "03-05T09:00/03-04T09:00 (4)/03-06T09:00",
        );
        check(
            Missed::Once,
            "2026-03-05T09:00:01Z",
            "03-05T09:00/03-04T09:00 (4)/03-06T09:00",
        );
        let all = Job {
            missed: Missed::All,
            ..daily()
        };
        let far = due(&all, Tz::UTC, at("2027-03-05T08:00:00Z"), true)
            .expect("not stuck")
            .expect("due");
        assert_eq!(
            (far.runs.len(), far.skipped.map(|skipped| skipped.count)),
            (MOST, Some(269))
        );
    }

    #[test]
    fn what_is_late_waits_for_an_hour_in_which_people_are_told() {
        let job = daily();
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-03-02T03:00:00Z"), false)),
            "wait"
        );
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-03-02T08:00:00Z"), true)),
            "03-01T09:00//03-02T09:00"
        );
        // Nobody learns of this one, and this one is never made up for.
        assert_eq!(
            told(due(
                &Job {
                    deliver: false,
                    ..job.clone()
                },
                Tz::UTC,
                at("2026-03-02T03:00:00Z"),
                false
            )),
            "03-01T09:00//03-02T09:00"
        );
        let skip = Job {
            missed: Missed::Skip,
            ..job
        };
        assert_eq!(
            told(due(&skip, Tz::UTC, at("2026-03-02T03:00:00Z"), false)),
            "/03-01T09:00 (1)/03-02T09:00"
        );
    }

    #[test]
    fn a_time_at_which_the_job_still_runs_is_left_out_or_queued() {
        let running = Job {
            running: vec![Time(at("2026-02-28T09:00:00Z"))],
            ..daily()
        };
        let now = at("2026-03-01T09:00:00Z");
        assert_eq!(
            told(due(&running, Tz::UTC, now, true)),
            "/03-01T09:00 (1)/03-02T09:00"
        );
        assert_eq!(
            told(due(
                &Job {
                    overlap: Overlap::Queue,
                    ..running
                },
                Tz::UTC,
                now,
                true
            )),
            "03-01T09:00//03-02T09:00"
        );
    }

    #[test]
    fn a_schedule_that_was_changed_by_hand_counts_from_now() {
        let job = Job {
            schedule: crate::jobs::When::Cron("30 10 * * *".into()),
            ..daily()
        };
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-03-05T08:00:00Z"), true)),
            "//03-05T10:30"
        );
        let broken = Job {
            schedule: crate::jobs::When::Cron("30 25 * * *".into()),
            ..daily()
        };
        assert!(matches!(
            due(&broken, Tz::UTC, at("2026-03-05T08:00:00Z"), true),
            Err(Stuck::Schedule(_))
        ));
    }

    #[test]
    fn a_job_without_a_zone_goes_by_that_of_the_agent_whichever_it_is_now() {
        let own = Job {
            tz: Some("UTC".into()),
            ..daily()
        };
        let now = at("2026-03-01T00:00:00Z");
        let check = |job: &Job, zone, expected| {
            assert_eq!(told(due(job, zone, now, true)), expected, "{zone}");
        };
        assert_eq!(daily().tz, None, "nobody asked for one");
        check(&daily(), Tz::UTC, "wait");
        check(&daily(), Tz::America__New_York, "//03-01T14:00");
        check(&own, Tz::America__New_York, "wait");
    }

    #[test]
    fn what_was_due_before_the_agent_changed_its_zone_still_runs() {
        let (noon, york) = (at("2026-03-01T12:00:00Z"), Tz::America__New_York);
        // Nobody looked at nine; at noon the agent is in New York, where nine is to come.
        assert_eq!(
            told(due(&daily(), york, noon, true)),
            "03-01T09:00//03-01T14:00"
        );
        // Once: by then its next time is one of there.
        let mut job = daily();
        job.last_at = job.next_at;
        job.set_next(Some(at("2026-03-01T14:00:00Z")), york);
        assert_eq!(told(due(&job, york, noon, true)), "wait");
        // By hand it was changed as well.
        let job = Job {
            schedule: crate::jobs::When::Cron("30 10 * * *".into()),
            ..daily()
        };
        assert_eq!(told(due(&job, york, noon, true)), "//03-01T15:30");
    }

    #[test]
    fn a_single_time_that_is_past_runs_once_and_never_again() {
        let ask = Ask {
            at: Some("2026-02-01T09:00:00Z".into()),
            text: "look".into(),
            ..Ask::default()
        };
        let job = ask
            .job("a", Tz::UTC, at("2026-03-01T00:00:00Z"))
            .expect("a job");
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-03-01T00:00:05Z"), true)),
            "02-01T09:00//never"
        );
        let ran = Job {
            last_at: job.next_at,
            next_at: None,
            ..job
        };
        assert_eq!(
            told(due(&ran, Tz::UTC, at("2026-03-01T00:00:10Z"), true)),
            "wait"
        );
    }

    #[test]
    fn a_machine_without_a_clock_runs_nothing() {
        let job = daily();
        assert_eq!(
            due(&job, Tz::UTC, at("1970-01-01T00:00:10Z"), true),
            Err(Stuck::Clock)
        );
        assert_eq!(
            told(due(&job, Tz::UTC, at("2026-02-28T23:59:30Z"), true)),
            "wait"
        );
        let ran = Job {
            last_at: Some(Time(at("2026-06-01T09:00:00Z"))),
            ..job
        };
        assert_eq!(
            due(&ran, Tz::UTC, at("2026-05-01T00:00:00Z"), true),
            Err(Stuck::Clock)
        );
    }
}
