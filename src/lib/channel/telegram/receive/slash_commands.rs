//! The words that begin with a slash.

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
        ("new", "Begin a new conversation"),
        ("compact", "Sum up what was said so far"),
        ("stop", "Stop what I am doing"),
        ("status", "What I am doing"),
        ("help", "What I understand"),
    ];
    let owners = [
        ("approve", "Let me do what I asked for: /approve ID"),
        ("deny", "Do not let me, and say why: /deny ID WHY"),
        ("model", "Which model answers here"),
        ("undo", "Take back what I last changed in files"),
        (
            "forget",
            "What is no longer to count: /forget NAME, or words of a fact",
        ),
        ("cost", "What I cost"),
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
    fn the_menu_shows_what_there_is_and_owners_their_own() {
        let names = |owner| {
            menu(owner)
                .into_iter()
                .map(|entry| entry.command)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["new", "compact", "stop", "status", "help"]);
        assert_eq!(
            names(true),
            [
                "new", "compact", "stop", "status", "help", "approve", "deny", "model", "undo",
                "forget", "cost"
            ]
        );
        assert!(
            menu(true)
                .iter()
                .all(|entry| Command::spoken(&entry.command, "").is_some()
                    && !entry.description.is_empty())
        );
    }

    #[test]
    fn commands_are_whole_words_meant_for_us() {
        let parse = |text| parse(text, Some("our_bot"));
        let new = |model: Option<&str>, words: Option<&str>| {
            Some(Command::New {
                model: model.map(str::to_owned),
                words: words.map(str::to_owned),
            })
        };
        assert_eq!(parse(" /NEW"), Some(Command::ANEW));
        assert_eq!(
            parse("/New@Our_Bot  How are YOU?\nWell? "),
            new(None, Some("How are YOU?\nWell?"))
        );
        assert_eq!(parse("/reset"), Some(Command::ANEW));
        assert_eq!(parse("/RESET Big"), new(Some("Big"), None));
        assert_eq!(
            parse("/reset big How are YOU?"),
            new(Some("big"), Some("How are YOU?"))
        );
        assert_eq!(parse("/compact"), Some(Command::Compact));
        assert_eq!(parse("/model"), Some(Command::Model { choice: None }));
        assert_eq!(
            parse("/Model Big"),
            Some(Command::Model {
                choice: Some("Big".into())
            })
        );
        let no = |why: &str| {
            Some(Command::Approval {
                id: "k3f9w2".into(),
                verdict: Approval::Deny,
                why: Some(why.into()),
            })
        };
        assert_eq!(
            parse("/deny@our_bot k3f9w2 NOT that\none"),
            no("NOT that\none")
        );
        assert_eq!(parse("/approve@other_bot k3f9w2"), None);
        assert_eq!(parse("/undo"), Some(Command::Undo { run: None }));
        assert_eq!(
            parse("/UNDO 0199-ab "),
            Some(Command::Undo {
                run: Some("0199-ab".into())
            })
        );
        assert_eq!(parse("/stop@our_bot"), Some(Command::Stop { all: false }));
        assert_eq!(parse("/stop@other_bot"), None);
        assert_eq!(parse("/newspaper"), None);
        assert_eq!(parse("tell me about /new"), None);
        assert_eq!(parse(""), None);
    }
}
