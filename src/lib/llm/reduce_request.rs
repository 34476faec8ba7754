//! The reduced request: leaves out parts of a conversation that do not fit a model, or that its server refused (quarantine).

use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::config::Model;
use crate::message::{Block, Message, Role, ToolResult};
use crate::provider::without_tools;

/// As many refused blocks are remembered; then it starts over.
const REMEMBERED: usize = 1000;

/// Blocks that servers refused, by provider, and what models do not take at all; clones share it. In memory only: after a
/// restart a server may think otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused(Arc<Mutex<HashSet<u64>>>);

impl Refused {
    fn contains(&self, model: &Model, block: &Block) -> bool {
        let known = self.0.lock();
        // A mark is made of all that is in the block.
        !known.is_empty() && known.contains(&mark(model, block))
    }

    fn insert(&self, mark: u64) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(mark);
    }

    /// Returns true when the server of `model` refused a request because it had `part`.
    pub(crate) fn has(&self, part: Optional, model: &Model) -> bool {
        self.0.lock().contains(&part_mark(model, part))
    }
}

/// A part of a request that says how to answer; not every model takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Optional {
    /// The schema of the answer.
    Schema,
    /// The switch for thinking.
    Thinking,
}

fn mark(model: &Model, block: &Block) -> u64 {
    let mut hasher = DefaultHasher::new();
    model.provider.name.hash(&mut hasher);
    serde_json::to_string(block)
        .unwrap_or_default()
        .hash(&mut hasher);
    hasher.finish()
}

fn part_mark(model: &Model, part: Optional) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&model.provider.name, &model.model, part).hash(&mut hasher);
    hasher.finish()
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All that the model can take.
    All,
    /// All but the schema of the answer: the request was refused.
    WithoutSchema,
    /// Nor the switch for thinking: it was refused again.
    WithoutThinking,
    /// Neither pictures nor what it kept of its thinking, and nothing else that is optional: the request was
    /// refused.
    Bare,
    /// Nor the newest result, file or picture, which is quarantined: it was refused again.
    WithoutNewest,
}

