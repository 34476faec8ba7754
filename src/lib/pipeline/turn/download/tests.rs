use parking_lot::Mutex;
use std::collections::VecDeque;
use std::path::PathBuf;

use super::*;
use crate::channel::{Health, Outgoing, Rendered, SendError};
use crate::message::ChatRef;
use crate::provider::BoxFuture;
use crate::sys::atomic;

/// Answers each try with what it is told.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Result<&'static [u8], FetchError>>>,
    asked: Mutex<Vec<PathBuf>>,
}

impl Channel for Script {
    fn name(&self) -> &'static str {
        "script"
    }
    fn render(&self, _: &str) -> Vec<Rendered> {
        Vec::new()
    }
    fn plain(&self, _: &str) -> Vec<Rendered> {
        Vec::new()
    }
    fn send<'a>(&'a self, _: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>> {
        Box::pin(async { Ok(String::new()) })
    }
    fn typing<'a>(&'a self, _: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(async { Ok(()) })
    }
    fn health(&self) -> Health {
        Health {
            state: "ok".into(),
            mode: "",
            last_ok_at: None,
            last_update_at: None,
        }
    }
    fn fetch<'a>(
        &'a self,
        _: &'a Media,
        to: &'a Path,
        _: u64,
    ) -> BoxFuture<'a, Result<(), FetchError>> {
        Box::pin(async move {
            self.asked.lock().push(to.to_owned());
            let answer = self.answers.lock().pop_front().expect("an answer");
            atomic::write(to, answer?, atomic::Durability::Rename).expect("write");
            Ok(())
        })
    }
}

fn media(filename: Option<&str>) -> Media {
    let filename = filename.map(str::to_owned);
    Media {
        kind: MediaKind::Photo,
        handle: "h".into(),
        filename,
        content_type: None,
        bytes: None,
        seconds: None,
        identity: None,
    }
}

/// Fetches with these answers; returns the outcome and how often the channel was asked.
async fn fetched(
    downloads: &Path,
    filename: Option<&str>,
    answers: Vec<Result<&'static [u8], FetchError>>,
) -> (Result<String, String>, usize) {
    let channel = Script {
        answers: Mutex::new(answers.into()),
        ..Script::default()
    };
    let path = fetch(&channel, downloads, "tg:1:2", 0, &media(filename)).await;
    let asked = channel.asked.lock().len();
    (path, asked)
}

fn left(downloads: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(downloads.join("tg:1:2"))
        .expect("dir")
        .flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

#[tokio::test]
async fn a_file_is_fetched_once_and_kept_for_us_alone() {
    let dir = tempfile::tempdir().expect("dir");
    let path = "tg:1:2/0-photo.jpg".to_owned();
    assert_eq!(
        fetched(dir.path(), None, vec![Ok(b"abc")]).await,
        (Ok(path.clone()), 1)
    );
    let mode = std::fs::metadata(dir.path().join(&path))
        .expect("file")
        .permissions()
        .mode();
    assert_eq!(
        (mode & 0o777, left(dir.path())),
        (0o600, vec!["0-photo.jpg".to_owned()])
    );
    assert_eq!(
        fetched(dir.path(), None, Vec::new()).await,
        (Ok(path), 0),
        "a turn that is gone on with"
    );
}

#[tokio::test]
async fn what_may_come_later_is_tried_three_times_and_then_told() {
    let dir = tempfile::tempdir().expect("dir");
    let again = || Err(FetchError::Again("no route".into()));
    assert_eq!(
        fetched(dir.path(), None, vec![again(), again(), again()]).await,
        (Err("no route".into()), 3)
    );
    assert_eq!(left(dir.path()), [] as [String; 0]);
    let (path, asked) = fetched(dir.path(), None, vec![again(), again(), Ok(b"abc")]).await;
    assert_eq!((path.is_ok(), asked), (true, 3));
}

#[tokio::test]
async fn what_never_comes_is_not_tried_again() {
    let dir = tempfile::tempdir().expect("dir");
    let (why, asked) = fetched(
        dir.path(),
        None,
        vec![Err(FetchError::TooLarge { max: MAX_FETCH })],
    )
    .await;
    assert_eq!(
        (why, asked),
        (Err("it is too large (at most 20 MB)".into()), 1)
    );
}

#[tokio::test]
async fn a_name_leads_nowhere_else() {
    let dir = tempfile::tempdir().expect("dir");
    for (name, expected) in [
        ("../../x", "0-.._.._x"),
        ("..", "0-_"),
        ("/etc/passwd", "0-_etc_passwd"),
        ("", "0-photo.jpg"),
    ] {
        let (path, _) = fetched(dir.path(), Some(name), vec![Ok(b"x")]).await;
        assert_eq!(path, Ok(format!("tg:1:2/{expected}")), "{name}");
    }
}
