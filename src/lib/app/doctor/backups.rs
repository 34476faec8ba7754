//! Checks whether backups are still made, where there were any.

use super::Finding;
use super::context::{DoctorContext, age, quote};
use crate::backup::Record;
use crate::clock;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let record = match Record::read(&context.home) {
        Ok(record) => record,
        Err(error) => {
            let evidence = format!("cannot tell whether backups are made: {error}");
            let look = format!("{}ls -l {}", context.sudo(), quote(context.home.state()));
            return vec![Finding::warning("backup-failed", evidence, look)];
        }
    };
    let mut findings = Vec::new();
    let before = record
        .made_at
        .map_or("none was made before".to_owned(), |at| {
            format!("the last one was made at {}", clock::rfc3339(at))
        });
    if let Some(killed) = record.killed(&context.home) {
        let draft = quote(&killed.draft);
        let evidence = format!(
            "the backup that began at {} was killed, and {draft} is only a part of one; {before}",
            clock::rfc3339(killed.at)
        );
        let (sudo, again) = (context.sudo(), context.agent(&killed.command));
        let command = format!("{sudo}rm {draft} && {again}");
        findings.push(Finding::warning("backup-failed", evidence, command));
    } else if let Some(failed) = &record.failed {
        let evidence = format!(
            "no backup was made at {}: {}; {before}",
            clock::rfc3339(failed.at),
            crate::text::visible(&failed.why)
        );
        let again = context.agent(&failed.command);
        findings.push(Finding::warning("backup-failed", evidence, again));
    }
    if let Some(regular) = record.late(context.now) {
        let since = clock::rfc3339(regular.at);
        let evidence = match context.now >= regular.at {
            true => format!(
                "no backup was made for {}, since {since}, and there were some before: does agent-backup.timer run, or the line in your crontab?",
                age(context.now - regular.at)
            ),
            false => format!(
                "the last backup is dated {since}, in the future: a clock was wrong, and the age of the backup is unknown"
            ),
        };
        let again = context.agent(&regular.command);
        findings.push(Finding::warning("backup-old", evidence, again));
    }
    findings
}
