//! The files that make the prompt: do they fit, can a person read all of them, is what is asked for there?

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::Finding;
use super::patient::{Patient, quote, user};
use crate::config;
use crate::config::Loaded;
use crate::prompt;
use crate::prompt::{About, Remark, Sources};
use crate::skills::{Skill, Skills, Surroundings};

/// Findings of one kind that are told; more would hide the others.
const MOST: usize = 10;

pub(super) fn check(patient: &Patient, loaded: &Loaded) -> Vec<Finding> {
    let skills = Skills::new(&patient.home, config::share_dir(&patient.env).as_deref());
    let skills = Arc::new(skills);
    let remarks = prompt::survey(&Sources::new(&patient.home, skills.clone()), loaded);
    let mut told: Vec<About> = Vec::new();
    let few = |remark: &Remark| {
        told.push(remark.about);
        told.iter().filter(|about| **about == remark.about).count() <= MOST
    };
    remarks
        .into_iter()
        .filter(few)
        .map(|remark| finding(patient, &remark))
        .chain(lacking(patient, loaded, &skills))
        .collect()
}

/// Skills that the owner made or noted something for, and that cannot work; the others may never be wanted.
fn lacking(patient: &Patient, loaded: &Loaded, skills: &Skills) -> Vec<Finding> {
    let workspace = patient.home.workspace();
    let path = patient.env.get("PATH").unwrap_or_default();
    let network = &loaded.config.tools.exec.network;
    let here = Surroundings::of(&path.to_string_lossy(), network, workspace);
    let shelf = skills.shelf();
    let wanted = shelf
        .skills
        .iter()
        .filter(|skill| match &skill.needs.notes {
            Some(section) => here.has_notes(section),
            None => !skill.location.starts_with("share/"),
        });
    let finding = |skill: &Skill| {
        let lacking = skill.needs.lacking(&here);
        let evidence = format!("the skill {} lacks {}", skill.name, lacking.join("; "));
        let list = patient.program("agent-send", "--skill list");
        (!lacking.is_empty()).then(|| Finding::warning("skill-lacks", evidence, list))
    };
    wanted.filter_map(finding).take(MOST).collect()
}

fn finding(patient: &Patient, remark: &Remark) -> Finding {
    let settings = || patient.edit(patient.home.config_file(), None);
    let list = || patient.program("agent-send", "--skill list");
    let file = remark.path.as_ref();
    let (id, command) = match remark.about {
        About::Cut => (
            "prompt-cut",
            format!(
                "{}ls -lS {}",
                patient.sudo(),
                quote(patient.home.workspace())
            ),
        ),
        About::Hidden => (
            "hidden-characters",
            file.map_or_else(settings, |file| {
                format!("{}cat -A {}", patient.sudo(), quote(file))
            }),
        ),
        About::Prompt => ("prompt-missing", settings()),
        About::Unreadable => (
            "prompt-unreadable",
            file.map_or_else(settings, |file| readable(patient, file)),
        ),
        About::Tier => ("tier-file", settings()),
        About::Skill => (
            "skill-broken",
            file.map_or_else(list, |file| patient.edit(file, None)),
        ),
        // It is to be read first: a command that trusts it, too, would be typed unread.
        About::Trust => ("skill-untrusted", list()),
    };
    Finding::warning(id, remark.words.clone(), command)
}

/// Returns the command that lets the agent read a file.
fn readable(patient: &Patient, file: &Path) -> String {
    let is_own = std::fs::metadata(file).is_ok_and(|meta| meta.uid() == patient.uid);
    match is_own {
        true => format!("chmod u+r {}", quote(file)),
        false => format!("sudo chown {}: {}", quote(user(patient.uid)), quote(file)),
    }
}
