//! The safetensors format: numbers of a model under their names.
//!
//! ```text
//! length      u64 little-endian: bytes of the header
//! header      JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …, "__metadata__": {…}}
//! numbers     one tensor behind the other, without a gap; the offsets count from here
//! ```
//! Whatever the header says is held against the file before a byte is allocated for it.
//! (<https://github.com/huggingface/safetensors#format>)

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Seek, SeekFrom};

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// A longer file is no small model.
const MAX_BYTES: u64 = 2 << 30;
/// A longer header is none: those of small models have some 20 KB.
const MAX_HEADER: u64 = 16 << 20;
/// So many bytes are read and converted at once; whole numbers of every type.
const STEP: usize = 1 << 18;

/// An open file of tensors.
pub(super) struct Tensors<R> {
    source: R,
    /// Where the numbers begin.
    begin: u64,
    entries: HashMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl<R: Read + Seek> Tensors<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// In words, when the file is too long or its header is not true.
    pub(super) fn open(mut source: R) -> Result<Self, String> {
        let length = source
            .seek(SeekFrom::End(0))
            .map_err(|error| error.to_string())?;
        if length > MAX_BYTES {
            return Err(format!(
                "it has {length} bytes; a model may have {MAX_BYTES}"
            ));
        }
        source.rewind().map_err(|error| error.to_string())?;
        let mut head = [0; 8];
        source
            .read_exact(&mut head)
            .map_err(|_| "it ends before its header: not a safetensors file".to_owned())?;
        let header = u64::from_le_bytes(head);
        if header > MAX_HEADER || header > length.saturating_sub(8) {
            return Err(format!(
                "its header is said to have {header} bytes: not a safetensors file, or not whole"
            ));
        }
        let mut bytes = vec![0; usize::try_from(header).map_err(|error| error.to_string())?];
        source
            .read_exact(&mut bytes)
            .map_err(|error| error.to_string())?;
        let Header(entries) = serde_json::from_slice(&bytes)
            .map_err(|error| format!("its header cannot be read: {error}"))?;
        let begin = 8 + header;
        lies(&entries, length - begin)?;
        Ok(Self {
            source,
            begin,
            entries,
        })
    }

    /// Returns the lengths of a tensor's sides, outermost first.
    pub(super) fn shape(&self, name: &str) -> Option<&[u64]> {
        self.entries.get(name).map(|entry| entry.shape.as_slice())
    }

    /// Returns the numbers of a tensor, the last side running fastest.
    ///
    /// # Errors
    /// In words, when it is missing, has another shape, is of a type that is not read, holds what is no number, or when the
    /// file cannot be read.
    pub(super) fn read(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let Some(entry) = self.entries.get(name) else {
            return Err(format!("the tensor {name} is missing"));
        };
        if !entry
            .shape
            .iter()
            .copied()
            .eq(shape.iter().map(|side| *side as u64))
        {
            return Err(format!(
                "the tensor {name} has the shape {:?}, and config.json makes it {shape:?}",
                entry.shape
            ));
        }
        let convert: fn(&[u8], &mut Vec<f32>) = match entry.dtype.as_str() {
            "F32" => |bytes, numbers| {
                numbers.extend(
                    bytes
                        .as_chunks()
                        .0
                        .iter()
                        .map(|four| f32::from_le_bytes(*four)),
                )
            },
            "F16" => |bytes, numbers| {
                numbers.extend(
                    bytes
                        .as_chunks()
                        .0
                        .iter()
                        .map(|two| half(u16::from_le_bytes(*two))),
                )
            },
            "BF16" => |bytes, numbers| {
                numbers.extend(
                    bytes
                        .as_chunks()
                        .0
                        .iter()
                        .map(|two| f32::from_bits(u32::from(u16::from_le_bytes(*two)) << 16)),
                );
            },
            other => {
                return Err(format!(
                    "the tensor {name} is of type {other}; F32, F16 and BF16 are read (not quantised models)"
                ));
            }
        };
        let [from, to] = entry.data_offsets;
        let mut left = usize::try_from(to - from).map_err(|error| error.to_string())?;
        let mut numbers = Vec::with_capacity(shape.iter().product());
        let mut bytes = vec![0; left.min(STEP)];
        self.source
            .seek(SeekFrom::Start(self.begin + from))
            .map_err(|error| error.to_string())?;
        while left > 0 {
            bytes.truncate(left);
            self.source
                .read_exact(&mut bytes)
                .map_err(|error| format!("the tensor {name}: {error}"))?;
            convert(&bytes, &mut numbers);
            left -= bytes.len();
        }
        if numbers.iter().any(|x| !x.is_finite()) {
            return Err(format!(
                "the tensor {name} holds an infinite number, or none: it was damaged"
            ));
        }
        Ok(numbers)
    }
}

