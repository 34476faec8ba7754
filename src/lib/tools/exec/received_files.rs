//! Received files in a command: it may read those that it names, and what it writes then is untrusted as they are.

use std::path::Path;

use crate::media::inbox;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
