//! Executes a task: its result is stored in the transaction that records it as done.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::agent::{Context, Reach, Rights, Single, Tool, ToolOutput};
use crate::channel::FetchError;
use crate::clock;
use crate::memory::Viewer;
use crate::message::plan::{Act, Task};
use crate::message::{
    Address, Command, Envelope, MediaKind, OutFile, Route, SessionKey, Source, ToolCall, is_id,
};
use crate::pipeline::approvals::Asking;
use crate::pipeline::persist::{Recorded, Unrecorded, isolated};
use crate::pipeline::turn::outcome::Saying;
use crate::pipeline::{Pipeline, Signal};
use crate::provider::{BoxFuture, ToolSpec};
use crate::queue::{AfterFailure, NewPart, ReadyTask, call_id};

/// What a task leads to.
#[derive(Default)]
struct Effects {
    parts: Vec<NewPart>,
    input: Option<Envelope>,
}

impl From<Vec<NewPart>> for Effects {
    fn from(parts: Vec<NewPart>) -> Self {
        Self { parts, input: None }
    }
}

impl Effects {
    fn of_input(input: Envelope) -> Self {
        let (parts, input) = (Vec::new(), Some(input));
        Self { parts, input }
    }
}

/// Why a task was not done.
struct Failure {
    why: String,
    next: Next,
}

/// What follows a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It is tried again.
    Again,
    /// Its graph is given up.
    GiveUp,
    /// The others continue without it.
    Skip,
}

impl Failure {
    fn never(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            next: Next::GiveUp,
        }
    }

    fn later(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            next: Next::Again,
        }
    }
}

impl Pipeline {
    /// Carries out a task and records that; a panic is a failure.
    pub(super) async fn perform(self: Arc<Self>, task: ReadyTask) {
        let (pipeline, own) = (self.clone(), task.clone());
        let done = if task.is_stored {
            Ok(Effects::default())
        } else {
            let done = isolated(async move { pipeline.result_of(&own).await }).await;
            done.unwrap_or_else(|_| Err(Failure::never("internal error")))
        };
        let recorded = match done {
            Ok(Effects { parts, input }) => self.complete(&task, parts, input).await,
            Err(failure) => self.give_back(&task, &failure).await,
        };
        if let Err(Unrecorded::Failed(why)) = recorded {
            tracing::error!(
                task = task.seq,
                why,
                "a task of a plan could not be recorded"
            );
        }
    }

    async fn complete(
        self: &Arc<Self>,
        task: &ReadyTask,
        parts: Vec<NewPart>,
        input: Option<Envelope>,
    ) -> Recorded<()> {
        let complete = || {
            self.queue
                .complete_task(task, parts.clone(), input.clone(), clock::now_ms())
        };
        if let Some((parts, input)) = self.persist("a task of a plan", complete).await? {
            self.deliver(parts);
            if let Some(row) = input {
                let _ = self.signals.send(Signal::Accepted(vec![row]));
            }
        }
        Ok(())
    }

    async fn give_back(self: &Arc<Self>, task: &ReadyTask, failure: &Failure) -> Recorded<()> {
        let Failure { why, next } = failure;
        tracing::warn!(
            kind = task.kind,
            id = task.id,
            why,
            "a task of a plan failed"
        );
        if *next == Next::Skip {
            let skip = || self.queue.skip_task(task, why, clock::now_ms());
            return self.persist("a task that was left out", skip).await;
        }
        let is_retryable = *next == Next::Again;
        let fail = || {
            self.queue
                .fail_task(task, why, is_retryable, clock::now_ms())
        };
        let after = self.persist("the failure of a task", fail).await?;
        if after == AfterFailure::GivenUp {
            self.note_trouble(&format!("a plan was given up: {}: {why}", task.kind));
        }
        Ok(())
    }

