//! Received files in the workspace, where the file tools and commands read them. Everybody who may write to the
//! agent fills it, so a person, a chat and all together have a quota, and the disk keeps a reserve for the queue.
//!
//! ```text
//! workspace/inbox/CHAT/NUMBER-NAME          from the one person of that chat
//! workspace/inbox/CHAT.PERSON/NUMBER-NAME   from a member of a group
//! ```

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use nix::sys::statvfs::statvfs;

use crate::config::Media;
use crate::sandbox::{BeneathError, Kind, Root};
use crate::text;

/// Its directory in the workspace.
pub const DIR: &str = "inbox";
/// The most entries of one directory that are looked at.
const MAX_ENTRIES: usize = 100_000;
/// How deep directories are looked through that commands made there.
const MAX_DEPTH: usize = 64;
/// What the smallest file takes of a disk, bytes.
const BLOCK: u64 = 4096;
/// The longest file name, characters.
const MAX_NAME: usize = 80;
/// Signs that names of files keep: they are easy to type.
const SIGNS: &str = "._-";

/// The sender of a file.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The chat's id, or the conversation's key where there is no chat.
    pub chat: String,
    /// The person's id.
    pub person: String,
    /// Whether they are an owner, who has no quota of their own.
    pub is_owner: bool,
}

impl Sender {
    fn folder(&self) -> String {
        let (chat, person) = (self.chat(), self.person());
        if chat == person {
            chat
        } else {
            format!("{chat}.{person}")
        }
    }

    fn chat(&self) -> String {
        text::file_name(&self.chat, SIGNS).replace('.', "_")
    }

    fn person(&self) -> String {
        text::file_name(&self.person, SIGNS).replace('.', "_")
    }
}

/// Returns why a file of `bytes` bytes is not to be kept, in a person's words; `None` when there is room. Blocks.
pub fn refusal(root: &Root, limits: &Media, from: &Sender, bytes: u64) -> Option<String> {
    let mb = |megabytes: u64| megabytes.saturating_mul(1 << 20);
    let free = statvfs(root.dir()).map_or(u64::MAX, |fs| {
        fs.blocks_available().saturating_mul(fs.fragment_size())
    });
    // It is in state/downloads as well.
    if free.saturating_sub(bytes.saturating_mul(2)) < mb(limits.reserve_mb) {
        return Some(format!(
            "the disk is nearly full ([media] reserve_mb = {})",
            limits.reserve_mb
        ));
    }
    let (chat, person) = (from.chat(), from.person());
    let (mut of_person, mut of_chat, mut all) = (bytes, bytes, bytes);
    for folder in root.list(Path::new(DIR), MAX_ENTRIES).unwrap_or_default() {
        let size = size_of(root, &Path::new(DIR).join(&folder.name));
        let (of, by) = folder
            .name
            .rsplit_once('.')
            .unwrap_or((&folder.name, &folder.name));
        all += size;
        of_chat += if of == chat { size } else { 0 };
        of_person += if by == person { size } else { 0 };
    }
    let quotas = [
        (
            "inbox_person_mb",
            limits.inbox_person_mb,
            of_person,
            !from.is_owner,
            "this person's files",
        ),
        (
            "inbox_chat_mb",
            limits.inbox_chat_mb,
            of_chat,
            !from.is_owner,
            "this chat's files",
        ),
        ("inbox_mb", limits.inbox_mb, all, true, "all received files"),
    ];
    quotas
        .into_iter()
        .find(|(_, limit, used, counts, _)| *counts && *used > mb(*limit))
        .map(|(key, limit, _, _, whose)| {
            format!("{whose} would be more than {limit} MB ([media] {key})")
        })
}

/// Copies the file `source` into the inbox and returns its path in the workspace. `number` makes its name its own: the
/// same file of the same message is kept once. Blocks.
///
/// # Errors
/// Why it cannot be kept, in a person's words.
pub fn keep(
    root: &Root,
    from: &Sender,
    number: &str,
    name: &str,
    source: &Path,
) -> Result<PathBuf, String> {
    let name = text::tail(&text::file_name(name, SIGNS), MAX_NAME).to_owned();
    let path = Path::new(DIR)
        .join(from.folder())
        .join(format!("{}-{name}", text::file_name(number, SIGNS)));
    if root.metadata(&path).is_ok() {
        return Ok(path);
    }
    let bytes = std::fs::read(source).map_err(|error| error.to_string())?;
    root.write_atomic(&path, &bytes)
        .map_err(|error| text::visible(&error.to_string()))?;
    Ok(path)
}

