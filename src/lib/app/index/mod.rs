//! `agent-index`: brings the search index up to date, and searches it.

mod batch;
mod collection;
mod search;
pub(crate) use search::result;
mod status;
mod sync;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use chrono::NaiveDate;
use chrono_tz::Tz;
use clap::builder::PossibleValuesParser;
use clap::{Args, CommandFactory, Parser, Subcommand};

use super::cli;
use super::cli::{Exit, Failure, Shared};
use crate::clock;
use crate::config;
use crate::config::{Home, Secrets};
use crate::memory::collections;
use crate::memory::embedder;
use crate::memory::index;
use crate::memory::index::{Place, Searcher};

const PROGRAM: &str = "agent-index";

/// Index the agent's memory and search it
///
/// Without a verb it does `sync`: new and changed files are indexed, deleted ones removed. The index
/// covers MEMORY.md and memory/**/*.md in the workspace, ended conversations and their summaries, and
/// the facts of agent-consolidate.
#[derive(Debug, Parser)]
#[command(
    name = "agent-index",
    version = cli::version(),
    after_help = "Examples:\n  agent-index\n  agent-index search \"what did Ada say about the garden?\"\n  \
                  echo '{\"id\":1,\"query\":\"garden\",\"k\":3}' | agent-index batch\n  \
                  agent-index --collection handbook --create /srv/handbook\n  \
                  agent-index search --collection handbook \"how many days off?\""
)]
struct Arguments {
    #[command(flatten)]
    shared: Shared,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    sync: SyncArguments,
    #[command(flatten)]
    fill: FillArguments,
    /// Use this shared collection, in PostgreSQL, instead of the agent's memory
    #[arg(long, global = true, value_name = "NAME")]
    collection: Option<String>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Args)]
struct FillArguments {
    /// Fill the collection from this directory
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// The name of the directory in the collection; by default its own name
    #[arg(long = "as", value_name = "SOURCE")]
    source: Option<String>,
    /// Who may read the documents: a scope to which the owner of the tables admits roles
    #[arg(long, value_name = "SCOPE", default_value = collections::fill::EVERYBODY)]
    scope: String,
    /// The name of this host in the collection; by default its host name
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Create the tables of the collection first
    #[arg(long)]
    create: bool,
    /// Accept a directory without documents, and remove its earlier documents
    #[arg(long)]
    empty: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Bring the index up to date (the default)
    Sync(SyncArguments),
    /// Search
    Search(SearchArguments),
    /// Answer a query on each line of standard input: {"id","query","k","max_tokens"?}
    Batch,
    /// Show what is indexed
    Status,
    /// Rebuild the index
    Rebuild,
    /// Keep running and index changes
    Watch,
}

