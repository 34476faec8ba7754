//! `--skill`: which skills there are, and which of them the owner trusts. Works without a daemon, under
//! the lock of skills.json; a running daemon sees the change with the next message.
//!
//! What `list` shows and what is trusted later may be two things: NAME@HASH trusts only what was listed.

use std::io::IsTerminal;

use serde_json::json;

use super::skill_learned;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::config;
use crate::config::Home;
use crate::skills::{Counts, SkillStatus, Skills, Surroundings, Why};
use crate::trust::approved_hashes::Decision;
use crate::{clock, logging, text};

/// Digits of a hash that `list` prints, and the fewest that are taken.
pub(super) const SHOWN: usize = 16;
pub(super) const FEWEST: usize = 8;
/// Files of a skill that are named when it is trusted.
const MAX_NAMED: usize = 40;

pub(super) fn skill(context: &Context<'_>, words: &[String]) -> Result<Exit, Failure> {
    let home = context.home;
    cli::must_be_there(home)?;
    let skills = Skills::new(home, config::share_dir(context.env).as_deref());
    let plain: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["accept" | "reject" | "remove" | "trust" | "distrust", _] = *plain {
        cli::may_write(home)?;
        if !home.state().is_dir() {
            home.create()?;
        }
    }
    // A damaged file is set aside; that must be seen.
    let _guard = logging::init(&logging::Options::stderr_only(true));
    if let Some(exit) = skill_learned::run(context, &skills, &plain)? {
        return Ok(exit);
    }
    match TrustVerb::parse("--skill", words)? {
        TrustVerb::List => list(context, &skills),
        TrustVerb::Trust(name, hash) => {
            trust(context, &skills, &named(&skills, name)?, hash.as_deref())
        }
        TrustVerb::Distrust(name) => {
            let name = named(&skills, name)?.name;
            skills
                .approved()
                .decide(&name, Decision::Distrust, clock::now_ms())?;
            distrusted(context, &name)
        }
    }
}

/// What `--skill` and `--mcp` are to do.
pub(super) enum TrustVerb<'a> {
    List,
    /// A name, and how its hash begins when it was named with it.
    Trust(&'a str, Option<String>),
    Distrust(&'a str),
}

impl<'a> TrustVerb<'a> {
    pub(super) fn parse(flag: &str, words: &'a [String]) -> Result<Self, Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let usage = |what: String, hint: String| Err(Failure::usage(what).hint(hint));
        match words.as_slice() {
            [] | ["list"] => Ok(Self::List),
            ["distrust", name] => Ok(Self::Distrust(name)),
            ["trust", name] => match name.split_once('@') {
                None => Ok(Self::Trust(name, None)),
                Some((name, hash))
                    if (FEWEST..=64).contains(&hash.len())
                        && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
                {
                    Ok(Self::Trust(name, Some(hash.to_ascii_lowercase())))
                }
                Some(_) => usage(
                    format!("after the @ stand {FEWEST} to 64 digits of the hash, 0-9 and a-f"),
                    format!("agent-send {flag} list"),
                ),
            },
            _ => usage(
                match flag {
                    "--skill" => "--skill takes list, show, accept, reject, remove, test, timeline, trust or distrust".to_owned(),
                    _ => format!("{flag} takes list, trust NAME[@HASH], distrust NAME, add, login or logout"),
                },
                format!("agent-send {flag} --help"),
            ),
        }
    }
}

pub(super) fn distrusted(context: &Context<'_>, name: &str) -> Result<Exit, Failure> {
    let words = format!("{name} is off now");
    Ok(context.done(&json!({"distrusted": name}), &words))
}

/// Returns how a skill is called that may only be as it is now.
fn exactly(standing: &SkillStatus) -> Option<String> {
    let hash = standing.sha256.as_ref().ok()?.get(..SHOWN)?;
    Some(format!("{}@{hash}", standing.name))
}

fn named(skills: &Skills, name: &str) -> Result<SkillStatus, Failure> {
    let found = skills
        .statuses()
        .into_iter()
        .find(|standing| standing.name == name);
    found.ok_or_else(|| {
        Failure::failed(format!("no skill {:?}", text::visible(name)))
            .hint("agent-send --skill lists them")
    })
}

fn trust(
    context: &Context<'_>,
    skills: &Skills,
    standing: &SkillStatus,
    listed: Option<&str>,
) -> Result<Exit, Failure> {
    let home = context.home;
    let (name, path) = (&standing.name, home.display(&standing.path));
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::failed(format!("{name} cannot be used: {why}"))
            .hint(format!("repair {path} first, then agent-send --skill list"))
    };
    match &standing.off {
        Some(why @ (Why::Wrong(_) | Why::Hidden(_) | Why::Taken(_))) => return Err(cannot(why)),
        Some(Why::Untrusted(_) | Why::Changed | Why::Distrusted | Why::Unknown(_)) | None => {}
    }
    if let Some(listed) = listed {
        let now = standing.sha256.as_ref().map_err(|why| cannot(why))?;
        if !now.starts_with(listed) {
            let message = format!(
                "{name} is another one than you name: now it is {}",
                exactly(standing).unwrap_or_default()
            );
            return Err(Failure::failed(format!("{message}; nothing was changed"))
                .hint(format!("read {path} again, then agent-send --skill list")));
        }
    }
    let (says, words) = if standing.is_untrusted {
        let sha256 = standing.sha256.clone().map_err(|why| cannot(&why))?;
        (
            Decision::Trust(sha256),
            format!(
                "{name} is trusted as it is now; when a file of it changes, it is off until you say so again"
            ),
        )
    } else {
        // A hash would only make their own edits a nuisance.
        (
            Decision::Forget,
            format!(
                "{name} is on; nobody but you could have written it, so it stays on when you edit it"
            ),
        )
    };
    let sha256 = if let Decision::Trust(sha256) = &says {
        Some(sha256.clone())
    } else {
        None
    };
    skills.approved().decide(name, says, clock::now_ms())?;
    if let Some(sha256) = sha256
        .as_ref()
        .filter(|_| !context.json && listed.is_none() && std::io::stdout().is_terminal())
    {
        over(standing, sha256)
            .iter()
            .for_each(|line| cli::out(line));
    }
    Ok(context.done(&json!({"trusted": name, "sha256": sha256}), &words))
}

