//! Records a message in its transcript before the model is called: with group context, profile and recalled memories, its
//! files, and the provenance of each.

use std::sync::Arc;

use super::attachments;
use super::attachments::Place;
use super::prompt_trace;
use super::prompt_trace::Parts;
use super::run::TurnContext;
use super::transcribe::Waits;
use super::withhold_secrets;
use crate::memory::person_profile::Told;
use crate::memory::recall::Recalled;
use crate::message::{Block, Envelope, Role, Trust};
use crate::pipeline::Pipeline;
use crate::pipeline::persist::Recorded;
use crate::pipeline::plan;
use crate::pipeline::schedule::debounce::TurnInputs;
use crate::pipeline::schedule::renew_session::Carried;
use crate::queue::{Heard, Note};
use crate::session::{Kind, PromptBlock, Resume, Session, Spoken};
use crate::trust::{Provenance, fence};
use crate::{prompt, sys};

/// Why a message is missing from its transcript.
pub(super) enum Unwritten {
    /// What was said in it is not known yet.
    Waits(Box<Waits>),
    Failed(sys::Error),
}

/// A message that is new to its session.
pub(super) struct Message<'a> {
    pub(super) inputs: &'a TurnInputs,
    pub(super) began_at: i64,
    pub(super) carried: Option<Carried>,
    pub(super) heard: Heard,
    /// Whether no answer follows.
    pub(super) only_written: bool,
}

impl Pipeline {
    /// Writes the message into its transcript, unless an earlier start of this run did; returns the newest of what
    /// was heard with it and is not forgotten.
    pub(super) async fn hear(
        self: &Arc<Self>,
        context: &TurnContext<'_>,
        session: &mut Session,
        message: Message<'_>,
    ) -> Recorded<Result<Option<i64>, Unwritten>> {
        let resume = session.state().resume(&message.inputs.leader().id);
        // A dead letter that is tried again is another run.
        let of_before = session.state().turn.as_ref();
        let failed_before = of_before.is_some_and(|turn| turn.run_id != context.run_id)
            && matches!(resume, Resume::Failed(_));
        let inputs = message.inputs;
        if failed_before || resume == Resume::Fresh {
            let newest = match self.write_message(context, session, message).await? {
                Ok(newest) => newest,
                unwritten => return Ok(unwritten),
            };
            self.forget_withheld(inputs).await?;
            return Ok(Ok(newest));
        }
        self.forget_withheld(inputs).await?;
        // After an answer it was forgotten, and its number may be that of another note.
        let is_answered = resume == Resume::Answered;
        let turn = session.state().turn.as_ref().filter(|_| !is_answered);
        Ok(Ok(turn.and_then(|turn| turn.newest_note)))
    }

    /// Writes the message of a turn into its transcript, with what is known in addition to it. Returns the number of the
    /// newest note in it; the inner error says why it was not written.
    async fn write_message(
        self: &Arc<Self>,
        context: &TurnContext<'_>,
        session: &mut Session,
        message: Message<'_>,
    ) -> Recorded<Result<Option<i64>, Unwritten>> {
        let Message {
            inputs,
            began_at,
            carried,
            heard: Heard { notes, newest },
            only_written,
        } = message;
        let TurnContext {
            envelope, run_id, ..
        } = context;
        let mut messages = inputs.messages();
        for message in &mut messages {
            withhold_secrets::withhold(message);
        }
        self.fill_report(&mut messages).await?;
        self.mark_quotes(&mut messages).await?;
        let (known, recalled) = self.recall(&messages, context, session).await;
        let known = known.filter(|_| !plan::is_planned(context.live, envelope));
        let (overdue, memories) = match &recalled {
            Some(recalled) => (recalled.overdue.clone(), recalled.memories.clone()),
            None => Default::default(),
        };
        let place = Place {
            pipeline: self,
            live: context.live,
            envelope,
            run_id,
            session_id: session.id(),
            cancel: &context.run.cancel,
            model: &context.model,
            budget: &context.looks,
        };
        let pins = carried.iter().flat_map(|carried| carried.pins.clone());
        let mut kinds: Vec<Kind> = pins
            .map(|text| Kind::Pin {
                run_id: (*run_id).to_owned(),
                text,
            })
            .collect();
        let beside = (carried, known, recalled);
        let target = inputs.newest().reply_to.as_deref();
        let target = target.filter(|_| plan::is_planned(context.live, envelope));
        let message = self.user_message(&messages, (&notes, newest), &place, (beside, target));
        let (message, parts) = match message.await {
            Ok(message) => message,
            Err(waits) => return Ok(Err(Unwritten::Waits(Box::new(waits)))),
        };
        let trace = prompt_trace::of(context, session, inputs, began_at, parts, memories);
        kinds.extend([message, trace]);
        // A turn that a power cut takes back starts again, but what it brought up would not come up again, and a
        // message that is only written down would be gone.
        let durable = only_written || !overdue.is_empty();
        if let Err(error) = session.append(kinds, durable).await {
            return Ok(Err(Unwritten::Failed(error)));
        }
        self.brought_up(overdue).await;
        Ok(Ok(newest))
    }

