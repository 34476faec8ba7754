//! Checks the modes and owners of the home's files, and finds files that were moved aside.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::Finding;
use super::context::{DoctorContext, age, quote, user};
use super::repair::Repair;
use crate::sys::atomic;

/// The most files that are looked at; a home with more has old transcripts, which are private
/// because their directory is.
const MOST: usize = 100_000;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let mut findings = secrets(context);
    findings.extend(settings(context));
    let state = walk(context);
    findings.extend(owners(context, &state));
    findings.extend(modes(context, &state));
    findings.extend(aside(context, &state));
    findings.extend(unreadable(context));
    findings
}

/// Files of the state that nobody sets aside, and what does not happen without them.
const DECISIONS: [(&str, &str); 5] = [
    ("learned.json", "nothing that the agent learned is used"),
    ("mcp-auth.json", "the sign-ins at tool servers are lost"),
    ("mcp-trust.json", "no tool server is used"),
    (
        "rules.json",
        "the owner is asked again about what they allowed for good",
    ),
    ("skills.json", "no skill is used"),
];

fn unreadable(context: &DoctorContext) -> Vec<Finding> {
    let finding = |(name, so): &(&str, &str)| {
        let path = context.home.state().join(name);
        let bytes = atomic::read(&path).ok().flatten()?;
        let error =
            serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(&bytes).err()?;
        let evidence = format!("state/{name} is no JSON ({error}), so {so}");
        let edit = context.edit(&path, None);
        Some(Finding::error("state-unreadable", evidence, edit))
    };
    DECISIONS.iter().filter_map(finding).collect()
}

/// Returns what something is called.
pub(super) fn kind(meta: &Metadata) -> &'static str {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_symlink() => "a link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () if kind.is_file() => "a file",
        () => "a device",
    }
}

/// Returns the permission bits.
pub(super) fn mode(meta: &Metadata) -> u32 {
    meta.mode() & 0o777
}

/// `.env` is refused by the daemon when others can read it; auth.json it repairs itself.
fn secrets(context: &DoctorContext) -> Vec<Finding> {
    let paths = [
        context.home.env_file(),
        context.home.auth(),
        context.home.server_auth(),
    ];
    let open = |path: &PathBuf| {
        let meta = std::fs::metadata(path)
            .ok()
            .filter(|meta| mode(meta) & 0o077 != 0)?;
        let evidence = format!(
            "{} holds secrets, and its mode {:04o} lets others read it",
            path.display(),
            mode(&meta)
        );
        let finding = Finding::error(
            "secrets-readable",
            evidence,
            format!("{}chmod 600 {}", context.sudo(), quote(path)),
        );
        let link = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
        Some(if link {
            finding
        } else {
            finding.repaired_by(Repair::Modes(vec![(path.clone(), 0o600)]))
        })
    };
    paths.iter().filter_map(open).collect()
}

/// Who can change the settings can make the agent do anything.
fn settings(context: &DoctorContext) -> Option<Finding> {
    let home = &context.home;
    let dirs = [home.providers_dir(), home.channel_settings()];
    let inside = dirs
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let own = [home.config_dir().to_owned(), home.config_file().to_owned()];
    let paths = own.into_iter().chain(dirs.clone()).chain(inside);
    let open: Vec<(PathBuf, u32)> = paths
        .filter_map(|path| {
            Some((
                std::fs::symlink_metadata(&path)
                    .ok()
                    .filter(|meta| !meta.is_symlink())?,
                path,
            ))
        })
        .filter(|(meta, _)| mode(meta) & 0o002 != 0 && meta.mode() & 0o1000 == 0)
        .map(|(meta, path)| (path, meta.mode() & 0o7777 & !0o022))
        .collect();
    let (first, _) = open.first()?;
    let evidence = format!(
        "anybody on this machine can change {}{}",
        first.display(),
        more(open.len())
    );
    let words: Vec<String> = open.iter().map(|(path, _)| quote(path)).collect();
    let command = format!("{}chmod go-w {}", context.sudo(), words.join(" "));
    Some(Finding::error("config-writable", evidence, command).repaired_by(Repair::Modes(open)))
}

/// The files and directories of `state/` that are ours to judge, parents first.
fn walk(context: &DoctorContext) -> Vec<(PathBuf, Metadata)> {
    let (state, workspace) = (context.home.state(), context.home.workspace());
    let mut found: Vec<(PathBuf, Metadata)> = std::fs::metadata(state)
        .map(|meta| (state.to_owned(), meta))
        .into_iter()
        .collect();
    let mut open = vec![state.to_owned()];
    while let Some(dir) = open.pop() {
        // One that cannot be listed has a mode that is told.
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let (path, name) = (entry.path(), entry.file_name());
            // The state of the system's agent is its HOME, and others' programs keep things there.
            let is_hidden = dir == *state && name.as_encoded_bytes().starts_with(b".");
            let theirs =
                meta.is_symlink() || path == workspace || name == "lost+found" || is_hidden;
            if theirs || found.len() >= MOST {
                continue;
            }
            // What a tool server keeps in its own directory is its own; nobody else looks into that.
            if meta.is_dir() && dir != state.join("mcp") {
                open.push(path.clone());
            }
            found.push((path, meta));
        }
    }
    found
}

