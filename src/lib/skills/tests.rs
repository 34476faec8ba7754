use crate::trust::approved_hashes::Decision;
use std::fs::{Permissions, create_dir_all, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::config::Home;
use crate::sys::atomic;
use crate::sys::atomic::Durability;

/// A home and a share/, both of which are empty.
struct Place {
    dir: tempfile::TempDir,
    skills: Skills,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(&dir.path().join("home"));
        home.create().expect("directories");
        create_dir_all(home.workspace().join("skills")).expect("dir");
        let skills = Skills::new(&home, Some(&dir.path().join("share")));
        Self { dir, skills }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("home/workspace/skills").join(path)
    }

    fn bundled(&self, path: &str) -> PathBuf {
        self.dir.path().join("share/skills").join(path)
    }

    /// What is on, and what is off and why.
    fn shown(&self) -> Vec<String> {
        let catalog = self.skills.catalog();
        let on = catalog
            .skills
            .iter()
            .map(|skill| format!("{} {}: {}", skill.name, skill.location, skill.description));
        on.chain(
            catalog
                .off
                .iter()
                .map(|off| format!("{} off: {}", off.name, off.why)),
        )
        .collect()
    }

    fn off(&self, name: &str) -> String {
        let catalog = self.skills.catalog();
        let off: Vec<String> = catalog
            .off
            .iter()
            .filter(|off| off.name == name)
            .map(|off| off.why.to_string())
            .collect();
        assert!(catalog.get(name).is_none(), "{name} is on");
        off.join(" | ")
    }

    fn say(&self, name: &str, trusted: bool) {
        let standing = self
            .skills
            .statuses()
            .into_iter()
            .find(|standing| standing.name == name)
            .expect("it is there");
        let says = match trusted {
            true if standing.is_untrusted => {
                Decision::Trust(standing.sha256.expect("it can be read"))
            }
            true => Decision::Forget,
            false => Decision::Distrust,
        };
        self.skills
            .approved()
            .decide(name, says, 0)
            .expect("written");
    }
}

fn put(path: &Path, bytes: &[u8]) {
    create_dir_all(path.parent().expect("below")).expect("dir");
    atomic::write(path, bytes, Durability::Rename).expect("write");
}

fn skill(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n# How\n\nDo {name}.\n")
}

fn put_skill(dir: &Path, description: &str) {
    let name = dir.file_name().expect("a name").to_string_lossy();
    put(&dir.join("SKILL.md"), skill(&name, description).as_bytes());
}

#[test]
fn a_skill_is_found_at_any_depth_and_ours_goes_before_a_bundled_one() {
    let place = Place::new();
    put_skill(&place.at("backup"), "ours");
    put_skill(&place.at("work/travel/trains"), "deep");
    put_skill(&place.bundled("backup"), "bundled");
    put_skill(&place.bundled("other"), "bundled");
    put(&place.at("backup/.git/x/SKILL.md"), b"no skill");
    put(&place.at("backup/notes.md"), b"no skill");
    assert_eq!(
        place.shown(),
        [
            "backup skills/backup/SKILL.md: ours",
            "other share/skills/other/SKILL.md: bundled",
            "trains skills/work/travel/trains/SKILL.md: deep"
        ]
    );
    assert_eq!(
        place
            .skills
            .catalog()
            .get("trains")
            .map(|skill| &*skill.body),
        Some("# How\n\nDo trains.")
    );
}

#[test]
fn a_skill_whose_file_is_not_in_capitals_is_off_and_says_so() {
    let place = Place::new();
    put_skill(&place.at("tea"), "with both names");
    for path in ["tea/skill.md", "coffee/skill.md", "coffee/.git/Skill.md"] {
        put(&place.at(path), skill("coffee", "hot").as_bytes());
    }
    let off = place.off("coffee");
    assert!(
        off.contains("its file is called skill.md: rename it to SKILL.md"),
        "{off:?}"
    );
    assert!(place.skills.catalog().get("tea").is_some());
    assert_eq!(place.skills.catalog().off.len(), 1);
    let statuses = place.skills.statuses();
    let shown = statuses.iter().map(|one| (&*one.name, one.off.is_some()));
    assert!(shown.eq([("coffee", true), ("tea", false)]));
}

