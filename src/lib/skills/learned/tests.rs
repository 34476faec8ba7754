use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::*;
use crate::text;

const DAY: i64 = 24 * 3_600_000;

struct Place {
    dir: tempfile::TempDir,
    skills: Skills,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(&dir.path().join("home"));
        home.create().expect("directories");
        fs::create_dir_all(home.workspace().join("skills")).expect("dir");
        let skills = Skills::new(&home, Some(&dir.path().join("share")));
        let place = Self { dir, skills };
        place.write("../../share/skills/mail/SKILL.md", &skill("mail", "Ships."));
        place
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join("home/workspace").join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("dir");
        atomic::write(&path, text.as_bytes(), Durability::Rename).expect("write");
    }

    fn is(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn propose(&self, name: &str, body: &str, run: &str, now: i64) -> Result<Proposal, String> {
        let draft = Draft {
            name: name.to_owned(),
            description: "When.".to_owned(),
            body: body.to_owned(),
            examples: Vec::new(),
        };
        let proposed = self.skills.propose(&draft, run, now);
        proposed.map_err(|why| why.to_string())
    }

    fn accept(&self, name: &str, what: Accept<'_>) -> Result<(), String> {
        let accepted = self.skills.accept(name, what, 9);
        accepted.map_err(|why| why.to_string())
    }

    fn is_on(&self, name: &str) -> bool {
        self.skills.catalog().get(name).is_some()
    }
}

fn skill(name: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: \"When.\"\n---\n{body}\n")
}

fn check(result: Result<impl std::fmt::Debug, String>, expected: &str) {
    let why = result.expect_err(expected);
    assert!(why.contains(expected), "{why}");
}

#[test]
fn a_proposal_is_nothing_until_it_is_accepted_and_then_a_skill() {
    let place = Place::new();
    let proposal = place
        .propose("report", "1. Look.", "r1", 5)
        .expect("proposed");
    assert_eq!(proposal.before, None);
    assert!(proposal.diff.contains("+ 1. Look."), "{}", proposal.diff);
    assert!(!place.is_on("report"));
    assert_eq!(place.skills.proposals(), [proposal]);
    place
        .accept("report", Accept::AsProposed)
        .expect("accepted");
    assert!(place.is_on("report"));
    assert_eq!(
        place.is("skills/report/SKILL.md"),
        Some(skill("report", "1. Look."))
    );
    assert!(!place.at("skills-proposed/report").exists());
    assert_eq!(place.skills.proposals(), []);
    check(
        place.propose("report", "1. Look.", "r2", 6),
        "already has exactly this text",
    );

    let better = place
        .propose("report", "1. Look twice.", "r2", 6)
        .expect("proposed");
    assert!(better.before.is_some() && better.diff.contains("- 1. Look.\n+ 1. Look twice."));
    place
        .accept("report", Accept::Exactly(text::head(&better.sha256, 8)))
        .expect("accepted");
    let before = place.is("skills-proposed/report/before.md");
    assert_eq!(before, Some(skill("report", "1. Look.")));
    let counts = place.skills.learned().counts("report");
    assert_eq!((counts.corrected, counts.learned_at), (1, Some(9)));
    let events: Vec<What> = place
        .skills
        .learned()
        .events()
        .iter()
        .map(|event| event.what)
        .collect();
    assert_eq!(
        events,
        [
            What::Proposed,
            What::Learned,
            What::Proposed,
            What::Improved
        ]
    );
    check(
        place.accept("report", Accept::AsProposed),
        "no skill report is proposed",
    );
}

#[test]
fn what_is_not_what_the_owner_read_is_not_accepted() {
    let place = Place::new();
    let proposal = place.propose("a", "One.", "r1", 5).expect("proposed");
    place.write("skills-proposed/a/SKILL.md", &skill("a", "Obey."));
    check(
        place.accept("a", Accept::AsProposed),
        "another one than that; nothing was changed",
    );
    check(
        place.accept("a", Accept::Exactly(text::head(&proposal.sha256, 8))),
        "another one than that",
    );
    assert!(!place.is_on("a"));
    // The owner, who has read what it says now, may.
    let now = place.skills.proposals()[0].now.clone().expect("a hash");
    place.accept("a", Accept::Exactly(&now)).expect("accepted");
    assert!(place.is_on("a"));

    place.propose("a", "Two.", "r2", 6).expect("proposed");
    place.write("skills/a/SKILL.md", &skill("a", "The owner's."));
    check(
        place.accept("a", Accept::AsProposed),
        "changed since it was proposed",
    );
    assert_eq!(
        place.is("skills/a/SKILL.md"),
        Some(skill("a", "The owner's."))
    );

    // A draft that nobody proposed, and a record that nobody reads.
    place.write("skills-proposed/b/SKILL.md", &skill("b", "Obey."));
    check(
        place.accept("b", Accept::AsProposed),
        "no skill b is proposed",
    );
    place.propose("c", "Three.", "r3", 6).expect("proposed");
    fs::remove_file(place.at("skills-proposed/c/SKILL.md")).expect("own file");
    check(place.accept("c", Accept::AsProposed), "no longer exists");
    place.write("skills-proposed/c/SKILL.md", "---\nname: c\n");
    let now = place
        .skills
        .proposals()
        .pop()
        .and_then(|one| one.now)
        .expect("a hash");
    check(
        place.accept("c", Accept::Exactly(&now)),
        "does not begin with a head",
    );
}

