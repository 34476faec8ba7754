//! The documents as text for people, one file for each. Untrusted text is shown so that it cannot control the terminal.

mod audit;
pub(crate) mod cost;
mod explain;
mod history;
pub(crate) mod jobs;
mod log;
pub(crate) mod sessions;
pub(crate) mod status;

use chrono_tz::Tz;
use serde_json::{Map, Value};

use super::cli;
use super::cli::{Exit, Failure, Shared};
use super::color::Color;
use super::documents::log::Entries;
use super::table::Table;
use super::{documents, monitor, table};
use crate::config::{Environment, Home};

pub(crate) use audit::{audit, verify};
pub(crate) use cost::cost;
pub(crate) use explain::explain;
pub(crate) use history::history;
pub(crate) use jobs::{jobs, wake};
pub(crate) use log::log;
pub(crate) use sessions::sessions;
pub(crate) use status::{queue, status};

type Entry = Map<String, Value>;

#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub program: &'static str,
    pub shared: &'a Shared,
    pub home: &'a Home,
    pub env: &'a Environment,
    pub json: bool,
    pub quiet: bool,
}

impl Context<'_> {
    /// Prints a document: as it is, or by `draw`.
    fn answer<T: serde::Serialize>(&self, document: &T, draw: impl FnOnce(&T)) -> Exit {
        if self.json {
            cli::json(document)
        } else {
            draw(document)
        }
        Exit::Ok
    }

    /// Says that something was done: `document`, or `words`.
    pub(crate) fn done(&self, document: &serde_json::Value, words: &str) -> Exit {
        if self.json {
            cli::json(document);
        } else {
            cli::out(words);
        }
        Exit::Ok
    }

    /// Prints a document of entries: as it is, or each as a `line`; `nothing` says why there is none.
    fn entries(&self, document: &Entries, line: fn(&Entry, Tz) -> String, nothing: &str) -> Exit {
        let exit = self.answer(document, |document| {
            if !document.entries.is_empty() {
                let zone = self.zone();
                let lines = document.entries.iter().map(|entry| line(entry, zone));
                lines.for_each(|line| cli::out(&line));
            }
        });
        if document.entries.is_empty() {
            self.note_nothing(nothing);
        }
        exit
    }

    /// Prints a note in addition to the data.
    pub(crate) fn note(&self, words: &str) {
        if !self.quiet {
            cli::err(&format!("{}: {words}", self.program));
        }
    }

    /// Returns true where more is told than is asked for.
    pub(crate) fn is_verbose(&self) -> bool {
        self.shared.verbose > 0
    }

    /// Says why an answer is empty; a document shows it by itself.
    fn note_nothing(&self, words: &str) {
        if !self.json {
            self.note(words);
        }
    }

    /// Returns the agent's time zone, and says so when that is not known.
    pub(crate) fn zone(&self) -> Tz {
        let (zone, trouble) = documents::zone(self.home, self.env);
        if let Some(failure) = trouble {
            self.note(&format!(
                "times are UTC, because the settings cannot be read: {}",
                failure.message
            ));
        }
        zone
    }
}

/// Prints a table.
fn print(table: &Table) {
    let lines = table.lines(table::room());
    lines.iter().for_each(|line| cli::out(line));
}

/// Shows what the daemon does right now; a daemon that is not there is an answer too.
pub(crate) fn monitor(context: &Context<'_>) -> Result<Exit, Failure> {
    monitor::show(context.shared, context.json, Color::Auto).map(|_| Exit::Ok)
}
