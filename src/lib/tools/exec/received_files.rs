//! Received files in a command: it may read those that it names, and what it writes then is untrusted as they are.

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::media::inbox;
use crate::workspace::Marks;

/// The most files that are looked at after a command.
const MAX_FILES: usize = 100_000;
/// Clocks of file systems are coarser than ours.
const TICK: Duration = Duration::from_secs(1);

/// Returns true for a file of the inbox whose name, or whose directory's path, stands in the command or is where it runs.
pub(super) fn is_named(workspace: &Path, file: &Path, command: &str, cwd: &Path) -> bool {
    let Ok(inside) = file.strip_prefix(workspace) else {
        return false;
    };
    if !inside.starts_with(inbox::DIR) {
        return false;
    }
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let folder = inside.parent().and_then(name);
    let runs_there = cwd.ends_with(inside.parent().unwrap_or(Path::new(inbox::DIR)));
    [name(inside), folder]
        .into_iter()
        .flatten()
        .any(|name| command.contains(&name))
        || runs_there
}

/// Marks the files of the workspace that were written in the last `took`. Blocks.
///
/// # Errors
/// Why they could not be marked.
pub(super) fn mark_written(
    workspace: &Path,
    marks: &Marks,
    run: &str,
    took: Duration,
) -> Result<(), String> {
    let is_new = |meta: &Metadata| {
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        // A time in the future is no old one.
        let changed = std::os::unix::fs::MetadataExt::ctime(meta);
        let now = crate::clock::now_ms() / 1000;
        let since = i64::try_from((took + TICK).as_secs()).unwrap_or(i64::MAX);
        age.is_none_or(|age| age <= took + TICK) || now - changed <= since
    };
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(workspace.join(&dir))
            .into_iter()
            .flatten()
            .flatten()
        {
            let path = dir.join(entry.file_name());
            let Ok(meta) = entry.metadata() else {
                continue;
            };
            if meta.is_dir() {
                waiting.push(path);
            } else if meta.is_file() && is_new(&meta) {
                found.push(path.to_string_lossy().into_owned());
            }
            if found.len() > MAX_FILES {
                return Err(format!("a command wrote more than {MAX_FILES} files"));
            }
        }
    }
    let now = crate::clock::now_ms();
    marks
        .set_all(found, run, now)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    #[test]
    fn a_command_reads_the_received_files_that_it_names() {
        let check = |file: &str, command: &str, cwd: &str, expected: bool| {
            let (workspace, cwd) = (Path::new("/w"), Path::new("/w").join(cwd));
            let file = workspace.join(file);
            assert_eq!(
                is_named(workspace, &file, command, &cwd),
                expected,
                "{command}"
            );
        };
        let zip = "inbox/1001/7-0-a.zip";
        check(zip, "unzip -l inbox/1001/7-0-a.zip", "", true);
        check(zip, "ls inbox/1001", "", true);
        check(zip, "unzip -l 7-0-b.zip", "inbox/1001", true);
        check(zip, "ls", "", false);
        check("notes/7-0-a.zip", "cat notes/7-0-a.zip", "", false);
    }

    #[test]
    fn what_was_written_meanwhile_is_marked_and_nothing_older() {
        let dir = tempfile::tempdir().expect("dir");
        let put = |name: &str| {
            let path = dir.path().join("w").join(name);
            std::fs::create_dir_all(path.parent().expect("dir")).expect("dir");
            atomic::write(&path, b"x", atomic::Durability::Rename).expect("write");
        };
        put("sub/new.txt");
        let marks = Marks::new(&dir.path().join("untrusted.json"));
        mark_written(&dir.path().join("w"), &marks, "r", Duration::ZERO).expect("marked");
        assert_eq!(marks.all(), Some(vec!["sub/new.txt".to_owned()]));
    }
}
