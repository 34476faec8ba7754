//! Why a call cannot be made now although the same call may succeed later, and when to try again.

use std::time::Duration;

use super::Error;
use crate::provider;

/// A disk that is full is tried again after this long; somebody has to free it.
const DISK: Duration = Duration::from_secs(5);

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// DNS, connect or TLS fails.
    Unreachable,
    /// The vendor limits us (429).
    Limited,
    /// The vendor is overloaded (503, 529).
    Overloaded,
    /// The vendor has a fault (408, other 5xx).
    Faulty,
    /// Answers break off, or none comes in time.
    Interrupted,
    /// The rest of a cap is reserved by calls that run.
    Reserved,
    /// The cap of a day or a month is spent.
    Capped,
    /// The disk cannot be written.
    Disk,
}

impl Cause {
    /// Returns it in plain words: the beginning of a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Unreachable => "The model cannot be reached",
            Self::Limited => "The model's rate limit is reached",
            Self::Overloaded => "The model is overloaded",
            Self::Faulty => "The model's server has a fault",
            Self::Interrupted => "The model does not finish its answers",
            Self::Reserved => "The rest of the budget is reserved by answers in progress",
            Self::Capped => "The budget is spent",
            Self::Disk => "The disk is full or cannot be written",
        }
    }

    /// Returns true when a provider is what is waited for.
    pub fn is_outage(self) -> bool {
        !matches!(self, Self::Reserved | Self::Capped | Self::Disk)
    }

    /// Returns the cause of these words.
    pub fn of_words(words: &str) -> Option<Self> {
        let all = [
            Self::Unreachable,
            Self::Limited,
            Self::Overloaded,
            Self::Faulty,
            Self::Interrupted,
            Self::Reserved,
            Self::Capped,
            Self::Disk,
        ];
        all.into_iter().find(|cause| cause.words() == words)
    }

    pub(super) fn of(error: &provider::Error) -> Self {
        match error {
            provider::Error::Busy { status: 429, .. } => Self::Limited,
            provider::Error::Busy {
                status: 503 | 529, ..
            } => Self::Overloaded,
            provider::Error::Busy { .. } => Self::Faulty,
            provider::Error::Interrupted { .. } => Self::Interrupted,
            _ => Self::Unreachable,
        }
    }
}

/// That a call has to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// What it waits for.
    pub cause: Cause,
    /// How the last attempt failed, for the owner.
    pub detail: String,
    /// How long until it is tried again.
    pub rest: Duration,
    /// Whether this very call found it out, while the provider was not known to be down.
    pub opened: bool,
}

impl Unavailable {
    /// Returns what a write waits for that failed with `error`.
    pub fn disk(error: &dyn std::fmt::Display) -> Self {
        Self {
            cause: Cause::Disk,
            detail: error.to_string(),
            rest: DISK,
            opened: false,
        }
    }

    /// Returns the one of both that ends sooner.
    pub(super) fn sooner(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        let opened = self.opened || other.opened;
        let sooner = if other.rest < self.rest { other } else { self };
        Self { opened, ..sooner }
    }
}

impl Error {
    /// Returns what the call waits for.
    ///
    /// # Errors
    /// The error itself, when the same call would fail again.
    pub fn away(self) -> Result<Unavailable, Self> {
        match self {
            Self::Unavailable(away) => Ok(away),
            Self::Ledger(error) if error.is_retryable() => Ok(Unavailable::disk(&format!(
                "the cost ledger cannot be written: {error}"
            ))),
            other => Err(other),
        }
    }

    /// Returns what its reader can do about it, when that is known.
    pub fn next_step(&self) -> Option<&'static str> {
        match self {
            Self::Failed(provider::Error::Auth { .. }) => {
                Some("renew the key with `agent-daemon login`, then send the message again")
            }
            Self::Failed(provider::Error::Exhausted { .. }) => {
                Some("add credit with the vendor, or choose another model with /model")
            }
            Self::Failed(provider::Error::Missing { .. }) => {
                Some("correct the model's name in providers.d, or choose another model with /model")
            }
            Self::Failed(provider::Error::WebPage { .. }) => Some(
                "correct base_url in providers.d, or send the message again when the server is back",
            ),
            Self::Failed(provider::Error::Rejected { .. }) => {
                Some("say it differently, or begin a new conversation with /new")
            }
            _ => None,
        }
    }
}
