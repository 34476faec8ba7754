//! Finds problems in the files of the system text, for the administrator of the agent.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Sources;
use super::system_prompt::MAX_LISTED;
use crate::config::{Loaded, Origin, ROLES};
use crate::skills::{Off, Why};
use crate::text::hidden_chars;

/// The files that are checked for hidden characters, in addition to prompts and files of tiers.
const FILES: [&str; 7] = [
    "SOUL.md",
    "IDENTITY.md",
    "AGENTS.md",
    "USER.md",
    "TOOLS.md",
    "MEMORY.md",
    "HEARTBEAT.md",
];
/// Bytes of a file that are looked through: no more of it is ever used.
const MAX_BYTES: u64 = 4 << 20;

/// Something about those files that their owner should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// What it is about.
    pub about: About,
    /// The file or directory.
    pub path: Option<PathBuf>,
    /// What is wrong, a sentence without its end; files are in it by their paths in the workspace.
    pub words: String,
}

/// What a remark is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// What does not fit.
    Cut,
    /// Characters that nobody sees.
    Hidden,
    /// A prompt that is asked for.
    Prompt,
    /// A file that is there and cannot be read.
    Unreadable,
    /// A file that is left out because it holds untrusted words.
    Untrusted,
    /// A file of a tier.
    Tier,
    /// A skill that is off because it is broken, or has a mistake in its head.
    Skill,
    /// A skill that is off until its owner says that it is good.
    Trust,
}

/// Returns what is wrong with the files of these settings.
pub fn survey(sources: &Sources, loaded: &Loaded) -> Vec<Remark> {
    let mut remarks = cuts(sources, loaded);
    remarks.extend(unreadable(sources));
    remarks.extend(marked(sources));
    remarks.extend(unseen(sources, loaded));
    remarks.extend(prompts(sources, loaded));
    remarks.extend(tiers(sources, loaded));
    remarks.extend(skills(sources));
    remarks
}

fn cuts(sources: &Sources, loaded: &Loaded) -> Vec<Remark> {
    let mut models = Vec::new();
    // The sources of messages are first.
    for role in ROLES.iter().take(4) {
        models.extend(
            loaded
                .models
                .for_role(role)
                .filter(|model| !models.contains(model)),
        );
    }
    let remark = |model: &std::sync::Arc<crate::config::Model>| {
        let cut = sources.cut(&loaded.config, &loaded.models, model)?;
        let words = format!(
            "the prompt files have about {} tokens, and a quarter of the window of {} is {}: {} are cut in every prompt",
            cut.tokens,
            model.name,
            cut.budget,
            cut.names.join(", ")
        );
        Some(Remark {
            about: About::Cut,
            path: None,
            words,
        })
    };
    models.iter().filter_map(remark).collect()
}

/// Such a file is missing in every prompt, and the agent answers without it.
fn unreadable(sources: &Sources) -> Vec<Remark> {
    let remark = |name: &str| {
        let path = sources.workspace().join(name);
        let error = File::open(&path).err()?;
        let words = format!("{name} cannot be read ({error}), so it is missing in every prompt");
        (error.kind() != std::io::ErrorKind::NotFound).then_some(Remark {
            about: About::Unreadable,
            path: Some(path),
            words,
        })
    };
    FILES.into_iter().filter_map(remark).collect()
}

/// The agent answers without it until it is the owner's again.
fn marked(sources: &Sources) -> Vec<Remark> {
    let remark = |(name, why): (&str, &str)| Remark {
        about: About::Untrusted,
        path: Some(sources.workspace().join(name)),
        words: format!("{name} is missing in every prompt: {why}"),
    };
    sources.files().marked().into_iter().map(remark).collect()
}

