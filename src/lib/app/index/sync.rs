//! `agent-index [sync]` and `rebuild`. Silent on success, for cron.

use std::io::IsTerminal;

use serde_json::json;

use super::{Context, PROGRAM, SyncArguments};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::progress_bar;
use crate::app::progress_bar::Bar;
use crate::memory::index::{self, Mode, Outcome, Report};
use crate::text;

pub(super) fn run(context: &Context<'_>, wanted: SyncArguments) -> Result<Exit, Failure> {
    let mode = Mode {
        full: wanted.full,
        dry_run: wanted.dry_run,
        ..Mode::default()
    };
    if !mode.dry_run {
        cli::prepare(&context.home)?;
    }
    let bar = Bar::new(context.shared, "indexing", "files");
    let outcome = index::sync(&context.place, mode, &mut |progress| bar.show(progress));
    bar.end();
    match outcome? {
        Outcome::Busy(pid) => progress_bar::busy(PROGRAM, context.shared, context.json, pid),
        Outcome::Done(report) => tell(context, mode, &report),
    }
    Ok(Exit::Ok)
}

/// Says what was done: all of it with `-v` and in a dry run, what went wrong in any case.
pub(super) fn tell(context: &Context<'_>, mode: Mode, report: &Report) {
    if report.was_damaged {
        let database = context.home.display(&context.place.database());
        cli::err(&format!(
            "{PROGRAM}: {database} could not be used and was rebuilt from the files"
        ));
    }
    tell_skipped(context, report);
    // Nothing is lost, and cron would mail it every hour: doctor says it too.
    let is_read =
        context.shared.verbose > 0 || (std::io::stderr().is_terminal() && !context.shared.quiet);
    if let Some(why) = report.vectors.failed.as_ref().filter(|_| is_read) {
        cli::err(&format!(
            "{PROGRAM}: found by words alone until the next run makes the vectors that are missing: {why}"
        ));
    }
    if context.json {
        let mut document = document(report);
        document["dry_run"] = json!(mode.dry_run);
        document["full"] = json!(report.full);
        document["vectors"]["cached"] = json!(report.vectors.cached);
        if mode.dry_run {
            document["cost_usd"] = json!(report.cost_usd);
        }
        cli::json(&document);
        return;
    }
    let summary = summary(report);
    if mode.dry_run {
        let what = if report.full {
            "would index everything again"
        } else {
            "would index"
        };
        let cost = match report.cost_usd {
            Some(usd) if usd > 0.0 => format!("vectors would cost about ${usd:.4}"),
            Some(_) => "cost $0.00".to_owned(),
            None => {
                "cost unknown: no `cost_per_mtok` of that model in the provider's file".to_owned()
            }
        };
        cli::out(&format!("{what}: {summary}; {cost}"));
    } else if context.shared.verbose > 0 {
        let paid = Some(report.vectors.cost_usd)
            .filter(|usd| *usd > 0.0)
            .map(|usd| format!(" for ${usd:.4}"))
            .unwrap_or_default();
        cli::err(&format!(
            "{PROGRAM}: {summary}, {} chunks written, {} vectors made{paid}",
            report.chunks, report.vectors.made
        ));
    }
}

/// Names the files that were left out.
pub(super) fn tell_skipped(context: &Context<'_>, report: &Report) {
    for skipped in report.skipped.iter().filter(|_| !context.shared.quiet) {
        cli::err(&text::visible(&format!(
            "{PROGRAM}: left out {}: {}",
            skipped.path, skipped.why
        )));
    }
}

/// Returns what was done with the files.
pub(super) fn summary(report: &Report) -> String {
    format!(
        "{} new, {} changed, {} gone, {} unchanged",
        report.added, report.changed, report.removed, report.unchanged
    )
}

/// Returns what is said in a document of each run.
pub(super) fn document(report: &Report) -> serde_json::Value {
    let skipped = report.skipped.iter();
    let skipped: Vec<_> = skipped
        .map(|skipped| json!({"path": skipped.path, "why": skipped.why}))
        .collect();
    json!({
        "added": report.added, "changed": report.changed, "removed": report.removed, "unchanged": report.unchanged,
        "chunks": report.chunks, "skipped": skipped, "cost_usd": report.vectors.cost_usd,
        "vectors": {"made": report.vectors.made, "failed": report.vectors.failed},
    })
}
