//! Erases words from files: what becomes of each, by where it lies.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::matcher::Words;
use crate::config::Home;
use crate::jobs;
use crate::sys;
use crate::sys::atomic;

/// Files that are not the agent's to change are searched up to this size, bytes.
const MAX_FOREIGN: u64 = 64 << 20;
/// Lines over which a sentence of a note may reach.
const MAX_LINES: usize = 8;

/// What was found in files, and what became of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Lines, or whole files where those are small, by store.
    pub counts: BTreeMap<&'static str, usize>,
    /// Of notes each line, or the name of a file that goes as a whole.
    pub notes: Vec<String>,
    /// Files that are left as they are, and why.
    pub left: BTreeMap<String, &'static str>,
    /// Files that were read.
    pub searched: usize,
}

impl Found {
    fn add(&mut self, store: &'static str, count: usize) {
        if count > 0 {
            *self.counts.entry(store).or_default() += count;
        }
    }
}

/// Whose file it is, and what is done with the words in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Its lines go.
    Lines(&'static str),
    /// Its jobs go.
    Jobs,
    /// Its lines become placeholders.
    Transcript,
    /// It goes.
    Whole(&'static str),
    /// It goes, with all that lies in the same directory.
    WithDirectory(&'static str),
    /// It stays, and is named.
    Left(&'static str),
    /// It holds no words, or is looked at elsewhere.
    Passed,
}

/// Finds the words in the files of `home`, but for the file `order`, and erases them with `erase`.
pub(super) fn go_through(
    home: &Home,
    words: &Words,
    order: Option<&Path>,
    erase: bool,
) -> Result<Found, sys::Error> {
    let mut found = Found::default();
    let mut files = Vec::new();
    walk(home.state(), &[home.workspace()], &mut files)?;
    files.retain(|path| Some(path.as_path()) != order);
    let downloads = home.downloads();
    // Which downloads belong to what is erased is known last, and they go first: afterwards nobody would know.
    let (last, first): (Vec<_>, Vec<_>) = files
        .into_iter()
        .partition(|path| path.starts_with(&downloads));
    let both = if erase { [last, first] } else { [first, last] };
    for path in both.into_iter().flatten() {
        one(home, &path, in_state(home, &path), words, erase, &mut found)?;
    }
    let mut files = Vec::new();
    walk(home.workspace(), &[], &mut files)?;
    for path in files {
        one(
            home,
            &path,
            in_workspace(home, &path, words),
            words,
            erase,
            &mut found,
        )?;
    }
    let mut files = Vec::new();
    walk(
        home.config_dir(),
        &[home.workspace(), home.state()],
        &mut files,
    )?;
    for path in files {
        one(
            home,
            &path,
            Rule::Left("your settings"),
            words,
            false,
            &mut found,
        )?;
    }
    Ok(found)
}

/// Adds the regular files below `dir`, but for those below `but`.
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
            || ["people.json", "untrusted.json"].contains(&top)
            || top.ends_with(".lock") =>
        {
            Rule::Passed
        }
        _ if shown.contains(".corrupt-") => {
            Rule::Left("set aside because it was damaged; delete it yourself")
        }
        "sessions" if shown.ends_with(".jsonl") => Rule::Transcript,
        "sessions" => Rule::Whole("sessions"),
        "logs" => Rule::Lines("logs"),
        "cron" if shown == "cron/jobs.json" => Rule::Jobs,
        "cron" => Rule::Lines("jobs"),
        "chat_history" => Rule::Lines("chat_history"),
        "undo" => Rule::WithDirectory("undo"),
        "downloads" => Rule::WithDirectory("downloads"),
        "replies" => Rule::Whole("replies"),
        "spool" => Rule::Whole("spool"),
        "monitor.json" | "status.json" => Rule::Whole("status"),
        "audit.jsonl" | "audit.head" => Rule::Left(
            "names of conversations in the record of what was done, which is not rewritten",
        ),
        _ => Rule::Left("not the agent's memory"),
    }
}

fn in_workspace(home: &Home, path: &Path, words: &Words) -> Rule {
    let shown = path
        .strip_prefix(home.workspace())
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned();
    let about = shown
        .strip_prefix("memory/people/")
        .and_then(|name| name.split(['.', '/']).next());
    match shown.as_str() {
        "USER.md" | "MEMORY.md" => Rule::Lines("notes"),
        _ if about.is_some_and(|name| words.are_in(name)) => Rule::Whole("notes"),
        name if name.starts_with("memory/items/") => Rule::Whole("notes"),
        name if name.starts_with("memory/") => Rule::Lines("notes"),
        _ => Rule::Left("your own file"),
    }
}

fn one(
    home: &Home,
    path: &Path,
    rule: Rule,
    words: &Words,
    erase: bool,
    found: &mut Found,
) -> Result<(), sys::Error> {
    if rule == Rule::Passed {
        return Ok(());
    }
    let is_large = std::fs::metadata(path).is_ok_and(|meta| meta.len() > MAX_FOREIGN);
    if is_large && matches!(rule, Rule::Left(_)) {
        found
            .left
            .insert(home.display(path), "too large to be searched");
        return Ok(());
    }
    // It may have gone with its directory.
    let Some(bytes) = atomic::read(path)? else {
        return Ok(());
    };
    found.searched += 1;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_hit = || words.are_in(&name) || words.are_in_bytes(&bytes);
    match rule {
        Rule::Passed => {}
        Rule::Left(why) => {
            if is_hit() {
                found.left.insert(home.display(path), why);
            }
        }
        Rule::Lines(store) => {
            let (kept, lines) = without_lines(&bytes, words, store == "notes");
            let gone = lines.len();
            found.add(store, gone);
            if store == "notes" {
                let line = |line: &[u8]| {
                    format!(
                        "{}: {}",
                        home.display(path),
                        String::from_utf8_lossy(line).trim()
                    )
                };
                found.notes.extend(lines.into_iter().map(line));
            }
            if gone > 0 && erase {
                rewrite(path, &kept)?;
            }
        }
        Rule::Jobs => {
            let is_meant = |entry: &str| words.are_in(entry);
            let gone = jobs::read(path)?.remove_where(is_meant);
            found.add("jobs", gone);
            if gone > 0 && erase {
                jobs::Store::new(path).change(|jobs| jobs.remove_where(is_meant))?;
            }
        }
        Rule::Transcript => transcript(home, path, &bytes, words, erase, found)?,
        Rule::Whole(store) => {
            let is_note = store == "notes";
            if words.are_in(&name)
                || if is_note {
                    words.stand_alone_in(&String::from_utf8_lossy(&bytes))
                } else {
                    is_hit()
                }
            {
                found.add(store, 1);
                if is_note {
                    found
                        .notes
                        .push(format!("{}: all of it", home.display(path)));
                }
                if erase {
                    remove(path)?;
                }
            }
        }
        Rule::WithDirectory(store) => {
            let root = if store == "undo" {
                home.undo()
            } else {
                home.downloads()
            };
            let below = path
                .strip_prefix(&root)
                .ok()
                .and_then(|below| below.components().next())
                .map(|one| root.join(one));
            let below = below.unwrap_or_else(|| path.to_owned());
            let id = below
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if is_hit() || (store == "downloads" && words.have_met(&id)) {
                found.add(store, 1);
                if erase && below.is_dir() {
                    std::fs::remove_dir_all(&below).map_err(sys::Error::at("remove", &below))?;
                    atomic::sync_parent(&below)
                        .map_err(sys::Error::at("sync the directory of", &below))?;
                } else if erase {
                    remove(path)?;
                }
            }
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), sys::Error> {
    std::fs::remove_file(path).map_err(sys::Error::at("remove", path))?;
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

/// Returns what is left without the lines that have the words, and those. A sentence in a note may reach over several
/// lines: the fewest that have it go.
fn without_lines<'a>(bytes: &'a [u8], words: &Words, is_note: bool) -> (Vec<u8>, Vec<&'a [u8]>) {
    let (mut lines, mut gone) = (Vec::new(), Vec::new());
    let stands = |some: &[&[u8]]| words.stand_alone_in(&String::from_utf8_lossy(&some.concat()));
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let is_hit = if is_note {
            stands(&[line])
        } else {
            words.are_in_bytes(line)
        };
        if is_hit {
            gone.push(line)
        } else {
            lines.push(line)
        }
    }
    while is_note && words.stand_in(&String::from_utf8_lossy(&lines.concat())) {
        let places = (2..=MAX_LINES).flat_map(|size| (0..lines.len()).map(move |at| at..at + size));
        let Some(place) = places
            .into_iter()
            .find(|place| lines.get(place.clone()).is_some_and(stands))
        else {
            break;
        };
        gone.extend(lines.drain(place));
    }
    (lines.concat(), gone)
}

/// Puts placeholders where the words stand. A conversation that is called by them goes as a whole.
fn transcript(
    home: &Home,
    path: &Path,
    bytes: &[u8],
    words: &Words,
    erase: bool,
    found: &mut Found,
) -> Result<(), sys::Error> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').peekable();
    let is_theirs = lines.peek().is_some_and(|head| {
        let event = serde_json::from_slice::<Value>(head).unwrap_or_default();
        let says = |name: &str| {
            event
                .get(name)
                .and_then(Value::as_str)
                .is_some_and(|text| words.are_in(text))
        };
        event.get("type").and_then(Value::as_str) == Some("session")
            && (says("key") || says("contact"))
    });
    let (mut kept, mut gone) = (Vec::with_capacity(bytes.len()), 0);
    for line in lines {
        let is_hit = is_theirs || words.are_in_bytes(line);
        gone += usize::from(is_hit);
        if is_hit {
            kept.extend(placeholder(line, words))
        } else {
            kept.extend_from_slice(line)
        }
    }
    if gone == 0 {
        return Ok(());
    }
    found.add("sessions", gone);
    if !erase {
        // What belongs to it goes with it.
        if is_theirs {
            words.are_in_bytes(bytes);
        }
        return Ok(());
    }
    if is_theirs {
        remove(path)?
    } else {
        rewrite(path, &kept)?
    }
    // They are made anew from the transcripts.
    let id = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .split('.')
        .next()
        .unwrap_or_default()
        .to_owned();
    let snapshot = path.with_file_name(format!("{id}.state.json"));
    for stale in [snapshot, home.sessions_index()] {
        if stale.exists() {
            remove(&stale)?;
        }
    }
    Ok(())
}

/// Returns what stands in an event's place: its number, time and run. A summary keeps its place in the conversation,
/// and what a turn began with what has none of the words.
fn placeholder(line: &[u8], words: &Words) -> Vec<u8> {
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
            let (kept, gone) = without_lines(text.as_bytes(), words, true);
            assert_eq!(
                (String::from_utf8_lossy(&kept).as_ref(), gone.len()),
                expected,
                "{text:?}"
            );
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
            |line: &str| String::from_utf8(placeholder(line.as_bytes(), &ana())).expect("text");
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
}
