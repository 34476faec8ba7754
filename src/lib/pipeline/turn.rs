//! Step 3, turn: one input, from its start to the transaction that marks it done and stores what
//! is to be said.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::approve::Asking;
use super::attach::{self, Place};
use super::between::{NO_SUMMARY, Step};
use super::fresh::{Carried, Fresh};
use super::gather::Bundle;
use super::stream::Stream;
use super::{Live, Pipeline, Run, silence};
use crate::agent::{Ended as TurnEnd, Order, Owner, Reply as Said, Written};
use crate::channel::{Channel, Rendered};
use crate::config::ReplyTo;
use crate::control::replies::{Reply, Status};
use crate::cost::usd;
use crate::memory::{JOINED, Scope, Viewer};
use crate::message::{Attachment, Block, Envelope, MediaKind, OutFile, Role, Route, Source, Trust};
use crate::provider::SystemBlock;
use crate::queue::{Ended, Finish, MAX_DEATHS, NewPart, Note, Started};
use crate::session::{Kind, Resume, Session, Spoken, SummaryBy};
use crate::text::fence;
use crate::{agent, clock, context};

/// What is to be recorded of a turn.
pub(super) struct Outcome {
    ended: Ended,
    reply: Reply,
    /// What is to be said; `None` when the agent chose silence.
    text: Option<Saying>,
}

/// Words to be sent.
enum Saying {
    /// The agent's.
    Markdown(String),
    /// Somebody else's, to be shown as they are; below the files that came with them.
    Plain(String),
    /// An emoji on the message that is answered.
    Reaction(String),
}

pub(super) async fn run(pipeline: Arc<Pipeline>, bundle: Bundle) {
    let new_id = uuid::Uuid::now_v7().to_string();
    if bundle.attempts() >= MAX_DEATHS {
        return pipeline.give_up(&bundle, &new_id).await;
    }
    let run = Run::new(bundle.clone());
    // Known before it is recorded, so that a stop finds it at every moment.
    pipeline.runs().insert(bundle.key().clone(), run.clone());
    let ids = bundle.ids();
    let started = pipeline.persist("the start of a turn", || pipeline.queue.start_run(&new_id, &ids)).await;
    let Some(Started::Run { run_id, inbox_ids }) = started else { return };
    let Some(bundle) = bundle.only(&inbox_ids) else { return };
    let (outcome, was_turn) = match pipeline.between(&bundle, &run_id, &run).await {
        Step::Turn(said) => (pipeline.converse(&said, &run_id, &run).await, true),
        Step::Done(outcome) => (outcome.map(|outcome| *outcome), false),
    };
    let Some(outcome) = outcome else { return };
    // What fails now would fail again, and be paid for.
    let is_answered = was_turn && outcome.reply.status == Status::Done;
    pipeline.finish(&bundle, &run_id, outcome).await;
    if is_answered {
        run.answered.store(true, Ordering::Relaxed);
        pipeline.make_room(bundle.leader(), &run_id, &run, false).await;
    }
}

/// What a turn's order is made of.
pub(super) struct Setting<'a> {
    pub(super) live: &'a Live,
    envelope: &'a Envelope,
    pub(super) run_id: &'a str,
    pub(super) run: &'a Run,
    pub(super) viewer: Viewer,
    model: String,
    system: Vec<SystemBlock>,
}

