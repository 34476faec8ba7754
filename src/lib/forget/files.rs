//! Erases text from files, in a way that depends on the place of the file.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Survey;
use super::matcher::Words;
use crate::config::Home;
use crate::jobs;
use crate::memory::person_profile;
use crate::skills::{DRAFTS, LearnedWords};
use crate::sys;
use crate::sys::atomic;
use crate::tools::SERVER_FILES;

/// Files that are not the agent's to change are searched up to this size, bytes.
const MAX_SEARCHED: u64 = 64 << 20;
/// What files of `workspace/inbox` are counted as.
const RECEIVED: &str = "downloads";
/// What skills are counted as that the agent wrote.
const LEARNED: &str = "skills";
/// Lines over which a sentence of a note may reach.
const MAX_LINES: usize = 8;

/// Whose file it is, and what is done with the words in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Its lines go.
    Lines(&'static str),
    /// Its jobs go.
    Jobs,
    /// Its lines become tombstones.
    Transcript,
    /// It goes.
    Whole(&'static str),
    /// It goes, with all that is in the same directory.
    WithDirectory(&'static str),
    /// It stays, and is named.
    Left(&'static str),
    /// It holds no words, or is looked at elsewhere.
    Passed,
}

/// A walk over all files of a home, that counts the words in `survey` and, with `erase`, erases them.
pub(super) struct Files<'a> {
    pub home: &'a Home,
    pub words: &'a Words,
    pub erase: bool,
    pub survey: &'a mut Survey,
}

impl Files<'_> {
    /// Goes through all files but `order`.
    pub(super) fn go_through(&mut self, order: Option<&Path>) -> Result<(), sys::Error> {
        let home = self.home;
        let (downloads, of_servers) = (home.downloads(), home.workspace().join(SERVER_FILES));
        let learned = LearnedWords::of(home);
        let mut files = Vec::new();
        let standby = home.state().join("standby");
        walk(home.state(), &[home.workspace(), &standby], &mut files)?;
        walk(&of_servers, &[], &mut files)?;
        files.retain(|path| Some(path.as_path()) != order);
        // Which downloads belong to what is erased is known last, and they go first: afterwards nobody would know.
        let is_download =
            |path: &Path| path.starts_with(&downloads) || path.starts_with(&of_servers);
        files.sort_by_key(|path| is_download(path) != self.erase);
        for path in files {
            let rule = match path.starts_with(&of_servers) {
                true => Rule::Whole(RECEIVED),
                false => in_state(home, &path),
            };
            self.file(&path, rule)?;
        }
        let mut files = Vec::new();
        walk(&standby, &[], &mut files)?;
        if !files.is_empty() {
            let why = "copies for the second machine, which are not searched: agent-daemon standby makes them again, here and there";
            self.survey.leave(home.display(&standby), why);
        }
        let mut files = Vec::new();
        walk(home.workspace(), &[&of_servers], &mut files)?;
        for path in files {
            let rule = in_workspace(home, &path, (self.words, &learned));
            self.file(&path, rule)?;
        }
        let is_meant = |name: &str| self.words.are_in(name);
        let gone = learned.erase(&is_meant, home.workspace(), self.erase)?;
        self.survey.count("learned.json", gone);
        let mut files = Vec::new();
        let but = [home.workspace(), home.state()];
        walk(home.config_dir(), &but, &mut files)?;
        for path in files {
            self.file(&path, Rule::Left("your settings"))?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, rule: Rule) -> Result<(), sys::Error> {
        if rule == Rule::Passed {
            return Ok(());
        }
        let is_large = std::fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_SEARCHED);
        if is_large && matches!(rule, Rule::Left(_)) {
            self.survey
                .leave(self.home.display(path), "too large to be searched");
            return Ok(());
        }
        // It may have gone with its directory.
        let Some(bytes) = atomic::read(path)? else {
            return Ok(());
        };
        self.survey.searched += 1;
        let words = self.words;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_hit = || words.are_in(&name) || words.are_in_bytes(&bytes);
        let is_ours = !matches!(rule, Rule::Left(_));
        self.survey.with_value += usize::from(is_ours && words.have_value_in(&bytes));
        match rule {
            Rule::Passed => {}
            Rule::Left(why) => {
                if is_hit() {
                    self.survey.leave(self.home.display(path), why);
                }
            }
            Rule::Lines(store) => self.lines(path, &bytes, store)?,
            Rule::Jobs => {
                let is_meant = |entry: &str| words.are_in(entry);
                let gone = jobs::read(path)?.remove_where(is_meant);
                self.survey.count("jobs", gone);
                if gone > 0 && self.erase {
                    jobs::Store::new(path).change(|jobs| jobs.remove_where(is_meant))?;
                }
            }
            Rule::Transcript => self.transcript(path, &bytes)?,
            Rule::Whole("notes") => {
                let text = String::from_utf8_lossy(&bytes);
                let stem = name.split('.').next().unwrap_or_default();
                if words.are_in(&name) || words.are_in(stem) || words.stand_alone_in(&text) {
                    let note = format!("{}: all of it", self.home.display(path));
                    self.survey.notes.push(note);
                    self.whole(path, "notes")?;
                }
            }
            Rule::Whole(store) => {
                // Received files are in a directory that is named after who sent them.
                let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
                let is_theirs = || {
                    let folder = folder.to_string_lossy();
                    store == RECEIVED && (words.are_in(&folder) || words.have_met(&name))
                };
                if is_hit() || is_theirs() {
                    if store == LEARNED {
                        let note = format!("{}: all of it", self.home.display(path));
                        self.survey.notes.push(note);
                    }
                    self.whole(path, store)?;
                }
            }
            Rule::WithDirectory(store) => {
                let dir = self.home.state().join(store);
                let below = path.strip_prefix(&dir).ok();
                let first = below.and_then(|below| below.components().next());
                let top = first.map_or_else(|| path.to_owned(), |first| dir.join(first));
                let id = top.file_name().unwrap_or_default().to_string_lossy();
                if is_hit() || (store == "downloads" && words.have_met(&id)) {
                    self.whole(&top, store)?;
                }
            }
        }
        Ok(())
    }

    /// A file or a directory goes.
    fn whole(&mut self, path: &Path, store: &str) -> Result<(), sys::Error> {
        self.survey.count(store, 1);
        if self.erase { remove(path) } else { Ok(()) }
    }

    fn lines(&mut self, path: &Path, bytes: &[u8], store: &str) -> Result<(), sys::Error> {
        let lines = || bytes.split_inclusive(|byte| *byte == b'\n');
        let (kept, gone) = if store == "notes" {
            let is_there = self.words.stand_in(&String::from_utf8_lossy(bytes));
            without_sentences(lines(), &|some| {
                let text = some.concat();
                (is_there || some.len() == 1)
                    && self.words.stand_alone_in(&String::from_utf8_lossy(&text))
            })
        } else {
            lines().partition(|line| !self.words.are_in_bytes(line))
        };
        self.survey.count(store, gone.len());
        if store == "notes" {
            let shown = self.home.display(path);
            let line = |line: &[u8]| format!("{shown}: {}", String::from_utf8_lossy(line).trim());
            self.survey.notes.extend(gone.iter().map(|gone| line(gone)));
        }
        if !gone.is_empty() && self.erase {
            rewrite(path, &kept.concat())?;
        }
        Ok(())
    }

    /// Puts tombstones where the words stand. A conversation that is called by them goes as a whole.
    fn transcript(&mut self, path: &Path, bytes: &[u8]) -> Result<(), sys::Error> {
        let words = self.words;
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').peekable();
        let is_theirs = lines.peek().is_some_and(|head| {
            let event = serde_json::from_slice::<Value>(head).unwrap_or_default();
            let says = |name: &str| {
                let text = event.get(name).and_then(Value::as_str);
                text.is_some_and(|text| words.are_in(text))
            };
            event.get("type").and_then(Value::as_str) == Some("session")
                && (says("key") || says("contact"))
        });
        let (mut kept, mut gone) = (Vec::with_capacity(bytes.len()), 0);
        for line in lines {
            let is_hit = is_theirs || words.are_in_bytes(line);
            gone += usize::from(is_hit);
            if is_hit {
                kept.extend(tombstone(line, words))
            } else {
                kept.extend_from_slice(line)
            }
        }
        self.survey.count("sessions", gone);
        if !self.erase && is_theirs {
            // What belongs to it goes with it.
            words.are_in_bytes(bytes);
        }
        if gone == 0 || !self.erase {
            return Ok(());
        }
        if is_theirs {
            remove(path)?
        } else {
            rewrite(path, &kept)?
        }
        // They are rebuilt from the transcripts.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let id = name.split('.').next().unwrap_or_default();
        let snapshot = path.with_file_name(format!("{id}.state.json"));
        for stale in [snapshot, self.home.sessions_index()] {
            if stale.exists() {
                remove(&stale)?;
            }
        }
        Ok(())
    }
}

/// Returns the names of the files that tool servers answered with.
pub(super) fn of_servers(home: &Home) -> Vec<String> {
    let mut files = Vec::new();
    // What cannot be read is found when it is gone through.
    let _ = walk(&home.workspace().join(SERVER_FILES), &[], &mut files);
    let name = |path: PathBuf| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    files.into_iter().filter_map(name).collect()
}

/// Adds the regular files below `dir`, except for those below `but`.
fn walk(dir: &Path, but: &[&Path], files: &mut Vec<PathBuf>) -> Result<(), sys::Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(sys::Error::at("read", dir))?,
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths
        .into_iter()
        .filter(|path| !but.contains(&path.as_path()))
    {
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => walk(&path, but, files)?,
            Ok(meta) if meta.is_file() => files.push(path),
            _ => {}
        }
    }
    Ok(())
}

