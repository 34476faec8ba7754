//! A model server for tests: plays recorded answers on 127.0.0.1 and keeps what it was sent.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request as HttpRequest, State};
use axum::http::{HeaderMap, Response as HttpResponse};
use futures_util::{StreamExt, stream};
use proptest::prelude::*;
use serde_json::Value;

use crate::message::{Block, Message, Role, Thinking, ToolCall, ToolResult};
use crate::provider::{Error, Provider, Request, Response, SystemBlock, Tier, ToolSpec};

/// How an answer's body ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum End {
    /// As it should.
    Clean,
    /// The connection is cut in the middle of the body.
    Disconnect,
    /// Nothing more comes.
    Stall,
    /// As it should, but a little later.
    Late,
}

/// A recorded answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    chunks: Vec<Vec<u8>>,
    end: End,
}

impl Reply {
    /// Returns a stream of events, one chunk each.
    pub(crate) fn events(events: &str) -> Self {
        let chunks = events
            .split_inclusive("\n\n")
            .map(|event| event.as_bytes().to_vec())
            .collect();
        let headers = vec![(
            "content-type",
            "text/event-stream; charset=utf-8".to_owned(),
        )];
        Self {
            status: 200,
            headers,
            chunks,
            end: End::Clean,
        }
    }

    /// Returns a JSON answer.
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self {
            status,
            headers,
            chunks: vec![body.to_string().into_bytes()],
            end: End::Clean,
        }
    }

    /// Returns an answer of any type.
    pub(crate) fn raw(status: u16, content_type: &str, body: &str) -> Self {
        let headers = vec![("content-type", content_type.to_owned())];
        Self {
            status,
            headers,
            chunks: vec![body.as_bytes().to_vec()],
            end: End::Clean,
        }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Returns the answer in chunks of `size` bytes, wherever that cuts.
    pub(crate) fn in_chunks_of(mut self, size: usize) -> Self {
        self.chunks = self
            .chunks
            .concat()
            .chunks(size)
            .map(<[u8]>::to_vec)
            .collect();
        self
    }

    pub(crate) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    fn into_response(self) -> HttpResponse<Body> {
        let mut response = HttpResponse::builder().status(self.status);
        for (name, value) in &self.headers {
            response = response.header(*name, value);
        }
        let chunks = stream::iter(self.chunks).then(|chunk| async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok::<_, std::io::Error>(chunk)
        });
        // The server drops what it has not yet written when the body fails, so the cut comes later.
        let cut = stream::once(async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Err(std::io::Error::other("cut"))
        });
        let body = match self.end {
            End::Clean => Body::from_stream(chunks),
            End::Disconnect => Body::from_stream(chunks.chain(cut)),
            End::Late => Body::from_stream(chunks.chain(cut.filter(|_| std::future::ready(false)))),
            End::Stall => Body::from_stream(chunks.chain(stream::pending())),
        };
        response.body(body).unwrap()
    }
}

/// What the server was sent.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// The client's end of the connection.
    pub(crate) peer: SocketAddr,
    pub(crate) body: String,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<Recorded>>,
}

/// A running server; it ends with the test's runtime.
pub(crate) struct Server {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

impl Server {
    /// Starts a server that gives these answers in turn.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            ..Shared::default()
        });
        let router = Router::new().fallback(play).with_state(Arc::clone(&shared));
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, service).await.unwrap() });
        Self { url, shared }
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.shared.requests.lock().clone()
    }

    /// Returns the only request so far.
    pub(crate) fn request(&self) -> Recorded {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "one attempt a call");
        requests.remove(0)
    }
}

async fn play(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: HttpRequest,
) -> HttpResponse<Body> {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    shared.requests.lock().push(Recorded {
        path: parts.uri.to_string(),
        headers: parts.headers,
        peer,
        body,
    });
    let reply = shared.replies.lock().pop_front();
    reply
        .unwrap_or_else(|| Reply::raw(500, "text/plain", "no answer recorded"))
        .into_response()
}

/// Returns a client that finds 127.0.0.1 whatever the environment says.
pub(crate) fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap()
}

/// Makes one attempt; returns the outcome and what was streamed.
pub(crate) async fn attempt(
    provider: &dyn Provider,
    request: &Request,
) -> (Result<Response, Error>, String) {
    let streamed = Mutex::new(String::new());
    let result = provider
        .complete(request, &|piece: &str| streamed.lock().push_str(piece))
        .await;
    (result, streamed.into_inner())
}

