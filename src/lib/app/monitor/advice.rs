//! Advice about a daemon that is not running or not responding: commands to paste.

use crate::app::cli::{Shared, quote};
use crate::app::systemd_unit::Unit;
use crate::config::{Environment, Home};

/// The next steps; a command and what it is for are four spaces apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) start_it: Vec<String>,
    pub(super) look_at: Vec<String>,
    pub(super) disk: String,
    pub(super) logs: String,
}

impl Advice {
    /// Returns the advice for the home that flags and environment name; `pid` is the process that
    /// holds its lock.
    pub(super) fn new(shared: &Shared, env: &Environment, home: &Home, pid: Option<i32>) -> Self {
        Self {
            start_it: start_it(shared, unit_of(env, home), home.config_file().exists()),
            look_at: look_at(home, pid.filter(|pid| *pid > 0)),
            disk: disk(home),
            logs: quote(home.logs()),
        }
    }
}

/// Returns the command that starts the agent's unit, where systemd has one.
fn unit_of(env: &Environment, home: &Home) -> Option<String> {
    Unit::of(env, home)?.start()
}

fn start_it(shared: &Shared, unit: Option<String>, settled: bool) -> Vec<String> {
    let command = format!("agent-daemon{}", shared.words());
    let init = (!settled && shared.config.is_none())
        .then(|| format!("{command} init    makes its files, once"));
    let run = match unit {
        Some(start) => vec![start, format!("or: {command} run")],
        None => vec![format!("{command} run")],
    };
    init.into_iter().chain(run).collect()
}

fn disk(home: &Home) -> String {
    format!("df -h {}", quote(home.state()))
}

fn look_at(home: &Home, pid: Option<i32>) -> Vec<String> {
    let process =
        pid.map(|pid| format!("ps -o stat= -p {pid}    T: stopped, kill -CONT {pid} wakes it"));
    let disk = format!("{}    is the disk full?", disk(home));
    let log = format!("ls {}    its log", quote(home.logs()));
    process.into_iter().chain([disk, log]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(home: Option<&str>, instance: Option<&str>, config: Option<&str>) -> Shared {
        Shared {
            home: home.map(Into::into),
            instance: instance.map(Into::into),
            config: config.map(Into::into),
            verbose: 0,
            quiet: false,
        }
    }

    #[test]
    fn a_unit_comes_first_and_the_command_by_hand_has_the_flags_that_were_given() {
        let check = |shared: &Shared, unit: Option<&str>, steps: &[&str]| {
            assert_eq!(start_it(shared, unit.map(str::to_owned), true), steps);
        };
        let none = flags(None, None, None);
        check(&none, None, &["agent-daemon run"]);
        let unit = "systemctl --user start agent-daemon.service";
        check(&none, Some(unit), &[unit, "or: agent-daemon run"]);
        let work = flags(None, Some("work"), None);
        check(&work, None, &["agent-daemon --instance work run"]);
        let own = flags(Some("/my home"), None, Some("/it's.toml"));
        check(
            &own,
            None,
            &[r"agent-daemon --home '/my home' --config '/it'\''s.toml' run"],
        );
    }
}
