//! The conversation of a turn: a new one when the old one has expired.

use std::sync::Arc;

use super::debounce::TurnInputs;
use crate::config::MAX_CARRIED;
use crate::message::{Block, Envelope, Source};
use crate::pipeline::persist::Recorded;
use crate::pipeline::{Live, Pipeline};
use crate::session::{Over, Resume, Session, State};
use crate::{clock, prompt, session};

/// A conversation for a turn.
pub(crate) struct Fresh {
    pub session: Session,
    /// What the turn receives from the previous conversation.
    pub carried: Option<Carried>,
}

/// What a new conversation receives from an old one.
pub(crate) struct Carried {
    /// Its pinned rules, as they are told.
    pub rules: Option<Block>,
    /// What was said last.
    pub told: Option<Block>,
    /// Whether text of others may be in what was said.
    pub foreign: bool,
    /// Its pinned rules: nobody has taken them back.
    pub pins: Vec<String>,
}

impl Pipeline {
    /// Takes the conversation of a turn out. One that is over is archived first; never in the middle of a
    /// turn, and only when a person speaks.
    pub(crate) async fn take_fresh(
        self: &Arc<Self>,
        live: &Live,
        inputs: &TurnInputs,
    ) -> Recorded<Fresh> {
        let envelope = inputs.leader();
        let key = &envelope.session_key;
        let session = self.take_session(envelope).await?;
        if is_ones_own(envelope)
            && !session.state().entries.is_empty()
            && session.state().resume(&envelope.id) == Resume::Fresh
        {
            // However often a job ran: it costs what it costs.
            self.sessions.put(session);
            self.archive(key).await?;
            return Ok(Fresh {
                session: self.take_session(envelope).await?,
                carried: None,
            });
        }
        let Some(over) = is_over(live, envelope, session.state()) else {
            // A crash may have come between the end of the old conversation and the first word of the new one.
            let is_new = session.state().last_seq == 0 && inputs.has_begun();
            let carried = if is_new {
                self.carried_before(live, envelope).await
            } else {
                None
            };
            return Ok(Fresh { session, carried });
        };
        tracing::info!(
            session = session.id(),
            ?over,
            "a conversation is over, a new one begins"
        );
        let carried = carried(live, session.state());
        self.sessions.put(session);
        self.archive(key).await?;
        Ok(Fresh {
            session: self.take_session(envelope).await?,
            carried,
        })
    }

    /// Returns what the conversation is told of that was archived last, if it was over when `envelope` came.
    async fn carried_before(&self, live: &Live, envelope: &Envelope) -> Option<Carried> {
        let (archive, key) = (self.memory.home().archive(), envelope.session_key.0.clone());
        let read = tokio::task::spawn_blocking(move || {
            // Ids sort by time.
            let head = session::heads(&archive, |_| true)
                .into_iter()
                .rfind(|head| head.key == key)?;
            session::view(&archive, &head.session_id).ok().flatten()
        });
        let state = read.await.ok().flatten()?;
        is_over(live, envelope, &state).and_then(|_| carried(live, &state))
    }
}

/// Returns true for what has a separate conversation, new each time.
fn is_ones_own(envelope: &Envelope) -> bool {
    matches!(envelope.source, Source::Job | Source::Heartbeat) && envelope.has_own_lane()
}

/// Returns why the conversation is over when `envelope` comes into it.
fn is_over(live: &Live, envelope: &Envelope, state: &State) -> Option<Over> {
    if !envelope.source.is_person() || state.resume(&envelope.id) != Resume::Fresh {
        return None;
    }
    let last = clock::parse_rfc3339(&state.heard.as_ref()?.at)?;
    let (settings, zone) = (&live.config.session, live.config.agent.timezone.0);
    // What waited in its lane belongs to the day on which it came.
    Over::at(
        settings,
        envelope.session_key.kind(),
        zone,
        last,
        envelope.received_at,
    )
}

fn carried(live: &Live, state: &State) -> Option<Carried> {
    let turns = state.last_turns(live.config.session.carry_turns, MAX_CARRIED);
    let told = prompt::carried(turns.iter().map(|entry| &entry.message));
    // An answer may repeat what others said long before it.
    let foreign = told.is_some() && state.exposure().any();
    let rules = prompt::pinned(&state.pins);
    (rules.is_some() || told.is_some()).then(|| Carried {
        rules,
        told,
        foreign,
        pins: state.pins.clone(),
    })
}
