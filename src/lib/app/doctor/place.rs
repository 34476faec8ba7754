//! Checks the file system and the time zone of the home.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use chrono_tz::Tz;
use nix::sys::statfs::{FsType, statfs};

use super::Finding;
use super::context::{DoctorContext, quote};
use crate::config;
use crate::config::Origin;

/// File systems over a network by their magic numbers (statfs(2)): SQLite's log in shared memory does not work over
/// them (sqlite.org/wal.html).
const OVER_NETWORK: [(FsType, &str); 7] = [
    (FsType(0x6969), "NFS"),
    (FsType(0x517B), "SMB"),
    (FsType(0xFF53_4D42), "CIFS"),
    (FsType(0xFE53_4D42), "SMB"),
    (FsType(0x5346_414F), "AFS"),
    (FsType(0x00C3_6400), "Ceph"),
    (FsType(0x7375_7245), "Coda"),
];

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let mut findings: Vec<Finding> = network(context).into_iter().collect();
    findings.extend(zone(context));
    findings
}

fn network(context: &DoctorContext) -> Option<Finding> {
    let state = context.home.state();
    on(state, statfs(state).ok()?.filesystem_type())
}

/// Says that a state is on a file system of another machine.
fn on(state: &Path, magic: FsType) -> Option<Finding> {
    let kind = over_network(magic)?;
    let evidence = format!(
        "{} is on {kind}: databases can be damaged there; keep the state on a disk of this machine",
        state.display()
    );
    Some(Finding::error(
        "network-filesystem",
        evidence,
        format!("findmnt -T {}", quote(state)),
    ))
}

fn over_network(magic: FsType) -> Option<&'static str> {
    OVER_NETWORK
        .iter()
        .find(|(known, _)| *known == magic)
        .map(|(_, name)| *name)
}

/// The agent's days and reminders follow UTC only because nobody chose a zone; or the machine's is unknown.
fn zone(context: &DoctorContext) -> Option<Finding> {
    let loaded = context.settings.as_ref().ok()?;
    let named = context
        .env
        .get("TZ")
        .and_then(|zone| zone.into_string().ok());
    if let Some(name) = named.filter(|name| unknown(name)) {
        let evidence = format!(
            "TZ={} is not a time zone known to this program: UTC is used instead",
            crate::text::visible(&name)
        );
        return Some(Finding::warning(
            "timezone-unknown",
            evidence,
            "timedatectl list-timezones",
        ));
    }
    let is_chosen = loaded.origin("agent.timezone") != Origin::Default;
    let machine = config::machine_zone(&context.env);
    (!is_chosen && context.home.config_file().exists() && !is_utc(machine)).then(|| {
        let evidence = format!(
            "[agent] timezone is not set, so that days and reminders follow UTC; this machine is in {}",
            machine.name()
        );
        Finding::warning("timezone-unset", evidence, context.edit(context.home.config_file(), None))
    })
}

/// UTC has many names.
fn is_utc(zone: Tz) -> bool {
    let name = zone.name().trim_start_matches("Etc/");
    ["UTC", "UCT", "Universal", "Zulu", "GMT", "Greenwich"].contains(&name)
}

/// `TZ` may also be a file or a rule of POSIX (tzset(3)), which say nothing wrong.
fn unknown(name: &str) -> bool {
    let name = name.trim_start_matches(':');
    let is_rule = name.chars().any(|c| c.is_ascii_digit()) && !name.contains('/');
    !is_rule && !name.starts_with('/') && name.parse::<Tz>().is_err() && !is_file(name)
}

fn is_file(name: &str) -> bool {
    std::fs::metadata(Path::new("/usr/share/zoneinfo").join(name)).is_ok_and(|meta| meta.size() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_other_machines_are_known_by_their_numbers() {
        assert_eq!(over_network(FsType(0x6969)), Some("NFS"));
        assert_eq!(over_network(FsType(0xFF53_4D42)), Some("CIFS"));
        let own = [FsType(0xEF53), FsType(0x0102_1994)].map(over_network);
        assert_eq!(own, [None; 2], "ext4, tmpfs");
        let id = |magic| on(Path::new("/srv/agent"), FsType(magic)).map(|finding| finding.id);
        assert_eq!([id(0x6969), id(0xEF53)], [Some("network-filesystem"), None]);
    }

    #[test]
    fn a_zone_that_nobody_chose_or_nobody_knows_is_named() {
        let dir = tempfile::tempdir().expect("dir");
        let put = |text: &str| {
            let rename = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&dir.path().join("agent.toml"), text.as_bytes(), rename)
                .expect("write");
        };
        let id = |zone: &str| {
            let context = DoctorContext::of(dir.path(), &[("TZ", zone)]);
            super::zone(&context).map(|finding| finding.id)
        };
        put("");
        assert_eq!(id("Europe/Berlin"), Some("timezone-unset"));
        assert_eq!(id("UTC"), None);
        assert_eq!(id("Europe/Atlantis"), Some("timezone-unknown"));
        assert_eq!([id("Etc/UTC"), id("Zulu")], [None; 2]);
        assert_ne!(id("CET-1CEST"), Some("timezone-unknown"), "a rule");
        put("[agent]\ntimezone = \"UTC\"\n");
        assert_eq!(id("Europe/Berlin"), None);
    }
}
