//! The loop of a turn: call the model, record its answer, run its tools, record their results, until it requests no
//! more tools.
//!
//! Every step is in the transcript, on disk, before the next begins, so an interrupted turn continues from there
//! ([`Agent::run`] starts by checking what is already done).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use chrono_tz::Tz;
use tokio::sync::broadcast;

use super::ask_owner::AskOwner;
use super::compaction::{Need, Room, Tried};
use super::followed::Followed;
use super::interrupted_turn::{break_off, message};
use super::loop_detector::Guard;
use super::others_time::OthersTime;
use super::tool::{Context, Progress};
use super::tool_registry::{Offer, Registry};
use super::turn_request::{Ended, Limits, Order, Reply, Written};
use crate::audit;
use crate::config::Compaction;
use crate::cost;
use crate::llm::{self, Client, Paid, Prompt, Purpose, Unavailable};
use crate::media::Pictures;
use crate::memory::{Memory, Scope};
use crate::message::{AgentEvent, Block, Bounds, Message, Role, SessionKey, Step, Usage};
use crate::provider;
use crate::provider::repair;
use crate::session::{Kind, Resume, Session, Spoken};
use crate::sys;

/// From this many calls left on, the model is reminded (specification §7).
const REMIND: u32 = 5;
/// The loop with everything it needs.
pub struct Agent {
    pub(super) client: Arc<Client>,
    registry: Registry,
    pub(super) limits: Limits,
    pub(super) compaction: Compaction,
    events: broadcast::Sender<AgentEvent>,
    pub(super) pictures: Pictures,
    pub(super) memory: Arc<Memory>,
    pub(super) audit: audit::Log,
    pub(super) followed: Followed,
    pub(super) unsummed: Tried,
    /// For days that are named.
    pub(super) zone: Tz,
}

/// Why the loop broke off.
pub(super) enum Break {
    Stopped,
    /// The vendor says that the conversation does not fit, in these words.
    Overflow(String),
    Failed(String),
    /// Its time was over, in these words.
    TooLong(String),
    /// It cannot go on now, and may later.
    Unavailable(Unavailable),
}

impl From<sys::Error> for Break {
    fn from(error: sys::Error) -> Self {
        let what = format!("the transcript cannot be written: {error}");
        if error.is_retryable() {
            Break::Unavailable(Unavailable::disk(&what))
        } else {
            Break::Failed(what)
        }
    }
}

impl From<llm::Error> for Break {
    fn from(error: llm::Error) -> Self {
        let error = match error.away() {
            Ok(away) => return Break::Unavailable(away),
            Err(error) => error,
        };
        match error {
            llm::Error::Failed(provider::Error::ContextOverflow { message }) => {
                Break::Overflow(message)
            }
            // The call exceeds the limit itself, not the rest of today's: waiting for tomorrow would not help.
            llm::Error::Refused(refusal @ cost::Refusal::Cap { bound, limit, .. })
                if bound > limit =>
            {
                Break::Failed(format!(
                    "{refusal}; a smaller conversation costs less: /new begins one"
                ))
            }
            other => Break::Failed(match other.next_step() {
                Some(step) => format!("{other}; {step}"),
                None => other.to_string(),
            }),
        }
    }
}

impl Agent {
    /// Puts the loop together.
    pub fn new(
        client: Arc<Client>,
        registry: Registry,
        limits: Limits,
        compaction: Compaction,
        events: broadcast::Sender<AgentEvent>,
        pictures: Pictures,
        memory: Arc<Memory>,
    ) -> Self {
        Self {
            client,
            registry,
            limits,
            compaction,
            events,
            pictures,
            memory,
            audit: audit::Log::off(),
            followed: Followed::default(),
            unsummed: Tried::default(),
            zone: Tz::UTC,
        }
    }

    /// Has every call of a tool recorded.
    #[must_use]
    pub fn with_audit(self, audit: audit::Log) -> Self {
        Self { audit, ..self }
    }

