//! Exponential backoff with jitter: how long to wait before the next retry.

use std::time::Duration;

/// Returns how long to wait before retry `attempt` (from 0): `base` doubled each time, at most `max`,
/// then between 75 % and 125 % of that at random, so that clients that failed together do not retry together.
pub(crate) fn backoff(attempt: u32, base: Duration, max: Duration) -> Duration {
    let grown = base.saturating_mul(2_u32.saturating_pow(attempt)).min(max);
    let [random, ..] = uuid::Uuid::new_v4().into_bytes();
    grown * (192 + u32::from(random) / 2) / 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_doubles_up_to_a_limit_and_is_never_the_same_for_all() {
        let (base, max) = (Duration::from_secs(1), Duration::from_secs(30));
        for (attempt, middle) in [(0, 1.0), (1, 2.0), (4, 16.0), (5, 30.0), (90, 30.0)] {
            let wait = backoff(attempt, base, max).as_secs_f64();
            assert!(
                (middle * 0.74..middle * 1.26).contains(&wait),
                "{attempt}: {wait}"
            );
        }
    }
}
