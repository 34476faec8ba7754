//! A reply as it is written, for `agent-send --stream`: it grows in `replies/<id>.part`.

use parking_lot::Mutex;
use std::path::Path;

use super::silence;
use crate::agent::Written;
use crate::control::replies::Part;

/// The file and what is held back.
pub(crate) struct Stream(Mutex<Inner>);

struct Inner {
    /// `None` when it could not be made or written: the reply comes whole in the end.
    part: Option<Part>,
    /// Words of this answer that may still turn out to be silence.
    held: String,
    /// Whether words of this answer are in the file.
    shown: bool,
    /// Whether an earlier answer's are, and nothing parts it from this one.
    joint: bool,
}

impl Stream {
    /// Begins the file of command `id`.
    pub(crate) fn begin(replies: &Path, id: &str) -> Self {
        let part = Part::begin(replies, id)
            .inspect_err(
                |error| tracing::warn!(%error, "a reply cannot be shown while it is written"),
            )
            .ok();
        Self(Mutex::new(Inner {
            part,
            held: String::new(),
            shown: false,
            joint: false,
        }))
    }

    /// Takes in what the model writes.
    pub(crate) fn write(&self, written: Written<'_>) {
        self.0.lock().write(written);
    }
}

impl Inner {
    fn write(&mut self, written: Written<'_>) {
        match written {
            Written::Begin => {
                self.joint |= self.shown;
                self.shown = false;
                self.held.clear();
            }
            Written::Beside(..) => {}
            Written::Text(text) if self.shown => self.put(text),
            Written::Text(text) => {
                self.held.push_str(text);
                if !silence::may_become(&self.held) {
                    let mut words = std::mem::take(&mut self.held);
                    if std::mem::take(&mut self.joint) {
                        words.insert_str(0, "\n\n");
                    }
                    self.put(&words);
                    self.shown = true;
                }
            }
        }
    }

    fn put(&mut self, words: &str) {
        if let Some(part) = &mut self.part
            && let Err(error) = part.append(words)
        {
            tracing::warn!(%error, "a reply is no longer shown while it is written");
            self.part = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parted_and_silence_is_not_shown() {
        let dir = tempfile::tempdir().expect("dir");
        let stream = Stream::begin(dir.path(), "a");
        let shown = || std::fs::read_to_string(dir.path().join("a.part")).expect("part");
        assert_eq!(shown(), "");
        let say = |texts: &[&str]| {
            stream.write(Written::Begin);
            texts
                .iter()
                .for_each(|text| stream.write(Written::Text(text)));
            shown()
        };
        assert_eq!(say(&["Let", " me ", "look."]), "Let me look.");
        assert_eq!(say(&[]), "Let me look.");
        assert_eq!(say(&["N", "O", "_REPLY"]), "Let me look.");
        assert_eq!(say(&["N", "o", " news"]), "Let me look.\n\nNo news");
        drop(stream);
        assert!(
            !dir.path().join("a.part").exists(),
            "the reply itself is there now"
        );
    }
}
