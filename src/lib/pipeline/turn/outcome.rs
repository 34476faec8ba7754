//! The end of a turn: what is recorded in one transaction, and what is sent.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::silence;
use crate::agent::Reply as Said;
use crate::channel::{Channel, Rendered};
use crate::clock;
use crate::config::ReplyTo;
use crate::control::replies::{Reply, Status};
use crate::cost::usd;
use crate::message::{Attachment, Command, Envelope, MediaKind, OutFile, Route, Source, Trust};
use crate::pipeline::commands::dead_letters;
use crate::pipeline::deliver::delivery::SENDING_BROKE;
use crate::pipeline::persist::{Unrecorded, isolated};
use crate::pipeline::schedule::debounce::TurnInputs;
use crate::pipeline::{Live, Pipeline, Signal};
use crate::queue::{Ended, Ending, Finish, NewPart, NewTask, Note};

/// The number of characters, of a text sent into a conversation from another one, that the conversation is told of.
const TOLD: usize = 1500;

/// What is to be recorded of a turn.
pub(crate) struct Outcome {
    ended: Ended,
    pub(crate) reply: Reply,
    /// What is to be said; `None` when the agent chose silence.
    text: Option<Saying>,
    /// What ends the speaking of it; `None`: it is never spoken. Only the agent's own words are, no tables and failures.
    voice: Option<CancellationToken>,
    /// How it ended for its parent, if it is a sub-agent.
    ending: Ending,
    /// Whether untrusted text may be in the answer: also in that of a command, which names things that others named.
    untrusted: bool,
    /// The plan that is carried out instead of words.
    tasks: Vec<NewTask>,
    /// Buttons below what is said, by the dead letter they are about.
    letter: Option<String>,
    /// What is said in another place.
    elsewhere: Option<NewPart>,
}

impl Outcome {
    pub(crate) fn new(ended: Ended, reply: Reply, text: Option<Saying>) -> Self {
        let ending = match (&ended, reply.status) {
            (Ended::Dead(_), _) => Ending::Lost,
            (Ended::Done, Status::Error) => Ending::Error,
            (Ended::Done, _) => Ending::Ok,
        };
        Self {
            ended,
            reply,
            text,
            voice: None,
            ending,
            untrusted: true,
            tasks: Vec::new(),
            letter: None,
            elsewhere: None,
        }
    }

    /// Returns it as the agent's own answer, which may be spoken until `cancel`.
    pub(crate) fn spoken(self, cancel: &CancellationToken) -> Self {
        Self {
            voice: Some(cancel.clone()),
            ..self
        }
    }

    /// Returns it with words for another place.
    pub(crate) fn telling(self, elsewhere: Option<NewPart>) -> Self {
        Self { elsewhere, ..self }
    }

    /// Returns it with buttons that deal with the dead letter `letter`.
    pub(crate) fn about(self, letter: String) -> Self {
        Self {
            letter: Some(letter),
            ..self
        }
    }

    /// Returns it as one that ended so.
    pub(crate) fn ending_in(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// Returns it as one in whose answer untrusted text may be, or not.
    pub(crate) fn untrusted(self, untrusted: bool) -> Self {
        Self { untrusted, ..self }
    }

    /// Returns it with a note below the answer, if there is one.
    pub(crate) fn noting(mut self, note: &str) -> Self {
        if let Some(Saying::Markdown(text)) = &mut self.text {
            for words in [Some(text), self.reply.reply.as_mut()]
                .into_iter()
                .flatten()
            {
                words.push_str(&format!("\n\n({note})"));
            }
        }
        self
    }

    /// Returns it as one of which nothing is said.
    pub(crate) fn unsaid(self) -> Self {
        Self { text: None, ..self }
    }

    /// Returns it with a plan.
    pub(crate) fn planning(self, tasks: Vec<NewTask>) -> Self {
        Self { tasks, ..self }
    }

    /// Returns whether the agent answered, and nothing failed.
    pub(crate) fn is_answer(&self) -> bool {
        self.reply.status == Status::Done && self.ending == Ending::Ok
    }

    /// Returns it with another answer for the caller.
    pub(crate) fn mapped(self, change: impl FnOnce(Reply) -> Reply) -> Self {
        Self {
            reply: change(self.reply),
            ..self
        }
    }
}

/// Words to be sent.
pub(crate) enum Saying {
    /// The agent's.
    Markdown(String),
    /// Somebody else's, to be shown as they are; below the files that came with them.
    Plain(String),
    /// An emoji on the message that is answered.
    Reaction(String),
    /// A sticker.
    Sticker(OutFile),
}

impl Saying {
    /// Returns the words.
    fn words(&self) -> &str {
        match self {
            Self::Markdown(text) | Self::Plain(text) => text,
            Self::Reaction(_) | Self::Sticker(_) => "",
        }
    }
}

impl Pipeline {
    /// Notes a failure and returns what is said about it.
    pub(crate) fn failed(&self, envelope: &Envelope, reason: &str, receipts: &[String]) -> Outcome {
        self.note_trouble_of(&envelope.session_key.0, reason);
        match envelope.source {
            // The owner is to learn of it, model or not; the caller's job is done.
            Source::Notify if envelope.route.is_some() => {
                as_it_is(envelope, event_text(envelope), event_text(envelope))
                    .ending_in(Ending::Error)
            }
            source => {
                // It is in the log and the status, and nobody asked.
                let is_told = source != Source::Heartbeat;
                let text = is_told
                    .then(|| Saying::Markdown(failure(&self.live(), envelope, reason, receipts)));
                let reply = Reply {
                    receipts: receipts.to_vec(),
                    ..Reply::error(&envelope.id, reason)
                };
                Outcome::new(Ended::Done, reply, text)
            }
        }
    }

