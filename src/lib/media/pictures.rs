//! Puts the pictures of a conversation into a request. The transcript has only their paths; their bytes are read again for
//! each request and never stored.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;

use crate::message::{Block, Message, Picture};

/// The largest picture, bytes: Anthropic refuses more than 5 MiB of its base64 (10 MiB where it is
/// not reached through Amazon or Google), and with it the whole conversation
/// (<https://platform.claude.com/docs/en/build-with-claude/vision>, read 2026-11).
pub(super) const MAX_PICTURE: u64 = (5 << 20) / 4 * 3;
/// The longest side, pixels; the same page.
pub(super) const MAX_SIDE: u32 = 8000;

/// The most pictures a request shows: each is paid for again in every call.
const MOST: usize = 8;
/// Older ones are left out in groups: each that goes changes the request from its place on, and the vendor's
/// cache serves nothing behind it.
const AT_ONCE: usize = 4;
/// The most base64 in a request, bytes. Anthropic takes requests of 32 MB.
const MOST_BYTES: usize = 20 << 20;

/// The pictures that came with messages.
#[derive(Debug, Clone)]
pub struct Pictures {
    downloads: PathBuf,
}

impl Pictures {
    /// Returns those that are below `downloads`.
    pub fn new(downloads: PathBuf) -> Self {
        Self { downloads }
    }

    /// Puts the bytes of the newest pictures into `messages`; each other one becomes words that say
    /// why it is not shown. Blocks on disk.
    pub fn fill(&self, messages: &mut [Message]) {
        let is_picture = |block: &&Block| matches!(block, Block::Image { .. });
        let count = messages
            .iter()
            .flat_map(|message| &message.content)
            .filter(is_picture)
            .count();
        let most = count - count.saturating_sub(MOST).next_multiple_of(AT_ONCE);
        let (mut met, mut bytes) = (0, 0);
        for block in messages
            .iter_mut()
            .rev()
            .flat_map(|message| message.content.iter_mut().rev())
        {
            let Block::Image { file, data, .. } = block else {
                continue;
            };
            met += 1;
            if met > most || bytes >= MOST_BYTES {
                *block = unseen("an older picture, no longer shown to you");
                continue;
            }
            match self.read(file) {
                Some(picture) if bytes + picture.len() <= MOST_BYTES => {
                    bytes += picture.len();
                    *data = Some(picture);
                }
                // All older ones go with it, so that the newest are a whole.
                Some(_) => {
                    bytes = MOST_BYTES;
                    *block = unseen("an older picture, no longer shown to you");
                }
                None => *block = unseen("a picture that is no longer kept"),
            }
        }
    }

    fn read(&self, file: &str) -> Option<Picture> {
        // We wrote the path, but a transcript is a file that others may change: nothing else is opened.
        let mut parts = Path::new(file).components();
        if !parts.all(|part| matches!(part, Component::Normal(_))) {
            return None;
        }
        let mut bytes = Vec::new();
        let opened = File::open(self.downloads.join(file)).ok()?;
        opened.take(MAX_PICTURE + 1).read_to_end(&mut bytes).ok()?;
        let fits = !bytes.is_empty() && bytes.len() as u64 <= MAX_PICTURE;
        fits.then(|| {
            base64::engine::general_purpose::STANDARD
                .encode(&bytes)
                .into()
        })
    }
}

/// Returns words that stand for a picture.
fn unseen(what: &str) -> Block {
    Block::context(format!("⟦{what}⟧"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;
    use crate::sys::atomic;

    fn image(file: &str) -> Block {
        Block::Image {
            file: file.into(),
            content_type: "image/png".into(),
            data: None,
        }
    }

    /// What became of each picture: its base64, or the words for it.
    fn filled(dir: &Path, files: &[&str]) -> Vec<String> {
        let mut messages: Vec<Message> = files
            .iter()
            .map(|file| Message {
                role: Role::User,
                content: vec![image(file)],
            })
            .collect();
        Pictures::new(dir.to_owned()).fill(&mut messages);
        let blocks = messages.into_iter().flat_map(|message| message.content);
        blocks
            .map(|block| match block {
                Block::Image {
                    data: Some(data), ..
                } => data.to_string(),
                Block::Context { text } => text,
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn the_newest_are_shown_at_most_eight_and_older_ones_go_four_at_a_time() {
        let dir = tempfile::tempdir().expect("dir");
        let put = |name: &str, bytes: &[u8]| {
            atomic::write(&dir.path().join(name), bytes, atomic::Durability::Rename).expect("write")
        };
        put("a", b"abc");
        put(
            "big",
            &vec![0; usize::try_from(MAX_PICTURE).expect("small") + 1],
        );
        let (gone, older) = (
            "⟦a picture that is no longer kept⟧",
            "⟦an older picture, no longer shown to you⟧",
        );
        for (count, hidden) in [(8, 0), (9, 4), (10, 4), (12, 4), (13, 8)] {
            let expected: Vec<&str> = (0..count)
                .map(|at| if at < hidden { older } else { "YWJj" })
                .collect();
            assert_eq!(filled(dir.path(), &vec!["a"; count]), expected);
        }
        assert_eq!(
            filled(
                dir.path(),
                &["a", "none", "../a", "/etc/hostname", "", "big"]
            ),
            ["YWJj", gone, gone, gone, gone, gone]
        );
    }

    #[test]
    fn together_they_stay_below_what_a_request_may_have() {
        let dir = tempfile::tempdir().expect("dir");
        let bytes = vec![7; usize::try_from(MAX_PICTURE).expect("small")];
        atomic::write(&dir.path().join("a"), &bytes, atomic::Durability::Rename).expect("write");
        let shown: Vec<bool> = filled(dir.path(), &["a"; 6])
            .iter()
            .map(|text| !text.starts_with('⟦'))
            .collect();
        assert_eq!(shown, [false, false, true, true, true, true]);
    }

    #[test]
    fn a_path_outside_of_the_downloads_is_not_even_opened() {
        let dir = tempfile::tempdir().expect("dir");
        // Opening it would wait for a writer.
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let pictures = Pictures::new(dir.path().join("downloads"));
            let _ = done.send(pictures.read(&fifo.to_string_lossy()));
        });
        let read = wait.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(read.expect("it does not wait"), None);
    }
}
