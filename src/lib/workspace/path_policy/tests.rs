//! The meaning of paths.

use std::os::unix::fs::symlink;

use super::*;

struct House {
    dir: tempfile::TempDir,
    path_policy: PathPolicy,
}

fn house() -> House {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "home/workspace/skills",
        "home/workspace/docs",
        "home/state",
        "mine/sub",
    ] {
        std::fs::create_dir_all(dir.path().join(name)).unwrap();
    }
    let at = |name: &str| dir.path().join(name);
    symlink("skills", at("home/workspace/innocent")).unwrap();
    symlink("docs", at("home/workspace/notes")).unwrap();
    symlink("../home/workspace", at("mine/way")).unwrap();
    symlink("../../home/state", at("mine/sub/state")).unwrap();
    let workspace = Arc::new(Root::open(&at("home/workspace")).unwrap());
    let path_policy = PathPolicy::new(
        workspace,
        vec![at("mine"), at("absent"), dir.path().to_owned()],
        vec![at("home")],
    );
    House { dir, path_policy }
}

impl House {
    /// What a change of `path` comes to; `~` stands for the directory of everything.
    fn resolved(&self, path: &str) -> String {
        let all = self.dir.path().display().to_string();
        let said = self
            .path_policy
            .write_target(&path.replace('~', &all))
            .map(|target| format!("{} {}", target.key, target.is_protected()));
        said.unwrap_or_else(|error| error.to_string())
            .replace(&all, "~")
    }
}

#[test]
fn a_place_has_one_name() {
    let house = house();
    let check = |path: &str, expected: &str| assert_eq!(house.resolved(path), expected, "{path}");
    check("new.md", "new.md false");
    check("./docs/../new.md", "new.md false");
    check("~/home/workspace/SOUL.md", "SOUL.md true");
    check("soul.MD", "soul.MD true");
    check("\u{17f}kills/x", "\u{17f}kills/x true");
    check("sub/SOUL.md", "sub/SOUL.md false");
    check("cron/jobs.json", "cron/jobs.json true");
    check("~/mine/a.txt", "~/mine/a.txt false");
    check("~/mine/new/dir/a.txt", "~/mine/new/dir/a.txt false");
}

#[test]
fn nothing_is_changed_by_way_of_a_link() {
    let house = house();
    for (path, key) in [
        ("innocent/x", "skills/x"),
        ("notes/a", "docs/a"),
        ("notes/new/a", "docs/new/a"),
    ] {
        let expected = format!(
            "{path} leads to {key} through a link, and nothing is changed that way: name that path itself"
        );
        assert_eq!(house.resolved(path), expected);
    }
    // The real path leads out of the directory that is allowed, or through it into the workspace.
    assert_eq!(
        house.resolved("~/mine/way/SOUL.md"),
        "~/mine/way/SOUL.md is outside the workspace"
    );
}

#[test]
fn settings_and_state_are_nobodys() {
    let house = house();
    for path in [
        "~/home/state/auth.json",
        "~/home/agent.toml",
        "~/home/STATE/x",
    ] {
        let said = house.resolved(path);
        assert!(
            said.contains("belongs to the agent's own settings"),
            "{path}: {said}"
        );
    }
    assert!(
        house
            .resolved("/etc/passwd")
            .starts_with("/etc/passwd is outside the workspace and of ~/mine, ~/absent, ~ (")
    );
    assert_eq!(
        house.resolved("../state/auth.json"),
        "../state/auth.json is outside the workspace"
    );
    assert_eq!(
        house.resolved("a\nb\u{200b}/../../../x"),
        "a\\u{a}b\\u{200b}/../../../x is not found"
    );
}
