//! `agent-consolidate`: extracts facts from notes and conversations, and shows them.

mod documents;
pub(crate) use documents::{fact, origin};
mod forget;
mod lists;
mod maintain;
mod reader;
mod run;
mod status;
mod undo;
mod why;

use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

use super::cli;
use super::cli::{Exit, Failure, Shared};
use crate::app::render::Context;
use crate::config;
use crate::forget as forgetting;
use crate::memory::facts::Error;

const PROGRAM: &str = "agent-consolidate";

/// Extract facts from notes and conversations, and show them
///
/// Without a verb it does `run`: it processes new content in USER.md, MEMORY.md, memory/**/*.md and in the
/// owner's conversations. Each fact records the line that states it; correct the line, and the next run
/// corrects the fact.
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
    /// Process new content (the default)
    Run(RunArguments),
    /// Show the number of facts and the pending work
    Status,
    /// Show the current facts
    Facts(ListArguments),
    /// Show episodes of conversations, the newest first
    Episodes(ListArguments),
    /// Show open commitments
    Commitments(ListArguments),
    /// Show where a fact was stated
    Why(WhyArguments),
    /// Let overdue commitments expire, show notes that contradict each other
    Maintain,
    /// Undo a run; without RUN, show the runs
    Undo(UndoArguments),
    /// Forget a fact or a person: it is no longer used; with --hard it is erased
    Forget(ForgetArguments),
}

#[derive(Debug, Clone, Copy, Default, Args)]
struct RunArguments {
    /// Show what would change, without writing
    #[arg(long)]
    dry_run: bool,
    /// Process everything again
    #[arg(long)]
    backfill: bool,
}

#[derive(Debug, Args)]
struct ListArguments {
    /// Words that a result must contain, all of them
    #[arg(value_name = "QUERY")]
    query: Option<String>,
    /// More words
    #[arg(value_name = "WORD", hide = true)]
    more: Vec<String>,
    /// Also show former or settled ones
    #[arg(long)]
    all: bool,
}

impl ListArguments {
    fn query(&self) -> Option<String> {
        let first = self.query.as_ref()?;
        Some(joined(first, &self.more))
    }

    /// Returns true for a text with all the words.
    fn wants(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let words = self.query().unwrap_or_default().to_lowercase();
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
    /// Erase it from all data of the agent; a running daemon restarts for this
    #[arg(long)]
    hard: bool,
    /// Erase without asking
    #[arg(long, requires = "hard")]
    yes: bool,
    /// Show what would be forgotten, without writing
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
    let (shared, run, verb) = (&arguments.shared, &arguments.run, &arguments.verb);
    let (env, home) = shared.home()?;
    let context = Context {
        program: PROGRAM,
        shared,
        home: &home,
        env: &env,
        json: arguments.json,
        quiet: shared.quiet,
    };
    if (run.dry_run || run.backfill) && !matches!(verb, None | Some(Verb::Run(_))) {
        return Err(Failure::usage("--dry-run and --backfill belong to run")
            .hint("agent-consolidate run --help"));
    }
    cli::must_be_there(context.home)?;
    // A setting that cannot be read is not a reason to guess its value.
    config::load_config(context.home, context.env)?;
    match verb {
        None => run::run(&context, *run),
        Some(Verb::Run(own)) => {
            let dry_run = run.dry_run || own.dry_run;
            let backfill = run.backfill || own.backfill;
            run::run(&context, RunArguments { dry_run, backfill })
        }
        Some(Verb::Status) => status::run(&context),
        Some(Verb::Facts(wanted)) => lists::facts(&context, wanted),
        Some(Verb::Episodes(wanted)) => lists::episodes(&context, wanted),
        Some(Verb::Commitments(wanted)) => lists::commitments(&context, wanted),
        Some(Verb::Why(wanted)) => why::run(&context, wanted),
        Some(Verb::Maintain) => maintain::run(&context),
        Some(Verb::Undo(wanted)) => undo::run(&context, wanted),
        Some(Verb::Forget(wanted)) => forget::run(&context, wanted),
    }?;
    Ok(Exit::Ok)
}

fn joined(first: &str, more: &[String]) -> String {
    let words: Vec<&str> = std::iter::once(first)
        .chain(more.iter().map(String::as_str))
        .collect();
    words.join(" ")
}

/// Returns the commands that could be meant, a line each, with what they are about.
fn choices(verb: &str, choices: &[(String, String)]) -> String {
    let line = |(name, what): &(String, String)| {
        let line = format!("{PROGRAM} {verb} {}   {what}", cli::quote(name));
        crate::text::visible(line.trim_end())
    };
    choices
        .iter()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n      ")
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            error if error.is_damage() => Self::data(error.to_string()).hint(
                "agent-consolidate --backfill sets it aside and makes the facts again from your files; what held once, what was \
                 forgotten or undone, and which commitments were kept is lost",
            ),
            Error::Database(error) => Self::from(error),
            Error::File(error) => Self::from(error),
        }
    }
}

impl From<forgetting::Error> for Failure {
    fn from(error: forgetting::Error) -> Self {
        use forgetting::Error;
        let exit = match error {
            Error::Facts(error) => return Self::from(error),
            Error::Database(error) => return Self::from(error),
            Error::Index(error) => return Self::from(error),
            Error::File(error) => return Self::from(error),
            Error::Busy { .. } => Exit::TryAgain,
            Error::Left(_) => Exit::Failed,
            Error::Unclear(_) => Exit::Usage,
        };
        let failure = Self::new(exit, error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
