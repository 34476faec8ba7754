//! Accepts commands of the shell: their recipient, their conversation, and the destination of the reply.

use std::sync::Arc;

use super::recipients::address;
use super::session_keys;
use crate::control;
use crate::control::replies::{Reply, Status};
use crate::control::{Order, Words};
use crate::message::{
    About, Address, Attachment, ChatRef, Command, Envelope, Route, Sender, SessionKey, Source,
    Trust,
};
use crate::people::People;
use crate::pipeline::commands::near_miss::near_miss;
use crate::pipeline::{Live, Pipeline, Signal};
use crate::queue::{Arrival, Known, LastRoute, Verdict};
use crate::{clock, db, queue, text};

/// The longest name of a conversation, characters; longer ones are slips of the clipboard.
const MAX_KEY: usize = 200;

/// What is needed to find people and conversations.
#[derive(Default)]
pub(crate) struct Everybody {
    pub(crate) people: Arc<People>,
    /// Where people were last heard, newest first.
    pub(crate) routes: Vec<LastRoute>,
    /// The conversations with an unanswered input, read only for a reset of all.
    pub(crate) unanswered: Vec<SessionKey>,
}

impl Pipeline {
    /// Takes commands in, in one transaction: when it returns they are on disk (or were
    /// before), and their spool files may go.
    ///
    /// # Errors
    /// See [`db::Error`]; the spool files must stay.
    pub async fn take_orders(&self, orders: &[Order]) -> Result<(), db::Error> {
        let now = clock::now_ms();
        let live = self.live();
        let mut known = self.people_for(orders).await?;
        let mut taken = Vec::with_capacity(orders.len());
        let mut said = Vec::with_capacity(orders.len());
        for order in orders {
            let input = Input {
                id: order.id.as_str(),
                now,
                door: Source::Cli,
            };
            let digest = control::digest(Source::Cli.as_str(), &order.command);
            said.push((&order.id, digest.clone()));
            let envelopes = self.envelopes(order, &input, &live, &known);
            // A reset of all may follow in the same batch.
            let messages = envelopes
                .iter()
                .filter(|envelope| envelope.command.is_none());
            (known.unanswered).extend(messages.map(|envelope| envelope.session_key.clone()));
            taken.push((&order.id, digest, envelopes));
        }
        if self.accept(taken, now).await? < orders.len() {
            for (id, digest) in said {
                if self.known_as(id, &digest).await? == Known::Other {
                    tracing::warn!(%id, "dropped: an earlier command with this id has different content");
                }
            }
        }
        Ok(())
    }

    /// Returns what is needed to find the people and conversations that `orders` mean.
    pub(crate) async fn people_for(&self, orders: &[Order]) -> Result<Everybody, db::Error> {
        let any = |is: fn(&control::Command) -> bool| orders.iter().any(|order| is(&order.command));
        let routes = match any(asks_for_way) {
            true => self.queue.routes().await?,
            false => Vec::new(),
        };
        let unanswered = match any(resets_all) {
            true => self.queue.unanswered_sessions().await?,
            false => Vec::new(),
        };
        // When the address book cannot be read now, whom a command means is not known yet: it waits.
        Ok(Everybody {
            people: self.people.read()?,
            routes,
            unanswered,
        })
    }

    /// Returns everybody who is known, and where they were last heard.
    ///
    /// # Errors
    /// When the address book or the queue cannot be read.
    pub(crate) async fn everybody(&self) -> Result<Everybody, db::Error> {
        Ok(Everybody {
            people: self.people.read()?,
            routes: self.queue.routes().await?,
            unanswered: Vec::new(),
        })
    }

