//! Checks the machine: disk space, watches, the clock, the sandbox of commands, `$PATH`.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use notify::{RecursiveMode, Watcher};
use serde::Serialize;

use super::Finding;
use super::context::{DoctorContext, age, is_program, quote, user};
use crate::app::daemon::build;
use crate::app::systemd_unit;
use crate::config::Sandbox;
use crate::sandbox;
use crate::sandbox::Level;
use crate::tools::KNOWN_PROGRAMS;
use crate::{app, clock, sys};

/// Less than this is too little on any file system: a few conversations and their databases need it.
const SCARCE: u64 = 10 << 20;
/// Less than this is too little for a day of the agent's files.
const LITTLE: u64 = 100 << 20;
/// And so is less than 1/50, while it is below 5 GB: what one download fills.
const PART: u64 = 50;
const ENOUGH: u64 = 5 << 30;
/// Free inodes; a day makes some hundred files.
const FEW_FILES: u64 = 1000;
/// 2024-01-01, before any version of this program.
const OLDEST_CLOCK: i64 = 1_704_067_200_000;
/// Files may be so much newer than now: clocks of file servers differ a little.
const FUTURE_MS: i64 = 300_000;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let mut findings = disks(context);
    findings.extend(watches(context));
    findings.extend(time(context));
    findings.extend(wall(context));
    findings.extend(programs(context));
    findings.extend(lingering(context));
    findings
}

/// The wall around commands.
#[derive(Debug, Serialize)]
pub(super) struct Wall {
    pub level: String,
    /// What it lets through.
    pub risk: &'static str,
    /// What bounds the memory of a command's processes together; known of a daemon that runs.
    pub memory: Option<&'static str>,
}

/// Returns the wall around commands, where commands run.
pub(super) fn sandbox_in_force(context: &DoctorContext) -> Option<Wall> {
    let exec = &context.settings.as_ref().ok()?.config.tools.exec;
    if !exec.runs() {
        return None;
    }
    let level = if exec.sandbox == Sandbox::Off {
        &Level::Off
    } else {
        sandbox::level()
    };
    Some(Wall {
        level: level.to_string(),
        risk: level.remaining_risk(),
        memory: context.pid().map(|pid| {
            if sandbox::has_control_groups(pid) {
                "a control group for each command"
            } else if *level == Level::Off {
                "nothing"
            } else {
                "the total is monitored"
            }
        }),
    })
}

/// Returns, where commands run, which of the well-known programs they find, and which not.
pub(super) fn known_programs(
    context: &DoctorContext,
) -> Option<(Vec<&'static str>, Vec<&'static str>)> {
    let config = &context.settings.as_ref().ok()?.config;
    let found = build::exec_settings(&context.home, &context.env, config, &[])?.programs;
    let names = KNOWN_PROGRAMS.iter().map(|(name, _)| *name);
    let missing = names.filter(|name| !found.contains(name)).collect();
    Some((found, missing))
}

fn disks(context: &DoctorContext) -> Vec<Finding> {
    let home = &context.home;
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for dir in [home.state(), home.workspace()] {
        let Some((place, meta)) = dir
            .ancestors()
            .find_map(|dir| Some((dir, std::fs::metadata(dir).ok()?)))
        else {
            continue;
        };
        if !seen.insert(meta.dev()) {
            continue;
        }
        let Ok(fs) = statvfs(place) else { continue };
        // What cannot be written is told as such.
        if fs.flags().contains(FsFlags::ST_RDONLY) {
            continue;
        }
        let size = |blocks: u64| blocks.saturating_mul(fs.fragment_size());
        if let Some(evidence) = little_room(size(fs.blocks_available()), size(fs.blocks())) {
            let evidence = format!("{evidence} on the file system of {}", dir.display());
            findings.push(Finding::error(
                "disk-full",
                evidence,
                format!("df -h {}", quote(place)),
            ));
        }
        // File systems that count no files say 0 of 0.
        if fs.files() > 0 && fs.files_available() < FEW_FILES {
            let evidence = format!(
                "only {} more files can be made on the file system of {}",
                fs.files_available(),
                dir.display()
            );
            findings.push(Finding::error(
                "inodes-low",
                evidence,
                format!("df -i {}", quote(place)),
            ));
        }
    }
    findings
}

fn little_room(free: u64, size: u64) -> Option<String> {
    // Of a file system that is hardly larger, half is enough.
    let little = free < SCARCE
        || (free < LITTLE && free < size / 2)
        || (free < size / PART && free < ENOUGH);
    (little && size > 0).then(|| {
        let tenths = u128::from(free) * 1000 / u128::from(size);
        format!(
            "only {} MB ({}.{} %) are free",
            free >> 20,
            tenths / 10,
            tenths % 10
        )
    })
}