#[test]
fn no_proposal_hides_a_skill_or_goes_through_a_link() {
    let place = Place::new();
    check(
        place.propose("mail", "Obey.", "r", 1),
        "is an included skill",
    );
    // Not even where the owner turned that one off.
    place
        .skills
        .approved()
        .decide("mail", Decision::Distrust, 1)
        .expect("written");
    check(place.propose("mail", "Obey.", "r", 1), "disabled");
    place.write("skills/deep/nested/SKILL.md", &skill("nested", "Mine."));
    check(
        place.propose("nested", "Obey.", "r", 1),
        "is in skills/deep/nested",
    );
    place.write("skills/broken/SKILL.md", "---\n");
    check(
        place.propose("broken", "Obey.", "r", 1),
        "exists and is disabled",
    );
    place.write("skills/scripts/run.sh", "true");
    check(place.propose("scripts", "Obey.", "r", 1), "already exists");
    for name in ["../x", "a/b", "", "A"] {
        check(place.propose(name, "x", "r", 1), "is not 1 to 64");
    }

    let mine = skill("mine", "Mine.");
    place.write("skills/mine/SKILL.md", &mine);
    fs::create_dir_all(place.at("skills-proposed")).expect("dir");
    symlink("../skills/mine", place.at("skills-proposed/evil")).expect("link");
    check(place.propose("evil", "Obey.", "r", 1), "through a link");
    assert_eq!(place.is("skills/mine/SKILL.md").as_ref(), Some(&mine));
    // A link that comes between proposal and answer.
    place.propose("late", "Obey.", "r1", 1).expect("proposed");
    fs::remove_dir_all(place.at("skills-proposed/late")).expect("own directory");
    symlink("../skills/mine", place.at("skills-proposed/late")).expect("link");
    check(place.accept("late", Accept::AsProposed), "through a link");
    place.skills.reject("late", 2).expect("rejected");
    assert_eq!(place.is("skills/mine/SKILL.md").as_ref(), Some(&mine));
}

#[test]
fn ten_thousand_proposals_are_ten_questions_at_most_and_a_no_is_heard() {
    let place = Place::new();
    let mut taken = 0;
    for number in 0..10_000_i64 {
        let run = format!("r{number}");
        // Three days of it.
        let now = number * 3 * DAY / 10_000;
        taken += usize::from(place.propose(&format!("s{number}"), "x", &run, now).is_ok());
    }
    assert_eq!((taken, place.skills.proposals().len()), (10, 10));
    let name = place.skills.proposals()[0].name.clone();
    place.skills.reject(&name, 9 * DAY).expect("rejected");
    assert!(!place.at("skills-proposed").join(&name).exists());
    check(
        place.propose(&name, "x", "r", 10 * DAY),
        "rejected exactly this text",
    );
    place
        .propose("other", "x", "one", 10 * DAY)
        .expect("proposed");
    check(
        place.propose("again", "x", "one", 10 * DAY),
        "one skill is proposed in a turn",
    );
}

#[test]
fn a_crash_after_the_skill_was_written_ends_the_proposal() {
    let place = Place::new();
    place.propose("a", "One.", "r1", 5).expect("proposed");
    place.write("skills/a/SKILL.md", &skill("a", "One."));
    assert_eq!(place.skills.proposals(), []);
    assert_eq!(place.skills.learned().counts("a").learned_at, Some(5));
    assert!(!place.at("skills-proposed/a").exists());
}

#[test]
fn a_learned_skill_is_retired_and_comes_back() {
    let place = Place::new();
    place.write("skills/mine/SKILL.md", &skill("mine", "Mine."));
    let retire = |name: &str| place.skills.retire(name, 20).map_err(|why| why.to_string());
    check(retire("mine"), "was not learned");
    check(retire("mail"), "was not learned");
    place.propose("a", "One.", "r1", 5).expect("proposed");
    place.accept("a", Accept::AsProposed).expect("accepted");
    assert_eq!(place.skills.idle(9 + 59 * DAY), Vec::<String>::new());
    assert_eq!(place.skills.idle(9 + 60 * DAY), ["a"]);
    place.skills.offered("a", 9 + 60 * DAY);
    assert_eq!(place.skills.idle(9 + 61 * DAY), Vec::<String>::new());
    retire("a").expect("retired");
    assert!(!place.is_on("a") && !place.at("skills/a").exists());
    assert!(place.skills.proposals()[0].shelved);
    place.accept("a", Accept::AsProposed).expect("accepted");
    assert!(place.is_on("a"));
    place.write("skills/a/run.sh", "true");
    check(retire("a"), "more files than its SKILL.md");
}

#[test]
fn a_damaged_record_accepts_nothing_and_is_kept() {
    let place = Place::new();
    place.propose("a", "One.", "r1", 5).expect("proposed");
    let state = place.dir.path().join("home/state/learned.json");
    atomic::write(&state, b"{", Durability::Rename).expect("write");
    check(
        place.accept("a", Accept::AsProposed),
        "no skill a is proposed",
    );
    place.skills.learned().used("mail", "r1", 3);
    assert_eq!(place.skills.learned().counts("mail").used, 1);
    let kept = fs::read_dir(state.parent().expect("state"))
        .expect("state")
        .flatten();
    let is_aside = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().contains("corrupt");
    assert_eq!(kept.filter(is_aside).count(), 1);
}
