//! Checks beyond types: ranges of values, probable mistakes, and settings without effect in this
//! build.

mod channels;
mod formats;
mod ranges;
mod telegram;

pub(super) use formats::{is_amount, is_http, is_private_way, is_variable};
pub(super) use ranges::values;
pub use ranges::{SERVER_NAME, is_server_name};

use self::formats::is_prompt_name;
use super::key_names;
use super::key_names::UnknownKey;
use super::types::{Config, Deliver, DmPolicy, DmScope, Hook, Media, Policy, Sandbox, Session};
use crate::message::Address;

/// A probable mistake; the agent starts nevertheless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file and line, variable, credential or flag.
    pub origin: String,
    /// The path of the key.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: `{}` {}", self.origin, self.key, self.message)
    }
}

/// A setting that is understood and has no effect in this build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The path of the key.
    pub key: String,
    /// What happens instead.
    pub instead: &'static str,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: not in this build: {}", self.key, self.instead)
    }
}

/// Takes the links out that say nothing, or two things, and returns what was taken.
pub(super) fn drop_bad_links(
    session: &mut Session,
    origin: &dyn Fn(&str) -> String,
) -> Vec<Warning> {
    let links = std::mem::take(&mut session.identity_links);
    let mut warnings = Vec::new();
    for (person, ids) in &links {
        let key = key_names::join("session.identity_links", person);
        let mut warn = |message| {
            warnings.push(Warning {
                origin: origin(&key),
                key: key.clone(),
                message,
            })
        };
        if !is_person(person) {
            warn("is ignored: a person is called by 1 to 64 letters, digits, `_` or `-`, not by a number".to_owned());
            continue;
        }
        let mut good = Vec::new();
        for id in ids {
            let other = links
                .iter()
                .find(|(other, ids)| *other != person && ids.contains(id));
            match other {
                _ if !is_id(id) => warn(format!(
                    "has `{id}`, which is no id and is ignored: expected `telegram:NUMBER` (a user's id), `CHANNEL:ID`, `cli:NAME` or `http:NAME`"
                )),
                Some((other, _)) => warn(format!(
                    "has `{id}`, which is {other}, too, and is ignored: an id is one person's"
                )),
                None => good.push(id.clone()),
            }
        }
        if !good.is_empty() || ids.is_empty() {
            session.identity_links.insert(person.clone(), good);
        }
    }
    warnings
}

fn is_person(name: &str) -> bool {
    is_prompt_name(name) && name.chars().any(|c| !c.is_ascii_digit())
}

fn is_id(id: &str) -> bool {
    match id.split_once(':') {
        Some(("telegram", id)) => id
            .parse::<i64>()
            .is_ok_and(|number| number.to_string() == id && number > 0),
        Some(("cli" | "http", name)) => {
            (1..=200).contains(&name.chars().count()) && !name.contains(char::is_control)
        }
        _ => Address::parse(id).is_some(),
    }
}

