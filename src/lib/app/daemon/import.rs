//! `agent-daemon import PROGRAM DIR`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::sys::lock;
use crate::{clock, config, import};

/// What `agent-daemon import` takes.
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The program from which to import
    program: Program,
    /// Its directory, such as ~/.openclaw or ~/.hermes; it is only read
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// List what would be imported and what cannot, without writing
    #[arg(long)]
    dry_run: bool,
}

/// A program whose files can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Program {
    Openclaw,
    Hermes,
}

pub(super) fn import(shared: &Shared, wanted: &Import, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    cli::must_be_there(&home)?;
    let zone = config::load_config(&home, &env)?.agent.timezone.0;
    let context = import::Context {
        home: &home,
        zone,
        now: clock::now_ms(),
    };
    let plan = match wanted.program {
        Program::Openclaw => import::openclaw(&wanted.dir, &context)?,
        Program::Hermes => import::hermes(&wanted.dir, &context)?,
    };
    let taken: Vec<String> = plan.steps.iter().map(|step| step.what.clone()).collect();
    let (left, settings) = (plan.left.clone(), plan.settings.clone());
    if !wanted.dry_run {
        cli::may_write(&home)?;
        cli::prepare(&home)?;
        let busy =
            || Failure::try_again("the daemon runs").hint("stop it, import, and start it again");
        let _lock = lock::try_lock(&home.lock())?.ok_or_else(busy)?;
        plan.carry_out(&home)?;
    }
    if json {
        let left: Vec<_> = left
            .iter()
            .map(|(what, why)| json!({"what": what, "why": why}))
            .collect();
        cli::json(
            &json!({"dry_run": wanted.dry_run, "taken": taken, "left": left, "settings": settings}),
        );
        return Ok(Exit::Ok);
    }
    let word = if wanted.dry_run { "would take" } else { "took" };
    for what in &taken {
        cli::out(&format!("{word}  {}", cli::harmless(what)));
    }
    for (what, why) in &left {
        cli::out(&format!(
            "left  {}: {}",
            cli::harmless(what),
            cli::harmless(why)
        ));
    }
    if !settings.is_empty() {
        cli::out(&format!(
            "\nfor {}:\n{settings}",
            home.config_file().display()
        ));
    }
    if !shared.quiet && taken.is_empty() && left.is_empty() {
        cli::err(&format!(
            "nothing to import in {}: DIR is the program's own directory, such as ~/.openclaw or ~/.hermes",
            wanted.dir.display()
        ));
    }
    for kind in ["skills", "prompts"] {
        let folder = format!("imported/{kind}");
        if !shared.quiet && taken.iter().any(|what| what.contains(&folder)) {
            cli::err(&format!(
                "{kind} are inactive: read each, then move it from workspace/{folder} to workspace/{kind}"
            ));
        }
    }
    Ok(Exit::Ok)
}
