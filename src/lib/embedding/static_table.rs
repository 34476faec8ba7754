//! The embedding table that ships with the project: a vector for each word piece, eight bits a number.
//!
//! ```text
//! "AGENTEM1"  dims u32  pieces u32  bytes of the vocabulary u32  length of its name u32      little-endian
//! name        of the table, UTF-8
//! vocabulary  the pieces, a newline after each
//! scales      f32 for each piece: the factor of its numbers
//! weights     f32 for each piece: how much it counts in a text; frequent pieces count little
//! numbers     i8, dims for each piece
//! ```
//! `scripts/make-embeddings.py` makes it; `share/embeddings/README.md` names its source.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::wordpiece::Vocabulary;
use super::{Error, dot, normalize};

const MAGIC: &[u8] = b"AGENTEM1";
/// Its path below the share directory.
pub const FILE: &str = "embeddings/table.bin";
/// The longest table, bytes (specification §24).
const MAX_BYTES: usize = 8 << 20;
/// The cache of words and their pieces holds twice as many words (1 MB), each of at most so many pieces.
const CACHED_WORDS: usize = 1 << 14;
const CACHED_PIECES: usize = 11;

/// An open table. Its head is read when it is opened, its vocabulary with the first text, and the numbers of a piece
/// when it first occurs: all of them would be 8 MB that a daemon keeps.
pub struct Table {
    shared: Arc<Shared>,
    rows: Rows,
    /// The words that were split last, two for each hash value: the later one first.
    words: Vec<[SplitWord; 2]>,
}

/// The part of a table that its users share; each has its own caches.
pub struct Shared {
    file: File,
    name: String,
    dims: usize,
    /// How many pieces.
    count: usize,
    /// Bytes of the vocabulary, and where it starts in the file.
    vocabulary_bytes: usize,
    start: usize,
    pieces: OnceLock<Pieces>,
}

#[derive(Default)]
struct Pieces {
    vocabulary: Vocabulary,
    scales: Vec<f32>,
    weights: Vec<f32>,
}

