//! Finds plain facts and promises in plain sentences, by rules and without a language model.
//!
//! It would rather miss a fact than keep a false one: a sentence that no rule reads whole makes no
//! claim. What it understands in English (German, Spanish and French by the rows of their packs):
//!
//! - names: "My name is Ada", "I'm Ada", "Call me Addie", "I am called Ada";
//! - home and origin: "I live in Porto", "I moved to Porto", "I am from Brazil", "I was born in 1990";
//! - work and study: "I work at Siemens", "I work as a nurse", "I'm a nurse", "I study law at Coimbra";
//! - taste: "I like/love/hate/prefer …", "I can't stand …", "My favourite colour is green";
//! - body: "I am allergic to nuts", "I'm vegan", "I don't eat pork", "I am 34", "My blood type is A";
//! - days and ways to reach one: birthdays (real dates only), email, telephone, address, time zone;
//! - languages, instruments, games: "I speak Polish and German", "I play the cello";
//! - people and animals: "my sister Ana", "My dog is called Rex", "Ana is my boss", "I have two cats";
//! - the same about them: "My sister lives in Rome", "Ana's birthday is 3 May", "Rui works at CERN";
//! - "remember that …", "please note: …", "actually, …", "not 3 May but 4 May";
//! - what is over: "I no longer work at Siemens", "I don't live in Porto any more", "I used to like jazz";
//! - in notes also "The user lives in Porto" and `- Birthday: 3 May`.
//!
//! The one shape of a relation: its name is (owner, relation, name), as (`user`, `sister`, `Ana`)
//! and (`user`, `dog`, `Rex`), however it is said. What is said of somebody with a name is about
//! that name; of somebody without one about `user's sister`.
//!
//! [`commitments`] finds promises and reminders ("I'll send Bob the report by Friday", "Erinnere mich
//! am 3. Mai daran, …") in English, German, Spanish and French.
//!
//! It makes no claim from: questions, exclamations, guesses and conditions, plans, moods and what
//! passes, what others say, quotations, code, pasted mail, work on texts ("Translate: …"), a text that
//! is asked about or labelled ("What do you think of this bio?", "Fwd: …"), what is said to the agent
//! ("you are …"), "he", "she", "it" and "that", anything beside a secret, and what somebody may do:
//! rights are settings.
//!
//! ```text
//! text → block (own lines) → sentence (quotations covered) → words → statement (does it state something?)
//!      → facts (subject, verb, value: english, else the rows of another language) → Claim
//! ```

mod block;
mod clause;
mod confirm;
mod dates;
mod english;
mod facts;
mod notes;
mod promise;
mod secrets;
mod sentence;
mod statement;
mod subject;
mod value;
mod words;

use std::collections::HashMap;

use chrono_tz::Tz;

use crate::clock;
use crate::language::pack::english;
use sentence::Sentence;
use words::Word;

pub use dates::Deadline;
pub use promise::Commitment;
pub use secrets::may_be_kept;

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
/// message, or the silence spreads to what stands beside it. Never the agent's own words.
pub fn speech(text: &str) -> Vec<Claim> {
    let voice = Voice {
        first_person: true,
        about_user: false,
    };
    let mut claims = Vec::new();
    own_sentences(text)
        .iter()
        .for_each(|(sentence, _)| read(sentence, voice, &mut claims));
    once(claims)
}

/// Returns what a person confirms who answers nothing but "yes, exactly" to the one question that `asked`, words of
/// the agent, ends with: "So you live in Lyon?" The claims have no line of their own: 0.
pub fn confirmed(asked: &str, answer: &str) -> Vec<Claim> {
    let Some(sentence) = confirm::statement(asked, answer) else {
        return Vec::new();
    };
    let mut claims = Vec::new();
    read(
        &sentence,
        Voice {
            first_person: true,
            about_user: false,
        },
        &mut claims,
    );
    claims
}

