//! What vectors cost, and how texts become requests.

use super::{BATCH, MAX_CHARS, MAX_CHARS_OF_BATCH, is_blank};
use crate::{config, text};

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// US dollars a million tokens.
    pub usd_per_mtok: f64,
    /// US dollars a request beside that.
    pub usd_per_request: f64,
}

impl Price {
    /// Returns what the provider's file states for `model`: the first number of `cost_per_mtok`, and
    /// `cost_per_request`; `None` when it states neither.
    pub fn of(model: &config::Model) -> Option<Self> {
        if model.rates.is_none() && model.cost_per_request.is_none() {
            return None;
        }
        let usd_per_mtok = model.rates.map_or(0.0, |[input, ..]| input);
        Some(Self { usd_per_mtok, usd_per_request: model.cost_per_request.unwrap_or(0.0) })
    }
}

/// What texts would cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// Tokens of the texts as they are sent.
    pub tokens: u64,
    /// Requests, if none is repeated.
    pub requests: u64,
    /// US dollars; `None` when nobody knows the price.
    pub usd: Option<f64>,
}

/// Returns what `texts` would cost at `price`.
#[expect(clippy::cast_precision_loss, reason = "an estimate; exact up to 2^53 tokens")]
pub fn estimate<'a>(texts: impl IntoIterator<Item = &'a str>, price: Option<Price>) -> Estimate {
    let mut tokens = 0;
    let sent = texts.into_iter().filter(|text| !is_blank(text)).map(|text| text::head(text, MAX_CHARS));
    let sizes = batches(sent.inspect(|text| tokens += text::estimate_tokens(text)));
    let requests = sizes.len() as u64;
    let usd = price.map(|price| tokens as f64 / 1e6 * price.usd_per_mtok + requests as f64 * price.usd_per_request);
    Estimate { tokens, requests, usd }
}

/// Returns the tokens of `texts`, estimated.
pub(super) fn tokens(texts: &[&str]) -> u64 {
    texts.iter().map(|text| text::estimate_tokens(text)).sum()
}

/// Returns how many of `texts` go into each request, in order.
pub(super) fn batches<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<usize> {
    let mut sizes: Vec<usize> = Vec::new();
    let mut room = 0;
    for text in texts {
        let chars = text.chars().count();
        match sizes.last_mut() {
            Some(size) if *size < BATCH && chars <= room => *size += 1,
            _ => {
                sizes.push(1);
                room = MAX_CHARS_OF_BATCH;
            }
        }
        room = room.saturating_sub(chars);
    }
    sizes
}
