//! Pictures in the result of a tool server, for a model: stored next to those of people, checked by their bytes.

use std::path::Path;

use crate::media::{self, Content};
use crate::message::ToolPicture;
use crate::sys::atomic;

/// The most pictures of one answer that are shown; each is paid for in every call of the turn.
pub(super) const MAX_SHOWN: usize = 4;

/// Keeps a picture below `downloads`, in the folder of its run, and returns where it lies; `None` when it is none that a
/// model can be shown.
pub(super) fn keep(
    downloads: &Path,
    run_id: &str,
    name: &str,
    bytes: &[u8],
) -> Option<ToolPicture> {
    let is_plain = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    if !is_plain(run_id) || !is_plain(name) {
        return None;
    }
    let folder = downloads.join(run_id);
    std::fs::create_dir_all(&folder).ok()?;
    let path = folder.join(name);
    atomic::write(&path, bytes, atomic::Durability::Rename).ok()?;
    match media::look(&path, name, None).content {
        Ok(Content::Picture(content_type)) => Some(ToolPicture {
            file: format!("{run_id}/{name}"),
            content_type: content_type.to_owned(),
        }),
        _ => {
            // What is left of it goes with the rest of the downloads.
            let _ = std::fs::remove_file(&path);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A GIF of one pixel.
    const GIF: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";

    #[test]
    fn only_what_is_a_picture_by_its_bytes_is_shown() {
        let dir = tempfile::tempdir().expect("dir");
        let kept = keep(dir.path(), "run-1", "a", GIF).expect("a picture");
        assert_eq!(
            (kept.file.as_str(), kept.content_type.as_str()),
            ("run-1/a", "image/gif")
        );
        assert_eq!(
            std::fs::read(dir.path().join("run-1/a")).expect("kept"),
            GIF
        );
        for (run, name, bytes) in [
            ("run-1", "b", b"\x89PNG not really".as_slice()),
            ("run-1", "b", b"<svg/>"),
            ("run-1", "b", b""),
            ("../run", "b", GIF),
            ("run-1", "../b", GIF),
        ] {
            assert!(keep(dir.path(), run, name, bytes).is_none(), "{run} {name}");
        }
        assert!(!dir.path().join("run-1/b").exists());
    }
}
