//! The test plays the process: it claims messages, and reports results or not.

use super::*;
use crate::message::MediaKind;

struct Bench {
    _dir: tempfile::TempDir,
    channel: Arc<Process>,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let channel = Process::new("sms", dir.path().join("channels/sms"), Arc::default());
        Self {
            _dir: dir,
            channel: Arc::new(channel),
        }
    }

    fn send(
        &self,
        key: &'static str,
        resent: bool,
    ) -> tokio::task::JoinHandle<Result<String, SendError>> {
        let channel = self.channel.clone();
        tokio::spawn(async move {
            let chat = ChatRef {
                chat: "c".to_owned(),
                topic: None,
            };
            channel.send(outgoing(key, &chat, resent)).await
        })
    }

    fn send_file(
        &self,
        key: &'static str,
        filename: &str,
        path: PathBuf,
    ) -> tokio::task::JoinHandle<Result<String, SendError>> {
        let channel = self.channel.clone();
        let file = OutFile {
            kind: MediaKind::Document,
            path: "a".to_owned(),
            filename: filename.to_owned(),
            handle: None,
        };
        tokio::spawn(async move {
            let chat = ChatRef::default();
            let files = [(file, path)];
            let message = Outgoing {
                files: &files,
                ..outgoing(key, &chat, false)
            };
            channel.send(message).await
        })
    }

    async fn offered(&self, key: &str) -> serde_json::Value {
        let path = self.channel.layout.out().join(format!("{key}.json"));
        for _ in 0..500 {
            if let Ok(bytes) = std::fs::read(&path) {
                return serde_json::from_slice(&bytes).expect("json");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{key} was not offered");
    }

    fn claim(&self, key: &str) {
        let name = format!("{key}.json");
        let layout = &self.channel.layout;
        std::fs::rename(layout.out().join(&name), layout.sending().join(&name)).expect("claimed");
    }
}

fn put(path: &std::path::Path, text: &str) {
    sys::atomic::write(path, text.as_bytes(), sys::atomic::Durability::Rename).expect("written");
}

fn outgoing<'a>(key: &'a str, chat: &'a ChatRef, resent: bool) -> Outgoing<'a> {
    Outgoing {
        key,
        chat,
        reply_to: None,
        markup: None,
        plain: "hi",
        files: &[],
        reaction: None,
        buttons: &[],
        resent,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_a_file_until_the_process_says_what_became_of_it() {
    let bench = Bench::new();
    let sent = bench.send("5-1", false);
    let written = bench.offered("5-1").await;
    assert_eq!(
        (&written["text"], &written["resent"]),
        (&"hi".into(), &false.into())
    );
    bench.claim("5-1");
    bench
        .channel
        .acknowledge("5-1", Outcome::Arrived("m1".to_owned()));
    assert_eq!(sent.await.expect("no panic"), Ok("m1".to_owned()));
    assert_eq!(
        std::fs::read_dir(bench.channel.layout.sending())
            .expect("dir")
            .count(),
        0
    );
    // Nobody has written for long, and nothing waits: that is not trouble, while the process is there.
    assert_eq!(bench.channel.health().state, "ok");
    *bench.channel.last.lock() = (Some(0), Some(0));
    put(&bench.channel.layout.lock(), "");
    let lock = std::fs::File::open(bench.channel.layout.lock()).expect("a file");
    let lock = Flock::lock(lock, FlockArg::LockExclusive).expect("nobody else has it");
    let health = bench.channel.health();
    assert_eq!(health.state, "ok");
    assert!(health.last_ok_at.is_some_and(|at| at > 0));
    drop(lock);
    assert_eq!(bench.channel.health().state, "not running");
    // Word that comes before anybody asks is kept.
    bench
        .channel
        .acknowledge("5-2", Outcome::Never("no".to_owned()));
    assert!(matches!(
        bench.send("5-2", false).await.expect("no panic"),
        Err(SendError::Never { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubt_about_one_try_is_no_doubt_about_the_next() {
    let bench = Bench::new();
    let doubt = || {
        let why = Outcome::Unknown("ended".to_owned());
        bench.channel.acknowledge("5-1", why);
    };
    let first = bench.send("5-1", false);
    bench.offered("5-1").await;
    bench.claim("5-1");
    // A process that is killed repeatedly reports it at each start.
    doubt();
    doubt();
    assert!(matches!(
        first.await.expect("no panic"),
        Err(SendError::Unknown(_))
    ));
    let again = bench.send("5-1", true);
    bench.offered("5-1").await;
    doubt();
    bench.claim("5-1");
    bench
        .channel
        .acknowledge("5-1", Outcome::Arrived("m1".to_owned()));
    assert_eq!(again.await.expect("no panic"), Ok("m1".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_have_been_sent_before_says_so() {
    let bench = Bench::new();
    let sent = bench.send("5-1", true);
    let written = bench.offered("5-1").await;
    assert_eq!(
        (&written["text"], &written["resent"]),
        (&"(resent)\nhi".into(), &true.into())
    );
    sent.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_claimed_is_taken_back_at_a_start_and_what_was_claimed_is_waited_for() {
    let bench = Bench::new();
    // The first start of the machine that it sees.
    assert!(bench.channel.in_hand().is_empty());
    for key in ["5-1", "5-2"] {
        let sent = bench.send(key, false);
        bench.offered(key).await;
        sent.abort();
    }
    bench.claim("5-2");
    let mut known = bench.channel.in_hand();
    known.sort();
    assert_eq!(known, ["5-1", "5-2"]);
    let layout = &bench.channel.layout;
    assert_eq!(outgoing_files::place(layout, "5-1"), Place::Nowhere);
    // It is not offered a second time while the process has it.
    let sent = bench.send("5-2", false);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(matches!(
        outgoing_files::place(layout, "5-2"),
        Place::Sending(_)
    ));
    bench
        .channel
        .acknowledge("5-2", Outcome::Arrived("m".to_owned()));
    assert_eq!(sent.await.expect("no panic"), Ok("m".to_owned()));
    // After another start of the machine nobody can say.
    let sent = bench.send("5-3", false);
    bench.offered("5-3").await;
    sent.abort();
    bench.claim("5-3");
    put(&layout.boot(), "another");
    assert!(bench.channel.in_hand().is_empty());
    assert_eq!(outgoing_files::place(layout, "5-3"), Place::Nowhere);
}

#[test]
fn whoever_holds_the_lock_is_there_by_flock_or_by_fcntl() {
    let bench = Bench::new();
    let layout = &bench.channel.layout;
    assert!(!is_held(layout));
    let held = lock::try_lock(&layout.lock()).expect("a lock");
    assert!(is_held(layout));
    drop(held);
    let file = std::fs::File::open(layout.lock()).expect("the lock");
    let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).expect("locked");
    assert!(is_held(layout));
    drop(held);
    assert!(!is_held(layout));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_through_a_link_and_a_channel_file_that_holds_up_is_not_read() {
    let bench = Bench::new();
    let layout = bench.channel.layout.clone();
    let elsewhere = tempfile::tempdir().expect("dir");
    std::fs::remove_dir(layout.out()).expect("removed");
    std::os::unix::fs::symlink(elsewhere.path(), layout.out()).expect("a link");
    let sent = bench.send("5-1", false).await.expect("no panic");
    assert!(matches!(sent, Err(SendError::NotSent { .. })), "{sent:?}");
    assert_eq!(std::fs::read_dir(elsewhere.path()).expect("dir").count(), 0);
    assert!(bench.channel.health().state.contains("damaged"));
    nix::unistd::mkfifo(&layout.capabilities(), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    assert_eq!(bench.channel.capabilities(), Capabilities::default());
    // No key leads out of the directory.
    let victim = layout.spool_new().join("victim.json");
    put(&victim, "x");
    bench
        .channel
        .acknowledge("../spool/new/victim", Outcome::Arrived("1".to_owned()));
    assert!(victim.exists());
}

#[test]
fn a_length_that_does_not_count_is_the_state_of_the_channel() {
    let bench = Bench::new();
    let path = bench.channel.layout.capabilities();
    put(&path, r#"{"length":20,"files":true}"#);
    assert!(bench.channel.capabilities().files);
    assert_eq!(
        bench.channel.health().state,
        "channel.json: `length` is 20 and must be at least 100; 100 counts"
    );
    put(&path, r#"{"length":100}"#);
    let state = bench.channel.health().state;
    assert!(!state.contains("length"), "{state}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_copies_of_its_own_and_go_with_the_message() {
    let bench = Bench::new();
    let layout = bench.channel.layout.clone();
    put(&layout.capabilities(), r#"{"files":true}"#);
    let source = tempfile::tempdir().expect("dir");
    let path = source.path().join("a");
    put(&path, "bytes");
    let sent = bench.send_file("5-1", "../../a b.txt", path);
    let written = bench.offered("5-1").await;
    let own = PathBuf::from(written["files"][0]["path"].as_str().expect("a path"));
    assert_eq!(own.parent(), Some(layout.files().as_path()));
    assert_eq!(std::fs::read(&own).expect("the copy"), b"bytes");
    bench
        .channel
        .acknowledge("5-1", Outcome::Arrived("1".to_owned()));
    assert!(sent.await.expect("no panic").is_ok() && !own.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_with_a_long_name_is_offered_under_a_shorter_one() {
    let bench = Bench::new();
    put(&bench.channel.layout.capabilities(), r#"{"files":true}"#);
    let source = tempfile::tempdir().expect("dir");
    let path = source.path().join("a");
    put(&path, "bytes");
    let filename = format!("{}.pdf", "報".repeat(83));
    let sent = bench.send_file("5-1", &filename, path);
    let written = bench.offered("5-1").await;
    assert_eq!(written["files"][0]["filename"], filename.as_str());
    let own = PathBuf::from(written["files"][0]["path"].as_str().expect("a path"));
    assert_eq!(std::fs::read(&own).expect("the copy"), b"bytes");
    assert_eq!(own.extension(), Some("pdf".as_ref()));
    sent.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_cannot_be_read_is_given_up_and_one_that_cannot_be_copied_is_not() {
    let bench = Bench::new();
    let layout = bench.channel.layout.clone();
    put(&layout.capabilities(), r#"{"files":true}"#);
    let source = tempfile::tempdir().expect("dir");
    let fifo = source.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).expect("a FIFO");
    for path in [source.path().join("none"), source.path().to_owned(), fifo] {
        let sent = bench.send_file("5-1", "a.txt", path).await;
        let given_up = sent.expect("no panic").expect_err("no file");
        assert!(
            matches!(&given_up, SendError::Never { reason, chat_is_there: true } if reason.starts_with("a.txt ")),
            "{given_up:?}"
        );
    }
    // The directory of the channel may be there later.
    let there = source.path().join("a");
    put(&there, "bytes");
    std::fs::remove_dir(layout.files()).expect("removed");
    let sent = bench.send_file("5-1", "a.txt", there).await;
    assert!(matches!(
        sent.expect("no panic"),
        Err(SendError::NotSent { .. })
    ));
}

#[test]
fn what_a_process_can_do_is_read_again_when_its_file_grew_within_one_tick_of_the_clock() {
    let bench = Bench::new();
    let path = bench.channel.layout.capabilities();
    let at = clock::now();
    let write = |text: &str| {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path);
        let mut file = file.expect("a file");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("written");
        file.set_modified(at).expect("a time");
    };
    write("");
    assert!(!bench.channel.capabilities().buttons);
    write(r#"{"buttons":true}"#);
    assert!(bench.channel.capabilities().buttons);
}
