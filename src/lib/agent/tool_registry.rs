//! The tools of the daemon, and the selection that a turn is offered and may run.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use super::more_tools;
use super::permission;
use super::permission::{Circumstances, Decision, Question, Reach};
use super::tool::{Context, SKILL_PROPOSE, Shown, Tool, ToolOutput};
use crate::config;
use crate::config::Policy;
use crate::message::{Bounds, ToolCall};
use crate::net;
use crate::provider::ToolSpec;
use crate::secret;
use crate::text;

/// Estimated tokens of the tools that are shown while they fit: for models that pay little for them, and for others.
/// The reference servers filesystem, git and time together have 5,600.
const ROOM: (u64, u64) = (8_000, 2_000);

/// The share of the head in what the model reads of a long answer, percent; see [`text::head_and_tail`].
const HEAD: usize = 70;
/// What no sub-agent does, whatever the settings say.
const NOT_FOR_SUBAGENTS: [&str; 2] = ["sessions_spawn", SKILL_PROPOSE];

/// All tools of this daemon, in the order in which they are offered.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
    /// Tools that come and go while the daemon runs.
    changing: Option<Changing>,
    policies: BTreeMap<String, Policy>,
    rules: Arc<Rules>,
}

/// The settings for all tools.
#[derive(Debug, Clone)]
pub struct Rules {
    /// The tools that no sub-agent may use.
    pub denied: Vec<String>,
    /// The most characters of an answer that reach the model (`tools.max_output`).
    pub max_output: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            denied: Vec::new(),
            max_output: config::Tools::default().max_output,
        }
    }
}

fn is_on(policies: &BTreeMap<String, Policy>, tool: &Arc<dyn Tool>) -> bool {
    let spec = tool.spec();
    let subject = config::Subject {
        tool: spec.name.as_ref(),
        server: tool.server(),
        host: None,
    };
    config::policy_of(policies, subject) != Policy::Off
}

/// Returns the current tools; their names are unique.
pub type Changing = Arc<dyn Fn() -> Vec<Arc<dyn Tool>> + Send + Sync>;

impl Registry {
    /// Returns a registry of `tools`; with `enabled` only those named there, and without those that
    /// `policies` turns off.
    pub fn new(
        tools: Vec<Arc<dyn Tool>>,
        enabled: Option<&[String]>,
        policies: BTreeMap<String, Policy>,
    ) -> Self {
        let named = |tool: &Arc<dyn Tool>| {
            let spec = tool.spec();
            is_on(&policies, tool)
                && enabled.is_none_or(|names| names.iter().any(|name| *name == spec.name))
        };
        Self {
            tools: tools.into_iter().filter(named).collect(),
            changing: None,
            policies,
            rules: Arc::default(),
        }
    }

    /// Returns it with the settings for all tools.
    pub fn with_rules(self, rules: Rules) -> Self {
        Self {
            rules: Arc::new(rules),
            ..self
        }
    }

    /// Adds tools that come and go; they are behind the others in every offer.
    pub fn with_changing(self, changing: Changing) -> Self {
        Self {
            changing: Some(changing),
            ..self
        }
    }

    /// Returns what a turn is offered whose model reads tools cheaply or not.
    pub fn offer(&self, cheap: bool) -> Offer {
        let changing = self
            .changing
            .as_ref()
            .map(|tools| tools())
            .unwrap_or_default();
        let is_on = |tool: &&Arc<dyn Tool>| is_on(&self.policies, tool);
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        let mut by_name: BTreeMap<String, Arc<dyn Tool>> = BTreeMap::new();
        for tool in self.tools.iter().chain(changing.iter().filter(is_on)) {
            // Of two that are called the same the first is meant: ours.
            if let Entry::Vacant(free) = by_name.entry(tool.spec().name.into_owned()) {
                free.insert(tool.clone());
                tools.push(tool.clone());
            }
        }
        let mut room = if cheap { ROOM.0 } else { ROOM.1 };
        let mut fits = |tool: &dyn Tool| {
            let left = room.checked_sub(tokens_of(&tool.spec()));
            room = left.unwrap_or(room);
            left.is_some()
        };
        let (rare, usual): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| match tool.shown() {
            Shown::Always => false,
            Shown::WhereCheap => !cheap,
            Shown::WhileItFits => !fits(tool.as_ref()),
            Shown::WhenAsked => true,
        });
        let rare: Vec<ToolSpec> = rare.into_iter().map(|tool| tool.spec()).collect();
        let specs = usual
            .into_iter()
            .map(|tool| tool.spec())
            .chain(more_tools::spec(&rare))
            .collect();
        Offer {
            tools: by_name,
            specs,
            rare,
            policies: self.policies.clone(),
            rules: self.rules.clone(),
        }
    }
}

