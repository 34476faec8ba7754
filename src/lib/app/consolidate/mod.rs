//! `agent-consolidate`: draws facts from notes and conversations, and shows them.

mod commitments;
mod facts;
mod forget;
mod maintain;
mod reader;
mod run;
mod status;
mod why;

use std::process::ExitCode;

use chrono_tz::Tz;
use clap::{Args, CommandFactory, Parser, Subcommand};
use serde_json::{Value, json};

use super::cli;
use super::cli::{Exit, Failure, Shared};
use super::documents;
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
    /// Show what happened in conversations, the newest first
    Episodes(ListArguments),
    /// Show what was promised and is still open
    Commitments(ListArguments),
    /// Show where a fact was stated
    Why(WhyArguments),
    /// Let overdue commitments expire, show notes that contradict each other
    Maintain,
    /// Take back what a run put in; without RUN, show the runs
    Undo(UndoArguments),
    /// Forget a fact or a person: what states it no longer counts; with --hard it is erased
    Forget(ForgetArguments),
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
struct ListArguments {
    /// Words that it must have, all of them
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// More words
    #[arg(value_name = "WORD", hide = true)]
    more: Vec<String>,
    /// Show what is settled, too
    #[arg(long)]
    all: bool,
}

impl ListArguments {
    /// Returns true for a text with all the words.
    fn wants(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let words = joined(self.query.as_ref(), &self.more)
            .unwrap_or_default()
            .to_lowercase();
        words.split_whitespace().all(|word| text.contains(word))
    }
}

#[derive(Debug, Args)]
struct UndoArguments {
    /// The id of the run, as `agent-consolidate undo` shows it
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

#[derive(Debug, Args)]
struct ForgetArguments {
    /// A name, other name, id or username, or a fact: its number, or words of it
    #[arg(value_name = "PERSON|FACT")]
    what: String,
    /// More words of it
    #[arg(value_name = "WORD", hide = true)]
    more: Vec<String>,
    /// Erase it from everything that the agent keeps; a daemon that runs begins anew for it
    #[arg(long)]
    hard: bool,
    /// Erase without asking
    #[arg(long, requires = "hard")]
    yes: bool,
    /// Show what would be forgotten, write nothing
    #[arg(long)]
    dry_run: bool,
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
    let Arguments {
        shared,
        json,
        run,
        verb,
    } = arguments;
    let (env, home) = shared.home()?;
    let context = Context {
        home,
        env,
        shared,
        json: *json,
    };
    if (run.dry_run || run.backfill) && !matches!(verb, None | Some(Verb::Run(_))) {
        return Err(
            Failure::new(Exit::Usage, "--dry-run and --backfill belong to run")
                .hint("agent-consolidate run --help"),
        );
    }
    cli::must_be_there(&context.home)?;
    match verb {
        None => run::run(&context, *run),
        Some(Verb::Run(own)) => run::run(
            &context,
            RunArguments {
                dry_run: run.dry_run || own.dry_run,
                backfill: run.backfill || own.backfill,
            },
        ),
        Some(Verb::Status) => status::run(&context),
        Some(Verb::Facts(wanted)) => facts::run(&context, wanted),
        Some(Verb::Episodes(wanted)) => commitments::episodes(&context, wanted),
        Some(Verb::Commitments(wanted)) => commitments::commitments(&context, wanted),
        Some(Verb::Why(wanted)) => why::run(&context, wanted),
        Some(Verb::Maintain) => maintain::maintain(&context),
        Some(Verb::Undo(wanted)) => maintain::undo(&context, wanted),
        Some(Verb::Forget(wanted)) => forget::run(&context, wanted),
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
    /// Returns the agent's zone; UTC where the settings cannot be read.
    fn zone(&self) -> Tz {
        documents::zone(&self.home, &self.env).0
    }

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
    let mut document = json!({
        "id": fact.id, "entity": fact.entity, "attribute": fact.attribute, "value": fact.value,
        "confidence": fact.confidence, "source": fact.source, "source_line": fact.source_line,
        "valid_from": clock::rfc3339(fact.valid_from), "valid_to": fact.valid_to.map(clock::rfc3339),
        "superseded_by": fact.superseded_by, "scope": fact.scope.to_string(),
    });
    if fact.is_forgotten {
        document["forgotten"] = json!(true);
    }
    document
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
                "agent-consolidate --backfill sets it aside and makes the facts anew from your files; what held once, what was \
                 forgotten or undone, and which commitments were kept is lost",
            ),
            Error::Database(error) => Self::from(error),
            Error::File(error) => Self::from(error),
        }
    }
}
