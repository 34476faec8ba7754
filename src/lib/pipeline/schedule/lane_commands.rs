//! Commands in a conversation's lane: reset, compaction, a change of the
//! model.

use std::sync::Arc;

use crate::agent::Room;
use crate::message::{Command, Envelope, SessionKey};
use crate::pipeline::approvals::Nobody;
use crate::pipeline::commands::immediate::FOR_OWNERS;
use crate::pipeline::persist::Recorded;
use crate::pipeline::turn::outcome::{Outcome, declined, refused, said};
use crate::pipeline::turn::run::model_for;
use crate::pipeline::{Pipeline, Run, TurnInputs};
use crate::session::{Kind, Resume, SummaryBy};

/// What is said after a reset.
const NEW_SESSION: &str = "New conversation. The previous one is archived.";

/// Of troubles with summaries.
pub(crate) const SUMMARIES: &str = "summaries";
/// The trouble that is noted when no model summed up.
pub(crate) const NO_SUMMARY: &str =
    "a conversation was cut without a summary by a model; the log says why";

/// What an input is in its lane.
pub(crate) enum Step {
    /// A turn, of this.
    Turn(TurnInputs),
    /// Something else, which is done.
    Done(Box<Outcome>),
    /// A stopped command; whoever stopped it has recorded that.
    Stopped,
}

impl Step {
    fn done(outcome: Outcome) -> Self {
        Self::Done(Box::new(outcome))
    }
}

impl Pipeline {
    /// Carries out a command of a lane; anything else is a turn.
    pub(crate) async fn between(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        run: &Run,
    ) -> Recorded<Step> {
        let envelope = inputs.leader();
        let (model, words) = match &envelope.command {
            Some(Command::New { model, words }) => (model.as_deref(), words.as_deref()),
            Some(Command::Compact) => return self.compact(envelope, run_id, run).await,
            Some(Command::Undo { run }) => {
                return Ok(Step::done(self.take_back(envelope, run.as_deref()).await));
            }
            Some(Command::Forget { what }) => {
                return Ok(Step::done(
                    self.forget(envelope, what.as_deref(), run_id).await,
                ));
            }
            Some(Command::Model { choice }) => {
                let chosen = self.choose_model(envelope, choice.as_deref()).await?;
                return Ok(Step::done(chosen));
            }
            _ => return Ok(Step::Turn(inputs.clone())),
        };
        let done = self
            .start_new_session(envelope, model, inputs.has_begun())
            .await?;
        let speaks =
            words.is_some() || !envelope.media.is_empty() || !envelope.attachments.is_empty();
        Ok(match done {
            Ok(_) if speaks => Step::Turn(inputs.clone().saying(words.unwrap_or_default())),
            Ok(outcome) | Err(outcome) => Step::done(outcome),
        })
    }

    /// Archives the session; its next message begins a new one, which `model` answers. The inner error says
    /// why nothing was done. `again`: a crash came after the beginning.
    async fn start_new_session(
        self: &Arc<Self>,
        envelope: &Envelope,
        model: Option<&str>,
        again: bool,
    ) -> Recorded<Result<Outcome, Outcome>> {
        if model.is_some() && !envelope.from_owner {
            return Ok(Err(declined(envelope, FOR_OWNERS)));
        }
        let model = match model.map(|name| self.model_named(name)).transpose() {
            Ok(model) => model,
            Err(why) => {
                return Ok(Err(declined(
                    envelope,
                    &format!("{why}\nNothing was changed."),
                )));
            }
        };
        let key = &envelope.session_key;
        if again && self.is_begun(envelope, model.as_deref()).await? {
            return Ok(Ok(said(envelope, NEW_SESSION, None)));
        }
        let was_there = self.archive(key).await?;
        let Some(model) = model else {
            return Ok(Ok(match was_there {
                // A crash came between the deed and its record.
                _ if was_there || again => said(envelope, NEW_SESSION, None),
                // Somebody named a session that is not there; "/new" at the beginning is not a mistake.
                _ if envelope.wants_reply && envelope.text.is_empty() => {
                    refused(envelope, &format!("no session \"{key}\""))
                }
                _ => said(envelope, "This is a new conversation already.", None),
            }));
        };
        let mut session = self
            .persist("a session", || self.sessions.take(key, envelope.contact()))
            .await?;
        let written = session
            .append(
                vec![Kind::Setting {
                    model: Some(model.clone()),
                }],
                true,
            )
            .await;
        self.sessions.put(session);
        Ok(match written {
            Ok(()) => Ok(said(
                envelope,
                &format!("{NEW_SESSION} `{model}` answers here."),
                None,
            )),
            Err(error) => Err(self.failed(envelope, &error.to_string(), &[])),
        })
    }

    /// Returns true when the session of `envelope` is the new one already that its command asks for.
    async fn is_begun(&self, envelope: &Envelope, model: Option<&str>) -> Recorded<bool> {
        let key = &envelope.session_key;
        let session = self
            .persist("a session", || self.sessions.take(key, envelope.contact()))
            .await?;
        let state = session.state();
        let speaks = state.resume(&envelope.id) != Resume::Fresh;
        let is_begun = speaks
            || (state.last_seq > 0
                && state.entries.is_empty()
                && state.chosen_model.as_deref() == model);
        self.sessions.put(session);
        Ok(is_begun)
    }

    /// Archives the session of `key`; false when there was none.
    pub(crate) async fn archive(self: &Arc<Self>, key: &SessionKey) -> Recorded<bool> {
        let archive = || {
            let (pipeline, key) = (self.clone(), key.clone());
            async move { crate::sys::blocking(move || pipeline.sessions.reset(&key)).await }
        };
        let archived = self.persist("a reset", archive).await?;
        if archived.is_some() {
            // What was said can be searched for from now on.
            self.memory.tell_news();
        }
        Ok(archived.is_some())
    }

