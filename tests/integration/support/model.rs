//! A model server on loopback that speaks Anthropic's `/v1/messages` and OpenAI's `/v1/chat/completions`,
//! whole and streamed, on any path that ends so, listens at `/v1/audio/transcriptions` (see `speech`) and makes vectors at `/v1/embeddings`. The conversation scripts it (see `script::plan`), or the
//! test queues replies. Requests that the real services refuse are refused, keys and all.

mod cache;
mod check;
mod embeddings;
mod script;
mod serve;
mod speech;
mod wire;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use tokio::sync::Semaphore;

pub(crate) use cache::Met;

use super::{
    server::{Server, lock},
    wait::look_until,
};

/// The fake; dropping it closes the port and every connection.
pub(crate) struct FakeModel {
    server: Server,
    shared: Arc<Shared>,
}

/// What the next request gets instead of the script's answer.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A final answer.
    Text(String),
    /// A final answer whose first letters come at once and whose rest waits for [`FakeModel::go_on`]; of vectors all
    /// of it waits.
    Held(String),
    /// One call of this tool with this input, offered or not.
    Tool(String, Value),
    /// An error status, with `retry-after` in seconds when given.
    Status(u16, Option<u64>),
    /// The connection closes: amid the text of a stream, or before the first byte of a document.
    Disconnect,
    /// Nothing, for ever.
    Hang,
    /// These bytes as a stream, whatever they are; then the answer ends in good order.
    RawSse(String),
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    /// The path, to tell the two wire formats apart.
    pub(crate) path: String,
    /// The headers, names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body.
    pub(crate) body: Value,
    /// When it had arrived in full.
    pub(crate) at: Instant,
}

/// One recording as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    /// The vendor's id of the model.
    pub(crate) model: String,
    /// What the file is called.
    pub(crate) filename: String,
    /// The file.
    pub(crate) bytes: Vec<u8>,
}

/// Tokens as the fake counts them: body bytes / 4 in, reply characters / 4 out, at least 1 each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Tokens of the request, without those below.
    pub(crate) input: u64,
    /// Tokens read from the prompt cache, when there is one, and written to it.
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    /// Tokens of the reply; of a tool call, its name and input.
    pub(crate) output: u64,
}

/// What one answer is charged for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    /// The vendor's id of the model.
    pub(crate) model: String,
    pub(crate) usage: Usage,
    /// Bytes of sound.
    pub(crate) sound: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wire {
    Anthropic,
    OpenAi,
}

enum Output {
    Text(String),
    Tools(Vec<(String, Value)>),
}

struct Shared {
    state: Mutex<State>,
    /// A permit lets one held answer go on.
    held: Semaphore,
}

#[derive(Default)]
struct State {
    replies: VecDeque<Reply>,
    /// What the next requests of sub-agents get.
    of_sub_agents: VecDeque<Reply>,
    /// What the next recordings get.
    heard: VecDeque<Reply>,
    recordings: Vec<Recording>,
    /// What the next conversations that are read for facts get, and those that were.
    found: VecDeque<Reply>,
    readings: Vec<Value>,
    exchanges: Vec<Exchange>,
    served: Usage,
    bill: Vec<Charge>,
    in_flight: usize,
    most_in_flight: usize,
    cache: Option<cache::Cache>,
}

