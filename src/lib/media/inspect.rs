//! Inspects a file: its type, its size, and its text, or the reason why the model gets none.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use super::decode_text::{is_text_name, text};
use super::pictures::{MAX_PICTURE, MAX_SIDE};
use super::sniff::{Kind, side, sniff};

/// The largest document that is read (specification §6).
const MAX_DOCUMENT: u64 = 10 << 20;

#[derive(Debug)]
pub struct Seen {
    /// Its size; 0 when it cannot be opened.
    pub bytes: u64,
    /// What is in it, or why nobody can be shown that, in a person's words.
    pub content: Result<Content, String>,
}

#[derive(Debug)]
pub enum Content {
    /// A picture that models look at, of this MIME type.
    Picture(&'static str),
    Text(String),
    /// A PDF, open at its beginning.
    Pdf(File),
    Sound,
}

/// Looks at the file `path`, which its sender calls `name` and says to be of type `content_type`:
/// its bytes come before both. Blocks on disk.
pub fn look(path: &Path, name: &str, content_type: Option<&str>) -> Seen {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        let size = file.metadata()?.len();
        (&mut file).take(MAX_DOCUMENT).read_to_end(&mut bytes)?;
        file.rewind()?;
        Ok((file, size))
    });
    match read {
        Err(error) => Seen {
            bytes: 0,
            content: Err(format!("cannot be read: {error}")),
        },
        Ok((file, size)) => Seen {
            bytes: size,
            content: content(file, size, &bytes, is_text_name(name, content_type)),
        },
    }
}

fn content(file: File, size: u64, bytes: &[u8], claimed: bool) -> Result<Content, String> {
    let too_large = || format!("too large to be read (at most {} MB)", MAX_DOCUMENT >> 20);
    match sniff(bytes) {
        Some(Kind::Picture(_)) if size > MAX_PICTURE => {
            Err("a picture too large to be shown to you (at most 3.75 MB)".to_owned())
        }
        Some(Kind::Picture(content_type)) => match side(bytes) {
            Some(0) | None => Err("a damaged picture, so it cannot be shown to you".to_owned()),
            Some(side) if side > MAX_SIDE => Err(format!(
                "a picture of {side} pixels on one side, too large to be shown to you (at most {MAX_SIDE})"
            )),
            Some(_) => Ok(Content::Picture(content_type)),
        },
        Some(Kind::Pdf) if size > MAX_DOCUMENT => Err(too_large()),
        Some(Kind::Pdf) => Ok(Content::Pdf(file)),
        Some(Kind::Sound(_)) => Ok(Content::Sound),
        Some(Kind::Film) => Err("a film, which cannot be shown to you".to_owned()),
        Some(Kind::Other(what)) => Err(format!("{what}, so it cannot be shown to you")),
        None if size > MAX_DOCUMENT => Err(too_large()),
        None => text(bytes, claimed)
            .map(Content::Text)
            .ok_or_else(|| "no text, so it cannot be shown to you".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    fn seen(bytes: &[u8], name: &str) -> String {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("x");
        atomic::write(&path, bytes, atomic::Durability::Rename).expect("write");
        let seen = look(&path, name, None);
        assert_eq!(seen.bytes, bytes.len() as u64);
        match seen.content {
            Ok(Content::Picture(content_type)) => content_type.to_owned(),
            Ok(Content::Text(text)) => format!("text {text}"),
            Ok(Content::Pdf(_)) => "pdf".to_owned(),
            Ok(Content::Sound) => "sound".to_owned(),
            Err(why) => why,
        }
    }

    #[test]
    fn bytes_come_before_names_and_each_kind_has_its_limit() {
        let check = |bytes: &[u8], name: &str, expected: &str| {
            assert_eq!(seen(bytes, name), expected, "{name}")
        };
        let png = |side: u8| {
            [
                &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0"[..],
                &[side, 0x41, 0, 0, 0, 2],
            ]
            .concat()
        };
        check(&png(0x1e), "a.txt", "image/png");
        check(
            &png(0x1f),
            "a.png",
            "a picture of 8001 pixels on one side, too large to be shown to you (at most 8000)",
        );
        check(
            b"\x89PNG\r\n\x1a\n",
            "a.png",
            "a damaged picture, so it cannot be shown to you",
        );
        check(b"%PDF-1.4", "a", "pdf");
        check(b"OggS", "a", "sound");
        check(b"Gr\xfc\xdfe", "a.txt", "text Grüße");
        check(
            b"Gr\xfc\xdfe",
            "a.bin",
            "no text, so it cannot be shown to you",
        );
        check(
            b"PK\x03\x04",
            "a.docx",
            "a ZIP archive or an office document, so it cannot be shown to you",
        );
        let large = vec![b'x'; usize::try_from(MAX_DOCUMENT).expect("small") + 1];
        check(&large, "a.txt", "too large to be read (at most 10 MB)");
        let large = [
            png(1),
            vec![0; usize::try_from(MAX_PICTURE).expect("small")],
        ]
        .concat();
        check(
            &large,
            "a.png",
            "a picture too large to be shown to you (at most 3.75 MB)",
        );
    }

    #[test]
    fn what_is_gone_says_so() {
        let seen = look(Path::new("/nonexistent/x"), "x", None);
        assert!(
            seen.content
                .expect_err("gone")
                .starts_with("cannot be read: No such file")
        );
    }
}
