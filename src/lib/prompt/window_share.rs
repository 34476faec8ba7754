//! The share of files in the system text: together at most a quarter of the context window.

use std::sync::Arc;

use crate::provider::Tier;
use crate::text;

/// The share of the window (specification §11): one part of this many.
const SHARE: u64 = 4;
/// Room that a marker takes, characters.
const MARKER: usize = 60;

/// A piece of the system text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// What it is called, in its heading and where it is said that it was cut.
    pub name: String,
    pub tier: Tier,
    pub body: Body,
}

/// What a piece says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// Words: of too many the beginning and the end are kept.
    Text(Arc<str>),
    /// A list: of too many the first are kept.
    List {
        head: String,
        entries: Vec<String>,
        tail: String,
    },
}

impl Body {
    fn chars(&self) -> usize {
        match self {
            Self::Text(text) => text.chars().count(),
            Self::List {
                head,
                entries,
                tail,
            } => [head, tail]
                .into_iter()
                .chain(entries)
                .map(|part| part.chars().count())
                .sum(),
        }
    }

    /// Returns the words as they are sent.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::List {
                head,
                entries,
                tail,
            } => format!("{head}{}{tail}", entries.concat()),
        }
    }

    /// Cuts it to `max` characters.
    fn cut(&mut self, max: usize) {
        match self {
            Self::Text(text) if max <= MARKER => *text = "[… left out: no room …]".into(),
            Self::Text(text) => *text = text::head_and_tail(text, max - MARKER, 70).into(),
            Self::List {
                head,
                entries,
                tail,
            } => {
                let mut room =
                    max.saturating_sub(head.chars().count() + tail.chars().count() + MARKER);
                let fits = |entry: &&String| {
                    let chars = entry.chars().count();
                    let fits = chars <= room;
                    room = room.saturating_sub(chars);
                    fits
                };
                let kept = entries.iter().take_while(fits).count();
                let left = entries.len() - kept;
                entries.truncate(kept);
                entries.push(format!("[… {left} more left out: no room …]\n"));
            }
        }
    }
}

/// What did not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// What was cut, in order.
    pub names: Vec<String>,
    /// How many tokens all of it would have taken.
    pub tokens: u64,
    /// How many there are.
    pub budget: u64,
}

/// Cuts what is more than a quarter of a window of `window` tokens and returns what was cut. Pieces
/// share the room evenly; what a short one leaves is for the others. The same pieces are cut in the same
/// way every time, for the prompt cache.
pub(super) fn fit(pieces: &mut [Piece], window: u64) -> Option<Cut> {
    let budget = window / SHARE;
    let sizes: Vec<usize> = pieces.iter().map(|piece| piece.body.chars()).collect();
    let tokens = (sizes.iter().sum::<usize>() as u64 * 3).div_ceil(10);
    if tokens <= budget {
        return None;
    }
    let share = share(
        &sizes,
        usize::try_from(budget * 10 / 3).unwrap_or(usize::MAX),
    );
    let mut names = Vec::new();
    for (piece, size) in pieces.iter_mut().zip(sizes) {
        if size > share {
            piece.body.cut(share);
            names.push(piece.name.clone());
        }
    }
    Some(Cut {
        names,
        tokens,
        budget,
    })
}

/// Returns the size to which the larger ones are cut so that all together have `room`.
fn share(sizes: &[usize], room: usize) -> usize {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (at, size) in sorted.iter().enumerate() {
        let each = left / (sorted.len() - at);
        if *size > each {
            return each;
        }
        left -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn piece(name: &str, chars: usize) -> Piece {
        Piece {
            name: name.to_owned(),
            tier: Tier::Stable,
            body: Body::Text("x".repeat(chars).into()),
        }
    }

    #[test]
    fn what_fits_is_not_touched_and_one_character_more_is_cut() {
        let mut pieces = [piece("a", 5_000), piece("b", 5_000)];
        assert_eq!(
            fit(&mut pieces, 12_000),
            None,
            "10,000 characters are 3,000 tokens, a quarter of 12,000"
        );
        assert_eq!(pieces, [piece("a", 5_000), piece("b", 5_000)]);
        let cut = Cut {
            names: vec!["a".into(), "b".into()],
            tokens: 3_000,
            budget: 2_999,
        };
        assert_eq!(fit(&mut pieces, 11_999), Some(cut));
    }

    #[test]
    fn the_long_share_what_the_short_leave() {
        let mut pieces = [
            piece("long", 20_000),
            piece("short", 1_000),
            piece("longer", 30_000),
        ];
        let cut = fit(&mut pieces, 40_000).expect("too much");
        assert_eq!(
            (cut.names, cut.budget),
            (vec!["long".to_owned(), "longer".to_owned()], 10_000)
        );
        let chars: Vec<usize> = pieces.iter().map(|piece| piece.body.chars()).collect();
        assert_eq!(chars[1], 1_000);
        // 33,333 characters less 1,000, halved; nine tenths of that are kept.
        assert_eq!((chars[0], chars[2]), (14_527, 14_528));
        assert!(
            pieces[0]
                .body
                .text()
                .contains("[… 5505 characters left out …]"),
            "{:?}",
            pieces[0].body.text().get(11_200..11_400)
        );
    }

    #[test]
    fn of_a_list_the_first_are_kept_and_the_rest_is_counted() {
        let entries = (0..100)
            .map(|number| format!("{number:03} and some words\n"))
            .collect();
        let body = Body::List {
            head: "head\n".into(),
            entries,
            tail: "tail".into(),
        };
        let mut pieces = [Piece {
            name: "list".into(),
            tier: Tier::SemiStable,
            body,
        }];
        fit(&mut pieces, 400).expect("too much");
        let text = pieces[0].body.text();
        assert!(text.chars().count() <= 333, "{text}");
        assert!(
            text.starts_with("head\n000 and") && text.ends_with(" more left out: no room …]\ntail"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn nothing_is_ever_more_than_the_budget(sizes in proptest::collection::vec(0usize..30_000, 1..12), window in 800u64..50_000) {
            let mut pieces: Vec<Piece> = sizes.iter().map(|size| piece("x", *size)).collect();
            fit(&mut pieces, window);
            let chars: usize = pieces.iter().map(|piece| piece.body.chars()).sum();
            prop_assert!(chars as u64 * 3 / 10 <= window / 4 + 1, "{chars} characters for a window of {window}");
        }
    }
}
