//! The interface of a tool: its description, the effects of a call, and its result.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::ask_owner::AskOwner;
use super::others_time::OthersTime;
use super::permission::{Question, Reach};
use super::subagents::SubagentSpawner;
use crate::clock;
use crate::config::Policy;
use crate::memory::{Scope, Viewer};
use crate::message::{AgentEvent, Route, SessionKey, Step, ToolPicture};
use crate::provider::{BoxFuture, ToolSpec};
use crate::session;
use crate::text;
use crate::trust::Provenance;
use crate::trust::untrusted_files::Marking;

/// The tool that keeps how something was done.
pub(super) const SKILL_PROPOSE: &str = "skill_propose";

/// The most characters of what a call is said to have done.
const RECEIPT: usize = 160;

/// What a running tool may know of its turn.
#[derive(Debug, Clone)]
pub struct Context {
    /// The run.
    pub run_id: String,
    /// The model's id of the call.
    pub call_id: String,
    /// Starts sub-agents; `None` where there are none.
    pub spawner: Option<Arc<dyn SubagentSpawner>>,
    /// The session.
    pub session_id: String,
    /// What it took so far.
    pub session: session::IndexEntry,
    /// The conversation, which continues when its session ends.
    pub conversation: SessionKey,
    /// Who speaks, by their id.
    pub person: String,
    /// Whether somebody else than the owner has it made.
    pub of_others: bool,
    /// Whose memories it may use.
    pub viewer: Viewer,
    /// The chat that is talked in, if it is one.
    pub route: Option<Route>,
    /// The channel's id of the message that is answered.
    pub message_id: Option<String>,
    /// What is pinned in the conversation.
    pub pins: Vec<String>,
    /// What the owner's yes to this very call is bound to; `None` where nobody said it, as under a rule of theirs.
    pub approved: Option<Value>,
    /// Whether the model had read untrusted text when it made the call.
    pub untrusted: bool,
    /// The words that it then tells a sub-agent and that a search may not say unasked.
    pub private_words: Vec<String>,
    /// Whom it may ask while it runs.
    pub ask_owner: AskOwner,
    /// The time that is not the run's.
    pub others_time: OthersTime,
    /// Ends when the run is stopped.
    pub cancel: CancellationToken,
    /// The watchers of a tool's output while it runs.
    pub progress: Progress,
}

impl Context {
    /// Returns true in the turn of somebody who is not an owner: they see what was said in their conversation.
    pub fn is_guest(&self) -> bool {
        let chat = Scope::Chat(self.conversation.0.clone());
        self.viewer.may_see(&chat) && !self.viewer.may_see(&Scope::Owner)
    }

    /// Returns how files are marked that the call writes.
    pub fn marking(&self) -> Marking<'_> {
        Marking {
            run: &self.run_id,
            asked: self.approved.is_some() || !self.untrusted,
            at: clock::now_ms(),
        }
    }
}

/// Those who watch a run and may know what its tools say; nobody where others than the owner watch.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(Step) + Send + Sync>>);

impl Progress {
    /// Tells those who watch the runs.
    pub(super) fn of_run(
        events: &broadcast::Sender<AgentEvent>,
        run_id: &str,
        session: &SessionKey,
    ) -> Self {
        let (events, run_id, session) = (events.clone(), run_id.to_owned(), session.clone());
        // Nobody watching is fine.
        Self::new(move |step| {
            drop(events.send(AgentEvent {
                run_id: run_id.clone(),
                session: session.clone(),
                step,
            }))
        })
    }

    pub(super) fn new(tell: impl Fn(Step) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    /// Tells them the last words of a tool: short, on one line, without secrets.
    pub fn tell(&self, tool: &str, tail: String) {
        if let Self(Some(tell)) = self {
            tell(Step::ToolOutput {
                name: tool.to_owned(),
                tail,
            });
        }
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() {
            "Progress(told)"
        } else {
            "Progress(nobody)"
        })
    }
}

/// What a tool answers. Tools never fail otherwise: an error is a text that the model reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// The text for the model.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// What it did in the world, in a few words: `wrote notes.md`. What the model says of its deeds is
    /// held against this.
    pub receipt: Option<String>,
    /// What it does to the conversation.
    pub effect: Option<Effect>,
    /// Where the text came from, when it or a part of it is untrusted: a page, an answer of a server. It is
    /// fenced, and from here on the run is untrusted.
    pub from: Option<Provenance>,
    /// Pictures that belong to it, for a model that sees.
    pub pictures: Vec<ToolPicture>,
}

