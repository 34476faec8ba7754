//! `agent-consolidate facts`.

use chrono_tz::Tz;
use serde_json::{Value, json};

use super::{Context, FactsArguments, PROGRAM, document, joined, whose};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::table;
use crate::app::table::Column;
use crate::memory::facts;
use crate::memory::facts::{Fact, Filter};
use crate::{clock, text};

const COLUMNS: [Column; 5] = [
    Column::right("ID"),
    Column::left("WHO").cut_to(8),
    Column::left("WHAT").cut_to(24),
    Column::left("SINCE"),
    Column::left("FROM").cut_to(16),
];

pub(super) fn run(context: &Context<'_>, wanted: &FactsArguments) -> Result<Exit, Failure> {
    let query = joined(wanted.query.as_ref(), &wanted.more);
    let found = facts::list(
        &facts::database(&context.home),
        &Filter {
            query,
            all: wanted.all,
            scopes: None,
        },
    )?;
    if context.json {
        cli::json(&json!({"facts": found.iter().map(document).collect::<Vec<Value>>()}));
        return Ok(Exit::Ok);
    }
    if found.is_empty() {
        context.note(match (&wanted.query, wanted.all) {
            (None, _) => "there are no facts yet",
            (Some(_), true) => "no fact has these words",
            (Some(_), false) => "no fact has these words now; --all shows what held once, too",
        });
    } else {
        print(context, &found);
    }
    Ok(Exit::Ok)
}

/// Prints facts as a table.
pub(super) fn print(context: &Context<'_>, facts: &[Fact]) {
    let zone = context.zone();
    lines(facts, zone, table::room())
        .iter()
        .for_each(|line| cli::out(line));
}

pub(super) fn lines(facts: &[Fact], zone: Tz, room: usize) -> Vec<String> {
    let rows: Vec<Vec<String>> = facts.iter().map(|fact| row(fact, zone)).collect();
    table::lines(&COLUMNS, &rows, room)
}

fn row(fact: &Fact, zone: Tz) -> Vec<String> {
    let day = |at: i64| clock::local_date(at, zone).to_string();
    let forgotten = if fact.is_forgotten {
        " (forgotten)"
    } else {
        ""
    };
    let until = fact
        .valid_to
        .map_or_else(String::new, |to| format!(" – {}{forgotten}", day(to)));
    vec![
        fact.id.to_string(),
        text::visible(&format!("{}{}", whose(fact), fact.entity)),
        text::visible(&format!("{}: {}", fact.attribute, fact.value)),
        format!("{}{until}", day(fact.valid_from)),
        text::visible(&format!("{}:{}", fact.source, fact.source_line)),
    ]
}

/// Returns facts as a hint has them, a line each, with the command that is meant.
pub(super) fn choice(verb: &str, facts: &[Fact]) -> String {
    let line = |fact: &Fact| {
        text::visible(&format!(
            "{PROGRAM} {verb} {}   {}{} {}: {}",
            fact.id,
            whose(fact),
            fact.entity,
            fact.attribute,
            fact.value
        ))
    };
    facts.iter().map(line).collect::<Vec<_>>().join("\n      ")
}
