//! A file as lines to search in: Markdown as it stands, a transcript as who said what.

use std::fmt::Write;

use crate::message::{Message, Role};
use crate::session::{Event, Head, Kind, said};
use crate::text;
use crate::text::front_matter::{Field, FrontMatter};

use super::chunk;
use super::chunk::Unit;
use crate::memory::sources::date_in;
use crate::memory::{Runs, WITHOUT_MODEL};

/// What a file says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Document {
    /// Its lines in order.
    pub units: Vec<Unit>,
    /// Words that belong to lines without standing in them: from this unit on, until the next.
    pub sections: Vec<(usize, String)>,
    /// The type and the tags that its front matter names.
    pub kind: String,
    pub tags: Vec<String>,
    /// The head of a transcript.
    pub head: Option<Head>,
    /// True when its owner spoke in it.
    pub owner_spoke: bool,
    /// When its head says that it was made, milliseconds since 1970 UTC.
    pub created_at: Option<i64>,
}

impl Document {
    /// Returns the words that belong to unit number `at`.
    pub(crate) fn section(&self, at: usize) -> &str {
        let after = self.sections.partition_point(|(start, _)| *start <= at);
        after
            .checked_sub(1)
            .and_then(|last| self.sections.get(last))
            .map_or("", |(_, words)| words)
    }

    /// Reads Markdown. A section is the headings above a line; fields at the beginning say no more than
    /// their tags.
    pub(crate) fn of_markdown(text: &str) -> Self {
        let mut document = Self::default();
        let mut path: Vec<(usize, &str)> = Vec::new();
        let mut fence: Option<&str> = None;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let matter = FrontMatter::split(text);
        let fields = matter.and_then(|matter| matter.fields());
        let head = matter
            .filter(|_| fields.is_some())
            .map_or(0, |matter| matter.lines());
        let field = |name: &str| fields.iter().flatten().find(|field| field.key == name);
        document.kind = field("type").map(Field::text).unwrap_or_default();
        document.created_at =
            field("created_at")
                .or_else(|| field("createdAt"))
                .and_then(|created| {
                    let at = chrono::DateTime::parse_from_rfc3339(created.text().trim());
                    at.ok().map(|at| at.timestamp_millis())
                });
        if let Some(tags) = field("tags") {
            document.tags = tags.list();
            document.sections.push((0, document.tags.join(", ")));
        }
        for (number, line) in (1..).zip(text.lines()).skip(head) {
            let trimmed = line.trim_start();
            match fence {
                Some(mark) if trimmed.starts_with(mark) => fence = None,
                Some(_) => {}
                None => {
                    fence = ["```", "~~~"]
                        .into_iter()
                        .find(|mark| trimmed.starts_with(mark));
                    if let Some((level, title)) = heading(line) {
                        path.retain(|(above, _)| *above < level);
                        path.push((level, title));
                        let titles: Vec<&str> = path.iter().map(|(_, title)| *title).collect();
                        document
                            .sections
                            .push((document.units.len(), titles.join("\n")));
                    }
                }
            }
            chunk::units(number, line, &mut document.units);
        }
        document
    }

    /// Reads a transcript: the words of people and of the agent, a message a line of the file. Tool
    /// calls and their results are left out, and so is what others said in the owner's conversation,
    /// what was said without a model, and event `but`.
    /// A section is a day.
    pub(crate) fn of_transcript(text: &str, but: Option<u64>) -> Self {
        let mut document = Self::default();
        // A damaged line is passed over, as the daemon does.
        let events = || {
            (1..).zip(text.lines()).filter_map(|(number, line)| {
                Some((number, serde_json::from_str::<Event>(line).ok()?))
            })
        };
        let mut runs = Runs::default();
        for (_, event) in events() {
            runs.take(&event.kind);
            if let Kind::Session(head) = event.kind {
                document.head.get_or_insert(head);
            }
        }
        document.owner_spoke = runs.owner_spoke;
        let (mut day, mut passed_on) = (String::new(), false);
        for (number, event) in events() {
            let Kind::Message(spoken) = event.kind else {
                continue;
            };
            if Some(event.seq) == but {
                continue;
            }
            // What an owner passed on would come back as the owner's, and so would what was said of it.
            passed_on |= runs.of_others.contains(&spoken.run_id);
            let of_agent = spoken.role == Role::Assistant
                && (passed_on || runs.read_others.contains(&spoken.run_id));
            if document.owner_spoke && (runs.of_others.contains(&spoken.run_id) || of_agent) {
                continue;
            }
            if spoken.role == Role::Assistant && spoken.model.as_deref() == Some(WITHOUT_MODEL) {
                continue;
            }
            if runs.noted.contains(&spoken.run_id) {
                continue;
            }
            let words = Message::new(spoken.role, spoken.content).plain_text();
            let words = match spoken.role {
                Role::Assistant => said(&words).into_owned(),
                Role::User => words,
            };
            if words.trim().is_empty() {
                continue;
            }
            let date = text::head(&event.ts, 10);
            if date != day {
                day = date.to_owned();
                document
                    .sections
                    .push((document.units.len(), date_words(date)));
            }
            let who = match (spoken.role, &spoken.about) {
                (Role::Assistant, _) => "assistant",
                (Role::User, Some(_)) => "event",
                (Role::User, None) => document.head.as_ref().map_or("user", |head| &head.contact),
            };
            let mut label = format!("{}: ", text::head(who, 60));
            for line in words.lines() {
                chunk::units(number, &format!("{label}{line}"), &mut document.units);
                label.clear();
            }
        }
        document
    }
}

