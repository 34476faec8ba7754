//! Step 1, intake: who may speak, which conversation it is, and the one transaction that makes
//! it ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Pipeline, Signal};
use crate::channel::{Batch, Incoming};
use crate::clock;
use crate::config::{Config, DmScope};
use crate::message::{Envelope, Route, SessionKey, Source, Trust};
use crate::people::{self, Access, Contact};
use crate::queue::{Accepted, Arrival, NewPart, Verdict};

impl Pipeline {
    /// Takes a batch of a channel in and answers it when it is on the disk. When it could not be
    /// written the answer stays out, and the channel brings the same again.
    pub async fn take_batch(self: &Arc<Self>, batch: Batch, channel: &'static str) {
        let now = clock::now_ms();
        let live = self.live();
        // Strangers who are given a code with this batch.
        let mut asking: BTreeMap<i64, (String, String)> = BTreeMap::new();
        let arrivals: Vec<Arrival> = batch
            .items
            .into_iter()
            .map(|item| Arrival { key: item.key.clone(), verdict: self.judge(item, &live.config, channel, now, &mut asking) })
            .collect();
        match self.queue.accept(arrivals, Some(batch.offset), now).await {
            Ok((accepted, notices)) => {
                // The poller may be gone; what is accepted stays accepted.
                let _ = batch.done.send(());
                self.write_down_requests(asking, now).await;
                self.know(&accepted).await;
                self.deliver(notices);
                let _ = self.signals.send(Signal::Accepted(accepted));
            }
            Err(error) => {
                tracing::error!(%error, "messages could not be taken in");
                self.note_trouble(&format!("messages could not be taken in: {error}"));
            }
        }
    }

    /// Puts those who wrote into the address book.
    async fn know(self: &Arc<Self>, accepted: &[Accepted]) {
        let contact = |row: &Accepted| {
            let sender = &row.envelope.sender;
            Some(Contact { id: sender.id.parse().ok()?, name: sender.name.clone(), username: sender.username.clone() })
        };
        let people: Vec<Contact> = accepted.iter().filter_map(contact).collect();
        let news = self.people.read().is_ok_and(|known| people.iter().any(|one| !known.contacts.contains(one)));
        if !news {
            return;
        }
        let pipeline = self.clone();
        match tokio::task::spawn_blocking(move || pipeline.people.know(&people)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a name could not be written down"),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    async fn write_down_requests(self: &Arc<Self>, asking: BTreeMap<i64, (String, String)>, now: i64) {
        if asking.is_empty() {
            return;
        }
        let pipeline = self.clone();
        let written = tokio::task::spawn_blocking(move || {
            asking.iter().try_for_each(|(id, (name, code))| pipeline.people.ask(*id, name, code, now))
        });
        match written.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "a stranger's request could not be written down; they can ask again"),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn judge(
        &self,
        item: Incoming,
        config: &Config,
        channel: &'static str,
        now: i64,
        asking: &mut BTreeMap<i64, (String, String)>,
    ) -> Verdict {
        // Groups are another part of the house: nothing of theirs is kept.
        let Some(sender) = item.sender.clone().filter(|_| item.private) else { return Verdict::Refuse(None) };
        let Ok(id) = sender.id.parse::<i64>() else { return Verdict::Refuse(None) };
        let notice = |text: String| {
            let route = Route { channel: channel.to_owned(), chat: item.chat.clone() };
            Verdict::Refuse(Some(NewPart { route, reply_to: None, markup: None, plain: text }))
        };
        let access = self.people.decide(&config.telegram, id, &sender.name, &item.text, now);
        let owner = match access {
            Access::Owner => true,
            Access::Allowed => false,
            Access::BecameOwner => return notice(format!("Hello {}, you are my owner now.", sender.name)),
            Access::MayAsk if asking.contains_key(&id) || asking.len() >= self.people.free_requests(now) => {
                return Verdict::Refuse(None);
            }
            Access::MayAsk => {
                let code = people::new_code();
                asking.insert(id, (sender.name.clone(), code.clone()));
                return notice(format!(
                    "I do not know you yet. My owner can let you in, within an hour, with:\n\nagent-send --pair approve {code}"
                ));
            }
            Access::Refused => return Verdict::Refuse(None),
        };
        let key = dm_key(config, &sender.id, &item.chat.chat);
        let envelope = Envelope::new(item.key, Source::Telegram, sender, key, item.text, now);
        Verdict::Accept(vec![Envelope {
            from_owner: owner,
            trust: if owner && !item.forwarded { Trust::Owner } else { Trust::Other },
            route: Some(Route { channel: channel.to_owned(), chat: item.chat }),
            reply_to: Some(item.message_id),
            kind: item.kind,
            command: item.command,
            ..envelope
        }])
    }
}

/// Returns the conversation of a direct message of the user `sender` in `chat`.
pub(super) fn dm_key(config: &Config, sender: &str, chat: &str) -> SessionKey {
    let name = &config.agent.name;
    SessionKey(match config.session.dm_scope {
        DmScope::Sender => format!("agent:{name}:telegram:dm:{sender}"),
        DmScope::Chat => format!("agent:{name}:telegram:dm:{chat}"),
        DmScope::Main => format!("agent:{name}:main"),
    })
}
