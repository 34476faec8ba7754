//! `agent-consolidate maintain` and `undo`.

use serde_json::json;

use super::commitments::commitment;
use super::run::{change_document, line};
use super::{Context, PROGRAM, UndoArguments, document};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::forget;
use crate::app::progress_bar;
use crate::memory::consolidate;
use crate::memory::consolidate::Conflict;
use crate::memory::facts::Fact;
use crate::text;

pub(super) fn maintain(context: &Context<'_>) -> Result<Exit, Failure> {
    cli::prepare(&context.home)?;
    let zone = context.zone();
    let done = match consolidate::maintain(&context.home, zone)? {
        Ok(done) => done,
        Err(pid) => {
            progress_bar::busy(PROGRAM, context.shared, context.json, pid);
            return Ok(Exit::Ok);
        }
    };
    super::run::remind(context)?;
    if context.json {
        let conflict = |one: &Conflict| json!({"current": document(&one.current), "other": document(&one.other)});
        cli::json(&json!({
            "expired": done.expired.iter().map(commitment).collect::<Vec<_>>(),
            "conflicts": done.conflicts.iter().map(conflict).collect::<Vec<_>>(),
            "pruned": done.pruned,
        }));
        return Ok(Exit::Ok);
    }
    // Cron runs this: silence is good news.
    if context.shared.verbose > 0 {
        for one in &done.expired {
            cli::out(&text::visible(&format!(
                "expired  {}: {}",
                one.who, one.what
            )));
        }
        let place = |fact: &Fact| format!("{} ({}:{})", fact.value, fact.source, fact.source_line);
        for Conflict { current, other } in &done.conflicts {
            let (entity, attribute) = (&current.entity, &current.attribute);
            cli::out(&text::visible(&format!(
                "conflict {entity} {attribute}: {}, but a note says still {}",
                place(current),
                place(other)
            )));
        }
        context.note(&format!(
            "{} expired, {} conflicts, {} old rows deleted",
            done.expired.len(),
            done.conflicts.len(),
            done.pruned
        ));
    }
    Ok(Exit::Ok)
}

pub(super) fn undo(context: &Context<'_>, wanted: &UndoArguments) -> Result<Exit, Failure> {
    let Some(run) = &wanted.run else {
        return runs(context);
    };
    let done = match consolidate::undo(&context.home, run)? {
        Ok(Some(done)) => done,
        Ok(None) => {
            return Err(Failure::new(
                Exit::Failed,
                text::visible(&format!("nothing is known of a run {run}")),
            )
            .hint("agent-consolidate undo shows the runs of the last 30 days"));
        }
        Err(pid) => return Err(forget::busy(pid)),
    };
    if context.json {
        cli::json(&json!({
            "run": run, "changes": done.changes.iter().map(change_document).collect::<Vec<_>>(),
            "commitments": done.commitments, "episodes": done.episodes,
        }));
    } else {
        done.changes
            .iter()
            .for_each(|change| cli::out(&line(change)));
        let (promises, episodes) = (
            text::counted(done.commitments, "commitment"),
            text::counted(done.episodes, "episode"),
        );
        context.note(&format!(
            "undone: {} changed, {promises} and {episodes} gone; the next run does not do it again, unless the file changes or \
             --backfill is given",
            text::counted(done.changes.len(), "fact")
        ));
    }
    super::run::remind(context)?;
    Ok(Exit::Ok)
}

fn runs(context: &Context<'_>) -> Result<Exit, Failure> {
    let runs = consolidate::runs(&context.home)?;
    if context.json {
        cli::json(&json!({"runs": runs}));
    } else if runs.is_empty() {
        context.note("there is no run that could be undone");
    } else {
        for run in &runs {
            let told = [(run.promised, "commitment"), (run.episodes, "episode")];
            let told = told
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, what)| format!(", {}", text::counted(*count, what)));
            cli::out(&format!(
                "{}  {}  {} in, {} out{}",
                run.run,
                run.at,
                run.put_in,
                run.taken_out,
                told.collect::<String>()
            ));
        }
    }
    Ok(Exit::Ok)
}
