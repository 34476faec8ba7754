//! `--skill` for learned skills: proposals, usage counts and examples. Works without a daemon, except `test`.

use std::time::Duration;

use serde_json::json;

use super::skill::{FEWEST, SHOWN};
use super::submit;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::clock;
use crate::config::Home;
use crate::control::{Command, Id, Words};
use crate::skills::{Accept, Counts, Event, Example, Proposal, Refused, Skills};
use crate::text;

/// How long an example may take.
const EXAMPLE_WAIT: Duration = Duration::from_secs(600);
/// Characters of an answer that is not what was expected.
const ANSWER: usize = 300;

/// Does what the words say; `None` when they are no verb of these.
///
/// # Errors
///
/// As the verb.
pub(super) fn run(
    context: &Context<'_>,
    skills: &Skills,
    words: &[&str],
) -> Result<Option<Exit>, Failure> {
    let now = clock::now_ms();
    let exit = match *words {
        ["timeline"] => timeline(context, skills),
        ["show", name] => show(context, skills, name)?,
        ["test", name] => test(context, skills, name)?,
        ["accept", named] => {
            let (name, hash) = match named.split_once('@') {
                Some((name, hash)) => (name, Some(hash.to_ascii_lowercase())),
                None => (named, None),
            };
            let what = match hash.as_deref() {
                None => Accept::AsProposed,
                Some(hash) if hash.len() >= FEWEST => Accept::Exactly(hash),
                Some(_) => {
                    let what = format!("the hash after @ has {FEWEST} to 64 digits");
                    return Err(Failure::usage(what)
                        .hint(format!("agent-send --skill show {}", text::visible(name))));
                }
            };
            skills.accept(name, what, now).map_err(failed(name))?;
            let words = format!("{name} is a skill now: workspace/skills/{name}/SKILL.md");
            context.done(&json!({"accepted": name}), &words)
        }
        ["reject", name] => {
            skills.reject(name, now).map_err(failed(name))?;
            let words = format!("{name} is dropped; the same text is not proposed again");
            context.done(&json!({"rejected": name}), &words)
        }
        ["remove", name] => {
            skills.retire(name, now).map_err(failed(name))?;
            let words = format!(
                "{name} is no longer a skill; to restore it: agent-send --skill accept {name}"
            );
            context.done(&json!({"removed": name}), &words)
        }
        _ => return Ok(None),
    };
    Ok(Some(exit))
}

fn failed(name: &str) -> impl FnOnce(Refused) -> Failure {
    let name = text::visible(name);
    move |why| {
        let hint = match why {
            Refused::Changed(_) => {
                format!("agent-send --skill show {name}, then accept its NAME@HASH")
            }
            _ => "agent-send --skill list".to_owned(),
        };
        Failure::failed(text::visible(&why.to_string())).hint(hint)
    }
}

/// Returns the lines of what is proposed, for the list.
pub(super) fn proposed(home: &Home, proposals: &[Proposal]) -> Vec<String> {
    let line = |one: &Proposal| {
        let name = text::visible(&one.name);
        let path = home.display(&home.workspace().join("skills-proposed").join(&one.name));
        let what = match (one.shelved, &one.before) {
            (true, _) => format!("removed; to restore it: agent-send --skill accept {name}"),
            (false, Some(_)) => format!("a change; read it: agent-send --skill show {name}"),
            (false, None) => format!("proposed; read it: agent-send --skill show {name}"),
        };
        format!("new  {name}  {}/SKILL.md  {what}", text::visible(&path))
    };
    proposals.iter().map(line).collect()
}

/// Returns a proposal as a document.
pub(super) fn document(proposal: &Proposal) -> serde_json::Value {
    json!({
        "name": proposal.name,
        "sha256": proposal.sha256,
        "draft_sha256": proposal.now,
        "changes": proposal.before.is_some(),
        "removed": proposal.shelved,
        "at": clock::rfc3339(proposal.at),
    })
}

/// Returns how often a skill was of use; `None` for one that nobody read yet.
pub(super) fn counted(counts: &Counts) -> Option<String> {
    let day = |at: i64| text::head(&clock::rfc3339(at), 10).to_owned();
    let learned = counts
        .learned_at
        .map(|at| format!("learned {}, ", day(at)))
        .unwrap_or_default();
    let last = counts
        .last_used_at
        .map(|at| format!(", last {}", day(at)))
        .unwrap_or_default();
    let is_told = counts.used > 0 || counts.learned_at.is_some();
    is_told.then(|| {
        format!(
            "{learned}used {}{last}, failed {}, corrected {}",
            text::counted(counts.used, "time"),
            counts.failed,
            counts.corrected
        )
    })
}

