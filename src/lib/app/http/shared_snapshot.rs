//! A snapshot of the home that simultaneous requests share, and later ones until something changes. An answer shows the
//! state at the time of its request, or a later one; a hundred simultaneous requests cost two snapshots, or none.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use tokio::sync::Mutex;

use crate::app::cli::Failure;
use crate::sys::Version;
use crate::{clock, db};

/// How long an answer stands of which no change is known: what other processes do in a database is not seen at once,
/// and time passes.
const STANDS: Duration = Duration::from_millis(250);

/// A document as JSON.
pub(super) type Answer = Result<Bytes, Failure>;

/// A file that changed within this time may change again without another time of change: clocks of file systems tick
/// every 4 to 10 ms.
const TICK_MS: i64 = 20;

/// What changes whenever a document does.
#[derive(Debug, PartialEq)]
pub(super) struct Stamp {
    commits: u64,
    files: Vec<Option<Version>>,
}

impl Stamp {
    /// Returns the stamp of what this process wrote into databases and of `files`; `None` while it cannot tell.
    pub(super) fn of(files: &[PathBuf]) -> Option<Self> {
        let now = clock::now_ms();
        let commits = db::commits();
        let files = files.iter().map(|path| {
            let Ok(metadata) = std::fs::metadata(path) else {
                return Some(None);
            };
            let changed_at = metadata.ctime() * 1000 + metadata.ctime_nsec() / 1_000_000;
            ((now - changed_at).abs() > TICK_MS).then(|| Some(Version::of(&metadata)))
        });
        let files = files.collect::<Option<_>>()?;
        Some(Self { commits, files })
    }
}

/// One question, and what the last look for it showed.
pub(super) struct SharedLook {
    look: Arc<dyn Fn() -> Answer + Send + Sync>,
    stamp: Box<dyn Fn() -> Option<Stamp> + Send + Sync>,
    /// Held during a look: those who come meanwhile wait for it, and share the one after it.
    last: Mutex<Option<Last>>,
}

struct Last {
    /// Of the time before the look.
    stamp: Option<Stamp>,
    began: Instant,
    answer: Answer,
}

impl SharedLook {
    /// Returns the question that `look` answers. What it shows stands while `stamp` stays the same, which must be quick.
    pub(super) fn new(
        look: impl Fn() -> Answer + Send + Sync + 'static,
        stamp: impl Fn() -> Option<Stamp> + Send + Sync + 'static,
    ) -> Self {
        Self {
            look: Arc::new(look),
            stamp: Box::new(stamp),
            last: Mutex::default(),
        }
    }

    /// Returns what a look shows, or would show, that begins after this call.
    pub(super) async fn ask(&self) -> Answer {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        let (stamp, began) = ((self.stamp)(), Instant::now());
        if let Some(last) = last.as_ref() {
            let is_same = stamp.is_some() && last.stamp == stamp && last.answer.is_ok();
            if last.began > asked || is_same && last.began.elapsed() < STANDS {
                return last.answer.clone();
            }
        }
        let look = self.look.clone();
        let looked = tokio::task::spawn_blocking(move || look()).await;
        let answer = looked.unwrap_or_else(|_| Err(bug()));
        *last = Some(Last {
            stamp,
            began,
            answer: answer.clone(),
        });
        answer
    }
}

fn bug() -> Failure {
    Failure::bug("a bug of the agent itself; its log has the place")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::app::cli::Exit;
    use crate::sys::atomic;

    #[tokio::test(flavor = "multi_thread")]
    async fn those_who_ask_at_the_same_time_share_a_look_that_began_after_they_asked() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let look = move || {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            std::thread::sleep(Duration::from_millis(20));
            Ok(Bytes::from(number.to_string()))
        };
        let shared = Arc::new(SharedLook::new(look, || None));
        let ask = || {
            let (shared, begun) = (shared.clone(), looks.load(Ordering::SeqCst));
            tokio::spawn(async move {
                let answer = shared.ask().await.expect("an answer");
                let number: usize = String::from_utf8_lossy(&answer).parse().expect("a number");
                assert!(
                    number > begun,
                    "look {number} began before it was asked for"
                );
            })
        };
        let asked: Vec<_> = (0..100).map(|_| ask()).collect();
        for one in asked {
            one.await.expect("no panic");
        }
        let looks = looks.load(Ordering::SeqCst);
        assert!((1..10).contains(&looks), "{looks} looks");
    }

    #[tokio::test]
    async fn a_look_that_panics_does_not_keep_the_next_from_looking() {
        let is_broken = AtomicBool::new(true);
        let look = move || {
            assert!(!is_broken.swap(false, Ordering::SeqCst), "on purpose");
            Ok(Bytes::from_static(b"{}"))
        };
        let shared = SharedLook::new(look, || None);
        assert_eq!(shared.ask().await.expect_err("a bug").exit, Exit::Bug);
        assert!(shared.ask().await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_stands_until_a_database_or_a_file_changes() {
        let dir = tempfile::tempdir().expect("dir");
        let (file, database) = (dir.path().join("monitor.json"), dir.path().join("t.db"));
        let schema = &["CREATE TABLE n(value INTEGER) STRICT;"];
        let writer = db::Writer::start(&database, schema).expect("start");
        let files = vec![file.clone()];
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let shared = SharedLook::new(
            move || {
                Ok(Bytes::from(
                    (counted.fetch_add(1, Ordering::SeqCst) + 1).to_string(),
                ))
            },
            move || Stamp::of(&files),
        );
        let rest = || tokio::time::sleep(Duration::from_millis(TICK_MS.unsigned_abs() + 10));
        shared.ask().await.expect("an answer");
        writer
            .write_lazily(|c| c.execute("INSERT INTO n VALUES (1)", []))
            .await
            .expect("written");
        let before = looks.load(Ordering::SeqCst);
        shared.ask().await.expect("an answer");
        assert!(
            looks.load(Ordering::SeqCst) > before,
            "the database changed"
        );
        atomic::write(&file, b"{}", atomic::Durability::Rename).expect("written");
        let before = looks.load(Ordering::SeqCst);
        shared.ask().await.expect("an answer");
        shared.ask().await.expect("an answer");
        let after = looks.load(Ordering::SeqCst);
        assert_eq!(after, before + 2, "what has just changed may change again");
        rest().await;
        // Writers of other tests count, too.
        let mut stood = false;
        for _ in 0..50 {
            let before = looks.load(Ordering::SeqCst);
            shared.ask().await.expect("an answer");
            shared.ask().await.expect("an answer");
            stood |= looks.load(Ordering::SeqCst) < before + 2;
        }
        assert!(stood, "an answer never stood");
        tokio::time::sleep(STANDS).await;
        let before = looks.load(Ordering::SeqCst);
        shared.ask().await.expect("an answer");
        assert_eq!(looks.load(Ordering::SeqCst), before + 1, "it is too old");
    }
}
