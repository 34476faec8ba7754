//! Candidates for the completions of the shells: `agent-send --complete WORDS` prints one candidate a line, and nothing
//! where any word is possible.

use crate::app::cli::{Failure, Shared};
use crate::app::documents;
use crate::config;
use crate::config::{Environment, Home};
use crate::jobs;
use crate::people::{Contact, People};
use crate::session::Index;
use crate::skills::Skills;

const JOB_VERBS: [&str; 6] = ["list", "add", "remove", "run", "pause", "resume"];
const PAIR_VERBS: [&str; 8] = [
    "list", "approve", "revoke", "owner", "block", "unblock", "mute", "unmute",
];
const TRUST_VERBS: [&str; 3] = ["list", "trust", "distrust"];
const MCP_VERBS: [&str; 3] = ["add", "login", "logout"];
const SKILL_VERBS: [&str; 6] = ["show", "accept", "reject", "remove", "test", "timeline"];

/// Returns the candidates behind `words`, those before the cursor without the program's name.
pub(super) fn after(words: &[String]) -> Vec<String> {
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    let known = Shared::of_words(words)
        .home()
        .and_then(|(env, home)| after_words(&plain, &env, &home));
    // Nobody reads an error behind the tab key.
    known.unwrap_or_default()
}

/// Returns what may be behind these words in this home.
pub(super) fn after_words(
    words: &[&str],
    env: &Environment,
    home: &Home,
) -> Result<Vec<String>, Failure> {
    let owned = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    Ok(match words {
        [.., "--session" | "--stop" | "--compact" | "--history"] => sessions(home)?,
        [.., "--reset"] => [owned(&["all"]), sessions(home)?].concat(),
        [.., "--model"] => {
            let models = config::load(home, env, &[])?.models;
            models.names().map(str::to_owned).collect()
        }
        [.., "--to"] => contacts(home)?,
        // bash takes the @ for a word of its own.
        [.., "--to", "@"] => {
            let known = contacts(home)?.into_iter();
            known
                .filter_map(|name| name.strip_prefix('@').map(str::to_owned))
                .collect()
        }
        [.., "--tier"] => {
            let tiers = config::load_config(home, env)?.context.tiers;
            [owned(&["full", "operational"]), tiers.into_keys().collect()].concat()
        }
        [.., "--tz"] => chrono_tz::TZ_VARIANTS
            .iter()
            .map(|zone| zone.name().to_owned())
            .collect(),
        [.., "--approve" | "--deny" | "--answer"] => {
            let waiting = documents::queue(home)?.approvals;
            waiting.into_iter().map(|one| one.id).collect()
        }
        [.., "--cost"] => owned(&["today", "week", "month", "all"]),
        [.., "--queue"] => owned(&["retry", "drop"]),
        [.., "--job"] => owned(&JOB_VERBS),
        [.., "--job", "remove" | "run" | "pause" | "resume"] => jobs(home)?,
        [.., "--pair"] => owned(&PAIR_VERBS),
        [.., "--pair", "approve"] => {
            let people = People::read(&home.people())?;
            people.pending.into_iter().map(|one| one.code).collect()
        }
        [.., "--pair", "revoke"] => {
            let people = People::read(&home.people())?;
            people
                .allowed
                .iter()
                .map(|one| one.id.to_string())
                .collect()
        }
        [.., "--mcp"] => [owned(&TRUST_VERBS), owned(&MCP_VERBS)].concat(),
        [.., "--skill"] => [owned(&TRUST_VERBS), owned(&SKILL_VERBS)].concat(),
        [.., "--skill", "accept" | "reject"] => {
            let skills = Skills::new(home, config::share_dir(env).as_deref());
            skills.proposals().into_iter().map(|one| one.name).collect()
        }
        [
            ..,
            "--skill",
            "trust" | "distrust" | "show" | "remove" | "test",
        ] => {
            let skills = Skills::new(home, config::share_dir(env).as_deref());
            skills.statuses().into_iter().map(|one| one.name).collect()
        }
        [.., "--mcp", "trust" | "distrust" | "login" | "logout"] => config::load_config(home, env)?
            .mcp
            .servers
            .into_keys()
            .collect(),
        _ => Vec::new(),
    })
}

/// Returns what the conversations are called: those of the shell by their names, for a colon breaks a word in bash.
fn sessions(home: &Home) -> Result<Vec<String>, Failure> {
    let index = Index::read(&home.sessions_index(), &home.sessions())?;
    let name = |key: &str| key.strip_prefix("cli:").unwrap_or(key).to_owned();
    Ok(index.iter().map(|(key, _)| name(key)).collect())
}

/// Returns whom `--to` can name: the @username of each, or the name where it is a word, or the id.
fn contacts(home: &Home) -> Result<Vec<String>, Failure> {
    let people = People::read(&home.people())?;
    let word = |one: &Contact| match &one.username {
        Some(name) => format!("@{name}"),
        None if one.name.is_empty() || one.name.contains(char::is_whitespace) => one.id.to_string(),
        None => one.name.clone(),
    };
    let owner = std::iter::once("owner".to_owned());
    Ok(owner.chain(people.contacts.iter().map(word)).collect())
}

/// Returns the names of the jobs, or the id where a name is more than a word.
fn jobs(home: &Home) -> Result<Vec<String>, Failure> {
    let jobs = jobs::read(&home.jobs())?;
    let name = |job: &jobs::Job| {
        let is_word = !job.name.contains(char::is_whitespace);
        if is_word {
            job.name.clone()
        } else {
            job.id.clone()
        }
    };
    Ok(jobs.iter().map(name).collect())
}
