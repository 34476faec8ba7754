//! Step 1, intake: who may speak, which conversation it is, and the one transaction that makes
//! it ours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::channel::{Batch, Incoming};
use crate::clock;
use crate::config::{Config, DmScope, GroupScope};
use crate::message::{
    Address, Command, Envelope, NUMBERED, Route, Sender, SessionKey, Source, Trust,
};
use crate::people;
use crate::people::{Access, Contact};
use crate::pipeline::commands::immediate;
use crate::pipeline::commands::near_miss::near_miss;
use crate::pipeline::{Live, Pipeline, Signal};
use crate::queue::{Accepted, Arrival, NewPart, Note, Verdict};
use crate::{db, text};

/// Albums that are remembered: their pictures come within seconds.
const ALBUMS: usize = 32;
/// Characters of a message that is only overheard.
const OVERHEARD: usize = 1000;
/// Where everybody in a group may speak, not everybody may end what they all share.
const NOT_YOURS: &str = "Only those whom my settings name may do that here.";
/// A slip that is corrected must not archive the conversation again.
const EDITED: &str = "An edited message starts no new conversation; send it again if you mean it.";

/// What is done about a batch when it is on the disk.
#[derive(Default)]
struct AfterCommit {
    /// Strangers who are given a code, with their names.
    asking: BTreeMap<Address, (String, String)>,
    /// Owner codes that were sent, right and wrong ones.
    codes: Vec<SentCode>,
    /// Presses of buttons that change nothing, and what is said to them.
    presses: Vec<(String, &'static str)>,
}

struct SentCode {
    id: Address,
    name: String,
    code: String,
    is_right: bool,
    /// The key of the message.
    key: String,
    route: Route,
}

impl Pipeline {
    /// Takes a batch of a channel in and answers it when it is on the disk. When it could not be
    /// written the answer stays out, and the channel brings the same again.
    pub async fn take_batch(self: &Arc<Self>, batch: Batch, channel: &str) {
        match self.take_items(batch.items, batch.offset, channel).await {
            // The poller may be gone; what is accepted stays accepted.
            Ok(_) => drop(batch.done.send(())),
            Err(error) => {
                tracing::error!(%error, "messages could not be taken in");
                self.note_trouble(&format!("messages could not be taken in: {error}"));
            }
        }
    }

    /// Takes what came through a channel in; it is on the disk when this returns the keys of what became an input.
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
        // What was planned may be cancelled.
        if self.plans_open.load(Ordering::Relaxed) {
            self.plan_news.notify_one();
        }
        let keys = accepted.iter().map(|row| row.envelope.id.clone()).collect();
        let _ = self.signals.send(Signal::Accepted(accepted));
        Ok(keys)
    }