impl Setting<'_> {
    pub(super) fn order<'a>(&'a self, owner: &'a dyn Owner, reader: &'a (dyn Fn(Written<'_>) + Send + Sync)) -> Order<'a> {
        let envelope = self.envelope;
        Order {
            run_id: self.run_id,
            inbox_id: &envelope.id,
            person: &envelope.sender.id,
            from_owner: envelope.from_owner,
            viewer: &self.viewer,
            route: envelope.route.as_ref(),
            message_id: envelope.reply_to.as_deref(),
            source: envelope.source.as_str(),
            model: &self.model,
            system: self.system.clone(),
            cancel: &self.run.cancel,
            interrupted: &self.run.interrupted,
            owner,
            reader,
        }
    }
}

impl Pipeline {
    /// Ends a turn in its transcript that will not be gone on with.
    async fn close_turn(&self, envelope: &Envelope, run_id: &str, reason: &str) {
        let key = &envelope.session_key;
        let Some(mut session) = self.persist("a session", || self.sessions.take(key, envelope.contact())).await else {
            return;
        };
        if let Err(error) = agent::break_off(&mut session, run_id, &envelope.id, reason.to_owned(), false).await {
            tracing::error!(%error, session = session.id(), "the end of a turn could not be written down");
        }
        self.sessions.put(session);
    }

    /// Gives a message up that died with the daemon too often.
    async fn give_up(self: &Arc<Self>, bundle: &Bundle, run_id: &str) {
        let (envelope, deaths) = (bundle.leader(), bundle.attempts());
        let reason = format!("interrupted by {deaths} restarts");
        self.close_turn(envelope, run_id, &reason).await;
        let text = format!(
            "I was restarted {deaths} times while working on this message and gave it up. Send it again if it still matters."
        );
        let reply = Reply::error(&envelope.id, text.clone());
        let text = match envelope.source {
            Source::Notify => Saying::Plain(event_text(envelope)),
            _ => Saying::Markdown(text),
        };
        self.finish(bundle, run_id, Outcome { ended: Ended::Dead(reason), reply, text: Some(text) }).await;
    }

    /// Tells the person that a turn ended in a bug of ours. It is not tried again: it would end
    /// there again.
    pub(super) async fn broke_down(self: &Arc<Self>, bundle: &Bundle) {
        let run_id = uuid::Uuid::now_v7().to_string();
        self.close_turn(bundle.leader(), &run_id, "a bug").await;
        let outcome = self.failed(bundle.leader(), "a bug of the agent itself; its log has the place", &[]);
        self.finish(bundle, &run_id, outcome).await;
    }

    /// Notes a failure and returns what is said about it.
    pub(super) fn failed(&self, envelope: &Envelope, reason: &str, receipts: &[String]) -> Outcome {
        self.note_trouble(reason);
        match envelope.source {
            // The owner is to hear of it, model or not; the caller's job is done.
            Source::Notify if envelope.route.is_some() => as_it_is(envelope, event_text(envelope), event_text(envelope)),
            _ => {
                let text = Saying::Markdown(failure(&self.live(), envelope, reason, receipts));
                let reply = Reply { receipts: receipts.to_vec(), ..Reply::error(&envelope.id, reason) };
                Outcome { ended: Ended::Done, reply, text: Some(text) }
            }
        }
    }

    /// Lets the agent answer.
    async fn converse(self: &Arc<Self>, bundle: &Bundle, run_id: &str, run: &Run) -> Option<Outcome> {
        let live = self.live();
        let envelope = bundle.leader();
        let key = &envelope.session_key;
        let Fresh { mut session, carried } = self.take_fresh(&live, bundle).await?;
        let setting = self.setting(&live, envelope, run_id, run, &session).await;
        let progress = self.progress(&live, envelope, run_id);
        if envelope.wants_reply {
            let running = Reply {
                session_id: Some(session.id().to_owned()),
                run_id: Some(run_id.to_owned()),
                ..Reply::new(&envelope.id, Status::Running)
            };
            self.answer(&running);
        }
        let mut heard = None;
        if session.state().resume(&envelope.id) == Resume::Fresh {
            let messages = bundle.messages();
            let (notes, newest) = self.persist("what was heard", || self.queue.notes(key)).await?;
            let (recalled, overdue) = self.recall(&messages, &setting, &session).await;
            let place = Place { pipeline: self, live: &live, envelope, run_id, session_id: session.id(), cancel: &run.cancel };
            let pins = carried.as_ref().map(|carried| carried.pins.clone()).unwrap_or_default();
            let pins = pins.into_iter().map(|text| Kind::Pin { run_id: run_id.to_owned(), text });
            let mut kinds: Vec<Kind> = pins.collect();
            kinds.push(self.user_message(&messages, &notes, &place, (carried, recalled)).await);
            if let Err(error) = session.append(kinds, true).await {
                tracing::error!(%error, "a message could not be written into its transcript");
                self.sessions.put(session);
                return Some(self.failed(envelope, &error.to_string(), &[]));
            }
            self.brought_up(overdue).await;
            heard = (!notes.is_empty()).then_some(newest);
        }
        let stream = envelope.stream.then(|| Stream::begin(&self.replies, &envelope.id));
        let reader = |written: Written<'_>| {
            stream.iter().for_each(|stream| stream.write(written));
            progress.iter().for_each(|progress| progress.write(written));
        };
        let compactions = session.state().compaction_count;
        let asking = Asking::new(self.clone(), envelope.clone(), run_id, session.id());
        let ended = live.agent.run(&mut session, setting.order(&asking, &reader)).await;
        // Whatever is still asked of this turn is asked no more.
        asking.end().await;
        let newest = session.state().compacted.as_ref().filter(|_| session.state().compaction_count > compactions);
        if newest.is_some_and(|newest| newest.by == SummaryBy::Statistics) {
            self.note_trouble(NO_SUMMARY);
        }
        if let Some(progress) = progress {
            progress.end().await;
        }
        // A turn that failed or was stopped may be forgotten with all it heard.
        if let (TurnEnd::Reply(_), Some(newest)) = (&ended, heard)
            && let Err(error) = self.queue.forget_notes(key, newest).await
        {
            tracing::warn!(%error, "what was heard is heard again");
        }
        let session_id = session.id().to_owned();
        self.sessions.put(session);
        let outcome = match ended {
            TurnEnd::Reply(reply) => said(envelope, &reply.text, Some(&reply)),
            TurnEnd::Stopped => {
                // Whoever stopped it has recorded the end already; its answer file may have been
                // written over by the "running" of this turn.
                if envelope.wants_reply {
                    self.answer(&Reply::error(&envelope.id, "stopped"));
                }
                return None;
            }
            TurnEnd::Failed { reason, receipts } => {
                tracing::error!(reason, session = session_id, "a turn failed");
                self.failed(envelope, &reason, &receipts)
            }
        };
        let reply = Reply { session_id: Some(session_id), run_id: Some(run_id.to_owned()), ..outcome.reply };
        Some(Outcome { reply, ..outcome })
    }

    pub(super) async fn setting<'a>(
        &self,
        live: &'a Arc<Live>,
        envelope: &'a Envelope,
        run_id: &'a str,
        run: &'a Run,
        session: &Session,
    ) -> Setting<'a> {
        let viewer = Viewer::of(envelope, &|id: &str| self.is_owner(live, id)).and_persons(same_person(live, envelope));
        let model = model_for(live, envelope, session);
        let system = {
            let (context, live, model, envelope) = (self.context.clone(), live.clone(), model.clone(), envelope.clone());
            let owners_alone = viewer.may_see(&Scope::Owner);
            // Many files may be looked at, and skills hashed.
            let work = move || context.system(&live.config, live.agent.client().models(), &model, &envelope, owners_alone);
            let system = tokio::task::spawn_blocking(work).await;
            system.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
        };
        Setting { live, envelope, run_id, run, viewer, model, system }
    }

    /// Returns true for the id of an owner; while people.json cannot be read, for those alone whom the
    /// configuration names.
    pub(super) fn is_owner(&self, live: &Live, id: &str) -> bool {
        let people = self.people.read().unwrap_or_default();
        if let Some(person) = id.strip_prefix(JOINED) {
            // Whoever has one of the ids reads all of it.
            let session = &live.config.session;
            let is_known = session.identity_links.contains_key(person);
            let mut ids = session.ids_of(person, "telegram");
            return is_known && ids.all(|id| id.parse().is_ok_and(|id| people.is_owner(&live.config.telegram, id)));
        }
        id.parse().is_ok_and(|id| people.is_owner(&live.config.telegram, id))
    }

    /// Writes the messages of a turn down as the model reads them.
    async fn user_message(
        &self,
        messages: &[Envelope],
        notes: &[Note],
        place: &Place<'_>,
        (carried, recalled): (Option<Carried>, Option<String>),
    ) -> Kind {
        let zone = place.live.config.agent.timezone.0;
        let marker = fence::marker(place.run_id);
        let mut content = Vec::new();
        let from_before = carried.as_ref().is_some_and(|carried| carried.foreign);
        let before = carried.into_iter().flat_map(|carried| carried.blocks);
        let recalled = recalled.map(context::recalled);
        let mut beside: Vec<Block> = before.chain(context::overheard(notes, zone, &marker)).chain(recalled).collect();
        for message in messages {
            let mut blocks = context::message(message, zone, &marker);
            // What is known beside the words stands between the first head and them.
            blocks.splice(1..1, std::mem::take(&mut beside));
            content.extend(blocks);
            content.extend(attach::read(&Place { envelope: message, ..*place }).await);
        }
        let foreign = messages.iter().any(carries_words_of_others) || notes.iter().any(|note| !note.of_owner) || from_before;
        let first = messages.first();
        Kind::Message(Spoken {
            inbox_id: first.map(|envelope| envelope.id.clone()),
            trust: Some(if foreign { Trust::Other } else { Trust::Owner }),
            about: first.and_then(|envelope| envelope.about.clone()),
            ..Spoken::new(Role::User, content, place.run_id)
        })
    }

    /// Ends an input that needed no turn.
    pub(super) async fn finish_one(self: &Arc<Self>, envelope: &Envelope, outcome: Outcome) {
        let run_id = uuid::Uuid::now_v7().to_string();
        self.record(envelope, vec![envelope.id.clone()], &run_id, outcome).await;
    }

    pub(super) async fn finish(self: &Arc<Self>, bundle: &Bundle, run_id: &str, outcome: Outcome) {
        self.record(bundle.leader(), bundle.ids(), run_id, outcome).await;
    }

    /// The last transaction of a turn, then its consequences.
    async fn record(self: &Arc<Self>, envelope: &Envelope, inbox_ids: Vec<String>, run_id: &str, outcome: Outcome) {
        let unheard = envelope.source == Source::Notify && envelope.route.is_none() && outcome.text.is_some();
        let ended = match outcome.ended {
            Ended::Done if unheard => Ended::Dead("nobody was told: there is no way to the owner".to_owned()),
            ended => ended,
        };
        let finish = Finish {
            run_id: run_id.to_owned(),
            inbox_ids,
            ended,
            result: envelope.wants_reply.then_some(outcome.reply),
            parts: outcome.text.map(|text| self.parts(envelope, text)).unwrap_or_default(),
        };
        let now = clock::now_ms();
        let recorded = self.persist("the end of a turn", || self.queue.finish(finish.clone(), now)).await;
        // Unrecorded: the daemon ends, and the next start finds the turn. `None` inside: it was
        // stopped meanwhile, and its caller was told.
        let Some(Some(parts)) = recorded else { return };
        self.deliver(parts);
        if let Some(reply) = &finish.result {
            self.answer(reply);
        }
    }

    /// Renders an answer into what is stored and sent.
    fn parts(&self, envelope: &Envelope, saying: Saying) -> Vec<NewPart> {
        let Some((channel, route)) = self.channel(envelope) else { return Vec::new() };
        let mode = self.live().config.telegram.reply_to_mode;
        let of_words = |part: Rendered| NewPart { markup: part.markup, ..NewPart::plain(route.clone(), part.plain) };
        let mut parts: Vec<NewPart> = match saying {
            Saying::Markdown(text) => channel.render(&text).into_iter().map(of_words).collect(),
            Saying::Reaction(emoji) => {
                let reply_to = envelope.reply_to.clone();
                return vec![NewPart { reply_to, reaction: Some(emoji), ..NewPart::plain(route, String::new()) }];
            }
            Saying::Plain(text) => {
                let mut files = channel.albums(envelope.attachments.iter().map(out_file).collect()).into_iter();
                // Short words stand below the first file, longer ones before it.
                let takes_words =
                    files.as_slice().first().and_then(|files| files.first()).is_some_and(|file| file.kind.takes_words());
                let caption = channel.caption(&text).filter(|_| takes_words);
                let first = caption.and_then(|caption| Some(NewPart { files: files.next()?, ..of_words(caption) }));
                let words = if first.is_some() { Vec::new() } else { channel.plain(&text) };
                let rest = files.map(|files| NewPart { files, ..NewPart::plain(route.clone(), String::new()) });
                words.into_iter().map(of_words).chain(first).chain(rest).collect()
            }
        };
        for (number, part) in parts.iter_mut().enumerate() {
            let answers = mode == ReplyTo::All || (mode == ReplyTo::First && number == 0);
            part.reply_to = envelope.reply_to.clone().filter(|_| answers);
        }
        parts
    }

    /// Returns the door to which an answer goes, while it is open, and the way there.
    pub(super) fn channel(&self, envelope: &Envelope) -> Option<(Arc<dyn Channel>, Route)> {
        let route = envelope.route.clone()?;
        Some((self.channels.get(route.channel.as_str())?.clone(), route))
    }
}

