//! Classifies the errors of all vendors: HTTP status, codes and text of the body become an [`Error`].
//!
//! In one place for all vendors, because compatible servers mix their conventions.

use std::time::Duration;

use serde_json::Value;

use super::Error;
use crate::net;
use crate::text::json;

/// What servers write when the conversation is too long, lower case. Anthropic: "prompt is too long",
/// "exceed context limit", `request_too_large`; OpenAI and vLLM: "maximum context length",
/// `context_length_exceeded`, "reduce the length"; llama.cpp: "exceeds the available context size";
/// Gemini: "input token count … exceeds the maximum number of tokens allowed"; Bedrock: "input is too
/// long"; xAI: "maximum prompt length"; Mistral and vLLM: "maximum model length"; llama.cpp of a text for
/// a vector: "input (… tokens) is too large to process. increase the physical batch size"; Moonshot:
/// "exceeded model token limit"; z.ai: "prompt exceeds max length", "prompt too long"; `SiliconFlow`: "more than
/// max tokens allowed"; DashScope: "range of input length should be".
const OVERFLOW_PHRASES: &[&str] = &[
    "prompt is too long",
    "context length",
    "context_length",
    "maximum context",
    "request_too_large",
    "context limit",
    "context size",
    "context window",
    "reduce the length",
    "number of tokens allowed",
    "input is too long",
    "maximum prompt length",
    "maximum model length",
    "physical batch size",
    "model token limit",
    "exceeds max length",
    "prompt too long",
    "more than max tokens allowed",
    "range of input length",
];

/// What OpenAI writes under 429 when one request is more than a whole minute's tokens: no waiting helps.
const MORE_THAN_A_MINUTES: &[&str] = &["request too large", "tokens must be reduced"];

/// Phrases by which a status means something else than usual, lower case; looked for in the server's
/// message and in its types and codes.
const EXCEPTIONS: [(&[u16], Class, &[&str]); 5] = [
    // OpenAI, Moonshot, Gemini's quota of the day; Anthropic's has the status 400.
    (
        &[400, 403, 429],
        Class::Exhausted,
        &[
            "insufficient_quota",
            "current_quota",
            "billing_",
            "perday",
            "credit balance is too low",
            "insufficient balance",
        ],
    ),
    // OpenRouter, OpenAI, Mistral; OpenAI of models that it has at another address alone, or takes tools for only there.
    (
        &[400, 403],
        Class::Missing,
        &[
            "not a valid model",
            "model_not_found",
            "invalid_model",
            "unknown model",
            "v1/responses",
        ],
    ),
    // Gemini and xAI answer a wrong key, Gemini a forbidden country, with 400.
    (
        &[400],
        Class::Auth,
        &[
            "api key not valid",
            "api_key_invalid",
            "incorrect api key",
            "user location is not supported",
        ],
    ),
    // OpenRouter: the text was refused, and not the key.
    (&[403], Class::Rejected, &["moderation", "flagged"]),
    // Groq: the model wrote a call that is none. Nothing of the conversation is to blame.
    (&[400], Class::Busy, &["tool_use_failed"]),
];

/// The variants of [`Error`] that a status can mean.
#[derive(Clone, Copy)]
enum Class {
    Auth,
    Busy,
    Exhausted,
    Missing,
    Overflow,
    Rejected,
}

/// The body of an error response.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ErrorBody {
    /// Its machine-readable codes (`type`, `code`, `status` and the like), lower case.
    pub(super) kind: String,
    pub(super) message: String,
    /// A number it gave as code.
    pub(super) code: Option<u16>,
    pub(super) retry_after: Option<Duration>,
}

