//! The provider without a network: the embedded default, for a first start with no key.
//!
//! It has no language model and says so. Nevertheless it drives the real agent loop: requests in a few English phrases become
//! tool calls that pass the normal policy, and the result of the tool becomes the answer. One call a turn, then text. Only a
//! person's own newest text gives orders: headers, files, results, events and untrusted text are data. Deterministic.

mod answer;
mod intent;
mod remember;
mod replies;
mod request;
mod search_hits;
mod words;

use serde_json::{Value, json};

use super::{BoxFuture, Error, OnText, Provider, Request, Response, ToolSpec};
use crate::language::summary;
use crate::language::summary::Sentence;
use crate::message::{Block, Message, Role, StopReason, ToolCall, ToolResult, Usage};
use crate::text;
use intent::{Intent, Subject};
use remember::Note;
use request::{File, Turn, Whose};

/// The most characters of a message that are quoted back.
const MAX_QUOTE_CHARS: usize = 200;
/// The most characters of a question that are searched with.
const MAX_QUERY_CHARS: usize = 400;

/// How the system text of a request begins that asks for a summary of what its message holds.
pub const SUMMARISE: &str =
    "Sum up the conversation below for the assistant in it, which will see your summary instead.";

/// What is done next.
enum Act {
    /// These are the last words of the turn.
    Say(String),
    /// A tool is asked first.
    Call(&'static str, Value),
}

fn say(text: impl Into<String>) -> Act {
    Act::Say(text.into())
}

/// Returns a call of `tool` when it is on offer, else why it is not.
fn call(turn: &Turn<'_>, tool: &'static str, input: Value) -> Act {
    if turn.offers(tool) {
        return Act::Call(tool, input);
    }
    if !turn.request.may_call {
        return say(
            "This turn has no step left for that: `[agent] max_turns` in `agent.toml` is too small.",
        );
    }
    let offered = match tool {
        "memory_search" => "to my owner",
        _ => "only where every word is my owner's (`/new` begins such a conversation)",
    };
    say(format!(
        "I cannot use `{tool}` here. It is offered {offered}, and not at all when the configuration switches it off."
    ))
}

/// A provider that needs no network and no key.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Offline {
    /// Returns the provider.
    pub fn new() -> Self {
        Self
    }
}

impl Provider for Offline {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(async move {
            let block = reply(request);
            if let Block::Text { text } = &block {
                text.split_inclusive('\n').for_each(on_text);
            }
            let stop = if matches!(block, Block::ToolCall(_)) {
                StopReason::ToolUse
            } else {
                StopReason::EndTurn
            };
            let message = Message::new(Role::Assistant, vec![block]);
            let usage = Usage {
                input_tokens: estimate_input(request),
                output_tokens: message.tokens(),
                estimated: true,
                ..Usage::default()
            };
            Ok(Response {
                message,
                stop,
                usage,
            })
        })
    }
}

fn reply(request: &Request) -> Block {
    if request
        .system
        .first()
        .is_some_and(|block| block.text.starts_with(SUMMARISE))
    {
        let words: Vec<String> = request.messages.iter().map(Message::plain_text).collect();
        return Block::text(of_talk(&words.join("\n")));
    }
    let turn = Turn::of(request);
    let act = match turn.results.is_empty() {
        true => begin(&turn),
        false => say(conclude(&turn)),
    };
    match act {
        Act::Call(tool, input) => Block::ToolCall(ToolCall {
            id: unused_id(request),
            name: tool.to_owned(),
            input,
        }),
        Act::Say(text) => Block::text(text),
    }
}

/// Answers a message, or asks a tool first.
fn begin(turn: &Turn<'_>) -> Act {
    match turn.whose {
        Whose::Person => {}
        Whose::Event => {
            return say(
                "Noted. Without a language model I do nothing with an event; it is in the transcript.",
            );
        }
        Whose::Notice => return say(format!("An event: {}", text::shorten(turn.words, 3000))),
        Whose::Other => {
            return say(
                "These are somebody else's words: I do nothing with them. They are in this conversation, which takes some tools from me until `/new`.",
            );
        }
    }
    let intent = intent::read(turn.words, turn.name());
    let is_command = matches!(intent, Intent::Command(_));
    match answer_to(intent, turn) {
        Act::Say(text) if !is_command => say(noted(text, turn)),
        act => act,
    }
}

/// Returns `text`, and behind it what a person who does not write English should know.
fn noted(text: String, turn: &Turn<'_>) -> String {
    match replies::language_note(turn) {
        Some(note) => format!("{text}\n\n{note}"),
        None => text,
    }
}

