//! Who could have written a file: its owner, and users with write permission on it or its directories.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::find::Tree;
use super::shown;

/// The permissions of a group and of others: to write, and to pass through a directory.
const WRITE: u32 = 0o022;
const PASS: u32 = 0o011;

/// Returns why the skill in `dir` is untrusted, as somebody else could have written it; `None` when only `owner` (and root) can
/// have written it. Modes count as far as the directories above let anybody come: below one that is
/// closed to others everything is. `way` are the directories from the workspace to `dir`.
pub(super) fn untrusted(
    way: &[(&Path, &Metadata)],
    tree: &Tree,
    dir: &Path,
    owner: u32,
) -> Option<String> {
    let mut reach = PASS;
    for (path, metadata) in way {
        if let Some(why) = touched(path, metadata, owner, reach) {
            return Some(why);
        }
        reach &= metadata.mode();
    }
    if let Some(why) = tree.unseen(dir) {
        return Some(why);
    }
    // A directory below may be closed, too; that it is not asked is on the safe side.
    tree.below(dir)
        .find_map(|entry| touched(&entry.path, &entry.metadata, owner, reach))
}

/// `reach` are the bits of [`PASS`] of those who come this far.
fn touched(path: &Path, metadata: &Metadata, owner: u32, reach: u32) -> Option<String> {
    let name = shown(path.file_name().unwrap_or_default());
    if metadata.uid() != owner && metadata.uid() != 0 {
        let user = nix::unistd::User::from_uid(metadata.uid().into())
            .ok()
            .flatten();
        let user = user.map_or_else(|| metadata.uid().to_string(), |user| user.name);
        return Some(format!("{name} belongs to the user {user}"));
    }
    // The mode of a link means nothing; it is not followed.
    let writers = metadata.mode() & WRITE & (reach << 1);
    match writers {
        _ if metadata.is_symlink() => None,
        0 => None,
        0o020 => Some(format!(
            "{name} can be written by a group (mode {:04o})",
            metadata.mode() & 0o7777
        )),
        _ => Some(format!(
            "{name} can be written by others (mode {:04o})",
            metadata.mode() & 0o7777
        )),
    }
}