/// Holds what the header says against `length`, the bytes behind it.
fn lies(entries: &HashMap<String, Entry>, length: u64) -> Result<(), String> {
    let mut parts: Vec<(&String, &Entry)> = entries.iter().collect();
    parts.sort_unstable_by_key(|(name, entry)| (entry.data_offsets, *name));
    let mut end = 0;
    for (name, entry) in parts {
        let [from, to] = entry.data_offsets;
        if from != end || to < from || to > length {
            return Err(format!(
                "the tensor {name} is said to lie at {from} to {to}: {end} was expected, of {length} bytes"
            ));
        }
        if let Some(size) = size(&entry.dtype) {
            let bytes = entry
                .shape
                .iter()
                .try_fold(size, |bytes, side| bytes.checked_mul(*side));
            if bytes != Some(to - from) {
                return Err(format!(
                    "the tensor {name} ({} {:?}) does not have {} bytes",
                    entry.dtype,
                    entry.shape,
                    to - from
                ));
            }
        }
        end = to;
    }
    if end == length {
        Ok(())
    } else {
        Err(format!("its tensors end at {end} of {length} bytes"))
    }
}

/// Returns how many bytes a number of the type has; `None` for types that came later.
fn size(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "BOOL" | "U8" | "I8" => 1,
        "I16" | "U16" | "F16" | "BF16" => 2,
        "I32" | "U32" | "F32" => 4,
        "I64" | "U64" | "F64" => 8,
        _ => return None,
    })
}

/// Returns a number of 16 bits (IEEE 754 binary16) as one of 32.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let rest = u32::from(bits & 0x7fff);
    let number = match rest >> 10 {
        // Too small for a leading one: counted in units of 2⁻²⁴.
        0 => f32::from(bits & 0x3ff) / 16_777_216.0,
        31 => f32::from_bits(0x7f80_0000 | (rest << 13)),
        // The exponent counts from 15, in 32 bits from 127.
        _ => f32::from_bits((rest << 13) + (112 << 23)),
    };
    f32::from_bits(number.to_bits() | sign)
}

