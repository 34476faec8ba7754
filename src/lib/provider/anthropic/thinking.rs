//! Whether and how extended thinking is requested.
//!
//! Written after <https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking> and
//! …/extended-thinking, read 2026-11.

use serde_json::{Value, json};

use super::Request;
use super::wire::Turn;
use crate::message::{Block, Role};

/// The least a budget may be, tokens.
const LEAST_BUDGET: u32 = 1024;
/// Above this the vendor advises against waiting for an answer.
const MOST_BUDGET: u32 = 32_000;

/// How a model thinks in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It decides itself, when it was asked to: Claude 4.6 and later. Some of these think without being
    /// asked and want it back nevertheless.
    Adaptive {
        /// Whether it is asked to.
        asked: bool,
    },
    /// By a budget of tokens: earlier ones, and servers of others that speak the protocol.
    Budget,
    /// By a budget, and not now.
    Off,
}

impl Mode {
    /// Returns the mode for `request`, whose conversation is `turns`.
    ///
    /// A model with a budget refuses a conversation whose running tool loop does not begin with its own
    /// thinking ("Expected `thinking` … but found `tool_use`"): one that another model began, or that
    /// began before the key was set. It does without until the loop is over.
    pub(super) fn of(request: &Request, turns: &[Turn<'_>]) -> Self {
        if is_adaptive(&request.model) {
            Self::Adaptive {
                asked: request.thinking,
            }
        } else if request.thinking && request.max_tokens > LEAST_BUDGET && loop_has_thinking(turns)
        {
            Self::Budget
        } else {
            Self::Off
        }
    }

    /// Returns whether thinking that came earlier goes back.
    pub(super) fn takes_blocks(self) -> bool {
        self != Self::Off
    }

    /// Returns the field `thinking`, if there is to be one; a budget leaves as much for the answer.
    pub(super) fn value(self, max_tokens: u32) -> Option<Value> {
        match self {
            Self::Adaptive { asked: true } => Some(json!({"type": "adaptive"})),
            Self::Budget => {
                let budget = (max_tokens / 2).clamp(LEAST_BUDGET, MOST_BUDGET);
                Some(json!({"type": "enabled", "budget_tokens": budget}))
            }
            Self::Adaptive { asked: false } | Self::Off => None,
        }
    }
}

/// Returns true for Claude 4.6 and later, and for Claudes without a number: 4.7 and later refuse a
/// budget, earlier ones than 4.6 refuse the other.
fn is_adaptive(model: &str) -> bool {
    let model = model.to_lowercase();
    let Some((_, name)) = model.split_once("claude") else {
        return false;
    };
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    // A version's numbers are short, a date is not: claude-opus-4-20250514.
    let number = |at: usize| {
        words
            .get(at)
            .filter(|word| word.len() <= 2)
            .and_then(|word| word.parse::<u32>().ok())
    };
    let Some(at) = (0..words.len()).find(|at| number(*at).is_some()) else {
        return true;
    };
    (number(at).unwrap_or(0), number(at + 1).unwrap_or(0)) >= (4, 6)
}

/// Returns true when no tool loop runs, or when each answer in it that follows a person's words begins
/// with thinking; within a loop a model need not think again.
fn loop_has_thinking(turns: &[Turn<'_>]) -> bool {
    let mut asked = turns.iter().rev();
    let mut results = asked.next();
    while let Some(turn) = results {
        let is_result = |block: &&Block| matches!(block, Block::ToolResult(_));
        if turn.role != Role::User || !turn.blocks.iter().any(is_result) {
            return true;
        }
        let (answer, before) = (asked.next(), asked.next());
        let follows_words = before.is_none_or(|turn| !turn.blocks.iter().all(is_result));
        let thinks =
            answer.is_some_and(|turn| matches!(turn.blocks.first(), Some(Block::Thinking(_))));
        if follows_words && !thinks {
            return false;
        }
        results = before;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_tells_how_it_thinks() {
        for (model, adaptive) in [
            ("claude-opus-4-6", true),
            ("claude-sonnet-4-6-20260217", true),
            ("claude-opus-4-7", true),
            ("anthropic/claude-opus-4.8", true),
            ("anthropic.claude-opus-4-6-v1", true),
            ("claude-opus-5", true),
            ("claude-fable-5-1", true),
            ("claude-mythos-preview", true),
            ("claude-sonnet-4-5", false),
            ("claude-opus-4-5-20251101", false),
            ("claude-haiku-4-5-20251001", false),
            ("claude-opus-4-1-20250805", false),
            ("claude-sonnet-4-20250514", false),
            ("claude-3-7-sonnet-20250219", false),
            ("deepseek-v4-pro", false),
            ("kimi-k2-thinking", false),
        ] {
            assert_eq!(is_adaptive(model), adaptive, "{model}");
        }
    }
}
