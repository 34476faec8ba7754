//! One server: its start, its stop when idle, and what happens when it fails.

use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::client::{Client, Link, START};
use super::http::Bearer;
use super::resources_and_prompts::Kind;
use super::server_requests::Caller;
use super::trust::{Failure, check, is_distrusted};
use super::{
    Answer, Elicited, Error, Off, Shared, hints, http, resources_and_prompts, stdio, tool_list,
};
use crate::auth::Place;
use crate::config::{self, Network};
use crate::net;
use crate::net::egress_proxy::{Rules, Session, Visit};
use crate::sandbox::{EXIT_PORT, NetworkExit, Spec};
use crate::secret::Secret;

/// A server that nobody asked for so long is ended; the next call starts it again.
const IDLE: Duration = Duration::from_secs(600);
/// How often that is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(30);
/// The shortest and the longest wait before a restart.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// A program that let a call run into its time-out has so long to answer a ping.
const PING: Duration = Duration::from_secs(5);
/// One that lived so long has not failed to start.
const LIVED: Duration = Duration::from_secs(60);
/// After its tools changed they are asked for once, not for every word about it.
const SETTLE: Duration = Duration::from_secs(1);

/// What the owner wrote about a server, resolved.
#[derive(Clone, PartialEq)]
pub struct Settings {
    pub name: String,
    /// Its command or address, see [`super::identity`].
    pub identity: String,
    /// How it is reached.
    pub transport: Transport,
    /// Its `trust` in agent.toml.
    pub trust: String,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether, and how much, it may ask of a model.
    pub sampling: Sampling,
}

/// What a server may ask of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    pub rule: config::Sampling,
    /// The most tokens of an answer.
    pub tokens: u32,
    /// The most that its requests may cost in one message, US dollars.
    pub usd: f64,
}

/// How a server is reached.
#[derive(Clone, PartialEq)]
pub enum Transport {
    Program(Box<Program>),
    Url {
        url: String,
        token: Option<Secret>,
        /// The issuer that the owner wrote, or empty.
        issuer: String,
        /// When somebody signed in there, milliseconds since 1970 UTC.
        since: Option<i64>,
    },
    /// It cannot be. Carries why.
    Unusable(String),
}

/// A program and what it may touch.
#[derive(Clone, PartialEq)]
pub struct Program {
    pub argv: Vec<String>,
    /// Its own directory, where it starts and may write.
    pub dir: PathBuf,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// What does not exist for it.
    pub hidden: Vec<PathBuf>,
    /// What it may read in addition to the system.
    pub reads: Vec<PathBuf>,
    /// What it may change in addition to its own directory.
    pub writes: Vec<PathBuf>,
    /// Where it may connect to.
    pub network: Network,
    /// True when the owner wrote `sandbox = "off"`.
    pub off: bool,
    /// Bytes of the disk that it must leave free.
    pub disk_reserve: u64,
}

pub struct Server {
    pub(super) settings: Settings,
    shared: Arc<Shared>,
    /// Ends it permanently.
    pub(super) stop: CancellationToken,
    slot: tokio::sync::Mutex<Slot>,
    woken: Notify,
    calls: AtomicUsize,
    /// When it was first started, milliseconds since 1970 UTC; 0 = never.
    started_at: AtomicI64,
    /// What the owner was told last.
    notified: Mutex<Option<String>>,
}

struct Slot {
    client: Option<Arc<Client>>,
    /// Why it broke last.
    why: String,
    failures: u32,
    not_before: Option<Instant>,
    since: Instant,
    used: Instant,
}

