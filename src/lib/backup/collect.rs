//! Selects the files of a home for a backup, and their order.

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::Error;
use super::archive::{Attributes, Manifest, ROOT, Writer};
use super::generations;
use super::scratch::Scratch;
use crate::config::Home;
use crate::sandbox::{BeneathError, Root};
use crate::{clock, db, sys};

/// A file that is longer than this is copied to the scratch directory, because it could shrink while it is read.
const IN_MEMORY: u64 = 16 << 20;
/// How often a file that changed while it was read is read again.
const TRIES: u32 = 5;
/// Files of the settings that are nobody's to see.
const ENV: &str = ".env";
const AUTH: &str = "state/auth.json";

/// Of the state: keys and sign-ins. What begins with such a name, hidden or not, has the same in it: a damaged file that was
/// set aside, a draft, a copy by hand.
pub const SECRETS: [&str; 2] = ["auth.json", "mcp-auth.json"];
/// Of the directory of a channel: what nobody else may see; the same holds of what begins so.
pub const OF_CHANNEL: &str = "secret";

/// Of the state: what is rebuilt, or is of no use elsewhere. A standby gets none of it either.
pub const LEFT: [&str; 14] = [
    "backup.json",
    "backup.tmp",
    "control.fifo",
    "index.vec",
    "logs",
    "monitor.json",
    "replies",
    "service",
    "sign-in.html",
    "spool/tmp",
    "standby",
    "standby.json",
    "status.json",
    "undo",
];
/// What the report says of it.
const LEFT_WORDS: &str =
    "logs, replies, undo copies and what is rebuilt (index.db, session snapshots, monitor.json)";

/// What the person wants.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// With `.env`, [`SECRETS`] and what tool servers hide.
    pub secrets: bool,
}

/// What was written.
#[derive(Debug)]
pub struct Report {
    /// What is in it.
    pub manifest: Manifest,
    /// All of it.
    pub bytes: u64,
}

/// Writes a backup of `home` to `out`. Where the home is full or only read, databases are copied to one of the directories
/// `elsewhere`.
///
/// # Errors
/// When something of the home cannot be read, a database is damaged, or `out` cannot be written.
pub fn write(
    home: &Home,
    options: Options,
    elsewhere: &[PathBuf],
    out: impl Write,
) -> Result<Report, Error> {
    let mut collector = Collector {
        home,
        options,
        scratch: Scratch::make(home.state(), elsewhere)?,
        writer: Writer::start(out).map_err(writing)?,
        left_out: BTreeSet::from([LEFT_WORDS.to_owned()]),
    };
    collector.state()?;
    collector.tree(home.workspace(), "workspace", &[])?;
    collector.settings()?;
    let Collector {
        writer, left_out, ..
    } = collector;
    let created_at = clock::rfc3339(clock::now_ms());
    let left_out = left_out.into_iter().collect();
    let (_, manifest, bytes) = writer
        .end(created_at, options.secrets, left_out)
        .map_err(writing)?;
    Ok(Report { manifest, bytes })
}

fn writing(error: io::Error) -> Error {
    sys::Error::at("write", Path::new("the backup"))(error).into()
}

/// Returns whether this is where a channel keeps what nobody else may see, which no backup has: a token is a secret, and
/// keys of yesterday are behind what others have seen.
fn is_of_channel(name: &str) -> bool {
    let below = name.strip_prefix("state/channels/");
    below
        .and_then(|name| name.split_once('/'))
        .is_some_and(|(_, file)| !file.contains('/') && begins_with(file, OF_CHANNEL))
}

/// Returns what a hidden entry is that stays behind: keys of SSH and GPG in the state, which is the HOME of the system's
/// agent, and those of a tool server in its directory, which is its HOME.
fn whose_hidden(name: &str, options: Options) -> Option<&'static str> {
    let state = name.strip_prefix("state/")?;
    if state.starts_with('.') && !state.contains('/') {
        return Some("hidden, and not the agent's own");
    }
    let (_, of_server) = state.strip_prefix("mcp/")?.split_once('/')?;
    let is_secret = of_server.starts_with('.') && !of_server.contains('/');
    (is_secret && !options.secrets).then_some("hidden, where tool servers keep sign-ins")
}

/// Returns true for a backup, by its name or by how it begins.
fn is_backup(name: &str, path: &Path) -> bool {
    let begins = || {
        let mut head = [0; ROOT.len()];
        // Something else may lie there by now.
        let open = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(path);
        let read = open.and_then(|mut file| file.read_exact(&mut head));
        read.is_ok() && head == ROOT.as_bytes()
    };
    let is_archive = [".tar", ".part"].iter().any(|end| name.ends_with(end));
    generations::is_backup(name) || is_archive && begins()
}

