//! Decides which sentences state something: not questions, guesses, quotations, or talk about a text. Losing a fact is better
//! than storing a false one.

use super::SPEECH;
use super::never_remembered;
use super::sentence::MAX_CHARS;
use super::subject::{attribute, relation, subject};
use super::words::{Word, any_of, between, has_any, is_capital, low, opens, tail, words};
use crate::language::pack::{Pack, any_has, english, packs};

/// A sentence that may state facts.
#[derive(Debug)]
pub(super) struct Statement {
    /// Its words, without what it began with and means nothing.
    pub words: Vec<Word>,
    /// Whether it was wrapped in "remember that …".
    pub explicit: bool,
    /// Whether it is written without capital letters: names cannot be distinguished from words.
    pub small: bool,
}

/// Returns `words` without what they begin with and means nothing, and whether that was "remember that" or the like.
pub(super) fn stripped<'a>(mut words: &'a [Word], pack: &Pack) -> (&'a [Word], bool) {
    let mut explicit = false;
    loop {
        let wrapper = opens(words, 0, &pack.statements.wrappers);
        explicit |= wrapper.is_some();
        match wrapper.or_else(|| opens(words, 0, &pack.statements.starters)) {
            Some(end) => words = tail(words, end),
            None => return (words, explicit),
        }
    }
}

/// Returns the statement that the words of `text` make, if they make one.
pub(super) fn statement(text: &str, words: &[Word]) -> Option<Statement> {
    let pack = &english().statements;
    if text.contains(['?', '？'])
        || text.chars().nth(MAX_CHARS).is_some()
        || !never_remembered::may_keep(text, words)
    {
        return None;
    }
    let (words, explicit) = stripped(words, english());
    let first = low(words, 0);
    // What is in parentheses is not read, but it may take all back: "(just kidding)".
    let all = self::words(&text.replace(['(', ')', '[', ']'], " , "));
    let excited = text.contains(['!', '！']) && !explicit;
    let asks = pack.asking.has(first) || any_has(|pack| &pack.statements.text_work, first);
    if first.is_empty()
        || excited
        || asks
        || has_any(&all, &pack.hedges)
        || any_of(&all, &pack.reported)
    {
        return None;
    }
    // "Things to know: I …" opens a text that may be anybody's; "My birthday: 3 May" does not.
    let colon = words.iter().position(|word| word.low == ":");
    let about_me = matches!(first, "my" | "user" | "the");
    let cut = colon.filter(|colon| !about_me || *colon > 5);
    Some(Statement {
        words: between(words, 0, cut.unwrap_or(words.len())).to_vec(),
        explicit,
        small: !text.chars().any(char::is_uppercase),
    })
}

/// Returns true when the words ask for work on a text: translate, rewrite, play a part.
pub(super) fn asks_for_text_work(mut words: &[Word]) -> bool {
    let pack = &english().statements;
    while let Some(end) = opens(words, 0, &pack.polite) {
        words = tail(words, end);
    }
    any_has(|pack| &pack.statements.text_work, low(words, 0))
        || opens(words, 0, &pack.text_requests).is_some()
}

/// Returns true when the words greet: in the middle of a message a letter begins there.
pub(super) fn greets(words: &[Word]) -> bool {
    any_has(|pack| &pack.statements.greetings, low(words, 0))
}

/// Returns true when the sentence asks what one thinks of a text, which then follows: "What do you think of this bio?"
pub(super) fn asks_about_text(text: &str, words: &[Word]) -> bool {
    let asks = text.contains(['?', '？']) || english().statements.asking.has(low(words, 0));
    asks && packs().iter().map(|pack| &pack.statements).any(|pack| {
        (0..words.len()).any(|at| {
            let points = pack.pointers.has(low(words, at));
            let texts = words
                .iter()
                .skip(at + 1)
                .take(4)
                .any(|word| pack.texts.has(&word.low));
            // ", correct?" asks for a yes.
            let judges = pack.is_correct.has(low(words, at)) && at > 0 && !words[at - 1].is_mark();
            points && texts || judges
        })
    })
}

