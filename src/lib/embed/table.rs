//! The table that ships with the project: a vector for each piece of a word, eight bits a number.
//!
//! ```text
//! "AGENTEM1"  dims u32  pieces u32  bytes of the vocabulary u32  length of its name u32      little-endian
//! name        what the table is called, UTF-8
//! vocabulary  the pieces, a newline behind each
//! scales      f32 a piece: what the numbers of its vector are multiplied with
//! weights     f32 a piece: what it says in a text; frequent pieces say little
//! numbers     i8, dims a piece
//! ```
//! `scripts/make-embeddings` makes it; `share/embeddings/README.md` says of what.

use std::path::Path;

use super::wordpiece::Vocabulary;
use super::{Error, normal};

const MAGIC: &[u8] = b"AGENTEM1";
/// The file beside the other files that come with the programs.
pub const FILE: &str = "embeddings/table.bin";
/// A longer file is none of ours (specification §24: the table has at most 8 MiB).
const MAX_BYTES: u64 = 8 << 20;

/// A table in memory.
pub struct Table {
    name: String,
    dims: usize,
    vocabulary: Vocabulary,
    scales: Vec<f32>,
    weights: Vec<f32>,
    /// The whole file, and where its numbers begin.
    bytes: Vec<u8>,
    numbers: usize,
}