/// Without a watcher everything still works, later.
fn watches(context: &DoctorContext) -> Option<Finding> {
    let home = &context.home;
    let dir = [
        home.spool_new(),
        home.state().to_owned(),
        PathBuf::from("/"),
    ]
    .into_iter()
    .find(|dir| dir.is_dir())?;
    let watched = sys::file_watcher(|_| {}, notify::Config::default())
        .and_then(|mut watcher| watcher.watch(&dir, RecursiveMode::NonRecursive));
    // What may not be looked at is told with the modes.
    let error = watched.err().filter(|error| !is_refusal(error))?;
    let full = match &error.kind {
        notify::ErrorKind::MaxFilesWatch => Some("fs.inotify.max_user_watches=524288"),
        notify::ErrorKind::Io(io) if io.raw_os_error() == Some(libc::EMFILE) => {
            Some("fs.inotify.max_user_instances=1024")
        }
        _ => None,
    };
    let evidence = format!(
        "nothing can be watched ({error}): commands wait up to 5 seconds, answers up to 1 second"
    );
    let command = full.map_or_else(
        || "sysctl fs.inotify".to_owned(),
        |limit| format!("sudo sysctl -w {limit}"),
    );
    Some(Finding::warning("inotify-exhausted", evidence, command))
}

fn is_refusal(error: &notify::Error) -> bool {
    matches!(&error.kind, notify::ErrorKind::Io(io) if io.kind() == std::io::ErrorKind::PermissionDenied)
}

fn time(context: &DoctorContext) -> Option<Finding> {
    let home = &context.home;
    let written = |path: PathBuf| {
        let meta = std::fs::metadata(&path).ok()?;
        Some((meta.mtime() * 1000, path))
    };
    let newest = [
        home.monitor(),
        home.queue_db(),
        home.cost_db(),
        home.people(),
        home.sessions_index(),
    ]
    .into_iter()
    .filter_map(written)
    .max()
    .map(|(at, path)| (at, context.shown(&path)));
    let evidence = absurd(context.now, newest)?;
    let command = if context.on_path("timedatectl").is_some() {
        "timedatectl"
    } else {
        "date -u"
    };
    Some(Finding::error("clock-wrong", evidence, command))
}

fn absurd(now: i64, newest: Option<(i64, String)>) -> Option<String> {
    if now < OLDEST_CLOCK {
        return Some(format!(
            "the clock says {}: keys and certificates count as not yet valid",
            clock::rfc3339(now)
        ));
    }
    let (at, name) = newest?;
    (at > now + FUTURE_MS).then(|| {
        format!(
            "the clock says {}, and {name} was written {} later: one of the two is wrong",
            clock::rfc3339(now),
            age(at - now)
        )
    })
}

fn wall(context: &DoctorContext) -> Option<Finding> {
    let exec = &context.settings.as_ref().ok()?.config.tools.exec;
    // What is switched off is told with the settings.
    let runs = exec.runs() && exec.sandbox != Sandbox::Off;
    if runs { weak(sandbox::level()) } else { None }
}

/// What forbids user namespaces: the setting of the kernel, the value that does, and the one that allows them.
const FORBIDDING: [(&str, &str, &str, &str); 3] = [
    (
        "kernel.apparmor_restrict_unprivileged_userns",
        "1",
        "0",
        "AppArmor",
    ),
    (
        "kernel.unprivileged_userns_clone",
        "0",
        "1",
        "the distribution",
    ),
    (
        "user.max_user_namespaces",
        "0",
        "15000",
        "the administrator",
    ),
];

/// Returns who forbids namespaces, and the command that allows them.
fn remedy(value: &dyn Fn(&str) -> Option<String>) -> (String, String) {
    let forbids = |(name, forbidding, ..): &&(&str, &str, &str, &str)| {
        value(name).as_deref() == Some(forbidding)
    };
    match FORBIDDING.iter().find(forbids) {
        Some((name, is, allowed, who)) => (
            format!(" ({who} forbids user namespaces: {name} = {is})"),
            format!("sudo sysctl -w {name}={allowed}"),
        ),
        None => {
            let names: Vec<&str> = FORBIDDING.iter().map(|(name, ..)| *name).collect();
            (String::new(), format!("sysctl -e {}", names.join(" ")))
        }
    }
}

