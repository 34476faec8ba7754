//! `agent-index [sync]` and `rebuild`. Silent when all went well, as cron likes it.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{Context, PROGRAM, SyncArguments};
use crate::app::cli::{self, Exit, Failure};
use crate::memory::index::{Mode, Outcome, Progress, Report, sync};
use crate::text;

pub(super) fn run(context: &Context<'_>, wanted: SyncArguments) -> Result<Exit, Failure> {
    let mode = Mode { full: wanted.full, dry_run: wanted.dry_run };
    if !mode.dry_run {
        cli::prepare(&context.home)?;
    }
    let bar = (!context.shared.quiet && std::io::stderr().is_terminal()).then(bar);
    let outcome = sync(&context.place, mode, &mut |progress| show(bar.as_ref(), progress));
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    match outcome? {
        Outcome::Busy(pid) => busy(context, pid),
        Outcome::Done(report) => tell(context, mode, &report),
    }
    Ok(Exit::Ok)
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("indexing {bar:12} {pos}/{len} files").expect("the template is constant");
    ProgressBar::new(0).with_style(style)
}

fn show(bar: Option<&ProgressBar>, progress: Progress) {
    let Some(bar) = bar else { return };
    bar.set_length(u64::try_from(progress.total).unwrap_or(u64::MAX));
    bar.set_position(u64::try_from(progress.done).unwrap_or(u64::MAX));
}

fn busy(context: &Context<'_>, pid: i32) {
    let wanted = context.shared.verbose > 0 || (std::io::stderr().is_terminal() && !context.shared.quiet);
    if context.json {
        cli::json(&json!({"running": pid}));
    } else if wanted {
        cli::err(&format!("{PROGRAM}: already running (pid {pid})"));
    }
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
