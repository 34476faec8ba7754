//! Assembles the document of a run. Pure: everything has been read before.

use super::steps::input_tokens;
use super::{Approval, Block, Child, Delivery, Explain, Job, Known, Parent, Waits, steps};
use crate::clock;
use crate::cost;
use crate::cost::Call;
use crate::jobs;
use crate::message::{Envelope, Role, Usage};
use crate::queue;
use crate::queue::{Asking, KEEP, Suspended, Traced};
use crate::session::{Event, Kind, PromptBlock, PromptTier, Spoken, cut_blocks};
use crate::text;

/// Characters of a message and of an answer.
const WORDS: usize = 200;
/// An estimate may be off by one in so many: the vendor's tokens are not ours.
const TOLERANCE: u64 = 50;

/// Returns the run that sent it, when it is a sub-agent.
pub(super) fn parent(known: &Known) -> Option<Parent> {
    let task = known
        .input()
        .and_then(|input| input.envelope.task.as_deref());
    match task {
        Some(task) => Some(Parent {
            run_id: task.run_id.clone(),
            label: Some(task.label.clone()),
            session_key: Some(task.bounds.parent.0.clone()),
        }),
        None => known.prompt()?.parent.clone().map(|run_id| Parent {
            run_id,
            label: None,
            session_key: None,
        }),
    }
}

pub(super) fn assemble(known: &Known) -> Explain {
    let (input, prompt, found) = (known.input(), known.prompt(), known.found.as_ref());
    let (trace, events) = (&known.trace, known.events());
    let envelope = input.map(|input| &input.envelope);
    let parent = parent(known);
    let own = own_calls(known, parent.is_some());
    // What its sub-agents cost is counted for it; what a sub-agent costs is counted for its parent.
    let counted: Vec<&Call> = if parent.is_some() {
        own.clone()
    } else {
        known.calls.iter().collect()
    };
    let first = known.messages().find_map(|spoken| spoken.usage);
    let (state, reason) = ended(input, events);
    let finished = input.map_or_else(|| last_answer_at(events), |input| input.finished_at);
    let message = envelope
        .map(|envelope| envelope.id.clone())
        .or_else(|| prompt?.inputs.first().cloned())
        .or_else(|| known.messages().find_map(|spoken| spoken.inbox_id.clone()));
    let unpriced = counted.iter().filter(|row| row.cost_nano_usd.is_none());
    Explain {
        run_id: run_id(known),
        received_at: received_at(known).map(clock::rfc3339),
        waits: waits(known, &own),
        prompt_blocks: blocks(&sent(events), first),
        memories: prompt.map_or_else(Vec::new, |prompt| prompt.memories.clone()),
        steps: steps::steps(known, &own),
        approvals: trace
            .approvals
            .iter()
            .map(|asked| approval(asked, known.now))
            .collect(),
        cost_usd: cost::usd(spent(known, &counted)),
        deliveries: trace
            .deliveries
            .iter()
            .map(|part| delivery(part, finished))
            .collect(),
        state,
        reason,
        text: text::shorten(&said(known), WORDS),
        reply: reply(known).map(|reply| text::shorten(&reply, WORDS)),
        inputs: inputs(known, message.as_ref()),
        source: envelope
            .map(|envelope| envelope.source.as_str().to_owned())
            .or_else(|| Some(prompt?.source.clone())),
        session_key: found
            .map(|found| found.head.key.clone())
            .or_else(|| Some(envelope?.session_key.0.clone())),
        session_id: found.map(|found| found.head.session_id.clone()),
        archived: found.is_some_and(|found| found.archived),
        model: prompt
            .map(|prompt| prompt.model.clone())
            .or_else(|| known.messages().find_map(|spoken| spoken.model.clone())),
        started_at: prompt
            .map(|prompt| prompt.started_at.clone())
            .or_else(|| Some(events.first()?.ts.clone())),
        finished_at: finished.map(clock::rfc3339),
        attempts: input.map(|input| input.attempts),
        cache_read_ratio: first
            .and_then(|usage| ratio(usage.cache_read_tokens, input_tokens(usage))),
        unpriced_calls: unpriced.count(),
        budget_usd: envelope.and_then(|envelope| envelope.budget_usd),
        receipts: receipts(events),
        tainted: input
            .filter(|input| input.finished_at.is_some())
            .map(|input| input.tainted),
        job: message.as_deref().and_then(|id| job(id, envelope)),
        parent,
        children: trace.children.iter().map(|one| child(known, one)).collect(),
        gone: gone(known, message.is_some()),
        message,
    }
}

