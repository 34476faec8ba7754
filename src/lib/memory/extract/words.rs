//! The words of a sentence, with contractions taken apart: "I'm" is `i` and `am`, "Ana's" is `ana` and `'s`.

use crate::language::pack::{Pack, Phrases, WordList};

/// A word or a mark (`,` `;` `:` `–`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// As written.
    pub raw: String,
    /// In small letters, with a straight apostrophe, without a stop at its end.
    pub low: String,
    /// Where it is in the sentence, in bytes.
    pub start: usize,
    pub end: usize,
}

impl Word {
    fn new(raw: &str, low: &str, start: usize, end: usize) -> Self {
        Self {
            raw: raw.to_owned(),
            low: low.to_owned(),
            start,
            end,
        }
    }

    /// Returns true when it begins with a capital letter, or with a letter of a script that has none.
    pub(super) fn is_capital(&self) -> bool {
        let first = self.raw.chars().next();
        first.is_some_and(|c| c.is_alphabetic() && !c.is_lowercase())
    }

    pub(super) fn is_mark(&self) -> bool {
        matches!(self.low.as_str(), "," | ";" | ":" | "–")
    }

    pub(super) fn has_digit(&self) -> bool {
        self.raw.chars().any(|c| c.is_ascii_digit())
    }

    pub(super) fn is(&self, any: &[&str]) -> bool {
        any.contains(&self.low.as_str())
    }
}

/// Returns the word at `at` in small letters, empty behind the end.
pub(super) fn low(words: &[Word], at: usize) -> &str {
    words.get(at).map_or("", |word| word.low.as_str())
}

/// Returns the words from `at` on, none behind the end.
pub(super) fn tail(words: &[Word], at: usize) -> &[Word] {
    words.get(at..).unwrap_or(&[])
}

/// Returns the words from `from` to `to`, none where there are not so many.
pub(super) fn between(words: &[Word], from: usize, to: usize) -> &[Word] {
    words.get(from..to).unwrap_or(&[])
}

pub(super) fn is_capital(words: &[Word], at: usize) -> bool {
    words.get(at).is_some_and(Word::is_capital)
}

/// Returns true at the end, too.
pub(super) fn is_end(words: &[Word], at: usize) -> bool {
    words.get(at).is_none_or(Word::is_mark)
}

/// Returns true when `list` has one of `words`.
pub(super) fn any_of(words: &[Word], list: &WordList) -> bool {
    words.iter().any(|word| list.has(&word.low))
}

/// Returns where `phrase` ends when the words at `at` are its.
pub(super) fn phrase_at(words: &[Word], at: usize, phrase: &str) -> Option<usize> {
    // Nearly all do not begin so, and this is cheap.
    if !phrase.starts_with(words.get(at)?.low.as_str()) {
        return None;
    }
    let mut next = at;
    for part in phrase.split(' ') {
        if words.get(next)?.low != part {
            return None;
        }
        next += 1;
    }
    Some(next)
}

/// Returns where the longest of `phrases` that is at `at` ends.
pub(super) fn opens(words: &[Word], at: usize, phrases: &Phrases) -> Option<usize> {
    let ends = phrases
        .iter()
        .filter_map(|phrase| phrase_at(words, at, phrase));
    ends.max()
}

/// Returns true when one of `phrases` stands anywhere in `words`.
pub(super) fn has_any(words: &[Word], phrases: &Phrases) -> bool {
    (0..words.len()).any(|at| opens(words, at, phrases).is_some())
}

/// Returns the base form of a verb that the rows know: "lives" is "live", "am" is "be".
pub(super) fn base<'a>(pack: &'a Pack, low: &'a str) -> &'a str {
    let family = pack.facts.forms.iter().find_map(|family| {
        let (base, forms) = family.split_once(' ')?;
        forms.split(' ').any(|form| form == low).then_some(base)
    });
    family.unwrap_or(low)
}

/// Returns the words of `text`. What is in parentheses is not among them.
pub(super) fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut depth = 0usize;
    let mut begun: Option<usize> = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match c {
            '(' | '[' => {
                finish(text, &mut begun, at, &mut words);
                depth += 1;
            }
            ')' | ']' => {
                begun = None;
                depth = depth.saturating_sub(1);
            }
            _ if depth > 0 => {}
            _ if c.is_whitespace() => finish(text, &mut begun, at, &mut words),
            ',' | ';' | ':' if !is_within_number(text, at) => {
                finish(text, &mut begun, at, &mut words);
                let mark = c.to_string();
                words.push(Word::new(&mark, &mark, at, at + 1));
            }
            _ => begun = begun.or(Some(at)),
        }
    }
    words
}

