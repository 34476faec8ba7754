//! What a person does about a daemon that does nothing: the commands, as they are typed here.

use crate::app::cli::{Shared, quote};
use crate::config::{Environment, Home};

/// The next steps; a command and what it is for are four spaces apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Advice {
    pub(super) start_it: Vec<String>,
    pub(super) look_at: Vec<String>,
    pub(super) logs: String,
}

impl Advice {
    /// Returns the advice for the home that flags and environment name; `pid` is the process that
    /// holds its lock.
    pub(super) fn new(shared: &Shared, env: &Environment, home: &Home, pid: Option<i32>) -> Self {
        Self {
            start_it: start_it(shared, env, home.config_file().exists()),
            look_at: look_at(home, pid.filter(|pid| *pid > 0)),
            logs: quote(home.logs()),
        }
    }
}

fn start_it(shared: &Shared, env: &Environment, settled: bool) -> Vec<String> {
    let mut command = "agent-daemon".to_owned();
    for (flag, path) in [("--home", &shared.home), ("--config", &shared.config)] {
        if let Some(path) = path {
            command.push_str(&format!(" {flag} {}", quote(path)));
        }
    }
    if let Some(name) = &shared.instance {
        command.push_str(&format!(" --instance {name}"));
    }
    let init = (!settled && shared.config.is_none())
        .then(|| format!("{command} init    makes its files, once"));
    // A unit knows nothing of a home that somebody named here.
    let unit = shared.home.is_none() && shared.config.is_none() && !env.has("AGENT_HOME");
    let run = if unit {
        let instance = shared
            .instance
            .clone()
            .or_else(|| env.get("AGENT_INSTANCE")?.into_string().ok());
        let instance = instance.map_or_else(String::new, |name| format!("@{name}"));
        vec![
            format!("systemctl --user start agent-daemon{instance}"),
            format!("or: {command} run"),
        ]
    } else {
        vec![format!("{command} run")]
    };
    init.into_iter().chain(run).collect()
}

fn look_at(home: &Home, pid: Option<i32>) -> Vec<String> {
    let process =
        pid.map(|pid| format!("ps -o stat= -p {pid}    T: stopped, kill -CONT {pid} wakes it"));
    let disk = format!("df -h {}    is the disk full?", quote(home.state()));
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
    fn the_unit_is_named_where_it_would_start_this_daemon() {
        let check = |shared: &Shared, variables: &[(&str, &str)], steps: &[&str]| {
            assert_eq!(start_it(shared, &Environment::of(variables), true), steps);
        };
        let none = flags(None, None, None);
        check(
            &none,
            &[],
            &[
                "systemctl --user start agent-daemon",
                "or: agent-daemon run",
            ],
        );
        check(
            &none,
            &[("AGENT_INSTANCE", "work")],
            &[
                "systemctl --user start agent-daemon@work",
                "or: agent-daemon run",
            ],
        );
        check(&none, &[("AGENT_HOME", "/h")], &["agent-daemon run"]);
        let work = flags(None, Some("work"), None);
        check(
            &work,
            &[],
            &[
                "systemctl --user start agent-daemon@work",
                "or: agent-daemon --instance work run",
            ],
        );
        let own = flags(Some("/my home"), None, Some("/it's.toml"));
        check(
            &own,
            &[],
            &[r"agent-daemon --home '/my home' --config '/it'\''s.toml' run"],
        );
    }
}