/// Returns what is valid and probably not meant; `is_paid` says that a model costs something, or may.
pub(super) fn warnings(
    config: &Config,
    is_paid: bool,
    origin: &dyn Fn(&str) -> String,
) -> Vec<Warning> {
    let telegram = &config.telegram;
    let mut warnings = Vec::new();
    let mut warn = |key: &str, message: &str| {
        warnings.push(Warning {
            origin: origin(key),
            key: key.to_owned(),
            message: message.to_owned(),
        })
    };
    if telegram.enabled && telegram.dm_policy == DmPolicy::Allowlist && telegram.owners().is_empty()
    {
        warn(
            "telegram.enabled",
            "is true and `telegram.owner` names nobody: put your numeric id there, or use `agent-send --pair owner`",
        );
    }
    for (key, what) in channels::doubts(config) {
        warn(&key, what);
    }
    let of_telegram = telegram::doubts(config).into_iter();
    for (key, what) in of_telegram.chain(telegram::open_to_all(config, is_paid)) {
        warn(&key, &what);
    }
    if config.tools.exec.sandbox == Sandbox::Off && config.tools.exec.runs() {
        warn(
            "tools.exec.sandbox",
            "is `off`: a command may read and change everything that you may",
        );
    }
    if config.tools.exec.policy == Policy::Allow {
        warn(
            "tools.exec.policy",
            "is `allow`: a page or a message that the agent reads may run commands, and nobody is asked",
        );
    }
    for (tool, _) in config
        .tools
        .policies
        .iter()
        .filter(|(_, policy)| **policy == Policy::Allow)
    {
        let key = key_names::join("tools.policies", tool);
        warn(
            &key,
            "is `allow`: a page or a message that the agent reads may use it, and nobody is asked",
        );
    }
    if lets_others_into_main(config) {
        warn(
            "session.dm_scope",
            "is `main` and others than the owners may write: in their one conversation the owner's memory (MEMORY.md, notes, facts) is not used",
        );
    }
    for what in transcription_paths(&config.media) {
        warn("media.transcribe_reads", &what);
    }
    for (person, ids) in &config.session.identity_links {
        let (own, foreign): (Vec<Address>, Vec<Address>) = ids
            .iter()
            .filter_map(|id| Address::parse(id))
            .partition(|id| config.is_owner(id));
        if let (Some(own), Some(foreign)) = (own.first(), foreign.first()) {
            let what = format!(
                "{own} is an owner and {foreign} is not: both read the same conversation of {} ids",
                ids.len()
            );
            warn(&key_names::join("session.identity_links", person), &what);
        }
    }
    for (key, message) in unheard_hooks(config) {
        warn(&key, message);
    }
    if config.http.enabled && !config.http.is_local() {
        warn(
            "http.listen",
            "is reached from other machines over plain HTTP: the token and every word can be read on the way; listen on \
             127.0.0.1 behind a reverse proxy with TLS, or on a private network only",
        );
    }
    warnings
}

/// Returns the webhooks whose messages would reach no one, and why.
fn unheard_hooks(config: &Config) -> Vec<(String, &'static str)> {
    let unheard = |(name, hook): (&String, &Hook)| {
        let message = if !config.http.enabled {
            "has no effect: `http.enabled` is false"
        } else if hook.deliver != Deliver::Nothing && config.open_channels().next().is_none() {
            "reaches nobody: it delivers to the owner, and every channel is off (`telegram.enabled`); with `deliver = \"nothing\"` only the agent reads it"
        } else {
            return None;
        };
        Some((key_names::join("http.hooks", name), message))
    };
    config.http.hooks.iter().filter_map(unheard).collect()
}

/// Returns true when everybody who may write shares the owner's one conversation.
fn lets_others_into_main(config: &Config) -> bool {
    let guests = config.allowed().iter().any(|one| !config.is_owner(one));
    let mut open = config.open_channels().peekable();
    let is_on = open.peek().is_some();
    let anybody = open.any(|channel| config.dm_policy(channel) == DmPolicy::Open);
    config.session.dm_scope == DmScope::Main && is_on && (guests || anybody)
}

/// Returns what is wrong with the paths that a program of transcription may read.
fn transcription_paths(media: &Media) -> Vec<String> {
    let mut faults = Vec::new();
    for path in &media.transcribe_reads {
        match path.canonicalize() {
            Ok(real) if real == *path => {}
            Ok(real) => faults.push(format!(
                "`{}` is really {}: name that, here and in `transcribe`",
                path.display(),
                real.display()
            )),
            Err(error) => faults.push(format!(
                "`{}` cannot be shown to the program: {error}",
                path.display()
            )),
        }
    }
    faults
}

/// Returns the roles of `[routing]` that do not exist.
pub(super) fn unknown_roles(config: &Config, origin: &dyn Fn(&str) -> String) -> Vec<UnknownKey> {
    let is_unknown = |role: &&String| !super::types::ROLES.contains(&role.as_str());
    let roles = config.routing.keys().filter(is_unknown);
    roles
        .map(|role| {
            let key = key_names::join("routing", role);
            UnknownKey::new(origin(&key), &key, false, &key_names::all())
        })
        .collect()
}

/// Returns the settings that are active and have no room in this build.
pub(super) fn notes(config: &Config) -> Vec<Note> {
    let is_inactive = config.tools.exec.sandbox == Sandbox::Bubblewrap;
    let note = is_inactive.then(|| Note {
        key: "tools.exec.sandbox".to_owned(),
        instead: "works like `auto`",
    });
    note.into_iter().collect()
}
