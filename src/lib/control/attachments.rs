//! Files that come with a command. The sender copies them into `spool/new/<id>.d/` before the
//! command itself is there; the daemon moves them to `downloads/<id>/` before it commits.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Attachment, Id};
use crate::sys;
use crate::sys::atomic;

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
/// [`Error::Unfit`] for what is no readable regular file of at most [`MAX_FILE`] bytes; nothing is
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
            content_type: file.content_type.clone(),
            filename: Some(file.filename.clone()),
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

/// Takes back what [`leave`] left.
pub fn withdraw(new: &Path, id: &Id) {
    // What stays is cleared away with the orphans.
    let _ = clear(&new.join(format!("{id}.d")));
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
    let spooled = new.join(format!("{id}.d"));
    if files.is_empty() {
        return Ok(());
    }
    not_too_many(files.len())?;
    let own = downloads.join(id.as_str());
    // No link: it would lead anywhere.
    let is_dir = |dir: &Path| std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir());
    // A directory of our own, whose age is counted from now.
    if !is_dir(&own) {
        make_dir(&own)?;
    }
    if is_dir(&spooled) {
        for entry in std::fs::read_dir(&spooled)
            .map_err(sys::Error::at("read", &spooled))?
            .flatten()
        {
            std::fs::rename(entry.path(), own.join(entry.file_name()))
                .map_err(sys::Error::at("take in", &entry.path()))?;
        }
        clear(&spooled)?;
    }
    atomic::sync_dir(new).map_err(sys::Error::at("sync", new))?;
    for (number, file) in files.iter_mut().enumerate() {
        let path = Path::new(&file.path);
        if path.is_absolute() {
            let copied = copy(path, &own, &number.to_string())?;
            file.filename.get_or_insert_with(|| name_of(path));
            file.path = copied.path;
        }
        let there = own.join(&file.path);
        let plain = !file.path.contains('/')
            && file.path != ".."
            && std::fs::symlink_metadata(&there).is_ok_and(|meta| meta.is_file());
        if !plain {
            let why = format!("it is neither an absolute path nor a file in spool/new/{id}.d");
            return Err(Error::Unfit {
                path: file.path.clone(),
                why,
            });
        }
        file.path = format!("{id}/{}", file.path);
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
    let unfit = |why: String| Error::Unfit {
        path: file.display().to_string(),
        why,
    };
    // A FIFO or a device must not hold us up; a regular file does not mind.
    let open = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(file);
    let source = open.map_err(|error| unfit(reason(&error)))?;
    let meta = source.metadata().map_err(|error| unfit(reason(&error)))?;
    if !meta.is_file() {
        return Err(unfit(
            if meta.is_dir() {
                "it is a directory"
            } else {
                "it is no regular file"
            }
            .to_owned(),
        ));
    }
    if meta.len() > MAX_FILE {
        return Err(unfit(format!("it is larger than {} MB", MAX_FILE >> 20)));
    }
    let name = name_of(file);
    let path = safe_name(number, &name);
    // It may grow while it is read.
    write_new(&dir.join(&path), &mut source.take(MAX_FILE))?;
    Ok(Attachment {
        path,
        content_type: None,
        filename: Some(name),
    })
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

fn write_new(target: &Path, source: &mut impl Read) -> Result<(), sys::Error> {
    let mut options = OpenOptions::new();
    let written = options
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(target)
        .and_then(|mut out: File| {
            std::io::copy(source, &mut out)?;
            out.sync_all()
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
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
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
mod tests {
    use super::*;

    struct Place {
        _dir: tempfile::TempDir,
        tmp: PathBuf,
        new: PathBuf,
        downloads: PathBuf,
        id: Id,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().expect("dir");
        let [tmp, new, downloads] = ["tmp", "new", "downloads"].map(|name| dir.path().join(name));
        for dir in [&tmp, &new, &downloads] {
            std::fs::create_dir(dir).expect("dir");
        }
        Place {
            _dir: dir,
            tmp,
            new,
            downloads,
            id: Id::parse("a").expect("id"),
        }
    }

    fn file(place: &Place, name: &str, text: &str) -> PathBuf {
        let path = place.tmp.join(name);
        atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
        path
    }

    #[test]
    fn files_go_from_the_sender_to_the_daemon_and_a_second_look_finds_them_too() {
        let place = place();
        let files = [file(&place, "a b.log", "one"), file(&place, "ü.txt", "two")];
        let left = leave(&place.tmp, &place.new, &place.id, &files).expect("leave");
        for _ in 0..2 {
            let mut files = left.clone();
            take_in(&place.new, &place.downloads, &place.id, &mut files).expect("take in");
            let seen: Vec<_> = files
                .iter()
                .map(|file| (file.path.get(10..), file.filename.as_deref()))
                .collect();
            assert_eq!(
                seen,
                [
                    (Some("-0-a_b.log"), Some("a b.log")),
                    (Some("-1-ü.txt"), Some("ü.txt"))
                ]
            );
            let text = std::fs::read_to_string(place.downloads.join(&files[0].path)).expect("read");
            assert_eq!(
                (text.as_str(), place.new.join("a.d").exists()),
                ("one", false)
            );
        }
    }

    #[test]
    fn bytes_of_a_request_come_the_same_way_under_safe_names() {
        let place = place();
        let file = |filename: &str| Brought {
            filename: filename.into(),
            content_type: None,
            bytes: b"x".to_vec(),
        };
        let files = [file("../../etc/passwd"), file("a\u{0}b\n.txt"), file("")];
        let mut left = bring(&place.tmp, &place.new, &place.id, &files).expect("bring");
        take_in(&place.new, &place.downloads, &place.id, &mut left).expect("take in");
        let ends: Vec<_> = left
            .iter()
            .map(|file| file.path.get(10..).unwrap_or_default())
            .collect();
        assert_eq!(ends, ["-0-.._.._etc_passwd", "-1-a_b_.txt", "-2-"]);
        assert!(
            left.iter()
                .all(|file| place.downloads.join(&file.path).is_file())
        );
        let large = [Brought {
            bytes: vec![0; usize::try_from(MAX_FILE).expect("size") + 1],
            ..file("large")
        }];
        assert!(matches!(
            bring(&place.tmp, &place.new, &place.id, &large),
            Err(Error::Unfit { .. })
        ));
        assert!(matches!(
            bring(&place.tmp, &place.new, &place.id, &vec![file("x"); 21]),
            Err(Error::Unfit { .. })
        ));
        assert_eq!(std::fs::read_dir(&place.tmp).expect("tmp").count(), 0);
    }

    #[test]
    fn whichever_of_two_senders_of_one_id_comes_first_its_files_are_there() {
        for second_comes_before_the_daemon in [true, false] {
            let place = place();
            let files = [file(&place, "x", "one"), file(&place, "y", "two")];
            let send = |file: &PathBuf| {
                leave(
                    &place.tmp,
                    &place.new,
                    &place.id,
                    std::slice::from_ref(file),
                )
                .expect("leave")
            };
            let take = |mut files: Vec<Attachment>| {
                take_in(&place.new, &place.downloads, &place.id, &mut files).expect("take in");
                std::fs::read_to_string(place.downloads.join(&files[0].path)).expect("read")
            };
            let first = send(&files[0]);
            if !second_comes_before_the_daemon {
                assert_eq!(take(first.clone()), "one");
            }
            let second = send(&files[1]);
            assert_eq!(
                (take(first), take(second)),
                ("one".to_owned(), "two".to_owned())
            );
        }
    }

    #[test]
    fn what_is_no_file_is_refused_and_nothing_stays_behind() {
        let place = place();
        let good = file(&place, "good", "x");
        let fifo = place.tmp.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
        for (bad, why) in [
            (place.tmp.join("nothing"), "there is no such file"),
            (place.new.clone(), "it is a directory"),
            (fifo, "it is no regular file"),
        ] {
            let error =
                leave(&place.tmp, &place.new, &place.id, &[good.clone(), bad]).expect_err("unfit");
            assert!(error.to_string().contains(why), "{error}");
            assert!(!place.tmp.join("a.d").exists() && !place.new.join("a.d").exists());
        }
    }

    #[test]
    fn a_command_reaches_its_own_files_and_absolute_paths_only() {
        let place = place();
        let outside = file(&place, "outside.txt", "x");
        let take = |path: &str| {
            let mut files = [Attachment {
                path: path.to_owned(),
                content_type: None,
                filename: None,
            }];
            take_in(&place.new, &place.downloads, &place.id, &mut files).map(|()| files)
        };
        for bad in ["../outside.txt", "..", "", "missing", "a/b"] {
            assert!(matches!(take(bad), Err(Error::Unfit { .. })), "{bad}");
        }
        std::os::unix::fs::symlink(&outside, place.downloads.join("a/link")).expect("link");
        assert!(matches!(take("link"), Err(Error::Unfit { .. })));
        let [taken] = take(outside.to_str().expect("path")).expect("take in");
        assert_eq!(
            (taken.path.as_str(), taken.filename.as_deref()),
            ("a/0-outside.txt", Some("outside.txt"))
        );
    }
}