impl Table {
    /// Opens the table at `path`.
    ///
    /// # Errors
    /// [`Error::Unusable`] when it is missing or incomplete.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let unusable = |why: String| Error::Unusable(format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(|error| unusable(error.to_string()))?;
        let length = file
            .metadata()
            .map_err(|error| unusable(error.to_string()))?
            .len();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_BYTES {
            return Err(unusable(format!(
                "it has {length} bytes, at most {MAX_BYTES} are read"
            )));
        }
        let shared = Shared::new(file, length)
            .ok_or_else(|| unusable("it is not an embedding table, or not complete".to_owned()))?;
        Ok(Self::of(Arc::new(shared)))
    }

    /// Returns a second user of an open table.
    pub fn of(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            rows: Rows::default(),
            words: Vec::new(),
        }
    }

    /// Returns the part for [`Table::of`].
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns how many numbers a vector has.
    pub fn dims(&self) -> usize {
        self.shared.dims
    }

    /// Returns the name of its vectors, `local/<table>/<dims>`.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Checks that its vocabulary can be read: without it every word is unknown.
    ///
    /// # Errors
    /// [`Error::Unusable`] when they cannot.
    pub fn check(&self) -> Result<(), Error> {
        let whole = self.shared.pieces().vocabulary.len() == self.shared.count;
        whole
            .then_some(())
            .ok_or_else(|| Error::Unusable(format!("{}: its pieces cannot be read", self.name())))
    }

    /// Returns how many pieces it knows.
    pub(super) fn len(&self) -> usize {
        self.shared.count
    }

    /// Adds the vector of a piece to `sum`.
    fn add(&mut self, piece: u32, weighted: bool, sum: &mut [f32]) {
        let Some((scale, weight, numbers)) = self.piece(piece) else {
            return;
        };
        let factor = if weighted { scale * weight } else { scale };
        for (sum, number) in sum.iter_mut().zip(numbers) {
            *sum += factor * f32::from(number.cast_signed());
        }
    }

    /// Returns the scale of a piece, its weight in a text, and its numbers.
    pub(super) fn piece(&mut self, piece: u32) -> Option<(f32, f32, &[u8])> {
        let Self { shared, rows, .. } = self;
        let at = usize::try_from(piece).ok()?;
        let pieces = shared.pieces();
        Some((
            *pieces.scales.get(at)?,
            *pieces.weights.get(at)?,
            rows.get(shared, at)?,
        ))
    }

    /// Returns the vector of a text, of length 1; `None` when most of its words are unknown.
    pub fn text(&mut self, text: &str) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dims()];
        let (mut known, mut unknown) = (0_usize, 0_usize);
        let shared = self.shared.clone();
        shared.pieces().vocabulary.words(text, |word| {
            let split = *self.split(word);
            let mut count = |piece| match piece {
                Some(piece) => {
                    known += 1;
                    self.add(piece, true, &mut sum);
                }
                None => unknown += 1,
            };
            match split.pieces() {
                Some([]) => count(None),
                Some(pieces) => pieces
                    .iter()
                    .for_each(|piece| count(Some(u32::from(*piece)))),
                None => shared.pieces().vocabulary.word(word, &mut count),
            }
        });
        normalize(sum).filter(|_| known > unknown)
    }

    /// Returns the vector of one word in lower case and without accents, of length 1; `None` when it is unknown.
    pub fn word(&mut self, word: &str) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dims()];
        let mut is_known = true;
        let shared = self.shared.clone();
        shared
            .pieces()
            .vocabulary
            .word(word, &mut |piece| match piece {
                Some(piece) => self.add(piece, false, &mut sum),
                None => is_known = false,
            });
        normalize(sum).filter(|_| is_known)
    }

    /// Returns true for a token that is a key or data, as base64 and hexadecimal digits are, and no words: its pieces have
    /// less than two letters each. (Of 2,913 words of three conversations only "oomph" and "ahhahha" fall into such small
    /// pieces, of random ones of this length all except one in 500.)
    pub fn is_data(&self, token: &str) -> bool {
        const SHORTEST: usize = 16;
        if token.len() < SHORTEST || !token.is_ascii() {
            return false;
        }
        let vocabulary = &self.shared.pieces().vocabulary;
        let (mut letters, mut pieces) = (0, 0);
        vocabulary.words(token, |word| {
            let mut known = 0;
            vocabulary.word(word, &mut |piece| known += usize::from(piece.is_some()));
            if known > 0 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                (letters, pieces) = (letters + word.len(), pieces + known);
            }
        });
        // A word that is too long to be taken apart is none either.
        letters < 2 * pieces || pieces == 0
    }

    /// Returns the pieces of one word, written as for [`Table::word`].
    pub(super) fn split(&mut self, word: &str) -> &mut SplitWord {
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        if self.words.is_empty() {
            self.words = vec![Default::default(); CACHED_WORDS];
        }
        let key = u32::try_from(hash >> 32).unwrap_or(0);
        let slot = usize::try_from(hash ^ hash >> 32).unwrap_or(0) % CACHED_WORDS;
        let [first, second] = &mut self.words[slot];
        if first.key != key {
            std::mem::swap(first, second);
        }
        if first.key != key {
            *first = SplitWord {
                key,
                ..SplitWord::default()
            };
            self.shared
                .pieces()
                .vocabulary
                .word(word, &mut |piece| first.push(piece));
        }
        first
    }

    /// Returns the length of the vector of a word.
    pub(super) fn length(&mut self, word: &SplitWord) -> f32 {
        let mut sum = vec![0.0; self.dims()];
        word.pieces()
            .unwrap_or_default()
            .iter()
            .for_each(|piece| self.add(u32::from(*piece), false, &mut sum));
        dot(&sum, &sum).sqrt()
    }

    /// Returns the vector of a passage: the sum of those of its lines, each of length 1, so that a long line
    /// does not dominate.
    pub fn passage<'a>(&mut self, lines: impl Iterator<Item = &'a str>) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dims()];
        for line in lines.filter_map(|line| self.text(line)) {
            sum.iter_mut().zip(&line).for_each(|(sum, x)| *sum += x);
        }
        normalize(sum)
    }
}

