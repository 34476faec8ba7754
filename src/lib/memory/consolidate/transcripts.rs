//! The messages of the owner, or of a guest in their own conversation, and of the agent, and how far they may be read.

use std::collections::HashSet;
use std::ops::Range;
use std::path::PathBuf;

use chrono_tz::Tz;

use super::model_reader::Extracted;
use crate::memory::extract;
use crate::memory::extract::Claim;
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Promise;
use crate::memory::facts::store::Statement;
use crate::memory::scope::Scope;
use crate::memory::{Runs, is_the_owners};
use crate::message::{Block, Role, SessionKey, Trust};
use crate::session::{Event, Kind, Spoken, said};
use crate::sys;
use crate::sys::jsonl;
use crate::{clock, text};

/// A conversation that continues is read when it has this many new messages, and so much of
/// one is taken at a time (specification §13).
const MIN_MESSAGES: usize = 4;
const MAX_CHARS: usize = 50_000;

/// A conversation as it is read.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// Whose memory it goes into: the owner's or a guest's, whose alone it is; `None` when several people share it.
    pub scope: Option<Scope>,
    /// True when it has ended: what there is, is all.
    pub is_archived: bool,
    messages: Vec<Utterance>,
    /// Events of which nobody can read any more what they stated, for words were erased there, or next to them in their run.
    erased: HashSet<i64>,
    /// Messages of turns in which the agent made a job of what was asked for.
    scheduled: HashSet<i64>,
    /// The first message of the turn that still runs.
    running_from: Option<i64>,
    last_seq: i64,
}

/// What somebody said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Utterance {
    pub speaker: Speaker,
    pub words: String,
    pub run_id: String,
    /// The transcript, the line in it and the event.
    pub path: String,
    pub line: i64,
    pub seq: i64,
    /// What the clock showed, milliseconds since 1970 UTC.
    pub at: i64,
    /// When it counts as said: not before what was said before it.
    pub said_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// The one whose memory it is, in their own words.
    Owner,
    /// A guest, until it is known whether the conversation is theirs alone.
    Guest,
    /// The agent, in its answer to a turn that read no untrusted text.
    Agent,
    /// Anybody else: the words count for nothing here.
    Untrusted,
}

impl Utterance {
    /// Returns what its speaker, whose memory is `scope`, states with it in conversation `session`.
    pub(super) fn statement(&self, scope: &Scope, session: &str, claim: Claim) -> Statement {
        Statement {
            scope: scope.clone(),
            entity: claim.entity,
            said_of: None,
            attribute: claim.attribute,
            value: claim.value,
            ended: claim.ended,
            confidence: claim.confidence,
            path: self.path.clone(),
            line: self.line,
            session: Some((session.to_owned(), self.seq)),
            quote: claim.quote,
            at: self.said_at,
        }
    }

    /// Returns what `who` promises in it.
    pub(super) fn promise(
        &self,
        scope: &Scope,
        session: &str,
        (who, what): (String, String),
        deadline: Option<String>,
        quote: String,
    ) -> Promise {
        Promise {
            scope: scope.clone(),
            who,
            what,
            deadline,
            path: self.path.clone(),
            line: self.line,
            session: Some((session.to_owned(), self.seq)),
            quote,
            at: self.said_at,
        }
    }
}

/// Events that are read at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub from: i64,
    pub to: i64,
    messages: Range<usize>,
}