/// Returns what the shell finds the file at `path` by, that was kept as `number`, silently of its name.
pub fn pattern(path: &Path, number: &str) -> PathBuf {
    path.with_file_name(format!("{}-*", text::file_name(number, SIGNS)))
}

/// Removes files of the folders of `dir`, such as [`DIR`], that are older than `keep`, also what commands unpacked there,
/// and directories that are empty then. Blocks.
///
/// # Errors
/// The first thing that cannot be read or removed; what else is old goes nevertheless.
pub fn prune(workspace: &Path, dir: &str, keep: Duration) -> Result<(), BeneathError> {
    let root = Root::open(workspace)?;
    let folders = match root.list(Path::new(dir), MAX_ENTRIES) {
        Err(BeneathError::NotFound(_)) => return Ok(()),
        folders => folders?,
    };
    let mut first = Ok(());
    for folder in folders.iter().filter(|one| one.kind == Kind::Directory) {
        let folder = Path::new(dir).join(&folder.name);
        first = first.and(prune_below(&root, &folder, keep, 0));
    }
    first
}

/// Commands write here while it is looked through: nothing is removed at a place that a link leads to.
fn prune_below(root: &Root, dir: &Path, keep: Duration, depth: usize) -> Result<(), BeneathError> {
    let mut first = Ok(());
    for entry in root.list(dir, MAX_ENTRIES)? {
        let path = dir.join(&entry.name);
        let pruned = match entry.kind {
            Kind::Directory if depth < MAX_DEPTH => prune_below(root, &path, keep, depth + 1),
            Kind::File => remove_old(root, &path, keep),
            Kind::Directory | Kind::Symlink | Kind::Other => Ok(()),
        };
        first = first.and(pruned);
    }
    let target = root.target(dir)?;
    if target.real == dir {
        // Only an empty one goes.
        target.remove_empty_directory();
    }
    first
}

fn remove_old(root: &Root, path: &Path, keep: Duration) -> Result<(), BeneathError> {
    let target = root.target(path)?;
    if target.real != path {
        return Ok(());
    }
    match target.existing()? {
        Some(file) if age_of(&file.metadata).is_some_and(|age| age > keep) => target.remove(&file),
        _ => Ok(()),
    }
}

/// Returns for how long a file has been as it is: what is unpacked has an old time of change from its archive.
fn age_of(metadata: &Metadata) -> Option<Duration> {
    let at = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
    (UNIX_EPOCH + at).elapsed().ok()
}

