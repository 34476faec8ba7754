//! `--skill`: which skills there are, and which of them the owner trusts. Works without a daemon, under
//! the lock of skills.json; a running daemon sees the change with the next message.
//!
//! What `list` shows and what is trusted later may be two things: NAME@HASH trusts only what was listed.

use std::io::IsTerminal;

use serde_json::json;

use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::config;
use crate::config::{Environment, Home};
use crate::skills::{Says, Skills, Standing, Why};
use crate::{clock, logging, text};

pub(super) fn skill(
    home: &Home,
    env: &Environment,
    words: &[String],
    json: bool,
) -> Result<Exit, Failure> {
    cli::must_be_there(home)?;
    let skills = Skills::new(home, config::share_dir(env).as_deref());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => list(home, &skills, json),
        [verb @ ("trust" | "distrust"), name] => {
            let (name, listed) = match name.split_once('@') {
                Some((name, hash)) if *verb == "trust" => {
                    (name, Some(hash_begins(hash, "agent-send --skill list")?))
                }
                _ => (*name, None),
            };
            cli::may_write(home)?;
            if !home.state().is_dir() {
                home.create()?;
            }
            // A damaged file is set aside; that must be seen.
            let _guard = logging::init(&logging::Options::stderr_only(0, false));
            let standing = named(&skills, name)?;
            if *verb == "trust" {
                trust(home, &skills, &standing, listed.as_deref(), json)
            } else {
                distrust(&skills, &standing, json)
            }
        }
        _ => Err(Failure::new(
            Exit::Usage,
            "--skill takes list, trust NAME[@HASH] or distrust NAME",
        )
        .hint("agent-send --help")),
    }
}

/// Digits of a hash that `list` prints, and the fewest that are taken.
pub(super) const SHOWN: usize = 16;
const FEWEST: usize = 8;
/// Files of a skill that are named when it is trusted.
const MAX_NAMED: usize = 40;

/// Reads the beginning of a hash; `list` is the command that prints it.
pub(super) fn hash_begins(word: &str, list: &'static str) -> Result<String, Failure> {
    if (FEWEST..=64).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(word.to_ascii_lowercase());
    }
    let message = format!("after the @ stand {FEWEST} to 64 digits of the hash, 0-9 and a-f");
    Err(Failure::new(Exit::Usage, message).hint(list))
}

/// Returns how a skill is called that may only be as it is now.
fn exactly(standing: &Standing) -> Option<String> {
    let hash = standing.sha256.as_ref().ok()?.get(..SHOWN)?;
    Some(format!("{}@{hash}", standing.name))
}

/// Returns the skill that goes by a name: the first of them is the one that would be used.
fn named(skills: &Skills, name: &str) -> Result<Standing, Failure> {
    let found = skills
        .standings()
        .into_iter()
        .find(|standing| standing.name == name);
    found.ok_or_else(|| {
        Failure::new(
            Exit::Failed,
            format!("no skill is called {}", text::visible(name)),
        )
        .hint("agent-send --skill list")
    })
}

fn trust(
    home: &Home,
    skills: &Skills,
    standing: &Standing,
    listed: Option<&str>,
    json: bool,
) -> Result<Exit, Failure> {
    let (name, path) = (&standing.name, home.display(&standing.path));
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(Exit::Failed, format!("{name} cannot be used: {why}"))
            .hint(format!("mend {path} first, then agent-send --skill list"))
    };
    match &standing.off {
        Some(why @ (Why::Wrong(_) | Why::Hidden(_) | Why::Taken(_))) => return Err(cannot(why)),
        Some(Why::Foreign(_) | Why::Changed | Why::Distrusted | Why::Unknown(_)) | None => {}
    }
    if let Some(listed) = listed {
        let now = standing.sha256.as_ref().map_err(|why| cannot(why))?;
        if !now.starts_with(listed) {
            let message = format!(
                "{name} is another one than you name: now it is {}",
                exactly(standing).unwrap_or_default()
            );
            return Err(
                Failure::new(Exit::Failed, format!("{message}; nothing was changed"))
                    .hint(format!("read {path} again, then agent-send --skill list")),
            );
        }
    }
    let (says, words) = if standing.foreign {
        let sha256 = standing.sha256.clone().map_err(|why| cannot(&why))?;
        (
            Says::Trust(sha256),
            format!(
                "{name} is trusted as it is now; when a file of it changes, it is off until you say so again"
            ),
        )
    } else {
        // A hash would only make their own edits a nuisance.
        (
            Says::Nothing,
            format!(
                "{name} is on; nobody but you could have written it, so it stays on when you edit it"
            ),
        )
    };
    let sha256 = if let Says::Trust(sha256) = &says {
        Some(sha256.clone())
    } else {
        None
    };
    skills.trust().say(name, says, clock::now_ms())?;
    if let Some(sha256) = sha256
        .as_ref()
        .filter(|_| !json && listed.is_none() && std::io::stdout().is_terminal())
    {
        over(standing, sha256)
            .iter()
            .for_each(|line| cli::out(line));
    }
    done(json, &json!({"trusted": name, "sha256": sha256}), &words);
    Ok(Exit::Ok)
}

/// Says what a hash is over.
fn over(standing: &Standing, sha256: &str) -> Vec<String> {
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

fn distrust(skills: &Skills, standing: &Standing, json: bool) -> Result<Exit, Failure> {
    skills
        .trust()
        .say(&standing.name, Says::Distrust, clock::now_ms())?;
    done(
        json,
        &json!({"distrusted": standing.name}),
        &format!("{} is off from now on", standing.name),
    );
    Ok(Exit::Ok)
}

fn done(json: bool, document: &serde_json::Value, words: &str) {
    if json {
        cli::json(document)
    } else {
        cli::out(words)
    }
}

fn list(home: &Home, skills: &Skills, json: bool) -> Result<Exit, Failure> {
    let standings = skills.standings();
    if json {
        let skills: Vec<serde_json::Value> = standings
            .iter()
            .map(|standing| document(home, standing))
            .collect();
        cli::json(&json!({"skills": skills}));
        return Ok(Exit::Ok);
    }
    if standings.is_empty() {
        cli::err(
            "agent-send: there are no skills; one is a file workspace/skills/NAME/SKILL.md, see agent-daemon(1)",
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
    }
    Ok(Exit::Ok)
}

fn document(home: &Home, standing: &Standing) -> serde_json::Value {
    json!({
        "name": standing.name,
        "path": home.display(&standing.path),
        "on": standing.off.is_none(),
        "why": standing.off.as_ref().map(ToString::to_string),
        "description": standing.description,
        "sha256": standing.sha256.as_ref().ok(),
        "trusted_sha256": standing.trusted,
    })
}