impl Table {
    /// Reads the table at `path`: about 3 ms.
    ///
    /// # Errors
    /// [`Error::Unusable`] when there is none or it is not whole.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let unusable = |why: String| Error::Unusable(format!("{}: {why}", path.display()));
        let meta = std::fs::metadata(path).map_err(|error| unusable(error.to_string()))?;
        if meta.len() > MAX_BYTES {
            return Err(unusable(format!("it has {} bytes, a table has at most {MAX_BYTES}", meta.len())));
        }
        let bytes = std::fs::read(path).map_err(|error| unusable(error.to_string()))?;
        Self::parse(bytes).ok_or_else(|| unusable("it is no table of vectors, or not whole".to_owned()))
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (head, rest) = rest.split_at_checked(16)?;
        let mut sizes = head.as_chunks::<4>().0.iter().map(|four| usize::try_from(u32::from_le_bytes(*four)).ok());
        let mut size = || sizes.next().flatten();
        let (dims, count, words, name) = (size()?, size()?, size()?, size()?);
        let (name, rest) = rest.split_at_checked(name)?;
        let (words, rest) = rest.split_at_checked(words)?;
        let (scales, rest) = rest.split_at_checked(count.checked_mul(4)?)?;
        let (weights, numbers) = rest.split_at_checked(count.checked_mul(4)?)?;
        let vocabulary = Vocabulary::new(std::str::from_utf8(words).ok()?.split_terminator('\n'));
        if dims == 0 || vocabulary.len() != count || numbers.len() != count.checked_mul(dims)? {
            return None;
        }
        let floats = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect();
        let name = format!("local/{}/{dims}", std::str::from_utf8(name).ok()?);
        let (scales, weights) = (floats(scales), floats(weights));
        let numbers = bytes.len() - numbers.len();
        Some(Self { name, dims, vocabulary, scales, weights, bytes, numbers })
    }

    /// Returns how many numbers a vector has.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Returns what the table is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds `times` the vector of a piece to `sum`.
    fn add(&self, piece: u32, weighted: bool, sum: &mut [f32]) {
        let Ok(at) = usize::try_from(piece) else { return };
        let (Some(scale), Some(weight)) = (self.scales.get(at), self.weights.get(at)) else { return };
        let factor = if weighted { scale * weight } else { *scale };
        let numbers = self.bytes.get(self.numbers + at * self.dims..self.numbers + (at + 1) * self.dims).unwrap_or_default();
        for (sum, number) in sum.iter_mut().zip(numbers) {
            *sum += factor * f32::from(number.cast_signed());
        }
    }

    /// Returns the vector of a text, of length 1; `None` when most of its words are unknown.
    pub fn text(&self, text: &str) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dims];
        let (mut known, mut unknown) = (0_usize, 0_usize);
        self.vocabulary.pieces(text, |piece| match piece {
            Some(piece) => {
                known += 1;
                self.add(piece, true, &mut sum);
            }
            None => unknown += 1,
        });
        normal(sum).filter(|_| known > unknown)
    }

    /// Returns the vector of one word in lower case and without accents, of length 1; `None` when it is unknown.
    pub fn word(&self, word: &str) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dims];
        let mut unknown = false;
        self.vocabulary.word(word, &mut |piece| match piece {
            Some(piece) => self.add(piece, false, &mut sum),
            None => unknown = true,
        });
        normal(sum).filter(|_| !unknown)
    }

    /// Returns the vector of a passage: the sum of those of its lines, each as long as any other, so
    /// that a long line does not speak for all.
    pub fn passage<'a>(&self, lines: impl Iterator<Item = &'a str>) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dims];
        for line in lines.filter_map(|line| self.text(line)) {
            sum.iter_mut().zip(&line).for_each(|(sum, x)| *sum += x);
        }
        normal(sum)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table of two dimensions: animals point one way, vehicles the other.
    pub(crate) fn small() -> Vec<u8> {
        let pieces: [(&str, [i8; 2]); 5] =
            [("cat", [100, 0]), ("dog", [90, 10]), ("car", [0, 100]), ("##s", [1, 1]), ("the", [50, 50])];
        let words: String = pieces.iter().map(|(piece, _)| format!("{piece}\n")).collect();
        let mut bytes = MAGIC.to_vec();
        for size in [2, pieces.len(), words.len(), 4] {
            bytes.extend(u32::try_from(size).expect("small").to_le_bytes());
        }
        bytes.extend(b"tiny");
        bytes.extend(words.as_bytes());
        pieces.iter().for_each(|_| bytes.extend(0.01_f32.to_le_bytes()));
        [1.0_f32, 1.0, 1.0, 1.0, 0.01].iter().for_each(|weight| bytes.extend(weight.to_le_bytes()));
        pieces.iter().for_each(|(_, numbers)| bytes.extend(numbers.map(i8::cast_unsigned)));
        bytes
    }

    fn near(a: Option<Vec<f32>>, b: Option<Vec<f32>>) -> f32 {
        a.expect("a vector").iter().zip(b.expect("a vector")).map(|(a, b)| a * b).sum()
    }

    #[test]
    fn what_means_the_same_points_the_same_way() {
        let table = Table::parse(small()).expect("a table");
        assert_eq!((table.name(), table.dims()), ("local/tiny/2", 2));
        assert!(near(table.text("The cats"), table.text("dog")) > 0.98);
        assert!(near(table.text("the cat"), table.text("the cars")) < 0.1, "frequent words say little");
        assert!(near(table.word("the"), table.text("cat")) > 0.7, "a word alone says all it has");
        assert_eq!((table.text("bicycle"), table.text(""), table.word("bicycle")), (None, None, None));
        assert_eq!(table.text("cat bicycle tram"), None, "most of it is unknown");
        assert!(near(table.passage(["cat cat cat cat", "car"].into_iter()), table.text("cat car")) > 0.99);
    }

    #[test]
    fn a_file_that_is_no_whole_table_is_none() {
        let whole = small();
        for cut in [0, 7, 8, 20, 30, whole.len() - 1] {
            assert!(Table::parse(whole[..cut].to_vec()).is_none(), "{cut}");
        }
        let mut long = whole.clone();
        long.push(0);
        assert!(Table::parse(long).is_none());
        let why = Table::read(Path::new("/nowhere/table.bin")).err().expect("none").to_string();
        assert!(why.starts_with("/nowhere/table.bin: "), "{why}");
    }
}