/// Returns the billionths of a dollar that `counted` cost; the ledger may be gone, then by the transcript.
fn spent(known: &Known, counted: &[&Call]) -> i64 {
    match counted {
        [] => known
            .messages()
            .filter_map(|spoken| spoken.cost_nano_usd)
            .sum(),
        rows => rows.iter().filter_map(|row| row.cost_nano_usd).sum(),
    }
}

fn run_id(known: &Known) -> Option<String> {
    let of_transcript = || Some(known.found.as_ref()?.run_id.clone());
    let of_ledger = || Some(known.calls.first()?.run_id.clone());
    let run = known.trace.run_id.clone().or_else(of_transcript);
    // An input without a run was called nothing for.
    run.or_else(|| known.input().is_none().then(of_ledger).flatten())
}

/// Returns the calls that were made in its own conversation.
fn own_calls(known: &Known, is_child: bool) -> Vec<&Call> {
    let session = known.found.as_ref().map(|found| &found.head.session_id);
    let is_own = |call: &&Call| match session {
        Some(session) => call.session_id == *session,
        // Of a sub-agent without a conversation nobody knows which are its.
        None => !is_child,
    };
    known.calls.iter().filter(is_own).collect()
}

fn is_final(spoken: &Spoken) -> bool {
    spoken.role == Role::Assistant && spoken.tool_calls().next().is_none()
}

fn is_answer(event: &Event) -> bool {
    matches!(&event.kind, Kind::Message(spoken) if is_final(spoken))
}

fn last_answer_at(events: &[Event]) -> Option<i64> {
    let is_end = |event: &&Event| is_answer(event) || matches!(event.kind, Kind::Error { .. });
    clock::parse_rfc3339(&events.iter().rfind(is_end)?.ts)
}

fn inputs(known: &Known, message: Option<&String>) -> Vec<String> {
    let of_queue = known.trace.inputs.iter().map(|input| &input.envelope.id);
    let of_queue: Vec<String> = of_queue.cloned().collect();
    let traced = known
        .prompt()
        .map_or_else(Vec::new, |prompt| prompt.inputs.clone());
    // The queue may have forgotten some of them.
    let all = if traced.len() > of_queue.len() {
        traced
    } else {
        of_queue
    };
    if all.is_empty() {
        return message.cloned().into_iter().collect();
    }
    all
}

fn received_at(known: &Known) -> Option<i64> {
    match known.input() {
        Some(input) => Some(input.envelope.received_at),
        None => clock::parse_rfc3339(&known.prompt()?.received_at),
    }
}

/// Returns how it ended, and why when that was not an answer.
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
            None if events.iter().any(is_answer) => ("done", None),
            None => ("unknown", None),
        };
    };
    let replied = || input.result.as_ref()?.error.clone();
    match (input.state.as_str(), &input.reason) {
        ("pending", _) => ("waiting", input.suspended.as_ref().map(waits_for)),
        ("running", _) => ("running", None),
        ("dead", reason) => ("dead", reason.clone()),
        (_, Some(reason)) if reason == "stopped" => ("stopped", None),
        (_, Some(reason)) if reason == "interrupted" => ("interrupted", None),
        (_, reason) => match replied().or(error).or_else(|| reason.clone()) {
            Some(reason) => ("failed", Some(reason)),
            None => ("done", None),
        },
    }
}

/// Returns what a suspended turn waits for.
fn waits_for(suspended: &Suspended) -> String {
    format!(
        "{} since {}, next try {} ({})",
        suspended.waits_for,
        clock::rfc3339(suspended.since),
        clock::rfc3339(suspended.wake_at),
        suspended.detail
    )
}

/// Returns what was said, on one line.
fn said(known: &Known) -> String {
    let heard = known.messages().filter(|spoken| spoken.inbox_id.is_some());
    let heard: Vec<String> = heard.map(|spoken| spoken.message().plain_text()).collect();
    let said = text::one_line(&heard.join(" "));
    if !said.is_empty() {
        return said;
    }
    let inputs = known.trace.inputs.iter();
    let texts: Vec<&str> = inputs.map(|input| input.envelope.text.as_str()).collect();
    let said = text::one_line(&texts.join(" "));
    let command = known
        .input()
        .and_then(|input| input.envelope.command.as_ref());
    match command.map(serde_json::to_value) {
        Some(Ok(command)) if said.is_empty() => {
            format!("/{}", command["name"].as_str().unwrap_or("command"))
        }
        _ => said,
    }
}

fn reply(known: &Known) -> Option<String> {
    let last = known.messages().rfind(|spoken| is_final(spoken));
    let reply = match last {
        Some(last) => last.message().plain_text(),
        None => known.input()?.result.as_ref()?.reply.clone()?,
    };
    Some(text::one_line(&reply)).filter(|reply| !reply.is_empty())
}