/// The files are their owner's: nothing is left out, it is only said.
fn unseen(sources: &Sources, loaded: &Loaded) -> Vec<Remark> {
    let prompts = loaded
        .models
        .all()
        .flat_map(|model| sources.prompts(&loaded.config, Some(model)))
        .filter_map(|(_, prompt)| prompt)
        .chain(sources.persona(&loaded.config))
        .map(|prompt| (prompt.name, prompt.path));
    let of_tiers = loaded
        .config
        .context
        .tiers
        .values()
        .flat_map(|tier| tier.files.clone());
    let named = FILES
        .map(str::to_owned)
        .into_iter()
        .chain(of_tiers)
        .map(|name| (name.clone(), sources.workspace().join(name)));
    let mut files: Vec<(String, PathBuf)> = named.chain(prompts).collect();
    files.sort_by(|a, b| a.1.cmp(&b.1));
    files.dedup_by(|a, b| a.1 == b.1);
    let remark = |(name, path): (String, PathBuf)| {
        let found = hidden_chars::find(&text_of(&path)?, 1000);
        let (first, more) = (found.first()?, found.len() - 1);
        let more = if more > 0 {
            format!(" (and {more} more)")
        } else {
            String::new()
        };
        let words =
            format!("{name} has an invisible character that the model reads: {first}{more}");
        Some(Remark {
            about: About::Hidden,
            path: Some(path),
            words,
        })
    };
    files.into_iter().filter_map(remark).collect()
}

fn text_of(path: &Path) -> Option<String> {
    if !path.symlink_metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path)
        .ok()?
        .take(MAX_BYTES)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn prompts(sources: &Sources, loaded: &Loaded) -> Vec<Remark> {
    let config = &loaded.config;
    let mut remarks = Vec::new();
    for dir in sources.config_path(config) {
        let words = match dir.metadata() {
            // What the agent writes there would be its own orders.
            Ok(_) if dir.starts_with(sources.workspace()) => {
                "is in the workspace, where the agent itself may write"
            }
            Ok(metadata) if metadata.is_dir() => continue,
            Ok(_) => "is no directory",
            Err(_) => "is not there",
        };
        remarks.push(Remark {
            about: About::Prompt,
            words: format!("agent.config_path: {} {words}", dir.display()),
            path: Some(dir),
        });
    }
    if loaded.origin("agent.roles") != Origin::Default {
        let absent = sources
            .prompts(config, None)
            .into_iter()
            .filter(|(name, prompt)| prompt.is_none() && config.agent.roles.contains(name));
        remarks.extend(absent.map(|(name, _)| {
            Remark {
                about: About::Prompt,
                words: format!(
                    "agent.roles names {name}, but there is no prompts/{name}.md with text in it"
                ),
                path: Some(
                    sources
                        .workspace()
                        .join("prompts")
                        .join(format!("{name}.md")),
                ),
            }
        }));
    }
    remarks
}

fn tiers(sources: &Sources, loaded: &Loaded) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for (tier, own) in &loaded.config.context.tiers {
        for file in &own.files {
            let why = match sources.files().beneath(file) {
                Ok(Some(_)) => continue,
                Ok(None) => "is not there, or empty".to_owned(),
                Err(error) => format!("cannot be used: {error}"),
            };
            let words = format!("context.tiers.{tier} names {file}, which {why}");
            remarks.push(Remark {
                about: About::Tier,
                path: Some(sources.workspace().join(file)),
                words,
            });
        }
    }
    remarks
}

fn skills(sources: &Sources) -> Vec<Remark> {
    let catalog = sources.catalog();
    let remark = |off: &Off| Remark {
        about: match off.why {
            Why::Untrusted(_) | Why::Changed | Why::Distrusted | Why::Unknown(_) => About::Trust,
            Why::Hidden(_) => About::Hidden,
            Why::Wrong(_) | Why::Taken(_) => About::Skill,
        },
        path: Some(off.path.clone()),
        words: format!(
            "the skill {} is off: {}",
            crate::text::visible(&off.name),
            off.why
        ),
    };
    let unwanted = |off: &&Off| off.why != Why::Distrusted;
    let mut remarks: Vec<Remark> = catalog.off.iter().filter(unwanted).map(remark).collect();
    let mistaken = catalog.skills.iter().flat_map(|skill| {
        let mistakes = skill.mistakes.iter().filter(|_| !skill.ships);
        mistakes.map(|mistake| Remark {
            about: About::Skill,
            path: Some(sources.workspace().join(&skill.location)),
            words: format!(
                "the skill {} is not read as it is meant: {mistake}",
                skill.name
            ),
        })
    });
    remarks.extend(mistaken);
    let listed = catalog
        .skills
        .iter()
        .filter(|skill| !skill.always_on)
        .count();
    if listed > MAX_LISTED {
        let words = format!("there are {listed} skills, and the prompt lists {MAX_LISTED} of them");
        remarks.push(Remark {
            about: About::Skill,
            path: None,
            words,
        });
    }
    remarks
}