fn answer_to(intent: Intent<'_>, turn: &Turn<'_>) -> Act {
    match intent {
        Intent::Command(words) => replies::command(words, turn),
        Intent::Remember(Note::Keep(content)) => {
            let input = json!({"type": "note", "tags": [], "content": content});
            call(turn, "memory_write", input)
        }
        Intent::Remember(Note::Empty) => say("What shall I remember? Say “remember that …”."),
        Intent::Remember(Note::Secret) => say(
            "I do not keep that: it looks like a password, a key, a PIN or the number of a card, and my notes are plain files. \
             Keys that I am to use belong into `.env`. Your message itself is in the transcript of this conversation.",
        ),
        Intent::Summary(subject) => summarise(&subject, turn),
        Intent::Question(question) if turn.offers("memory_search") => {
            let input = json!({"query": query(question), "max_results": replies::MAX_RESULTS});
            Act::Call("memory_search", input)
        }
        // What was said in this conversation needs no tool.
        Intent::Question(question) => match answer::answer(question, "", turn) {
            found if found != answer::NOTHING => say(found),
            _ => call(turn, "memory_search", Value::Null),
        },
        Intent::SmallTalk(talk) => say(replies::small_talk(talk, turn)),
        Intent::Statement => say(replies::statement(turn)),
        Intent::Nothing => say(replies::wordless(turn)),
    }
}

/// Returns `question` as it is searched with.
fn query(question: &str) -> &str {
    let short = text::head(question, MAX_QUERY_CHARS);
    if short.len() == question.len() {
        return question;
    }
    // Of a long text the part that asks is what counts.
    let mut parts = question.split_inclusive(['?', '？', '؟', '\n']).rev();
    let asking = parts.find(|part| words::asks(part)).unwrap_or(question);
    text::head(asking.trim(), MAX_QUERY_CHARS)
}

/// Speaks about the results of the call that the person's words led to.
fn conclude(turn: &Turn<'_>) -> String {
    let report = || replies::report(&turn.results);
    let [result] = turn.results.as_slice() else {
        return report();
    };
    let call = turn.call_of(result).filter(|_| turn.whose == Whose::Person);
    let Some(call) = call else {
        return report();
    };
    let said = match (intent::read(turn.words, turn.name()), call.name.as_str()) {
        (Intent::Remember(_), "memory_write") => receipt(call, result),
        (Intent::Question(_), "memory_search") if result.is_error => {
            let why = replies::fenced(result.text.trim_end());
            format!("The search did not work:\n{why}")
        }
        (Intent::Question(question), "memory_search") => {
            answer::answer(query(question), &result.text, turn)
        }
        (Intent::Summary(Subject::File(file)), "read") if !result.is_error => {
            of_file(file, &result.text)
        }
        _ => return report(),
    };
    noted(said, turn)
}

/// Says what was kept and where, from what the tool says of it.
fn receipt(call: &ToolCall, result: &ToolResult) -> String {
    let told = match result.text.trim() {
        "" if result.is_error => "the tool gave no reason",
        told => told,
    };
    if result.is_error {
        return format!("I could not keep that: {told}");
    }
    let content = call.input.get("content").and_then(Value::as_str);
    let content = quote(content.unwrap_or(""));
    let kept = told.lines().next().and_then(|line| {
        ["kept as ", "already known: "]
            .iter()
            .find_map(|head| line.strip_prefix(head))
    });
    match kept {
        Some(path) => format!("Kept as `{}`: “{content}”", quote(path).replace('`', "'")),
        None => format!("The tool says of “{content}”:\n{}", replies::fenced(told)),
    }
}

fn summarise(subject: &Subject<'_>, turn: &Turn<'_>) -> Act {
    let attached = |path: &str| turn.files.iter().find(|file| file.name == path);
    match subject {
        Subject::Text(text) => say(summary_of("", &summary::split(text))),
        Subject::File(path) => match attached(path) {
            Some(file) => say(of_attached(file)),
            None => call(turn, "read", json!({"path": path})),
        },
        Subject::Attached | Subject::Unknown if !turn.files.is_empty() => {
            let summaries: Vec<String> = turn.files.iter().map(of_attached).collect();
            say(summaries.join("\n\n"))
        }
        Subject::Conversation => say(of_conversation(turn)),
        Subject::Attached | Subject::Unknown => say(
            "What shall I summarise? Send “summarise: TEXT”, “summarise” together with a file, “summarise FILE” for one of the workspace, \
             or “summarise this conversation”.",
        ),
    }
}

