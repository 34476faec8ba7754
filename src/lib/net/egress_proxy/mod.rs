//! Egress proxy: the only network access of a command or a tool server.
//!
//! ```text
//! program inside → 127.0.0.1:3128, accepted here (sandbox::NetworkExit) → CONNECT, plain HTTP or SOCKS5
//!   → rules: is the host allowed? → resolved once → every address checked → connected to exactly those → bytes
//! ```
//!
//! A [`Session`] serves one command or one tool server, records its connections and refusals, and closes every connection
//! when it is dropped. Names are resolved here, after the decision: a host that is not allowed causes no DNS query. A tunnel
//! carries any protocol; if it begins with TLS, the server name in the hello must be the allowed host.

mod connection;
mod relay;
mod request;
mod rules;
mod tls_hello;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use rules::{Destination, Refusal, Rules};

/// Connections of one session at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// Destinations that are remembered by name, and what all further ones are counted as.
const MAX_VISITS: usize = 1024;
const FURTHER: &str = "further hosts";

/// Asks somebody whether a destination that the rules do not name may be connected to.
pub type Ask = Arc<dyn Fn(Destination) -> BoxFuture<'static, Answer> + Send + Sync>;

/// How a question to the owner ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Yes,
    /// Carries why not.
    No(String),
    /// Nobody is there: the rules decide alone.
    Nobody,
}

/// What happened with one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visit {
    pub destination: Destination,
    /// How often it was connected to.
    pub connections: u32,
    /// Why it was refused last; `None` when it was not.
    pub refused: Option<Refusal>,
    /// Bytes to it.
    pub sent: u64,
    /// Bytes from it.
    pub received: u64,
}

