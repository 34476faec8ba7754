//! For tests: checks whether work on bytes from outside takes linear time.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Characters of the longer input.
const LONG: usize = 64_000;
/// Work that is done so soon is not quadratic at this length, whatever it is.
const SOON: Duration = Duration::from_millis(40);
/// What four times the input may cost: 4 by instructions, and more where it no longer fits a cache next to what else
/// runs; quadratic work costs 16.
const MOST: f64 = 8.0;
/// A busy machine may spoil a measurement, but not all of them.
const TRIES: usize = 6;

/// What hostile texts are made of: each piece is repeated until the text is long enough.
const PIECES: [&str; 32] = [
    "a",
    " ",
    "\n",
    "0",
    "é",
    "e\u{301}",
    "\u{202e}",
    "\u{e0041}",
    "👨‍👩‍👧",
    "(",
    "[",
    "*",
    "_",
    "`",
    "<b>",
    "&amp;",
    "⟦",
    "\"",
    "\\",
    "{\"a\":",
    "- x\n",
    "# x\n",
    "| a ",
    "> ",
    "[a](b) ",
    "http://a.example/ ",
    "4111 1111 ",
    "sk-live_ABC",
    "I like tea. ",
    "call Ana by Friday; ",
    "$a; ",
    "key: 'x\n",
];

fn cpu(work: impl FnOnce()) -> Duration {
    let now =
        || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from);
    let began = now();
    work();
    now().saturating_sub(began)
}

/// Fails when `work`, called `name`, takes more than 8 times as long for four times the input, for any hostile text.
pub(crate) fn check(name: &str, work: impl Fn(&str)) {
    check_at(LONG, name, &PIECES, work);
}

/// As [`check`], of texts that are made of these pieces.
pub(crate) fn check_pieces(name: &str, pieces: &[&str], work: impl Fn(&str)) {
    check_at(LONG, name, pieces, work);
}

fn check_at(long: usize, name: &str, pieces: &[&str], work: impl Fn(&str)) {
    // As the daemon does: pages that the kernel takes and gives again are no part of the work.
    crate::sys::release_memory::keep_for_turns();
    for piece in pieces {
        let text = |length: usize| piece.repeat(length / piece.chars().count());
        let (quarter, whole) = (text(long / 4), text(long));
        let mut ratio = 0.0;
        let is_linear = (0..TRIES).any(|_| {
            let of_whole = cpu(|| work(&whole));
            let of_quarter = cpu(|| work(&quarter)).min(cpu(|| work(&quarter)));
            ratio = of_whole.as_secs_f64() / of_quarter.as_secs_f64().max(1e-9);
            of_whole < SOON || ratio < MOST
        });
        assert!(
            is_linear,
            "{name}: four times as much of {piece:?} costs {ratio:.1} times as much"
        );
    }
}

#[test]
fn quadratic_work_is_seen_and_linear_work_is_not() {
    let quadratic = |text: &str| {
        let marks = text
            .char_indices()
            .filter(|(_, c)| *c == '[')
            .map(|(at, _)| at);
        // As if each looked for its end.
        let ends: usize = marks
            .map(|at| {
                text.as_bytes()[at..]
                    .iter()
                    .filter(|byte| **byte == b']')
                    .count()
            })
            .sum();
        std::hint::black_box(ends);
    };
    let seen = std::panic::catch_unwind(|| check_at(LONG / 8, "quadratic", &PIECES, quadratic));
    assert!(seen.is_err());
    check("linear", |text| {
        drop(std::hint::black_box(text.to_uppercase()))
    });
}
