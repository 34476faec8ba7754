//! The gate before every call: whether it runs, needs the owner's yes, or never runs.
//!
//! | what a call reaches | clean turn | words of others in the request |
//! |---|---|---|
//! | nothing ([`Reach::Free`]) | runs | runs |
//! | what is the owner's ([`Reach::Shows`]) | runs | asks, where others read the answer |
//! | the world ([`Reach::Acts`]) | runs | asks |
//! | a place on the net ([`Reach::Carries`]) | runs | asks, unless the words stand in what was read |
//! | what shapes the agent ([`Reach::Asks`]) | asks | asks |
//!
//! In a turn that somebody else began, every tool asks that is not anybody's ([`Rights`]).
//!
//! The settings may say `ask` (always), `allow` (never, but for what shapes the agent) or `off`.

use serde_json::{Value, json};

use super::tool::{Context, Rights, Tool};
use crate::config::Policy;
use crate::provider::BoxFuture;

/// What a call would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Nothing that anybody would mind.
    Free,
    /// It shows what is the owner's.
    Shows,
    /// It changes something, or is heard by somebody.
    Acts,
    /// It carries these words, an address, to a place on the net.
    Carries(String),
    /// It changes what is not the agent's to change: the owner is asked in any case. Carries why.
    Asks(String),
    /// It is never done. Carries why, for the model.
    Refused(String),
}

/// What the owner is asked about a call, and what their answer is bound to.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What would be done, as it is shown to the owner: escaped where it is shown, not here.
    pub text: String,
    /// Everything that must still be so when it is done: arguments, directory, environment.
    pub bound_to: Value,
    /// Whether the very same call may be allowed for the rest of the conversation: one program with its
    /// arguments, never a shell or an interpreter.
    pub repeatable: bool,
}

impl Question {
    /// Returns the question of a tool that has nothing to say but its arguments.
    pub fn of(tool: &str, input: &Value) -> Self {
        // A line of a value is not to look like another field.
        let lines = input
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| match value {
                Value::String(text) => format!(
                    "\n{name}: {}",
                    text.lines().collect::<Vec<&str>>().join("\n    ")
                ),
                value => format!("\n{name}: {value}"),
            });
        Self {
            text: format!("{tool}{}", lines.collect::<String>()),
            bound_to: json!([tool, input]),
            repeatable: false,
        }
    }
}

/// A call that waits for the owner's word.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
    /// What is asked.
    pub question: Question,
    /// Why it is asked.
    pub why: String,
}

/// The owner's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may be done, once, now.
    Yes,
    /// It is not done. Carries what the model is told.
    No(String),
}

/// Puts questions to the owner.
pub trait Owner: Send + Sync {
    /// Asks about the calls of one step and waits; returns one verdict each, in order. A yes is used up
    /// when it is returned.
    fn ask<'a>(&'a self, questions: &'a [Asked]) -> BoxFuture<'a, Vec<Verdict>>;
}

/// The circumstances of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Circumstances {
    /// Whether the owner began the turn.
    pub(super) from_owner: bool,
    /// Whether words of others are in the request.
    pub(super) tainted: bool,
    /// Whether others read the answer.
    pub(super) others_read: bool,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// It runs.
    Run,
    /// The owner is asked first. Carries why.
    Ask(String),
    /// It does not run. Carries why.
    Refuse(String),
}

/// Decides about a call whose arguments fit; `policy` is what the settings say of the tool, `was_read`
/// tells whether words stand in what the agent was given to read.
pub(super) fn decide(
    tool: &dyn Tool,
    (input, context): (&Value, &Context),
    policy: Policy,
    circumstances: Circumstances,
    was_read: &dyn Fn(&str) -> bool,
) -> Decision {
    let Circumstances {
        from_owner,
        tainted,
        others_read,
    } = circumstances;
    let is_theirs = !from_owner && tool.rights() == Rights::Owner;
    let of_others = || {
        Decision::Ask(
            "words of others are in this conversation, and they may have asked for it".to_owned(),
        )
    };
    match (
        tool.policy(input).unwrap_or(policy),
        tool.reach(input, context),
    ) {
        (_, Reach::Refused(why)) => Decision::Refuse(why),
        (Policy::Off, _) => Decision::Refuse("the owner's settings do not allow this".to_owned()),
        (_, Reach::Asks(why)) => Decision::Ask(why),
        (Policy::Ask, _) => Decision::Ask("the owner's settings ask about it each time".to_owned()),
        (Policy::Sandboxed | Policy::Allow, _) if is_theirs => {
            Decision::Ask("it is somebody else who wants it".to_owned())
        }
        (Policy::Sandboxed, Reach::Acts) if tainted => of_others(),
        (Policy::Sandboxed, Reach::Carries(words)) if tainted && !was_read(&words) => of_others(),
        (Policy::Sandboxed, Reach::Shows) if tainted && others_read => of_others(),
        (Policy::Sandboxed | Policy::Allow, _) => Decision::Run,
    }
}
