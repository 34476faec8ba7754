//! Event streams: the one that carries an answer, resumed where it was interrupted, and the one with messages that the
//! server sends unasked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use reqwest::header::{ACCEPT, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use tokio::time::sleep;

use super::{SILENCE, Shared, is_event_stream};
use crate::mcp::Error;
use crate::mcp::json_rpc;
use crate::mcp::json_rpc::{MAX_MESSAGE, Message};
use crate::net;
use crate::net::sse::Events;

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Messages that may be before the answer in one stream; on the other stream so many in [`WINDOW`].
const MAX_BEFORE: usize = 2000;
const WINDOW: Duration = Duration::from_secs(60);
/// A stream that ended is taken up again after so long, unless the server says another time; its shortest and longest.
const RETRY: Duration = Duration::from_secs(1);
const RETRIES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// How often in a row a stream is taken up again without a word on it.
const MAX_RESUMED: u32 = 5;
/// The longest wait before the server is asked again to speak by itself.
const LONGEST_REST: Duration = Duration::from_secs(120);

type Chunks = Pin<Box<dyn Stream<Item = Result<Vec<u8>, reqwest::Error>> + Send>>;

fn events(response: Response) -> Events<Chunks> {
    let chunks = response.bytes_stream();
    Events::new(
        Box::pin(chunks.map(|chunk| chunk.map(|bytes| bytes.to_vec()))),
        SILENCE,
    )
}

/// How the reading of a stream ended.
enum Read {
    Answer(Result<Value, Error>),
    /// It broke off; carries why, when it was not a plain end.
    Ended(String),
}

impl Shared {
    /// Returns the answer to the request `id` from a stream, and from what follows when that breaks off and its events
    /// have ids.
    pub(super) async fn answer_in_events(
        self: &Arc<Self>,
        response: Response,
        id: u64,
    ) -> Result<Value, Error> {
        let mut stream = events(response);
        let (mut before, mut silent) = (0, 0);
        loop {
            let heard = before;
            let why = match self.read_up_to(&mut stream, id, &mut before).await {
                Read::Answer(answer) => {
                    stream.drain().await;
                    return answer;
                }
                Read::Ended(why) => why,
            };
            silent = if before > heard { 1 } else { silent + 1 };
            let Some(last) = stream.last_id().map(str::to_owned) else {
                return Err(Error::Protocol(why));
            };
            if silent > MAX_RESUMED {
                return Err(Error::Protocol(why));
            }
            let retry = stream.retry().unwrap_or(RETRY);
            sleep(retry.clamp(RETRIES.0, RETRIES.1)).await;
            match self.get(Some(&last)).await? {
                Some(response) => stream = events(response).after(last),
                None => return Err(Error::Protocol(why)),
            }
        }
    }

    async fn read_up_to(
        self: &Arc<Self>,
        stream: &mut Events<Chunks>,
        id: u64,
        before: &mut usize,
    ) -> Read {
        while *before < MAX_BEFORE {
            let event = match stream.next().await {
                Ok(Some(event)) => event,
                Ok(None) => {
                    return Read::Ended("its answer ended before it was complete".to_owned());
                }
                Err(error) => return Read::Ended(error.to_string()),
            };
            *before += 1;
            if event.len() > MAX_MESSAGE {
                let why = format!("it sent a message of more than {} MB", MAX_MESSAGE >> 20);
                return Read::Answer(Err(Error::Protocol(why)));
            }
            if let Some(answer) = self.hear(&event, Some(id)) {
                return Read::Answer(answer);
            }
        }
        Read::Answer(Err(flood()))
    }

    /// Hears a message; returns the answer to the request `id`.
    fn hear(self: &Arc<Self>, event: &str, id: Option<u64>) -> Option<Result<Value, Error>> {
        match json_rpc::read(event.as_bytes()) {
            Some(Message::Answer(of, answer)) if Some(of) == id => return Some(answer),
            Some(Message::Request(asked, method, params)) => {
                tokio::spawn(self.clone().reply(id, (asked, method, params)));
            }
            Some(Message::Notice(notice)) => self.signals.hear(&self.url, notice),
            Some(Message::Answer(..)) | None => {}
        }
        None
    }

    /// Answers what the server asks, because of the call `call` or by itself.
    async fn reply(
        self: Arc<Self>,
        call: Option<u64>,
        (id, method, params): (Value, String, Value),
    ) {
        let asked = async {
            match json_rpc::answer(&id, &method, &[]) {
                Some(answer) => Some(answer),
                None => {
                    let asked = (&id, method.as_str(), &params);
                    self.signals.asks.answer(call, asked).await
                }
            }
        };
        let answer = self.signals.over.run_until_cancelled(asked).await;
        if let Some(Some(answer)) = answer
            && let Err(error) = self.post(&answer).await
        {
            tracing::debug!(server = self.url, %error, "it does not take an answer");
        }
    }

    /// Returns a stream on which the server speaks: what follows the event `last`, or what it says from now on; `None`
    /// when it has none.
    async fn get(&self, last: Option<&str>) -> Result<Option<Response>, Error> {
        let last = last.and_then(|last| HeaderValue::from_str(last).ok());
        let request = || {
            let accept = HeaderValue::from_static("text/event-stream");
            let request = self.client.get(&self.url).header(ACCEPT, accept);
            match last.clone() {
                Some(last) => request.header(LAST_EVENT, last),
                None => request,
            }
        };
        let response = self.send_with_token(request).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Ok(None),
            status if status.is_success() => {
                Ok(Some(response).filter(|response| is_event_stream(response.headers())))
            }
            _ => Err(self.refusal(response).await),
        }
    }
}

fn flood() -> Error {
    Error::Protocol("it floods the agent with messages that nobody requested".to_owned())
}

/// Listens to what the server says by itself: that its tools changed, or that it forgot the session.
pub(super) async fn listen(shared: Arc<Shared>) {
    let (stop, over) = (shared.stop.clone(), shared.signals.over.clone());
    let listening = stop.run_until_cancelled(listen_on(&shared));
    over.run_until_cancelled(listening).await;
}

async fn listen_on(shared: &Arc<Shared>) {
    let (mut last, mut failures) = (None::<String>, 0);
    let (mut since, mut heard) = (Instant::now(), 0);
    loop {
        let mut rest = net::backoff(failures, RETRY, LONGEST_REST);
        match shared.get(last.as_deref()).await {
            Ok(Some(response)) => {
                let mut stream = events(response);
                while let Ok(Some(event)) = stream.next().await {
                    if since.elapsed() > WINDOW {
                        (since, heard) = (Instant::now(), 0);
                    }
                    heard += 1;
                    if heard > MAX_BEFORE || event.len() > MAX_MESSAGE {
                        *shared.signals.why.lock() = flood();
                        return shared.signals.over.cancel();
                    }
                    failures = 0;
                    shared.hear(&event, None);
                }
                last = stream.last_id().map(str::to_owned).or(last);
                let retry = stream
                    .retry()
                    .map(|retry| retry.clamp(RETRIES.0, RETRIES.1));
                rest = rest.max(retry.unwrap_or_default());
            }
            // It has no such stream, or wants none of ours.
            Ok(None) | Err(Error::Gone | Error::Protocol(_)) => return,
            Err(error) => tracing::debug!(server = shared.url, %error, "it cannot be listened to"),
        }
        failures = failures.saturating_add(1);
        sleep(rest).await;
    }
}