impl Server {
    pub(super) fn new(settings: Settings, shared: Arc<Shared>) -> Self {
        let now = Instant::now();
        let slot = Slot {
            client: None,
            why: String::new(),
            failures: 0,
            not_before: None,
            since: now,
            used: now,
        };
        Self {
            settings,
            shared,
            stop: CancellationToken::new(),
            slot: tokio::sync::Mutex::new(slot),
            woken: Notify::new(),
            calls: AtomicUsize::new(0),
            started_at: AtomicI64::new(0),
            notified: Mutex::default(),
        }
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns true when it may change files in addition to its own directory.
    pub fn may_write(&self) -> bool {
        match &self.settings.transport {
            Transport::Program(program) => !program.writes.is_empty() || program.off,
            Transport::Url { .. } | Transport::Unusable(_) => false,
        }
    }

    /// Returns since when, milliseconds since 1970 UTC, it may change which files and directories in addition to its own; `None`
    /// before it was first started, and for one that may change none, or all.
    pub fn writes_since(&self) -> Option<(i64, &[PathBuf])> {
        let started_at = self.started_at.load(Ordering::SeqCst);
        match &self.settings.transport {
            Transport::Program(program) if !program.writes.is_empty() && started_at > 0 => {
                Some((started_at, &program.writes))
            }
            _ => None,
        }
    }

    /// Returns what it may ask of a model.
    pub fn sampling(&self) -> Sampling {
        self.settings.sampling
    }

    /// Calls a tool of what was offered under the hash `sha256`, by the server's name of it, for `caller`.
    ///
    /// # Errors
    /// Why there is no answer, for the model: the server does not work, is too slow or says no, or what it
    /// offers is not what the owner trusts.
    pub async fn call(
        &self,
        (tool, kind): (&str, Kind),
        sha256: &str,
        input: &Value,
        (cancel, caller): (&CancellationToken, &Arc<dyn Caller>),
    ) -> Result<Answer, String> {
        let _running = Running::new(&self.calls);
        let name = &self.settings.name;
        if self.is_distrusted() {
            return Err(format!(
                "the owner does not trust the tool server {name}, or nobody knows it; nothing was done"
            ));
        }
        for is_last in [false, true] {
            let client = cancel
                .run_until_cancelled(self.client())
                .await
                .ok_or("stopped")??;
            if !self.is_trusted(sha256) {
                return Err(format!(
                    "the tool server {name} offers something else than the owner trusted, so nothing was done; \
                     the owner looks at it with agent-send --mcp list"
                ));
            }
            self.notify(None);
            let limit = self.settings.timeout;
            let result = match kind {
                Kind::Tool => client.call(tool, input, (limit, cancel), caller).await,
                kind => client.read_other(kind, input, (limit, cancel)).await,
            };
            match result {
                Ok(result) => {
                    self.slot.lock().await.failures = 0;
                    return Ok(Answer::read(&result));
                }
                // Nothing was done: the same again, in a new session.
                Err(Error::Gone) if !is_last => {}
                Err(Error::WantsOpened(addresses)) if !is_last => {
                    let asked = opened(caller, addresses);
                    let all = cancel.run_until_cancelled(asked).await.ok_or("stopped")?;
                    if !all {
                        return Err(format!(
                            "the tool server {name} wants an address to be opened first, and the owner did not open it; nothing was done"
                        ));
                    }
                }
                Err(Error::Stopped) => return Err("stopped".to_owned()),
                Err(fault) => {
                    let is_late = matches!(fault, Error::Timeout(_));
                    let next = if is_late && self.end_if_hung(&client, &fault).await {
                        "; it hangs and is started again"
                    } else {
                        ""
                    };
                    return Err(format!(
                        "the tool server {name} did not do it: {fault}{next}"
                    ));
                }
            }
        }
        Err(format!("the tool server {name} did not do it"))
    }

    /// Returns what its program connected to, and what it was refused, since this was asked last.
    pub async fn take_visits(&self) -> Vec<Visit> {
        let slot = self.slot.lock().await;
        slot.client
            .as_ref()
            .map(|client| client.take_visits())
            .unwrap_or_default()
    }

    fn is_trusted(&self, sha256: &str) -> bool {
        let Settings { name, trust, .. } = &self.settings;
        let offers = self
            .shared
            .seen
            .lock()
            .servers
            .get(name)
            .and_then(|seen| seen.offer.as_ref().map(|offer| offer.sha256.clone()));
        let approved = self.shared.approved.read();
        offers.as_deref() == Some(sha256)
            && approved.is_ok_and(|approved| check(&approved, name, trust, sha256).is_ok())
    }

    /// Keeps the server until it is to stop. One that the owner distrusts is not even asked what it offers.
    pub(super) async fn keep(self: Arc<Self>) {
        let stop = &self.stop;
        while !stop.is_cancelled() {
            if self.is_distrusted() {
                self.notify(self.shared.approved.read().err());
                self.end().await;
                stop.run_until_cancelled(sleep(POLL_INTERVAL)).await;
                continue;
            }
            match stop.run_until_cancelled(self.client()).await {
                Some(Ok(client)) => self.watch(&client).await,
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

    async fn end(&self) {
        let client = self.slot.lock().await.client.take();
        if let Some(client) = client {
            client.close().await;
        }
    }

    /// While the owner's file cannot be read, every server counts as distrusted.
    fn is_distrusted(&self) -> bool {
        let approved = self.shared.approved.read();
        approved.map_or(true, |approved| is_distrusted(&approved, self.name()))
    }

    /// Watches a server that runs, until it has ended and is wanted again.
    async fn watch(&self, client: &Arc<Client>) {
        let stop = &self.stop;
        // One clock for all rounds: news that come all the time must not put the look off.
        let mut look = interval_at(Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = client.over() => return,
                _ = look.tick() => {
                    if self.is_distrusted() {
                        return;
                    }
                    let woken = self.woken.notified();
                    tokio::pin!(woken);
                    woken.as_mut().enable();
                    if self.drop_idle().await {
                        client.close().await;
                        tracing::debug!(server = self.name(), "it rests until somebody asks it");
                        stop.run_until_cancelled(woken).await;
                        return;
                    }
                }
                () = client.changed() => {
                    stop.run_until_cancelled(sleep(SETTLE)).await;
                    match timeout(START, client.tools()).await {
                        Ok(Ok(listed)) => self.record_offer(&listed, client.others()),
                        Ok(Err(fault)) => tracing::warn!(server = self.name(), "cannot list its tools: {fault}"),
                        Err(_) => tracing::warn!(server = self.name(), "cannot list its tools"),
                    }
                }
            }
        }
    }

    /// Ends a program that a call waited for in vain, `fault`, when it does not answer a ping either; returns whether it did. A slow
    /// one answers and stays.
    async fn end_if_hung(&self, client: &Arc<Client>, fault: &Error) -> bool {
        if !client.is_program() || client.is_over() || client.answers_ping(PING).await {
            return false;
        }
        let mut slot = self.slot.lock().await;
        let is_it = |held: &Arc<Client>| Arc::ptr_eq(held, client);
        // A call that ran beside this one may have ended it already.
        if slot.client.take_if(|held| is_it(held)).is_none() {
            return false;
        }
        let why = format!("{fault}, nor a ping within {} s", PING.as_secs());
        self.record_failure(&mut slot, &why);
        drop(slot);
        client.close().await;
        true
    }

    /// Lets go of a server that is idle; returns whether it was.
    async fn drop_idle(&self) -> bool {
        let mut slot = self.slot.lock().await;
        let is_idle = self.calls.load(Ordering::SeqCst) == 0 && slot.used.elapsed() > IDLE;
        if is_idle {
            slot.client = None;
        }
        is_idle
    }

    /// Returns the server, started when it does not run.
    async fn client(&self) -> Result<Arc<Client>, String> {
        let gone = || format!("the tool server {} is no longer configured", self.name());
        let mut slot = self.slot.lock().await;
        if self.stop.is_cancelled() {
            return Err(gone());
        }
        slot.used = Instant::now();
        if let Some(client) = slot.client.take() {
            if !client.is_over() {
                slot.client = Some(client.clone());
                return Ok(client);
            }
            match client.over().await {
                Error::Gone => {}
                fault => self.record_failure(&mut slot, &fault.to_string()),
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
        if self.started_at.load(Ordering::SeqCst) == 0 {
            self.started_at
                .store(crate::clock::now_ms(), Ordering::SeqCst);
        }
        let started = self.start().await;
        if self.stop.is_cancelled() {
            if let Ok((client, _)) = started {
                client.close().await;
            }
            return Err(gone());
        }
        match started {
            Ok((client, listed)) => {
                let client = Arc::new(client);
                self.record_offer(&listed, client.others());
                slot.client = Some(client.clone());
                slot.since = Instant::now();
                self.woken.notify_waiters();
                Ok(client)
            }
            Err(fault) => {
                slot.since = Instant::now();
                self.record_failure(&mut slot, &fault.to_string());
                Err(format!(
                    "the tool server {} does not work: {fault}",
                    self.name()
                ))
            }
        }
    }

    async fn start(&self) -> Result<(Client, Vec<Value>), Error> {
        let samples = self.settings.sampling.rule != config::Sampling::Off;
        match &self.settings.transport {
            Transport::Program(program) => {
                let setting = format!("mcp.servers.{}.network", self.name());
                let rules = Rules::new(&program.network, &setting);
                let session = Arc::new(Session::new(rules, None));
                let spec = program.spec(&session)?;
                let link = stdio::Link::start(self.name(), spec, session.clone()).await?;
                greet(Link::Stdio(link), samples).await.map_err(|fault| {
                    let words = fault.to_string();
                    match hints::of(self.name(), program, &words, &session.take_visits()) {
                        hints if hints.is_empty() => fault,
                        hints => Error::Ended(words + &hints),
                    }
                })
            }
            Transport::Url {
                url, token, issuer, ..
            } => {
                let bearer = match token {
                    Some(token) => Bearer::Written(token.clone()),
                    None => Bearer::SignIn(self.shared.sign_ins.clone(), Place::new(url, issuer)),
                };
                let http = self.shared.http.clone();
                let link = http::Link::new(http, (self.name(), url), bearer);
                greet(Link::Http(link), samples).await
            }
            Transport::Unusable(why) => Err(Error::Ended(why.clone())),
        }
    }

    /// Records what it offers, and notifies the owner when that is not what they trusted.
    fn record_offer(&self, listed: &[Value], others: &[Kind]) {
        let Settings {
            name,
            identity,
            trust,
            ..
        } = &self.settings;
        let taken = self.shared.taken.lock().clone();
        let mut now = tool_list::read(name, identity, listed, &taken);
        let others = resources_and_prompts::tools(name, others, &now.tools, &taken);
        now.tools.extend(others);
        let approved = self.shared.approved.read();
        let trust = approved.map(|approved| check(&approved, name, trust, &now.sha256));
        let in_words = match &trust {
            Ok(Ok(())) => "trusted".to_owned(),
            Ok(Err(off)) => off.to_string(),
            Err(why) => why.clone(),
        };
        tracing::info!(
            server = name,
            tools = now.tools.len(),
            trust = in_words,
            "the tool server works"
        );
        for tool in &now.tools {
            if let Some(why) = &tool.refused {
                tracing::warn!(
                    server = name,
                    tool = net::server_text(&tool.remote),
                    "this tool is left out: {why}"
                );
            }
        }
        self.shared.note(self, |seen| {
            seen.offer = Some(now);
            seen.broken = None;
        });
        if trust == Ok(Err(Off::Changed)) {
            self.notify(Some(format!(
                "the tools of server {name} have changed since you trusted it; its tools are off: agent-send --mcp list"
            )));
        } else {
            self.notify(None);
        }
    }

    /// Records its failure, and when it may be restarted.
    fn record_failure(&self, slot: &mut Slot, why: &str) {
        if slot.client.is_none() && slot.since.elapsed() > LIVED {
            slot.failures = 0;
        }
        why.clone_into(&mut slot.why);
        slot.not_before = Some(Instant::now() + net::backoff(slot.failures, BACKOFF.0, BACKOFF.1));
        slot.failures = slot.failures.saturating_add(1);
        self.shared.note(self, |seen| {
            seen.broken = Some(why.to_owned());
            let (at, why) = (crate::clock::now_ms(), why.to_owned());
            seen.last_failure = Some(Failure { at, why });
        });
        self.notify(Some(format!(
            "the tool server {} does not work: {why}",
            self.name()
        )));
    }

    /// Notifies the owner once of the same message, and of its end.
    pub(super) fn notify(&self, message: Option<String>) {
        let mut notified = self.notified.lock();
        if *notified != message {
            if let Some(message) = &message {
                tracing::warn!("{message}");
            }
            let trouble = (self.name().to_owned(), message.clone());
            let _ = self.shared.trouble.send(trouble);
            *notified = message;
        }
    }
}

/// Greets a server and asks it for its tools.
async fn greet(link: Link, samples: bool) -> Result<(Client, Vec<Value>), Error> {
    let greeted = async {
        let client = Client::open(link, samples).await?;
        let listed = client.tools().await?;
        Ok((client, listed))
    };
    timeout(START, greeted)
        .await
        .unwrap_or(Err(Error::Timeout(START)))
}

impl Program {
    fn spec(&self, session: &Session) -> Result<Spec, Error> {
        std::fs::create_dir_all(&self.dir).map_err(|error| {
            Error::Ended(format!(
                "its directory {} cannot be made: {error}",
                self.dir.display()
            ))
        })?;
        let quoted = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
        let argv: Vec<String> = self.argv.iter().map(quoted).collect();
        let mut env = self.env.clone();
        if !self.off {
            session.set_environment(&mut env, EXIT_PORT);
        }
        Ok(Spec {
            command: format!("exec {}", argv.join(" ")),
            cwd: self.dir.clone(),
            workspace: self.dir.clone(),
            writable: self.writes.clone(),
            hidden: self.hidden.clone(),
            read_only: self.reads.clone(),
            exit: (!self.off).then(|| NetworkExit::new(session.server())),
            env,
            timeout: Duration::ZERO,
            max_output: 0,
            off: self.off,
            disk_reserve: self.disk_reserve,
        })
    }
}

/// Counts a call while it runs.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn new(calls: &'a AtomicUsize) -> Self {
        calls.fetch_add(1, Ordering::SeqCst);
        Self(calls)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Asks the owner to open addresses, one after the other; returns whether they opened all.
async fn opened(caller: &Arc<dyn Caller>, addresses: Vec<Address>) -> bool {
    for address in addresses {
        if caller.open(address).await != Elicited::Opened {
            return false;
        }
    }
    true
}
