//! One server: how it is started, how long it rests, and what is done when it breaks.

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::client::{Link, Peer, START};
use super::{Answer, Fault, Offer, Shared, Verdict, http, locked, stdio, tool_list};
use crate::net;
use crate::sandbox::Spec;
use crate::secret::Secret;

/// A server that nobody asked for so long is ended; the next call starts it again.
const IDLE: Duration = Duration::from_secs(600);
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(30);
/// The shortest and the longest wait before it is started again.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// One that lived so long has not failed to start.
const LIVED: Duration = Duration::from_secs(60);
/// After its tools changed they are asked for once, not for every word about it.
const SETTLE: Duration = Duration::from_secs(1);

/// What the owner wrote about a server, resolved.
#[derive(Clone, PartialEq)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// Its command or address, see [`super::identity`].
    pub identity: String,
    /// How it is reached.
    pub way: Way,
    /// Its `trust` in agent.toml.
    pub trust: String,
    /// How long a call may take.
    pub timeout: Duration,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum Way {
    /// It is started.
    Program(Box<Program>),
    /// It is at an address.
    Url {
        /// The address.
        url: String,
        /// What is shown there.
        token: Option<Secret>,
    },
    /// It is not. Carries why.
    Unusable(String),
}

/// A program and what it may touch.
#[derive(Clone, PartialEq)]
pub struct Program {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Its own directory, where it starts and may write.
    pub dir: PathBuf,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// What does not exist for it.
    pub hidden: Vec<PathBuf>,
    /// What it may read beside the system.
    pub reads: Vec<PathBuf>,
    /// What it may change beside its own directory.
    pub writes: Vec<PathBuf>,
    /// Whether it may use the network.
    pub network: bool,
    /// True when the owner wrote `sandbox = "off"`.
    pub off: bool,
}

/// A server that is kept.
pub struct Server {
    pub(super) settings: Settings,
    shared: Arc<Shared>,
    /// Ends it for good.
    stop: CancellationToken,
    slot: tokio::sync::Mutex<Slot>,
    woken: Notify,
    calls: AtomicUsize,
    told: Mutex<Option<String>>,
}

struct Slot {
    peer: Option<Arc<Peer>>,
    why: String,
    failures: u32,
    not_before: Option<Instant>,
    since: Instant,
    used: Instant,
}

