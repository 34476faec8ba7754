//! Finds facts and promises in plain sentences, by rules and without a language model.
//!
//! Missing a fact is better than storing a false one: a sentence that no rule reads completely makes no claim, and neither do
//! questions, guesses, plans, moods, quotations, work on texts, or anything next to a secret. The words are in the language
//! packs (`language/packs`); `examples.txt` has examples of both.
//!
//! A relation always has the form (owner, relation, name), such as (`user`, `sister`, `Ana`) and (`user`, `dog`, `Rex`),
//! however it is stated. A statement about a person with a name is about that name; about one without a name it is about
//! `user's sister`.
//!
//! ```text
//! text → block (own lines) → sentence (quotations covered) → words → statement (does it state something?)
//!      → facts (subject, verb, value: english, else the rows of another language) → Claim
//!      → promise (opening, what is to be done, dates) → Commitment
//! ```

mod block;
mod clause;
mod confirm;
mod dates;
mod english;
mod facts;
mod never_remembered;
mod notes;
mod promise;
mod sentence;
mod statement;
mod subject;
mod value;
mod words;

use std::collections::HashMap;

use chrono_tz::Tz;

use crate::clock;
use crate::language::pack::english;
use block::Block;
use sentence::Sentence;
use words::Word;

pub use dates::Deadline;
pub use never_remembered::may_be_kept;
pub use promise::Commitment;

/// A fact that a text states.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Whom or what it is about: `user`, a name, or `user's sister`.
    pub entity: String,
    /// What is said of it, in a short normal form: `lives in`, `birthday`, `sister`.
    pub attribute: String,
    /// As the person spelt it, at most 80 characters.
    pub value: String,
    /// That it was so and is no longer: "I no longer work at Siemens". Only a fact of this very value ends by it.
    pub ended: bool,
    /// 0.6 to 0.9: how often such a sentence means what the rule takes it for. 0.9: it was said in
    /// order to be kept ("remember that …", `key: value`). 0.8: plainly about oneself. 0.7: about
    /// others, or read from a capital letter alone. 0.1 less where there are no capitals to tell a
    /// name by, or "moved to" stands for "lives in". Less than 0.6 is not claimed.
    pub confidence: f64,
    /// The line of the text where its sentence begins, from 0.
    pub line: u32,
    /// The sentence on one line, at most 300 characters.
    pub quote: String,
}

/// Whose words are read.
#[derive(Debug, Clone, Copy)]
struct Voice {
    /// "I" is the user.
    first_person: bool,
    /// "the user" is the user.
    about_user: bool,
}

/// The user speaks.
const SPEECH: Voice = Voice {
    first_person: true,
    about_user: false,
};

/// Returns true when an entity may have several values of `attribute` at once: with "likes" or
/// "friend" a new value adds to the old ones, with "lives in" it takes their place.
pub fn holds_many(attribute: &str) -> bool {
    english().facts.many.has(attribute)
}

/// Returns what does not hold of the same value at once: who dislikes sushi likes it no longer.
pub fn opposite(attribute: &str) -> Option<&'static str> {
    match attribute {
        "likes" => Some("dislikes"),
        "dislikes" => Some("likes"),
        _ => None,
    }
}

/// Returns what a person states in `text`, one message of theirs, in order. "I" is the entity
/// `user`. A message that asks for work on a text ("Translate …") states nothing: call this once a
/// message, or the silence spreads to what is next to it. Never the agent's own words.
pub fn speech(text: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (sentence, _) in own_sentences(text) {
        read(&sentence, SPEECH, &mut claims);
    }
    once(claims)
}

/// Returns what a person confirms who answers nothing but "yes, exactly" to the one question that `asked`, words of
/// the agent, ends with: "So you live in Lyon?" The claims have no line of their own: 0.
pub fn confirmed(asked: &str, answer: &str) -> Vec<Claim> {
    let mut claims = Vec::new();
    if let Some(sentence) = confirm::statement(asked, answer) {
        read(&sentence, SPEECH, &mut claims);
    }
    claims
}

/// Returns true for a message that does nothing but take back what the same person said in the one before: "Just kidding!"
pub fn takes_back(text: &str) -> bool {
    !text.contains(['?', '？']) && statement::only_takes_back(&words::words(text))
}

