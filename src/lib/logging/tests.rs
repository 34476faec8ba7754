use parking_lot::Mutex;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use crate::secret::Secret;

/// Collects what would go to stderr.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Screen {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).expect("text")
    }
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Screen {
    type Writer = HumanLine<Screen>;

    fn make_writer(&self) -> Self::Writer {
        HumanLine(self.clone())
    }
}

fn options() -> Options {
    Options {
        level: Level::Info,
        journal: true,
        ..Options::stderr_only(false)
    }
}

fn lines(path: &std::path::Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).expect("log file");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

fn logged(options: &Options, speak: impl FnOnce()) -> String {
    let screen = Screen::default();
    tracing::subscriber::with_default(subscriber(options, screen.clone(), None), speak);
    screen.text()
}

fn everybody_speaks() {
    tracing::error!("ours error");
    tracing::info!("ours info");
    tracing::debug!("ours debug");
    tracing::trace!("ours trace");
    tracing::warn!(target: "hyper::client", "hyper warn");
    tracing::info!(target: "hyper::client", "hyper info");
}

#[test]
fn libraries_speak_from_warn_on_and_quiet_means_errors() {
    let said = |level, verbose, quiet| {
        let text = logged(
            &Options {
                level,
                verbose,
                quiet,
                ..options()
            },
            everybody_speaks,
        );
        let last_word = |line: &str| {
            line.split_whitespace()
                .rev()
                .take(2)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join(" ")
        };
        text.lines().map(last_word).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        said(Level::Info, 0, false),
        "ours error, ours info, hyper warn"
    );
    assert_eq!(
        said(Level::Info, 1, false),
        "ours error, ours info, ours debug, hyper warn"
    );
    assert_eq!(
        said(Level::Info, 2, false),
        "ours error, ours info, ours debug, ours trace, hyper warn"
    );
    assert_eq!(said(Level::Debug, 0, true), "ours error");
    assert_eq!(said(Level::Error, 0, false), "ours error");
}

#[test]
fn no_secret_leaves_by_stderr_or_file() {
    let dir = tempfile::tempdir().expect("dir");
    let secret = Secret::new("123456:canary-in-a-log");
    let file = Arc::new(Daily::open(dir.path().to_owned(), Tz::UTC, 14));
    let screen = Screen::default();
    tracing::subscriber::with_default(subscriber(&options(), screen.clone(), Some(file)), || {
        let span = tracing::info_span!("run", url = secret.expose());
        span.in_scope(
            || tracing::error!(key = ?secret.expose(), "GET /bot{}/getMe", secret.expose()),
        );
    });
    let path = dir.path().join(format!(
        "{}.jsonl",
        crate::clock::local_date(crate::clock::now_ms(), Tz::UTC)
    ));
    let written = std::fs::read_to_string(path).expect("log file");
    for text in [screen.text(), written] {
        assert!(
            text.contains("[redacted]") && !text.contains("canary"),
            "{text}"
        );
    }
}