fn in_state(home: &Home, path: &Path) -> Rule {
    let shown = path
        .strip_prefix(home.state())
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned();
    let top = shown.split('/').next().unwrap_or_default();
    let is_database = ["queue.db", "memory.db", "cost.db", "index.db"]
        .iter()
        .any(|name| {
            shown
                .strip_prefix(name)
                .is_some_and(|end| ["", "-wal", "-shm", "-journal"].contains(&end))
        });
    match top {
        _ if is_database
            || [
                "people.json",
                "untrusted.json",
                "untrusted-periods.json",
                "learned.json",
                "skills.json",
            ]
            .contains(&top)
            || top.ends_with(".lock") =>
        {
            Rule::Passed
        }
        _ if shown.contains(".corrupt-") => {
            Rule::Left("set aside because it was damaged; delete it yourself")
        }
        _ if shown.contains(".db.schema-") => Rule::Whole("copies of older databases"),
        "sessions" if shown.ends_with(".jsonl") => Rule::Transcript,
        "sessions" => Rule::Whole("sessions"),
        "logs" => Rule::Lines("logs"),
        "cron" if shown == "cron/jobs.json" => Rule::Jobs,
        "cron" => Rule::Lines("jobs"),
        "chat_history" => Rule::Lines("chat_history"),
        "undo" => Rule::WithDirectory("undo"),
        "downloads" => Rule::WithDirectory("downloads"),
        "replies" => Rule::Whole("replies"),
        "media" => Rule::Whole("descriptions"),
        "spool" => Rule::Whole("spool"),
        "monitor.json" | "status.json" => Rule::Whole("status"),
        "audit.jsonl" | "audit.head" => {
            Rule::Left("names of conversations in the audit log, which is not rewritten")
        }
        _ => Rule::Left("not the agent's memory"),
    }
}

