//! Progress of the programs for cron: a bar on a terminal, a note when another run is active.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::cli;
use super::cli::Shared;
use crate::memory::Progress;

/// A progress bar on standard error; nothing where that is not a terminal or quiet is wanted.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    /// Returns a bar that says `doing` before and `what` after its numbers.
    pub(super) fn new(shared: &Shared, doing: &str, what: &str) -> Self {
        Self((!shared.quiet && std::io::stderr().is_terminal()).then(|| {
            let template = format!("{doing} {{bar:12}} {{pos}}/{{len}} {what}");
            let style = ProgressStyle::with_template(&template).expect("the words have no braces");
            ProgressBar::new(0).with_style(style)
        }))
    }

    pub(super) fn show(&self, progress: Progress) {
        let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
        if let Some(bar) = &self.0 {
            bar.set_length(number(progress.total));
            bar.set_position(number(progress.done));
        }
    }

    pub(super) fn end(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Says that process `pid` does the same already: to a person who looks, and to nobody else.
pub(super) fn busy(program: &str, shared: &Shared, json: bool, pid: i32) {
    if json {
        cli::json(&json!({"running": pid}));
    } else if shared.verbose > 0 || (std::io::stderr().is_terminal() && !shared.quiet) {
        cli::err(&format!("{program}: already running (pid {pid})"));
    }
}
