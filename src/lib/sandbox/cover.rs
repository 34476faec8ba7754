//! Files that a command must not change, where a mount alone does not keep them.
//!
//! A read-only mount covers a file until somebody outside puts another file in its place: the kernel takes the
//! mount away then, and the command could write the new file. So the directories of the covered paths are
//! watched, and when what lies at such a path is another file than before, the command is ended; what it wrote
//! into the new file until then is taken back. At level `landlock`, without mounts, contents and modes are put
//! back when the command has ended.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

use super::run::KILL_GRACE;
use super::{Walls, syscalls};

/// Files and bytes of the covered paths that are remembered; what lies beyond is only told.
const MAX_FILES: usize = 2_000;
const MAX_BYTES: u64 = 16 << 20;
const MAX_DEPTH: usize = 8;

/// What is put behind the name of a file that a command added.
const ASIDE: &str = ".from-a-command";

/// Which file lies at a path.
type Identity = Option<(u64, u64)>;

/// What a file is known by and can be restored from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    mode: u32,
    content: Vec<u8>,
}

/// The covered paths of a command that runs.
pub(super) struct Cover {
    paths: Vec<(PathBuf, Identity)>,
    /// `None` where nothing can be watched, or need not be.
    watch: Option<AsyncFd<OwnedFd>>,
    /// What is put back at the end.
    kept: Vec<(PathBuf, Kept)>,
}

impl Cover {
    /// Returns the cover of those of `read_only` that lie in what the command may write. Blocks a little.
    pub(super) fn new(walls: Walls, read_only: &[PathBuf], writable: &[PathBuf]) -> Self {
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
        };
        match walls {
            Walls::Off => {}
            Walls::Namespaces => cover.watch = watch(&paths),
            Walls::Landlock => cover.kept = keep(&paths),
        }
        // After the watch has begun, or a replacement between the two would go unnoticed.
        cover.paths = paths
            .into_iter()
            .map(|path| (identity(&path), path))
            .map(|(identity, path)| (path, identity))
            .collect();
        cover
    }

    /// Waits until another file lies at one of the paths, remembers what it holds, and returns the path.
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
            let other = |(path, before): &&(PathBuf, Identity)| identity(path) != *before;
            if let Some((path, _)) = self.paths.iter().find(other) {
                let path = path.clone();
                self.kept = keep(std::slice::from_ref(&path));
                return path;
            }
        }
    }

    /// Puts back what a command changed in what was remembered, now that it has ended, and returns those paths.
    /// Blocks.
    pub(super) fn restore(mut self) -> Vec<PathBuf> {
        let dirs: Vec<PathBuf> = self.paths.drain(..).map(|(path, _)| path).collect();
        put_all_back(&std::mem::take(&mut self.kept), &dirs)
    }
}

impl Drop for Cover {
    /// Whoever ran the command let go of it: it is being killed.
    fn drop(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        if kept.is_empty() {
            return;
        }
        let dirs: Vec<PathBuf> = self.paths.drain(..).map(|(path, _)| path).collect();
        std::thread::spawn(move || {
            std::thread::sleep(KILL_GRACE);
            put_all_back(&kept, &dirs);
        });
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
            tracing::error!(path = %path.display(), %error, "what a command changed could not be put back");
        }
        changed.push(path.clone());
    }
    // What was added to a directory is set aside: it may be the owner's.
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
        tracing::warn!(path = %path.display(), "too large to be put back after a command");
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
    async fn a_replacement_is_noticed_and_what_comes_after_it_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let (soul, other) = (dir.path().join("SOUL.md"), dir.path().join("other"));
        write(&soul, "before");
        let workspace = [dir.path().to_owned()];
        let covered = [soul.clone(), dir.path().join("not-there")];
        let mut cover = Cover::new(Walls::Namespaces, &covered, &workspace);
        write(&other, "noise");
        let quiet = tokio::time::timeout(Duration::from_millis(50), cover.replaced()).await;
        assert!(quiet.is_err());
        write(&soul, "the owner's");
        let replaced = tokio::time::timeout(Duration::from_secs(5), cover.replaced());
        assert_eq!(replaced.await.unwrap(), soul);
        let mut file = fs::OpenOptions::new().append(true).open(&soul).unwrap();
        std::io::Write::write_all(&mut file, b" and the command's").unwrap();
        assert_eq!(cover.restore(), std::slice::from_ref(&soul));
        assert_eq!(text(&soul), "the owner's");
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
        let cover = Cover::new(Walls::Landlock, &covered, &[dir.path().to_owned()]);
        fs::remove_file(at("SOUL.md")).unwrap();
        fs::create_dir(at("SOUL.md")).unwrap();
        fs::set_permissions(at("USER.md"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::remove_dir_all(at("skills")).unwrap();
        fs::create_dir(at("skills")).unwrap();
        write(&at("skills/b.md"), "new");
        assert_eq!(cover.restore().len(), 4);
        assert!(!at("skills/b.md").exists() && at("skills/b.md.from-a-command").exists());
        for name in ["SOUL.md", "USER.md", "skills/a.md"] {
            assert_eq!(text(&at(name)), name);
        }
        let mode = |name: &str| at(name).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!(mode("USER.md"), mode("AGENTS.md"));
    }
}
