//! The last line of output of a running command, for progress displays.

use parking_lot::Mutex;

use crate::text;

/// Bytes that are kept of a line: what is shown is cut after secrets are taken out, so that none is torn.
const KEPT: usize = 4096;
/// Characters that are shown.
const SHOWN: usize = 200;

/// Takes in output and keeps the last line that is not blank.
#[derive(Default)]
pub(super) struct Tail(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    /// The line that is being written.
    now: Vec<u8>,
    /// The one before that had something on it.
    before: Vec<u8>,
    changed: bool,
}

impl Tail {
    /// Takes in the next piece of output.
    pub(super) fn push(&self, bytes: &[u8]) {
        // Of a flood only the end matters.
        let bytes = bytes
            .get(bytes.len().saturating_sub(2 * KEPT)..)
            .unwrap_or_default();
        let mut lines = self.0.lock();
        // A bar of progress goes back to the start of its line.
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            lines.take(piece);
        }
        lines.changed = true;
    }

    /// Returns the last words when there are new ones: one line, without secrets, nothing hidden in it.
    pub(super) fn news(&self) -> Option<String> {
        let mut lines = self.0.lock();
        let line = if is_blank(&lines.now) {
            &lines.before
        } else {
            &lines.now
        };
        let line = String::from_utf8_lossy(line).into_owned();
        let changed = std::mem::take(&mut lines.changed);
        drop(lines);
        let words = text::visible(crate::secret::redact(&line).trim());
        (changed && !words.is_empty()).then(|| text::tail(&words, SHOWN).to_owned())
    }
}

impl Lines {
    fn take(&mut self, piece: &[u8]) {
        let (words, ends) = match piece.split_last() {
            Some((b'\n' | b'\r', words)) => (words, true),
            _ => (piece, false),
        };
        self.now.extend_from_slice(words);
        let surplus = self.now.len().saturating_sub(KEPT);
        self.now.drain(..surplus);
        if ends {
            let line = std::mem::take(&mut self.now);
            if !is_blank(&line) {
                self.before = line;
            }
        }
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_words_is_told_once() {
        let tail = Tail::default();
        assert_eq!(tail.news(), None);
        let mut told = Vec::new();
        for piece in [
            "Compi",
            "ling a\n",
            "\n  \n",
            "10 %\r20 %\r",
            "done\x1b[1m\n",
        ] {
            tail.push(piece.as_bytes());
            told.push(tail.news().unwrap_or_default());
            assert_eq!(tail.news(), None);
        }
        assert_eq!(
            told,
            [
                "Compi",
                "Compiling a",
                "Compiling a",
                "20 %",
                "done\\u{1b}[1m"
            ]
        );
    }

    #[test]
    fn a_flood_and_a_secret_leave_little() {
        let _secret = crate::secret::Secret::new("sk-tail-canary-0123456789");
        let tail = Tail::default();
        tail.push(format!("{}sk-tail-canary-0123456789 end", "x".repeat(100_000)).as_bytes());
        let told = tail.news().unwrap();
        assert!(
            told.ends_with("x[redacted] end") && told.chars().count() == SHOWN,
            "{told}"
        );
        tail.push(&[0xff; 10]);
        assert!(tail.news().is_some());
    }
}
