//! The cost of a call: exact integer arithmetic from dollars per million tokens.

use crate::config::Model;
use crate::message::Usage;

/// Prices of a model in pico US dollars (10⁻¹² $) a token: 1 $ per million tokens is 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    input: i64,
    output: i64,
    cache_read: i64,
    cache_write: i64,
}

impl Rates {
    /// Returns the prices of `model`, `None` when its file states none.
    pub fn of(model: &Model) -> Option<Self> {
        let [input, output, cache_read, cache_write] = model.rates?.map(pico);
        Some(Self {
            input,
            output,
            cache_read,
            cache_write,
        })
    }

    /// Returns the price of `usage` in nano US dollars, rounded up.
    pub fn cost(&self, usage: &Usage) -> i64 {
        let price = |tokens: u64, rate: i64| i128::from(tokens) * i128::from(rate);
        let pico = price(usage.input_tokens, self.input)
            + price(usage.output_tokens, self.output)
            + price(usage.cache_read_tokens, self.cache_read)
            + price(usage.cache_write_tokens, self.cache_write);
        i64::try_from((pico + 999) / 1000).unwrap_or(i64::MAX)
    }

    /// Returns the most a call can cost in nano US dollars: every byte of input a token at the
    /// dearest input rate, and the whole output allowance.
    pub fn bound(&self, input_bytes: u64, max_tokens: u32) -> i64 {
        let dearest = self.input.max(self.cache_read).max(self.cache_write);
        let bound = Self {
            input: dearest,
            ..*self
        };
        bound.cost(&Usage {
            input_tokens: input_bytes,
            output_tokens: u64::from(max_tokens),
            ..Usage::default()
        })
    }
}

/// Returns the price of `seconds` of sound in nano US dollars, rounded up; `None` when the file of
/// `model` states none. Tokens that are free say that all of it is.
pub(crate) fn of_sound(model: &Model, seconds: u64) -> Option<i64> {
    of_units(model, model.cost_per_minute, seconds, 60)
}

/// Returns the price of `chars` characters that are spoken in nano US dollars, rounded up; `None` when the file of
/// `model` states none. Tokens that are free say that all of it is.
pub(crate) fn of_speech(model: &Model, chars: u64) -> Option<i64> {
    of_units(model, model.cost_per_mchar, chars, 1_000_000)
}

/// Returns the price of `count` units, of which `per` cost `price` dollars, and of one request.
fn of_units(model: &Model, price: Option<f64>, count: u64, per: i128) -> Option<i64> {
    let (price, request) = match (price, model.cost_per_request) {
        (None, None) => (model.rates == Some([0.0; 4])).then_some((0.0, 0.0))?,
        (price, request) => (price.unwrap_or(0.0), request.unwrap_or(0.0)),
    };
    let units = (i128::from(nano(price)) * i128::from(count) + per - 1) / per;
    let units = i64::try_from(units).unwrap_or(i64::MAX);
    Some(units.saturating_add(nano(request)))
}

/// Returns the price of a request that makes vectors of so many tokens in nano US dollars, rounded up; `None` when
/// the file of `model` states none.
pub(super) fn of_vectors(model: &Model, tokens: u64) -> Option<i64> {
    let words = Rates::of(model).map(|rates| {
        rates.cost(&Usage {
            input_tokens: tokens,
            ..Usage::default()
        })
    });
    let request = model.cost_per_request.map(nano);
    (words.is_some() || request.is_some())
        .then(|| words.unwrap_or(0).saturating_add(request.unwrap_or(0)))
}

/// Dollars per million tokens to pico dollars a token.
#[expect(
    clippy::cast_possible_truncation,
    reason = "prices are checked to be finite and are far below 2^63 pico dollars"
)]
fn pico(usd_per_mtok: f64) -> i64 {
    (usd_per_mtok * 1e6).round() as i64
}

/// Returns nano dollars of a dollar amount in the configuration.
#[expect(
    clippy::cast_possible_truncation,
    reason = "caps are checked to be finite; a cap above 9 billion dollars saturates"
)]
pub(crate) fn nano(usd: f64) -> i64 {
    (usd * 1e9).round() as i64
}

/// Returns the dollars of a nano amount, for display and JSON.
#[expect(
    clippy::cast_precision_loss,
    reason = "for display only; exact up to 9 million dollars"
)]
pub fn usd(nano: i64) -> f64 {
    nano as f64 / 1e9
}

/// Returns a dollar amount with two digits behind the point, or as many as it has.
pub(super) fn dollars(usd: f64) -> String {
    let cents = format!("{usd:.2}");
    if cents.parse() == Ok(usd) {
        cents
    } else {
        usd.to_string()
    }
}

/// Returns a dollar amount for a sentence: whole cents, rounded up, and below a cent as it is.
pub(super) fn cents(usd: f64) -> String {
    const CENT: i64 = 10_000_000;
    match nano(usd) {
        amount if amount < CENT => dollars(usd),
        amount => {
            let cents = amount.saturating_add(CENT - 1) / CENT;
            format!("{}.{:02}", cents / 100, cents % 100)
        }
    }
}

/// Returns the US dollars that are left of `limit_usd` after `spent` nano dollars; never below zero.
pub fn left_usd(limit_usd: f64, spent: i64) -> f64 {
    usd(nano(limit_usd).saturating_sub(spent).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Rates {
        Rates {
            input: pico(3.0),
            output: pico(15.0),
            cache_read: pico(0.3),
            cache_write: pico(3.75),
        }
    }

    #[test]
    fn a_call_costs_what_the_price_list_says() {
        let usage = Usage {
            input_tokens: 1000,
            output_tokens: 200,
            cache_read_tokens: 5000,
            cache_write_tokens: 400,
            estimated: false,
        };
        // 1000×3 + 200×15 + 5000×0.3 + 400×3.75 = 9000 micro dollars
        assert_eq!(rates().cost(&usage), 9_000_000);
    }

    #[test]
    fn a_sentence_has_whole_cents_rounded_up() {
        let told = [0.166_593_75, 0.07, 12.3, 1.999, 0.01, 0.002, 0.0].map(cents);
        assert_eq!(
            told,
            ["0.17", "0.07", "12.30", "2.00", "0.01", "0.002", "0.00"]
        );
    }

    #[test]
    fn the_bound_is_never_below_the_cost() {
        for (input, read, write, output) in [
            (100, 0, 0, 50),
            (0, 100, 0, 50),
            (0, 0, 100, 50),
            (30, 30, 40, 8192),
        ] {
            let usage = Usage {
                input_tokens: input,
                cache_read_tokens: read,
                cache_write_tokens: write,
                output_tokens: output,
                estimated: false,
            };
            assert!(rates().bound(100, 8192) >= rates().cost(&usage));
        }
    }
}
