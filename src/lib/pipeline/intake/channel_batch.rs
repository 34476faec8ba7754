//! Step 1, intake: who may speak, which conversation it is, and the one transaction that makes
//! it ours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::channel::{Batch, Incoming};
use crate::clock;
use crate::config::{Config, DmScope, GroupScope};
use crate::message::{Command, Envelope, Route, Sender, SessionKey, Source, Trust};
use crate::people;
use crate::people::{Access, Contact};
use crate::pipeline::commands::immediate;
use crate::pipeline::commands::near_miss::near_miss;
use crate::pipeline::{Live, Pipeline, Signal};
use crate::queue::{Accepted, Arrival, NewPart, Note, Verdict};
use crate::text;

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
    asking: BTreeMap<i64, (String, String)>,
    /// Owner codes that were sent, right and wrong ones.
    codes: Vec<SentCode>,
    /// Presses of buttons that change nothing, and what is said to them.
    presses: Vec<(String, &'static str)>,
}

struct SentCode {
    id: i64,
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
    pub async fn take_batch(self: &Arc<Self>, batch: Batch, channel: &'static str) {
        let now = clock::now_ms();
        let live = self.live();
        let mut after = AfterCommit::default();
        self.note_albums(&batch.items);
        let arrival = |item: Incoming| Arrival {
            key: item.key.clone(),
            verdict: match item.press.clone() {
                Some(press) => self.judge_press(item, &press, &live, channel, now, &mut after),
                None => self.judge(item, &live.config, channel, now, &mut after),
            },
        };
        let arrivals: Vec<Arrival> = batch.items.into_iter().map(arrival).collect();
        match self.queue.accept(arrivals, batch.offset, now).await {
            Ok((accepted, notices)) => {
                // The poller may be gone; what is accepted stays accepted.
                let _ = batch.done.send(());
                self.write_down_people(&live, &accepted, &mut after, now)
                    .await;
                self.deliver(notices);
                self.answer_presses(channel, after.presses);
                // What was planned may be cancelled.
                if self.plans_open.load(Ordering::Relaxed) {
                    self.plan_news.notify_one();
                }
                let _ = self.signals.send(Signal::Accepted(accepted));
            }
            Err(error) => {
                tracing::error!(%error, "messages could not be taken in");
                self.note_trouble(&format!("messages could not be taken in: {error}"));
            }
        }
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
        let are_known = self
            .people
            .read()
            .is_ok_and(|known| contacts.iter().all(|one| known.contacts.contains(one)));
        if asking.is_empty() && codes.is_empty() && are_known {
            return;
        }
        let (pipeline, live) = (self.clone(), live.clone());
        let write = move || {
            let people = &pipeline.people;
            let asked = asking
                .iter()
                .try_for_each(|(id, (name, code))| people.ask(*id, name, code, now));
            let asked = match asked {
                Ok(()) => asking,
                Err(error) => {
                    tracing::error!(%error, "a stranger's request could not be written down; they can ask again");
                    BTreeMap::new()
                }
            };
            if !are_known && let Err(error) = people.know(&live.config.telegram, &contacts) {
                tracing::error!(%error, "a name could not be written down");
            }
            let redeemed = codes.into_iter().filter(|sent| {
                let redeemed = people.redeem(sent.id, &sent.name, &sent.code, now);
                redeemed.unwrap_or_else(|error| {
                    tracing::error!(%error, "an owner code could not be redeemed");
                    false
                })
            });
            (asked, redeemed.collect::<Vec<SentCode>>())
        };
        let (asked, owners) = crate::sys::blocking(write).await;
        for (id, (name, code)) in asked {
            self.tell_of_request(id, &name, &code, now).await;
        }
        for owner in owners {
            self.greet_owner(owner, now).await;
        }
    }

