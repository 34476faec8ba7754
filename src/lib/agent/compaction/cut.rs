//! Chooses the cut of a conversation: before a turn if possible, between two steps of a long turn if not,
//! and never between a call and its result. Pure.

use crate::config::Keep;
use crate::message::Role;
use crate::session::Entry;

/// What may begin the part that stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begins {
    /// Somebody's message: a turn.
    Turn,
    /// What the model said in a turn: the turn's message stays next to it.
    Step,
    /// Results of calls, a word of ours, the old summary.
    Nothing,
}

/// A message, by what is to be known of it here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    seq: u64,
    tokens: u64,
    begins: Begins,
}

/// A place to cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// The event of the first message that stays; one after the newest when none does.
    pub(super) kept_from: u64,
    /// The event of an older message that stays too: the one that is being worked on.
    pub(super) question: Option<u64>,
}

/// Returns the pieces of a conversation, their tokens times `factor`.
pub(super) fn pieces(entries: &[Entry], factor: f64) -> Vec<Piece> {
    let piece = |entry: &Entry| Piece {
        seq: entry.seq,
        tokens: super::scaled(entry.tokens(), factor),
        begins: match (entry.seq, entry.message.role, entry.trust) {
            (0, ..) => Begins::Nothing,
            (_, Role::User, Some(_)) => Begins::Turn,
            (_, Role::User, None) => Begins::Nothing,
            (_, Role::Assistant, _) => Begins::Step,
        },
    };
    entries.iter().map(piece).collect()
}

/// Returns where to cut so that about as much stays as `keep` says, of a window of `window` tokens, and
/// at most `most` tokens and `longest` messages; `None` when nothing can go. While a turn is `running`, its message and its
/// newest step stay, however large they are.
pub(super) fn cut(
    pieces: &[Piece],
    keep: Keep,
    window: u64,
    most: u64,
    longest: usize,
    running: bool,
) -> Option<Cut> {
    let count = pieces.len();
    // The old summary alone is not worth a new one.
    let first = if pieces.first()?.seq == 0 { 2 } else { 1 };
    let by_tokens = |tokens: u64| {
        let mut sum = 0_u64;
        let fits = pieces.iter().rev().take_while(|piece| {
            sum = sum.saturating_add(piece.tokens);
            sum <= tokens
        });
        count - fits.count()
    };
    let target = match keep {
        Keep::Fraction(share) => count - super::scaled_up(count, share),
        Keep::Window(share) => by_tokens(super::scaled(window, share)),
        Keep::Tokens(tokens) => by_tokens(tokens),
    };
    let target = target.max(by_tokens(most)).max(first);
    let target = target.max(count.saturating_sub(longest));
    let at = |wanted: Begins, from: usize| {
        (from..count).find(|at| pieces.get(*at).is_some_and(|piece| piece.begins == wanted))
    };
    let newest_turn = (0..count).rev().find(|at| {
        pieces
            .get(*at)
            .is_some_and(|piece| piece.begins == Begins::Turn)
    });
    let seq = |at: usize| pieces.get(at).map(|piece| piece.seq);
    if let Some(turn) = at(Begins::Turn, target) {
        return Some(Cut {
            kept_from: seq(turn)?,
            question: None,
        });
    }
    // Within the newest turn: its message stays, what is between that and the step goes.
    let begin = newest_turn.map_or(first, |turn| turn + 1);
    let newest_step = (begin..count).rev().find(|at| {
        pieces
            .get(*at)
            .is_some_and(|piece| piece.begins == Begins::Step)
    });
    let within = |step: usize| {
        let goes = step - usize::from(newest_turn.is_some()) >= first;
        goes.then_some(Cut {
            kept_from: seq(step)?,
            question: newest_turn.and_then(seq),
        })
    };
    if let Some(cut) = at(Begins::Step, target.max(begin))
        .or(newest_step)
        .and_then(within)
    {
        return Some(cut);
    }
    // One turn of one step: its beginning can go only as a whole.
    match newest_turn.filter(|turn| *turn >= first) {
        Some(turn) => Some(Cut {
            kept_from: seq(turn)?,
            question: None,
        }),
        None if running => None,
        None => (count >= first).then_some(Cut {
            kept_from: pieces.last()?.seq + 1,
            question: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation: `t` a turn's message, `a` an answer or step, `r` results, `s` the old summary.
    fn talk(text: &str, tokens: u64) -> Vec<Piece> {
        let begins = |kind: char| match kind {
            't' => Begins::Turn,
            'a' => Begins::Step,
            _ => Begins::Nothing,
        };
        let piece = |(seq, kind): (u64, char)| Piece {
            seq: if kind == 's' { 0 } else { seq },
            tokens,
            begins: begins(kind),
        };
        (1..).zip(text.chars()).map(piece).collect()
    }

    fn at(text: &str, keep: Keep, most: u64, running: bool) -> Option<(u64, Option<u64>)> {
        cut(&talk(text, 10), keep, 1000, most, usize::MAX, running)
            .map(|cut| (cut.kept_from, cut.question))
    }

    #[test]
    fn a_third_of_the_messages_stays_and_begins_with_a_turn() {
        let third = Keep::Fraction(0.33);
        assert_eq!(at("tatatatatata", third, 1000, false), Some((9, None)));
        // The cut would fall between a call and its result: the next turn it is.
        assert_eq!(at("tatatatararata", third, 1000, false), Some((13, None)));
        // What comes before it is one long turn: its message and its newest steps stay.
        assert_eq!(at("tatararararar", third, 1000, true), Some((10, Some(3))));
        assert_eq!(at("tarararara", third, 1000, false), Some((8, Some(1))));
    }

    #[test]
    fn what_stays_fits_whatever_was_to_be_kept() {
        assert_eq!(
            at("tatatatata", Keep::Fraction(0.9), 45, false),
            Some((7, None))
        );
        assert_eq!(
            at("tatatatata", Keep::Tokens(40), 1000, false),
            Some((7, None))
        );
        assert_eq!(
            at("tatatatata", Keep::Window(0.04), 1000, false),
            Some((7, None))
        );
        assert_eq!(
            at("tatararar", Keep::Tokens(0), 0, true),
            Some((8, Some(3)))
        );
    }

    #[test]
    fn of_many_short_messages_no_more_stay_than_may() {
        let talk = talk(&"ta".repeat(10), 10);
        let kept_from = |longest| {
            let cut = cut(&talk, Keep::Tokens(20_000), 1000, 1000, longest, false);
            cut.map(|cut| cut.kept_from)
        };
        assert_eq!([kept_from(6), kept_from(5)], [Some(15), Some(17)]);
        assert_eq!(kept_from(usize::MAX), Some(3), "only the oldest turn goes");
    }

    #[test]
    fn there_is_always_an_end() {
        let all = Keep::Tokens(0);
        assert_eq!(at("", all, 0, false), None);
        assert_eq!(at("t", all, 0, true), None, "the question alone");
        assert_eq!(at("st", all, 0, true), None, "and a summary");
        assert_eq!(at("tar", all, 0, true), None, "its only step");
        assert_eq!(
            at("ta", all, 0, false),
            Some((3, None)),
            "all of it, when it is over"
        );
        assert_eq!(at("sta", all, 0, false), Some((4, None)));
        assert_eq!(at("s", all, 0, false), None);
        assert_eq!(
            at("tat", all, 0, true),
            Some((3, None)),
            "the turn that begins"
        );
        assert_eq!(at("statt", all, 0, true), Some((5, None)));
    }
}
