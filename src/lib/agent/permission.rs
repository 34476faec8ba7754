//! Permission, the gate before every tool call: whether it runs, needs the owner's approval, or never runs.
//!
//! | what a call reaches | no untrusted text in the request | untrusted text in it |
//! |---|---|---|
//! | nothing ([`Reach::Free`]) | runs | runs |
//! | what is the owner's ([`Reach::Shows`]) | runs | asks, where others read the answer |
//! | the world ([`Reach::Acts`]) | runs | asks |
//! | files that an untrusted run wrote, to run them ([`Reach::Obeys`]) | asks | asks |
//! | a place on the net ([`Reach::Carries`]) | runs | asks, unless the whole address is in what was read |
//! | a place on the owner's own network ([`Reach::CarriesInside`]) | runs | asks, unless the whole address is on a page of that host |
//! | what a tool server opens there ([`Reach::Opens`]) | runs | asks, unless the whole address is in what was read and only the owner reads the answer |
//! | a sub-agent ([`Reach::Tells`]) | runs | asks, unless each address in its task is in what was read |
//! | a search engine ([`Reach::Searches`]) | runs | asks once it would carry what is the owner's |
//! | what shapes the agent ([`Reach::Asks`]) | asks | asks |
//!
//! A call whose every argument is in the owner's own words of this turn runs nevertheless, except when it changes what
//! shapes the agent, shows data to others, or runs files of untrusted runs. In a turn of a guest every tool of the owner
//! asks ([`Rights`]). Only a persona reads pages for guests, if they gave the whole address; pages of the owner's own
//! network only if a prompt file or a page of that host names the address.
//!
//! The settings may say `ask` (always), `allow` (never, except for what shapes the agent) or `off`.

use serde_json::{Value, json};

use super::ask_owner::Always;
use super::owner_words::spell_out;
use super::tool::{Context, Rights, Tool};
use crate::config::Policy;
use crate::message::Wanted;
use crate::provider::BoxFuture;
use crate::text::quoted;

/// Files that a question names: a yes is one to no others.
pub const NAMED: usize = 8;

/// What a call would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Nothing that anybody would mind.
    Free,
    /// It shows what is the owner's.
    Shows,
    /// It changes something, or is heard by somebody.
    Acts,
    /// It changes something, and may run these files, which a run with untrusted text wrote and nobody wanted.
    Obeys(Vec<String>),
    /// It carries this address to a place on the net.
    Carries(String),
    /// It carries this address to a host inside, which the owner allowed by name: there an address may be an order.
    CarriesInside(String),
    /// It has a tool server open this address, and shows what is there, which may be the owner's.
    Opens(String),
    /// It gives this task to a sub-agent, which may follow the addresses in it.
    Tells(String),
    /// It carries these words to a search engine.
    Searches(String),
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
    /// What may be allowed for the rest of the conversation, or always; `None`: only this once.
    pub rule: Option<Rule>,
}

/// What the owner may allow at one go.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// In words, as it is shown to the owner: `message to @ana`.
    pub words: String,
    /// What a call must have to fall under it.
    pub bound_to: Value,
}

impl Rule {
    /// Returns the rule for all calls of `tool` with this `subject`.
    pub fn of(tool: &str, subject: Option<(&str, &str)>) -> Self {
        let (words, about) = match subject {
            None => (format!("{tool}, whatever its arguments"), None),
            Some((link, about)) => (format!("{tool} {link} {about}"), Some(about)),
        };
        Self {
            words,
            bound_to: json!([tool, about]),
        }
    }
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
            rule: Some(Rule::of(tool, None)),
        }
    }
}

/// Returns what the owner is asked about a call. What is asked in any case falls under no rule: only the call itself shows
/// what they would say yes to.
pub(super) fn question(tool: &dyn Tool, input: &Value, context: &Context) -> Question {
    let question = tool.question(input, context);
    match tool.reach(input, context) {
        Reach::Asks(_) => Question {
            rule: None,
            ..question
        },
        _ => question,
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
    /// The expected answer, if it is a text.
    pub wanted: Option<Wanted>,
}

/// The owner's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The owner said yes to this very question: it may be done, once, now.
    Yes,
    /// A rule allows it that the owner gave for the conversation or permanently: nobody has read this very call.
    ByRule,
    /// What the owner said where words were wanted.
    Words(String),
    /// The owner said no themselves. Carries what the model receives.
    SaidNo(String),
    /// It is not done, for another reason. Carries what the model receives.
    No(String),
}

impl Verdict {
    /// Returns the owner's denial, and the reason, if they gave one.
    pub fn said_no(why: Option<&str>) -> Self {
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        Self::SaidNo(format!("this was not run: the owner said no{why}"))
    }
}

/// Puts questions to the owner.
pub trait Owner: Send + Sync {
    /// Asks about the calls of one step and waits; returns one verdict each, in order. A yes is used up
    /// when it is returned.
    fn ask<'a>(&'a self, questions: &'a [Asked]) -> BoxFuture<'a, Vec<Verdict>>;

    /// Returns what they allowed permanently.
    fn always(&self) -> Always {
        Always::default()
    }
}

