//! Reads what `memory_search` answers: hits with their place and score, and of each the lines that
//! may be quoted. What we said ourselves without knowing anything is no knowledge and is left out.

/// What `memory_search` says when there is nothing.
const NOTHING: &str = "nothing was found";

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
    /// Nobody is named: a file of the owner's, or what they say in this conversation.
    File,
}

/// A line that may be quoted.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    /// As it stands, trimmed.
    pub text: &'a str,
    pub speaker: Speaker,
    /// The headings above it in the hit.
    pub headings: String,
}

/// Reads an answer of `memory_search`. A line like the first of a hit is one only where a new hit
/// can begin and with the next number.
pub(super) fn read(found: &str) -> Vec<Hit<'_>> {
    let mut hits: Vec<(&str, u32, Vec<&str>)> = Vec::new();
    let mut free = true;
    for line in found.lines().filter(|_| found.trim() != NOTHING) {
        match header(line, hits.len() + 1).filter(|_| free) {
            Some((place, percent)) => hits.push((place, percent, Vec::new())),
            None => {
                if let Some((_, _, lines)) = hits.last_mut() {
                    lines.push(line.trim());
                }
            }
        }
        free = line.trim().is_empty();
    }
    hits.into_iter()
        .map(|(place, percent, lines)| Hit {
            place,
            percent,
            lines: quotable(place, &lines),
        })
        .collect()
}

/// Reads `[N] PATH:START-END (SCORE%)`.
fn header(line: &str, number: usize) -> Option<(&str, u32)> {
    let (found, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (place, percent) = rest.trim_end().strip_suffix("%)")?.rsplit_once(" (")?;
    (found.parse() == Ok(number) && place.contains(':')).then_some((place, percent.parse().ok()?))
}

fn quotable<'a>(place: &str, lines: &[&'a str]) -> Vec<Line<'a>> {
    let file = if place.starts_with("state/sessions/") {
        None
    } else {
        Some(Speaker::File)
    };
    let item = place.contains("/memory/items/");
    let (mut kept, mut headings) = (Vec::new(), String::new());
    let (mut speaker, mut empty_words) = (file.unwrap_or(Speaker::Person), false);
    for (at, line) in lines.iter().enumerate() {
        if let (None, Some((who, words))) = (file, spoken(line)) {
            speaker = if who == "assistant" {
                Speaker::Agent
            } else {
                Speaker::Person
            };
            empty_words = speaker == Speaker::Agent && is_own(words);
        }
        let heading = file.is_some() && line.starts_with('#');
        let last = lines
            .get(at + 1..)
            .is_none_or(|rest| rest.iter().all(|line| line.is_empty()));
        if heading && !last {
            headings = crate::text::head(line, 200).to_owned();
            continue;
        }
        let frontmatter = item
            && [
                "id: ",
                "type: ",
                "tags: ",
                "created_at: ",
                "updated_at: ",
                "scope: ",
            ]
            .iter()
            .any(|key| line.starts_with(key));
        // Our own quotations come back from transcripts; their source is the better one.
        let quoted = file.is_none() && (line.starts_with("> ") || line.starts_with("— "));
        if line.contains(char::is_alphanumeric)
            && !frontmatter
            && !quoted
            && !empty_words
            && !is_second_hand(place, line)
        {
            kept.push(Line {
                text: line,
                speaker,
                headings: headings.clone(),
            });
        }
    }
    kept
}

/// Returns true for what says in other words what stands elsewhere, as the index writes it: a line of a summary, and
/// a fact, which memory puts before the message.
fn is_second_hand(place: &str, line: &str) -> bool {
    let is_one_line = place
        .rsplit_once(':')
        .and_then(|(_, lines)| lines.split_once('-'))
        .is_some_and(|(first, last)| first == last);
    let since = line
        .strip_suffix(')')
        .and_then(|line| line.rsplit_once(" (since "))
        .map_or("", |(_, since)| since);
    let is_day = since
        .get(..10)
        .is_some_and(|day| day.split('-').all(|part| part.parse::<u16>().is_ok()));
    is_one_line && (line.starts_with("summary: ") || is_day)
}

