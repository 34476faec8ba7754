//! Step 3, turn: one input, from its start to the transaction that marks it done and stores what
//! is to be said.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::stream::Stream;
use super::{Live, Pipeline, Run, attach, silence};
use crate::agent::{Ended as TurnEnd, Order, Reply as Said, Written};
use crate::channel::Channel;
use crate::config::ReplyTo;
use crate::control::replies::{Reply, Status};
use crate::cost::usd;
use crate::memory::{Viewer, recall};
use crate::message::{Block, ChatRef, Command, Envelope, Role, Route, Source};
use crate::queue::{Accepted, Ended, Finish, MAX_DEATHS, NewPart, Started};
use crate::session::{Kind, Resume, Session, Spoken};
use crate::{agent, clock, context};

/// A quick answer needs no "typing"; Telegram shows one for 5 s, so it is renewed every 4.
const TYPING: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(4));
/// Failures after which nobody tries to show it any more.
const TYPING_FAILURES: u32 = 3;

/// What is said after a reset.
const ANEW: &str = "We begin anew. What was said before is archived.";

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
    /// Somebody else's, to be shown as they are.
    Plain(String),
}

pub(super) async fn run(pipeline: Arc<Pipeline>, row: Accepted) {
    let envelope = row.envelope;
    let new_id = uuid::Uuid::now_v7().to_string();
    if row.attempts >= MAX_DEATHS {
        return pipeline.give_up(&envelope, &new_id, row.attempts).await;
    }
    let cancel = CancellationToken::new();
    // Known before it is recorded, so that a stop finds it at every moment.
    let handle = Run { inbox_id: envelope.id.clone(), cancel: cancel.clone() };
    pipeline.runs().insert(envelope.session_key.clone(), handle);
    let started = pipeline.persist("the start of a turn", || pipeline.queue.start_run(&new_id, &envelope.id)).await;
    let Some(Started::Run { run_id }) = started else { return };
    let outcome = match envelope.command {
        Some(Command::New) => pipeline.begin_anew(&envelope, row.attempts > 0).await,
        _ => pipeline.converse(&envelope, &run_id, &cancel).await,
    };
    if let Some(outcome) = outcome {
        pipeline.finish(&envelope, &run_id, outcome).await;
    }
}

impl Pipeline {
    /// Ends a turn in its transcript that will not be gone on with.
    async fn close_turn(&self, envelope: &Envelope, run_id: &str, reason: &str) {
        let key = &envelope.session_key;
        let Some(mut session) = self.persist("a session", || self.sessions.take(key, envelope.contact())).await else {
            return;
        };
        if let Err(error) = agent::break_off(&mut session, run_id, &envelope.id, reason.to_owned()).await {
            tracing::error!(%error, session = session.id(), "the end of a turn could not be written down");
        }
        self.sessions.put(session);
    }

    /// Gives a message up that died with the daemon too often.
    async fn give_up(self: &Arc<Self>, envelope: &Envelope, run_id: &str, deaths: i64) {
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
        self.finish(envelope, run_id, Outcome { ended: Ended::Dead(reason), reply, text: Some(text) }).await;
    }

    /// Tells the person that a turn ended in a bug of ours. It is not tried again: it would end
    /// there again.
    pub(super) async fn broke_down(self: &Arc<Self>, envelope: &Envelope) {
        let run_id = uuid::Uuid::now_v7().to_string();
        self.close_turn(envelope, &run_id, "a bug").await;
        let outcome = self.failed(envelope, "a bug of the agent itself; its log has the place");
        self.finish(envelope, &run_id, outcome).await;
    }

    /// Notes a failure and returns what is said about it.
    fn failed(&self, envelope: &Envelope, reason: &str) -> Outcome {
        self.note_trouble(reason);
        match envelope.source {
            // The owner is to hear of it, model or not; the caller's job is done.
            Source::Notify if envelope.route.is_some() => as_it_is(envelope, event_text(envelope), event_text(envelope)),
            _ => {
                let text = Saying::Markdown(failure(&self.live(), envelope, reason));
                Outcome { ended: Ended::Done, reply: Reply::error(&envelope.id, reason), text: Some(text) }
            }
        }
    }

