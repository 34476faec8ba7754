//! Growing pauses between attempts.

use std::time::Duration;

use crate::clock::now_ms;

/// The longest pause.
const MOST: Duration = Duration::from_secs(300);
/// The first.
const LEAST: Duration = Duration::from_secs(1);

/// Counts failures.
#[derive(Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// It went well.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// It failed once more: returns how long to wait, at most five minutes, not the same for all who wait for a server.
    pub fn next_pause(&mut self) -> Duration {
        let pause = LEAST.saturating_mul(1 << self.failures.min(9)).min(MOST);
        self.failures += 1;
        let noise = u32::try_from(now_ms() % 250).unwrap_or_default();
        pause + pause * noise / 1_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_minutes_and_begin_anew() {
        let mut backoff = Backoff::default();
        assert!(backoff.next_pause() < Duration::from_secs(2));
        let pauses: Vec<Duration> = (0..1_000).map(|_| backoff.next_pause()).collect();
        assert!(
            pauses[0] >= Duration::from_secs(2)
                && pauses[999] >= MOST
                && pauses[999] < MOST * 5 / 4
        );
        backoff.reset();
        assert!(backoff.next_pause() < Duration::from_secs(2));
    }
}
