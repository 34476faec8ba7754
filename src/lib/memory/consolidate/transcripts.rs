//! What the owner said in a conversation, and how far it may be worked through.

use std::path::PathBuf;

use chrono_tz::Tz;

use super::model_reader::{Found, Line, Who};
use crate::memory::extract;
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Promise;
use crate::memory::facts::store::Statement;
use crate::memory::scope::Scope;
use crate::memory::{Runs, is_the_owners};
use crate::message::Role;
use crate::session::{Event, Kind, Spoken};
use crate::sys;
use crate::sys::jsonl;
use crate::{clock, text};

/// A conversation that goes on is worked through when it has this many new messages, and so much of
/// one is taken at a time (specification §13).
const MIN_MESSAGES: usize = 4;
const MAX_CHARS: usize = 50_000;

/// A conversation as it is worked through.
#[derive(Debug, Default)]
pub(super) struct Talk {
    /// True when it is the owner's, and nobody else's.
    pub is_owners: bool,
    /// True when it has ended: what there is, is all.
    pub is_archived: bool,
    messages: Vec<Heard>,
    /// The first message of the turn that still runs.
    running_from: Option<i64>,
    last_seq: i64,
}

/// A message.
#[derive(Debug)]
struct Heard {
    seq: i64,
    chars: usize,
    /// The words, if they are the owner's own.
    words: Option<String>,
    /// The words, if they are the agent's.
    answer: Option<String>,
    run_id: String,
    path: String,
    line: i64,
    at: i64,
}

/// Events that are worked through at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub from: i64,
    pub to: i64,
    messages: std::ops::Range<usize>,
}

impl Talk {
    /// Reads the transcript in `files`. Words up to event `watermark` are not kept.
    pub(super) fn read(
        files: &[PathBuf],
        watermark: i64,
        is_archived: bool,
    ) -> Result<Self, sys::Error> {
        let mut talk = Self {
            is_archived,
            ..Self::default()
        };
        let (mut key, mut runs) = (None, Runs::default());
        for file in files {
            // By the name alone: the file will be moved when the conversation ends.
            let path = format!(
                "state/sessions/{}",
                file.file_name().unwrap_or_default().to_string_lossy()
            );
            let mut line = 0;
            jsonl::for_each_line(file, 0, |bytes, _| {
                line += 1;
                // A damaged line is passed over, as the daemon does.
                let Ok(event) = serde_json::from_slice::<Event>(bytes) else {
                    return;
                };
                let seq = i64::try_from(event.seq).unwrap_or(i64::MAX);
                talk.last_seq = talk.last_seq.max(seq);
                runs.take(&event.kind);
                match event.kind {
                    Kind::Session(head) => key = key.take().or(Some(head.key)),
                    Kind::Message(spoken) => {
                        talk.hear(spoken, seq, (&path, line), &event.ts, watermark)
                    }
                    // A turn that failed is over.
                    Kind::Error { .. } => talk.running_from = None,
                    _ => {}
                }
            })?;
        }
        // What an owner passed on is not theirs, and neither is what they said of it in that turn; what became
        // a note is stated there.
        for heard in &mut talk.messages {
            let is_of_others = runs.of_others.contains(&heard.run_id);
            if is_of_others || runs.noted.contains(&heard.run_id) {
                heard.words = None;
            }
            // It may say what it read.
            if is_of_others || runs.read_others.contains(&heard.run_id) {
                heard.answer = None;
            }
        }
        talk.is_owners =
            Scope::of_session(&key.unwrap_or_default(), runs.owner_spoke) == Scope::Owner;
        Ok(talk)
    }

    fn hear(
        &mut self,
        spoken: Spoken,
        seq: i64,
        (path, line): (&str, i64),
        ts: &str,
        watermark: i64,
    ) {
        let is_final = spoken.role == Role::Assistant && spoken.tool_calls().next().is_none();
        let begins = spoken.role == Role::User
            && (spoken.inbox_id.is_some() || spoken.trust.is_some() || spoken.about.is_some());
        if is_final {
            self.running_from = None;
        } else if begins {
            self.running_from = self.running_from.or(Some(seq));
        }
        if seq <= watermark {
            return;
        }
        let words = spoken.message().plain_text();
        self.messages.push(Heard {
            seq,
            chars: words.chars().count(),
            answer: is_final.then(|| words.clone()),
            words: is_the_owners(&spoken).then_some(words),
            run_id: spoken.run_id,
            path: path.to_owned(),
            line,
            at: clock::parse_rfc3339(ts).unwrap_or(0),
        });
    }