/// Takes a line of a transcript apart into who and what, when it begins a message.
fn spoken(line: &str) -> Option<(&str, &str)> {
    let (who, words) = line.split_once(": ")?;
    let named = who.starts_with(char::is_alphanumeric)
        && who.chars().count() <= 60
        && !who.contains(['`', '.', '?', '!', '(', '“']);
    named.then_some((who, words))
}

/// Returns what is said in a line, without who says it and without the mark of a list.
pub(super) fn bare<'a>(line: &Line<'a>) -> &'a str {
    let words = match line.speaker {
        Speaker::File => line.text,
        Speaker::Person | Speaker::Agent => spoken(line.text).map_or(line.text, |(_, words)| words),
    };
    words.trim_start_matches(['-', '*', '•', ' '])
}

/// Returns true for words with which we, or any model, say that we know nothing.
pub(super) fn is_own(words: &str) -> bool {
    const BEGINNINGS: &[&str] = &[
        "No language model",
        "I found nothing",
        "I found only",
        "This is what I find",
        "I am not sure",
        "I am not able",
        "I don't know",
        "I do not know",
        "I don't have",
        "I do not have",
        "I cannot",
        "I can't",
        "Nothing in my memory",
        "I will remember",
        "I'll remember",
        "Kept as",
        "Hello!",
        "Yes, I am here",
        "I am here",
        "I am running",
        "It is in the transcript",
        "You are welcome",
        "Goodbye",
        "Summary by extraction",
        "That did not work",
        "```",
        "Done;",
        "What shall I",
        "Your message arrived",
        "I could not",
        "I do not keep",
        "Sorry",
        "I'm sorry",
        "I'm not sure",
        "(I broke off",
        "I stopped",
        "I am ",
        "An event",
        "Something is missing",
        "These are somebody",
    ];
    BEGINNINGS
        .iter()
        .any(|beginning| words.starts_with(beginning))
        || words.contains("No language model is configured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_read_with_what_may_be_quoted() {
        let found = "[1] workspace/memory/items/a.md:1-6 (91%)\n---\nid: a\ntype: note\n---\nAnna was born on 3 May.\n\n\
            [2] state/sessions/archive/u.2026-11-22.jsonl:4-9 (40%)\nAda: When is it?\nassistant: I found nothing about that in my memory.\n\
            Try others.\nAda: It is [3] x\n[3] fake.md:1-1 (99%)\n\n[7] fake.md:1-1 (99%)\n\n[3] workspace/b.md:2-4 (12%)\n# Wifi\nThe box is in the hall\n\n\
            [4] workspace/USER.md:3-3 (12%)\nuser: lives in Rome (since 2026-05-04, 60 % sure)\nI live in Rome (since May)\n\n\
            [5] state/sessions/u.2026-11-22.jsonl:8-8 (11%)\nsummary: They spoke of Rome.\n";
        let line = |text, speaker, headings: &str| Line {
            text,
            speaker,
            headings: headings.to_owned(),
        };
        let expected = [
            Hit {
                place: "workspace/memory/items/a.md:1-6",
                percent: 91,
                lines: vec![line("Anna was born on 3 May.", Speaker::File, "")],
            },
            Hit {
                place: "state/sessions/archive/u.2026-11-22.jsonl:4-9",
                percent: 40,
                lines: vec![
                    line("Ada: When is it?", Speaker::Person, ""),
                    line("Ada: It is [3] x", Speaker::Person, ""),
                    line("[3] fake.md:1-1 (99%)", Speaker::Person, ""),
                    line("[7] fake.md:1-1 (99%)", Speaker::Person, ""),
                ],
            },
            Hit {
                place: "workspace/b.md:2-4",
                percent: 12,
                lines: vec![line("The box is in the hall", Speaker::File, "# Wifi")],
            },
            Hit {
                place: "workspace/USER.md:3-3",
                percent: 12,
                lines: vec![line("I live in Rome (since May)", Speaker::File, "")],
            },
            Hit {
                place: "state/sessions/u.2026-11-22.jsonl:8-8",
                percent: 11,
                lines: vec![],
            },
        ];
        assert_eq!(read(found), expected);
        assert_eq!(read("nothing was found"), []);
        assert_eq!(read("anything else"), []);
    }
}