/// Returns true when the sentence begins with the author or the kind of a text: "SMS from mum: I …", "Fwd: Hello".
/// Who says "I" before the colon continues to speak.
pub(super) fn opens_labelled_text(text: &str, words: &[Word]) -> bool {
    let (words, _) = stripped(words, english());
    // Of a smiley no space follows the colon.
    let is_open = |word: &Word| {
        let rest = text.get(word.end..).unwrap_or("");
        word.low == ":" && rest.starts_with(' ')
    };
    let colon = words.iter().position(is_open);
    let Some(colon) = colon.filter(|colon| (1..=6).contains(colon)) else {
        return false;
    };
    let (label, rest) = (between(words, 0, colon), tail(words, colon + 1));
    let first_person = any_has(|pack| &pack.statements.first_person, low(rest, 0));
    let is_fact = packs().iter().any(|pack| is_key(label, pack)) && !first_person && !greets(rest);
    let own = |pack: &Pack| {
        let said = label
            .iter()
            .map(|word| word.low.as_str())
            .collect::<Vec<_>>()
            .join(" ");
        let wraps = |wrapper: &String| {
            let rest = wrapper.strip_prefix(&said);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        any_of(label, &pack.statements.speaks)
            || has_any(label, &pack.statements.own_texts)
            || has_any(label, &pack.statements.own_labels)
            || pack.statements.wrappers.iter().any(wraps)
            || stripped(label, pack).0.is_empty()
    };
    !rest.is_empty() && !is_fact && !packs().iter().any(own)
}

/// Returns true for the key of a fact: "My birthday", "Birthday", "Mi perro", "Ana's birthday"; "My sister" speaks in
/// English.
fn is_key(label: &[Word], pack: &Pack) -> bool {
    let at = usize::from(pack.facts.my.has(low(label, 0)));
    let is_whole = |end: usize| end == label.len();
    if pack.facts.relation_words.is_empty() {
        return at == 1
            && (attribute(label, at, pack).is_some_and(|(.., end)| is_whole(end))
                || relation(label, at, pack).is_some_and(|(_, end)| is_whole(end)));
    }
    let owned = at == 1 || label.iter().any(|word| word.low == "'s");
    if !owned {
        return attribute(label, 0, pack).is_some_and(|(.., end)| is_whole(end));
    }
    subject(label, SPEECH, pack).is_some_and(|(_, end)| is_whole(end))
}

/// Returns true when the words take back what was said before them.
pub(super) fn takes_back(words: &[Word]) -> bool {
    packs().iter().map(|pack| &pack.statements).any(|pack| {
        let no = usize::from(pack.no.has(low(words, 0)));
        let at = no + usize::from(words.get(no).is_some_and(Word::is_mark));
        // "No, on Monday."
        let is_right = pack.before_day.has(low(words, at)) || is_capital(words, at);
        no == 1 && at == 2 && words.len() <= 5 && is_right
            || opens(words, 0, &pack.takes_back).is_some()
            || opens(words, at, &pack.takes_back).is_some()
    })
}

/// Returns true when the words take back what was said before them and say nothing else: "Just kidding!"
pub(super) fn only_takes_back(words: &[Word]) -> bool {
    packs().iter().any(|pack| {
        let (words, _) = stripped(words, pack);
        let end = opens(words, 0, &pack.statements.takes_back);
        end.is_some_and(|end| tail(words, end).iter().all(Word::is_mark))
    })
}

/// Returns true when what follows the sentence is pasted: it ends with a colon and does not speak of the speaker.
pub(super) fn opens_pasted_text(text: &str, words: &[Word]) -> bool {
    text.trim_end().ends_with(':') && !has_any(words, &english().statements.own_texts)
}

/// Returns true when the words speak of what passes or is to come.
pub(super) fn passes(words: &[Word]) -> bool {
    has_any(words, &english().statements.passing)
}

/// Returns true when the clause is turned to somebody, or only thought of: what follows it hangs on it.
pub(super) fn is_addressed(words: &[Word], pack: &Pack) -> bool {
    any_of(words, &pack.statements.addressed)
}
