//! What a tool is, and which tools a turn is offered.

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::memory::Viewer;
use crate::message::Route;
use crate::provider::{BoxFuture, ToolSpec};
use crate::text;

/// The most characters of a tool's answer that reach the model (specification §7).
const MAX_OUTPUT: usize = 30_000;

/// The most characters of what a call is said to have done.
const RECEIPT: usize = 160;

/// What a running tool may know of its turn.
#[derive(Debug, Clone)]
pub struct Context {
    /// The run.
    pub run_id: String,
    /// The session.
    pub session_id: String,
    /// Who speaks, by their id.
    pub person: String,
    /// Whose memories it may use.
    pub viewer: Viewer,
    /// The chat that is talked in, if it is one.
    pub route: Option<Route>,
    /// The channel's id of the message that is answered.
    pub message_id: Option<String>,
    /// What is pinned in the conversation.
    pub pins: Vec<String>,
    /// Ends when the run is stopped.
    pub cancel: CancellationToken,
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
        Self { text: text.into(), is_error: false, receipt: None, effect: None }
    }

    /// Returns a failure that says why.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, receipt: None, effect: None }
    }
}

/// In whose turns a tool is offered. Whose turn it is and whose words are in it are two questions:
/// an owner may pass on what a stranger wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// In everybody's.
    Anybody,
    /// In an owner's: it shows what is theirs. Where others read the answer, only while no words of
    /// others could ask for it.
    OwnersTurn,
    /// In an owner's in which every word is the owner's: it acts.
    OwnersWords,
}

/// Something the model may do.
pub trait Tool: Send + Sync {
    /// Returns its name, description and parameters.
    fn spec(&self) -> ToolSpec;

    /// Returns true when it changes nothing, so that several may run at once.
    fn read_only(&self) -> bool;

    /// Returns in whose turns it is offered.
    fn rights(&self) -> Rights;

    /// Returns what a call that succeeded did in the world, one line; `None` when nothing is to be said of
    /// it. A tool that changes something says so in the first line of its answer.
    fn receipt(&self, input: &Value, answer: &str) -> Option<String> {
        let _ = input;
        (!self.read_only()).then(|| text::shorten(answer.lines().next().unwrap_or_default(), RECEIPT))
    }

    /// Runs it with arguments that fit its schema.
    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput>;
}

/// All tools of this daemon, in the order in which they are offered.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
}

impl Registry {
    /// Returns a registry of `tools`; with `enabled` only those named there.
    pub fn new(tools: Vec<Arc<dyn Tool>>, enabled: Option<&[String]>) -> Self {
        let named = |tool: &Arc<dyn Tool>| enabled.is_none_or(|names| names.iter().any(|name| name == tool.spec().name));
        Self { tools: tools.into_iter().filter(named).collect() }
    }

    /// Returns what a turn is offered: an owner's or not, read by them alone or not, with words of
    /// others in its request or not.
    pub fn offer(&self, from_owner: bool, owners_alone: bool, all_words_are_the_owners: bool) -> Offer {
        let allowed = |tool: &&Arc<dyn Tool>| match tool.rights() {
            Rights::Anybody => true,
            Rights::OwnersTurn => from_owner && (owners_alone || all_words_are_the_owners),
            Rights::OwnersWords => from_owner && all_words_are_the_owners,
        };
        let tools: Vec<Arc<dyn Tool>> = self.tools.iter().filter(allowed).cloned().collect();
        let specs = tools.iter().map(|tool| tool.spec()).collect();
        Offer { tools, specs }
    }
}

/// The tools of one turn.
#[derive(Clone)]
pub struct Offer {
    tools: Vec<Arc<dyn Tool>>,
    /// What the model is shown.
    pub specs: Arc<[ToolSpec]>,
}

impl Offer {
    /// Returns the tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        // `bash` is what many models were trained to call the shell.
        let name = if name == "bash" { "exec" } else { name };
        self.specs.iter().position(|spec| spec.name == name).and_then(|at| self.tools.get(at))
    }

    /// Runs a call: unknown names, bad arguments and panics become errors for the model.
    pub async fn run(&self, name: &str, input: &Value, context: &Context) -> ToolOutput {
        let Some(tool) = self.get(name).cloned() else {
            let known: Vec<&str> = self.specs.iter().map(|spec| spec.name).collect();
            return ToolOutput::error(format!("no tool is called {name:?}; there are: {}", known.join(", ")));
        };
        if let Err(reason) = super::schema::check(&tool.spec().schema, input) {
            return ToolOutput::error(format!("the arguments do not fit: {reason}"));
        }
        let (arguments, context, running) = (input.clone(), context.clone(), tool.clone());
        // A task of its own, so that a panic in a tool is an answer and not the end of the turn.
        let task = tokio::spawn(async move { running.run(&arguments, &context).await });
        let mut output = match AbortOnDropHandle::new(task).await {
            Ok(output) => output,
            Err(error) => ToolOutput::error(format!("the tool broke down: {error}")),
        };
        if !output.is_error {
            let receipt = tool.receipt(input, &output.text);
            output.receipt = receipt.map(|receipt| text::visible(&crate::secret::redact(&receipt)));
        }
        // First redact, then cut: a secret cut in two would be known to nobody.
        output.text = text::head_and_tail(&crate::secret::redact(&output.text), MAX_OUTPUT, 70);
        output
    }
}
