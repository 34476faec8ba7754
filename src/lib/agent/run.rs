//! The loop: ask the model, write down what it said, run its tools, write down what they said,
//! until it has nothing more to ask for.
//!
//! Every step is in the transcript, on the disk, before the next begins; so a turn that a crash
//! interrupted goes on from there ([`Agent::run`] starts by looking at what is already done).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use super::broken::{INTERRUPTED, break_off, message, not_run, result};
use super::guard::{Guard, Verdict};
use super::tool::{Context, Offer, Registry, ToolOutput};
use crate::cost::{self, Client, Paid, Prompt, Purpose};
use crate::media::Pictures;
use crate::memory::{Scope, Viewer};
use crate::message::{AgentEvent, Block, Message, Role, Route, SessionKey, Step, StopReason, ToolCall, Usage};
use crate::provider::{self, SystemBlock, repair};
use crate::session::{Kind, Resume, Session, Spoken};
use crate::sys;

/// From this many calls left on, the model is reminded (specification §7).
const REMIND: u32 = 5;
/// What stands in the transcript when the agent chose to say nothing.
const SILENT: &str = "NO_REPLY";

/// How far a turn may go.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Model calls a turn.
    pub max_turns: u32,
    /// A whole turn.
    pub run_timeout: Duration,
}

/// The loop with everything it needs.
pub struct Agent {
    client: Arc<Client>,
    registry: Registry,
    limits: Limits,
    events: broadcast::Sender<AgentEvent>,
    pictures: Pictures,
}

/// One turn to run. The user's message is in the session already.
pub struct Order<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The input it answers.
    pub inbox_id: &'a str,
    /// Who speaks, by their id.
    pub person: &'a str,
    /// Whether it is an owner's.
    pub from_owner: bool,
    /// Whose memories it may use.
    pub viewer: &'a Viewer,
    /// The chat that is talked in, if it is one.
    pub route: Option<&'a Route>,
    /// The channel's id of the message that is answered.
    pub message_id: Option<&'a str>,
    /// The source of the input.
    pub source: &'static str,
    /// The configured model.
    pub model: &'a str,
    /// The system text.
    pub system: Vec<SystemBlock>,
    /// Ends the run at once.
    pub cancel: &'a CancellationToken,
    /// Whether it is ended by the person's next message: then what they asked stays in the conversation.
    pub interrupted: &'a AtomicBool,
    /// Reads along while the model writes.
    pub reader: &'a (dyn Fn(Written<'_>) + Send + Sync),
}

/// What the model writes, for those who read along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written<'a> {
    /// An answer begins; of one that broke off before it nothing counts.
    Begin,
    /// More of it.
    Text(&'a str),
}

/// How a turn ended.
#[derive(Debug)]
pub enum Ended {
    /// The agent said something; a silent answer is its silence token.
    Reply(Reply),
    /// It was stopped.
    Stopped,
    /// No answer came; the reason is for the owner's eyes.
    Failed(String),
}

/// What was said and what it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The words.
    pub text: String,
    /// Tokens of all calls of the turn.
    pub usage: Usage,
    /// Nano US dollars of the turn; `None` when a call was unpriced.
    pub cost_nano_usd: Option<i64>,
}

/// Why the loop broke off.
enum Break {
    Stopped,
    Failed(String),
}

impl From<sys::Error> for Break {
    fn from(error: sys::Error) -> Self {
        Break::Failed(format!("the transcript cannot be written: {error}"))
    }
}

impl From<cost::Error> for Break {
    fn from(error: cost::Error) -> Self {
        Break::Failed(match error {
            cost::Error::Failed(provider::Error::ContextOverflow { .. }) => {
                "this conversation no longer fits the model's window; send /new to begin a new one".to_owned()
            }
            other => other.to_string(),
        })
    }
}

impl Agent {
    /// Puts the loop together.
    pub fn new(
        client: Arc<Client>,
        registry: Registry,
        limits: Limits,
        events: broadcast::Sender<AgentEvent>,
        pictures: Pictures,
    ) -> Self {
        Self { client, registry, limits, events, pictures }
    }

