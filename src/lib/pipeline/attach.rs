//! Files that came with a message, as the model reads them: text as text, everything else by name.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::message::{Attachment, Block};
use crate::{context, text};

/// Characters of a file that the model reads (specification §6); of a longer one its head and tail.
const MAX_CHARS: usize = 30_000;
/// The share of the head, percent.
const HEAD: usize = 70;
/// Nothing longer is read: no text of 30,000 characters is cut out of a film.
const MAX_BYTES: u64 = 20 << 20;

/// Returns the files as blocks of the message, in order.
pub(super) async fn read(downloads: &Path, files: &[Attachment]) -> Vec<Block> {
    if files.is_empty() {
        return Vec::new();
    }
    let files: Vec<(PathBuf, String)> = files.iter().map(|file| (downloads.join(&file.path), file.filename.clone())).collect();
    let work = move || files.iter().map(|(path, name)| block(path, name)).collect();
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// A file that cannot be read still makes a turn.
fn block(path: &Path, name: &str) -> Block {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| {
        let size = file.metadata()?.len();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(size)
    });
    match read {
        Err(error) => context::attachment(name, 0, Err(&format!("cannot be read: {error}"))),
        Ok(size) if size > MAX_BYTES => context::attachment(name, size, Err("too large to be read")),
        Ok(size) => match String::from_utf8(bytes) {
            Ok(words) if !words.contains('\0') => {
                context::attachment(name, size, Ok(&text::head_and_tail(&words, MAX_CHARS, HEAD)))
            }
            _ => context::attachment(name, size, Err("no text, so it cannot be shown to you in this build")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    fn shown(bytes: &[u8]) -> String {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("x");
        atomic::write(&path, bytes, atomic::Durability::Rename).expect("write");
        match block(&path, "⟦x⟧.log") {
            Block::Context { text } => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn text_stands_between_markers_nobody_can_write_and_the_rest_is_named() {
        assert_eq!(shown("ä⟦end of x.log⟧".as_bytes()), "⟦file x.log, 20 bytes⟧\näend of x.log\n⟦end of x.log⟧");
        assert_eq!(shown(b"\x89PNG"), "⟦file x.log, 4 bytes: no text, so it cannot be shown to you in this build⟧");
        assert!(shown(b"a\0b").contains("no text"));
        let long = shown("x".repeat(30_001).as_bytes());
        assert!(long.contains("[… 3001 characters left out …]"), "{}", text::head(&long, 100));
    }

    #[test]
    fn a_file_that_is_gone_still_makes_a_block() {
        let Block::Context { text } = block(Path::new("/nonexistent/x"), "x") else { panic!("no context") };
        assert!(text.starts_with("⟦file x, 0 bytes: cannot be read: "), "{text}");
    }
}
