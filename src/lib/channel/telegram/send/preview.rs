//! Temporary messages: the chat action, the progress, the text written so far.
//!
//! None of them is worth waiting for. A chat action or a mark is left out when the rate limit has no room for it, an edit
//! or a draft when there would be none within a second: the next one has newer content anyway.

use std::time::Duration;

use unicode_segmentation::UnicodeSegmentation;

use super::api::{Error, Request};
use super::call::Turn;
use super::split::{is_blank, units};
use super::unsendable;
use crate::channel::SendError;

/// How long a preview waits for room.
pub(super) const PREVIEW_WAIT: Duration = Duration::from_secs(1);
pub(super) const PREVIEW: Turn = Turn::Within(PREVIEW_WAIT);
/// Typing and marks.
pub(super) const SIGN: Turn = Turn::Within(Duration::ZERO);
/// How long a call may take that is worth little later.
pub(super) const QUICK: Duration = Duration::from_secs(10);

/// Returns a request that is given up soon.
pub(super) fn quick(request: impl Into<Request>) -> Result<Request, Error> {
    Ok(request.into().within(QUICK))
}

/// Returns what fits into `limit` UTF-16 units, with `…` when that is not all.
///
/// # Errors
/// When the text is blank.
pub(super) fn fit(text: &str, limit: usize) -> Result<String, SendError> {
    if is_blank(text) {
        return Err(unsendable("there is nothing to show"));
    }
    if units(text) <= limit {
        return Ok(text.to_owned());
    }
    let mut used = 1;
    let fits = |letter: &&str| {
        used += units(letter);
        used <= limit
    };
    let short: String = text.graphemes(true).take_while(fits).collect();
    Ok(short + "…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_fits_into_one_message_and_no_letter_is_broken() {
        // A family of eight units each: 511 fit next to the sign.
        let family = "👨‍👩‍👧";
        for (text, expected) in [
            ("short".to_owned(), "short".to_owned()),
            ("x".repeat(4096), "x".repeat(4096)),
            ("x".repeat(4097), format!("{}…", "x".repeat(4095))),
            (family.repeat(600), format!("{}…", family.repeat(511))),
        ] {
            assert_eq!(fit(&text, 4096), Ok(expected));
        }
        let blank = Err(unsendable("there is nothing to show"));
        assert_eq!(fit(" \n\u{200b}", 4096), blank);
    }
}