/// Returns the ids that the settings say are the sender's as well.
fn same_person(live: &Live, envelope: &Envelope) -> Vec<String> {
    let session = &live.config.session;
    let person = session.person_of(envelope.source.as_str(), &envelope.sender.id);
    let links = person.and_then(|person| session.identity_links.get(person)).into_iter().flatten();
    links.filter_map(|link| link.split_once(':').map(|(_, id)| id.to_owned())).collect()
}

/// What comes beside the words and says nothing in words of anybody.
const PLAIN_KINDS: [&str; 7] =
    ["sticker", "animated sticker", "video sticker", "location", "live location", "dice", "message without content"];

/// Returns true for what holds more than the owner's own words: what they pass on, what they answer,
/// a document, a recording of anything but their own voice.
pub(super) fn carries_words_of_others(envelope: &Envelope) -> bool {
    let answers = envelope.quoted.as_ref().is_some_and(|quoted| !quoted.own && quoted.id.as_ref() != Some(&envelope.sender.id));
    let document = envelope.media.iter().any(|media| matches!(media.kind, MediaKind::Document | MediaKind::Audio));
    // The name on a card, of a place, a poll: whoever made it chose the words.
    let named = envelope.kind.as_deref().is_some_and(|kind| !PLAIN_KINDS.iter().any(|plain| kind.starts_with(plain)));
    envelope.trust == Trust::Other || answers || document || named
}