impl Shown {
    /// Returns what it leaves out, for the log.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::All => "nothing is left out",
            Self::WithoutSchema => "without the schema of the answer",
            Self::WithoutThinking => "without asking the model to think",
            Self::Bare => "without pictures and what the model kept of its thinking",
            Self::WithoutNewest => "without the newest result, file or picture",
        }
    }

    /// Returns true when the conversation is as it is.
    pub(crate) fn is_whole(self) -> bool {
        matches!(
            self,
            Self::All | Self::WithoutSchema | Self::WithoutThinking
        )
    }

    /// Returns true when `model` is asked to think.
    pub(crate) fn asks_to_think(self, model: &Model, refused: &Refused) -> bool {
        model.thinking
            && matches!(self, Self::All | Self::WithoutSchema)
            && !refused.has(Optional::Thinking, model)
    }

    /// Returns what to try after a refusal; `None` when there is nothing to leave out.
    pub(crate) fn after_refusal(
        self,
        model: &Model,
        messages: &[Message],
        has_schema: bool,
        refused: &Refused,
    ) -> Option<Self> {
        let newest = newest(messages).is_some();
        let thinking = || blocks(messages).filter(|block| matches!(block, Block::Thinking(_)));
        match self {
            Self::All if has_schema => Some(Self::WithoutSchema),
            // What it kept of its thinking may be what is refused: that goes first, and the switch the next time.
            Self::All | Self::WithoutSchema
                if self.asks_to_think(model, refused)
                    && thinking().all(|block| refused.contains(model, block)) =>
            {
                Some(Self::WithoutThinking)
            }
            Self::All | Self::WithoutSchema | Self::WithoutThinking => {
                let thinks = thinking().next().is_some();
                (newest || thinks || (model.vision && has_pictures(messages))).then_some(Self::Bare)
            }
            Self::Bare => newest.then_some(Self::WithoutNewest),
            Self::WithoutNewest => None,
        }
    }

    /// Returns the conversation as `model` is shown it: nearly always as it is.
    pub(crate) fn of(
        self,
        messages: &Arc<[Message]>,
        model: &Model,
        refused: &Refused,
    ) -> Arc<[Message]> {
        let newest = newest(messages).filter(|_| self == Self::WithoutNewest);
        let is_kept = |block| {
            let shown = self.block(block, newest, model, refused);
            matches!(shown, Some(Cow::Borrowed(_)))
        };
        let messages = if blocks(messages).all(is_kept) {
            messages.clone()
        } else {
            let reduced = |message: &Message| {
                let blocks = message.content.iter();
                let shown = blocks.filter_map(|block| self.block(block, newest, model, refused));
                Message::new(message.role, shown.map(Cow::into_owned).collect())
            };
            messages.iter().map(reduced).collect()
        };
        if model.tools {
            messages
        } else {
            without_tools(&messages).into()
        }
    }

    /// Returns a block as `model` is shown it; `None` when it is left out without a word. `newest` is left out as well.
    fn block<'a>(
        self,
        block: &'a Block,
        newest: Option<&Block>,
        model: &Model,
        refused: &Refused,
    ) -> Option<Cow<'a, Block>> {
        let is_refused = || newest == Some(block) || refused.contains(model, block);
        let left_out = || {
            format!(
                "⟦left out: the server of the model {} refuses a request with it⟧",
                model.name
            )
        };
        let instead = match block {
            Block::ToolResult(result) if is_refused() => Block::ToolResult(ToolResult {
                id: result.id.clone(),
                text: left_out(),
                is_error: true,
                from: None,
                pictures: Vec::new(),
            }),
            Block::Context { .. } if is_from_outside(block) && is_refused() => {
                Block::Context { text: left_out() }
            }
            Block::Image { .. } if !model.vision => Block::Context {
                text: format!(
                    "⟦a picture; the model {} does not see pictures (vision = true in providers.d)⟧",
                    model.name
                ),
            },
            Block::Image { .. } if !self.is_whole() || is_refused() => Block::Context {
                text: format!(
                    "⟦a picture that the server of the model {} refused⟧",
                    model.name
                ),
            },
            Block::Thinking(_) if !self.is_whole() || refused.contains(model, block) => {
                return None;
            }
            Block::Text { .. }
            | Block::Context { .. }
            | Block::Image { .. }
            | Block::Thinking(_)
            | Block::ToolCall(_)
            | Block::ToolResult(_) => return Some(Cow::Borrowed(block)),
        };
        Some(Cow::Owned(instead))
    }

    /// Remembers what had to be left out, because without it the request was taken.
    pub(crate) fn learn(self, messages: &[Message], model: &Model, refused: &Refused) {
        let kept = |block: &&Block| {
            matches!(
                block,
                Block::Thinking(_) | Block::Image { data: Some(_), .. }
            )
        };
        let left_out: Vec<&Block> = match self {
            Self::All => return,
            Self::WithoutSchema => return refused.insert(part_mark(model, Optional::Schema)),
            Self::WithoutThinking => return refused.insert(part_mark(model, Optional::Thinking)),
            // Which of them it was nobody says; without them all, the next request need not be refused first.
            Self::Bare => blocks(messages).filter(kept).collect(),
            Self::WithoutNewest => newest(messages).into_iter().collect(),
        };
        tracing::warn!(model = %model.name, "content that the server refuses is left out of this conversation from now on");
        left_out
            .into_iter()
            .for_each(|block| refused.insert(mark(model, block)));
    }
}

/// Returns the newest block that came from outside, if it is in what the model is to answer now.
fn newest(messages: &[Message]) -> Option<&Block> {
    let asked = messages
        .iter()
        .rev()
        .take_while(|message| message.role == Role::User);
    asked
        .flat_map(|message| message.content.iter().rev())
        .find(|block| is_from_outside(block))
}

/// Returns true for results, pictures and the words of files: what a server may choke on although
/// nobody typed it.
fn is_from_outside(block: &Block) -> bool {
    match block {
        Block::ToolResult(_) | Block::Image { .. } => true,
        // As the words of a file are framed; what people said in a group stays.
        Block::Context { text } => {
            text.starts_with('⟦')
                && text.contains("\n⟦end of ")
                && !text.ends_with("⟦end of what was heard⟧")
        }
        Block::Text { .. } | Block::Thinking(_) | Block::ToolCall(_) => false,
    }
}

fn blocks(messages: &[Message]) -> impl Iterator<Item = &Block> {
    messages.iter().flat_map(|message| &message.content)
}

fn has_pictures(messages: &[Message]) -> bool {
    messages
        .iter()
        .any(|message| message.pictures().next().is_some())
}