#[test]
fn what_is_written_wrong_is_off_and_the_others_are_on() {
    let place = Place::new();
    put_skill(&place.at("good"), "good");
    let check = |name: &str, bytes: &[u8], expected: &str| {
        put(&place.at(name).join("SKILL.md"), bytes);
        let why = place.off(name.rsplit('/').next().unwrap_or(name));
        assert!(why.contains(expected), "{name}: {why:?}, not {expected:?}");
        assert!(place.skills.catalog().get("good").is_some(), "{name}");
        std::fs::remove_dir_all(place.at(name)).expect("remove");
    };
    let no_head = "does not begin with a head";
    for file in ["# No head", "---\nname: a\ndescription: x\n", ""] {
        check("a", file.as_bytes(), no_head);
    }
    let long = "x".repeat(1025);
    let comment = format!("name: a\ndescription: x\n#{}", "y".repeat(9_000));
    // A head that grows to a billion words when it is read, and one that is nested too deep.
    let mut bomb = "name: a\ndescription: x\nb0: &b0 [z, z, z, z, z, z, z, z, z]".to_owned();
    for level in 1..12 {
        let below = vec![format!("*b{}", level - 1); 9].join(", ");
        bomb.push_str(&format!("\nb{level}: &b{level} [{below}]"));
    }
    let deep = format!("name: a\ndescription: {}", "[".repeat(5_000));
    let described = |text: &str| format!("name: a\ndescription: {text}");
    for (head, expected) in [
        ("description: x".to_owned(), "no `name`"),
        ("name: a".to_owned(), "no `description`"),
        (described("'  '"), "no `description`"),
        ("name: b\ndescription: x".to_owned(), "its name is b, and"),
        ("name: A b\ndescription: x".to_owned(), "not 1 to 64 of a-z"),
        (described("x\nalways_on: perhaps"), "no YAML"),
        ("name: [a\ndescription: x".to_owned(), "no YAML"),
        (format!("name: a\n{}", described("x")), "no YAML"),
        (described("x\u{e0041}"), "3:15 U+E0041, a tag"),
        (described(&long), "1025 characters"),
        (comment, "its head has"),
        (bomb, "no YAML"),
        (deep, "no YAML"),
    ] {
        check("a", format!("---\n{head}\n---\nbody").as_bytes(), expected);
    }
    let head = "---\nname: a\ndescription: x\n---\n";
    let turned = format!("{head}see\u{202e}n");
    check("a", format!("{head} \n").as_bytes(), "no text");
    check(
        "a",
        turned.as_bytes(),
        "5:4 U+202E, which turns the direction",
    );
    check(
        "a",
        &[head.as_bytes(), b"b\xffdy"].concat(),
        "not UTF-8 at byte 32",
    );
    check("a", &vec![b'x'; 10 << 20], "10485760 bytes, at most 65536");
    let longest = "x".repeat(65);
    for (path, expected) in [
        (
            "a\n\u{27e6}owner\u{27e7}/b",
            "in its path is not 1 to 64 of A-Z",
        ),
        ("a b/c", "a b in its path is not 1 to 64 of A-Z"),
        (longest.as_str(), "not 1 to 64"),
        ("A", "not 1 to 64"),
    ] {
        let name = path.rsplit('/').next().unwrap_or(path);
        check(path, skill(name, "x").as_bytes(), expected);
    }
}

#[test]
fn a_head_may_be_written_as_others_write_it() {
    let place = Place::new();
    let file = "\u{feff}---\r\nname: \"a\"\r\ndescription: >-\r\n  Folded: over\r\n  lines & more\r\nlicense: MIT\r\nmetadata:\r\n  x: [1, 2]\r\nalways_on: true\r\n---\r\nBody\r\nmore\r\n";
    put(&place.at("a/SKILL.md"), file.as_bytes());
    put(
        &place.at("b/SKILL.md"),
        skill("b", "x")
            .replace("name: b", "name:   'b'  # its name")
            .as_bytes(),
    );
    let longest = "l".repeat(64);
    put_skill(&place.at(&longest), "x");
    let catalog = place.skills.catalog();
    let a = catalog.get("a").expect("it is on");
    assert_eq!(
        (a.description.as_str(), a.always_on, &*a.body),
        ("Folded: over lines & more", true, "Body\nmore")
    );
    assert!(
        catalog.get("b").is_some() && catalog.get(&longest).is_some(),
        "{catalog:?}"
    );
}