impl FakeModel {
    /// Starts one on a free port.
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            held: Semaphore::new(0),
        });
        Self {
            server: Server::start("fake-model", serve::routes(Arc::clone(&shared))),
            shared,
        }
    }

    /// Returns the `base_url` for the configuration.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Caches prompts from now on, as Anthropic documents it.
    pub(crate) fn caches(&self) {
        lock(&self.shared.state).cache = Some(cache::Cache::default());
    }

    /// Lets time pass for the prompt cache.
    pub(crate) fn later(&self, time: Duration) {
        if let Some(cache) = &mut lock(&self.shared.state).cache {
            cache.later(time);
        }
    }

    /// Returns for each request how it met the cache.
    pub(crate) fn met(&self) -> Vec<Met> {
        lock(&self.shared.state)
            .cache
            .as_ref()
            .map(|cache| cache.met.clone())
            .unwrap_or_default()
    }

    /// Queues a reply; the queue goes before the script.
    pub(crate) fn push(&self, reply: Reply) {
        lock(&self.shared.state).replies.push_back(reply);
    }

    /// Queues a reply for a sub-agent alone: it asks while its sender does, and either may be first.
    pub(crate) fn push_to_sub_agent(&self, reply: Reply) {
        lock(&self.shared.state).of_sub_agents.push_back(reply);
    }

    /// Forgets the replies that nobody has fetched, and returns how many they were.
    pub(crate) fn forget(&self) -> usize {
        let mut state = lock(&self.shared.state);
        let own = std::mem::take(&mut state.replies);
        own.len() + std::mem::take(&mut state.of_sub_agents).len()
    }

    /// Forgets the requests so far.
    pub(crate) fn forget_requests(&self) {
        let mut state = lock(&self.shared.state);
        state.exchanges.clear();
        state.bill.clear();
    }

    /// Queues what the next recording gets: words, a status, a disconnect or nothing for ever. Without
    /// one the words are `heard N bytes`.
    pub(crate) fn push_heard(&self, reply: Reply) {
        lock(&self.shared.state).heard.push_back(reply);
    }

    /// Forgets what recordings were to get.
    pub(crate) fn forget_heard(&self) {
        lock(&self.shared.state).heard.clear();
    }

    /// Returns every recording, in order of arrival, without malformed ones.
    pub(crate) fn recordings(&self) -> Vec<Recording> {
        lock(&self.shared.state).recordings.clone()
    }

    /// Queues what is found in the next conversation that is read for facts. Without one it is nothing.
    pub(crate) fn push_found(&self, reply: Reply) {
        lock(&self.shared.state).found.push_back(reply);
    }

    /// Returns the requests to read a conversation for facts, in order of arrival; they are none of [`Self::requests`].
    pub(crate) fn readings(&self) -> Vec<Value> {
        lock(&self.shared.state).readings.clone()
    }

    /// Lets one held answer end, now or when it comes.
    pub(crate) fn go_on(&self) {
        self.shared.held.add_permits(1);
    }

    /// Returns the body of every request, in order of arrival, refused ones included.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.exchanges()
            .into_iter()
            .map(|exchange| exchange.body)
            .collect()
    }

    /// Returns every request with its headers.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        lock(&self.shared.state).exchanges.clone()
    }

    /// Returns the bodies as soon as there are `count`; panics when they do not come.
    pub(crate) fn wait_requests(&self, count: usize, timeout: Duration) -> Vec<Value> {
        match look_until(timeout, || {
            Some(self.requests()).filter(|requests| requests.len() >= count)
        }) {
            Some(requests) => requests,
            None => panic!(
                "{} model requests within {timeout:?}, not {count}",
                self.requests().len()
            ),
        }
    }

    /// Returns the usage reported so far: answers begun, scripted or queued as text or tool. Errors, hangs,
    /// disconnects and raw streams report none.
    pub(crate) fn tokens_served(&self) -> Usage {
        lock(&self.shared.state).served
    }

    /// Returns what was charged: every answer, of vectors and to recordings too. Of what broke off nobody knows.
    pub(crate) fn bill(&self) -> Vec<Charge> {
        lock(&self.shared.state).bill.clone()
    }

    /// Returns how many requests are being worked on; a client that hangs up leaves the count.
    pub(crate) fn in_flight(&self) -> usize {
        lock(&self.shared.state).in_flight
    }

    /// Returns the most that were worked on at one time.
    pub(crate) fn most_in_flight(&self) -> usize {
        lock(&self.shared.state).most_in_flight
    }
}

impl Shared {
    fn usage(&self, wire: Wire, body: &Value, body_bytes: usize, output: &Output) -> Usage {
        let plain = Usage::of(body_bytes, output);
        match (&mut lock(&self.state).cache, wire) {
            (Some(cache), Wire::Anthropic) => {
                let met = cache.meet(body);
                Usage {
                    input: met.rest,
                    cache_read: met.read,
                    cache_write: met.written,
                    ..plain
                }
            }
            _ => plain,
        }
    }

    fn serve(&self, model: &Value, usage: Usage) {
        let mut state = lock(&self.state);
        state.served.input += usage.input;
        state.served.output += usage.output;
        state.bill.push(Charge {
            model: model.as_str().unwrap_or_default().to_owned(),
            usage,
            sound: 0,
        });
    }

    fn charge(&self, model: &str, usage: Usage, sound: usize) {
        lock(&self.state).bill.push(Charge {
            model: model.to_owned(),
            usage,
            sound,
        });
    }
}

impl Usage {
    fn of(body_bytes: usize, output: &Output) -> Self {
        let chars = match output {
            Output::Text(text) => text.chars().count(),
            Output::Tools(calls) => calls
                .iter()
                .map(|(name, input)| name.chars().count() + input.to_string().chars().count())
                .sum(),
        };
        let quarter = |size: usize| u64::try_from(size / 4).unwrap_or(u64::MAX).max(1);
        Self {
            input: quarter(body_bytes),
            output: quarter(chars),
            ..Self::default()
        }
    }
}