    /// Ends inputs in whose handling a bug of ours was met: they are a dead letter, so that no start meets it
    /// again. Their chat is notified in a separate task, because that may hit the bug, too.
    pub(crate) async fn dead_letter_inputs(
        self: &Arc<Self>,
        envelope: &Envelope,
        ids: Vec<String>,
    ) {
        let reason = match &envelope.command {
            Some(Command::Deliver { .. }) => SENDING_BROKE,
            _ => "internal error",
        };
        let reply = Reply::error(&envelope.id, reason);
        // What it had read, and said so far, nobody can tell.
        let outcome = Outcome::new(Ended::Dead(reason.to_owned()), reply, None);
        let (pipeline, envelope) = (self.clone(), envelope.clone());
        let run_id = uuid::Uuid::now_v7().to_string();
        let _ = isolated(async move {
            pipeline.note_trouble(reason);
            pipeline.record(&envelope, ids, &run_id, outcome).await;
            pipeline.say_lost(&envelope);
        })
        .await;
    }

    /// Reports that the end of an input could not be recorded: to the caller that waits for its answer file, else in its chat.
    fn say_unrecorded(self: &Arc<Self>, envelope: &Envelope, why: &str) {
        if envelope.wants_reply {
            self.answer(&Reply::error(&envelope.id, why));
        }
        self.say_lost(envelope);
    }

    /// Tells the chat of an input that what it would have read is lost. One try, in parallel with everything else.
    fn say_lost(self: &Arc<Self>, envelope: &Envelope) {
        if let Some((channel, route)) = self.channel(envelope) {
            let pipeline = self.clone();
            let at = envelope.received_at;
            tokio::spawn(async move { pipeline.say_missing(&channel, &route, at).await });
        }
    }

    /// Ends an input that failed before its turn.
    pub(crate) async fn fail_one(self: &Arc<Self>, envelope: &Envelope, why: &str) {
        let outcome = self.failed(envelope, why, &[]);
        self.finish_one(envelope, outcome).await;
    }

    /// Ends an input that needed no turn.
    pub(crate) async fn finish_one(self: &Arc<Self>, envelope: &Envelope, outcome: Outcome) {
        let run_id = uuid::Uuid::now_v7().to_string();
        self.record(envelope, vec![envelope.id.clone()], &run_id, outcome)
            .await;
    }

    pub(crate) async fn finish(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        outcome: Outcome,
    ) {
        self.record(inputs.leader(), inputs.ids(), run_id, outcome)
            .await;
    }

    /// The end of a turn, of which a program may be told.
    async fn record(
        self: &Arc<Self>,
        envelope: &Envelope,
        inbox_ids: Vec<String>,
        run_id: &str,
        outcome: Outcome,
    ) {
        // Whatever went wrong, the owner learns of what they are to be reminded.
        if outcome.reply.status == Status::Error {
            self.remind_without_model(envelope, "I could not do what they say")
                .await;
        }
        let told = self.callback_of(envelope, run_id, &outcome.reply);
        if self.commit(envelope, inbox_ids, run_id, outcome).await {
            self.call_back(told);
        }
    }

