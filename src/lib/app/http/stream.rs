//! An answer while it is written, as server-sent events (html.spec.whatwg.org, "Server-sent events"):
//!
//! ```text
//! event: accepted     data: {"id":"…"}
//! event: delta        data: {"text":"Let me "}        … concatenated they end with the reply
//! event: approval     data: {"id","tool","text","why","expires_at"}       it waits for the owner's decision
//! event: step         data: {"state","turn"?,"tool"?,"tail"?,"duration_ms"?,"is_error"?,"why"?}     with "steps": true
//! event: done         data: the document of `chat`     or     event: error   data: {"error":{…}}
//! ```
//!
//! A comment is sent from time to time, so that no proxy closes an idle connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::error::ApiError;
use super::steps::Steps;
use super::wait::{Answer, ReplyWatch, Update, outcome};
use super::{Api, openai};
use crate::app::documents;
use crate::control::Id;
use crate::control::replies::Ask;

/// What grows is looked at this often: nobody reads faster.
const POLL_INTERVAL: Duration = Duration::from_millis(30);
/// Between two comments.
const ALIVE: Duration = Duration::from_secs(15);
/// Pieces that a slow reader may be behind.
const BEHIND: usize = 16;

/// How the pieces are written.
pub(super) enum Form {
    /// As above; with `steps`, what it does is told too.
    Own { steps: bool },
    /// As OpenAI's chat completions.
    Completion(openai::completions::Chunks),
    /// As OpenAI's responses.
    Response(Box<openai::responses::Events>),
}

/// Something that happens while an answer is written.
pub(super) enum Piece<'a> {
    Accepted(&'a Id),
    Delta(&'a str),
    Ask(&'a Ask),
    Step(&'a Value),
    Done(&'a Answer),
    Failed(&'a ApiError),
}

/// Returns the events of a message that was accepted. Without a reader the message is still processed. But a client of OpenAI's
/// API knows no other way to stop it than to leave: when the last one has, it is stopped.
pub(super) fn events(api: Arc<Api>, id: Id, form: Form) -> Response {
    let (sender, receiver) = mpsc::channel(BEHIND);
    let leaving_stops = !matches!(form, Form::Own { .. });
    if leaving_stops {
        *api.readers.lock().entry(id.clone()).or_default() += 1;
    }
    tokio::spawn(async move {
        let shutdown = api.shutdown.clone();
        let mut writer = Writer {
            form,
            sender,
            quiet_since: Instant::now(),
        };
        // A reader that reads no more is not waited for when the daemon ends; others get their last word.
        let grace = async {
            shutdown.cancelled().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        };
        let has_left = tokio::select! {
            written = write(&api, &id, &mut writer) => written.is_err(),
            () = grace => false,
        };
        if leaving_stops && is_last(&api, &id) && has_left {
            api.pipeline.stop_message(&id).await;
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        let piece: Bytes = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), receiver))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, Body::from_stream(pieces)).into_response()
}

/// Takes a reader of this message off; true when it was the last one.
fn is_last(api: &Api, id: &Id) -> bool {
    let mut readers = api.readers.lock();
    let left = readers.get_mut(id).map_or(0, |count| {
        *count -= 1;
        *count
    });
    if left == 0 {
        readers.remove(id);
    }
    left == 0
}

/// The reader has gone.
struct Gone;

struct Writer {
    form: Form,
    sender: mpsc::Sender<Bytes>,
    quiet_since: Instant,
}

impl Writer {
    async fn put(&mut self, piece: Piece<'_>) -> Result<(), Gone> {
        let text = match &mut self.form {
            Form::Own { .. } => own(&piece),
            Form::Completion(chunks) => chunks.piece(&piece),
            Form::Response(events) => events.piece(&piece),
        };
        if text.is_empty() {
            Ok(())
        } else {
            self.send(text).await
        }
    }

    async fn stay_alive(&mut self) -> Result<(), Gone> {
        if self.sender.is_closed() {
            return Err(Gone);
        }
        if self.quiet_since.elapsed() < ALIVE {
            Ok(())
        } else {
            self.send(": alive\n\n".to_owned()).await
        }
    }

    async fn send(&mut self, text: String) -> Result<(), Gone> {
        self.quiet_since = Instant::now();
        self.sender.send(text.into()).await.map_err(|_| Gone)
    }
}

async fn write(api: &Api, id: &Id, writer: &mut Writer) -> Result<(), Gone> {
    writer.put(Piece::Accepted(id)).await?;
    let watch = ReplyWatch::new(api, id);
    let mut part = documents::reply::Part::of(&api.home, id);
    let mut steps = matches!(writer.form, Form::Own { steps: true }).then(|| Steps::of(api));
    let mut told: Vec<String> = Vec::new();
    let mut looked = Instant::now();
    let mut known = match documents::reply(&api.home, id) {
        Ok(known) => known.map(Box::new),
        Err(failure) => return writer.put(Piece::Failed(&failure.into())).await,
    };
    loop {
        let run = known.as_ref().and_then(|reply| reply.run_id.as_deref());
        for step in steps.iter_mut().flat_map(|steps| steps.new_of(run)) {
            writer.put(Piece::Step(&step)).await?;
        }
        let words = part.read();
        if !words.is_empty() {
            writer.put(Piece::Delta(&words)).await?;
        }
        if let Some(reply) = known.take_if(|reply| reply.is_final()) {
            return match outcome(*reply) {
                Ok(answer) => {
                    let rest = part.end(&answer.reply);
                    if !rest.is_empty() {
                        writer.put(Piece::Delta(&rest)).await?;
                    }
                    writer.put(Piece::Done(&answer)).await
                }
                Err(refusal) => writer.put(Piece::Failed(&refusal)).await,
            };
        }
        for ask in known.iter().flat_map(|reply| &reply.asks) {
            if !told.contains(&ask.id) {
                told.push(ask.id.clone());
                writer.put(Piece::Ask(ask)).await?;
            }
        }
        writer.stay_alive().await?;
        known = match watch.next(POLL_INTERVAL).await {
            Ok(Update::Got(reply)) => reply,
            Ok(Update::Closing) => return writer.put(Piece::Failed(&watch.closing())).await,
            Err(refusal) => return writer.put(Piece::Failed(&refusal)).await,
        };
        // The record, should the file not be written.
        if looked.elapsed() > Duration::from_secs(1) {
            looked = Instant::now();
            known = documents::reply(&api.home, id)
                .ok()
                .flatten()
                .map(Box::new)
                .or(known);
        }
    }
}

fn own(piece: &Piece<'_>) -> String {
    match piece {
        Piece::Accepted(id) => event("accepted", &json!({"id": id.as_str()})),
        Piece::Delta(text) => event("delta", &json!({"text": text})),
        Piece::Ask(ask) => event("approval", ask),
        Piece::Step(step) => event("step", step),
        Piece::Done(answer) => event("done", answer),
        Piece::Failed(refusal) => event("error", &refusal.document()),
    }
}

/// JSON has no line breaks of its own, so one line of data holds it.
fn event(name: &str, data: &impl serde::Serialize) -> String {
    format!(
        "event: {name}\ndata: {}\n\n",
        serde_json::to_string(data).unwrap_or_default()
    )
}
