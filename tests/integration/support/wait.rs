//! Waiting for something another process does, instead of sleeping and hoping.

use std::{
    thread,
    time::{Duration, Instant},
};

/// Pause between two looks: short against every latency the tests measure, long against a busy loop.
const PAUSE: Duration = Duration::from_millis(3);

/// Returns what `probe` found; panics with `what` when it found nothing within `timeout`.
pub(crate) fn wait_for<T>(what: &str, timeout: Duration, probe: impl FnMut() -> Option<T>) -> T {
    match look_until(timeout, probe) {
        Some(found) => found,
        None => panic!("waited {timeout:?} in vain for {what}"),
    }
}

/// Returns what `probe` found, or `None` after `timeout`; looks at least once.
pub(crate) fn look_until<T>(timeout: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + timeout;
    loop {
        if let Some(found) = probe() {
            return Some(found);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
