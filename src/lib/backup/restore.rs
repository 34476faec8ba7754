//! Puts a backup into an empty home.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Error;
use super::archive::{Attributes, Content, Contents, Entry, sha256};
use crate::config::{Home, RESTORING};
use crate::sys;
use crate::sys::atomic;

/// Writes all files and empty directories of a backup into `home`. Each directory is filled beside its place first. A run
/// that is broken off leaves [`Home::restoring`], with which no program of ours starts, and the same backup can be restored again.
///
/// # Errors
/// [`Error::Occupied`] when there is something in the home, or a file that the backup has otherwise; when a file cannot be written.
pub fn restore(contents: &Contents, home: &Home) -> Result<(), Error> {
    if let Some(path) = occupied(home)? {
        let own = home.restoring().is_dir() && stranger(contents, home)?.is_none();
        if !own {
            return Err(Error::Occupied(path));
        }
    }
    if let Some(path) = in_the_way(contents, home) {
        return Err(Error::Occupied(path));
    }
    let roots = roots(home);
    if let Err(error) = fill(contents, home, &roots) {
        for root in roots.iter().rev() {
            // Drafts, and the directories that were made for them. What cannot be removed goes at the next run.
            let _ = std::fs::remove_dir_all(root.join(RESTORING));
            let _ = std::fs::remove_dir(root);
        }
        return Err(error);
    }
    for root in &roots {
        let draft = root.join(RESTORING);
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
        let draft = root.join(RESTORING);
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
    for directory in &contents.manifest.directories {
        // One of a place that is not known here has nothing in it.
        let Some(to) = draft_of(home, &directory.path) else {
            continue;
        };
        make_dir(&to)?;
        if directory.path.starts_with("workspace/") {
            let mode = Permissions::from_mode(0o700 | directory.mode & 0o777);
            std::fs::set_permissions(&to, mode).map_err(sys::Error::at("make", &to))?;
        }
    }
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
    let (root, rest) = place_of(home, path)?;
    Some(root.join(RESTORING).join(rest))
}

/// Returns the directory of the home that a file of a backup belongs to, and its path there.
fn place_of<'a>(home: &'a Home, path: &'a str) -> Option<(&'a Path, &'a str)> {
    if let Some(rest) = path.strip_prefix("workspace/") {
        Some((home.workspace(), rest))
    } else if let Some(rest) = path.strip_prefix("state/") {
        Some((home.state(), rest))
    } else if path == ".env"
        || path == "agent.toml"
        || path.starts_with("providers.d/")
        || path.starts_with("channels/")
    {
        Some((home.config_dir(), path))
    } else {
        None
    }
}

/// Returns a file of the home that is not as the backup has it: a restore that was broken off did not put it there.
fn stranger(contents: &Contents, home: &Home) -> Result<Option<PathBuf>, Error> {
    let place = |entry: &Entry| {
        let (root, rest) = place_of(home, &entry.path)?;
        Some((root.join(rest), entry.clone()))
    };
    let known: HashMap<PathBuf, Entry> = contents.manifest.files.iter().filter_map(place).collect();
    let mut files = Vec::new();
    for file in [home.config_file().to_owned(), home.env_file()] {
        if file.exists() {
            files.push(file);
        }
    }
    for dir in own_dirs(home) {
        files_below(&dir, &mut files)?;
    }
    let is_strange = |file: &PathBuf| known.get(file).is_none_or(|entry| !is_as_in(entry, file));
    Ok(files.into_iter().find(is_strange))
}

/// Returns whether `file` is as the backup has it.
fn is_as_in(entry: &Entry, file: &Path) -> bool {
    match &entry.link {
        Some(to) => std::fs::read_link(file).is_ok_and(|now| now == Path::new(to)),
        None => file.is_file() && sha256(file).is_ok_and(|now| Some(now) == entry.sha256),
    }
}

/// Returns what is where the backup has something else: hidden files, which make no home occupied.
fn in_the_way(contents: &Contents, home: &Home) -> Option<PathBuf> {
    let mut places = contents.manifest.files.iter().filter_map(|entry| {
        let (root, rest) = place_of(home, &entry.path)?;
        Some((root.join(rest), entry))
    });
    let directories = contents.manifest.directories.iter();
    let mut directories = directories.filter_map(|directory| {
        let (root, rest) = place_of(home, &directory.path)?;
        Some(root.join(rest))
    });
    let is_other = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
    if let Some(other) = directories.find(is_other) {
        return Some(other);
    }
    places.find_map(|(path, entry)| {
        let is_free = path
            .symlink_metadata()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        (!is_free && !is_as_in(entry, &path)).then_some(path)
    })
}

/// Returns a file that an agent has in this home.
fn occupied(home: &Home) -> Result<Option<PathBuf>, Error> {
    // A hidden file may be anybody's; who puts keys there before a restore wants them there.
    if home.config_file().exists() {
        return Ok(Some(home.config_file().to_owned()));
    }
    let mut files = Vec::new();
    for dir in own_dirs(home) {
        files_below(&dir, &mut files)?;
    }
    Ok(files.into_iter().next())
}

/// The directories that nothing but an agent fills.
fn own_dirs(home: &Home) -> [PathBuf; 4] {
    [
        home.providers_dir(),
        home.channel_settings(),
        home.state().to_owned(),
        home.workspace().to_owned(),
    ]
}

/// Adds all files below `dir`; a hidden one at the top may be anybody's.
fn files_below(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(sys::Error::at("read", dir))?,
    };
    for entry in entries.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files_below(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
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
    // Programs stay programs: those in the workspace, and those of tool servers.
    let kept = attributes.mode & if is_theirs { 0o777 } else { 0o100 };
    file.set_permissions(Permissions::from_mode(0o600 | kept))
        .map_err(fail())?;
    if let Some(modified) =
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(attributes.modified))
    {
        file.set_modified(modified).map_err(fail())?;
    }
    file.sync_all().map_err(fail())
}

/// Moves what is in `from` into `to`, where directories may stand, and files that are the same: they stay.
fn move_all(from: &Path, to: &Path) -> Result<(), sys::Error> {
    let entries = std::fs::read_dir(from).map_err(sys::Error::at("read", from))?;
    for entry in entries.flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if target.is_dir() {
            move_all(&source, &target)?;
        } else if target.symlink_metadata().is_err() {
            std::fs::rename(&source, &target).map_err(sys::Error::at("move", &source))?;
        }
    }
    atomic::sync_dir(to).map_err(sys::Error::at("sync", to))
}