impl Shared {
    fn new(file: File, length: usize) -> Option<Self> {
        let mut head = [0; 24];
        file.read_exact_at(&mut head, 0).ok()?;
        let mut sizes = head.strip_prefix(MAGIC)?.as_chunks::<4>().0.iter();
        let mut size = || usize::try_from(u32::from_le_bytes(*sizes.next()?)).ok();
        let (dims, count, vocabulary_bytes, name) = (size()?, size()?, size()?, size()?);
        let start = head.len().checked_add(name)?;
        // A piece has a scale and a weight of four bytes each, and its numbers.
        let whole = dims
            .checked_add(8)?
            .checked_mul(count)?
            .checked_add(vocabulary_bytes)?
            .checked_add(start)?;
        if dims == 0 || whole != length {
            return None;
        }
        let mut name = vec![0; name];
        file.read_exact_at(&mut name, 24).ok()?;
        let name = format!("local/{}/{dims}", std::str::from_utf8(&name).ok()?);
        Some(Self {
            file,
            name,
            dims,
            count,
            vocabulary_bytes,
            start,
            pieces: OnceLock::new(),
        })
    }

    /// Returns the pieces; none when they cannot be read: then every word is unknown.
    fn pieces(&self) -> &Pieces {
        self.pieces.get_or_init(|| self.read().unwrap_or_default())
    }

    fn read(&self) -> Option<Pieces> {
        let mut bytes = vec![0; self.vocabulary_bytes + 8 * self.count];
        self.file
            .read_exact_at(&mut bytes, u64::try_from(self.start).ok()?)
            .ok()?;
        let (words, numbers) = bytes.split_at_checked(self.vocabulary_bytes)?;
        let (scales, weights) = numbers.split_at_checked(4 * self.count)?;
        let vocabulary = Vocabulary::new(std::str::from_utf8(words).ok()?.split_terminator('\n'));
        let floats = |bytes: &[u8]| {
            bytes
                .as_chunks::<4>()
                .0
                .iter()
                .map(|four| f32::from_le_bytes(*four))
                .collect()
        };
        (vocabulary.len() == self.count).then(|| Pieces {
            vocabulary,
            scales: floats(scales),
            weights: floats(weights),
        })
    }
}

/// A word as its pieces; aligned so that it never spans two cache lines.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
pub(super) struct SplitWord {
    /// A part of a hash of the word.
    key: u32,
    /// The length of its vector once it was computed; 0 before that.
    pub length: f32,
    pieces: [u16; CACHED_PIECES],
    count: u8,
}

impl SplitWord {
    const UNKNOWN: u8 = u8::MAX;
    const TOO_MANY: u8 = u8::MAX - 1;

    fn push(&mut self, piece: Option<u32>) {
        let Some(piece) = piece.filter(|_| self.count != Self::UNKNOWN) else {
            self.count = Self::UNKNOWN;
            return;
        };
        match (
            self.pieces.get_mut(usize::from(self.count)),
            u16::try_from(piece),
        ) {
            (Some(slot), Ok(piece)) => {
                *slot = piece;
                self.count += 1;
            }
            _ => self.count = Self::TOO_MANY,
        }
    }

    /// Returns the pieces, none of an unknown word; `None` when they are too many for the cache.
    pub(super) fn pieces(&self) -> Option<&[u16]> {
        match self.count {
            Self::UNKNOWN => Some(&[]),
            count => self.pieces.get(..usize::from(count)),
        }
    }
}

/// The numbers of the pieces that have occurred.
#[derive(Default)]
struct Rows {
    /// For each piece its row in `numbers`, from 1; 0 before it occurred.
    index: Vec<u16>,
    numbers: Vec<u8>,
    count: u16,
}