    /// Returns what may be worked through next after event `watermark`: never a turn that still runs.
    pub(super) fn next_span(&self, watermark: i64) -> Option<Span> {
        let end = if self.is_archived {
            None
        } else {
            self.running_from
        };
        let is_new = |heard: &Heard| heard.seq > watermark && end.is_none_or(|end| heard.seq < end);
        let first = self.messages.iter().position(is_new)?;
        let count = self
            .messages
            .iter()
            .skip(first)
            .take_while(|heard| is_new(heard))
            .count();
        if !self.is_archived && count < MIN_MESSAGES {
            return None;
        }
        let mut chars = 0;
        let fits = self
            .messages
            .iter()
            .skip(first)
            .take(count)
            .take_while(|heard| {
                chars += heard.chars;
                chars <= MAX_CHARS
            });
        // A message that is longer than a span is one.
        let taken = fits.count().max(1);
        let messages = first..first + taken;
        let to = match end {
            _ if taken < count => self.messages.get(messages.end.checked_sub(1)?)?.seq,
            Some(end) => end - 1,
            None => self.last_seq,
        };
        Some(Span {
            from: watermark + 1,
            to,
            messages,
        })
    }

    /// Returns what the owner and the agent said in a span, for a model; empty when the owner said nothing.
    pub(super) fn lines(&self, span: &Span) -> Vec<Line> {
        let heard = self.messages.get(span.messages.clone()).unwrap_or_default();
        let lines = heard.iter().filter_map(|heard| {
            let (who, words) = match (&heard.words, &heard.answer) {
                (Some(words), _) => (Who::Owner, words),
                (None, Some(words)) => (Who::Agent, words),
                (None, None) => return None,
            };
            let words = text::head(words.trim(), MAX_CHARS).to_owned();
            (!words.is_empty()).then(|| Line {
                who,
                words,
                path: heard.path.clone(),
                line: heard.line,
                seq: heard.seq,
                at: heard.at,
            })
        });
        let lines: Vec<Line> = lines.collect();
        if lines.iter().any(|line| line.who == Who::Owner) {
            lines
        } else {
            Vec::new()
        }
    }

    /// Returns what rules find in a span of conversation `session`.
    pub(super) fn by_rules(&self, session: &str, span: &Span, zone: Tz) -> Found {
        Found {
            statements: self.statements(session, span),
            promises: self.promises(session, span, zone),
            episode: None,
        }
    }

    /// Returns what the owner promised in a span, by rules.
    fn promises(&self, session: &str, span: &Span, zone: Tz) -> Vec<Promise> {
        let promises = self.own(span).flat_map(|(heard, words)| {
            extract::commitments(text::head(words, MAX_CHARS), heard.at, zone)
                .into_iter()
                .map(|one| Promise {
                    scope: Scope::Owner,
                    who: one.who,
                    what: one.what,
                    deadline: one
                        .deadline
                        .map(|deadline| commitments::written(deadline.date, deadline.time)),
                    path: heard.path.clone(),
                    line: heard.line,
                    session: Some((session.to_owned(), heard.seq)),
                    quote: one.quote,
                    at: heard.at,
                })
        });
        promises.collect()
    }

    /// Returns the owner's own words in a span.
    fn own(&self, span: &Span) -> impl Iterator<Item = (&Heard, &str)> {
        let heard = self.messages.get(span.messages.clone()).unwrap_or_default();
        heard
            .iter()
            .filter_map(|heard| Some((heard, heard.words.as_deref()?)))
    }

    /// Returns what the agent said right before event `seq`.
    fn asked(&self, seq: i64) -> &str {
        let at = self.messages.partition_point(|heard| heard.seq < seq);
        let before = at
            .checked_sub(1)
            .and_then(|before| self.messages.get(before));
        before
            .and_then(|heard| heard.answer.as_deref())
            .unwrap_or_default()
    }

