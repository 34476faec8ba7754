//! `agent-consolidate undo`.

use serde_json::json;

use super::run::remind;
use super::{Context, UndoArguments, documents};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::forget;
use crate::memory::consolidate;
use crate::text;

pub(super) fn run(context: &Context<'_>, wanted: &UndoArguments) -> Result<(), Failure> {
    let Some(run) = &wanted.run else {
        return runs(context);
    };
    let done = consolidate::undo(context.home, run)?.map_err(forget::busy)?;
    let Some(done) = done else {
        let message = text::visible(&format!("no run {run:?}"));
        return Err(Failure::failed(message)
            .hint("agent-consolidate undo shows the runs of the last 30 days"));
    };
    if context.json {
        cli::json(&json!({
            "run": run, "changes": documents::list(&done.changes, documents::change),
            "commitments": done.commitments, "episodes": done.episodes,
        }));
    } else {
        let lines = done.changes.iter().map(documents::change_line);
        lines.for_each(|line| cli::out(&line));
        context.note(&format!(
            "undone: {} changed, {} and {} gone; the next run does not do it again, unless the file changes or \
             --backfill is given",
            text::counted(done.changes.len(), "fact"),
            text::counted(done.commitments, "commitment"),
            text::counted(done.episodes, "episode")
        ));
    }
    remind(context);
    Ok(())
}

fn runs(context: &Context<'_>) -> Result<(), Failure> {
    let runs = consolidate::runs(context.home)?;
    if context.json {
        cli::json(&json!({"runs": runs}));
    } else if runs.is_empty() {
        context.note("there is no run that could be undone");
    }
    for run in runs.iter().filter(|_| !context.json) {
        let mut line = format!(
            "{}  {}  {} in, {} out",
            run.run, run.at, run.put_in, run.taken_out
        );
        for (count, what) in [(run.promised, "commitment"), (run.episodes, "episode")] {
            if count > 0 {
                line.push_str(&format!(", {}", text::counted(count, what)));
            }
        }
        cli::out(&line);
    }
    Ok(())
}
