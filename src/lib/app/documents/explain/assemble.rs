//! Puts together what is known of a run. Pure: everything has been read.

use super::find::Found;
use super::{Approval, Block, Child, Delivery, Explain, Job, Known, Parent, Waits, steps};
use crate::clock;
use crate::cost;
use crate::cost::Call;
use crate::message::{Envelope, Role, Usage};
use crate::queue::{Asking, KEEP, Trace, Traced};
use crate::session::{Event, Kind, Prompt, PromptBlock, PromptTier, Spoken};
use crate::text;

const WORDS: usize = 200;
/// What an estimate may be off, a part of this many: the vendor's tokens are not ours.
const TOLERANCE: u64 = 50;

/// Returns who sent it, when it is a sub-agent.
pub(super) fn parent(known: &Known) -> Option<Parent> {
    let task = leader(known).and_then(|input| input.envelope.task.as_deref());
    let of_task = task.map(|task| Parent {
        run_id: task.run_id.clone(),
        label: Some(task.label.clone()),
        session_key: Some(task.bounds.parent.0.clone()),
    });
    let noted = || {
        prompt(known)?.parent.clone().map(|run_id| Parent {
            run_id,
            label: None,
            session_key: None,
        })
    };
    of_task.or_else(noted)
}

pub(super) fn assemble(known: &Known) -> Explain {
    let (input, prompt, found) = (leader(known), prompt(known), known.found.as_ref());
    let trace = known.trace.as_ref();
    let events = found
        .map(|found| found.events.as_slice())
        .unwrap_or_default();
    let parent = parent(known);
    let own = own_calls(known, parent.as_ref());
    // What its sub-agents cost is counted for it; what a sub-agent costs is counted for whoever sent it.
    let counted: Vec<&Call> = if parent.is_some() {
        own.clone()
    } else {
        known.calls.iter().collect()
    };
    let first = steps::first_usage(found);
    let (state, reason) = ended(input, events);
    let finished = input.map_or_else(|| last_answer_at(events), |input| input.finished_at);
    let message = input
        .map(|input| input.envelope.id.clone())
        .or_else(|| first_input(prompt, events));
    let deliveries: Vec<Delivery> = trace
        .iter()
        .flat_map(|trace| &trace.deliveries)
        .map(|part| delivery(part, finished))
        .collect();
    let spent: i64 = match counted.as_slice() {
        // The ledger may be gone.
        [] => spoken(events)
            .filter_map(|spoken| spoken.cost_nano_usd)
            .sum(),
        rows => rows.iter().filter_map(|row| row.cost_nano_usd).sum(),
    };
    Explain {
        run_id: run_id(known),
        received_at: received_at(input, prompt).map(clock::rfc3339),
        waits: waits(known, &own),
        prompt_blocks: prompt
            .map(|prompt| blocks(&prompt.blocks, first))
            .unwrap_or_default(),
        memories: prompt
            .map(|prompt| prompt.memories.clone())
            .unwrap_or_default(),
        steps: steps::steps(known, &own),
        approvals: trace
            .iter()
            .flat_map(|trace| &trace.approvals)
            .map(|asked| approval(asked, known.now))
            .collect(),
        cost_usd: cost::usd(spent),
        deliveries,
        state,
        reason,
        text: text::shorten(&words(input, trace, events), WORDS),
        reply: reply(input, events).map(|reply| text::shorten(&reply, WORDS)),
        inputs: inputs(trace, prompt, message.as_ref()),
        source: input
            .map(|input| input.envelope.source.as_str().to_owned())
            .or_else(|| prompt.map(|prompt| prompt.source.clone())),
        session_key: found
            .map(|found| found.head.key.clone())
            .or_else(|| input.map(|input| input.envelope.session_key.0.clone())),
        session_id: found.map(|found| found.head.session_id.clone()),
        archived: found.is_some_and(|found| found.archived),
        model: prompt
            .map(|prompt| prompt.model.clone())
            .or_else(|| spoken(events).find_map(|spoken| spoken.model.clone())),
        started_at: prompt
            .map(|prompt| prompt.started_at.clone())
            .or_else(|| events.first().map(|event| event.ts.clone())),
        finished_at: finished.map(clock::rfc3339),
        attempts: input.map(|input| input.attempts),
        cache_read_ratio: first
            .and_then(|usage| ratio(usage.cache_read_tokens, input_tokens(usage))),
        unpriced_calls: counted
            .iter()
            .filter(|row| row.cost_nano_usd.is_none())
            .count(),
        budget_usd: input.and_then(|input| input.envelope.budget_usd),
        receipts: receipts(events),
        tainted: input
            .filter(|input| input.finished_at.is_some())
            .map(|input| input.tainted),
        job: message
            .as_deref()
            .and_then(|id| job(id, input.map(|input| &input.envelope))),
        parent,
        children: trace
            .iter()
            .flat_map(|trace| &trace.children)
            .map(|child| of_child(known, child))
            .collect(),
        gone: gone(known, message.as_deref()),
        message,
    }
}

