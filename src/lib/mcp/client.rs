//! An initialized server: its tools, and calls of them.
//!
//! ```text
//! → initialize {protocolVersion, capabilities: {}, clientInfo}   ← {protocolVersion, capabilities: {tools}}
//! → notifications/initialized
//! → tools/list {cursor}                                         ← {tools: […], nextCursor}
//! → tools/call {name, arguments}                                ← {content: […], isError}
//! → ping                                                        ← {}, after a call that took too long
//! ← notifications/progress {progressToken, progress, message}   it goes on: its time begins again
//! → notifications/cancelled {requestId}                         nobody waits for the answer any more
//! → resources/list, resources/templates/list, resources/read    ← {contents: […]}
//! → prompts/list, prompts/get                                   ← {messages: […]}
//! ← roots/list                                                  → the directories it may change
//! ← elicitation/create, sampling/createMessage                  → whoever makes the call, see server_requests.rs
//! ```

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::json_rpc;
use super::json_rpc::{Notice, UNDERSTOOD, VERSION};
use super::resources_and_prompts::Kind;
use super::server_requests::{Asks, Caller};
use super::{Error, http, stdio};
use crate::net::egress_proxy::Visit;

/// How long a start may take: the greeting and the list of tools.
pub(super) const START: Duration = Duration::from_secs(20);
/// How long a cancellation may take.
const CANCEL: Duration = Duration::from_secs(2);
/// The most tools a server may offer, and the pages they may come on.
pub(super) const MAX_TOOLS: usize = 128;
pub(super) const MAX_PAGES: usize = 64;
/// A call that reports progress may take this many times its limit.
const MAX_TIMES: u32 = 10;
/// How often it is looked at whether an answer of ours is still waited for.
const LOOK: Duration = Duration::from_millis(250);
/// Words about progress that wait to be read.
const WAITING: usize = 16;

/// How a server is reached.
pub(super) enum Link {
    Stdio(stdio::Link),
    Http(http::Link),
}

/// What a link tells the client.
pub(super) struct Signals {
    /// The server says that its tools changed.
    pub(super) changed: Notify,
    /// The link has ended.
    pub(super) over: CancellationToken,
    /// Why it has ended.
    pub(super) why: Mutex<Error>,
    /// Calls that continue, by number, and how they say so.
    progress: broadcast::Sender<(u64, String)>,
    /// What the server asks of those who make calls.
    pub(super) asks: Asks,
}

impl Signals {
    /// Takes note of what the server called `name` says without being asked.
    pub(super) fn hear(&self, name: &str, notice: Notice) {
        match notice {
            Notice::ToolsChanged => self.changed.notify_one(),
            // Nobody may wait for it any more.
            Notice::Progress(call, told) => drop(self.progress.send((call, told))),
            Notice::TakenBack(id) => self.asks.take_back(&id),
            Notice::Logged(words) => tracing::debug!(server = name, "it logs: {words}"),
            Notice::Other => {}
        }
    }
}

impl Default for Signals {
    fn default() -> Self {
        Self {
            changed: Notify::new(),
            over: CancellationToken::new(),
            why: Mutex::new(Error::Gone),
            progress: broadcast::channel(WAITING).0,
            asks: Asks::default(),
        }
    }
}

/// A server that was greeted.
pub(super) struct Client {
    link: Link,
    signals: Arc<Signals>,
    ids: AtomicU64,
    has_tools: bool,
    /// Its capabilities in addition to tools.
    others: Vec<Kind>,
}

impl Client {
    /// Greets the server. `samples` tells it that it may ask for words of a model.
    pub(super) async fn open(link: Link, samples: bool) -> Result<Self, Error> {
        let signals = match &link {
            Link::Stdio(link) => link.signals(),
            Link::Http(link) => link.signals(),
        };
        let mut client = Self {
            link,
            signals,
            ids: AtomicU64::new(1),
            has_tools: false,
            others: Vec::new(),
        };
        let has_roots = matches!(&client.link, Link::Stdio(link) if link.has_roots());
        let mut capabilities = json!({"elicitation": {"form": {}, "url": {}}});
        for (name, is_offered) in [("roots", has_roots), ("sampling", samples)] {
            if is_offered {
                capabilities[name] = json!({});
            }
        }
        let hello = json!({
            "protocolVersion": VERSION,
            "capabilities": capabilities,
            "clientInfo": {"name": "agent-toolkit", "version": env!("CARGO_PKG_VERSION")},
        });
        let hello = client.request("initialize", &hello).await?;
        let version = hello["protocolVersion"].as_str().unwrap_or_default();
        if !UNDERSTOOD.contains(&version) {
            let version = crate::net::server_text(version);
            return Err(Error::Protocol(format!(
                "it speaks version {version:?} of the protocol, and we {VERSION}"
            )));
        }
        if let Link::Http(link) = &client.link {
            link.speaks(version);
        }
        let can = |what: &str| hello["capabilities"][what].is_object();
        client.has_tools = can("tools");
        let others = [("resources", Kind::Resources), ("prompts", Kind::Prompts)];
        let others = others.into_iter().filter(|(what, _)| can(what));
        client.others = others.map(|(_, kind)| kind).collect();
        client
            .send(&json_rpc::notice("notifications/initialized", None))
            .await?;
        if let Link::Http(link) = &client.link {
            link.listen();
        }
        Ok(client)
    }