    /// Returns the configured name of the model that is called `name` in any letter case; the error says
    /// which there are.
    fn model_named(&self, name: &str) -> Result<String, String> {
        let live = self.live();
        let models = live.agent.client().models();
        let names: Vec<&str> = models.names().collect();
        let found = names
            .iter()
            .find(|one| **one == name)
            .or_else(|| names.iter().find(|one| one.eq_ignore_ascii_case(name)));
        let name = crate::text::shorten(&crate::text::visible(name), 60);
        found.map(|name| (*name).to_owned()).ok_or_else(|| {
            format!(
                "No model is called `{name}`. There are: {}.",
                names.join(", ")
            )
        })
    }

    /// Makes room in a conversation: when it has grown, or when `asked`. A daemon that ends does not wait
    /// for it.
    pub(crate) async fn make_room(
        &self,
        envelope: &Envelope,
        run_id: &str,
        run: &Run,
        asked: bool,
    ) -> Recorded<Room> {
        let live = self.live();
        let key = &envelope.session_key;
        let mut session = self
            .persist("a session", || self.sessions.take(key, envelope.contact()))
            .await?;
        if !asked
            && !live
                .agent
                .has_grown(&session, &model_for(&live, envelope, &session))
        {
            self.sessions.put(session);
            return Ok(Room::Enough);
        }
        let setting = self
            .turn_context(&live, envelope, run_id, run, &session)
            .await;
        let made = {
            let work =
                setting
                    .live
                    .agent
                    .make_room(&mut session, setting.order(&Nobody, &|_| {}), asked);
            tokio::pin!(work);
            loop {
                tokio::select! {
                    made = &mut work => break made,
                    () = self.closing.cancelled(), if !run.cancel.is_cancelled() => run.cancel.cancel(),
                }
            }
        };
        self.sessions.put(session);
        match &made {
            Room::Failed(reason) if !asked => {
                let words = format!("a conversation could not be summarized: {reason}");
                self.note_trouble_of(SUMMARIES, &words);
            }
            // Who asked is told.
            Room::Made {
                by: SummaryBy::Statistics,
                ..
            } if !asked => {
                self.note_trouble_of(SUMMARIES, NO_SUMMARY);
            }
            Room::Made {
                by: SummaryBy::Model,
                ..
            } => self.end_troubles(SUMMARIES),
            Room::Failed(_) | Room::Made { .. } | Room::Enough | Room::Stopped => {}
        }
        Ok(made)
    }

    /// Sums a conversation up because somebody asks for it.
    pub(crate) async fn compact(
        &self,
        envelope: &Envelope,
        run_id: &str,
        run: &Run,
    ) -> Recorded<Step> {
        let tokens = crate::text::count;
        // Somebody named a session that is not there.
        if envelope.wants_reply
            && envelope.text.is_empty()
            && !self.sessions.has(&envelope.session_key)
        {
            let why = format!("no session \"{}\"", envelope.session_key);
            return Ok(Step::done(refused(envelope, &why)));
        }
        let text = match self.make_room(envelope, run_id, run, true).await? {
            Room::Made { before, after, by } => {
                let how = match by {
                    SummaryBy::Model => "",
                    SummaryBy::Statistics => {
                        " It only counts and quotes: a model's summary was no shorter."
                    }
                };
                format!(
                    "Older messages were summarized: {} tokens became {}.{how}",
                    tokens(before),
                    tokens(after)
                )
            }
            Room::Enough => "There is nothing to summarize yet.".to_owned(),
            Room::Stopped => return Ok(Step::Stopped),
            // The person asked is told: no trouble that doctor tells of for an hour.
            Room::Failed(reason) => {
                tracing::warn!(session = %envelope.session_key, reason, "a conversation could not be compacted");
                let why = format!("The conversation was not summarized: {reason}.");
                return Ok(Step::done(declined(envelope, &why)));
            }
        };
        Ok(Step::done(said(envelope, &text, None)))
    }

    /// Says which model answers here, or changes it.
    pub(crate) async fn choose_model(
        &self,
        envelope: &Envelope,
        choice: Option<&str>,
    ) -> Recorded<Outcome> {
        if !envelope.from_owner {
            return Ok(declined(envelope, FOR_OWNERS));
        }
        let live = self.live();
        let models = live.agent.client().models();
        let key = &envelope.session_key;
        let mut session = self
            .persist("a session", || self.sessions.take(key, envelope.contact()))
            .await?;
        let setting = match choice {
            None => None,
            Some(word) if word.eq_ignore_ascii_case("default") => {
                Some(Kind::Setting { model: None })
            }
            Some(name) => match self.model_named(name) {
                Ok(name) => Some(Kind::Setting { model: Some(name) }),
                Err(why) => {
                    self.sessions.put(session);
                    return Ok(declined(envelope, &why));
                }
            },
        };
        if let Some(kind) = setting
            && let Err(error) = session.append(vec![kind], true).await
        {
            self.sessions.put(session);
            return Ok(self.failed(envelope, &error.to_string(), &[]));
        }
        let model = model_for(&live, envelope, &session);
        self.sessions.put(session);
        let names: Vec<&str> = models.names().collect();
        let now = if choice.is_some() {
            "From now on"
        } else {
            "Here"
        };
        let text = format!(
            "{now} `{model}` answers. There are: {}; `/model default` returns to the usual one.",
            names.join(", ")
        );
        Ok(said(envelope, &text, None))
    }
}
