//! Watchers of files, through the crate notify: one thread each, which calls a handler.

use std::io;
use std::path::Path;
use std::sync::Arc;

use notify::{Config, Event, RecommendedWatcher, RecursiveMode, Watcher};

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

/// Returns a watcher that calls `tell` when a path in one of `dirs` that is `ours` is made or changed. That somebody, perhaps
/// we ourselves, looks there makes events too, and is no news.
///
/// # Errors
///
/// As [`file_watcher`], and where a directory cannot be watched.
pub fn watch_changes(
    dirs: &[impl AsRef<Path>],
    ours: impl Fn(&Path) -> bool + Send + 'static,
    tell: impl Fn() + Send + 'static,
) -> notify::Result<RecommendedWatcher> {
    let is_news = move |event: Event| {
        (event.kind.is_create() || event.kind.is_modify())
            && event.paths.iter().any(|path| ours(path))
    };
    let handler = move |event: notify::Result<Event>| {
        if event.is_ok_and(&is_news) {
            tell();
        }
    };
    let mut watcher = file_watcher(handler, Config::default())?;
    for dir in dirs {
        watcher.watch(dir.as_ref(), RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::resource::{Resource, setrlimit};
    use std::process::Command;

    /// Set for the copy of this test that gets no thread.
    const POOR: &str = "AGENT_TEST_WITHOUT_THREADS";

    #[test]
    fn without_a_thread_there_is_an_error_and_nothing_panics() {
        let name =
            "sys::file_watcher::tests::without_a_thread_there_is_an_error_and_nothing_panics";
        if std::env::var_os(POOR).is_none() {
            let program = std::env::current_exe().expect("this program");
            let said = Command::new(program)
                .args([name, "--exact", "--test-threads=1"])
                .env(POOR, "1")
                // A stack that has no room below the limit that is set then.
                .env("RUST_MIN_STACK", (16_usize << 30).to_string())
                .output()
                .expect("started");
            assert!(said.status.success(), "{said:?}");
            return;
        }
        setrlimit(Resource::RLIMIT_AS, 8 << 30, 8 << 30).expect("limited");
        let refused = file_watcher(|_| {}, Config::default()).expect_err("no thread");
        assert!(
            matches!(&refused.kind, notify::ErrorKind::Io(error) if error.kind() == io::ErrorKind::WouldBlock),
            "{refused:?}"
        );
    }

    #[test]
    fn a_new_file_is_told() {
        let dir = tempfile::tempdir().expect("dir");
        let (sender, news) = std::sync::mpsc::channel();
        let mut watcher = file_watcher(
            move |event| {
                let _ = sender.send(event.is_ok());
            },
            Config::default(),
        )
        .expect("a watcher");
        let once = notify::RecursiveMode::NonRecursive;
        watcher.watch(dir.path(), once).expect("watched");
        std::fs::create_dir(dir.path().join("new")).expect("made");
        let patience = std::time::Duration::from_secs(10);
        assert_eq!(news.recv_timeout(patience), Ok(true));
    }
}
