//! What a person's words ask for. English phrases; a question mark is understood in any language.

use super::remember;
use super::remember::Note;
use super::words::{after, after_any, asks, first_word, is_one_of, plain, trim_lead};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish<'a> {
    /// Words that begin with `!`.
    Order(&'a str),
    /// Keep something.
    Remember(Note),
    /// Summarise something.
    Summary(Subject<'a>),
    /// A question about the agent.
    Myself(Topic),
    /// What time it is.
    Time,
    /// Something to look up; the words to look for.
    Question(&'a str),
    /// A reminder, which we cannot give.
    Reminder,
    /// Something to forget, which we cannot.
    Forget,
    /// Small talk.
    Small(Talk),
    /// Anything else.
    Statement,
    /// No words at all.
    Nothing,
}

/// What is to be summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject<'a> {
    /// This text.
    Text(&'a str),
    /// A file of the workspace.
    File(&'a str),
    /// The files that came with the words.
    Attached,
    /// What has been said.
    Conversation,
    /// Nothing that we have.
    Unknown,
}

/// What a person asks about the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    Who,
    Abilities,
    Model,
    There,
    HowAreYou,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Talk {
    Hello,
    Thanks,
    Goodbye,
    Yes,
}

/// Said before what is meant.
const POLITE: &str = "hello there|hi there|hey there|hello|hi|hey|hiya|good morning|good afternoon|good evening|dear|please|kindly|\
    okay|ok|so|well|and|but|also|oh|um|now|by the way|btw|thank you|thanks|quick question|one question|excuse me|\
    sorry";
const GREETINGS: &str = "hello|hi|hey|hiya|good morning|good afternoon|good evening|greetings|howdy|good day|moin|hallo";
/// Before what is to be looked for.
const LOOK: &str = "can you please tell me|could you please tell me|can you tell me|could you tell me|please tell me|tell me about|\
    tell me|search memory for|search my notes for|search for|search|look up|look for|find out|find me|find|show me|\
    do you know|do you remember|do you recall|can you remember|can you find|can you look up|can you search for|\
    i want to know|i would like to know|i'd like to know|i wonder|remind me of|remind me about|remind me what|\
    remind me who|remind me when|remind me where|recall|what do you know about|what did i tell you about|\
    what did i say about|what did we say about";
const FORGET: &str =
    "forget|delete the note|delete the memory|delete that note|delete your|remove the note|erase";
const ASKING: &str =
    "what|what's|whats|who|who's|whose|whom|when|when's|where|where's|which|why|how|how's";
const AUXILIARIES: &str = "is|are|was|were|do|does|did|have|has|had|can|could|will|would|should|am";
const SUBJECTS: &str = "i|you|we|they|he|she|it|there|this|that|these|those|my|your|the|our|his|her|their|any|anyone|anybody|someone";

/// Returns what `text` asks for. `name` is what the agent is called.
pub(super) fn read<'a>(text: &'a str, name: Option<&str>) -> Wish<'a> {
    if text.starts_with('!') {
        return Wish::Order(text);
    }
    let text = text.trim();
    if text.is_empty() {
        return Wish::Nothing;
    }
    let name = name.map(plain).filter(|name| !name.is_empty());
    let bare = without_greeting(text, name.as_deref());
    let short = bare.chars().take(120).count() < 120;
    let said = if short { plain(bare) } else { String::new() };
    let known = || {
        myself(&said)
            .map(Wish::Myself)
            .or_else(|| is_time(&said).then_some(Wish::Time))
    };
    remember::read(bare)
        .map(Wish::Remember)
        .or_else(|| subject(bare).map(Wish::Summary))
        .or_else(known)
        .or_else(|| {
            (after(bare, "remind me to")
                .or(after(bare, "remind me at"))
                .or(after(bare, "remind me in")))
            .map(|_| Wish::Reminder)
        })
        .or_else(|| question(bare).map(Wish::Question))
        .or_else(|| after_any(bare, FORGET).is_some().then_some(Wish::Forget))
        .or_else(|| small(&plain(crate::text::head(text, 60)), bare).map(Wish::Small))
        .unwrap_or(Wish::Statement)
}

/// Takes off a greeting, the agent's name and words of courtesy, as long as something is left.
fn without_greeting<'a>(text: &'a str, name: Option<&str>) -> &'a str {
    let marks = |c: char| c.is_whitespace() || matches!(c, ',' | '.' | '!' | ':' | ';' | '…');
    let mut bare = text;
    // Twice "hello" is enough.
    for _ in 0..6 {
        let next = after_any(bare, POLITE).or_else(|| name.and_then(|name| after(bare, name)));
        let Some(next) = next
            .map(|next| next.trim_start_matches(marks))
            .filter(|next| next.contains(char::is_alphanumeric))
        else {
            break;
        };
        bare = next;
    }
    bare
}

