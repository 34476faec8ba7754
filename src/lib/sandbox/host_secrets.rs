//! Finds what is not meant for everyone in directories that the sandbox shows.
//!
//! A daemon that runs as root owns `/etc/shadow` and every private key; inside the sandbox the
//! command still is that user and would be let in as the owner. So what others may not read is
//! looked up and masked. So are sockets of other programs in what a command may write: a program that listens there is
//! outside the walls (Landlock knows them since ABI 9 only).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use parking_lot::Mutex;

use super::mount_root::{Named, Paths};
use super::{At, Failure, Plan, syscalls};

const STEP: &str = "look for secrets";

/// Where secrets of other programs live, and how deep they are looked for. `/etc` whole: about
/// 1,200 entries here; `/opt` only as deep as `/opt/app/config/secret`, since whole
/// programming environments are installed there.
const SEARCHED: [(&str, u32); 3] = [("/etc", 16), ("/usr/local/etc", 16), ("/opt", 3)];

/// Entries of the writable directories that are looked at for sockets. Beyond them the sockets are masked whose whole path
/// is known.
const ENTRIES: usize = 50_000;

const OTHERS_READ: u32 = 0o004;
const OTHERS_READ_AND_ENTER: u32 = 0o005;

/// What changes who may read something in a directory that is shown.
const CHANGES: AddWatchFlags = AddWatchFlags::IN_ATTRIB
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR)
    .union(AddWatchFlags::IN_DONT_FOLLOW);

/// A process that stays outside the walls and looks around there while they go up.
pub(super) struct Search {
    question: PipeWriter,
    answers: BufReader<PipeReader>,
}

impl Search {
    /// Starts it. Returns `None` in the new process, which is done.
    pub(super) fn begin() -> Result<Option<Self>, Failure> {
        let (asked, question) = std::io::pipe().at(STEP)?;
        let (answers, answer) = std::io::pipe().at(STEP)?;
        if syscalls::fork().at(STEP)?.is_some() {
            let answers = BufReader::new(answers);
            return Ok(Some(Self { question, answers }));
        }
        // Or it would wait for itself when all others are gone.
        drop((question, answers));
        answer_one(asked, answer).map(|()| None)
    }

    /// Returns where the paths of `plan` lead, and what will say which files and directories in the shown system
    /// directories others may not read, and which sockets there are in the writable ones, which are left alone
    /// otherwise.
    pub(super) fn look(mut self, plan: &Plan) -> Result<(Paths, Secrets), Failure> {
        let named = serde_json::to_vec(&Named::of(plan)).at(STEP)?;
        self.question.write_all(&named).at(STEP)?;
        drop(self.question);
        let mut line = Vec::new();
        self.answers.read_until(b'\n', &mut line).at(STEP)?;
        let paths: Result<Paths, Failure> = serde_json::from_slice(&line).at(STEP)?;
        Ok((paths?, Secrets(self.answers)))
    }
}

/// The answer of a [`Search`] that is still to come.
pub(super) struct Secrets(BufReader<PipeReader>);

impl Secrets {
    /// Waits for the end and returns what was found, in no particular order.
    pub(super) fn finish(self) -> Result<Vec<PathBuf>, Failure> {
        read_list(self.0)
    }
}

/// Answers what comes on `asked`: where the paths lead, and then what is to be masked. Nobody asks where the launcher failed,
/// and nothing is masked where paths lead nowhere.
fn answer_one(mut asked: PipeReader, mut answer: PipeWriter) -> Result<(), Failure> {
    let mut named = Vec::new();
    asked.read_to_end(&mut named).at(STEP)?;
    let Ok(named) = serde_json::from_slice::<Named>(&named) else {
        return Ok(());
    };
    let paths = Paths::resolve(&named);
    let mut line = serde_json::to_vec(&paths).at(STEP)?;
    line.push(b'\n');
    answer.write_all(&line).at(STEP)?;
    let Ok(paths) = paths else { return Ok(()) };
    let mut found = named.closed;
    // What is named is meant to be seen.
    let is_named = |path: &Path| {
        let mut named = paths.writable.iter().chain(&paths.read_only);
        named.any(|named| path.starts_with(named))
    };
    found.retain(|path| !is_named(path));
    if !named.trial {
        found.extend(sockets(&paths.writable, ENTRIES));
    }
    let list = serde_json::to_vec(&found).at(STEP)?;
    answer.write_all(&list).at(STEP)
}