#[derive(Debug, Clone, Copy, Default, Args)]
struct SyncArguments {
    /// Index every file again
    #[arg(long)]
    full: bool,
    /// Show what would be done and what it would cost, without changes
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
struct SearchArguments {
    /// Words, or a question
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    query: String,
    /// More words of it
    #[arg(value_name = "WORD", hide = true)]
    more: Vec<String>,
    /// The maximum number of results, 1 to 20
    #[arg(short, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=20))]
    k: u8,
    /// The maximum size of all results together, in tokens of four characters
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: Option<u32>,
    /// Show why each result was found
    #[arg(long)]
    explain: bool,
    /// Search only this source; may be repeated
    #[arg(long, value_parser = PossibleValuesParser::new(search::SOURCES))]
    source: Vec<String>,
    /// Search only results of this day or later
    #[arg(long, value_name = "YYYY-MM-DD")]
    after: Option<NaiveDate>,
    /// Search only results of this day or earlier
    #[arg(long, value_name = "YYYY-MM-DD")]
    before: Option<NaiveDate>,
    /// What to search by
    #[arg(long, default_value = "hybrid", value_parser = PossibleValuesParser::new(search::STRATEGIES))]
    strategy: String,
    /// Leave out results with a lower score, 0 to 1
    #[arg(long, value_name = "X", value_parser = share)]
    min_score: Option<f32>,
}

fn share(text: &str) -> Result<f32, String> {
    text.parse::<f32>()
        .ok()
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| "not between 0 and 1".to_owned())
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
    let (shared, sync, verb) = (&arguments.shared, &arguments.sync, &arguments.verb);
    if arguments.collection.is_none()
        && let Some(word) = &arguments.fill.directory
    {
        let word = word.display();
        let failure = Failure::usage(format!("`{word}` is no verb of {PROGRAM}"));
        return Err(failure.hint(format!(
            "{PROGRAM} --help; to fill a collection: {PROGRAM} --collection NAME {word}"
        )));
    }
    let (env, home) = shared.home()?;
    cli::must_be_there(&home)?;
    let place = Place::of(&home).with(embedder::opener(&home, &env, None));
    let config = config::load_config(&home, &env)?;
    let context = Context {
        place,
        home,
        zone: config.agent.timezone.0,
        vector_weight: config.memory.vector_weight,
        shared,
        json: arguments.json,
    };
    if (sync.full || sync.dry_run) && !matches!(verb, None | Some(Verb::Sync(_))) {
        return Err(
            Failure::usage("--full and --dry-run belong to sync").hint("agent-index sync --help")
        );
    }
    if let Some(name) = &arguments.collection {
        let secrets = Secrets::open(&context.home, &env)?;
        let wanted = collection::Wanted {
            name,
            settings: &config.memory.collections,
            secrets: &secrets,
            full: sync.full,
        };
        return match verb {
            None if !sync.dry_run => collection::fill(&context, &wanted, &arguments.fill),
            Some(Verb::Search(query)) => collection::search(&context, &wanted, query),
            Some(Verb::Batch) => collection::batch(&context, &wanted),
            Some(Verb::Status) => collection::status(&context, &wanted),
            _ => Err(Failure::usage(
                "a collection is filled from a directory, searched, or asked for its status",
            )
            .hint(format!(
                "{PROGRAM} --collection {name} DIR, or search QUERY, or status"
            ))),
        };
    }
    match verb {
        None => sync::run(&context, *sync),
        Some(Verb::Sync(own)) => sync::run(
            &context,
            SyncArguments {
                full: sync.full || own.full,
                dry_run: sync.dry_run || own.dry_run,
            },
        ),
        Some(Verb::Rebuild) => sync::run(
            &context,
            SyncArguments {
                full: true,
                dry_run: false,
            },
        ),
        Some(Verb::Search(wanted)) => search::run(&context, wanted),
        Some(Verb::Batch) => {
            let mut searcher = Searcher::new(&context.place);
            batch::run(&context, &mut |query| Ok(searcher.search(query)?))
        }
        Some(Verb::Status) => status::run(&context),
        Some(Verb::Watch) => watch::run(&context),
    }
}

/// What every verb needs.
struct Context<'a> {
    home: Home,
    place: Place,
    zone: Tz,
    vector_weight: Option<f32>,
    shared: &'a Shared,
    json: bool,
}

impl Context<'_> {
    /// Returns the day by which a question for yesterday is understood.
    fn today(&self) -> Option<NaiveDate> {
        Some(clock::local_date(clock::now_ms(), self.zone))
    }
}

fn damaged(what: String) -> Failure {
    Failure::data(what)
        .hint("agent-index rebuild; nothing is lost, the index is made from the files")
}

impl From<index::Error> for Failure {
    fn from(error: index::Error) -> Self {
        let is_damage = error.is_damage();
        match error {
            error if is_damage => damaged(error.to_string()),
            index::Error::Database(error) => Self::from(error),
            index::Error::File(error) => Self::from(error),
            error @ index::Error::NoVectors(_) => Self::failed(error.to_string())
                .hint("leave --strategy out: words find natural questions too"),
        }
    }
}