/// Returns the estimated tokens of what a model is shown of a tool.
fn tokens_of(tool: &ToolSpec) -> u64 {
    let words = text::estimate_tokens(&tool.name) + text::estimate_tokens(&tool.description);
    words + text::estimate_tokens(tool.schema.text())
}

/// The tools of one turn.
#[derive(Clone)]
pub struct Offer {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    /// What the model is shown.
    pub specs: Arc<[ToolSpec]>,
    /// What it may ask for.
    rare: Vec<ToolSpec>,
    policies: BTreeMap<String, Policy>,
    rules: Arc<Rules>,
}

impl Offer {
    /// Returns it without what a sub-agent of these bounds may not do.
    pub(super) fn within(mut self, bounds: Option<&Bounds>) -> Self {
        let Some(bounds) = bounds else { return self };
        let rules = self.rules.clone();
        let may = |name: &str| {
            !NOT_FOR_SUBAGENTS.contains(&name)
                && !rules.denied.iter().any(|denied| denied == name)
                && (bounds.tools.is_empty() || bounds.tools.iter().any(|tool| tool == name))
        };
        self.tools.retain(|name, _| may(name));
        self.rare.retain(|spec| may(&spec.name));
        let usual = self
            .specs
            .iter()
            .filter(|spec| spec.name != more_tools::NAME && may(&spec.name))
            .cloned();
        self.specs = usual.chain(more_tools::spec(&self.rare)).collect();
        self
    }

    /// Returns the estimated tokens of what the model is shown.
    pub(super) fn tokens(&self) -> u64 {
        self.specs.iter().map(tokens_of).sum()
    }

