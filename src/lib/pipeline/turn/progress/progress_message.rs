//! The message, or draft, that shows a turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{FAILURES, Scene};
use crate::channel::{Channel, SendError};
use crate::config::Stream;
use crate::message::Route;
use crate::provider::BoxFuture;

/// Between two changes (specification §6).
const PACE: Duration = Duration::from_secs(1);
/// In a group, which takes 20 calls a minute: some of them are for the answers.
const PACE_IN_GROUPS: Duration = Duration::from_secs(4);
/// A draft is shown for 30 s (core.telegram.org/bots/api#sendmessagedraft).
const RENEW: Duration = Duration::from_secs(20);
/// Tries to remove the message; after them the next start of the daemon has another.
const REMOVALS: u32 = 3;
/// Between them.
const REST: Duration = Duration::from_secs(2);

/// The message.
pub(super) struct Board {
    scene: Arc<Scene>,
    /// The number of the draft; `None` when it is a message.
    draft: Option<i64>,
    /// The message, when it stands.
    id: Option<String>,
    /// The message, while nobody knows its id yet. Not to be dropped: it would stand forever.
    coming: Option<BoxFuture<'static, Result<String, SendError>>>,
    /// Cancelled when something is in the chat.
    stands: CancellationToken,
    text: String,
    changed: Instant,
    /// No call before this.
    next: Instant,
    failures: u32,
}

impl Board {
    pub(super) fn new(scene: Arc<Scene>, run_id: &str) -> Self {
        let draft = (scene.stream == Stream::Draft && !scene.is_group).then(|| number(run_id));
        let now = Instant::now();
        Self {
            scene,
            draft,
            id: None,
            coming: None,
            stands: CancellationToken::new(),
            text: String::new(),
            changed: now,
            next: now,
            failures: 0,
        }
    }

    /// Returns what is cancelled when something is in the chat.
    pub(super) fn stands(&self) -> CancellationToken {
        self.stands.clone()
    }

    /// Returns whether others read it.
    pub(super) fn is_owners(&self) -> bool {
        self.scene.is_owners
    }

    /// Returns when `text` may be shown; what is shown already need not be for long.
    pub(super) fn due(&self, text: &str) -> Instant {
        if text != self.text {
            return self.next;
        }
        let renew = if self.draft.is_some() {
            RENEW
        } else {
            Duration::from_secs(24 * 3600)
        };
        self.next.max(self.changed + renew)
    }

    /// Shows `text`; false when nothing more can be shown in this turn. It may be given up at every
    /// moment.
    pub(super) async fn put(&mut self, text: String) -> bool {
        let (channel, chat) = (&self.scene.channel, &self.scene.route.chat);
        let new = self.draft.is_none() && self.id.is_none();
        let result = match (self.draft, &self.id) {
            (Some(number), _) => channel.draft(chat, number, &text).await,
            (None, Some(id)) => channel.change(chat, id, &text).await,
            (None, None) => self.show(&text).await,
        };
        let now = Instant::now();
        self.next = now
            + if self.scene.is_group {
                PACE_IN_GROUPS
            } else {
                PACE
            };
        let Err(error) = result else {
            (self.text, self.changed, self.failures) = (text, now, 0);
            self.stands.cancel();
            return true;
        };
        tracing::debug!(%error, "the progress of a turn could not be shown");
        match error {
            SendError::Never {
                chat_is_there: true,
                ..
            } if self.draft.is_some() => {
                // Not every chat takes drafts.
                (self.draft, self.next) = (None, now);
                return true;
            }
            SendError::Never { chat_is_there, .. } if new || !chat_is_there => return false,
            // It may be there, and nobody could remove it: at least there is no second one.
            SendError::Unknown(_) if new => return false,
            SendError::NotSent {
                retry_after: Some(wait),
                ..
            } => {
                self.next = self.next.max(now + wait);
                return true;
            }
            SendError::NotSent { .. }
            | SendError::Never { .. }
            | SendError::Markup(_)
            | SendError::Unknown(_) => {}
        }
        self.failures += 1;
        self.failures < FAILURES
    }

    async fn show(&mut self, text: &str) -> Result<(), SendError> {
        let (scene, text) = (self.scene.clone(), text.to_owned());
        let coming = self.coming.get_or_insert_with(|| {
            Box::pin(async move {
                let id = scene.channel.show(&scene.route.chat, &text).await?;
                scene.book.shows(&scene.route, &id).await;
                Ok(id)
            })
        });
        let result = coming.await;
        self.coming = None;
        self.id = Some(result?);
        Ok(())
    }

    /// Removes it. A draft goes by itself.
    pub(super) async fn clear(mut self) {
        if let Some(coming) = self.coming.take() {
            self.id = coming.await.ok();
        }
        let Some(id) = &self.id else { return };
        let Scene {
            channel,
            route,
            book,
            ..
        } = &*self.scene;
        if take_back(channel.as_ref(), route, id).await {
            book.hides(route, id).await;
        }
    }
}

/// Removes a message that is shown for a time; false when that did not work.
pub(in crate::pipeline) async fn take_back(channel: &dyn Channel, route: &Route, id: &str) -> bool {
    for tried in 1..=REMOVALS {
        let wait = match channel.remove(&route.chat, id).await {
            Ok(()) | Err(SendError::Never { .. }) => return true,
            Err(SendError::NotSent { retry_after, .. }) => retry_after.unwrap_or(REST),
            Err(SendError::Unknown(_) | SendError::Markup(_)) => REST,
        };
        if tried < REMOVALS {
            sleep(wait).await;
        }
    }
    tracing::warn!(
        chat = route.chat.chat,
        "could not remove a progress message or a notice; it is removed at the next start"
    );
    false
}

/// Returns the number of a run's draft. Drafts are told apart within a chat only.
fn number(run_id: &str) -> i64 {
    let random = uuid::Uuid::parse_str(run_id).map_or(1, |id| id.as_u64_pair().1 & 0x7fff_ffff);
    i64::try_from(random.max(1)).unwrap_or(1)
}
