//! Answers without a search: small talk, help, and the person's `!` commands.

use serde_json::json;

use super::request::Turn;
use super::{Act, call, quote, say, words};
use crate::language::detect;
use crate::language::pack::{SmallTalk, english};
use crate::message::ToolResult;
use crate::text;

/// The first reply of a conversation has this in it.
pub(super) const NO_MODEL: &str = "No language model is configured";
const CONFIGURE: &str =
    "To give me a model: `agent-daemon login anthropic` (or openai, gemini, openrouter).";
/// The first answer to a statement has this in it.
const STAYS: &str = "What you tell me stays in this conversation";
const ENGLISH_ONLY: &str = "I understand English phrases only";
/// Longer answers are followed by a hint instead of the whole introduction.
const SHORT_CHARS: usize = 100;
/// Results of `!search` and of a question.
pub(super) const MAX_RESULTS: u32 = 6;

/// Returns that there is no model, what can be done nevertheless with the tools on offer, and how to
/// get a model.
fn introduction(turn: &Turn<'_>) -> String {
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
    let tools = &turn.request.tools;
    let is_offered = |tool: &str| tool.is_empty() || tools.iter().any(|spec| spec.name == tool);
    let lines: Vec<String> = abilities
        .iter()
        .filter(|(tool, _)| is_offered(tool))
        .map(|(_, line)| format!("- {line}"))
        .collect();
    let lines = lines.join("\n");
    format!("{NO_MODEL}, so I can only do simple things:\n{lines}\n\n{CONFIGURE}")
}

/// Returns `answer`, in a conversation without an introduction followed by one.
fn introduced(answer: &str, turn: &Turn<'_>) -> String {
    if answer.contains(NO_MODEL) || turn.has_said(NO_MODEL) {
        answer.to_owned()
    } else if answer.chars().count() > SHORT_CHARS {
        format!("{answer} {NO_MODEL}: say “help” for what I can do.")
    } else {
        format!("{answer} {}", introduction(turn))
    }
}

/// Answers small talk.
pub(super) fn small_talk(talk: &SmallTalk, turn: &Turn<'_>) -> String {
    let name = turn.name().map_or_else(|| "an assistant".to_owned(), quote);
    let time = match turn.time {
        Some(time) => format!("Your message came on {time}."),
        None => "I cannot see a clock here. `!exec date` shows the time.".to_owned(),
    };
    let answer = talk
        .answer
        .replace("{introduction}", &introduction(turn))
        .replace("{configure}", CONFIGURE)
        .replace("{name}", &name)
        .replace("{time}", &time);
    let greets = words::after_any(turn.words, &english().requests.greetings).is_some();
    let greeting = if greets && talk.max_words == 0 {
        "Hello! "
    } else {
        ""
    };
    introduced(&format!("{greeting}{answer}"), turn)
}

/// Says what becomes of words that ask for nothing.
pub(super) fn statement(turn: &Turn<'_>) -> String {
    if turn.has_said(STAYS) {
        return "It stays in this conversation.".to_owned();
    }
    let keep = match turn.offers("memory_write") {
        true => " To keep it as a note, say “remember that …”.",
        false => "",
    };
    let kept = format!("{STAYS}, and I find it when you ask; after `/new`, too.{keep}");
    introduced(&kept, turn)
}

/// Answers a message without words: files, a picture, nothing.
pub(super) fn wordless(turn: &Turn<'_>) -> String {
    let names = turn
        .files
        .iter()
        .map(|file| format!("“{}”", quote(file.name)));
    let names: Vec<String> = names.collect();
    let they = match names.len() {
        0 => return introduced("Hello!", turn),
        1 => "It is",
        _ => "They are",
    };
    format!(
        "I have {}. {they} in this conversation; send “summarise” together with a file for its main sentences.",
        names.join(", ")
    )
}

/// Returns the sentence for a person who does not write English; once in a conversation.
pub(super) fn language_note(turn: &Turn<'_>) -> Option<String> {
    let foreign = detect::foreign(turn.words).filter(|_| !turn.has_said(ENGLISH_ONLY))?;
    let name = match foreign.name {
        Some(name) => format!(" (and not {name})"),
        None => String::new(),
    };
    let search = match turn.offers("memory_search") {
        true => " A search finds words of any language.",
        false => "",
    };
    Some(format!(
        "{ENGLISH_ONLY}{name}: “remember that …”, “summarise: …”.{search}"
    ))
}

/// Turns a `!` command into a call, or says why not.
pub(super) fn command(words: &str, turn: &Turn<'_>) -> Act {
    let (word, argument) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
    let argument = argument.trim();
    let query = super::query(argument);
    let (tool, what, input) = match word {
        "!exec" => ("exec", "COMMAND", json!({"command": argument})),
        "!read" => ("read", "FILE", json!({"path": argument})),
        "!search" => (
            "memory_search",
            "WORDS",
            json!({"query": query, "max_results": MAX_RESULTS}),
        ),
        _ => {
            let word = quote(word).replace('`', "'");
            return say(format!("I do not know `{word}`. {}", introduction(turn)));
        }
    };
    if argument.is_empty() {
        return say(format!("Something is missing: write `{word} {what}`."));
    }
    call(turn, tool, input)
}

/// Returns the results of tools as they are.
pub(super) fn report(results: &[&ToolResult]) -> String {
    let report = |result: &&ToolResult| match (result.is_error, result.text.trim_end()) {
        (true, "") => "That did not work; the tool gave no reason.".to_owned(),
        (true, why) => format!("That did not work:\n{}", fenced(why)),
        (false, "") => "Done; there was no output.".to_owned(),
        (false, output) => fenced(output),
    };
    results.iter().map(report).collect::<Vec<_>>().join("\n\n")
}

/// Returns `text` in a code block whose fence is longer than any in it.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}\n{text}\n{fence}")
}

/// Returns `words` on one line, in short.
pub(super) fn quoted(words: &str, max: usize) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    text::shorten(&text::visible(&words.join(" ")), max)
}