/// The model the caller named, else the one chosen for the conversation, else the one of the source, else
/// `primary`. One that is no longer configured is not asked for.
pub(super) fn model_for(live: &Live, envelope: &Envelope, session: &Session) -> String {
    let models = live.agent.client().models();
    let chosen = session.state().chosen_model.clone().filter(|name| models.get(name, "/model").is_ok());
    let routed = || models.for_role(envelope.source.role()).map(|model| model.name.clone());
    envelope.model.clone().or(chosen).or_else(routed).unwrap_or_else(|| "primary".to_owned())
}

pub(super) fn said(envelope: &Envelope, text: &str, of: Option<&Said>) -> Outcome {
    let text = silence::spoken(text, envelope.source);
    let reply = Reply {
        reply: Some(text.clone().unwrap_or_default()),
        silent: text.is_none().then_some(true),
        tokens: of.map(|said| said.usage.total()),
        cost_usd: of.and_then(|said| said.cost_nano_usd).map(usd),
        receipts: of.map(|said| said.receipts.clone()).unwrap_or_default(),
        ..Reply::new(&envelope.id, Status::Done)
    };
    Outcome { ended: Ended::Done, reply, text: text.map(Saying::Markdown) }
}

/// A command that is not carried out, and why: the person reads it, and it is an error to the shell.
pub(super) fn declined(envelope: &Envelope, why: &str) -> Outcome {
    Outcome { ended: Ended::Done, reply: Reply::error(&envelope.id, why), text: Some(Saying::Markdown(why.to_owned())) }
}