    /// Returns the tools as the server describes them.
    pub(super) async fn tools(&self) -> Result<Vec<Value>, Error> {
        let mut tools = Vec::new();
        let mut params = json!({});
        if !self.has_tools {
            return Ok(tools);
        }
        for _ in 0..MAX_PAGES {
            let mut page = self.request("tools/list", &params).await?;
            let Some(Value::Array(more)) = page.get_mut("tools").map(Value::take) else {
                return Err(Error::Protocol("its list of tools is no list".to_owned()));
            };
            tools.extend(more);
            if tools.len() > MAX_TOOLS {
                return Err(Error::Protocol(format!(
                    "it offers more than {MAX_TOOLS} tools"
                )));
            }
            match page["nextCursor"].as_str() {
                Some(cursor) if !cursor.is_empty() => params = json!({"cursor": cursor}),
                _ => return Ok(tools),
            }
        }
        Err(Error::Protocol(format!(
            "its list of tools has more than {MAX_PAGES} pages"
        )))
    }

    /// Returns its capabilities in addition to tools.
    pub(super) fn others(&self) -> &[Kind] {
        &self.others
    }

    /// Calls a tool for `caller` and returns the result as the server gives it.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Value,
        (limit, cancel): (Duration, &CancellationToken),
        caller: &Arc<dyn Caller>,
    ) -> Result<Value, Error> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let meta = json!({"progressToken": id});
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
        let mut progress = self.signals.progress.subscribe();
        let running = self.signals.asks.run(id, caller.clone());
        let answer = self.exchange(id, "tools/call", &params);
        tokio::pin!(answer);
        let mut end = Instant::now() + limit * MAX_TIMES;
        let mut until = Instant::now() + limit;
        let error = loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Error::Stopped,
                answer = &mut answer => return answer,
                // What the owner or a model takes is not the server's time.
                () = tokio::time::sleep(LOOK) => {
                    if running.is_asking() {
                        end += LOOK;
                        until = (Instant::now() + limit).min(end);
                    }
                }
                () = sleep_until(until) => break Error::Timeout(limit),
                heard = progress.recv() => {
                    // So many at once that some are lost: this call may be among them.
                    let (call, words) = heard.unwrap_or((id, String::new()));
                    if call == id {
                        until = (Instant::now() + limit).min(end);
                    }
                    if call == id && !words.is_empty() {
                        caller.told(words);
                    }
                }
            }
        };
        let params = json!({"requestId": id, "reason": error.to_string()});
        let notice = json_rpc::notice("notifications/cancelled", Some(&params));
        let _ = tokio::time::timeout(CANCEL, self.send(&notice)).await;
        Err(error)
    }

    pub(super) fn take_visits(&self) -> Vec<Visit> {
        match &self.link {
            Link::Stdio(link) => link.take_visits(),
            Link::Http(_) => Vec::new(),
        }
    }

    /// Waits until the server is gone, and returns why.
    pub(super) async fn over(&self) -> Error {
        self.signals.over.cancelled().await;
        self.signals.why.lock().clone()
    }

    pub(super) fn is_over(&self) -> bool {
        self.signals.over.is_cancelled()
    }

    /// Waits until the server says that its tools changed.
    pub(super) async fn changed(&self) {
        self.signals.changed.notified().await;
    }

    /// Returns whether it is a program that we started.
    pub(super) fn is_program(&self) -> bool {
        matches!(self.link, Link::Stdio(_))
    }

    /// Asks whether the server is there, and returns whether it says anything within `limit`. A refusal is an answer, too.
    pub(super) async fn answers_ping(&self, limit: Duration) -> bool {
        let params = json!({});
        let answer = tokio::time::timeout(limit, self.request("ping", &params)).await;
        matches!(answer, Ok(Ok(_) | Err(Error::Refused { .. })))
    }

    /// Ends the link and waits until the server is gone.
    pub(super) async fn close(&self) {
        match &self.link {
            Link::Stdio(link) => link.close().await,
            Link::Http(link) => link.close().await,
        }
    }

    /// Sends a request and returns its answer, which may be dropped.
    pub(super) fn request(
        &self,
        method: &str,
        params: &Value,
    ) -> impl Future<Output = Result<Value, Error>> {
        self.exchange(self.ids.fetch_add(1, Ordering::Relaxed), method, params)
    }

    /// Returns the answer to the request of this number, which may be dropped.
    fn exchange(
        &self,
        id: u64,
        method: &str,
        params: &Value,
    ) -> impl Future<Output = Result<Value, Error>> {
        let message = json_rpc::request(id, method, params);
        async move {
            match &self.link {
                Link::Stdio(link) => link.request(id, &message).await,
                Link::Http(link) => link.request(id, &message).await,
            }
        }
    }

    /// Sends a message that has no answer.
    async fn send(&self, message: &Value) -> Result<(), Error> {
        match &self.link {
            Link::Stdio(link) => link.send(message).await,
            Link::Http(link) => link.send(message).await,
        }
    }
}
