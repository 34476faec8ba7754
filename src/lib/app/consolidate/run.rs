//! `agent-consolidate [run]`. Silent when all went well, as cron likes it.

use serde_json::{Value, json};

use super::reader::Reader;
use super::{Context, PROGRAM, RunArguments, document, whose};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::commitment_reminders;
use crate::app::progress_bar;
use crate::app::progress_bar::Bar;
use crate::config;
use crate::memory::consolidate::{
    Asks, Change, Means, Model, Options, Outcome, Report, Skipped, run as consolidate,
};
use crate::memory::facts;
use crate::memory::facts::Fact;
use crate::text;

pub(super) fn run(context: &Context<'_>, wanted: RunArguments) -> Result<Exit, Failure> {
    let options = Options {
        backfill: wanted.backfill,
        dry_run: wanted.dry_run,
        ..Options::default()
    };
    if !options.dry_run {
        cli::prepare(&context.home)?;
    }
    let zone = context.zone();
    let mut reader = Reader::of(context);
    let means = Means {
        zone,
        model: reader.as_mut().map(|reader| reader as &mut dyn Model),
        asks: Asks::Now,
    };
    let bar = Bar::new(context.shared, "consolidating", "");
    let outcome = consolidate(&context.home, means, options, &mut |progress| {
        bar.show(progress)
    });
    bar.end();
    match outcome? {
        Outcome::Busy(pid) => progress_bar::busy(PROGRAM, context.shared, context.json, pid),
        Outcome::Done(report) => {
            tell(context, options, &report);
            if !options.dry_run {
                remind(context)?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// Has the owner reminded of what was promised until a day.
pub(super) fn remind(context: &Context<'_>) -> Result<(), Failure> {
    let config = config::load_config(&context.home, &context.env)?;
    let orders = commitment_reminders::order(&context.home, &config)?;
    if orders > 0 && context.shared.verbose > 0 {
        context.note(&format!(
            "{} ordered or taken back",
            text::counted(orders, "reminder")
        ));
    }
    Ok(())
}

/// Says what was done: all of it with `-v` and in a dry run, what went wrong in any case.
fn tell(context: &Context<'_>, options: Options<'_>, report: &Report) {
    if let Some(aside) = &report.set_aside {
        let (database, aside) = (
            context.home.display(&facts::database(&context.home)),
            context.home.display(aside),
        );
        cli::err(&format!(
            "{PROGRAM}: {database} could not be used: it is now {aside}, and the facts were made anew"
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
            "{PROGRAM}: rules read a stretch of the conversation {}, because the model failed three times: {}",
            parked.path, parked.why
        )));
    }
    if let Some(waits) = report.waits.first().filter(|_| context.shared.verbose > 0) {
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
            .for_each(|change| cli::out(&line(change)));
        context.note(&format!("would write: {}", summary(report)));
        if report.asked > 0 {
            let cost = report.cost_usd.map_or_else(
                || "nobody knows what that costs".to_owned(),
                |usd| format!("about ${usd:.4}"),
            );
            context.note(&format!(
                "a model would read {} of the conversations' spans, beside the rules whose facts are shown: {cost}",
                report.asked
            ));
        }
    } else if context.shared.verbose > 0 {
        report
            .changes
            .iter()
            .for_each(|change| cli::err(&line(change)));
        context.note(&summary(report));
    }
}

/// Returns a change as a line of a diff.
pub(super) fn line(change: &Change) -> String {
    let name = |fact: &Fact| format!("{}{} {}", whose(fact), fact.entity, fact.attribute);
    let place = |fact: &Fact| format!("{}:{}", fact.source, fact.source_line);
    text::visible(&match change {
        Change::New(fact) => format!("+ {}: {}  ({})", name(fact), fact.value, place(fact)),
        Change::Superseded { old, new } => format!(
            "~ {}: {} → {}  ({})",
            name(new),
            old.value,
            new.value,
            place(new)
        ),
        Change::Gone(fact) => format!(
            "- {}: {}  (stood in {})",
            name(fact),
            fact.value,
            place(fact)
        ),
    })
}

fn counts(report: &Report) -> [usize; 3] {
    let count = |wanted: fn(&Change) -> bool| {
        report
            .changes
            .iter()
            .filter(|change| wanted(change))
            .count()
    };
    [
        count(|change| matches!(change, Change::New(_))),
        count(|change| matches!(change, Change::Superseded { .. })),
        count(|change| matches!(change, Change::Gone(_))),
    ]
}

fn summary(report: &Report) -> String {
    let [new, changed, gone] = counts(report);
    let Report {
        touched,
        files,
        sessions,
        unchanged,
        left,
        promises,
        ..
    } = report;
    let left = if *left > 0 {
        format!(", {left} left to another run")
    } else {
        String::new()
    };
    let (files, sessions) = (
        text::counted(*files, "file"),
        text::counted(*sessions, "conversation"),
    );
    format!(
        "{new} new, {changed} changed, {gone} gone, {touched} confirmed, {promises} promised; from {files} and {sessions}, \
         {unchanged} as they were{left}"
    )
}

fn report_document(options: Options<'_>, report: &Report) -> Value {
    let [new, superseded, gone] = counts(report);
    let skipped: Vec<_> = report
        .skipped
        .iter()
        .map(|skipped| json!({"path": skipped.path, "why": skipped.why}))
        .collect();
    let told = |all: &[Skipped]| -> Vec<Value> {
        all.iter()
            .map(|one| json!({"session_id": one.path, "why": one.why}))
            .collect()
    };
    json!({
        "dry_run": options.dry_run, "backfill": options.backfill, "new": new, "superseded": superseded, "gone": gone,
        "touched": report.touched, "files": report.files, "sessions": report.sessions, "spans": report.spans,
        "commitments": report.promises, "unchanged": report.unchanged, "left": report.left, "skipped": skipped,
        "asked": report.asked, "cost_usd": if options.dry_run { report.cost_usd } else { None },
        "waits": told(&report.waits), "parked": told(&report.parked),
        "changes": report.changes.iter().map(change_document).collect::<Vec<_>>(),
    })
}

/// Returns a change as JSON has it.
pub(super) fn change_document(change: &Change) -> Value {
    match change {
        Change::New(fact) => json!({"change": "new", "fact": document(fact)}),
        Change::Superseded { old, new } => {
            json!({"change": "superseded", "fact": document(new), "old": document(old)})
        }
        Change::Gone(fact) => json!({"change": "gone", "fact": document(fact)}),
    }
}
