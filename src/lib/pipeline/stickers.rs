//! Stickers of `[agent.stickers]`: their description for a persona, and sending one.

use std::sync::Arc;
use std::time::Duration;

use super::Pipeline;
use super::turn::attachments::Place;
use super::turn::outcome::{Outcome, Saying, refused};
use super::turn::run::TurnContext;
use crate::channel::{Channel, FetchError};
use crate::control::replies::{Reply, Status};
use crate::message::{Envelope, Media, MediaKind, OutFile, Sticker};
use crate::queue::Ended;
use crate::text::{shorten, visible};

/// Characters of a description in the prompt: a set may have 120 stickers.
const DESCRIBED: usize = 120;
/// The number of names that are listed when a requested sticker does not exist.
const NAMED: usize = 60;
/// How long a channel is asked for a sticker that is to be sent: the words of others go out after it.
const LOOK_UP: Duration = Duration::from_secs(5);

impl Pipeline {
    /// Returns the stickers that the agent may send, one a line, with what each appears as where that is known or the
    /// message may still have it looked at.
    pub(crate) async fn sticker_lines(
        self: &Arc<Self>,
        context: &TurnContext<'_>,
        session_id: &str,
    ) -> Vec<String> {
        let TurnContext {
            live,
            envelope,
            run_id,
            run,
            model,
            looks,
            ..
        } = context;
        let wanted = self.wanted_stickers(context).await;
        let place = Place {
            pipeline: self,
            live,
            envelope,
            run_id,
            session_id,
            cancel: &run.cancel,
            model,
            budget: looks,
        };
        let files: Vec<&Media> = wanted
            .iter()
            .filter_map(|(_, media)| media.as_ref())
            .collect();
        let mut words = place.in_words(&files).await.into_iter();
        let line = |(name, media): &(String, Option<Media>)| {
            let words = media.as_ref().and_then(|_| words.next()).flatten();
            match words {
                Some(words) => format!("{name} (appears as: {})", on_a_line(&words, DESCRIBED)),
                None => name.clone(),
            }
        };
        wanted.iter().map(line).collect()
    }

    /// Returns `SET :: NAME` of each sticker that may be sent, with its file where the channel knows it.
    async fn wanted_stickers(&self, context: &TurnContext<'_>) -> Vec<(String, Option<Media>)> {
        let config = &context.live.config.agent.stickers;
        let mut wanted: Vec<(String, Option<Media>)> = Vec::new();
        let channel = self.channel(context.envelope).map(|(channel, _)| channel);
        if let Some(channel) = &channel {
            for set in &config.sets {
                match channel.stickers(set).await {
                    Ok(stickers) => wanted.extend(stickers.into_iter().map(|sticker| {
                        let name = on_a_line(&sticker.name, 80);
                        (format!("{set} :: {name}"), Some(sticker.media))
                    })),
                    Err(error) => tracing::warn!(set, %error, "cannot fetch a sticker set"),
                }
            }
        }
        for written in &config.stickers {
            if wanted.iter().any(|(name, _)| name == written) {
                continue;
            }
            let found = match (&channel, written.split_once("::")) {
                (Some(channel), Some((set, name))) => channel
                    .sticker(set.trim(), name.trim())
                    .await
                    .ok()
                    .flatten(),
                _ => None,
            };
            wanted.push((written.clone(), found.map(|sticker| sticker.media)));
        }
        wanted
    }

    /// Returns a sticker that may be sent, ready to go; `None` when it may not, or there is none of that name.
    pub(super) async fn sticker_file(
        &self,
        channel: &dyn Channel,
        set: &str,
        name: &str,
    ) -> Result<Option<OutFile>, FetchError> {
        if !self.live().config.agent.stickers.allow(set, name) {
            tracing::warn!(set, name, "a sticker is not in [agent.stickers]");
            return Ok(None);
        }
        let found = channel.sticker(set, name).await?;
        Ok(found.map(|sticker| OutFile {
            kind: MediaKind::Sticker,
            path: String::new(),
            filename: format!("{set} :: {name}"),
            handle: Some(sticker.media.handle),
        }))
    }

    /// Returns how a sticker is sent that the agent sends in addition to its answer.
    pub(super) async fn send_sticker(&self, envelope: &Envelope, set: &str, name: &str) -> Outcome {
        let Some((channel, _)) = self.channel(envelope) else {
            return refused(envelope, "its channel is off");
        };
        let file = self.sticker_file(channel.as_ref(), set, name);
        match in_time(file).await {
            Ok(Some(file)) => {
                let reply = Reply {
                    reply: Some(String::new()),
                    ..Reply::new(&envelope.id, Status::Done)
                };
                Outcome::new(Ended::Done, reply, Some(Saying::Sticker(file)))
            }
            Err(error) => refused(envelope, &format!("{set} :: {name}: {error}")),
            Ok(None) => {
                let known = in_time(channel.stickers(set)).await.unwrap_or_default();
                refused(envelope, &self.no_such_sticker(set, name, &known))
            }
        }
    }

    fn no_such_sticker(&self, set: &str, name: &str, known: &[Sticker]) -> String {
        let config = &self.live().config.agent.stickers;
        let of_set = known
            .iter()
            .map(|sticker| format!("{set} :: {}", on_a_line(&sticker.name, 80)))
            .filter(|_| config.sets.iter().any(|one| one == set));
        let there: Vec<String> = of_set.chain(config.stickers.clone()).take(NAMED).collect();
        let (set, name) = (on_a_line(set, 80), on_a_line(name, 80));
        match there.is_empty() {
            true => format!(
                "you may send no sticker {set} :: {name}; the sets are {}",
                config.sets.join(", ")
            ),
            false => format!(
                "you may send no sticker {set} :: {name}; there are {}",
                there.join(", ")
            ),
        }
    }
}

/// Returns what a channel is asked for, unless that takes longer than [`LOOK_UP`].
async fn in_time<T>(asked: impl Future<Output = Result<T, FetchError>>) -> Result<T, FetchError> {
    let answer = tokio::time::timeout(LOOK_UP, asked).await;
    answer.unwrap_or_else(|_| {
        let secs = LOOK_UP.as_secs();
        let why = format!("the channel has not answered within {secs} seconds");
        Err(FetchError::Again(why))
    })
}

/// Returns words that others chose, short, on one line and without marks of the system.
fn on_a_line(words: &str, most: usize) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    shorten(&visible(&words.join(" ").replace(['⟦', '⟧'], "")), most)
}
