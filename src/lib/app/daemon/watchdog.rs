//! Notifies the watchdog of systemd when every loop of the daemon has turned:
//!
//! ```text
//! run, at each beat ─→ command_intake ─→ job_timer ─→ WATCHDOG=1
//! ```
//!
//! Telegram is not part of it, because it may be silent.

use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::sys::sd_notify::Systemd;

/// When the watchdog is to be fed.
pub(super) struct Beat(Option<Interval>);

impl Beat {
    pub(super) fn of(systemd: &Systemd) -> Self {
        let mut beat = systemd.beat().map(interval);
        // After a stop (SIGSTOP, a suspended machine) one beat, not all that were missed.
        if let Some(beat) = &mut beat {
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        Self(beat)
    }

    /// Waits for the next beat; without a watchdog forever.
    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(beat) => drop(beat.tick().await),
            None => std::future::pending().await,
        }
    }
}

/// Where the chain of loops begins.
pub(super) struct Pulse(mpsc::Sender<()>);

impl Pulse {
    /// Asks all loops to turn. One that hangs holds the pulse, and systemd hears nothing.
    pub(super) fn send(&self) {
        let _ = self.0.try_send(());
    }
}

/// The place of one loop in the chain.
pub(super) struct Link {
    pulses: mpsc::Receiver<()>,
    next: Next,
}

enum Next {
    Loop(Pulse),
    Systemd(Systemd),
}

impl Link {
    /// Waits for a pulse and passes it on: the loop that selects this turns. Nothing is lost when it is broken off.
    pub(super) async fn pass(&mut self) {
        if self.pulses.recv().await.is_none() {
            std::future::pending().await
        }
        match &self.next {
            Next::Loop(pulse) => pulse.send(),
            Next::Systemd(systemd) => systemd.say("WATCHDOG=1"),
        }
    }
}

/// Returns the chain of two loops to systemd, and what starts it.
pub(super) fn chain(systemd: Systemd) -> (Pulse, Link, Link) {
    let (first, first_pulses) = mpsc::channel(1);
    let (second, second_pulses) = mpsc::channel(1);
    let link = |pulses, next| Link { pulses, next };
    (
        Pulse(first),
        link(first_pulses, Next::Loop(Pulse(second))),
        link(second_pulses, Next::Systemd(systemd)),
    )
}