fn subject(text: &str) -> Option<Subject<'_>> {
    const BEFORE: &str = "can you please|could you please|can you|could you|would you|will you|please|i want you to|give me|make|write";
    const VERBS: &str = "summarise|summarize|sum up|tldr|tl dr|a summary of|a short summary of|the summary of|a summary|summary of|\
        summary";
    let order = after_any(text, BEFORE).unwrap_or(text);
    let tldr = order
        .trim_start()
        .get(..5)
        .filter(|start| start.eq_ignore_ascii_case("tl;dr"));
    let rest = match tldr {
        Some(start) => order.trim_start().get(start.len()..)?,
        None => match after_any(order, VERBS) {
            Some(rest) => rest,
            None => return talked_about(text).then_some(Subject::Conversation),
        },
    };
    let colon = rest.trim_start().starts_with([':', '\n']);
    let rest = trim_lead(rest).trim();
    let what = plain(crate::text::head(rest, 60));
    let what = what.strip_prefix("for me ").unwrap_or(&what);
    if what.is_empty() || (what.split(' ').count() <= 5 && is_attached(what)) {
        return Some(Subject::Attached);
    }
    if !colon && rest.chars().count() <= 60 && is_conversation(what) {
        return Some(Subject::Conversation);
    }
    // “summarise this:” is followed by the text.
    let text = ["this text", "the following text", "the following", "this"]
        .iter()
        .find_map(|phrase| {
            after(rest, phrase).filter(|rest| rest.trim_start().starts_with([':', '\n']))
        })
        .map_or(rest, trim_lead);
    let path = after_any(text, "the file|file")
        .unwrap_or(text)
        .trim()
        .trim_matches(['`', '"', '\'', '“', '”'])
        .trim_end_matches(['?', '.']);
    let one_word = !path.contains(char::is_whitespace) && !path.is_empty();
    if one_word && (path.contains(['/', '.']) || text.len() > path.len() + 3) && path.len() <= 500 {
        return Some(Subject::File(path));
    }
    let enough = colon || text.len() < rest.len() || text.split_whitespace().nth(12).is_some();
    Some(if enough {
        Subject::Text(text)
    } else {
        Subject::Unknown
    })
}

fn is_attached(what: &str) -> bool {
    let words = [
        "this",
        "it",
        "that",
        "the",
        "file",
        "files",
        "these",
        "attachment",
        "attachments",
        "attached",
        "text",
        "document",
        "please",
    ];
    what.split(' ').all(|word| words.contains(&word))
}

fn is_conversation(what: &str) -> bool {
    let what = what
        .strip_suffix(" so far")
        .or(what.strip_suffix(" today"))
        .or(what.strip_suffix(" please"))
        .unwrap_or(what);
    const NAMES: &str = "this conversation|our conversation|the conversation|conversation|this chat|our chat|the chat|this session|\
        our discussion|this discussion|what we said|what we talked about|what we discussed|what i said|what was said|\
        everything|so far|us";
    is_one_of(what, NAMES)
}

fn talked_about(text: &str) -> bool {
    const PHRASES: &str = "what did we talk about|what have we talked about|what have we been talking about|what did we discuss|\
        what have we discussed|what did we say|what were we talking about|what was this conversation about|\
        what is this conversation about";
    let said = plain(crate::text::head(text, 60));
    let said = said
        .strip_suffix(" so far")
        .or(said.strip_suffix(" today"))
        .or(said.strip_suffix(" just now"))
        .unwrap_or(&said);
    is_one_of(said, PHRASES)
}

