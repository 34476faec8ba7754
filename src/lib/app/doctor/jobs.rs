//! Checks whether the jobs can be read, are valid, and succeeded.

use super::Finding;
use super::context::{DoctorContext, quote};
use crate::jobs;
use crate::jobs::{Status, Stuck};
use crate::{clock, text};

/// Jobs of one kind that are told; more would hide the others.
const MOST: usize = 10;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let path = context.home.jobs();
    let edit = || context.edit(&path, None);
    let known = match jobs::read(&path) {
        Ok(known) => known,
        Err(error) => {
            return vec![Finding::warning(
                "jobs-unreadable",
                text::visible(&error.to_string()),
                edit(),
            )];
        }
    };
    let broken = known.broken().map(|broken| {
        let evidence = format!(
            "the entry {} of cron/jobs.json makes no sense: {}",
            broken.id, broken.why
        );
        Finding::warning("job-broken", text::visible(&evidence), edit())
    });
    let (now, loaded) = (clock::now_ms(), context.settings.as_ref().ok());
    let zone = loaded.map_or(chrono_tz::UTC, |loaded| loaded.config.agent.timezone.0);
    let stuck = known
        .iter()
        .filter_map(|job| match jobs::due(job, zone, now, true) {
            Err(Stuck::Clock) => {
                let evidence = format!(
                    "the job {} remembers a later time than the clock shows, and waits",
                    job.id
                );
                Some(Finding::warning(
                    "job-clock",
                    evidence,
                    context.program("agent-send", &format!("--job resume {}", quote(&job.id))),
                ))
            }
            Err(Stuck::Schedule(why)) => Some(Finding::warning(
                "job-broken",
                text::visible(&format!("the job {} cannot run: {why}", job.id)),
                edit(),
            )),
            Ok(_) if job.last_status == Some(Status::Error) => {
                let why = job.last_error.as_deref().unwrap_or("for no known reason");
                let evidence = format!(
                    "the last run of the job {} failed: {}",
                    job.id,
                    text::shorten(why, 300)
                );
                Some(Finding::warning(
                    "job-failed",
                    text::visible(&evidence),
                    context.program("agent-send", "--job list"),
                ))
            }
            Ok(_) => None,
        });
    broken.take(MOST).chain(stuck.take(MOST)).collect()
}
