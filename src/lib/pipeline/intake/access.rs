//! Access control of channels, by the allowlist, the owners and pairing: decides about each message of a channel
//! whether it becomes an input, is only remembered as said in a group, is answered with a pairing code, or is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::session_keys::{dm_key, group_key, with_topic};
use crate::channel::Incoming;
use crate::config::{Config, GroupScope};
use crate::message::{
    Address, Command, Envelope, NUMBERED, Route, Sender, SessionKey, Source, Trust, is_plain,
};
use crate::people;
use crate::people::{Access, People};
use crate::pipeline::commands::immediate;
use crate::pipeline::commands::near_miss::near_miss;
use crate::pipeline::{Live, Pipeline};
use crate::queue::{NewPart, Note, Verdict};
use crate::text;

/// Characters of a message that is only overheard.
const OVERHEARD: usize = 1000;
/// Where everybody in a group may speak, not everybody may end what they all share.
const NOT_YOURS: &str = "Only people named in my settings may do that here.";
/// A slip that is corrected must not archive the conversation again.
const EDITED: &str = "An edited message starts no new conversation; send it again if you mean it.";

/// What is done about a batch when it is on disk.
#[derive(Default)]
pub(super) struct AfterCommit {
    /// Strangers who are given a code, with their names.
    pub(super) asking: BTreeMap<Address, (String, String)>,
    /// Codes that were sent: those of owners, right and wrong ones, and those that link accounts.
    pub(super) codes: Vec<SentCode>,
    /// What will be known of people then, when a code was sent.
    pub(super) people: Option<Arc<People>>,
    /// Presses of buttons that change nothing, and what is said to them.
    pub(super) presses: Vec<(String, &'static str)>,
    /// Groups of the settings that have a new id, and that.
    pub(super) moved: Vec<(String, String)>,
}

pub(super) struct SentCode {
    pub(super) id: Address,
    pub(super) name: String,
    pub(super) code: String,
    pub(super) meaning: Meaning,
    /// The key of the message.
    pub(super) key: String,
    pub(super) route: Route,
}

/// What a code does.
#[derive(PartialEq, Eq)]
pub(super) enum Meaning {
    /// It makes its sender an owner.
    Owner,
    /// It is not an owner's, and counted.
    Wrong,
    /// It makes the account one of this person's.
    Link(Address),
}

impl AfterCommit {
    /// Notes a code. What its sender says next in this batch counts as it will when that is accepted.
    fn note_code(&mut self, sent: SentCode, people: &Arc<People>, now: i64) {
        let mut people = (**people).clone();
        match sent.meaning {
            Meaning::Link(_) => people.link(&sent.id, &sent.name, &sent.code, now).is_some(),
            _ => people.redeem(&sent.id, &sent.name, &sent.code, now),
        };
        self.people = Some(Arc::new(people));
        self.codes.push(sent);
    }

    /// Returns whether a message says that its group has a new id; of one that the settings name the owner is to hear.
    fn tells_of_a_move(&mut self, item: &Incoming, config: &Config, channel: &str) -> bool {
        let Some(to) = &item.moved_to else {
            return false;
        };
        let from = &item.chat.chat;
        if config.group(channel, from).is_some() && config.group(channel, to).is_none() {
            self.moved.push((from.clone(), to.clone()));
        }
        true
    }
}

impl Pipeline {
    /// Decides about a message.
    pub(super) fn judge(
        &self,
        item: Incoming,
        config: &Config,
        channel: &str,
        now: i64,
        after: &mut AfterCommit,
    ) -> Verdict {
        if after.tells_of_a_move(&item, config, channel) {
            return Verdict::Refuse(None);
        }
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
            let route = Route::new(channel, item.chat.clone());
            Verdict::Refuse(Some(NewPart::plain(route, text)))
        };
        // A code that somebody else wrote is not the sender's to redeem, and who is another one each time redeems none.
        let own_words = if item.forwarded || item.unverified {
            ""
        } else {
            item.text.as_str()
        };
        let access = match &after.people {
            Some(people) => people.decide(config, &id, own_words, now),
            None => self.people.decide(config, &id, own_words, now),
        };
        let people = after
            .people
            .clone()
            .unwrap_or_else(|| self.people.read().unwrap_or_default());
        let mut sent = |meaning| {
            let sent = SentCode {
                id: id.clone(),
                name: sender.name.clone(),
                code: own_words.trim().to_owned(),
                meaning,
                key: item.key.clone(),
                route: Route::new(channel, item.chat.clone()),
            };
            after.note_code(sent, &people, now);
            Verdict::Refuse(None)
        };
        let owner = match access {
            Access::Owner => true,
            Access::Allowed => false,
            Access::SentOwnerCode => return sent(Meaning::Owner),
            Access::SentWrongCode => return sent(Meaning::Wrong),
            Access::SentLinkCode(first) => {
                return match people.objection(config, &id, &first) {
                    Some(why) => notice(why.to_owned()),
                    None => sent(Meaning::Link(first)),
                };
            }
            // Letting in who is another one each time lets nobody in: they take the place of nobody who could be.
            Access::MayAsk
                if item.unverified
                    || after.asking.contains_key(&id)
                    || !self.people.is_room_for(&id, after.asking.keys(), now) =>
            {
                return Verdict::Refuse(None);
            }
            Access::MayAsk => {
                let code = people::new_code();
                after.asking.insert(id, (sender.name.clone(), code.clone()));
                return notice(format!(
                    "I do not know you yet. My owner can let you in, within an hour, on the machine where I run:\n\nagent-send --pair approve {code}"
                ));
            }
            Access::Refused | Access::Muted => return Verdict::Refuse(None),
        };
        // They may write in a chat of somebody else, whose conversation it is then.
        let place = match item.unverified {
            true => id.id().into_owned(),
            false => item.chat.chat.clone(),
        };
        let key = with_topic(dm_key(config, &people, &id, &place), &item);
        let accepted = envelope(item, sender, owner, key, channel, now);
        Verdict::Accept(vec![self.continuing(accepted, config)])
    }

    /// An owner decides, wherever they press; for everybody else a button does nothing, and a press is no
    /// way to be let in.
    pub(super) fn judge_press(
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
            None => {
                let people = self.people.read().unwrap_or_default();
                dm_key(&live.config, &people, &id, &item.chat.chat)
            }
        };
        let key = with_topic(key, &item);
        Verdict::Accept(vec![envelope(item, sender, true, key, channel, now)])
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
            // What it said before is known; the new wording would be there twice.
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
        // The name on a card or of a file is chosen by the one who made it.
        let own_words = item.attachments.is_empty() && item.kind.as_deref().is_none_or(is_plain);
        let of_owner = access == Access::Owner && !item.forwarded && own_words;
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
                "ignored a group that is not in the `groups` of its channel in agent.toml"
            );
        }
    }
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
        None if item.group.is_none() && !item.forwarded && !item.unverified => {
            near_miss(&item.text)
        }
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
        trust: Trust::of(!owner || item.forwarded),
        route: Some(Route::new(channel, item.chat)),
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
        sent_at: item.sent_at,
        ..envelope
    }
}
