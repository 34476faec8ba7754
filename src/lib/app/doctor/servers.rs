//! Do the tool servers work, and are they what the owner trusted?

use super::Finding;
use super::subject::Patient;
use crate::mcp;
use crate::mcp::{Off, Seen, ServerStatus};

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let Ok(loaded) = &patient.settings else {
        return Vec::new();
    };
    if loaded.config.mcp.servers.is_empty() {
        return Vec::new();
    }
    let seen = Seen::read(&patient.home.tool_servers());
    let trusted = mcp::approved_hashes(&patient.home.trusted_servers()).read();
    let findings = loaded.config.mcp.servers.iter().flat_map(|(name, server)| {
        let identity = mcp::identity(&server.command, &server.url);
        of(
            patient,
            &mcp::status((name, &identity, &server.trust), &seen, &trusted),
        )
    });
    findings.collect()
}

/// What the owner distrusts, and what no daemon has asked yet, is no trouble.
fn of(patient: &Patient, standing: &ServerStatus) -> Vec<Finding> {
    let name = &standing.name;
    let list = || patient.program("agent-send", "--mcp list");
    let broken = standing.broken.as_ref().map(|why| {
        let evidence = format!(
            "the tool server {name} does not work: {}",
            crate::text::visible(why)
        );
        Finding::warning("mcp-broken", evidence, patient.show_log())
    });
    let changed = match &standing.off {
        Some(Off::Changed) => Some(format!(
            "the tool server {name} offers something else than you trusted, so its tools are off"
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
