//! Files that come with a command. The sender copies them into `spool/new/<id>.d/` before the
//! command itself is there; the daemon moves them to `downloads/<id>/` before it commits.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::spool::OWN_NAMES;
use super::{Attachment, Id};
use crate::sys::{HeldDir, atomic};
use crate::{sys, text};

/// The largest file: what Telegram's Bot API lets a bot download, so that every door takes the same.
pub const MAX_FILE: u64 = 20 << 20;
/// The most files of one command: they are copied while others wait.
pub const MAX_FILES: usize = 20;

/// Why files do not come along.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not one that can be sent.
    #[error("{path} cannot be attached: {why}")]
    Unfit {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
    /// The disk.
    #[error("{0}")]
    Io(#[from] sys::Error),
}

/// Copies `files` into the spool for command `id`, durably, and returns them as the command names
/// them.
///
/// # Errors
/// [`Error::Unfit`] for what is not a readable regular file of at most [`MAX_FILE`] bytes; nothing is
/// then left behind.
pub fn leave(tmp: &Path, new: &Path, id: &Id, files: &[PathBuf]) -> Result<Vec<Attachment>, Error> {
    not_too_many(files.len())?;
    // The same id twice, even at one time, is one command; which of the two nobody knows yet. So each
    // has its own names.
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let draft = tmp.join(format!("{id}.{mark}.d"));
    make_dir(&draft)?;
    let names = (0..).map(|number| format!("{}-{number}", crate::text::head(&mark, 8)));
    let copied: Result<Vec<Attachment>, Error> = files
        .iter()
        .zip(names)
        .map(|(file, name)| copy(file, &draft, &name))
        .collect();
    let moved = copied.and_then(|copied| {
        move_in(&draft, &new.join(format!("{id}.d")), &copied)?;
        atomic::sync_dir(new).map_err(sys::Error::at("sync", new))?;
        Ok(copied)
    });
    clear(&draft)?;
    moved
}

/// A file whose bytes came with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brought {
    /// What it is called.
    pub filename: String,
    /// Its MIME type, when the sender knows it.
    pub content_type: Option<String>,
    /// The file.
    pub bytes: Vec<u8>,
}

impl From<&Brought> for Attachment {
    fn from(file: &Brought) -> Self {
        Self {
            path: file.filename.clone(),
            content_type: file.content_type.clone(),
            filename: Some(file.filename.clone()),
            sha256: Some(text::sha256_hex(&file.bytes)),
        }
    }
}

/// Writes `files` into the spool for command `id`, durably, as [`leave`] copies those of this machine.
///
/// # Errors
/// [`Error::Unfit`] for a file of more than [`MAX_FILE`] bytes, or too many of them; nothing is then left behind.
pub fn bring(tmp: &Path, new: &Path, id: &Id, files: &[Brought]) -> Result<Vec<Attachment>, Error> {
    not_too_many(files.len())?;
    if let Some(large) = files.iter().find(|file| file.bytes.len() as u64 > MAX_FILE) {
        let why = format!("it is larger than {} MB", MAX_FILE >> 20);
        return Err(Error::Unfit {
            path: large.filename.clone(),
            why,
        });
    }
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let draft = tmp.join(format!("{id}.{mark}.d"));
    make_dir(&draft)?;
    let write = |(number, file): (usize, &Brought)| {
        let path = safe_name(
            &format!("{}-{number}", crate::text::head(&mark, 8)),
            &file.filename,
        );
        let target = draft.join(&path);
        write_new(&target, &mut file.bytes.as_slice())?;
        Ok(Attachment {
            path,
            ..Attachment::from(file)
        })
    };
    let written: Result<Vec<Attachment>, Error> = files.iter().enumerate().map(write).collect();
    let moved = written.and_then(|written| {
        move_in(&draft, &new.join(format!("{id}.d")), &written)?;
        atomic::sync_dir(new).map_err(sys::Error::at("sync", new))?;
        Ok(written)
    });
    clear(&draft)?;
    moved
}

