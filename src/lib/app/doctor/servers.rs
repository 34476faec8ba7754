//! Checks whether the tool servers work and are trusted.

use super::Finding;
use super::context::DoctorContext;
use crate::app::send::mcp::statuses;
use crate::config::Loaded;
use crate::mcp::{Off, ServerStatus};

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    if loaded.config.mcp.servers.is_empty() {
        return Vec::new();
    }
    let statuses = statuses(&context.home, &loaded.config);
    statuses
        .iter()
        .flat_map(|status| of(context, status))
        .collect()
}

/// What the owner distrusts, and what no daemon has asked yet, is no trouble.
fn of(context: &DoctorContext, standing: &ServerStatus) -> Vec<Finding> {
    let name = &standing.name;
    let list = || context.program("agent-send", "--mcp list");
    let broken = standing.broken.as_ref().map(|why| {
        let evidence = format!(
            "the tool server {name} does not work: {}",
            crate::text::visible(why)
        );
        Finding::warning("mcp-broken", evidence, context.show_log())
    });
    let changed = match &standing.off {
        Some(Off::Changed) => Some(format!(
            "the tools of server {name} have changed since you trusted it, so its tools are off"
        )),
        Some(Off::Unasked) => Some(format!(
            "the tool server {name} is off until you trust what it offers"
        )),
        Some(Off::Unknown(why)) => Some(why.clone()),
        Some(Off::Distrusted | Off::Unseen) | None => None,
    };
    broken
        .into_iter()
        .chain(changed.map(|evidence| Finding::warning("mcp-untrusted", evidence, list())))
        .collect()
}