/// Words of somebody else that go out as they are; the caller reads `reply`.
pub(super) fn as_it_is(envelope: &Envelope, text: String, reply: String) -> Outcome {
    let reply = Reply { reply: Some(reply), ..Reply::new(&envelope.id, Status::Done) };
    Outcome { ended: Ended::Done, reply, text: Some(Saying::Plain(text)) }
}

/// What became of the owner's word, as it is: there are words in it that others may have chosen. Nothing
/// is said in the chat to a press of a button.
pub(super) fn decided(envelope: &Envelope, heard: &Result<String, String>) -> Outcome {
    let (text, reply) = match heard {
        Ok(text) => (text, Reply { reply: Some(text.clone()), ..Reply::new(&envelope.id, Status::Done) }),
        Err(why) => (why, Reply::error(&envelope.id, why.as_str())),
    };
    let text = envelope.press.is_none().then(|| Saying::Plain(text.clone()));
    Outcome { ended: Ended::Done, reply, text }
}

/// An emoji put on a message; the caller reads nothing.
pub(super) fn reaction(envelope: &Envelope, emoji: String) -> Outcome {
    let reply = Reply { reply: Some(String::new()), ..Reply::new(&envelope.id, Status::Done) };
    Outcome { ended: Ended::Done, reply, text: Some(Saying::Reaction(emoji)) }
}

fn out_file(file: &Attachment) -> OutFile {
    OutFile { kind: MediaKind::of_name(&file.filename), path: file.path.clone(), filename: file.filename.clone() }
}

/// An event without the agent's words on it.
fn event_text(envelope: &Envelope) -> String {
    let about = envelope.about.clone().unwrap_or_default();
    let reference = about.reference.map_or_else(String::new, |reference| format!(" ({reference})"));
    format!("{}{reference}: {}", about.source.unwrap_or_default(), envelope.text)
}

/// What the person reads when no answer came. Only the owner is told why, and only where nobody else
/// reads it.
fn failure(live: &Live, envelope: &Envelope, reason: &str, receipts: &[String]) -> String {
    let message = &live.config.agent.error_message;
    let alone = envelope.from_owner && envelope.group.is_none();
    if !alone {
        return message.clone();
    }
    // What was done is not undone, and the next try should know it.
    let done = if receipts.is_empty() { String::new() } else { format!("\n\nDone before that: {}.", receipts.join("; ")) };
    format!("{message}\n\n({}){done}", crate::text::shorten(reason, 600))
}

/// An order that makes no sense. Its words would be lost unseen if nobody waits for the answer, so
/// they are a dead letter.
pub(super) fn refused(envelope: &Envelope, reason: &str) -> Outcome {
    let ended = if envelope.text.is_empty() { Ended::Done } else { Ended::Dead(reason.to_owned()) };
    Outcome { ended, reply: Reply::error(&envelope.id, reason), text: None }
}