fn of_attached(file: &File<'_>) -> String {
    let name = format!("“{}”", quote(file.name));
    match file.text {
        Ok(text) => summary_of(&format!(" of {name}"), &summary::split(text)),
        Err(why) => format!("{name} cannot be summarised: {}", quote(why)),
    }
}

/// Summarises what `read` gave: numbered lines, and a last line when there are more.
fn of_file(name: &str, numbered: &str) -> String {
    let lines = numbered.lines().filter_map(|line| line.split_once('\t'));
    let text: Vec<&str> = lines
        .filter(|(number, _)| number.parse::<u64>().is_ok())
        .map(|(_, line)| line)
        .collect();
    let what = format!(" of `{}`", quote(name).replace('`', "'"));
    let summary = summary_of(&what, &summary::split(&text.join("\n")));
    let last = numbered.lines().next_back();
    match last.filter(|line| line.starts_with("[lines ")) {
        Some(more) => format!("{summary}\n\nOnly its beginning was read: {more}"),
        None => summary,
    }
}

/// Summarises what the person said in this conversation.
fn of_conversation(turn: &Turn<'_>) -> String {
    let tells = |words: &&str| {
        let intent = intent::read(words, None);
        matches!(
            intent,
            Intent::Statement | Intent::Remember(Note::Keep(_)) | Intent::Question(_)
        )
    };
    let mut sentences = Vec::new();
    let said = turn
        .earlier
        .iter()
        .filter_map(request::own_words)
        .filter(tells);
    for (paragraph, words) in said.enumerate() {
        let you = |sentence: Sentence| Sentence {
            text: format!("You: {}", sentence.text),
            paragraph,
        };
        sentences.extend(summary::split(words).into_iter().map(you));
    }
    if sentences.is_empty() {
        return "Nothing has been said in this conversation yet. Ask about a thing, and I search in what was said before."
            .to_owned();
    }
    summary_of(" of this conversation", &sentences)
}

fn summary_of(what: &str, sentences: &[Sentence]) -> String {
    if sentences.is_empty() {
        let what = what.replacen(" of", " in", 1);
        return format!("There is nothing to summarise{what}.");
    }
    let picked = summary::pick(sentences, (sentences.len() / 5).clamp(3, 7));
    let shown = |sentence: &Sentence| {
        let bare = sentence.text.trim_start_matches(['-', '*', '#', ' ']);
        format!("- {}", text::visible(&text::shorten(bare, 600)))
    };
    let sentence = |at: &usize| sentences.get(*at).map(shown);
    let shown: Vec<String> = picked.iter().filter_map(sentence).collect();
    let (some, all, shown) = (shown.len(), sentences.len(), shown.join("\n"));
    format!(
        "Summary by extraction{what} (sentences as they stand), {some} of {all} sentences:\n\n{shown}"
    )
}

/// Returns what a conversation says, in quotations. Lines between markers, calls and what tools answered are
/// passed over.
fn of_talk(text: &str) -> String {
    let of_people = |line: &&str| {
        !["⟦", "CALL ", "RESULT", "("]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = text.lines().filter(of_people).collect();
    let quoted = summary::gist(&lines.join("\n"), usize::MAX);
    let quoted: Vec<String> = quoted.lines().map(|line| format!("- {line}")).collect();
    format!("Said before, in quotations:\n{}", quoted.join("\n"))
}

fn quote(words: &str) -> String {
    replies::quoted(words, MAX_QUOTE_CHARS)
}

fn unused_id(request: &Request) -> String {
    let taken: std::collections::HashSet<&str> = request
        .messages
        .iter()
        .flat_map(Message::tool_calls)
        .map(|call| call.id.as_str())
        .collect();
    let mut ids = (request.messages.len()..).map(|n| format!("offline_{n}"));
    ids.find(|id| !taken.contains(id.as_str()))
        .expect("the numbers do not run out")
}

fn estimate_input(request: &Request) -> u64 {
    let system = request
        .system
        .iter()
        .map(|block| text::estimate_tokens(&block.text));
    let schema = |spec: &ToolSpec| text::estimate_tokens(spec.schema.text());
    let tools = request.tools.iter();
    let tools = tools.map(|spec| text::estimate_tokens(&spec.description) + schema(spec));
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let said = blocks.map(|block| match block {
        Block::Text { text } | Block::Context { text } => text::estimate_tokens(text),
        Block::Image { .. } | Block::Thinking(_) => 0,
        Block::ToolCall(call) => text::estimate_tokens(&call.input.to_string()),
        Block::ToolResult(result) => text::estimate_tokens(&result.text),
    });
    system.chain(tools).chain(said).sum()
}

#[cfg(test)]
mod tests;