fn receipts(events: &[Event]) -> Vec<String> {
    let receipt = |event: &Event| match &event.kind {
        Kind::ToolResult { receipt, .. } => receipt.clone(),
        _ => None,
    };
    events.iter().filter_map(receipt).collect()
}

/// Returns what stood in the first request: what the turn began with, less what was taken out of it until the model answered.
pub(super) fn sent(events: &[Event]) -> Vec<PromptBlock> {
    let mut prompts = events.iter().enumerate().rev();
    let found = prompts.find_map(|(at, event)| match &event.kind {
        Kind::Prompt(prompt) => Some((at, prompt)),
        _ => None,
    });
    let Some((at, prompt)) = found else {
        return Vec::new();
    };
    let mut blocks = prompt.blocks.clone();
    let (before, after) = events.split_at(at);
    let until_answered = after
        .iter()
        .take_while(|event| !matches!(event.kind, Kind::Message(_)));
    let compactions = until_answered.filter_map(|event| match &event.kind {
        Kind::Compaction(compaction) => Some(compaction),
        _ => None,
    });
    let Some(last) = compactions.last() else {
        return blocks;
    };
    let heard = before.iter().rev().find_map(|event| match &event.kind {
        Kind::Message(spoken) if spoken.role == Role::User => Some(spoken.message()),
        _ => None,
    });
    if let (Some(whole), Some(longest)) = (heard, last.longest_block) {
        let mut message = whole.clone();
        cut_blocks(&mut message, longest);
        for (block, whole) in message.content.iter().zip(&whole.content) {
            let lost = whole.tokens().saturating_sub(block.tokens());
            let parts = blocks.iter_mut();
            let longest = parts
                .filter(|part| part.tier == PromptTier::Message)
                .max_by_key(|part| part.tokens);
            if let Some(part) = longest.filter(|_| lost > 0) {
                (part.tokens, part.cut) = (part.tokens.saturating_sub(lost), true);
            }
        }
    }
    let all: u64 = blocks.iter().map(|block| block.tokens).sum();
    let conversation = |block: &&mut PromptBlock| block.tier == PromptTier::Conversation;
    if let Some(block) = blocks.iter_mut().find(conversation) {
        let left = last.tokens.1.saturating_sub(all - block.tokens);
        block.cut |= left < block.tokens;
        block.tokens = block.tokens.min(left);
    }
    blocks
}

/// Returns the blocks. The vendor says how much it read from its cache; as that is the beginning of the request, the
/// blocks that fit into it are taken for cached. Our tokens are made the vendor's by their sums.
pub(super) fn blocks(traced: &[PromptBlock], first: Option<Usage>) -> Vec<Block> {
    let estimated: u64 = traced.iter().map(|block| block.tokens).sum();
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
    traced.iter().map(block).collect()
}

fn ratio(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| (part as f64 / all as f64 * 1000.0).round() / 1000.0)
}

fn waits(known: &Known, own: &[&Call]) -> Waits {
    let (trace, input, prompt) = (&known.trace, known.input(), known.prompt());
    let started = prompt.and_then(|prompt| clock::parse_rfc3339(&prompt.started_at));
    let gathered = prompt
        .and_then(|prompt| clock::parse_rfc3339(&prompt.gathered_at))
        .or_else(|| Some(trace.inputs.last()?.envelope.received_at));
    let is_prompt = |event: &&Event| matches!(event.kind, Kind::Prompt(_));
    let prepared = known.events().iter().rfind(is_prompt);
    let is_open = input.is_some_and(|input| input.finished_at.is_none());
    // What has not begun waits until now.
    let until = started.or_else(|| (is_open && known.events().is_empty()).then_some(known.now));
    let between = |from: Option<i64>, until: Option<i64>| Some((until? - from?).max(0));
    let asked = trace.approvals.iter();
    let asked = asked.map(|asked| (asked.created_at, decided_at(asked, known.now)));
    let waited_for = |child: &&Traced| child.envelope.task.as_ref().is_some_and(|task| task.waits);
    let sent = trace.children.iter().filter(waited_for).map(|child| {
        let end = child.finished_at.unwrap_or(known.now);
        (child.envelope.received_at, end)
    });
    let waited_since = input.and_then(|input| input.waited_since);
    let pauses = || {
        let until = input
            .and_then(|input| input.finished_at)
            .unwrap_or(known.now);
        together(steps::pauses(own, waited_since, until))
    };
    Waits {
        gather_ms: between(received_at(known), gathered),
        queue_ms: between(gathered, until),
        prepare_ms: between(
            started,
            prepared.and_then(|event| clock::parse_rfc3339(&event.ts)),
        ),
        approvals_ms: input.map(|_| together(asked.collect())),
        subagents_ms: input.map(|_| together(sent.collect())),
        retries_ms: (!own.is_empty() || waited_since.is_some()).then(pauses),
    }
}

