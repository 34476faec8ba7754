//! The width of text on a terminal, and cutting to fit.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Returns how many columns `words` takes at most.
///
/// Terminals do not agree on letters that are made of several characters (a thumb with a skin
/// colour, a heart with a variation selector): the wider opinion counts, because a line that is too
/// short does no harm. A soft hyphen is a column on most terminals and nothing in the tables.
pub(in crate::app) fn width(words: &str) -> usize {
    if words.is_ascii() {
        words.len()
    } else {
        words.graphemes(true).map(letter_width).sum()
    }
}

fn letter_width(letter: &str) -> usize {
    let parts = letter
        .chars()
        .map(|c| {
            if c == '\u{ad}' {
                1
            } else {
                c.width().unwrap_or(0)
            }
        })
        .sum();
    letter.width().max(parts)
}

/// Returns `words`, or as much of it as fits with `…` at its end.
pub(in crate::app) fn cut(words: &str, columns: usize) -> String {
    if width(words) <= columns {
        return words.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    format!("{}…", fitting(words, room))
}

/// Returns `words`, or as much of its end as fits with `…` before it.
pub(in crate::app) fn cut_front(words: &str, columns: usize) -> String {
    if width(words) <= columns {
        return words.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    let (mut used, mut start) = (0, words.len());
    for (at, letter) in words.grapheme_indices(true).rev() {
        used += letter_width(letter);
        if used > room {
            break;
        }
        start = at;
    }
    format!("…{}", words.get(start..).unwrap_or_default())
}

/// Returns as much of the beginning of `words` as fits.
pub(in crate::app) fn fitting(words: &str, columns: usize) -> &str {
    let (mut used, mut end) = (0, 0);
    for (at, letter) in words.grapheme_indices(true) {
        used += letter_width(letter);
        if used > columns {
            break;
        }
        end = at + letter.len();
    }
    words.get(..end).unwrap_or_default()
}
