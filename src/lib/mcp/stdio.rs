//! A server that we start: messages are lines on its standard input and output, and what it writes to
//! standard error goes to the log.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::client::Signals;
use super::json_rpc;
use super::json_rpc::{MAX_MESSAGE, Message};
use crate::net;
use crate::net::egress_proxy::{Session, Visit};
use crate::sandbox;
use crate::sandbox::{Service, Spec, Status};

/// A server that takes no input for so long is given up.
const WRITE: Duration = Duration::from_secs(30);
/// After its input has ended, a server may end by itself within this.
const GRACE: Duration = Duration::from_secs(1);
/// Messages of ours that wait to be written.
const WAITING: usize = 64;
/// Lines that are no messages; programs greet, and then they should not.
const MAX_NOISE: usize = 100;
/// Messages nobody asked for, and their bytes, in [`WINDOW`].
const MAX_UNASKED: (usize, usize) = (2000, 16 * 1024 * 1024);
/// Lines of standard error that are logged in [`WINDOW`], and the longest, bytes.
const MAX_LOGGED: usize = 60;
const MAX_LINE: u64 = 4096;
const WINDOW: Duration = Duration::from_secs(60);
/// Once it said more, so many bytes at most are read at a time, and after a pause: the pipe makes it wait.
const NOISE: usize = 16 * 1024;
const PAUSE: Duration = Duration::from_millis(100);

/// A server that runs. When it is dropped, the server is asked to end, and killed with everything it
/// started.
pub(super) struct Link {
    lines: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
    /// Ends the server.
    stop: CancellationToken,
    /// Its way to the net, which ends with it.
    session: Arc<Session>,
}

struct Shared {
    name: String,
    /// The directories that it is given.
    roots: Vec<PathBuf>,
    pending: Mutex<HashMap<u64, oneshot::Sender<Result<Value, Error>>>>,
    signals: Arc<Signals>,
    /// Its last line on standard error.
    last_line: Mutex<String>,
}

impl Link {
    /// Starts the server called `name`.
    ///
    /// # Errors
    /// [`Error::Ended`] when there is no wall for it, or no process.
    pub(super) async fn start(
        name: &str,
        spec: Spec,
        session: Arc<Session>,
    ) -> Result<Self, Error> {
        let roots = spec.writable.clone();
        let service = sandbox::serve(spec)
            .await
            .map_err(|error| Error::Ended(error.to_string()))?;
        let (lines, waiting) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            roots,
            pending: Mutex::default(),
            signals: Arc::default(),
            last_line: Mutex::default(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(run(
            service,
            (lines.downgrade(), waiting),
            shared.clone(),
            stop.clone(),
        ));
        Ok(Self {
            lines,
            shared,
            stop,
            session,
        })
    }

    /// Returns whether it may ask for its directories.
    pub(super) fn has_roots(&self) -> bool {
        !self.shared.roots.is_empty()
    }

    pub(super) fn take_visits(&self) -> Vec<Visit> {
        self.session.take_visits()
    }

    pub(super) fn signals(&self) -> Arc<Signals> {
        self.shared.signals.clone()
    }

    /// Sends a request and waits for its answer. May be dropped.
    pub(super) async fn request(&self, id: u64, message: &Value) -> Result<Value, Error> {
        if message["method"] == "tools/call" {
            // What it says from now on may tell why it ends.
            self.shared.last_line.lock().clear();
        }
        let (tell, told) = oneshot::channel();
        self.shared.pending.lock().insert(id, tell);
        let _pending = Pending {
            shared: &self.shared,
            id,
        };
        let exchange = async {
            self.send(message).await?;
            told.await.unwrap_or_else(|_| Err(self.ended()))
        };
        match self.shared.signals.over.run_until_cancelled(exchange).await {
            Some(answer) => answer,
            None => Err(self.ended()),
        }
    }

    /// Sends a message that has no answer.
    pub(super) async fn send(&self, message: &Value) -> Result<(), Error> {
        self.lines
            .send(line(message))
            .await
            .map_err(|_| self.ended())
    }

    /// Ends the server and waits until it is gone.
    pub(super) async fn close(&self) {
        self.stop.cancel();
        self.shared.signals.over.cancelled().await;
    }

    fn ended(&self) -> Error {
        self.shared.signals.why.lock().clone()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A request that is under way; nobody waits for its answer once this is dropped.
struct Pending<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.shared.pending.lock().remove(&self.id);
    }
}

fn line(message: &Value) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("JSON is written as JSON");
    line.push(b'\n');
    line
}