    /// Returns the metered client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the events of all runs from now on.
    pub fn events(&self) -> broadcast::Receiver<AgentEvent> {
        self.events.subscribe()
    }

    /// Runs a turn to its end, wherever it was interrupted before.
    pub async fn run(&self, session: &mut Session, order: Order<'_>) -> Ended {
        let mut turn = Running {
            agent: self,
            key: SessionKey(session.head().key.clone()),
            offer: self.registry.offer(
                order.from_owner,
                order.viewer.may_see(&Scope::Owner),
                session.state().all_words_are_the_owners(),
            ),
            context: Context {
                run_id: order.run_id.to_owned(),
                session_id: session.id().to_owned(),
                person: order.person.to_owned(),
                viewer: order.viewer.clone(),
                route: order.route.cloned(),
                message_id: order.message_id.map(str::to_owned),
                cancel: order.cancel.clone(),
            },
            guard: Guard::default(),
            deadline: Instant::now() + self.limits.run_timeout,
            order,
            session,
        };
        turn.emit(Step::Started { contact: turn.session.head().contact.clone(), model: turn.order.model.to_owned() });
        let ended = turn.work().await;
        let ended = match ended {
            Ok(text) => {
                let (usage, cost_nano_usd) = turn
                    .session
                    .state()
                    .turn
                    .as_ref()
                    .map_or((Usage::default(), Some(0)), |turn| (turn.usage, turn.cost_nano_usd));
                Ended::Reply(Reply { text, usage, cost_nano_usd })
            }
            Err(broken) => turn.break_off(broken).await,
        };
        turn.emit(Step::Ended);
        ended
    }
}

