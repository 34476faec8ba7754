//! Finds notes that are behind a link and therefore not part of the memory, which follows no links.

use std::path::{Path, PathBuf};

use super::Finding;
use super::context::{DoctorContext, quote};
use super::files::more;

/// The most directories that are looked at.
const MOST: usize = 10_000;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let links = links(context.home.workspace());
    let finding = |link: &PathBuf| {
        let to = std::fs::read_link(link).unwrap_or_default();
        let evidence = format!(
            "{} is a link to {}{}: memory follows no links, so what is there is not found; if these are your notes, put \
             them in place of the link (cp -aT), or a directory, and mount them on it (mount --bind)",
            context.shown(link),
            to.display(),
            more(links.len())
        );
        // Only looked at: a command that copies would be pasted unread, and what the agent can write may lead anywhere.
        let there = link
            .canonicalize()
            .map(|there| format!(" {}", quote(there)));
        let command = format!(
            "{}ls -l {}{}",
            context.sudo(),
            quote(link),
            there.unwrap_or_default()
        );
        Finding::warning("memory-link", evidence, command)
    };
    links.first().map(finding).into_iter().collect()
}

/// Returns the links in the place of notes and their directories.
fn links(workspace: &Path) -> Vec<PathBuf> {
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let is_note = |path: &Path| {
        let is_markdown = path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("md"));
        is_markdown || path.is_dir()
    };
    let mut found: Vec<PathBuf> = ["MEMORY.md", "memory"]
        .map(|name| workspace.join(name))
        .into_iter()
        .filter(|path| is_link(path))
        .collect();
    let mut open = vec![workspace.join("memory")];
    open.retain(|dir| !found.contains(dir));
    let mut looked_at = 0;
    while let Some(dir) = open.pop().filter(|_| looked_at < MOST) {
        looked_at += 1;
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && !is_hidden => open.push(path),
                Ok(kind) if kind.is_symlink() && !is_hidden && is_note(&path) => found.push(path),
                _ => {}
            }
        }
    }
    found
}
