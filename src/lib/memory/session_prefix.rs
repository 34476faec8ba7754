//! The part of a conversation before one of its files. It decides the scope of a summary, which repeats the content of
//! earlier files.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::sources::{Candidate, session_of};
use super::{is_the_owners, keeps_a_note};
use crate::config::Home;
use crate::session;
use crate::session::{Compaction, Event, Kind};
use crate::sys::jsonl;

/// What was said in a conversation up to an event, as far as it decides the scope of a summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SessionPrefix {
    /// The newest event.
    last: u64,
    /// Whether the owner spoke.
    pub(crate) owner_spoke: bool,
    /// The first event with words that are not the owner's and the agent's alone: untrusted text, what became a note and
    /// may be corrected there, and missing events.
    untrusted: Option<u64>,
}

impl SessionPrefix {
    /// Takes in an event, in order.
    pub(crate) fn take(&mut self, event: &Event) {
        let is_untrusted = match &event.kind {
            Kind::Message(spoken) => {
                self.owner_spoke |= is_the_owners(spoken);
                spoken.is_untrusted() || keeps_a_note(spoken)
            }
            Kind::ToolResult { result, .. } => result.from.is_some(),
            // Erased events, and those of a newer version, may have been anybody's words.
            Kind::Forgotten { .. } | Kind::Unknown => true,
            _ => false,
        };
        // A missing event may be anybody's words.
        let missing = Some(self.last + 1).filter(|next| *next != event.seq);
        self.untrusted = self
            .untrusted
            .or(missing)
            .or(is_untrusted.then_some(event.seq));
        self.last = event.seq;
    }

    /// Returns true when a summary may be found in the scope of the conversation: the owner finds only summaries without
    /// untrusted text, others what was said in their conversation.
    pub(crate) fn allows(&self, compaction: &Compaction) -> bool {
        !self.owner_spoke
            || self
                .untrusted
                .is_none_or(|first| first >= compaction.kept_from)
    }
}

/// The prefixes of the files of one home. Each file is read once.
pub(crate) struct SessionPrefixes<'a> {
    home: &'a Home,
    transcripts: Option<BTreeMap<String, Vec<PathBuf>>>,
    /// The prefix up to the end of a file.
    known: HashMap<PathBuf, SessionPrefix>,
}

impl<'a> SessionPrefixes<'a> {
    pub(crate) fn new(home: &'a Home) -> Self {
        Self {
            home,
            transcripts: None,
            known: HashMap::new(),
        }
    }

