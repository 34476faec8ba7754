//! A server's description of an error, in the shapes in use, and what it means.
//!
//! Decided here for all vendors, because compatible servers mix their habits freely.

use std::time::Duration;

use serde_json::Value;

/// What servers say when the conversation is too long, lower case. Anthropic: "prompt is too long",
/// "exceed context limit", `request_too_large`; OpenAI and vLLM: "maximum context length",
/// `context_length_exceeded`, "reduce the length"; llama.cpp: "exceeds the available context size";
/// Gemini: "input token count … exceeds the maximum number of tokens allowed"; Bedrock: "input is too
/// long"; xAI: "maximum prompt length"; Mistral and vLLM: "maximum model length"; llama.cpp of a text for
/// a vector: "input (… tokens) is too large to process. increase the physical batch size".
const OVERFLOW_PHRASES: [&str; 14] = [
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
];

/// Words by which a status says something else than it is for, lower case; looked for in what the
/// server says and in its types and codes.
const MEANINGS: [(&[u16], Meaning, &[&str]); 4] = [
    // OpenAI, Moonshot, Gemini's quota of the day; Anthropic's has the status 400.
    (
        &[400, 403, 429],
        Meaning::Exhausted,
        &[
            "insufficient_quota",
            "current_quota",
            "billing_",
            "perday",
            "credit balance is too low",
            "insufficient balance",
        ],
    ),
    // OpenRouter, OpenAI, Mistral.
    (
        &[400, 403],
        Meaning::Missing,
        &[
            "not a valid model",
            "model_not_found",
            "invalid_model",
            "unknown model",
        ],
    ),
    // Gemini and xAI answer a wrong key, Gemini a forbidden country, with 400.
    (
        &[400],
        Meaning::Auth,
        &[
            "api key not valid",
            "api_key_invalid",
            "incorrect api key",
            "user location is not supported",
        ],
    ),
    // OpenRouter: the words were refused, and not the key.
    (&[403], Meaning::Rejected, &["moderation", "flagged"]),
];

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The key is wrong, or may not do this.
    Auth,
    /// Later it may succeed.
    Busy,
    /// No money, or no quota for long.
    Exhausted,
    /// No such model or address.
    Missing,
    /// The conversation is too long.
    Overflow,
    /// The request is wrong as it is.
    Rejected,
}

/// A server's description of an error.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    /// Its machine-readable words (`type` and `code`), for telling errors apart.
    pub(super) kind: String,
    /// Its sentence.
    pub(super) message: String,
    /// A number it gave as code.
    pub(super) code: Option<u16>,
    /// When to come back, if the body says so.
    pub(super) retry_after: Option<Duration>,
}

impl Said {
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
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let detail = error["detail"]
            .as_str()
            .or_else(|| error["detail"][0]["msg"].as_str());
        let message = match (word("message"), detail) {
            ("", None) => error.to_string(),
            ("", Some(detail)) => detail.to_owned(),
            (message, _) => message.to_owned(),
        };
        let code = error
            .get("code")
            .and_then(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()));
        let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
        let quotas = details
            .iter()
            .filter_map(|detail| detail["violations"].as_array())
            .flatten();
        let words = details
            .iter()
            .map(|detail| &detail["reason"])
            .chain(quotas.map(|quota| &quota["quotaId"]));
        let words: String = words
            .filter_map(Value::as_str)
            .flat_map(|word| [" ", word])
            .collect();
        let delay = details.iter().find_map(|detail| {
            detail["retryDelay"]
                .as_str()?
                .strip_suffix('s')?
                .parse()
                .ok()
        });
        Self {
            kind: format!(
                "{} {} {}{words}",
                word("type"),
                word("code"),
                word("status")
            )
            .to_lowercase(),
            message,
            code: code.and_then(|code| u16::try_from(code).ok()),
            retry_after: delay.and_then(|delay| Duration::try_from_secs_f64(delay).ok()),
        }
    }

    /// Reads the body of an error, JSON or not.
    pub(super) fn from_body(body: &str) -> Self {
        serde_json::from_str(body).map_or_else(
            |_| Self {
                message: body.to_owned(),
                ..Self::default()
            },
            |value| Self::from_json(&value),
        )
    }

    /// Only the server's own words are searched: some servers echo the whole request in the body.
    fn is_overflow(&self) -> bool {
        let message = self.message.to_lowercase();
        OVERFLOW_PHRASES
            .iter()
            .any(|phrase| message.contains(phrase) || self.kind.contains(phrase))
    }

    /// Returns what a refusal with this status is about.
    pub(super) fn meaning(&self, status: u16) -> Meaning {
        let message = self.message.to_lowercase();
        let says = |words: &[&str]| {
            words
                .iter()
                .any(|word| message.contains(word) || self.kind.contains(word))
        };
        let told = MEANINGS
            .iter()
            .find(|(of, _, words)| of.contains(&status) && says(words));
        match (told, status) {
            (Some((_, meaning, _)), _) => *meaning,
            (_, 401 | 403) => Meaning::Auth,
            (_, 402) => Meaning::Exhausted,
            (_, 300..=399 | 404 | 405) => Meaning::Missing,
            // Some local servers answer 500 to a conversation that is too long.
            (_, 500) if self.is_overflow() => Meaning::Overflow,
            (_, 408 | 409 | 425 | 429 | 500..=599) => Meaning::Busy,
            // More than the server takes at all: a shorter conversation fits.
            (_, 413) => Meaning::Overflow,
            (_, 400 | 422) if self.is_overflow() => Meaning::Overflow,
            _ => Meaning::Rejected,
        }
    }
}