impl Transcript {
    /// Reads the conversation in `files`. Of what stands up to event `watermark` only the last words are kept, which may be
    /// answered or taken back.
    pub(super) fn read(
        files: &[PathBuf],
        watermark: i64,
        is_archived: bool,
    ) -> Result<Self, sys::Error> {
        let mut transcript = Self {
            is_archived,
            ..Self::default()
        };
        let (mut key, mut runs) = (None, Runs::default());
        let mut erased_runs = HashSet::new();
        let (mut said_at, now) = (0, clock::now_ms());
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
                transcript.last_seq = transcript.last_seq.max(seq);
                runs.take(&event.kind);
                match event.kind {
                    Kind::Session(head) => key = key.take().or(Some(head.key)),
                    Kind::Message(spoken) => {
                        let speaker = transcript.take(&spoken, seq);
                        let at = clock::parse_rfc3339(&event.ts).unwrap_or(0);
                        said_at = time_after(said_at, at, now);
                        let message = Utterance {
                            speaker,
                            words: words(&spoken),
                            run_id: spoken.run_id,
                            path: path.clone(),
                            line,
                            seq,
                            at,
                            said_at,
                        };
                        transcript.push(message, watermark);
                    }
                    Kind::Forgotten { run_id } => {
                        transcript.erased.insert(seq);
                        erased_runs.extend(run_id);
                    }
                    // A turn that failed is over.
                    Kind::Error { .. } => transcript.running_from = None,
                    _ => {}
                }
            })?;
        }
        // What an owner passed on is not theirs, and neither is what they said of it in that turn; what became
        // a note is stated there. What the agent says may be what it read.
        let key = SessionKey(key.unwrap_or_default());
        transcript.scope = match Scope::of_session(&key.0, runs.owner_spoke) {
            Scope::Owner => Some(Scope::Owner),
            _ if runs.owner_spoke => None,
            // Of one with several ids nobody can tell here which is theirs.
            _ => key.dm_person().map(Scope::Person),
        };
        let is_guests = matches!(transcript.scope, Some(Scope::Person(_)));
        for message in &mut transcript.messages {
            let run = &message.run_id;
            if erased_runs.contains(run) {
                transcript.erased.insert(message.seq);
            }
            if runs.scheduled.contains(run) {
                transcript.scheduled.insert(message.seq);
            }
            message.speaker = match message.speaker {
                Speaker::Guest if is_guests => Speaker::Owner,
                Speaker::Agent if is_guests && !runs.read_others.contains(run) => Speaker::Agent,
                _ if runs.of_others.contains(run) => Speaker::Untrusted,
                Speaker::Owner if !runs.noted.contains(run) => Speaker::Owner,
                Speaker::Agent if !runs.read_others.contains(run) => Speaker::Agent,
                _ => Speaker::Untrusted,
            };
        }
        Ok(transcript)
    }

    /// Adds a message; of those up to event `watermark` the last words of a person and the last after these stay.
    fn push(&mut self, message: Utterance, watermark: i64) {
        let is_person = |one: &Utterance| matches!(one.speaker, Speaker::Owner | Speaker::Guest);
        if message.seq <= watermark {
            self.messages
                .retain(|before| is_person(before) && !is_person(&message));
        }
        self.messages.push(message);
    }

    /// Notes which turn runs, and returns who speaks.
    fn take(&mut self, spoken: &Spoken, seq: i64) -> Speaker {
        let is_final = spoken.role == Role::Assistant && spoken.tool_calls().next().is_none();
        let begins = spoken.role == Role::User
            && (spoken.inbox_id.is_some() || spoken.trust.is_some() || spoken.about.is_some());
        if is_final {
            self.running_from = None;
            return Speaker::Agent;
        }
        if begins {
            self.running_from = self.running_from.or(Some(seq));
        }
        if is_the_owners(spoken) {
            Speaker::Owner
        } else if is_a_guests(spoken) {
            Speaker::Guest
        } else {
            Speaker::Untrusted
        }
    }

    /// Returns what may be read next after event `watermark`: never a turn that still runs.
    pub(super) fn next_span(&self, watermark: i64) -> Option<Span> {
        let all = self.rest(watermark)?;
        let new = || self.messages(&all);
        let count = all.messages.len();
        if !self.is_archived && count < MIN_MESSAGES {
            return None;
        }
        let mut chars = 0;
        let fits = new().take_while(|message| {
            chars += message.words.chars().count();
            chars <= MAX_CHARS
        });
        // A message that is longer than a span is one.
        let taken = fits.count().max(1);
        let to = if taken < count {
            new().nth(taken.checked_sub(1)?)?.seq
        } else {
            all.to
        };
        let first = all.messages.start;
        Some(Span {
            to,
            messages: first..first + taken,
            ..all
        })
    }

    /// Returns all that may be read after event `watermark`, however much or little that is; `None` when it is nothing.
    pub(super) fn rest(&self, watermark: i64) -> Option<Span> {
        let end = self.running_from.filter(|_| !self.is_archived);
        let is_new = |message: &&Utterance| {
            message.seq > watermark && end.is_none_or(|end| message.seq < end)
        };
        let first = self.messages.iter().position(|message| is_new(&message))?;
        let count = self.messages.iter().skip(first).take_while(is_new).count();
        Some(Span {
            from: watermark + 1,
            to: end.map_or(self.last_seq, |end| end - 1),
            messages: first..first + count,
        })
    }

    fn messages(&self, span: &Span) -> impl Iterator<Item = &Utterance> {
        let messages = self.messages.get(span.messages.clone());
        messages.unwrap_or_default().iter()
    }

    /// Returns what the owner and the agent said in a span, for a model; empty when the owner said nothing.
    pub(super) fn lines(&self, span: &Span) -> Vec<Utterance> {
        let lines: Vec<Utterance> = self
            .messages(span)
            .filter(|message| message.speaker != Speaker::Untrusted)
            .map(|message| Utterance {
                words: text::head(message.words.trim(), MAX_CHARS).to_owned(),
                ..message.clone()
            })
            .filter(|line| !line.words.is_empty())
            .collect();
        if lines.iter().any(|line| line.speaker == Speaker::Owner) {
            lines
        } else {
            Vec::new()
        }
    }

    /// Returns what the agent said right before event `seq`.
    fn asked(&self, seq: i64) -> &str {
        let at = self.messages.partition_point(|message| message.seq < seq);
        let before = at.checked_sub(1).and_then(|at| self.messages.get(at));
        before
            .filter(|message| message.speaker == Speaker::Agent)
            .map_or("", |message| &message.words)
    }

    /// Returns true when the owner's next message does nothing but take back what they said in event `seq`. What the agent
    /// asks between may be what is answered.
    fn is_taken_back(&self, seq: i64) -> bool {
        let behind = self.messages.partition_point(|message| message.seq <= seq);
        let mut later = self.messages.iter().skip(behind);
        let next = later.find(|message| message.speaker == Speaker::Owner);
        next.is_some_and(|next| {
            extract::takes_back(&next.words) && !self.asked(next.seq).contains(['?', '？'])
        })
    }

    /// Returns the event before `span` that is taken back in it.
    pub(super) fn taken_back_before(&self, span: &Span) -> Option<i64> {
        let before = self.messages.iter().take(span.messages.start);
        let mut own = before.filter(|message| message.speaker == Speaker::Owner);
        let last = own.next_back()?.seq;
        self.is_taken_back(last).then_some(last)
    }

    /// Returns true when what is known of event `seq` stays, although nothing that was found there now says it: what it said
    /// cannot be read any more, or not everything that `is_read` was.
    pub(super) fn keeps(&self, seq: i64, is_read: bool) -> bool {
        self.erased.contains(&seq) || !is_read && !self.is_taken_back(seq)
    }

    /// Returns true when the agent made a job in the turn of event `seq`: what is said there is no promise besides.
    pub(super) fn is_scheduled(&self, seq: i64) -> bool {
        self.scheduled.contains(&seq)
    }

    /// Returns what rules find in the owner's words in a span of conversation `session`.
    pub(super) fn by_rules(&self, session: &str, span: &Span, zone: Tz) -> Extracted {
        let mut found = Extracted::default();
        let Some(scope) = &self.scope else {
            return found;
        };
        let is_own = |message: &&Utterance| {
            message.speaker == Speaker::Owner && !self.is_taken_back(message.seq)
        };
        for message in self.messages(span).filter(is_own) {
            let words = text::head(&message.words, MAX_CHARS);
            let confirmed = extract::confirmed(self.asked(message.seq), &message.words);
            let claims = confirmed.into_iter().chain(extract::speech(words));
            let statements = claims.map(|claim| message.statement(scope, session, claim));
            found.statements.extend(statements);
            for one in extract::commitments(words, message.at, zone) {
                let deadline = one
                    .deadline
                    .map(|deadline| commitments::written(deadline.date, deadline.time));
                let said = (one.who, one.what);
                let promise = message.promise(scope, session, said, deadline, one.quote);
                found.promises.push(promise);
            }
        }
        found
    }
}

