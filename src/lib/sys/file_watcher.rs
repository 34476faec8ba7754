//! Watchers of files, through the crate notify: one thread each, which calls a handler.

use std::io;
use std::sync::Arc;

use notify::{Config, Event, RecommendedWatcher, Watcher};

/// Returns a watcher that calls `handler` for each event and each error. It watches nothing yet.
///
/// # Errors
///
/// Without room for one more inotify(7) instance, descriptor or thread.
pub fn file_watcher(
    mut handler: impl FnMut(notify::Result<Event>) + Send + 'static,
    settings: Config,
) -> notify::Result<RecommendedWatcher> {
    let thread = Arc::new(());
    let alive = Arc::downgrade(&thread);
    let watcher = RecommendedWatcher::new(
        move |event| {
            let _thread = &thread;
            handler(event);
        },
        settings,
    )?;
    // notify does not tell when it got no thread, which drops the handler; to watch anything or to drop the watcher
    // would panic then.
    if alive.strong_count() == 0 {
        std::mem::forget(watcher);
        return Err(notify::Error::io(io::Error::from_raw_os_error(
            nix::libc::EAGAIN,
        )));
    }
    Ok(watcher)
}
