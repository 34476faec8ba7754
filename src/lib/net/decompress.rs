//! Decompresses responses up to a limit, because a few kilobytes can expand to gigabytes.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// What we say that we can unpack.
pub(super) const ACCEPTED: &str = "gzip, deflate";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failed {
    TooLarge,
    Damaged(String),
}

/// Returns what `bytes` are without their `coding`; at most `limit` bytes.
pub(super) fn unpack(bytes: Vec<u8>, coding: &str, limit: usize) -> Result<Vec<u8>, Failed> {
    match coding.trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(bytes),
        _ if bytes.is_empty() => Ok(bytes),
        "gzip" | "x-gzip" => read(MultiGzDecoder::new(bytes.as_slice()), limit),
        // RFC 9110 means the zlib format; some servers send the bare one.
        "deflate" if is_zlib(&bytes) => read(ZlibDecoder::new(bytes.as_slice()), limit),
        "deflate" => read(DeflateDecoder::new(bytes.as_slice()), limit),
        coding => Err(Failed::Damaged(format!(
            "it came as {:?}, and only {ACCEPTED} was asked for",
            super::server_text(coding)
        ))),
    }
}

/// RFC 1950: method 8, and the first two bytes are a multiple of 31.
fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [first, second, ..] if first & 15 == 8 && u16::from_be_bytes([*first, *second]) % 31 == 0)
}

fn read(packed: impl Read, limit: usize) -> Result<Vec<u8>, Failed> {
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    packed
        .take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| Failed::Damaged(error.to_string()))?;
    if bytes.len() > limit {
        Err(Failed::TooLarge)
    } else {
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    #[test]
    fn each_coding_is_unpacked_and_none_beyond_the_limit() {
        let zeros = vec![0_u8; 100_000];
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&zeros).expect("memory");
        let gzip = gzip.finish().expect("memory");
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(&zeros).expect("memory");
        let zlib = zlib.finish().expect("memory");
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::best());
        bare.write_all(&zeros).expect("memory");
        let bare = bare.finish().expect("memory");
        for (coding, bytes) in [
            ("gzip", &gzip),
            ("X-GZIP", &gzip),
            ("deflate", &zlib),
            (" deflate ", &bare),
        ] {
            assert!(bytes.len() < 1000, "{coding}");
            assert_eq!(
                unpack(bytes.clone(), coding, 100_000).as_deref(),
                Ok(zeros.as_slice()),
                "{coding}"
            );
            assert_eq!(
                unpack(bytes.clone(), coding, 99_999),
                Err(Failed::TooLarge),
                "{coding}"
            );
        }
        // Two members one after the other are one file (RFC 1952).
        assert_eq!(
            unpack([gzip.clone(), gzip.clone()].concat(), "gzip", 150_000),
            Err(Failed::TooLarge)
        );
        assert!(matches!(
            unpack(gzip[..40].to_vec(), "gzip", 100_000),
            Err(Failed::Damaged(_))
        ));
        assert!(matches!(
            unpack(gzip.clone(), "br", 100_000),
            Err(Failed::Damaged(_))
        ));
        assert!(matches!(
            unpack(gzip.clone(), "gzip, gzip", 100_000),
            Err(Failed::Damaged(_))
        ));
        assert_eq!(
            unpack(b"plain".to_vec(), "identity", 9).as_deref(),
            Ok(&b"plain"[..])
        );
        assert_eq!(unpack(Vec::new(), "gzip", 9).as_deref(), Ok(&b""[..]));
    }
}