    /// Returns the tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        // `bash` is what many models were trained to call the shell.
        let name = if name == "bash" { "exec" } else { name };
        self.tools.get(name)
    }

    /// Returns what the settings say of a tool.
    pub(super) fn policy(&self, name: &str) -> Policy {
        let subject = config::Subject {
            tool: name,
            server: self.get(name).and_then(|tool| tool.server()),
            host: None,
        };
        config::policy_of(&self.policies, subject)
    }

    /// Returns a tool's name as it is; `unknown` for a word that is none.
    pub(super) fn known<'a>(&self, name: &'a str) -> &'a str {
        if name == more_tools::NAME || self.get(name).is_some() {
            name
        } else {
            "unknown"
        }
    }

    /// Decides about a call. What no tool is called, or does not fit, runs and fails by itself.
    pub(super) fn decide(
        &self,
        call: &ToolCall,
        context: &Context,
        circumstances: Circumstances<'_>,
    ) -> Decision {
        let fits = |tool: &&Arc<dyn Tool>| fits(tool.as_ref(), &call.input).is_ok();
        let Some(tool) = self.get(&call.name).filter(fits) else {
            return Decision::Run;
        };
        let host = match tool.reach(&call.input, context) {
            Reach::Carries(url) | Reach::CarriesInside(url) => net::host_of(&url),
            _ => None,
        };
        let spec = tool.spec();
        let subject = config::Subject {
            tool: spec.name.as_ref(),
            server: tool.server(),
            host: host.as_deref(),
        };
        let policy = config::policy_of(&self.policies, subject);
        permission::decide(tool.as_ref(), (&call.input, context), policy, circumstances)
    }

    /// Returns true when the owner's own words spell out every argument of a call.
    pub(super) fn is_spelled_out(&self, call: &ToolCall, typed: &str) -> bool {
        self.get(&call.name).is_some_and(|tool| {
            super::owner_words::spell_out(typed, &call.input, &tool.spec().schema)
        })
    }

    /// Returns what a call reaches; of one that fails by itself nothing.
    pub(super) fn reach(&self, call: &ToolCall, context: &Context) -> Reach {
        let fits = |tool: &&Arc<dyn Tool>| fits(tool.as_ref(), &call.input).is_ok();
        let tool = self.get(&call.name).filter(fits);
        tool.map_or(Reach::Free, |tool| tool.reach(&call.input, context))
    }

    /// Returns true for a call that reads what is here and changes nothing: of a tool of ours that only reads and brings no
    /// pages, or how a tool is used.
    pub(super) fn only_looks(&self, call: &ToolCall) -> bool {
        let of_ours = |tool: &Arc<dyn Tool>| {
            tool.read_only() && !tool.brings_pages() && tool.server().is_none()
        };
        call.name == more_tools::NAME || self.get(&call.name).is_some_and(of_ours)
    }

    /// Returns why a call will fail whatever the owner says, where that is certain before. Files are read for that.
    pub(super) async fn certain_failure(
        &self,
        call: &ToolCall,
        context: &Context,
    ) -> Option<ToolOutput> {
        let tool = self.get(&call.name)?.clone();
        fits(tool.as_ref(), &call.input).ok()?;
        let (input, context) = (call.input.clone(), context.clone());
        let look = move || tool.certain_failure(&input, &context);
        let output = crate::sys::blocking(look).await?;
        Some(self.shown(output))
    }

    /// Returns what the owner is asked about a call. Files are read for that, which may be large.
    pub(super) async fn question(&self, call: &ToolCall, context: &Context) -> Question {
        let Some(tool) = self.get(&call.name).cloned() else {
            return Question::of(&call.name, &call.input);
        };
        let (input, context) = (call.input.clone(), context.clone());
        let question = move || permission::question(tool.as_ref(), &input, &context);
        crate::sys::blocking(question).await
    }

    /// Runs a call: unknown names, bad arguments and panics become errors for the model.
    pub async fn run(&self, name: &str, input: &Value, context: &Context) -> ToolOutput {
        if name == more_tools::NAME {
            return more_tools::describe(&self.rare, input);
        }
        let Some(tool) = self.get(name).cloned() else {
            let known: Vec<&str> = self.tools.keys().map(String::as_str).collect();
            return ToolOutput::error(format!(
                "no tool is called {name:?}; there are: {}",
                known.join(", ")
            ));
        };
        if let Err(reason) = fits(tool.as_ref(), input) {
            return ToolOutput::error(format!("the arguments do not fit: {reason}"));
        }
        let (arguments, context, running) = (input.clone(), context.clone(), tool.clone());
        // A separate task, so that a panic in a tool is an answer and not the end of the turn.
        let task = tokio::spawn(async move { running.run(&arguments, &context).await });
        let mut output = match AbortOnDropHandle::new(task).await {
            Ok(output) => output,
            Err(error) => ToolOutput::error(format!("the tool broke down: {error}")),
        };
        if output.receipt.is_none() && !output.is_error {
            output.receipt = tool.receipt(input, &output.text);
        }
        let harmless = |receipt: String| text::visible(&secret::redact(&receipt));
        output.receipt = output.receipt.map(harmless);
        self.shown(output)
    }

    /// Returns an answer as the model may read it: without known secrets, its head and its tail where it is too long.
    fn shown(&self, mut output: ToolOutput) -> ToolOutput {
        // First redact, then cut: a secret cut in two would be known to nobody.
        let text = secret::redact(&output.text);
        output.text = text::head_and_tail(&text, self.rules.max_output, HEAD);
        output
    }
}

/// Checks the arguments of a call.
fn fits(tool: &dyn Tool, input: &Value) -> Result<(), String> {
    super::argument_schema::check(&tool.spec().schema, input, tool.is_closed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_secret_is_redacted_before_the_cut_divides_it() {
        let rules = Rules {
            max_output: 1_000,
            ..Rules::default()
        };
        let offer = Registry::default().with_rules(rules).offer(true);
        let shown = |text: &str| offer.shown(ToolOutput::ok(text)).text;
        let secret = Secret::new(format!("sk-truncate-{}", "0123456789".repeat(200)));
        let text = format!("{}{}{}", "a".repeat(600), secret.expose(), "b".repeat(600));
        let cut = shown(&text);
        assert!(cut.chars().count() <= 1_000, "{}", cut.chars().count());
        assert!(!cut.contains("012345"), "{cut}");
        assert!(cut.starts_with("aaa") && cut.ends_with("bbb"), "{cut}");
        assert_eq!(shown("short"), "short");
    }
}
