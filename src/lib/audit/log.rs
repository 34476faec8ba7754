//! The handle with which the rooms above write the log. Nothing here waits for the disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Place;
use super::chain;
use super::digest_key::Key;
use super::entry::{Asked, Event};
use super::writer::{MOST, Shared, Word, Writer};
use crate::clock;

/// The handle of writers. Clones write the same log.
#[derive(Clone)]
pub struct Log(Option<Open>);

#[derive(Clone)]
struct Open {
    key: Key,
    words: Sender<Word>,
    shared: Arc<Shared>,
}

/// A call of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The session it is made in.
    pub session: &'a str,
    /// The run.
    pub run: &'a str,
    /// The call.
    pub id: &'a str,
    /// The tool: a name of ours, never the model's word.
    pub tool: &'a str,
}

/// What a call did on the net with one host.
#[derive(Debug, Clone, Copy)]
pub struct Connected<'a> {
    /// The name or the address, as the proxy compared it.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// Whether there was a connection.
    pub is_allowed: bool,
    /// Bytes to it.
    pub sent: u64,
    /// Bytes from it.
    pub received: u64,
}

impl Log {
    /// Returns a record that keeps nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Opens the log. It never fails: entries that cannot be written wait, and [`Log::on_trouble`] reports the problem.
    pub fn start(place: Place) -> Self {
        let shared = Arc::new(Shared::default());
        let (key, trouble) = match chain::begin(&place) {
            Ok(()) => Key::open(&place),
            Err(error) => (Key::passing(), Some(error)),
        };
        if let Some(error) = trouble {
            shared.trouble(&error.to_string());
        }
        let (words, heard) = mpsc::channel();
        let writer = Writer::new(place, shared.clone());
        let started = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || writer.run(&heard));
        if let Err(error) = started {
            shared.trouble(&format!("no thread for the audit log: {error}"));
        }
        Self(Some(Open { key, words, shared }))
    }

    /// Has `tell` called when the record cannot be written, and with what was so before; without words when it can again.
    pub fn on_trouble(&self, tell: impl Fn(Option<&str>) + Send + 'static) {
        if let Some(open) = &self.0 {
            open.shared.on_trouble(Box::new(tell));
        }
    }

    /// Waits until what was recorded is on disk, at most for `patience`; false when it is not.
    pub fn flush(&self, patience: Duration) -> bool {
        let Some(open) = &self.0 else { return true };
        let (done, heard) = mpsc::sync_channel(1);
        open.words.send(Word::Flush(done)).is_ok() && heard.recv_timeout(patience) == Ok(true)
    }

    /// The daemon began.
    pub fn started(&self) {
        self.record(|_| Event::Start {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        });
    }

    /// The daemon ends with this exit code.
    pub fn stopped(&self, exit: u8) {
        self.record(|_| Event::Stop { exit });
    }

    /// Settings were activated `at` (`start`, `reload`) under this sandbox, or refused. `files` are
    /// those of [`crate::config::settings_files`].
    pub fn configured(
        &self,
        at: &'static str,
        in_force: bool,
        sandbox: &str,
        files: BTreeMap<String, String>,
    ) {
        let outcome = if in_force { "in force" } else { "refused" };
        self.record(|_| Event::Config {
            at,
            outcome,
            sandbox: sandbox.to_owned(),
            files,
        });
    }

    /// A call with this input is about to run.
    pub fn begin(&self, call: Call<'_>, input: &Value) -> Running {
        self.called(call, input, "run");
        Running {
            log: self.clone(),
            session: call.session.to_owned(),
            run: call.run.to_owned(),
            call: call.id.to_owned(),
            tool: call.tool.to_owned(),
            began: Instant::now(),
            is_over: false,
        }
    }

    /// A call with this input is refused.
    pub fn refuse(&self, call: Call<'_>, input: &Value) {
        self.called(call, input, "refused");
    }

    /// A call connected to a host, or was refused it.
    pub fn connected(&self, call: Call<'_>, connected: Connected<'_>) {
        let Connected {
            host,
            port,
            is_allowed,
            sent,
            received,
        } = connected;
        self.record(|key| Event::Connection {
            session: plain(key, call.session),
            run: plain(key, call.run),
            call: plain(key, call.id),
            tool: plain(key, call.tool),
            host: plain(key, host.trim_matches(['[', ']'])),
            port,
            verdict: if is_allowed { "connected" } else { "refused" },
            sent,
            received,
        });
    }

    /// A request for the owner's word about a call (`bound` is what the word is bound to), or what became of
    /// it and by whom: an owner's id, `shell`.
    pub fn approval(
        &self,
        id: &str,
        verdict: &'static str,
        who: Option<&str>,
        of: Option<(Call<'_>, &str)>,
    ) {
        self.record(|key| Event::Approval {
            id: plain(key, id),
            verdict,
            who: who.map(|who| plain(key, who)),
            of: of.map(|(call, bound)| Asked {
                session: plain(key, call.session),
                run: plain(key, call.run),
                call: plain(key, call.id),
                tool: plain(key, call.tool),
                bound: key.digest(bound.as_bytes()),
            }),
        });
    }

    /// A part of an answer (its row in the outbox) was sent to a chat under this id, or given up.
    pub fn sent(
        &self,
        (channel, chat): (&str, &str),
        outbox: i64,
        outcome: &'static str,
        message: Option<&str>,
    ) {
        self.record(|key| Event::Send {
            channel: channel.to_owned(),
            chat: plain(key, chat),
            outbox,
            outcome,
            message: message.map(|message| plain(key, message)),
        });
    }

    fn called(&self, call: Call<'_>, input: &Value, verdict: &'static str) {
        self.record(|key| Event::ToolCall {
            session: plain(key, call.session),
            run: plain(key, call.run),
            call: plain(key, call.id),
            tool: plain(key, call.tool),
            args: key.digest(input.to_string().as_bytes()),
            verdict,
        });
    }

    fn record(&self, event: impl FnOnce(&Key) -> Event) {
        let Some(open) = &self.0 else { return };
        if open.shared.waiting.load(Ordering::Relaxed) >= MOST {
            open.shared.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        open.shared.waiting.fetch_add(1, Ordering::Relaxed);
        if open
            .words
            .send(Word::Entry(clock::now_ms(), event(&open.key)))
            .is_err()
        {
            tracing::error!("the writer of the audit log is gone");
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Log" } else { "Log(off)" })
    }
}

/// A running call; one that is dropped was interrupted.
#[derive(Debug)]
#[must_use]
pub struct Running {
    log: Log,
    session: String,
    run: String,
    call: String,
    tool: String,
    began: Instant,
    is_over: bool,
}

impl Running {
    /// It ended with this text.
    pub fn end(mut self, is_error: bool, text: &str) {
        self.over(if is_error { "error" } else { "ok" }, Some(text));
    }

    fn over(&mut self, outcome: &'static str, text: Option<&str>) {
        self.is_over = true;
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.log.record(|key| Event::ToolResult {
            session: plain(key, &self.session),
            run: plain(key, &self.run),
            call: plain(key, &self.call),
            tool: plain(key, &self.tool),
            outcome,
            ms,
            result: text.map(|text| key.digest(text.as_bytes())),
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            self.over("broken off", None);
        }
    }
}

/// Returns an id as it is when it can be nothing else; a vendor may put any words into one.
fn plain(key: &Key, id: &str) -> String {
    let is_plain = id.len() <= 128
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.:@".contains(&byte));
    if is_plain {
        id.to_owned()
    } else {
        key.digest(id.as_bytes())
    }
}
