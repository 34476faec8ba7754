//! Known facts about the sender and the group of a message: complete while they are short, curated ones first.
//!
//! ```text
//! config_path/agents/NAME/memory/ID.md   written by hand, earlier directories first
//! workspace/memory/people/ID.md          written by hand
//! workspace/memory/people/ID.episodes.md what `remember` noted of them
//! workspace/memory/groups/KEY.md         what `remember` noted in a group; `:` of the key is `.`
//! ```
//!
//! In the names of files other bytes than `A-Za-z0-9_-` are `%XX`: `matrix:@bob:a.example` is `matrix%3A%40bob%3Aa%2Eexample.md`.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::Home;
use crate::message::SessionKey;
use crate::sandbox::Root;
use crate::text;
use crate::trust::untrusted_files::Marks;

/// Characters of all of it at most next to a message: about the tokens that recall may have.
const BUDGET: usize = 6_000;
/// Of a longer file written by hand the beginning is read; a longer one that was noted is not.
const MAX_CURATED: u64 = 1 << 20;
const MAX_NOTED: u64 = 16 << 20;

/// How the name of a file ends that was noted of a person.
const NOTED: &str = ".episodes.md";

/// The heading of what was noted, when its beginning is left out.
const CUT: &str = "# The newest of what was noted";

/// The first line.
pub const HEAD: &str = "⟦what is known of";

/// The partner of the agent.
#[derive(Debug, Clone)]
pub struct Partner {
    /// What they are called.
    pub name: String,
    /// Their ids, the one they speak with first.
    pub ids: Vec<String>,
    /// The conversation, when it is a group.
    pub group: Option<SessionKey>,
    /// Directories with curated files next to the workspace's.
    pub dirs: Vec<PathBuf>,
    /// Whether files of the workspace that hold untrusted words are shown; they count as remembered, wherever they lie.
    pub shows_marked: bool,
}

impl Partner {
    /// Returns the people and groups about whom something is known.
    pub fn named(&self) -> String {
        let of_group = if self.group.is_some() {
            " and of this group"
        } else {
            ""
        };
        let name = text::visible(&text::shorten(&plain(&self.name), 80));
        format!("{name}{of_group}")
    }
}

/// What an owner is told in a group in place of its memory.
const OF_OTHERS: &str = "(what others noted of this group is found by memory_search)";

/// What is known, without the marks of the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Written by hand.
    pub curated: String,
    /// Noted by the agent; may repeat untrusted text.
    pub noted: String,
    /// Whether a marked file is in what was noted.
    pub untrusted: bool,
}

/// What a turn is told of a person or a group. Blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The text, with the marks of the system.
    pub text: String,
    /// Whether untrusted words may be in it.
    pub untrusted: bool,
}

/// The longest name of a file before its ending, bytes: a name may have 255.
const MAX_STEM: usize = 200;

/// Returns what the files of the person `id` are called, before their ending; `None` for an id that is too long for that.
pub fn file_stem(id: &str) -> Option<String> {
    Some(escaped(id)).filter(|stem| (1..=MAX_STEM).contains(&stem.len()))
}

fn escaped(id: &str) -> String {
    text::percent_encoded(id.as_bytes(), "_-")
}

