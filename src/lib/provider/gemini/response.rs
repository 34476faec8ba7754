//! generateContent's answer: each event has a part of the first candidate and the token counts.

use serde_json::{Value, json};

use crate::message::StopReason;
use crate::provider::OnText;
use crate::provider::classify_error::ErrorBody;
use crate::provider::http::{Answer, Fault, parse};
use crate::provider::partial_message::{CallDraft, Received};

use super::SIGNATURE;

/// An answer while it comes in.
#[derive(Debug, Default)]
pub(in crate::provider) struct Candidate {
    received: Received,
    /// Text pieces go to the part with this index, until something else comes between.
    index: u64,
}

impl Candidate {
    fn take(&mut self, value: &Value, on_text: OnText<'_>) -> Result<(), Fault> {
        if !value["error"].is_null() {
            return Err(reported(value));
        }
        self.count(&value["usageMetadata"]);
        let candidate = &value["candidates"][0];
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            self.part(part, on_text);
        }
        match candidate["finishReason"].as_str() {
            Some(reason) => self.stopped(reason)?,
            // The question itself was refused: no candidate comes.
            None if value["promptFeedback"]["blockReason"].is_string() => {
                self.received.stop = Some(StopReason::Refusal)
            }
            None => {}
        }
        // The counts are in each event, and nothing comes after the reason.
        self.received.ended = self.received.stop.is_some() && value["usageMetadata"].is_object();
        Ok(())
    }

    fn part(&mut self, part: &Value, on_text: OnText<'_>) {
        // A summary of the thinking is for people.
        if part["thought"] == true {
            return;
        }
        let text = part["text"].as_str().unwrap_or_default();
        let call = &part["functionCall"];
        if part[SIGNATURE].is_string() && (call.is_object() || !text.is_empty()) {
            self.index += 1;
            self.received
                .begin_thinking(self.index, json!({SIGNATURE: part[SIGNATURE]}));
        }
        if !text.is_empty() {
            self.received.push_text(self.index, text);
            on_text(text);
        }
        if call.is_object() {
            self.index += 1;
            let word = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
            let value = Some(call["args"].clone()).filter(|args| !args.is_null());
            let call = CallDraft {
                id: word("id"),
                name: word("name"),
                value,
                ..CallDraft::default()
            };
            self.received.begin_call(self.index, call);
            self.index += 1;
        }
    }

    /// The prompt's tokens include the cached ones; our input does not. Thinking is paid as output.
    fn count(&mut self, usage: &Value) {
        let tokens = |key: &str| usage[key].as_u64();
        let cached = tokens("cachedContentTokenCount");
        let prompt =
            tokens("promptTokenCount").map(|prompt| prompt.saturating_sub(cached.unwrap_or(0)));
        let tools = tokens("toolUsePromptTokenCount").unwrap_or(0);
        let written = [tokens("candidatesTokenCount"), tokens("thoughtsTokenCount")];
        self.received.count(
            prompt.map(|prompt| prompt.saturating_add(tools)),
            written.into_iter().flatten().reduce(u64::saturating_add),
            (cached, None),
        );
    }

    fn stopped(&mut self, reason: &str) -> Result<(), Fault> {
        self.received.stop = match reason {
            "" | "FINISH_REASON_UNSPECIFIED" => None,
            "MAX_TOKENS" => Some(StopReason::MaxTokens),
            "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" => {
                Some(StopReason::Refusal)
            }
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => {
                self.received.make_void();
                return Ok(());
            }
            "MISSING_THOUGHT_SIGNATURE" => {
                let body = ErrorBody::from_text(
                    "a thought signature is missing (finishReason MISSING_THOUGHT_SIGNATURE)",
                );
                return Err(Fault::Reported(400, body));
            }
            _ if reason.starts_with("IMAGE_") => Some(StopReason::Refusal),
            "OTHER" if self.received.is_empty() => {
                return Err(Fault::Nonsense(
                    "the model stopped for an unknown reason (finishReason OTHER)".to_owned(),
                ));
            }
            // STOP and what is to come: calls decide.
            _ => Some(StopReason::EndTurn),
        };
        Ok(())
    }
}

impl Answer for Candidate {
    const PROTOCOL: &'static str = "gemini";

    fn event(&mut self, data: &str, on_text: OnText<'_>) -> Result<(), Fault> {
        self.take(&parse(data)?, on_text)
    }

    /// Without `alt=sse` the events come as one list.
    fn whole(&mut self, value: &Value, on_text: OnText<'_>) -> Result<(), Fault> {
        match value.as_array() {
            Some(events) => events
                .iter()
                .try_for_each(|event| self.take(event, on_text))?,
            None => self.take(value, on_text)?,
        }
        if self.received.stop.is_none() && self.received.is_empty() {
            return Err(Fault::Nonsense("the answer has no candidates".to_owned()));
        }
        self.received.ended = true;
        Ok(())
    }

    fn received(&self) -> &Received {
        &self.received
    }

    fn into_received(self) -> Received {
        self.received
    }
}

/// Returns an error that came in a stream under its own number, or else as one of the server.
fn reported(value: &Value) -> Fault {
    let body = ErrorBody::from_json(value);
    let status = body.code.filter(|code| (400..=599).contains(code));
    Fault::Reported(status.unwrap_or(500), body)
}
