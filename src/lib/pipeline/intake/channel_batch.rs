//! Step 1, intake: access control, the conversation, and the transaction that accepts a message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::access::{AfterCommit, Meaning, SentCode};
use super::recipients::way_to;
use super::session_keys::dm_key;
use crate::channel::{Batch, Incoming};
use crate::clock;
use crate::message::{Address, Envelope, Route};
use crate::people::{Contact, People};
use crate::pipeline::{Live, Pipeline, Signal};
use crate::queue::{Accepted, Arrival, NewPart, Verdict};
use crate::{db, sys, text};

/// Albums that are remembered: their pictures come within seconds.
const ALBUMS: usize = 32;
/// The part of the status that tells of a damaged people.json.
const PEOPLE: &str = "people";

impl Pipeline {
    /// Takes a batch of a channel in and answers it when it is on disk. When it could not be
    /// written the answer stays out, and the channel brings the same again.
    pub async fn take_batch(self: &Arc<Self>, batch: Batch, channel: &str) {
        match self.take_items(batch.items, batch.offset, channel).await {
            // The poller may be gone; what is accepted stays accepted.
            Ok(_) => {
                self.end_troubles(channel);
                let _ = batch.done.send(());
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept messages");
                let words = format!("messages could not be accepted: {error}");
                self.note_trouble_of(channel, &words);
            }
        }
    }

    /// Takes what came through a channel in; it is on disk when this returns the keys of what became an input.
    ///
    /// # Errors
    /// See [`db::Error`]; nothing of it is then accepted.
    pub(crate) async fn take_items(
        self: &Arc<Self>,
        items: Vec<Incoming>,
        offset: Option<(i64, i64)>,
        channel: &str,
    ) -> Result<Vec<String>, db::Error> {
        let now = clock::now_ms();
        let live = self.live();
        self.part_ways(&live).await?;
        let mut after = AfterCommit::default();
        self.note_albums(&items);
        let arrival = |item: Incoming| Arrival {
            digest: item.digest.clone(),
            key: item.key.clone(),
            verdict: match item.press.clone() {
                Some(press) => self.judge_press(item, &press, &live, channel, now, &mut after),
                None => self.judge(item, &live.config, channel, now, &mut after),
            },
        };
        let arrivals: Vec<Arrival> = items.into_iter().map(arrival).collect();
        let (accepted, notices) = self.queue.accept(arrivals, offset, now).await?;
        self.write_down_people(&live, &accepted, &mut after, now)
            .await;
        self.deliver(notices);
        self.answer_presses(channel, after.presses);
        for (from, to) in after.moved {
            self.tell_of_move(channel, &from, &to).await;
        }
        // What was planned may be cancelled.
        if self.plans_open.load(Ordering::Relaxed) {
            self.plan_news.notify_one();
        }
        let keys = accepted.iter().map(|row| row.envelope.id.clone()).collect();
        let _ = self.signals.send(Signal::Accepted(accepted));
        Ok(keys)
    }

    /// Tells the owner once that a group is not heard any more until the settings name its new id.
    async fn tell_of_move(self: &Arc<Self>, channel: &str, from: &str, to: &str) {
        let words = format!(
            "the group {from} has the new id {to} and is not heard any more: in agent.toml change [{channel}.groups.\"{from}\"] \
             to [{channel}.groups.\"{to}\"], then reload it: systemctl --user reload agent-daemon"
        );
        tracing::warn!("{words}");
        self.note_trouble(&words);
        let key = format!("moved:{channel}:{from}:{to}");
        if let Err(error) = self.tell_owner_of(key, "groups", &words).await {
            tracing::error!(%error, "cannot notify the owner");
        }
    }

    /// Writes down who asked, who wrote and who sent a code; whose code was taken is told.
    async fn write_down_people(
        self: &Arc<Self>,
        live: &Arc<Live>,
        accepted: &[Accepted],
        after: &mut AfterCommit,
        now: i64,
    ) {
        let (asking, codes) = (
            std::mem::take(&mut after.asking),
            std::mem::take(&mut after.codes),
        );
        let contacts: Vec<Contact> = accepted.iter().filter_map(contact).collect();
        let known = self.note_people().await;
        let is_news =
            known.is_ok_and(|known| contacts.iter().any(|one| !known.contacts.contains(one)));
        if asking.is_empty() && codes.is_empty() && !is_news {
            return;
        }
        let (pipeline, live) = (self.clone(), live.clone());
        let write = move || {
            let people = &pipeline.people;
            let asked = asking
                .iter()
                .try_for_each(|(id, (name, code))| people.ask(id, name, code, now));
            let asked = match asked {
                Ok(()) => asking,
                Err(error) => {
                    tracing::error!(%error, "cannot store the pairing request of a stranger; they can ask again");
                    BTreeMap::new()
                }
            };
            if is_news && let Err(error) = people.know(&live.config, &contacts) {
                tracing::error!(%error, "cannot store the name of a contact");
            }
            let redeemed = codes.into_iter().map(|sent| {
                let (id, name, code) = (&sent.id, &sent.name, &sent.code);
                let redeemed = match sent.meaning {
                    Meaning::Link(_) => people
                        .link(id, name, code, now)
                        .map(|first| first.is_some()),
                    _ => people.redeem(id, name, code, now),
                };
                (sent, redeemed)
            });
            (asked, redeemed.collect::<Vec<_>>())
        };
        let (asked, redeemed) = crate::sys::blocking(write).await;
        for (id, (name, code)) in asked {
            self.tell_of_request(&id, &name, &code, now).await;
        }
        for (sent, redeemed) in redeemed {
            let said = match redeemed {
                Ok(true) => self.greetings(&sent).await,
                Ok(false) => continue,
                Err(error) => {
                    tracing::error!(%error, "a code could not be redeemed");
                    if sent.meaning == Meaning::Wrong {
                        continue;
                    }
                    let words = "I could not store that. Send me the code again in a moment.";
                    vec![("failed", sent.route.clone(), words.to_owned())]
                }
            };
            self.greet(&sent.key, said, now).await;
        }
    }

