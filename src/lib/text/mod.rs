//! Cutting and measuring text without breaking it: every shortened string is made here.

pub mod argv;
pub mod front_matter;
mod hex;
pub mod hidden_chars;
mod host_port;
pub(crate) mod json;
mod line_diff;
mod squeeze;
pub mod template;

pub use hex::{hex, percent_encoded, sha256_hex, sha256_of, unhex};
pub use host_port::HostPort;
pub use line_diff::line_diff;
pub use squeeze::squeeze;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Characters of a token, where room in tokens is to be filled with text.
pub const CHARS_PER_TOKEN: usize = 4;

/// Returns the estimated tokens of `text`: `ceil(chars / 4 × 1.2)`, the specification's estimate
/// for what no vendor has counted yet.
pub fn estimate_tokens(text: &str) -> u64 {
    (text.chars().count() as u64 * 3).div_ceil(10)
}

/// Returns the longest prefix of at most `max` characters that ends between graphemes.
pub fn head(text: &str, max: usize) -> &str {
    let Some((limit, _)) = text.char_indices().nth(max) else {
        return text;
    };
    // Only what stands around the limit is looked at, however long the text is.
    let mut cursor = GraphemeCursor::new(limit, text.len(), true);
    let end = match cursor.is_boundary(text, 0) {
        Ok(true) => limit,
        _ => cursor.prev_boundary(text, 0).ok().flatten().unwrap_or(0),
    };
    text.get(..end).unwrap_or("")
}

/// Returns the longest suffix of at most `max` characters that begins between graphemes.
pub fn tail(text: &str, max: usize) -> &str {
    let chars = text.chars().count();
    if chars <= max {
        return text;
    }
    let limit = text
        .char_indices()
        .nth(chars - max)
        .map_or(text.len(), |(at, _)| at);
    let start = text
        .grapheme_indices(true)
        .map(|(at, _)| at)
        .find(|at| *at >= limit)
        .unwrap_or(text.len());
    text.get(start..).unwrap_or("")
}

/// Returns `text`, or its head with `…` when it has more than `max` characters.
pub fn shorten(text: &str, max: usize) -> String {
    let short = head(text, max);
    if short.len() == text.len() {
        text.to_owned()
    } else {
        format!("{short}…")
    }
}

/// Returns words that somebody else may have chosen between quotation marks, which they do not have themselves.
pub fn quoted(words: &str) -> String {
    format!("“{}”", words.replace(['“', '”'], "\""))
}

/// Returns `name` as a name of a file that leads nowhere else: letters, digits and `signs`, `_` for every other.
pub fn file_name(name: &str, signs: &str) -> String {
    let fits = |c: char| c.is_alphanumeric() || signs.contains(c);
    let name: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '_' })
        .collect();
    if name.chars().all(|c| c == '.') {
        "_".to_owned()
    } else {
        name
    }
}

/// Returns true when `word` (one or several) is in `text` and is not a part of a longer word there; both in the same letter
/// case. Scripts without spaces between words do not show where one ends: there it counts wherever it is.
pub fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let after = text.get(at + word.len()..).unwrap_or_default();
        begins_at(text, word, at) && !goes_on(word.chars().next_back(), after.chars().next())
    })
}

/// Returns true when a word in `text` begins with `word`; see [`has_word`].
pub fn has_beginning(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| begins_at(text, word, at))
}

fn begins_at(text: &str, word: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    !goes_on(word.chars().next(), before.chars().next_back())
}

/// Returns true when the word to which `inner` belongs continues with `outer`.
fn goes_on(inner: Option<char>, outer: Option<char>) -> bool {
    outer.is_some_and(|c| c.is_alphanumeric() && !stands_together(c))
        && !inner.is_some_and(stands_together)
}

/// Letters of scripts that put no space between words (Thai, Lao, Burmese, Khmer, Chinese, Japanese), or whose endings grow
/// on to a name (Korean).
fn stands_together(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns `text`, or when it has more than `max` characters its first `head_percent` % and its
/// last 20 % of `max` with a marker between that says how much was left out.
pub fn head_and_tail(text: &str, max: usize, head_percent: usize) -> String {
    let chars = text.chars().count();
    if chars <= max {
        return text.to_owned();
    }
    let first = head(text, max * head_percent / 100);
    let last = tail(text, max / 5);
    let kept = first.chars().count() + last.chars().count();
    format!(
        "{first}\n[… {} characters left out …]\n{last}",
        chars - kept
    )
}

/// Returns a number for a narrow column, three digits of it: `999`, `12.3k`, `4.6M`.
pub fn count(number: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1000, "k")];
    match units.into_iter().find(|(unit, _)| number >= *unit) {
        Some((unit, name)) if number >= 100 * unit => format!("{}{name}", number / unit),
        Some((unit, name)) => format!("{}.{}{name}", number / unit, number % unit * 10 / unit),
        None => number.to_string(),
    }
}

/// Returns a span of time in its two largest units: `120 ms`, `1.2 s`, `3 min 5 s`, `2 h 5 min`, `1 d 1 h`.
pub fn span(ms: i64) -> String {
    let secs = ms / 1_000;
    match secs {
        ..1 => format!("{} ms", ms.max(0)),
        1..60 => format!("{secs}.{} s", ms % 1_000 / 100),
        60..3_600 => format!("{} min {} s", secs / 60, secs % 60),
        3_600..86_400 => format!("{} h {} min", secs / 3_600, secs % 3_600 / 60),
        _ => format!("{} d {} h", secs / 86_400, secs % 86_400 / 3_600),
    }
}

