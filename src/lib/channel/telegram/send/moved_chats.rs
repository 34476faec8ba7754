//! The new target of a call whose chat no longer exists: a group that became a supergroup with a new id, or a deleted topic.

use super::api::Error;
use super::call::Target;
use super::classify_error;
use crate::channel::telegram::Telegram;

/// Other ids tried for one call. One is the rule; a server that redirects in circles ends here.
const MAX_MOVES: usize = 2;

impl Telegram {
    /// Returns where a call goes that failed with `error`; `moves` counts the new ids of the call so far.
    ///
    /// # Errors
    /// `error` itself, when it does not say that the chat or the topic is elsewhere.
    pub(super) fn instead(
        &self,
        target: Target,
        error: Error,
        moves: &mut usize,
    ) -> Result<Target, Error> {
        match error {
            Error::Refused {
                moved_to: Some(new),
                ..
            } if *moves < MAX_MOVES && new != target.chat => {
                *moves += 1;
                self.note_move(target.chat, new);
                Ok(self.moved(target))
            }
            // In the wrong place of the right group is better than nowhere.
            _ if target.topic.is_some() && classify_error::topic_is_gone(&error) => {
                tracing::warn!(
                    chat = target.chat,
                    topic = target.topic,
                    "a topic no longer exists; its messages are sent to the chat"
                );
                Ok(Target {
                    topic: None,
                    ..target
                })
            }
            error => Err(error),
        }
    }

    /// Returns where a chat is now. Its messages and topics stayed at the old id.
    pub(super) fn moved(&self, target: Target) -> Target {
        let moved = self.moved_groups.lock();
        moved.get(&target.chat).map_or(target, |new| Target {
            chat: *new,
            topic: None,
            message: None,
        })
    }

    fn note_move(&self, old: i64, new: i64) {
        tracing::warn!(
            old,
            new,
            "a group has a new id: change it in [telegram.groups] of agent.toml, or its messages are ignored"
        );
        let mut moved = self.moved_groups.lock();
        // Whoever was sent to the old id goes to the newest at once.
        for id in moved.values_mut().filter(|id| **id == old) {
            *id = new;
        }
        moved.remove(&new);
        moved.insert(old, new);
    }
}