#[test]
fn links_fifos_and_directories_called_skill_md_are_not_opened() {
    let place = Place::new();
    let outside = tempfile::tempdir().expect("dir");
    put_skill(&outside.path().join("linked"), "x");
    symlink(outside.path().join("linked"), place.at("linked")).expect("link");
    create_dir_all(place.at("file")).expect("dir");
    symlink(
        outside.path().join("linked/SKILL.md"),
        place.at("file/SKILL.md"),
    )
    .expect("link");
    create_dir_all(place.at("loop")).expect("dir");
    symlink("..", place.at("loop/up")).expect("link");
    create_dir_all(place.at("fifo")).expect("dir");
    nix::unistd::mkfifo(&place.at("fifo/SKILL.md"), nix::sys::stat::Mode::S_IRWXU).expect("fifo");
    create_dir_all(place.at("dir/SKILL.md")).expect("dir");
    put_skill(&place.at(""), "x");
    put_skill(&place.at("1/2/3/4/5/6/7/8"), "x");
    put_skill(&place.at("a/2/3/4/5/6/7/8/9"), "x");
    assert_eq!(
        (place.off("file"), place.off("fifo")),
        (
            "it is a link, and links are not followed".into(),
            "it is not a regular file".into()
        )
    );
    assert_eq!(
        (place.off("linked"), place.off("loop")),
        (String::new(), String::new())
    );
    assert_eq!(place.off("9"), "it is more than 8 directories deep");
    assert_eq!(
        place.off("skills"),
        "it needs a directory of its own, skills/NAME/SKILL.md"
    );
    assert!(place.skills.catalog().get("8").is_some());
}

#[test]
fn a_directory_of_skills_that_is_a_link_is_said_and_not_followed() {
    let place = Place::new();
    let outside = tempfile::tempdir().expect("dir");
    put_skill(&outside.path().join("a"), "x");
    std::fs::remove_dir(place.at("")).expect("remove");
    symlink(
        outside.path(),
        place.at("").parent().expect("workspace").join("skills"),
    )
    .expect("link");
    assert_eq!(
        place.shown(),
        ["skills off: it is no directory, and links are not followed"]
    );
}

#[test]
fn of_two_with_one_name_the_less_deep_is_used() {
    let place = Place::new();
    put_skill(&place.at("a/deeper/x"), "deep");
    put_skill(&place.at("z/x"), "less deep");
    put_skill(&place.at("b/x"), "first");
    assert_eq!(
        place.shown(),
        [
            "x skills/b/x/SKILL.md: first",
            "x off: skills/b/x/SKILL.md has this name already",
            "x off: skills/b/x/SKILL.md has this name already"
        ]
    );
}

#[test]
fn an_owners_edits_just_work_and_are_seen_at_once() {
    let place = Place::new();
    put_skill(&place.at("a"), "one");
    let first = place.skills.catalog();
    assert!(
        Arc::ptr_eq(&first, &place.skills.catalog()),
        "looked at again without a change"
    );
    put_skill(&place.at("a"), "two");
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: two"]);
    put_skill(&place.at("b"), "new");
    assert_eq!(place.shown().len(), 2);
    std::fs::remove_dir_all(place.at("a")).expect("remove");
    assert_eq!(place.shown(), ["b skills/b/SKILL.md: new"]);
}