/// Returns how long all of these spans are that overlap or not.
pub(super) fn together(mut spans: Vec<(i64, i64)>) -> i64 {
    spans.sort_unstable();
    let (mut sum, mut until) = (0, i64::MIN);
    for (from, to) in spans {
        sum += (to - from.max(until)).max(0);
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
    let state = if is_over { "expired" } else { &asked.state };
    Approval {
        id: asked.id.clone(),
        tool: asked.tool.clone(),
        text: asked.question.clone(),
        why: asked.why.clone(),
        state: state.to_owned(),
        answer: asked.answer.clone(),
        asked_at: clock::rfc3339(asked.created_at),
        decided_at: asked.decided_at.map(clock::rfc3339),
        waited_ms: (decided_at(asked, now) - asked.created_at).max(0),
    }
}

fn delivery(part: &queue::Delivery, finished: Option<i64>) -> Delivery {
    let took = part.sent_at.zip(finished).filter(|_| !part.asks);
    Delivery {
        attempt: part.attempts,
        at: clock::rfc3339(part.sent_at.or(part.sending_at).unwrap_or(part.created_at)),
        state: part.state.clone(),
        message_id: part.message_id.clone(),
        channel: part.channel.clone(),
        chat: part.chat.clone(),
        part: part.part.0,
        parts: part.part.1,
        took_ms: took.map(|(sent, finished)| (sent - finished).max(0)),
        asks: part.asks,
        reason: part.reason.clone(),
    }
}

/// Returns the job whose time an input is.
fn job(input: &str, envelope: Option<&Envelope>) -> Option<Job> {
    let (id, at) = jobs::Job::of_key(input)?;
    Some(Job {
        id: id.to_owned(),
        at: at.map(clock::rfc3339),
        name: envelope.and_then(|envelope| envelope.about.as_ref()?.source.clone()),
    })
}

fn child(known: &Known, child: &Traced) -> Child {
    let reply = child.result.as_ref();
    let cost = reply.and_then(|reply| reply.session_id.as_ref()).map(|id| {
        let its = known.calls.iter().filter(|call| call.session_id == *id);
        cost::usd(its.filter_map(|call| call.cost_nano_usd).sum())
    });
    let envelope = &child.envelope;
    let label = envelope.task.as_ref().map(|task| task.label.clone());
    Child {
        message: envelope.id.clone(),
        run_id: child.run_id.clone(),
        label: label.unwrap_or_default(),
        state: ended(Some(child), &[]).0,
        sent_at: clock::rfc3339(envelope.received_at),
        duration_ms: (child.finished_at.unwrap_or(known.now) - envelope.received_at).max(0),
        cost_usd: cost,
    }
}

/// Names what is not known any more.
fn gone(known: &Known, has_message: bool) -> Vec<String> {
    let input = known.input();
    let is_over = input.is_none_or(|input| input.finished_at.is_some());
    let is_turn = input.is_none_or(|input| input.attempts > 0 && input.envelope.command.is_none());
    let is_begun = known.messages().any(|spoken| spoken.inbox_id.is_some());
    let is_forgotten = |event: &Event| matches!(event.kind, Kind::Forgotten { .. });
    let days = KEEP.as_secs() / 86_400;
    let parts = [
        (
            input.is_none(),
            format!(
                "its row in the queue, which is kept {days} days after its end: attempts, approvals, sub-agents and deliveries"
            ),
        ),
        (
            known.found.is_none() && is_over && is_turn,
            "its conversation: there is no line of it in any transcript".to_owned(),
        ),
        (
            known.found.is_some() && known.prompt().is_none() && is_begun,
            "what its prompt was made of: an older release did not trace it".to_owned(),
        ),
        (
            known.events().iter().any(is_forgotten),
            "words that were erased: agent-consolidate forget --hard".to_owned(),
        ),
        (
            known.calls.is_empty() && known.messages().any(|spoken| spoken.usage.is_some()),
            "its calls in cost.db: how long each took, and which failed".to_owned(),
        ),
        (!has_message, "which message it answers".to_owned()),
    ];
    let gone = parts.into_iter().filter(|(is_gone, _)| *is_gone);
    gone.map(|(_, what)| what).collect()
}
