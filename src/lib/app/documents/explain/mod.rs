//! `explain`: how an answer came about: the message, its waiting times, the parts of the prompt, the recalled memories,
//! each call of a model and of a tool, the questions to the owner, the cost and the delivery.
//!
//! It is read from `queue.db` (14 days), the transcript (forever) and `cost.db`; unavailable parts are named.

mod assemble;
mod find;
mod steps;

use serde::Serialize;

use crate::app::cli::Failure;
use crate::config::Home;
use crate::control::spool;
use crate::cost;
use crate::cost::Call;
use crate::queue;
use crate::queue::{Meant, Trace, Traced};
use crate::session::{Event, Kind, Prompt, PromptTier, Recollection, Spoken};
use crate::{clock, sys, text};
use find::Found;

/// `explain`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Explain {
    /// The run; `null` for an input that has none yet.
    pub run_id: Option<String>,
    /// The input that it answers; of several the first.
    pub message: Option<String>,
    /// When that was taken, RFC 3339 UTC.
    pub received_at: Option<String>,
    pub waits: Waits,
    /// The parts of the first request, in order.
    pub prompt_blocks: Vec<Block>,
    pub memories: Vec<Recollection>,
    /// Calls of models and tools, in the order in which they began.
    pub steps: Vec<Step>,
    pub approvals: Vec<Approval>,
    /// With its sub-agents, without calls that have no price.
    pub cost_usd: f64,
    pub deliveries: Vec<Delivery>,
    /// `queued` (in the spool), `waiting`, `running`, `done`, `failed`, `stopped`, `interrupted`, `dead`, or
    /// `unknown` when nothing says how it ended.
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
    pub inputs: Vec<String>,
    /// Where they came from: `telegram`, `cli`, `job` …
    pub source: Option<String>,
    pub session_key: Option<String>,
    pub session_id: Option<String>,
    pub archived: bool,
    pub model: Option<String>,
    /// When its turn began, RFC 3339 UTC.
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    /// How often its turn was begun: more than once after a restart. `null` when it is no longer known.
    pub attempts: Option<i64>,
    /// Which part of the input of its first answered call was read from the vendor's cache, 0 to 1.
    pub cache_read_ratio: Option<f64>,
    /// Calls without a price: `cost_usd` does not know them.
    pub unpriced_calls: usize,
    /// The maximum cost of its run, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<f64>,
    pub receipts: Vec<String>,
    /// Whether untrusted text may be in its answer; `null` when it is not known.
    pub tainted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// Who sent it, when it is a sub-agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    pub children: Vec<Child>,
    /// The unavailable parts, in words.
    pub gone: Vec<String>,
}

