//! Parses the result of `memory_search`: hits with place and score, and the lines of each that may be quoted.

/// What `memory_search` says when there is nothing.
const NOTHING: &str = "nothing was found";

/// What the head of a memory item has.
const ITEM_FIELDS: [&str; 6] = [
    "id: ",
    "type: ",
    "tags: ",
    "created_at: ",
    "updated_at: ",
    "scope: ",
];

/// A hit.
#[derive(Debug, PartialEq)]
pub(super) struct Hit<'a> {
    /// `PATH:START-END`.
    pub place: &'a str,
    pub percent: u32,
    pub lines: Vec<Line<'a>>,
}

/// Who says a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    Person,
    Agent,
    /// Nobody is named: a file of the owner's.
    File,
}

/// A line that may be quoted.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// As it stands, trimmed.
    pub text: &'a str,
    pub speaker: Speaker,
    /// The heading above it in the hit.
    pub heading: &'a str,
}

impl<'a> Line<'a> {
    /// Returns what is said, without who says it and without the mark of a list.
    pub(super) fn bare(&self) -> &'a str {
        let words = match self.speaker {
            Speaker::File => self.text,
            Speaker::Person | Speaker::Agent => {
                spoken(self.text).map_or(self.text, |(_, words)| words)
            }
        };
        words.trim_start_matches(['-', '*', '•', ' '])
    }
}

/// Reads an answer of `memory_search`. A line like the first of a hit is one only where a new hit
/// can begin and with the next number.
pub(super) fn read(found: &str) -> Vec<Hit<'_>> {
    let mut hits: Vec<(&str, u32, Vec<&str>)> = Vec::new();
    let mut is_free = true;
    for line in found.lines().filter(|_| found.trim() != NOTHING) {
        if let Some((place, percent)) = header(line, hits.len() + 1).filter(|_| is_free) {
            hits.push((place, percent, Vec::new()));
        } else if let Some((_, _, lines)) = hits.last_mut() {
            lines.push(line.trim());
        }
        is_free = line.trim().is_empty();
    }
    hits.into_iter()
        .map(|(place, percent, lines)| Hit {
            place,
            percent,
            lines: quotable(place, &lines),
        })
        .collect()
}

/// Reads `[N] PATH:START-END (SCORE%) KIND, DAY`.
fn header(line: &str, number: usize) -> Option<(&str, u32)> {
    let (found, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (place, percent) = rest.split_once("%)")?.0.rsplit_once(" (")?;
    (found.parse() == Ok(number) && place.contains(':')).then_some((place, percent.parse().ok()?))
}

fn quotable<'a>(place: &str, lines: &[&'a str]) -> Vec<Line<'a>> {
    let is_transcript = place.starts_with("state/sessions/");
    let is_item = place.contains("/memory/items/");
    let last = lines.iter().rposition(|line| !line.is_empty());
    let mut speaker = match is_transcript {
        true => Speaker::Person,
        false => Speaker::File,
    };
    let (mut kept, mut heading) = (Vec::new(), "");
    for (at, line) in lines.iter().enumerate() {
        match spoken(line).filter(|_| is_transcript) {
            Some(("assistant", _)) => speaker = Speaker::Agent,
            Some(_) => speaker = Speaker::Person,
            None if !is_transcript && line.starts_with('#') && Some(at) != last => {
                heading = crate::text::head(line, 200);
                continue;
            }
            None => {}
        }
        let is_field = is_item && ITEM_FIELDS.iter().any(|field| line.starts_with(field));
        // Our own quotations come back from transcripts; their source is the better one.
        let is_quoted = is_transcript && (line.starts_with("> ") || line.starts_with("— "));
        let is_told = line.contains(char::is_alphanumeric) && !is_second_hand(place, line);
        if is_told && !is_field && !is_quoted {
            kept.push(Line {
                text: line,
                speaker,
                heading,
            });
        }
    }
    kept
}

/// Returns true for what says in other words what stands elsewhere, as the index writes it: a line of a summary, and
/// a fact, which memory puts before the message.
fn is_second_hand(place: &str, line: &str) -> bool {
    let lines = place
        .rsplit(':')
        .next()
        .and_then(|lines| lines.split_once('-'));
    let since = line
        .strip_suffix(')')
        .and_then(|line| line.rsplit_once(" (since "));
    let is_date = |since: &str| {
        let day = since.get(..10);
        day.is_some_and(|day| day.split('-').all(|part| part.parse::<u16>().is_ok()))
    };
    let is_fact = since.is_some_and(|(_, since)| is_date(since));
    lines.is_some_and(|(first, last)| first == last) && (line.starts_with("summary: ") || is_fact)
}

/// Takes a line of a transcript apart into who and what, when it begins a message.
fn spoken(line: &str) -> Option<(&str, &str)> {
    let (who, words) = line.split_once(": ")?;
    let is_name = who.starts_with(char::is_alphanumeric)
        && who.chars().count() <= 60
        && !who.contains(['`', '.', '?', '!', '(', '“']);
    is_name.then_some((who, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_read_with_what_may_be_quoted() {
        let found = "[1] workspace/memory/items/a.md:1-6 (91%)\n---\nid: a\ntype: note\n---\nAnna was born on 3 May.\n\n\
            [2] state/sessions/archive/u.2026-11-22.jsonl:4-9 (40%)\nAda: When is it?\nassistant: On Monday.\n\
            Ada: It is [3] x\n[3] fake.md:1-1 (99%)\n\n[7] fake.md:1-1 (99%)\n\n[3] workspace/b.md:2-4 (12%)\n# Wifi\nThe box is in the hall\n\n\
            [4] workspace/USER.md:3-3 (12%)\nuser: lives in Rome (since 2026-05-04, 60 % sure)\nI live in Rome (since May)\n\n\
            [5] state/sessions/u.2026-11-22.jsonl:8-8 (11%)\nsummary: They spoke of Rome.\n";
        let line = |text, speaker, heading| Line {
            text,
            speaker,
            heading,
        };
        let hit = |place, percent, lines| Hit {
            place,
            percent,
            lines,
        };
        let expected = [
            hit(
                "workspace/memory/items/a.md:1-6",
                91,
                vec![line("Anna was born on 3 May.", Speaker::File, "")],
            ),
            hit(
                "state/sessions/archive/u.2026-11-22.jsonl:4-9",
                40,
                vec![
                    line("Ada: When is it?", Speaker::Person, ""),
                    line("assistant: On Monday.", Speaker::Agent, ""),
                    line("Ada: It is [3] x", Speaker::Person, ""),
                    line("[3] fake.md:1-1 (99%)", Speaker::Person, ""),
                    line("[7] fake.md:1-1 (99%)", Speaker::Person, ""),
                ],
            ),
            hit(
                "workspace/b.md:2-4",
                12,
                vec![line("The box is in the hall", Speaker::File, "# Wifi")],
            ),
            hit(
                "workspace/USER.md:3-3",
                12,
                vec![line("I live in Rome (since May)", Speaker::File, "")],
            ),
            hit("state/sessions/u.2026-11-22.jsonl:8-8", 11, vec![]),
        ];
        assert_eq!(read(found), expected);
        assert_eq!(read("nothing was found"), []);
        assert_eq!(read("anything else"), []);
    }
}