/// Returns `words` as French parts them: "j'habite" is "je" and "habite", "d'appeler" is "d'" and "appeler".
pub(super) fn without_elision(words: &[Word]) -> Vec<Word> {
    let split = |word: &Word| {
        let (letter, rest) = word.low.split_once('\'')?;
        let is_elided = matches!(letter, "j" | "d" | "m" | "n" | "s" | "c")
            && !matches!(rest, "" | "ici" | "accord" | "après");
        // "D'Angelo" is a name.
        let cut = word.raw.char_indices().nth(2)?.0;
        let (head, tail) = word.raw.split_at(cut);
        let low = format!("{letter}{}", if letter == "j" { "e" } else { "'" });
        let middle = word.start + cut;
        (is_elided && !head.starts_with('D')).then(|| {
            [
                Word::new(head, &low, word.start, middle),
                Word::new(tail, rest, middle, word.end),
            ]
        })
    };
    words
        .iter()
        .flat_map(|word| split(word).map_or_else(|| vec![word.clone()], Vec::from))
        .collect()
}

/// "12:30", "1,500", "mailto:x": no space behind the mark.
fn is_within_number(text: &str, at: usize) -> bool {
    text.get(at + 1..)
        .and_then(|rest| rest.chars().next())
        .is_some_and(|c| !c.is_whitespace())
        && text
            .get(..at)
            .and_then(|before| before.chars().next_back())
            .is_some_and(|c| !c.is_whitespace())
}

fn finish(text: &str, begun: &mut Option<usize>, end: usize, words: &mut Vec<Word>) {
    let Some(whole) = begun.take().and_then(|start| text.get(start..end)) else {
        return;
    };
    let trimmed = whole.trim_start_matches(['*', '_', '"']);
    let start = end - trimmed.len();
    let raw = trimmed.trim_end_matches(['*', '_', '"', '!', '?', '…', '。', '！', '？']);
    // The stop of "Dr." is its own; the last one of a sentence is not, see `low`.
    let end = start + raw.len();
    if raw == "&" {
        return words.push(Word::new("and", "and", start, end));
    }
    if matches!(raw, "-" | "–" | "—" | "--") {
        return words.push(Word::new("–", "–", start, end));
    }
    // A smiley says nothing; what was covered says that something is missing.
    let is_word = |c: char| c.is_alphanumeric() || c == super::sentence::HOLE;
    if !raw.chars().any(is_word) {
        return;
    }
    let low = raw.replace('’', "'").to_lowercase();
    let low = low.trim_end_matches('.');
    let Some((head, tail)) = contraction(low) else {
        return words.push(Word::new(raw, low, start, end));
    };
    let letters = head.chars().count();
    let cut = start + raw.chars().take(letters).map(char::len_utf8).sum::<usize>();
    let first = if matches!(head, "wo" | "sha") {
        "will"
    } else {
        head
    };
    let part = |from, to| text.get(from..to).unwrap_or("");
    words.push(Word::new(part(start, cut), first, start, cut));
    words.push(Word::new(part(cut, end), tail, cut, end));
}

/// Returns the two words `low` is made of.
fn contraction(low: &str) -> Option<(&str, &'static str)> {
    match low {
        "im" => return Some(("i", "am")),
        "ive" => return Some(("i", "have")),
        "dont" => return Some(("do", "not")),
        "doesnt" => return Some(("does", "not")),
        "let's" => return None,
        "can't" | "cannot" => return Some(("can", "not")),
        _ => {}
    }
    let ends = [
        ("n't", "not"),
        ("'m", "am"),
        ("'ve", "have"),
        ("'re", "are"),
        ("'ll", "will"),
        ("'d", "would"),
        ("'s", "'s"),
        ("s'", "'s"),
    ];
    let (end, tail) = ends.into_iter().find(|(end, _)| low.ends_with(end))?;
    let head = low.strip_suffix(if end == "s'" { "'" } else { end })?;
    (!head.is_empty()).then_some((head, tail))
}