fn leader(known: &Known) -> Option<&Traced> {
    known.trace.as_ref()?.inputs.first()
}

/// Returns what it began with: the newest, should it have begun twice.
fn prompt(known: &Known) -> Option<&Prompt> {
    let events = known.found.iter().flat_map(|found| &found.events);
    let mut prompts = events.filter_map(|event| match &event.kind {
        Kind::Prompt(prompt) => Some(prompt),
        _ => None,
    });
    prompts.next_back()
}

fn run_id(known: &Known) -> Option<String> {
    let of_transcript = || known.found.as_ref().map(|found| found.run_id.clone());
    let of_queue = known.trace.as_ref().map(|trace| trace.run_id.clone());
    match of_queue {
        Some(run) => run.or_else(of_transcript),
        None => of_transcript().or_else(|| known.calls.first().map(|call| call.run_id.clone())),
    }
}

fn own_calls<'a>(known: &'a Known, parent: Option<&Parent>) -> Vec<&'a Call> {
    let session = known
        .found
        .as_ref()
        .map(|found| found.head.session_id.as_str());
    let is_own = |call: &&Call| match session {
        Some(session) => call.session_id == session,
        // Of a sub-agent without a conversation nobody knows which are its.
        None => parent.is_none(),
    };
    known.calls.iter().filter(is_own).collect()
}

fn spoken(events: &[Event]) -> impl Iterator<Item = &Spoken> {
    events.iter().filter_map(|event| match &event.kind {
        Kind::Message(spoken) => Some(spoken),
        _ => None,
    })
}

fn is_final(spoken: &Spoken) -> bool {
    spoken.role == Role::Assistant && spoken.tool_calls().next().is_none()
}

fn last_answer_at(events: &[Event]) -> Option<i64> {
    let last = events.iter().rfind(|event| match &event.kind {
        Kind::Message(spoken) => is_final(spoken),
        Kind::Error { .. } => true,
        _ => false,
    });
    clock::parse_rfc3339(&last?.ts)
}

fn first_input(prompt: Option<&Prompt>, events: &[Event]) -> Option<String> {
    let noted = prompt.and_then(|prompt| prompt.inputs.first().cloned());
    noted.or_else(|| spoken(events).find_map(|spoken| spoken.inbox_id.clone()))
}

fn inputs(trace: Option<&Trace>, prompt: Option<&Prompt>, message: Option<&String>) -> Vec<String> {
    let of_queue: Vec<String> = trace
        .iter()
        .flat_map(|trace| &trace.inputs)
        .map(|input| input.envelope.id.clone())
        .collect();
    let noted = prompt
        .map(|prompt| prompt.inputs.clone())
        .unwrap_or_default();
    // The queue may have forgotten some of them.
    let more = if noted.len() > of_queue.len() {
        noted
    } else {
        of_queue
    };
    if more.is_empty() {
        message.cloned().into_iter().collect()
    } else {
        more
    }
}

fn received_at(input: Option<&Traced>, prompt: Option<&Prompt>) -> Option<i64> {
    let noted = || clock::parse_rfc3339(&prompt?.received_at);
    input.map(|input| input.envelope.received_at).or_else(noted)
}

/// Returns how it ended, and why when that was no answer.
pub(super) fn ended(input: Option<&Traced>, events: &[Event]) -> (&'static str, Option<String>) {
    let error = events.iter().rev().find_map(|event| match &event.kind {
        Kind::Error { text, .. } => Some(text.clone()),
        _ => None,
    });
    let Some(input) = input else {
        return match error {
            Some(error) if error == "stopped" => ("stopped", None),
            Some(error) if error == "the next message came" => ("interrupted", None),
            Some(error) => ("failed", Some(error)),
            None if spoken(events).any(is_final) => ("done", None),
            None => ("unknown", None),
        };
    };
    let told = input.result.as_ref().and_then(|reply| reply.error.clone());
    match (input.state.as_str(), input.reason.as_deref()) {
        ("pending", _) => ("waiting", None),
        ("running", _) => ("running", None),
        ("dead", reason) => ("dead", reason.map(str::to_owned)),
        (_, Some("stopped")) => ("stopped", None),
        (_, Some("interrupted")) => ("interrupted", None),
        (_, reason) => match told.or(error).or_else(|| reason.map(str::to_owned)) {
            Some(reason) => ("failed", Some(reason)),
            None => ("done", None),
        },
    }
}

