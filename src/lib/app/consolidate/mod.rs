//! `agent-consolidate`: draws facts from notes and conversations, and shows them.

mod facts;
mod run;
mod state;
mod why;

use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use serde_json::{Value, json};

use super::cli::{self, Exit, Failure, Shared};
use crate::clock;
use crate::config::{Environment, Home};
use crate::memory::facts::{Error, Fact};

const PROGRAM: &str = "agent-consolidate";

/// Draw facts from notes and conversations, and show them
///
/// Without a verb it does `run`: what is new in USER.md, MEMORY.md, memory/**/*.md and in the owner's
/// conversations is gone through. Each fact knows the line it comes from; correct the line, and the next
/// run corrects the fact.
#[derive(Debug, Parser)]
#[command(
    name = "agent-consolidate",
    version = cli::version(),
    after_help = "Examples:\n  agent-consolidate --dry-run\n  agent-consolidate facts sister\n  agent-consolidate why 12"
)]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    run: RunArguments,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Go through what is new (the default)
    Run(RunArguments),
    /// Show how many facts there are and what waits
    Status,
    /// Show facts, those that hold now
    Facts(FactsArguments),
    /// Show where a fact was stated
    Why(WhyArguments),
}

#[derive(Debug, Clone, Copy, Default, Args)]
struct RunArguments {
    /// Show what would change, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Go through everything again
    #[arg(long)]
    backfill: bool,
}

#[derive(Debug, Args)]
struct FactsArguments {
    /// Words that a fact must have, all of them
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// More words
    #[arg(value_name = "WORD", hide = true)]
    more: Vec<String>,
    /// Show what held once, too
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
struct WhyArguments {
    /// The number of the fact, or words of it
    #[arg(value_name = "FACT")]
    fact: String,
    /// More words of it
    #[arg(value_name = "WORD", hide = true)]
    more: Vec<String>,
}

/// Returns the command line.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the program.
pub fn main() -> ExitCode {
    match cli::parse::<Arguments>() {
        Ok(arguments) => cli::end(PROGRAM, arguments.json, || run(&arguments)),
        Err(code) => code,
    }
}

fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let Arguments { shared, json, run, verb } = arguments;
    let (env, home) = shared.home()?;
    let context = Context { home, env, shared, json: *json };
    if (run.dry_run || run.backfill) && !matches!(verb, None | Some(Verb::Run(_))) {
        return Err(Failure::new(Exit::Usage, "--dry-run and --backfill belong to run").hint("agent-consolidate run --help"));
    }
    cli::must_be_there(&context.home)?;
    match verb {
        None => run::run(&context, *run),
        Some(Verb::Run(own)) => {
            run::run(&context, RunArguments { dry_run: run.dry_run || own.dry_run, backfill: run.backfill || own.backfill })
        }
        Some(Verb::Status) => state::run(&context),
        Some(Verb::Facts(wanted)) => facts::run(&context, wanted),
        Some(Verb::Why(wanted)) => why::run(&context, wanted),
    }
}

/// What every verb needs.
struct Context<'a> {
    home: Home,
    env: Environment,
    shared: &'a Shared,
    json: bool,
}

impl Context<'_> {
    /// Says a word beside the data.
    fn note(&self, words: &str) {
        if !self.shared.quiet {
            cli::err(&format!("{PROGRAM}: {words}"));
        }
    }
}

/// Returns words joined as one query.
fn joined(first: Option<&String>, more: &[String]) -> Option<String> {
    let words: Vec<&str> = first.into_iter().chain(more).map(String::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns a fact as the contract has it.
fn document(fact: &Fact) -> Value {
    json!({
        "id": fact.id, "entity": fact.entity, "attribute": fact.attribute, "value": fact.value,
        "confidence": fact.confidence, "source": fact.source, "source_line": fact.source_line,
        "valid_from": clock::rfc3339(fact.valid_from), "valid_to": fact.valid_to.map(clock::rfc3339),
        "superseded_by": fact.superseded_by, "scope": fact.scope.to_string(),
    })
}

/// Returns whose a fact is, when that is not the owner.
fn whose(fact: &Fact) -> String {
    match fact.scope.to_string() {
        scope if scope == "owner" => String::new(),
        scope => format!("[{scope}] "),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let is_damage = error.is_damage();
        match error {
            error if is_damage => Self::new(Exit::Data, error.to_string()).hint(
                "agent-consolidate --backfill sets it aside and makes the facts anew from your files; only what held once is lost",
            ),
            Error::Database(error) => Self::from(error),
            Error::File(error) => Self::from(error),
        }
    }
}
