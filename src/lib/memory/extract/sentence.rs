//! From a block to its sentences: what is quoted is covered, and a sentence knows its line.

use super::block::Block;
use crate::language::pack::{english, is_month};
use crate::text;

/// Stands where something was covered: a quotation, code, an address on the web.
pub(super) const HOLE: char = '\u{fffc}';

/// Longer sentences are not read: what they say hangs on too much.
pub(super) const MAX_CHARS: usize = 200;

/// Characters of a claim's quote at most.
pub(super) const MAX_QUOTE: usize = 300;

/// A sentence of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sentence {
    /// The line of the text where it begins, from 0.
    pub line: u32,
    /// What it says, on one line, with [`HOLE`] for what was covered; ends with its `.`, `!`, `?` or `:`.
    pub text: String,
    /// What it says, as it was written.
    pub quote: String,
}

/// Returns the sentences of `block` in order.
pub(super) fn sentences(block: &Block<'_>) -> Vec<Sentence> {
    let raw: Vec<char> = block.lines.join("\n").chars().collect();
    let seen = cover(&raw);
    let mut found = Vec::new();
    let (mut start, mut line, mut line_start) = (0, block.line, 0);
    let mut begun_on = line;
    for at in 0..seen.len() {
        let c = seen[at];
        if c == '\n' {
            line += 1;
        }
        let ends = ends_here(&seen, at, line_start);
        if c == '\n' {
            line_start = at + 1;
        }
        if ends {
            push(&mut found, &raw[start..=at], &seen[start..=at], begun_on);
            start = at + 1;
            begun_on = line;
        } else if seen[start..=at].len() == 1 && c.is_whitespace() {
            start = at + 1;
            begun_on = line;
        }
    }
    push(&mut found, &raw[start..], &seen[start..], begun_on);
    found
}

fn push(found: &mut Vec<Sentence>, raw: &[char], seen: &[char], line: u32) {
    if !seen.iter().any(|c| c.is_alphanumeric()) {
        return;
    }
    let quote = one_line(raw);
    found.push(Sentence {
        line,
        text: one_line(seen),
        quote: text::head(&quote, MAX_QUOTE).to_owned(),
    });
}

fn one_line(chars: &[char]) -> String {
    let text: String = chars.iter().collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true when a sentence ends with the character at `at`; its line begins at `line_start`.
fn ends_here(seen: &[char], at: usize, line_start: usize) -> bool {
    let next = seen.get(at + 1).copied();
    match seen[at] {
        '。' | '！' | '？' => true,
        '!' | '?' | '…' => !matches!(next, Some('!' | '?' | '.' | '…')),
        '.' => next.is_none_or(char::is_whitespace) && !is_inner_stop(seen, at),
        '\n' => line_ends_sentence(seen, line_start, at),
        _ => false,
    }
}

/// "Dr. Weber", "J. Smith", "3. May".
fn is_inner_stop(seen: &[char], at: usize) -> bool {
    let start = (at.saturating_sub(12)..at)
        .rev()
        .find(|at| seen[*at].is_whitespace())
        .map_or(at.saturating_sub(12), |at| at + 1);
    let word: String = seen[start..at].iter().collect();
    let after: String = seen
        .iter()
        .skip(at + 1)
        .skip_while(|c| **c == ' ')
        .take_while(|c| c.is_alphanumeric())
        .take(12)
        .collect();
    let number = !word.is_empty() && word.len() <= 2 && word.chars().all(|c| c.is_ascii_digit());
    let initial = word.chars().count() == 1 && word != "I" && word.chars().all(char::is_uppercase);
    let statements = &english().statements;
    (initial || statements.abbreviations.has(&word.to_lowercase())) && !after.is_empty()
        || number && is_month(&after)
}

/// A short line stands alone; a long one, or one that cannot end there, goes on in the next.
fn line_ends_sentence(seen: &[char], start: usize, at: usize) -> bool {
    let line: String = seen[start..at].iter().collect();
    let line = line.trim_end();
    let next: String = seen.iter().skip(at + 1).take(24).collect();
    let next = next.trim_start();
    let first = next
        .split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or("");
    let fresh = next.chars().next().is_none_or(|c| !c.is_lowercase())
        || matches!(first, "i" | "my" | "we" | "our");
    let last = line.rsplit(' ').next().unwrap_or("").to_lowercase();
    // At the end of a line a colon opens what comes next; a sentence of its own says so.
    line.ends_with(':')
        || fresh
            && line.chars().count() < 60
            && !line.ends_with([',', ';', '-'])
            && !english().statements.open_ends.has(&last)
}

/// Returns `raw` with [`HOLE`] for each character of what is quoted, code or an address. What is
/// opened and not closed is covered to the end.
fn cover(raw: &[char]) -> Vec<char> {
    let mut seen = raw.to_vec();
    let mut at = 0;
    while at < raw.len() {
        let end = match closers(raw, at) {
            Some(closers) => (at + 1..raw.len())
                .find(|end| closers.contains(&raw[*end]) && closes(raw, *end))
                .unwrap_or(raw.len() - 1),
            None if begins_word(raw, at) => match address_end(raw, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            None => {
                at += 1;
                continue;
            }
        };
        seen[at..=end]
            .iter_mut()
            .filter(|c| **c != '\n')
            .for_each(|c| *c = HOLE);
        at = end + 1;
    }
    seen
}

/// Returns what closes the quotation that opens at `at`.
fn closers(raw: &[char], at: usize) -> Option<&'static [char]> {
    let digit_before = at > 0 && raw[at - 1].is_ascii_digit();
    match raw[at] {
        '`' => Some(&['`']),
        // After a digit it is inches.
        '"' if !digit_before => Some(&['"']),
        '“' | '„' | '‟' | '”' => Some(&['”', '“']),
        '«' => Some(&['»']),
        '»' => Some(&['«']),
        '「' => Some(&['」']),
        '『' => Some(&['』']),
        '‘' => Some(&['’', '‘']),
        '\'' if begins_word(raw, at) && raw.get(at + 1).is_some_and(|c| c.is_alphanumeric()) => {
            Some(&['\''])
        }
        _ => None,
    }
}

/// An apostrophe within a word closes nothing.
fn closes(raw: &[char], at: usize) -> bool {
    !matches!(raw[at], '\'' | '’') || raw.get(at + 1).is_none_or(|c| !c.is_alphanumeric())
}

fn begins_word(raw: &[char], at: usize) -> bool {
    at == 0 || raw[at - 1].is_whitespace() || matches!(raw[at - 1], '(' | '[' | '<')
}

/// Returns the last character of the address on the web that begins at `at`.
fn address_end(raw: &[char], at: usize) -> Option<usize> {
    let begins = |mark: &str| {
        mark.chars()
            .zip(&raw[at..])
            .filter(|(a, b)| a.eq_ignore_ascii_case(b))
            .count()
            == mark.len()
    };
    if !["http", "www.", "ftp:", "file:", "mailto:"]
        .iter()
        .any(|mark| begins(mark))
    {
        return None;
    }
    let end = (at..raw.len())
        .find(|end| raw[*end].is_whitespace())
        .unwrap_or(raw.len());
    Some(end - 1)
}