/// Returns words on one line, with single spaces between them.
pub fn one_line(words: &str) -> String {
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns `1 file`, `2 files`.
pub fn counted<T: std::fmt::Display + PartialEq + From<u8> + Copy>(count: T, what: &str) -> String {
    let many = if count == T::from(1) { "" } else { "s" };
    format!("{count} {what}{many}")
}

/// Returns `text` on one line with control characters and those that nobody sees escaped (`\u{…}`), for
/// terminals, prompts and logs. What [`hidden_chars`] finds is among them; of what a language or an emoji needs, only
/// selectors behind a sign that they change stay as they are.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let chars: Vec<char> = text.chars().collect();
    let mut unseen = hidden_chars::hidden_at(&chars).peekable();
    for (at, c) in chars.iter().copied().enumerate() {
        let hidden = unseen.next_if_eq(&at).is_some()
            || c.is_control()
            || matches!(
                c,
                '\u{ad}'
                    | '\u{34f}'
                    | '\u{61c}'
                    | '\u{115f}'
                    | '\u{1160}'
                    | '\u{17b4}'
                    | '\u{17b5}'
                    | '\u{180e}'
                    | '\u{3164}'
                    | '\u{ffa0}'
            )
            || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0100}'..='\u{e01ef}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        if hidden {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns `text` as a person is shown what they decide about: all of it, long runs as their number ([`squeeze()`]), hidden
/// characters as their codes ([`visible`]).
pub fn for_decision(text: &str) -> String {
    let lines: Vec<String> = squeeze(text).lines().map(visible).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_family_is_not_torn_apart() {
        let family = "👨‍👩‍👧";
        assert_eq!(head(&format!("a{family}"), 3), "a");
        assert_eq!(tail(&format!("{family}b"), 3), "b");
    }

    #[test]
    fn a_span_of_time_has_its_two_largest_units() {
        let check = |ms, expected: &str| assert_eq!(span(ms), expected);
        check(-5, "0 ms");
        check(999, "999 ms");
        check(1_250, "1.2 s");
        check(59_999, "59.9 s");
        check(185_000, "3 min 5 s");
        check(7_500_000, "2 h 5 min");
        check(90_000_000, "1 d 1 h");
    }

    #[test]
    fn what_nobody_sees_is_shown_by_its_code() {
        let check = |text: &str, expected: &str| assert_eq!(visible(text), expected);
        check("a\u{180b}\u{fe00}b\tc", "a\\u{180b}\\u{fe00}b\\u{9}c");
        check(
            "\u{13430}\u{1bca0}\u{1d173}",
            "\\u{13430}\\u{1bca0}\\u{1d173}",
        );
        check("x\u{fe0f}\u{202e}", "x\\u{fe0f}\\u{202e}");
        check("❤\u{fe0f} ☎\u{fe0e} Äß 漢字", "❤\u{fe0f} ☎\u{fe0e} Äß 漢字");
        check("👩\u{200d}👧 \u{feff}", "👩\\u{200d}👧 \\u{feff}");
    }

    #[test]
    fn twenty_thousand_characters_stay_whole_and_one_more_is_cut() {
        let exact = "x".repeat(20_000);
        assert_eq!(head_and_tail(&exact, 20_000, 70), exact);
        let cut = head_and_tail(&format!("{exact}y"), 20_000, 70);
        assert_eq!(
            cut,
            format!(
                "{}\n[… 2001 characters left out …]\n{}y",
                "x".repeat(14_000),
                "x".repeat(3_999)
            )
        );
    }

    #[test]
    fn a_word_is_no_part_of_another() {
        let check =
            |text: &str, expected: bool| assert_eq!(has_word(text, "ana"), expected, "{text}");
        [
            "ana",
            "ana's",
            "(ana)",
            "call ana.",
            "banana, ana",
            "x:ana:y",
        ]
        .iter()
        .for_each(|text| check(text, true));
        ["", "anab", "banana", "jana", "anaïs", "nana", "ana2"]
            .iter()
            .for_each(|text| check(text, false));
    }

    #[test]
    fn a_word_counts_anywhere_where_words_stand_together() {
        let check = |text: &str, word: &str, expected: bool| {
            assert_eq!(has_word(text, word), expected, "{word} in {text}")
        };
        check("我的朋友李明喜欢茶", "李明", true);
        check("昨日田中さんが来た", "田中", true);
        check("민수는 내일 온다", "민수", true);
        check("คุณมาลีชอบชา", "มาลี", true);
        check("告诉ana和1002", "ana", true);
        check("告诉ana和1002", "1002", true);
        check("李小明", "李明", false);
        check("告诉diana和11002", "ana", false);
        check("告诉diana和11002", "1002", false);
    }

    #[test]
    fn large_numbers_have_three_digits() {
        let short = [0, 999, 1000, 12_345, 999_999, 4_560_000, 123_000_000_000].map(count);
        assert_eq!(short, ["0", "999", "1.0k", "12.3k", "999k", "4.5M", "123G"]);
    }

    proptest! {
        #[test]
        fn a_head_is_made_of_whole_graphemes(text in "[a🇩🇪👩\u{200d}👧\u{301}\u{1100}\u{1161}\r\n]{0,24}", max in 0usize..26) {
            let limit = text.char_indices().nth(max).map_or(text.len(), |(at, _)| at);
            let whole = text.grapheme_indices(true).map(|(at, grapheme)| at + grapheme.len());
            prop_assert_eq!(head(&text, max).len(), whole.take_while(|end| *end <= limit).last().unwrap_or(0));
        }

        #[test]
        fn head_and_tail_are_prefix_and_suffix(text in "\\PC*", max in 0usize..40) {
            prop_assert!(text.starts_with(head(&text, max)) && head(&text, max).chars().count() <= max);
            prop_assert!(text.ends_with(tail(&text, max)) && tail(&text, max).chars().count() <= max);
        }
    }
}