fn words(input: Option<&Traced>, trace: Option<&Trace>, events: &[Event]) -> String {
    let heard = |spoken: &&Spoken| spoken.inbox_id.is_some();
    let said: Vec<String> = spoken(events)
        .filter(heard)
        .map(|spoken| spoken.message().plain_text())
        .collect();
    let written = || -> Vec<String> {
        trace
            .iter()
            .flat_map(|trace| &trace.inputs)
            .map(|input| input.envelope.text.clone())
            .collect()
    };
    let all = if said.iter().all(|words| words.trim().is_empty()) {
        written()
    } else {
        said
    };
    let words = all
        .join(" ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let envelope = input.map(|input| &input.envelope);
    match envelope.and_then(|envelope| envelope.command.as_ref()) {
        Some(command) if words.is_empty() => format!("/{}", command_name(command)),
        _ => words,
    }
}

fn command_name(command: &crate::message::Command) -> String {
    let value = serde_json::to_value(command).unwrap_or_default();
    value
        .get("name")
        .and_then(serde_json::Value::as_str)
        .unwrap_or("command")
        .to_owned()
}

fn reply(input: Option<&Traced>, events: &[Event]) -> Option<String> {
    let last = spoken(events)
        .filter(|spoken| is_final(spoken))
        .last()
        .map(|spoken| spoken.message().plain_text());
    let told = || input?.result.as_ref()?.reply.clone();
    let one_line = |words: String| words.split_whitespace().collect::<Vec<_>>().join(" ");
    last.or_else(told)
        .map(one_line)
        .filter(|words| !words.is_empty())
}

fn receipts(events: &[Event]) -> Vec<String> {
    let receipt = |event: &Event| match &event.kind {
        Kind::ToolResult { receipt, .. } => receipt.clone(),
        _ => None,
    };
    events.iter().filter_map(receipt).collect()
}

/// Returns the blocks. The vendor says how much it read from its cache; as that is the beginning of the request, the
/// blocks that fit into it are taken for cached. Our tokens are made the vendor's by their sums.
pub(super) fn blocks(noted: &[PromptBlock], first: Option<Usage>) -> Vec<Block> {
    let estimated: u64 = noted.iter().map(|block| block.tokens).sum();
    let mut until = 0;
    let block = |block: &PromptBlock| {
        until += block.tokens;
        let cached = first.map(|usage| {
            let all = input_tokens(usage);
            // What is new was never sent before.
            let may_be = usage.cache_read_tokens > 0 && block.tier != PromptTier::Message;
            let its = u128::from(until) * u128::from(all) / u128::from(estimated.max(1));
            may_be && its <= u128::from(usage.cache_read_tokens + all / TOLERANCE)
        });
        Block {
            name: block.name.clone(),
            tier: block.tier,
            tokens: block.tokens,
            cached,
            cut: block.cut,
        }
    };
    noted.iter().map(block).collect()
}

fn input_tokens(usage: Usage) -> u64 {
    usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
}

fn ratio(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| (part as f64 / all as f64 * 1000.0).round() / 1000.0)
}

fn waits(known: &Known, own: &[&Call]) -> Waits {
    let trace = known.trace.as_ref();
    let (input, prompt) = (leader(known), prompt(known));
    let of = |text: Option<&String>| text.and_then(|text| clock::parse_rfc3339(text));
    let started = of(prompt.map(|prompt| &prompt.started_at));
    let gathered = of(prompt.map(|prompt| &prompt.gathered_at))
        .or_else(|| trace?.inputs.last().map(|input| input.envelope.received_at));
    let received = received_at(input, prompt);
    let events = known
        .found
        .as_ref()
        .map(|found| found.events.as_slice())
        .unwrap_or_default();
    let noted = events
        .iter()
        .rfind(|event| matches!(event.kind, Kind::Prompt(_)))
        .map(|event| &event.ts);
    let is_open = input.is_some_and(|input| input.finished_at.is_none());
    // What has not begun waits until now.
    let until = started.or_else(|| (is_open && events.is_empty()).then_some(known.now));
    let between = |from: Option<i64>, until: Option<i64>| Some((until? - from?).max(0));
    let asked = trace
        .iter()
        .flat_map(|trace| &trace.approvals)
        .map(|asked| (asked.created_at, decided_at(asked, known.now)));
    let waited_for = |child: &&Traced| child.envelope.task.as_ref().is_some_and(|task| task.waits);
    let sent = trace
        .iter()
        .flat_map(|trace| &trace.children)
        .filter(waited_for);
    let sent = sent.map(|child| {
        (
            child.envelope.received_at,
            child.finished_at.unwrap_or(known.now),
        )
    });
    let in_queue = input.is_some();
    Waits {
        gather_ms: between(received, gathered),
        queue_ms: between(gathered, until),
        prepare_ms: between(started, of(noted)),
        approvals_ms: in_queue.then(|| together(asked.collect())),
        subagents_ms: in_queue.then(|| together(sent.collect())),
        retries_ms: (!own.is_empty()).then(|| steps::retries_ms(own)),
    }
}

