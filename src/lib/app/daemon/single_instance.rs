//! One daemon a home: the lock `daemon.lock`, and the refusal of a second daemon.

use std::time::Duration;

use crate::app::cli::Failure;
use crate::config::Home;
use crate::sys::lock;
use crate::sys::lock::Lock;

/// A daemon that is ending may still hold the lock this long (specification §3).
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Takes the lock of a home.
///
/// # Errors
/// When another daemon holds it, with its process id, or the lock cannot be opened.
pub(super) fn lock(home: &Home) -> Result<Lock, Failure> {
    let path = home.lock();
    if let Some(lock) = lock::try_lock_for(&path, LOCK_TIMEOUT)? {
        return Ok(lock);
    }
    let pid = lock::holder(&path)?.unwrap_or(0);
    let state = home.state().display();
    let why = format!("another daemon (pid {pid}) has this home: {state}");
    Err(Failure::try_again(why)
        .hint("stop it first, or choose another home with --home or --instance"))
}
