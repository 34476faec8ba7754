//! `agent-index [sync]` and `rebuild`. Silent when all went well, as cron likes it.

use serde_json::json;

use super::{Context, PROGRAM, SyncArguments};
use crate::app::bar::{self, Bar};
use crate::app::cli::{self, Exit, Failure};
use crate::memory::index::{Mode, Outcome, Report, sync};
use crate::text;

pub(super) fn run(context: &Context<'_>, wanted: SyncArguments) -> Result<Exit, Failure> {
    let mode = Mode { full: wanted.full, dry_run: wanted.dry_run };
    if !mode.dry_run {
        cli::prepare(&context.home)?;
    }
    let bar = Bar::new(context.shared, "indexing", "files");
    let outcome = sync(&context.place, mode, &mut |progress| bar.show(progress));
    bar.end();
    match outcome? {
        Outcome::Busy(pid) => bar::busy(PROGRAM, context.shared, context.json, pid),
        Outcome::Done(report) => tell(context, mode, &report),
    }
    Ok(Exit::Ok)
}

/// Says what was done: all of it with `-v` and in a dry run, what went wrong in any case.
pub(super) fn tell(context: &Context<'_>, mode: Mode, report: &Report) {
    if report.was_damaged {
        let database = context.home.display(&context.place.database());
        cli::err(&format!("{PROGRAM}: {database} could not be used and was made anew from the files"));
    }
    if !context.shared.quiet {
        for skipped in &report.skipped {
            cli::err(&text::visible(&format!("{PROGRAM}: left out {}: {}", skipped.path, skipped.why)));
        }
    }
    if context.json {
        cli::json(&document(mode, report));
        return;
    }
    let summary = summary(report);
    if mode.dry_run {
        let what = if report.full { "would index everything again" } else { "would index" };
        cli::out(&format!("{what}: {summary}; cost $0.00 (nothing is embedded in this build)"));
    } else if context.shared.verbose > 0 {
        cli::err(&format!("{PROGRAM}: {summary}, {} chunks written", report.chunks));
    }
}

fn summary(report: &Report) -> String {
    let Report { added, changed, removed, unchanged, .. } = report;
    format!("{added} new, {changed} changed, {removed} gone, {unchanged} unchanged")
}

fn document(mode: Mode, report: &Report) -> serde_json::Value {
    let skipped: Vec<_> = report.skipped.iter().map(|skipped| json!({"path": skipped.path, "why": skipped.why})).collect();
    json!({
        "dry_run": mode.dry_run, "full": report.full, "added": report.added, "changed": report.changed,
        "removed": report.removed, "unchanged": report.unchanged, "chunks": report.chunks, "skipped": skipped, "cost_usd": 0.0,
    })
}
