//! The provider without a network: the embedded default, for a first start with no key.
//!
//! It has no language model and says so. It drives the real agent loop all the same: what a person
//! asks for in a few English phrases becomes a tool call that passes the normal policy, and what the
//! tool gave becomes the answer. One call a turn, then words. Only a person's own newest words give
//! orders: heads, files, results, events and words of others are data. Deterministic.

mod answer;
mod bang_commands;
mod intent;
mod language;
mod remember;
mod request;
mod search_hits;
mod small_talk;
mod summary;
mod words;

use serde_json::{Value, json};

use super::wire::estimate_output;
use super::{BoxFuture, Error, OnText, Provider, Request, Response};
use crate::message::{Block, Message, Role, StopReason, ToolCall, ToolResult, Usage};
use crate::text;
use intent::{Subject, Wish};
use remember::Note;
use request::{File, Turn, Whose};
use summary::Sentence;

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
    say(match tool {
        "memory_search" => format!(
            "I cannot use `{tool}` here. It is offered to my owner, and not at all when the configuration switches it off."
        ),
        _ => format!(
            "I cannot use `{tool}` here. It is offered only where every word is my owner's (`/new` begins such a conversation), and not at all when the configuration switches it off."
        ),
    })
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
            let message = Message {
                role: Role::Assistant,
                content: vec![block],
            };
            let usage = Usage {
                input_tokens: estimate_input(request),
                output_tokens: estimate_output(&message),
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
        return Block::Text {
            text: summary::of_talk(&words.join("\n")),
        };
    }
    let turn = Turn::of(request);
    let act = if turn.results.is_empty() {
        begin(&turn)
    } else {
        say(conclude(&turn))
    };
    match act {
        Act::Call(tool, input) => Block::ToolCall(ToolCall {
            id: unused_id(request),
            name: tool.to_owned(),
            input,
        }),
        Act::Say(text) => Block::Text { text },
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
    let wish = intent::read(turn.words, turn.name());
    let ours = matches!(wish, Wish::Order(_));
    let act = answer_to(wish, turn);
    match (act, small_talk::language_note(turn)) {
        (Act::Say(text), Some(note)) if !ours => Act::Say(format!("{text}\n\n{note}")),
        (act, _) => act,
    }
}

fn answer_to(wish: Wish<'_>, turn: &Turn<'_>) -> Act {
    match wish {
        Wish::Order(words) => bang_commands::act(words, turn),
        Wish::Remember(Note::Keep(content)) => call(
            turn,
            "memory_write",
            json!({"type": "note", "tags": [], "content": content}),
        ),
        Wish::Remember(Note::Empty) => say("What shall I remember? Say “remember that …”."),
        Wish::Remember(Note::Secret) => say(
            "I do not keep that: it looks like a password, a key, a PIN or the number of a card, and my notes are plain files. \
             Keys that I am to use belong into `.env`. Your message itself is in the transcript of this conversation.",
        ),
        Wish::Summary(subject) => summarise_this(&subject, turn),
        Wish::Myself(topic) => say(small_talk::about(topic, turn)),
        Wish::Time => say(small_talk::time(turn)),
        Wish::Question(question) => match turn.offers("memory_search") {
            true => Act::Call(
                "memory_search",
                json!({"query": query(question), "max_results": bang_commands::MAX_RESULTS}),
            ),
            // What was said in this conversation needs no tool.
            false => match answer::answer(question, "", turn) {
                found if found != answer::NOTHING => say(found),
                _ => call(turn, "memory_search", Value::Null),
            },
        },
        Wish::Reminder => say(
            "I cannot give reminders. Say “remember to …” and I keep it as a note, which I can find when you ask.",
        ),
        Wish::Forget => say(small_talk::forget(turn)),
        Wish::Small(small) => say(small_talk::small(small, turn)),
        Wish::Statement => say(small_talk::statement(turn)),
        Wish::Nothing => say(small_talk::wordless(turn)),
    }
}

/// Returns `question` as it is searched with.
fn query(question: &str) -> &str {
    let short = text::head(question, MAX_QUERY_CHARS);
    if short.len() == question.len() {
        return question;
    }
    // Of a long text the part that asks is what counts.
    let asking = question
        .split_inclusive(['?', '？', '؟', '\n'])
        .rev()
        .find(|part| words::asks(part));
    text::head(asking.unwrap_or(question).trim(), MAX_QUERY_CHARS)
}

/// Speaks about the results of the call that the person's words led to.
fn conclude(turn: &Turn<'_>) -> String {
    let [result] = turn.results.as_slice() else {
        return bang_commands::report(&turn.results);
    };
    let Some(call) = turn.call_of(result).filter(|_| turn.whose == Whose::Person) else {
        return bang_commands::report(&turn.results);
    };
    let said = match (intent::read(turn.words, turn.name()), call.name.as_str()) {
        (Wish::Remember(_), "memory_write") => receipt(call, result),
        (Wish::Question(_), "memory_search") if result.is_error => {
            format!(
                "The search did not work:\n{}",
                bang_commands::fenced(result.text.trim_end())
            )
        }
        (Wish::Question(question), "memory_search") => {
            answer::answer(query(question), &result.text, turn)
        }
        (Wish::Summary(Subject::File(file)), "read") if !result.is_error => {
            of_file(file, &result.text)
        }
        _ => return bang_commands::report(&turn.results),
    };
    match small_talk::language_note(turn) {
        Some(note) => format!("{said}\n\n{note}"),
        None => said,
    }
}

