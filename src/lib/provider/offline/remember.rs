//! “remember that …”: the words to keep, as the person said them, or why not.

use std::sync::LazyLock;

use super::words::{after, after_any, asks, first_word, is_one_of, plain, trim_lead};

/// What an order to remember is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Note {
    /// These words, as a sentence.
    Keep(String),
    /// A password or the like.
    Secret,
    /// Nothing was named.
    Empty,
}

const BEFORE: &str = "can you please|could you please|would you please|will you please|can you|could you|would you|will you";
const WISHES: &str = "i want you to|i would like you to|i'd like you to|i need you to|you should|you must|make sure to|make sure you|\
    be sure to|please always|always|please";
/// What follows these is to be kept, whatever it is.
const VERBS: &str = "remember|don't forget|dont forget|do not forget|never forget|keep in mind|bear in mind|memorise|memorize";
/// These are orders only with “that”, “this” or a colon: “note the difference” is none.
const NOTES: &str = "note down|make a note|take a note|take note|note|write down|write this down|jot down|save|save a note";
const TAGS: &str =
    " ok?| okay?| alright?| please?| will you?| please| please.| ok| thanks| thanks!| thank you";
const BACKWARDS: &str = "remember that|remember this|remember it|note that|note this|keep that in mind|keep this in mind|keep it in mind|\
    don't forget that|don't forget this|don't forget it|do not forget that|do not forget this|do not forget it";

/// Reads an order to remember; `None` when `text` is none. A question (“do you remember …?”) is none.
pub(super) fn read(text: &str) -> Option<Note> {
    let text = untagged(text.trim());
    forwards(text)
        .or_else(|| backwards(text))
        .map(|note| match note {
            Note::Keep(words) if is_secret(&words) => Note::Secret,
            Note::Keep(words) => Note::Keep(sentence(&words)),
            Note::Secret | Note::Empty => note,
        })
}

/// “remember that X”.
fn forwards(text: &str) -> Option<Note> {
    let (asked, order) = after_any(text, BEFORE).map_or((false, text), |rest| (true, rest));
    let order = after_any(order, WISHES).unwrap_or(order);
    let loose = after_any(order, VERBS);
    let rest = loose.or_else(|| after_any(order, NOTES))?;
    let colon = rest.trim_start().starts_with([':', '\n', ',']);
    let that = after_any(rest, "that|of the fact that|the following|of the following");
    let this = after_any(rest, "this|of this|down|it").filter(|rest| {
        rest.trim_start().is_empty() || rest.trim_start().starts_with([':', ',', '.', '!'])
    });
    let to = after(rest, "to").is_some();
    let clear = colon || that.is_some() || this.is_some() || to && loose.is_some();
    // “remember when we met?” asks; “can you remember that we met?” does not.
    if (loose.is_none() && !clear) || (asks(text) && !(asked && clear)) {
        return None;
    }
    let words = trim_lead(that.or(this).unwrap_or(rest)).trim_end();
    let words = if asked {
        words.trim_end_matches(['?', ' '])
    } else {
        words
    };
    if !words.contains(char::is_alphanumeric) {
        return Some(Note::Empty);
    }
    Some(Note::Keep(
        if to && loose.is_some() {
            order
                .trim_start_matches([' ', ','])
                .trim_end_matches(['?', ' '])
        } else {
            words
        }
        .to_owned(),
    ))
}

/// “X. Remember that.”
fn backwards(text: &str) -> Option<Note> {
    let bare = text.trim_end_matches(['.', '!', ' ', '\n']);
    let start = bare.rfind(['.', '!', '?', ';', '\n', ','])?;
    let (before, last) = bare.split_at(start + 1);
    let last = plain(last);
    let last = last.strip_prefix("and ").unwrap_or(&last);
    let last = last.strip_prefix("please ").unwrap_or(last);
    let words = before.trim_end_matches([',', ';', ' ', '\n']);
    (is_one_of(last, BACKWARDS) && words.contains(char::is_alphanumeric))
        .then(|| Note::Keep(words.to_owned()))
}