    /// Takes orders in, each with its digest and the inputs it stands for. Returns how many inputs were new.
    pub(crate) async fn accept(
        &self,
        orders: Vec<(&control::Id, String, Vec<Envelope>)>,
        now: i64,
    ) -> Result<usize, db::Error> {
        let arrival = |(id, digest, envelopes): (&control::Id, String, Vec<Envelope>)| Arrival {
            digest: Some(digest),
            key: queue::command_key(id.as_str()),
            verdict: Verdict::Accept(envelopes),
        };
        let arrivals = orders.into_iter().map(arrival).collect();
        self.part_ways(&self.live()).await?;
        let (accepted, _) = self.queue.accept(arrivals, None, now).await?;
        for row in accepted.iter().filter(|row| row.envelope.wants_reply) {
            self.answer(&Reply::new(&row.envelope.id, Status::Accepted));
        }
        let count = accepted.len();
        let _ = self.signals.send(Signal::Accepted(accepted));
        Ok(count)
    }

    /// Returns whether a command of this id was accepted before, and whether it is the same one.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn known_as(&self, id: &control::Id, digest: &str) -> Result<Known, db::Error> {
        let key = queue::command_key(id.as_str());
        self.queue.known(&key, digest).await
    }

    /// Returns true when a command of this id was accepted before: then it is that one.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn knows(&self, id: &control::Id) -> Result<bool, db::Error> {
        self.queue.knows(&queue::command_key(id.as_str())).await
    }

    /// Takes lines of standard input in; their answers go to the channel `cli`.
    pub async fn take_lines(&self, lines: Vec<String>) {
        let now = clock::now_ms();
        let live = self.live();
        let known = Everybody::default();
        let arrival = |text: String| {
            let id = format!("stdin:{}", control::Id::new());
            let words = Words {
                text,
                ..Words::default()
            };
            let envelope = self.user(
                &Input {
                    id: &id,
                    now,
                    door: Source::Cli,
                },
                &live,
                &known,
                &words,
                "cli",
                None,
            );
            let route = Route::new(Source::Cli.as_str(), ChatRef::new("stdout"));
            let envelope = envelope.map(|envelope| Envelope {
                route: Some(route),
                ..envelope
            });
            Arrival::new(id.clone(), Verdict::Accept(envelope.into_iter().collect()))
        };
        let arrivals: Vec<Arrival> = lines.into_iter().map(arrival).collect();
        let accept = async || {
            self.part_ways(&live).await?;
            self.queue.accept(arrivals.clone(), None, now).await
        };
        let Ok((accepted, _)) = self.persist("a line of standard input", accept).await else {
            return;
        };
        let _ = self.signals.send(Signal::Accepted(accepted));
    }

    /// Returns an order as inputs. What makes no sense is one too: it is answered once, like the
    /// rest.
    pub(crate) fn envelopes(
        &self,
        order: &Order,
        input: &Input<'_>,
        live: &Live,
        known: &Everybody,
    ) -> Vec<Envelope> {
        let door = input.door.as_str();
        let (envelope, mut all) = match &order.command {
            command if resets_all(command) => self.reset_all(order, input, &known.unanswered),
            _ => (self.envelope(order, input, live, known), Vec::new()),
        };
        let first = envelope.unwrap_or_else(|reason| {
            let key = SessionKey(format!("{door}:{door}"));
            Envelope {
                text: words_of(&order.command).to_owned(),
                ..input.command(key, Command::Refused { reason })
            }
        });
        let first = Envelope {
            wants_reply: order.answer,
            ..first
        };
        all.insert(0, first);
        all
    }

    fn envelope(
        &self,
        order: &Order,
        input: &Input<'_>,
        live: &Live,
        known: &Everybody,
    ) -> Result<Envelope, String> {
        let files = |files: &[control::Attachment]| files.iter().map(taken_in).collect();
        Ok(match &order.command {
            control::Command::User {
                words,
                sender,
                session,
                stream,
                attachments,
            } => Envelope {
                stream: *stream && order.answer,
                attachments: files(attachments),
                ..self.user(input, live, known, words, sender, session.as_deref())?
            },
            control::Command::System { words, source } => {
                let about = About {
                    source: source.clone(),
                    ..About::default()
                };
                let key = event_key(words.untrusted, "system");
                input.event(live, Source::System, words, key, about)
            }
            control::Command::Notify {
                words,
                source,
                reference,
                data,
                attachments,
            } => {
                let about = About {
                    source: Some(source.clone()),
                    reference: reference.clone(),
                    data: data.clone(),
                };
                let (key, route) = self.way_of_notification(words.untrusted, source, live, known);
                Envelope {
                    route,
                    attachments: files(attachments),
                    ..input.event(live, Source::Notify, words, key, about)
                }
            }
            control::Command::Raw {
                to,
                text,
                attachments,
                topic,
                reply_to,
                emoji,
                untrusted,
                sticker,
            } => {
                let mut route = self.route_to(to, &live.config, known)?;
                route.chat.topic = topic.clone().or(route.chat.topic);
                let (door, key) = (input.door.as_str(), SessionKey(format!("raw:{to}")));
                Envelope {
                    route: Some(route),
                    command: Some(Command::sending(emoji.as_ref(), sticker.as_deref())?),
                    attachments: files(attachments),
                    reply_to: reply_to.clone(),
                    trust: Trust::of(*untrusted),
                    ..input.envelope(input.door, door, key, text)
                }
            }
            command => {
                let (key, command) = self.command(command, input, live, known)?;
                input.command(key, command)
            }
        })
    }

    /// Returns a notification that nobody could hear with its conversation and its way as they are now.
    pub(in crate::pipeline) async fn event_again(&self, unheard: Envelope) -> Option<Envelope> {
        let known = self.everybody().await.ok()?;
        let untrusted = unheard.session_key == event_key(true, "system");
        let source = unheard.about.as_ref()?.source.clone()?;
        let (session_key, route) =
            self.way_of_notification(untrusted, &source, &self.live(), &known);
        Some(Envelope {
            session_key,
            route,
            ..unheard
        })
    }

    /// Returns the conversation and the way of a notification. Words that are said to be
    /// somebody else's have a separate conversation.
    fn way_of_notification(
        &self,
        untrusted: bool,
        source: &str,
        live: &Live,
        known: &Everybody,
    ) -> (SessionKey, Option<Route>) {
        let way = self.way_to_owner(&live.config, known);
        if way.is_some() {
            self.end_troubles("no owner");
        }
        match way {
            Some((_, route)) if untrusted => (event_key(untrusted, source), Some(route)),
            Some((key, route)) => (key, Some(route)),
            None => {
                let whose = if live.config.channels.is_empty() {
                    "Telegram owner"
                } else {
                    "owner"
                };
                let trouble =
                    format!("a notification of {source} is not delivered: no {whose} configured");
                self.note_trouble_of("no owner", &trouble);
                (event_key(untrusted, "system"), None)
            }
        }
    }

    /// Returns what a command without words means, and in which conversation.
    fn command(
        &self,
        command: &control::Command,
        input: &Input<'_>,
        live: &Live,
        known: &Everybody,
    ) -> Result<(SessionKey, Command), String> {
        let door = input.door.as_str();
        let named = |session: Option<&str>| match session {
            Some(session) => self.session(input, live, known, session),
            None => own_key(door, door),
        };
        Ok(match command {
            control::Command::Stop { session } => {
                let all = session.is_none();
                (named(session.as_deref())?, Command::Stop { all })
            }
            // One there is not may be there when its turn comes: its first message may be waiting.
            control::Command::Reset { target } => (named(Some(target))?, Command::NEW),
            control::Command::Compact { session } => (named(session.as_deref())?, Command::Compact),
            control::Command::Approval {
                request,
                verdict,
                why,
            } => {
                let (id, verdict, why) = (request.clone(), *verdict, why.clone());
                (named(None)?, Command::Approval { id, verdict, why })
            }
            control::Command::DeadLetters { action, letter } => {
                let (action, letter) = (*action, Some(letter.clone()));
                (named(None)?, Command::DeadLetters { action, letter })
            }
            control::Command::Job(order) => (own_key("cli", "cli")?, Command::Job(order.clone())),
            control::Command::Pair(order) => {
                (own_key("cli", "cli")?, Command::People(order.clone()))
            }
            control::Command::Heartbeat => (own_key("cli", "cli")?, Command::Heartbeat),
            control::Command::Undo { run } => self.undo_of_shell(run.as_deref()),
            control::Command::Forget {
                target,
                hard: false,
            } => {
                let what = Some(target.clone());
                (named(None)?, Command::Forget { what })
            }
            control::Command::Forget { hard: true, .. } => {
                return Err("this command goes through the spool of a daemon".to_owned());
            }
            control::Command::Heard(_) | control::Command::Delivered(_) => {
                return Err("this is a line of a channel".to_owned());
            }
            control::Command::Reload | control::Command::Spool { .. } => {
                return Err("this command goes into the FIFO, not into the spool".to_owned());
            }
            control::Command::User { .. }
            | control::Command::System { .. }
            | control::Command::Notify { .. }
            | control::Command::Raw { .. } => return Err("this command has words".to_owned()),
        })
    }

    /// Returns what answers a reset of all conversations, and the reset of each.
    fn reset_all(
        &self,
        order: &Order,
        input: &Input<'_>,
        unanswered: &[SessionKey],
    ) -> (Result<Envelope, String>, Vec<Envelope>) {
        let mut keys = self.sessions.keys();
        // One whose first message waits, or is being answered, is a conversation too.
        keys.extend_from_slice(unanswered);
        keys.sort();
        keys.dedup();
        let text = match keys.len() {
            0 => "There is no conversation.".to_owned(),
            1 => "1 conversation archived.".to_owned(),
            count => format!("{count} conversations archived."),
        };
        let one = |(number, key): (usize, SessionKey)| Envelope {
            id: format!("{}/{number}", order.id),
            wants_reply: false,
            ..input.command(key, Command::NEW)
        };
        let resets = keys.into_iter().enumerate().map(one).collect();
        let door = input.door.as_str();
        let answer = own_key(door, door).map(|key| input.command(key, Command::Done { text }));
        (answer, resets)
    }

    fn user(
        &self,
        input: &Input<'_>,
        live: &Live,
        known: &Everybody,
        words: &Words,
        sender: &str,
        session: Option<&str>,
    ) -> Result<Envelope, String> {
        let door = input.door.as_str();
        let key = match session {
            None => senders_key(live, door, sender)?,
            // What people call themselves is their choice: words for a conversation of ours must not
            // end up in one of theirs. An id or an @username is meant as it is.
            Some(name) if !name.starts_with('@') && address(&live.config, name).is_none() => {
                // What is called so in the shell is another one than what is called so elsewhere.
                let is_meant =
                    |key: &SessionKey| input.door == Source::Cli || key.own_name() != Some(name);
                match joined(live, door, name)
                    .or_else(|| self.sessions.named(name).filter(is_meant))
                {
                    Some(key) => key,
                    None if name.contains(':') => {
                        own_key(door, name).map(|_| SessionKey(name.to_owned()))?
                    }
                    None => own_key(door, name)?,
                }
            }
            Some(contact) => self.session(input, live, known, contact)?,
        };
        // A word with a slash means in a shell what it means in a chat, when nothing is after it that
        // it would not take.
        let spoken = spoken(&words.text).filter(|_| !words.untrusted);
        let envelope = input.words(live, input.door, sender, words, key);
        let slip = || near_miss(&words.text).filter(|_| !words.untrusted);
        let envelope = Envelope {
            command: envelope.command.clone().or(spoken).or_else(slip),
            ..envelope
        };
        Ok(self.continuing(envelope, &live.config))
    }

    /// Returns the conversation that `target` means: one there is, or a new one of that name.
    fn session(
        &self,
        input: &Input<'_>,
        live: &Live,
        known: &Everybody,
        target: &str,
    ) -> Result<SessionKey, String> {
        let door = input.door.as_str();
        let own = own_key(door, target);
        // What is called so at this door is meant before what is called so at another.
        if let Ok(key) = &own
            && input.door == Source::Http
            && self.sessions.has(key)
        {
            return own;
        }
        // A conversation that was somebody's before their ids were joined is theirs no more.
        let contacts = known.people.find(target);
        let of_contact = || match contacts.as_slice() {
            [one] => live
                .config
                .session
                .person_of(one.id.channel(), &one.id.id()),
            _ => None,
        };
        let person = joined(live, door, target)
            .or_else(|| of_contact().map(|person| session_keys::joined_key(&live.config, person)));
        if let Some(key) = person {
            return Ok(key);
        }
        if let Some(first) = known.people.linked_person(target) {
            let key = session_keys::dm_key(&live.config, &known.people, &first, &first.id());
            return Ok(key);
        }
        match self.sessions.find(&known.people, target).as_slice() {
            [key] => return Ok(key.clone()),
            [] => {}
            several => return Err(ambiguous(target, several.iter().map(|key| key.0.clone()))),
        }
        match contacts.as_slice() {
            [contact] => Ok(session_keys::dm_key(
                &live.config,
                &known.people,
                &contact.id,
                &contact.id.id(),
            )),
            [] if target.starts_with('@') => Err(format!("no contact {:?}", text::visible(target))),
            [] if matches!(address(&live.config, target), Some(Address::Named { .. })) => {
                let address = address(&live.config, target).ok_or("no such contact")?;
                Ok(session_keys::dm_key(
                    &live.config,
                    &known.people,
                    &address,
                    &address.id(),
                ))
            }
            [] if target.contains(':') => own.map(|_| SessionKey(target.to_owned())),
            [] => own,
            several => Err(ambiguous(
                target,
                several.iter().map(|one| one.id.to_string()),
            )),
        }
    }
}

