//! Checks whether the programs of channel processes are installed.

use super::Finding;
use super::context::{DoctorContext, is_program};
use crate::channel::process::{Layout, is_held};
use crate::config::Loaded;

/// Programs that come with the toolkit, and how to have them.
const OURS: &[(&str, &str)] = &[
    ("mail", "scripts/install of the sources installs it"),
    (
        "matrix",
        "it is a separate package: scripts/install --with-matrix of the sources installs it",
    ),
];

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let channels = loaded.config.channels.iter();
    let enabled = channels.filter(|(_, channel)| channel.enabled);
    enabled
        .filter_map(|(name, _)| absent(context, name))
        .collect()
}

/// Says that there is neither the program that the units run nor a process of another one.
fn absent(context: &DoctorContext, name: &str) -> Option<Finding> {
    let program = format!("agent-channel-{name}");
    let beside = context.programs().map(|dir| dir.join(&program));
    let is_there = beside.is_some_and(|path| is_program(&path));
    let is_served = is_held(&Layout::new(context.home.channels().join(name)));
    if is_there || is_served || context.on_path(&program).is_some() {
        return None;
    }
    let ours = OURS.iter().find(|(ours, _)| *ours == name);
    let hint = ours.map_or_else(String::new, |(_, hint)| format!("; {hint}"));
    let page = match ours {
        Some(_) => format!("man 1 {program}"),
        None => "man 7 agent-channel".to_owned(),
    };
    Some(Finding::warning(
        "channel-not-installed",
        format!(
            "[channels.{name}] is enabled, {program} is not installed, and no other process serves the channel{hint}"
        ),
        page,
    ))
}
