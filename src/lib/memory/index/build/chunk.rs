//! Cuts a document into chunks: whole lines, at most 1,600 characters, 320 of the chunk before repeated.
//!
//! The smallest thing is a [`Unit`]: a line, or where a line is longer than a chunk a piece of it.

/// Characters of a chunk, and how many of the one before it may be repeated (specification §12).
pub(crate) const CHUNK: usize = 1600;
pub(crate) const OVERLAP: usize = 320;
/// Characters of a piece of a line that is longer than a chunk.
const PIECE: usize = OVERLAP;

/// A line, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// The line in the file, from 1.
    pub line: u32,
    /// Its text; ends with a newline when the line ends here.
    pub text: String,
}

/// Cuts line number `line` into units; `text` has no newline in it.
pub(crate) fn units(line: u32, text: &str, into: &mut Vec<Unit>) {
    let mut rest = text;
    if rest.len() >= CHUNK && rest.chars().count() >= CHUNK {
        while let Some((limit, _)) = rest.char_indices().nth(PIECE) {
            let (piece, after) = rest.split_at(end_of_piece(rest, limit));
            into.push(Unit {
                line,
                text: piece.to_owned(),
            });
            rest = after;
        }
    }
    into.push(Unit {
        line,
        text: format!("{rest}\n"),
    });
}

/// Returns where to cut, at most at byte `limit`: behind a space if there is one in the last third.
fn end_of_piece(text: &str, limit: usize) -> usize {
    let head = text.get(..limit).unwrap_or(text);
    head.rfind(char::is_whitespace)
        .filter(|at| *at > limit * 2 / 3)
        .and_then(|at| Some(at + head.get(at..)?.chars().next()?.len_utf8()))
        .unwrap_or(limit)
}

/// Returns the chunks as ranges of `units`, in order; together they cover all of them.
pub(crate) fn chunks(units: &[Unit]) -> Vec<std::ops::Range<usize>> {
    let sizes: Vec<usize> = units.iter().map(|unit| unit.text.chars().count()).collect();
    let mut chunks = Vec::new();
    let mut start = 0;
    while start < units.len() {
        let end = start + fitting(sizes.iter().skip(start), CHUNK).max(1);
        chunks.push(start..end);
        if end >= units.len() {
            break;
        }
        // What is repeated must leave room for the next line, or nothing is gained.
        let next = sizes.get(end).copied().unwrap_or(0);
        let again = fitting(
            sizes.iter().take(end).skip(start + 1).rev(),
            OVERLAP.min(CHUNK.saturating_sub(next)),
        );
        start = end - again;
    }
    chunks
}

/// Returns how many of `sizes`, from the first on, come to at most `limit`.
fn fitting<'a>(sizes: impl Iterator<Item = &'a usize>, limit: usize) -> usize {
    let sums = sizes.scan(0, |sum, size| {
        *sum += size;
        Some(*sum)
    });
    sums.take_while(|sum| *sum <= limit).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(text: &str) -> Vec<Unit> {
        let mut all = Vec::new();
        (1..)
            .zip(text.lines())
            .for_each(|(line, text)| units(line, text, &mut all));
        all
    }

    fn chars(units: &[Unit]) -> usize {
        units.iter().map(|unit| unit.text.chars().count()).sum()
    }

    #[test]
    fn short_lines_are_packed_and_the_last_ones_repeated() {
        let units = cut(&"x"
            .repeat(99)
            .split_inclusive("")
            .map(|_| format!("{}\n", "x".repeat(99)))
            .take(40)
            .collect::<String>());
        assert_eq!(chunks(&units), [0..16, 13..29, 26..40]);
    }

    #[test]
    fn a_line_of_ten_thousand_is_cut_between_words() {
        let line = "word ".repeat(2000);
        let units = cut(&line);
        assert!(
            units
                .iter()
                .all(|unit| unit.line == 1 && unit.text.ends_with([' ', '\n']))
        );
        assert_eq!(
            units
                .iter()
                .map(|unit| unit.text.as_str())
                .collect::<String>(),
            format!("{line}\n")
        );
        let chunks = chunks(&units);
        assert!(
            chunks.len() >= 7
                && chunks
                    .iter()
                    .all(|chunk| chars(&units[chunk.clone()]) <= CHUNK),
            "{chunks:?}"
        );
        assert!(
            chunks.windows(2).all(|two| two[1].start < two[0].end),
            "{chunks:?}"
        );
    }

    proptest! {
        #[test]
        fn every_line_is_covered_in_order_and_no_chunk_is_too_long(
            lines in proptest::collection::vec(("[a-zäß😀 ]{0,40}", 0usize..90), 0..60)
        ) {
            let text: String = lines.iter().map(|(words, times)| format!("{}\n", words.repeat(*times))).collect();
            let units = cut(&text);
            prop_assert_eq!(units.iter().map(|unit| unit.text.as_str()).collect::<String>(), text.clone());
            for (number, line) in (1..).zip(text.lines()) {
                let again: String = units.iter().filter(|unit| unit.line == number).map(|unit| unit.text.as_str()).collect();
                prop_assert_eq!(again, format!("{line}\n"));
            }
            let chunks = chunks(&units);
            let mut next = 0;
            for chunk in &chunks {
                prop_assert!(chunk.start <= next && chunk.end > next, "a gap or a step back: {:?}", chunks);
                prop_assert!(chars(&units[chunk.start..next]) <= OVERLAP);
                prop_assert!(chars(&units[chunk.clone()]) <= CHUNK);
                next = chunk.end;
            }
            prop_assert_eq!(next, units.len());
        }
    }
}
