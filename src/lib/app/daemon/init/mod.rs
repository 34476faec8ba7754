//! `agent-daemon init`: makes the home, and on a terminal sets it up step by step. Each step can be skipped and run
//! again; none is asked without a terminal, or with `--yes`.

mod ask;
mod greeting;
mod local;
mod model;
mod service;
mod settings_file;

pub(crate) use settings_file::{append, write as write_settings};
mod telegram;

use std::io::IsTerminal;

use serde_json::json;

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::systemd_unit::Unit;
use crate::config;
use crate::config::{Environment, Home, machine_zone};
use crate::workspace;
use crate::workspace::Fate;
use ask::Stop;

/// What each step works with.
struct Setup<'a> {
    shared: &'a Shared,
    env: Environment,
    home: Home,
    runtime: tokio::runtime::Runtime,
}

pub(super) fn init(shared: &Shared, yes: bool, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    cli::must_be_whole(&home)?;
    cli::may_write(&home)?;
    let created = workspace::init(&home, machine_zone(&env))?;
    let is_terminal = || std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let is_asked = !yes && !json && !shared.quiet && is_terminal();
    if is_asked {
        return guide(shared, env, home);
    }
    if json {
        let of = |fate: Fate| -> Vec<String> {
            let files = created.iter().filter(|file| file.fate == fate);
            files.map(|file| home.display(&file.path)).collect()
        };
        cli::json(&json!({"created": of(Fate::Written), "kept": of(Fate::Kept)}));
        return Ok(Exit::Ok);
    }
    for file in &created {
        let word = match file.fate {
            Fate::Written => "created",
            Fate::Kept => "kept   ",
        };
        cli::out(&format!("{word}  {}", home.display(&file.path)));
    }
    if !shared.quiet {
        cli::err(&format!(
            "next: {} (or openai, gemini, openrouter) gives it a model; for Telegram put the bot's \
             token into {} and `enabled = true` below [telegram] in {}",
            cli::command("agent-daemon", "login anthropic"),
            home.env_file().display(),
            home.config_file().display()
        ));
        let unit = Unit::of(&env, &home).and_then(|unit| unit.start());
        cli::err(&format!(
            "then: {}, {}, and in another terminal {}",
            cli::command("agent-daemon", "check"),
            unit.unwrap_or_else(|| cli::command("agent-daemon", "run")),
            cli::command_elsewhere(&env, "agent-send", "--chat")
        ));
    }
    Ok(Exit::Ok)
}

/// Asks what a working agent needs.
fn guide(shared: &Shared, env: Environment, home: Home) -> Result<Exit, Failure> {
    let setup = Setup {
        shared,
        env,
        home,
        runtime: cli::event_loop()?,
    };
    cli::err(&format!(
        "The agent lives in {}.",
        setup.home.config_dir().display()
    ));
    cli::err(
        "Enter takes the answer in [brackets], s skips a step, Ctrl-D ends; run agent-daemon init again at any time.",
    );
    let steps: [(&str, Step); 4] = [
        ("Model", model::step),
        ("Telegram", telegram::step),
        ("Service", service::step),
        ("First message", greeting::step),
    ];
    for (number, (name, step)) in steps.iter().enumerate() {
        cli::err(&format!("\n{} of {}: {name}", number + 1, steps.len()));
        match step(&setup) {
            Ok(()) => {}
            Err(Stop::Skipped) => cli::err("  skipped"),
            Err(Stop::Ended) => break,
            // What failed can be done again; the other steps do not depend on it.
            Err(Stop::Failed(failure)) => cli::complain("  agent-daemon", &failure),
        }
    }
    cli::err("");
    setup.summary();
    Ok(Exit::Ok)
}

type Step = fn(&Setup<'_>) -> Result<(), Stop>;

impl Setup<'_> {
    fn loaded(&self) -> Result<config::Loaded, Failure> {
        Ok(config::load(&self.home, &self.env, &[])?)
    }

    fn is_running(&self) -> bool {
        matches!(crate::sys::lock::holder(&self.home.lock()), Ok(Some(_)))
    }

    fn summary(&self) {
        if !self.is_running() {
            cli::err(&format!(
                "Start the agent:   {}",
                cli::command("agent-daemon", "run")
            ));
        }
        cli::err(&format!(
            "Talk to it:        {}",
            cli::command("agent-send", "--chat")
        ));
        cli::err(&format!(
            "What is wrong:     {}",
            cli::command("agent-daemon", "doctor")
        ));
    }
}
