//! One look at the home for all who ask at the same time. An answer shows what was there when its request came, or
//! later; a hundred requests at once cost two looks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use axum::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::app::cli::{Exit, Failure};

/// A document as JSON.
pub(super) type Answer = Result<Bytes, Failure>;

/// One question, and those who ask it.
#[derive(Clone)]
pub(super) struct SharedLook {
    look: Arc<dyn Fn() -> Answer + Send + Sync>,
    asking: Arc<Mutex<Asking>>,
}

#[derive(Default)]
struct Asking {
    /// Whether a thread looks, for those who came before it began.
    looks: bool,
    waiting: Vec<oneshot::Sender<Answer>>,
}

impl SharedLook {
    /// Returns the question that `look` answers.
    pub(super) fn new(look: impl Fn() -> Answer + Send + Sync + 'static) -> Self {
        Self {
            look: Arc::new(look),
            asking: Arc::default(),
        }
    }

    /// Returns what a look shows that begins after this call.
    pub(super) async fn ask(&self) -> Answer {
        let (tell, told) = oneshot::channel();
        let begins = {
            let mut asking = self.asking.lock();
            asking.waiting.push(tell);
            !std::mem::replace(&mut asking.looks, true)
        };
        if begins {
            let shared = self.clone();
            tokio::task::spawn_blocking(move || shared.look_for_all());
        }
        told.await.unwrap_or_else(|_| Err(bug()))
    }

    /// Looks until nobody waits.
    fn look_for_all(&self) {
        loop {
            let waiting = {
                let mut asking = self.asking.lock();
                if asking.waiting.is_empty() {
                    asking.looks = false;
                    return;
                }
                std::mem::take(&mut asking.waiting)
            };
            let answer = catch_unwind(AssertUnwindSafe(&*self.look)).unwrap_or_else(|_| Err(bug()));
            for one in waiting {
                // Whoever has gone needs no answer.
                let _ = one.send(answer.clone());
            }
        }
    }
}

fn bug() -> Failure {
    Failure::new(
        Exit::Bug,
        "a bug of the agent itself; its log has the place",
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn those_who_ask_at_the_same_time_share_a_look_that_began_after_they_asked() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = looks.clone();
        let shared = SharedLook::new(move || {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            std::thread::sleep(Duration::from_millis(20));
            Ok(Bytes::from(number.to_string()))
        });
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
        let shared = SharedLook::new(move || {
            assert!(!is_broken.swap(false, Ordering::SeqCst), "on purpose");
            Ok(Bytes::from_static(b"{}"))
        });
        assert_eq!(shared.ask().await.expect_err("a bug").exit, Exit::Bug);
        assert!(shared.ask().await.is_ok());
    }
}