    /// Returns what the owner stated in a span of conversation `session`, by rules.
    pub(super) fn statements(&self, session: &str, span: &Span) -> Vec<Statement> {
        let stated = self.own(span).flat_map(|(heard, words)| {
            let confirmed = extract::confirmed(self.asked(heard.seq), words);
            confirmed
                .into_iter()
                .chain(extract::speech(text::head(words, MAX_CHARS)))
                .map(|claim| Statement {
                    scope: Scope::Owner,
                    entity: claim.entity,
                    attribute: claim.attribute,
                    value: claim.value,
                    ended: claim.ended,
                    confidence: claim.confidence,
                    path: heard.path.clone(),
                    line: heard.line,
                    session: Some((session.to_owned(), heard.seq)),
                    quote: claim.quote,
                    at: heard.at,
                })
        });
        stated.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn transcript(key: &str, events: &[Value]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("s1.2026-05-04.jsonl");
        let head = json!({"type": "session", "session_id": "s1", "key": key, "contact": "Ada", "created_at": "x"});
        let line = |(seq, event): (u64, &Value)| {
            let mut whole = json!({"v": 1, "ts": "2026-05-04T10:00:00.000Z", "seq": seq});
            whole
                .as_object_mut()
                .expect("an object")
                .extend(event.as_object().expect("an object").clone());
            format!("{whole}\n")
        };
        let text: String = (1..)
            .zip(std::iter::once(&head).chain(events))
            .map(line)
            .collect();
        crate::sys::atomic::write(
            &path,
            text.as_bytes(),
            crate::sys::atomic::Durability::Rename,
        )
        .expect("write");
        (dir, vec![path])
    }

    fn user(run: &str, trust: &str, text: &str) -> Value {
        let content = json!([{"type": "context", "text": "I live in Nowhere."}, {"type": "text", "text": text}]);
        json!({"type": "message", "role": "user", "run_id": run, "trust": trust, "content": content})
    }

    fn answer(run: &str, text: &str) -> Value {
        json!({"type": "message", "role": "assistant", "run_id": run, "content": [{"type": "text", "text": text}]})
    }

    fn spans(key: &str, events: &[Value], is_archived: bool) -> Vec<(i64, i64, Vec<String>)> {
        let (_dir, files) = transcript(key, events);
        let talk = Talk::read(&files, 0, is_archived).expect("read");
        if !talk.is_owners {
            return Vec::new();
        }
        let mut watermark = 0;
        let next = || {
            let span = talk.next_span(watermark)?;
            watermark = span.to;
            let stated = talk
                .statements("s1", &span)
                .into_iter()
                .map(|one| format!("{} {}", one.line, one.value))
                .collect();
            Some((span.from, span.to, stated))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn only_the_owners_own_words_are_heard() {
        let events = [
            user("a", "owner", "I live in Berlin."),
            answer("a", "I live in a computer."),
            user("b", "owner", "Look: I live in Oslo."),
            user("b", "other", "I live in Rome."),
            answer("b", "ok"),
            json!({"type": "message", "role": "user", "run_id": "c", "trust": "owner", "about": {}, "content": [{"type": "text", "text": "I live in Bonn."}]}),
            answer("c", "ok"),
        ];
        assert_eq!(
            spans("cli:ada", &events, false),
            [(1, 8, vec!["2 Berlin".to_owned()])]
        );
        assert_eq!(spans("agent:a:telegram:group:-5", &events, false), []);
        assert_eq!(
            spans(
                "cli:ada",
                &[user("a", "other", "I live in Rome."), answer("a", "ok")],
                true
            ),
            []
        );
    }

    #[test]
    fn a_plain_yes_is_the_owners_word_and_what_was_read_from_others_is_not_confirmed() {
        let asked =
            |run: &str, city: &str| answer(run, &format!("I looked. So you live in {city}?"));
        let read = json!({"type": "tool_result", "run_id": "c", "name": "web_fetch", "duration_ms": 1, "id": "t", "text": "x",
            "untrusted": true});
        let events = [
            user("a", "owner", "a map please"),
            asked("a", "Lyon"),
            user("b", "owner", "Yes, exactly."),
            asked("b", "Nice"),
            user("c", "owner", "no"),
            read,
            asked("c", "Rome"),
            user("d", "owner", "yes"),
            answer("d", "ok"),
        ];
        let all: Vec<String> = spans("cli:ada", &events, true)
            .into_iter()
            .flat_map(|(.., stated)| stated)
            .collect();
        assert_eq!(all, ["4 Lyon"]);
    }

    #[test]
    fn a_turn_that_runs_is_waited_for_and_four_messages_are() {
        let four = [
            user("a", "owner", "1"),
            answer("a", "2"),
            user("b", "owner", "3"),
            answer("b", "4"),
        ];
        let running = [four.as_slice(), &[user("c", "owner", "I live in Berlin.")]].concat();
        let calls = json!({"type": "message", "role": "assistant", "run_id": "c", "content": [{"type": "tool_call", "id": "t", "name": "exec", "input": {}}]});
        let working = [running.as_slice(), &[calls]].concat();
        for events in [&four[..], &running, &working] {
            assert_eq!(spans("cli:ada", events, false), [(1, 5, vec![])]);
        }
        let failed = [
            working.as_slice(),
            &[json!({"type": "error", "run_id": "c", "text": "no"})],
        ]
        .concat();
        assert_eq!(
            spans("cli:ada", &failed, false),
            [(1, 8, vec!["6 Berlin".to_owned()])]
        );
        assert_eq!(
            spans("cli:ada", &running, true),
            [(1, 6, vec!["6 Berlin".to_owned()])]
        );
        assert_eq!(spans("cli:ada", &four[..3], false), []);
        assert_eq!(spans("cli:ada", &four[..1], true), [(1, 2, vec![])]);
    }

    #[test]
    fn a_long_conversation_is_cut_between_messages() {
        let long = "x".repeat(30_000);
        let mut events = Vec::new();
        for turn in 0..4 {
            events.extend([
                user("a", "owner", &format!("{long}. I live in B{turn}.")),
                answer("a", "ok"),
            ]);
        }
        events.push(user("a", "owner", &"y".repeat(60_000)));
        let cut: Vec<(i64, i64)> = spans("cli:ada", &events, true)
            .into_iter()
            .map(|(from, to, _)| (from, to))
            .collect();
        assert_eq!(cut, [(1, 3), (4, 5), (6, 7), (8, 9), (10, 10)]);
    }
}