#[test]
fn what_others_could_have_written_is_off_until_it_is_trusted_and_again_when_it_changes() {
    let place = Place::new();
    let workspace = place.dir.path().join("home/workspace");
    let mode =
        |path: &Path, mode: u32| set_permissions(path, Permissions::from_mode(mode)).expect("mode");
    put_skill(&place.at("a"), "x");
    put(&place.at("a/run.sh"), b"echo");
    for dir in [workspace.clone(), place.at("")] {
        mode(&dir, 0o755);
    }
    mode(&place.at("a"), 0o755);
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: x"]);
    mode(&place.at("a/run.sh"), 0o666);
    assert_eq!(
        place.off("a"),
        "run.sh can be written by others (mode 0666), so it may not be yours"
    );
    mode(&place.at("a/run.sh"), 0o664);
    assert_eq!(
        place.off("a"),
        "run.sh can be written by a group (mode 0664), so it may not be yours"
    );
    // Nobody else comes there, so the mode means nothing.
    mode(&workspace, 0o700);
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: x"]);
    mode(&workspace, 0o755);
    mode(&place.at(""), 0o777);
    assert_eq!(
        place.off("a"),
        "skills can be written by others (mode 0777), so it may not be yours"
    );

    place.say("a", true);
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: x"]);
    put(&place.at("a/run.sh"), b"rm -rf");
    assert_eq!(place.off("a"), "it changed since you trusted it");
    place.say("a", true);
    put(&place.at("a/new"), b"");
    assert_eq!(place.off("a"), "it changed since you trusted it");
    std::fs::remove_file(place.at("a/new")).expect("remove");
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: x"]);
    symlink("/etc", place.at("a/link")).expect("link");
    assert_eq!(place.off("a"), "link is no regular file");
}

#[test]
fn whatever_of_a_trusted_skill_changes_turns_it_off() {
    let place = Place::new();
    let mode =
        |path: &Path, mode: u32| set_permissions(path, Permissions::from_mode(mode)).expect("mode");
    for dir in [place.at("").parent().expect("workspace"), &place.at("")] {
        mode(dir, 0o755);
    }
    put_skill(&place.at("a"), "x");
    put(&place.at("a/.git/hooks/x"), b"echo");
    put(&place.at("a/1/2/3/4/5/6/file"), b"x");
    mode(&place.at("a"), 0o777);
    place.say("a", true);
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: x"]);

    put(&place.at("a/.git/hooks/x"), b"rm -rf");
    assert_eq!(place.off("a"), "it changed since you trusted it");
    put(&place.at("a/.git/hooks/x"), b"echo");
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: x"]);
    put(&place.at("a/1/2/3/4/5/6/7/8/file"), b"x");
    assert_eq!(
        place.off("a"),
        "1/2/3/4/5/6/7/8: it is more than 8 directories deep"
    );
    std::fs::remove_dir_all(place.at("a/1/2/3/4/5/6/7")).expect("remove");
    assert_eq!(place.shown(), ["a skills/a/SKILL.md: x"]);
    if !nix::unistd::geteuid().is_root() {
        for closed in [0o300, 0o400] {
            mode(&place.at("a/1/2"), closed);
            assert!(place.off("a").starts_with("1/2"), "{}", place.off("a"));
        }
        mode(&place.at("a/1/2"), 0o700);
    }
    create_dir_all(place.at("b")).expect("dir");
    std::fs::rename(place.at("a"), place.at("b/a")).expect("rename");
    assert_eq!(place.off("a"), "it changed since you trusted it");
    for number in 0..10_000 {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(place.at(&format!("b/a/n{number}")));
        file.expect("the directory is writable");
    }
    assert!(
        place.skills.statuses()[0]
            .off
            .as_ref()
            .is_some_and(|why| why.to_string().contains("more than 10000"))
    );
}

#[test]
fn a_name_that_somebody_chose_is_shown_harmless_and_short() {
    let place = Place::new();
    for dir in [place.at("").parent().expect("workspace"), &place.at("")] {
        set_permissions(dir, Permissions::from_mode(0o755)).expect("mode");
    }
    let name = format!("\u{1b}[2J\n{}", "x".repeat(100));
    put_skill(&place.at("a"), "x");
    put(&place.at("a").join(&name), b"");
    set_permissions(place.at("a").join(&name), Permissions::from_mode(0o666)).expect("mode");
    set_permissions(place.at("a"), Permissions::from_mode(0o755)).expect("mode");
    let check = |why: String| {
        assert!(
            why.starts_with("\\u{1b}[2J") && why.chars().count() < 150 && !why.contains('\n'),
            "{why:?}"
        )
    };
    check(place.off("a"));
    place.say("a", true);
    std::fs::remove_file(place.at("a").join(&name)).expect("remove");
    symlink("/etc", place.at("a").join(&name)).expect("link");
    check(place.off("a"));
    let catalog = place.skills.catalog();
    assert_eq!(catalog.off[0].why.kind(), "it cannot be used as it is");
}

