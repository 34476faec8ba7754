//! The words of a sentence, with contractions taken apart: "I'm" is "i" and "am", "Ana's" is "ana" and "'s".

use super::vocabulary as v;

/// A word or a mark (`,` `;` `:` `–`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// As written.
    pub raw: String,
    /// In small letters, with a straight apostrophe, without a stop at its end.
    pub low: String,
    /// Where it stands in the sentence, in bytes.
    pub start: usize,
    pub end: usize,
}

impl Word {
    /// Returns true when it begins with a capital letter, or with a letter of a script that has none.
    pub(super) fn is_capital(&self) -> bool {
        self.raw
            .chars()
            .next()
            .is_some_and(|c| c.is_alphabetic() && !c.is_lowercase())
    }

    pub(super) fn is_mark(&self) -> bool {
        !self.low.is_empty() && self.low.chars().all(|c| matches!(c, ',' | ';' | ':' | '–'))
    }
}

/// Returns the words of `text`. What stands in parentheses is not among them.
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
                words.push(Word {
                    raw: c.to_string(),
                    low: c.to_string(),
                    start: at,
                    end: at + 1,
                });
            }
            _ => begun = begun.or(Some(at)),
        }
    }
    words
}

/// Returns `words` as French parts them: "j'habite" is "je" and "habite", "d'appeler" is "d'" and "appeler".
pub(super) fn without_elision(words: &[Word]) -> Vec<Word> {
    let split = |word: &Word| {
        let (letter, rest) = word
            .low
            .split_once('\'')
            .filter(|(_, rest)| !matches!(*rest, "" | "ici" | "accord" | "après"))?;
        // "D'Angelo" is a name.
        let cut = word.raw.char_indices().nth(2)?.0;
        let elided =
            matches!(letter, "j" | "d" | "m" | "n" | "s" | "c") && !word.raw.starts_with('D');
        let low = if letter == "j" {
            "je".to_owned()
        } else {
            format!("{letter}'")
        };
        let middle = word.start + cut;
        let (head, tail) = word.raw.split_at(cut);
        elided.then(|| {
            let head = Word {
                raw: head.to_owned(),
                low,
                start: word.start,
                end: middle,
            };
            [
                head,
                Word {
                    raw: tail.to_owned(),
                    low: rest.to_owned(),
                    start: middle,
                    end: word.end,
                },
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
    let Some(start) = begun.take() else { return };
    let Some(whole) = text.get(start..end) else {
        return;
    };
    let trimmed = whole.trim_start_matches(['*', '_', '"']);
    let start = end - trimmed.len();
    let raw = trimmed.trim_end_matches(['*', '_', '"', '!', '?', '…', '。', '！', '？']);
    // The stop of "Dr." is its own; the last one of a sentence is not, see `low`.
    let end = start + raw.len();
    if raw == "&" {
        return words.push(Word {
            raw: "and".into(),
            low: "and".into(),
            start,
            end,
        });
    }
    if matches!(raw, "-" | "–" | "—" | "--") {
        return words.push(Word {
            raw: "–".into(),
            low: "–".into(),
            start,
            end,
        });
    }
    // A smiley says nothing; what was covered says that something is missing.
    if !raw
        .chars()
        .any(|c| c.is_alphanumeric() || c == super::sentence::HOLE)
    {
        return;
    }
    let low = raw.replace('’', "'").to_lowercase();
    let low = low.trim_end_matches('.');
    let Some((head, tail)) = contraction(low) else {
        return words.push(Word {
            raw: raw.into(),
            low: low.into(),
            start,
            end,
        });
    };
    let letters = head.chars().count();
    let cut = start + raw.chars().take(letters).map(char::len_utf8).sum::<usize>();
    let first = if head == "wo" || head == "sha" {
        "will"
    } else {
        head
    };
    let raw_first = text.get(start..cut).unwrap_or(raw);
    words.push(Word {
        raw: raw_first.into(),
        low: first.into(),
        start,
        end: cut,
    });
    words.push(Word {
        raw: text.get(cut..end).unwrap_or("").into(),
        low: tail.into(),
        start: cut,
        end,
    });
}

/// Returns the two words `low` is made of.
fn contraction(low: &str) -> Option<(&str, &'static str)> {
    match low {
        "cannot" => return Some(("can", "not")),
        "im" => return Some(("i", "am")),
        "ive" => return Some(("i", "have")),
        "dont" => return Some(("do", "not")),
        "doesnt" => return Some(("does", "not")),
        "let's" => return None,
        "can't" => return Some(("can", "not")),
        _ => {}
    }
    let ends: [(&str, &'static str); 8] = [
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

/// Returns the base form of the verbs the rules know: "lives" → "live", "am" → "be".
pub(super) fn base(low: &str) -> &str {
    v::FORMS
        .iter()
        .find(|(form, _)| *form == low)
        .map_or(low, |(_, base)| base)
}

/// Returns where `phrase` ends when the words at `at` are its.
pub(super) fn phrase_at(words: &[Word], at: usize, phrase: &str) -> Option<usize> {
    // Nearly all do not, and this is cheap.
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

/// Returns true when one of `phrases` stands anywhere in `words`.
pub(super) fn has_any(words: &[Word], phrases: &str) -> bool {
    let lows: Vec<&str> = words.iter().map(|word| word.low.as_str()).collect();
    let text = lows.join(" ");
    phrases.split('|').any(|phrase| v::stands_in(&text, phrase))
}
