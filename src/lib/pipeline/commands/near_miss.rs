//! A typing error in a command: the sender is asked, and nothing is sent to a model. Any other word with a slash is a message,
//! because it may be the name of a skill.

use crate::config::edits;
use crate::message::Command;

/// It is before the words that it is about, and is a message with them.
const ALLOW_SECRET: &str = "allow-secret";

/// Returns the answer to a message that is nearly a command, such as `/stauts`; `None` for any other.
pub(in crate::pipeline) fn near_miss(text: &str) -> Option<Command> {
    let text = text.trim().strip_prefix('/')?;
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let written = word.to_ascii_lowercase();
    let is_command = Command::spoken(word, rest).is_some();
    if !is_word(&written) || is_command {
        return None;
    }
    if written == ALLOW_SECRET {
        let question = "put /allow-secret before the text to send: /allow-secret WORDS";
        return rest.is_empty().then(|| slip(question.to_owned()));
    }
    // A text of several lines is pasted, and was meant for the agent.
    if rest.contains('\n') {
        return None;
    }
    let names = Command::NAMES.into_iter().chain([ALLOW_SECRET]);
    let (far, name) = names.map(|name| (edits(&written, name), name)).min()?;
    // Of a short word one other letter is a slip, and two make another word.
    let enough = if written.len() < 5 { 1 } else { 2 };
    (far <= enough).then(|| slip(format!("Unknown command /{word}; did you mean /{name}?")))
}

fn slip(question: String) -> Command {
    Command::Slip { question }
}

/// Returns true for what a command may be called; a path, a number or a smiley is none.
fn is_word(written: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase();
    written.len() <= 32
        && written.bytes().next().is_some_and(is_letter)
        && written
            .bytes()
            .all(|byte| is_letter(byte) || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_asked_about_and_any_other_word_is_a_message() {
        let asked = |text: &str| match near_miss(text) {
            Some(Command::Slip { question }) => question,
            _ => panic!("{text} is a message"),
        };
        for (slip, meant) in [
            ("/stauts", "/status"),
            ("/Stats", "/status"),
            ("/jbos", "/jobs"),
            ("/job list", "/jobs"),
            (" /halp ", "/help"),
            ("/aprove k3f9w2", "/approve"),
            ("/modle big", "/model"),
            ("/stauts of the build", "/status"),
            ("/alow-secret a b", "/allow-secret"),
        ] {
            let question = asked(slip);
            assert!(
                question.ends_with(&format!("did you mean {meant}?")),
                "{question}"
            );
        }
        assert!(asked("/allow-secret").contains("/allow-secret WORDS"));
        for message in [
            "/status",
            "/etc",
            "/usr/bin",
            "/tmp",
            "/export this:\na\nb",
            "/allow-secret the key is 1",
            "stauts",
            "/",
            "/ export",
            "/home",
            "/weather",
            "/remind me at nine",
            "/2",
            "//",
        ] {
            assert_eq!(near_miss(message), None, "{message}");
        }
        for name in Command::NAMES {
            assert!(Command::spoken(name, "").is_some(), "{name}");
        }
    }
}
