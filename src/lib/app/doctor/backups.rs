//! Are backups still made, where they were?

use super::Finding;
use super::patient::{Patient, age, quote};
use crate::backup::Record;
use crate::clock;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let record = match Record::read(&patient.home) {
        Ok(record) => record,
        Err(error) => {
            let evidence = format!("nobody can tell whether backups are made: {error}");
            let look = format!("{}ls -l {}", patient.sudo(), quote(patient.home.state()));
            return vec![Finding::warning("backup-failed", evidence, look)];
        }
    };
    let mut findings = Vec::new();
    if let Some(failed) = &record.failed {
        let before = record
            .made_at
            .map_or("none was made before".to_owned(), |at| {
                format!("the last one was made at {}", clock::rfc3339(at))
            });
        let evidence = format!(
            "no backup was made at {}: {}; {before}",
            clock::rfc3339(failed.at),
            crate::text::visible(&failed.why)
        );
        let again = patient.agent(&failed.command);
        findings.push(Finding::warning("backup-failed", evidence, again));
    }
    if let Some(regular) = record.late(patient.now) {
        let since = clock::rfc3339(regular.at);
        let evidence = match patient.now >= regular.at {
            true => format!(
                "no backup was made for {}, since {since}, and there were some before: does agent-backup.timer run, or the line in your crontab?",
                age(patient.now - regular.at)
            ),
            false => format!(
                "the last backup was made at {since}, which has not come yet: a clock was wrong, and nobody knows how old it is"
            ),
        };
        let again = patient.agent(&regular.command);
        findings.push(Finding::warning("backup-old", evidence, again));
    }
    findings
}