fn size_of(root: &Root, folder: &Path) -> u64 {
    let entries = root.list(folder, MAX_ENTRIES).unwrap_or_default();
    let files = entries.iter().filter(|entry| entry.kind == Kind::File);
    // Whole blocks: empty files fill a disk, too.
    let blocks = files.map(|entry| entry.size.div_ceil(BLOCK).max(1));
    blocks.sum::<u64>() * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn sender(chat: &str, person: &str) -> Sender {
        Sender {
            chat: chat.to_owned(),
            person: person.to_owned(),
            is_owner: person == "1001",
        }
    }

    struct House {
        dir: tempfile::TempDir,
        root: Root,
    }

    fn house() -> House {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::create_dir(dir.path().join("w")).expect("dir");
        let root = Root::open(&dir.path().join("w")).expect("root");
        House { dir, root }
    }

    impl House {
        fn received(&self, from: &Sender, name: &str, bytes: usize) -> Result<PathBuf, String> {
            let source = self.dir.path().join("source");
            atomic::write(&source, &vec![b'x'; bytes], atomic::Durability::Rename).expect("write");
            keep(&self.root, from, "7-0", name, &source)
        }
    }

    #[test]
    fn a_file_lies_where_tools_read_it_for_its_owner_alone_and_once() {
        let house = house();
        let path = house
            .received(&sender("1002", "1002"), "../a b.zip", 3)
            .expect("kept");
        assert_eq!(path, Path::new("inbox/1002/7-0-.._a_b.zip"));
        assert_eq!(
            house.received(&sender("1002", "1002"), "../a b.zip", 9),
            Ok(path.clone())
        );
        let meta = house.root.metadata(&path).expect("there");
        assert_eq!((meta.len(), meta.permissions().mode() & 0o777), (3, 0o600));
        let path = house.received(&sender("-5", "1002"), "x", 1).expect("kept");
        assert_eq!(path, Path::new("inbox/-5.1002/7-0-x"));
    }

    #[test]
    fn a_file_is_kept_while_empty_directories_go() {
        let house = house();
        let end = std::sync::atomic::AtomicBool::new(false);
        let workspace = house.dir.path().join("w");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(std::sync::atomic::Ordering::Relaxed) {
                    // Its result does not matter: it may meet a directory that another one removed.
                    let _ = prune(&workspace, DIR, Duration::from_secs(3_600));
                }
            });
            let kept: Vec<Result<PathBuf, String>> = (0..400)
                .map(|chat| house.received(&sender(&chat.to_string(), "1"), "x", 1))
                .collect();
            end.store(true, std::sync::atomic::Ordering::Relaxed);
            for path in kept {
                let path = path.expect("kept");
                assert!(house.root.metadata(&path).is_ok(), "{}", path.display());
            }
        });
    }

    #[test]
    fn nobody_fills_the_disk() {
        let house = house();
        let limits = Media {
            inbox_person_mb: 2,
            inbox_chat_mb: 3,
            inbox_mb: 4,
            reserve_mb: 0,
            ..Media::default()
        };
        let group = |person| sender("-5", person);
        let full = |from: Sender, limits: &Media| {
            refusal(&house.root, limits, &from, 1 << 20).map(|why| {
                let key = why.split("[media] ").nth(1).expect("a key");
                key.split([')', ' ']).next().expect("a word").to_owned()
            })
        };
        assert_eq!(full(sender("1002", "1002"), &limits), None);
        house
            .received(&sender("1002", "1002"), "a", 1 << 20)
            .expect("kept");
        house.received(&group("1002"), "b", 1 << 20).expect("kept");
        // The same person in two chats.
        assert_eq!(
            full(sender("1002", "1002"), &limits).as_deref(),
            Some("inbox_person_mb")
        );
        assert_eq!(full(group("1003"), &limits), None);
        house.received(&group("1003"), "c", 1 << 20).expect("kept");
        house.received(&group("1003"), "d", 1 << 20).expect("kept");
        assert_eq!(
            full(group("1004"), &limits).as_deref(),
            Some("inbox_chat_mb")
        );
        assert_eq!(full(group("1001"), &limits).as_deref(), Some("inbox_mb"));
        let wide = Media {
            inbox_mb: 9,
            ..limits.clone()
        };
        assert_eq!(full(group("1001"), &wide), None);
        // Small files take whole blocks: 256 of them are a megabyte.
        for number in 0..300 {
            let small = sender(&format!("{number}"), "1005");
            house.received(&small, "s", 1).expect("kept");
        }
        assert_eq!(
            full(sender("1005", "1005"), &wide).as_deref(),
            Some("inbox_person_mb")
        );
        let reserve = Media {
            reserve_mb: u64::MAX >> 20,
            ..wide
        };
        assert_eq!(full(group("1001"), &reserve).as_deref(), Some("reserve_mb"));
    }

    #[test]
    fn old_files_go_and_a_link_leads_nowhere() {
        let house = house();
        let workspace = house.root.dir().to_owned();
        let path = workspace.join(
            house
                .received(&sender("1002", "1002"), "a", 1)
                .expect("kept"),
        );
        let outside = house.dir.path().join("outside");
        std::fs::create_dir(&outside).expect("dir");
        let other = outside.join("x");
        atomic::write(&other, b"x", atomic::Durability::Rename).expect("write");
        symlink(&outside, workspace.join("inbox/1003")).expect("link");
        // What a command unpacked, with the times of its archive; and a file that is nobody's.
        let unpacked = path.with_file_name("trip/days/one.txt");
        std::fs::create_dir_all(unpacked.parent().expect("folder")).expect("dir");
        atomic::write(&unpacked, b"x", atomic::Durability::Rename).expect("write");
        let times = std::fs::FileTimes::new().set_modified(UNIX_EPOCH);
        let open = std::fs::File::options().write(true).open(&unpacked);
        open.and_then(|file| file.set_times(times)).expect("times");
        symlink(&outside, path.with_file_name("trip/out")).expect("link");
        prune(&workspace, DIR, Duration::from_secs(3600)).expect("prune");
        assert!(path.exists() && unpacked.exists());
        std::thread::sleep(Duration::from_millis(1_100));
        prune(&workspace, DIR, Duration::ZERO).expect("prune");
        assert!(!path.exists() && !unpacked.exists() && other.exists());
        assert!(
            house.received(&sender("1003", "1003"), "y", 1).is_err(),
            "through the link"
        );
    }
}
