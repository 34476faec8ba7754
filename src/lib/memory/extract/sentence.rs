//! Splits a block into sentences: quotations are masked, and a sentence knows its line.

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
    let (mut start, mut line_start) = (0, 0);
    let (mut line, mut begun_on) = (block.line, block.line);
    for (at, c) in seen.iter().enumerate() {
        let ends = ends_here(&seen, at, line_start);
        if *c == '\n' {
            line += 1;
            line_start = at + 1;
        }
        if ends {
            push(&mut found, &raw[start..=at], &seen[start..=at], begun_on);
        }
        if ends || start == at && c.is_whitespace() {
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
    text::one_line(&chars.iter().collect::<String>())
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
    let (before, after) = (&seen[at.saturating_sub(12)..at], &seen[at + 1..]);
    let start = before.iter().rposition(|c| c.is_whitespace());
    let word: String = before[start.map_or(0, |at| at + 1)..].iter().collect();
    let after = after.iter().skip_while(|c| **c == ' ');
    let after: String = after.take_while(|c| c.is_alphanumeric()).take(12).collect();
    let is_number = (1..=2).contains(&word.len()) && word.chars().all(|c| c.is_ascii_digit());
    let is_initial =
        word.chars().count() == 1 && word != "I" && word.chars().all(char::is_uppercase);
    let is_short = english().statements.abbreviations.has(&word.to_lowercase());
    (is_initial || is_short) && !after.is_empty() || is_number && is_month(&after)
}

/// A short line stands alone; a long one, or one that cannot end there, continues in the next.
fn line_ends_sentence(seen: &[char], start: usize, at: usize) -> bool {
    let line: String = seen[start..at].iter().collect();
    let line = line.trim_end();
    let next: String = seen.iter().skip(at + 1).take(24).collect();
    let next = next.trim_start();
    let first = next.split(|c: char| !c.is_alphanumeric()).next();
    let is_new =
        !next.starts_with(char::is_lowercase) || matches!(first, Some("i" | "my" | "we" | "our"));
    let last = line.rsplit(' ').next().unwrap_or("").to_lowercase();
    let is_open = line.ends_with([',', ';', '-']) || english().statements.open_ends.has(&last);
    // At the end of a line a colon opens what comes next; a sentence of its own says so.
    line.ends_with(':') || is_new && line.chars().count() < 60 && !is_open
}

/// Returns `raw` with [`HOLE`] for each character of what is quoted, code or an address. What is
/// opened and not closed is covered to the end.
fn cover(raw: &[char]) -> Vec<char> {
    let mut seen = raw.to_vec();
    let mut at = 0;
    while at < raw.len() {
        if let Some(end) = quotation_end(raw, at).or_else(|| address_end(raw, at)) {
            let covered = seen[at..end].iter_mut().filter(|c| **c != '\n');
            covered.for_each(|c| *c = HOLE);
            at = end;
        } else {
            at += 1;
        }
    }
    seen
}

/// Returns where the quotation ends that opens at `at`.
fn quotation_end(raw: &[char], at: usize) -> Option<usize> {
    let is_letter = |at: usize| raw.get(at).is_some_and(|c| c.is_alphanumeric());
    let closers = match raw[at] {
        '`' => "`",
        // After a digit it is inches.
        '"' if at == 0 || !raw[at - 1].is_ascii_digit() => "\"",
        '“' | '„' | '‟' | '”' => "”“",
        '«' => "»",
        '»' => "«",
        '「' => "」",
        '『' => "』",
        '‘' => "’‘",
        '\'' if begins_word(raw, at) && is_letter(at + 1) => "'",
        _ => return None,
    };
    // An apostrophe within a word closes nothing.
    let is_inner = |at: usize| matches!(raw[at], '\'' | '’') && is_letter(at + 1);
    let mut ends = at + 1..raw.len();
    let end = ends.find(|end| closers.contains(raw[*end]) && !is_inner(*end));
    Some(end.map_or(raw.len(), |end| end + 1))
}

fn begins_word(raw: &[char], at: usize) -> bool {
    at == 0 || raw[at - 1].is_whitespace() || matches!(raw[at - 1], '(' | '[' | '<')
}

/// Returns where the address on the web ends that begins at `at`.
fn address_end(raw: &[char], at: usize) -> Option<usize> {
    let marks = ["http", "www.", "ftp:", "file:", "mailto:"];
    let begins = |mark: &&str| {
        let same = mark.chars().zip(&raw[at..]);
        same.filter(|(a, b)| a.eq_ignore_ascii_case(b)).count() == mark.len()
    };
    if !(begins_word(raw, at) && marks.iter().any(begins)) {
        return None;
    }
    let length = raw[at..].iter().position(|c| c.is_whitespace());
    Some(length.map_or(raw.len(), |length| at + length))
}