/// Runs the server until one of the two ends, then ends it.
async fn run(
    service: Service,
    (own, mut lines): (mpsc::WeakSender<Vec<u8>>, mpsc::Receiver<Vec<u8>>),
    shared: Arc<Shared>,
    stop: CancellationToken,
) {
    let Service {
        mut input,
        output,
        complaints,
        mut life,
    } = service;
    let why = {
        let is_over = CancellationToken::new();
        let listening = log_stderr(complaints, &shared, &is_over);
        let writing = async {
            while let Some(line) = lines.recv().await {
                if !matches!(timeout(WRITE, input.write_all(&line)).await, Ok(Ok(()))) {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::pin!(listening, writing);
        let why = tokio::select! {
            biased;
            () = stop.cancelled() => "it was stopped".to_owned(),
            why = read(output, &own, &shared) => why,
            ended = life.ended() => how(ended),
            () = &mut writing => "it takes no input".to_owned(),
            () = &mut listening => "it was stopped".to_owned(),
        };
        // What it said last may say why it ended.
        is_over.cancel();
        let _ = timeout(Duration::from_millis(100), &mut listening).await;
        why
    };
    let is_stopped = stop.is_cancelled();
    drop(input);
    let ended = timeout(GRACE, life.ended()).await;
    let why = match ended {
        Ok(ended) if why.is_empty() => how(ended),
        _ if why.is_empty() => "it closed its standard output".to_owned(),
        _ => why,
    };
    let said = std::mem::take(&mut *shared.last_line.lock());
    let quoted = if said.is_empty() || is_stopped {
        String::new()
    } else {
        format!(": {said}")
    };
    *shared.signals.why.lock() = Error::Ended(format!("{why}{quoted}"));
    life.end().await;
    shared.signals.over.cancel();
    shared.pending.lock().clear();
}

fn how(ended: Result<Status, sandbox::Error>) -> String {
    match ended {
        Ok(Status::Exited(code)) => format!("it exited with code {code}"),
        Ok(Status::Signaled(signal)) => format!("signal {signal} ended it"),
        Ok(Status::OutOfMemory) => "its processes together held too much memory".to_owned(),
        Ok(Status::DiskFull) => "it left less disk space free than [media] reserve_mb".to_owned(),
        Ok(Status::TimedOut | Status::Cancelled) => "it was stopped".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// Takes its messages in until there are no more, or too many; returns why, empty when it ended.
async fn read(output: OwnedReadHalf, own: &mpsc::WeakSender<Vec<u8>>, shared: &Shared) -> String {
    let mut output = BufReader::new(output);
    let mut noise = 0;
    let (mut since, mut unasked) = (Instant::now(), (0, 0));
    loop {
        let mut line = Vec::new();
        let most = MAX_MESSAGE as u64 + 1;
        match (&mut output).take(most).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return String::new(),
            Ok(_) if line.len() > MAX_MESSAGE => {
                return format!("it wrote a message of more than {} MB", MAX_MESSAGE >> 20);
            }
            Ok(_) => {}
        }
        if since.elapsed() > WINDOW {
            (since, unasked) = (Instant::now(), (0, 0));
        }
        match json_rpc::read(&line) {
            Some(Message::Answer(id, answer)) => {
                let asked = shared.pending.lock().remove(&id);
                if let Some(asked) = asked {
                    let _ = asked.send(answer);
                    continue;
                }
            }
            Some(Message::Request(id, method, params)) => {
                match json_rpc::answer(&id, &method, &shared.roots) {
                    Some(answer) => tell(own, &answer),
                    None => ask(own.clone(), shared.signals.clone(), (id, method, params)),
                }
            }
            Some(Message::Notice(notice)) => shared.signals.hear(&shared.name, notice),
            None if line.trim_ascii().is_empty() => {}
            None => {
                noise += 1;
                tracing::debug!(
                    server = shared.name,
                    "no message: {}",
                    net::server_text(&String::from_utf8_lossy(&line))
                );
                if noise > MAX_NOISE {
                    return "it writes output that is not a JSON-RPC message to standard output"
                        .to_owned();
                }
            }
        }
        unasked = (unasked.0 + 1, unasked.1 + line.len());
        if unasked.0 > MAX_UNASKED.0 || unasked.1 > MAX_UNASKED.1 {
            return "it floods the agent with messages that nobody requested".to_owned();
        }
    }
}

/// Sends an answer of ours. It gets none when it reads none.
fn tell(own: &mpsc::WeakSender<Vec<u8>>, answer: &Value) {
    if let Some(lines) = own.upgrade() {
        let _ = lines.try_send(line(answer));
    }
}

/// Lets the newest caller answer what the server asks: a pipe does not say which call it is about.
fn ask(
    own: mpsc::WeakSender<Vec<u8>>,
    signals: Arc<Signals>,
    (id, method, params): (Value, String, Value),
) {
    tokio::spawn(async move {
        let asked = signals.asks.answer(None, (&id, &method, &params));
        let answer = signals.over.run_until_cancelled(asked).await.flatten();
        answer.iter().for_each(|answer| tell(&own, answer));
    });
}

/// Logs its standard error, not more than a person would read, and reads it slowly beyond that until it `is_over`.
async fn log_stderr(complaints: OwnedReadHalf, shared: &Shared, is_over: &CancellationToken) {
    let mut complaints = BufReader::with_capacity(NOISE, complaints);
    let (mut since, mut lines) = (Instant::now(), 0);
    loop {
        let is_much = lines > MAX_LOGGED && since.elapsed() <= WINDOW;
        if is_much && complaints.buffer().is_empty() {
            is_over.run_until_cancelled(tokio::time::sleep(PAUSE)).await;
        }
        let mut line = Vec::new();
        match (&mut complaints)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .await
        {
            // Its end is told by its process.
            Ok(0) | Err(_) => return std::future::pending().await,
            Ok(_) => {}
        }
        let words = net::server_text(&String::from_utf8_lossy(&line));
        if words.is_empty() {
            continue;
        }
        if since.elapsed() > WINDOW {
            (since, lines) = (Instant::now(), 0);
        }
        lines += 1;
        if lines < MAX_LOGGED {
            tracing::info!(server = shared.name, "stderr: {words}");
        } else if lines == MAX_LOGGED {
            tracing::info!(server = shared.name, "stderr: further output is not logged");
        }
        *shared.last_line.lock() = words;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_complains_without_end_is_read_slowly() {
        let (ours, theirs) = tokio::net::UnixStream::pair().expect("a pair");
        let (complaints, _) = ours.into_split();
        let (_, mut theirs) = theirs.into_split();
        let written = Arc::new(Mutex::new(0_usize));
        let count = written.clone();
        let noise = tokio::spawn(async move {
            let lines = b"what a day\n".repeat(1000);
            while theirs.write_all(&lines).await.is_ok() {
                *count.lock() += lines.len();
                tokio::task::yield_now().await;
            }
        });
        let shared = Shared {
            name: "noisy".to_owned(),
            roots: Vec::new(),
            pending: Mutex::default(),
            signals: Arc::default(),
            last_line: Mutex::default(),
        };
        let is_over = CancellationToken::new();
        let listening = log_stderr(complaints, &shared, &is_over);
        let _ = timeout(Duration::from_secs(1), listening).await;
        noise.abort();
        // What the pipe holds, and ten times NOISE.
        assert!(*written.lock() < 2_000_000, "{}", written.lock());
        assert_eq!(*shared.last_line.lock(), "what a day");
    }
}