/// Reads the list whole and then as JSON, which by itself would be a system call a byte. One that was cut short is not JSON.
fn read_list(mut from: impl Read) -> Result<Vec<PathBuf>, Failure> {
    let mut list = Vec::new();
    from.read_to_end(&mut list).at(STEP)?;
    serde_json::from_slice(&list).at(STEP)
}

/// What [`closed`] found last.
static SURVEY: Mutex<Option<Survey>> = Mutex::new(None);

/// Returns the files and directories in the shown system directories that others may not read. They are looked for the first
/// time, and when something changed there: 1,500 system calls.
pub(super) fn closed() -> Vec<PathBuf> {
    let mut survey = SURVEY.lock();
    let survey = survey.get_or_insert_default();
    survey.update(&SEARCHED);
    survey.closed.clone()
}

/// What others may not read in some directories, and what tells whether that is still so.
#[derive(Default)]
struct Survey {
    closed: Vec<PathBuf>,
    /// Directories that were not there.
    absent: Vec<PathBuf>,
    /// What changed since; `None` where nobody says so. The kernel takes about 10 ms to give one up.
    changes: Option<Inotify>,
}

impl Survey {
    /// Looks through directories, each as deep as it says.
    fn of(dirs: &[(&str, u32)]) -> Self {
        let changes = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        let mut survey = Self {
            changes,
            ..Self::default()
        };
        for (dir, depth) in dirs {
            let dir = Path::new(dir);
            if dir.symlink_metadata().is_ok() {
                survey.search(dir, *depth);
            } else {
                survey.absent.push(dir.to_owned());
            }
        }
        survey
    }

    /// Looks again, unless all is as it was.
    fn update(&mut self, dirs: &[(&str, u32)]) {
        if !self.is_current() {
            *self = Self::of(dirs);
        }
    }

    fn is_current(&self) -> bool {
        let changes = self.changes.as_ref().map(Inotify::read_events);
        matches!(changes, Some(Err(Errno::EAGAIN)))
            && self
                .absent
                .iter()
                .all(|dir| dir.symlink_metadata().is_err())
    }

    fn search(&mut self, dir: &Path, depth: u32) {
        // Before it is read: then no change is missed.
        let watch = |changes: &Inotify| changes.add_watch(dir, CHANGES).is_ok();
        if !self.changes.as_ref().is_some_and(watch) {
            self.changes = None;
        }
        let Ok(entries) = std::fs::read_dir(dir) else {
            return;
        };
        for entry in entries.flatten() {
            // What a symlink points to is shown, or not, where it is. The kind costs no system call.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_symlink() {
                continue;
            }
            let Ok(meta) = entry.metadata() else { continue };
            let wanted = if kind.is_dir() {
                OTHERS_READ_AND_ENTER
            } else {
                OTHERS_READ
            };
            if meta.permissions().mode() & wanted != wanted {
                self.closed.push(entry.path());
            } else if kind.is_dir() && depth > 1 {
                self.search(&entry.path(), depth - 1);
            }
        }
    }
}

/// Returns the files that sockets of this machine are bound to, as `/proc/net/unix` lists them: whole paths, and names
/// of those that were bound by a relative one.
fn bound<'l>(list: &'l str) -> (Vec<&'l Path>, BTreeSet<&'l OsStr>) {
    let (mut whole, mut relative) = (Vec::new(), BTreeSet::new());
    // Seven columns are before a path, which may have spaces.
    let path = |line: &'l str| {
        let mut rest = line;
        for _ in 0..7 {
            rest = rest.trim_start_matches(' ');
            rest = rest.get(rest.find(' ')?..)?;
        }
        rest.strip_prefix(' ')
    };
    for path in list.lines().skip(1).filter_map(path).map(Path::new) {
        if path.is_absolute() {
            whole.push(path);
        } else {
            relative.extend(path.file_name());
        }
    }
    (whole, relative)
}

