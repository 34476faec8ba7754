//! The calls of a run in the order in which they began, from the transcript and the ledger.

use serde_json::Value;

use super::{Known, ModelCall, Step, ToolCall};
use crate::cost;
use crate::cost::Call;
use crate::message::Usage;
use crate::session::{Event, Kind, Spoken};
use crate::{clock, text};

const INPUT: usize = 120;

/// Returns the calls; `own` are those of the ledger that were made in its conversation.
pub(super) fn steps(known: &Known, own: &[&Call]) -> Vec<Step> {
    let mut rows: Vec<Option<&Call>> = own.iter().copied().map(Some).collect();
    let mut steps: Vec<(i64, Step)> = Vec::new();
    for event in known.events() {
        let at = clock::parse_rfc3339(&event.ts).unwrap_or(0);
        match &event.kind {
            Kind::Message(spoken) => {
                if let (Some(usage), Some(model)) = (spoken.usage, &spoken.model) {
                    let row = take(&mut rows, model, usage);
                    let call = answer(event, spoken, model, usage, row);
                    steps.push((row.map_or(at, |row| row.at), Step::Model(call)));
                }
                let calls = spoken.tool_calls();
                steps.extend(calls.map(|call| {
                    let step = tool_step(known, &call.id, &call.name, &call.input);
                    (at, Step::Tool(step))
                }));
            }
            // Its call was erased, but not its result.
            Kind::ToolResult { name, result, .. } if !is_asked(known, &result.id) => {
                let step = tool_step(known, &result.id, name, &Value::Null);
                steps.push((at, Step::Tool(step)));
            }
            _ => {}
        }
    }
    // Failed, running and additional calls.
    let others = rows.into_iter().flatten();
    steps.extend(others.map(|row| (row.at, Step::Model(beside(row)))));
    // A tool begins when its call does, never before the answer that asks for it.
    steps.sort_by_key(|(at, _)| *at);
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Returns the pauses between calls that failed and the next tries, each from when until when, milliseconds since 1970 UTC. A
/// turn that has to wait (`waited_since`) because its model is known to be away is a try without a call; the last one has no
/// next until `until`.
pub(super) fn pauses(own: &[&Call], waited_since: Option<i64>, until: i64) -> Vec<(i64, i64)> {
    let end = |call: &Call| call.at + call.duration_ms.unwrap_or(0);
    let mut pauses: Vec<(i64, i64)> = own
        .windows(2)
        .filter_map(|pair| match pair {
            [before, after] if before.ok == Some(false) && before.kind == after.kind => {
                Some((end(before), after.at))
            }
            _ => None,
        })
        .collect();
    if let Some(since) = waited_since {
        let next = own.iter().map(|call| call.at).find(|at| *at >= since);
        pauses.push((since, next.unwrap_or(until)));
        let last = own.last().filter(|last| last.ok == Some(false));
        pauses.extend(last.map(|last| (end(last), until)));
    }
    pauses
}

fn is_asked(known: &Known, id: &str) -> bool {
    let mut calls = known.messages().flat_map(Spoken::tool_calls);
    calls.any(|call| call.id == id)
}

fn take<'a>(rows: &mut [Option<&'a Call>], model: &str, usage: Usage) -> Option<&'a Call> {
    let is_its = |row: &Call| {
        row.ok == Some(true) && row.model == model && row.kind == "chat" && row.usage == usage
    };
    rows.iter_mut()
        .find(|row| row.is_some_and(is_its))
        .and_then(Option::take)
}

fn answer(
    event: &Event,
    spoken: &Spoken,
    model: &str,
    usage: Usage,
    row: Option<&Call>,
) -> ModelCall {
    ModelCall {
        at: row.map_or_else(|| event.ts.clone(), |row| clock::rfc3339(row.at)),
        duration_ms: row.and_then(|row| row.duration_ms),
        ok: Some(true),
        cost_usd: spoken.cost_nano_usd.map(cost::usd),
        ..model_call(model, usage)
    }
}

fn beside(row: &Call) -> ModelCall {
    let purpose = match (row.kind.as_str(), row.source.as_str()) {
        ("chat", "recall" | "compaction" | "consolidation") => Some(row.source.clone()),
        ("chat", _) => None,
        (kind, _) => Some(kind.to_owned()),
    };
    ModelCall {
        purpose,
        at: clock::rfc3339(row.at),
        duration_ms: row.duration_ms,
        ok: row.ok,
        cost_usd: row.cost_nano_usd.map(cost::usd),
        ..model_call(&row.model, row.usage)
    }
}

fn model_call(model: &str, usage: Usage) -> ModelCall {
    ModelCall {
        model_call: model.to_owned(),
        input_tokens: input_tokens(usage),
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        output_tokens: usage.output_tokens,
        estimated: usage.estimated,
        ..ModelCall::default()
    }
}

/// Returns what became of the call `id`.
fn tool_step(known: &Known, id: &str, tool: &str, input: &Value) -> ToolCall {
    let mut step = ToolCall {
        tool: tool.to_owned(),
        input: shown_input(input),
        at: None,
        duration_ms: None,
        state: "waiting",
        receipt: None,
    };
    for event in known.events() {
        match &event.kind {
            Kind::ToolCall { id: of, .. } if of == id => {
                (step.at, step.state) = (Some(event.ts.clone()), "running");
            }
            Kind::ToolResult {
                result,
                duration_ms,
                receipt,
                ..
            } if result.id == id => {
                step.state = match (result.is_error, &step.at) {
                    (false, _) => "done",
                    (true, Some(_)) => "failed",
                    (true, None) => "not_run",
                };
                step.duration_ms = Some(*duration_ms);
                step.receipt.clone_from(receipt);
            }
            _ => {}
        }
    }
    step
}

pub(super) fn input_tokens(usage: Usage) -> u64 {
    usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
}

fn shown_input(input: &Value) -> String {
    let plain = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| value.to_string())
    };
    let words = match input {
        Value::Null => String::new(),
        Value::Object(fields) if fields.is_empty() => String::new(),
        // `exec` with a command and nothing else is that command.
        Value::Object(fields) if fields.len() == 1 => {
            fields.values().next().map(plain).unwrap_or_default()
        }
        other => other.to_string(),
    };
    let words: Vec<&str> = words.split_whitespace().collect();
    text::shorten(&words.join(" "), INPUT)
}