/// Returns when something counts as said while the clock showed `at`, after what was said at `before`; 0 when that was
/// nothing. A clock may be set ahead or back: what comes later is newer nevertheless, and nothing was said after `now`.
fn time_after(before: i64, at: i64, now: i64) -> i64 {
    match at > now && before > 0 {
        true => before,
        false => at.clamp(before.min(now), now),
    }
}

/// Returns true for what a guest said in their own words; what they forward is somebody else's.
fn is_a_guests(spoken: &Spoken) -> bool {
    let is_forwarded = spoken
        .content
        .iter()
        .any(|block| matches!(block, Block::Context { text } if text.contains("; forwarded")));
    spoken.role == Role::User
        && spoken.about.is_none()
        && spoken.trust == Some(Trust::Other)
        && !is_forwarded
}

/// Returns the words of a message for those who read it.
fn words(spoken: &Spoken) -> String {
    let words = spoken.message().plain_text();
    match spoken.role {
        Role::Assistant => said(&words).into_owned(),
        Role::User => words,
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
        let transcript = Transcript::read(&files, 0, is_archived).expect("read");
        if transcript.scope.is_none() {
            return Vec::new();
        }
        let mut watermark = 0;
        let next = || {
            let span = transcript.next_span(watermark)?;
            watermark = span.to;
            let stated = transcript
                .by_rules("s1", &span, Tz::UTC)
                .statements
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
    fn a_guest_is_heard_in_their_own_conversation_for_their_own_memory() {
        let forwarded = json!({"type": "message", "role": "user", "run_id": "b", "trust": "other",
            "content": [{"type": "context", "text": "⟦now; Ana on Telegram; forwarded from Bo: somebody else's words⟧"},
                {"type": "text", "text": "I live in Oslo."}]});
        let events = [
            user("a", "other", "I live in Rome."),
            answer("a", "ok"),
            forwarded,
            answer("b", "ok"),
        ];
        let dm = "agent:a:telegram:dm:1002";
        let stated = spans(dm, &events, true);
        assert_eq!(stated, [(1, 5, vec!["2 Rome".to_owned()])]);
        let (_dir, files) = transcript(dm, &events);
        let read = Transcript::read(&files, 0, true).expect("read");
        assert_eq!(read.scope, Some(Scope::Person("1002".into())));
        assert_eq!(spans("agent:a:telegram:group:-5", &events, true), []);
        assert_eq!(spans("agent:a:person:dm:bo", &events, true), []);
        // The owner came by: whose words are whose is told by nothing.
        let shared = [&events[..], &[user("c", "owner", "I live in Bonn.")]].concat();
        let of_owner = spans(dm, &shared, true);
        assert_eq!(of_owner, [(1, 6, vec!["6 Bonn".to_owned()])]);
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
    fn what_is_said_later_is_newer_whatever_the_clock_showed() {
        let at = |ts: &str, city: &str| {
            let mut event = user(city, "owner", &format!("I live in {city}."));
            event["ts"] = json!(ts);
            event
        };
        let (right, next_day) = ("2026-05-04T10:00:00.000Z", "2026-05-05T10:00:00.000Z");
        let events = [
            at(right, "Kiel"),
            at("2999-01-01T00:00:00.000Z", "Rome"),
            at(next_day, "Bonn"),
            at("1970-01-01T00:00:00.000Z", "Oslo"),
        ];
        let (_dir, files) = transcript("cli:ada", &events);
        let transcript = Transcript::read(&files, 0, true).expect("read");
        let span = transcript.next_span(0).expect("a span");
        let stated = transcript.by_rules("s1", &span, Tz::UTC).statements;
        let times: Vec<String> = stated.iter().map(|one| clock::rfc3339(one.at)).collect();
        assert_eq!(times, [right, right, next_day, next_day]);
        assert_eq!((time_after(0, 9, 7), time_after(5, 9, 7)), (7, 5));
    }

    #[test]
    fn what_the_next_message_takes_back_was_not_said() {
        let check = |agent: &str, next: &str, expected: &[&str]| {
            let events = [
                user("a", "owner", "I live in Rome."),
                answer("a", agent),
                user("b", "owner", next),
                answer("b", "ok"),
            ];
            let all = spans("cli:ada", &events, true);
            let stated: Vec<String> = all.into_iter().flat_map(|(.., stated)| stated).collect();
            assert_eq!(stated, expected, "{agent} {next}");
        };
        for next in [
            "Just kidding!",
            "I was joking :)",
            "oh, that was a joke",
            "War nur Spaß",
        ] {
            check("A fine town.", next, &[]);
        }
        check("Is it hot there?", "Not really.", &["2 Rome"]);
        check("A fine town.", "Kidding?", &["2 Rome"]);
        check("A fine town.", "Just a moment.", &["2 Rome"]);
        check("A fine town.", "That was a joke that I read.", &["2 Rome"]);
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