    /// Returns the prefix of `file`, whose content is `bytes`; `None` for one without a summary.
    pub(crate) fn before(&mut self, file: &Candidate, bytes: &[u8]) -> Option<SessionPrefix> {
        let id = session_of(&file.shown)
            .filter(|_| String::from_utf8_lossy(bytes).contains(r#""compaction""#))?;
        let all = || {
            session::all_transcripts(&self.home.sessions(), &self.home.archive())
                .unwrap_or_default()
        };
        let transcripts = self.transcripts.get_or_insert_with(all);
        let mut past = SessionPrefix::default();
        for earlier in transcripts
            .get(id)?
            .iter()
            .take_while(|path| path.file_name() != file.path.file_name())
        {
            past = *self
                .known
                .entry(earlier.clone())
                .or_insert_with(|| read(earlier, past));
        }
        Some(past)
    }
}

/// Returns `past` with the events of `file`. Those that cannot be read are missing.
fn read(file: &Path, mut past: SessionPrefix) -> SessionPrefix {
    let _ = jsonl::for_each_line(file, 0, |line, _| {
        serde_json::from_slice::<Event>(line)
            .iter()
            .for_each(|event| past.take(event));
    });
    past
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Block, Role, ToolResult, Trust};
    use crate::session::{Spoken, SummaryBy};

    fn user(run: &str, trust: Trust) -> Kind {
        Kind::Message(Spoken {
            trust: Some(trust),
            ..Spoken::new(Role::User, vec![Block::Text { text: "x".into() }], run)
        })
    }

    fn result(untrusted: bool) -> Kind {
        let result = ToolResult {
            id: "t".into(),
            text: "x".into(),
            is_error: false,
            from: untrusted.then_some(crate::trust::Provenance::Model),
            pictures: Vec::new(),
        };
        Kind::ToolResult {
            run_id: "r".into(),
            name: "web_fetch".into(),
            duration_ms: 1,
            receipt: None,
            result,
        }
    }

    fn past(events: &[(u64, Kind)]) -> SessionPrefix {
        let mut past = SessionPrefix::default();
        for (seq, kind) in events {
            past.take(&Event {
                v: 1,
                ts: "2026-05-04T10:00:00.000Z".into(),
                seq: *seq,
                kind: kind.clone(),
            });
        }
        past
    }

    fn summary(kept_from: u64) -> Compaction {
        let (run_id, summary, by) = ("r".into(), "x".into(), SummaryBy::Model);
        Compaction {
            run_id,
            kept_from,
            question: None,
            summary,
            by,
            longest_block: None,
            tokens: (9, 5),
        }
    }

    #[test]
    fn a_summary_is_the_owners_when_all_that_it_sums_up_is() {
        let note = json!({"type": "message", "role": "assistant", "model": "offline", "run_id": "r",
            "content": [{"type": "tool_call", "id": "a", "name": "memory_write", "input": {}}]});
        let note: Kind = serde_json::from_value(note).expect("an event");
        let check = |events: &[(u64, Kind)], foreign: Option<u64>| {
            let past = past(events);
            for kept_from in 1..=6 {
                let expected = foreign.is_none_or(|foreign| kept_from <= foreign);
                assert_eq!(
                    past.allows(&summary(kept_from)),
                    expected,
                    "{past:?}, kept from {kept_from}"
                );
            }
        };
        let own = || user("a", Trust::Owner);
        check(&[(1, own()), (2, result(false)), (3, own())], None);
        check(
            &[(1, own()), (2, user("b", Trust::Other)), (3, own())],
            Some(2),
        );
        check(&[(1, own()), (2, own()), (3, result(true))], Some(3));
        check(&[(1, own()), (2, note), (3, own())], Some(2));
        // What is missing, or not understood, may be anybody's.
        check(&[(1, own()), (2, Kind::Unknown), (3, own())], Some(2));
        check(&[(1, own()), (4, own())], Some(2));
        check(&[(2, own()), (3, own())], Some(1));
        // In a conversation of others it is theirs.
        check(&[(1, user("a", Trust::Other)), (2, result(true))], None);
    }

    #[test]
    fn what_was_said_in_files_before_counts_and_the_last_one_may_be_anywhere() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("made");
        let line = |seq: u64, kind: Kind| {
            let event = Event {
                v: 1,
                ts: "2026-05-04T10:00:00.000Z".into(),
                seq,
                kind,
            };
            serde_json::to_string(&event).expect("JSON") + "\n"
        };
        let put = |path: PathBuf, text: &str| {
            crate::sys::atomic::write(
                &path,
                text.as_bytes(),
                crate::sys::atomic::Durability::Rename,
            )
            .expect("write");
        };
        let last = line(4, user("c", Trust::Owner)) + &line(5, Kind::Compaction(summary(4)));
        put(
            home.archive().join("s.2026-05-04.jsonl"),
            &line(1, user("a", Trust::Owner)),
        );
        put(
            home.archive().join("s.2026-05-04.1.jsonl"),
            &(line(2, user("b", Trust::Other)) + &line(3, result(false))),
        );
        put(home.archive().join("s.2026-05-04.2.jsonl"), &last);
        put(
            home.archive().join("other.2026-05-04.jsonl"),
            &line(1, user("a", Trust::Owner)),
        );
        let before = |name: &str, text: &str| {
            let path = home.archive().join(name);
            let files = crate::memory::sources::list(&home).0;
            let file = files
                .iter()
                .find(|file| file.path == path)
                .expect("it is listed")
                .clone();
            SessionPrefixes::new(&home).before(&file, text.as_bytes())
        };
        assert_eq!(
            before("s.2026-05-04.2.jsonl", &last),
            Some(SessionPrefix {
                last: 3,
                owner_spoke: true,
                untrusted: Some(2)
            })
        );
        assert_eq!(
            before("s.2026-05-04.jsonl", &last),
            Some(SessionPrefix::default()),
            "nothing came before it"
        );
        assert_eq!(before("s.2026-05-04.jsonl", "no summary"), None);
    }
}
