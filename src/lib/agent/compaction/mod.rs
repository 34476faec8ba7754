//! Makes room in a conversation that has grown, so that it can continue for years.
//!
//! ```text
//! consolidate the facts → flush (once a cycle) → summarise → one `compaction` event → index
//! ```
//! Nothing is lost: the event only records what is no longer sent, and the lines above it stay. A crash leaves
//! either no compaction or a complete one. Compaction always terminates: a conversation that does not shrink by
//! a fifth is cut without a model.

mod cut;
mod flush;
mod summary_request;

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::turn_loop::{Agent, Break, Running};
use super::turn_request::Order;
use crate::config::{Keep, Model, ProviderType, Thresholds};
use crate::cost::Refusal;
use crate::llm::{self, Paid, Prompt, Purpose, Unavailable};
use crate::message::{Step, StopReason};
use crate::provider::SystemBlock;
use crate::session;
use crate::session::{Compaction, Entry, Kind, Session, State, SummaryBy};
use crate::{clock, text};
use cut::Cut;

/// The source under which its calls stand in the ledger.
const SOURCE: &str = "compaction";
/// Fewer messages are not worth a summary (reference: acceptance C12).
const FEWEST: usize = 4;
/// After a compaction a conversation must grow by this part of its limit before the next one: what cannot be
/// made smaller must not be summarized, and paid for, after every turn.
const GROWN: u64 = 10;
/// As many conversations without a summary are remembered; then it starts over.
const REMEMBERED: usize = 1_000;
/// A summary of fewer letters ("OK.", "…") is none.
const SAYS_SOMETHING: usize = 4;
/// A compaction that leaves more than this share of the messages is none (specification §11: it must shrink by 20 %).
const SHRUNK: f64 = 0.8;
/// Characters of the blocks that are cut when nothing else helps: at first at least, and at last.
const BLOCKS: (usize, usize) = (16_000, 250);

/// Why room is made, the most urgent last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// A turn has ended; there may be enough room.
    Perhaps,
    /// Somebody asks for it.
    Asked,
    /// The next request would not fit.
    Full,
    /// The vendor says that it did not fit.
    Refused,
    /// It says so after a compaction.
    RefusedAgain,
}

/// The result of making room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Room {
    /// Nothing had to be done, or could be.
    Enough,
    /// Tokens of the next request before and after, and who summed it up.
    Made {
        /// Before.
        before: u64,
        /// After.
        after: u64,
        /// Who wrote the summary.
        by: SummaryBy,
    },
    /// It was stopped.
    Stopped,
    /// It could not be written down.
    Failed(String),
}

/// Why no model summed a conversation up.
#[derive(Debug, thiserror::Error)]
enum Unsummed {
    /// The turn's own call would have to wait or be refused as well, so nothing is gained by a cut.
    #[error("{0}")]
    ForNow(llm::Error),
    /// Trying again does not help.
    #[error("{0}")]
    ForGood(String),
}

/// Sizes of conversations when a model was asked for a summary in vain: it is not to be paid for after every turn. In memory
/// only: new settings, or another start, may bring a better one.
#[derive(Debug, Default)]
pub(super) struct Tried(Mutex<HashMap<String, u64>>);

impl Tried {
    fn size_of(&self, session: &str) -> Option<u64> {
        self.0.lock().get(session).copied()
    }

    fn forget(&self, session: &str) {
        self.0.lock().remove(session);
    }

    fn note(&self, session: &str, size: u64) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(session.to_owned(), size);
    }
}

impl From<llm::Error> for Unsummed {
    fn from(error: llm::Error) -> Self {
        let error = match error.away() {
            Ok(away) => return Self::ForNow(llm::Error::Unavailable(away)),
            Err(error) => error,
        };
        match &error {
            llm::Error::Refused(Refusal::Cap {
                period: "session",
                bound,
                limit,
                ..
            }) if bound <= limit => Self::ForNow(error),
            _ => Self::ForGood(error.to_string()),
        }
    }
}

/// Returns `tokens` times `factor`, rounded down.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates"
)]
fn scaled(tokens: u64, factor: f64) -> u64 {
    (tokens as f64 * factor) as u64
}

/// Returns `share` of `count`, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers"
)]
fn scaled_up(count: usize, share: f64) -> usize {
    ((count as f64 * share).ceil() as usize).min(count)
}

