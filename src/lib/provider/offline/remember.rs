//! “remember that …”: the text to save, in the person's words, or why it is not saved.

use super::words::{after, after_any, asks, first_word, is_one_of, plain, trim_lead};
use crate::language::pack::{english, packs};
use crate::language::service_keys::looks_like_key;
use crate::text;

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

/// Reads an order to remember; `None` when `text` is none. A question (“do you remember …?”) is none.
pub(super) fn read(text: &str) -> Option<Note> {
    let text = without_tag(text.trim());
    let words = order(text).or_else(|| order_behind(text))?;
    Some(if !words.contains(char::is_alphanumeric) {
        Note::Empty
    } else if is_secret(words) {
        Note::Secret
    } else {
        Note::Keep(sentence(words))
    })
}

/// Returns X of “remember that X”.
fn order(text: &str) -> Option<&str> {
    let pack = &english().requests;
    let asked = after_any(text, &pack.asks_us);
    let order = asked.unwrap_or(text);
    let order = after_any(order, &pack.wishes).unwrap_or(order);
    let remember = after_any(order, &pack.remember);
    let rest = remember.or_else(|| after_any(order, &pack.note))?;
    let is_introduced = rest.trim_start().starts_with([':', '\n', ',']);
    let that = after_any(rest, &pack.that);
    let this = after_any(rest, &pack.this).filter(|rest| {
        let rest = rest.trim_start();
        rest.is_empty() || rest.starts_with([':', ',', '.', '!'])
    });
    let to = remember.is_some() && after(rest, "to").is_some();
    let is_clear = is_introduced || that.or(this).is_some() || to;
    // “note the difference” is not an order. “remember when we met?” asks; “can you remember that we met?” does not.
    if remember.is_none() && !is_clear || asks(text) && !(asked.is_some() && is_clear) {
        return None;
    }
    let words = match to {
        true => order.trim_start_matches([' ', ',']),
        false => trim_lead(that.or(this).unwrap_or(rest)).trim_end(),
    };
    Some(match asked {
        Some(_) => words.trim_end_matches(['?', ' ']),
        None => words,
    })
}

/// Returns X of “X. Remember that.”
fn order_behind(text: &str) -> Option<&str> {
    let bare = text.trim_end_matches(['.', '!', ' ', '\n']);
    let start = bare.rfind(['.', '!', '?', ';', '\n', ','])?;
    let (before, last) = bare.split_at(start + 1);
    let last = plain(last);
    let last = last
        .trim_start_matches("and ")
        .trim_start_matches("please ");
    let words = before.trim_end_matches([',', ';', ' ', '\n']);
    let is_order = is_one_of(last, &english().requests.remember_that);
    (is_order && words.contains(char::is_alphanumeric)).then_some(words)
}

/// Returns `text` without “, ok?” and the like.
fn without_tag(text: &str) -> &str {
    let cut = |tag: &String| {
        let (head, end) = text.split_at_checked(text.len().checked_sub(tag.len() + 1)?)?;
        let is_tag = end.trim_start().eq_ignore_ascii_case(tag) && head.ends_with([',', '.']);
        is_tag.then(|| head.trim_end_matches(','))
    };
    let mut tags = english().requests.tags.iter();
    tags.find_map(cut).unwrap_or(text)
}

/// Makes a sentence of `words` where nothing but a letter and a full stop is missing.
fn sentence(words: &str) -> String {
    let is_word = |c: char| c.is_alphabetic() || matches!(c, '\'' | '’' | '-' | ',');
    let first = words.split_whitespace().next().unwrap_or("");
    // "iPhone" is written so.
    let is_plain = first.chars().all(is_word) && !first.chars().skip(1).any(char::is_uppercase);
    let mut letters = words.chars();
    let mut out: String = match letters.next() {
        Some(c) if is_plain => c.to_uppercase().collect(),
        first => first.into_iter().collect(),
    };
    out.push_str(letters.as_str());
    let last = words.split_whitespace().next_back().unwrap_or("");
    let ends_with_word = first_word(last).is_some_and(|(_, rest)| rest.is_empty());
    if ends_with_word && last.is_ascii() && words.contains(' ') && !words.contains('\n') {
        out.push('.');
    }
    out
}

/// Returns true for what looks like a password, a key, a PIN or the number of a card, together with
/// its value. Rather one too many: a note is a plain file.
pub(super) fn is_secret(text: &str) -> bool {
    let is_key = |word: &str| word.len() >= 16 && looks_like_key(word);
    names_a_secret(text)
        || text.split_whitespace().any(is_key)
        || has_card_number(text)
        || text.contains("PRIVATE KEY-----")
}

fn names_a_secret(text: &str) -> bool {
    let short = text::head(text, 5000)
        .replace(['=', ':'], " is ")
        .replace(['_', '-'], " ");
    let words = plain(&short);
    let is_number = |word: &str| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_digit());
    let has_digit = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    // What follows the first name of a secret.
    let behind = |name: &str| {
        let named = format!(" {name} ");
        let at = format!(" {words} ").find(&named)?;
        let rest = words.get(at + name.len()..).unwrap_or("");
        Some(
            rest.split_whitespace()
                .take(8)
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    packs().iter().map(|pack| &pack.requests).any(|pack| {
        let says = |word: &String| pack.is.has(word);
        let with_value = |next: Vec<String>| {
            next.iter().any(says) || next.first().is_some_and(|word| has_digit(word))
        };
        let with_number = |next: Vec<String>| next.iter().any(|word| is_number(word));
        pack.secrets
            .iter()
            .filter_map(|name| behind(name))
            .any(with_value)
            || pack
                .number_secrets
                .iter()
                .filter_map(|name| behind(name))
                .any(with_number)
    })
}

/// Returns true when 13 to 19 digits in a row (spaces and hyphens between) pass the check of card numbers (Luhn).
fn has_card_number(text: &str) -> bool {
    let runs = text.split(|c: char| !c.is_ascii_digit() && c != ' ' && c != '-');
    runs.into_iter().any(|run| {
        let digits: Vec<u32> = run.chars().filter_map(|c| c.to_digit(10)).collect();
        let twice = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
        let places = digits.iter().rev().enumerate();
        let sum: u32 = places
            .map(|(at, digit)| if at % 2 == 1 { twice(*digit) } else { *digit })
            .sum();
        (13..=19).contains(&digits.len()) && sum.is_multiple_of(10)
    })
}

#[cfg(test)]
mod tests;