/// Returns how long all of these spans are that overlap or not.
pub(super) fn together(mut spans: Vec<(i64, i64)>) -> i64 {
    spans.sort_unstable();
    let (mut sum, mut until) = (0, i64::MIN);
    for (from, to) in spans {
        let from = from.max(until);
        sum += (to - from).max(0);
        until = until.max(to);
    }
    sum
}

fn decided_at(asked: &Asking, now: i64) -> i64 {
    asked
        .decided_at
        .unwrap_or_else(|| now.min(asked.expires_at))
}

fn approval(asked: &Asking, now: i64) -> Approval {
    // Nobody has written it down yet.
    let is_over = asked.state == "pending" && asked.expires_at <= now;
    Approval {
        id: asked.id.clone(),
        tool: asked.tool.clone(),
        text: asked.question.clone(),
        why: asked.why.clone(),
        state: if is_over {
            "expired".to_owned()
        } else {
            asked.state.clone()
        },
        answer: asked.answer.clone(),
        asked_at: clock::rfc3339(asked.created_at),
        decided_at: asked.decided_at.map(clock::rfc3339),
        waited_ms: (decided_at(asked, now) - asked.created_at).max(0),
    }
}

fn delivery(part: &crate::queue::Delivery, finished: Option<i64>) -> Delivery {
    let took = part
        .sent_at
        .zip(finished)
        .filter(|_| !part.asks)
        .map(|(sent, finished)| (sent - finished).max(0));
    Delivery {
        attempt: part.attempts,
        at: clock::rfc3339(part.sent_at.or(part.sending_at).unwrap_or(part.created_at)),
        state: part.state.clone(),
        message_id: part.message_id.clone(),
        channel: part.channel.clone(),
        chat: part.chat.clone(),
        part: part.part.0,
        parts: part.part.1,
        took_ms: took,
        asks: part.asks,
        reason: part.reason.clone(),
    }
}

/// Returns the job whose time an input is: `job:<id>:<time>`.
fn job(input: &str, envelope: Option<&Envelope>) -> Option<Job> {
    let (id, at) = input.strip_prefix("job:")?.rsplit_once(':')?;
    let name = envelope.and_then(|envelope| envelope.about.as_ref()?.source.clone());
    Some(Job {
        id: id.to_owned(),
        at: at.parse().ok().map(clock::rfc3339),
        name,
    })
}

fn of_child(known: &Known, child: &Traced) -> Child {
    let session = child
        .result
        .as_ref()
        .and_then(|reply| reply.session_id.as_deref());
    let cost = session.map(|session| {
        let its = known.calls.iter().filter(|call| call.session_id == session);
        cost::usd(its.filter_map(|call| call.cost_nano_usd).sum())
    });
    let sent = child.envelope.received_at;
    Child {
        message: child.envelope.id.clone(),
        run_id: child.run_id.clone(),
        label: child
            .envelope
            .task
            .as_ref()
            .map(|task| task.label.clone())
            .unwrap_or_default(),
        state: ended(Some(child), &[]).0,
        sent_at: clock::rfc3339(sent),
        duration_ms: (child.finished_at.unwrap_or(known.now) - sent).max(0),
        cost_usd: cost,
    }
}

fn gone(known: &Known, message: Option<&str>) -> Vec<String> {
    let mut gone = Vec::new();
    let events = known
        .found
        .as_ref()
        .map(|found: &Found| found.events.as_slice())
        .unwrap_or_default();
    if leader(known).is_none() {
        let days = KEEP.as_secs() / 86_400;
        gone.push(format!(
            "its row in the queue, which is kept {days} days after its end: attempts, approvals, sub-agents and deliveries"
        ));
    }
    let is_over = leader(known).is_none_or(|input| input.finished_at.is_some());
    let is_turn =
        leader(known).is_none_or(|input| input.attempts > 0 && input.envelope.command.is_none());
    let is_begun = spoken(events).any(|spoken| spoken.inbox_id.is_some());
    match (&known.found, prompt(known)) {
        (None, _) if is_over && is_turn => {
            gone.push("its conversation: there is no line of it in any transcript".to_owned())
        }
        (Some(_), None) if is_begun => {
            gone.push("what its prompt was made of: an older release did not note it".to_owned())
        }
        _ => {}
    }
    if events
        .iter()
        .any(|event| matches!(event.kind, Kind::Forgotten { .. }))
    {
        gone.push("words that were erased: agent-consolidate forget --hard".to_owned());
    }
    if known.calls.is_empty() && spoken(events).any(|spoken| spoken.usage.is_some()) {
        gone.push("its calls in cost.db: how long each took, and which failed".to_owned());
    }
    if message.is_none() {
        gone.push("which message it answers".to_owned());
    }
    gone
}
