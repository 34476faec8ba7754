//! What a failed poll means: what is shown of it, how long to wait, and what is said once.

use std::time::{Duration, Instant};

use super::send::api::Error;
use crate::channel::Pulse;
use crate::net;

/// Waiting after a failed poll (specification §6).
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// After a wrong token we look again this seldom: only a person can mend it.
const UNAUTHORIZED: Duration = Duration::from_secs(300);
/// However long a server wants us to wait.
const LONGEST: Duration = Duration::from_secs(3600);
/// Who sets a webhook again and again shall not be fought.
const UNHOOKED: Duration = Duration::from_secs(3600);

/// Why a poll brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// The call failed.
    #[error("{0}")]
    Call(#[from] Error),
    /// It said nothing for so long.
    #[error("no answer to the last poll for {} s: connecting anew", .0.as_secs())]
    Silent(Duration),
    /// The machine slept for so long.
    #[error("the machine slept for {} s: connecting anew", .0.as_secs())]
    Slept(Duration),
}

impl Trouble {
    /// Returns whether the old connections are not to be used again.
    pub(super) fn needs_new_connection(&self) -> bool {
        matches!(
            self,
            Self::Silent(_)
                | Self::Slept(_)
                | Self::Call(Error::Lost(_) | Error::Refused { status: 409, .. })
        )
    }

    /// Returns whether updates are brought to somebody and cannot be fetched.
    pub(super) fn is_webhook(&self) -> bool {
        matches!(self, Self::Call(Error::Refused { status: 409, description, .. })
            if description.to_ascii_lowercase().contains("webhook"))
    }

    /// Returns what is wrong in words for people.
    fn state(&self) -> String {
        match self {
            Self::Call(Error::Refused { status: 401, .. }) => {
                "unauthorized: the bot token is wrong".to_owned()
            }
            Self::Call(Error::Refused { status: 404, .. }) => {
                "unauthorized: there is no such bot, the token or api_url is wrong".to_owned()
            }
            Self::Call(Error::Refused { status: 409, .. }) if self.is_webhook() => {
                "conflict: a webhook is set for this bot, so that nothing can be fetched".to_owned()
            }
            Self::Call(Error::Refused { status: 409, .. }) => {
                "conflict: another program polls with the same token".to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// The line to Telegram as we remember it.
#[derive(Debug, Default)]
pub(super) struct Line {
    failures: u32,
    unhooked: Option<Instant>,
}

impl Line {
    /// Notes a success.
    pub(super) fn works(&mut self, pulse: &Pulse) {
        if self.failures > 0 {
            tracing::info!(failures = self.failures, "Telegram answers again");
        }
        self.failures = 0;
        pulse.ok();
    }

    /// Notes a failed call and returns how long to wait. It is logged when it is news.
    pub(super) fn fails(
        &mut self,
        trouble: &Trouble,
        poll_timeout: Duration,
        pulse: &Pulse,
    ) -> Duration {
        let backoff = net::backoff(self.failures, BACKOFF.0, BACKOFF.1);
        let wait = match trouble {
            Trouble::Slept(_) => Duration::ZERO,
            // The time for waiting is over already, once.
            Trouble::Silent(_) if self.failures == 0 => Duration::ZERO,
            Trouble::Call(Error::Refused {
                status: 401 | 404, ..
            }) => UNAUTHORIZED,
            Trouble::Call(Error::Refused { status: 409, .. }) => poll_timeout.max(backoff),
            Trouble::Call(Error::Refused {
                retry_after: Some(wait),
                ..
            }) => (*wait).clamp(BACKOFF.0, LONGEST),
            Trouble::Silent(_) | Trouble::Call(_) => backoff,
        };
        self.failures = self.failures.saturating_add(1);
        let state = trouble.state();
        if pulse.read().state == state {
            tracing::debug!(%trouble, wait_ms = wait.as_millis(), "a call of Telegram failed again");
        } else {
            tracing::warn!(%trouble, wait_ms = wait.as_millis(), "{state}");
        }
        pulse.wrong(&state);
        wait
    }

    /// Returns whether a webhook may be removed now; not again within the hour.
    pub(super) fn may_unhook(&mut self) -> bool {
        let may = self.unhooked.is_none_or(|last| last.elapsed() > UNHOOKED);
        if may {
            self.unhooked = Some(Instant::now());
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, retry_after: Option<u64>) -> Trouble {
        Error::Refused {
            status,
            description: "d".to_owned(),
            retry_after: retry_after.map(Duration::from_secs),
            moved_to: None,
        }
        .into()
    }

    #[test]
    fn how_long_is_waited_after_what() {
        let secs = |troubles: &[Trouble]| {
            let (mut line, pulse) = (
                Line::default(),
                Pulse::new("polling", std::sync::Arc::default()),
            );
            let wait = troubles
                .iter()
                .map(|trouble| line.fails(trouble, Duration::from_secs(50), &pulse))
                .last();
            wait.expect("a trouble").as_secs_f64().round()
        };
        let silent = Trouble::Silent(Duration::from_secs(60));
        assert_eq!(secs(&[Trouble::Slept(Duration::from_secs(36_000))]), 0.0);
        assert_eq!(secs(std::slice::from_ref(&silent)), 0.0);
        assert!(secs(&[silent.clone(), silent]) >= 1.0);
        assert_eq!(
            [401, 404].map(|status| secs(&[refused(status, None)])),
            [300.0, 300.0]
        );
        assert_eq!(secs(&[refused(409, None)]), 50.0);
        assert_eq!(
            [0, 7, 1_000_000].map(|wait| secs(&[refused(429, Some(wait))])),
            [1.0, 7.0, 3600.0]
        );
        assert_eq!(secs(&[refused(502, None)]), 1.0);
    }

    #[test]
    fn a_webhook_is_told_from_another_poller() {
        let conflict = |description: &str| {
            Trouble::from(Error::Refused {
                status: 409,
                description: description.to_owned(),
                retry_after: None,
                moved_to: None,
            })
        };
        let hooked = conflict(
            "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook",
        );
        let polled = conflict("Conflict: terminated by other getUpdates request");
        assert!(hooked.is_webhook() && !polled.is_webhook());
        assert_eq!(
            polled.state(),
            "conflict: another program polls with the same token"
        );
        let mut line = Line::default();
        assert_eq!((line.may_unhook(), line.may_unhook()), (true, false));
    }
}