/// What a tool does to the conversation it is called in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// The turn ends here and nothing is said.
    Silence,
    /// These words are to outlast every compaction.
    Pin(String),
    /// They are no longer to.
    Unpin(String),
}

impl ToolOutput {
    /// Returns an answer.
    pub fn ok(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: false,
            receipt: None,
            effect: None,
            from: None,
            pictures: Vec::new(),
        }
    }

    /// Returns a failure that says why.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::ok(text)
        }
    }

    /// Returns it as one whose words came from `provenance`, if anywhere; a mark that is there stays.
    pub fn marked(self, provenance: Option<Provenance>) -> Self {
        Self {
            from: self.from.or(provenance),
            ..self
        }
    }
}

impl From<Result<ToolOutput, String>> for ToolOutput {
    fn from(result: Result<ToolOutput, String>) -> Self {
        result.unwrap_or_else(Self::error)
    }
}

impl From<Result<String, String>> for ToolOutput {
    fn from(result: Result<String, String>) -> Self {
        result.map_or_else(Self::error, Self::ok)
    }
}

/// Whose tool it is. Every turn is offered all of them, so that what is before a conversation is the
/// same for all who speak in it; the gate decides, see [`Reach`]. Whose turn it is and whose words
/// are in it are two questions: an owner may pass on what a stranger wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Anybody's who may talk here.
    Anybody,
    /// The owner's: in a turn of others they are asked.
    Owner,
}

/// To which models a tool is described outright; the others read what it does when they ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// To all.
    Always,
    /// To those that pay little for it, see [`crate::config::Model::reads_tools_cheaply`].
    WhereCheap,
    /// To all while what is shown so together stays within `tool_registry::ROOM`.
    WhileItFits,
    /// To none: it is seldom needed.
    WhenAsked,
}

/// Returns the first line of a result, short enough for a receipt.
pub(crate) fn receipt_of(answer: &str) -> String {
    text::shorten(answer.lines().next().unwrap_or_default(), RECEIPT)
}

/// Something the model may do.
pub trait Tool: Send + Sync {
    /// Returns its name, description and parameters.
    fn spec(&self) -> ToolSpec;

    /// Returns true when it changes nothing, so that several may run at once.
    fn read_only(&self) -> bool;

    /// Returns true when several calls in a row may run at once.
    fn goes_beside_others(&self) -> bool {
        self.read_only()
    }

    /// Returns true when a call that a restart broke off may be made again: it finds out by itself what happened.
    fn is_resumable(&self) -> bool {
        false
    }

    /// Returns true when it takes no arguments but those that its schema names.
    fn is_closed(&self) -> bool {
        false
    }

    /// Returns whose it is.
    fn rights(&self) -> Rights;

    /// Returns to whom it is described outright.
    fn shown(&self) -> Shown {
        Shown::Always
    }

    /// Returns what a call would do, for the gate. Arguments fit the schema.
    fn reach(&self, input: &Value, context: &Context) -> Reach;

    /// Returns the tool server that it belongs to.
    fn server(&self) -> Option<&str> {
        None
    }

    /// Returns true for a tool whose answers are pages of others: an address that is in one was not put
    /// together by the model.
    fn brings_pages(&self) -> bool {
        false
    }

    /// Returns true when this very call brings such a page.
    fn brings_page(&self, input: &Value) -> bool {
        let _ = input;
        self.brings_pages()
    }

    /// Returns true when everybody may know what this call is answered with: no word of it is the owner's.
    fn is_public(&self, input: &Value) -> bool {
        let _ = input;
        self.brings_pages()
    }

    /// Returns what the settings say of this very call, when they say more than of the tool.
    fn policy(&self, input: &Value) -> Option<Policy> {
        let _ = input;
        None
    }

    /// Returns what the owner is asked about a call.
    fn question(&self, input: &Value, context: &Context) -> Question {
        let _ = context;
        Question::of(&self.spec().name, input)
    }

    /// Returns the answer of a call that will fail whatever the owner says to it, where that is certain; it changes
    /// nothing. It is called where only the owner reads the answer.
    fn certain_failure(&self, input: &Value, context: &Context) -> Option<ToolOutput> {
        let _ = (input, context);
        None
    }

    /// Returns what a call that succeeded did in the world, one line; `None` when nothing is to be said of
    /// it. A tool that changes something says so in the first line of its answer.
    fn receipt(&self, input: &Value, answer: &str) -> Option<String> {
        let _ = input;
        (!self.read_only()).then(|| receipt_of(answer))
    }

    /// Runs it with arguments that fit its schema.
    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput>;
}
