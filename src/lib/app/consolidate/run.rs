//! `agent-consolidate [run]`. Silent on success, for cron.

use serde_json::{Value, json};

use super::reader::Reader;
use super::{Context, PROGRAM, RunArguments, documents};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::commitment_reminders;
use crate::app::progress_bar;
use crate::app::progress_bar::Bar;
use crate::config;
use crate::memory::consolidate::{
    Asks, Change, Means, Model, Options, Outcome, Report, Skipped, run as consolidate,
};
use crate::memory::facts;
use crate::text;

pub(super) fn run(context: &Context<'_>, wanted: RunArguments) -> Result<(), Failure> {
    let options = Options {
        backfill: wanted.backfill,
        dry_run: wanted.dry_run,
        notes_by_model: config::load_config(context.home, context.env)
            .is_ok_and(|config| config.memory.notes_by_model),
        ..Options::default()
    };
    if !options.dry_run {
        cli::prepare(context.home)?;
    }
    let zone = context.zone();
    let mut reader = Reader::of(context);
    let means = Means {
        zone,
        model: reader.as_mut().map(|reader| reader as &mut dyn Model),
        asks: Asks::Now,
    };
    let bar = Bar::new(context.shared, "consolidating", "");
    let outcome = consolidate(context.home, means, options, &mut |progress| {
        bar.show(progress)
    });
    bar.end();
    match outcome? {
        Outcome::Busy(pid) => progress_bar::busy(PROGRAM, context.shared, context.json, pid),
        Outcome::Done(report) => {
            tell(context, options, &report);
            if !options.dry_run {
                remind(context);
            }
        }
    }
    Ok(())
}

/// Has the owner reminded of what was promised until a day. What was done before it is done, also when this fails: the next
/// run orders the reminders.
pub(super) fn remind(context: &Context<'_>) {
    let ordered = config::load_config(context.home, context.env)
        .map_err(Failure::from)
        .and_then(|config| commitment_reminders::order(context.home, &config));
    let orders = ordered.unwrap_or_else(|failure| {
        cli::err(&format!(
            "warning: reminders of promises were not ordered: {}",
            failure.message
        ));
        0
    });
    if orders > 0 && context.is_verbose() {
        context.note(&format!(
            "{} added or removed",
            text::counted(orders, "reminder")
        ));
    }
}

/// Says what was done: all of it with `-v` and in a dry run, what went wrong in any case.
fn tell(context: &Context<'_>, options: Options<'_>, report: &Report) {
    if let Some(aside) = &report.set_aside {
        let (database, aside) = (
            context.home.display(&facts::database(context.home)),
            context.home.display(aside),
        );
        cli::err(&format!(
            "{PROGRAM}: {database} could not be used: it was moved to {aside}, and the facts were rebuilt"
        ));
    }
    for skipped in &report.skipped {
        context.note(&text::visible(&format!(
            "left out {}: {}",
            skipped.path, skipped.why
        )));
    }
    for parked in &report.parked {
        // Cron mails this, once: rules have read it, and no model is asked again.
        cli::err(&text::visible(&format!(
            "{PROGRAM}: rules read a part of the conversation {}, because the model failed three times: {}",
            parked.path, parked.why
        )));
    }
    if let Some(waits) = report.waits.first().filter(|_| context.is_verbose()) {
        let count = text::counted(report.waits.len(), "conversation");
        context.note(&text::visible(&format!(
            "{count} left for the next run: {}",
            waits.why
        )));
    }
    if context.json {
        cli::json(&report_document(options, report));
    } else if options.dry_run {
        report
            .changes
            .iter()
            .for_each(|change| cli::out(&documents::change_line(change)));
        context.note(&format!("would write: {}", summary(report)));
        if report.asked > 0 {
            let cost = report.cost_usd.map_or_else(
                || "the cost is unknown".to_owned(),
                |usd| format!("about ${usd:.4}"),
            );
            context.note(&format!(
                "a model would read {} of the spans and notes, in addition to the rules, whose facts are shown: {cost}",
                report.asked
            ));
        }
    } else if context.is_verbose() {
        report
            .changes
            .iter()
            .for_each(|change| cli::err(&documents::change_line(change)));
        context.note(&summary(report));
    }
}

fn summary(report: &Report) -> String {
    let [new, changed, gone] = Change::counts(&report.changes);
    let left = match report.left {
        0 => String::new(),
        left => format!(", {left} left to another run"),
    };
    format!(
        "{new} new, {changed} changed, {gone} gone, {} confirmed, {} promised; from {} and {}, {} as they were{left}",
        report.touched,
        report.promises,
        text::counted(report.files, "file"),
        text::counted(report.sessions, "conversation"),
        report.unchanged
    )
}

fn report_document(options: Options<'_>, report: &Report) -> Value {
    let [new, superseded, gone] = Change::counts(&report.changes);
    let with = |all: &[Skipped], key: &str| -> Vec<Value> {
        let document = |one: &Skipped| json!({key: one.path, "why": one.why});
        all.iter().map(document).collect()
    };
    json!({
        "dry_run": options.dry_run, "backfill": options.backfill, "new": new, "superseded": superseded, "gone": gone,
        "touched": report.touched, "files": report.files, "sessions": report.sessions, "spans": report.spans,
        "commitments": report.promises, "unchanged": report.unchanged, "left": report.left,
        "skipped": with(&report.skipped, "path"), "asked": report.asked,
        "cost_usd": report.cost_usd.filter(|_| options.dry_run),
        "waits": with(&report.waits, "session_id"), "parked": with(&report.parked, "session_id"),
        "changes": documents::list(&report.changes, documents::change),
    })
}