    async fn result_of(self: &Arc<Self>, ready: &ReadyTask) -> Result<Effects, Failure> {
        let task: Task = serde_json::from_str(&ready.task)
            .map_err(|error| Failure::never(format!("it cannot be read: {error}")))?;
        if task.act.is_for_partner() && self.refuses(ready).await {
            return Err(Failure {
                why: "who wrote is blocked or muted".to_owned(),
                next: Next::Skip,
            });
        }
        // Only a message of this chat can be answered.
        let is_numbered = ready.envelope.source == Source::Telegram;
        let is_message = |id: &String| is_id(id) && (!is_numbered || id.parse::<i64>().is_ok());
        let reply_to = task.reply_to.filter(is_message);
        let answering = Envelope {
            reply_to: reply_to.clone(),
            ..ready.envelope.clone()
        };
        match task.act {
            // The daemon has no pages for it; see the answer.
            Act::Wait { .. } | Act::Retrieve { .. } => Ok(Effects::default()),
            Act::Send { text } => {
                let spoken = self.voiced(&ready.envelope, &text, &ready.run_id, &self.closed);
                let mut parts = match Box::pin(spoken).await {
                    Some(part) => vec![part],
                    None => self.parts(&answering, Saying::Markdown(text)),
                };
                if let Some(first) = parts.first_mut() {
                    first.reply_to = reply_to;
                }
                Ok(parts.into())
            }
            Act::React { emoji } if reply_to.is_some() => {
                Ok(self.parts(&answering, Saying::Reaction(emoji)).into())
            }
            Act::React { .. } => Ok(Effects::default()),
            Act::Sticker { set, name } => self.sticker(&answering, &set, &name).await,
            Act::SendMedia { path } => self.send_media(ready, &answering, path).await,
            Act::Xsend { to, text } => self.send_elsewhere(ready, &to, text).await,
            Act::Block => self.block(ready, true).await,
            Act::Unblock => self.block(ready, false).await,
            Act::Clear => Ok(Effects::of_input(Envelope {
                command: Some(Command::NEW),
                ..own_input(ready, ready.session_key.clone(), String::new())
            })),
        }
    }

    async fn sticker(
        &self,
        envelope: &Envelope,
        set: &str,
        name: &str,
    ) -> Result<Effects, Failure> {
        let (channel, route) = self
            .channel(envelope)
            .ok_or_else(|| Failure::never("its channel is off"))?;
        let sticker = match self.sticker_file(channel.as_ref(), set, name).await {
            Err(FetchError::Again(why)) => return Err(Failure::later(why)),
            Err(error) => {
                tracing::warn!(set, %error, "a sticker cannot be sent");
                None
            }
            Ok(file) => file,
        };
        let part = NewPart::plain(route, String::new());
        let part = match sticker {
            Some(sticker) => NewPart {
                reply_to: envelope.reply_to.clone(),
                files: vec![sticker],
                ..part
            },
            // A sticker's name is its emoji: it says the same.
            None if is_emoji(name) => NewPart {
                plain: name.to_owned(),
                ..part
            },
            None => {
                tracing::warn!(set, name, "there is no such sticker");
                return Ok(Effects::default());
            }
        };
        Ok(vec![part].into())
    }

    async fn send_media(
        self: &Arc<Self>,
        ready: &ReadyTask,
        envelope: &Envelope,
        path: String,
    ) -> Result<Effects, Failure> {
        let (_, route) = self
            .channel(envelope)
            .ok_or_else(|| Failure::never("its channel is off"))?;
        let (root, dir) = (
            self.live().path_policy.workspace().clone(),
            format!("plan-{}-{}", ready.run_id, ready.seq),
        );
        let to = self.downloads.join(&dir);
        let wanted = std::path::PathBuf::from(&path);
        let copied =
            crate::sys::blocking(move || crate::tools::copy_of_outbox(&root, &wanted, &to));
        // The owner says yes to what is sent, whatever becomes of the file meanwhile.
        let name = copied.await.map_err(Failure::never)?;
        self.permit(ready, "send_media", json!({"paths": [path]}), None)
            .await?;
        let file = OutFile {
            kind: MediaKind::of_name(&name),
            path: format!("{dir}/{name}"),
            filename: name,
            handle: None,
        };
        let part = NewPart {
            reply_to: envelope.reply_to.clone(),
            files: vec![file],
            ..NewPart::plain(route, String::new())
        };
        Ok(vec![part].into())
    }

