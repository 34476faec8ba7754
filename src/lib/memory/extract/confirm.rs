//! A plain yes to a plain question: "So you live in Lyon?" "Yes, exactly." is "I live in Lyon".

use super::block::blocks;
use super::sentence::{Sentence, sentences};
use super::words::{Word, phrase_at, words};
use crate::text;

/// The whole answer; "yes, please" is none.
const YES: &str = "yes|yes exactly|yes correct|yes i do|yes i am|yes it is|yes that is right|yes that 's right|yes right|yes indeed|yep|yeah|yup|\
    exactly|correct|right|that is right|that 's right|that is correct|that 's correct|indeed|true|that is true|that 's true|exactly right";

/// What a question may begin and end with, and means nothing.
const BEFORE: &str = "so|just to confirm|to confirm|just to be sure|just to check|if i remember correctly|ah|ok|and|then|,|:|right";
const AFTER: &str =
    "right|correct|is that right|is that correct|is it|yes|then|do not you|are not you|no";

/// Returns the statement that `answer` makes of the question at the end of `asked`.
pub(super) fn statement(asked: &str, answer: &str) -> Option<Sentence> {
    let plain: Vec<Word> = words(answer)
        .into_iter()
        .filter(|word| !word.is_mark())
        .collect();
    let yes = YES
        .split('|')
        .any(|yes| phrase_at(&plain, 0, yes) == Some(plain.len()));
    // With two questions nobody knows which of them was meant.
    if !yes || answer.contains('?') || asked.matches(['?', '？']).count() != 1 {
        return None;
    }
    let said: Vec<Sentence> = blocks(asked).iter().flat_map(sentences).collect();
    let question = said
        .last()
        .filter(|last| last.text.trim_end().ends_with('?'))?;
    let asked = words(&question.text);
    let mut rest: &[Word] = &asked;
    while let Some(end) = BEFORE
        .split('|')
        .find_map(|phrase| phrase_at(rest, 0, phrase))
    {
        rest = rest.get(end..)?;
    }
    if let Some(at) = (0..rest.len()).find(|at| {
        let tag = |phrase| phrase_at(rest, at + 1, phrase) == Some(rest.len());
        rest.get(*at).is_some_and(Word::is_mark) && AFTER.split('|').any(tag)
    }) {
        rest = rest.get(..at)?;
    }
    let text = turned(rest)?;
    let quote = format!(
        "{} {}",
        question.quote,
        answer.split_whitespace().collect::<Vec<_>>().join(" ")
    );
    Some(Sentence {
        line: 0,
        text,
        quote: text::head(&quote, 300).to_owned(),
    })
}

/// "you live in Lyon", "do you live in Lyon" is "I live in Lyon"; "your wife is Ana" is "my wife is Ana".
fn turned(asked: &[Word]) -> Option<String> {
    let low = |at: usize| asked.get(at).map_or("", |word| word.low.as_str());
    let (begin, rest) = match (low(0), low(1)) {
        ("do", "you") => ("I", asked.get(2..)?),
        ("are", "you") | ("you", "are") => ("I am", asked.get(2..)?),
        ("you", verb)
            if !matches!(
                verb,
                "would" | "will" | "could" | "can" | "should" | "want" | "mean"
            ) =>
        {
            ("I", asked.get(1..)?)
        }
        ("your", _) => ("my", asked.get(1..)?),
        _ => return None,
    };
    let mut text = begin.to_owned();
    for word in rest {
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
