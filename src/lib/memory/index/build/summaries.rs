//! The summaries in a transcript: what a model wrote in place of the older part of a conversation.

use super::chunk;
use super::document::{Document, date_words};
use crate::memory::scope::Scope;
use crate::memory::session_prefix::SessionPrefix;
use crate::session::{Compaction, Event, Kind, SummaryBy};
use crate::{clock, text};

/// What each of its lines begins with: whoever reads a piece of it knows that nobody said that.
const LABEL: &str = "summary: ";

/// A summary.
pub(crate) struct Summary {
    pub scope: Scope,
    /// When it was written, milliseconds since 1970 UTC.
    pub time: i64,
    /// All of its lines have the number of the event's.
    pub document: Document,
}

/// Returns the summaries in a transcript that may be found; `before` is what was said before it. What was only
/// counted and quoted says nothing that the lines above it do not.
pub(crate) fn of_transcript(text: &str, before: SessionPrefix) -> Vec<Summary> {
    let (mut past, mut key) = (before, None);
    let mut found: Vec<(u32, String, Compaction)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        // A damaged line is passed over, and missed.
        let Ok(event) = serde_json::from_str::<Event>(line) else {
            continue;
        };
        past.take(&event);
        match event.kind {
            Kind::Session(head) => key = key.or(Some(head.key)),
            Kind::Compaction(compaction) if compaction.by == SummaryBy::Model => {
                found.push((number, event.ts, compaction))
            }
            _ => {}
        }
    }
    let scope = Scope::of_session(&key.unwrap_or_default(), past.owner_spoke);
    found.retain(|(_, _, compaction)| past.lets_through(compaction));
    let summary = |(number, ts, compaction): (u32, String, Compaction)| {
        let mut document = Document {
            sections: vec![(0, date_words(text::head(&ts, 10)))],
            ..Document::default()
        };
        for line in compaction
            .summary
            .lines()
            .filter(|line| !line.trim().is_empty())
        {
            chunk::units(number, &format!("{LABEL}{line}"), &mut document.units);
        }
        Summary {
            scope: scope.clone(),
            time: clock::parse_rfc3339(&ts).unwrap_or(0),
            document,
        }
    };
    found.into_iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn transcript(key: &str, events: &[Value]) -> String {
        let head = json!({"type": "session", "session_id": "s", "key": key, "contact": "Ada", "created_at": "x"});
        let line = |(seq, event): (u64, &Value)| {
            let mut whole = json!({"v": 1, "ts": "2026-05-04T10:00:00.000Z", "seq": seq});
            whole
                .as_object_mut()
                .expect("an object")
                .extend(event.as_object().expect("an object").clone());
            format!("{whole}\n")
        };
        (1..)
            .zip(std::iter::once(&head).chain(events))
            .map(line)
            .collect()
    }

    fn said(trust: &str) -> Value {
        json!({"type": "message", "role": "user", "run_id": "r", "trust": trust, "content": [{"type": "text", "text": "x"}]})
    }

    fn summary(kept_from: u64, by: &str, words: &str) -> Value {
        json!({"type": "compaction", "run_id": "r", "kept_from": kept_from, "summary": words, "by": by, "tokens": [9, 5]})
    }

    /// Returns of each summary whose it is and its lines with their numbers.
    fn found(text: &str) -> Vec<(String, Vec<(u32, String)>)> {
        let shown = |summary: Summary| {
            let lines = summary
                .document
                .units
                .into_iter()
                .map(|unit| (unit.line, unit.text))
                .collect();
            (summary.scope.to_string(), lines)
        };
        of_transcript(text, SessionPrefix::default())
            .into_iter()
            .map(shown)
            .collect()
    }

    #[test]
    fn a_summary_is_the_line_of_its_event_and_whose_the_conversation_is() {
        let events = [
            said("owner"),
            summary(2, "model", "Of cats.\n\nOf dogs."),
            summary(2, "statistics", "2 messages."),
        ];
        let lines = vec![
            (3, "summary: Of cats.\n".to_owned()),
            (3, "summary: Of dogs.\n".to_owned()),
        ];
        assert_eq!(
            found(&transcript("cli:ada", &events)),
            [("owner".to_owned(), lines.clone())]
        );
        let group = "agent:a:telegram:group:-5";
        assert_eq!(
            found(&transcript(group, &events)),
            [(format!("chat:{group}"), lines.clone())]
        );
        let theirs = [said("other"), summary(3, "model", "Of cats.\nOf dogs.")];
        let dm = "agent:a:telegram:dm:1002";
        assert_eq!(
            found(&transcript(dm, &theirs)),
            [(format!("chat:{dm}"), lines)]
        );
        assert_eq!(
            of_transcript(&transcript("cli:ada", &events), SessionPrefix::default())[0].time,
            1_777_888_800_000
        );
    }

    #[test]
    fn what_others_said_does_not_become_the_owners_in_other_words() {
        let mixed = [
            said("owner"),
            said("other"),
            summary(3, "model", "Before them."),
            summary(4, "model", "With them."),
        ];
        let clean = (
            "owner".to_owned(),
            vec![(4, "summary: Before them.\n".to_owned())],
        );
        assert_eq!(found(&transcript("cli:ada", &mixed)), [clean]);
        let damaged = transcript(
            "cli:ada",
            &[said("owner"), said("owner"), summary(4, "model", "x")],
        );
        let damaged: String = damaged
            .split_inclusive('\n')
            .map(|line| line.replacen(r#""seq":2"#, "torn", 1))
            .collect();
        assert!(found(&damaged).is_empty(), "nobody knows what stood there");
    }
}