/// Returns the sockets at and below `dirs` that somebody may listen at. The first `most` entries are looked at.
fn sockets(dirs: &[PathBuf], most: usize) -> Vec<PathBuf> {
    let list = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let (whole, relative) = bound(&list);
    let known: BTreeSet<PathBuf> = whole
        .iter()
        .filter_map(|path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)))
        .filter(|path| dirs.iter().any(|dir| path.starts_with(dir)) && path.exists())
        .collect();
    let (mut found, mut dirs, mut left) = (known.clone(), dirs.to_vec(), most);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if left == 0 {
                return found.into_iter().collect();
            }
            left -= 1;
            // The kind costs no system call.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            if kind.is_dir() {
                dirs.push(path);
            } else if kind.is_socket()
                && !known.contains(&path)
                && (relative.contains(&*entry.file_name()) || is_listened_at(&path))
            {
                found.insert(path);
            }
        }
    }
    found.into_iter().collect()
}

/// Returns whether somebody may listen at a socket that no list names: one that was renamed since, or of another network
/// namespace. Of one that a program left behind the kernel says that nobody does.
fn is_listened_at(path: &Path) -> bool {
    let refused = |error: std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
    !UnixStream::connect(path).is_err_and(refused)
}

/// Returns the paths that together hold everything at and below `dir` but `closed`: `dir` itself
/// when nothing closed is in it. What is closed above `dir` does not count. Symlinks are left out when a directory has to be split.
pub(super) fn open_parts(dir: &Path, closed: &[PathBuf]) -> Vec<PathBuf> {
    let inside: Vec<&PathBuf> = closed.iter().filter(|path| path.starts_with(dir)).collect();
    let mut parts = Vec::new();
    split(dir, &inside, &mut parts);
    parts
}

