//! Tool servers: programs or remote servers that offer tools (Model Context Protocol,
//! <https://modelcontextprotocol.io/specification/2025-11-25>, read 2026-11).
//!
//! ```text
//! Servers ── one Server each, managed by a task: started, listed, stopped when idle, restarted
//!   └ Client     greeting, tools/list, tools/call, cancellation     json_rpc.rs: the messages
//!             └ stdio.rs  a program in the sandbox of exec: lines on its stdin and stdout
//!         http/     an address of the owner: POST, answered by JSON or by events
//! ```
//!
//! No text of a server reaches a model before the owner has trusted the hash of everything that it offers ([`Offer`]): a
//! server that changes a description is disabled until the owner has reviewed it again. The last offer is stored in
//! `state/mcp.json`, so that its tools are available when a daemon starts. A broken, silent or hostile server does not
//! affect the others: every message, wait and list is bounded.
//!
//! The client is our own, because it is small and these bounds matter: the official crate reads lines of any length and
//! needs seven more crates.

mod address;
mod client;
mod elicitation;
mod hints;
mod http;
mod json_rpc;
mod resources_and_prompts;
mod sampling;
mod server;
mod server_requests;
mod stdio;
mod tool_list;
mod tool_result;
mod trust;

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::auth::ServerSignIns;
use crate::trust::approved_hashes::ApprovedHashes;
use trust::SeenServer;

pub use address::Address;
pub use elicitation::{Elicited, Form};
pub use resources_and_prompts::Kind;
pub use sampling::{SampleRequest, Sampled};
pub use server::{Program, Sampling, Server, Settings, Transport};
pub use server_requests::Caller;
pub use tool_list::{Offer, Offered};
pub use tool_result::{Answer, File};
pub use trust::{Failure, Off, Seen, ServerStatus, approved_hashes, status};

/// Servers that are told to end have so long.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a server did not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// It does not run, or cannot be reached. Carries why.
    #[error("{0}")]
    Ended(String),
    #[error("it refuses: {message} ({code})")]
    Refused { code: i64, message: String },
    /// The owner is to open these addresses first; nothing was done.
    #[error("it requires addresses to be opened first")]
    WantsOpened(Vec<Address>),
    #[error("it did not answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// It does not keep to the protocol. Carries what it did.
    #[error("{0}")]
    Protocol(String),
    /// It has forgotten us; nothing was done.
    #[error("it no longer knows the session")]
    Gone,
    /// Our own run was stopped.
    #[error("stopped")]
    Stopped,
}

/// Returns what identifies a server in addition to its name: its address, or its program with the arguments.
pub fn identity(command: &[String], url: &str) -> String {
    if url.is_empty() {
        serde_json::Value::from(command).to_string()
    } else {
        url.to_owned()
    }
}

/// All tool servers of a daemon.
pub struct Servers {
    shared: Arc<Shared>,
    servers: Mutex<BTreeMap<String, Arc<Server>>>,
    tasks: TaskTracker,
}

/// The name of a server and what the owner should read of it now.
pub type Trouble = (String, Option<String>);

/// What all servers have in common.
struct Shared {
    path: PathBuf,
    approved: ApprovedHashes,
    /// What the owner should read.
    trouble: mpsc::UnboundedSender<Trouble>,
    seen: Mutex<Seen>,
    /// Names that other tools have.
    taken: Mutex<HashSet<String>>,
    http: reqwest::Client,
    /// Where somebody signed in.
    sign_ins: ServerSignIns,
}

