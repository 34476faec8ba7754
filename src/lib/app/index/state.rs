//! `agent-index status`.

use super::{Context, PROGRAM};
use crate::app::cli::{self, Exit, Failure};
use crate::memory::index::{Status, status};
use crate::text;

pub(super) fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let status = status(&context.place)?;
    if context.json {
        cli::json(&status);
    } else {
        lines(&status).iter().for_each(|line| cli::out(line));
    }
    Ok(Exit::Ok)
}

fn lines(status: &Status) -> Vec<String> {
    let mut lines = Vec::new();
    match &status.indexed_at {
        Some(at) => {
            let sources: Vec<String> = status.sources.iter().map(|(source, files)| format!("{source} {files}")).collect();
            let size = |bytes: u64| format!("{}B", text::count(bytes));
            lines.push(format!("changed    {at}"));
            lines.push(format!("files      {} ({})", status.files, sources.join(", ")));
            lines.push(format!("chunks     {}", status.chunks));
            lines.push(format!("index.db   {}", size(status.index_bytes)));
        }
        None => lines.push(format!("nothing is indexed yet: {PROGRAM}")),
    }
    if status.indexed && !status.current {
        lines.push(format!("made by the rules of another version: the next {PROGRAM} makes it anew"));
    }
    if let Some(pid) = status.running {
        lines.push(format!("indexing now, pid {pid}"));
    }
    lines
}
