//! The guard of read-only files: those that a command must not change, where a mount alone does not keep them.
//!
//! A read-only mount covers a file until somebody outside puts another file in its place: the kernel takes the
//! mount away then, and a command that waits for that writes the new file before anybody can end it. So the
//! directories of the covered paths are watched, and when what is at such a path is another file than before, the
//! command is ended. Nobody can tell then whose words the new file holds, unless this process wrote it: the old one
//! is put back, and the new one set aside. A file with another name is replaced by a copy before: the mount covers
//! one name. At level `landlock`, without mounts, contents and modes are put back when the command has ended, and
//! the modes of hidden files, which it could change there without reading them.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use parking_lot::Mutex;
use tokio::io::unix::AsyncFd;

use super::run::KILL_GRACE;
use super::{Walls, syscalls};

/// What this process wrote last at covered paths; of more the oldest go.
static WRITTEN: Mutex<Vec<(PathBuf, Vec<u8>)>> = Mutex::new(Vec::new());
const MAX_WRITTEN: usize = 64;

/// Tells that this process is about to write `content` at `path`, which commands must not change: one that runs
/// meanwhile does not undo it.
pub fn will_write(path: &Path, content: &[u8]) {
    let path = real(path);
    let mut written = WRITTEN.lock();
    written.retain(|(known, _)| *known != path);
    if written.len() >= MAX_WRITTEN {
        written.remove(0);
    }
    written.push((path, content.to_owned()));
}

fn is_own(path: &Path) -> bool {
    let (path, content) = (real(path), fs::read(path).ok());
    let written = WRITTEN.lock();
    written
        .iter()
        .any(|(known, words)| *known == path && Some(words) == content.as_ref())
}

/// Returns `path` with no link in its directory.
fn real(path: &Path) -> PathBuf {
    let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
    match dir.zip(path.file_name()) {
        Some((dir, name)) => dir.join(name),
        None => path.to_owned(),
    }
}

/// Files and bytes of the covered paths that are remembered; what lies beyond is only told.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: u64 = 16 << 20;
const MAX_DEPTH: usize = 8;
/// Hidden files whose modes are remembered, and how deep below the hidden directories.
const MAX_MODES: usize = 20_000;
const MODES_DEPTH: usize = 4;

/// What is put behind the name of a file that a command added.
const ASIDE: &str = ".from-a-command";

/// Which file is at a path.
type Identity = Option<(u64, u64)>;

/// What a file is known by and can be restored from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    mode: u32,
    content: Vec<u8>,
}

/// A covered path of a command that runs.
struct Covered {
    path: PathBuf,
    identity: Identity,
    /// What lay there when the command began. A copy: while a file is replaced the mount over the old one goes first,
    /// and a command can write that one, too, before it goes.
    old: Vec<(PathBuf, Kept)>,
}

/// The covered paths of a command that runs.
pub(super) struct ReadOnlyGuard {
    paths: Vec<Covered>,
    /// `None` where nothing can be watched, or need not be.
    watch: Option<AsyncFd<OwnedFd>>,
    /// What is put back at the end.
    kept: Vec<(PathBuf, Kept)>,
    /// The modes that are.
    modes: Vec<(PathBuf, u32)>,
}

impl ReadOnlyGuard {
    /// Returns the cover of those of `read_only` that lie in what the command may write. Blocks: it
    /// reads all of them.
    pub(super) fn new(
        walls: Walls,
        read_only: &[PathBuf],
        writable: &[PathBuf],
        hidden: &[PathBuf],
    ) -> Self {
        let is_writable = |path: &&PathBuf| {
            let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
            let is_below = |base: &PathBuf| {
                base.canonicalize()
                    .is_ok_and(|base| dir.as_ref().is_some_and(|dir| dir.starts_with(base)))
            };
            writable.iter().any(is_below)
        };
        let paths: Vec<PathBuf> = read_only.iter().filter(is_writable).cloned().collect();
        let mut cover = Self {
            paths: Vec::new(),
            watch: None,
            kept: Vec::new(),
            modes: Vec::new(),
        };
        match walls {
            Walls::Off => {}
            Walls::Namespaces => {
                paths.iter().for_each(|path| part_links(path, 0));
                cover.watch = watch(&paths);
            }
            Walls::Landlock => {
                cover.kept = keep(&paths);
                let hidden = hidden.iter().flat_map(|path| modes(path, writable));
                cover.modes = hidden.collect();
            }
        }
        // After the watch has begun, or a replacement between the two would go unnoticed.
        let covered = |path: PathBuf| Covered {
            identity: identity(&path),
            old: match walls {
                Walls::Namespaces => keep(std::slice::from_ref(&path)),
                Walls::Landlock | Walls::Off => Vec::new(),
            },
            path,
        };
        cover.paths = paths.into_iter().map(covered).collect();
        cover
    }

