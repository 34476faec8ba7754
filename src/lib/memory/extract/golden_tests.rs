//! Precision and recall of the rules on the golden set (`tests/golden/consolidate`).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use chrono_tz::Tz;
use serde::Deserialize;

use super::{Claim, Commitment, Deadline, commitments, confirmed, holds_many, notes, speech};
use crate::clock;

/// Monday, 11 o'clock in Berlin.
const BEGIN: &str = "2026-05-04T09:00:00Z";

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    held_out: bool,
    conversation: Vec<Conversation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conversation {
    name: String,
    language: String,
    said: Vec<String>,
    facts: Vec<String>,
    #[serde(default)]
    past: Vec<String>,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    #[serde(default)]
    commitments: Vec<String>,
    #[serde(default)]
    also_commitments: Vec<String>,
    #[serde(default)]
    notes: BTreeMap<String, String>,
}

/// What was right, wrong and missed.
#[derive(Default)]
struct Score {
    right: usize,
    found: usize,
    wanted: usize,
    missed: usize,
    forbidden: usize,
    conversations: usize,
    is_held_out: bool,
    /// What was wrong and what was missed, a line each.
    told: String,
}

/// Who, what, value; or who, what, day.
type Line = [String; 3];

/// What is known after a conversation, what was known before, what is promised.
#[derive(Default)]
struct Known {
    facts: Vec<Line>,
    past: Vec<Line>,
    promised: Vec<Line>,
}

impl Known {
    fn take(&mut self, claim: Claim) {
        let line = [claim.entity, claim.attribute, claim.value];
        let several = holds_many(&line[1]);
        let about = |old: &Line| {
            plain(&old[0]) == plain(&line[0])
                && old[1] == line[1]
                && (!several || plain(&old[2]) == plain(&line[2]))
        };
        if claim.ended {
            let is_it = |old: &Line| about(old) && plain(&old[2]) == plain(&line[2]);
            if let Some(at) = self.facts.iter().position(is_it) {
                self.past.push(self.facts.remove(at));
            }
            return;
        }
        if let Some(at) = self.facts.iter().position(about) {
            let old = self.facts.remove(at);
            if plain(&old[2]) != plain(&line[2]) {
                self.past.push(old);
            }
        }
        self.facts.push(line);
    }
}

/// Reads a conversation as the program does: notes, then each message of the owner.
fn read(conversation: &Conversation) -> Known {
    let zone: Tz = "Europe/Berlin".parse().expect("zone");
    let mut known = Known::default();
    conversation
        .notes
        .values()
        .flat_map(|text| notes(text))
        .for_each(|claim| known.take(claim));
    let mut asked = "";
    for (at, line) in (clock::parse_rfc3339(BEGIN).expect("a time")..)
        .step_by(1000)
        .zip(&conversation.said)
    {
        let (head, words) = line.split_once(": ").expect("who: words");
        let (who, at) = head.split_once(" @ ").map_or((head, at), |(who, at)| {
            (who, clock::parse_rfc3339(at).expect("a time"))
        });
        if who == "user" {
            confirmed(asked, words)
                .into_iter()
                .chain(speech(words))
                .for_each(|claim| known.take(claim));
            known
                .promised
                .extend(commitments(words, at, zone).into_iter().map(promised));
        }
        asked = if who == "agent" { words } else { "" };
    }
    known
}

fn promised(one: Commitment) -> Line {
    let day = |deadline: Deadline| match deadline.time {
        Some(time) => format!("{}T{}", deadline.date, time.format("%H:%M")),
        None => deadline.date.to_string(),
    };
    [
        one.who,
        one.what,
        one.deadline.map_or_else(|| "-".to_owned(), day),
    ]
}

/// The words without what makes no difference: case, articles, marks, "of", and "rd" in "3rd".
fn plain(text: &str) -> String {
    let text = text.to_lowercase().replace('’', "'");
    let word = |word: &str| {
        let word = word.trim_end_matches(['.', ',', ';', '!']);
        let digits = word.trim_end_matches(char::is_alphabetic);
        let ordinal = !digits.is_empty()
            && matches!(word.strip_prefix(digits), Some("st" | "nd" | "rd" | "th"));
        if ordinal {
            digits.to_owned()
        } else {
            word.to_owned()
        }
    };
    const NO_WORDS: &str =
        "a an the of der die das den dem ein eine einen el la los las un una le les une de o os";
    let words = text
        .split_whitespace()
        .map(word)
        .filter(|word| !NO_WORDS.split(' ').any(|no| no == word));
    words.collect::<Vec<_>>().join(" ")
}

/// "user | lives in | Porto / Porto, Portugal": alternatives in each field.
fn fits(wanted: &str, found: &Line, same: fn(&str, &str) -> bool) -> bool {
    let fields: Vec<&str> = wanted.split(" | ").collect();
    assert_eq!(fields.len(), 3, "{wanted}");
    fields
        .iter()
        .zip(found)
        .enumerate()
        .all(|(number, (field, found))| {
            field.split(" / ").any(|one| {
                if number == 1 {
                    same(one, found)
                } else {
                    plain(one) == plain(found)
                }
            })
        })
}

fn same_words(wanted: &str, found: &str) -> bool {
    plain(wanted) == plain(found)
}

