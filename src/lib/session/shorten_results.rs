//! Shortens tool results of earlier turns: unchanged, as an extract, or as a stub.

use super::state::State;
use crate::language::summary;
use crate::message::{Block, ToolResult};
use crate::text;

/// Characters of untrusted tool results of turns that are over that stay as they are, the newest first. Of the first
/// that does not fit, that much, when it is more than [`PART`].
const READABLE: usize = 16_000;
const PART: usize = 4_000;

/// Characters of the gists of older ones, and of one of them.
const GISTS: usize = 12_000;
const GIST: usize = 1_500;

impl State {
    /// Shortens what tools brought in turns that are over: the newest [`READABLE`] characters stay, then [`GISTS`] of
    /// gists, which are as untrusted as the whole, and of the rest that there was something. It is no other after a second
    /// time, so the bytes of a result change seldom. What the vendor counted is less by what goes.
    pub(super) fn shorten_results(&mut self) {
        let mut left = (READABLE, GISTS);
        for entry in self.entries.iter_mut().rev() {
            for block in entry.message.content.iter_mut().rev() {
                let before = block.tokens();
                if let Block::ToolResult(result) = block {
                    shorten(result, &mut left);
                }
                if entry.seq <= self.counted_seq {
                    let gone = before.saturating_sub(block.tokens());
                    self.context_tokens = self.context_tokens.saturating_sub(gone);
                }
            }
        }
    }
}

/// Shortens an untrusted result to what is `left` of [`READABLE`] and [`GISTS`].
fn shorten(result: &mut ToolResult, (whole, gists): &mut (usize, usize)) {
    if result.from.is_none() {
        return;
    }
    result.pictures.clear();
    let length = result.text.chars().count();
    if let Some(rest) = whole.checked_sub(length) {
        *whole = rest;
        return;
    }
    let part = std::mem::take(whole);
    if part > PART {
        result.text = shortened(&result.text, length, |words| {
            text::head_and_tail(words, part - AROUND, 70)
        });
        return;
    }
    if length > GIST {
        result.text = shortened(&result.text, length, |words| {
            summary::gist(words, GIST - AROUND)
        });
    }
    if let Some(rest) = gists.checked_sub(result.text.chars().count()) {
        *gists = rest;
        return;
    }
    *gists = 0;
    result.text = format!(
        "⟦untrusted words, {length} characters, left out after their turn: call the tool again to read them⟧"
    );
    result.from = None;
}

/// Characters around the words of a shortened result, at most: its fence, and what is said of it.
const AROUND: usize = 400;

/// Returns a result whose words are what `shorten` leaves of them, in the fence that was around them. What was shortened
/// before is shortened again.
fn shortened(result: &str, length: usize, shorten: impl Fn(&str) -> String) -> String {
    let (_, result) = match result.split_once('\n') {
        Some((first, rest)) if first.starts_with(SHORTENED) => (first, rest),
        _ => ("", result),
    };
    let fence = |line: &str| line.starts_with('⟦') && line.ends_with('⟧');
    let (begin, rest) = match result.split_once('\n') {
        Some((first, rest)) if fence(first) => (first, rest),
        _ => ("", result),
    };
    let (words, end) = match rest.rsplit_once('\n') {
        Some((words, last)) if !begin.is_empty() && fence(last) => (words, last),
        _ => (rest, ""),
    };
    let words = shorten(words);
    let parts = [begin, &words, end];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!(
        "{SHORTENED} from {length} characters: call the tool again to read all⟧\n{}",
        parts.join("\n")
    )
}

/// How a shortened result begins.
const SHORTENED: &str = "⟦shortened after its turn";

#[cfg(test)]
mod tests {
    use super::super::state::Entry;
    use super::super::untrusted::tests::brought;
    use super::*;

    fn shown(entry: &Entry) -> (&str, bool) {
        match entry.message.content.as_slice() {
            [Block::ToolResult(result)] => (&result.text, result.from.is_some()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_was_read_in_earlier_turns_stays_then_its_gist_then_nothing() {
        let page = |n: usize| {
            let filler: String = (0..120)
                .map(|day| format!("On day {day} it rained a lot and nobody knew why it was so.\n"))
                .collect();
            format!(
                "The ferry of harbour {n} costs {n}00 euros.\n{filler}The ferry of harbour {n} leaves at noon.\n"
            )
        };
        let mut state = State::default();
        for n in 1..=14 {
            state.entries.push(brought(n as u64, &page(n)));
        }
        state.shorten_results();
        let length = |entry: &Entry| shown(entry).0.chars().count();
        let total: usize = state.entries.iter().map(length).sum();
        assert!(total < READABLE + GISTS + 14 * 150, "{total}");
        for (entry, n) in state.entries.iter().zip(1..) {
            let (text, is_marked) = shown(entry);
            let says = text.contains(&format!("{n}00 euros")) && text.contains("leaves at noon");
            // Two as they are, and nine gists.
            assert_eq!((says, is_marked), (n > 3, n > 3), "{n}: {text}");
            let is_fenced = text.contains("⟦untrusted abc, web_fetch")
                && text.ends_with("⟦end of untrusted abc⟧");
            assert_eq!(is_fenced, is_marked, "{text}");
            assert_eq!(text.starts_with(SHORTENED), (4..13).contains(&n), "{n}");
        }
        let before = state.clone();
        state.shorten_results();
        assert_eq!(state, before, "a second time changes nothing");
    }

    #[test]
    fn what_is_shortened_after_a_turn_is_not_counted_for_the_next() {
        use super::super::event::{Event, Kind, Spoken};
        use crate::message::{Role, Usage};
        let mut state = State::default();
        let page = "x ".repeat(20_000);
        (1..=4).for_each(|n| state.entries.push(brought(n, &page)));
        let tokens = |state: &State| state.entries.iter().map(Entry::tokens).sum::<u64>();
        let (before, counted) = (tokens(&state), 50_000);
        let usage = Usage {
            input_tokens: counted,
            ..Usage::default()
        };
        let answer = Spoken {
            usage: Some(usage),
            ..Spoken::new(Role::Assistant, Vec::new(), "r")
        };
        let event = Event {
            v: 1,
            ts: String::new(),
            seq: 5,
            kind: Kind::Message(answer),
        };
        state.apply(&event, Default::default());
        let gone = before - tokens(&state);
        assert!(gone > 30_000, "{gone}");
        assert_eq!(state.size(|| 0), counted - gone);
    }

    #[test]
    fn of_one_long_result_the_most_stays() {
        let mut state = State::default();
        state
            .entries
            .push(brought(1, &format!("begin\n{}\nend", "x ".repeat(20_000))));
        state.shorten_results();
        let length = shown(&state.entries[0]).0.chars().count();
        assert!((READABLE - 4_000..=READABLE).contains(&length), "{length}");
        assert!(
            shown(&state.entries[0]).0.contains("begin")
                && shown(&state.entries[0]).0.contains("end\n")
        );
    }
}