    /// Waits until another file is at one of the paths, and returns the path.
    pub(super) async fn replaced(&mut self) -> PathBuf {
        loop {
            let Some(watch) = &self.watch else {
                return std::future::pending().await;
            };
            let Ok(mut ready) = watch.readable().await else {
                return std::future::pending().await;
            };
            // Which names they are about does not matter: the paths are few.
            while nix::unistd::read(watch.get_ref(), &mut [0; 4096]).is_ok_and(|count| count > 0) {}
            ready.clear_ready();
            drop(ready);
            if let Some(covered) = self.paths.iter().find(|covered| covered.is_replaced()) {
                return covered.path.clone();
            }
        }
    }

    /// Puts back what a command changed, now that it has ended, and returns those paths. Blocks.
    pub(super) fn restore(mut self) -> Vec<PathBuf> {
        self.take().put_back()
    }

    fn take(&mut self) -> Before {
        Before {
            paths: std::mem::take(&mut self.paths),
            is_mounted: self.watch.is_some(),
            kept: std::mem::take(&mut self.kept),
            modes: std::mem::take(&mut self.modes),
        }
    }
}

impl Drop for ReadOnlyGuard {
    /// Whoever ran the command let go of it: it is being killed.
    fn drop(&mut self) {
        let before = self.take();
        if before.is_as_it_was() {
            return;
        }
        std::thread::spawn(move || {
            std::thread::sleep(KILL_GRACE);
            before.put_back();
        });
    }
}

/// What was there when a command began.
struct Before {
    paths: Vec<Covered>,
    is_mounted: bool,
    kept: Vec<(PathBuf, Kept)>,
    modes: Vec<(PathBuf, u32)>,
}

impl Before {
    fn is_as_it_was(&self) -> bool {
        let none = self.kept.is_empty() && self.modes.is_empty();
        none && !(self.is_mounted && self.paths.iter().any(Covered::is_replaced))
    }

    fn put_back(self) -> Vec<PathBuf> {
        if self.is_mounted {
            let replaced = self.paths.iter().filter(|covered| covered.is_replaced());
            return replaced.filter_map(Covered::put_back).collect();
        }
        let dirs: Vec<PathBuf> = self.paths.into_iter().map(|covered| covered.path).collect();
        let mut changed = put_all_back(&self.kept, &dirs);
        changed.extend(put_modes_back(&self.modes));
        changed
    }
}

impl Covered {
    fn is_replaced(&self) -> bool {
        identity(&self.path) != self.identity
    }

    /// Restores the old file or directory and quarantines its replacement. Returns the path unless the current content
    /// is the same or was written by this process.
    fn put_back(&self) -> Option<PathBuf> {
        let path = &self.path;
        if keep(std::slice::from_ref(path)) == self.old || is_own(path) {
            return None;
        }
        if fs::symlink_metadata(path).is_ok() {
            let mut aside = path.clone().into_os_string();
            aside.push(ASIDE);
            if let Err(error) = fs::rename(path, aside) {
                tracing::error!(%error, "cannot quarantine the replacement of protected file {}", path.display());
            }
        }
        for (path, kept) in &self.old {
            if let Err(error) = put_back(path, kept) {
                tracing::error!(%error, "cannot restore protected file {}", path.display());
            }
        }
        tracing::warn!(
            "protected file {} was replaced while a command ran; the old one was restored",
            path.display()
        );
        Some(path.clone())
    }
}

/// Replaces files at and below `path` that have another name by copies.
fn part_links(path: &Path, depth: usize) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    if meta.is_dir() && depth <= MAX_DEPTH {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            part_links(&entry.path(), depth + 1);
        }
    } else if meta.is_file()
        && meta.nlink() > 1
        && let Some(kept) = read(path)
        && let Err(error) = put_back(path, &kept)
    {
        tracing::error!(path = %path.display(), %error, "a protected file has another hard link, through which a command can change it");
    }
}