    /// Returns the metered client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the estimated tokens of the tools that a turn of `model` within these bounds is offered.
    pub fn tool_tokens(&self, model: &str, bounds: Option<&Bounds>) -> u64 {
        self.offer(model).within(bounds).tokens()
    }

    /// Returns the tools of this moment as `model` is shown them.
    pub(super) fn offer(&self, model: &str) -> Offer {
        let model = self.client.models().get(model, "the request");
        self.registry
            .offer(model.is_ok_and(|model| model.reads_tools_cheaply()))
    }

    /// Returns the events of all runs from now on.
    pub fn events(&self) -> broadcast::Receiver<AgentEvent> {
        self.events.subscribe()
    }

    /// Runs a turn to its end, wherever it was interrupted before.
    pub async fn run(&self, session: &mut Session, order: Order<'_>) -> Ended {
        let mut turn = Running::new(self, session, order);
        turn.emit(Step::Started {
            contact: turn.session.head().contact.clone(),
            model: turn.order.model.to_owned(),
            parent: turn.order.bounds.map(|bounds| bounds.parent.clone()),
        });
        let ended = turn.work().await;
        let ended = match ended {
            Ok(text) => {
                let of_turn = turn.session.state().turn.as_ref();
                let (usage, cost_nano_usd) = of_turn.map_or((Usage::default(), Some(0)), |turn| {
                    (turn.usage, turn.cost_nano_usd)
                });
                Ended::Reply(Reply {
                    text,
                    usage,
                    cost_nano_usd,
                    receipts: turn.receipts(),
                })
            }
            Err(Break::Unavailable(away)) => {
                turn.emit(Step::RetryWait {
                    reason: away.detail.clone(),
                });
                return Ended::Waits(away);
            }
            Err(broken) => turn.break_off(broken).await,
        };
        turn.emit(Step::Ended);
        ended
    }
}

/// A turn while it runs.
pub(super) struct Running<'a> {
    pub(super) agent: &'a Agent,
    pub(super) session: &'a mut Session,
    pub(super) order: Order<'a>,
    key: SessionKey,
    pub(super) offer: Offer,
    /// Whether others than the owner read the answer.
    pub(super) others_read: bool,
    /// Whether the model had read untrusted text when it made the calls of this step.
    pub(super) is_exposed: bool,
    /// How often in a row the model was asked once more without them, and made no call that is asked about.
    pub(super) asked_without: u32,
    pub(super) context: Context,
    pub(super) guard: Guard,
    pub(super) deadline: Instant,
}

impl<'a> Running<'a> {
    pub(super) fn new(agent: &'a Agent, session: &'a mut Session, order: Order<'a>) -> Self {
        let state = session.state();
        let owners_alone = order.viewer.may_see(&Scope::Owner);
        let key = SessionKey(session.head().key.clone());
        let time = order.bounds.map_or(agent.limits.run_timeout, |bounds| {
            Duration::from_secs(bounds.timeout_secs)
        });
        let context = Context {
            run_id: order.run_id.to_owned(),
            call_id: String::new(),
            spawner: order.spawner.clone(),
            session_id: session.id().to_owned(),
            session: session.entry(),
            conversation: SessionKey(session.head().key.clone()),
            person: order.person.to_owned(),
            of_others: !order.from_owner,
            viewer: order.viewer.clone(),
            route: order.route.cloned(),
            message_id: order.message_id.map(str::to_owned),
            pins: state.pins.clone(),
            approved: None,
            untrusted: false,
            private_words: Vec::new(),
            ask_owner: AskOwner::default(),
            others_time: OthersTime::default(),
            cancel: order.cancel.clone(),
            progress: if owners_alone {
                Progress::of_run(&agent.events, order.run_id, &key)
            } else {
                Progress::default()
            },
        };
        Self {
            agent,
            key,
            offer: agent.offer(order.model).within(order.bounds),
            others_read: !owners_alone,
            is_exposed: false,
            asked_without: 0,
            context,
            guard: Guard::default(),
            deadline: Instant::now() + time,
            order,
            session,
        }
    }
}