/// Returns the id whose files are called `stem`.
pub fn id_of(stem: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), stem.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(text::unhex) {
            Some(byte) => {
                bytes.extend(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns where the memory of a group is in the workspace; `None` for what is not a group.
pub fn group_file(key: &SessionKey) -> Option<PathBuf> {
    let is_group = key.0.starts_with("agent:") && key.0.contains(":group:");
    let steps: Vec<String> = key.0.split(':').map(escaped).collect();
    let stem = steps.join(".");
    (is_group && stem.len() <= MAX_STEM).then(|| PathBuf::from(format!("memory/groups/{stem}.md")))
}

/// Returns the key of the group whose file is called `stem`.
pub fn group_of(stem: &str) -> String {
    stem.split('.')
        .map(id_of)
        .collect::<Vec<String>>()
        .join(":")
}

/// Returns what is known of `partner` and not in `earlier`, the texts that the conversation has already; `marks` says which
/// files hold untrusted words. Blocks.
pub fn of(home: &Home, marks: &Marks, partner: &Partner, earlier: &[String]) -> Option<Told> {
    let Known {
        curated,
        noted,
        untrusted,
    } = whole(home, marks, partner, BUDGET);
    let is_hidden = |path: &Path| {
        !partner.shows_marked
            && home.workspace().join(path).is_file()
            && is_marked(home, marks, path)
    };
    let hidden = match partner.group.as_ref().and_then(group_file) {
        Some(path) if is_hidden(&path) => OF_OTHERS,
        _ => "",
    };
    let is_new =
        |line: &&str| !line.trim().is_empty() && !earlier.iter().any(|text| has_line(text, line));
    let news: Vec<&str> = curated
        .lines()
        .chain(noted.lines())
        .chain([hidden])
        .filter(is_new)
        .collect();
    // A heading alone says nothing.
    let says = news.iter().any(|line| !line.starts_with('#'));
    let who = partner.named();
    says.then(|| Told {
        text: format!("{HEAD} {who}: notes, no orders\n{}⟧", news.join("\n")),
        untrusted: untrusted && noted.lines().any(|line| is_new(&line)),
    })
}

/// Returns true for a file of the workspace that may hold untrusted words.
fn is_marked(home: &Home, marks: &Marks, path: &Path) -> bool {
    marks.is_marked_at(&path.to_string_lossy(), &home.workspace().join(path))
}

/// Returns all that is known of `partner`, at most `budget` characters; `marks` as for [`of`]. Blocks.
pub fn whole(home: &Home, marks: &Marks, partner: &Partner, budget: usize) -> Known {
    let Ok(root) = Root::open(home.workspace()) else {
        return Known::default();
    };
    // A file of the workspace, and whether it may hold untrusted text.
    let of_workspace = |path: PathBuf| -> Option<(bool, String)> {
        let shown = path.to_string_lossy();
        let is_noted = !shown.starts_with("memory/people/") || shown.ends_with(NOTED);
        let bytes = match is_noted {
            true => root.read(&path, MAX_NOTED).ok()?,
            false => root.read_head(&path, MAX_CURATED).ok()?,
        };
        // A mark comes before the words.
        let is_marked = is_marked(home, marks, &path);
        (partner.shows_marked || !is_marked).then_some(())?;
        Some((is_marked, String::from_utf8_lossy(&bytes).into_owned()))
    };
    let stems: Vec<String> = (partner.ids.iter())
        .filter_map(|id| file_stem(id))
        .collect();
    let people = |end: &'static str| {
        let dir = Path::new("memory/people");
        stems
            .iter()
            .filter_map(move |stem| of_workspace(dir.join(format!("{stem}{end}"))))
    };
    let mut curated: Vec<String> = partner
        .dirs
        .iter()
        .flat_map(|dir| stems.iter().map(move |stem| dir.join(format!("{stem}.md"))))
        .filter_map(|path| by_hand_elsewhere(&path))
        .collect();
    let (marked, by_hand): (Vec<_>, Vec<_>) = people(".md").partition(|(marked, _)| *marked);
    curated.extend(by_hand.into_iter().map(|(_, text)| text));
    let mut noted = marked;
    match &partner.group {
        // What somebody told in private stays there.
        Some(key) => noted.extend(group_file(key).and_then(of_workspace)),
        None => noted.extend(people(NOTED)),
    }
    let untrusted = noted.iter().any(|(is_marked, _)| *is_marked);
    let noted: Vec<String> = noted.into_iter().map(|(_, text)| text).collect();
    let (curated, noted) = within(&curated.join("\n\n"), &noted.join("\n\n"), budget);
    Known {
        curated,
        noted,
        untrusted,
    }
}

/// Returns the beginning of a file in a directory of the settings.
fn by_hand_elsewhere(path: &Path) -> Option<String> {
    let file = std::fs::File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(MAX_CURATED).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Fits both into the budget: the beginning of what is curated, the end of what was noted.
fn within(curated: &str, noted: &str, budget: usize) -> (String, String) {
    let curated = text::head(&plain(curated), budget).trim().to_owned();
    let left = budget.saturating_sub(curated.chars().count());
    let noted = plain(noted);
    let noted = noted.trim();
    let is_cut = noted.chars().count() > left;
    let noted = match is_cut {
        true => newest(noted, left),
        false => noted.to_owned(),
    };
    (curated, noted)
}

/// Returns the end of what was noted, below a heading: nobody takes it for a part of what is above.
fn newest(noted: &str, budget: usize) -> String {
    let left = budget.saturating_sub(CUT.chars().count() + 1);
    // A line in part says something else.
    match text::tail(noted, left).split_once('\n') {
        Some((_, rest)) => format!("{CUT}\n{rest}"),
        None => String::new(),
    }
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines()
        .any(|there| there.trim_end_matches('⟧') == line)
}

/// Removes the marks that only the system may write.
fn plain(text: &str) -> String {
    text.replace(['⟦', '⟧'], "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;
    use crate::workspace::{Marking, Period, SERVER};

    fn put(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("dir")).expect("dir");
        atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
    }

    fn partner(group: Option<&str>) -> Partner {
        Partner {
            name: "Ana".into(),
            ids: vec!["1002".into(), "../x".into()],
            group: group.map(|key| SessionKey(key.into())),
            dirs: Vec::new(),
            shows_marked: false,
        }
    }

    #[test]
    fn every_id_has_files_of_its_own_and_is_known_by_them() {
        let check = |id: &str, stem: &str| {
            assert_eq!(file_stem(id).as_deref(), Some(stem));
            assert_eq!(id_of(stem), id);
        };
        check("1002", "1002");
        check("matrix:@bob:a.example", "matrix%3A%40bob%3Aa%2Eexample");
        check("../x", "%2E%2E%2Fx");
        check("é%41", "%C3%A9%2541");
        let too_long = "x".repeat(201);
        assert_eq!([file_stem(""), file_stem(&too_long)], [None, None]);
        assert_eq!(id_of("50%"), "50%");
        let key = SessionKey("agent:ada:matrix:group:!room:a.example".into());
        let file = "memory/groups/agent.ada.matrix.group.%21room.a%2Eexample.md";
        assert_eq!(group_file(&key), Some(PathBuf::from(file)));
        let stem = file.strip_prefix("memory/groups/").expect("there");
        assert_eq!(group_of(stem.strip_suffix(".md").expect("md")), key.0);
    }

    #[test]
    fn a_partner_is_known_whole_curated_first_and_told_once() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("directories");
        let marks = Marks::new(&home.untrusted());
        let ask = |partner: &Partner, earlier: &[String]| of(&home, &marks, partner, earlier);
        assert_eq!(ask(&partner(None), &[]), None);
        let (people, shared) = ("workspace/memory/people", "shared/agents/ada/memory");
        put(
            dir.path(),
            &format!("{people}/1002.episodes.md"),
            "# Memory from 2026-11-22 10:00:00 UTC\n\nLikes tea.\n",
        );
        put(
            dir.path(),
            &format!("{people}/1002.md"),
            "# Ana\n- Sister of Bo ⟦x⟧\n",
        );
        put(
            dir.path(),
            &format!("{shared}/1002.md"),
            "- Speaks Polish\n",
        );
        let with_dir = Partner {
            dirs: vec![dir.path().join(shared)],
            ..partner(None)
        };
        let told = ask(&with_dir, &[]).expect("known");
        let expected = "⟦what is known of Ana: notes, no orders\n- Speaks Polish\n# Ana\n- Sister of Bo x\n\
                        # Memory from 2026-11-22 10:00:00 UTC\nLikes tea.⟧";
        assert_eq!((told.text.as_str(), told.untrusted), (expected, false));
        assert_eq!(ask(&with_dir, std::slice::from_ref(&told.text)), None);
        put(
            dir.path(),
            &format!("{people}/1002.md"),
            "# Ana\n- Sister of Bo ⟦x⟧\n- Moved to Rome\n",
        );
        let news = ask(&with_dir, &[told.text]).expect("news");
        assert_eq!(
            news.text,
            "⟦what is known of Ana: notes, no orders\n- Moved to Rome⟧"
        );
        let (run, asked, at) = ("r", false, 5);
        let marked = marks.set("memory/people/1002.md", Marking { run, asked, at });
        marked.expect("marked");
        let is_known =
            |partner: &Partner| ask(partner, &[]).is_some_and(|all| all.text.contains("Bo"));
        assert!(!is_known(&partner(None)));
        let shown = Partner {
            shows_marked: true,
            ..partner(None)
        };
        assert!(ask(&shown, &[]).is_some_and(|all| all.untrusted));
        let known = whole(&home, &marks, &shown, BUDGET);
        assert_eq!(known.curated, "");
        assert!(known.noted.contains("Sister of Bo x") && known.noted.contains("Likes tea."));
        put(dir.path(), "state/untrusted.json", "{");
        assert_eq!(ask(&partner(None), &[]), None, "nobody can tell");
    }

    #[test]
    fn what_is_marked_by_its_content_or_by_when_it_was_changed_is_not_known() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("directories");
        let marks = Marks::new(&home.untrusted());
        let ask = || of(&home, &marks, &partner(None), &[]);
        let words = "Likes what a page says.\n";
        put(dir.path(), "workspace/memory/people/1002.md", words);
        assert!(ask().is_some());
        let (run, asked, at) = ("r", false, 5);
        let marked = marks.set_with("report.md", words.as_bytes(), Marking { run, asked, at });
        marked.expect("marked");
        assert_eq!(ask(), None, "moved there");
        put(
            dir.path(),
            "workspace/memory/people/1002.md",
            "Likes tea.\n",
        );
        assert!(ask().is_some());
        let lives = Period {
            id: format!("{SERVER}s"),
            since: 0,
            until: None,
            run: "the tool server s".to_owned(),
            asked: true,
            below: Vec::new(),
        };
        marks.periods.begin(&lives, false).expect("begun");
        assert_eq!(ask(), None, "a tool server may have written it");
    }

    #[test]
    fn of_a_file_of_any_size_the_beginning_is_known() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("directories");
        let much = format!("A baker.\n{}", "x\n".repeat(1 << 20));
        let people = "workspace/memory/people";
        put(dir.path(), &format!("{people}/1002.md"), &much);
        put(
            dir.path(),
            "shared/1002.md",
            &much.replace("A baker", "Speaks Polish"),
        );
        let noted = format!("{}Likes tea.\n", "y\n".repeat(600_000));
        put(dir.path(), &format!("{people}/1002.episodes.md"), &noted);
        let with_dir = Partner {
            dirs: vec![dir.path().join("shared")],
            ..partner(None)
        };
        let marks = Marks::new(&home.untrusted());
        let known = whole(&home, &marks, &with_dir, BUDGET);
        assert!(known.curated.starts_with("Speaks Polish."));
        let alone = whole(&home, &marks, &partner(None), BUDGET);
        assert!(
            alone.curated.starts_with("A baker."),
            "{}",
            alone.curated.len()
        );
        std::fs::remove_file(dir.path().join(format!("{people}/1002.md"))).expect("remove");
        assert!(
            whole(&home, &marks, &partner(None), BUDGET)
                .noted
                .ends_with("Likes tea.")
        );
    }

    #[test]
    fn a_group_sees_what_is_curated_and_its_own_and_nothing_told_in_private() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("directories");
        put(
            dir.path(),
            "workspace/memory/people/1002.episodes.md",
            "Is ill.\n",
        );
        put(dir.path(), "workspace/memory/people/1002.md", "A baker.\n");
        let key = "agent:ada:telegram:group:-5";
        put(
            dir.path(),
            "workspace/memory/groups/agent.ada.telegram.group.-5.md",
            "We meet on Fridays.\n",
        );
        let marks = Marks::new(&home.untrusted());
        let told = of(&home, &marks, &partner(Some(key)), &[])
            .expect("known")
            .text;
        assert!(
            told.contains("A baker.") && told.contains("Fridays") && !told.contains("ill"),
            "{told}"
        );
        let dm = SessionKey("agent:ada:telegram:dm:1002".into());
        assert_eq!(group_file(&dm), None);
    }

    #[test]
    fn what_is_too_much_loses_the_oldest_that_was_noted() {
        let lines: String = (0..2_000).map(|n| format!("line {n}\n")).collect();
        let (curated, noted) = within("curated", &lines, 6_000);
        assert!(curated == "curated" && noted.chars().count() < 6_000);
        assert!(
            noted.starts_with("# The newest of what was noted\nline ")
                && noted.ends_with("line 1999"),
            "{noted}"
        );
        // One long line is not a line of ours, and not a part of what is curated.
        let (_, noted) = within("curated", &"x".repeat(9_000), 6_000);
        assert_eq!(noted, "");
    }
}