    /// Writes down who asked, who wrote and who sent an owner code; who became an owner is told.
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
        let is_news = self
            .people
            .read()
            .is_ok_and(|known| contacts.iter().any(|one| !known.contacts.contains(one)));
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
                    tracing::error!(%error, "a stranger's request could not be written down; they can ask again");
                    BTreeMap::new()
                }
            };
            if is_news && let Err(error) = people.know(&live.config, &contacts) {
                tracing::error!(%error, "a name could not be written down");
            }
            let redeemed = codes.into_iter().filter(|sent| {
                let redeemed = people.redeem(&sent.id, &sent.name, &sent.code, now);
                redeemed.unwrap_or_else(|error| {
                    tracing::error!(%error, "an owner code could not be redeemed");
                    false
                })
            });
            (asked, redeemed.collect::<Vec<SentCode>>())
        };
        let (asked, owners) = crate::sys::blocking(write).await;
        for (id, (name, code)) in asked {
            self.tell_of_request(&id, &name, &code, now).await;
        }
        for owner in owners {
            self.greet_owner(owner, now).await;
        }
    }

    /// Tells the owner that a stranger asks to be let in; there are at most three such requests at a time.
    async fn tell_of_request(self: &Arc<Self>, id: &Address, name: &str, code: &str, now: i64) {
        let everybody = match self.everybody().await {
            Ok(everybody) => everybody,
            Err(error) => {
                return tracing::error!(%error, "the owner could not be told of a request");
            }
        };
        let Some((_, route)) = self.way_to_owner(&self.live().config, &everybody) else {
            return;
        };
        let name = text::shorten(&text::visible(name), 60);
        let words = format!(
            "{name} (id {id}) asks to talk to me. To let them in, within an hour:\n\nagent-send --pair approve {code}"
        );
        let notice = Arrival {
            digest: None,
            key: format!("pairing/{id}/{code}"),
            verdict: Verdict::Refuse(Some(NewPart::plain(route, words))),
        };
        match self.queue.accept(vec![notice], None, now).await {
            Ok((_, notices)) => self.deliver(notices),
            Err(error) => tracing::error!(%error, "the owner could not be told of a request"),
        }
    }

    async fn greet_owner(self: &Arc<Self>, owner: SentCode, now: i64) {
        let words = format!("Hello {}, you are my owner now.", owner.name);
        let greeting = Arrival {
            digest: None,
            key: format!("{}/owner", owner.key),
            verdict: Verdict::Refuse(Some(NewPart::plain(owner.route, words))),
        };
        match self.queue.accept(vec![greeting], None, now).await {
            Ok((_, notices)) => self.deliver(notices),
            Err(error) => tracing::error!(%error, "a new owner could not be greeted"),
        }
    }

    fn judge(
        &self,
        item: Incoming,
        config: &Config,
        channel: &str,
        now: i64,
        after: &mut AfterCommit,
    ) -> Verdict {
        // A channel, an anonymous administrator: nobody whose rights could be known.
        let Some(sender) = item.sender.clone() else {
            return Verdict::Refuse(None);
        };
        let Some(id) = Address::parse(&sender.id).filter(|id| id.channel() == channel) else {
            return Verdict::Refuse(None);
        };
        if item.group.is_some() {
            return self.judge_in_group(item, sender, &id, config, channel, now);
        }
        let notice = |text: String| {
            let route = Route {
                channel: channel.to_owned(),
                chat: item.chat.clone(),
            };
            Verdict::Refuse(Some(NewPart::plain(route, text)))
        };
        // A code that somebody else wrote is not the sender's to redeem.
        let own_words = if item.forwarded {
            ""
        } else {
            item.text.as_str()
        };
        let access = match after.codes.iter().find(|sent| sent.is_right) {
            // They are an owner when this batch is taken in, and nobody else is by that code.
            Some(sent) if sent.id == id => Access::Owner,
            other => match self.people.decide(config, &id, own_words, now) {
                Access::SentOwnerCode if other.is_some() => Access::Refused,
                access => access,
            },
        };
        let owner = match access {
            Access::Owner => true,
            Access::Allowed => false,
            Access::SentOwnerCode | Access::SentWrongCode => {
                after.codes.push(SentCode {
                    id,
                    name: sender.name,
                    code: own_words.to_owned(),
                    is_right: access == Access::SentOwnerCode,
                    key: item.key,
                    route: Route {
                        channel: channel.to_owned(),
                        chat: item.chat,
                    },
                });
                return Verdict::Refuse(None);
            }
            Access::MayAsk
                if after.asking.contains_key(&id)
                    || after.asking.len() >= self.people.free_requests(channel, now) =>
            {
                return Verdict::Refuse(None);
            }
            Access::MayAsk => {
                let code = people::new_code();
                after.asking.insert(id, (sender.name.clone(), code.clone()));
                return notice(format!(
                    "I do not know you yet. My owner can let you in, within an hour, with:\n\nagent-send --pair approve {code}"
                ));
            }
            Access::Refused | Access::Muted => return Verdict::Refuse(None),
        };
        let key = with_topic(dm_key(config, &id, &item.chat.chat), &item);
        let accepted = envelope(item, sender, owner, key, channel, now);
        Verdict::Accept(vec![self.continuing(accepted, config)])
    }

    /// An owner decides, wherever they press; for everybody else a button does nothing, and a press is no
    /// way to be let in.
    fn judge_press(
        &self,
        item: Incoming,
        press: &str,
        live: &Live,
        channel: &str,
        now: i64,
        after: &mut AfterCommit,
    ) -> Verdict {
        let mut nothing = |says: &'static str| {
            after.presses.push((press.to_owned(), says));
            Verdict::Refuse(None)
        };
        let Some(sender) = item.sender.clone() else {
            return nothing("");
        };
        if item.command.is_none() {
            return nothing("");
        }
        if !self.is_owner(live, &sender.id) {
            return nothing(immediate::OWNER_DECIDES);
        }
        let chat = Address::new(channel, &item.chat.chat);
        let (Some(chat), Some(id)) = (chat, Address::parse(&sender.id)) else {
            return nothing("");
        };
        let key = match &item.group {
            Some(_) => group_key(&live.config, &sender.id, &chat),
            None => dm_key(&live.config, &id, &item.chat.chat),
        };
        let key = with_topic(key, &item);
        Verdict::Accept(vec![envelope(item, sender, true, key, channel, now)])
    }

    /// Answers presses of buttons, one after the other, beside everything else.
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

    /// What is said to the agent begins a turn; what is said to others there is only remembered for the
    /// next one.
    fn judge_in_group(
        &self,
        item: Incoming,
        sender: Sender,
        id: &Address,
        config: &Config,
        channel: &str,
        now: i64,
    ) -> Verdict {
        let Some(chat) = Address::new(channel, &item.chat.chat) else {
            return Verdict::Refuse(None);
        };
        let access = self.people.decide_in_group(config, &chat, id);
        if access == Access::Refused {
            self.name_unknown_group(config, &chat, &item);
            return Verdict::Refuse(None);
        }
        let must_be_named = config
            .group(channel, &item.chat.chat)
            .is_none_or(|group| group.require_mention);
        let key = with_topic(group_key(config, &sender.id, &chat), &item);
        let addressed = item.addressed || !must_be_named || self.is_of_addressed_album(&item);
        if access != Access::Muted && addressed {
            let is_shared = config.session.group_scope == GroupScope::Chat;
            let changes = item
                .command
                .as_ref()
                .is_some_and(Command::changes_the_conversation);
            let mut accepted = envelope(item, sender, access == Access::Owner, key, channel, now);
            if changes && is_shared && !self.people.is_named_in_group(config, &chat, id) {
                accepted.command = Some(Command::Done {
                    text: NOT_YOURS.to_owned(),
                });
            }
            return Verdict::Accept(vec![accepted]);
        }
        if item.edited {
            // What it said before is known; the new wording would stand there twice.
            return Verdict::Refuse(None);
        }
        let words = [
            item.kind.as_ref().map(|kind| format!("({kind})")),
            Some(item.text.clone()),
        ];
        let files = item
            .media
            .iter()
            .map(|media| format!("({})", media.kind.as_str()));
        let own = item
            .attachments
            .iter()
            .map(|file| format!("({})", text::visible(&file.filename)));
        let words: Vec<String> = files
            .chain(own)
            .chain(words.into_iter().flatten())
            .filter(|word| !word.is_empty())
            .collect();
        let of_owner = access == Access::Owner && !item.forwarded;
        let text = text::shorten(&words.join(" "), OVERHEARD);
        Verdict::Note(
            key,
            Note {
                who: Some(sender.name),
                sender: Some(sender.id),
                message_id: Some(item.message_id),
                of_owner,
                at: now,
                text,
            },
        )
    }

    /// Returns whether a picture belongs to an album that is said to us: only one of its pictures has
    /// the words that name us.
    fn is_of_addressed_album(&self, item: &Incoming) -> bool {
        let Some(album) = &item.album else {
            return false;
        };
        self.albums.lock().contains(album)
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

    /// Says once a group that it is not heard: who added the bot there wonders.
    fn name_unknown_group(&self, config: &Config, chat: &Address, item: &Incoming) {
        if config.group(chat.channel(), &chat.id()).is_some() || !item.addressed {
            return;
        }
        let mut named = self.unknown_groups.lock();
        // Anybody may add a bot to groups: what is remembered of them stays small.
        if named.len() < 100 && named.insert(chat.to_string()) {
            tracing::info!(
                %chat,
                "a group that is not in the `groups` of its channel in agent.toml is not heard"
            );
        }
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

fn envelope(
    item: Incoming,
    sender: Sender,
    owner: bool,
    key: SessionKey,
    channel: &str,
    now: i64,
) -> Envelope {
    let command = match item.command {
        // It may have been one before, and was carried out.
        Some(Command::New { .. }) if item.edited => Some(Command::Done {
            text: EDITED.to_owned(),
        }),
        // In a group it may be meant for another bot.
        None if item.group.is_none() && !item.forwarded => near_miss(&item.text),
        command => command,
    };
    let source = if channel == NUMBERED {
        Source::Telegram
    } else {
        Source::Channel
    };
    let envelope = Envelope::new(item.key, source, sender, key, item.text, now);
    Envelope {
        from_owner: owner,
        trust: if owner && !item.forwarded {
            Trust::Owner
        } else {
            Trust::Other
        },
        route: Some(Route {
            channel: channel.to_owned(),
            chat: item.chat,
        }),
        // The id of a press is that of no message, where the press cannot be answered itself.
        reply_to: (source == Source::Telegram || item.press.is_none()).then_some(item.message_id),
        kind: item.kind,
        media: item.media,
        attachments: item.attachments,
        album: item.album,
        quoted: item.quoted,
        forwarded_from: item.forwarded_from,
        edited: item.edited,
        command,
        press: item.press.filter(|_| source == Source::Telegram),
        group: item.group,
        ..envelope
    }
}

/// Returns the conversation of a direct message of `sender` in `chat`.
pub(crate) fn dm_key(config: &Config, sender: &Address, chat: &str) -> SessionKey {
    let channel = sender.channel();
    if let Some(person) = config.session.person_of(channel, &sender.id()) {
        return joined_key(config, person);
    }
    let name = &config.agent.name;
    match config.session.dm_scope {
        DmScope::Sender => SessionKey::dm(name, channel, &sender.id()),
        DmScope::Chat => SessionKey::dm(name, channel, chat),
        DmScope::Main => SessionKey(format!("agent:{name}:main")),
    }
}

/// Returns the one conversation of a person who has several ids.
pub(crate) fn joined_key(config: &Config, person: &str) -> SessionKey {
    match config.session.dm_scope {
        DmScope::Sender | DmScope::Chat => SessionKey::of_person(&config.agent.name, person),
        DmScope::Main => SessionKey(format!("agent:{}:main", config.agent.name)),
    }
}

/// Returns the conversation of a message of `sender` in the group `chat`.
pub(crate) fn group_key(config: &Config, sender: &str, chat: &Address) -> SessionKey {
    let key = SessionKey::group(&config.agent.name, chat.channel(), &chat.id());
    match config.session.group_scope {
        GroupScope::Chat => key,
        GroupScope::Sender => key.of_member(sender),
    }
}

/// A topic is a conversation of its own.
fn with_topic(key: SessionKey, item: &Incoming) -> SessionKey {
    match &item.chat.topic {
        Some(topic) => key.in_topic(topic),
        None => key,
    }
}
