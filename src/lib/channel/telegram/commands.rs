//! The words that begin with a slash.

use teloxide::types::BotCommand;

use crate::message::Command;

/// Returns the command that `text` is; with `@name` it must be meant for us (`username`, when it
/// is known). Anything else, an unknown `/word` too, is for the model.
pub(super) fn parse(text: &str, username: Option<&str>) -> Option<Command> {
    let word = text.split_whitespace().next()?.strip_prefix('/')?;
    let (word, to) = word.split_once('@').map_or((word, None), |(word, to)| (word, Some(to)));
    if let (Some(to), Some(username)) = (to, username)
        && !to.eq_ignore_ascii_case(username)
    {
        return None;
    }
    Command::named(word)
}

/// Returns the commands as Telegram's menu shows them to an owner, or to everybody.
pub(super) fn menu(owner: bool) -> Vec<BotCommand> {
    let everybody = [
        ("new", "Begin a new conversation"),
        ("stop", "Stop what I am doing"),
        ("status", "What I am doing"),
        ("help", "What I understand"),
    ];
    let owners = [("cost", "What I cost")].into_iter().filter(|_| owner);
    everybody.into_iter().chain(owners).map(|(command, description)| BotCommand::new(command, description)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_menu_shows_what_there_is_and_owners_their_own() {
        let names = |owner| menu(owner).into_iter().map(|entry| entry.command).collect::<Vec<_>>();
        assert_eq!(names(false), ["new", "stop", "status", "help"]);
        assert_eq!(names(true), ["new", "stop", "status", "help", "cost"]);
        assert!(menu(true).iter().all(|entry| Command::named(&entry.command).is_some() && !entry.description.is_empty()));
    }

    #[test]
    fn commands_are_whole_words_meant_for_us() {
        let parse = |text| parse(text, Some("our_bot"));
        assert_eq!(parse("/NEW please"), Some(Command::New));
        assert_eq!(parse("/stop@our_bot"), Some(Command::Stop { all: false }));
        assert_eq!(parse("/stop@other_bot"), None);
        assert_eq!(parse("/newspaper"), None);
        assert_eq!(parse("tell me about /new"), None);
        assert_eq!(parse(""), None);
    }
}