    /// The last transaction of a turn, then its consequences; false when it was not made.
    async fn commit(
        self: &Arc<Self>,
        envelope: &Envelope,
        inbox_ids: Vec<String>,
        run_id: &str,
        outcome: Outcome,
    ) -> bool {
        let unheard = is_unheard(envelope) && outcome.text.is_some();
        let ended = match outcome.ended {
            Ended::Done if unheard => Ended::Dead("not delivered: no owner configured".to_owned()),
            ended => ended,
        };
        let now = clock::now_ms();
        let words = outcome
            .text
            .as_ref()
            .map(Saying::words)
            .unwrap_or_default()
            .to_owned();
        let said = (outcome.text, outcome.voice);
        let mut parts = self
            .parts_of(envelope, run_id, said, outcome.letter, now)
            .await;
        parts.extend(outcome.elsewhere);
        let is_heard = !parts.is_empty() && !words.is_empty();
        let is_by_itself = matches!(
            envelope.source,
            Source::Job | Source::Heartbeat | Source::Subagent
        );
        let finish = Finish {
            run_id: run_id.to_owned(),
            inbox_ids,
            ended,
            result: (envelope.wants_reply || is_by_itself).then_some(outcome.reply),
            // Whoever hears it may answer, in their own conversation.
            subagent: envelope.task.clone().map(|task| (task, outcome.ending)),
            tainted: outcome.untrusted,
            note: envelope
                .heard_in
                .clone()
                .filter(|_| is_heard)
                .map(|session| {
                    (
                        session,
                        told_by_itself(envelope, &words, outcome.untrusted, now),
                    )
                }),
            sends_at_once: self.leaves_at_once(&parts),
            parts,
            tasks: outcome.tasks,
        };
        let recorded = self
            .persist("the end of a turn", || {
                self.queue.finish(finish.clone(), now)
            })
            .await;
        let finished = match recorded {
            Ok(Some(finished)) => finished,
            // It was stopped meanwhile, and its caller was notified. Or the daemon ends, and the next start finds the turn.
            Ok(None) | Err(Unrecorded::Ending) => return false,
            Err(Unrecorded::Failed(why)) => {
                self.say_unrecorded(envelope, &why);
                return false;
            }
        };
        self.hide_notices(&finish.inbox_ids);
        self.deliver(finished.parts);
        if !finish.tasks.is_empty() {
            self.plan_news.notify_one();
        }
        let _ = self
            .signals
            .send(Signal::Accepted(finished.report.into_iter().collect()));
        self.ended.notify_waiters();
        if is_by_itself {
            self.schedule.news.notify_one();
        } else if let Some(reply) = &finish.result {
            self.answer(reply);
        }
        true
    }

    /// Returns what is to be sent: the words as a voice note or in pieces, a dead letter's with its buttons.
    async fn parts_of(
        self: &Arc<Self>,
        envelope: &Envelope,
        run_id: &str,
        (said, voice): (Option<Saying>, Option<CancellationToken>),
        letter: Option<String>,
        now: i64,
    ) -> Vec<NewPart> {
        let mut parts = match (said, voice) {
            (Some(Saying::Markdown(text)), Some(cancel)) => {
                match Box::pin(self.voiced(envelope, &text, run_id, &cancel)).await {
                    Some(part) => vec![part],
                    None => self.parts(envelope, Saying::Markdown(text)),
                }
            }
            (Some(saying), _) => self.parts(envelope, saying),
            (None, _) => Vec::new(),
        };
        if envelope.source == Source::Heartbeat && self.was_said_today(&parts, now).await {
            parts.clear();
        }
        if let (Some(last), Some(letter)) = (parts.last_mut(), letter) {
            last.buttons = dead_letters::buttons(&letter);
            last.asks = Some(letter);
        }
        parts
    }

