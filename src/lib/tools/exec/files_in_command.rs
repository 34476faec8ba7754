//! The files of the workspace that a command line names: an approval of the command depends on their content.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::text::sha256_hex;

/// Bytes of a file that are hashed, and of all; of more, size and times count, which only the kernel sets.
const LARGEST: u64 = 256 << 10;
const MOST: u64 = 4 << 20;

/// Returns name and digest of each file below `workspace` that `command` names when it starts in `cwd`.
pub(super) fn digests(command: &str, cwd: &Path, workspace: &Path) -> Vec<Value> {
    let Ok(workspace) = workspace.canonicalize() else {
        return Vec::new();
    };
    let mut left = MOST;
    let mut digest = |name: &str| {
        let path = cwd.join(name).canonicalize().ok()?;
        let metadata = path.metadata().ok()?;
        if !metadata.is_file() || !path.starts_with(&workspace) {
            return None;
        }
        let state = if metadata.len() <= LARGEST.min(left) {
            left -= metadata.len();
            sha256_hex(&std::fs::read(&path).ok()?)
        } else {
            let changed = (metadata.ctime(), metadata.ctime_nsec());
            format!("{} {} {changed:?}", metadata.len(), metadata.ino())
        };
        Some(json!([name, state]))
    };
    names(command).into_iter().filter_map(&mut digest).collect()
}

/// Returns the words of a command line that may be names of files.
pub(super) fn names(command: &str) -> Vec<&str> {
    let is_border = |c: char| c.is_whitespace() || ";|&<>()\"'`=,".contains(c);
    let names = command.split(is_border);
    let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_counts_with_its_content() {
        let dir = tempfile::tempdir().expect("dir");
        let write = |words: &str| {
            let path = dir.path().join("run.sh");
            let durability = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&path, words.as_bytes(), durability).expect("write");
        };
        let digests = |command: &str| super::digests(command, dir.path(), dir.path());
        assert_eq!(digests("sh run.sh"), Vec::<Value>::new());
        write("echo one");
        let one = digests("sh run.sh");
        assert_eq!(
            (one.len(), digests("cat /etc/hostname; sh './run.sh'").len()),
            (1, 1)
        );
        write("echo two");
        assert_ne!(digests("sh run.sh"), one);
        // However many others it names.
        let others: Vec<String> = (0..40).map(|number| format!("a{number}")).collect();
        for other in &others {
            let durability = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&dir.path().join(other), b"x", durability).expect("write");
        }
        let many = format!("sh run.sh {}", others.join(" "));
        let before = digests(&many);
        write("echo three");
        assert_ne!(digests(&many), before);
    }
}
