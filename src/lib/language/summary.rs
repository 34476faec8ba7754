//! Summaries by extraction: the most important sentences of a text, unchanged and in their order.
//!
//! The weight of a sentence is the share of its words in the whole text, divided by the square root of its length, so that
//! length alone does not decide. Words of chosen sentences count half for the next one (after SumBasic, Nenkova and
//! Vanderwende 2005, who square them: too much for a text of few words). The beginning of a text counts a little more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation;

use super::pack::any_has;
use super::tokenize::Words;
use crate::text::shorten;

/// Longer sentences are lists or data; no more of their words count.
const MAX_WORDS: usize = 60;
/// A line of fewer characters was not wrapped because it was full.
const WRAPPED_CHARS: usize = 50;

/// A sentence and the paragraph it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence {
    pub text: String,
    pub paragraph: usize,
}

/// Returns the sentences of `text`. Lines that are only wrapped are joined; a heading, an entry of
/// a list and a line of a table are sentences of their own.
pub(crate) fn split(text: &str) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    let mut block = String::new();
    let mut paragraph = 0;
    let mut before = "";
    for line in text.lines().map(str::trim).chain([""]) {
        let joined = !block.is_empty() && !line.is_empty() && goes_on(&block, before, line);
        if joined {
            block.push(' ');
        } else if !block.is_empty() {
            split_block(&block, paragraph, &mut sentences);
            block.clear();
            paragraph += 1;
        }
        block.push_str(line);
        before = line;
    }
    sentences
}

/// Returns true when `line` is the rest of what `block` began; `before` is the line above it.
fn goes_on(block: &str, before: &str, line: &str) -> bool {
    let starts_block = line.starts_with(['#', '-', '*', '+', '|', '>', '•', '`'])
        || line.starts_with(|c: char| c.is_ascii_digit());
    let ended =
        block.ends_with(['.', '!', '?', ':', '。', '！', '？', '|', '`']) || block.starts_with('#');
    let lower = line.starts_with(char::is_lowercase);
    !starts_block
        && !block.starts_with('#')
        && (lower || !ended && before.chars().nth(WRAPPED_CHARS - 1).is_some())
}

fn split_block(block: &str, paragraph: usize, sentences: &mut Vec<Sentence>) {
    let mut open = String::new();
    for piece in block.split_sentence_bounds() {
        open.push_str(piece);
        if !is_abbreviated(&open) {
            put(&open, paragraph, sentences);
            open.clear();
        }
    }
    put(&open, paragraph, sentences);
}

fn put(text: &str, paragraph: usize, sentences: &mut Vec<Sentence>) {
    let text = text.trim();
    if text.contains(char::is_alphanumeric) {
        sentences.push(Sentence {
            text: text.to_owned(),
            paragraph,
        });
    }
}

/// Returns true when the full stop at the end belongs to a word.
fn is_abbreviated(text: &str) -> bool {
    let Some(body) = text.trim_end().strip_suffix('.') else {
        return false;
    };
    let last = body.rsplit(|c: char| c.is_whitespace() || c == '(').next();
    let word = last.unwrap_or("");
    let is_initial = word.chars().count() == 1 && word.chars().all(char::is_uppercase);
    is_initial && word != "I" && body.len() > word.len()
        || any_has(|pack| &pack.statements.abbreviations, &word.to_lowercase())
}

/// Returns the places of the `wanted` best of `sentences`, in order.
pub(crate) fn pick(sentences: &[Sentence], wanted: usize) -> Vec<usize> {
    if wanted >= sentences.len() {
        return (0..sentences.len()).collect();
    }
    best(sentences, |picked, _| picked < wanted)
}

/// The most sentences of a gist, and characters of one.
const OF_GIST: (usize, usize) = (24, 240);

