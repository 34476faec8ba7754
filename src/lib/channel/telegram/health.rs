//! The health of the channel: the meaning of a failed call, the displayed state, the pause, and the log entries.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::send::api::Error;
use crate::channel::Health;
use crate::clock;
use crate::net;

/// The shortest and the longest pause after a failed poll (specification §6).
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// The retry interval after a rejected token: only a person can repair that.
const UNAUTHORIZED: Duration = Duration::from_secs(300);
/// Whoever sets a webhook again and again wins in the end.
const WEBHOOK_REMOVAL: Duration = Duration::from_secs(3600);

/// The health of the channel, shared by all its users.
pub(super) struct SharedHealth {
    health: Mutex<Health>,
    changed: Arc<Notify>,
}

impl SharedHealth {
    /// Begins as `connecting`; `changed` is notified when the state changes.
    pub(super) fn new(mode: &'static str, changed: Arc<Notify>) -> Self {
        let health = Health {
            state: "connecting".to_owned(),
            mode,
            last_ok_at: None,
            last_update_at: None,
        };
        Self {
            health: Mutex::new(health),
            changed,
        }
    }

    pub(super) fn ok(&self) {
        self.health.lock().last_ok_at = Some(clock::now_ms());
        self.set("ok");
    }

    /// Notes that an update came in.
    pub(super) fn received(&self) {
        self.health.lock().last_update_at = Some(clock::now_ms());
    }

    /// Sets the state and returns whether it is another one.
    pub(super) fn set(&self, state: &str) -> bool {
        let mut health = self.health.lock();
        let is_new = health.state != state;
        if is_new {
            state.clone_into(&mut health.state);
            self.changed.notify_one();
        }
        is_new
    }

    pub(super) fn read(&self) -> Health {
        self.health.lock().clone()
    }
}

/// Why a poll brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PollError {
    #[error("{0}")]
    Call(#[from] Error),
    /// There was no answer for so long.
    #[error("no answer to the last poll for {} s: reconnecting", .0.as_secs())]
    Silent(Duration),
    /// The machine slept for so long.
    #[error("the machine slept for {} s: reconnecting", .0.as_secs())]
    Slept(Duration),
}

impl PollError {
    /// Returns whether the old connections are not to be used again.
    pub(super) fn needs_new_connection(&self) -> bool {
        matches!(
            self,
            Self::Silent(_)
                | Self::Slept(_)
                | Self::Call(Error::Lost(_) | Error::Refused { status: 409, .. })
        )
    }

    /// Returns whether a webhook is set for the bot, so that updates cannot be polled.
    pub(super) fn is_webhook(&self) -> bool {
        matches!(self, Self::Call(Error::Refused { status: 409, description, .. })
            if description.to_ascii_lowercase().contains("webhook"))
    }

    /// Returns the state of the channel.
    fn state(&self) -> String {
        let Self::Call(Error::Refused { status, .. }) = self else {
            return self.to_string();
        };
        let state = match status {
            401 => "unauthorized: the bot token is wrong",
            404 => "unauthorized: there is no such bot, the token or api_url is wrong",
            409 if self.is_webhook() => {
                "conflict: a webhook is set for this bot, so that nothing can be fetched"
            }
            409 => "conflict: another program polls with the same token",
            _ => return self.to_string(),
        };
        state.to_owned()
    }
}

/// The failures of one poller since its last success.
#[derive(Debug, Default)]
pub(super) struct Failures {
    count: u32,
    webhook_removed: Option<Instant>,
}

impl Failures {
    pub(super) fn end(&mut self, health: &SharedHealth) {
        if self.count > 0 {
            tracing::info!(failures = self.count, "Telegram answers again");
        }
        self.count = 0;
        health.ok();
    }

    /// Notes a failed call and returns how long to wait. It is logged when it is news.
    pub(super) fn add(
        &mut self,
        error: &PollError,
        poll_timeout: Duration,
        health: &SharedHealth,
    ) -> Duration {
        let backoff = net::backoff(self.count, BACKOFF.0, BACKOFF.1);
        let wait = match error {
            PollError::Slept(_) => Duration::ZERO,
            // The time for waiting is over already, once.
            PollError::Silent(_) if self.count == 0 => Duration::ZERO,
            PollError::Call(Error::Refused {
                status,
                retry_after,
                ..
            }) => match (status, retry_after) {
                (401 | 404, _) => UNAUTHORIZED,
                (409, _) => poll_timeout.max(backoff),
                (_, Some(wait)) => (*wait).max(BACKOFF.0),
                (_, None) => backoff,
            },
            PollError::Silent(_) | PollError::Call(_) => backoff,
        };
        self.count = self.count.saturating_add(1);
        let state = error.state();
        if health.set(&state) {
            tracing::warn!(%error, wait_ms = wait.as_millis(), "{state}");
        } else {
            tracing::debug!(%error, wait_ms = wait.as_millis(), "a call to Telegram failed again");
        }
        wait
    }

    /// Returns whether a webhook may be removed now; not again within the hour.
    pub(super) fn may_remove_webhook(&mut self) -> bool {
        let last = self.webhook_removed;
        let may = last.is_none_or(|last| last.elapsed() > WEBHOOK_REMOVAL);
        if may {
            self.webhook_removed = Some(Instant::now());
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, description: &str, retry_after: Option<u64>) -> PollError {
        PollError::Call(Error::Refused {
            status,
            description: description.to_owned(),
            retry_after: retry_after.map(Duration::from_secs),
            moved_to: None,
        })
    }

    #[test]
    fn how_long_is_waited_after_what() {
        let health = SharedHealth::new("polling", Arc::default());
        let secs = |errors: &[PollError]| {
            let mut failures = Failures::default();
            let wait = |error| failures.add(error, Duration::from_secs(50), &health);
            let last = errors.iter().map(wait).last();
            last.expect("an error").as_secs_f64().round()
        };
        let silent = PollError::Silent(Duration::from_secs(60));
        for (error, expected) in [
            (PollError::Slept(Duration::from_secs(36_000)), 0.0),
            (silent.clone(), 0.0),
            (refused(401, "", None), 300.0),
            (refused(404, "", None), 300.0),
            (refused(409, "", None), 50.0),
            (refused(429, "", Some(0)), 1.0),
            (refused(429, "", Some(7)), 7.0),
            (refused(502, "", None), 1.0),
        ] {
            assert_eq!(secs(std::slice::from_ref(&error)), expected, "{error}");
        }
        assert!(secs(&[silent.clone(), silent]) >= 1.0);
    }

    #[test]
    fn a_webhook_is_told_from_another_poller() {
        let webhook = "Conflict: can't use getUpdates method while webhook is active";
        let other = "Conflict: terminated by other getUpdates request";
        let (webhook, other) = (refused(409, webhook, None), refused(409, other, None));
        assert!(webhook.is_webhook() && !other.is_webhook());
        let mut failures = Failures::default();
        assert!(failures.may_remove_webhook() && !failures.may_remove_webhook());
    }
}
