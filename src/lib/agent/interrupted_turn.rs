//! Reads from a transcript where an interrupted turn ended.

use super::tool::ToolOutput;
use crate::message::{Block, Role, ToolCall, ToolResult};
use crate::session::{Kind, Resume, Session, Spoken};
use crate::sys;

/// What the model receives for a call that began and has no result.
pub(super) const INTERRUPTED: &str = "the agent was restarted while this ran: it may or may not have happened; check before you repeat it";

/// Ends the turn of `inbox_id` in the transcript, permanently: a turn without an answer would be taken
/// for a part of the next question. A turn that did nothing yet is dropped, unless `keep`. Nothing happens when it
/// has not begun or is ended already.
///
/// # Errors
/// When the transcript cannot be written.
pub async fn break_off(
    session: &mut Session,
    run_id: &str,
    inbox_id: &str,
    reason: String,
    keep: bool,
) -> Result<(), sys::Error> {
    let state = session.state();
    let open = match state.resume(inbox_id) {
        Resume::Fresh | Resume::Answered | Resume::Failed(_) => return Ok(()),
        Resume::Model => Vec::new(),
        Resume::Tools(open) => open,
    };
    let Some(turn) = &state.turn else {
        return Ok(());
    };
    let forget_from = (turn.started.is_empty() && !keep).then_some(turn.user_seq);
    let mut events = Vec::new();
    if forget_from.is_none() {
        let why = |began| {
            if began {
                INTERRUPTED
            } else {
                "this was not run: the turn was broken off"
            }
        };
        events.extend(
            open.iter()
                .map(|(call, began)| result(run_id, call, 0, ToolOutput::error(why(*began)))),
        );
        let text = format!("(I broke off here: {reason})");
        events.push(message(run_id, Role::Assistant, Block::text(text)));
    }
    events.push(Kind::Error {
        run_id: run_id.to_owned(),
        text: reason,
        forget_from,
    });
    session.append(events, true).await.map(drop)
}

pub(super) fn message(run_id: &str, role: Role, block: Block) -> Kind {
    Kind::Message(Spoken::new(role, vec![block], run_id))
}

pub(super) fn result(run_id: &str, call: &ToolCall, duration_ms: u64, output: ToolOutput) -> Kind {
    Kind::ToolResult {
        run_id: run_id.to_owned(),
        name: call.name.clone(),
        duration_ms,
        receipt: output.receipt,
        result: ToolResult {
            id: call.id.clone(),
            text: output.text,
            is_error: output.is_error,
            from: output.from,
            pictures: output.pictures,
        },
    }
}
