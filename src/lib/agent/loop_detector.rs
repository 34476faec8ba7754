//! The loop detector: ends a turn that repeats the same call with the same result.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// From this repetition on the model is warned (specification §7).
const WARN: u32 = 3;
/// At this repetition the turn ends (specification §7).
const END: u32 = 5;

/// What the guard thinks of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing unusual.
    Fine,
    /// The same for the nth time: tell the model.
    Warn(u32),
    /// Enough: end the turn.
    End,
}

/// Counts equal (tool, input, result) triples of one run.
#[derive(Debug, Default)]
pub(super) struct Guard {
    seen: HashMap<u64, u32>,
}

impl Guard {
    /// Takes in one finished call.
    pub(super) fn note(&mut self, tool: &str, input: &serde_json::Value, result: &str) -> Verdict {
        let mut hasher = DefaultHasher::new();
        (tool, input.to_string(), result).hash(&mut hasher);
        let count = self.seen.entry(hasher.finish()).or_insert(0);
        *count += 1;
        match *count {
            0..WARN => Verdict::Fine,
            WARN..END => Verdict::Warn(*count),
            END.. => Verdict::End,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_equal_calls_warn_and_five_end_the_turn() {
        let mut guard = Guard::default();
        let input = serde_json::json!({"command": "date"});
        let verdicts: Vec<Verdict> = (0..5).map(|_| guard.note("exec", &input, "same")).collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Fine,
                Verdict::Fine,
                Verdict::Warn(3),
                Verdict::Warn(4),
                Verdict::End
            ]
        );
        assert_eq!(guard.note("exec", &input, "other"), Verdict::Fine);
    }
}