    /// Archives the session; its next message begins a new one.
    async fn begin_anew(self: &Arc<Self>, envelope: &Envelope, again: bool) -> Option<Outcome> {
        let archive = || {
            let (pipeline, key) = (self.clone(), envelope.session_key.clone());
            async move {
                let archived = tokio::task::spawn_blocking(move || pipeline.sessions.reset(&key)).await;
                archived.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            }
        };
        Some(match self.persist("a reset", archive).await? {
            Some(_) => {
                // What was said can be searched for from now on.
                self.memory.tell_news();
                said(envelope, ANEW, None)
            }
            // A crash came between the deed and its record.
            None if again => said(envelope, ANEW, None),
            // Somebody named a session that is not there; "/new" at the beginning is no mistake.
            None if envelope.wants_reply && envelope.text.is_empty() => {
                refused(envelope, &format!("no session is called {}", envelope.session_key))
            }
            None => said(envelope, "This is a new conversation already.", None),
        })
    }

    /// Lets the agent answer.
    async fn converse(&self, envelope: &Envelope, run_id: &str, cancel: &CancellationToken) -> Option<Outcome> {
        let live = self.live();
        let key = &envelope.session_key;
        let mut session = self.persist("a session", || self.sessions.take(key, envelope.contact())).await?;
        let is_owner = |id: &str| self.is_owner(&live, id);
        let viewer = Viewer::of(envelope, &is_owner);
        if session.state().resume(&envelope.id) == Resume::Fresh {
            let files = attach::read(&self.downloads, &envelope.attachments).await;
            let recalled = self.recall(envelope, &viewer, &session).await;
            let spoken = user_message(envelope, run_id, &live, recalled, files);
            if let Err(error) = session.append(vec![spoken], true).await {
                tracing::error!(%error, "a message could not be written into its transcript");
                self.sessions.put(session);
                return Some(self.failed(envelope, &error.to_string()));
            }
        }
        if envelope.wants_reply {
            let running = Reply {
                session_id: Some(session.id().to_owned()),
                run_id: Some(run_id.to_owned()),
                ..Reply::new(&envelope.id, Status::Running)
            };
            self.answer(&running);
        }
        let typing =
            self.channel(envelope).filter(|_| envelope.source.is_person()).map(|(channel, route)| typing(channel, route.chat));
        let stream = envelope.stream.then(|| Stream::begin(&self.replies, &envelope.id));
        let reader = |written: Written<'_>| stream.iter().for_each(|stream| stream.write(written));
        let model = model_for(&live, envelope);
        let order = Order {
            run_id,
            inbox_id: &envelope.id,
            person: &envelope.sender.id,
            from_owner: envelope.from_owner,
            viewer: &viewer,
            source: envelope.source.as_str(),
            model: &model,
            system: context::system(&live.config.agent.name, &self.files, envelope),
            cancel,
            reader: &reader,
        };
        let ended = live.agent.run(&mut session, order).await;
        drop(typing);
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
            TurnEnd::Failed(reason) => {
                tracing::error!(reason, session = session_id, "a turn failed");
                self.failed(envelope, &reason)
            }
        };
        let reply = Reply { session_id: Some(session_id), run_id: Some(run_id.to_owned()), ..outcome.reply };
        Some(Outcome { reply, ..outcome })
    }

    /// Returns true for the id of an owner; while people.json cannot be read, for those alone whom the
    /// configuration names.
    fn is_owner(&self, live: &Live, id: &str) -> bool {
        let people = self.people.read().unwrap_or_default();
        id.parse().is_ok_and(|id| people.is_owner(&live.config.telegram, id))
    }

    /// Returns what is remembered that bears on a person's message and is not in the conversation yet.
    async fn recall(&self, envelope: &Envelope, viewer: &Viewer, session: &Session) -> Option<String> {
        if !envelope.source.is_person() || envelope.tier.as_deref().is_some_and(|tier| tier != "full") {
            return None;
        }
        let blocks = session.state().entries.iter().flat_map(|entry| &entry.message.content);
        let said: String = blocks
            .filter_map(|block| match block {
                Block::Context { text } if text.starts_with(recall::HEAD) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let first = session.state().entries.is_empty();
        let (memory, viewer, words) = (self.memory.clone(), viewer.clone(), envelope.text.clone());
        let work = move || memory.recall(&viewer, &words, first, |line| said.contains(line));
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            // The same message would meet the same bug again: better answered without its memories.
            tracing::error!(%error, "nothing was recalled");
            None
        })
    }

    /// The last transaction of a turn, then its consequences.
    pub(super) async fn finish(self: &Arc<Self>, envelope: &Envelope, run_id: &str, outcome: Outcome) {
        let unheard = envelope.source == Source::Notify && envelope.route.is_none() && outcome.text.is_some();
        let ended = match outcome.ended {
            Ended::Done if unheard => Ended::Dead("nobody was told: there is no way to the owner".to_owned()),
            ended => ended,
        };
        let finish = Finish {
            run_id: run_id.to_owned(),
            inbox_id: envelope.id.clone(),
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
        let rendered = match saying {
            Saying::Markdown(text) => channel.render(&text),
            Saying::Plain(text) => channel.plain(&text),
        };
        rendered
            .into_iter()
            .enumerate()
            .map(|(number, part)| NewPart {
                route: route.clone(),
                reply_to: envelope.reply_to.clone().filter(|_| mode == ReplyTo::All || (mode == ReplyTo::First && number == 0)),
                markup: part.markup,
                plain: part.plain,
            })
            .collect()
    }

    fn channel(&self, envelope: &Envelope) -> Option<(Arc<dyn Channel>, Route)> {
        let route = envelope.route.clone()?;
        Some((self.channels.get(route.channel.as_str())?.clone(), route))
    }
}

