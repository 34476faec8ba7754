//! Determines the type of a file by its first bytes. The type given by the sender is only a claim; a picture that is none
//! would make a vendor refuse the whole conversation.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A picture that models look at, with its MIME type.
    Picture(&'static str),
    Pdf,
    /// Speech, music or another recording, with its MIME type.
    Sound(&'static str),
    Film,
    /// Something else that is surely no text, in a person's words.
    Other(&'static str),
}

/// Marks at the beginning, and what they stand for.
const BEGINNINGS: &[(&[u8], Kind)] = &[
    (b"\xff\xd8\xff", Kind::Picture("image/jpeg")),
    (b"\x89PNG\r\n\x1a\n", Kind::Picture("image/png")),
    (b"GIF87a", Kind::Picture("image/gif")),
    (b"GIF89a", Kind::Picture("image/gif")),
    (b"OggS", Kind::Sound("audio/ogg")),
    (b"fLaC", Kind::Sound("audio/flac")),
    (b"ID3", Kind::Sound("audio/mpeg")),
    (b"\xff\xfb", Kind::Sound("audio/mpeg")),
    (b"\xff\xf3", Kind::Sound("audio/mpeg")),
    (b"\xff\xf1", Kind::Sound("audio/aac")),
    (b"#!AMR", Kind::Sound("audio/amr")),
    (
        b"PK\x03\x04",
        Kind::Other("a ZIP archive or an office document"),
    ),
    (b"\x1f\x8b", Kind::Other("a gzip archive")),
    (b"7z\xbc\xaf\x27\x1c", Kind::Other("a 7z archive")),
    (b"Rar!\x1a\x07", Kind::Other("a RAR archive")),
    (b"\xfd7zXZ\0", Kind::Other("an xz archive")),
    (b"\x28\xb5\x2f\xfd", Kind::Other("a zstd archive")),
    (b"\x7fELF", Kind::Other("a program")),
    (b"SQLite format 3\0", Kind::Other("an SQLite database")),
    (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        Kind::Other("an old office document"),
    ),
    (
        b"II*\0",
        Kind::Other("a TIFF picture, which models are not shown"),
    ),
    (
        b"MM\0*",
        Kind::Other("a TIFF picture, which models are not shown"),
    ),
];

/// The mark of Matroska and WebM, and how far from the beginning the codecs of their tracks are named.
const MATROSKA: &[u8] = b"\x1a\x45\xdf\xa3";
const TRACKS_WITHIN: usize = 4096;

/// How far from the beginning a PDF may say that it is one: readers accept 1024 bytes of anything
/// before it (PDF 1.7 reference, appendix H, note 13).
const PDF_WITHIN: usize = 1024;

/// Returns what the file is that begins with `bytes`; `None` when it bears no mark, as texts do.
pub fn sniff(bytes: &[u8]) -> Option<Kind> {
    if let Some((_, kind)) = BEGINNINGS.iter().find(|(mark, _)| bytes.starts_with(mark)) {
        return Some(*kind);
    }
    if bytes.starts_with(MATROSKA) {
        return Some(matroska(bytes));
    }
    match (bytes.get(..4), bytes.get(8..12)) {
        (Some(b"RIFF"), Some(b"WEBP")) => return Some(Kind::Picture("image/webp")),
        (Some(b"RIFF"), Some(b"WAVE")) => return Some(Kind::Sound("audio/wav")),
        (Some(b"RIFF"), Some(b"AVI ")) => return Some(Kind::Film),
        _ => {}
    }
    if bytes.get(4..8) == Some(b"ftyp") {
        return Some(match bytes.get(8..11) {
            Some(b"M4A" | b"M4B") => Kind::Sound("audio/mp4"),
            Some(b"hei" | b"hev" | b"mif" | b"msf" | b"avi") => {
                Kind::Other("a HEIC or AVIF picture, which models are not shown")
            }
            _ => Kind::Film,
        });
    }
    let start = bytes.get(..PDF_WITHIN.min(bytes.len())).unwrap_or_default();
    // A mark that is inside a text is talk about PDFs.
    let before = start.windows(5).position(|window| window == b"%PDF-")?;
    let text = start
        .get(..before)
        .is_some_and(|before| before.iter().any(|byte| byte.is_ascii_alphanumeric()));
    (!text).then_some(Kind::Pdf)
}

/// Returns whether it is a recording, as browsers make them of a voice, or a film (matroska.org, "Codec Mappings").
fn matroska(bytes: &[u8]) -> Kind {
    let head = bytes.get(..TRACKS_WITHIN).unwrap_or(bytes);
    let names = |codec: &[u8]| head.windows(codec.len()).any(|window| window == codec);
    let is_sound = (names(b"A_OPUS") || names(b"A_VORBIS")) && !names(b"V_");
    if is_sound {
        Kind::Sound("audio/webm")
    } else {
        Kind::Film
    }
}

/// Returns the ending of the name of a recording by its first bytes; `None` for what is none that a model or a chat takes.
pub fn sound_ending(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'O', b'g', b'g', b'S', ..] => Some("ogg"),
        [b'R', b'I', b'F', b'F', ..] => Some("wav"),
        [b'f', b'L', b'a', b'C', ..] => Some("flac"),
        [b'I', b'D', b'3', ..] => Some("mp3"),
        // Eleven bits that begin a frame; the next four would be 0 for AAC (ISO 11172-3 §2.4.1.3).
        [0xff, second, ..] if second & 0xe0 == 0xe0 && second & 0x06 != 0 => Some("mp3"),
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => Some("m4a"),
        [0x1a, 0x45, 0xdf, 0xa3, ..] => Some("webm"),
        _ => None,
    }
}