/// Returns the sentences that carry most of `text`, a line each and each once, in at most `longest` characters.
pub(crate) fn gist(text: &str, longest: usize) -> String {
    let mut seen = HashSet::new();
    let sentences: Vec<Sentence> = split(text)
        .into_iter()
        .filter(|one| seen.insert(one.text.clone()))
        .map(|one| Sentence {
            text: shorten(&one.text, OF_GIST.1),
            ..one
        })
        .collect();
    let length = |at: usize| {
        sentences
            .get(at)
            .map_or(0, |one| one.text.chars().count() + 1)
    };
    let mut left = longest;
    let picked = best(&sentences, |picked, at| {
        let fits = picked < OF_GIST.0 && length(at) <= left;
        left = left.saturating_sub(length(at));
        fits
    });
    let lines = picked.into_iter().filter_map(|at| sentences.get(at));
    let lines: Vec<&str> = lines.map(|one| one.text.as_str()).collect();
    lines.join("\n")
}

/// Returns the places of the best of `sentences` while `takes` says of their number and the next place that it goes along,
/// in order.
fn best(sentences: &[Sentence], mut takes: impl FnMut(usize, usize) -> bool) -> Vec<usize> {
    let mut words = Words::new();
    let mut stems: Vec<Vec<Arc<str>>> = Vec::new();
    let mut weights: HashMap<Arc<str>, f64> = HashMap::new();
    for sentence in sentences {
        let mut found = words.telling(&sentence.text);
        found.truncate(MAX_WORDS);
        for stem in &found {
            *weights.entry(stem.clone()).or_default() += 1.0;
        }
        found.sort_unstable();
        found.dedup();
        stems.push(found);
    }
    let mut picked: Vec<usize> = Vec::new();
    loop {
        let score = |at: &usize| {
            let stems = stems.get(*at).map_or(&[][..], Vec::as_slice);
            let sum: f64 = stems.iter().filter_map(|stem| weights.get(stem)).sum();
            let length = f64::from(u32::try_from(stems.len()).unwrap_or(u32::MAX));
            sum / length.max(1.0).sqrt() * (length / 5.0).min(1.0) * place(sentences, *at)
        };
        // Of equals the first: `max_by` takes the last.
        let free = (0..sentences.len()).rev().filter(|at| !picked.contains(at));
        let best = free.max_by(|a, b| score(a).total_cmp(&score(b)));
        let Some(best) = best.filter(|best| takes(picked.len(), *best)) else {
            break;
        };
        picked.push(best);
        for stem in stems.get(best).into_iter().flatten() {
            if let Some(weight) = weights.get_mut(stem) {
                *weight /= 2.0;
            }
        }
    }
    picked.sort_unstable();
    picked
}

/// Returns what a sentence is worth by where it is; a question says half.
fn place(sentences: &[Sentence], at: usize) -> f64 {
    let paragraph = |at: usize| sentences.get(at).map(|sentence| sentence.paragraph);
    let place = match at {
        0 => 1.3,
        at if paragraph(at) != paragraph(at - 1) => 1.1,
        _ => 1.0,
    };
    let asks = sentences
        .get(at)
        .is_some_and(|sentence| asks(&sentence.text));
    if asks { place / 2.0 } else { place }
}

