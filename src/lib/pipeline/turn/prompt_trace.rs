//! The record of a turn's prompt for `--explain`: in the lines of the message; nothing of it is sent to the model.

use super::run::TurnContext;
use crate::clock;
use crate::message::Block;
use crate::pipeline::schedule::debounce::TurnInputs;
use crate::provider::Tier;
use crate::session::{Entry, Kind, Prompt, PromptBlock, PromptTier, Recollection, Session};
use crate::trust::Provenance;

/// The parts of a message with their tokens, in order; those of one name are one.
#[derive(Default)]
pub(crate) struct Parts(Vec<PromptBlock>);

impl Parts {
    /// Adds blocks to the part `name`.
    pub(crate) fn add(&mut self, name: &str, blocks: &[(Block, Provenance)]) {
        if blocks.is_empty() {
            return;
        }
        let tokens = blocks.iter().map(|(block, _)| block.tokens()).sum();
        match self.0.iter_mut().find(|part| part.name == name) {
            Some(part) => part.tokens += tokens,
            None => self.0.push(PromptBlock {
                name: name.to_owned(),
                tier: PromptTier::Message,
                tokens,
                cut: false,
            }),
        }
    }

    pub(crate) fn blocks(self) -> Vec<PromptBlock> {
        self.0
    }
}

/// Returns what the turn of `inputs` begins with; `message` is what it adds to `session`, which does not have it
/// yet.
pub(crate) fn of(
    context: &TurnContext<'_>,
    session: &Session,
    inputs: &TurnInputs,
    began_at: i64,
    message: Vec<PromptBlock>,
    memories: Vec<Recollection>,
) -> Kind {
    let envelope = inputs.leader();
    let task = envelope.task.as_deref();
    let tools = context
        .live
        .agent
        .tool_tokens(&context.model, task.map(|task| &task.bounds));
    let block = |name: &str, tier, tokens| PromptBlock {
        name: name.to_owned(),
        tier,
        tokens,
        cut: false,
    };
    let mut blocks = vec![block("tools", PromptTier::Tools, tools)];
    blocks.extend(context.sections.iter().map(|section| PromptBlock {
        name: section.name.clone(),
        tier: match section.tier {
            Tier::Stable => PromptTier::Stable,
            Tier::SemiStable => PromptTier::SemiStable,
        },
        tokens: section.tokens,
        cut: section.cut,
    }));
    blocks.push(block(
        "conversation",
        PromptTier::Conversation,
        session.state().entries.iter().map(Entry::tokens).sum(),
    ));
    blocks.retain(|block| block.tokens > 0);
    blocks.extend(message);
    let (first, last) = inputs.received();
    Kind::Prompt(Prompt {
        run_id: context.run_id.to_owned(),
        inputs: inputs.ids(),
        source: envelope.source.as_str().to_owned(),
        parent: task.map(|task| task.run_id.clone()),
        model: context.model.clone(),
        received_at: clock::rfc3339(first),
        gathered_at: clock::rfc3339(last),
        started_at: clock::rfc3339(began_at),
        blocks,
        memories,
    })
}