impl Agent {
    /// Returns true when there may be need to make room in a conversation that `model` answers. It looks at what
    /// the model has counted, and at no file.
    pub fn has_grown(&self, session: &Session, model: &str) -> bool {
        self.has_long_history(session.state())
            || self
                .thresholds(model)
                .is_some_and(|at| session.state().size(|| 0) >= at.flush_at)
    }

    /// Returns true when there are more messages than the settings want, of any size.
    fn has_long_history(&self, state: &State) -> bool {
        let most = self.compaction.history_size;
        most > 0 && state.entries.len() >= most
    }

    fn thresholds(&self, model: &str) -> Option<Thresholds> {
        let model = self.client.models().get(model, "the conversation").ok()?;
        Some(self.compaction.thresholds(&model))
    }

    /// Makes room in a conversation between two turns: because it [has grown](Self::has_grown), or `asked`.
    pub async fn make_room(&self, session: &mut Session, order: Order<'_>, asked: bool) -> Room {
        let mut turn = Running::new(self, session, order);
        let need = if asked { Need::Asked } else { Need::Perhaps };
        let (contact, model) = (
            turn.session.head().contact.clone(),
            turn.order.model.to_owned(),
        );
        turn.emit(Step::Started {
            contact,
            model,
            parent: None,
        });
        let made = turn.make_room(need).await;
        turn.emit(Step::Ended);
        match made {
            Ok(made) => made,
            Err(Break::Stopped) => Room::Stopped,
            Err(
                Break::Failed(reason)
                | Break::Overflow(reason)
                | Break::TooLong(reason)
                | Break::Unavailable(Unavailable { detail: reason, .. }),
            ) => Room::Failed(reason),
        }
    }
}

/// The numbers of one compaction.
struct Plan {
    at: Thresholds,
    /// Estimated tokens of system text and tools.
    overhead: u64,
    /// What the vendor counts for one estimated token.
    factor: f64,
    /// The size of the next request.
    size: u64,
    /// The most messages that stay.
    longest: usize,
    /// Whether a turn is not answered yet.
    running: bool,
}

impl Plan {
    /// Returns the size of the next request as `state` has it.
    fn size_of(&self, state: &State) -> u64 {
        let entries: u64 = state.entries.iter().map(Entry::tokens).sum();
        scaled(self.overhead + entries, self.factor)
    }

    /// Returns where the conversation is cut so that `keep` of it stays, and at most `most` tokens.
    fn cut(&self, state: &State, keep: Keep, most: u64) -> Option<Cut> {
        let pieces = cut::pieces(&state.entries, self.factor);
        let most = most.saturating_sub(scaled(self.overhead, self.factor));
        cut::cut(
            &pieces,
            keep,
            self.at.hard_at,
            most,
            self.longest,
            self.running,
        )
    }

    /// Returns the state as `compaction` would leave it.
    fn after(&self, state: &State, compaction: &Compaction) -> State {
        let mut after = state.clone();
        let kind = Kind::Compaction(compaction.clone());
        let event = session::Event {
            v: 1,
            ts: clock::rfc3339(clock::now_ms()),
            seq: state.last_seq + 1,
            kind,
        };
        after.apply(&event, state.position.clone());
        after
    }
}