/// Returns level and title of an ATX heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    let title = title
        .strip_prefix([' ', '\t'])?
        .trim()
        .trim_end_matches('#')
        .trim_end();
    ((1..=6).contains(&level) && !title.is_empty()).then_some((level, text::head(title, 200)))
}

/// Returns `text` and, when there is a date in it, that date as people write it.
pub(crate) fn date_words(text: &str) -> String {
    let mut words = text.to_owned();
    if let Some(date) = date_in(text) {
        // Writing to a String cannot fail.
        let _ = write!(words, " {}", date.format("%A %-d %B %Y"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(document: &Document) -> Vec<(u32, &str, &str)> {
        document
            .units
            .iter()
            .enumerate()
            .map(|(at, unit)| (unit.line, unit.text.as_str(), document.section(at)))
            .collect()
    }

    #[test]
    fn a_line_knows_the_headings_above_it() {
        let text = "\u{feff}first\n# Home\r\nwalls\n## Roof ##\ntiles\n```\n# no heading\n```\n# Garden\n#tag\n";
        let document = Document::of_markdown(text);
        let expected = [
            (1, "first\n", ""),
            (2, "# Home\n", "Home"),
            (3, "walls\n", "Home"),
            (4, "## Roof ##\n", "Home\nRoof"),
            (5, "tiles\n", "Home\nRoof"),
            (6, "```\n", "Home\nRoof"),
            (7, "# no heading\n", "Home\nRoof"),
            (8, "```\n", "Home\nRoof"),
            (9, "# Garden\n", "Garden"),
            (10, "#tag\n", "Garden"),
        ];
        assert_eq!(lines(&document), expected);
    }

    #[test]
    fn of_a_plan_only_the_messages_are_found() {
        let plan = r#"[{"kind":"think","text":"secret"},{"kind":"send","text":"Hi."}]"#;
        let event = |seq: u64, words: &str| {
            let content = serde_json::json!([{"type": "text", "text": words}]);
            serde_json::json!({"v": 1, "ts": "2026-05-05T10:00:00.000Z", "seq": seq, "type": "message",
                "role": "assistant", "run_id": "r", "content": content})
            .to_string()
        };
        let text = format!("{}\n{}\n", event(1, plan), event(2, "[]"));
        let document = Document::of_transcript(&text, None);
        let found: Vec<&str> = document
            .units
            .iter()
            .map(|unit| unit.text.as_str())
            .collect();
        assert_eq!(found, ["assistant: Hi.\n"]);
    }

    #[test]
    fn fields_above_a_text_are_not_its_words() {
        let check = |file: &str, line: u32, section: &str| {
            let document = Document::of_markdown(file);
            assert_eq!(lines(&document), [(line, "Ana called.\n", section)]);
        };
        let list = "---\ntype: note\ntags: [family, 'a b']\n---\nAna called.\n";
        check(list, 5, "family, a b");
        check(&list.replace('\n', "\r\n"), 5, "family, a b");
        let block = "---\ntags:\n  - family\n  - a b\n---\nAna called.\n";
        check(block, 6, "family, a b");
    }

    #[test]
    fn a_transcript_is_what_was_said() {
        let text = concat!(
            r#"{"v":1,"ts":"2026-05-04T10:00:00.000Z","seq":1,"type":"session","session_id":"s","key":"cli:ada","contact":"Ada","created_at":"x"}"#,
            "\n",
            r#"{"v":1,"ts":"2026-05-04T10:00:00.000Z","seq":2,"type":"message","role":"user","trust":"owner","run_id":"r","content":[{"type":"context","text":"⟦now⟧"},{"type":"text","text":"hello\nthere"}]}"#,
            "\n{ torn\n",
            r#"{"v":1,"ts":"2026-05-05T10:00:00.000Z","seq":3,"type":"message","role":"assistant","run_id":"r","content":[{"type":"text","text":"Hi."}]}"#,
            "\n",
            r#"{"v":1,"ts":"2026-05-05T10:00:00.000Z","seq":4,"type":"message","role":"user","run_id":"r","content":[{"type":"tool_result","id":"1","text":"secret output"}]}"#,
            "\n",
        );
        let document = Document::of_transcript(text, None);
        let monday = "2026-05-04 Monday 4 May 2026";
        let tuesday = "2026-05-05 Tuesday 5 May 2026";
        let expected = [
            (2, "Ada: hello\n", monday),
            (2, "there\n", monday),
            (4, "assistant: Hi.\n", tuesday),
        ];
        assert_eq!(lines(&document), expected);
        assert!(document.owner_spoke);
    }

    #[test]
    fn what_an_owner_passes_on_does_not_become_theirs() {
        let line = |seq: u64, run: &str, role: &str, trust: &str, text: &str| {
            let trust = if trust.is_empty() {
                String::new()
            } else {
                format!(r#""trust":"{trust}","#)
            };
            format!(
                r#"{{"v":1,"ts":"2026-05-04T10:00:00.000Z","seq":{seq},"type":"message","role":"{role}",{trust}"run_id":"{run}","content":[{{"type":"text","text":"{text}"}}]}}"#
            ) + "\n"
        };
        let passed_on = line(1, "a", "user", "other", "buy this")
            + &line(2, "a", "assistant", "", "They sell.");
        let own = line(3, "b", "user", "owner", "hello") + &line(4, "b", "assistant", "", "Hi.");
        let said = |text: &str| -> Vec<String> {
            Document::of_transcript(text, None)
                .units
                .into_iter()
                .map(|unit| unit.text)
                .collect()
        };
        assert_eq!(
            said(&(own.clone() + &passed_on)),
            ["user: hello\n", "assistant: Hi.\n"]
        );
        assert_eq!(
            said(&(passed_on.clone() + &own)),
            ["user: hello\n"],
            "nobody knows what the answer repeats"
        );
        assert_eq!(
            said(&passed_on),
            ["user: buy this\n", "assistant: They sell.\n"]
        );
    }

    #[test]
    fn what_is_said_without_a_model_is_no_knowledge() {
        let line = |seq: u64, role: &str, model: &str, text: &str| {
            format!(
                r#"{{"v":1,"ts":"2026-05-04T10:00:00.000Z","seq":{seq},"type":"message","role":"{role}",{model}"run_id":"r","content":[{{"type":"text","text":"{text}"}}]}}"#
            ) + "\n"
        };
        let text = line(1, "user", "", "My cat is Tom.")
            + &line(
                2,
                "assistant",
                r#""model":"offline","#,
                "It stays in this conversation.",
            )
            + &line(3, "assistant", r#""model":"primary","#, "A fine name.");
        let order = line(4, "user", "", "Remember that I like tea.").replace(r#""r""#, r#""n""#);
        let call = r#"{"v":1,"ts":"2026-05-04T10:00:00.000Z","seq":5,"type":"message","role":"assistant","model":"offline","run_id":"n","content":[{"type":"tool_call","id":"a","name":"memory_write","input":{}}]}"#;
        let text = format!("{text}{order}{call}\n");
        let said: Vec<String> = Document::of_transcript(&text, None)
            .units
            .into_iter()
            .map(|unit| unit.text)
            .collect();
        assert_eq!(
            said,
            ["user: My cat is Tom.\n", "assistant: A fine name.\n"]
        );
    }

    #[test]
    fn dates_are_found_in_names() {
        assert_eq!(
            date_words("notes/2023-05-08-x.md"),
            "notes/2023-05-08-x.md Monday 8 May 2023"
        );
        assert_eq!(date_words("1999-13-01 ä2"), "1999-13-01 ä2");
    }
}
