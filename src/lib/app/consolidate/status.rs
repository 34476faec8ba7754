//! `agent-consolidate status`.

use super::{Context, PROGRAM};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::memory::consolidate;
use crate::text;

pub(super) fn run(context: &Context<'_>) -> Result<(), Failure> {
    let status = consolidate::status(context.home)?;
    if context.json {
        cli::json(&status);
        return Ok(());
    }
    let line = |name: &str, value: String| cli::out(&format!("{name:<11}{value}"));
    let (facts, former) = (status.facts, status.former);
    line("facts", format!("{facts}, and {former} former ones"));
    let (commitments, episodes) = (status.commitments, status.episodes);
    if (commitments, episodes) != (0, 0) {
        let value = format!("{commitments} open commitments, {episodes} episodes");
        line("beside", value);
    }
    if let Some(one) = status.parked.first() {
        let (count, why) = (status.parked.len(), text::visible(&one.why));
        let value =
            format!("{count} spans that rules read, because the model failed three times: {why}");
        line("parked", value);
    }
    let waiting = match (status.pending_files, status.pending_sessions) {
        (0, 0) => "nothing".to_owned(),
        (files, sessions) => format!(
            "{}, {}: {PROGRAM}",
            text::counted(files, "file"),
            text::counted(sessions, "conversation")
        ),
    };
    line("waiting", waiting);
    line(
        "last run",
        status.last_run_at.unwrap_or_else(|| "never".to_owned()),
    );
    if let Some(at) = status.last_work_at {
        line("last work", at);
    }
    if let Some(pid) = status.running {
        cli::out(&format!("at work now, pid {pid}"));
    }
    Ok(())
}