    /// Writes the messages of a turn down as the model reads them; also returns which parts they have. The error says
    /// what their spoken words wait for.
    async fn user_message(
        &self,
        messages: &[Envelope],
        (notes, newest): (&[Note], Option<i64>),
        place: &Place<'_>,
        ((carried, known, recalled), target): (Beside, Option<&str>),
    ) -> Result<(Kind, Vec<PromptBlock>), Waits> {
        let zone = place.live.config.agent.timezone.0;
        let marker = fence::marker(place.run_id);
        let mut content = Vec::new();
        let from_before = carried.as_ref().is_some_and(|carried| carried.foreign);
        let before: Vec<_> = carried.map(before).unwrap_or_default();
        let heard = prompt::overheard(notes, zone, &marker);
        let of_guests = notes.iter().any(|note| !note.of_owner);
        let known = known.map(|known| {
            let provenance = of(known.untrusted, Provenance::Person);
            (Block::context(known.text), provenance)
        });
        let recalled = recalled.map(|recalled| {
            let provenance = of(recalled.untrusted, Provenance::Model);
            (Block::context(recalled.text()), provenance)
        });
        let mut parts = Parts::default();
        let heard = heard.map(|block| (block, of(of_guests, Provenance::Person)));
        parts.add("the conversation before", &before);
        parts.add("heard", heard.as_slice());
        parts.add("known of the person", known.as_slice());
        parts.add("memories", recalled.as_slice());
        let mut foreign = false;
        let mut beside: Vec<_> = before
            .into_iter()
            .chain(heard)
            .chain(known)
            .chain(recalled)
            .collect();
        for message in messages {
            let shows_id = plan::is_planned(place.live, message);
            let mut blocks = prompt::message(message, zone, &marker, shows_id);
            parts.add("message", &blocks);
            // Additional context is between the first header and the text.
            blocks.splice(1..1, std::mem::take(&mut beside));
            content.extend(blocks);
            let files = attachments::read(&Place {
                envelope: message,
                ..*place
            })
            .await;
            if let Some(waits) = files.waits {
                return Err(waits);
            }
            parts.add("files", &files.blocks);
            foreign |= files.brought_words;
            content.extend(files.blocks);
        }
        let target = target.and_then(prompt::target);
        let target = target.map(|block| (block, Provenance::Owner));
        parts.add("the message to answer", target.as_slice());
        content.extend(target);
        let foreign =
            foreign || messages.iter().any(carries_untrusted_words) || of_guests || from_before;
        let first = messages.first();
        let (content, provenance): (Vec<Block>, Vec<Provenance>) = content.into_iter().unzip();
        let any = provenance.iter().any(Provenance::is_untrusted);
        let message = Kind::Message(Spoken {
            inbox_id: first.map(|envelope| envelope.id.clone()),
            trust: Some(if foreign { Trust::Other } else { Trust::Owner }),
            provenance: if any { provenance } else { Vec::new() },
            about: first.and_then(|envelope| envelope.about.clone()),
            newest_note: newest,
            ..Spoken::new(Role::User, content, place.run_id)
        });
        Ok((message, parts.blocks()))
    }
}

/// What is known in addition to a message: the conversation before, the person, memories.
type Beside = (Option<Carried>, Option<Told>, Option<Recalled>);

/// Returns what a new conversation receives from the old one. A rule is the owner's: an untrusted run asks before it pins one.
fn before(carried: Carried) -> Vec<(Block, Provenance)> {
    let Carried {
        rules,
        told,
        foreign,
        ..
    } = carried;
    let rules = rules.map(|rules| (rules, Provenance::Owner));
    let told = told.map(|told| (told, of(foreign, Provenance::Model)));
    rules.into_iter().chain(told).collect()
}

/// Returns `provenance` when something is untrusted.
fn of(untrusted: bool, provenance: Provenance) -> Provenance {
    if untrusted {
        provenance
    } else {
        Provenance::Owner
    }
}

/// Returns true for what holds more than the owner's own words, its files aside: what they pass on, what they answer.
pub(crate) fn carries_untrusted_words(envelope: &Envelope) -> bool {
    envelope.provenance_of_kind().is_untrusted() || envelope.provenance_of_quote().is_untrusted()
}
