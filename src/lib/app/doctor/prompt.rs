//! The files that make the prompt: do they fit, can a person read all of them, is what is asked for there?

use std::sync::Arc;

use super::Finding;
use super::subject::{Patient, quote};
use crate::config;
use crate::prompt;
use crate::prompt::{About, Remark, Sources};
use crate::skills::Skills;

/// Findings of one kind that are told; more would hide the others.
const MOST: usize = 10;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let Ok(loaded) = &patient.settings else {
        return Vec::new();
    };
    let skills = Skills::new(&patient.home, config::share_dir(&patient.env).as_deref());
    let remarks = prompt::survey(&Sources::new(&patient.home, Arc::new(skills)), loaded);
    let mut told: Vec<About> = Vec::new();
    let few = |remark: &Remark| {
        told.push(remark.about);
        told.iter().filter(|about| **about == remark.about).count() <= MOST
    };
    remarks
        .into_iter()
        .filter(few)
        .map(|remark| finding(patient, &remark))
        .collect()
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
