//! The HTTP API (specification §21): messages and commands in addition to the FIFO, and the documents that the shell prints.
//!
//! ```text
//! connection ([`connections`]) → Telegram's webhook?
//!   → [`request_checks`]: Host and Origin, the token or the cookie of [`login`] (or one more of [`wrong_tokens`]), the rate limit → [`routes`]
//!   a message ([`chat`], [`openai`]) or an action ([`actions`]) → pipeline → queue.db
//!                                   → wait for the reply ([`wait`]) or stream it ([`stream`])
//!   a query ([`queries`], [`metrics`], [`page`]) → app::documents, as for the shell
//! ```
//!
//! Anyone who has the token is the owner. Nothing else that a client sends determines its identity or permissions.

mod actions;
mod body;
mod chat;
mod connections;
mod error;
mod files;
mod hooks;
mod hosts;
mod idempotency_key;
mod knowledge;
mod login;
mod metrics;
mod openai;
mod page;
mod queries;
mod rate_limit;
mod request_checks;
mod routes;
mod shared_snapshot;
mod steps;
mod stream;
mod token;
mod wait;
mod wrong_tokens;

/// Reads bytes as the body of each request that has one.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_body(bytes: &[u8]) {
    if let Ok(chat) = crate::text::json::parse::<chat::Chat>(bytes) {
        let _ = chat::Message::try_from(chat);
    }
    let _ = crate::text::json::parse::<chat::Notify>(bytes);
    openai::check_body(bytes);
    hooks::check_body(bytes);
}

pub(crate) use hooks::{lines as hook_lines, trouble as hook_trouble};
pub(crate) use token::{HOW_TO_MAKE_A_TOKEN, Strength, strength};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use tokio_util::sync::CancellationToken;

use super::cli::Failure;
use super::documents::titles::Titles;
use crate::channel::telegram::Telegram;
use crate::config::{Config, Environment, Home, Http, Listen, Secrets};
use crate::control::Id;
use crate::net;
use crate::net::Listener;
use crate::pipeline::Pipeline;
use crate::secret::Secret;
use hosts::Hosts;
use login::Logins;
use metrics::Counters;
use rate_limit::Bucket;
use shared_snapshot::SharedLook;
use token::TokenCheck;
use wrong_tokens::WrongTokens;

/// The modes of a Unix socket: for the agent's user; and for its group too, where a web server
/// forwards Telegram's webhook.
const SOCKET_MODES: (u32, u32) = (0o600, 0o660);

/// How the API is opened.
pub(crate) struct Settings {
    http: Http,
    token: Option<Secret>,
    hook_secrets: BTreeMap<String, Secret>,
    mode: u32,
    /// Warnings about the token and the secrets of webhooks.
    pub(crate) warnings: Vec<String>,
}

/// Returns how the API is opened; `None` when it is off.
///
/// # Errors
/// When the token is missing or too weak for the address.
pub(crate) fn settings(config: &Config, secrets: &Secrets) -> Result<Option<Settings>, Failure> {
    let http = &config.http;
    if !http.enabled {
        return Ok(None);
    }
    let token = secrets.get(&http.token_env)?;
    let warning = token::check_token(http, token.as_ref())?;
    let (hook_secrets, of_hooks) = hooks::secrets(http, secrets)?;
    let shared = config.telegram.enabled && config.telegram.webhook_path().is_some();
    if shared && token.is_none() {
        let message = format!(
            "[http] and [telegram] webhook share the socket {}, and the token {} is not set",
            http.listen, http.token_env
        );
        return Err(
            Failure::config(message).hint(format!("{HOW_TO_MAKE_A_TOKEN} {}=…", http.token_env))
        );
    }
    Ok(Some(Settings {
        http: http.clone(),
        token,
        hook_secrets,
        mode: if shared {
            SOCKET_MODES.1
        } else {
            SOCKET_MODES.0
        },
        warnings: warning.into_iter().chain(of_hooks).collect(),
    }))
}

/// Returns everything, except the address, that prevents the API from starting with these settings.
pub(crate) fn faults(config: &Config, secrets: &Secrets) -> Vec<Failure> {
    let Some(first) = settings(config, secrets).err() else {
        return Vec::new();
    };
    let others = hooks::without_secret(&config.http, secrets);
    let others = others.into_iter().filter(|failure| *failure != first);
    std::iter::once(first.clone()).chain(others).collect()
}

