//! What is said without any tool: who we are, what we can do, small talk, and what a language is.

use super::intent::{Talk, Topic};
use super::language;
use super::request::Turn;
use super::{quote, words};

/// The first reply of a conversation has this in it.
pub(super) const NO_MODEL: &str = "No language model is configured";
const CONFIGURE: &str = "To give me a model, describe it in a file in `providers.d/` and name that file in `[providers] load` of `agent.toml`.";
/// The first answer to a statement has this in it.
const STAYS: &str = "What you tell me stays in this conversation";
const ENGLISH_ONLY: &str = "I understand English phrases only";

/// Returns that there is no model, what can be done all the same with the tools on offer, and how to
/// get a model.
pub(super) fn introduction(turn: &Turn<'_>) -> String {
    let abilities = [
        ("memory_write", "“remember that …” keeps a note"),
        (
            "memory_search",
            "a question is answered with what stands in notes, files and ended conversations",
        ),
        (
            "",
            "“summarise: TEXT” picks the sentences that say most, also of a file that comes with it",
        ),
        (
            "read",
            "`summarise FILE` does so with a file of the workspace, `!read FILE` shows it",
        ),
        ("memory_search", "`!search WORDS` shows what is found"),
        ("exec", "`!exec COMMAND` runs a command"),
    ];
    let lines = abilities.iter().filter(|(tool, _)| {
        tool.is_empty() || turn.request.tools.iter().any(|spec| spec.name == *tool)
    });
    let lines: Vec<String> = lines.map(|(_, line)| format!("- {line}")).collect();
    format!(
        "{NO_MODEL}, so I can only do simple things:\n{}\n\n{CONFIGURE}",
        lines.join("\n")
    )
}

/// Returns `short`, in a conversation without an introduction followed by one.
fn introduced(short: &str, turn: &Turn<'_>) -> String {
    if turn.has_said(NO_MODEL) {
        short.to_owned()
    } else {
        format!("{short} {}", introduction(turn))
    }
}

/// Answers a question about the agent.
pub(super) fn about(topic: Topic, turn: &Turn<'_>) -> String {
    let greeting = if words::after_any(turn.words, "hello|hi|hey").is_some() {
        "Hello! "
    } else {
        ""
    };
    match topic {
        Topic::Who => {
            let name = turn.name().map_or_else(|| "an assistant".to_owned(), quote);
            format!(
                "{greeting}I am {name}, a program on your machine. {}",
                introduction(turn)
            )
        }
        Topic::Abilities => format!("{greeting}{}", introduction(turn)),
        Topic::Model => {
            format!(
                "{greeting}None. {NO_MODEL}: I am a small program that knows some English phrases, and the same words always get the same answer. {CONFIGURE}"
            )
        }
        Topic::There => introduced("Yes, I am here.", turn),
        Topic::HowAreYou => introduced("I am running, thank you.", turn),
    }
}

/// Answers small talk.
pub(super) fn small(talk: Talk, turn: &Turn<'_>) -> String {
    let short = match talk {
        Talk::Hello => "Hello!",
        Talk::Thanks => "You are welcome.",
        Talk::Goodbye => "Goodbye!",
        Talk::Yes => "All right.",
    };
    introduced(short, turn)
}

/// Says what becomes of words that ask for nothing.
pub(super) fn statement(turn: &Turn<'_>) -> String {
    if turn.has_said(STAYS) {
        return "It stays in this conversation.".to_owned();
    }
    let keep = if turn.offers("memory_write") {
        " To keep it as a note, say “remember that …”."
    } else {
        ""
    };
    let kept = format!("{STAYS}, and I find it when you ask; after `/new`, too.{keep}");
    introduced_briefly(&kept, turn)
}

/// Answers an order to forget, which has no tool.
pub(super) fn forget(turn: &Turn<'_>) -> String {
    introduced_briefly(
        "I cannot forget on order. What I keep are lines of files: ask me about it, or `agent-consolidate why WORDS`, and delete the line that is named; \
         `agent-consolidate forget WORDS` lets it count no more, with `--hard` it is erased. An ended conversation is a file in `state/sessions/archive/`.",
        turn,
    )
}

/// Returns `short`, in a conversation without an introduction followed by where to find one.
fn introduced_briefly(short: &str, turn: &Turn<'_>) -> String {
    if turn.has_said(NO_MODEL) {
        short.to_owned()
    } else {
        format!("{short} {NO_MODEL}: say “help” for what I can do.")
    }
}

/// Answers a message without words: files, a picture, nothing.
pub(super) fn wordless(turn: &Turn<'_>) -> String {
    match turn.files.as_slice() {
        [] => introduced("Hello!", turn),
        files => {
            let names: Vec<String> = files
                .iter()
                .map(|file| format!("“{}”", quote(file.name)))
                .collect();
            let they = if names.len() == 1 {
                "It is"
            } else {
                "They are"
            };
            format!(
                "I have {}. {they} in this conversation; send “summarise” together with a file for its main sentences.",
                names.join(", ")
            )
        }
    }
}

/// Returns what the time is, as far as the message itself says it.
pub(super) fn time(turn: &Turn<'_>) -> String {
    match turn.time {
        Some(time) => format!("Your message came on {time}."),
        None => "I cannot see a clock here. `!exec date` shows the time.".to_owned(),
    }
}

/// Returns the sentence for a person who does not write English; once in a conversation.
pub(super) fn language_note(turn: &Turn<'_>) -> Option<String> {
    let foreign = language::foreign(turn.words)?;
    let name = foreign
        .name
        .map_or_else(String::new, |name| format!(" (and not {name})"));
    let search = if turn.offers("memory_search") {
        " A search finds words of any language."
    } else {
        ""
    };
    let note = format!("{ENGLISH_ONLY}{name}: “remember that …”, “summarise: …”.{search}");
    (!turn.has_said(ENGLISH_ONLY)).then_some(note)
}
