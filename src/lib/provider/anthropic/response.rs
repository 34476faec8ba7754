//! The Messages API's answer: `message_start`, blocks begun, continued and ended, `message_delta`,
//! `message_stop`. Unknown events, blocks and deltas are skipped, as the API's versioning asks.

use serde_json::Value;

use crate::message::StopReason;
use crate::provider::classify_error::Said;
use crate::provider::http::{Answer, Fault, parse};
use crate::provider::wire::{CallDraft, Counted, Draft};
use crate::provider::{OnText, Request, Response};

/// An answer while it comes in.
#[derive(Debug, Default)]
pub(super) struct MessageAnswer {
    draft: Draft,
    counted: Counted,
    stop: Option<StopReason>,
    ended: bool,
}

impl MessageAnswer {
    /// Returns the finished answer to `request`, which was sent as `body`.
    pub(super) fn finish(self, request: &Request, body: &Value) -> Response {
        self.draft.finish(
            super::PROTOCOL,
            request,
            body,
            self.stop.unwrap_or(StopReason::EndTurn),
            &self.counted,
        )
    }

    fn begin_block(&mut self, index: u64, block: &Value, on_text: OnText<'_>) {
        match text(block, "type") {
            "text" => self.push_text(index, text(block, "text"), on_text),
            "tool_use" => {
                let (id, name) = (text(block, "id").to_owned(), text(block, "name").to_owned());
                self.draft.begin_call(
                    index,
                    CallDraft {
                        id,
                        name,
                        value: block.get("input").cloned(),
                        ..CallDraft::default()
                    },
                );
            }
            "thinking" | "redacted_thinking" => self.draft.begin_thinking(index, block.clone()),
            _ => {}
        }
    }

    fn push_text(&mut self, index: u64, piece: &str, on_text: OnText<'_>) {
        if !piece.is_empty() {
            self.draft.push_text(index, piece);
            on_text(piece);
        }
    }

    fn count_input(&mut self, usage: &Value) {
        let tokens = |key: &str| usage.get(key).and_then(Value::as_u64);
        self.counted.input(tokens("input_tokens"));
        self.counted.cache(
            tokens("cache_read_input_tokens"),
            tokens("cache_creation_input_tokens"),
        );
    }

    fn count(&mut self, usage: &Value) {
        self.count_input(usage);
        self.counted
            .output(usage.get("output_tokens").and_then(Value::as_u64));
    }

    fn stopped(&mut self, reason: &str) {
        self.stop = match reason {
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
    fn event(&mut self, data: &str, on_text: OnText<'_>) -> Result<(), Fault> {
        let event = parse(data)?;
        let index = event.get("index").and_then(Value::as_u64).unwrap_or(0);
        match text(&event, "type") {
            // Its output_tokens are a placeholder; message_delta has the count.
            "message_start" => self.count_input(&event["message"]["usage"]),
            "content_block_start" => self.begin_block(index, &event["content_block"], on_text),
            "content_block_delta" => {
                let delta = &event["delta"];
                match text(delta, "type") {
                    "text_delta" => self.push_text(index, text(delta, "text"), on_text),
                    "thinking_delta" => {
                        self.draft
                            .push_thinking(index, "thinking", text(delta, "thinking"))
                    }
                    "signature_delta" => {
                        self.draft
                            .push_thinking(index, "signature", text(delta, "signature"))
                    }
                    "input_json_delta" => {
                        if let Some(call) = self.draft.call_mut(index) {
                            call.json.push_str(text(delta, "partial_json"));
                        }
                    }
                    _ => {}
                }
            }
            "message_delta" => {
                self.count(&event["usage"]);
                self.stopped(text(&event["delta"], "stop_reason"));
            }
            "message_stop" => self.ended = true,
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
        self.count(&value["usage"]);
        self.stopped(text(value, "stop_reason"));
        self.ended = true;
        Ok(())
    }

    fn ended(&self) -> bool {
        self.ended
    }

    fn complete(&self) -> bool {
        self.ended
    }
}

/// Returns a reported error under the HTTP status its type has in the API's table of errors
/// (<https://platform.claude.com/docs/en/api/errors>).
fn reported(event: &Value) -> Fault {
    let said = Said::from_json(event);
    let status = match said.kind.trim() {
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
    Fault::Reported(status, said)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