/// All the words, and up to three more.
fn same_deed(wanted: &str, found: &str) -> bool {
    let (wanted, found) = (plain(wanted), plain(found));
    let words: Vec<&str> = found.split(' ').collect();
    wanted.split(' ').all(|word| words.contains(&word))
        && words.len() <= wanted.split(' ').count() + 3
}

impl Score {
    /// Compares what was found with what is wanted and with what may be there, too.
    fn take(
        &mut self,
        kind: &str,
        found: &[Line],
        wanted: &[String],
        also: &[String],
        same: fn(&str, &str) -> bool,
    ) {
        for line in found {
            let is_right = wanted.iter().any(|one| fits(one, line, same));
            if is_right || !also.iter().any(|one| fits(one, line, same)) {
                self.found += 1;
                self.right += usize::from(is_right);
                if !is_right {
                    let _ = writeln!(self.told, "    wrong {kind}: {}", line.join(" | "));
                }
            }
        }
        self.missing(kind, found, wanted, same);
    }

    fn missing(
        &mut self,
        kind: &str,
        found: &[Line],
        wanted: &[String],
        same: fn(&str, &str) -> bool,
    ) {
        self.wanted += wanted.len();
        for one in wanted
            .iter()
            .filter(|one| !found.iter().any(|line| fits(one, line, same)))
        {
            self.missed += 1;
            let _ = writeln!(self.told, "    missed {kind}: {one}");
        }
    }

    /// Values that must not come out, current or not.
    fn never(&mut self, known: &Known, never: &[String], right: &[String]) {
        let words = |text: &str| {
            let words: Vec<String> = text
                .to_lowercase()
                .split(|c: char| !c.is_alphanumeric())
                .map(str::to_owned)
                .collect();
            format!(
                " {} ",
                words
                    .join(" ")
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
            )
        };
        for line in known.facts.iter().chain(&known.past).chain(&known.promised) {
            let is_right = right.iter().any(|one| fits(one, line, same_words));
            let hit = never
                .iter()
                .find(|one| words(&line.join(" ")).contains(&words(one)));
            if let Some(hit) = hit.filter(|_| !is_right) {
                self.forbidden += 1;
                let _ = writeln!(self.told, "    FORBIDDEN ({hit}): {}", line.join(" | "));
            }
        }
    }

    fn conversation(&mut self, one: &Conversation) {
        let known = read(one);
        let before = self.told.len();
        self.take("fact", &known.facts, &one.facts, &one.also, same_words);
        self.missing("earlier fact", &known.past, &one.past, same_words);
        self.take(
            "commitment",
            &known.promised,
            &one.commitments,
            &one.also_commitments,
            same_deed,
        );
        self.never(&known, &one.never, &one.facts);
        if self.told.len() > before {
            self.told
                .insert_str(before, &format!("  {} ({})\n", one.name, one.language));
        }
    }

    fn precision(&self) -> f64 {
        ratio(self.right, self.found)
    }

    fn recall(&self) -> f64 {
        ratio(self.wanted - self.missed, self.wanted)
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    f64::from(u32::try_from(part).expect("few"))
        / f64::from(u32::try_from(whole.max(1)).expect("few"))
}

/// Returns how the rules do in the conversations they may be made for, and in those they were not.
fn scores() -> [Score; 2] {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/consolidate");
    let mut scores = [Score::default(), Score::default()];
    let mut paths: Vec<PathBuf> = directory
        .read_dir()
        .expect("the golden set")
        .map(|entry| entry.expect("entry").path())
        .collect();
    paths.sort();
    for path in paths.iter().filter(|path| {
        path.extension().is_some_and(|end| end == "toml") && !path.ends_with("attributes.toml")
    }) {
        let text = std::fs::read_to_string(path).expect("a file of the golden set");
        let file: File =
            toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let score = &mut scores[usize::from(file.held_out)];
        file.conversation
            .iter()
            .for_each(|one| score.conversation(one));
        score.is_held_out = file.held_out;
        score.conversations += file.conversation.len();
    }
    scores
}

#[test]
fn what_the_rules_find_is_right_and_they_find_what_they_found_before() {
    let [known, held_out] = scores();
    let told = |name: &str, score: &Score| {
        // Who reads what was missed there makes a rule of it.
        let misses = if score.is_held_out {
            ""
        } else {
            score.told.as_str()
        };
        let (right, found, kept) = (score.right, score.found, score.wanted - score.missed);
        let figures = format!(
            "precision {:.3} ({right}/{found}), recall {:.3} ({kept}/{})",
            score.precision(),
            score.recall(),
            score.wanted
        );
        format!(
            "{name}, {} conversations: {figures}, {} forbidden\n{misses}",
            score.conversations, score.forbidden
        )
    };
    let told = format!("{}\n{}", told("tuned", &known), told("held out", &held_out));
    let all = known.conversations + held_out.conversations;
    assert!(
        all >= 90 && held_out.conversations * 10 >= all * 3,
        "a third is held out\n{told}"
    );
    assert_eq!(known.forbidden + held_out.forbidden, 0, "{told}");
    // Just under what was measured; docs/memory.md has the figures.
    assert!(
        known.precision() >= 0.98 && held_out.precision() >= 0.95,
        "{told}"
    );
    assert!(
        known.recall() >= 0.90 && held_out.recall() >= 0.56,
        "{told}"
    );
}