fn show(context: &Context<'_>, skills: &Skills, name: &str) -> Result<Exit, Failure> {
    let catalog = skills.catalog();
    let skill = catalog.get(name);
    let mut proposals = skills.proposals().into_iter();
    let proposal = proposals.find(|one| one.name == name);
    if skill.is_none() && proposal.is_none() {
        let what = format!("no skill {:?}", text::visible(name));
        return Err(Failure::failed(what).hint("agent-send --skill lists them"));
    }
    let counts = skills.learned().counts(name);
    let events: Vec<Event> = skills.learned().events();
    let events: Vec<&Event> = events.iter().filter(|event| event.skill == name).collect();
    if context.json {
        let document = json!({
            "name": name,
            "text": skill.map(|skill| skill.body.to_string()),
            "examples": skill.map(|skill| &skill.examples),
            "counts": counts,
            "proposal": proposal.as_ref().map(document),
            "diff": proposal.as_ref().map(|one| &one.diff),
            "events": events,
        });
        cli::json(&document);
        return Ok(Exit::Ok);
    }
    let lines = |words: &str| {
        words
            .lines()
            .for_each(|line| cli::out(&text::visible(line)))
    };
    if let Some(skill) = skill {
        cli::out(&format!("{name}  {}", text::visible(&skill.location)));
        counted(&counts).iter().for_each(|words| cli::out(words));
        events.iter().for_each(|event| cli::out(&told(event)));
        cli::out("");
        lines(&skill.body);
    }
    if let Some(proposal) = proposal {
        if skill.is_some() {
            cli::out("");
        }
        cli::out(&format!(
            "proposed {}:",
            text::head(&clock::rfc3339(proposal.at), 10)
        ));
        lines(&proposal.diff);
        if proposal.now.as_ref() != Some(&proposal.sha256) {
            cli::err("agent-send: the draft has changed since it was proposed: read it with care");
        }
        if let Some(hash) = proposal.now.as_deref().and_then(|hash| hash.get(..SHOWN)) {
            cli::out(&format!("agent-send --skill accept {name}@{hash}"));
        }
        cli::out(&format!("agent-send --skill reject {name}"));
    }
    Ok(Exit::Ok)
}

fn told(event: &Event) -> String {
    let at = clock::rfc3339(event.at);
    let (skill, what) = (text::visible(&event.skill), event.what.as_str());
    format!(
        "{}  {what:<8}  {skill}",
        text::head(&at, 16).replace('T', " ")
    )
}

fn timeline(context: &Context<'_>, skills: &Skills) -> Exit {
    let events = skills.learned().events();
    if context.json {
        cli::json(&json!({"events": events}));
        return Exit::Ok;
    }
    if events.is_empty() {
        cli::err("agent-send: nothing was learned yet");
    }
    events.iter().for_each(|event| cli::out(&told(event)));
    Exit::Ok
}

/// Runs the examples of a skill, each in a separate conversation. They are messages like others: they cost what they
/// cost, and what they do is done.
fn test(context: &Context<'_>, skills: &Skills, name: &str) -> Result<Exit, Failure> {
    let catalog = skills.catalog();
    let skill = catalog.get(name).ok_or_else(|| {
        let what = format!("no skill {:?} is on", text::visible(name));
        Failure::failed(what).hint("agent-send --skill lists them")
    })?;
    if skill.examples.is_empty() {
        let what = format!("the skill {name} has no examples");
        let hint = "in the front matter of its SKILL.md: examples: [{ask: \"…\", expect: \"…\"}]";
        return Err(Failure::failed(what).hint(hint));
    }
    let mut results = Vec::new();
    for (number, example) in (1..).zip(&skill.examples) {
        let result = run_example(context, skills, (name, number), example)?;
        if !context.json {
            result.lines().iter().for_each(|line| cli::out(line));
        }
        results.push(result);
    }
    let is_good = results.iter().all(|result| result.passed);
    if context.json {
        let results: Vec<serde_json::Value> = results.iter().map(Outcome::document).collect();
        cli::json(&json!({"skill": name, "passed": is_good, "examples": results}));
    }
    Ok(if is_good { Exit::Ok } else { Exit::Failed })
}

/// What an example came to.
struct Outcome {
    example: Example,
    passed: bool,
    /// Whether the skill was read for it.
    read: bool,
    answer: String,
}

impl Outcome {
    fn lines(&self) -> Vec<String> {
        let shown = |words: &str| text::shorten(&text::visible(words.trim()), ANSWER);
        let ask = shown(&self.example.ask);
        let mut lines = vec![match self.passed {
            true => format!("passed  {ask}"),
            false => format!("failed  {ask}"),
        }];
        if !self.passed {
            lines.push(format!("        expected: {}", shown(&self.example.expect)));
            lines.push(format!("        answer: {}", shown(&self.answer)));
        }
        if !self.read {
            lines.push("        the skill was not read".to_owned());
        }
        lines
    }

    fn document(&self) -> serde_json::Value {
        json!({
            "ask": self.example.ask,
            "expect": self.example.expect,
            "passed": self.passed,
            "read": self.read,
            "answer": self.answer,
        })
    }
}

fn run_example(
    context: &Context<'_>,
    skills: &Skills,
    (name, number): (&str, usize),
    example: &Example,
) -> Result<Outcome, Failure> {
    let before = skills.learned().counts(name).used;
    let id = Id::new();
    let command = Command::User {
        words: Words {
            text: example.ask.clone(),
            ..Words::default()
        },
        sender: "cli".to_owned(),
        session: Some(format!("skill-test-{name}-{number}-{id}")),
        stream: false,
        attachments: Vec::new(),
    };
    let unknown = "the example may still run";
    let reply = submit::call(context.home, &command, unknown, EXAMPLE_WAIT, context.quiet)?;
    let answer = reply.reply.or(reply.error).unwrap_or_default();
    let has = |words: &str| answer.to_lowercase().contains(&words.trim().to_lowercase());
    Ok(Outcome {
        example: example.clone(),
        passed: has(&example.expect),
        read: skills.learned().counts(name).used > before,
        answer,
    })
}