/// Returns what a person promises in `text`, one message of theirs, said at `said_at_ms`
/// (milliseconds since 1970 UTC), or asks to be reminded of, in order. Days are those of `zone`.
/// Never the agent's own words. The same text states nothing here that it would not in [`speech`].
pub fn commitments(text: &str, said_at_ms: i64, zone: Tz) -> Vec<Commitment> {
    let now = clock::local(said_at_ms, zone);
    let own = own_sentences(text);
    let promises = own
        .iter()
        .map(|(sentence, words)| promise::read(sentence, words, now));
    promises.flatten().collect()
}

/// A sentence of a message that is its writer's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// What it says, without what is quoted, unless that is a name: two words at most.
    pub words: String,
    /// Nothing about secrets and rights is a fact.
    pub may_be_fact: bool,
}

/// Returns the sentences of a message that are its writer's own, for who else reads it: none of one that asks for work
/// on a text, nor of code, tables, pasted and forwarded text.
pub fn own(text: &str) -> Vec<Own> {
    let count = |text: &str| text.split_whitespace().count();
    let own = |(sentence, words): (Sentence, Vec<Word>)| {
        let Sentence { text, quote, .. } = sentence;
        let may_be_fact = never_remembered::may_keep(&text, &words);
        let is_whole = quote.chars().count() < sentence::MAX_QUOTE;
        let is_name = is_whole && count(&quote) <= count(&text) + 1;
        Own {
            words: if is_name { quote } else { text },
            may_be_fact,
        }
    };
    own_sentences(text).into_iter().map(own).collect()
}

/// Returns the sentences of `text` that may be remembered.
pub fn kept(text: &str) -> String {
    if may_be_kept(text) {
        return text.to_owned();
    }
    let block = Block::of(0, text.lines().collect());
    let mut sentences = sentence::sentences(&block);
    sentences.retain(|sentence| may_be_kept(&sentence.quote));
    let quotes: Vec<String> = sentences.into_iter().map(|one| one.quote).collect();
    quotes.join(" ")
}

/// Returns the sentences of a message that are its writer's own, and their words; none when it asks
/// for work on a text.
fn own_sentences(text: &str) -> Vec<(Sentence, Vec<Word>)> {
    let mut own: Vec<(Sentence, Vec<Word>)> = Vec::new();
    for block in block::blocks(text) {
        for (number, sentence) in sentence::sentences(&block).into_iter().enumerate() {
            let words = words::words(&sentence.text);
            let has_asked = own.iter().any(|(_, words)| words.len() > 2);
            if number == 0 && statement::greets(&words) && has_asked {
                return own;
            }
            if statement::asks_for_text_work(&words) {
                return Vec::new();
            }
            // "Fwd: Hello, my name is Igor. I live in Minsk."
            if statement::opens_labelled_text(&sentence.text, &words) {
                break;
            }
            // "My name is Batman. Just kidding."
            if statement::takes_back(&words) {
                own.pop();
            }
            let is_last = statement::opens_pasted_text(&sentence.text, &words)
                || statement::asks_about_text(&sentence.text, &words);
            own.push((sentence, words));
            if is_last {
                return own;
            }
        }
    }
    own
}

/// Returns what a memory file states about the user and others, in order. Its frontmatter is not
/// read, but `type: person` there says that `Birthday: …` is not the user's; so does a heading
/// that is not about the user ("# Ana", "# Identity"), and an item or a line that only names somebody above it.
pub fn notes(markdown: &str) -> Vec<Claim> {
    let (body, before, other) = notes::frontmatter(markdown);
    read_notes(body, before, other, None)
}

/// Returns what a memory file states that is about one person, who is the entity `user` there: as [`notes()`] does, but
/// the title is that person's name, and below it "I" is the author of the file.
pub fn notes_of_person(markdown: &str) -> Vec<Claim> {
    let (body, before, _) = notes::frontmatter(markdown);
    let first = body.lines().find(|line| !line.trim().is_empty());
    let title = first.and_then(|line| line.strip_prefix("# "));
    read_notes(body, before, false, title.map(str::trim))
}

