//! The two wire formats: one answer as a JSON document or as server-sent events, and errors as each service
//! words them. After docs.anthropic.com "Streaming Messages" and platform.openai.com "Chat Completions", 2025.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::{Output, Usage, Wire};

/// Letters in one delta: small, so that every reply of a line or two comes in several.
const DELTA_CHARS: usize = 12;

/// Ids are unique in the whole test process: two fakes may serve one session.
fn new_id(prefix: &str) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    format!("{prefix}_{:06}", LAST.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Returns the whole answer as one document.
pub(super) fn document(wire: Wire, model: &Value, output: &Output, usage: Usage) -> Value {
    match wire {
        Wire::Anthropic => json!({
            "id": new_id("msg"), "type": "message", "role": "assistant", "model": model,
            "content": anthropic_content(output), "stop_reason": stop_reason(wire, output), "stop_sequence": null,
            "usage": anthropic_usage(usage),
        }),
        Wire::OpenAi => {
            let mut message = json!({"role": "assistant", "content": null});
            match output {
                Output::Text(text) => message["content"] = json!(text),
                Output::Tools(calls) => {
                    message["tool_calls"] = calls
                        .iter()
                        .map(|(name, input)| openai_call(name, input))
                        .collect();
                }
            }
            json!({
                "id": new_id("chatcmpl"), "object": "chat.completion", "created": 1_750_000_000, "model": model,
                "choices": [{"index": 0, "message": message, "finish_reason": stop_reason(wire, output)}],
                "usage": openai_usage(usage),
            })
        }
    }
}

/// Returns the same answer as the frames of a stream.
pub(super) fn frames(wire: Wire, body: &Value, output: &Output, usage: Usage) -> Vec<String> {
    match wire {
        Wire::Anthropic => anthropic_frames(&body["model"], output, usage),
        Wire::OpenAi => openai_frames(body, output, usage),
    }
}

/// Returns whether letters of the answer are in `frame`.
pub(super) fn has_text(wire: Wire, frame: &str) -> bool {
    match wire {
        Wire::Anthropic => frame.contains("text_delta"),
        Wire::OpenAi => frame.contains("\"delta\":{\"content\":"),
    }
}

/// Returns the body of an error with `status`.
pub(super) fn error(wire: Wire, status: u16, message: &str) -> Value {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    match wire {
        Wire::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Wire::OpenAi => {
            json!({"error": {"type": kind, "message": message, "param": null, "code": null}})
        }
    }
}

fn stop_reason(wire: Wire, output: &Output) -> &'static str {
    match (wire, output) {
        (Wire::Anthropic, Output::Text(_)) => "end_turn",
        (Wire::Anthropic, Output::Tools(_)) => "tool_use",
        (Wire::OpenAi, Output::Text(_)) => "stop",
        (Wire::OpenAi, Output::Tools(_)) => "tool_calls",
    }
}

fn anthropic_usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input, "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_write, "cache_read_input_tokens": usage.cache_read,
    })
}

fn openai_usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
    })
}

fn anthropic_content(output: &Output) -> Vec<Value> {
    match output {
        Output::Text(text) => vec![json!({"type": "text", "text": text})],
        Output::Tools(calls) => calls
            .iter()
            .map(|(name, input)| json!({"type": "tool_use", "id": new_id("toolu"), "name": name, "input": input}))
            .collect(),
    }
}

fn openai_call(name: &str, input: &Value) -> Value {
    json!({"id": new_id("call"), "type": "function", "function": {"name": name, "arguments": input.to_string()}})
}

fn anthropic_frames(model: &Value, output: &Output, usage: Usage) -> Vec<String> {
    let mut events = vec![
        json!({"type": "message_start", "message": {
            "id": new_id("msg"), "type": "message", "role": "assistant", "model": model, "content": [],
            "stop_reason": null, "stop_sequence": null,
            "usage": anthropic_usage(Usage { output: 1, ..usage }),
        }}),
        json!({"type": "ping"}),
    ];
    for (index, mut block) in anthropic_content(output).into_iter().enumerate() {
        let (whole, delta, part) = if block["type"] == "text" {
            (block["text"].take(), "text_delta", "text")
        } else {
            (
                Value::String(block["input"].take().to_string()),
                "input_json_delta",
                "partial_json",
            )
        };
        // A block opens empty and is filled by its deltas.
        if delta == "text_delta" {
            block["text"] = json!("");
        } else {
            block["input"] = json!({});
        }
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(
            pieces(whole.as_str().unwrap_or_default())
                .map(|piece| json!({"type": "content_block_delta", "index": index, "delta": {"type": delta, part: piece}})),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason(Wire::Anthropic, output), "stop_sequence": null},
        "usage": {"output_tokens": usage.output},
    }));
    events.push(json!({"type": "message_stop"}));
    let frame = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap_or_default()
        )
    };
    events.iter().map(frame).collect()
}

fn openai_frames(body: &Value, output: &Output, usage: Usage) -> Vec<String> {
    let id = new_id("chatcmpl");
    let chunk = |choices: Value| {
        json!({
            "id": id, "object": "chat.completion.chunk", "created": 1_750_000_000, "model": body["model"],
            "choices": choices,
        })
    };
    let delta = |delta: Value, finish: Value| {
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]))
    };
    let mut chunks = vec![delta(
        json!({"role": "assistant", "content": ""}),
        Value::Null,
    )];
    match output {
        Output::Text(text) => {
            chunks.extend(pieces(text).map(|piece| delta(json!({"content": piece}), Value::Null)))
        }
        Output::Tools(calls) => {
            for (index, (name, input)) in calls.iter().enumerate() {
                let mut call = openai_call(name, input);
                let arguments = call["function"]["arguments"].take();
                call["function"]["arguments"] = json!("");
                call["index"] = json!(index);
                chunks.push(delta(json!({"tool_calls": [call]}), Value::Null));
                chunks.extend(pieces(arguments.as_str().unwrap_or_default()).map(|piece| {
                    delta(
                        json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}),
                        Value::Null,
                    )
                }));
            }
        }
    }
    chunks.push(delta(json!({}), json!(stop_reason(Wire::OpenAi, output))));
    // The service sends usage in a stream only to who asked for it.
    if body["stream_options"]["include_usage"] == true {
        let mut last = chunk(json!([]));
        last["usage"] = openai_usage(usage);
        chunks.push(last);
    }
    let frames = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
    frames.chain(["data: [DONE]\n\n".to_owned()]).collect()
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let letters: Vec<char> = text.chars().collect();
    letters
        .chunks(DELTA_CHARS)
        .map(|piece| piece.iter().collect())
        .collect::<Vec<String>>()
        .into_iter()
}
