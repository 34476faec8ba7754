//! Summaries by extraction: the sentences that carry most of a text, as they stand and in their order.
//!
//! A sentence is worth the share its words have in the whole text, by the square root of its
//! length, so that neither long nor short ones win by their length alone. Words that are said
//! already count half for the next one (after SumBasic, Nenkova and Vanderwende 2005, who square:
//! too much for a text of few words). The beginning of a text counts a little more.

use std::collections::HashMap;

use unicode_segmentation::UnicodeSegmentation;

use super::words::Words;

/// Longer sentences are lists or data; no more of their words count.
const MAX_WORDS: usize = 60;
/// A line of fewer characters was not wrapped because it was full.
const WRAPPED_CHARS: usize = 50;

/// A sentence and the paragraph it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentence {
    pub text: String,
    pub paragraph: usize,
}

/// Returns the sentences of `text`. Lines that are only wrapped are joined; a heading, an entry of
/// a list and a line of a table are sentences of their own.
pub(super) fn split(text: &str) -> Vec<Sentence> {
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
    let starts_anew = line.starts_with(['#', '-', '*', '+', '|', '>', '•', '`'])
        || line.starts_with(|c: char| c.is_ascii_digit());
    let ended =
        block.ends_with(['.', '!', '?', ':', '。', '！', '？', '|', '`']) || block.starts_with('#');
    let lower = line.starts_with(char::is_lowercase);
    !starts_anew
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
    const SHORT: &[&str] = &[
        "dr", "mr", "mrs", "ms", "prof", "st", "no", "nr", "vs", "fig", "e.g", "i.e", "z.b", "bzw",
        "ca", "cf", "approx", "jr", "sr",
    ];
    let Some(body) = text.trim_end().strip_suffix('.') else {
        return false;
    };
    let word = body
        .rsplit(|c: char| c.is_whitespace() || c == '(')
        .next()
        .unwrap_or("");
    let initial = word.chars().count() == 1
        && word.chars().all(char::is_uppercase)
        && body.len() > word.len();
    word.len() <= 6 && (initial && word != "I" || SHORT.contains(&word.to_lowercase().as_str()))
}

/// Returns the places of the `wanted` best of `sentences`, in order.
pub(super) fn pick(sentences: &[Sentence], wanted: usize) -> Vec<usize> {
    if wanted >= sentences.len() {
        return (0..sentences.len()).collect();
    }
    let split = Words::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut counts: Vec<f64> = Vec::new();
    let mut number = |word: String| {
        let next = numbers.len();
        let at = *numbers.entry(word).or_insert(next);
        if at == counts.len() {
            counts.push(0.0);
        }
        if let Some(count) = counts.get_mut(at) {
            *count += 1.0;
        }
        at
    };
    let words: Vec<Vec<usize>> = sentences
        .iter()
        .map(|sentence| {
            let mut words: Vec<usize> = split
                .telling(&sentence.text)
                .into_iter()
                .take(MAX_WORDS)
                .map(&mut number)
                .collect();
            words.sort_unstable();
            words.dedup();
            words
        })
        .collect();
    let total: f64 = counts.iter().sum::<f64>().max(1.0);
    let mut weights: Vec<f64> = counts.iter().map(|count| count / total).collect();
    let score = |at: usize, words: &[usize], weights: &[f64]| {
        let sum: f64 = words.iter().filter_map(|word| weights.get(*word)).sum();
        let length = f64::from(u32::try_from(words.len()).unwrap_or(u32::MAX));
        let enough = (length / 5.0).min(1.0);
        let first = at == 0
            || sentences.get(at - 1).is_some_and(|before| {
                sentences
                    .get(at)
                    .is_some_and(|this| this.paragraph != before.paragraph)
            });
        let place = if at == 0 {
            1.3
        } else if first {
            1.1
        } else {
            1.0
        };
        let question = sentences
            .get(at)
            .is_some_and(|sentence| super::words::asks(&sentence.text));
        sum / length.max(1.0).sqrt() * enough * place * if question { 0.5 } else { 1.0 }
    };
    let mut picked: Vec<usize> = Vec::new();
    let mut free = vec![true; sentences.len()];
    while picked.len() < wanted {
        let mut best: Option<(usize, f64)> = None;
        for (at, words) in words
            .iter()
            .enumerate()
            .filter(|(at, _)| free.get(*at) == Some(&true))
        {
            let score = score(at, words, &weights);
            if best.is_none_or(|(_, highest)| score > highest) {
                best = Some((at, score));
            }
        }
        let Some((at, _)) = best else { break };
        picked.push(at);
        if let Some(free) = free.get_mut(at) {
            *free = false;
        }
        for word in words.get(at).into_iter().flatten() {
            if let Some(weight) = weights.get_mut(*word) {
                *weight /= 2.0;
            }
        }
    }
    picked.sort_unstable();
    picked
}

/// Sentences of a conversation that its summary quotes, and the most characters of one.
const QUOTED: (usize, usize) = (24, 240);

/// Returns what a conversation says, in quotations. Lines between markers, calls and what tools answered are
/// passed over.
pub(super) fn of_talk(text: &str) -> String {
    let of_people = |line: &&str| {
        !["⟦", "CALL ", "RESULT", "("]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = text.lines().filter(of_people).collect();
    let all = split(&lines.join("\n"));
    let picked = pick(&all, QUOTED.0)
        .into_iter()
        .filter_map(|at| all.get(at));
    let quoted: Vec<String> = picked
        .map(|sentence| format!("- {}", crate::text::shorten(&sentence.text, QUOTED.1)))
        .collect();
    format!("Said before, in quotations:\n{}", quoted.join("\n"))
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