fn put_all_back(kept: &[(PathBuf, Kept)], paths: &[PathBuf]) -> Vec<PathBuf> {
    if kept.is_empty() {
        return Vec::new();
    }
    let mut changed = Vec::new();
    for (path, file) in kept
        .iter()
        .filter(|(path, file)| read(path).as_ref() != Some(file))
    {
        if let Err(error) = put_back(path, file) {
            tracing::error!(%error, "cannot restore {}, which a command changed", path.display());
        }
        changed.push(path.clone());
    }
    // Files added to a directory are quarantined, not deleted: they may be the owner's.
    let is_new = |path: &PathBuf| !kept.iter().any(|(known, _)| known == path);
    for (path, _) in keep(paths).into_iter().filter(|(path, _)| is_new(path)) {
        let mut aside = path.clone().into_os_string();
        aside.push(ASIDE);
        if !path
            .as_os_str()
            .as_encoded_bytes()
            .ends_with(ASIDE.as_bytes())
        {
            let _ = fs::rename(&path, aside);
            changed.push(path);
        }
    }
    changed
}

/// Returns the modes of what is at and below `path`, but not in the `open` directories; shallow ones first, for
/// there may be too many.
fn modes(path: &Path, open: &[PathBuf]) -> Vec<(PathBuf, u32)> {
    let mut noted = Vec::new();
    let mut level = vec![path.to_owned()];
    for _ in 0..=MODES_DEPTH {
        let mut deeper = Vec::new();
        for path in level.into_iter().filter(|path| !open.contains(path)) {
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            if noted.len() == MAX_MODES {
                return noted;
            }
            if meta.is_dir() {
                let entries = fs::read_dir(&path).into_iter().flatten().flatten();
                deeper.extend(entries.map(|entry| entry.path()));
            }
            if !meta.is_symlink() {
                noted.push((path, meta.permissions().mode() & 0o7777));
            }
        }
        level = deeper;
    }
    noted
}

fn put_modes_back(modes: &[(PathBuf, u32)]) -> Vec<PathBuf> {
    let is_other = |(path, mode): &&(PathBuf, u32)| {
        fs::symlink_metadata(path)
            .is_ok_and(|meta| !meta.is_symlink() && meta.permissions().mode() & 0o7777 != *mode)
    };
    let mut changed = Vec::new();
    for (path, mode) in modes.iter().filter(is_other) {
        if fs::set_permissions(path, fs::Permissions::from_mode(*mode)).is_ok() {
            changed.push(path.clone());
        }
    }
    changed
}

fn identity(path: &Path) -> Identity {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Watches the directories of `paths` for entries that come and go.
fn watch(paths: &[PathBuf]) -> Option<AsyncFd<OwnedFd>> {
    let mut dirs: Vec<&Path> = paths.iter().filter_map(|path| path.parent()).collect();
    dirs.sort_unstable();
    dirs.dedup();
    if dirs.is_empty() {
        return None;
    }
    let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
    let events = AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE;
    let watched = Inotify::init(flags).and_then(|inotify| {
        dirs.iter()
            .try_for_each(|dir| inotify.add_watch(*dir, events).map(drop))?;
        Ok(inotify)
    });
    match watched
        .map_err(std::io::Error::from)
        .and_then(|watch| syscalls::in_event_loop(watch.into()))
    {
        Ok(watch) => Some(watch),
        Err(error) => {
            tracing::warn!(%error, "files that shape the agent cannot be watched while a command runs");
            None
        }
    }
}

/// Returns the files at and below `paths`.
fn keep(paths: &[PathBuf]) -> Vec<(PathBuf, Kept)> {
    let mut kept = Vec::new();
    let mut left = MAX_BYTES;
    for path in paths {
        gather(path, 0, &mut left, &mut kept);
    }
    kept
}

fn gather(path: &Path, depth: usize, left: &mut u64, kept: &mut Vec<(PathBuf, Kept)>) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    if kept.len() >= MAX_FILES || depth > MAX_DEPTH || meta.len() > *left {
        tracing::warn!(path = %path.display(), "too large to be restored after a command");
        return;
    }
    if meta.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            gather(&entry.path(), depth + 1, left, kept);
        }
    } else if let Some(file) = read(path) {
        *left = left.saturating_sub(meta.len());
        kept.push((path.to_owned(), file));
    }
}

/// Returns a regular file; a symlink is none.
fn read(path: &Path) -> Option<Kept> {
    let meta = fs::symlink_metadata(path)
        .ok()
        .filter(fs::Metadata::is_file)?;
    Some(Kept {
        mode: meta.permissions().mode() & 0o7777,
        content: fs::read(path).ok()?,
    })
}