/// What an order's envelopes have in common.
pub(crate) struct Input<'a> {
    pub(crate) id: &'a str,
    pub(crate) now: i64,
    /// The shell's, or that of the HTTP API.
    pub(crate) door: Source,
}

impl Input<'_> {
    /// Anyone who can write the spool, or holds the token of the API, is the owner, whatever name they give.
    fn envelope(&self, source: Source, sender: &str, key: SessionKey, words: &str) -> Envelope {
        let sender = Sender::new(sender, sender);
        let envelope = Envelope::new(
            self.id.to_owned(),
            source,
            sender,
            key,
            words.to_owned(),
            self.now,
        );
        Envelope {
            from_owner: true,
            trust: Trust::Owner,
            ..envelope
        }
    }

    pub(crate) fn command(&self, key: SessionKey, command: Command) -> Envelope {
        Envelope {
            command: Some(command),
            ..self.envelope(self.door, self.door.as_str(), key, "")
        }
    }

    fn words(
        &self,
        live: &Live,
        source: Source,
        sender: &str,
        words: &Words,
        key: SessionKey,
    ) -> Envelope {
        let unknown = words.model.as_ref().and_then(|name| {
            let models = live.agent.client().models();
            let error = models.get(name, self.word_for_model()).err()?;
            Some(error.to_string())
        });
        let tier = words
            .tier
            .as_ref()
            .filter(|tier| !live.config.has_tier(tier));
        let unknown = unknown.or_else(|| Some(format!("no tier {:?}", text::visible(tier?))));
        Envelope {
            command: unknown.map(|reason| Command::Refused { reason }),
            trust: Trust::of(words.untrusted || (source == Source::Notify && !words.trusted)),
            trusted: words.trusted,
            background: words
                .context
                .clone()
                .filter(|context| !context.trim().is_empty()),
            tier: words.tier.clone(),
            model: words.model.clone(),
            ..self.envelope(source, sender, key, &words.text)
        }
    }

    /// What the caller calls the choice of a model.
    fn word_for_model(&self) -> &'static str {
        if self.door == Source::Http {
            "`model`"
        } else {
            "--model"
        }
    }

    fn event(
        &self,
        live: &Live,
        source: Source,
        words: &Words,
        key: SessionKey,
        about: About,
    ) -> Envelope {
        let sender = about
            .source
            .clone()
            .unwrap_or_else(|| source.as_str().to_owned());
        Envelope {
            about: Some(about),
            ..self.words(live, source, &sender, words, key)
        }
    }
}

