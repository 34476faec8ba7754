//! The time of a run that is not its own: a person decides, or a sub-agent works, which has bounds of its own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a run waited for others; what overlaps counts once.
#[derive(Debug, Clone, Default)]
pub struct OthersTime(Arc<Mutex<Waited>>);

#[derive(Debug, Default)]
struct Waited {
    /// Waits that last.
    open: usize,
    since: Option<Instant>,
    before: Duration,
}

/// A wait for others, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Lasting(OthersTime);

impl OthersTime {
    /// Begins a wait for others.
    pub fn begin(&self) -> Lasting {
        let mut waited = self.0.lock();
        waited.open += 1;
        waited.since.get_or_insert_with(Instant::now);
        Lasting(self.clone())
    }

    /// Returns how long others took until now.
    pub(super) fn total(&self) -> Duration {
        let waited = self.0.lock();
        let now = waited.since.map(|since| since.elapsed());
        waited.before + now.unwrap_or_default()
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let mut waited = self.0.0.lock();
        waited.open -= 1;
        if waited.open == 0 {
            let last = waited.since.take().map(|since| since.elapsed());
            waited.before += last.unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_counts_once_and_what_lasts_counts_already() {
        const MOMENT: Duration = Duration::from_millis(30);
        let time = OthersTime::default();
        std::thread::sleep(MOMENT);
        assert_eq!(time.total(), Duration::ZERO);
        let began = Instant::now();
        let (one, other) = (time.begin(), time.begin());
        std::thread::sleep(MOMENT);
        drop(one);
        assert!(time.total() >= MOMENT);
        drop(other);
        let total = time.total();
        assert!(total >= MOMENT && total <= began.elapsed(), "{total:?}");
        std::thread::sleep(MOMENT);
        assert_eq!(time.total(), total);
    }
}