fn put_back(path: &Path, kept: &Kept) -> Result<(), crate::sys::Error> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    if is_dir {
        let _ = fs::remove_dir_all(path);
    }
    if let Some(dir) = path.parent() {
        let _ = fs::create_dir_all(dir);
    }
    // By a new file: the old one may have other names, or be open somewhere.
    crate::sys::atomic::write(path, &kept.content, crate::sys::atomic::Durability::Rename)?;
    let mode = fs::Permissions::from_mode(kept.mode);
    let _ = fs::set_permissions(path, mode);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn write(path: &Path, words: &str) {
        crate::sys::atomic::write(
            path,
            words.as_bytes(),
            crate::sys::atomic::Durability::Rename,
        )
        .unwrap();
    }

    fn text(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    #[tokio::test]
    async fn a_replacement_is_noticed_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let (soul, other) = (dir.path().join("SOUL.md"), dir.path().join("other"));
        write(&soul, "before");
        let workspace = [dir.path().to_owned()];
        let covered = [soul.clone(), dir.path().join("not-there")];
        let mut cover = ReadOnlyGuard::new(Walls::Namespaces, &covered, &workspace, &[]);
        write(&other, "noise");
        let quiet = tokio::time::timeout(Duration::from_millis(50), cover.replaced()).await;
        assert!(quiet.is_err());
        write(&soul, "anybody's");
        let replaced = tokio::time::timeout(Duration::from_secs(5), cover.replaced());
        assert_eq!(replaced.await.unwrap(), soul);
        assert_eq!(cover.restore(), std::slice::from_ref(&soul));
        let aside = dir.path().join("SOUL.md.from-a-command");
        assert_eq!(
            (text(&soul), text(&aside)),
            ("before".into(), "anybody's".into())
        );
    }

    #[tokio::test]
    async fn what_this_process_wrote_stays() {
        let dir = tempfile::tempdir().unwrap();
        let soul = dir.path().join("SOUL.md");
        let new = || {
            ReadOnlyGuard::new(
                Walls::Namespaces,
                std::slice::from_ref(&soul),
                &[dir.path().to_owned()],
                &[],
            )
        };
        write(&soul, "before");
        let cover = new();
        will_write(&soul, b"agreed to");
        write(&soul, "agreed to");
        assert_eq!(cover.restore(), [] as [PathBuf; 0]);
        assert_eq!(text(&soul), "agreed to");
    }

    #[tokio::test]
    async fn a_replaced_directory_is_as_before() {
        let dir = tempfile::tempdir().unwrap();
        let skills = dir.path().join("skills");
        fs::create_dir_all(skills.join("a")).unwrap();
        write(&skills.join("a/SKILL.md"), "before");
        let cover = ReadOnlyGuard::new(
            Walls::Namespaces,
            std::slice::from_ref(&skills),
            &[dir.path().to_owned()],
            &[],
        );
        fs::rename(&skills, dir.path().join("moved")).unwrap();
        fs::create_dir(&skills).unwrap();
        write(&skills.join("b"), "obey");
        assert_eq!(cover.restore(), std::slice::from_ref(&skills));
        assert_eq!(text(&skills.join("a/SKILL.md")), "before");
        assert!(!skills.join("b").exists());
    }

    #[tokio::test]
    async fn contents_and_modes_are_put_back_without_mounts() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("skills")).unwrap();
        for name in ["SOUL.md", "USER.md", "skills/a.md", "AGENTS.md"] {
            write(&at(name), name);
        }
        let covered = ["SOUL.md", "USER.md", "skills", "AGENTS.md"].map(at);
        let home = tempfile::tempdir().unwrap();
        let env = home.path().join(".env");
        write(&env, "KEY=x");
        fs::set_permissions(&env, fs::Permissions::from_mode(0o600)).unwrap();
        let (workspace, hidden) = ([dir.path().to_owned()], [home.path().to_owned()]);
        let cover = ReadOnlyGuard::new(Walls::Landlock, &covered, &workspace, &hidden);
        fs::set_permissions(&env, fs::Permissions::from_mode(0o777)).unwrap();
        fs::remove_file(at("SOUL.md")).unwrap();
        fs::create_dir(at("SOUL.md")).unwrap();
        fs::set_permissions(at("USER.md"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::remove_dir_all(at("skills")).unwrap();
        fs::create_dir(at("skills")).unwrap();
        write(&at("skills/b.md"), "new");
        assert_eq!(cover.restore().len(), 5);
        assert_eq!(env.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert!(!at("skills/b.md").exists() && at("skills/b.md.from-a-command").exists());
        for name in ["SOUL.md", "USER.md", "skills/a.md"] {
            assert_eq!(text(&at(name)), name);
        }
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("USER.md"), mode("AGENTS.md"));
    }
}