/// Returns the conversation that is called `name` at the `door`.
fn own_key(door: &str, name: &str) -> Result<SessionKey, String> {
    if name.is_empty() || name.chars().count() > MAX_KEY || name.contains(char::is_control) {
        return Err("a conversation is named with 1 to 200 printable characters".to_owned());
    }
    Ok(SessionKey(format!("{door}:{name}")))
}

/// Returns the conversation of the `sender` at the `door`: with other ids of theirs, if there are any.
fn senders_key(live: &Live, door: &str, sender: &str) -> Result<SessionKey, String> {
    let person = live.config.session.person_of(door, sender);
    person.map_or_else(
        || own_key(door, sender),
        |person| Ok(session_keys::joined_key(&live.config, person)),
    )
}

/// Returns the conversation of a person with several ids who is called `target`, or has that id.
fn joined(live: &Live, door: &str, target: &str) -> Option<SessionKey> {
    let session = &live.config.session;
    let by_name = session
        .identity_links
        .contains_key(target)
        .then_some(target);
    let by_id = || {
        target
            .split_once(':')
            .and_then(|(channel, id)| session.person_of(channel, id))
    };
    let of_door = || session.person_of(door, target);
    by_name
        .or_else(by_id)
        .or_else(of_door)
        .map(|person| session_keys::joined_key(&live.config, person))
}

