//! What states nothing: questions, guesses, what others say, secrets, talk about a text.
//! Here it is better to lose a fact than to keep a false one.

use super::Voice;
use super::sentence::{HOLE, MAX_CHARS};
use super::subject::{Role, subject};
use super::tongues::{Row, TONGUES, Tongue};
use super::vocabulary as v;
use super::words::{Word, has_any, phrase_at};

/// A sentence that may state facts.
#[derive(Debug)]
pub(super) struct Statement {
    /// Its words, without what it began with and means nothing.
    pub words: Vec<Word>,
    /// Whether it was wrapped in "remember that …".
    pub explicit: bool,
    /// Whether it is written without capital letters: names cannot be told from words.
    pub small: bool,
}

/// Returns the statement the words of `text` make, if they make one.
pub(super) fn statement(text: &str, mut words: Vec<Word>) -> Option<Statement> {
    if text.contains(['?', '？'])
        || text.chars().nth(MAX_CHARS).is_some()
        || !may_be_kept(text, &words)
    {
        return None;
    }
    let mut explicit = false;
    // "Please remember: by the way, …"
    for _ in 0..4 {
        let wrapper = v::WRAPPERS
            .split('|')
            .find_map(|wrapper| phrase_at(&words, 0, wrapper));
        let starter = || {
            v::STARTERS
                .split('|')
                .find_map(|starter| phrase_at(&words, 0, starter))
        };
        explicit |= wrapper.is_some();
        let Some(end) = wrapper.or_else(starter) else {
            break;
        };
        words.drain(..end);
        while words.first().is_some_and(Word::is_mark) {
            words.remove(0);
        }
    }
    let excited = text.contains(['!', '！']) && !explicit;
    let first = words.first()?.low.as_str();
    // What stands in parentheses is not read, but it may take all back: "(just kidding)".
    let all = super::words::words(&text.replace(['(', ')', '[', ']'], " , "));
    let hedged = has_any(&all, v::HEDGES);
    let reported = all.iter().any(|word| v::among(v::REPORTED, &word.low));
    if excited || hedged || reported || v::among(v::ASKING, first) || v::among(v::TEXT_WORK, first)
    {
        return None;
    }
    // "Things to know: I …" opens a text that may be anybody's; "My birthday: 3 May" does not.
    if let Some(colon) = words.iter().position(|word| word.low == ":") {
        let about_me = matches!(words.first()?.low.as_str(), "my" | "user" | "the");
        if !about_me || colon > 5 {
            words.truncate(colon);
        }
    }
    let small = !text.chars().any(char::is_uppercase);
    Some(Statement {
        words,
        explicit,
        small,
    })
}

/// Returns true when the words ask for work on a text: translate, rewrite, play a part.
pub(super) fn asks_for_text_work(words: &[Word]) -> bool {
    let polite =
        "please|can you|could you|would you|will you|now|hey|hi|ok|also|,|help me|i want you to";
    let mut at = 0;
    while let Some(end) = polite
        .split('|')
        .find_map(|phrase| phrase_at(words, at, phrase))
    {
        at = end;
    }
    let Some(first) = words.get(at) else {
        return false;
    };
    let says = "how do you say|how would you say|what does|is this correct|is this right|let's play|let's pretend|let us play|make this|\
        make it sound|fix this|fix the|fix my|give me an example|clean up|tidy up|fill in|here is an example|now you play|you play|you are now|\
        an example|sample text|read this|look at this text|check this|explain this";
    v::among(v::TEXT_WORK, &first.low)
        || says
            .split('|')
            .any(|phrase| phrase_at(words, at, phrase).is_some())
}

/// "Mein Beruf", "Mi perro".
fn is_key(label: &[Word], tongue: &Tongue) -> bool {
    let [my, noun] = label else { return false };
    let starts = |(row, ..): &Row| row.split([' ', '/']).next() == Some(noun.low.as_str());
    v::among(tongue.my, &my.low)
        && (tongue.own.iter().any(starts)
            || tongue
                .relations
                .iter()
                .any(|(_, names)| v::among(names, &noun.low)))
}

