//! Messages as files: offered in `out/`, claimed in `sending/`, removed when the result is known.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::capabilities::MARK;
use super::layout::Layout;
use crate::channel::{Outgoing, SendError};
use crate::message::{Button, OutFile};
use crate::sys::{Error, HeldDir, atomic, read_foreign};
use crate::text;

/// The file of `boot` is that of a process, too.
const MAX_BOOT: u64 = 100;
/// Entries of a directory that are looked at.
const MAX_ENTRIES: usize = 100_000;
/// Those that are looked at for the state of the channel: more are not offered at once, and it is looked at often.
const MAX_LOOKED_AT: usize = 2_000;
/// Characters that a copy keeps of the name of its file: they have up to four bytes, its key up to 64, and names of files 255.
const MAX_NAME: usize = 40;

/// A message for the process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    /// Its name.
    pub key: &'a str,
    /// Whether there is no row for it: nobody sends it again.
    pub is_notice: bool,
    /// The buttons, where the channel has any.
    pub buttons: &'a [Vec<Button>],
    /// The message of ours that it replaces.
    pub edit_of: Option<&'a str>,
    /// What is sent.
    pub outgoing: Outgoing<'a>,
}

/// Where a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nobody claimed it.
    Out,
    /// The process claimed it so long ago.
    Sending(Duration),
    /// In neither directory.
    Nowhere,
}

/// `out/KEY.json`.
#[derive(Serialize)]
struct Written<'a> {
    v: u32,
    key: &'a str,
    chat: &'a str,
    thread: Option<&'a str>,
    text: String,
    plain: String,
    reply_to: Option<&'a str>,
    files: Vec<WrittenFile<'a>>,
    reaction: Option<&'a str>,
    edit_of: Option<&'a str>,
    buttons: &'a [Vec<Button>],
    resent: bool,
}

#[derive(Serialize)]
struct WrittenFile<'a> {
    path: String,
    filename: &'a str,
    kind: &'a crate::message::MediaKind,
}

/// Offers a message, unless the process has it already.
///
/// # Errors
/// [`SendError::Never`] when one of its files cannot be read, else [`SendError::NotSent`].
pub(super) fn offer(layout: &Layout, message: &Message<'_>) -> Result<(), SendError> {
    if !layout.is_whole() {
        let no_directory = std::io::Error::from(std::io::ErrorKind::NotADirectory);
        let error = Error::at("use the directories beside", &layout.out())(no_directory);
        return Err(not_now(&error));
    }
    if matches!(place(layout, message.key), Place::Sending(_) | Place::Out) {
        return Ok(());
    }
    let files = &message.outgoing.files;
    let sources: Result<Vec<File>, SendError> = files
        .iter()
        .map(|(file, path)| open_source(file, path))
        .collect();
    write(layout, message, sources?).map_err(|error| not_now(&error))
}

/// Opens a file that goes with a message.
fn open_source(file: &OutFile, path: &Path) -> Result<File, SendError> {
    let never = |why: &str| SendError::Never {
        reason: format!("{} {why}", file.filename),
        chat_is_there: true,
    };
    let failed = |error: std::io::Error| match Error::at("open", path)(error) {
        error if error.is_retryable() => not_now(&error),
        error => never(&format!("cannot be read: {}", error.source)),
    };
    // A FIFO or a device must not hold us up; a regular file does not mind.
    let source = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(failed)?;
    let is_file = source.metadata().map_err(failed)?.is_file();
    is_file.then_some(source).ok_or_else(|| never("is no file"))
}

fn not_now(error: &Error) -> SendError {
    SendError::NotSent {
        reason: error.to_string(),
        retry_after: None,
    }
}

/// Writes a message and copies of its files.
fn write(layout: &Layout, message: &Message<'_>, sources: Vec<File>) -> Result<(), Error> {
    let outgoing = &message.outgoing;
    let mut files = Vec::new();
    for (number, ((file, _), source)) in outgoing.files.iter().zip(sources).enumerate() {
        let name = text::file_name(&file.filename, "._-");
        let name = text::tail(&name, MAX_NAME);
        let name = format!("{}-{number}-{name}", message.key);
        open(&layout.files())?.with(&name, |to| copy(source, to))?;
        files.push(WrittenFile {
            path: layout.files().join(name).display().to_string(),
            filename: &file.filename,
            kind: &file.kind,
        });
    }
    // A process that knows nothing of marks sends it marked nevertheless.
    let mark = if outgoing.resent && outgoing.reaction.is_none() {
        MARK
    } else {
        ""
    };
    let written = Written {
        v: 1,
        key: message.key,
        chat: &outgoing.chat.chat,
        thread: outgoing.chat.topic.as_deref(),
        text: format!("{mark}{}", outgoing.markup.unwrap_or(outgoing.plain)),
        plain: format!("{mark}{}", outgoing.plain),
        reply_to: outgoing.reply_to,
        files,
        reaction: outgoing.reaction,
        edit_of: message.edit_of,
        buttons: message.buttons,
        resent: outgoing.resent,
    };
    let bytes = serde_json::to_vec(&written).unwrap_or_default();
    // queue.db has it; after a power cut it is offered again.
    open(&layout.out())?.with(file(message.key), |path| {
        atomic::write(path, &bytes, atomic::Durability::Rename)
    })
}