/// Moves files into a directory that the daemon may take away at any moment.
fn move_in(draft: &Path, target: &Path, files: &[Attachment]) -> Result<(), sys::Error> {
    for file in files {
        let from = draft.join(&file.path);
        let mut moved = std::fs::rename(&from, target.join(&file.path));
        // It is taken away once for each command of this id, so a few times are enough.
        for _ in 0..16 {
            if !moved
                .as_ref()
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            {
                break;
            }
            match DirBuilder::new().mode(0o700).create(target) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(sys::Error::at("make", target)(error));
                }
                Ok(()) | Err(_) => {}
            }
            moved = std::fs::rename(&from, target.join(&file.path));
        }
        moved.map_err(sys::Error::at("move into the spool", &from))?;
    }
    match atomic::sync_dir(target) {
        // The daemon has it.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(sys::Error::at("sync", target)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes the spooled files of command `id`.
pub fn withdraw(new: &Path, id: &Id) {
    // What stays is cleared away with the orphans.
    let dir = HeldDir::open(new, OWN_NAMES);
    let _ = dir.and_then(|dir| clear(&dir.at(format!("{id}.d"))));
}

/// Removes `files`, which [`leave`] left for a command that was not spooled; those of another command with this id
/// stay.
pub fn withdraw_own(new: &Path, id: &Id, files: &[Attachment]) {
    let dir = new.join(format!("{id}.d"));
    for file in files {
        // The daemon may have taken it.
        let _ = std::fs::remove_file(dir.join(&file.path));
    }
    let _ = std::fs::remove_dir(&dir);
}

/// Adds the digest of each file that the command names by an absolute path: two commands with the same words and
/// other files are two. What cannot be read is refused later.
pub fn add_digests(files: &mut [Attachment]) {
    for file in files.iter_mut().filter(|file| file.sha256.is_none()) {
        let path = Path::new(&file.path);
        if path.is_absolute() {
            file.sha256 = open_regular(path).ok().and_then(|source| {
                let read = |_: &[u8]| Ok::<(), std::io::Error>(());
                text::sha256_of(&mut source.take(MAX_FILE), read).ok()
            });
        }
    }
}

/// Moves the files of command `id` to `downloads`, durably, and makes their paths relative to it.
/// Doing it twice does no harm: a command that could not be committed is read again. A command that
/// was committed must not come here: its files may be read just now.
///
/// # Errors
/// [`Error::Unfit`] for a path that leads to no such file.
pub fn take_in(
    new: &Path,
    downloads: &Path,
    id: &Id,
    files: &mut [Attachment],
) -> Result<(), Error> {
    take_in_as(new, downloads, (id, id), files)
}

/// As [`take_in`], the files of the command `id` to `downloads/own`.
///
/// # Errors
/// As [`take_in`].
pub fn take_in_as(
    new: &Path,
    downloads: &Path,
    (id, own_id): (&Id, &Id),
    files: &mut [Attachment],
) -> Result<(), Error> {
    let name = format!("{id}.d");
    if files.is_empty() {
        return Ok(());
    }
    not_too_many(files.len())?;
    let own = downloads.join(own_id.as_str());
    // No link: it would lead anywhere.
    let is_dir = |dir: &Path| std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
    // A directory of our own, whose age is counted from now.
    if !is_dir(&own) {
        make_dir(&own)?;
    }
    let held = HeldDir::open(new, OWN_NAMES)?;
    if let Ok(spooled) = HeldDir::open(&new.join(&name), OWN_NAMES + 1) {
        // Another command of this id may have left its own; a channel has none.
        let is_wanted = |name: &std::ffi::OsStr| {
            id == own_id || files.iter().any(|file| name == file.path.as_str())
        };
        for entry in spooled
            .read()?
            .flatten()
            .filter(|entry| is_wanted(&entry.file_name()))
        {
            let name = entry.file_name();
            spooled.with(&name, |path| {
                std::fs::rename(path, own.join(&name)).map_err(sys::Error::at("take in", path))
            })?;
        }
    }
    held.with(&name, clear)?;
    atomic::sync_dir(&held.path()).map_err(sys::Error::at("sync", new))?;
    for (number, file) in files.iter_mut().enumerate() {
        let path = Path::new(&file.path);
        if path.is_absolute() {
            let copied = copy(path, &own, &number.to_string())?;
            file.filename.get_or_insert_with(|| name_of(path));
            file.path = copied.path;
            file.sha256 = copied.sha256;
        }
        let there = own.join(&file.path);
        let plain = !file.path.contains('/')
            && file.path != ".."
            && std::fs::symlink_metadata(&there).is_ok_and(|meta| meta.is_file());
        if !plain {
            // A link that was left for us is not kept.
            clear(&own)?;
            let why = format!("it is neither an absolute path nor a file in spool/new/{id}.d");
            return Err(Error::Unfit {
                path: file.path.clone(),
                why,
            });
        }
        file.path = format!("{own_id}/{}", file.path);
    }
    atomic::sync_dir(&own).map_err(sys::Error::at("sync", &own))?;
    atomic::sync_dir(downloads).map_err(sys::Error::at("sync", downloads))?;
    Ok(())
}

/// Removes the directories in `dir` that are older than `keep` and that `goes` names.
///
/// # Errors
/// When `dir` cannot be read.
pub fn prune(dir: &Path, keep: Duration, goes: impl Fn(&str) -> bool) -> Result<(), sys::Error> {
    for entry in std::fs::read_dir(dir)
        .map_err(sys::Error::at("read", dir))?
        .flatten()
    {
        let Ok(meta) = entry.metadata() else { continue };
        let old = meta
            .modified()
            .ok()
            .and_then(|time| time.elapsed().ok())
            .is_some_and(|age| age > keep);
        if old && meta.is_dir() && entry.file_name().to_str().is_some_and(&goes) {
            clear(&entry.path())?;
        }
    }
    Ok(())
}

/// Copies one file into `dir` under a safe name that begins with `number`.
fn copy(file: &Path, dir: &Path, number: &str) -> Result<Attachment, Error> {
    let source = open_regular(file)?;
    let name = name_of(file);
    let path = safe_name(number, &name);
    // It may grow while it is read.
    let sha256 = write_new(&dir.join(&path), &mut source.take(MAX_FILE))?;
    Ok(Attachment {
        path,
        content_type: None,
        filename: Some(name),
        sha256: Some(sha256),
    })
}

/// Opens a file that may be attached.
fn open_regular(file: &Path) -> Result<File, Error> {
    let unfit = |why: String| Error::Unfit {
        path: file.display().to_string(),
        why,
    };
    // A FIFO or a device must not hold us up; a regular file does not mind.
    let open = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(file);
    // What says nothing about the file, only about the machine at this moment, is not a fault of the file.
    let failed = |error: std::io::Error| match sys::Error::at("open", file)(error) {
        error if error.is_retryable() => Error::Io(error),
        error => unfit(reason(&error.source)),
    };
    let source = open.map_err(failed)?;
    let meta = source.metadata().map_err(failed)?;
    if !meta.is_file() {
        let why = if meta.is_dir() {
            "it is a directory"
        } else {
            "it is not a regular file"
        };
        return Err(unfit(why.to_owned()));
    }
    if meta.len() > MAX_FILE {
        return Err(unfit(format!("it is larger than {} MB", MAX_FILE >> 20)));
    }
    Ok(source)
}

/// Returns a name of our own for a file, which begins with `number` and ends like `name`.
fn safe_name(number: &str, name: &str) -> String {
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    // Letters have up to four bytes, and names of files 255.
    format!("{number}-{}", crate::text::tail(&safe, 60))
}

/// Writes a file, durably, and returns its SHA-256.
fn write_new(target: &Path, source: &mut impl Read) -> Result<String, sys::Error> {
    let mut options = OpenOptions::new();
    let written = options
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(target)
        .and_then(|mut out: File| {
            let sha256 = text::sha256_of(source, |bytes| out.write_all(bytes))?;
            out.sync_all()?;
            Ok(sha256)
        });
    written.map_err(sys::Error::at("write", target))
}

fn not_too_many(count: usize) -> Result<(), Error> {
    let why = format!("at most {MAX_FILES} go with one message");
    if count > MAX_FILES {
        Err(Error::Unfit {
            path: format!("{count} files"),
            why,
        })
    } else {
        Ok(())
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Says what a person would, without the number of the error.
fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

fn make_dir(dir: &Path) -> Result<(), sys::Error> {
    DirBuilder::new()
        .mode(0o700)
        .create(dir)
        .map_err(sys::Error::at("make", dir))
}

fn clear(dir: &Path) -> Result<(), sys::Error> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(sys::Error::at("remove", dir)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