fn begins_with(file: &str, name: &str) -> bool {
    file.strip_prefix('.').unwrap_or(file).starts_with(name)
}

struct Collector<'a, W: Write> {
    home: &'a Home,
    options: Options,
    scratch: Scratch<'a>,
    writer: Writer<W>,
    left_out: BTreeSet<String>,
}

impl<W: Write> Collector<'_, W> {
    /// See the order in [`super`].
    fn state(&mut self) -> Result<(), Error> {
        let state = self.home.state();
        let [queue, cost] = [self.home.queue_db(), self.home.cost_db()];
        self.databases(|path| ![&queue, &cost].contains(&path))?;
        // The order of the audit log: how far it surely goes, then the log.
        self.one(&self.home.audit_head(), "state/audit.head", Reading::Whole)?;
        self.tree(&self.home.spool_new(), "state/spool/new", &[])?;
        let (sessions, downloads) = (self.home.sessions(), self.home.downloads());
        let later = [self.home.workspace(), &sessions, &downloads];
        self.tree(state, "state", &later)?;
        self.databases(|path| [&queue, &cost].contains(&path))?;
        // A conversation that ends meanwhile goes from here to the archive.
        self.transcripts(&self.home.sessions(), "state/sessions")?;
        self.transcripts(&self.home.archive(), "state/sessions/archive")?;
        self.tree(&self.home.downloads(), "state/downloads", &[])
    }

    fn databases(&mut self, wanted: impl Fn(&PathBuf) -> bool) -> Result<(), Error> {
        for entry in list(self.home.state())? {
            let name = entry.to_string_lossy().into_owned();
            let path = self.home.state().join(&name);
            if !name.ends_with(".db") || name == "index.db" || !wanted(&path) || !path.is_file() {
                continue;
            }
            let copy = self.scratch.for_bytes(db::size(&path))?.join(&name);
            if db::snapshot(&path, &copy)? {
                self.one(&copy, &format!("state/{name}"), Reading::Whole)?;
                std::fs::remove_file(&copy).map_err(sys::Error::at("remove", &copy))?;
            }
        }
        Ok(())
    }

    fn transcripts(&mut self, dir: &Path, name: &str) -> Result<(), Error> {
        for file in list(dir)? {
            let file = file.to_string_lossy();
            let name = format!("{name}/{file}");
            let in_archive = format!("state/sessions/{file}");
            if file.ends_with(".jsonl") && !self.writer.has(&in_archive) {
                self.one(&dir.join(&*file), &name, Reading::Lines)?;
            }
        }
        Ok(())
    }

    fn settings(&mut self) -> Result<(), Error> {
        self.one(self.home.config_file(), "agent.toml", Reading::Whole)?;
        self.tree(&self.home.providers_dir(), "providers.d", &[])?;
        // There are passwords in them.
        let channels = self.home.channel_settings();
        if self.options.secrets {
            self.tree(&channels, "channels", &[])?;
        } else if channels.exists() {
            self.left_out
                .insert("settings of channels (channels/)".to_owned());
        }
        if self.options.secrets {
            self.one(&self.home.env_file(), ENV, Reading::Whole)?;
        } else if [
            self.home.env_file(),
            self.home.auth(),
            self.home.server_auth(),
        ]
        .iter()
        .any(|path| path.exists())
        {
            self.left_out.insert(format!("secrets ({ENV}, {AUTH})"));
        }
        Ok(())
    }

    /// Adds all files below `dir` as `name/…`, but not what is in `later`.
    fn tree(&mut self, dir: &Path, name: &str, later: &[&Path]) -> Result<(), Error> {
        match Root::open(dir) {
            Ok(root) => self.below(&root, dir, name, later).map(drop),
            // It is not there, or what it is is told.
            Err(_) => list(dir).map(drop),
        }
    }

    /// Adds all of `dir`, which is `root` or below it; returns whether anything of it is in the archive.
    fn below(
        &mut self,
        root: &Root,
        dir: &Path,
        name: &str,
        later: &[&Path],
    ) -> Result<bool, Error> {
        let mut has_any = false;
        for entry in list(dir)? {
            let path = dir.join(&entry);
            let Some(entry) = entry.to_str() else {
                self.left_out
                    .insert(format!("{} (its name is not UTF-8)", path.display()));
                continue;
            };
            let name = format!("{name}/{entry}");
            if is_of_channel(&name) {
                self.left_out
                    .insert(format!("{name} (the channel signs in again)"));
                continue;
            }
            if self.writer.has(&name) {
                has_any = true;
                continue;
            }
            if later.contains(&path.as_path()) || self.is_left(&name) {
                continue;
            }
            if let Some(whose) = whose_hidden(&name, self.options) {
                self.left_out.insert(format!("{name} ({whose})"));
                continue;
            }
            let Ok(meta) = path.symlink_metadata() else {
                continue;
            };
            if meta.is_dir() {
                has_any = true;
                let is_empty = !self.below(root, &path, &name, later)?;
                // Git takes no directory for a repository that lacks an empty one.
                if is_empty && root.find_plain(&path).is_ok() {
                    self.writer.directory(&name, meta.mode() & 0o777);
                }
            } else if meta.is_symlink() {
                has_any = true;
                self.link(&path, &name)?;
            } else if meta.is_file() && is_backup(entry, &path) {
                // Each would have all before it in it.
                self.left_out.insert(format!("{name} (a backup)"));
            } else if meta.is_file() {
                let is_log = name.starts_with("state/") && name.ends_with(".jsonl");
                let reading = match is_log {
                    true => Reading::Lines,
                    false => Reading::Whole,
                };
                if self.add(&path, &name, reading, &|| plain(root, &path))? {
                    has_any = true;
                } else {
                    self.left_out.insert(format!(
                        "{name} (it was replaced by something else meanwhile)"
                    ));
                }
            } else {
                self.left_out.insert(format!("{name} (not a file)"));
            }
        }
        Ok(has_any)
    }

    fn is_left(&self, name: &str) -> bool {
        let Some(state) = name.strip_prefix("state/") else {
            return false;
        };
        let file = state.rsplit('/').next().unwrap_or(state);
        LEFT.contains(&state)
            || !state.contains('/')
                && (state.contains(".db")
                    || state.ends_with(".lock")
                    || state.starts_with("index."))
            || file.starts_with('.') && file.contains(".tmp-")
            || !self.options.secrets && SECRETS.iter().any(|name| begins_with(state, name))
    }

    fn link(&mut self, path: &Path, name: &str) -> Result<(), Error> {
        let Ok(to) = std::fs::read_link(path) else {
            return Ok(());
        };
        if self.leads_outside(path, &to) {
            self.left_out
                .insert(format!("what {name} links to: {}", to.display()));
        }
        match to.to_str() {
            Some(to) => self.writer.link(name, to).map_err(writing)?,
            None => drop(
                self.left_out
                    .insert(format!("{name} (a link to a name that is not UTF-8)")),
            ),
        }
        Ok(())
    }

    /// Returns whether a link to `to` leads out of the home; of what is not there its name must do.
    fn leads_outside(&self, link: &Path, to: &Path) -> bool {
        let own = [
            self.home.workspace(),
            self.home.state(),
            self.home.config_dir(),
        ];
        match link.canonicalize() {
            Ok(there) => !own
                .iter()
                .any(|dir| dir.canonicalize().is_ok_and(|dir| there.starts_with(dir))),
            Err(_) => to.is_absolute() && !own.iter().any(|dir| to.starts_with(dir)),
        }
    }

    /// Adds one file, or what a link in its place leads to; one that has gone meanwhile is left out.
    fn one(&mut self, path: &Path, name: &str, reading: Reading) -> Result<(), Error> {
        self.add(path, name, reading, &|| there(File::open(path)))
            .map(drop)
    }

    /// Adds the file at `path`, which `open` opens; returns false when it is there no more.
    fn add(
        &mut self,
        path: &Path,
        name: &str,
        reading: Reading,
        open: &dyn Fn() -> io::Result<Option<File>>,
    ) -> Result<bool, Error> {
        for _ in 0..TRIES {
            match self.read(open, reading) {
                Ok(None) => return Ok(false),
                Ok(Some((meta, size, mut bytes))) => {
                    let attributes = Attributes {
                        mode: meta.mode() & 0o777,
                        modified: u64::try_from(meta.mtime()).unwrap_or(0),
                    };
                    let added = self.writer.file(name, &mut bytes, size, attributes);
                    return added.map(|_| true).map_err(writing);
                }
                // It became shorter, or something else was renamed over it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(sys::Error::at("read", path)(error).into()),
            }
        }
        Err(Error::Restless(path.to_owned()))
    }

    fn read(
        &mut self,
        open: &dyn Fn() -> io::Result<Option<File>>,
        reading: Reading,
    ) -> io::Result<Option<(Metadata, u64, Bytes)>> {
        let Some(mut file) = open()? else {
            return Ok(None);
        };
        let meta = file.metadata()?;
        let mut size = meta.len();
        if reading == Reading::Lines {
            size = end_of_lines(&mut file, size)?;
        }
        file.seek(SeekFrom::Start(0))?;
        let mut part = file.take(size);
        if size <= IN_MEMORY {
            let mut bytes = Vec::new();
            part.read_to_end(&mut bytes)?;
            let is_whole = bytes.len() as u64 == size;
            return is_whole
                .then(|| Some((meta, size, Bytes::Memory(io::Cursor::new(bytes)))))
                .ok_or_else(|| io::ErrorKind::UnexpectedEof.into());
        }
        let scratch = self.scratch.for_bytes(size);
        let scratch = scratch.map_err(|error| error.source)?.join("file");
        let mut copy = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(scratch)?;
        if io::copy(&mut part, &mut copy)? != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        copy.seek(SeekFrom::Start(0))?;
        Ok(Some((meta, size, Bytes::Disk(copy))))
    }
}