/// The API, bound to its address and not yet answering.
pub(crate) struct BoundServer {
    listener: Listener,
    settings: Settings,
}

impl BoundServer {
    /// Binds the address. The caller holds the daemon's lock.
    ///
    /// # Errors
    /// When the address is in use or not of this machine.
    pub(crate) async fn open(settings: Settings) -> Result<Self, Failure> {
        let listen = &settings.http.listen;
        let fail = |words: String| {
            Failure::config(words)
                .hint("choose another address with [http] listen, or end what listens there: ss -ltnp shows it")
        };
        let address = settings
            .http
            .address()
            .ok_or_else(|| fail(format!("[http] listen: {listen} is no address")))?;
        let bound = Listener::bind(&address, settings.mode).await;
        let listener =
            bound.map_err(|error| fail(format!("[http] cannot listen on {listen}: {error}")))?;
        Ok(Self { listener, settings })
    }

    /// Answers until the daemon is `shutdown`: while it ends, with 503, except for those who wait already.
    ///
    /// # Errors
    /// When this machine gives no random numbers.
    pub(crate) fn serve(
        self,
        pipeline: Arc<Pipeline>,
        home: Home,
        env: Environment,
        telegram: Option<Arc<Telegram>>,
        shutdown: CancellationToken,
    ) -> Result<impl Future<Output = ()> + Send + 'static, Failure> {
        let (http, token) = (self.settings.http, self.settings.token.as_ref());
        let api = Arc::new(Api {
            titles: Arc::default(),
            logins: Logins::open(&home, token)?,
            status: queries::look_at_status(home.clone(), env.clone()),
            pipeline,
            home,
            env,
            token_check: TokenCheck::new(token)?,
            hooks: hooks::receivers(&http, &self.settings.hook_secrets)?,
            hook_bodies: tokio::sync::Semaphore::new(hooks::MAX_READING),
            hosts: Hosts::of(&http),
            origins: http.origins,
            reads: Bucket::new(http.reads_per_minute),
            writes: Bucket::new(http.writes_per_minute),
            wrong_tokens: WrongTokens::default(),
            counters: Counters::default(),
            files: tokio::sync::Mutex::default(),
            joins: std::array::from_fn(|_| tokio::sync::Mutex::default()),
            readers: parking_lot::Mutex::default(),
            last_unauthorized_log_ms: AtomicI64::new(0),
            shutdown,
        });
        tracing::info!(listen = self.listener.address(), "HTTP API listening");
        Ok(connections::serve(api, self.listener, telegram))
    }
}

/// Returns why the address cannot be bound, as a check from outside; `None` when it can.
pub(crate) fn address_trouble(http: &Http) -> Option<String> {
    let address = http.address()?;
    let error = net::probe(&address).err()?;
    let what = match address {
        Listen::Tcp(_) => "cannot be listened on",
        Listen::Unix(_) => "has no directory",
    };
    Some(format!("[http] listen: {} {what}: {error}", http.listen))
}

/// The state of the server.
struct Api {
    pipeline: Arc<Pipeline>,
    home: Home,
    env: Environment,
    token_check: TokenCheck,
    /// What conversations are about.
    titles: Arc<Titles>,
    /// Browsers that are signed in.
    logins: Logins,
    hooks: hooks::Hooks,
    /// Bodies of events that may be read at a time.
    hook_bodies: tokio::sync::Semaphore,
    hosts: Hosts,
    /// Sites whose pages may use the API.
    origins: Vec<String>,
    reads: Bucket,
    writes: Bucket,
    wrong_tokens: WrongTokens,
    counters: Counters,
    /// Those who ask for the status.
    status: SharedLook,
    /// Held while a message with files is stored.
    files: tokio::sync::Mutex<()>,
    /// Held, one for each group of bodies, while a completion looks for the run it joins.
    joins: [tokio::sync::Mutex<()>; 16],
    /// How many streams of each message are read by clients that end a message by leaving.
    readers: parking_lot::Mutex<HashMap<Id, usize>>,
    /// When a request without the right token was last logged, milliseconds since 1970 UTC.
    last_unauthorized_log_ms: AtomicI64,
    /// No turn ends any more: nobody needs to wait.
    shutdown: CancellationToken,
}
