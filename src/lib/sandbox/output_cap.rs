//! Keeps the beginning and the end of output that may never stop, in bounded memory.

use std::collections::VecDeque;

/// Percent of the room that belongs to the beginning: that is where the first error is.
const HEAD_PERCENT: usize = 70;

/// Takes bytes and remembers the first 70 % and the last 30 % of `max`.
pub(super) struct HeadTailBuffer {
    max: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: usize,
}

impl HeadTailBuffer {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len());
        let room = self.head_max() - self.head.len();
        let (first, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(first);
        // Of what would push itself out again only the end is copied.
        let tail_max = self.max - self.head_max();
        let rest = &rest[rest.len().saturating_sub(tail_max)..];
        let overflow = (self.tail.len() + rest.len()).saturating_sub(tail_max);
        self.tail.drain(..overflow);
        self.tail.extend(rest);
    }

    /// Returns the text, with a marker where something is missing, and how many bytes are missing.
    pub(super) fn finish(self) -> (String, Option<usize>) {
        let Self {
            mut head,
            tail,
            total,
            ..
        } = self;
        let mut tail = Vec::from(tail);
        let cut = total - head.len() - tail.len();
        if cut == 0 {
            head.append(&mut tail);
            return (String::from_utf8_lossy(&head).into_owned(), None);
        }
        // A letter that the cut went through belongs to what was cut.
        let (head, tail) = (without_torn_end(&head), without_torn_start(&tail));
        let cut = total - head.len() - tail.len();
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        (
            format!("{head}\n[… {cut} bytes left out …]\n{tail}"),
            Some(cut),
        )
    }

    fn head_max(&self) -> usize {
        self.max.saturating_mul(HEAD_PERCENT) / 100
    }
}

fn without_torn_end(bytes: &[u8]) -> &[u8] {
    let last = &bytes[bytes.len().saturating_sub(3)..];
    let torn = (1..=last.len()).find(|n| {
        let end = &last[last.len() - n..];
        std::str::from_utf8(end).is_err_and(|e| e.valid_up_to() == 0 && e.error_len().is_none())
    });
    &bytes[..bytes.len() - torn.unwrap_or(0)]
}

fn without_torn_start(bytes: &[u8]) -> &[u8] {
    let continuation = bytes
        .iter()
        .take(3)
        .take_while(|byte| **byte & 0xc0 == 0x80)
        .count();
    &bytes[continuation..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn clip(max: usize, pieces: &[&[u8]]) -> (String, Option<usize>) {
        let mut clip = HeadTailBuffer::new(max);
        pieces.iter().for_each(|piece| clip.push(piece));
        clip.finish()
    }

    #[test]
    fn what_fits_stays_whole() {
        assert_eq!(clip(10, &[b"01234", b"56789"]), ("0123456789".into(), None));
        assert_eq!(clip(10, &[b"a\xff"]), ("a\u{fffd}".into(), None));
    }

    #[test]
    fn head_and_tail_are_kept_and_the_middle_is_counted() {
        assert_eq!(
            clip(10, &[b"0123456", b"xxxxxxxxxx", b"abc"]),
            ("0123456\n[… 10 bytes left out …]\nabc".into(), Some(10))
        );
    }

    #[test]
    fn a_letter_is_not_torn_by_the_cut() {
        assert_eq!(
            clip(10, &["01234é-xxxé!!".as_bytes()]),
            ("01234é\n[… 6 bytes left out …]\n!!".into(), Some(6))
        );
        assert_eq!(
            clip(10, &["012345é-xxxx!!!".as_bytes()]),
            ("012345\n[… 7 bytes left out …]\n!!!".into(), Some(7))
        );
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter_and_memory_is_bounded(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..200, max in 0usize..100) {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(clip(max, &[first, second]), clip(max, &[&bytes]));
            let mut all = HeadTailBuffer::new(max);
            all.push(&bytes);
            prop_assert!(all.head.len() + all.tail.len() <= max);
        }
    }
}