/// Returns true when `text` ends as a question does, in any script.
pub(crate) fn asks(text: &str) -> bool {
    let closes = |c: char| {
        c.is_whitespace() || "\"'”’»)]!.…".contains(c) || ('\u{1f300}'..='\u{1faff}').contains(&c)
    };
    match text.trim_end_matches(closes).chars().next_back() {
        Some('?' | '？' | '؟' | '\u{37e}' | '⸮' | '፧' | '՞') => true,
        // The Greek mark becomes a semicolon in most keyboards and in NFC.
        Some(';') => {
            let mut last = text.chars().rev().take(200);
            last.any(|c| ('\u{370}'..='\u{3ff}').contains(&c))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the `sentences` sentences of `text` that carry most, in their order, a space between
    /// those of one paragraph and a newline between others. All of it when it has no more. Nothing is
    /// added or changed but white space.
    fn summarise(text: &str, sentences: usize) -> String {
        let all = split(text);
        let mut summary = String::new();
        let mut paragraph = None;
        for sentence in pick(&all, sentences)
            .into_iter()
            .filter_map(|at| all.get(at))
        {
            if let Some(before) = paragraph {
                summary.push(if before == sentence.paragraph {
                    ' '
                } else {
                    '\n'
                });
            }
            summary.push_str(&sentence.text);
            paragraph = Some(sentence.paragraph);
        }
        summary
    }

    const HARBOUR: &str = "The harbour of Kiel is being rebuilt. Work began in March. \
        The harbour wall of Kiel was too old, says Dr. Brandt, who plans the harbour. It rained a lot.\n\n\
        - The new wall of the harbour costs 40 million euros.\n- Lunch was good.\n";

    #[test]
    fn the_sentences_that_carry_most_are_kept_as_they_stand_and_in_order() {
        let expected = "The harbour of Kiel is being rebuilt. \
            The harbour wall of Kiel was too old, says Dr. Brandt, who plans the harbour.\n\
            - The new wall of the harbour costs 40 million euros.";
        assert_eq!(summarise(HARBOUR, 3), expected);
        assert_eq!(split(HARBOUR).len(), 6);
        assert_eq!(summarise("", 3), "");
        assert_eq!(summarise("One. Two.", 0), "");
        assert_eq!(summarise("One. Two.", 9), "One. Two.");
    }

    #[test]
    fn wrapped_lines_are_one_sentence_and_headings_stand_alone() {
        let text = "# Plans\nWe will go to the sea with all the children and\nboth dogs. Then home.\nAda:\n1. tents\n2. food\n";
        let sentences: Vec<String> = split(text)
            .into_iter()
            .map(|sentence| sentence.text)
            .collect();
        let expected = [
            "# Plans",
            "We will go to the sea with all the children and both dogs.",
            "Then home.",
            "Ada:",
            "1. tents",
            "2. food",
        ];
        assert_eq!(sentences, expected);
    }

    #[test]
    fn scripts_without_spaces_are_split_too() {
        assert_eq!(
            summarise(
                "港は新しくなる。昨日は雨だった。港の壁は古い港のものだ。",
                1
            )
            .matches('。')
            .count(),
            1
        );
    }

    #[test]
    fn a_gist_has_what_carries_most_from_all_over_and_keeps_its_length() {
        let filler = "It rained a lot, and nobody knew why it would not stop.\n".repeat(300);
        let text = format!("{HARBOUR}\n{filler}\nThe harbour of Kiel opens again in May 2027.\n");
        let told = gist(&text, 300);
        assert!(told.chars().count() <= 300, "{told}");
        for said in ["is being rebuilt", "40 million euros", "May 2027"] {
            assert!(told.contains(said), "{said}: {told}");
        }
        let line = "x".repeat(50_000);
        assert_eq!(gist(&line, 300).chars().count(), 241);
        assert_eq!(gist("", 300), "");
        // Many short lines cost no more than a few.
        assert_eq!(
            gist(
                &(0..20_000).map(|n| format!("- a{n}\n")).collect::<String>(),
                1_000
            )
            .lines()
            .count(),
            24
        );
    }

    proptest! {
        #[test]
        fn a_summary_is_made_of_the_text(text in "([a-cé. \n?!#\u{301}🇩🇪京。-]|\\PC){0,80}", wanted in 0usize..6) {
            let squeeze = |text: &str| text.split_whitespace().collect::<String>();
            let all = split(&text);
            let picked = pick(&all, wanted);
            prop_assert_eq!(picked.len(), wanted.min(all.len()));
            prop_assert!(picked.is_sorted());
            for sentence in &all {
                prop_assert!(squeeze(&text).contains(&squeeze(&sentence.text)), "{:?}", sentence);
            }
            prop_assert_eq!(summarise(&text, wanted), summarise(&text, wanted));
        }
    }
}