fn untagged(text: &str) -> &str {
    let cut = |tag: &str| {
        let at = text.len().checked_sub(tag.len())?;
        let head = text
            .get(..at)
            .filter(|head| head.ends_with(',') || head.ends_with('.'))?;
        text.get(at..)
            .filter(|end| end.eq_ignore_ascii_case(tag))
            .map(|_| head.trim_end_matches(','))
    };
    TAGS.split('|').find_map(cut).unwrap_or(text)
}

/// Makes a sentence of `words` where nothing but a letter and a full stop is missing.
fn sentence(words: &str) -> String {
    let is_word = |word: &str| {
        word.chars()
            .all(|c| c.is_alphabetic() || matches!(c, '\'' | '’' | '-' | ','))
    };
    let first = words.split_whitespace().next().unwrap_or("");
    let capital = is_word(first) && first.chars().skip(1).all(|c| !c.is_uppercase());
    let mut letters = words.chars();
    let mut out = String::with_capacity(words.len() + 1);
    match letters.next() {
        Some(c) if capital => out.extend(c.to_uppercase()),
        Some(c) => out.push(c),
        None => {}
    }
    out.push_str(letters.as_str());
    let last = words.split_whitespace().next_back().unwrap_or("");
    let is_plain = first_word(last).is_some_and(|(_, rest)| rest.is_empty());
    if is_plain && !words.contains('\n') && words.contains(' ') && last.is_ascii() {
        out.push('.');
    }
    out
}

/// Returns true for what looks like a password, a key, a PIN or the number of a card, together with
/// its value. Rather one too many: a note is a plain file.
pub(super) fn is_secret(text: &str) -> bool {
    names_a_secret(text)
        || text.split_whitespace().any(is_key)
        || has_card_number(text)
        || text.contains("PRIVATE KEY-----")
}

fn names_a_secret(text: &str) -> bool {
    const NAMES: &str = "password|passwords|passwort|passphrase|passcode|pass code|passwd|api key|apikey|secret key|private key|\
        access key|access token|api token|bot token|auth token|recovery code|seed phrase|security code|cvv|cvc|pin|\
        pin code|puk|kennwort|mot de passe|contraseña|пароль";
    static PHRASES: LazyLock<Vec<String>> =
        LazyLock::new(|| NAMES.split('|').map(|name| format!(" {name} ")).collect());
    let short = crate::text::head(text, 5000);
    let words = format!(
        " {} ",
        plain(&short.replace(['=', ':'], " is ").replace(['_', '-'], " "))
    );
    PHRASES.iter().any(|name| {
        words.match_indices(name.as_str()).any(|(at, _)| {
            let rest = words.get(at + name.len()..).unwrap_or("");
            let mut next = rest.split(' ').filter(|word| !word.is_empty()).take(8);
            let first = next.clone().next().unwrap_or("");
            let is_number =
                |word: &str| word.len() >= 3 && word.chars().all(|c| c.is_ascii_digit());
            if matches!(
                name.trim(),
                "pin" | "pin code" | "puk" | "cvv" | "cvc" | "security code"
            ) {
                return next.any(is_number);
            }
            let has_value = first.chars().any(|c| c.is_ascii_digit());
            has_value
                || next.any(|word| {
                    matches!(word, "is" | "are" | "was" | "lautet" | "ist" | "est" | "es")
                })
        })
    })
}

/// Returns true for the shapes of well-known keys.
fn is_key(word: &str) -> bool {
    let known = [
        "sk-",
        "ghp_",
        "gho_",
        "github_pat_",
        "xoxb-",
        "xoxp-",
        "AKIA",
        "AIza",
        "glpat-",
        "eyJ",
    ];
    let long = word.len() >= 16;
    long && known.iter().any(|start| word.starts_with(start))
}