    /// Tells the owner that a stranger asks to be let in; there are at most three such requests at a time.
    async fn tell_of_request(self: &Arc<Self>, id: i64, name: &str, code: &str, now: i64) {
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
        channel: &'static str,
        now: i64,
        after: &mut AfterCommit,
    ) -> Verdict {
        // A channel, an anonymous administrator: nobody whose rights could be known.
        let Some(sender) = item.sender.clone() else {
            return Verdict::Refuse(None);
        };
        let Ok(id) = sender.id.parse::<i64>() else {
            return Verdict::Refuse(None);
        };
        if item.group.is_some() {
            return self.judge_in_group(item, sender, id, config, channel, now);
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
            other => match self.people.decide(&config.telegram, id, own_words, now) {
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
                    || after.asking.len() >= self.people.free_requests(now) =>
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
        let key = with_topic(dm_key(config, &sender.id, &item.chat.chat), &item);
        Verdict::Accept(vec![envelope(item, sender, owner, key, channel, now)])
    }

    /// An owner decides, wherever they press; for everybody else a button does nothing, and a press is no
    /// way to be let in.
    fn judge_press(
        &self,
        item: Incoming,
        press: &str,
        live: &Live,
        channel: &'static str,
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
        let key = match &item.group {
            Some(_) => group_key(&live.config, &sender.id, &item.chat.chat),
            None => dm_key(&live.config, &sender.id, &item.chat.chat),
        };
        let key = with_topic(key, &item);
        Verdict::Accept(vec![envelope(item, sender, true, key, channel, now)])
    }

    /// Answers presses of buttons, one after the other, beside everything else.
    fn answer_presses(&self, channel: &'static str, presses: Vec<(String, &'static str)>) {
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
        id: i64,
        config: &Config,
        channel: &'static str,
        now: i64,
    ) -> Verdict {
        let Ok(chat) = item.chat.chat.parse::<i64>() else {
            return Verdict::Refuse(None);
        };
        let access = self.people.decide_in_group(&config.telegram, chat, id);
        if access == Access::Refused {
            self.name_unknown_group(config, &item);
            return Verdict::Refuse(None);
        }
        let must_be_named = config
            .telegram
            .groups
            .get(&item.chat.chat)
            .is_none_or(|group| group.require_mention);
        let key = with_topic(group_key(config, &sender.id, &item.chat.chat), &item);
        let addressed = item.addressed || !must_be_named || self.is_of_addressed_album(&item);
        if access != Access::Muted && addressed {
            let is_shared = config.session.group_scope == GroupScope::Chat;
            let changes = item
                .command
                .as_ref()
                .is_some_and(Command::changes_the_conversation);
            let chat = item.chat.chat.clone();
            let mut accepted = envelope(item, sender, access == Access::Owner, key, channel, now);
            if changes && is_shared && !self.people.is_named_in_group(&config.telegram, &chat, id) {
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
        let words: Vec<String> = files
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
    fn name_unknown_group(&self, config: &Config, item: &Incoming) {
        let chat = &item.chat.chat;
        if config.telegram.groups.contains_key(chat) || !item.addressed {
            return;
        }
        let mut named = self.unknown_groups.lock();
        // Anybody may add a bot to groups: what is remembered of them stays small.
        if named.len() < 100 && named.insert(chat.clone()) {
            tracing::info!(
                chat,
                "a group that is not in [telegram.groups] of agent.toml is not heard"
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
            id: route.chat.chat.parse().ok()?,
            name: format!("group:{title}"),
            username: None,
        });
    }
    Some(Contact {
        id: sender.id.parse().ok()?,
        name: sender.name.clone(),
        username: sender.username.clone(),
    })
}

fn envelope(
    item: Incoming,
    sender: Sender,
    owner: bool,
    key: SessionKey,
    channel: &'static str,
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
    let envelope = Envelope::new(item.key, Source::Telegram, sender, key, item.text, now);
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
        reply_to: Some(item.message_id),
        kind: item.kind,
        media: item.media,
        album: item.album,
        quoted: item.quoted,
        forwarded_from: item.forwarded_from,
        edited: item.edited,
        command,
        press: item.press,
        group: item.group,
        ..envelope
    }
}

/// Returns the conversation of a direct message of the user `sender` in `chat`.
pub(crate) fn dm_key(config: &Config, sender: &str, chat: &str) -> SessionKey {
    if let Some(person) = config.session.person_of("telegram", sender) {
        return joined_key(config, person);
    }
    let name = &config.agent.name;
    SessionKey(match config.session.dm_scope {
        DmScope::Sender => format!("agent:{name}:telegram:dm:{sender}"),
        DmScope::Chat => format!("agent:{name}:telegram:dm:{chat}"),
        DmScope::Main => format!("agent:{name}:main"),
    })
}

/// Returns the one conversation of a person who has several ids.
pub(crate) fn joined_key(config: &Config, person: &str) -> SessionKey {
    match config.session.dm_scope {
        DmScope::Sender | DmScope::Chat => SessionKey::of_person(&config.agent.name, person),
        DmScope::Main => SessionKey(format!("agent:{}:main", config.agent.name)),
    }
}

/// Returns the conversation of a message of the user `sender` in the group `chat`.
pub(crate) fn group_key(config: &Config, sender: &str, chat: &str) -> SessionKey {
    let name = &config.agent.name;
    SessionKey(match config.session.group_scope {
        GroupScope::Chat => format!("agent:{name}:telegram:group:{chat}"),
        GroupScope::Sender => format!("agent:{name}:telegram:group:{chat}:sender:{sender}"),
    })
}

/// A topic is a conversation of its own.
fn with_topic(key: SessionKey, item: &Incoming) -> SessionKey {
    match &item.chat.topic {
        Some(topic) => SessionKey(format!("{key}:topic:{topic}")),
        None => key,
    }
}