impl Running<'_> {
    /// Returns the thresholds of the conversation's model.
    pub(super) fn thresholds(&self) -> Option<Thresholds> {
        self.agent.thresholds(self.order.model)
    }

    /// Returns the tokens of the next request.
    pub(super) fn size(&self) -> u64 {
        self.session.state().size(|| self.overhead())
    }

    /// Returns true when what matters is to be kept before the conversation continues.
    pub(super) fn is_to_be_flushed(&self) -> bool {
        !self.session.state().flushed
            && self
                .thresholds()
                .is_some_and(|at| self.size() >= at.flush_at)
    }

    /// Returns true when the next request would leave no room for an answer.
    pub(super) fn is_full(&self) -> bool {
        self.thresholds().is_some_and(|at| self.size() > at.room)
    }

    /// Returns the estimated tokens of what is in a request in addition to the conversation.
    fn overhead(&self) -> u64 {
        let system: u64 = self
            .order
            .system
            .iter()
            .map(|block: &SystemBlock| text::estimate_tokens(&block.text))
            .sum();
        system + self.offer.tokens()
    }

    /// Makes room, as far as there is need.
    pub(super) async fn make_room(&mut self, need: Need) -> Result<Room, Break> {
        let Some(at) = self.thresholds() else {
            return Ok(Room::Enough);
        };
        self.emit(Step::Compacting);
        self.flush_once(at).await?;
        let is_long = self.agent.has_long_history(self.session.state());
        if need == Need::Perhaps && self.size() < at.compact_at && !is_long {
            return Ok(Room::Enough);
        }
        let state = self.session.state();
        let urgent = matches!(need, Need::Full | Need::Refused | Need::RefusedAgain);
        let grown = state
            .compacted
            .as_ref()
            .is_none_or(|last| is_long || self.size() >= last.tokens + at.compact_at / GROWN);
        let tried = self.agent.unsummed.size_of(self.session.id());
        let grown = grown && tried.is_none_or(|size| self.size() >= size + at.compact_at / GROWN);
        if !urgent && (state.entries.len() < FEWEST || (need == Need::Perhaps && !grown)) {
            return Ok(Room::Enough);
        }
        // The transcript keeps it all: the caller need not wait for the facts.
        if !self.harvest().await? && need == Need::Perhaps && self.size() < at.hard_at {
            tracing::warn!(
                session = self.session.id(),
                "no facts could be extracted: the conversation is summarized later"
            );
            return Ok(Room::Enough);
        }
        let plan = self.plan(at, need);
        let compaction = self.compaction(&plan, need).await?;
        let Some(compaction) = compaction else {
            return Ok(Room::Enough);
        };
        let ((before, after), by) = (compaction.tokens, compaction.by);
        tracing::info!(
            session = self.session.id(),
            before,
            after,
            ?by,
            "the older part of a conversation was summarized"
        );
        self.session
            .append(vec![Kind::Compaction(compaction)], true)
            .await?;
        self.agent.unsummed.forget(self.session.id());
        self.agent.memory.tell_news();
        Ok(Room::Made { before, after, by })
    }

    fn plan(&self, at: Thresholds, need: Need) -> Plan {
        let state = self.session.state();
        let (overhead, counted) = (self.overhead(), state.counted_seq);
        let size = if need >= Need::Refused {
            self.size().max(at.hard_at)
        } else {
            self.size()
        };
        // Where there are too many, tokens alone would let nearly all of them stay.
        let longest = match self.agent.has_long_history(state) {
            true => self.agent.compaction.history_size / 3,
            false => usize::MAX,
        };
        let estimate = overhead + state.entries.iter().map(Entry::tokens).sum::<u64>();
        // Before the first count, and right after a compaction, there is nothing to compare with.
        let known = counted > 0 || need >= Need::Refused;
        let factor = if known {
            ratio(size, estimate).clamp(0.5, 4.0)
        } else {
            1.0
        };
        Plan {
            at,
            overhead,
            factor,
            size,
            longest,
            running: need >= Need::Full,
        }
    }

    /// Draws facts from what will no longer be sent; false when that did not work.
    async fn harvest(&self) -> Result<bool, Break> {
        let session = Some(self.session.id().to_owned());
        let work = spawn_blocking(self.agent.consolidation(session, self.order.cancel.clone()));
        tokio::select! {
            biased;
            () = self.order.cancel.cancelled() => Err(Break::Stopped),
            done = work => Ok(done.unwrap_or(false)),
        }
    }

    /// Returns the compaction to be written down; `None` when nothing can be made smaller.
    async fn compaction(&self, plan: &Plan, need: Need) -> Result<Option<Compaction>, Break> {
        let state = self.session.state();
        let before = plan.size_of(state).max(1);
        let fixed = scaled(plan.overhead, plan.factor);
        // Where the system text takes most of it, an eighth is the messages' nevertheless.
        let most = (plan.at.compact_at / 2).max(fixed + plan.at.compact_at / 8);
        if need != Need::RefusedAgain
            && let Some(cut) = plan.cut(state, plan.at.keep, most)
        {
            let dropped = dropped(state, cut);
            let earlier = state.compacted.as_ref().map(|last| last.summary.as_str());
            let summary = self.summarise(&dropped, earlier, plan.factor, need);
            let (summary, by) = match summary.await? {
                Ok(summary) => (summary, SummaryBy::Model),
                // There is time until a model answers again.
                Err(why) if need == Need::Perhaps => {
                    if matches!(why, Unsummed::ForGood(_)) {
                        self.agent.unsummed.note(self.session.id(), plan.size);
                    }
                    tracing::warn!(
                        session = self.session.id(),
                        %why,
                        "the conversation is summarized later"
                    );
                    return Ok(None);
                }
                Err(why) if need == Need::Asked => {
                    return Err(Break::Failed(format!(
                        "no model summed it up ({why}); nothing was changed"
                    )));
                }
                // What is cut now is never summed up: the turn waits, or is refused.
                Err(Unsummed::ForNow(error)) => return Err(error.into()),
                Err(Unsummed::ForGood(why)) => {
                    tracing::warn!(
                        session = self.session.id(),
                        why,
                        "no model could summarize the conversation"
                    );
                    (
                        summary_request::statistics(
                            &dropped,
                            earlier,
                            &why,
                            summary_request::LONGEST / 2,
                        ),
                        SummaryBy::Statistics,
                    )
                }
            };
            let made = self.event(plan, cut, summary, by, None);
            let after = plan.size_of(&plan.after(state, &made));
            let left = ratio(after.saturating_sub(fixed), before.saturating_sub(fixed));
            let is_small = left <= SHRUNK && after < plan.at.flush_at;
            if is_small || (need == Need::Asked && after < before) {
                return Ok(Some(Compaction {
                    tokens: (plan.size, after),
                    ..made
                }));
            }
            self.agent.unsummed.note(self.session.id(), plan.size);
            tracing::warn!(
                before,
                after,
                "a summary did not make the conversation smaller"
            );
        }
        // It fits as it is: the caller must not lose words for a request.
        if need <= Need::Asked && plan.size < plan.at.compact_at {
            return Ok(None);
        }
        Ok(self.truncation(plan, before, most))
    }

    /// Cuts without a model until at most `most` tokens are left: older messages first, then the middle of long ones.
    fn truncation(&self, plan: &Plan, before: u64, most: u64) -> Option<Compaction> {
        let state = self.session.state();
        // When not even one message can go, the first event stays the first.
        let first = state
            .entries
            .iter()
            .map(|entry| entry.seq)
            .find(|seq| *seq > 0)?;
        let nothing = Cut {
            kept_from: first,
            question: None,
        };
        let cut = plan.cut(state, Keep::Tokens(most), most).unwrap_or(nothing);
        let earlier = state.compacted.as_ref().map(|last| last.summary.as_str());
        let why = "it was cut to make room";
        let summary = summary_request::statistics(
            &dropped(state, cut),
            earlier,
            why,
            summary_request::LONGEST / 6,
        );
        // One long message is to keep as much as fits.
        let room = usize::try_from(most).unwrap_or(usize::MAX);
        let first_length = room.saturating_mul(text::CHARS_PER_TOKEN).max(BLOCKS.0);
        let mut longest = None;
        loop {
            let made = self.event(plan, cut, summary.clone(), SummaryBy::Statistics, longest);
            let after = plan.size_of(&plan.after(state, &made));
            let next = longest.map_or(first_length, |longest| longest * 3 / 4);
            if after <= most || next < BLOCKS.1 {
                return (after < before).then_some(Compaction {
                    tokens: (plan.size, after),
                    ..made
                });
            }
            longest = Some(next);
        }
    }

    fn event(
        &self,
        plan: &Plan,
        cut: Cut,
        summary: String,
        by: SummaryBy,
        longest_block: Option<usize>,
    ) -> Compaction {
        let Cut {
            kept_from,
            question,
        } = cut;
        let run_id = self.order.run_id.to_owned();
        Compaction {
            run_id,
            kept_from,
            question,
            summary,
            by,
            longest_block,
            tokens: (plan.size, 0),
        }
    }

    /// Asks the model of `[routing] compaction` for a summary, and while that one is away and there is need, the
    /// conversation's own; the inner error says why there is none. `factor` is what a vendor counts for one estimated token.
    async fn summarise(
        &self,
        dropped: &[&Entry],
        earlier: Option<&str>,
        factor: f64,
        need: Need,
    ) -> Result<Result<String, Unsummed>, Break> {
        let models = self.agent.client.models();
        let Some(model) = models.for_role("compaction") else {
            let why = "no model is configured".to_owned();
            return Ok(Err(Unsummed::ForGood(why)));
        };
        let summary = self.summary_by(&model, dropped, earlier, factor).await?;
        let own = models.get(self.order.model, "the conversation").ok();
        let is_away = matches!(summary, Err(Unsummed::ForNow(_))) && need != Need::Perhaps;
        match own.filter(|own| is_away && own.name != model.name) {
            Some(own) => self.summary_by(&own, dropped, earlier, factor).await,
            None => Ok(summary),
        }
    }

    async fn summary_by(
        &self,
        model: &Model,
        dropped: &[&Entry],
        earlier: Option<&str>,
        factor: f64,
    ) -> Result<Result<String, Unsummed>, Break> {
        let never = |why: &str| Ok(Err(Unsummed::ForGood(why.to_owned())));
        let window = model
            .context_window
            .saturating_sub(u64::from(model.max_tokens));
        let room = summary_request::Room::of(scaled(window, 1.0 / factor.max(1.0)));
        let chunks = summary_request::chunks(dropped, room.chunk);
        let earlier = earlier.map(|text| {
            (
                "summary so far",
                text::head_and_tail(text, room.longest, 70),
            )
        });
        let mut pieces: Vec<(&str, String)> = earlier.into_iter().collect();
        match chunks.as_slice() {
            [] => return never("there is nothing to sum up"),
            [one] => pieces.push(("conversation", one.clone())),
            several => {
                for chunk in several {
                    match self
                        .ask_for_summary(&model.name, &[("conversation", chunk)], room.longest)
                        .await?
                    {
                        Ok(part) => pieces.push(("summary of the next part", part)),
                        Err(why) => return Ok(Err(why)),
                    }
                }
                let most = room.chunk / pieces.len().max(1);
                pieces
                    .iter_mut()
                    .for_each(|(_, piece)| *piece = text::head_and_tail(piece, most, 70));
            }
        }
        let pieces: Vec<(&str, &str)> = pieces
            .iter()
            .map(|(what, text)| (*what, text.as_str()))
            .collect();
        self.ask_for_summary(&model.name, &pieces, room.longest)
            .await
    }

    async fn ask_for_summary(
        &self,
        model: &str,
        pieces: &[(&str, &str)],
        longest: usize,
    ) -> Result<Result<String, Unsummed>, Break> {
        let never = |why: &str| Err(Unsummed::ForGood(why.to_owned()));
        let messages = vec![summary_request::request(pieces)];
        let prompt = Prompt::plain(summary_request::system(), messages);
        Ok(match self.ask_for_room(model, &prompt).await {
            Err(Break::Stopped) => return Err(Break::Stopped),
            Err(_) => never("it took too long"),
            Ok(Ok(paid)) if paid.response.stop == StopReason::Refusal => {
                never("the model refused to write a summary")
            }
            Ok(Ok(paid)) => {
                let text = paid.response.message.plain_text();
                let text = text::head_and_tail(text.trim(), longest, 70);
                let letters = text.chars().filter(|letter| letter.is_alphanumeric());
                match letters.take(SAYS_SOMETHING).count() == SAYS_SOMETHING {
                    true => Ok(text),
                    false => never("the model's summary says nothing"),
                }
            }
            Ok(Err(error)) => Err(error.into()),
        })
    }

    /// Asks a model in order to make room. In the ledger that is a run of its own: the cap of the message would refuse it.
    async fn ask_for_room(
        &self,
        model: &str,
        prompt: &Prompt,
    ) -> Result<Result<Paid, llm::Error>, Break> {
        let run_id = format!("{}/room", self.order.run_id);
        let of_others = !self.order.from_owner;
        let purpose = Purpose::new(&run_id, self.session.id(), SOURCE, of_others);
        let client = &self.agent.client;
        let call = client.complete(purpose, model, prompt, &|_| {}, &|_| {});
        self.in_time(call).await
    }

    /// Returns true when a model is there that can be asked to keep something.
    fn has_a_model(&self) -> bool {
        let model = self
            .agent
            .client
            .models()
            .get(self.order.model, "the conversation");
        model.is_ok_and(|model| model.provider.kind != ProviderType::Offline)
    }
}

/// Returns what a cut takes out of a conversation, without the old summary.
fn dropped(state: &State, cut: Cut) -> Vec<&Entry> {
    let goes = |entry: &&Entry| {
        entry.seq > 0 && entry.seq < cut.kept_from && Some(entry.seq) != cut.question
    };
    state.entries.iter().filter(goes).collect()
}

#[expect(clippy::cast_precision_loss, reason = "estimates")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
