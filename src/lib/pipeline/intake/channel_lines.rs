//! Lines of a channel process, converted to the same messages as those of any channel.

use std::sync::Arc;

use super::shell::{spoken, taken_in};
use crate::channel::Incoming;
use crate::config::Config;
use crate::control::{Answered, Heard, Id};
use crate::message::approval_reply;
use crate::message::{Address, ChatRef, Quoted, Route, Sender};
use crate::pipeline::Pipeline;
use crate::queue::Known;
use crate::{clock, db, text};

/// The longest quote that is kept, characters (specification §6).
const QUOTED: usize = 300;
/// So many inputs of one channel may wait for their answers; more stay in its spool.
const MAX_WAITING: i64 = 500;

/// A line of a channel, known by what makes it the same.
#[derive(Debug)]
pub struct Line {
    /// What was written.
    pub heard: Heard,
    /// What it is remembered by.
    key: String,
    /// What it says, in short.
    digest: String,
}

impl Line {
    /// Returns the line with its key. An edit has its words in the key: each wording is an input of its own.
    pub fn new(heard: Heard) -> Self {
        let digest = digest(&heard);
        let name = serde_json::json!([heard.chat, heard.message_id]).to_string();
        let mut key = format!(
            "ch:{}:{}",
            heard.channel,
            text::head(&text::sha256_hex(name.as_bytes()), 32)
        );
        if heard.edited {
            key = format!("{key}:{}", text::head(&digest, 16));
        }
        Self { heard, key, digest }
    }

    /// Returns the directory in `downloads` that its files have for themselves: the names that a process gives its lines
    /// are not to meet those of others.
    pub fn own_id(&self) -> Id {
        let name = text::sha256_hex(self.key.as_bytes());
        Id::parse(&format!("ch-{}", text::head(&name, 40))).unwrap_or_default()
    }
}

/// Returns what is the same when the same message comes again: words and whose they are, not how they are called.
fn digest(heard: &Heard) -> String {
    let files: Vec<_> = heard
        .attachments
        .iter()
        .map(|file| {
            file.sha256
                .as_ref()
                .or(file.filename.as_ref())
                .unwrap_or(&file.path)
        })
        .collect();
    let said = serde_json::json!([
        heard.sender.id,
        heard.text,
        heard.kind,
        heard.button,
        heard.forwarded,
        files
    ]);
    text::sha256_hex(said.to_string().as_bytes())
}

impl Pipeline {
    /// Returns whether a message like this was accepted before.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn known_line(&self, line: &Line) -> Result<Known, db::Error> {
        self.queue.known(&line.key, &line.digest).await
    }

    /// Returns how many more lines of `channel` may be accepted now.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn room_for(&self, channel: &str) -> Result<usize, db::Error> {
        let waiting = self.queue.unanswered(channel.to_owned()).await?;
        Ok(usize::try_from(MAX_WAITING - waiting).unwrap_or(0))
    }

    /// Takes lines of one channel in, in their order; they are on disk when this returns. Returns the keys of those
    /// that became inputs.
    ///
    /// # Errors
    /// See [`db::Error`]; nothing of it is then accepted.
    pub async fn take_lines_of(
        self: &Arc<Self>,
        channel: &str,
        lines: &[Line],
    ) -> Result<Vec<bool>, db::Error> {
        let live = self.live();
        let mut items = Vec::with_capacity(lines.len());
        for line in lines {
            items.push(self.incoming(line, &live.config).await?);
        }
        let keys = self.take_items(items, None, channel).await?;
        let door = self.channels.get(channel);
        let became = lines.iter().map(|line| {
            let is_input = keys.contains(&line.key);
            if let Some(door) = door.filter(|_| is_input) {
                let chat = ChatRef {
                    chat: line.heard.chat.clone(),
                    topic: line.heard.thread.clone(),
                };
                door.read(&chat, &line.heard.message_id);
            }
            is_input
        });
        Ok(became.collect())
    }

    async fn incoming(&self, line: &Line, config: &Config) -> Result<Incoming, db::Error> {
        let heard = &line.heard;
        let channel = heard.channel.as_str();
        let address = |id: &str| Address::new(channel, id).map(|address| address.to_string());
        let quoted = match &heard.reply_to {
            Some(answered) => Some(self.quoted(answered, heard).await?),
            None => None,
        };
        // A group that the settings name is one, also where the process does not say so.
        let is_group = config
            .channels
            .get(channel)
            .is_some_and(|settings| settings.groups.contains_key(&heard.chat));
        let group = heard
            .group
            .clone()
            .or_else(|| is_group.then(|| heard.chat.clone()));
        let own_words = if heard.forwarded {
            ""
        } else {
            heard.text.as_str()
        };
        let addressed = group.is_none()
            || heard.mentioned
            || quoted.as_ref().is_some_and(|quoted| quoted.own)
            || is_called(config, channel, own_words);
        let is_known = !heard.sender.unverified;
        let command = match &heard.button {
            _ if !is_known => None,
            Some(data) => approval_reply::pressed(data),
            None => spoken(own_words),
        };
        Ok(Incoming {
            key: line.key.clone(),
            digest: Some(line.digest.clone()),
            sender: address(&sender_id(line)).map(|id| Sender::new(id, heard.sender.name.clone())),
            chat: ChatRef {
                chat: heard.chat.clone(),
                topic: heard.thread.clone(),
            },
            group,
            addressed,
            message_id: heard.message_id.clone(),
            text: heard.text.clone(),
            kind: heard.kind.clone(),
            attachments: heard.attachments.iter().map(taken_in).collect(),
            quoted,
            command,
            press: heard.button.is_some().then(|| heard.message_id.clone()),
            forwarded: heard.forwarded || heard.forwarded_from.is_some(),
            forwarded_from: heard.forwarded_from.clone(),
            unverified: heard.sender.unverified,
            edited: heard.edited,
            sent_at: heard.sent_at.as_deref().and_then(clock::parse_rfc3339),
            ..Incoming::default()
        })
    }

    /// Returns what a message answers: of our own messages we know the words ourselves.
    async fn quoted(&self, answered: &Answered, heard: &Heard) -> Result<Quoted, db::Error> {
        let route = Route::new(heard.channel.clone(), ChatRef::new(heard.chat.clone()));
        let own = self
            .queue
            .words_sent_as(route, answered.message_id.clone())
            .await?;
        let is_forwarded = answered.forwarded || answered.forwarded_from.is_some();
        let sender = answered.sender.as_ref().filter(|_| !is_forwarded);
        let id = sender
            .filter(|sender| !sender.unverified)
            .and_then(|sender| Address::new(&heard.channel, &sender.id))
            .map(|address| address.to_string());
        Ok(Quoted {
            who: match (&own, sender) {
                (Some(_), _) => "you".to_owned(),
                (None, Some(sender)) => sender.name.clone(),
                (None, None) => {
                    let author = answered.forwarded_from.as_deref();
                    author.unwrap_or("somebody").to_owned()
                }
            },
            id: id.filter(|_| own.is_none()),
            message_id: Some(answered.message_id.clone()),
            own: own.is_some(),
            untrusted: false,
            text: text::shorten(own.as_deref().unwrap_or(&answered.text), QUOTED),
        })
    }
}