    async fn send_elsewhere(
        self: &Arc<Self>,
        ready: &ReadyTask,
        to: &str,
        text: String,
    ) -> Result<Effects, Failure> {
        let known = self
            .everybody()
            .await
            .map_err(|error| Failure::later(error.to_string()))?;
        // Before the owner is asked: a person who takes the name meanwhile is not whom they say yes to.
        let route = self.route_to(to.trim(), &self.live().config, &known);
        self.permit(ready, "message", json!({"to": to, "text": text}), None)
            .await?;
        let route: Route = route.map_err(Failure::never)?;
        let key = SessionKey(format!("raw:{}", to.trim()));
        Ok(Effects::of_input(Envelope {
            route: Some(route),
            command: Some(Command::Deliver { emoji: None }),
            ..own_input(ready, key, text)
        }))
    }

    /// Returns true when the partner of a plan no longer receives messages.
    async fn refuses(self: &Arc<Self>, ready: &ReadyTask) -> bool {
        let Some(id) = Address::parse(&ready.envelope.sender.id) else {
            return false;
        };
        let pipeline = self.clone();
        let read = move || pipeline.people.read();
        let people = crate::sys::blocking(read).await;
        people.is_ok_and(|people| {
            people.is_refused(&id) && !people.is_owner(&self.live().config, &id)
        })
    }

    /// Refuses the partner from now on, or no more. Owners are never refused.
    async fn block(self: &Arc<Self>, ready: &ReadyTask, on: bool) -> Result<Effects, Failure> {
        let name = if on { "block" } else { "unblock" };
        let sender = &ready.envelope.sender.id;
        if ready.envelope.from_owner || self.is_owner(&self.live(), sender) {
            tracing::warn!("a plan tried to block an owner; ignored");
            return Ok(Effects::default());
        }
        let id = Address::parse(sender)
            .ok_or_else(|| Failure::never("the sender has no address to block"))?;
        self.permit(ready, name, json!({"person": sender}), Some(&Blocking(on)))
            .await?;
        let pipeline = self.clone();
        let change = move || pipeline.people.change(|people| people.block(&id, on));
        crate::sys::blocking(change)
            .await
            .map_err(|error| Failure::later(error.to_string()))?;
        Ok(Effects::default())
    }

    /// Lets the tool policy decide, and asks the owner where it says so.
    async fn permit(
        self: &Arc<Self>,
        ready: &ReadyTask,
        tool: &str,
        input: Value,
        own: Option<&dyn Tool>,
    ) -> Result<(), Failure> {
        let (live, envelope) = (self.live(), &ready.envelope);
        let single = Single {
            run_id: ready.run_id.clone(),
            conversation: ready.session_key.clone(),
            person: envelope.sender.id.clone(),
            person_name: envelope.sender.name.clone(),
            from_owner: envelope.from_owner,
            viewer: Viewer::of(envelope, &|id: &str| self.is_owner(&live, id)),
            route: envelope.route.clone(),
            // What a plan was made of is not kept with it: text of others may have been among it.
            untrusted: true,
        };
        let call = ToolCall {
            id: call_id(&ready.id),
            name: tool.to_owned(),
            input,
        };
        let asking = Asking::beside_turns(self.clone(), envelope.clone(), &ready.run_id);
        let permitted = Box::pin(live.agent.permit(&single, &call, own, &asking)).await;
        permitted.map_err(|why| Failure {
            why: format!("{tool}: {why}"),
            next: Next::Skip,
        })
    }
}

/// Returns true for signs that are no words, and no JSON or marks of the system either.
fn is_emoji(name: &str) -> bool {
    let is_sign = |c: char| !c.is_ascii() && !c.is_alphanumeric() && !"⟦⟧".contains(c);
    (1..=16).contains(&name.chars().count()) && name.chars().all(is_sign)
}

/// Returns an input that a task leads to; its id is the task's, so there is one.
fn own_input(ready: &ReadyTask, key: SessionKey, text: String) -> Envelope {
    let id = format!("plan:{}:{}", ready.run_id, ready.id);
    let mut sender = ready.envelope.sender.clone();
    "plan".clone_into(&mut sender.id);
    Envelope::new(id, Source::System, sender, key, text, clock::now_ms())
}

/// `block` and `unblock`, for the tool policy: no model is offered them as tools.
struct Blocking(bool);

impl Tool for Blocking {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: if self.0 { "block" } else { "unblock" }.into(),
            description: "".into(),
            schema: json!({"type": "object"}).into(),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Acts
    }

    fn run<'a>(&'a self, _input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async { ToolOutput::error("it is a task of a plan") })
    }
}