/// Says what was kept and where, from what the tool says of it.
fn receipt(call: &ToolCall, result: &ToolResult) -> String {
    let told = result.text.trim();
    if result.is_error {
        return format!(
            "I could not keep that: {}",
            if told.is_empty() {
                "the tool gave no reason"
            } else {
                told
            }
        );
    }
    let content = call
        .input
        .get("content")
        .and_then(Value::as_str)
        .unwrap_or("");
    match told
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("kept as "))
    {
        Some(path) => format!(
            "Kept as `{}`: “{}”",
            quote(path).replace('`', "'"),
            quote(content)
        ),
        None => format!(
            "The tool says of “{}”:\n{}",
            quote(content),
            bang_commands::fenced(told)
        ),
    }
}

fn summarise_this(subject: &Subject<'_>, turn: &Turn<'_>) -> Act {
    let came = |path: &str| {
        turn.files
            .iter()
            .filter(|file| file.name == path)
            .map(of_attached)
            .next()
    };
    match subject {
        Subject::Text(text) => say(summary_of("", &summary::split(text))),
        Subject::File(path) if came(path).is_some() => say(came(path).unwrap_or_default()),
        Subject::File(path) => call(turn, "read", json!({"path": path})),
        Subject::Attached | Subject::Unknown if !turn.files.is_empty() => say(turn
            .files
            .iter()
            .map(of_attached)
            .collect::<Vec<_>>()
            .join("\n\n")),
        Subject::Conversation => say(of_conversation(turn)),
        Subject::Attached | Subject::Unknown => say(
            "What shall I summarise? Send “summarise: TEXT”, “summarise” together with a file, “summarise FILE” for one of the workspace, \
             or “summarise this conversation”.",
        ),
    }
}

fn of_attached(file: &File<'_>) -> String {
    match file.text {
        Ok(text) => summary_of(
            &format!(" of “{}”", quote(file.name)),
            &summary::split(text),
        ),
        Err(why) => format!(
            "“{}” cannot be summarised: {}",
            quote(file.name),
            quote(why)
        ),
    }
}

/// Summarises what `read` gave: numbered lines, and a last line when there are more.
fn of_file(name: &str, numbered: &str) -> String {
    let lines = numbered.lines().filter_map(|line| line.split_once('\t'));
    let text: Vec<&str> = lines
        .filter(|(number, _)| number.parse::<u64>().is_ok())
        .map(|(_, line)| line)
        .collect();
    let more = numbered
        .lines()
        .next_back()
        .filter(|line| line.starts_with("[lines "));
    let note = more.map_or_else(String::new, |line| {
        format!("\n\nOnly its beginning was read: {line}")
    });
    format!(
        "{}{note}",
        summary_of(
            &format!(" of `{}`", quote(name).replace('`', "'")),
            &summary::split(&text.join("\n"))
        )
    )
}

/// Summarises what was said, without our own talk about ourselves.
fn of_conversation(turn: &Turn<'_>) -> String {
    let mut sentences = Vec::new();
    for (at, message) in turn.earlier.iter().enumerate() {
        let (who, words) = match message.role {
            Role::User => ("You", request::own_words(message).map(str::to_owned)),
            Role::Assistant => (
                "I",
                Some(message.plain_text()).filter(|words| !search_hits::is_own(words)),
            ),
        };
        let tells = |words: &String| {
            matches!(
                intent::read(words, None),
                Wish::Statement
                    | Wish::Remember(Note::Keep(_))
                    | Wish::Question(_)
                    | Wish::Reminder
            )
        };
        let words = words.filter(tells).unwrap_or_default();
        sentences.extend(summary::split(&words).into_iter().map(|sentence| Sentence {
            text: format!("{who}: {}", sentence.text),
            paragraph: at,
        }));
    }
    if sentences.is_empty() {
        return "Nothing has been said in this conversation yet. Ask about a thing, and I search in what was said before."
            .to_owned();
    }
    summary_of(" of this conversation", &sentences)
}

fn summary_of(what: &str, sentences: &[Sentence]) -> String {
    if sentences.is_empty() {
        return format!(
            "There is nothing to summarise{}.",
            what.replacen(" of", " in", 1)
        );
    }
    let picked = summary::pick(sentences, (sentences.len() / 5).clamp(3, 7));
    let shown = picked
        .iter()
        .filter_map(|at| sentences.get(*at))
        .map(|sentence| {
            format!(
                "- {}",
                text::visible(&text::shorten(
                    sentence.text.trim_start_matches(['-', '*', '#', ' ']),
                    600
                ))
            )
        });
    let shown: Vec<String> = shown.collect();
    format!(
        "Summary by extraction{what} (sentences as they stand), {} of {} sentences:\n\n{}",
        shown.len(),
        sentences.len(),
        shown.join("\n")
    )
}

fn quote(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    text::shorten(&text::visible(&words.join(" ")), MAX_QUOTE_CHARS)
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
    let system: u64 = request
        .system
        .iter()
        .map(|block| text::estimate_tokens(&block.text))
        .sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|spec| {
            text::estimate_tokens(&spec.description)
                + text::estimate_tokens(&spec.schema.to_string())
        })
        .sum();
    let blocks = request.messages.iter().flat_map(|message| &message.content);
    let said: u64 = blocks
        .map(|block| match block {
            Block::Text { text } | Block::Context { text } => text::estimate_tokens(text),
            Block::Image { .. } | Block::Thinking(_) => 0,
            Block::ToolCall(call) => text::estimate_tokens(&call.input.to_string()),
            Block::ToolResult(result) => text::estimate_tokens(&result.text),
        })
        .sum();
    system + tools + said
}

#[cfg(test)]
mod tests;
