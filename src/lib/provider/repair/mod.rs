//! Makes any list of messages one that every vendor takes.
//!
//! A crash, a cut by compaction or a bug upstream can leave a call without its result, a result
//! without its call, an empty message or a wrong end. Vendors answer each of these with status 400,
//! forever, because the history is sent again each time (reference: openclaw#93320, #11963). A list
//! that is already valid comes back unchanged, so that the prompt cache still matches.

use std::collections::{HashSet, VecDeque};

use super::partial_message::drop_last_thinking;
use super::wire::is_blank;
use crate::message::{Block, Message, Role, ToolResult};

/// Stands where a list would otherwise end on the model's words.
const CONTINUE: &str = "(continue)";

/// Stands where a list would otherwise begin with the model's words.
const EARLIER: &str = "(earlier messages are not shown)";

/// The result of a call that has none.
const INTERRUPTED: &str = "Interrupted: no result was recorded. The call may or may not have happened; check before repeating it.";

/// Returns a valid list: it begins and ends with a user message, has no blank text, no thinking that
/// nothing follows and no empty message, all call ids differ, and each call has exactly one result in the user messages that
/// follow directly (neighbours of one role count as one turn and are merged when sent).
///
/// A missing result becomes an error result, results without a call are dropped, and an id that is
/// used again gets a number (`id_2`) in call and result. Pure, idempotent, and the identity on valid
/// lists; a valid beginning stays as it is, whatever follows.
pub fn repair(messages: Vec<Message>) -> Vec<Message> {
    let mut used_ids = HashSet::new();
    let mut open = VecDeque::new();
    let mut repaired = messages;
    repaired.iter_mut().for_each(drop_misfits);
    repaired.retain(|message| !message.content.is_empty());
    for turn in repaired.chunk_by_mut(|a, b| a.role == b.role) {
        if turn
            .first()
            .is_some_and(|message| message.role == Role::User)
        {
            settle(turn, &mut open);
        } else {
            open = number_calls(turn, &mut used_ids);
        }
    }
    repaired.retain(|message| !message.content.is_empty());
    if !open.is_empty() {
        repaired.push(Message::new(Role::User, missing_results(&mut open)));
    }
    if repaired
        .first()
        .is_some_and(|message| message.role == Role::Assistant)
    {
        repaired.insert(0, Message::text(Role::User, EARLIER));
    }
    if repaired
        .last()
        .is_none_or(|message| message.role == Role::Assistant)
    {
        repaired.push(Message::text(Role::User, CONTINUE));
    }
    repaired
}

/// A call that waits for its result.
struct Open {
    /// The id as it was recorded.
    recorded: String,
    /// The id as it is sent.
    sent: String,
}

/// Takes out of the message blank text, thinking at its end and blocks its role cannot have. Whose thinking it is
/// matters only to who is asked, so the vendors' files leave out that of others.
fn drop_misfits(message: &mut Message) {
    let role = message.role;
    message.content.retain(|block| match block {
        Block::Text { .. } | Block::Context { .. } => !is_blank(block),
        Block::Thinking(_) | Block::ToolCall(_) => role == Role::Assistant,
        Block::Image { .. } | Block::ToolResult(_) => role == Role::User,
    });
    drop_last_thinking(&mut message.content);
}

/// Makes the call ids of an assistant turn unique and returns its calls in order.
fn number_calls(turn: &mut [Message], used_ids: &mut HashSet<String>) -> VecDeque<Open> {
    let mut open = VecDeque::new();
    for block in turn.iter_mut().flat_map(|message| &mut message.content) {
        if let Block::ToolCall(call) = block {
            let sent = unused(&call.id, used_ids);
            let recorded = std::mem::replace(&mut call.id, sent.clone());
            open.push_back(Open { recorded, sent });
        }
    }
    open
}

fn unused(id: &str, used_ids: &mut HashSet<String>) -> String {
    let base = if id.is_empty() { "call" } else { id };
    let numbered = (2..).map(|n| format!("{base}_{n}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    let unused = names
        .find(|name| !used_ids.contains(name))
        .expect("the numbers do not run out");
    used_ids.insert(unused.clone());
    unused
}

/// Leaves in a user turn exactly one result for each open call, and closes them.
fn settle(turn: &mut [Message], open: &mut VecDeque<Open>) {
    for message in turn.iter_mut() {
        message.content.retain_mut(|block| {
            let Block::ToolResult(result) = block else {
                return true;
            };
            let Some(at) = open.iter().position(|call| call.recorded == result.id) else {
                return false;
            };
            if let Some(call) = open.remove(at) {
                result.id = call.sent;
            }
            true
        });
    }
    if let Some(first) = turn.first_mut() {
        first.content.splice(0..0, missing_results(open));
    }
}

fn missing_results(open: &mut VecDeque<Open>) -> Vec<Block> {
    let result = |call: Open| {
        Block::ToolResult(ToolResult {
            id: call.sent,
            text: INTERRUPTED.to_owned(),
            is_error: true,
            from: None,
            pictures: Vec::new(),
        })
    };
    open.drain(..).map(result).collect()
}

#[cfg(test)]
mod tests;