    /// Renders an answer into what is stored and sent.
    pub(crate) fn parts(&self, envelope: &Envelope, saying: Saying) -> Vec<NewPart> {
        let Some((channel, route)) = self.channel(envelope) else {
            return Vec::new();
        };
        let (saying, chosen) = match saying {
            Saying::Markdown(text) => {
                let (chosen, text) = addressed(envelope, &text);
                (Saying::Markdown(text.to_owned()), chosen)
            }
            saying => (saying, None),
        };
        let of_words = |part: Rendered| NewPart {
            markup: part.markup,
            ..NewPart::plain(route.clone(), part.plain)
        };
        let mut parts: Vec<NewPart> = match saying {
            Saying::Markdown(text) => channel.render(&text).into_iter().map(of_words).collect(),
            Saying::Reaction(emoji) => {
                let reply_to = envelope.reply_to.clone();
                return vec![NewPart {
                    reply_to,
                    reaction: Some(emoji),
                    ..NewPart::plain(route, String::new())
                }];
            }
            Saying::Sticker(file) => vec![NewPart {
                files: vec![file],
                ..NewPart::plain(route, String::new())
            }],
            Saying::Plain(text) => {
                let mut files = channel
                    .albums(envelope.attachments.iter().map(out_file).collect())
                    .into_iter();
                // Short words are below the first file, longer ones before it.
                let takes_words = files
                    .as_slice()
                    .first()
                    .and_then(|files| files.first())
                    .is_some_and(|file| file.kind.takes_words());
                let caption = channel.caption(&text).filter(|_| takes_words);
                let first = caption.and_then(|caption| {
                    Some(NewPart {
                        files: files.next()?,
                        ..of_words(caption)
                    })
                });
                let words = if first.is_some() {
                    Vec::new()
                } else {
                    channel.plain(&text)
                };
                let rest = files.map(|files| NewPart {
                    files,
                    ..NewPart::plain(route.clone(), String::new())
                });
                words
                    .into_iter()
                    .map(of_words)
                    .chain(first)
                    .chain(rest)
                    .collect()
            }
        };
        for (number, part) in parts.iter_mut().enumerate() {
            part.reply_to = self.answered_by(envelope, &part.route.channel, &chosen, number);
        }
        parts
    }

    /// Returns the message that the part `number` of an answer answers, which may have `chosen` one.
    pub(super) fn answered_by(
        &self,
        envelope: &Envelope,
        channel: &str,
        chosen: &Option<String>,
        number: usize,
    ) -> Option<String> {
        let mode = self.live().config.display(channel).reply_to_mode;
        let answers = mode == ReplyTo::All || (mode == ReplyTo::First && number == 0);
        let is_chosen = chosen.is_some() && number == 0;
        let reply_to = chosen.clone().or_else(|| envelope.reply_to.clone());
        reply_to.filter(|_| answers || is_chosen)
    }

    /// Returns the door to which an answer goes, while it is open, and the way there.
    pub(crate) fn channel(&self, envelope: &Envelope) -> Option<(Arc<dyn Channel>, Route)> {
        let route = envelope.route.clone()?;
        Some((self.channels.get(route.channel.as_str())?.clone(), route))
    }
}

/// Returns the message that an answer says it is for, which it may in a group, and the rest of it.
pub(super) fn addressed<'a>(envelope: &Envelope, text: &'a str) -> (Option<String>, &'a str) {
    match envelope.group {
        Some(_) => chosen_message(text),
        None => (None, text),
    }
}

/// Returns the message that an answer says it is for, `[[reply_to:ID]]` at its beginning, and the rest of it.
fn chosen_message(text: &str) -> (Option<String>, &str) {
    let chosen = text
        .trim_start()
        .strip_prefix("[[reply_to:")
        .and_then(|rest| rest.split_once("]]"))
        .filter(|(id, _)| (1..=20).contains(&id.len()) && id.bytes().all(|c| c.is_ascii_digit()));
    match chosen {
        Some((id, rest)) => (Some(id.to_owned()), rest.trim_start()),
        None => (None, text),
    }
}

/// The note in a conversation about text that another conversation sent there.
fn told_by_itself(envelope: &Envelope, words: &str, untrusted: bool, now: i64) -> Note {
    let whence = match envelope.source {
        Source::Heartbeat => "when you woke by yourself".to_owned(),
        _ => format!(
            "by the job {:?}",
            crate::text::shorten(&envelope.sender.name, 80)
        ),
    };
    let text = format!(
        "you told them here, {whence}: {}",
        crate::text::shorten(words, TOLD)
    );
    Note {
        of_owner: !untrusted,
        at: now,
        text,
        ..Note::default()
    }
}

