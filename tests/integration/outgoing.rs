//! Telegram's sending half against the fake: what is asked of the Bot API, and what its answers mean.

mod buttons;
mod files;
mod words;

use std::{path::PathBuf, sync::Arc};

use agent_toolkit::{
    channel::{Outgoing, telegram::Telegram},
    config,
    message::{ChatRef, MediaKind, OutFile},
    secret::Secret,
    sys::atomic,
};

use crate::support::FakeTelegram;

/// The sending half, the fake behind it, and a place for files.
struct Line {
    fake: FakeTelegram,
    telegram: Telegram,
    dir: tempfile::TempDir,
}

impl Line {
    fn new() -> Self {
        let fake = FakeTelegram::start();
        let telegram = telegram(fake.url(), fake.token());
        Self {
            fake,
            telegram,
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    /// Makes a file with these bytes.
    fn file(&self, kind: MediaKind, name: &str, bytes: &[u8]) -> (OutFile, PathBuf) {
        let path = self.dir.path().join(name);
        atomic::write(&path, bytes, atomic::Durability::Rename).expect("a file");
        (
            OutFile {
                kind,
                path: name.to_owned(),
                filename: name.to_owned(),
                handle: None,
            },
            path,
        )
    }

    /// Makes a file with a hole of this size in it.
    fn large(&self, kind: MediaKind, name: &str, bytes: u64) -> (OutFile, PathBuf) {
        let made = self.file(kind, name, b"x");
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&made.1)
            .expect("the file");
        file.set_len(bytes).expect("a hole needs no room");
        made
    }

    /// Returns the methods called so far, in order.
    fn methods(&self) -> Vec<String> {
        self.fake
            .calls()
            .into_iter()
            .map(|call| call.method)
            .collect()
    }
}

fn telegram(url: &str, token: &str) -> Telegram {
    let config = config::Telegram {
        api_url: url.to_owned(),
        ..config::Telegram::default()
    };
    Telegram::new(
        &config,
        &config::Http::default(),
        Secret::new(token),
        Arc::default(),
    )
    .expect("TLS")
}

fn chat(id: &str, topic: Option<&str>) -> ChatRef {
    ChatRef {
        chat: id.to_owned(),
        topic: topic.map(str::to_owned),
    }
}

/// Returns plain words to `chat`.
fn words<'a>(chat: &'a ChatRef, plain: &'a str) -> Outgoing<'a> {
    Outgoing {
        key: "",
        chat,
        reply_to: None,
        markup: None,
        plain,
        files: &[],
        reaction: None,
        buttons: &[],
        resent: false,
    }
}
