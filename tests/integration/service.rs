//! `scripts/lib.sh` and `scripts/agent.sh`: a service without systemd, with nothing in the environment.
#![allow(
    clippy::disallowed_methods,
    reason = "a test writes and reads files plainly"
)]

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf, process::Command, time::Duration};

use crate::support::{OnDrop, Output, Running, Sandbox, bin, wait_for};

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("scripts")
        .join(name)
}

/// Runs a service script as `env -i` would.
fn run(script: &std::path::Path, sandbox: &Sandbox, command: &str) -> Output {
    let daemon = bin("agent-daemon");
    let programs = daemon.parent().expect("a directory").display().to_string();
    let mut shell = Command::new("env");
    shell.args([
        "-i",
        &format!("PATH={programs}:/usr/bin:/bin"),
        &format!("AGENT_HOME={}", sandbox.home().display()),
    ]);
    shell.arg(script).arg(command);
    Running::start(&mut shell).end()
}

#[test]
fn the_agent_starts_once_survives_a_kill_and_stops() {
    let sandbox = Sandbox::new();
    let agent = script("agent.sh");
    let call = |command: &str, code: i32, says: &str| {
        let ran = run(&agent, &sandbox, command);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            ran.code == code && said.contains(says),
            "{command}: {ran:?}"
        );
    };
    let _stop = OnDrop(|| drop(run(&agent, &sandbox, "stop")));
    let pid = || -> i32 {
        let file = sandbox
            .read("state/service/agent-daemon.pid")
            .expect("a pid file");
        file.lines()
            .next()
            .and_then(|line| line.parse().ok())
            .expect("a pid")
    };
    call("status", 3, "does not run");
    call("start", 0, "runs (pid");
    call("start", 0, "runs already");
    call("status", 0, "runs (pid");
    let first = pid();
    assert_eq!(sandbox.send(&["--wait=60", "hello"]).code, 0);
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(first),
        nix::sys::signal::Signal::SIGKILL,
    )
    .expect("killed");
    // The signal is on its way; with a thread in a system call the end takes a moment.
    wait_for("its end", Duration::from_secs(30), || {
        (run(&agent, &sandbox, "status").code == 3).then_some(())
    });
    call("start", 0, "runs (pid");
    assert_ne!(pid(), first);
    call("restart", 0, "has ended");
    call("logs", 0, "started");
    call("stop", 0, "has ended");
    call("stop", 0, "does not run");
    // The number of another process in an old file: nobody is touched.
    let other = Running::start(Command::new("sleep").arg("600"));
    sandbox.put(
        "state/service/agent-daemon.pid",
        format!("{}\nanother-boot 1\n", other.pid()).as_bytes(),
    );
    call("stop", 0, "does not run");
    assert!(std::path::Path::new(&format!("/proc/{}", other.pid())).exists());
    call("nonsense", 2, "usage");
    // One that was started by hand has the same home.
    let _daemon = sandbox.ready();
    call("status", 0, "started by something else");
    call("stop", 1, "end it with: kill");
}

#[test]
fn a_home_that_nobody_made_is_not_made_by_a_start() {
    let sandbox = Sandbox::new();
    fs::remove_dir_all(sandbox.home()).expect("it is there");
    let agent = script("agent.sh");
    let _stop = OnDrop(|| drop(run(&agent, &sandbox, "stop")));
    for command in ["stop", "start", "restart"] {
        let ran = run(&agent, &sandbox, command);
        assert!(
            ran.code == 1 && ran.stderr.contains("agent-daemon init makes one"),
            "{command}: {ran:?}"
        );
        assert!(!sandbox.home().exists(), "{command} made it");
    }
}

#[test]
fn a_user_without_a_home_is_told_what_to_set() {
    let sandbox = Sandbox::new();
    let getent = sandbox.put("bin/getent", b"#!/bin/sh\nexit 2\n");
    fs::set_permissions(&getent, fs::Permissions::from_mode(0o700)).expect("mode");
    let path = format!("PATH={}:/usr/bin:/bin", sandbox.path("bin").display());
    let mut shell = Command::new("env");
    shell.args(["-i", &path]).arg(script("agent.sh"));
    let ran = Running::start(shell.arg("status")).end();
    assert!(
        ran.code == 1 && ran.stderr.contains("hint: set HOME, or AGENT_HOME"),
        "{ran:?}"
    );
}

#[test]
fn a_service_that_does_not_listen_is_killed_and_five_logs_are_kept() {
    let sandbox = Sandbox::new();
    let stub = sandbox.put(
        "stub.sh",
        format!(
            "#!/usr/bin/env bash\nset -euo pipefail\nSERVICE_NAME=stub SERVICE_DIR=$AGENT_HOME/service STOP_WAIT=1 TERM_WAIT=1 LOG_MAX=1\n\
             startup_command() {{ trap '' INT TERM; echo begun; while :; do sleep 0.1; done; }}\n\
             post_startup_hook() {{ until grep -q begun \"$(log_file)\"; do sleep 0.05; done; }}\n\
             custom_help() {{ echo 'more help'; }}\nsource {}\nmain \"$@\"\n",
            script("lib.sh").display()
        )
        .as_bytes(),
    );
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o700)).expect("mode");
    assert!(run(&stub, &sandbox, "help").stdout.contains("more help"));
    for turn in 1..=7 {
        sandbox.put("service/stub.log", format!("old {turn}\n").as_bytes());
        let rotated = run(&stub, &sandbox, "rotate");
        assert_eq!(rotated.code, 0, "{rotated:?}");
    }
    let started = run(&stub, &sandbox, "start");
    assert_eq!(started.code, 0, "{started:?}");
    let stopped = run(&stub, &sandbox, "stop");
    assert!(
        stopped.code == 0
            && stopped.stderr.contains("SIGTERM")
            && stopped.stderr.contains("SIGKILL"),
        "{stopped:?}"
    );
    let kept: Vec<_> = (1..=6)
        .map(|n| sandbox.read(&format!("service/stub.log.{n}")))
        .collect();
    let old = |turn: u32| Some(format!("old {turn}\n"));
    assert_eq!(kept, [old(7), old(6), old(5), old(4), old(3), None]);
}