/// Opens one of the directories: in the place of each the process may have put a link.
fn open(dir: &Path) -> Result<HeldDir, Error> {
    HeldDir::open(dir, 1)
}

fn remove(dir: &Path, name: impl AsRef<Path>) -> bool {
    open(dir).is_ok_and(|dir| std::fs::remove_file(dir.at(name)).is_ok())
}

/// Returns where a message is.
pub(super) fn place(layout: &Layout, key: &str) -> Place {
    if !is_key(key) {
        return Place::Nowhere;
    }
    let there = |dir: &Path| std::fs::symlink_metadata(open(dir).ok()?.at(file(key))).ok();
    if let Some(meta) = there(&layout.sending()) {
        // A rename changes the inode, and nothing that a process writes does it back.
        let since = u64::try_from(meta.ctime()).unwrap_or_default();
        let since = SystemTime::UNIX_EPOCH + Duration::from_secs(since);
        return Place::Sending(since.elapsed().unwrap_or_default());
    }
    if there(&layout.out()).is_some() {
        return Place::Out;
    }
    // It may have been claimed between the two looks.
    match there(&layout.sending()) {
        Some(_) => Place::Sending(Duration::ZERO),
        None => Place::Nowhere,
    }
}

/// Takes a message back that nobody claimed; false when somebody did.
pub(super) fn withdraw(layout: &Layout, key: &str) -> bool {
    remove(&layout.out(), file(key))
}

/// Removes a message and its files, wherever it is.
pub(super) fn clear(layout: &Layout, key: &str) {
    if !is_key(key) {
        return;
    }
    // What is not there needs not go.
    for dir in [layout.out(), layout.sending()] {
        remove(&dir, file(key));
    }
    let own = format!("{key}-");
    let files = names(&layout.files()).filter(|name| name.starts_with(&own));
    for name in files.collect::<Vec<_>>() {
        remove(&layout.files(), name);
    }
}

/// Takes back what nobody claimed, and returns the keys of that and of what the process claimed: of these it is known, or
/// will be, what became of them. After a start of the machine it is not: what was renamed may be where it was before.
pub(super) fn reconcile(layout: &Layout) -> Vec<String> {
    let boot = this_boot();
    let before = read_foreign(&layout.boot(), MAX_BOOT).ok().flatten();
    let is_same = !boot.is_empty() && before.as_deref() == Some(boot.as_bytes());
    let mut known = Vec::new();
    for key in keys(&layout.out()) {
        if withdraw(layout, &key) {
            known.push(key);
        }
    }
    for key in keys(&layout.sending()) {
        if is_same {
            known.push(key);
        } else {
            clear(layout, &key);
        }
    }
    if !is_same {
        known.clear();
        let written = atomic::write(&layout.boot(), boot.as_bytes(), atomic::Durability::Rename);
        if let Err(error) = written {
            tracing::warn!(%error, "after a restart some messages may be marked (resent) unnecessarily");
        }
    }
    known
}

/// Returns the number of unclaimed messages and the age of the oldest.
pub(super) fn unclaimed(layout: &Layout) -> (usize, Duration) {
    let Ok(out) = open(&layout.out()) else {
        return (0, Duration::ZERO);
    };
    let ages = keys(&layout.out()).take(MAX_LOOKED_AT).filter_map(|key| {
        let meta = std::fs::symlink_metadata(out.at(file(&key))).ok()?;
        meta.modified().ok()?.elapsed().ok()
    });
    ages.fold((0, Duration::ZERO), |(count, oldest), age| {
        (count + 1, oldest.max(age))
    })
}

fn keys(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let key = |name: String| name.strip_suffix(".json").map(str::to_owned);
    names(dir).filter_map(key).filter(|key| is_key(key))
}

fn names(dir: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = open(dir).and_then(|dir| dir.read());
    let entries = entries.into_iter().flatten().flatten();
    entries
        .take(MAX_ENTRIES)
        .filter_map(|entry| entry.file_name().to_str().map(str::to_owned))
}

/// Names of ours only: nothing that leads elsewhere.
fn is_key(key: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=64).contains(&key.len()) && key.bytes().all(is_plain)
}

fn file(key: &str) -> String {
    format!("{key}.json")
}

fn copy(mut source: File, to: &Path) -> Result<(), Error> {
    // What an earlier try left.
    drop(std::fs::remove_file(to));
    let mut options = OpenOptions::new();
    let target = options.create_new(true).write(true).mode(0o600).open(to);
    let copied = target.and_then(|mut target| {
        std::io::copy(&mut source, &mut target)?;
        target.flush()
    });
    copied.map_err(Error::at("copy to", to))
}

/// Returns the id of this start of the machine (proc_sys_kernel(5)).
fn this_boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.unwrap_or_default().trim().to_owned()
}