/// Returns a request without system text, tools or cache.
pub(crate) fn request(messages: Vec<Message>) -> Request {
    Request {
        model: "test-model".to_owned(),
        max_tokens: 1024,
        system: Vec::new(),
        tools: [].into(),
        may_call: true,
        messages: messages.into(),
        cache: false,
        cache_ttl: Default::default(),
        thinking: false,
        begin_within: None,
        schema: None,
    }
}

/// Returns two tools.
pub(crate) fn tools() -> std::sync::Arc<[ToolSpec]> {
    let schema = |field: &str| serde_json::json!({"type": "object", "properties": {field: {"type": "string"}}, "required": [field]});
    [
        ToolSpec {
            name: "exec".into(),
            description: "Run a command.".into(),
            schema: schema("command").into(),
        },
        ToolSpec {
            name: "read".into(),
            description: "Read a file.".into(),
            schema: schema("path").into(),
        },
    ]
    .into()
}

/// Returns system text of both tiers, with a blank block that must not be sent.
pub(crate) fn system() -> Vec<SystemBlock> {
    let block = |tier, text: &str| SystemBlock {
        tier,
        text: text.to_owned(),
    };
    vec![
        block(Tier::Stable, "You are Ada."),
        block(Tier::Stable, "Tools: exec."),
        block(Tier::SemiStable, " \n"),
        block(Tier::SemiStable, "Memory: tea."),
    ]
}

pub(crate) fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

pub(crate) fn assistant(text: &str) -> Message {
    Message::text(Role::Assistant, text)
}

pub(crate) fn call(id: &str, name: &str, input: Value) -> Block {
    Block::ToolCall(ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        input,
    })
}

pub(crate) fn result(id: &str, text: &str, is_error: bool) -> Block {
    Block::ToolResult(ToolResult {
        id: id.to_owned(),
        text: text.to_owned(),
        is_error,
        from: None,
        pictures: Vec::new(),
    })
}

pub(crate) fn said(text: &str) -> Block {
    Block::Text {
        text: text.to_owned(),
    }
}

pub(crate) fn thought(by: &str, data: Value) -> Block {
    Block::Thinking(Thinking {
        by: by.to_owned(),
        data,
    })
}

pub(crate) fn message(role: Role, content: impl Into<Vec<Block>>) -> Message {
    Message {
        role,
        content: content.into(),
    }
}

/// Returns a conversation with a round trip of two tools, a failed one, merged neighbours, a context
/// head and blank text.
pub(crate) fn round_trip() -> Vec<Message> {
    use serde_json::json;
    vec![
        message(
            Role::User,
            [
                Block::Context {
                    text: "[Monday 09:00]".to_owned(),
                },
                said("List the files."),
            ],
        ),
        message(
            Role::Assistant,
            [
                said("I look."),
                call("t1", "exec", json!({"command": "ls"})),
                call("t2", "read", json!({"path": "/x"})),
            ],
        ),
        message(
            Role::User,
            [result("t2", "no such file", true), result("t1", "", false)],
        ),
        user("  \n"),
        user("And now?"),
        assistant("Nothing there."),
        assistant("Truly."),
        user("Thanks."),
    ]
}

/// Returns a value that a server should not send in the place of another.
pub(crate) fn wrong_value() -> impl Strategy<Value = Value> {
    use serde_json::json;
    let values = vec![
        json!(null),
        json!(-1),
        json!(u64::MAX),
        json!(0.5),
        json!(""),
        json!("error"),
        json!([]),
        json!({}),
        json!([{}]),
    ];
    prop::sample::select(values)
}

/// Returns the data of each event in `events` with its `at`-th node (counted through all of them) replaced.
pub(crate) fn with_wrong_node(events: &str, mut at: usize, wrong: &Value) -> Vec<String> {
    let data = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| {
        serde_json::from_str::<Value>(data).map_or_else(
            |_| data.to_owned(),
            |mut value| {
                replace_node(&mut value, &mut at, wrong);
                value.to_string()
            },
        )
    })
    .collect()
}

fn replace_node(value: &mut Value, at: &mut usize, wrong: &Value) {
    if *at == 0 {
        *value = wrong.clone();
    }
    *at = at.wrapping_sub(1);
    match value {
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| replace_node(value, at, wrong)),
        Value::Object(object) => object
            .values_mut()
            .for_each(|value| replace_node(value, at, wrong)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
