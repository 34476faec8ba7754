//! `agent-consolidate maintain`.

use serde_json::{Value, json};

use super::run::remind;
use super::{Context, PROGRAM, documents};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::progress_bar;
use crate::memory::consolidate;
use crate::memory::consolidate::Conflict;
use crate::memory::facts::Fact;
use crate::text;

pub(super) fn run(context: &Context<'_>) -> Result<(), Failure> {
    cli::prepare(context.home)?;
    let done = match consolidate::maintain(context.home, context.zone())? {
        Ok(done) => done,
        Err(pid) => {
            progress_bar::busy(PROGRAM, context.shared, context.json, pid);
            return Ok(());
        }
    };
    remind(context);
    if context.json {
        let conflict = |one: &Conflict| -> Value {
            json!({"current": documents::fact(&one.current), "other": documents::fact(&one.other)})
        };
        cli::json(&json!({
            "expired": documents::list(&done.expired, documents::commitment),
            "conflicts": done.conflicts.iter().map(conflict).collect::<Vec<_>>(),
            "pruned": done.pruned,
        }));
    } else if context.is_verbose() {
        // Cron runs this: without -v silence is good news.
        for one in &done.expired {
            let line = format!("expired  {}: {}", one.who, one.what);
            cli::out(&text::visible(&line));
        }
        let place = |fact: &Fact| format!("{} ({}:{})", fact.value, fact.source, fact.source_line);
        for Conflict { current, other } in &done.conflicts {
            let about = format!("{} {}", current.entity, current.attribute);
            let (now, then) = (place(current), place(other));
            let line = format!("conflict {about}: {now}, but a note still says {then}");
            cli::out(&text::visible(&line));
        }
        context.note(&format!(
            "{} expired, {} conflicts, {} old rows deleted",
            done.expired.len(),
            done.conflicts.len(),
            done.pruned
        ));
    }
    Ok(())
}