/// What was waited for, milliseconds; `null` where it is not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Waits {
    pub gather_ms: Option<i64>,
    pub queue_ms: Option<i64>,
    pub prepare_ms: Option<i64>,
    pub approvals_ms: Option<i64>,
    pub subagents_ms: Option<i64>,
    pub retries_ms: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Block {
    /// A file, `Skills`, or what it is.
    pub name: String,
    pub tier: PromptTier,
    pub tokens: u64,
    /// Whether it was read from the vendor's cache, by an estimate; `null` before a call was answered.
    pub cached: Option<bool>,
    pub cut: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Step {
    Model(ModelCall),
    Tool(ToolCall),
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct ModelCall {
    pub model_call: String,
    /// What it was for, when it was not the answer: `recall`, `compaction`, `stt` …
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// When it began, RFC 3339 UTC.
    pub at: String,
    pub duration_ms: Option<i64>,
    /// Whether it answered; `null` while it runs, or when it was lost.
    pub ok: Option<bool>,
    pub input_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    pub output_tokens: u64,
    pub estimated: bool,
    /// US dollars; `null` = unpriced.
    pub cost_usd: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ToolCall {
    pub tool: String,
    pub input: String,
    /// When it began, RFC 3339 UTC; `null` when it did not.
    pub at: Option<String>,
    pub duration_ms: Option<u64>,
    /// `done`, `failed`, `running` (or cut off by a restart), `not_run` (refused), `waiting`.
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Approval {
    pub id: String,
    pub tool: String,
    pub text: String,
    pub why: String,
    /// `pending`, `approved`, `used`, `denied`, `expired` or `withdrawn`.
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// When it was asked, RFC 3339 UTC.
    pub asked_at: String,
    pub decided_at: Option<String>,
    pub waited_ms: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Delivery {
    pub attempt: i64,
    /// When it arrived, or was tried last, or stored, RFC 3339 UTC.
    pub at: String,
    /// `pending`, `sending`, `sent`, `unknown` or `dead`.
    pub state: String,
    pub message_id: Option<String>,
    pub channel: String,
    pub chat: String,
    pub part: i64,
    pub parts: i64,
    pub took_ms: Option<i64>,
    pub asks: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Job {
    pub id: String,
    /// Its time, RFC 3339 UTC.
    pub at: Option<String>,
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Parent {
    pub run_id: String,
    pub label: Option<String>,
    pub session_key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Child {
    pub message: String,
    pub run_id: Option<String>,
    pub label: String,
    pub state: &'static str,
    /// When it was sent, RFC 3339 UTC.
    pub sent_at: String,
    pub duration_ms: i64,
    /// US dollars, when its conversation is known.
    pub cost_usd: Option<f64>,
}

/// All that is known of a run, before it is put together.
#[derive(Debug, Default)]
struct Known {
    now: i64,
    id: String,
    /// What `queue.db` has; empty when it knows nothing.
    trace: Trace,
    /// What the transcript has.
    found: Option<Found>,
    /// The calls of `cost.db` that count for it, or for its parent.
    calls: Vec<Call>,
}

impl Known {
    fn events(&self) -> &[Event] {
        self.found.as_ref().map_or(&[], |found| &found.events)
    }

    fn messages(&self) -> impl DoubleEndedIterator<Item = &Spoken> {
        self.events().iter().filter_map(|event| match &event.kind {
            Kind::Message(spoken) => Some(spoken),
            _ => None,
        })
    }

    /// Returns the first of its inputs.
    fn input(&self) -> Option<&Traced> {
        self.trace.inputs.first()
    }

    /// Returns the trace in the transcript: the newest, should it have begun twice.
    fn prompt(&self) -> Option<&Prompt> {
        self.events()
            .iter()
            .rev()
            .find_map(|event| match &event.kind {
                Kind::Prompt(prompt) => Some(prompt),
                _ => None,
            })
    }
}

/// Explains the run, the input or the sent message `target`: see agent-send(1). A daemon need not run. Fails when
/// nothing is known of it (1) or it may mean several (2).
pub(crate) fn explain(home: &Home, target: &str) -> Result<Explain, Failure> {
    let target = target.trim();
    if target.is_empty() {
        return Err(unknown("an empty name"));
    }
    let id = meant(home, target)?.unwrap_or_else(|| target.to_owned());
    let trace = queue::trace(&home.queue_db(), &id)?.unwrap_or_default();
    let run = trace.run_id.clone().unwrap_or_else(|| id.clone());
    let calls_of = |run: &str| cost::calls(&home.cost_db(), &[run]);
    let mut known = Known {
        now: clock::now_ms(),
        calls: calls_of(&run)?,
        id,
        trace,
        found: None,
    };
    known.found = find::find(home, &known, &run)?;
    // Of an input that the queue forgot the transcript alone knows the run.
    let of_transcript = known.found.as_ref().map(|found| found.run_id.clone());
    let parent = assemble::parent(&known).map(|parent| parent.run_id);
    for other in of_transcript
        .into_iter()
        .filter(|of| *of != run)
        .chain(parent)
    {
        known.calls.extend(calls_of(&other)?);
    }
    if known.trace == Trace::default() && known.found.is_none() && known.calls.is_empty() {
        return queued(home, &known.id)?.ok_or_else(|| unknown(target));
    }
    Ok(assemble::assemble(&known))
}

/// Returns the input or run that a message's id in a chat means; `None` when it is no such id.
fn meant(home: &Home, target: &str) -> Result<Option<String>, Failure> {
    let (chat, message) = target
        .rsplit_once('/')
        .map_or((None, target), |(chat, message)| (Some(chat), message));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(message)
        || !chat.is_none_or(|chat| is_number(chat.strip_prefix('-').unwrap_or(chat)))
    {
        return Ok(None);
    }
    // Somebody may call a message by a number.
    if chat.is_none() && queue::knows(&home.queue_db(), target)? {
        return Ok(None);
    }
    let found = queue::meant(&home.queue_db(), message, chat)?;
    let mut chats: Vec<&str> = found.iter().map(|one| one.chat.as_str()).collect();
    chats.sort_unstable();
    chats.dedup();
    if chats.len() > 1 {
        let line = |one: &Meant| {
            format!(
                "{}/{message} ({} UTC)",
                one.chat,
                text::head(&clock::rfc3339(one.at).replace('T', " "), 16)
            )
        };
        let lines: Vec<String> = found.iter().map(|one| text::visible(&line(one))).collect();
        return Err(Failure::usage(format!(
            "{message} may mean messages in {} chats",
            chats.len()
        ))
        .hint(format!(
            "name one: agent-send --explain=CHAT/MESSAGE, that being {}",
            lines.join(" or ")
        )));
    }
    match found.into_iter().next_back() {
        Some(Meant { id: None, .. }) => Err(Failure::failed(format!(
            "message {message} answers no message"
        ))
        .hint("a pairing code or a notice of the daemon; the log shows more: agent-send --log")),
        Some(Meant { id, .. }) => Ok(id),
        None => Ok(None),
    }
}

fn queued(home: &Home, id: &str) -> Result<Option<Explain>, Failure> {
    let spooled = spool::scan(&home.spool_new())?;
    let entry = spooled.into_iter().find(|entry| entry.id.to_string() == id);
    Ok(entry.map(|entry| Explain {
        message: Some(id.to_owned()),
        inputs: vec![id.to_owned()],
        received_at: sys::modified_at(&entry.path).map(clock::rfc3339),
        state: "queued",
        ..Explain::default()
    }))
}

fn unknown(target: &str) -> Failure {
    let target = text::shorten(&text::visible(target), 80);
    Failure::failed(format!("no run or message {target:?}")).hint(
        "name a run (agent-send --history TARGET --full shows run_id), a message by its id, or the number of a sent one as CHAT/MESSAGE",
    )
}

#[cfg(test)]
mod tests;
