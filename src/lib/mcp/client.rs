//! A server that was greeted: what it offers, and calls.
//!
//! ```text
//! → initialize {protocolVersion, capabilities: {}, clientInfo}   ← {protocolVersion, capabilities: {tools}}
//! → notifications/initialized
//! → tools/list {cursor}                                         ← {tools: […], nextCursor}
//! → tools/call {name, arguments}                                ← {content: […], isError}
//! → notifications/cancelled {requestId}                         nobody waits for the answer any more
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::json_rpc;
use super::json_rpc::{UNDERSTOOD, VERSION};
use super::{Fault, http, stdio};

/// How long a start may take: the greeting and the list of tools.
pub(super) const START: Duration = Duration::from_secs(20);
/// How long telling may take that nobody waits any more.
const CANCEL: Duration = Duration::from_secs(2);
/// The most tools a server may offer, and the pages they may come on.
pub(super) const MAX_TOOLS: usize = 128;
const MAX_PAGES: usize = 64;

/// How a server is reached.
pub(super) enum Link {
    Stdio(stdio::Link),
    Http(http::Link),
}

/// A server that was greeted.
pub(super) struct Peer {
    link: Link,
    ids: AtomicU64,
    has_tools: bool,
}

impl Peer {
    /// Greets the server.
    pub(super) async fn open(link: Link) -> Result<Self, Fault> {
        let mut peer = Self {
            link,
            ids: AtomicU64::new(1),
            has_tools: false,
        };
        let hello = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "agent-toolkit", "version": env!("CARGO_PKG_VERSION")},
        });
        let id = peer.next_id();
        let told = peer
            .link
            .request(id, &json_rpc::request(id, "initialize", &hello))
            .await?;
        let version = told
            .get("protocolVersion")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if !UNDERSTOOD.contains(&version) {
            let version = crate::net::words(version);
            return Err(Fault::Protocol(format!(
                "it speaks version {version:?} of the protocol, and we {VERSION}"
            )));
        }
        if let Link::Http(link) = &peer.link {
            link.speaks(version);
        }
        peer.has_tools = told
            .pointer("/capabilities/tools")
            .is_some_and(Value::is_object);
        peer.link
            .send(&json_rpc::notice("notifications/initialized", None))
            .await?;
        Ok(peer)
    }

    /// Returns the tools as the server describes them.
    pub(super) async fn tools(&self) -> Result<Vec<Value>, Fault> {
        let mut tools = Vec::new();
        let mut params = json!({});
        if !self.has_tools {
            return Ok(tools);
        }
        for _ in 0..MAX_PAGES {
            let id = self.next_id();
            let mut page = self
                .link
                .request(id, &json_rpc::request(id, "tools/list", &params))
                .await?;
            let Some(Value::Array(more)) = page.get_mut("tools").map(Value::take) else {
                return Err(Fault::Protocol("its list of tools is no list".to_owned()));
            };
            tools.extend(more);
            if tools.len() > MAX_TOOLS {
                return Err(Fault::Protocol(format!(
                    "it offers more than {MAX_TOOLS} tools"
                )));
            }
            match page.get("nextCursor") {
                Some(Value::String(cursor)) if !cursor.is_empty() => {
                    params = json!({"cursor": cursor})
                }
                _ => return Ok(tools),
            }
        }
        Err(Fault::Protocol(format!(
            "its list of tools has more than {MAX_PAGES} pages"
        )))
    }

    /// Calls a tool and returns the result as the server gives it.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Value,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Value, Fault> {
        let id = self.next_id();
        let request = json_rpc::request(
            id,
            "tools/call",
            &json!({"name": tool, "arguments": arguments}),
        );
        let fault = tokio::select! {
            biased;
            () = cancel.cancelled() => Fault::Stopped,
            answer = self.link.request(id, &request) => return answer,
            () = tokio::time::sleep(limit) => Fault::Silent(limit),
        };
        let words = json!({"requestId": id, "reason": fault.to_string()});
        let _ = tokio::time::timeout(
            CANCEL,
            self.link
                .send(&json_rpc::notice("notifications/cancelled", Some(&words))),
        )
        .await;
        Err(fault)
    }

    /// Waits until the server is gone, and returns why.
    pub(super) async fn over(&self) -> Fault {
        match &self.link {
            Link::Stdio(link) => link.over().await,
            Link::Http(link) => link.over().await,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        match &self.link {
            Link::Stdio(link) => link.is_over(),
            Link::Http(link) => link.is_over(),
        }
    }

    /// Waits until the server says that its tools are others.
    pub(super) async fn changed(&self) {
        match &self.link {
            Link::Stdio(link) => link.changed().await,
            Link::Http(link) => link.changed().await,
        }
    }

    /// Says goodbye and waits until the server is gone.
    pub(super) async fn close(&self) {
        match &self.link {
            Link::Stdio(link) => link.close().await,
            Link::Http(link) => link.close().await,
        }
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

impl Link {
    async fn request(&self, id: u64, message: &Value) -> Result<Value, Fault> {
        match self {
            Self::Stdio(link) => link.request(id, message).await,
            Self::Http(link) => link.request(id, message).await,
        }
    }

    async fn send(&self, message: &Value) -> Result<(), Fault> {
        match self {
            Self::Stdio(link) => link.send(message).await,
            Self::Http(link) => link.send(message).await,
        }
    }
}
