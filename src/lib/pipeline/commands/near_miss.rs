//! A slip in a command: it is asked about instead of being sent to a model.

use crate::config::edits;
use crate::message::Command;

/// Returns the answer to a message that is nearly a command, such as `/stauts`; `None` for any other.
pub(in crate::pipeline) fn near_miss(text: &str) -> Option<Command> {
    let text = text.trim().strip_prefix('/')?;
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let written = word.to_ascii_lowercase();
    let is_word = written.bytes().all(|byte| byte.is_ascii_lowercase());
    if !is_word || written.len() > 16 || Command::spoken(word, rest).is_some() {
        return None;
    }
    let by_distance = Command::NAMES.map(|name| (edits(&written, name), name));
    let (far, name) = by_distance.into_iter().min()?;
    let takes_words = Command::spoken(name, rest).is_some_and(|command| command.takes_words());
    // Of a short word one other letter is a slip, and two make another word.
    let enough = if written.len() < 5 { 1 } else { 2 };
    (far <= enough && (rest.is_empty() || takes_words)).then(|| Command::Slip {
        question: format!("Unknown command /{word}; did you mean /{name}?"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_asked_about_and_any_other_word_is_a_message() {
        for (slip, meant) in [
            ("/stauts", "/status"),
            ("/Stats", "/status"),
            ("/jbos", "/jobs"),
            (" /halp ", "/help"),
            ("/aprove k3f9w2", "/approve"),
            ("/modle big", "/model"),
        ] {
            let Some(Command::Slip { question }) = near_miss(slip) else {
                panic!("{slip} is a message");
            };
            assert!(
                question.ends_with(&format!("did you mean {meant}?")),
                "{question}"
            );
        }
        for message in [
            "/status",
            "/etc",
            "/usr/bin",
            "/tmp",
            "/stauts of the build",
            "stauts",
            "/",
            "/home",
            "/weather",
        ] {
            assert_eq!(near_miss(message), None, "{message}");
        }
        for name in Command::NAMES {
            assert!(Command::spoken(name, "").is_some(), "{name}");
        }
    }
}