fn split(path: &Path, closed: &[&PathBuf], parts: &mut Vec<PathBuf>) {
    if closed.iter().any(|c| path.starts_with(c)) {
        return;
    }
    if !closed.iter().any(|c| c.starts_with(path)) {
        parts.push(path.to_owned());
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            split(&entry.path(), closed, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_split_around_what_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a", "b/secret", "b/open"] {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink("/", dir.path().join("way-out")).unwrap();
        let mut parts = open_parts(
            dir.path(),
            &[dir.path().join("b/secret"), "/elsewhere".into()],
        );
        parts.sort();
        assert_eq!(parts, [dir.path().join("a"), dir.path().join("b/open")]);
        assert_eq!(open_parts(dir.path(), &["/elsewhere".into()]), [dir.path()]);
    }

    #[test]
    fn a_list_is_read_in_few_steps_and_whole_or_not_at_all() {
        struct Counted<'l>(&'l [u8], usize);
        impl Read for &mut Counted<'_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                self.1 += 1;
                self.0.read(into)
            }
        }
        let found: Vec<PathBuf> = (0..40).map(|n| format!("/etc/secret-{n}").into()).collect();
        let list = serde_json::to_vec(&found).unwrap();
        let mut whole = Counted(&list, 0);
        assert_eq!(read_list(&mut whole).ok(), Some(found));
        assert!(whole.1 < 20, "{} reads", whole.1);
        let mut cut = Counted(list.get(..list.len() - 1).unwrap(), 0);
        assert!(read_list(&mut cut).is_err());
    }

    #[test]
    fn sockets_are_found_where_somebody_may_listen() {
        use std::os::unix::net::UnixListener;
        let dir = tempfile::tempdir().unwrap();
        let dirs = [dir.path().canonicalize().unwrap()];
        let path = |name: &str| dirs[0].join(name);
        std::fs::create_dir(path("deep")).unwrap();
        let _listener = UnixListener::bind(path("deep/a b.sock")).unwrap();
        drop(UnixListener::bind(path("left")).unwrap());
        // What lists the sockets of this machine knows neither of these.
        let _renamed = UnixListener::bind(path("before")).unwrap();
        std::fs::rename(path("before"), path("renamed")).unwrap();
        let _datagrams = std::os::unix::net::UnixDatagram::bind(path("old")).unwrap();
        std::fs::rename(path("old"), path("datagrams")).unwrap();
        let found = |most| {
            let mut found = sockets(&dirs, most);
            found.sort();
            found
        };
        let listed = path("deep/a b.sock");
        assert_eq!(
            found(ENTRIES),
            [path("datagrams"), listed.clone(), path("renamed")]
        );
        assert_eq!(found(0), [listed]);
        let list = "Num RefCount Protocol Flags Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 53112 rel.sock\n\
            0001: 00000002 00000000 00010000 0001 01   312 /run/a b\n\
            0002: 00000003 00000000 00000000 0001 03 53113\n\
            0003: 00000002 00000000 00010000 0001 01 53114 @/abstract\n";
        let (whole, relative) = bound(list);
        assert_eq!(whole, [Path::new("/run/a b")]);
        assert!(relative.contains(OsStr::new("rel.sock")));
    }

    /// Returns what is masked for a command that may write to `workspace`, where `closed` is what others may not read.
    fn masked(workspace: &Path, closed: &[&str], trial: bool) -> Vec<PathBuf> {
        let (asked, mut question) = std::io::pipe().unwrap();
        let (answers, answer) = std::io::pipe().unwrap();
        let named = serde_json::json!({
            "workspace": workspace, "writable": [], "hidden": [], "read_only": [],
            "closed": closed, "trial": trial,
        });
        question.write_all(named.to_string().as_bytes()).unwrap();
        drop(question);
        let answered = std::thread::spawn(|| answer_one(asked, answer).unwrap());
        let mut answers = BufReader::new(answers);
        answers.read_until(b'\n', &mut Vec::new()).unwrap();
        let found = Secrets(answers).finish().unwrap();
        answered.join().unwrap();
        found
    }

    #[test]
    fn a_trial_looks_through_nothing_that_it_may_write() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap();
        let socket = workspace.join("live");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let check = |trial| masked(&workspace, &[], trial).contains(&socket);
        assert_eq!((check(false), check(true)), (true, false));
    }

    #[test]
    fn what_others_may_not_read_is_found_as_it_is_now() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, mode| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        };
        let (open, group, own) = (
            make("deep/open", 0o644),
            make("group", 0o640),
            make("deep/own", 0o600),
        );
        make("deep/too/deep", 0o600);
        let absent = dir.path().join("absent");
        let dirs = [
            (dir.path().to_str().unwrap(), 2),
            (absent.to_str().unwrap(), 1),
        ];
        let closed = |mut survey: Survey| {
            survey.update(&dirs);
            survey.closed.sort();
            survey.closed
        };
        let survey = || {
            let survey = Survey::of(&dirs);
            assert!(survey.is_current());
            survey
        };
        assert_eq!(closed(survey()), [own.clone(), group.clone()]);
        let mut unchanged = survey();
        unchanged.closed.clear();
        assert_eq!(
            closed(unchanged),
            [""; 0].map(PathBuf::from),
            "not looked for again"
        );
        // Whatever happens between the search and the question counts.
        let before = survey();
        make("deep/open", 0o600);
        assert_eq!(
            closed(before),
            [open.clone(), own.clone(), group.clone()],
            "a file is closed"
        );
        let before = survey();
        let late = make("late", 0o600);
        assert_eq!(
            closed(before),
            [open, own, group, late.clone()],
            "one is new"
        );
        let before = survey();
        std::fs::rename(dir.path().join("deep"), dir.path().join("moved")).unwrap();
        assert!(closed(before).contains(&dir.path().join("moved/own")));
        let before = survey();
        let made = make("absent/own", 0o600);
        assert!(closed(before).contains(&made), "a directory is new");
        let blind = Survey {
            changes: None,
            ..survey()
        };
        std::fs::remove_file(&late).unwrap();
        assert!(!closed(blind).contains(&late), "where nobody tells");
    }

    #[test]
    fn what_a_command_may_write_is_not_masked() {
        let system = closed();
        let in_etc = |found: &[PathBuf]| found.iter().any(|path| path.starts_with("/etc"));
        assert!(in_etc(&system), "{system:?}");
        let elsewhere = tempfile::tempdir().unwrap();
        let system: Vec<&str> = system.iter().filter_map(|path| path.to_str()).collect();
        assert!(in_etc(&masked(elsewhere.path(), &system, true)));
        let left = masked(Path::new("/etc"), &system, true);
        assert!(!in_etc(&left), "{left:?}");
    }
}