impl ErrorBody {
    /// Reads the shapes in use: `{"error":{"type","code","message"}}`, `{"error":"…"}`, the fields
    /// without `error` around them, `{"detail":"…"}`, FastAPI's `{"detail":[{"msg"}]}`, and any of these in an array.
    pub(super) fn from_json(value: &Value) -> Self {
        let value = value.get(0).unwrap_or(value);
        let error = value
            .get("error")
            .filter(|error| !error.is_null())
            .unwrap_or(value);
        if let Some(message) = error.as_str() {
            return Self {
                message: message.to_owned(),
                ..Self::default()
            };
        }
        let field = |key: &str| error[key].as_str().filter(|text| !text.is_empty());
        let message = field("message")
            .or_else(|| error["detail"].as_str())
            .or_else(|| error["detail"][0]["msg"].as_str());
        let code = &error["code"];
        let code = code.as_u64().or_else(|| code.as_str()?.parse().ok());
        let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
        let reasons = details
            .iter()
            .filter_map(|detail| detail["reason"].as_str());
        let quotas = details
            .iter()
            .filter_map(|detail| detail["violations"].as_array())
            .flatten()
            .filter_map(|violation| violation["quotaId"].as_str());
        let kinds = ["type", "code", "status"].into_iter().filter_map(field);
        let kinds: Vec<&str> = kinds.chain(reasons).chain(quotas).collect();
        let delay = details.iter().find_map(|detail| {
            let secs = detail["retryDelay"].as_str()?.strip_suffix('s')?;
            Duration::try_from_secs_f64(secs.parse().ok()?).ok()
        });
        Self {
            kind: kinds.join(" ").to_lowercase(),
            message: message.map_or_else(|| error.to_string(), str::to_owned),
            code: code.and_then(|code| u16::try_from(code).ok()),
            retry_after: delay,
        }
    }

    /// Reads a body, JSON or not.
    pub(super) fn from_text(body: &str) -> Self {
        let value = json::parse(body.as_bytes()).unwrap_or_else(|_| Value::from(body));
        Self::from_json(&value)
    }

    /// Returns the error of `host` that this body with this HTTP status is. `retry_after` is that of the
    /// headers, which goes before the body's.
    pub(super) fn classify(
        &self,
        host: String,
        status: u16,
        retry_after: Option<Duration>,
    ) -> Error {
        let message = plain(&self.message);
        match self.class(status) {
            Class::Auth => Error::Auth {
                host,
                status,
                message,
            },
            Class::Busy => Error::Busy {
                host,
                status,
                message,
                retry_after: retry_after.or(self.retry_after),
            },
            Class::Exhausted => Error::Exhausted {
                host,
                status,
                message,
            },
            Class::Missing => Error::Missing {
                host,
                status,
                message,
            },
            Class::Overflow => Error::ContextOverflow { message },
            Class::Rejected => Error::Rejected {
                host,
                status,
                message,
            },
        }
    }

    fn class(&self, status: u16) -> Class {
        // Only the server's own message is searched: some servers echo the whole request in the body.
        let message = self.message.to_lowercase();
        let has = |phrases: &[&str]| {
            phrases
                .iter()
                .any(|phrase| message.contains(phrase) || self.kind.contains(phrase))
        };
        let exception = EXCEPTIONS
            .iter()
            .find(|(of, _, phrases)| of.contains(&status) && has(phrases));
        match (exception, status) {
            (Some((_, class, _)), _) => *class,
            (_, 401 | 403) => Class::Auth,
            (_, 402) => Class::Exhausted,
            (_, 300..=399 | 404 | 405) => Class::Missing,
            // More than the server takes at all: a shorter conversation fits.
            (_, 413) => Class::Overflow,
            // Some local servers answer 500 to a conversation that is too long.
            (_, 400 | 422 | 500) if has(OVERFLOW_PHRASES) => Class::Overflow,
            (_, 429) if has(MORE_THAN_A_MINUTES) => Class::Overflow,
            (_, 408 | 409 | 425 | 429 | 500..=599) => Class::Busy,
            _ => Class::Rejected,
        }
    }
}

/// Returns text of a server fit for an error, never empty.
pub(super) fn plain(text: &str) -> String {
    let text = net::server_text(text);
    if text.is_empty() {
        "(no explanation)".to_owned()
    } else {
        text
    }
}