fn owners(context: &DoctorContext, state: &[(PathBuf, Metadata)]) -> Option<Finding> {
    let owner = context.owner?;
    let fifo = context.home.fifo();
    let foreign: Vec<_> = state
        .iter()
        .filter(|(path, meta)| meta.uid() != owner && *path != fifo)
        .collect();
    let (path, meta) = foreign.first()?;
    let evidence = format!(
        "{}{} belongs to {}, the rest of state/ to {}: was the daemon started by the wrong user?",
        context.shown(path),
        more(foreign.len()),
        user(meta.uid()),
        user(owner)
    );
    let command = format!(
        "sudo chown -R {}: {}",
        quote(user(owner)),
        quote(context.home.state())
    );
    Some(Finding::error("state-owner", evidence, command))
}

fn modes(context: &DoctorContext, state: &[(PathBuf, Metadata)]) -> Option<Finding> {
    let wrong: Vec<_> = state
        .iter()
        .filter_map(|(path, meta)| Some((path, meta, proper(context, path, meta)?)))
        .collect();
    let (path, meta, _) = wrong.first()?;
    let others = wrong.iter().any(|(_, meta, _)| mode(meta) & 0o077 != 0);
    let harm = if others {
        "others may look into it"
    } else {
        "the daemon may not change it"
    };
    let evidence = format!(
        "{} has the mode {:04o}{}: {harm}",
        context.shown(path),
        mode(meta),
        more(wrong.len())
    );
    let repair: Vec<(PathBuf, u32)> = wrong
        .iter()
        .map(|(path, _, proper)| ((*path).clone(), *proper))
        .collect();
    let command = match repair.as_slice() {
        [(path, mode)] => format!("{}chmod {mode:o} {}", context.sudo(), quote(path)),
        _ => context.agent("doctor --fix"),
    };
    Some(Finding::warning("state-modes", evidence, command).repaired_by(Repair::Modes(repair)))
}

/// Returns the mode that something should have instead: directories 0700, files 0600. What lies
/// deeper may be closed to its owner, too: an archive that is to stay as it is.
fn proper(context: &DoctorContext, path: &Path, meta: &Metadata) -> Option<u32> {
    let home = &context.home;
    if path == home.fifo() || path == home.auth() {
        return None;
    }
    let at_top = path.parent() == Some(home.state());
    match () {
        () if meta.is_dir() => (mode(meta) != 0o700).then_some(0o700),
        () if meta.is_file() => {
            let closed_to_us = at_top && mode(meta) & 0o600 != 0o600;
            // A program stays one.
            (mode(meta) & 0o077 != 0 || closed_to_us).then_some(0o600 | mode(meta) & 0o100)
        }
        () => None,
    }
}

/// Files that could not be read and were kept for a person to look at.
fn aside(context: &DoctorContext, state: &[(PathBuf, Metadata)]) -> Option<Finding> {
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    let is_log = |name: &str| name.ends_with("-wal") || name.ends_with("-shm");
    let aside: Vec<_> = state
        .iter()
        .filter(|(path, _)| name(path).contains(".corrupt-") && !is_log(&name(path)))
        .collect();
    let (path, meta) = aside.iter().max_by_key(|(_, meta)| meta.mtime())?;
    let age = age(context.now - meta.mtime() * 1000);
    let evidence = format!(
        "{} could not be read and was set aside, last changed {age} ago ({} bytes){}; save what you need, then remove it",
        context.shown(path),
        meta.len(),
        more(aside.len())
    );
    let mut dirs: Vec<&Path> = aside.iter().filter_map(|(path, _)| path.parent()).collect();
    dirs.sort();
    dirs.dedup();
    let words: Vec<String> = dirs
        .iter()
        .map(|dir| format!("{}/*.corrupt-*", quote(dir)))
        .collect();
    Some(Finding::warning(
        "set-aside",
        evidence,
        format!("{}ls -l {}", context.sudo(), words.join(" ")),
    ))
}

/// Returns ` (and 3 more)` for four.
pub(super) fn more(count: usize) -> String {
    if count < 2 {
        String::new()
    } else {
        format!(" (and {} more)", count - 1)
    }
}
