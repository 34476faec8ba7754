//! Finds the events of a run, in whichever conversation they are.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Known;
use crate::config::Home;
use crate::session;
use crate::session::{Event, Head, Index, Kind};
use crate::sys;
use crate::sys::jsonl;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub run_id: String,
    pub head: Head,
    pub archived: bool,
    /// What happened in the run, in order.
    pub events: Vec<Event>,
}

/// Returns what stands of `run`, or of an input that only its transcript knows.
pub(super) fn find(home: &Home, known: &Known, run: &str) -> Result<Option<Found>, sys::Error> {
    let id = &known.id;
    let mut tried = BTreeSet::new();
    for session in likely(home, known)? {
        if let Some(found) = in_session(home, &session, id, run)? {
            return Ok(Some(found));
        }
        tried.insert(session);
    }
    // Where its input is in the queue its conversation is known: it has left no line there.
    if known.input().is_some() {
        return Ok(None);
    }
    // Ids sort by time, and who asks asks for the newest, mostly.
    for session in session::all_transcripts(&home.sessions(), &home.archive())?
        .into_keys()
        .rev()
    {
        if !tried.contains(&session)
            && let Some(found) = in_session(home, &session, id, run)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the sessions where it probably stands: those that were paid for it, then those of its key, the newest first.
fn likely(home: &Home, known: &Known) -> Result<Vec<String>, sys::Error> {
    let mut sessions: Vec<String> = Vec::new();
    let inputs = &known.trace.inputs;
    let mut keys: Vec<&str> = inputs
        .iter()
        .map(|input| input.envelope.session_key.0.as_str())
        .collect();
    keys.dedup();
    let replies = inputs.iter().filter_map(|input| input.result.as_ref());
    sessions.extend(replies.filter_map(|reply| reply.session_id.clone()));
    let paid = known.calls.iter().map(|call| &call.session_id);
    sessions.extend(paid.filter(|id| !id.is_empty()).cloned());
    if !keys.is_empty() {
        let index = Index::read(&home.sessions_index(), &home.sessions())?;
        sessions.extend(
            keys.iter()
                .filter_map(|key| index.id_of(key))
                .map(str::to_owned),
        );
        let archived = session::heads(&home.archive(), |_| true).into_iter().rev();
        sessions.extend(
            archived
                .filter(|head| keys.contains(&head.key.as_str()))
                .map(|head| head.session_id),
        );
    }
    let mut met = BTreeSet::new();
    sessions.retain(|id| met.insert(id.clone()));
    Ok(sessions)
}

fn in_session(
    home: &Home,
    session: &str,
    id: &str,
    run: &str,
) -> Result<Option<Found>, sys::Error> {
    let list = || session::transcript_files(&home.sessions(), &home.archive(), session);
    let mut files = list()?;
    let mut events = read(&files, id, run)?;
    if !files.iter().all(|file| file.exists()) {
        // It was archived meanwhile.
        files = list()?;
        events = read(&files, id, run)?;
    }
    let Some((run_id, events)) = events else {
        return Ok(None);
    };
    let (Some(first), Some(last)) = (files.first(), files.last()) else {
        return Ok(None);
    };
    Ok(session::head(first)?.map(|head| Found {
        run_id,
        head,
        archived: last.starts_with(home.archive()),
        events,
    }))
}

/// Returns the events of `run`, or of the run that answers the input `id`; `None` when there are none.
fn read(
    files: &[PathBuf],
    id: &str,
    run: &str,
) -> Result<Option<(String, Vec<Event>)>, sys::Error> {
    let (mut run, mut is_named) = (run.to_owned(), false);
    for file in files {
        jsonl::for_each_line(file, 0, |line, _| {
            // Most conversations need not be parsed.
            let names = |line: &str| line.contains(id) || line.contains(&run);
            if !std::str::from_utf8(line).is_ok_and(names) {
                return;
            }
            is_named = true;
            match serde_json::from_slice(line).map(|event: Event| event.kind) {
                Ok(Kind::Message(spoken)) if spoken.inbox_id.as_deref() == Some(id) => {
                    run = spoken.run_id;
                }
                Ok(Kind::Prompt(prompt)) if prompt.inputs.iter().any(|input| input == id) => {
                    run = prompt.run_id;
                }
                _ => {}
            }
        })?;
    }
    if !is_named {
        return Ok(None);
    }
    let mut events = Vec::new();
    let mut began = false;
    for file in files {
        jsonl::for_each_line(file, 0, |line, _| {
            // A damaged line says nothing.
            let Ok(event) = serde_json::from_slice::<Event>(line) else {
                return;
            };
            let is_its = of_run(&event.kind) == Some(run.as_str());
            if matches!(&event.kind, Kind::Message(spoken) if spoken.inbox_id.is_some()) {
                began = is_its;
            }
            // A turn that died with the daemon is ended by another run.
            if is_its || (began && matches!(event.kind, Kind::Error { .. })) {
                events.push(event);
            }
        })?;
    }
    Ok((!events.is_empty()).then_some((run, events)))
}

fn of_run(kind: &Kind) -> Option<&str> {
    match kind {
        Kind::Message(spoken) => Some(&spoken.run_id),
        Kind::Prompt(prompt) => Some(&prompt.run_id),
        Kind::Compaction(compaction) => Some(&compaction.run_id),
        Kind::ToolCall { run_id, .. }
        | Kind::ToolResult { run_id, .. }
        | Kind::Flush { run_id, .. }
        | Kind::Pin { run_id, .. }
        | Kind::Unpin { run_id, .. }
        | Kind::Error { run_id, .. } => Some(run_id),
        Kind::Forgotten { run_id } => run_id.as_deref(),
        Kind::Session(_) | Kind::Setting { .. } | Kind::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    use crate::sys::atomic;
    use crate::sys::atomic::Durability;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("directories");
        (dir, home)
    }

    fn put(dir: &std::path::Path, name: &str, events: &[Value]) {
        let head = json!({"type": "session", "session_id": name, "key": "cli:a", "contact": "a", "created_at": ""});
        let line = |(seq, event): (u64, &Value)| {
            let mut line = json!({"v": 1, "ts": "2026-01-01T00:00:00Z", "seq": seq});
            line.as_object_mut()
                .expect("an object")
                .extend(event.as_object().expect("an object").clone());
            format!("{line}\n")
        };
        let text: String = (1..)
            .zip(std::iter::once(&head).chain(events))
            .map(line)
            .collect();
        std::fs::create_dir_all(dir).expect("dir");
        atomic::write(
            &dir.join(format!("{name}.2026-01-01.jsonl")),
            text.as_bytes(),
            Durability::Rename,
        )
        .expect("write");
    }

    fn heard(run: &str, input: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [], "run_id": run, "inbox_id": input})
    }

    fn began(run: &str, inputs: &[&str]) -> Value {
        json!({"type": "prompt", "run_id": run, "inputs": inputs, "source": "cli", "model": "m", "received_at": "", "gathered_at": "",
               "started_at": "", "blocks": []})
    }

    fn error(run: &str) -> Value {
        json!({"type": "error", "run_id": run, "text": "a bug"})
    }

    /// Returns the session, the run and how many events are found of `id`.
    fn found(home: &Home, id: &str) -> Option<(String, String, usize, bool)> {
        let known = Known {
            id: id.to_owned(),
            ..Known::default()
        };
        let found = find(home, &known, id).expect("read");
        found.map(|found| {
            (
                found.head.session_id,
                found.run_id,
                found.events.len(),
                found.archived,
            )
        })
    }

    #[test]
    fn a_run_is_found_by_itself_and_by_each_of_its_inputs_wherever_it_lies() {
        let (_dir, home) = home();
        put(
            &home.sessions(),
            "s1",
            &[
                heard("r1", "a"),
                began("r1", &["a", "b"]),
                heard("r2", "c"),
                error("r3"),
            ],
        );
        put(
            &home.archive(),
            "s2",
            &[heard("r4", "d"), error("r5"), heard("r6", "e")],
        );
        let expected = |session: &str, run: &str, count, archived| {
            Some((session.to_owned(), run.to_owned(), count, archived))
        };
        for id in ["r1", "a", "b"] {
            assert_eq!(found(&home, id), expected("s1", "r1", 2, false), "{id}");
        }
        // The end that another run wrote is its own.
        assert_eq!(found(&home, "r2"), expected("s1", "r2", 2, false));
        assert_eq!(found(&home, "d"), expected("s2", "r4", 2, true));
        assert_eq!(found(&home, "e"), expected("s2", "r6", 1, true));
        for id in ["x", "", "message", "s1", "cli:a"] {
            assert_eq!(found(&home, id), None, "{id:?}");
        }
    }
}
