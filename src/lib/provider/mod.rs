//! Providers (vendors' APIs) behind one trait: neutral messages in, neutral answer out, one attempt a call.
//!
//! Retry and fallback are above (`llm/`), costs in `cost/`; a vendor's names stay in its file. [`repair()`] makes any list
//! of messages a valid request before it is sent.

pub mod anthropic;
mod api_key;
mod classify_error;
pub mod embeddings;
mod flatten_tools;
pub mod gemini;
mod http;
mod json;
pub mod offline;
pub mod openai;
mod partial_message;
mod repair;
pub mod speech;
mod tool_spec;
pub mod transcription;
mod wire;

#[cfg(any(test, fuzzing))]
mod tests;
#[cfg(any(test, fuzzing))]
pub(crate) use tests::check_events;
#[cfg(test)]
pub(crate) use tests::{test_server, vendor_rules};

pub use api_key::{Credential, Key, KeySource};
pub use flatten_tools::without_tools;
pub(crate) use http::key_header;
pub use repair::repair;
pub use tool_spec::{Schema, ToolSpec};

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::config::Ttl;
use crate::message::{Message, StopReason, Usage};

/// A boxed future, so that `dyn Provider` can be async.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One model call, vendor-neutral.
#[derive(Debug, Clone)]
pub struct Request {
    /// The vendor's model id.
    pub model: String,
    pub max_tokens: u32,
    /// The system prompt, most stable first.
    pub system: Vec<SystemBlock>,
    /// The tools on offer; empty means none.
    pub tools: Arc<[ToolSpec]>,
    /// Whether the model may call them in this step; they stay in the request either way, for the
    /// prompt cache.
    pub may_call: bool,
    /// The conversation, already repaired; ends on a user message.
    pub messages: Arc<[Message]>,
    /// Whether prompt-cache breakpoints are set where the vendor has them.
    pub cache: bool,
    /// How long what is before each is kept: tools and stable files, semi-stable files, the conversation.
    pub cache_ttl: [Ttl; 3],
    /// Whether the model is asked to think first, where the vendor has a switch for it.
    pub thinking: bool,
    /// How long the server may take until its answer begins, because a fallback is ready; `None` = as
    /// long as slow local servers need.
    pub begin_within: Option<Duration>,
    /// The JSON Schema of the answer's text, where the vendor enforces one; `None` = words.
    pub schema: Option<Arc<serde_json::Value>>,
}

/// A part of the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemBlock {
    pub tier: Tier,
    pub text: String,
}

impl SystemBlock {
    /// Returns a part that hardly ever changes.
    pub fn stable(text: impl Into<String>) -> Self {
        Self {
            tier: Tier::Stable,
            text: text.into(),
        }
    }
}

/// Cache tiers of the prompt: what changes together is in one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Persona and tool notes.
    Stable,
    /// Curated memory and the like.
    SemiStable,
}

/// A finished model call.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The assistant message: text and tool calls in the model's order.
    pub message: Message,
    pub stop: StopReason,
    /// Its tokens; `estimated` when the vendor sent none.
    pub usage: Usage,
}

/// Receives the answer's text as it is written.
pub type OnText<'a> = &'a (dyn Fn(&str) + Send + Sync);

pub trait Provider: Send + Sync {
    /// Makes one attempt. Cancelled by dropping the future.
    ///
    /// # Errors
    /// See [`Error`]; its methods say whether to try again and what it may have cost.
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>>;
}

/// Why an attempt failed, by what the caller can do. `host` is host and port, `message` the vendor's text, at
/// most 300 characters.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request never left: DNS, connect or TLS failed.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    /// The vendor is overloaded or limits us (429, 529) or failed (5xx).
    #[error("{host} answered {status}: {message}")]
    Busy {
        host: String,
        status: u16,
        message: String,
        retry_after: Option<Duration>,
    },
    /// The key is missing or wrong (401, 403).
    #[error("{host} refused the key ({status}): {message}")]
    Auth {
        host: String,
        status: u16,
        message: String,
    },
    /// The conversation is longer than the model's window.
    #[error("the conversation does not fit the model's window: {message}")]
    ContextOverflow { message: String },
    /// The account has no money left, or a quota that only time or a purchase fills (402, some 429).
    #[error("{host} accepts no more requests ({status}): {message}")]
    Exhausted {
        host: String,
        status: u16,
        message: String,
    },
    /// There is no such model, or nothing at all at this address (404).
    #[error("{host} does not have it ({status}): {message}")]
    Missing {
        host: String,
        status: u16,
        message: String,
    },
    /// A web page came: the address is wrong, or it is of what stands before the server, as the sign-in page of a hotel's network
    /// or the maintenance page of a proxy is.
    #[error("{host} answered {status}: a web page came instead of an answer: is base_url right?")]
    WebPage { host: String, status: u16 },
    /// The vendor will not take this request as it is (other 4xx).
    #[error("{host} rejected the request ({status}): {message}")]
    Rejected {
        host: String,
        status: u16,
        message: String,
    },
    /// The answer broke off or made no sense; it may have been charged.
    #[error("the response of {host} cannot be used: {reason}")]
    Interrupted {
        host: String,
        reason: String,
        /// Whether the same request may succeed another time.
        again: bool,
    },
}

impl Error {
    /// Returns true when the same request may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(
            self,
            Error::Unreachable { .. } | Error::Busy { .. } | Error::Interrupted { again: true, .. }
        )
    }

    /// Returns true when, with a right address, it is not the server itself that answered.
    pub fn is_in_the_way(&self) -> bool {
        match self {
            Error::WebPage { .. } => true,
            Error::Missing { status, .. } => *status < 400,
            _ => false,
        }
    }

    /// Returns how long the vendor asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Busy { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Returns true when the attempt may have been charged although no usage came back.
    pub fn may_be_charged(&self) -> bool {
        match self {
            Error::Interrupted { .. } => true,
            // A gateway that gave up waiting: the server behind it may have answered.
            Error::Busy { status, .. } => matches!(status, 408 | 504),
            _ => false,
        }
    }
}