fn myself(said: &str) -> Option<Topic> {
    const WHO: &str = "who are you|what are you|what is your name|what's your name|whats your name|who is this|introduce yourself|\
        are you a bot|are you human|are you a human|are you real|are you a robot|are you an ai|are you a person|\
        tell me about yourself";
    const ABILITIES: &str = "what can you do|help|help me|what do you do|how do you work|how does this work|can you help me|\
        what can i do|commands|what are your commands|what can i ask|what can i ask you|what can i say|\
        what else can you do|how can you help|how can you help me|what do you understand|what are you able to do|\
        usage";
    const MODEL: &str = "what model are you|which model are you|what language model are you|what llm are you|which llm are you|\
        what model do you use|which model do you use|what model is this|are you chatgpt|are you claude|are you gpt|\
        are you gemini|are you an llm|are you a language model|do you have a model|why do you have no model|\
        how do i configure a model|how do i give you a model";
    const THERE: &str = "are you there|are you still there|are you here|are you awake|are you online|are you alive|anybody there|\
        anyone there|ping|test";
    const HOW: &str = "how are you|how are you doing|how do you do|how are you today|how's it going|what's up|are you well|\
        are you ok";
    let lists = [
        (WHO, Topic::Who),
        (ABILITIES, Topic::Abilities),
        (MODEL, Topic::Model),
        (THERE, Topic::There),
        (HOW, Topic::HowAreYou),
    ];
    lists
        .into_iter()
        .find_map(|(list, topic)| is_one_of(said, list).then_some(topic))
}

fn is_time(said: &str) -> bool {
    const PHRASES: &str = "what time is it|what's the time|what is the time|what time is it now|what day is it|what day is it today|\
        what day is today|what is the date|what's the date|what date is it|what is today's date|what's today's date|\
        what is the date today|time|date|can you tell me the time|tell me the time|do you know what time it is|\
        which day is it";
    is_one_of(said, PHRASES)
}

/// Returns what is asked about.
fn question(text: &str) -> Option<&str> {
    if let Some(rest) = after_any(text, LOOK)
        .map(trim_lead)
        .filter(|rest| rest.contains(char::is_alphanumeric))
    {
        return Some(rest);
    }
    // In a long text a mark somewhere inside is not the point of it.
    if asks(text) || text.chars().take(1000).count() < 1000 && has_question(text) {
        return Some(text);
    }
    let (first, rest) = first_word(text)?;
    let (first, second) = (
        plain(first),
        first_word(rest)
            .map(|(word, _)| plain(word))
            .unwrap_or_default(),
    );
    let asking = match first.as_str() {
        "what" => !matches!(second.as_str(), "a" | "an" | ""),
        "when" | "where" => is_one_of(&second, AUXILIARIES),
        "how" => {
            !second.is_empty()
                && !matches!(
                    second.as_str(),
                    "nice" | "lovely" | "sad" | "funny" | "cool" | "sweet" | "kind"
                )
        }
        word if is_one_of(word, ASKING) => !second.is_empty(),
        "is" | "are" | "was" | "were" | "does" | "did" | "has" => !second.is_empty(),
        "do" => matches!(second.as_str(), "i" | "you" | "we" | "they"),
        word => is_one_of(word, AUXILIARIES) && is_one_of(&second, SUBJECTS),
    };
    asking.then_some(text)
}

/// Returns true when a sentence of `text` is a question; the mark in a URL makes none.
fn has_question(text: &str) -> bool {
    text.split_whitespace()
        .any(|word| word.ends_with(['?', '？', '؟']))
}

fn small(said: &str, bare: &str) -> Option<Talk> {
    let few = plain(crate::text::head(bare, 60)).split(' ').count() <= 3;
    let starts = |phrase: &str| {
        said == phrase
            || said
                .strip_prefix(phrase)
                .is_some_and(|rest| rest.starts_with(' '))
    };
    let begins = |list: &str| list.split('|').any(starts);
    if begins(
        "thanks|thank you|thx|many thanks|ok thanks|ok thank you|great thanks|cheers|danke|ok danke",
    ) {
        Some(Talk::Thanks)
    } else if few && begins("bye|goodbye|good bye|good night|see you|see you later|cu") {
        Some(Talk::Goodbye)
    } else if few && begins(GREETINGS) {
        Some(Talk::Hello)
    } else if few
        && begins("ok|okay|yes|no|good|great|nice|fine|cool|perfect|continue|go on|hm|hmm")
    {
        Some(Talk::Yes)
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
