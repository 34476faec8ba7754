//! `agent-daemon standby`: pushes this home to another machine, or waits here until it is to take over.

mod show;
mod tell;

pub(super) use tell::tell;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::run::{self, End};
use super::run_options::RunOptions;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::config::{Environment, Home};
use crate::standby::{self, Error, Primary, Role, Standby};
use crate::sys::lock;
use crate::sys::sd_notify::Systemd;

/// Between two looks: for something to push, and at what was pushed.
const PUSH_LOOK: Duration = Duration::from_millis(250);
const LOOK: Duration = Duration::from_secs(1);

/// What `agent-daemon standby` takes.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// On the standby: the directory into which the primary pushes
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    replica: Option<PathBuf>,
    /// On the primary: push this home into DIR on HOST (over ssh), on every change
    #[arg(long, value_name = "[HOST:]DIR", conflicts_with_all = ["replica", "promote"])]
    to: Option<String>,
    /// Include .env, channels/ and the keys that login stored: anyone who can read the replica has your keys
    #[arg(long, requires = "to")]
    with_secrets: bool,
    /// With the daemon stopped: push everything a last time; then the agent no longer runs here
    #[arg(long, requires = "to", conflicts_with = "once")]
    hand_over: bool,
    /// Take over: run the agent here
    #[arg(long, conflicts_with = "once")]
    promote: bool,
    /// Use the last proved copy, if the replica itself is damaged
    #[arg(long, requires = "promote")]
    last_proven: bool,
    /// Push, or prove a copy, once; exit code 1 if something is wrong
    #[arg(long)]
    once: bool,
    /// Show the role of this home and the age of its copies; exit code 1 if something is wrong
    #[arg(long, conflicts_with_all = ["replica", "to", "promote", "once"])]
    status: bool,
}

pub(super) fn standby(shared: &Shared, wanted: &Arguments, json: bool) -> Result<End, Failure> {
    let (env, home) = shared.home()?;
    cli::may_write(&home)?;
    let known = standby::read(&home)?;
    let role = known.as_ref().map(|record| record.role);
    let replica = wanted.replica.as_deref();
    if wanted.status {
        if known.is_none() {
            cli::must_be_there(&home)?;
        }
        return Ok(End::Exit(show::status(known.as_ref(), json)));
    }
    if let Some(to) = &wanted.to {
        cli::must_be_there(&home)?;
        return push(wanted, &env, &home, to);
    }
    if known.is_none() && replica.is_none() {
        let message = "the directory that the primary pushes into is not named";
        return Err(Failure::usage(message).hint(cli::command("agent-daemon", "standby DIR")));
    }
    if wanted.promote {
        let said = promote(wanted, &env, &home, role)?;
        cli::out(&said);
        if !shared.quiet {
            cli::err(&format!(
                "hint: a running standby becomes the agent automatically; otherwise: {}",
                cli::command("agent-daemon", "run")
            ));
        }
        return Ok(End::Exit(Exit::Ok));
    }
    if role == Some(Role::Primary) && !wanted.once {
        return run::run(shared, RunOptions::default());
    }
    let mut waiting = Standby::open(&home, &env, replica)?;
    if wanted.once {
        waiting.step()?;
        return Ok(End::Exit(show::status(Some(waiting.record()), json)));
    }
    Ok(wait(&env, waiting))
}

/// Returns what is to be said.
fn promote(
    wanted: &Arguments,
    env: &Environment,
    home: &Home,
    role: Option<Role>,
) -> Result<String, Error> {
    let already = || Ok("this home is the primary already".to_owned());
    match role {
        Some(Role::Primary) => return already(),
        Some(Role::HandedOver) => {
            Primary::open(home, env, None, false)?.take_back()?;
            return Ok("taken back: this home is the primary again".to_owned());
        }
        _ => {}
    }
    let waiting = Standby::open(home, env, wanted.replica.as_deref());
    match waiting.and_then(|mut waiting| waiting.promote(wanted.last_proven)) {
        Ok(done) => Ok(show::promoted(&done)),
        // By another process, just now.
        Err(Error::Role {
            role: Role::Primary,
        }) => already(),
        Err(error) => Err(error),
    }
}

fn push(wanted: &Arguments, env: &Environment, home: &Home, to: &str) -> Result<End, Failure> {
    let mut primary = Primary::open(home, env, Some(to), wanted.with_secrets)?;
    if wanted.hand_over {
        primary.hand_over()?;
        cli::out("handed over: everything is in the replica, and the agent no longer runs here");
        cli::err(&format!(
            "hint: on the standby: agent-daemon standby --promote; to take it back, here: {}",
            cli::command("agent-daemon", "standby --promote")
        ));
        return Ok(End::Exit(Exit::Ok));
    }
    standby::may_run(home)?;
    let mut said = Said::start(env);
    loop {
        let pushed = primary.step();
        match pushed {
            Err(error @ (Error::Replaced { .. } | Error::Role { .. })) => {
                end_daemon(home);
                return Err(error.into());
            }
            pushed if wanted.once => return Ok(pushed.map(|()| End::Exit(Exit::Ok))?),
            _ => said.say(primary.record().trouble.as_ref(), "everything is pushed"),
        }
        std::thread::sleep(PUSH_LOOK);
    }
}

