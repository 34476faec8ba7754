//! Step 1, intake: who may speak, which conversation it is, and the one transaction that makes
//! it ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Live, Pipeline, Signal};
use crate::channel::{Batch, Incoming};
use crate::clock;
use crate::config::{Config, DmScope};
use crate::control::replies::{Reply, Status};
use crate::control::{self, Order};
use crate::db;
use crate::message::{Command, Envelope, Sender, SessionKey, Source, Trust};
use crate::people::{self, Access};
use crate::queue::{Arrival, NewPart, Verdict};

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
                self.deliver(notices);
                let _ = self.signals.send(Signal::Accepted(accepted));
            }
            Err(error) => {
                tracing::error!(%error, "messages could not be taken in");
                self.note_trouble(&format!("messages could not be taken in: {error}"));
            }
        }
    }

    /// Takes commands in, in one transaction: when it returns they are on the disk (or were
    /// before), and their spool files may go.
    ///
    /// # Errors
    /// See [`db::Error`]; the spool files must stay.
    pub async fn take_orders(&self, orders: &[Order]) -> Result<(), db::Error> {
        let now = clock::now_ms();
        let live = self.live();
        let arrival = |order: &Order| Arrival {
            key: format!("cmd:{}", order.id),
            verdict: Verdict::Accept(Box::new(self.envelope(order, &live, now))),
        };
        let arrivals = orders.iter().map(arrival).collect();
        let (accepted, _) = self.queue.accept(arrivals, None, now).await?;
        for row in accepted.iter().filter(|row| row.envelope.wants_reply) {
            self.answer(&Reply::new(&row.envelope.id, Status::Accepted));
        }
        let _ = self.signals.send(Signal::Accepted(accepted));
        Ok(())
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
            let part =
                NewPart { channel: channel.to_owned(), chat: item.chat.clone(), reply_to: None, markup: None, plain: text };
            Verdict::Refuse(Some(part))
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
        Verdict::Accept(Box::new(Envelope {
            id: item.key,
            source: Source::Telegram,
            from_owner: owner,
            trust: if owner && !item.forwarded { Trust::Owner } else { Trust::Other },
            session_key: dm_key(config, &sender, &item.chat.chat),
            chat: Some(item.chat),
            reply_to: Some(item.message_id),
            text: item.text,
            kind: item.kind,
            command: item.command,
            model: None,
            wants_reply: false,
            received_at: now,
            sender,
        }))
    }

    /// Returns an order as an input. What makes no sense is one too: it is answered once, like the
    /// rest.
    fn envelope(&self, order: &Order, live: &Live, now: i64) -> Envelope {
        let own_key = |name: &str| SessionKey(format!("cli:{name}"));
        let key = |session: &Option<String>, sender: &str| session.clone().map_or_else(|| own_key(sender), SessionKey);
        let refused = |reason: String| Some(Command::Refused { reason });
        let (sender, session_key, text, command, model, untrusted) = match &order.command {
            control::Command::User { text, sender, session, model, untrusted } => {
                let unknown = model.as_ref().and_then(|name| live.agent.client().models().get(name, "--model").err());
                // A lone word with a slash means in a shell what it means in a chat.
                let spoken = text.trim().strip_prefix('/').filter(|_| !untrusted).and_then(Command::named);
                let command = unknown.and_then(|error| refused(error.to_string())).or(spoken);
                (sender.as_str(), key(session, sender), text.clone(), command, model.clone(), *untrusted)
            }
            control::Command::Stop { session } => {
                ("cli", key(session, "cli"), String::new(), Some(Command::Stop { all: session.is_none() }), None, false)
            }
            control::Command::Reset { target } => {
                let key = self.sessions.find(target).unwrap_or_else(|| SessionKey(target.clone()));
                ("cli", key, String::new(), Some(Command::New), None, false)
            }
            control::Command::Reload | control::Command::Spool { .. } => {
                let reason = "this command goes into the FIFO, not into the spool".to_owned();
                ("cli", own_key("cli"), String::new(), refused(reason), None, false)
            }
        };
        Envelope {
            id: order.id.to_string(),
            source: Source::Cli,
            sender: Sender { id: sender.to_owned(), name: sender.to_owned() },
            // Whoever can write the spool is the owner, whatever name they give.
            from_owner: true,
            trust: if untrusted { Trust::Other } else { Trust::Owner },
            session_key,
            chat: None,
            reply_to: None,
            text,
            kind: None,
            command,
            model,
            wants_reply: order.answer,
            received_at: now,
        }
    }
}

fn dm_key(config: &Config, sender: &Sender, chat: &str) -> SessionKey {
    let name = &config.agent.name;
    SessionKey(match config.session.dm_scope {
        DmScope::Sender => format!("agent:{name}:telegram:dm:{}", sender.id),
        DmScope::Chat => format!("agent:{name}:telegram:dm:{chat}"),
        DmScope::Main => format!("agent:{name}:main"),
    })
}