pub(crate) fn said(envelope: &Envelope, text: &str, of: Option<&Said>) -> Outcome {
    let text = silence::spoken(text, envelope.source);
    let reply = Reply {
        reply: Some(text.clone().unwrap_or_default()),
        silent: text.is_none().then_some(true),
        tokens: of.map(|said| said.usage.total()),
        output_tokens: of.map(|said| said.usage.output_tokens),
        cost_usd: of.and_then(|said| said.cost_nano_usd).map(usd),
        receipts: of.map(|said| said.receipts.clone()).unwrap_or_default(),
        ..Reply::new(&envelope.id, Status::Done)
    };
    Outcome::new(Ended::Done, reply, text.map(Saying::Markdown))
}

/// A command that is not carried out, and why: the person reads it, and it is an error to the shell.
pub(crate) fn declined(envelope: &Envelope, why: &str) -> Outcome {
    Outcome::new(
        Ended::Done,
        Reply::error(&envelope.id, why),
        Some(Saying::Markdown(why.to_owned())),
    )
}

/// Words of somebody else that go out as they are; the caller reads `reply`.
pub(crate) fn as_it_is(envelope: &Envelope, text: String, reply: String) -> Outcome {
    let reply = Reply {
        reply: Some(reply),
        ..Reply::new(&envelope.id, Status::Done)
    };
    Outcome {
        untrusted: envelope.trust == Trust::Other,
        ..Outcome::new(Ended::Done, reply, Some(Saying::Plain(text)))
    }
}

/// What became of the owner's word, as it is: there are words in it that others may have chosen. Nothing
/// is said in the chat to a press of a button.
pub(crate) fn decided(envelope: &Envelope, heard: &Result<String, String>) -> Outcome {
    let (text, reply) = match heard {
        Ok(text) => (
            text,
            Reply {
                reply: Some(text.clone()),
                ..Reply::new(&envelope.id, Status::Done)
            },
        ),
        Err(why) => (why, Reply::error(&envelope.id, why.as_str())),
    };
    let text = envelope
        .press
        .is_none()
        .then(|| Saying::Plain(text.clone()));
    Outcome::new(Ended::Done, reply, text)
}

/// An emoji put on a message; the caller reads nothing.
pub(crate) fn reaction(envelope: &Envelope, emoji: String) -> Outcome {
    let reply = Reply {
        reply: Some(String::new()),
        ..Reply::new(&envelope.id, Status::Done)
    };
    Outcome::new(Ended::Done, reply, Some(Saying::Reaction(emoji)))
}

fn out_file(file: &Attachment) -> OutFile {
    OutFile {
        kind: MediaKind::of_name(&file.filename),
        path: file.path.clone(),
        filename: file.filename.clone(),
        handle: None,
    }
}

/// An event without the agent's words on it.
pub(crate) fn event_text(envelope: &Envelope) -> String {
    let about = envelope.about.clone().unwrap_or_default();
    let reference = about
        .reference
        .map_or_else(String::new, |reference| format!(" ({reference})"));
    format!(
        "{}{reference}: {}",
        about.source.unwrap_or_default(),
        envelope.text
    )
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
    let done = if receipts.is_empty() {
        String::new()
    } else {
        format!("\n\nDone before that: {}.", receipts.join("; "))
    };
    format!("{message}\n\n({}){done}", crate::text::shorten(reason, 600))
}

/// Returns true for an event of which nobody would hear.
pub(crate) fn is_unheard(envelope: &Envelope) -> bool {
    envelope.source == Source::Notify && envelope.route.is_none()
}

/// An order that makes no sense. Its words would be lost unseen if nobody waits for the answer, so
/// they are a dead letter.
pub(crate) fn refused(envelope: &Envelope, reason: &str) -> Outcome {
    let ended = if envelope.text.is_empty() {
        Ended::Done
    } else {
        Ended::Dead(reason.to_owned())
    };
    Outcome::new(ended, Reply::error(&envelope.id, reason), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_say_which_message_it_is_for() {
        let check = |text: &str, id: Option<&str>, rest: &str| {
            assert_eq!(
                chosen_message(text),
                (id.map(str::to_owned), rest),
                "{text}"
            );
        };
        check("[[reply_to:77]] Yes.", Some("77"), "Yes.");
        check("[[reply_to:x]] Yes.", None, "[[reply_to:x]] Yes.");
        check("Yes. [[reply_to:77]]", None, "Yes. [[reply_to:77]]");
    }
}
