//! Progress in the chat while the agent works on a message.
//!
//! | since the turn began | what is shown |
//! |---|---|
//! | 250 ms | "typing", renewed every 4 s |
//! | 5 s | one line: "Thinking (step 3)", "Running command" |
//! | 1 s after its first words | with `stream`, what is written so far; the line is below it while a tool runs |
//!
//! All of it is one message (or one draft), which is removed before the answer appears; the answer is a separate message. A
//! [`Progress`] is tied to its turn; however that ends, nothing is shown after it.

mod live_text;
pub(in crate::pipeline) mod progress_message;
mod status_line;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::agent::Written;
use crate::channel::{Channel, SendError};
use crate::config::Stream;
use crate::message::{AgentEvent, Envelope, Route, Step};
use crate::pipeline::{Live, Pipeline};
use crate::provider::BoxFuture;
use crate::queue;
use live_text::{Said, Words};
use progress_message::Board;
use status_line::Line;

/// A quick answer needs no "typing"; Telegram shows one for 5 s, so it is renewed every 4.
const TYPING: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));
/// Failures in a row after which nobody tries any more, neither to show "typing" nor to edit.
const FAILURES: u32 = 3;
/// Who is to stay away for so long (a flood, a wrong token) has no turn that would still need it.
const TOO_LONG: Duration = Duration::from_secs(60);
/// When the line comes (specification §6).
const LINE: Duration = Duration::from_secs(5);
/// Words are shown this long after the first of them: an answer that is whole by then comes alone.
const WORDS: Duration = Duration::from_secs(1);
/// Between two looks at what is written.
const LOOK: Duration = Duration::from_millis(250);
/// An answer waits no longer than this for the message to be gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where and how a turn is shown.
struct Scene {
    channel: Arc<dyn Channel>,
    route: Route,
    is_group: bool,
    /// Whether nobody but an owner reads it.
    is_owners: bool,
    /// Whether "typing" is shown.
    types: bool,
    stream: Stream,
    book: Arc<dyn Book>,
}

/// Records the messages that are to be removed again.
trait Book: Send + Sync {
    /// Records that a message is shown.
    fn shows<'a>(&'a self, route: &'a Route, id: &'a str) -> BoxFuture<'a, ()>;

    /// Records that it was removed.
    fn hides<'a>(&'a self, route: &'a Route, id: &'a str) -> BoxFuture<'a, ()>;
}

impl Book for queue::Store {
    fn shows<'a>(&'a self, route: &'a Route, id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.shows(route, id).await {
                tracing::warn!(%error, "the progress message was not recorded; a crash now would leave it in the chat");
            }
        })
    }

    fn hides<'a>(&'a self, route: &'a Route, id: &'a str) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Err(error) = self.hides(route, id).await {
                tracing::warn!(%error, "the removal of a progress message was not recorded; it will be removed again at the next start");
            }
        })
    }
}

/// The progress messages of one turn, until it is dropped.
pub(crate) struct Progress {
    words: Option<Arc<Words>>,
    over: CancellationToken,
    task: JoinHandle<()>,
}

impl Progress {
    /// Takes in what the model writes.
    pub(crate) fn write(&self, written: Written<'_>) {
        if let Some(words) = &self.words {
            words.write(written);
        }
    }

    /// Ends it. When this returns nothing is shown any more, unless the channel took too long.
    pub(crate) async fn end(mut self) {
        self.over.cancel();
        // If it takes longer, it continues in the background.
        let _ = timeout(PATIENCE, &mut self.task).await;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // The task is not aborted: a message that is under way right now must be removed too.
        self.over.cancel();
    }
}

impl Pipeline {
    /// Begins to show a turn to the person who waits for it; `None` when nobody does in a chat.
    pub(crate) fn progress(
        &self,
        live: &Live,
        envelope: &Envelope,
        run_id: &str,
    ) -> Option<Progress> {
        let route = envelope
            .route
            .clone()
            .filter(|_| envelope.source.is_person())?;
        let display = live.config.display(&route.channel);
        let scene = Scene {
            channel: self.channels.get(route.channel.as_str())?.clone(),
            route,
            is_group: envelope.group.is_some(),
            is_owners: envelope.from_owner && envelope.group.is_none(),
            stream: display.stream,
            types: display.typing,
            book: Arc::new(self.queue.clone()),
        };
        let words = (scene.stream != Stream::Off).then(Arc::default);
        let over = CancellationToken::new();
        let work = perform(
            scene,
            run_id.to_owned(),
            live.agent.events(),
            words.clone(),
            over.clone(),
        );
        Some(Progress {
            words,
            over,
            task: self.previews.spawn(work),
        })
    }

