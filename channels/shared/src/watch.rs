//! Watches the directory of the daemon's messages.

use std::sync::Arc;

use notify::Watcher;
use tokio::sync::Notify;

use crate::spool::Spool;

/// Notifies `changed` when messages appear; `None`, and looks now and then suffice, when the kernel cannot say.
pub fn watch(spool: &Spool, changed: &Arc<Notify>) -> Option<notify::RecommendedWatcher> {
    let changed = changed.clone();
    let told = move |told: notify::Result<notify::Event>| {
        // To look into the directory is an event, too.
        if !told.is_ok_and(|event| event.kind.is_access()) {
            changed.notify_one();
        }
    };
    let watcher = notify::recommended_watcher(told);
    let mut watcher = watcher
        .inspect_err(|error| tracing::warn!(%error, "cannot watch the directory; it is checked every 30 seconds"))
        .ok()?;
    let watched = watcher.watch(&spool.out(), notify::RecursiveMode::NonRecursive);
    watched
        .inspect_err(|error| tracing::warn!(%error, "cannot watch the directory; it is checked every 30 seconds"))
        .ok()?;
    Some(watcher)
}
