//! The HTTP API (specification §21): one more way in beside the FIFO, and the questions that the shell answers.
//!
//! ```text
//! connection ([`lines`]) → is it Telegram's? → [`gate`]: our name, the token, how often → [`routes`]
//!   a message ([`chat`], [`openai`]) or an order ([`orders`]) → pipeline::take_request → queue.db
//!                                        → [`wait`], or read along ([`stream`]), for its answer
//!   a question ([`questions`], [`metrics`], the [`page`]) → app::query, which the shell asks, too
//! ```
//!
//! Whoever has the token is the owner. Nothing that a client sends says who it is, or what it may.

mod actions;
mod body;
mod chat;
mod connections;
mod error;
mod files;
mod hosts;
mod metrics;
mod openai;
mod page;
mod queries;
mod rate_limit;
mod request_checks;
mod routes;
mod stream;
mod token;
mod wait;

pub(crate) use token::{HOW, Worth, worth};

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use tokio_util::sync::CancellationToken;

use super::cli::{Exit, Failure};
use crate::channel::telegram::Telegram;
use crate::config::{Config, Environment, Home, Http, Listen, Secrets};
use crate::net;
use crate::net::Listener;
use crate::pipeline::Pipeline;
use crate::secret::Secret;
use hosts::Hosts;
use metrics::Counters;
use rate_limit::Bucket;
use token::Guard;

/// The modes of a socket: for the agent's own user; and for the web server that passes Telegram's messages on,
/// which is of its group.
const MODES: (u32, u32) = (0o600, 0o660);

/// How the API is opened, when it is.
pub(crate) struct Settings {
    http: Http,
    token: Option<Secret>,
    mode: u32,
    /// What is to be said of the token all the same.
    pub(crate) warning: Option<String>,
}

/// Returns how the API is to be opened; `None` when it is off.
///
/// # Errors
/// When it must not be opened so.
pub(crate) fn settings(config: &Config, secrets: &Secrets) -> Result<Option<Settings>, Failure> {
    let http = &config.http;
    if !http.enabled {
        return Ok(None);
    }
    let token = secrets.get(&http.token_env)?;
    let warning = token::judge(http, token.as_ref())?;
    let shared = config.telegram.enabled && config.telegram.webhook_path().is_some();
    if shared && token.is_none() {
        let message = format!(
            "[http] and [telegram] webhook share the socket {}, and the token {} is not set",
            http.listen, http.token_env
        );
        return Err(Failure::new(Exit::Config, message).hint(format!("{HOW} {}=…", http.token_env)));
    }
    Ok(Some(Settings {
        http: http.clone(),
        token,
        mode: if shared { MODES.1 } else { MODES.0 },
        warning,
    }))
}

/// The API, listening and not yet answering.
pub(crate) struct Door {
    listener: Listener,
    settings: Settings,
}

impl Door {
    /// Listens. Only who holds the lock of the daemon may come here.
    ///
    /// # Errors
    /// When the address is in use, or none of ours.
    pub(crate) async fn open(settings: Settings) -> Result<Self, Failure> {
        let listen = &settings.http.listen;
        let fail = |words: String| {
            Failure::new(Exit::Config, words)
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

    /// Answers until the daemon is `over`: while it ends, with 503, but for those who wait already.
    ///
    /// # Errors
    /// When this machine gives no random numbers.
    pub(crate) fn serve(
        self,
        pipeline: Arc<Pipeline>,
        home: Home,
        env: Environment,
        telegram: Option<Arc<Telegram>>,
        over: CancellationToken,
    ) -> Result<impl Future<Output = ()> + Send + 'static, Failure> {
        let Self {
            listener,
            settings: Settings { http, token, .. },
        } = self;
        let api = Arc::new(Api {
            pipeline,
            home,
            env,
            guard: Guard::new(token.as_ref())?,
            hosts: Hosts::of(&http),
            reads: Bucket::new(http.reads_per_minute),
            writes: Bucket::new(http.writes_per_minute),
            counters: Counters::default(),
            files: tokio::sync::Mutex::default(),
            told_of_strangers: AtomicI64::new(0),
            over,
        });
        tracing::info!(listen = listener.address(), "the HTTP API is open");
        Ok(connections::serve(api, listener, telegram))
    }
}

/// What is wrong with the address, seen from outside: somebody else has it, or it is none of ours.
pub(crate) fn address_trouble(http: &Http) -> Option<String> {
    let address = http.address()?;
    let error = net::probe(&address).err()?;
    let what = match address {
        Listen::Tcp(_) => "cannot be listened on",
        Listen::Unix(_) => "has no directory",
    };
    Some(format!("[http] listen: {} {what}: {error}", http.listen))
}

/// What answering needs.
struct Api {
    pipeline: Arc<Pipeline>,
    home: Home,
    env: Environment,
    guard: Guard,
    hosts: Hosts,
    reads: Bucket,
    writes: Bucket,
    counters: Counters,
    /// Held while a message with files is taken in.
    files: tokio::sync::Mutex<()>,
    /// When a request without the right token was last told of, milliseconds since 1970 UTC.
    told_of_strangers: AtomicI64,
    /// No turn will end any more: nobody waits on.
    over: CancellationToken,
}
