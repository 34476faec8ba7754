//! `pin`: instructions and limits that survive every compaction of the conversation.

use schemars::JsonSchema;
use serde::Deserialize;

use super::typed::{About, Property, TypedTool};
use crate::agent::{Context, Effect, ToolOutput};

/// Pinned rules of one conversation: all of them are in every request after a compaction.
const MOST: usize = 20;
/// Characters of one.
const LONGEST: usize = 500;

pub(super) struct Pin;

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    text: String,
    /// it holds no longer
    #[serde(default)]
    remove: bool,
}

impl TypedTool for Pin {
    type Args = Args;

    const ABOUT: About = About {
        name: "pin",
        description: "Keep a rule the person set for this conversation, word for word, however long it gets.",
        properties: &[Property::Rare],
    };

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        pin(args.text.trim().to_owned(), args.remove, &context.pins)
    }
}

fn pin(words: String, remove: bool, pins: &[String]) -> ToolOutput {
    let listed = || {
        pins.iter()
            .map(|pin| format!("\n- {pin}"))
            .collect::<String>()
    };
    if remove {
        return match pins.contains(&words) {
            true => ToolOutput {
                effect: Some(Effect::Unpin(words)),
                ..ToolOutput::ok("no longer pinned")
            },
            false => ToolOutput::error(format!(
                "this is not pinned; give one of these, word for word:{}",
                listed()
            )),
        };
    }
    if words.is_empty() || words.chars().count() > LONGEST {
        return ToolOutput::error(format!("text must have 1 to {LONGEST} characters"));
    }
    if pins.len() >= MOST {
        return ToolOutput::error(format!(
            "{MOST} rules are pinned already; remove one first:{}",
            listed()
        ));
    }
    ToolOutput {
        effect: Some(Effect::Pin(words)),
        ..ToolOutput::ok("pinned")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_pinned_and_let_go_by_their_words() {
        let pins = vec!["ask first".to_owned()];
        assert_eq!(
            pin("never mail".into(), false, &pins).effect,
            Some(Effect::Pin("never mail".into()))
        );
        assert_eq!(
            pin("ask first".into(), true, &pins).effect,
            Some(Effect::Unpin("ask first".into()))
        );
        let unknown = pin("ask".into(), true, &pins);
        assert_eq!(
            (unknown.effect, unknown.text.ends_with("\n- ask first")),
            (None, true)
        );
        assert!(pin(String::new(), false, &pins).is_error);
        assert!(pin("x".repeat(501), false, &pins).is_error);
        assert!(pin("one more".into(), false, &vec!["x".to_owned(); MOST]).is_error);
    }
}