/// Returns what a person promises in `text`, one message of theirs, said at `said_at_ms`
/// (milliseconds since 1970 UTC), or asks to be reminded of, in order. Days are those of `zone`.
/// Never the agent's own words. The same text states nothing here that it would not in [`speech`].
pub fn commitments(text: &str, said_at_ms: i64, zone: Tz) -> Vec<Commitment> {
    let now = clock::local(said_at_ms, zone);
    own_sentences(text)
        .iter()
        .flat_map(|(sentence, words)| promise::read(sentence, words, now))
        .collect()
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
    let own = |(Sentence { text, quote, .. }, words): (Sentence, Vec<Word>)| {
        let may_be_fact = secrets::may_keep(&text, &words);
        let is_name =
            count(&quote) <= count(&text) + 1 && quote.chars().count() < sentence::MAX_QUOTE;
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
    let block = block::Block {
        line: 0,
        lines: text.lines().collect(),
        item: false,
        headings: Vec::new(),
    };
    let quotes = sentence::sentences(&block)
        .into_iter()
        .map(|sentence| sentence.quote);
    quotes
        .filter(|quote| may_be_kept(quote))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the sentences of a message that are its writer's own, and their words; none when it asks
/// for work on a text.
fn own_sentences(text: &str) -> Vec<(Sentence, Vec<Word>)> {
    let mut own = Vec::new();
    for block in block::blocks(text) {
        for (number, sentence) in sentence::sentences(&block).into_iter().enumerate() {
            let words = words::words(&sentence.text);
            let asked = || {
                own.iter()
                    .any(|(_, words): &(Sentence, Vec<Word>)| words.len() > 2)
            };
            if number == 0 && statement::greets(&words) && asked() {
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
/// the title is that person's name, and below it "I" is whoever wrote the file.
pub fn notes_of_person(markdown: &str) -> Vec<Claim> {
    let (body, before, _) = notes::frontmatter(markdown);
    let first = body.lines().find(|line| !line.trim().is_empty());
    read_notes(
        body,
        before,
        false,
        first
            .and_then(|line| line.strip_prefix("# "))
            .map(str::trim),
    )
}

fn read_notes(body: &str, before: u32, other: bool, title: Option<&str>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for mut block in block::blocks(body) {
        block.line += before;
        let is_title = |heading: &(usize, &str)| heading.0 == 1 && Some(heading.1) == title;
        let headings: Vec<&str> = block
            .headings
            .iter()
            .filter(|one| !is_title(one))
            .map(|(_, text)| *text)
            .collect();
        let about = notes::about(headings.iter().copied(), other);
        let voice = Voice {
            first_person: about != notes::About::Other && title.is_none(),
            about_user: true,
        };
        // A `key: value` stands alone on its line; the lines between two are prose.
        let mut prose: Vec<String> = Vec::new();
        let mut begun = block.line;
        let mut about_keys = about;
        for (line, number) in block.lines.iter().zip(block.line..) {
            let whole = *line;
            let line = notes::undated(line);
            match notes::key_value(line, about_keys) {
                None => {
                    if prose.is_empty() {
                        begun = number;
                    }
                    prose.push(notes::prose(
                        line,
                        if prose.is_empty() {
                            about
                        } else {
                            notes::About::Other
                        },
                    ));
                }
                Some(stated) => {
                    read_prose(&std::mem::take(&mut prose), begun, voice, &mut claims);
                    claims.extend(stated.map(|(entity, attribute, value)| {
                        let quote = line.split_whitespace().collect::<Vec<_>>().join(" ");
                        let quote = crate::text::head(&quote, 300).to_owned();
                        Claim {
                            entity,
                            attribute,
                            value,
                            ended: false,
                            confidence: facts::EXPLICIT,
                            line: number,
                            quote,
                        }
                    }));
                }
            }
            // "Anna Berger", and below it "Phone: …".
            if block.item && number == block.line
                || block::is_label(whole) && !notes::is_empty_key(whole)
            {
                about_keys = notes::about(headings.iter().copied().chain([whole]), other);
            }
        }
        read_prose(&prose, begun, voice, &mut claims);
    }
    once(claims)
}

fn read_prose(lines: &[String], line: u32, voice: Voice, claims: &mut Vec<Claim>) {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let block = block::Block {
        line,
        lines,
        item: false,
        headings: Vec::new(),
    };
    for sentence in sentence::sentences(&block) {
        read(&sentence, voice, claims);
    }
}

fn read(sentence: &Sentence, voice: Voice, claims: &mut Vec<Claim>) {
    let Some(statement) = statement::statement(&sentence.text, &words::words(&sentence.text))
    else {
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

/// What is said twice is claimed once, unless something else was said in between.
fn once(claims: Vec<Claim>) -> Vec<Claim> {
    let mut last: HashMap<(String, String), (String, bool)> = HashMap::new();
    let mut kept = Vec::new();
    for claim in claims {
        let said = (claim.value.clone(), claim.ended);
        let before = last.insert(
            (claim.entity.clone(), claim.attribute.clone()),
            said.clone(),
        );
        if before != Some(said) {
            kept.push(claim);
        }
    }
    kept
}

#[cfg(test)]
mod change_tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod notes_tests;
#[cfg(test)]
mod promise_tests;
#[cfg(test)]
mod tests;