fn in_workspace(home: &Home, path: &Path, (words, learned): (&Words, &LearnedWords)) -> Rule {
    let shown = path
        .strip_prefix(home.workspace())
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned();
    let about = shown
        .strip_prefix("memory/people/")
        .and_then(|name| name.split(['.', '/']).next())
        .map(person_profile::id_of);
    match shown.as_str() {
        "USER.md" | "MEMORY.md" => Rule::Lines("notes"),
        _ if about.is_some_and(|id| words.are_in(&id)) => Rule::Whole("notes"),
        name if name.starts_with("memory/items/") => Rule::Whole("notes"),
        name if name.starts_with("memory/") => Rule::Lines("notes"),
        name if name.starts_with("inbox/") => Rule::Whole(RECEIVED),
        name if name.starts_with(DRAFTS) || learned.has(path, name) => Rule::Whole(LEARNED),
        _ => Rule::Left("your own file"),
    }
}

fn remove(path: &Path) -> Result<(), sys::Error> {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    removed.map_err(sys::Error::at("remove", path))?;
    atomic::sync_parent(path).map_err(sys::Error::at("sync the directory of", path))
}

/// Puts `bytes` in a file's place; who may read it stays the same.
fn rewrite(path: &Path, bytes: &[u8]) -> Result<(), sys::Error> {
    let permissions = std::fs::metadata(path)
        .map_err(sys::Error::at("read", path))?
        .permissions();
    atomic::write(path, bytes, atomic::Durability::Full)?;
    std::fs::set_permissions(path, permissions)
        .map_err(sys::Error::at("set the permissions of", path))
}

/// Returns the lines that stay and those that go, because `stand` in one, or over the fewest that follow each other: a
/// sentence of a note may reach over several lines. One pass: each line is looked at with those right before it.
fn without_sentences<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    stand: &dyn Fn(&[&[u8]]) -> bool,
) -> (Vec<&'a [u8]>, Vec<&'a [u8]>) {
    let (mut kept, mut gone): (Vec<&[u8]>, Vec<&[u8]>) = Default::default();
    for line in lines {
        if stand(&[line]) {
            gone.push(line);
            continue;
        }
        kept.push(line);
        let last = |count: usize| kept.len().checked_sub(count);
        let places = (2..=MAX_LINES).filter_map(last);
        let mut fewest = places.filter(|at| kept.get(*at..).is_some_and(stand));
        if let Some(at) = fewest.next() {
            gone.extend(kept.drain(at..));
        }
    }
    (kept, gone)
}