/// Returns true when 13 to 19 digits in a row (spaces and hyphens between) pass the check of card numbers (Luhn).
fn has_card_number(text: &str) -> bool {
    let mut digits: Vec<u32> = Vec::new();
    for c in text.chars().chain(['.']) {
        match c.to_digit(10) {
            Some(digit) => digits.push(digit),
            None if matches!(c, ' ' | '-') => {}
            None => {
                if (13..=19).contains(&digits.len()) && luhn(&digits) {
                    return true;
                }
                digits.clear();
            }
        }
    }
    false
}

fn luhn(digits: &[u32]) -> bool {
    let twice = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| if at % 2 == 1 { twice(*digit) } else { *digit })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(text: &str, expected: &str) {
        assert_eq!(read(text), Some(Note::Keep(expected.to_owned())), "{text}");
    }

    #[test]
    fn the_words_are_kept_as_the_person_said_them() {
        keep(
            "remember that my sister's birthday is 3 May",
            "My sister's birthday is 3 May.",
        );
        keep("Please remember: I like tea!", "I like tea!");
        keep("remember my car is red", "My car is red.");
        keep(
            "Note that the boiler was serviced in 2025.",
            "The boiler was serviced in 2025.",
        );
        keep("note: milk", "Milk");
        keep("Don’t forget that Anna is vegan, ok?", "Anna is vegan.");
        keep("keep in mind I hate loud places", "I hate loud places.");
        keep(
            "Can you remember that I live in Berlin?",
            "I live in Berlin.",
        );
        keep("could you please remember this: gate B12", "Gate B12.");
        keep(
            "I want you to remember that Bob is my boss",
            "Bob is my boss.",
        );
        keep("remember to call Bob", "Remember to call Bob.");
        keep(
            "Don't forget to call Bob, please",
            "Don't forget to call Bob.",
        );
        keep("remember that iPhone 15 is mine", "iPhone 15 is mine.");
        keep("remember https://example.org/a", "https://example.org/a");
        keep("remember: !exec rm -rf x", "!exec rm -rf x.");
        keep("remember that:\n- milk\n- eggs", "- milk\n- eggs");
        keep("I live in Berlin. Remember that.", "I live in Berlin.");
        keep(
            "my door code changes monthly, please remember this",
            "My door code changes monthly.",
        );
        keep("remember that 猫が好き", "猫が好き");
    }

    #[test]
    fn a_question_about_remembering_is_no_order() {
        for text in [
            "do you remember my sister's birthday?",
            "remember when we met?",
            "Can you remember my birthday?",
            "can you remember what I said?",
            "Remember me?",
            "I remember that day",
            "note the difference",
            "notes on tea",
            "save the whales",
            "I'll remember that",
            "remembering is hard",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn nothing_to_keep_is_noticed() {
        for text in [
            "remember",
            "Remember!",
            "remember that",
            "please remember this.",
            "remember:",
            "note that",
        ] {
            assert_eq!(read(text), Some(Note::Empty), "{text}");
        }
    }

    #[test]
    fn a_secret_is_not_kept() {
        for text in [
            "remember that my wifi password is hunter2",
            "remember: password=hunter2",
            "remember my PIN is 4711",
            "note that the pin of my card is 1234",
            "remember my card number 4111 1111 1111 1111",
            "remember ghp_0123456789abcdefghij",
            "remember api_key: abc",
            "remember that my passwords are a and b",
        ] {
            assert_eq!(read(text), Some(Note::Secret), "{text}");
        }
        keep(
            "remember that I must change my password on Friday",
            "I must change my password on Friday.",
        );
        keep(
            "remember the pin board in the hall",
            "The pin board in the hall.",
        );
        keep(
            "remember that order 4111 1111 1111 1112 came",
            "Order 4111 1111 1111 1112 came.",
        );
    }
}