fn over(standing: &SkillStatus, sha256: &str) -> Vec<String> {
    let mut lines: Vec<String> = standing
        .files
        .iter()
        .take(MAX_NAMED)
        .map(|name| format!("  {name}"))
        .collect();
    if standing.files.len() > MAX_NAMED {
        lines.push(format!(
            "  and {} more files",
            standing.files.len() - MAX_NAMED
        ));
    }
    lines.push(format!("  sha256 {sha256}"));
    lines
}

fn list(context: &Context<'_>, skills: &Skills) -> Result<Exit, Failure> {
    let home = context.home;
    let standings = skills.statuses();
    let here = surroundings(context);
    let proposals = skills.proposals();
    let counts = skills.learned().all_counts();
    let counts = |name: &str| counts.get(name).cloned().unwrap_or_default();
    if context.json {
        let document = |standing: &SkillStatus| {
            let counts = counts(&standing.name);
            document(home, standing, &here, &counts)
        };
        let skills: Vec<serde_json::Value> = standings.iter().map(document).collect();
        let proposals: Vec<serde_json::Value> =
            proposals.iter().map(skill_learned::document).collect();
        cli::json(&json!({"skills": skills, "proposals": proposals}));
        return Ok(Exit::Ok);
    }
    let idle = skills.idle(clock::now_ms());
    if standings.is_empty() && proposals.is_empty() {
        cli::err(
            "agent-send: no skills; a skill is a file workspace/skills/NAME/SKILL.md, see agent-daemon(1)",
        );
    }
    for standing in &standings {
        let (name, path) = (
            text::visible(&standing.name),
            text::visible(&home.display(&standing.path)),
        );
        cli::out(&match &standing.off {
            None => format!(
                "on   {name}  {path}  {}",
                text::shorten(&text::visible(&standing.description), 200)
            ),
            Some(why) => {
                let exactly = exactly(standing).filter(|_| why.is_about_trust());
                let trust = exactly.map(|name| {
                    format!("; once you have read it: agent-send --skill trust {name}")
                });
                format!(
                    "off  {name}  {path}  {}{}",
                    text::visible(&why.to_string()),
                    trust.unwrap_or_default()
                )
            }
        });
        if !standing.needs.is_empty() {
            let lacking = standing.needs.lacking(&here);
            let lacks = match lacking.is_empty() {
                true => "all of it is there".to_owned(),
                false => format!("lacks {}", lacking.join("; ")),
            };
            let words = format!("needs {}: {lacks}", standing.needs.words());
            cli::out(&format!("     {}", text::visible(&words)));
        }
        for mistake in &standing.mistakes {
            cli::out(&format!("     {}", text::visible(mistake)));
        }
        if let Some(words) = skill_learned::counted(&counts(&standing.name)) {
            cli::out(&format!("     {words}"));
        }
        if idle.contains(&standing.name) {
            let remove = format!("agent-send --skill remove {name}");
            cli::out(&format!("     of no use for 60 days: {remove}"));
        }
    }
    let proposed = skill_learned::proposed(home, &proposals);
    proposed.iter().for_each(|line| cli::out(line));
    Ok(Exit::Ok)
}

/// Returns what commands have here, as far as this shell's `$PATH` is the daemon's.
fn surroundings(context: &Context<'_>) -> Surroundings {
    let network = config::load_config(context.home, context.env)
        .map(|config| config.tools.exec.network)
        .unwrap_or_default();
    let path = context.env.get("PATH").unwrap_or_default();
    Surroundings::of(&path.to_string_lossy(), &network, context.home.workspace())
}

fn document(
    home: &Home,
    standing: &SkillStatus,
    here: &Surroundings,
    counts: &Counts,
) -> serde_json::Value {
    json!({
        "name": standing.name,
        "path": home.display(&standing.path),
        "on": standing.off.is_none(),
        "why": standing.off.as_ref().map(ToString::to_string),
        "description": standing.description,
        "needs": standing.needs,
        "lacks": standing.needs.lacking(here),
        "mistakes": standing.mistakes,
        "sha256": standing.sha256.as_ref().ok(),
        "trusted_sha256": standing.trusted,
        "counts": counts,
    })
}
