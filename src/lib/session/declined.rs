//! Leaves out of a conversation what a vendor declined to answer.

use super::state::{Entry, State};
use crate::message::{Block, Message, Role};

/// Stands for the words and results of such a turn.
const LEFT_OUT: &str = "⟦left out: the model's vendor declined to answer this⟧";

impl State {
    /// Leaves out the words and results of the turn that the event `answer` ends, as no model is shown them again: Anthropic's
    /// filter refuses everything that follows on what it refused once (its guide "Streaming refusals", read 2026-11). The
    /// calls stay, and so does the answer, which is ours. What the vendor counted is less by what goes.
    pub(super) fn leave_out_turn(&mut self, answer: u64) {
        let Some(turn) = &self.turn else { return };
        for entry in &mut self.entries {
            if (turn.user_seq..answer).contains(&entry.seq) {
                let before = entry.tokens();
                leave_out(entry);
                if entry.seq <= self.counted_seq {
                    let gone = before.saturating_sub(entry.tokens());
                    self.context_tokens = self.context_tokens.saturating_sub(gone);
                }
            }
        }
    }
}

fn leave_out(entry: &mut Entry) {
    let Message { role, content } = &mut entry.message;
    let mut is_first = *role == Role::User;
    content.retain_mut(|block| match block {
        Block::ToolCall(_) => true,
        Block::ToolResult(result) => {
            LEFT_OUT.clone_into(&mut result.text);
            (result.from, result.pictures) = (None, Vec::new());
            true
        }
        Block::Text { .. } | Block::Context { .. } | Block::Image { .. } | Block::Thinking(_) => {
            *block = Block::context(LEFT_OUT);
            std::mem::take(&mut is_first)
        }
    });
    entry.provenance.clear();
}
