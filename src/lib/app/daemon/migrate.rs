//! `agent-daemon migrate`: brings the databases of a home up to this version, or says why there is no way back.

use std::path::Path;

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::config::Home;
use crate::db::Migrated;
use crate::memory::facts;
use crate::sys::lock;
use crate::{cost, db, queue};

const OWN: &str = env!("CARGO_PKG_VERSION");

pub(super) fn migrate(shared: &Shared, to: Option<&str>) -> Result<Exit, Failure> {
    let (_, home) = shared.home()?;
    cli::must_be_there(&home)?;
    cli::may_write(&home)?;
    if let Some(other) = to.filter(|to| *to != OWN) {
        return Err(back(&home, other));
    }
    cli::prepare(&home)?;
    let busy = || {
        Failure::new(Exit::TryAgain, "the daemon runs")
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
    format!("{name}: schema {from} is now {to}; as it was before: {kept}")
}

/// There is no way back but to what was kept.
fn back(home: &Home, other: &str) -> Failure {
    let mut kept = Vec::new();
    for path in [home.queue_db(), home.cost_db(), facts::database(home)] {
        let copies = (1..)
            .map(|schema| db::old_copy(&path, schema))
            .take(99)
            .filter(|copy| copy.exists());
        if let Some(newest) = copies.last() {
            kept.push(format!("mv {} {}", cli::quote(&newest), cli::quote(&path)));
        }
    }
    let hint = if kept.is_empty() {
        "put back a backup that it wrote: agent-daemon restore PATH".to_owned()
    } else {
        format!(
            "stop the daemon, install {other}, and put back what was kept before the migration; what came since is not in it: {}",
            kept.join("; ")
        )
    };
    Failure::new(
        Exit::Failed,
        format!("version {OWN} cannot turn this home into one of version {other}"),
    )
    .hint(hint)
}