fn user_message(envelope: &Envelope, run_id: &str, live: &Live, recalled: Option<String>, files: Vec<Block>) -> Kind {
    let mut content = context::user_message(envelope, live.config.agent.timezone.0, recalled);
    content.extend(files);
    Kind::Message(Spoken {
        inbox_id: Some(envelope.id.clone()),
        trust: Some(envelope.trust),
        about: envelope.about.clone(),
        ..Spoken::new(Role::User, content, run_id)
    })
}

/// The model the caller named, else the one of the source, else `primary`.
fn model_for(live: &Live, envelope: &Envelope) -> String {
    let routed = || live.agent.client().models().for_role(envelope.source.role()).map(|model| model.name.clone());
    envelope.model.clone().or_else(routed).unwrap_or_else(|| "primary".to_owned())
}

pub(super) fn said(envelope: &Envelope, text: &str, of: Option<&Said>) -> Outcome {
    let text = silence::spoken(text, envelope.source);
    let reply = Reply {
        reply: Some(text.clone().unwrap_or_default()),
        silent: text.is_none().then_some(true),
        tokens: of.map(|said| said.usage.total()),
        cost_usd: of.and_then(|said| said.cost_nano_usd).map(usd),
        ..Reply::new(&envelope.id, Status::Done)
    };
    Outcome { ended: Ended::Done, reply, text: text.map(Saying::Markdown) }
}

/// Words of somebody else that go out as they are; the caller reads `reply`.
pub(super) fn as_it_is(envelope: &Envelope, text: String, reply: String) -> Outcome {
    let reply = Reply { reply: Some(reply), ..Reply::new(&envelope.id, Status::Done) };
    Outcome { ended: Ended::Done, reply, text: Some(Saying::Plain(text)) }
}

/// An event without the agent's words on it.
fn event_text(envelope: &Envelope) -> String {
    let about = envelope.about.clone().unwrap_or_default();
    let reference = about.reference.map_or_else(String::new, |reference| format!(" ({reference})"));
    format!("{}{reference}: {}", about.source.unwrap_or_default(), envelope.text)
}

/// What the person reads when no answer came. Only the owner is told why.
fn failure(live: &Live, envelope: &Envelope, reason: &str) -> String {
    let message = &live.config.agent.error_message;
    if envelope.from_owner { format!("{message}\n\n({})", crate::text::shorten(reason, 600)) } else { message.clone() }
}

/// An order that makes no sense. Its words would be lost unseen if nobody waits for the answer, so
/// they are a dead letter.
pub(super) fn refused(envelope: &Envelope, reason: &str) -> Outcome {
    let ended = if envelope.text.is_empty() { Ended::Done } else { Ended::Dead(reason.to_owned()) };
    Outcome { ended, reply: Reply::error(&envelope.id, reason), text: None }
}

/// Shows "typing" until the guard is dropped.
fn typing(channel: Arc<dyn Channel>, chat: ChatRef) -> impl Drop {
    struct Guard(tokio::task::JoinHandle<()>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    Guard(tokio::spawn(async move {
        tokio::time::sleep(TYPING.0).await;
        let mut failures = 0;
        while failures < TYPING_FAILURES {
            match channel.typing(&chat).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    tracing::debug!(%error, "typing could not be shown");
                    failures += 1;
                }
            }
            tokio::time::sleep(TYPING.1).await;
        }
    }))
}