/// Returns the conversation of events called `name`; those in untrusted words are kept apart.
fn event_key(untrusted: bool, name: &str) -> SessionKey {
    SessionKey(if untrusted {
        format!("event:{name}:untrusted")
    } else {
        name.to_owned()
    })
}

/// Returns true when where people were last heard decides where the command's words go.
fn asks_for_way(command: &control::Command) -> bool {
    matches!(
        command,
        control::Command::Notify { .. } | control::Command::Raw { .. }
    )
}

fn resets_all(command: &control::Command) -> bool {
    matches!(command, control::Command::Reset { target } if target == "all")
}

/// Returns the command that a text is: a slash, its name, and what it takes.
pub(super) fn spoken(text: &str) -> Option<Command> {
    let text = text.trim().strip_prefix('/')?;
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    Command::spoken(word, rest).filter(|command| rest.is_empty() || command.takes_words())
}

/// Returns what would be lost if nobody heard of the command.
fn words_of(command: &control::Command) -> &str {
    match command {
        control::Command::User { words, .. }
        | control::Command::System { words, .. }
        | control::Command::Notify { words, .. } => &words.text,
        control::Command::Raw { text, .. } => text,
        _ => "",
    }
}

fn ambiguous(target: &str, list: impl Iterator<Item = String>) -> String {
    format!(
        "{} may be {}",
        text::visible(target),
        list.collect::<Vec<String>>().join(" or ")
    )
}

/// A file that the spool's reader has put below `downloads` already.
pub(super) fn taken_in(file: &control::Attachment) -> Attachment {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    Attachment {
        path: file.path.clone(),
        filename: file.filename.clone().unwrap_or_else(|| name.to_owned()),
        content_type: file.content_type.clone(),
    }
}