#[test]
fn an_event_is_one_line_whatever_it_says() {
    let text = logged(&options(), || tracing::info!("a\nb\u{1b}[31m"));
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn the_journal_adds_the_time_itself() {
    assert_eq!(
        logged(&options(), || tracing::info!("hello")),
        " INFO hello\n"
    );
    let with_time = logged(
        &Options {
            journal: false,
            ..options()
        },
        || tracing::info!("hello"),
    );
    assert!(
        crate::clock::parse_rfc3339(with_time.split(' ').next().expect("a word")).is_some(),
        "{with_time}"
    );
}

static DAY_CHANGE: AtomicI64 = AtomicI64::new(0);

#[test]
fn a_new_local_day_is_a_new_private_file_and_old_ones_go() {
    let dir = tempfile::tempdir().expect("dir");
    for name in [
        "2025-11-06.jsonl",
        "2025-11-07.jsonl",
        "2025-11-05.txt",
        "x.jsonl",
    ] {
        std::fs::File::create_new(dir.path().join(name)).expect("file");
    }
    let set = |time: &str| {
        DAY_CHANGE.store(
            crate::clock::parse_rfc3339(time).expect("time"),
            Ordering::Relaxed,
        )
    };
    set("2025-11-20T22:59:59.000Z");
    let zone = Tz::Europe__Berlin;
    let file = Arc::new(Daily::with_clock(dir.path().to_owned(), zone, 14, || {
        DAY_CHANGE.load(Ordering::Relaxed)
    }));
    tracing::subscriber::with_default(
        subscriber(&options(), Screen::default(), Some(file)),
        || {
            tracing::info!(turns = 2, "before");
            set("2025-11-20T23:00:00.000Z");
            tracing::info!("after");
            tracing::info!("again");
        },
    );
    let messages = |name: &str| {
        lines(&dir.path().join(name))
            .iter()
            .map(|line| line["message"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(messages("2025-11-20.jsonl"), ["before"]);
    assert_eq!(messages("2025-11-21.jsonl"), ["after", "again"]);
    assert_eq!(lines(&dir.path().join("2025-11-20.jsonl"))[0]["turns"], 2);
    let mode = std::fs::metadata(dir.path().join("2025-11-21.jsonl"))
        .expect("file")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut left: Vec<String> = std::fs::read_dir(dir.path())
        .expect("dir")
        .map(|e| e.expect("entry").file_name().into_string().expect("name"))
        .collect();
    left.sort();
    assert_eq!(
        left,
        [
            "2025-11-05.txt",
            "2025-11-07.jsonl",
            "2025-11-20.jsonl",
            "2025-11-21.jsonl",
            "x.jsonl"
        ]
    );
}

#[test]
fn a_disk_that_takes_nothing_stops_nothing_and_is_reported_when_it_does_again() {
    let home = tempfile::tempdir().expect("dir");
    let dir = home.path().join("logs");
    let file = Arc::new(Daily::open(dir.clone(), Tz::UTC, 14));
    tracing::subscriber::with_default(
        subscriber(&options(), Screen::default(), Some(file)),
        || {
            tracing::info!("lost");
            tracing::info!("lost too");
            std::fs::create_dir(&dir).expect("logs");
            tracing::info!("kept");
        },
    );
    let path = std::fs::read_dir(&dir)
        .expect("logs")
        .next()
        .expect("a file")
        .expect("entry")
        .path();
    let messages: Vec<_> = lines(&path)
        .iter()
        .map(|line| line["message"].clone())
        .collect();
    assert_eq!(messages, ["kept", "2 log lines could not be written"]);
}

#[test]
fn a_torn_last_line_is_ended_before_the_next() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("1970-01-01.jsonl");
    std::fs::File::create_new(&path)
        .expect("file")
        .write_all(b"{\"half")
        .expect("write");
    let file = Arc::new(Daily::with_clock(dir.path().to_owned(), Tz::UTC, 14, || 0));
    tracing::subscriber::with_default(
        subscriber(&options(), Screen::default(), Some(file)),
        || tracing::info!("whole"),
    );
    let text = std::fs::read_to_string(path).expect("log file");
    let (half, whole) = text.split_once('\n').expect("two lines");
    assert_eq!(half, "{\"half");
    assert!(whole.starts_with('{') && whole.ends_with("}\n"), "{whole}");
}

#[test]
fn another_zone_names_the_file_from_the_next_line_on() {
    let dir = tempfile::tempdir().expect("dir");
    let file = Arc::new(Daily::with_clock(dir.path().to_owned(), Tz::UTC, 14, || 0));
    tracing::subscriber::with_default(
        subscriber(&options(), Screen::default(), Some(file.clone())),
        || {
            tracing::info!("before");
            file.set_zone(Tz::America__New_York);
            tracing::info!("after");
        },
    );
    for (name, words) in [("1970-01-01", "before"), ("1969-12-31", "after")] {
        let lines = lines(&dir.path().join(format!("{name}.jsonl")));
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["message"], words);
    }
}