impl Running<'_> {
    async fn work(&mut self) -> Result<String, Break> {
        match self.session.state().resume(self.order.inbox_id) {
            Resume::Answered => return Ok(self.last_words()),
            Resume::Failed(reason) => return Err(Break::Failed(reason)),
            Resume::Tools(open) => {
                if let Some(text) = self.run_open_calls(open).await? {
                    return Ok(text);
                }
            }
            Resume::Fresh | Resume::Model => {}
        }
        let mut overflows = 0_u32;
        loop {
            let calls = self.calls();
            if calls >= self.max_turns() {
                let text = format!(
                    "I stopped after {calls} steps without coming to an end. Say \"continue\" and I go on."
                );
                return self.conclude_with_receipts(text).await;
            }
            // While the model is unreachable there is time, and nobody who sums up.
            if self.is_full() && !self.agent.client.is_down(self.order.model) {
                self.make_room(Need::Full).await?;
            } else if calls > 0
                && self.is_to_be_flushed()
                && let Some(at) = self.thresholds()
            {
                self.flush_once(at).await?;
            }
            let paid = match self.ask(calls + 1).await {
                Err(Break::Overflow(words)) => {
                    overflows += 1;
                    let need = if overflows == 1 {
                        Need::Refused
                    } else {
                        Need::RefusedAgain
                    };
                    if overflows > 2 || self.make_room(need).await? == Room::Enough {
                        return Err(Break::Failed(format!(
                            "this does not fit the model's window, and nothing of it can be left out ({words}); send less, or /new"
                        )));
                    }
                    continue;
                }
                answer => answer?,
            };
            overflows = 0;
            if let Some(text) = self.take_in(paid).await? {
                return Ok(text);
            }
        }
    }

    /// One model call.
    async fn ask(&self, number: u32) -> Result<Paid, Break> {
        self.emit(Step::Thinking { turn: number });
        let messages = self.shown();
        let reader = self.order.reader;
        let on_text = |text: &str| reader(Written::Text(text));
        reader(Written::Begin);
        self.complete(number, messages, &on_text).await
    }

    pub(super) async fn complete(
        &self,
        number: u32,
        messages: Vec<Message>,
        on_text: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Paid, Break> {
        let last = number >= self.max_turns();
        let prompt = Prompt {
            system: self.order.system.clone(),
            tools: self.offer.specs.clone(),
            may_call: !last,
            messages: self.with_pictures(repair(messages)).await.into(),
            schema: self.order.form.map(|form| form.schema.clone()),
        };
        let purpose = Purpose {
            run_id: self.order.paying_run,
            session_id: self.session.id(),
            source: self.order.source.as_str(),
            budget_usd: self.order.budget_usd,
            share_usd: self.order.share_usd,
            of_others: !self.order.from_owner,
        };
        let reader = self.order.reader;
        let on_retry = |reason: &str| {
            self.emit(Step::RetryWait {
                reason: reason.to_owned(),
            });
            reader(Written::Begin);
        };
        let call =
            self.agent
                .client
                .complete(purpose, self.order.model, &prompt, on_text, &on_retry);
        Ok(self.in_time(call).await??)
    }

    /// Returns the conversation as the model is shown it.
    fn shown(&self) -> Vec<Message> {
        let state = self.session.state();
        let Some(form) = self.order.form else {
            return state.messages();
        };
        let since = state.turn.as_ref().map_or(0, |turn| turn.user_seq);
        let at = state.entries.partition_point(|entry| entry.seq < since);
        let (before, of_turn) = state.entries.split_at(at);
        let mut messages = (form.history)(before);
        messages.extend(of_turn.iter().map(|entry| entry.message.clone()));
        messages
    }

    /// Returns the model calls this turn may make.
    pub(super) fn max_turns(&self) -> u32 {
        let Limits {
            max_turns,
            max_turns_for,
            ..
        } = &self.agent.limits;
        let of_source = max_turns_for
            .get(&self.order.source)
            .copied()
            .unwrap_or(*max_turns);
        self.order
            .bounds
            .and_then(|bounds| bounds.max_turns)
            .map_or(of_source, |turns| turns.min(of_source))
    }

    /// Ends the turn with words of ours.
    pub(super) async fn conclude(&mut self, text: String) -> Result<String, Break> {
        let content = vec![Block::text(text.clone())];
        // It may name what was done at the wish of others.
        self.is_exposed = self.session.state().exposure().any();
        let spoken = Kind::Message(Spoken {
            provenance: self.provenance_of(&content),
            ..Spoken::new(Role::Assistant, content, self.order.run_id)
        });
        self.session.append(vec![spoken], true).await?;
        Ok(text)
    }

    /// Ends the turn with words of ours and what was done by then.
    pub(super) async fn conclude_with_receipts(&mut self, text: String) -> Result<String, Break> {
        let receipts = self.receipts();
        let done = if receipts.is_empty() {
            String::new()
        } else {
            format!("\n\nDone so far: {}.", receipts.join("; "))
        };
        self.conclude(format!("{text}{done}")).await
    }

    /// Returns what the tools of this turn did in the world.
    fn receipts(&self) -> Vec<String> {
        self.session
            .state()
            .turn
            .as_ref()
            .map(|turn| turn.receipts.clone())
            .unwrap_or_default()
    }

    /// Writes down why the turn broke off. When nothing was done for the message it is forgotten,
    /// so that no question without an answer stays in the conversation; else the turn is closed.
    async fn break_off(&mut self, broken: Break) -> Ended {
        let interrupted = self.order.interrupted.load(Ordering::Relaxed);
        let (text, ended) = match broken {
            Break::Stopped if interrupted => ("the next message came".to_owned(), Ended::Stopped),
            Break::Stopped => ("stopped".to_owned(), Ended::Stopped),
            Break::Unavailable(Unavailable { detail: reason, .. })
            | Break::Failed(reason)
            | Break::Overflow(reason) => (
                reason.clone(),
                Ended::Failed {
                    reason,
                    timed_out: false,
                    receipts: self.receipts(),
                },
            ),
            Break::TooLong(reason) => (
                reason.clone(),
                Ended::Failed {
                    reason,
                    timed_out: true,
                    receipts: self.receipts(),
                },
            ),
        };
        if let Err(error) = break_off(
            self.session,
            self.order.run_id,
            self.order.inbox_id,
            text,
            interrupted,
        )
        .await
        {
            tracing::error!(%error, session = self.session.id(), "the end of a turn could not be recorded");
        }
        ended
    }

    /// Returns the model calls that this turn has made.
    fn calls(&self) -> u32 {
        let turn = self.session.state().turn.as_ref();
        turn.map_or(0, |turn| turn.calls)
    }

    /// Returns the model calls that are left of this turn.
    pub(super) fn steps_left(&self) -> u32 {
        self.max_turns().saturating_sub(self.calls())
    }

    pub(super) fn reminder(&self) -> Option<Kind> {
        let left = self.steps_left();
        (1..=REMIND).contains(&left).then(|| {
            let text = match left {
                1 => "This is the last step of this turn: answer now, without tools.".to_owned(),
                left => format!("{left} steps are left in this turn: come to an end."),
            };
            self.message(Role::User, Block::context(text))
        })
    }

    pub(super) fn message(&self, role: Role, block: Block) -> Kind {
        message(self.order.run_id, role, block)
    }

    pub(super) fn emit(&self, step: Step) {
        // Nobody watching is fine.
        let _ = self.agent.events.send(AgentEvent {
            run_id: self.order.run_id.to_owned(),
            session: self.key.clone(),
            step,
        });
    }
}
