//! `agent-index status`.

use std::time::Duration;

use super::{Context, PROGRAM};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::db::Health;
use crate::memory::index;
use crate::memory::index::{Status, status};
use crate::text;

/// Reading the index through for damage takes at most this long; what is larger was read as far as that went.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let database = context.place.database();
    if let Health::Damaged(lines) =
        index::examine(&database, PATIENCE).map_err(index::Error::from)?
    {
        context.place.doubt();
        let why = lines.first().map_or("", String::as_str);
        return Err(super::damaged(format!(
            "{} is damaged: {why}",
            database.display()
        )));
    }
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
            let (others, files): (Vec<_>, Vec<_>) = status
                .sources
                .iter()
                .partition(|(source, _)| ["summary", "fact"].contains(&source.as_str()));
            let files: Vec<String> = files
                .iter()
                .map(|(source, files)| format!("{source} {files}"))
                .collect();
            let size = |bytes: u64| format!("{}B", text::count(bytes));
            lines.push(format!("changed    {at}"));
            lines.push(format!(
                "files      {} ({})",
                status.files,
                files.join(", ")
            ));
            for (source, count) in others {
                lines.push(format!(
                    "{:<10} {count}",
                    if source == "fact" {
                        "facts"
                    } else {
                        "summaries"
                    }
                ));
            }
            lines.push(format!("chunks     {}", status.chunks));
            if let Some(model) = &status.model {
                lines.push(format!("vectors    {} by {model}", status.vectors));
            }
            let missing = status.chunks - status.vectors;
            if let Some(why) = status.lacking.as_ref().filter(|_| missing > 0) {
                lines.push(text::visible(&format!(
                    "lacking    {missing} of {} vectors: {why}",
                    status.chunks
                )));
            }
            lines.push(format!("index.db   {}", size(status.index_bytes)));
        }
        None => lines.push(format!("nothing is indexed yet: {PROGRAM}")),
    }
    if let Some(why) = &status.facts_unread {
        lines.push(format!("facts are found as they were: {why}"));
    }
    if status.indexed && !status.current {
        lines.push(format!(
            "made by the rules of another version: the next {PROGRAM} rebuilds it"
        ));
    }
    if let Some(pid) = status.running {
        lines.push(format!("indexing now, pid {pid}"));
    }
    lines
}