/// Returns a file; `None` for one that is not there.
fn there(opened: io::Result<File>) -> io::Result<Option<File>> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Opens a regular file below `root` that no link leads to: a command of the agent may put a link to a secret where a file or
/// a directory was a moment ago. `None` when it is there no more.
fn plain(root: &Root, path: &Path) -> io::Result<Option<File>> {
    match root.find_plain(path).and_then(|found| found.open()) {
        Ok(file) => Ok(Some(file)),
        Err(BeneathError::Io { source, .. }) => there(Err(source)),
        Err(_) => Ok(None),
    }
}

/// How much of a file is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Whole,
    /// Up to the end of the last line: somebody is appending the next.
    Lines,
}

enum Bytes {
    Memory(io::Cursor<Vec<u8>>),
    Disk(File),
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(bytes) => bytes.read(buffer),
            Self::Disk(file) => file.read(buffer),
        }
    }
}

/// Returns where the last whole line within the first `size` bytes ends.
fn end_of_lines(file: &mut File, size: u64) -> io::Result<u64> {
    const BLOCK: u64 = 64 << 10;
    let mut end = size;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        file.seek(SeekFrom::Start(start))?;
        let mut block = Vec::new();
        (&*file).take(end - start).read_to_end(&mut block)?;
        if let Some(at) = block.iter().rposition(|byte| *byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Returns the names in a directory in order; none when it is not there.
fn list(dir: &Path) -> Result<Vec<std::ffi::OsString>, Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(sys::Error::at("read", dir))?,
    };
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    #[test]
    fn what_a_link_took_the_place_of_is_not_read() {
        let dir = tempfile::tempdir().expect("dir");
        let (tree, secret) = (dir.path().join("workspace"), dir.path().join("auth.json"));
        std::fs::create_dir_all(tree.join("notes")).expect("dirs");
        let write = |path: &Path| atomic::write(path, b"x", atomic::Durability::Rename);
        for path in [&secret, &tree.join("own.md"), &tree.join("notes/a.md")] {
            write(path).expect("write");
        }
        let root = Root::open(&tree).expect("there");
        let is_read = |name: &str| plain(&root, &tree.join(name)).expect("told").is_some();
        assert!(is_read("own.md") && is_read("notes/a.md"));
        let link = |to: &Path, at: &str| std::os::unix::fs::symlink(to, tree.join(at));
        for to in [&secret, &tree.join("notes/a.md")] {
            std::fs::remove_file(tree.join("own.md")).expect("removed");
            link(to, "own.md").expect("link");
            assert!(!is_read("own.md"), "{}", to.display());
        }
        std::fs::rename(tree.join("notes"), tree.join("old")).expect("rename");
        link(dir.path(), "notes").expect("link");
        assert!(!is_read("notes/auth.json") && is_read("old/a.md"));
        let fifo = tree.join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("fifo");
        assert!(!is_read("fifo"));
    }

    #[test]
    fn a_line_that_is_being_written_is_cut_off() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("log.jsonl");
        let long = "x".repeat(200_000);
        for (text, end) in [
            ("", 0),
            ("torn", 0),
            ("a\n", 2),
            ("a\nb", 2),
            (&format!("a\n{long}"), 2),
            (&format!("{long}\nb"), 200_001),
        ] {
            atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
            let mut file = File::open(&path).expect("open");
            assert_eq!(
                end_of_lines(&mut file, text.len() as u64).expect("read"),
                end,
                "{text:.10}"
            );
        }
    }
}
