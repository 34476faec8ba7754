//! Commands of the chat: texts that begin with a slash, and the menu that shows them.

use teloxide::types::BotCommand;

use crate::message::Command;

/// Returns the command that `text` is; with `@name` it must be meant for us (`username`, when it
/// is known). Anything else, an unknown `/word` too, is for the model.
pub(crate) fn parse(text: &str, username: Option<&str>) -> Option<Command> {
    let text = text.trim();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let word = word.strip_prefix('/')?;
    let (word, to) = word
        .split_once('@')
        .map_or((word, None), |(word, to)| (word, Some(to)));
    if let (Some(to), Some(username)) = (to, username)
        && !to.eq_ignore_ascii_case(username)
    {
        return None;
    }
    Command::spoken(word, rest)
}

/// Returns the commands as Telegram's menu shows them to an owner, or to everybody.
pub(crate) fn menu(owner: bool) -> Vec<BotCommand> {
    let everybody = [
        ("start", "Say hello"),
        ("new", "Start a new conversation"),
        ("reset", "Start a new conversation, as /new"),
        ("compact", "Summarise the conversation so far"),
        ("stop", "Stop what I am doing"),
        ("status", "What I am doing"),
        ("help", "What I understand"),
    ];
    let owners = [
        ("approve", "Let me do what I asked for: /approve ID"),
        ("deny", "Do not let me, and say why: /deny ID WHY"),
        (
            "answer",
            "Answer a question of a tool server: /answer ID WORDS",
        ),
        (
            "continue",
            "Go on here with a conversation from elsewhere: /continue mail",
        ),
        ("model", "Which model answers here"),
        ("undo", "Undo my last changes to files"),
        ("forget", "Forget a fact: /forget NAME, or words of it"),
        ("cost", "What I cost"),
        ("jobs", "What I do at its times"),
    ];
    let owners = owners.into_iter().filter(|_| owner);
    everybody
        .into_iter()
        .chain(owners)
        .map(|(command, description)| BotCommand::new(command, description))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Approval;

    #[test]
    fn the_menu_shows_commands_that_exist_and_owners_their_own() {
        let (everybody, owners) = (menu(false), menu(true));
        assert_eq!((everybody.len(), owners.len()), (7, 16));
        assert_eq!(owners[..7], everybody);
        for entry in &owners {
            assert!(Command::spoken(&entry.command, "").is_some(), "{entry:?}");
            assert!(!entry.description.is_empty());
        }
    }

    #[test]
    fn commands_are_whole_words_meant_for_us() {
        let new = |model: Option<&str>, words: Option<&str>| Command::New {
            model: model.map(str::to_owned),
            words: words.map(str::to_owned),
        };
        let deny = Command::Approval {
            id: "k3f9w2".into(),
            verdict: Approval::Deny,
            why: Some("NOT that\none".into()),
        };
        let (big, run) = (Some("Big".to_owned()), Some("0199-ab".to_owned()));
        for (text, expected) in [
            (" /NEW", Some(Command::NEW)),
            ("/reset", Some(Command::NEW)),
            (
                "/New@Our_Bot  How are\nYOU? ",
                Some(new(None, Some("How are\nYOU?"))),
            ),
            ("/RESET Big", Some(new(Some("Big"), None))),
            (
                "/reset big How are YOU?",
                Some(new(Some("big"), Some("How are YOU?"))),
            ),
            ("/compact", Some(Command::Compact)),
            ("/model", Some(Command::Model { choice: None })),
            ("/Model Big", Some(Command::Model { choice: big })),
            ("/deny@our_bot k3f9w2 NOT that\none", Some(deny)),
            ("/approve@other_bot k3f9w2", None),
            ("/undo", Some(Command::Undo { run: None })),
            ("/UNDO 0199-ab ", Some(Command::Undo { run })),
            ("/stop@our_bot", Some(Command::Stop { all: false })),
            ("/stop@other_bot", None),
            ("/newspaper", None),
            ("tell me about /new", None),
            ("", None),
        ] {
            assert_eq!(parse(text, Some("our_bot")), expected, "{text}");
        }
    }
}
