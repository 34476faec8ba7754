//! Checks every line of the conversations.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::Finding;
use super::context::DoctorContext;
use super::files::more;
use crate::session::{self, Shortened};
use crate::sys::jsonl;

/// Bytes that are read at most, the newest conversations first: about a second.
const MOST: u64 = 64 << 20;
/// Conversations whose snapshots are read, of the newest.
const MOST_SESSIONS: usize = 500;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    damage(context).into_iter().chain(loss(context)).collect()
}

/// Names a conversation whose file lost its end while nobody used it; with its next message what is there is all there is.
fn loss(context: &DoctorContext) -> Option<Finding> {
    let dir = context.home.sessions();
    let entries = std::fs::read_dir(&dir).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ids: BTreeSet<String> = names
        .filter_map(|name| session::session_of(&name).map(str::to_owned))
        .collect();
    let lost: Vec<Shortened> = ids
        .iter()
        .rev()
        .take(MOST_SESSIONS)
        .filter_map(|id| session::shortened(&dir, id))
        .collect();
    let Shortened { name, length, was } = lost.first()?;
    let path = dir.join(name);
    let more = more(lost.len());
    let evidence = format!(
        "{}{more} has {length} bytes of the {was} that the agent left: unless you shortened it, a part of the conversation is lost",
        context.shown(&path)
    );
    Some(Finding::warning(
        "transcript-damaged",
        evidence,
        context.edit(&path, None),
    ))
}

fn damage(context: &DoctorContext) -> Option<Finding> {
    let mut files: Vec<(std::time::SystemTime, u64, PathBuf)> =
        std::fs::read_dir(context.home.sessions())
            .ok()?
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "jsonl"))
            .filter_map(|entry| {
                let meta = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((meta.modified().ok()?, meta.len(), entry.path()))
            })
            .collect();
    files.sort_by(|a, b| b.cmp(a));
    let mut left = MOST;
    let few = files.into_iter().take_while(|(_, size, _)| {
        let fits = *size <= left;
        left = left.saturating_sub(*size);
        fits
    });
    let damaged: Vec<(PathBuf, usize)> = few
        .filter_map(|(_, _, path)| Some((path.clone(), first_bad(&path)?)))
        .collect();
    let (path, line) = damaged.first()?;
    let more = more(damaged.len());
    let evidence = format!(
        "line {line} of {}{more} is not JSON: its content is left out of the conversation",
        context.shown(path)
    );
    Some(Finding::warning(
        "transcript-damaged",
        evidence,
        context.edit(path, Some(*line)),
    ))
}

/// Returns the first line that cannot be read. The last one may be torn: it is cut before the next is written.
fn first_bad(path: &Path) -> Option<usize> {
    let mut number = 0;
    let flow = jsonl::try_for_each_line(path, 0, |line, _| {
        number += 1;
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        if is_blank || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(number)
        }
    });
    flow.ok()?.break_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_lost_its_end_is_named_until_the_conversation_goes_on() {
        let dir = tempfile::tempdir().expect("dir");
        let context = DoctorContext::of(dir.path(), &[]);
        let sessions = context.home.sessions();
        std::fs::create_dir_all(&sessions).expect("dir");
        let path = sessions.join("a.2026-01-01.jsonl");
        let write = |path: &Path, text: &str| {
            let rename = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(path, text.as_bytes(), rename).expect("write");
        };
        write(&path, "{\"a\":1}\n");
        let state = serde_json::to_value(session::State::default()).expect("plain data");
        let mut snapshot = state;
        snapshot["files"] = serde_json::json!([
            {"name": "a.2026-01-01.jsonl", "inode": 1, "length": 8, "written": 1}
        ]);
        write(&sessions.join("a.state.json"), &snapshot.to_string());
        assert_eq!(loss(&context).map(|finding| finding.evidence), None);
        write(&path, "");
        let found = loss(&context).expect("a finding");
        assert_eq!(found.id, "transcript-damaged");
        let expected = "state/sessions/a.2026-01-01.jsonl has 0 bytes of the 8 that the agent left";
        assert!(found.evidence.starts_with(expected), "{}", found.evidence);
    }

    #[test]
    fn a_line_that_is_no_json_is_named_and_a_torn_last_one_is_not() {
        let dir = tempfile::tempdir().expect("dir");
        let context = DoctorContext::of(dir.path(), &[]);
        std::fs::create_dir_all(context.home.sessions()).expect("dir");
        let path = context.home.sessions().join("a.2026-01-01.jsonl");
        let told = |text: &str| {
            let rename = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&path, text.as_bytes(), rename).expect("write");
            damage(&context).map(|finding| (finding.id, finding.evidence))
        };
        assert_eq!(told("{\"a\":1}\n\n{\"b\":2}\n{\"to"), None);
        let (id, evidence) = told("{\"a\":1}\nedited by hand\n{\"b\":2}\n").expect("a finding");
        assert_eq!(id, "transcript-damaged");
        assert!(
            evidence.starts_with("line 2 of state/sessions/a.2026-01-01.jsonl is not JSON"),
            "{evidence}"
        );
    }
}