impl Servers {
    /// Returns no servers yet. `seen` is the daemon's own file, `approved` the owner's; what the owner should
    /// read goes to `trouble`.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(
        seen: &Path,
        approved: &Path,
        sign_ins: ServerSignIns,
        trouble: mpsc::UnboundedSender<Trouble>,
    ) -> Result<Self, reqwest::Error> {
        let shared = Shared {
            path: seen.to_owned(),
            approved: approved_hashes(approved),
            trouble,
            seen: Mutex::new(Seen::read(seen)),
            taken: Mutex::default(),
            http: crate::net::client()?,
            sign_ins,
        };
        Ok(Self {
            shared: Arc::new(shared),
            servers: Mutex::default(),
            tasks: TaskTracker::new(),
        })
    }

    /// Makes these the servers: new ones are started, those that are not among them or are others now are
    /// ended, the rest continues. `taken` are the names of tools that no server may use.
    ///
    /// Must be called within the runtime.
    pub fn set(&self, settings: Vec<Settings>, taken: HashSet<String>) {
        *self.shared.taken.lock() = taken;
        let mut servers = self.servers.lock();
        // First they are stopped: one that is stopped notes nothing any more.
        servers.retain(|_, server| {
            let stays = settings.contains(&server.settings);
            if !stays {
                server.stop.cancel();
                server.notify(None);
            }
            stays
        });
        self.shared.forget_all_but(&settings);
        for settings in settings {
            servers.entry(settings.name.clone()).or_insert_with(|| {
                let server = Arc::new(Server::new(settings, self.shared.clone()));
                self.tasks.spawn(server.clone().keep());
                server
            });
        }
    }

    /// Returns the tools that the owner trusts now, with their servers and the hash they were offered under,
    /// in the order of the servers' names.
    pub fn tools(&self) -> Vec<(Arc<Server>, String, Offered)> {
        let servers = self.servers.lock();
        if servers.is_empty() {
            return Vec::new();
        }
        let approved = self.shared.approved.read();
        let seen = without_twins(&self.shared.seen.lock());
        // What was free when the server was asked may be a tool of ours by now.
        let taken = self.shared.taken.lock();
        let mut tools = Vec::new();
        for (name, server) in servers.iter() {
            let Settings {
                identity, trust, ..
            } = &server.settings;
            let status = status((name, identity, trust), &seen, &approved);
            let (None, Some(offer)) = (status.off, status.offer) else {
                continue;
            };
            let usable = offer
                .tools
                .into_iter()
                .filter(|tool| tool.refused.is_none() && !taken.contains(&tool.name));
            tools.extend(usable.map(|tool| (server.clone(), offer.sha256.clone(), tool)));
        }
        tools
    }

    /// Ends all servers and waits, not for long, until they are gone.
    pub async fn end(&self) {
        let servers = self.servers.lock().clone();
        servers.values().for_each(|server| server.stop.cancel());
        self.tasks.close();
        let _ = tokio::time::timeout(END_TIMEOUT, self.tasks.wait()).await;
    }
}

impl Shared {
    /// Changes what is known of `server`, and writes it down when it is something else now; nothing once it
    /// is to stop.
    fn note(&self, server: &Server, change: impl FnOnce(&mut SeenServer)) {
        let Server { settings, stop, .. } = server;
        let mut seen = self.seen.lock();
        if stop.is_cancelled() {
            return;
        }
        let before = seen.clone();
        let server = seen.servers.entry(settings.name.clone()).or_default();
        if server.identity != settings.identity {
            *server = SeenServer {
                identity: settings.identity.clone(),
                ..SeenServer::default()
            };
        }
        change(server);
        if *seen != before {
            self.write(&seen);
        }
    }

    fn forget_all_but(&self, settings: &[Settings]) {
        let mut seen = self.seen.lock();
        let before = seen.servers.len();
        seen.servers
            .retain(|name, _| settings.iter().any(|settings| settings.name == *name));
        if seen.servers.len() != before {
            self.write(&seen);
        }
    }

    fn write(&self, seen: &Seen) {
        if let Err(error) = without_twins(seen).write(&self.path) {
            tracing::warn!(%error, "cannot store the tool lists of the servers");
        }
    }
}

/// Returns what is known with each name given once: of two servers' tools that would be called the same,
/// the second is left out.
fn without_twins(seen: &Seen) -> Seen {
    let mut seen = seen.clone();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    for (server, known) in &mut seen.servers {
        for tool in known
            .offer
            .iter_mut()
            .flat_map(|offer| &mut offer.tools)
            .filter(|tool| tool.refused.is_none())
        {
            let first = names
                .entry(tool.name.clone())
                .or_insert_with(|| server.clone());
            if first != server {
                tool.refused = Some(format!("the server {first} has a tool of this name"));
            }
        }
    }
    seen
}

/// Reads bytes as a message of a server, and what it answers as a list of tools and as a result.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_frame(bytes: &[u8]) {
    let result = match json_rpc::read(bytes) {
        Some(json_rpc::Message::Answer(_, Ok(result))) => result,
        Some(json_rpc::Message::Request(_, words, params)) => {
            if let Ok(form) = Form::read(&params) {
                let _ = (form.text("s"), form.how(), form.choices(), form.secret());
                let _ = form.fill(&words);
            }
            let _ = SampleRequest::read(&params).map(|request| request.text("s", 1));
            return;
        }
        _ => return,
    };
    let listed = result["tools"].as_array().cloned().unwrap_or_default();
    let offer = tool_list::read("a_server", "sh", &listed, &HashSet::new());
    assert!(
        offer
            .tools
            .iter()
            .all(|tool| tool.refused.is_some() || tool.name.len() <= 64)
    );
    let _ = tool_result::Answer::read(&result);
}