#[test]
fn a_file_at_the_top_of_the_workspace_is_no_news_of_skills() {
    let place = Place::new();
    put_skill(&place.at("a"), "x");
    let first = place.skills.catalog();
    let workspace = place.at("").parent().expect("workspace").to_owned();
    put(&workspace.join("notes.md"), b"x");
    assert!(
        Arc::ptr_eq(&first, &place.skills.catalog()),
        "looked at again"
    );
    set_permissions(&workspace, Permissions::from_mode(0o777)).expect("mode");
    assert_eq!(
        place.off("a"),
        "workspace can be written by others (mode 0777), so it may not be yours"
    );
}

#[test]
fn a_distrusted_skill_is_off_and_hides_the_bundled_one_of_its_name() {
    let place = Place::new();
    put_skill(&place.at("a"), "ours");
    put_skill(&place.bundled("a"), "bundled");
    put_skill(&place.bundled("b"), "bundled");
    place.say("a", false);
    place.say("b", false);
    assert_eq!(
        place.shown(),
        ["a off: you distrusted it", "b off: you distrusted it"]
    );
    place.say("a", true);
    place.say("b", true);
    put_skill(&place.bundled("b"), "newer");
    assert_eq!(
        place.shown(),
        [
            "a skills/a/SKILL.md: ours",
            "b share/skills/b/SKILL.md: newer"
        ]
    );
}

#[test]
fn while_nobody_knows_whom_to_trust_no_skill_is_on() {
    let place = Place::new();
    put_skill(&place.at("a"), "ours");
    put_skill(&place.bundled("b"), "bundled");
    let file = place.dir.path().join("home/state/skills.json");
    put(&file, b"{ torn");
    assert!(
        place
            .off("a")
            .starts_with("state/skills.json cannot be read"),
        "{}",
        place.off("a")
    );
    assert!(
        place.skills.catalog().get("b").is_none(),
        "the owner may have distrusted it"
    );
    assert!(file.exists(), "it is left where it is");
    std::fs::remove_file(&file).expect("own file");
    assert!(place.skills.catalog().get("b").is_some());
}

#[test]
fn what_a_head_says_and_is_not_read_is_said() {
    let place = Place::new();
    let check = |head: &str, expected: &[&str]| {
        let file = format!("---\nname: a\ndescription: x\n{head}\n---\nDo it.\n");
        put(&place.at("a/SKILL.md"), file.as_bytes());
        let statuses = place.skills.statuses();
        let mistakes = &statuses.first().expect("it is there").mistakes;
        let is_it = |(found, words): (&String, &&str)| found.starts_with(words);
        assert!(
            mistakes.len() == expected.len() && mistakes.iter().zip(expected).all(is_it),
            "{head}: {mistakes:?}"
        );
        let catalog = place.skills.catalog();
        assert_eq!(catalog.get("a").expect("it is on").mistakes, *mistakes);
    };
    check("license: MIT\nmetadata:\n  a: b\nneeds:\nexamples:", &[]);
    check("needs:\n  programs: [curl]\n  notes: 7", &[]);
    check("needs: curl", &["its `needs` is not read: "]);
    check("needs:\n  programs: curl", &["its `needs` is not read: "]);
    check("examples: [hello]", &["its `examples` is not read: "]);
    check(
        "always-on: true\nneeds:\n  program: [curl]",
        &[
            "it has the unknown key `always-on`",
            "it has the unknown key `needs.program`",
        ],
    );
    let four = "\n- {ask: a, expect: b}".repeat(4);
    check(
        &format!("examples:{four}"),
        &["it has 4 `examples`, of which 3 are read"],
    );
}