/// A turn while it runs.
struct Running<'a> {
    agent: &'a Agent,
    session: &'a mut Session,
    order: Order<'a>,
    key: SessionKey,
    offer: Offer,
    context: Context,
    guard: Guard,
    deadline: Instant,
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
        loop {
            let calls = self.session.state().turn.as_ref().map_or(0, |turn| turn.calls);
            if calls >= self.agent.limits.max_turns {
                let text = format!("I stopped after {calls} steps without coming to an end. Say \"continue\" and I go on.");
                return self.conclude(text).await;
            }
            let paid = self.ask(calls + 1).await?;
            if let Some(text) = self.take_in(paid).await? {
                return Ok(text);
            }
        }
    }

    /// One model call.
    async fn ask(&self, number: u32) -> Result<Paid, Break> {
        self.emit(Step::Thinking { turn: number });
        let last = number >= self.agent.limits.max_turns;
        let prompt = Prompt {
            system: self.order.system.clone(),
            tools: self.offer.specs.clone(),
            may_call: !last,
            messages: self.with_pictures(repair(&self.session.state().messages())).await,
        };
        let purpose = Purpose { run_id: self.order.run_id, session_id: self.session.id(), source: self.order.source };
        let reader = self.order.reader;
        let on_retry = |reason: &str| {
            self.emit(Step::RetryWait { reason: reason.to_owned() });
            reader(Written::Begin);
        };
        let on_text = |text: &str| reader(Written::Text(text));
        reader(Written::Begin);
        let call = self.agent.client.complete(purpose, self.order.model, &prompt, &on_text, &on_retry);
        tokio::select! {
            biased;
            () = self.order.cancel.cancelled() => Err(Break::Stopped),
            () = tokio::time::sleep_until(self.deadline.into()) => Err(self.too_long()),
            paid = call => Ok(paid?),
        }
    }

    /// Puts the pictures in, when a model that may be asked sees any; the client tells the others.
    async fn with_pictures(&self, mut messages: Vec<Message>) -> Vec<Message> {
        let mut blocks = messages.iter().flat_map(|message| &message.content);
        let any = blocks.any(|block| matches!(block, Block::Image { .. }));
        if !any || !self.agent.client.sees_pictures(self.order.model) {
            return messages;
        }
        let pictures = self.agent.pictures.clone();
        let work = move || {
            pictures.fill(&mut messages);
            messages
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    fn too_long(&self) -> Break {
        let limit = self.agent.limits.run_timeout.as_secs();
        Break::Failed(format!("the turn took longer than [agent] run_timeout_secs = {limit}"))
    }

    /// Writes an answer down and runs what it asks for; returns the final words if these are.
    async fn take_in(&mut self, paid: Paid) -> Result<Option<String>, Break> {
        let message = paid.response.message;
        let stop = paid.response.stop;
        let calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        self.emit(Step::Answered {
            duration_ms: paid.duration_ms,
            usage: paid.response.usage,
            stop,
            tools: calls.iter().map(|call| call.name.clone()).collect(),
        });
        let mut words = message.plain_text();
        let mut content = message.content;
        if calls.is_empty() {
            words = match (words.trim().is_empty(), stop) {
                (false, StopReason::MaxTokens) => format!("{words}\n\n(cut off at the model's token limit)"),
                (false, _) => words,
                (true, StopReason::Refusal) => "The model declined to answer this.".to_owned(),
                (true, _) => {
                    self.earlier_words().unwrap_or_else(|| "The model gave an empty answer. Please ask again.".to_owned())
                }
            };
            content = vec![Block::Text { text: words.clone() }];
        }
        let spoken = Kind::Message(Spoken {
            model: Some(paid.model),
            stop: Some(stop),
            usage: Some(paid.response.usage),
            cost_nano_usd: paid.cost_nano_usd,
            ..Spoken::new(Role::Assistant, content, self.order.run_id)
        });
        if calls.is_empty() {
            self.session.append(vec![spoken], true).await?;
            return Ok(Some(words));
        }
        if stop == StopReason::MaxTokens {
            let cut =
                |call: &ToolCall| self.result(call, 0, not_run("the answer was cut off at the token limit; ask again with less"));
            let mut events = vec![spoken];
            events.extend(calls.iter().map(cut));
            self.session.append(events, true).await?;
            return Ok(None);
        }
        self.run_calls(vec![spoken], calls).await
    }

    /// Runs the calls that a crash left without a result.
    async fn run_open_calls(&mut self, open: Vec<(ToolCall, bool)>) -> Result<Option<String>, Break> {
        let lost = open.iter().filter(|(_, began)| *began).map(|(call, _)| self.result(call, 0, not_run(INTERRUPTED)));
        let events: Vec<Kind> = lost.collect();
        let calls = open.into_iter().filter(|(_, began)| !began).map(|(call, _)| call).collect();
        self.run_calls(events, calls).await
    }

    /// Runs `calls`; `events` go into the transcript together with the first beginning. Read-only
    /// calls run at once, others one after the other; results stand in the order of the calls.
    async fn run_calls(&mut self, mut events: Vec<Kind>, calls: Vec<ToolCall>) -> Result<Option<String>, Break> {
        let mut silent = false;
        let mut enough = None;
        let at_once = calls.len() > 1 && calls.iter().all(|call| self.offer.get(&call.name).is_some_and(|tool| tool.read_only()));
        let groups: Vec<Vec<ToolCall>> = if at_once { vec![calls] } else { calls.into_iter().map(|call| vec![call]).collect() };
        for group in groups {
            events.extend(group.iter().map(|call| self.beginning(call)));
            self.session.append(std::mem::take(&mut events), true).await?;
            let running = futures_util::future::join_all(group.iter().map(|call| self.run_call(call)));
            let outputs = tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => return Err(Break::Stopped),
                () = tokio::time::sleep_until(self.deadline.into()) => return Err(self.too_long()),
                outputs = running => outputs,
            };
            for (call, (mut output, duration_ms)) in group.iter().zip(outputs) {
                silent |= output.silent;
                match self.guard.note(&call.name, &call.input, &output.text) {
                    Verdict::Fine => {}
                    Verdict::Warn(times) => {
                        output
                            .text
                            .push_str(&format!("\n[this same call gave this same result {times} times; try something else]"));
                    }
                    Verdict::End => enough = Some(call.name.clone()),
                }
                events.push(self.result(call, duration_ms, output));
            }
        }
        events.extend(self.reminder());
        if !events.is_empty() {
            self.session.append(events, true).await?;
        }
        if silent {
            return self.conclude(SILENT.to_owned()).await.map(Some);
        }
        match enough {
            Some(tool) => {
                let text = format!("I stopped because {tool} gave me the same result again and again. Tell me how to go on.");
                self.conclude(text).await.map(Some)
            }
            None => Ok(None),
        }
    }

    async fn run_call(&self, call: &ToolCall) -> (ToolOutput, u64) {
        self.emit(Step::ToolStarted { name: call.name.clone() });
        let started = Instant::now();
        let output = self.offer.run(&call.name, &call.input, &self.context).await;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.emit(Step::ToolDone { name: call.name.clone(), duration_ms, is_error: output.is_error });
        (output, duration_ms)
    }

    /// Ends the turn with words of ours.
    async fn conclude(&mut self, text: String) -> Result<String, Break> {
        let spoken = self.message(Role::Assistant, Block::Text { text: text.clone() });
        self.session.append(vec![spoken], true).await?;
        Ok(text)
    }

    /// Writes down why the turn broke off. When nothing was done for the message it is forgotten,
    /// so that no question without an answer stays in the conversation; else the turn is closed.
    async fn break_off(&mut self, broken: Break) -> Ended {
        let interrupted = self.order.interrupted.load(Ordering::Relaxed);
        let (text, ended) = match broken {
            Break::Stopped if interrupted => ("the next message came".to_owned(), Ended::Stopped),
            Break::Stopped => ("stopped".to_owned(), Ended::Stopped),
            Break::Failed(reason) => (reason.clone(), Ended::Failed(reason)),
        };
        if let Err(error) = break_off(self.session, self.order.run_id, self.order.inbox_id, text, interrupted).await {
            tracing::error!(%error, session = self.session.id(), "the end of a turn could not be written down");
        }
        ended
    }

    fn reminder(&self) -> Option<Kind> {
        let calls = self.session.state().turn.as_ref().map_or(0, |turn| turn.calls);
        let left = self.agent.limits.max_turns.saturating_sub(calls);
        (1..=REMIND).contains(&left).then(|| {
            let text = match left {
                1 => "This is the last step of this turn: answer now, without tools.".to_owned(),
                left => format!("{left} steps are left in this turn: come to an end."),
            };
            self.message(Role::User, Block::Context { text })
        })
    }

    fn message(&self, role: Role, block: Block) -> Kind {
        message(self.order.run_id, role, block)
    }

    fn beginning(&self, call: &ToolCall) -> Kind {
        Kind::ToolCall { run_id: self.order.run_id.to_owned(), id: call.id.clone(), name: call.name.clone() }
    }

    fn result(&self, call: &ToolCall, duration_ms: u64, output: ToolOutput) -> Kind {
        result(self.order.run_id, call, duration_ms, output)
    }

    /// The final answer that is already in the transcript.
    fn last_words(&self) -> String {
        let last = self.session.state().entries.iter().rev().find(|entry| entry.message.role == Role::Assistant);
        last.map(|entry| entry.message.plain_text()).unwrap_or_default()
    }

    /// What the model said in this turn beside its tool calls, when its last answer is empty.
    fn earlier_words(&self) -> Option<String> {
        let state = self.session.state();
        let since = state.turn.as_ref()?.user_seq;
        let of_turn = state.entries.iter().rev().filter(|entry| entry.seq > since && entry.message.role == Role::Assistant);
        of_turn.map(|entry| entry.message.plain_text()).find(|text| !text.trim().is_empty())
    }

    fn emit(&self, step: Step) {
        // Nobody watching is fine.
        let _ = self.agent.events.send(AgentEvent { run_id: self.order.run_id.to_owned(), session: self.key.clone(), step });
    }
}
