//! `agent-index --collection NAME`: fills a collection, searches it, or shows its content.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use super::{Context, FillArguments, PROGRAM, SearchArguments, batch, search, sync};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::progress_bar::Bar;
use crate::config::{Collection, Secrets};
use crate::memory::collections;
use crate::memory::collections::fill::{self, Filled, Source};
use crate::memory::collections::{Error, Status, Store};
use crate::text;

/// How long a search and a status may take: at the shell somebody may wait for a server that is far away.
const PATIENCE: Duration = Duration::from_secs(20);

/// The collection that is named.
pub(super) struct Wanted<'a> {
    pub name: &'a str,
    pub settings: &'a BTreeMap<String, Collection>,
    pub secrets: &'a Secrets,
    /// Read every file again.
    pub full: bool,
}

impl Wanted<'_> {
    fn open(&self, patience: Duration) -> Result<Store, Error> {
        collections::open(self.name, self.settings, self.secrets, patience)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Unknown(_) | Error::NoPassword { .. } => Exit::Config,
            Error::Directory(_) => Exit::Usage,
            error if error.is_unreachable() => Exit::TryAgain,
            Error::Denied { .. } => Exit::NotPermitted,
            _ => Exit::Failed,
        };
        Self::new(exit, error.to_string()).hint(error.hint())
    }
}

pub(super) fn fill(
    context: &Context<'_>,
    wanted: &Wanted<'_>,
    arguments: &FillArguments,
) -> Result<Exit, Failure> {
    if arguments.directory.is_none() && !arguments.create {
        let failure = Failure::usage("there is nothing to fill the collection from");
        return Err(failure.hint(format!(
            "{PROGRAM} --collection {} DIR; or search, or status",
            wanted.name
        )));
    }
    let mut store = wanted.open(fill::PATIENCE)?;
    if arguments.create {
        let is_new = store.create(&context.place)?;
        if context.shared.verbose > 0 || arguments.directory.is_none() {
            let what = if is_new { "made" } else { "there already" };
            cli::err(&format!(
                "{PROGRAM}: the collection {} is {what}",
                wanted.name
            ));
        }
    }
    let Some(directory) = &arguments.directory else {
        return Ok(Exit::Ok);
    };
    cli::prepare(&context.home)?;
    let source = Source {
        directory,
        name: arguments.source.as_deref(),
        scope: &arguments.scope,
        host: arguments.host.as_deref(),
        full: wanted.full,
        may_be_empty: arguments.empty,
    };
    let bar = Bar::new(context.shared, "filling", "files");
    let filled = fill::fill(&mut store, &context.place, &source, &mut |progress| {
        bar.show(progress);
    });
    bar.end();
    tell(context, &filled?);
    Ok(Exit::Ok)
}

/// Says what was done: all of it with `-v`, what went wrong in any case.
fn tell(context: &Context<'_>, filled: &Filled) {
    let Filled { source, report } = filled;
    sync::tell_skipped(context, report);
    if let Some(why) = report
        .vectors
        .failed
        .as_ref()
        .filter(|_| !context.shared.quiet)
    {
        cli::err(&text::visible(&format!(
            "{PROGRAM}: found by words alone until the next fill makes the vectors that are missing: {why}"
        )));
    }
    if context.json {
        let mut document = sync::document(report);
        document["source"] = json!(source);
        cli::json(&document);
    } else if context.shared.verbose > 0 {
        cli::err(&format!(
            "{PROGRAM}: {source}: {}, {} chunks written, {} vectors made",
            sync::summary(report),
            report.chunks,
            report.vectors.made
        ));
    }
}

pub(super) fn search(
    context: &Context<'_>,
    wanted: &Wanted<'_>,
    arguments: &SearchArguments,
) -> Result<Exit, Failure> {
    if !arguments.source.is_empty() {
        return Err(Failure::usage("--source names a part of the own memory")
            .hint("leave out --source, or --collection"));
    }
    let mut store = wanted.open(PATIENCE)?;
    let query = search::query(context, arguments);
    let found = collections::Searcher::new(&context.place).search(&mut store, &query)?;
    search::tell(context, arguments, &found);
    Ok(Exit::Ok)
}

/// Answers queries of standard input.
pub(super) fn batch(context: &Context<'_>, wanted: &Wanted<'_>) -> Result<Exit, Failure> {
    let mut store = wanted.open(PATIENCE)?;
    let mut searcher = collections::Searcher::new(&context.place);
    batch::run(
        context,
        &mut |query| Ok(searcher.search(&mut store, query)?),
    )
}

pub(super) fn status(context: &Context<'_>, wanted: &Wanted<'_>) -> Result<Exit, Failure> {
    let status = wanted.open(PATIENCE)?.status()?;
    if context.json {
        cli::json(&status);
    } else {
        lines(&status)
            .iter()
            .for_each(|line| cli::out(&text::visible(line)));
    }
    Ok(Exit::Ok)
}

fn lines(status: &Status) -> Vec<String> {
    let pgvector = status.pgvector.as_deref().unwrap_or("none");
    let size = u64::try_from(status.bytes).unwrap_or(0);
    let mut lines = vec![
        format!(
            "server     PostgreSQL {}, pgvector {pgvector}",
            status.server
        ),
        format!("files      {}", status.files),
        format!("chunks     {}", status.chunks),
        format!(
            "vectors    by {}",
            status.model.as_deref().unwrap_or("none")
        ),
        format!("size       {}B", text::count(size)),
    ];
    for fill in &status.fills {
        let when = match &fill.ended_at {
            Some(at) => format!("{} documents at {at}", fill.files),
            None => format!("began at {}, not finished", fill.began_at),
        };
        lines.push(format!(
            "{}, {}: {when}; from {} on {}",
            fill.source, fill.scope, fill.directory, fill.host
        ));
        if !fill.lacking.is_empty() {
            lines.push(format!("  without some vectors: {}", fill.lacking));
        }
    }
    lines
}