/// What keeps npm, programs of Node and pip from looking for a newer version of themselves at each call: nobody asked for
/// that connection.
const NO_UPDATE_CHECKS: [(&str, &str); 3] = [
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
    ("NO_UPDATE_NOTIFIER", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
];

/// A proxy that serves one command or tool server.
pub struct Session {
    shared: Arc<Shared>,
    _stop: DropGuard,
}

struct Shared {
    rules: Rules,
    ask: Option<Ask>,
    visits: Mutex<BTreeMap<Destination, Counted>>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
}

#[derive(Default)]
struct Counted {
    connections: u32,
    refused: Option<Refusal>,
    bytes: Arc<Bytes>,
}

/// Bytes to a destination, and from it.
#[derive(Default)]
struct Bytes {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Session {
    /// Returns a session under these rules; `ask` is asked about hosts that they do not name.
    pub fn new(rules: Rules, ask: Option<Ask>) -> Self {
        let stop = CancellationToken::new();
        let shared = Shared {
            rules,
            ask,
            visits: Mutex::default(),
            slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            stop: stop.clone(),
        };
        Self {
            shared: Arc::new(shared),
            _stop: stop.drop_guard(),
        }
    }

    /// Returns what serves a listener, in the runtime it is called in.
    pub fn server(&self) -> impl Fn(std::net::TcpListener) + Send + Sync + 'static {
        let shared = self.shared.clone();
        move |listener| {
            let listener = listener
                .set_nonblocking(true)
                .and_then(|()| TcpListener::from_std(listener));
            match listener {
                Ok(listener) => drop(tokio::spawn(accept(shared.clone(), listener))),
                Err(error) => tracing::warn!(%error, "cannot serve the proxy of a command"),
            }
        }
    }

    /// Sets the variables that lead programs to the proxy, in the place of those that are there, and those that keep
    /// programs from asking by themselves for something newer, where there are none.
    pub fn set_environment(&self, env: &mut Vec<(String, String)>, port: u16) {
        let variables = self.environment(port);
        env.retain(|(name, _)| !variables.iter().any(|(given, _)| given == name));
        env.extend(variables);
        for (name, value) in NO_UPDATE_CHECKS {
            if !env
                .iter()
                .any(|(known, _)| known.eq_ignore_ascii_case(name))
            {
                env.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// Returns the variables that lead programs to the proxy, which listens on this port of 127.0.0.1. SOCKS5 is
    /// at the same port: not every program knows the scheme, so no variable says it.
    fn environment(&self, port: u16) -> Vec<(String, String)> {
        let proxy = format!("http://127.0.0.1:{port}");
        // What a program serves to itself needs no proxy, unless the owner allows a port of this machine.
        let direct = if self.shared.rules.reach_this_machine() {
            ""
        } else {
            "localhost,127.0.0.1,::1"
        };
        let proxies = ["http_proxy", "https_proxy", "all_proxy"].map(|name| (name, proxy.as_str()));
        let both = proxies.into_iter().chain([("no_proxy", direct)]);
        both.flat_map(|(name, value)| {
            [(name.to_owned(), value), (name.to_ascii_uppercase(), value)]
        })
        // Node obeys the others only when it is told to.
        .chain([("NODE_USE_ENV_PROXY".to_owned(), "1")])
        .map(|(name, value)| (name, value.to_owned()))
        .chain([("GIT_SSH_COMMAND".to_owned(), ssh_command(port))])
        .collect()
    }

    /// Returns what was connected to and what was refused since this was asked last, in the order of the hosts.
    pub fn take_visits(&self) -> Vec<Visit> {
        let mut visits = self.shared.visits.lock();
        let visit = |(destination, counted): (&Destination, &mut Counted)| Visit {
            destination: destination.clone(),
            connections: std::mem::take(&mut counted.connections),
            refused: counted.refused.take(),
            sent: counted.bytes.sent.swap(0, Ordering::Relaxed),
            received: counted.bytes.received.swap(0, Ordering::Relaxed),
        };
        let taken = visits.iter_mut().map(visit).collect();
        // A connection that is still there keeps its counters.
        visits.retain(|_, counted| Arc::strong_count(&counted.bytes) > 1);
        taken
    }
}

/// Returns ssh(1) as git is to call it. ssh knows no proxy but a program that speaks with one, and netcat is seldom
/// there: bash asks for the tunnel, and shows the refusal when there is none. ssh reads nothing below `$HOME`, which a
/// command has of its own, unless it is told to.
fn ssh_command(port: u16) -> String {
    let tunnel = format!(
        r#"exec 3<>/dev/tcp/127.0.0.1/{port} || exit; printf "CONNECT $0:$1 HTTP/1.1\r\n\r\n" >&3; read -r said <&3; while read -r line <&3 && [ ${{#line}} -gt 1 ]; do :; done; case $said in *" 200 "*) ;; *) echo "$said" >&2; exit 1;; esac; cat <&0 >&3 & cat <&3; kill $! 2>/dev/null"#
    );
    let quoted = format!("bash -c '{tunnel}' %h %p")
        .replace('\\', r"\\")
        .replace('"', r#"\""#)
        .replace('$', r"\$");
    format!(
        "ssh -o ProxyCommand=\"{quoted}\" -o StrictHostKeyChecking=accept-new \
         -o UserKnownHostsFile=\"$HOME/.ssh/known_hosts\" -o IdentityFile=\"$HOME/.ssh/id_ed25519\""
    )
}

impl Shared {
    /// Returns the counters of a destination; those beyond the remembered ones share theirs.
    fn bytes(&self, destination: &Destination) -> Arc<Bytes> {
        self.with_visit(destination, |counted| {
            counted.connections = counted.connections.saturating_add(1);
            counted.bytes.clone()
        })
    }

    fn refuse(&self, destination: &Destination, why: &Refusal) {
        self.with_visit(destination, |counted| counted.refused = Some(why.clone()));
    }

    /// Takes back that it was refused, if that was for want of an answer.
    fn allow(&self, destination: &Destination) {
        self.with_visit(destination, |counted| {
            if matches!(counted.refused, Some(Refusal::Unanswered(_))) {
                counted.refused = None;
            }
        });
    }

    fn with_visit<T>(&self, destination: &Destination, of: impl FnOnce(&mut Counted) -> T) -> T {
        let mut visits = self.visits.lock();
        let is_known = visits.len() < MAX_VISITS || visits.contains_key(destination);
        let further = || Destination {
            host: FURTHER.to_owned(),
            port: destination.port,
        };
        let destination = if is_known {
            destination.clone()
        } else {
            further()
        };
        of(visits.entry(destination).or_default())
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    let serve = async {
        loop {
            let Ok(slot) = shared.slots.clone().acquire_owned().await else {
                return;
            };
            let Some(client) = next(&listener).await else {
                return;
            };
            let (shared, stop) = (shared.clone(), shared.stop.clone());
            tokio::spawn(async move {
                let _slot = slot;
                stop.run_until_cancelled(connection::serve(&shared, client))
                    .await;
            });
        }
    };
    shared.stop.run_until_cancelled(serve).await;
}

/// Returns the next connection; when descriptors run out it is waited for.
async fn next(listener: &TcpListener) -> Option<TcpStream> {
    for tried in 0..10 {
        match listener.accept().await {
            Ok((client, _)) => {
                let _ = client.set_nodelay(true);
                return Some(client);
            }
            Err(error) => {
                tracing::debug!(%error, "the proxy of a command cannot accept");
                tokio::time::sleep(super::backoff(
                    tried,
                    std::time::Duration::from_millis(50),
                    std::time::Duration::from_secs(5),
                ))
                .await;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
