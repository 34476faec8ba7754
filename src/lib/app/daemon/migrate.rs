//! `agent-daemon migrate`: migrates the databases of a home to this version, or explains why there is no way back.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::config::Home;
use crate::db::Migrated;
use crate::memory::facts;
use crate::sys::lock;
use crate::{cost, db, queue, text};

const OWN: &str = env!("CARGO_PKG_VERSION");
/// The databases of a home are migrated at the first start of a daemon and the first run of agent-consolidate, which
/// comes once a day at least.
const ONE_MIGRATION: Duration = Duration::from_secs(24 * 3600);

pub(super) fn migrate(shared: &Shared, to: Option<&str>) -> Result<Exit, Failure> {
    let (_, home) = shared.home()?;
    cli::must_be_there(&home)?;
    cli::may_write(&home)?;
    if let Some(other) = to.filter(|to| *to != OWN) {
        return Err(elsewhere(&home, other)?);
    }
    cli::prepare(&home)?;
    let busy = || {
        Failure::try_again("the daemon runs")
            .hint("stop it first; it migrates by itself at its start")
    };
    let _lock = lock::try_lock(&home.lock())?.ok_or_else(busy)?;
    let memory = facts::database(&home);
    for (path, done) in [
        (home.queue_db(), queue::migrate(&home.queue_db())?),
        (home.cost_db(), cost::migrate(&home.cost_db())?),
        (memory.clone(), facts::migrate(&memory)?),
    ] {
        if let Some(done) = done {
            cli::out(&said(&home, &path, done));
        }
    }
    Ok(Exit::Ok)
}

fn said(home: &Home, path: &Path, Migrated { from, to }: Migrated) -> String {
    let name = home.display(path);
    if from == to {
        return format!("{name}: schema {to}, nothing to do");
    }
    let kept = home.display(&db::old_copy(path, from));
    format!("{name}: migrated from schema {from} to {to}; copy of the old one: {kept}")
}

/// Returns the three numbers of a version.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let plain = version.strip_prefix('v').unwrap_or(version);
    let parts: Vec<u64> = plain
        .split('.')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    parts.try_into().ok()
}

/// Only the program of a version writes its databases: says which way leads to version `other`.
fn elsewhere(home: &Home, other: &str) -> Result<Failure, Failure> {
    let shown = text::visible(&text::shorten(other, 40));
    let wanted = numbers(other).ok_or_else(|| {
        Failure::usage(format!("`{shown}` is not a version"))
            .hint(format!("a version looks like {OWN}"))
    })?;
    if Some(wanted) > numbers(OWN) {
        return Ok(Failure::failed(format!(
            "this is version {OWN}, which does not know {shown}"
        ))
        .hint(format!(
            "install {shown}; it migrates the home at its first start"
        )));
    }
    Ok(back(home, &shown))
}

/// There is no way back but to what was kept.
fn back(home: &Home, other: &str) -> Failure {
    let newest = |path: PathBuf| {
        let copies = (1..)
            .map(|schema| db::old_copy(&path, schema))
            .take(99)
            .filter(|copy| copy.exists());
        let copy = copies.last()?;
        let at = copy.metadata().and_then(|meta| meta.modified()).ok()?;
        Some((at, copy, path))
    };
    let databases = [home.queue_db(), home.cost_db(), facts::database(home)];
    let copies: Vec<_> = databases.into_iter().filter_map(newest).collect();
    // One that was left as it was by the last migration has an older copy, which lacks all that came since.
    let last = copies.iter().map(|(at, ..)| *at).max();
    let of_last = |at: SystemTime| last.is_some_and(|last| at + ONE_MIGRATION >= last);
    let kept: Vec<String> = copies
        .iter()
        .filter(|(at, ..)| of_last(*at))
        .map(|(_, copy, path)| {
            // A log of writes next to the database belongs to the new one.
            let (copy, path) = (cli::quote(copy), cli::quote(path));
            format!("rm -f {path}-wal {path}-shm && mv {copy} {path}")
        })
        .collect();
    let hint = if kept.is_empty() {
        "restore a backup that it wrote: agent-daemon restore PATH".to_owned()
    } else {
        format!(
            "stop the daemon, install {other}, and restore the copies from before the migration, which lack all newer data: {}",
            kept.join("; ")
        )
    };
    Failure::failed(format!(
        "version {OWN} cannot turn this home into one of version {other}"
    ))
    .hint(hint)
}
