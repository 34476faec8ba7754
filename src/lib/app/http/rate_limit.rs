//! The rate limit of the HTTP API: a token bucket that fills evenly and holds the tokens of a minute, so that bursts are
//! allowed.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// A bucket.
pub(super) struct Bucket {
    per_minute: f64,
    state: Mutex<(f64, Instant)>,
}

impl Bucket {
    pub(super) fn new(per_minute: u32) -> Self {
        Self {
            per_minute: per_minute.into(),
            state: Mutex::new((per_minute.into(), Instant::now())),
        }
    }

    /// Takes one out.
    ///
    /// # Errors
    /// When there is none: how long until there is.
    pub(super) fn take(&self) -> Result<(), Duration> {
        self.take_at(Instant::now())
    }

    /// Looks whether there is one, and leaves it.
    ///
    /// # Errors
    /// As [`Bucket::take`].
    pub(super) fn look(&self) -> Result<(), Duration> {
        self.at(Instant::now(), 0.0)
    }

    /// Returns whether nothing was taken out for so long that it is as a new one.
    pub(super) fn is_full(&self) -> bool {
        self.left_at(&self.state.lock(), Instant::now()) >= self.per_minute
    }

    fn take_at(&self, now: Instant) -> Result<(), Duration> {
        self.at(now, 1.0)
    }

    fn left_at(&self, (left, since): &(f64, Instant), now: Instant) -> f64 {
        let grown = now.saturating_duration_since(*since).as_secs_f64() * self.per_minute / 60.0;
        (left + grown).min(self.per_minute)
    }

    /// Takes `out` out when there is one.
    fn at(&self, now: Instant, out: f64) -> Result<(), Duration> {
        let mut state = self.state.lock();
        let left = self.left_at(&state, now);
        if left < 1.0 {
            *state = (left, now);
            return Err(Duration::from_secs_f64(
                (1.0 - left) * 60.0 / self.per_minute,
            ));
        }
        *state = (left - out, now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minutes_worth_at_once_and_then_evenly() {
        let (bucket, begin) = (Bucket::new(30), Instant::now());
        let at = |seconds: f64| bucket.take_at(begin + Duration::from_secs_f64(seconds));
        assert!((0..30).all(|_| at(0.1).is_ok()));
        let wait = at(0.1).expect_err("empty");
        assert!((1.0..=2.0).contains(&wait.as_secs_f64()), "{wait:?}");
        assert!(at(2.3).is_ok());
        assert!(at(2.4).is_err());
        assert!((0..30).all(|_| at(500.0).is_ok()) && at(500.0).is_err());
    }
}
