//! Checks the files of the prompt: their size, invisible characters, and missing files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Finding;
use super::context::{DoctorContext, quote, user};
use crate::config;
use crate::config::Loaded;
use crate::prompt;
use crate::prompt::{About, Remark, Sources};
use crate::skills::{Skill, Skills, Surroundings};

/// Findings of one kind that are told; more would hide the others.
const MOST: usize = 10;

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let skills = Skills::new(&context.home, config::share_dir(&context.env).as_deref());
    let skills = Arc::new(skills);
    let remarks = prompt::survey(&Sources::new(&context.home, skills.clone()), loaded);
    let mut told: Vec<About> = Vec::new();
    let few = |remark: &Remark| {
        told.push(remark.about);
        told.iter().filter(|about| **about == remark.about).count() <= MOST
    };
    remarks
        .into_iter()
        .filter(few)
        .map(|remark| finding(context, &remark))
        .chain(lacking(context, loaded, &skills))
        .collect()
}

/// Skills that the owner made or noted something for, and that cannot work; the others may never be wanted.
fn lacking(context: &DoctorContext, loaded: &Loaded, skills: &Skills) -> Vec<Finding> {
    let workspace = context.home.workspace();
    let path = context.env.get("PATH").unwrap_or_default();
    let network = &loaded.config.tools.exec.network;
    let here = Surroundings::of(&path.to_string_lossy(), network, workspace);
    let catalog = skills.catalog();
    let wanted = catalog
        .skills
        .iter()
        .filter(|skill| match &skill.needs.notes {
            Some(section) => here.has_notes(section),
            None => !skill.location.starts_with("share/"),
        });
    let finding = |skill: &Skill| {
        let lacking = skill.needs.lacking(&here);
        let evidence = format!("the skill {} lacks {}", skill.name, lacking.join("; "));
        let list = context.program("agent-send", "--skill list");
        (!lacking.is_empty()).then(|| Finding::warning("skill-lacks", evidence, list))
    };
    wanted.filter_map(finding).take(MOST).collect()
}

fn finding(context: &DoctorContext, remark: &Remark) -> Finding {
    let settings = || context.edit(context.home.config_file(), None);
    let list = || context.program("agent-send", "--skill list");
    let file = remark.path.as_ref();
    let (id, command) = match remark.about {
        About::Cut => (
            "prompt-cut",
            format!(
                "{}ls -lS {}",
                context.sudo(),
                quote(context.home.workspace())
            ),
        ),
        About::Hidden => (
            "hidden-characters",
            file.map_or_else(settings, |file| {
                format!("{}cat -A {}", context.sudo(), quote(file))
            }),
        ),
        About::Prompt => ("prompt-missing", settings()),
        About::Unreadable => (
            "prompt-unreadable",
            file.map_or_else(settings, |file| readable(context, file)),
        ),
        // The question shows all of it: nothing is theirs unread.
        About::Untrusted => ("prompt-untrusted", again(context, file)),
        About::Tier => ("tier-file", settings()),
        About::Skill => (
            "skill-broken",
            file.map_or_else(list, |file| context.edit(file, None)),
        ),
        // It is to be read first: a command that trusts it, too, would be typed unread.
        About::Trust => ("skill-untrusted", list()),
    };
    Finding::warning(id, remark.words.clone(), command)
}

/// Returns the command that has the agent write a file of the workspace again.
fn again(context: &DoctorContext, file: Option<&PathBuf>) -> String {
    let name = file.and_then(|file| file.file_name());
    let name = name.unwrap_or_default().to_string_lossy();
    let words = format!("read {name}, and write it again whole without what is not from me");
    context.program("agent-send", &quote(Path::new(&words)))
}

/// Returns the command that lets the agent read a file.
fn readable(context: &DoctorContext, file: &Path) -> String {
    let is_own = std::fs::metadata(file).is_ok_and(|meta| meta.uid() == context.uid);
    match is_own {
        true => format!("chmod u+r {}", quote(file)),
        false => format!("sudo chown {}: {}", quote(user(context.uid)), quote(file)),
    }
}
