//! Puts a backup into an empty home.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Error;
use super::archive::{Attributes, Content, Contents};
use crate::config::Home;
use crate::sys;
use crate::sys::atomic;

/// Below each directory of the home: what is not in its place yet.
const DRAFT: &str = ".restoring";

/// Writes all files of a backup into `home`. Each directory is filled beside its place first, so that a run that
/// is broken off leaves an empty home or, in its last moment, one that is refused.
///
/// # Errors
/// [`Error::Occupied`] when there is something in the home; when a file cannot be written.
pub fn restore(contents: &Contents, home: &Home) -> Result<(), Error> {
    if let Some(path) = occupied(home)? {
        return Err(Error::Occupied(path));
    }
    let roots = roots(home);
    if let Err(error) = fill(contents, home, &roots) {
        for root in roots.iter().rev() {
            // Drafts, and the directories that were made for them. What cannot be removed goes at the next run.
            let _ = std::fs::remove_dir_all(root.join(DRAFT));
            let _ = std::fs::remove_dir(root);
        }
        return Err(error);
    }
    for root in &roots {
        let draft = root.join(DRAFT);
        move_all(&draft, root)?;
        std::fs::remove_dir_all(&draft).map_err(sys::Error::at("remove", &draft))?;
        atomic::sync_dir(root).map_err(sys::Error::at("sync", root))?;
    }
    Ok(home.create()?)
}

/// Writes everything as drafts.
fn fill(contents: &Contents, home: &Home, roots: &[PathBuf]) -> Result<(), Error> {
    for root in roots {
        make_dir(root)?;
        let draft = root.join(DRAFT);
        match std::fs::remove_dir_all(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(sys::Error::at("remove", &draft)(error).into());
            }
            _ => {}
        }
        make_dir(&draft)?;
    }
    let mut links = Vec::new();
    contents.each(|entry, content| {
        let to = draft_of(home, &entry.path).ok_or_else(|| Error::Damaged {
            path: PathBuf::from(&entry.path),
            why: "a home has no such place".to_owned(),
        })?;
        match content {
            Content::File(bytes, attributes) => Ok(put(
                &to,
                bytes,
                attributes,
                entry.path.starts_with("workspace/"),
            )?),
            Content::Link(target) => {
                links.push((to, target.to_owned()));
                Ok(())
            }
        }
    })?;
    // Last, so that no file is written through one.
    for (path, target) in &links {
        path.parent().map_or(Ok(()), make_dir)?;
        std::os::unix::fs::symlink(target, path).map_err(sys::Error::at("link", path))?;
    }
    Ok(())
}

/// The directories of a home, the state last: with it the agent is there.
fn roots(home: &Home) -> [PathBuf; 3] {
    [
        home.config_dir().to_owned(),
        home.workspace().to_owned(),
        home.state().to_owned(),
    ]
}

/// Returns where a file of a backup is written to first.
fn draft_of(home: &Home, path: &str) -> Option<PathBuf> {
    let below = |root: &Path, rest: &str| Some(root.join(DRAFT).join(rest));
    if let Some(rest) = path.strip_prefix("workspace/") {
        below(home.workspace(), rest)
    } else if let Some(rest) = path.strip_prefix("state/") {
        below(home.state(), rest)
    } else if path == ".env" || path == "agent.toml" || path.starts_with("providers.d/") {
        below(home.config_dir(), path)
    } else {
        None
    }
}

/// Returns a file that an agent has in this home.
fn occupied(home: &Home) -> Result<Option<PathBuf>, Error> {
    for file in [home.config_file().to_owned(), home.env_file()] {
        if file.exists() {
            return Ok(Some(file));
        }
    }
    for dir in [
        home.providers_dir(),
        home.state().to_owned(),
        home.workspace().to_owned(),
    ] {
        if let Some(file) = some_file(&dir)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Returns a file below `dir`; a hidden one at the top may be anybody's.
fn some_file(dir: &Path) -> Result<Option<PathBuf>, Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(sys::Error::at("read", dir))?,
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            return Ok(Some(path));
        }
        if let Some(file) = some_file(&path)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

fn make_dir(dir: &Path) -> Result<(), sys::Error> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(sys::Error::at("make", dir))
}

fn put(
    path: &Path,
    bytes: &mut dyn io::Read,
    attributes: Attributes,
    is_theirs: bool,
) -> Result<(), sys::Error> {
    path.parent().map_or(Ok(()), make_dir)?;
    let fail = || sys::Error::at("write", path);
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(fail())?;
    io::copy(bytes, &mut file).map_err(fail())?;
    if is_theirs {
        // Programs in the workspace stay programs.
        file.set_permissions(Permissions::from_mode(0o600 | attributes.mode))
            .map_err(fail())?;
    }
    if let Some(modified) =
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(attributes.modified))
    {
        file.set_modified(modified).map_err(fail())?;
    }
    file.sync_all().map_err(fail())
}

/// Moves what lies in `from` into `to`, where empty directories may stand in its way.
fn move_all(from: &Path, to: &Path) -> Result<(), sys::Error> {
    let entries = std::fs::read_dir(from).map_err(sys::Error::at("read", from))?;
    for entry in entries.flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if target.is_dir() {
            move_all(&source, &target)?;
        } else {
            std::fs::rename(&source, &target).map_err(sys::Error::at("move", &source))?;
        }
    }
    atomic::sync_dir(to).map_err(sys::Error::at("sync", to))
}
