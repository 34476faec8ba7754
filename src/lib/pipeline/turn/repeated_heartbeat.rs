//! Suppression of a repeated heartbeat: an answer that a heartbeat gave already within a day is not sent again.

use crate::message::Source;
use crate::pipeline::Pipeline;
use crate::queue::NewPart;

/// The very same words of a heartbeat are not said again within this (specification §16).
const SAME_WORDS_MS: i64 = 24 * 3_600_000;

impl Pipeline {
    /// Returns true when a heartbeat said the very same within a day (specification §16).
    pub(super) async fn was_said_today(&self, parts: &[NewPart], now: i64) -> bool {
        if parts.is_empty() {
            return false;
        }
        let plain: Vec<String> = parts.iter().map(|part| part.plain.clone()).collect();
        // Said twice is better than not at all.
        self.queue
            .said_before(Source::Heartbeat, plain, now - SAME_WORDS_MS)
            .await
            .is_ok_and(|was_said| was_said)
    }
}