/// Before the id of a sender for whom nobody vouches.
const UNVERIFIED: &str = "unverified:";

/// Returns who wrote a line. For whom nobody vouches has no rights of anybody: their id is one of this line alone, which no list
/// of the settings can have. A channel that makes such ids itself, as that of mails, keeps them.
fn sender_id(line: &Line) -> String {
    let sender = &line.heard.sender;
    if !sender.unverified || sender.id.starts_with(UNVERIFIED) {
        return sender.id.clone();
    }
    let mark = text::sha256_hex(line.key.as_bytes());
    format!(
        "{UNVERIFIED}{}:{}",
        text::head(&mark, 12),
        text::head(&sender.id, 60)
    )
}

/// Returns whether the text calls us by one of the names of the settings.
fn is_called(config: &Config, channel: &str, text: &str) -> bool {
    let text = text.to_lowercase();
    let names = config.channels.get(channel).map(|channel| &channel.aliases);
    names
        .into_iter()
        .flatten()
        .filter(|name| !name.trim().is_empty())
        .any(|name| text::has_word(&text, &name.trim().to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Person;
    use crate::message::Command;

    fn heard(text: &str) -> Heard {
        Heard {
            channel: "sms".to_owned(),
            chat: "c".to_owned(),
            sender: Person {
                id: "7".to_owned(),
                name: "Ada".to_owned(),
                ..Person::default()
            },
            message_id: "1".to_owned(),
            text: text.to_owned(),
            ..Heard::default()
        }
    }

    #[test]
    fn the_same_message_has_the_same_key_and_each_wording_of_an_edit_its_own() {
        let of = |heard: Heard| {
            let line = Line::new(heard);
            (line.key, line.digest)
        };
        let first = of(heard("hi"));
        let renamed = Heard {
            sender: Person {
                id: "7".to_owned(),
                name: "Countess".to_owned(),
                ..Person::default()
            },
            ..heard("hi")
        };
        assert_eq!(of(renamed), first, "who changed their name said the same");
        let other = of(heard("ho"));
        assert_eq!(other.0, first.0);
        assert_ne!(other.1, first.1);
        let edit = |text: &str| {
            of(Heard {
                edited: true,
                ..heard(text)
            })
        };
        assert_eq!(edit("ho"), edit("ho"));
        assert_ne!(edit("ho").0, edit("hu").0);
        assert_ne!(edit("ho").0, first.0);
        // No two chats share a key, however their ids are cut.
        let cut = |chat: &str, id: &str| {
            of(Heard {
                chat: chat.to_owned(),
                message_id: id.to_owned(),
                ..heard("hi")
            })
        };
        assert_ne!(cut("a:b", "c").0, cut("a", "b:c").0);
    }

    #[test]
    fn who_is_not_vouched_for_is_another_one_in_each_line() {
        let of = |id: &str, unverified: bool, message: &str| {
            let line = Line::new(Heard {
                sender: Person {
                    id: id.to_owned(),
                    unverified,
                    ..Person::default()
                },
                message_id: message.to_owned(),
                ..heard("hi")
            });
            sender_id(&line)
        };
        assert_eq!(of("7", false, "1"), "7");
        let first = of("7", true, "1");
        assert!(first.starts_with("unverified:") && first.ends_with(":7"));
        assert_ne!(of("7", true, "2"), first);
        let by_mail = "unverified:ab:ada@example.org";
        assert_eq!(of(by_mail, true, "1"), by_mail);
        let long = of(&"\u{10000}".repeat(75), true, "1");
        assert!(Address::new("sms", &long).is_some(), "{}", long.len());
    }

    #[test]
    fn a_word_with_a_slash_is_a_command_when_nothing_follows_that_it_does_not_take() {
        assert_eq!(spoken(" /new "), Some(Command::NEW));
        assert_eq!(spoken("/STOP"), Some(Command::Stop { all: false }));
        assert!(matches!(
            spoken("/approve k3f9w2"),
            Some(Command::Approval { .. })
        ));
        for words in ["/status of the disk", "new", "/etc/passwd", "/"] {
            assert_eq!(spoken(words), None, "{words}");
        }
    }
}
