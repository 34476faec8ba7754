//! The text that the model has written so far, for live views.

use parking_lot::Mutex;

use tokio::time::Instant;
use unicode_segmentation::UnicodeSegmentation;

use super::WORDS;
use crate::agent::Written;
use crate::pipeline::turn::silence;

/// The most that is shown, UTF-16 units: a message has 4096, the line below needs some of them.
const MOST: usize = 4000;
/// How far a cut continues for the next word to begin with it.
const TO_A_WORD: usize = 40;

/// The words of a run.
#[derive(Debug, Default)]
pub(super) struct Words(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The newest answer that had words, before the one that is written now.
    last: String,
    now: String,
    /// Whether `now` has words that cannot become silence any more.
    coming: bool,
    /// When the first words of all came.
    since: Option<Instant>,
}

/// Words to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// The words, or the end of them after `…`.
    pub text: String,
    /// Whether the model is at it.
    pub coming: bool,
}

impl Words {
    /// Takes in what the model writes.
    pub(super) fn write(&self, written: Written<'_>) {
        let mut inner = self.0.lock();
        match written {
            Written::Begin => {
                let before = std::mem::take(&mut inner.now);
                if std::mem::take(&mut inner.coming) {
                    inner.last = before;
                }
            }
            Written::Beside(..) => {}
            Written::Text(text) => {
                inner.now.push_str(text);
                if !inner.coming && !silence::may_become(&inner.now) {
                    inner.coming = true;
                    inner.since.get_or_insert_with(Instant::now);
                }
            }
        }
    }

    /// Returns what may be shown at `now`.
    pub(super) fn read(&self, now: Instant) -> Option<Said> {
        let inner = self.0.lock();
        let text = if inner.coming {
            &inner.now
        } else {
            &inner.last
        };
        let ripe = inner.since.is_some_and(|since| now >= since + WORDS);
        ripe.then(|| Said {
            text: end_of(text.trim(), MOST),
            coming: inner.coming,
        })
    }
}

/// Returns `text`, or its end after `…` when it has more than `most` UTF-16 units: who reads along has
/// read the beginning.
fn end_of(text: &str, most: usize) -> String {
    // Units are never more than bytes.
    if text.len() <= most || text.encode_utf16().count() <= most {
        return text.to_owned();
    }
    let mut left = most - 1;
    let mut from = text.len();
    for (at, letter) in text.grapheme_indices(true).rev() {
        let units = letter.encode_utf16().count();
        if units > left {
            break;
        }
        (left, from) = (left - units, at);
    }
    let end = text.get(from..).unwrap_or_default();
    let word = end
        .char_indices()
        .take(TO_A_WORD)
        .find(|(_, c)| c.is_whitespace());
    let end = word.and_then(|(at, _)| end.get(at..)).unwrap_or(end);
    format!("…{}", end.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(words: &Words, texts: &[&str]) {
        words.write(Written::Begin);
        texts
            .iter()
            .for_each(|text| words.write(Written::Text(text)));
    }

    fn read(words: &Words) -> Option<(String, bool)> {
        words
            .read(Instant::now() + WORDS)
            .map(|said| (said.text, said.coming))
    }

    #[test]
    fn the_newest_answer_with_words_is_shown_and_silence_is_not() {
        let words = Words::default();
        write(&words, &[" N", "O_", "REPLY"]);
        assert_eq!(read(&words), None);
        write(&words, &["Let me", " look.\n"]);
        assert_eq!(words.read(Instant::now()), None, "it has only just come");
        assert_eq!(read(&words), Some(("Let me look.".to_owned(), true)));
        for silence in [&[][..], &["NO_"], &["HEARTBEAT_OK"]] {
            write(&words, silence);
            assert_eq!(read(&words), Some(("Let me look.".to_owned(), false)));
        }
        write(&words, &["NO_", "one is there"]);
        assert_eq!(read(&words), Some(("NO_one is there".to_owned(), true)));
    }

    #[test]
    fn of_a_long_answer_the_end_is_shown() {
        assert_eq!(end_of("12345", 5), "12345");
        assert_eq!(end_of("123456", 5), "…3456");
        assert_eq!(end_of("one two three", 10), "…three");
        assert_eq!(end_of("éééééé", 6), "éééééé", "units, not bytes");
        // Three of eight units each, and one that does not fit.
        let family = "👨‍👩‍👧";
        assert_eq!(
            end_of(&family.repeat(4), 26),
            format!("…{}", family.repeat(3))
        );
        assert_eq!(
            end_of(&format!("{} {}", "x".repeat(30), "y".repeat(50)), 60),
            format!("…{}", "y".repeat(50))
        );
    }
}