/// "Merk dir", "Por cierto".
fn opens_own_words(label: &[Word], tongue: &Tongue) -> bool {
    let text = label
        .iter()
        .map(|word| word.low.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    let begins = |wrapper: &str| {
        wrapper
            .strip_prefix(&text)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    tongue.wrappers.split('|').any(begins)
        || label
            .iter()
            .all(|word| v::among(tongue.starters, &word.low))
}

/// Returns true when the words greet: in the middle of a message a letter begins there.
pub(super) fn greets(words: &[Word]) -> bool {
    words
        .first()
        .is_some_and(|word| v::among("hi hello hey dear hallo hola bonjour salut", &word.low))
}

/// Returns true when the sentence asks what one thinks of a text, which then follows: "What do you think of this bio?"
pub(super) fn asks_about_text(text: &str, words: &[Word]) -> bool {
    let asks = text.contains(['?', '？'])
        || words
            .first()
            .is_some_and(|word| v::among(v::ASKING, &word.low));
    let points = |at: usize| {
        v::among(v::POINTERS, &words[at].low)
            && words
                .iter()
                .skip(at + 1)
                .take(4)
                .any(|word| v::among(v::TEXTS, &word.low))
    };
    // ", correct?" asks for a yes.
    let judges =
        |at: usize| v::among(v::IS_CORRECT, &words[at].low) && at > 0 && !words[at - 1].is_mark();
    asks && (0..words.len()).any(|at| points(at) || judges(at))
}

/// Returns true when the sentence begins with whose words or what kind of text it is: "SMS from mum: I …", "Fwd: Hello".
/// Who says "I" before the colon goes on to speak.
pub(super) fn opens_labelled_text(text: &str, words: &[Word]) -> bool {
    let at = (0..words.len()).scan(0, |at, _| {
        let opening = |list: &str| {
            list.split('|')
                .find_map(|phrase| phrase_at(words, *at, phrase))
        };
        *at = opening(v::WRAPPERS).or_else(|| opening(v::STARTERS))?;
        Some(*at)
    });
    let words = words.get(at.last().unwrap_or(0)..).unwrap_or(&[]);
    // Of a smiley no space follows the colon.
    let opens = |word: &Word| {
        word.low == ":"
            && text
                .get(word.end..)
                .is_some_and(|rest| rest.starts_with(' '))
    };
    let Some(colon) = words
        .iter()
        .position(opens)
        .filter(|colon| (1..=6).contains(colon))
    else {
        return false;
    };
    let (label, rest) = (
        words.get(..colon).unwrap_or(&[]),
        words.get(colon + 1..).unwrap_or(&[]),
    );
    // "My birthday: 3 May" and "Birthday: 3 May" are facts; "My sister: I …" is hers.
    let my = Word {
        raw: "my".to_owned(),
        low: "my".to_owned(),
        start: 0,
        end: 0,
    };
    let is_owned = label
        .iter()
        .any(|word| matches!(word.low.as_str(), "my" | "'s"));
    let owned: Vec<Word> = (!is_owned)
        .then_some(my)
        .into_iter()
        .chain(words.iter().cloned())
        .collect();
    let is_fact = subject(
        &owned,
        Voice {
            first_person: true,
            about_user: false,
        },
    )
    .is_some_and(|(subject, end)| {
        end == colon + usize::from(!is_owned)
            && (is_owned || matches!(subject.role, Role::Attribute(..)))
    });
    let is_fact = is_fact || TONGUES.iter().any(|tongue| is_key(label, tongue));
    let first_person = "i we my ich wir mein meine je mon ma yo mi";
    let is_speech = greets(rest)
        || rest
            .first()
            .is_some_and(|word| v::among(first_person, &word.low));
    let speaks = |word: &Word| {
        v::among(
            "i me we us ich mir mich wir yo je is are was ist sind es est",
            &word.low,
        )
    };
    let own = "thing|things|news|update|updates|fact|ps|p.s|question|plan|plans|info|detail|frage|pregunta";
    let is_own = is_fact && !is_speech
        || label.iter().any(speaks)
        || [OWN_TEXT, own].iter().any(|list| has_any(label, list))
        || TONGUES.iter().any(|tongue| opens_own_words(label, tongue));
    !rest.is_empty() && !is_own
}

/// Returns true when the words take back what was said before them.
pub(super) fn takes_back(words: &[Word]) -> bool {
    let at =
        usize::from(words.first().is_some_and(|word| {
            matches!(word.low.as_str(), "no" | "haha" | "lol" | "ok" | "nein")
        }));
    let says_no = words
        .first()
        .is_some_and(|word| matches!(word.low.as_str(), "no" | "nein" | "non"));
    // "No, on Monday."
    let right =
        |word: &Word| word.is_capital() || v::among("on by in at am bis im el en le à", &word.low);
    let corrects = says_no
        && words.get(1).is_some_and(Word::is_mark)
        && words.len() <= 5
        && words.get(2).is_some_and(right);
    let at = at + usize::from(words.get(at).is_some_and(Word::is_mark));
    corrects
        || v::TAKES_BACK
            .split('|')
            .any(|phrase| phrase_at(words, at, phrase).is_some())
}

/// Returns true when what follows the sentence is pasted: it ends with a colon and does not speak of the speaker.
pub(super) fn opens_foreign_text(text: &str, words: &[Word]) -> bool {
    text.trim_end().ends_with(':') && !has_any(words, OWN_TEXT)
}

/// What is said before a colon, when one's own words follow it.
const OWN_TEXT: &str =
    "about me|remember|note|notes|my family|facts|forget|in mind|know|corrections|correction";

/// Returns true when the words speak of what somebody may do: rights are settings, and never remembered.
fn is_about_rights(words: &[Word]) -> bool {
    let is_job = |at: usize| {
        at > 0 && v::among("system systems database network office", &words[at - 1].low)
    };
    let administers = |(at, word): (usize, &Word)| word.low.starts_with("administ") && !is_job(at);
    words.iter().any(|word| v::among(v::RIGHTS, &word.low))
        || words.iter().enumerate().any(administers)
        || has_any(words, v::RIGHTS_PHRASES)
}

/// Returns true for words that may be remembered: they are about no secret, and not about what somebody may do.
pub(super) fn may_be_kept(text: &str, words: &[Word]) -> bool {
    !is_secret(text, words) && !is_about_rights(words)
}

/// Returns true when the words are about a secret or hold one.
fn is_secret(text: &str, words: &[Word]) -> bool {
    words.iter().any(|word| {
        v::among(v::SECRETS, &word.low) || v::among(v::SECRETS, word.low.trim_end_matches("'s"))
    }) || has_any(words, v::SECRET_PHRASES)
        || text.split_whitespace().any(looks_secret)
        || has_long_number(text)
}

/// Keys and tokens: long, letters and digits mixed; or with a well-known beginning.
fn looks_secret(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric());
    let known = [
        "sk-",
        "pk-",
        "ghp_",
        "gho_",
        "github_pat",
        "AKIA",
        "xoxb",
        "xoxp",
        "eyJ",
        "glpat",
        "AIza",
    ];
    let (digits, letters) = (
        word.chars().any(|c| c.is_ascii_digit()),
        word.chars().any(char::is_alphabetic),
    );
    known.iter().any(|start| word.starts_with(start))
        || word.chars().count() >= 16 && digits && letters && !word.contains(['@', '/'])
}

/// Cards have 13 to 19 digits, an IBAN more than 13; a telephone number has at most 12 in use.
/// "123-45-6789" is how a social security number is written.
fn has_long_number(text: &str) -> bool {
    let (mut digits, mut groups, mut group) = (0usize, Vec::new(), 0usize);
    for c in text.chars().chain(['x', 'x']) {
        match c {
            _ if c.is_ascii_digit() => {
                digits += 1;
                group += 1;
            }
            ' ' | '-' if digits > 0 => {
                groups.push(std::mem::take(&mut group));
                if c == ' ' {
                    groups.push(0);
                }
            }
            _ => {
                groups.push(std::mem::take(&mut group));
                if digits >= 13 || groups.windows(3).any(|three| three == [3, 2, 4]) {
                    return true;
                }
                digits = 0;
                groups.clear();
            }
        }
    }
    false
}

/// Returns true when the words speak of what passes or is to come.
pub(super) fn passes(words: &[Word]) -> bool {
    has_any(words, v::PASSING)
}

/// Returns true when the clause is turned to somebody, or only thought of: what follows it hangs on it.
pub(super) fn poisons(words: &[Word]) -> bool {
    words.iter().any(|word| {
        matches!(
            word.low.as_str(),
            "you"
                | "your"
                | "yours"
                | "yourself"
                | "u"
                | "would"
                | "could"
                | "might"
                | "ignore"
                | "disregard"
        )
    })
}

/// Returns true when something was covered there.
pub(super) fn has_hole(text: &str) -> bool {
    text.contains(HOLE)
}
