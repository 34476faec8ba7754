//! How texts become requests, and how large those are.

use super::{BATCH, MAX_CHARS, MAX_CHARS_OF_BATCH};
use crate::text;

/// What a vendor and we put around a text has fewer bytes than this, and so fewer tokens: `[CLS]` and `[SEP]`, the
/// words of a task.
const FRAME: usize = 32;

/// A text without words is not sent: OpenAI refuses an empty one, and with it the whole request.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns what of `texts` is sent.
pub(super) fn sent<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    texts
        .iter()
        .filter(|text| !is_blank(text))
        .map(|text| text::head(text, MAX_CHARS))
        .collect()
}

/// Cuts texts that are sent into requests, in order.
pub(super) fn batches<'a, 'b>(mut texts: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    let mut batches = Vec::new();
    while !texts.is_empty() {
        let mut chars = 0;
        let fits = texts.iter().take(BATCH).take_while(|text| {
            chars += text.chars().count();
            chars <= MAX_CHARS_OF_BATCH
        });
        let (batch, rest) = texts.split_at(fits.count().max(1));
        batches.push(batch);
        texts = rest;
    }
    batches
}

/// Returns the tokens of `texts`, estimated.
pub(super) fn tokens(texts: &[&str]) -> u64 {
    texts.iter().map(|text| text::estimate_tokens(text)).sum()
}

/// Returns the most tokens that a request with `texts` can have: each byte one.
pub(super) fn most_tokens(texts: &[&str]) -> u64 {
    texts.iter().map(|text| (text.len() + FRAME) as u64).sum()
}