/// Returns the tombstone of an event whose text is erased: its number, time and run. A summary keeps its place in the
/// conversation, and what a turn began with what has none of the words.
fn tombstone(line: &[u8], words: &Words) -> Vec<u8> {
    let Ok(mut event) = serde_json::from_slice::<Value>(line) else {
        return Vec::new();
    };
    let kind = event
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if ["compaction", "session", "prompt"].contains(&kind) {
        match kind {
            "compaction" => event["summary"] = json!("[forgotten]"),
            "prompt" => {
                for list in ["memories", "blocks"] {
                    let kept = event.get_mut(list).and_then(Value::as_array_mut);
                    kept.into_iter()
                        .for_each(|kept| kept.retain(|one| !words.are_in(&one.to_string())));
                }
            }
            _ => {}
        }
        let kept = event.to_string();
        if !words.are_in(&kept) {
            return format!("{kept}\n").into_bytes();
        }
    }
    let Some(seq) = event.get("seq").cloned() else {
        return Vec::new();
    };
    let mut left = json!({"v": 1, "ts": event.get("ts"), "seq": seq, "type": "forgotten"});
    if let Some(run) = event.get("run_id") {
        left["run_id"] = run.clone();
    }
    format!("{left}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ana() -> Words {
        Words::of_person(["Ana".to_owned()].iter())
    }

    #[test]
    fn lines_go_with_a_name_and_with_a_sentence_that_reaches_over_them() {
        let check = |words: &Words, text: &str, expected: (&str, usize)| {
            let stand =
                |some: &[&[u8]]| words.stand_alone_in(&String::from_utf8_lossy(&some.concat()));
            let lines = text.as_bytes().split_inclusive(|byte| *byte == b'\n');
            let (kept, gone) = without_sentences(lines, &stand);
            let kept = String::from_utf8(kept.concat()).expect("text");
            assert_eq!((kept.as_str(), gone.len()), expected, "{text:?}");
        };
        check(&ana(), "a\n- Ana\nbanana\nend of ANA", ("a\nbanana\n", 2));
        check(&ana(), "", ("", 0));
        let long = Words::of_fact(
            ["we moved to a house in Porto".to_owned()].iter(),
            Vec::new(),
            ["user", "lives in", "Porto"],
        );
        check(
            &long,
            "x\n\nWe moved\nto a\n  house in Porto.\ny\n",
            ("x\n\ny\n", 3),
        );
    }

    #[test]
    fn an_event_keeps_its_number_and_a_summary_its_place() {
        let shown =
            |line: &str| String::from_utf8(tombstone(line.as_bytes(), &ana())).expect("text");
        let event = r#"{"v":1,"ts":"T","seq":7,"type":"message","role":"user","content":[{"type":"text","text":"Ana"}],"run_id":"r"}"#;
        assert_eq!(
            shown(event),
            "{\"v\":1,\"ts\":\"T\",\"seq\":7,\"type\":\"forgotten\",\"run_id\":\"r\"}\n"
        );
        let known: crate::session::Event = serde_json::from_str(&shown(event)).expect("an event");
        assert_eq!(
            (known.seq, known.kind),
            (
                7,
                crate::session::Kind::Forgotten {
                    run_id: Some("r".into())
                }
            )
        );
        let summary =
            r#"{"v":1,"ts":"T","seq":8,"type":"compaction","kept_from":5,"summary":"Ana came."}"#;
        assert_eq!(
            shown(summary),
            "{\"v\":1,\"ts\":\"T\",\"seq\":8,\"type\":\"compaction\",\"kept_from\":5,\"summary\":\"[forgotten]\"}\n"
        );
        let prompt = r#"{"v":1,"ts":"T","seq":9,"type":"prompt","run_id":"r","memories":[{"place":"people/ana.md:3"},{"place":"b.md:1"}]}"#;
        assert_eq!(
            shown(prompt),
            "{\"v\":1,\"ts\":\"T\",\"seq\":9,\"type\":\"prompt\",\"run_id\":\"r\",\"memories\":[{\"place\":\"b.md:1\"}]}\n"
        );
        assert_eq!(shown("torn Ana"), "");
    }

    #[test]
    fn each_line_is_searched_a_few_times_however_many_go() {
        let looked_at = std::cell::Cell::new(0);
        let stand = |some: &[&[u8]]| {
            looked_at.set(looked_at.get() + some.len());
            some.concat() == b"one\ntwo\n"
        };
        let text = "one\ntwo\nstays\n".repeat(500);
        let lines = text.as_bytes().split_inclusive(|byte| *byte == b'\n');
        let (kept, gone) = without_sentences(lines, &stand);
        assert_eq!((kept.len(), gone.len()), (500, 1000));
        let most = 1500 * (1..=MAX_LINES).sum::<usize>();
        assert!(looked_at.get() <= most, "{} of {most}", looked_at.get());
    }
}