/// Returns the longer side of a picture in pixels; `None` when its head does not say.
pub(super) fn side(bytes: &[u8]) -> Option<u32> {
    let big = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let little = |at: usize| {
        Some(u32::from(u16::from_le_bytes(
            bytes.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    match sniff(bytes)? {
        Kind::Picture("image/png") => Some(big(16)?.max(big(20)?)),
        Kind::Picture("image/gif") => Some(little(6)?.max(little(8)?)),
        Kind::Picture("image/webp") => match bytes.get(12..16)? {
            b"VP8 " => Some((little(26)? & 0x3fff).max(little(28)? & 0x3fff)),
            b"VP8L" => {
                let packed = u32::from_le_bytes(bytes.get(21..25)?.try_into().ok()?);
                Some((packed & 0x3fff).max(packed >> 14 & 0x3fff) + 1)
            }
            b"VP8X" => {
                let three = |at: usize| Some(little(at)? | u32::from(*bytes.get(at + 2)?) << 16);
                Some(three(24)?.max(three(27)?) + 1)
            }
            _ => None,
        },
        Kind::Picture("image/jpeg") => jpeg_side(bytes),
        _ => None,
    }
}

/// Walks the segments of a JPEG up to the frame (ITU T.81, B.1 and B.2.2).
fn jpeg_side(bytes: &[u8]) -> Option<u32> {
    let pair = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1)?;
        match (bytes.get(at)?, marker) {
            (0xff, 0xff) => at += 1,
            // Frames of every kind; C4, C8 and CC are tables.
            (0xff, 0xc0..=0xcf) if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some(u32::from(pair(at + 5)?.max(pair(at + 7)?)));
            }
            (0xff, _) => at += 2 + usize::from(pair(at + 2)?.max(2)),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_recording_is_told_by_its_bytes() {
        let heads: [&[u8]; 8] = [
            b"OggS\0\x02",
            b"RIFF\x24\x08\0\0WAVE",
            b"fLaC",
            b"ID3\x04",
            b"\xff\xfb\x90",
            b"\0\0\0\x20ftypM4A ",
            b"\x1a\x45\xdf\xa3",
            b"?",
        ];
        let endings = ["ogg", "wav", "flac", "mp3", "mp3", "m4a", "webm"].map(Some);
        assert_eq!(heads.map(sound_ending)[..7], endings);
        assert_eq!(sound_ending(b"?"), None);
    }

    #[test]
    fn bytes_say_what_a_file_is() {
        let check = |bytes: &[u8], kind: Option<Kind>| assert_eq!(sniff(bytes), kind, "{bytes:?}");
        check(
            b"\xff\xd8\xff\xe0\0\x10JFIF",
            Some(Kind::Picture("image/jpeg")),
        );
        let webm = |codecs: &str| [b"\x1a\x45\xdf\xa3webm".as_slice(), codecs.as_bytes()].concat();
        check(&webm("\u{86}A_OPUS"), Some(Kind::Sound("audio/webm")));
        check(&webm("V_VP9 A_OPUS"), Some(Kind::Film));
        check(&webm(""), Some(Kind::Film));
        check(b"\x89PNG\r\n\x1a\n\0\0", Some(Kind::Picture("image/png")));
        check(b"GIF89a\x01\0", Some(Kind::Picture("image/gif")));
        check(b"RIFF\0\0\0\0WEBPVP8 ", Some(Kind::Picture("image/webp")));
        check(b"RIFF\0\0\0\0WAVEfmt ", Some(Kind::Sound("audio/wav")));
        check(b"OggS\0", Some(Kind::Sound("audio/ogg")));
        check(b"\0\0\0\x20ftypM4A ", Some(Kind::Sound("audio/mp4")));
        check(b"\0\0\0\x20ftypisom", Some(Kind::Film));
        check(
            b"\0\0\0\x20ftypheic",
            Some(Kind::Other(
                "a HEIC or AVIF picture, which models are not shown",
            )),
        );
        check(b"%PDF-1.7\n", Some(Kind::Pdf));
        check(b"\xef\xbb\xbf\n%PDF-1.4", Some(Kind::Pdf));
        check(b"A file that begins with %PDF-1.4 is a PDF.", None);
        check(
            b"PK\x03\x04",
            Some(Kind::Other("a ZIP archive or an office document")),
        );
        for text in [
            &b""[..],
            b"hello",
            "\u{feff}Gr\u{fc}\u{df}e".as_bytes(),
            b"\xff\xfeh\0i\0",
            b"RIFF",
            b"II",
            b"%PD",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn the_longer_side_is_read_from_each_format() {
        let check =
            |bytes: &[u8], longer: Option<u32>| assert_eq!(side(bytes), longer, "{bytes:?}");
        check(
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x1f\x41\0\0\0\x02",
            Some(8001),
        );
        check(b"GIF89a\x02\0\x03\0", Some(3));
        check(
            b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x40\x1f\0\x01\0\0",
            Some(8001),
        );
        check(
            b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x05\0\x04\0",
            Some(5),
        );
        check(b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\xc0\x01\0", Some(8));
        check(
            b"\xff\xd8\xff\xe0\0\x04ab\xff\xc4\0\x02\xff\xc2\0\x11\x08\0\x07\x00\x09",
            Some(9),
        );
        // Cut off anywhere, nobody falls over.
        for whole in [
            &b"\xff\xd8\xff\xe0\0\x04ab\xff\xc2\0\x11\x08\0\x07\x00\x09"[..],
            b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0",
        ] {
            (0..whole.len()).for_each(|end| check(&whole[..end], None));
        }
        check(b"\xff\xd8\xff\xff\xff\xff", None);
    }
}