impl Server {
    pub(super) fn new(settings: Settings, shared: Arc<Shared>, stop: CancellationToken) -> Self {
        let now = Instant::now();
        let slot = Slot {
            peer: None,
            why: String::new(),
            failures: 0,
            not_before: None,
            since: now,
            used: now,
        };
        Self {
            settings,
            shared,
            stop,
            slot: tokio::sync::Mutex::new(slot),
            woken: Notify::new(),
            calls: AtomicUsize::new(0),
            told: Mutex::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Calls a tool of what was offered under the hash `sha256`, by the server's name of it.
    ///
    /// # Errors
    /// Why there is no answer, for the model: the server does not work, is too slow or says no, or what it
    /// offers is not what the owner trusts.
    pub async fn call(
        &self,
        tool: &str,
        sha256: &str,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<Answer, String> {
        let _call = Call::of(&self.calls);
        let name = &self.settings.name;
        if self.is_distrusted() {
            return Err(format!(
                "the owner does not trust the tool server {name}, or nobody knows it; nothing was done"
            ));
        }
        for is_last in [false, true] {
            let peer = cancel
                .run_until_cancelled(self.peer())
                .await
                .ok_or("stopped")??;
            if !self.is_trusted(sha256) {
                return Err(format!(
                    "the tool server {name} offers something else than the owner trusted, so nothing was done; \
                     the owner looks at it with agent-send --mcp list"
                ));
            }
            let result = peer.call(tool, input, self.settings.timeout, cancel).await;
            match result {
                Ok(result) => {
                    self.slot.lock().await.failures = 0;
                    return Ok(Answer::read(&result));
                }
                // Nothing was done: the same again, in a new session.
                Err(Fault::Gone) if !is_last => {}
                Err(Fault::Stopped) => return Err("stopped".to_owned()),
                Err(fault) => return Err(format!("the tool server {name} did not do it: {fault}")),
            }
        }
        Err(format!("the tool server {name} did not do it"))
    }

    fn is_trusted(&self, sha256: &str) -> bool {
        let Settings { name, trust, .. } = &self.settings;
        let offers = locked(&self.shared.seen)
            .servers
            .get(name)
            .and_then(|seen| seen.offer.as_ref().map(|offer| offer.sha256.clone()));
        let trusted = self.shared.trust.read();
        offers.as_deref() == Some(sha256)
            && trusted.is_ok_and(|trusted| trusted.verdict(name, trust, sha256) == Verdict::Trusted)
    }

    /// Keeps the server until it is to stop. One that the owner distrusts is not even asked what it offers.
    pub(super) async fn keep(self: Arc<Self>) {
        let stop = &self.stop;
        while !stop.is_cancelled() {
            if self.is_distrusted() {
                if let Err(why) = self.shared.trust.read() {
                    self.tell(why);
                }
                self.end().await;
                stop.run_until_cancelled(sleep(LOOK)).await;
                continue;
            }
            match stop.run_until_cancelled(self.peer()).await {
                Some(Ok(peer)) => self.attend(&peer).await,
                Some(Err(_)) => {
                    let until = self
                        .slot
                        .lock()
                        .await
                        .not_before
                        .unwrap_or_else(Instant::now);
                    stop.run_until_cancelled(tokio::time::sleep_until(until))
                        .await;
                }
                None => {}
            }
        }
        self.end().await;
    }

    /// Ends the server, if it runs.
    async fn end(&self) {
        let peer = self.slot.lock().await.peer.take();
        if let Some(peer) = peer {
            peer.close().await;
        }
    }

    /// Who may have been distrusted in a file that cannot be read is.
    fn is_distrusted(&self) -> bool {
        self.shared
            .trust
            .read()
            .ok()
            .is_none_or(|trusted| trusted.distrusts(self.name()))
    }

    /// Looks after a server that runs, until it has ended and is wanted again.
    async fn attend(&self, peer: &Arc<Peer>) {
        let stop = &self.stop;
        // One clock for all rounds: news that come all the time must not put the look off.
        let mut look = interval_at(Instant::now() + LOOK, LOOK);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = peer.over() => return,
                _ = look.tick() => {
                    if self.is_distrusted() {
                        return;
                    }
                    let woken = self.woken.notified();
                    tokio::pin!(woken);
                    woken.as_mut().enable();
                    if self.rests().await {
                        peer.close().await;
                        tracing::debug!(server = self.name(), "it rests until somebody asks it");
                        stop.run_until_cancelled(woken).await;
                        return;
                    }
                }
                () = peer.changed() => {
                    stop.run_until_cancelled(sleep(SETTLE)).await;
                    match timeout(START, peer.tools()).await {
                        Ok(Ok(listed)) => self.learn(&listed),
                        Ok(Err(fault)) => tracing::warn!(server = self.name(), "it does not tell its tools: {fault}"),
                        Err(_) => tracing::warn!(server = self.name(), "it does not tell its tools"),
                    }
                }
            }
        }
    }

    /// Lets go of a server that nobody asks.
    async fn rests(&self) -> bool {
        let mut slot = self.slot.lock().await;
        let is_idle = self.calls.load(Ordering::SeqCst) == 0 && slot.used.elapsed() > IDLE;
        if is_idle {
            slot.peer = None;
        }
        is_idle
    }

    /// Returns the server, started when it does not run.
    async fn peer(&self) -> Result<Arc<Peer>, String> {
        let gone = || format!("the tool server {} is no longer configured", self.name());
        let mut slot = self.slot.lock().await;
        if self.stop.is_cancelled() {
            return Err(gone());
        }
        slot.used = Instant::now();
        if let Some(peer) = slot.peer.take() {
            if !peer.is_over() {
                slot.peer = Some(peer.clone());
                return Ok(peer);
            }
            match peer.over().await {
                Fault::Gone => {}
                fault => self.broke(&mut slot, &fault.to_string()),
            }
        }
        let wait = slot
            .not_before
            .map(|at| at.saturating_duration_since(Instant::now()))
            .unwrap_or_default();
        if !wait.is_zero() {
            let (name, why) = (self.name(), &slot.why);
            return Err(format!(
                "the tool server {name} does not work: {why}; it is started again in {} s",
                wait.as_secs() + 1
            ));
        }
        let started = timeout(START, self.start())
            .await
            .unwrap_or(Err(Fault::Silent(START)));
        if self.stop.is_cancelled() {
            if let Ok((peer, _)) = started {
                peer.close().await;
            }
            return Err(gone());
        }
        match started {
            Ok((peer, listed)) => {
                let peer = Arc::new(peer);
                self.learn(&listed);
                slot.peer = Some(peer.clone());
                slot.since = Instant::now();
                self.woken.notify_waiters();
                Ok(peer)
            }
            Err(fault) => {
                slot.since = Instant::now();
                self.broke(&mut slot, &fault.to_string());
                Err(format!(
                    "the tool server {} does not work: {fault}",
                    self.name()
                ))
            }
        }
    }

    async fn start(&self) -> Result<(Peer, Vec<Value>), Fault> {
        let link = match &self.settings.way {
            Way::Program(program) => {
                Link::Stdio(stdio::Link::start(self.name(), program.spec()?).await?)
            }
            Way::Url { url, token } => Link::Http(http::Link::new(
                self.shared.http.clone(),
                url,
                token.clone(),
            )),
            Way::Unusable(why) => return Err(Fault::Ended(why.clone())),
        };
        let peer = Peer::open(link).await?;
        let listed = peer.tools().await?;
        Ok((peer, listed))
    }

    /// Takes note of what it offers, and tells the owner when that is not what they trusted.
    fn learn(&self, listed: &[Value]) {
        let Settings {
            name,
            identity,
            trust,
            ..
        } = &self.settings;
        let taken = locked(&self.shared.taken).clone();
        let now = tool_list::read(name, identity, listed, &taken);
        let verdict = self
            .shared
            .trust
            .read()
            .map(|trusted| trusted.verdict(name, trust, &now.sha256));
        let Offer { tools, .. } = &now;
        tracing::info!(
            server = name,
            tools = tools.len(),
            ?verdict,
            "the tool server works"
        );
        for tool in tools {
            if let Some(why) = &tool.refused {
                tracing::warn!(
                    server = name,
                    tool = net::words(&tool.remote),
                    "this tool is left out: {why}"
                );
            }
        }
        self.shared.note(&self.settings, &self.stop, |seen| {
            seen.offer = Some(now);
            seen.broken = None;
        });
        if verdict == Ok(Verdict::Changed) {
            self.tell(format!(
                "the tool server {name} offers something else than you trusted; its tools are off: agent-send --mcp list"
            ));
        } else {
            *locked(&self.told) = None;
        }
    }

    /// Takes note of its end, and says when it may be started again.
    fn broke(&self, slot: &mut Slot, why: &str) {
        if slot.peer.is_none() && slot.since.elapsed() > LIVED {
            slot.failures = 0;
        }
        why.clone_into(&mut slot.why);
        slot.not_before = Some(Instant::now() + net::backoff(slot.failures, AGAIN.0, AGAIN.1));
        slot.failures = slot.failures.saturating_add(1);
        self.shared.note(&self.settings, &self.stop, |seen| {
            seen.broken = Some(why.to_owned())
        });
        self.tell(format!(
            "the tool server {} does not work: {why}",
            self.name()
        ));
    }

    /// Tells the owner something once.
    fn tell(&self, words: String) {
        let mut told = locked(&self.told);
        if told.as_ref() != Some(&words) {
            tracing::warn!("{words}");
            let _ = self.shared.trouble.send(words.clone());
            *told = Some(words);
        }
    }
}

impl Program {
    /// Returns how it is run.
    fn spec(&self) -> Result<Spec, Fault> {
        std::fs::create_dir_all(&self.dir).map_err(|error| {
            Fault::Ended(format!(
                "its directory {} cannot be made: {error}",
                self.dir.display()
            ))
        })?;
        let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
        let argv: Vec<String> = self.argv.iter().map(quoted).collect();
        Ok(Spec {
            command: format!("exec {}", argv.join(" ")),
            cwd: self.dir.clone(),
            workspace: self.dir.clone(),
            writable: self.writes.clone(),
            hidden: self.hidden.clone(),
            read_only: self.reads.clone(),
            network: self.network,
            env: self.env.clone(),
            timeout: Duration::ZERO,
            max_output: 0,
            off: self.off,
        })
    }
}

/// A call that is under way.
struct Call<'a>(&'a AtomicUsize);

impl<'a> Call<'a> {
    fn of(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Ordering::SeqCst);
        Self(calls)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
