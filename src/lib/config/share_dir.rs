//! Finds the directory of the installed data files.

use std::path::{Path, PathBuf};

use super::Environment;

/// What an installation below a prefix calls it.
const INSTALLED: &str = "share/agent-toolkit";

/// Returns the directory of the files that come with the programs; `None` when there is none:
/// `$AGENT_SHARE`, then `share/` next to the program, `../share/agent-toolkit`, and `share/` of the
/// source tree that the program was built in.
pub fn share_dir(env: &Environment) -> Option<PathBuf> {
    match env.get("AGENT_SHARE") {
        Some(dir) => Some(PathBuf::from(dir)).filter(|dir| dir.is_absolute()),
        None => beside(&std::env::current_exe().ok()?),
    }
}

fn beside(program: &Path) -> Option<PathBuf> {
    let dir = program.parent()?;
    let built = dir
        .ancestors()
        .find(|above| above.file_name().is_some_and(|name| name == "target"));
    let source = built
        .and_then(Path::parent)
        .filter(|tree| tree.join("Cargo.toml").is_file());
    // A build somewhere else, by CARGO_TARGET_DIR.
    let is_build = dir
        .ancestors()
        .take(2)
        .any(|dir| dir.ends_with("debug") || dir.ends_with("release"));
    let places = [
        Some(dir.join("share")),
        dir.parent().map(|prefix| prefix.join(INSTALLED)),
        source.map(|tree| tree.join("share")),
        is_build.then(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("share")),
    ];
    places.into_iter().flatten().find(|place| place.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_beside_the_program_below_its_prefix_and_in_the_source_tree() {
        let dir = tempfile::tempdir().expect("dir");
        let make = |path: &str| std::fs::create_dir_all(dir.path().join(path)).expect("dir");
        let found = |program: &str| {
            beside(&dir.path().join(program))
                .map(|at| at.strip_prefix(dir.path()).expect("inside").to_owned())
        };
        make("usr/bin");
        make("usr/share/skills");
        assert_eq!(
            found("usr/bin/agent-daemon"),
            None,
            "the share/ of everybody is not ours"
        );
        make("usr/share/agent-toolkit");
        assert_eq!(
            found("usr/bin/agent-daemon"),
            Some("usr/share/agent-toolkit".into())
        );
        make("usr/bin/share");
        assert_eq!(found("usr/bin/agent-daemon"), Some("usr/bin/share".into()));
        make("src/target/debug/deps");
        make("src/share");
        let elsewhere = beside(&dir.path().join("src/target/debug/agent-daemon"));
        let of_project = Path::new(env!("CARGO_MANIFEST_DIR")).join("share");
        assert_eq!(elsewhere, Some(of_project), "no source tree beside it");
        crate::sys::atomic::write(
            &dir.path().join("src/Cargo.toml"),
            b"",
            crate::sys::atomic::Durability::Rename,
        )
        .expect("write");
        assert_eq!(
            found("src/target/debug/deps/agent-daemon"),
            Some("src/share".into())
        );
    }

    #[test]
    fn the_variable_wins_and_must_be_a_whole_path() {
        assert_eq!(
            share_dir(&Environment::of(&[("AGENT_SHARE", "/opt/agent")])),
            Some("/opt/agent".into())
        );
        assert_eq!(
            share_dir(&Environment::of(&[("AGENT_SHARE", "agent")])),
            None
        );
    }
}
