//! Logging: lines for people on stderr, JSON lines in
//! `state/logs/YYYY-MM-DD.jsonl` (0600, the agent's local date, times inside in UTC).
//!
//! ```text
//! 2025-11-21T22:56:01.120Z  INFO run{run_id=01J…}: answered session=cli:cli turns=2
//! {"timestamp":"2025-11-21T22:56:01.120Z","level":"INFO","message":"answered","session":"cli:cli","target":"…","span":{…}}
//! ```
//! Every byte passes [`crate::secret::redact`]. The text of messages is nowhere above `debug`:
//! that is the callers' duty.

mod daily_file;
mod line_queue;
mod read;

pub use read::newest;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use chrono_tz::Tz;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::Level;
use daily_file::Daily;
use line_queue::LineQueue;

/// Our own events carry the name of this crate.
const OUR_CRATE: &str = env!("CARGO_CRATE_NAME");

/// What is logged, and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// `log.level`: the file keeps at least this, stderr this unless a flag says otherwise.
    pub level: Level,
    /// `-v` counted: 1 = debug, 2 or more = trace, for stderr and file.
    pub verbose: u8,
    /// `-q`: errors only on stderr; the file keeps its level.
    pub quiet: bool,
    /// Whether stderr is the journal (`$JOURNAL_STREAM` is set), which adds the time itself.
    pub journal: bool,
    /// `state/logs`; `None` = no file.
    pub dir: Option<PathBuf>,
    /// The zone whose date names the file.
    pub zone: Tz,
    /// Days a file is kept.
    pub keep_days: u32,
}

impl Options {
    /// Returns options for stderr alone: for one-shot programs, and before the settings are known.
    pub fn stderr_only(quiet: bool) -> Self {
        Self {
            level: Level::Warn,
            verbose: 0,
            quiet,
            journal: false,
            dir: None,
            zone: Tz::UTC,
            keep_days: 14,
        }
    }

    fn stderr_filter(&self) -> Targets {
        if self.quiet {
            return Targets::new().with_default(LevelFilter::ERROR);
        }
        self.file_filter()
    }

    /// Libraries (hyper, reqwest, teloxide) speak from `warn` on, whatever ours do.
    fn file_filter(&self) -> Targets {
        let ours = match (self.verbose, self.level) {
            (0, Level::Error) => LevelFilter::ERROR,
            (0, Level::Warn) => LevelFilter::WARN,
            (0, Level::Info) => LevelFilter::INFO,
            (2.., _) | (_, Level::Trace) => LevelFilter::TRACE,
            (1, _) | (0, Level::Debug) => LevelFilter::DEBUG,
        };
        Targets::new()
            .with_default(ours.min(LevelFilter::WARN))
            .with_target(OUR_CRATE, ours)
    }
}

/// Logging could not begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This process logs already.
    #[error("logging was started twice")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// The log of this process.
#[derive(Debug)]
pub struct Log {
    file: Option<Arc<Daily>>,
    queue: Option<LineQueue>,
}

impl Log {
    /// Names the files by the dates of `zone` from the next line on.
    pub fn set_zone(&self, zone: Tz) {
        if let Some(file) = &self.file {
            file.set_zone(zone);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.flush();
        }
    }
}

/// Starts logging for the whole process and sends panics there too, redacted like everything.
/// Old files are deleted. A directory that cannot be written is reported once on stderr and does
/// not stop the program.
///
/// # Errors
/// [`Error::Twice`] when it was called before.
pub fn init(options: &Options) -> Result<Log, Error> {
    let file = options
        .dir
        .as_ref()
        .map(|dir| Arc::new(Daily::open(dir.clone(), options.zone, options.keep_days)));
    // Who has a file continues for long, and loses nothing that stderr does not take.
    let queue = file
        .as_ref()
        .and_then(|_| LineQueue::start(std::io::stderr()));
    subscriber(options, Stderr(queue.clone()), file.clone())
        .try_init()
        .map_err(Error::Twice)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(Log { file, queue })
}

/// A panic is a bug of ours. Its words go to the log and not, unredacted, to the terminal.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let words = panic.payload_as_str().unwrap_or("no words");
    let place = panic
        .location()
        .map_or_else(String::new, ToString::to_string);
    tracing::error!(place, "panic: {}", crate::text::shorten(words, 300));
}

fn subscriber<W>(
    options: &Options,
    stderr: W,
    file: Option<Arc<Daily>>,
) -> impl tracing::Subscriber + Send + Sync + 'static
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let human = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(options.verbose > 0)
        .with_writer(stderr);
    let human = if options.journal {
        human.without_time().boxed()
    } else {
        human.with_timer(UtcTime).boxed()
    };
    let json = file.map(|file| {
        let json = tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_span_list(false);
        json.with_timer(UtcTime)
            .with_writer(file)
            .with_filter(options.file_filter())
    });
    tracing_subscriber::registry()
        .with(human.with_filter(options.stderr_filter()))
        .with(json)
}

/// Times as everywhere: RFC 3339 UTC with milliseconds.
struct UtcTime;

impl FormatTime for UtcTime {
    fn format_time(&self, w: &mut Writer<'_>) -> std::fmt::Result {
        w.write_str(&crate::clock::rfc3339(crate::clock::now_ms()))
    }
}

/// stderr, one write a line. A closed or full stderr stops nothing.
struct Stderr(Option<LineQueue>);

impl MakeWriter<'_> for Stderr {
    type Writer = HumanLine<Self>;

    fn make_writer(&self) -> Self::Writer {
        HumanLine(Self(self.0.clone()))
    }
}

impl Write for Stderr {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        match &self.0 {
            Some(queue) => queue.put(String::from_utf8_lossy(line).into_owned()),
            None => std::io::stderr().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Makes one safe line of one event: redacted, without control characters.
struct HumanLine<W: Write>(W);

impl<W: Write> Write for HumanLine<W> {
    /// The formatter hands over a whole event at once.
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = crate::text::visible(crate::secret::redact(&text).trim_end()) + "\n";
        // Nobody is left to hear that stderr is gone.
        let _ = self.0.write_all(line.as_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests;