impl Rows {
    fn get(&mut self, shared: &Shared, piece: usize) -> Option<&[u8]> {
        let range = |row: u16| usize::from(row - 1) * shared.dims..usize::from(row) * shared.dims;
        if self.index.is_empty() {
            self.index = vec![0; shared.count];
        }
        let row = self.index.get_mut(piece)?;
        if *row == 0 {
            let next = self.count.checked_add(1)?;
            self.numbers.resize(range(next).end, 0);
            let start =
                shared.start + shared.vocabulary_bytes + 8 * shared.count + piece * shared.dims;
            let numbers = self.numbers.get_mut(range(next))?;
            let start = u64::try_from(start).ok()?;
            shared.file.read_exact_at(numbers, start).ok()?;
            (self.count, *row) = (next, next);
        }
        self.numbers.get(range(*row))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use super::*;

    /// A table of two dimensions: animals point one way, vehicles the other.
    pub(crate) fn small() -> Vec<u8> {
        let pieces: [(&str, [i8; 2]); 5] = [
            ("cat", [100, 0]),
            ("dog", [90, 10]),
            ("car", [0, 100]),
            ("##s", [1, 1]),
            ("the", [50, 50]),
        ];
        let words: String = pieces
            .iter()
            .map(|(piece, _)| format!("{piece}\n"))
            .collect();
        let mut bytes = MAGIC.to_vec();
        for size in [2, pieces.len(), words.len(), 4] {
            bytes.extend(u32::try_from(size).expect("small").to_le_bytes());
        }
        bytes.extend(b"tiny");
        bytes.extend(words.as_bytes());
        pieces
            .iter()
            .for_each(|_| bytes.extend(0.01_f32.to_le_bytes()));
        [1.0_f32, 1.0, 1.0, 1.0, 0.01]
            .iter()
            .for_each(|weight| bytes.extend(weight.to_le_bytes()));
        pieces
            .iter()
            .for_each(|(_, numbers)| bytes.extend(numbers.map(i8::cast_unsigned)));
        bytes
    }

    fn table(bytes: &[u8]) -> Option<Table> {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("write");
        Table::open(file.path()).ok()
    }

    fn near(a: Option<Vec<f32>>, b: Option<Vec<f32>>) -> f32 {
        a.expect("a vector")
            .iter()
            .zip(b.expect("a vector"))
            .map(|(a, b)| a * b)
            .sum()
    }

    #[test]
    fn what_means_the_same_points_the_same_way() {
        let mut table = table(&small()).expect("a table");
        assert_eq!((table.name(), table.dims()), ("local/tiny/2", 2));
        assert!(near(table.text("The cats"), table.text("dog")) > 0.98);
        assert!(
            near(table.text("the cat"), table.text("the cars")) < 0.1,
            "frequent words say little"
        );
        assert!(
            near(table.word("the"), table.text("cat")) > 0.7,
            "a word alone says all it has"
        );
        assert_eq!(
            (table.text("bicycle"), table.text(""), table.word("bicycle")),
            (None, None, None)
        );
        assert_eq!(
            table.text("cat bicycle tram"),
            None,
            "most of it is unknown"
        );
        assert!(
            near(
                table.passage(["cat cat cat cat", "car"].into_iter()),
                table.text("cat car")
            ) > 0.99
        );
    }

    #[test]
    fn the_numbers_of_every_piece_are_those_of_the_file() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("share")
            .join(FILE);
        let (mut table, bytes) = (
            Table::open(&path).expect("a table"),
            std::fs::read(&path).expect("read"),
        );
        let (count, dims) = (table.len(), table.dims());
        let numbers = bytes.get(bytes.len() - count * dims..).expect("numbers");
        for at in (0..count)
            .chain((0..count).step_by(7))
            .chain([3, 3, count - 1, 3])
        {
            let (_, _, found) = table
                .piece(u32::try_from(at).expect("small"))
                .expect("a piece");
            assert!(
                numbers.get(at * dims..(at + 1) * dims) == Some(found),
                "{at}"
            );
        }
        assert!(table.piece(u32::try_from(count).expect("small")).is_none());
    }

    #[test]
    fn a_file_that_is_no_whole_table_is_none() {
        let whole = small();
        for cut in [0, 7, 8, 20, 30, whole.len() - 1] {
            assert!(table(&whole[..cut]).is_none(), "{cut}");
        }
        let mut long = whole.clone();
        long.push(0);
        assert!(table(&long).is_none());
        let why = Table::open(Path::new("/nowhere/table.bin"))
            .err()
            .expect("none")
            .to_string();
        assert!(why.starts_with("/nowhere/table.bin: "), "{why}");
    }
}
