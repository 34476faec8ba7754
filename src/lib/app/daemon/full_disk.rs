//! A start on a full disk. systemd gives up a unit that fails ten times in ten minutes (`StartLimitBurst`), and the agent would
//! stay down when there is room again; so the start is tried again in the same process.

use std::time::Duration;

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::sys;
use crate::sys::sd_notify::Systemd;

/// Between two tries; well within the 60 s for which the start is extended each time.
const PAUSE: Duration = Duration::from_secs(10);

/// Waits a while when the daemon ended because its disk is full and systemd waits for it; returns whether it is to start again.
pub(super) fn wait_for_room(shared: &Shared, failure: &Failure) -> bool {
    let Ok((env, home)) = shared.home() else {
        return false;
    };
    let systemd = Systemd::of(&|name| env.get(name), std::process::id());
    if failure.exit != Exit::Io || !systemd.listens() || !sys::is_full(home.state()) {
        return false;
    }
    let place = home.state().display();
    cli::err(&format!(
        "agent-daemon: {}; the disk of {place} is full: the start is tried again until there is room",
        failure.message
    ));
    systemd.say(&format!(
        "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=60000000\nSTATUS=the disk of {place} is full: waiting for room"
    ));
    std::thread::sleep(PAUSE);
    true
}
