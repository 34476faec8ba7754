//! A plain yes to a plain question: "So you live in Lyon?" "Yes, exactly." is "I live in Lyon".

use super::block::blocks;
use super::sentence::{MAX_QUOTE, Sentence, sentences};
use super::words::{Word, low, opens, tail, words};
use crate::language::pack::english;
use crate::text;

/// Returns the statement that `answer` makes of the question at the end of `asked`.
pub(super) fn statement(asked: &str, answer: &str) -> Option<Sentence> {
    let pack = &english().answers;
    let mut plain = words(answer);
    plain.retain(|word| !word.is_mark());
    // With two questions nobody knows which of them was meant.
    if opens(&plain, 0, &pack.yes) != Some(plain.len())
        || answer.contains('?')
        || asked.matches(['?', '？']).count() != 1
    {
        return None;
    }
    let said: Vec<Sentence> = blocks(asked).iter().flat_map(sentences).collect();
    let question = said.last().filter(|last| last.text.ends_with('?'))?;
    let asked = words(&question.text);
    let mut rest: &[Word] = &asked;
    while let Some(end) = opens(rest, 0, &pack.question_starters) {
        rest = tail(rest, end);
    }
    let is_tag = |at: &usize| {
        rest[*at].is_mark() && opens(rest, at + 1, &pack.question_tags) == Some(rest.len())
    };
    if let Some(at) = (0..rest.len()).find(is_tag) {
        rest = rest.get(..at)?;
    }
    let answer: Vec<&str> = answer.split_whitespace().collect();
    let quote = format!("{} {}", question.quote, answer.join(" "));
    Some(Sentence {
        line: 0,
        text: turned(rest)?,
        quote: text::head(&quote, MAX_QUOTE).to_owned(),
    })
}

/// "you live in Lyon", "do you live in Lyon" is "I live in Lyon"; "your wife is Ana" is "my wife is Ana".
fn turned(asked: &[Word]) -> Option<String> {
    let (begin, skipped) = match (low(asked, 0), low(asked, 1)) {
        ("do", "you") => ("I", 2),
        ("are", "you") | ("you", "are") => ("I am", 2),
        ("you", verb) if !english().answers.not_turned.has(verb) => ("I", 1),
        ("your", _) => ("my", 1),
        _ => return None,
    };
    let mut text = begin.to_owned();
    for word in tail(asked, skipped) {
        let own = match word.low.as_str() {
            "your" => "my",
            // What is left to be turned is more than this knows.
            "you" | "yours" | "i" | "me" | "my" | "we" => return None,
            _ => word.raw.as_str(),
        };
        if !word.is_mark() && !own.starts_with('\'') && own != "n't" {
            text.push(' ');
        }
        text.push_str(own);
    }
    text.push('.');
    Some(text)
}
