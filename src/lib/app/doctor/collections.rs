//! Checks whether the collections can be searched, and are complete.

use std::time::Duration;

use super::Finding;
use super::context::DoctorContext;
use crate::clock;
use crate::config::{Loaded, Secrets};
use crate::memory::collections;
use crate::memory::collections::{Fill, Status};

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A fill that began so long ago and has not ended was killed.
const LONGEST_FILL_MS: i64 = 24 * HOUR_MS;
/// Fills from which on there is a rhythm: before, somebody may have tried it by hand.
const REGULAR: i64 = 5;
/// A fill is old after so many of its usual pauses, and not before so long: a machine may be off over a weekend.
const MISSED: i64 = 5;
const OLD_MS: i64 = 3 * 24 * HOUR_MS;
const HOUR_MS: i64 = 3_600_000;
/// Clocks that differ by so much make days wrong.
const MAX_SKEW_MS: i64 = 60_000;

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let settings = &loaded.config.memory.collections;
    if settings.is_empty() {
        return Vec::new();
    }
    let Ok(secrets) = Secrets::open(&context.home, &context.env) else {
        return Vec::new();
    };
    let findings = settings.keys().flat_map(|name| {
        let status = collections::open(name, settings, &secrets, PATIENCE)
            .and_then(|mut store| store.status());
        match status {
            Ok(status) => of(context, &status, clock::now_ms()),
            Err(error) => {
                let evidence = format!("{error}; {}", error.hint());
                let look = context.program("agent-index", &format!("status --collection {name}"));
                vec![Finding::warning(
                    "collection-unusable",
                    crate::text::visible(&evidence),
                    look,
                )]
            }
        }
    });
    findings.collect()
}

fn of(context: &DoctorContext, status: &Status, now: i64) -> Vec<Finding> {
    let name = &status.collection;
    let look = || context.program("agent-index", &format!("status --collection {name}"));
    let mut findings = Vec::new();
    for (id, what, fill) in status
        .fills
        .iter()
        .filter_map(|fill| fault(fill, now).map(|(id, what)| (id, what, fill)))
    {
        let evidence = format!(
            "collection {name}: of {} on {} {what}; fill it again there",
            fill.directory, fill.host
        );
        findings.push(Finding::warning(
            id,
            crate::text::visible(&evidence),
            look(),
        ));
    }
    let lacking = match (&status.pgvector, &status.model) {
        (None, _) => Some("the database no longer has pgvector: CREATE EXTENSION vector"),
        (_, Some(_)) if !status.vector_index => Some(
            "its vectors have no index (HNSW), and each search compares all: they have more than 4,000 numbers, or the index vectors_near is gone",
        ),
        _ => None,
    };
    if let Some(lacking) = lacking {
        let evidence = format!("collection {name}: {lacking}");
        findings.push(Finding::warning("collection-slow", evidence, look()));
    }
    if status.skew_ms.abs() > MAX_SKEW_MS {
        let evidence = format!(
            "the clock of this machine is {} s off that of the server of the collection {name}",
            status.skew_ms / 1_000
        );
        findings.push(Finding::warning(
            "collection-clock",
            evidence,
            "timedatectl",
        ));
    }
    findings
}

/// Returns what is wrong with what a host filled in: the id of the finding, and what is said of it.
fn fault(fill: &Fill, now: i64) -> Option<(&'static str, String)> {
    let began = chrono::DateTime::parse_from_rfc3339(&fill.began_at);
    let age = now - began.map_or(now, |at| at.timestamp_millis());
    let began_at = &fill.began_at;
    if fill.ended_at.is_none() && age > LONGEST_FILL_MS {
        let what = format!("the fill that began at {began_at} has not come to its end");
        return Some(("collection-incomplete", what));
    }
    if !fill.lacking.is_empty() {
        let what = format!("vectors are missing: {}", fill.lacking);
        return Some(("collection-incomplete", what));
    }
    let is_regular = fill.times >= REGULAR;
    (is_regular && age > OLD_MS.max(fill.pause_ms * MISSED)).then(|| {
        let hours = fill.pause_ms / HOUR_MS;
        let usual = match hours {
            0 => "more than once an hour".to_owned(),
            hours => format!("every {hours} h"),
        };
        let what = format!(
            "the last fill was at {began_at}, and there was one {usual} before: does its timer run?"
        );
        ("collection-old", what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: i64 = 24 * HOUR_MS;

    #[test]
    fn a_regular_fill_that_stays_away_is_told_and_no_other() {
        let check = |(times, pause_ms, age_ms): (i64, i64, i64), expected: Option<&str>| {
            let fill = Fill {
                source: "handbook".to_owned(),
                host: "office".to_owned(),
                directory: "/srv/handbook".to_owned(),
                scope: "shared".to_owned(),
                began_at: clock::rfc3339(0),
                ended_at: Some(clock::rfc3339(1)),
                files: 1,
                lacking: String::new(),
                times,
                pause_ms,
                skew_ms: 0,
            };
            let found = fault(&fill, age_ms);
            assert_eq!(found.as_ref().map(|found| found.0), expected, "{found:?}");
        };
        let old = Some("collection-old");
        // Every hour, from cron.
        check((200, HOUR_MS, 2 * DAY_MS), None);
        check((200, HOUR_MS, 4 * DAY_MS), old);
        // Once a week.
        check((9, 7 * DAY_MS, 30 * DAY_MS), None);
        check((9, 7 * DAY_MS, 36 * DAY_MS), old);
        // By hand, when it was set up.
        check((3, 60_000, 400 * DAY_MS), None);
    }
}
