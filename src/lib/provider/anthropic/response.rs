//! The Messages API's answer: `message_start`, blocks begun, continued and ended, `message_delta`,
//! `message_stop`. Unknown events, blocks and deltas are skipped, as the API's versioning asks.

use serde_json::Value;

use crate::message::StopReason;
use crate::provider::OnText;
use crate::provider::classify_error::ErrorBody;
use crate::provider::http::{Answer, Fault, parse};
use crate::provider::partial_message::{CallDraft, Received};

/// An answer while it comes in.
#[derive(Debug, Default)]
pub(in crate::provider) struct MessageAnswer {
    received: Received,
}

impl MessageAnswer {
    fn begin_block(&mut self, index: u64, block: &Value, on_text: OnText<'_>) {
        match text(block, "type") {
            "text" => self.push_text(index, text(block, "text"), on_text),
            "tool_use" => {
                let call = CallDraft {
                    id: text(block, "id").to_owned(),
                    name: text(block, "name").to_owned(),
                    value: block.get("input").cloned(),
                    ..CallDraft::default()
                };
                self.received.begin_call(index, call);
            }
            "thinking" | "redacted_thinking" => self.received.begin_thinking(index, block.clone()),
            _ => {}
        }
    }

    fn push_text(&mut self, index: u64, piece: &str, on_text: OnText<'_>) {
        if !piece.is_empty() {
            self.received.push_text(index, piece);
            on_text(piece);
        }
    }

    /// `message_start` has a placeholder as output; `message_delta` has the count.
    fn count(&mut self, usage: &Value, has_output: bool) {
        let tokens = |key: &str| usage.get(key).and_then(Value::as_u64);
        let cache = (
            tokens("cache_read_input_tokens"),
            tokens("cache_creation_input_tokens"),
        );
        let output = tokens("output_tokens").filter(|_| has_output);
        self.received.count(tokens("input_tokens"), output, cache);
    }

    fn stopped(&mut self, reason: &str) {
        self.received.stop = match reason {
            "" => return,
            "max_tokens" | "model_context_window_exceeded" => Some(StopReason::MaxTokens),
            "refusal" => Some(StopReason::Refusal),
            "pause_turn" => Some(StopReason::Pause),
            // end_turn, stop_sequence, tool_use and what is to come: calls decide.
            _ => Some(StopReason::EndTurn),
        };
    }
}

impl Answer for MessageAnswer {
    const PROTOCOL: &'static str = "anthropic";

    fn event(&mut self, data: &str, on_text: OnText<'_>) -> Result<(), Fault> {
        let event = parse(data)?;
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match text(&event, "type") {
            "message_start" => self.count(&event["message"]["usage"], false),
            "content_block_start" => self.begin_block(index, &event["content_block"], on_text),
            "content_block_delta" => {
                let delta = &event["delta"];
                match text(delta, "type") {
                    "text_delta" => self.push_text(index, text(delta, "text"), on_text),
                    "thinking_delta" => {
                        self.received
                            .push_thinking(index, "thinking", text(delta, "thinking"))
                    }
                    "signature_delta" => {
                        self.received
                            .push_thinking(index, "signature", text(delta, "signature"))
                    }
                    "input_json_delta" => {
                        if let Some(call) = self.received.call_mut(index) {
                            call.json.push_str(text(delta, "partial_json"));
                        }
                    }
                    _ => {}
                }
            }
            "message_delta" => {
                self.count(&event["usage"], true);
                self.stopped(text(&event["delta"], "stop_reason"));
            }
            "message_stop" => self.received.ended = true,
            "error" => return Err(reported(&event)),
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, value: &Value, on_text: OnText<'_>) -> Result<(), Fault> {
        if text(value, "type") == "error" || !value["error"].is_null() {
            return Err(reported(value));
        }
        let Some(blocks) = value["content"].as_array() else {
            return Err(Fault::Nonsense("the answer has no content".to_owned()));
        };
        for (index, block) in (0..).zip(blocks) {
            self.begin_block(index, block, on_text);
        }
        self.count(&value["usage"], true);
        self.stopped(text(value, "stop_reason"));
        self.received.ended = true;
        Ok(())
    }

    fn received(&self) -> &Received {
        &self.received
    }

    fn into_received(self) -> Received {
        self.received
    }

    fn complete(&self) -> bool {
        self.received.ended
    }
}

/// Returns a reported error under the HTTP status its type has in the API's table of errors
/// (<https://platform.claude.com/docs/en/api/errors>).
fn reported(event: &Value) -> Fault {
    let body = ErrorBody::from_json(event);
    let status = match body.kind.as_str() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    };
    Fault::Reported(status, body)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