/// The circumstances of a call.
#[derive(Clone, Copy)]
pub(super) struct Circumstances<'a> {
    /// Who began the turn, if that was not the owner.
    pub(super) guest: Option<&'a str>,
    /// Whether untrusted text was in the request in which the model made the call.
    pub(super) untrusted: bool,
    /// Whether others read the answer.
    pub(super) others_read: bool,
    /// Whether the answer is a plan: a persona reads for guests what they name.
    pub(super) plan: bool,
    /// What the conversation tells of the call's arguments; asked only when untrusted text is in it.
    pub(super) knows: &'a dyn Knows,
}

/// What a conversation tells of the arguments of a call.
pub(super) trait Knows {
    /// Returns the owner's own words of this turn.
    fn typed(&self) -> String;
    /// Returns true when an address stands whole in what the agent was given to read or in its prompt, and not too many
    /// were followed by this run and its sub-agents.
    fn was_read(&self, url: &str) -> bool;
    /// Returns true when an address occurs completely on a page of its own host or in the prompt, and not too many were followed.
    fn was_read_inside(&self, url: &str) -> bool;
    /// Returns true when each address in a text was read, and they are not too many.
    fn names_only_read(&self, text: &str) -> bool;
    /// Returns true when a search says nothing that is the owner's, and not too many were made by this run and its sub-agents.
    fn is_public(&self, query: &str) -> bool;
    /// Names whose words are in it: `the site example.org`.
    fn sources(&self) -> String;
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// It runs.
    Run,
    /// The owner is asked first.
    Ask {
        /// Why.
        why: String,
        /// Whether that is because of untrusted text: without them it would run.
        untrusted: bool,
    },
    /// It does not run. Carries why.
    Refuse(String),
}

/// Says which files of untrusted runs a call may run.
fn may_run(files: &[String]) -> String {
    let more = match files.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = files.iter().take(NAMED).map(|name| quoted(name)).collect();
    format!(
        "it may run or read {}{more}, written by a run that had read untrusted words",
        named.join(", ")
    )
}

/// Returns whether untrusted words may have chosen what a call does or says, wherever its answer is read.
fn may_be_moved(reach: &Reach, knows: &dyn Knows) -> bool {
    match reach {
        Reach::Acts => true,
        Reach::Carries(url) | Reach::Opens(url) => !knows.was_read(url),
        Reach::CarriesInside(url) => !knows.was_read_inside(url),
        Reach::Tells(task) => !knows.names_only_read(task),
        Reach::Searches(query) => !knows.is_public(query),
        Reach::Shows | Reach::Free => false,
        Reach::Obeys(_) | Reach::Asks(_) | Reach::Refused(_) => false,
    }
}

/// Decides about a call whose arguments fit; `policy` is what the settings say of the tool.
pub(super) fn decide(
    tool: &dyn Tool,
    (input, context): (&Value, &Context),
    policy: Policy,
    circumstances: Circumstances<'_>,
) -> Decision {
    let Circumstances {
        guest,
        untrusted,
        others_read,
        plan,
        knows,
    } = circumstances;
    let ask = |why: String| Decision::Ask {
        why,
        untrusted: false,
    };
    let asker = guest;
    let guest = guest.filter(|_| tool.rights() == Rights::Owner);
    let reach = tool.reach(input, context);
    match (tool.policy(input).unwrap_or(policy), &reach, guest) {
        (_, Reach::Refused(why), _) => return Decision::Refuse(why.clone()),
        (Policy::Off, ..) => {
            return Decision::Refuse("the owner's settings do not allow this".to_owned());
        }
        (_, Reach::Asks(why), _) => return ask(why.clone()),
        (Policy::Ask, Reach::Obeys(files), _) => {
            return ask(format!(
                "your settings ask about it each time; {}",
                may_run(files)
            ));
        }
        (Policy::Ask, ..) => return ask("your settings ask about it each time".to_owned()),
        (
            Policy::Allow,
            Reach::Carries(_) | Reach::CarriesInside(_) | Reach::Searches(_),
            Some(_),
        ) if plan => {
            return Decision::Run;
        }
        (Policy::Sandboxed, Reach::Carries(url), Some(_)) if plan && knows.was_read(url) => {
            return Decision::Run;
        }
        // The owner allowed the host for themselves, and there an address may be an order: no guest names one.
        (Policy::Sandboxed, Reach::CarriesInside(url), Some(_))
            if plan && knows.was_read_inside(url) =>
        {
            return Decision::Run;
        }
        (Policy::Sandboxed | Policy::Allow, _, Some(name)) => {
            return ask(format!("requested by a guest, {name}"));
        }
        (Policy::Allow, _, None) => return Decision::Run,
        (Policy::Sandboxed, Reach::Obeys(files), None) => return ask(may_run(files)),
        (Policy::Sandboxed, _, None) => {}
    }
    // What is shown to others was not asked for by naming it.
    let shows_others = others_read && matches!(reach, Reach::Shows | Reach::Opens(_));
    let is_spelled_out = || {
        guest.is_none() && !shows_others && spell_out(&knows.typed(), input, &tool.spec().schema)
    };
    let is_moved = untrusted && (shows_others || may_be_moved(&reach, knows));
    if !is_moved || is_spelled_out() {
        return Decision::Run;
    }
    Decision::Ask {
        why: match asker {
            Some(name) => format!("requested by a guest, {name}"),
            None => format!(
                "{} is in this conversation and may have asked for it",
                knows.sources()
            ),
        },
        untrusted: true,
    }
}