struct Header(HashMap<String, Entry>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Header;

            fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
                to.write_str("names of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = HashMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        entries.insert(name, map.next_value()?);
                    }
                }
                Ok(Header(entries))
            }
        }
        from.deserialize_map(Names)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    /// A file with these tensors of 32 bits.
    pub(in crate::embedding) fn file(tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        let mut numbers = Vec::new();
        for (name, shape, values) in tensors {
            let from = numbers.len();
            numbers.extend(values.iter().flat_map(|x| x.to_le_bytes()));
            let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": [from, numbers.len()]});
            header.insert((*name).to_owned(), entry);
        }
        with(&serde_json::Value::Object(header).to_string(), &numbers)
    }

    pub(in crate::embedding) fn with(header: &str, numbers: &[u8]) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(numbers);
        bytes
    }

    fn why(bytes: &[u8]) -> String {
        Tensors::open(Cursor::new(bytes)).err().expect("refused")
    }

    #[test]
    fn tensors_of_three_types_are_read_by_their_names() {
        let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},
            "h":{"dtype":"F16","shape":[5],"data_offsets":[8,18]},
            "inf":{"dtype":"F16","shape":[1],"data_offsets":[18,20]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]},
            "i":{"dtype":"I64","shape":[1],"data_offsets":[24,32]},"none":{"dtype":"F32","shape":[0,9],"data_offsets":[32,32]}}"#;
        let mut numbers = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
        // 1, -2, the largest, the smallest, 0.333…, infinity; then 1 and -0.5
        numbers.extend(
            [
                0x3c00_u16, 0xc000, 0x7bff, 0x0001, 0x3555, 0x7c00, 0x3f80, 0xbf00,
            ]
            .map(u16::to_le_bytes)
            .concat(),
        );
        numbers.extend(7_i64.to_le_bytes());
        let mut tensors = Tensors::open(Cursor::new(with(header, &numbers))).expect("a file");
        assert_eq!(tensors.read("a", &[1, 2]), Ok(vec![1.5, -2.0]));
        assert_eq!(
            tensors.read("h", &[5]),
            Ok(vec![1.0, -2.0, 65504.0, 5.960_464_5e-8, 0.333_251_95])
        );
        assert_eq!(tensors.read("b", &[2]), Ok(vec![1.0, -0.5]));
        assert_eq!(tensors.read("none", &[0, 9]), Ok(Vec::new()));
        assert_eq!(
            (tensors.shape("a"), tensors.shape("z")),
            (Some(&[1, 2][..]), None)
        );
        let mut why = |name: &str, shape: &[usize]| tensors.read(name, shape).expect_err("refused");
        assert_eq!(why("z", &[1]), "the tensor z is missing");
        assert_eq!(
            why("inf", &[1]),
            "the tensor inf holds an infinite number, or none: it was damaged"
        );
        assert_eq!(
            why("a", &[2, 1]),
            "the tensor a has the shape [1, 2], and config.json makes it [2, 1]"
        );
        assert_eq!(
            why("i", &[1]),
            "the tensor i is of type I64; F32, F16 and BF16 are read (not quantised models)"
        );
    }

    #[test]
    fn a_tensor_longer_than_one_step_is_whole() {
        let numbers: Vec<f32> = (0..200_000_u32).map(|i| i as f32).collect();
        let mut tensors =
            Tensors::open(Cursor::new(file(&[("n", &[200_000], &numbers)]))).expect("a file");
        assert_eq!(tensors.read("n", &[200_000]), Ok(numbers));
    }

    #[test]
    fn every_lie_of_a_header_is_told() {
        let entry = |shape: &str, from: u64, to: u64| {
            format!(r#"{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}}}"#)
        };
        let check = |bytes: &[u8], expected: &str| {
            assert!(why(bytes).contains(expected), "{} ({expected})", why(bytes))
        };
        check(b"", "before its header");
        check(
            &u64::MAX.to_le_bytes(),
            "said to have 18446744073709551615 bytes",
        );
        check(
            &[9, 0, 0, 0, 0, 0, 0, 0, b'{', b'}'],
            "said to have 9 bytes",
        );
        check(&with("[]", b""), "cannot be read");
        check(&with("{", b""), "cannot be read");
        check(
            &with(
                r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#,
                &[0; 4],
            ),
            "cannot be read",
        );
        check(&with(&entry("[1]", 0, 8), &[0; 4]), "said to lie at 0 to 8");
        check(&with(&entry("[1]", 4, 0), &[0; 4]), "said to lie at 4 to 0");
        check(&with(&entry("[1]", 1, 5), &[0; 5]), "0 was expected");
        check(&with(&entry("[2]", 0, 4), &[0; 4]), "does not have 4 bytes");
        check(
            &with(&entry("[4294967296,4294967296]", 0, 4), &[0; 4]),
            "does not have 4 bytes",
        );
        check(&with(&entry("[1]", 0, 4), &[0; 5]), "end at 4 of 5 bytes");
        check(&with(&"[".repeat(10_000), b""), "cannot be read");
    }

    #[test]
    fn a_file_or_header_beyond_its_limit_is_refused_unread() {
        /// A file that is as long as it says and has nothing in it.
        struct Hollow(u64);
        impl Read for Hollow {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                into.fill(1);
                Ok(into.len())
            }
        }
        impl Seek for Hollow {
            fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
                Ok(if matches!(to, SeekFrom::End(_)) {
                    self.0
                } else {
                    0
                })
            }
        }
        assert!(
            Tensors::open(Hollow(MAX_BYTES + 1))
                .err()
                .expect("refused")
                .contains("a model may have 2147483648")
        );
        assert!(
            Tensors::open(Hollow(MAX_BYTES))
                .err()
                .expect("refused")
                .contains("is said to have")
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Tensors::open(Cursor::new(&bytes));
        }

        #[test]
        fn no_header_makes_it_panic(
            kind in prop::sample::select(vec!["F32", "F16", "BF16", "I8", "X"]),
            shape in proptest::collection::vec(prop_oneof![0..9_u64, any::<u64>()], 0..4),
            from in prop_oneof![Just(0), 0..20_u64, any::<u64>()],
            to in prop_oneof![0..20_u64, any::<u64>()],
            length in 0..20_usize,
        ) {
            let header = serde_json::json!({"a": {"dtype": kind, "shape": shape, "data_offsets": [from, to]}}).to_string();
            if let Ok(mut tensors) = Tensors::open(Cursor::new(with(&header, &vec![1; length]))) {
                let shape: Vec<usize> = shape.iter().map(|side| usize::try_from(*side).expect("it fits the file")).collect();
                if let Ok(numbers) = tensors.read("a", &shape) {
                    prop_assert!(numbers.len() <= length);
                }
            }
        }
    }
}
