//! The step that sets up the systemd service.

use std::path::Path;
use std::process::{Command, Stdio};

use super::ask::Stop;
use super::{Setup, ask};
use crate::app::cli;
use crate::app::systemd_unit::Unit;

pub(super) fn step(setup: &Setup<'_>) -> Result<(), Stop> {
    if setup.is_running() {
        cli::err("  the agent runs already");
        return Ok(());
    }
    let run = cli::command("agent-daemon", "run");
    let unit = Unit::of(&setup.env, &setup.home).and_then(Unit::of_user);
    let Some(unit) = unit else {
        cli::err(&format!(
            "  no unit for this home is installed (scripts/install --user installs one); by hand: {run}"
        ));
        return Err(Stop::Skipped);
    };
    if !is_there(setup) {
        cli::err(&format!(
            "  systemd does not run for you here; by hand: {run}"
        ));
        return Err(Stop::Skipped);
    }
    if !ask::yes(&format!("Start {unit} now and at each login?"), true)? {
        return Err(Stop::Skipped);
    }
    for arguments in [&["daemon-reload"][..], &["enable", "--now", &unit][..]] {
        let mut systemctl = Command::new("systemctl");
        systemctl.arg("--user").args(arguments).stdin(Stdio::null());
        let done = systemctl.status();
        if !done.is_ok_and(|status| status.success()) {
            cli::err(&format!(
                "  systemctl --user {} failed: journalctl --user -u {unit} shows why",
                arguments.join(" ")
            ));
            return Ok(());
        }
    }
    cli::err(&format!(
        "  it runs; to keep it after you log out: loginctl enable-linger; its log: journalctl --user -u {unit}"
    ));
    Ok(())
}

/// Returns whether a systemd of the user runs (sd_booted(3), user@.service).
fn is_there(setup: &Setup<'_>) -> bool {
    let runtime = setup.env.get("XDG_RUNTIME_DIR");
    runtime.is_some_and(|dir| Path::new(&dir).join("systemd/private").exists())
}
