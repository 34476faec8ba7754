//! `/compact`: the older part of a conversation is summed up; also of one that has grown, after its turn.

use crate::agent::Room;
use crate::message::Envelope;
use crate::pipeline::approvals::Nobody;
use crate::pipeline::commands::lane::Step;
use crate::pipeline::persist::Recorded;
use crate::pipeline::turn::outcome::{declined, refused, said};
use crate::pipeline::turn::run::model_for;
use crate::pipeline::{Pipeline, Run};
use crate::session::SummaryBy;

/// Of troubles with summaries.
const SUMMARIES: &str = "summaries";
/// The trouble that is noted when no model summed up.
const NO_SUMMARY: &str = "a conversation was cut without a summary by a model; the log says why";

impl Pipeline {
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
        let mut session = self.take_session(envelope).await?;
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
            Room::Made { by, .. } if !asked || *by == SummaryBy::Model => self.note_summary(*by),
            Room::Failed(_) | Room::Made { .. } | Room::Enough | Room::Stopped => {}
        }
        Ok(made)
    }

    /// Sums a conversation up because somebody asks for it.
    pub(super) async fn compact(
        &self,
        envelope: &Envelope,
        run_id: &str,
        run: &Run,
    ) -> Recorded<Step> {
        let tokens = crate::text::count;
        if let Some(why) = self.names_no_session(envelope) {
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

    /// Notes for status and monitor who summed a conversation up.
    pub(crate) fn note_summary(&self, by: SummaryBy) {
        match by {
            SummaryBy::Model => self.end_troubles(SUMMARIES),
            SummaryBy::Statistics => self.note_trouble_of(SUMMARIES, NO_SUMMARY),
        }
    }
}