/// The agent runs on another machine now.
fn end_daemon(home: &Home) {
    if let Ok(Some(daemon)) = lock::holder(&home.lock()) {
        // It fails only when the daemon has just ended.
        let _ = kill(Pid::from_raw(daemon), Signal::SIGTERM);
    }
}

/// Waits until this home took over; then this process becomes the agent.
fn wait(env: &Environment, mut waiting: Standby) -> End {
    let mut said = Said::start(env);
    loop {
        match waiting.step() {
            // A promotion is under way.
            Err(Error::Busy(_)) => {}
            Err(error) => said.say(Some(&error.to_string()), ""),
            Ok(()) if waiting.record().role == Role::Primary => return End::Restart,
            Ok(()) => said.say(waiting.record().trouble.as_ref(), "the last copy is whole"),
        }
        std::thread::sleep(LOOK);
    }
}

/// Says what is wrong when it becomes so, here and to systemd.
struct Said {
    systemd: Systemd,
    /// `None` at first.
    last: Option<Option<String>>,
}

impl Said {
    fn start(env: &Environment) -> Self {
        let systemd = Systemd::of(&|name| env.get(name), std::process::id());
        systemd.say("READY=1");
        if let Some(pause) = systemd.beat() {
            let systemd = Systemd::of(&|name| env.get(name), std::process::id());
            // A copy takes as long as it takes; rsync and the locks have limits of their own.
            std::thread::spawn(move || {
                loop {
                    systemd.say("WATCHDOG=1");
                    std::thread::sleep(pause);
                }
            });
        }
        Self {
            systemd,
            last: None,
        }
    }

    fn say(&mut self, trouble: Option<&String>, well: &str) {
        let trouble = trouble.map(|trouble| cli::harmless(trouble));
        if self.last.as_ref() == Some(&trouble) {
            return;
        }
        let words = trouble.as_deref().unwrap_or(well);
        self.systemd.status(words);
        if trouble.is_some() || self.last.is_some() {
            cli::err(&format!("agent-daemon: {words}"));
        }
        self.last = Some(trouble);
    }
}

const REPLACED: &str = "move this home away and make it the standby of the other machine (docs/howto/standby.md); data that is only here stays readable";

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let verb = |flag: &str| cli::command("agent-daemon", &format!("standby {flag}"));
        let unproved = || {
            let (proven, status) = (verb("--promote --last-proven"), verb("--status"));
            format!(
                "nothing was changed; {proven} takes the last copy that was whole, see {status}"
            )
        };
        let (exit, hint) = match error {
            Error::File(error) => return Self::from(error),
            Error::Home(error) => return Self::from(error),
            Error::Database(error) => return Self::from(error),
            Error::Backup(error) => (Self::from(error).exit, unproved()),
            Error::Damaged { .. } => (Exit::Data, unproved()),
            Error::NoRsync => (
                Exit::Config,
                "apt-get install rsync openssh-client".to_owned(),
            ),
            Error::Rsync(_) => (
                Exit::TryAgain,
                "when it could not get there, try by hand as this user: ssh HOST rsync --version"
                    .to_owned(),
            ),
            Error::NoPlace(_) => (Exit::Usage, verb("--to vps:agent-replica")),
            Error::Elsewhere(_) => (
                Exit::Config,
                "if it is permanently gone: stop agent-replicate, and set \"replica\" to \"\" in state/standby.json"
                    .to_owned(),
            ),
            Error::Busy(_) => (
                Exit::TryAgain,
                "stop it first: systemctl --user stop agent-daemon agent-replicate".to_owned(),
            ),
            Error::Replaced { .. } => (Exit::Config, REPLACED.to_owned()),
            Error::Role { role } => (
                Exit::Config,
                match role {
                    Role::Standby | Role::Promoting => format!(
                        "to take over: {}; to look: {}",
                        verb("--promote"),
                        verb("--status")
                    ),
                    Role::HandedOver => format!(
                        "on the standby: agent-daemon standby --promote; to take it back, if that was not done there: {}",
                        verb("--promote")
                    ),
                    Role::Replaced => REPLACED.to_owned(),
                    Role::Primary => verb("--status"),
                },
            ),
            Error::Foreign(_) => (
                Exit::Config,
                "choose another directory, or remove that one".to_owned(),
            ),
            Error::Occupied(_) => (
                Exit::Config,
                "a standby begins with an empty home: move this one away, state and workspace, or choose another with --home DIR"
                    .to_owned(),
            ),
            Error::Nothing(_) => (
                Exit::Failed,
                "on the primary: agent-daemon standby --to HOST:DIR; DIR is the directory here"
                    .to_owned(),
            ),
        };
        Self::new(exit, message).hint(hint)
    }
}