    /// Returns who is known. A damaged people.json is noted for the status, and the owner is told once.
    pub(in crate::pipeline) async fn note_people(
        self: &Arc<Self>,
    ) -> Result<Arc<People>, sys::Error> {
        let known = self.people.read();
        let Some(aside) = self.people.aside() else {
            self.end_troubles(PEOPLE);
            return known;
        };
        self.set_trouble(PEOPLE, Some(&aside.words));
        let name = aside.path.file_name().unwrap_or_default();
        let key = format!("people:{}", name.to_string_lossy());
        if let Err(error) = self.tell_owner_of(key, "people", &aside.words).await {
            tracing::warn!(%error, "the owner could not be told that people.json is damaged");
        }
        known
    }

    /// Tells the owner that a stranger asks to be let in; there are only so many such requests at a time.
    async fn tell_of_request(self: &Arc<Self>, id: &Address, name: &str, code: &str, now: i64) {
        let everybody = match self.everybody().await {
            Ok(everybody) => everybody,
            Err(error) => {
                return tracing::error!(%error, "cannot notify the owner of a pairing request");
            }
        };
        let Some((_, route)) = self.way_to_owner(&self.live().config, &everybody) else {
            return;
        };
        let name = text::shorten(&text::visible(name), 60);
        let words = format!(
            "{name} (id {id}) asks to talk to me. To let them in, within an hour, on the machine where I run:\n\nagent-send --pair approve {code}"
        );
        let notice = Arrival::new(
            format!("pairing/{id}/{code}"),
            Verdict::Refuse(Some(NewPart::plain(route, words))),
        );
        match self.queue.accept(vec![notice], None, now).await {
            Ok((_, notices)) => self.deliver(notices),
            Err(error) => tracing::error!(%error, "cannot notify the owner of a pairing request"),
        }
    }

    /// Returns what is said where because of a code: a person is told in the chat of their first account that another one
    /// is linked to it.
    async fn greetings(&self, sent: &SentCode) -> Vec<(&'static str, Route, String)> {
        let name = text::shorten(&text::visible(&sent.name), 60);
        let mut said = Vec::new();
        match &sent.meaning {
            Meaning::Link(first) => {
                tracing::info!(id = %sent.id, %first, "an account was linked");
                let here = format!(
                    "This account is linked with yours in {} ({}): you are one person to me, and your conversation there continues.",
                    first.channel(),
                    first.id()
                );
                said.push(("link", sent.route.clone(), here));
                let there = format!(
                    "{} ({name}) is linked to this account from now on: whoever writes from there is you. If that was not \
                     you, on the machine where I run: agent-send --pair revoke {}",
                    sent.id, sent.id
                );
                let live = self.live();
                let people = self.people.read().unwrap_or_default();
                let key = dm_key(&live.config, &people, first, &first.id());
                let route = self.queue.route_of(&key).await.ok().flatten();
                let is_there = |route: &Route| route.channel == first.channel();
                let route = route.filter(is_there).unwrap_or_else(|| way_to(first));
                if self.channels.contains_key(route.channel.as_str()) {
                    said.push(("linked", route, there));
                }
            }
            _ => {
                let words = format!("Hello {name}, you are my owner now.");
                said.push(("owner", sent.route.clone(), words));
            }
        }
        said
    }

    async fn greet(
        self: &Arc<Self>,
        key: &str,
        said: Vec<(&'static str, Route, String)>,
        now: i64,
    ) {
        let notice = |(what, route, words): (&str, Route, String)| {
            Arrival::new(
                format!("{key}/{what}"),
                Verdict::Refuse(Some(NewPart::plain(route, words))),
            )
        };
        let notices = said.into_iter().map(notice).collect();
        match self.queue.accept(notices, None, now).await {
            Ok((_, notices)) => self.deliver(notices),
            Err(error) => tracing::error!(%error, "cannot confirm that a code was accepted"),
        }
    }

    /// Answers presses of buttons, one after the other, in parallel with everything else.
    fn answer_presses(&self, channel: &str, presses: Vec<(String, &'static str)>) {
        let Some(channel) = self
            .channels
            .get(channel)
            .filter(|_| !presses.is_empty())
            .cloned()
        else {
            return;
        };
        tokio::spawn(async move {
            for (press, says) in presses {
                channel.answer_press(&press, says).await;
            }
        });
    }

    /// Remembers the albums of a batch that are said to us.
    fn note_albums(&self, items: &[Incoming]) {
        let mut albums = self.albums.lock();
        albums.extend(
            items
                .iter()
                .filter(|item| item.addressed && item.group.is_some())
                .filter_map(|item| item.album.clone()),
        );
        let old = albums.len().saturating_sub(ALBUMS);
        albums.drain(..old);
    }
}

/// Returns who wrote, or the group in which they did. Anybody may call a group like a person: a group is
/// `group:NAME` in the address book.
fn contact(row: &Accepted) -> Option<Contact> {
    let Envelope {
        sender,
        group,
        route,
        ..
    } = &row.envelope;
    if let (Some(title), Some(route)) = (group, route) {
        return Some(Contact {
            id: Address::new(&route.channel, &route.chat.chat)?,
            name: format!("group:{title}"),
            username: None,
        });
    }
    Some(Contact {
        id: Address::parse(&sender.id)?,
        name: sender.name.clone(),
        username: sender.username.clone(),
    })
}