fn kernel_setting(name: &str) -> Option<String> {
    let path = Path::new("/proc/sys").join(name.replace('.', "/"));
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

fn weak(level: &Level) -> Option<Finding> {
    let (cause, command) = remedy(&kernel_setting);
    match level {
        Level::Namespaces | Level::Off => None,
        Level::Refused(why) => {
            let evidence =
                format!("commands are refused, no wall can be built around them: {why}{cause}");
            Some(Finding::warning("sandbox-refused", evidence, command))
        }
        Level::Landlock(_) => {
            let evidence = format!(
                "commands run in a weaker sandbox, {level}{cause}. {}",
                level.remaining_risk()
            );
            Some(Finding::warning("sandbox-weak", evidence, command))
        }
    }
}

/// Returns the programs that `$PATH` does not lead to, split: those beside this one, and the others.
fn lost(context: &DoctorContext, dir: &Path) -> (Vec<String>, Vec<String>) {
    app::names()
        .filter(|name| context.on_path(name).is_none())
        .partition(|name| is_program(&dir.join(name)))
}

/// A word for those who wonder why a shell or cron does not find the programs. It is not a finding: one
/// can start them by their path.
pub(super) fn off_path(context: &DoctorContext) -> Option<String> {
    let dir = context.programs()?;
    let (beside, _) = lost(context, dir);
    let line = format!("export PATH={}:\"$PATH\"", quote(dir));
    (!beside.is_empty()).then(|| {
        format!(
            "$PATH does not lead to {}; to change that: {line}",
            beside.join(", ")
        )
    })
}

fn programs(context: &DoctorContext) -> Option<Finding> {
    let dir = context.programs()?;
    let (_, absent) = lost(context, dir);
    let evidence = || {
        format!(
            "{} can be found neither through $PATH nor in {}",
            absent.join(", "),
            dir.display()
        )
    };
    (!absent.is_empty()).then(|| {
        Finding::warning(
            "programs-missing",
            evidence(),
            format!("ls -l {}", quote(dir)),
        )
    })
}

/// A unit of the user ends with the user's last session, unless the user lingers (loginctl(1)).
fn lingering(context: &DoctorContext) -> Option<Finding> {
    let unit = systemd_unit::enabled_of_user(&context.env, &context.home)?;
    let name = user(context.uid);
    (!Path::new("/var/lib/systemd/linger").join(&name).exists()).then(|| {
        let evidence = format!("{unit} is enabled for {name}, who does not linger: the daemon ends when {name} logs out");
        Finding::warning("linger-off", evidence, format!("loginctl enable-linger {}", quote(&name)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_100_mb_or_two_percent_of_a_small_disk() {
        let (mb, gb) = (1 << 20, 1 << 30);
        let cases = [
            (99 * mb, gb, Some("only 99 MB (9.6 %) are free")),
            (101 * mb, gb, None),
            (0, gb, Some("only 0 MB (0.0 %) are free")),
            (3 * gb, 200 * gb, Some("only 3072 MB (1.5 %) are free")),
            (6 * gb, 4000 * gb, None),
            (0, 0, None),
            (22 * mb, 24 * mb, None),
            (5 * mb, 24 * mb, Some("only 5 MB (20.8 %) are free")),
        ];
        for (free, size, expected) in cases {
            assert_eq!(
                little_room(free, size).as_deref(),
                expected,
                "{free} of {size}"
            );
        }
    }

    #[test]
    fn a_wall_that_is_weak_or_missing_is_named() {
        let id = |level: &Level| weak(level).map(|finding| finding.id);
        assert_eq!(id(&Level::Namespaces), None);
        assert_eq!(id(&Level::Landlock(6)), Some("sandbox-weak"));
        assert_eq!(
            id(&Level::Refused("no".to_owned())),
            Some("sandbox-refused")
        );
    }

    #[test]
    fn what_forbids_namespaces_is_named_with_the_command_that_allows_them() {
        let told = |set: &str, is: &str| remedy(&|name| (name == set).then(|| is.to_owned())).1;
        let expected = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
        assert_eq!(
            told("kernel.apparmor_restrict_unprivileged_userns", "1"),
            expected
        );
        assert_eq!(
            told("user.max_user_namespaces", "0"),
            "sudo sysctl -w user.max_user_namespaces=15000"
        );
        assert!(told("user.max_user_namespaces", "100").starts_with("sysctl -e "));
    }

    #[test]
    fn a_clock_before_the_program_and_a_file_after_now_are_absurd() {
        let now = 1_750_000_000_000;
        let newest = |ahead: i64| Some((now + ahead, "state/queue.db".to_owned()));
        assert_eq!(absurd(now, None), None);
        assert_eq!(absurd(now, newest(-1)), None);
        assert_eq!(absurd(now, newest(FUTURE_MS)), None);
        let told = absurd(now, newest(7_200_000)).expect("absurd");
        assert_eq!(
            told,
            "the clock says 2025-06-15T15:06:40.000Z, and state/queue.db was written 2 hours later: one of the two is wrong"
        );
        assert!(absurd(86_400_000, None).is_some_and(|told| told.contains("1970-01-02")));
    }
}