    /// Removes what a daemon that died left in the chats: one try each, then it is forgotten. What turns
    /// show from now on is none of it.
    pub async fn clear_shown(self: &Arc<Self>) {
        let shown = match self.queue.shown().await {
            Ok(shown) => shown,
            Err(error) => {
                return tracing::warn!(%error, "cannot read which progress messages were shown when the agent last ended");
            }
        };
        let pipeline = self.clone();
        let work = async move {
            for (route, id, waiting) in shown {
                if let Some(inbox_id) = waiting {
                    pipeline.keep_notice(inbox_id, route, id);
                    continue;
                }
                // Those of a disabled channel are kept until it is enabled again.
                let Some(channel) = pipeline.channels.get(route.channel.as_str()) else {
                    continue;
                };
                if let Err(error) = channel.remove(&route.chat, &id).await {
                    tracing::warn!(%error, chat = route.chat.chat, "could not remove a progress message from the chat");
                }
                Book::hides(&pipeline.queue, &route, &id).await;
            }
        };
        self.previews.spawn(work);
    }

    /// Waits until nothing is left to remove, but no longer than `patience`.
    pub async fn previews_end(&self, patience: Duration) {
        self.previews.close();
        // What is left is in the queue.
        let _ = timeout(patience, self.previews.wait()).await;
    }
}

/// Shows a turn until it is `over`, then takes everything back.
async fn perform(
    scene: Scene,
    run_id: String,
    events: broadcast::Receiver<AgentEvent>,
    words: Option<Arc<Words>>,
    over: CancellationToken,
) {
    let scene = Arc::new(scene);
    let mut board = Board::new(scene.clone(), &run_id);
    let stands = board.stands();
    let sign = async {
        tokio::select! {
            () = typing(&scene) => {}
            // In a group the message is the sign: its 20 calls a minute are for the answers too.
            () = stands.cancelled(), if scene.is_group => {}
        }
    };
    let show = async { tokio::join!(sign, watch(&mut board, &run_id, events, words.as_deref())) };
    over.run_until_cancelled(show).await;
    board.clear().await;
}

/// Keeps the message in step with the run, until it cannot be shown any more.
async fn watch(
    board: &mut Board,
    run_id: &str,
    mut events: broadcast::Receiver<AgentEvent>,
    words: Option<&Words>,
) {
    let began = Instant::now();
    let is_owners = board.is_owners();
    let mut line = Line::new(!is_owners);
    loop {
        let now = Instant::now();
        let said = words.and_then(|words| words.read(now));
        let line_now = Some(&line).filter(|_| now >= began + LINE);
        let mut wake = match words {
            Some(_) => now + LOOK,
            None if line_now.is_none() => began + LINE,
            None => now + Duration::from_secs(3600),
        };
        if let Some(text) = page(said, line_now) {
            let due = board.due(&text);
            if due <= now {
                if board.put(text).await {
                    continue;
                }
                return;
            }
            wake = wake.min(due);
        }
        tokio::select! {
            event = events.recv() => match event {
                // What a tool says is the owner's; in a group and in another person's chat others would read it.
                Ok(AgentEvent { step: Step::ToolOutput { .. }, .. }) if !is_owners => {}
                Ok(event) if event.run_id == run_id => line.apply(&event.step),
                // Others', or too many at once: the next one of ours says how it is.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            () = sleep_until(wake) => {}
        }
    }
}

/// Returns what is shown of an answer and the line. While words come they are sign enough.
fn page(said: Option<Said>, line: Option<&Line>) -> Option<String> {
    match (said, line) {
        (Some(said), Some(line)) if !said.coming || line.is_tool() => {
            Some(format!("{}\n\n⏳ {}", said.text, line.text()))
        }
        (Some(said), _) => Some(said.text),
        (None, line) => line.map(Line::text),
    }
}

/// Shows "typing" until nobody can.
async fn typing(scene: &Scene) {
    if !scene.types {
        return std::future::pending().await;
    }
    sleep(TYPING.0).await;
    let mut failures = 0;
    while failures < FAILURES {
        let mut pause = TYPING.1;
        match scene.channel.typing(&scene.route.chat).await {
            Ok(()) => failures = 0,
            Err(error) => {
                tracing::debug!(%error, "typing could not be shown");
                failures += 1;
                match error {
                    SendError::Never { .. } => return,
                    SendError::NotSent {
                        retry_after: Some(wait),
                        ..
                    } if wait >= TOO_LONG => return,
                    SendError::NotSent {
                        retry_after: Some(wait),
                        ..
                    } => pause = pause.max(wait),
                    SendError::NotSent { .. } | SendError::Markup(_) | SendError::Unknown(_) => {}
                }
            }
        }
        sleep(pause).await;
    }
}

#[cfg(test)]
mod tests;
