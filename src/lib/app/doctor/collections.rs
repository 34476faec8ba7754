//! Can the collections be searched, and is all of what was filled in found?

use std::time::Duration;

use super::Finding;
use super::subject::Patient;
use crate::clock;
use crate::config::Secrets;
use crate::memory::collections;
use crate::memory::collections::Status;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// A fill that began so long ago and has not ended was killed.
const LONGEST_FILL_MS: i64 = 24 * 3_600_000;
/// Clocks that differ by so much make days wrong.
const MAX_SKEW_MS: i64 = 60_000;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let Ok(loaded) = &patient.settings else {
        return Vec::new();
    };
    let settings = &loaded.config.memory.collections;
    if settings.is_empty() {
        return Vec::new();
    }
    let Ok(secrets) = Secrets::open(&patient.home, &patient.env) else {
        return Vec::new();
    };
    let findings = settings.keys().flat_map(|name| {
        let status = collections::open(name, settings, &secrets, PATIENCE)
            .and_then(|mut store| store.status());
        match status {
            Ok(status) => of(patient, &status, clock::now_ms()),
            Err(error) => {
                let evidence = format!("{error}; {}", error.hint());
                let look = patient.program("agent-index", &format!("status --collection {name}"));
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

fn of(patient: &Patient, status: &Status, now: i64) -> Vec<Finding> {
    let name = &status.collection;
    let look = || patient.program("agent-index", &format!("status --collection {name}"));
    let mut findings = Vec::new();
    for fill in &status.fills {
        let began = chrono::DateTime::parse_from_rfc3339(&fill.began_at);
        let began = began.map_or(now, |at| at.timestamp_millis());
        let why = match fill.ended_at {
            None if now - began > LONGEST_FILL_MS => {
                format!(
                    "the fill that began at {} has not come to its end",
                    fill.began_at
                )
            }
            _ if !fill.lacking.is_empty() => format!("vectors are missing: {}", fill.lacking),
            _ => continue,
        };
        let evidence = format!(
            "collection {name}: of {} on {} {why}; fill it again there",
            fill.directory, fill.host
        );
        findings.push(Finding::warning(
            "collection-incomplete",
            crate::text::visible(&evidence),
            look(),
        ));
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