fn read_notes(body: &str, before: u32, other: bool, title: Option<&str>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for block in block::blocks(body) {
        let first = block.line + before;
        let is_title = |level, text: &str| level == 1 && Some(text) == title;
        let headings = block
            .headings
            .iter()
            .filter(|(level, text)| !is_title(*level, text));
        let headings: Vec<&str> = headings.map(|(_, text)| *text).collect();
        let about = notes::about(headings.iter().copied(), other);
        let voice = Voice {
            first_person: about != notes::About::Other && title.is_none(),
            about_user: true,
        };
        // A `key: value` stands alone on its line; the lines between two are prose.
        let mut prose: Vec<String> = Vec::new();
        let mut about_keys = about;
        for (whole, number) in block.lines.iter().zip(first..) {
            let line = notes::undated(whole);
            if let Some(stated) = notes::key_value(line, about_keys) {
                read_prose(&mut prose, number, voice, &mut claims);
                claims.extend(stated.map(|stated| notes::claim(stated, line, number)));
            } else {
                let is_first = prose.is_empty();
                prose.push(notes::prose(
                    line,
                    if is_first { about } else { notes::About::Other },
                ));
            }
            // "Anna Berger", and below it "Phone: …".
            let is_label = block::is_label(whole) && !notes::is_empty_key(whole);
            if block.item && number == first || is_label {
                about_keys = notes::about(headings.iter().copied().chain([*whole]), other);
            }
        }
        let end = (first..).nth(block.lines.len()).unwrap_or(first);
        read_prose(&mut prose, end, voice, &mut claims);
    }
    once(claims)
}

/// Reads the lines of `prose`, which end before line `end`, and leaves none.
fn read_prose(prose: &mut Vec<String>, end: u32, voice: Voice, claims: &mut Vec<Claim>) {
    let count = u32::try_from(prose.len()).unwrap_or(u32::MAX);
    let lines = prose.iter().map(String::as_str).collect();
    for sentence in sentence::sentences(&Block::of(end.saturating_sub(count), lines)) {
        read(&sentence, voice, claims);
    }
    prose.clear();
}

fn read(sentence: &Sentence, voice: Voice, claims: &mut Vec<Claim>) {
    let words = words::words(&sentence.text);
    let Some(statement) = statement::statement(&sentence.text, &words) else {
        return;
    };
    let found = facts::read(&sentence.text, &statement, voice);
    claims.extend(found.into_iter().map(|found| Claim {
        entity: found.entity,
        attribute: found.attribute,
        value: found.value,
        ended: found.ended,
        confidence: (found.confidence * 100.0).round() / 100.0,
        line: sentence.line,
        quote: sentence.quote.clone(),
    }));
}

/// Returns the things that `value` lists, each of which holds by itself: "jazz, blues and soul" of what somebody likes, but
/// "rock and roll" is one.
pub(crate) fn listed<'a>(attribute: &str, value: &'a str) -> Vec<&'a str> {
    let always = ["speaks", "allergic to", "does not eat", "does not drink"].contains(&attribute);
    let mut joints = [" and ", " und ", " et ", " y ", " e "].into_iter();
    let parts = joints.find_map(|and| value.rsplit_once(and));
    let is_list = |before: &str| holds_many(attribute) && (always || before.contains(','));
    let Some((before, last)) = parts.filter(|(before, _)| is_list(before)) else {
        return vec![value];
    };
    let parts = before.split(',').chain([last]).map(str::trim);
    parts.filter(|part| !part.is_empty()).collect()
}

/// What is said twice is claimed once, unless something else was said in between; what a list names is claimed each.
fn once(claims: Vec<Claim>) -> Vec<Claim> {
    let each = |claim: Claim| {
        let parts: Vec<String> = listed(&claim.attribute, &claim.value)
            .into_iter()
            .map(str::to_owned)
            .collect();
        parts.into_iter().map(move |value| Claim {
            value,
            ..claim.clone()
        })
    };
    let mut claims: Vec<Claim> = claims.into_iter().flat_map(each).collect();
    let mut last: HashMap<(String, String), (String, bool)> = HashMap::new();
    claims.retain(|claim| {
        let of = (claim.entity.clone(), claim.attribute.clone());
        let said = (claim.value.clone(), claim.ended);
        last.insert(of, said.clone()) != Some(said)
    });
    claims
}

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod tests;
