//! Approvals: the message that asks the owner, the turn that waits, and the answer.
//!
//! The request is in the queue before the owner is asked, the answer before anything is done, and an approval is consumed
//! before the call begins. A restart finds all three.

mod plain_answer;
mod words;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::Pipeline;
use super::commands::immediate::OWNER_DECIDES;
use super::persist::{Recorded, Unrecorded};
use super::schedule::slots::{Handle, Slots};
use crate::agent::{Always, Asked, Owner, Verdict};
use crate::control::replies::{Ask, Reply, Status};
use crate::message::{Approval, ChatRef, Envelope, Route, SessionKey, Source, Trust};
use crate::provider::BoxFuture;
use crate::queue::{Decided, NewPart, PATIENCE_MS, PutDown, Request, Standing, Written};
use crate::secret::redact;
use crate::trust::standing_rules::StandingRules;
use crate::{clock, text};
use serde_json::json;
pub(super) use words::first_line;
use words::{buttons, how_it_ended, kept_words, name_one, new_id, question};

/// Characters of one question; what is longer cannot be read on a telephone before it is answered.
const LONGEST: usize = 6_000;
/// Characters of the event that led to a question.
const EVENT: usize = 200;
/// Calls that are asked about in one message.
const MOST: usize = 8;
/// Messages that others than the owner may cause in one conversation within an hour: more would tire them.
const OF_OTHERS: (i64, i64) = (6, 3_600_000);
/// And because of one message of theirs.
const OF_ONE: u32 = 3;
/// How often the time is looked at while nobody answers.
const LOOK: Duration = Duration::from_secs(20);

const NOBODY: &str = "this was not run: it needs the owner's yes, and there is nobody to ask";

/// What the model is told when the owner wrote something else.
const UNANSWERED: &str =
    "this was not run: the owner did not answer the question but wrote a message, which follows";

/// The owner, where nobody is asked.
pub(super) struct Nobody;

impl Owner for Nobody {
    fn ask<'a>(&'a self, questions: &'a [Asked]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move { vec![Verdict::No(NOBODY.to_owned()); questions.len()] })
    }
}

/// The owner, as a turn asks them.
pub(super) struct Asking {
    pipeline: Arc<Pipeline>,
    envelope: Envelope,
    run_id: String,
    session_id: String,
    /// What was asked, by the ids of the requests.
    asked: Mutex<Vec<String>>,
    /// How often.
    rounds: AtomicU32,
    /// The slot of the turn, lent while it waits for an answer.
    slot: Handle,
    /// How long the owner may take, milliseconds.
    patience_ms: i64,
}

impl Owner for Asking {
    fn ask<'a>(&'a self, questions: &'a [Asked]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move {
            match self.answers(questions).await {
                Ok(verdicts) => verdicts,
                Err(why) => vec![Verdict::No(why); questions.len()],
            }
        })
    }

    /// What the owner allowed permanently. A guest's wish is none of it.
    fn always(&self) -> Always {
        if !self.envelope.from_owner {
            return Always::default();
        }
        let rules = StandingRules::new(&self.pipeline.memory.home().rules());
        Always::new(move |rule| {
            rules.allows(&text::sha256_hex(rule.bound_to.to_string().as_bytes()))
        })
    }
}

impl Asking {
    pub(super) fn new(
        pipeline: Arc<Pipeline>,
        envelope: Envelope,
        (run_id, session_id): (&str, &str),
        slot: Handle,
    ) -> Self {
        let (run_id, session_id) = (run_id.to_owned(), session_id.to_owned());
        Self {
            pipeline,
            envelope,
            run_id,
            session_id,
            asked: Mutex::default(),
            rounds: AtomicU32::new(0),
            slot,
            patience_ms: PATIENCE_MS,
        }
    }

    /// Lets the owner take so long.
    pub(super) fn with_patience(self, patience_ms: i64) -> Self {
        Self {
            patience_ms,
            ..self
        }
    }

    /// Asks for something that is done outside the turns; it holds no slot.
    pub(super) fn beside_turns(pipeline: Arc<Pipeline>, envelope: Envelope, run_id: &str) -> Self {
        let session_id = envelope.session_key.0.clone();
        let slot = Slots::default().take().handle();
        Self::new(pipeline, envelope, (run_id, &session_id), slot)
    }

    /// Takes back what is still asked.
    pub(super) async fn end(&self) {
        let asked = std::mem::take(&mut *self.asked());
        if asked.is_empty() {
            return;
        }
        let (pipeline, now) = (&self.pipeline, clock::now_ms());
        let id = &self.envelope.id;
        let withdrawn = pipeline
            .persist("the end of a request", || {
                pipeline.queue.withdraw(id.clone(), now)
            })
            .await;
        pipeline.audit_ends(&withdrawn.unwrap_or_default(), "withdrawn");
        // What a stop took back is shown here as well; what somebody answered was shown then.
        let mut ended = Vec::new();
        for id in asked {
            let batch = pipeline.queue.batch(id).await.unwrap_or_default();
            let is_over = |state: &str| ["withdrawn", "expired"].contains(&state);
            let over = batch.into_iter().filter(|(_, state)| is_over(state));
            ended.extend(over.map(|(request, _)| request));
        }
        pipeline.show_ends(&ended).await;
    }

    fn asked(&self) -> MutexGuard<'_, Vec<String>> {
        self.asked.lock()
    }

    async fn answers(&self, questions: &[Asked]) -> Result<Vec<Verdict>, String> {
        let always = self.always();
        let (allowed, open): (Vec<_>, Vec<_>) = questions
            .iter()
            .enumerate()
            .partition(|(_, asked)| always.allows(&asked.question));
        if open.is_empty() {
            return Ok(vec![Verdict::ByRule; questions.len()]);
        }
        let asked: Vec<Asked> = open.iter().map(|(_, asked)| (*asked).clone()).collect();
        let mut verdicts = self.asked_for(&asked).await?;
        for (at, _) in allowed {
            verdicts.insert(at.min(verdicts.len()), Verdict::ByRule);
        }
        Ok(verdicts)
    }

    async fn asked_for(&self, questions: &[Asked]) -> Result<Vec<Verdict>, String> {
        let put = self.put_down(questions).await?;
        let verdicts = if put.ids.is_empty() {
            Vec::new()
        } else {
            self.wait(&put.ids).await
        };
        if self.envelope.wants_reply && !put.ids.is_empty() {
            self.tell_the_caller(&[], &[]);
        }
        let mut verdicts = verdicts.into_iter();
        let one = |granted: bool| {
            if granted {
                Verdict::ByRule
            } else {
                verdicts
                    .next()
                    .unwrap_or_else(|| Verdict::No(NOBODY.to_owned()))
            }
        };
        Ok(put.granted.into_iter().map(one).collect())
    }

    /// Puts requests into the queue and sends the message that asks; those of before a restart are found again.
    pub(super) async fn put_down(&self, questions: &[Asked]) -> Result<PutDown, String> {
        let route = self.way().await;
        let now = clock::now_ms();
        self.may_ask(questions, route.as_ref(), now).await?;
        let batch = new_id();
        let requests: Vec<Request> = questions
            .iter()
            .map(|asked| self.request(asked, &batch, now))
            .collect();
        let (queue, pipeline) = (&self.pipeline.queue, &self.pipeline);
        let write = || {
            let (requests, route) = (requests.clone(), route.clone());
            let from = (self.whence(), self.envelope.from_owner);
            let render = pipeline.clone();
            queue.ask(requests, move |new| {
                route
                    .map(|route| render.question(new, &route, (&from.0, from.1)))
                    .unwrap_or_default()
            })
        };
        let mut put = pipeline
            .persist("a request for the owner", write)
            .await
            .map_err(|failed| match failed {
                Unrecorded::Ending => NOBODY.to_owned(),
                Unrecorded::Failed(why) => format!("this was not run: {why}"),
            })?;
        self.asked().extend(put.ids.iter().cloned());
        pipeline.audit_asked(&requests, &put);
        // The rest of a plan does not wait.
        pipeline.plan_news.notify_one();
        pipeline.deliver(std::mem::take(&mut put.parts));
        if self.envelope.wants_reply && !put.ids.is_empty() {
            self.tell_the_caller(&requests, &put.ids);
        }
        Ok(put)
    }

    /// Checks that somebody can be asked, that they can read it, and that others did not cause it too often.
    async fn may_ask(
        &self,
        questions: &[Asked],
        route: Option<&Route>,
        now: i64,
    ) -> Result<(), String> {
        let somebody_waits = self.envelope.wants_reply && self.envelope.source.is_person();
        if route.is_none() && !somebody_waits {
            return Err(NOBODY.to_owned());
        }
        if questions.len() > MOST {
            return Err(format!(
                "this was not run: the owner is asked about at most {MOST} calls at once; make fewer"
            ));
        }
        if let Some(long) = questions
            .iter()
            .find(|asked| asked.question.text.chars().count() > LONGEST)
        {
            return Err(format!(
                "this was not run: it needs the owner's yes, and {} is longer than the {LONGEST} characters that they are asked to read; make it shorter",
                long.tool
            ));
        }
        let often = "this was not run: the owner was asked often enough about this conversation; try again in an hour";
        if !self.envelope.from_owner {
            if self.rounds.fetch_add(1, Ordering::Relaxed) >= OF_ONE {
                return Err(often.to_owned());
            }
            // Who may write may open as many topics as they like.
            let key = self.envelope.session_key.without_topic().0;
            let asked = self
                .pipeline
                .queue
                .asked_since(key, self.envelope.id.clone(), now - OF_OTHERS.1)
                .await;
            if asked.map_err(|error| error.to_string())? >= OF_OTHERS.0 {
                return Err(often.to_owned());
            }
        }
        Ok(())
    }

    /// Shows an open request to the caller that waits for the answer; after a restart under the same ids as before.
    fn tell_the_caller(&self, requests: &[Request], ids: &[String]) {
        let ask = |(request, id): (&Request, &String)| Ask {
            id: id.clone(),
            tool: request.tool.clone(),
            text: request.question.clone(),
            why: request.why.clone(),
            expires_at: clock::rfc3339(request.expires_at),
            rule: request.rule.as_ref().map(|(words, _)| words.clone()),
            wanted: request.wanted.clone(),
        };
        let reply = Reply {
            session_id: Some(self.session_id.clone()),
            run_id: Some(self.run_id.clone()),
            asks: requests.iter().zip(ids).map(ask).collect(),
            ..Reply::new(&self.envelope.id, Status::Running)
        };
        self.pipeline.answer(&reply);
    }

    /// Returns where the owner is asked: in the chat if it is theirs alone, else in their own.
    pub(super) async fn way(&self) -> Option<Route> {
        let own = self.envelope.from_owner
            && self.envelope.group.is_none()
            && self.envelope.source.is_chat();
        if own && let Some((_, route)) = self.pipeline.channel(&self.envelope) {
            return Some(route);
        }
        let known = self.pipeline.everybody().await.ok()?;
        self.pipeline
            .way_to_owner(&self.pipeline.live().config, &known)
            .map(|(_, route)| route)
    }

    /// Says in whose conversation it is asked, when that is not the owner's own.
    fn whence(&self) -> String {
        let Envelope {
            group,
            sender,
            source,
            ..
        } = &self.envelope;
        let name = |name: &str| text::shorten(&text::visible(name), 60);
        match (group, source) {
            (Some(group), _) => format!(
                " in the group {:?}, where {} wrote",
                name(group),
                name(&sender.name)
            ),
            (None, Source::Cli) => format!(
                " in the conversation {} of the shell",
                name(&self.envelope.session_key.0)
            ),
            (None, Source::Http) => format!(
                " in the conversation {} over HTTP",
                name(&self.envelope.session_key.0)
            ),
            // Nobody has told the owner of it yet.
            (None, Source::System | Source::Notify) => format!(
                " because of the event {}: {:?}",
                name(&sender.name),
                text::shorten(
                    &text::visible(&text::one_line(&redact(&self.envelope.text))),
                    EVENT
                )
            ),
            (None, Source::Job) => format!(" for the job {}", name(&sender.name)),
            (None, Source::Subagent) => format!(" for the sub-agent {}", name(&sender.name)),
            (None, Source::Report) => " with what my sub-agents brought".to_owned(),
            (None, Source::Heartbeat) => " when I woke by myself".to_owned(),
            (None, Source::Telegram | Source::Channel) if self.envelope.from_owner => String::new(),
            (None, Source::Telegram | Source::Channel) => {
                format!(" in the chat with {}", name(&sender.name))
            }
        }
    }

    fn request(&self, asked: &Asked, batch: &str, now: i64) -> Request {
        let bound = json!([self.session_id, asked.question.bound_to]).to_string();
        Request {
            id: new_id(),
            batch: batch.to_owned(),
            session_key: self.envelope.session_key.0.clone(),
            session_id: self.session_id.clone(),
            inbox_id: self.envelope.id.clone(),
            run_id: self.run_id.clone(),
            call_id: asked.call_id.clone(),
            tool: asked.tool.clone(),
            question: redact(&asked.question.text),
            // Names of people and files are there.
            why: text::shorten(&text::visible(&asked.why), 400),
            bound: crate::text::sha256_hex(bound.as_bytes()),
            rule: asked.question.rule.as_ref().map(|rule| {
                let digest = crate::text::sha256_hex(rule.bound_to.to_string().as_bytes());
                (redact(&rule.words), digest)
            }),
            wanted: asked.wanted.clone(),
            created_at: now,
            expires_at: now + self.patience_ms,
        }
    }

    /// Waits until all requests are answered or over, in no place of a run, and uses the yes of each up.
    async fn wait(&self, ids: &[String]) -> Vec<Verdict> {
        let pipeline = &self.pipeline;
        let wait = self.slot.wait();
        pipeline.idles(&self.envelope, true).await;
        let standings = self.standings(ids).await;
        wait.reclaim().await;
        pipeline.idles(&self.envelope, false).await;
        let mut verdicts = Vec::with_capacity(ids.len());
        for (id, standing) in ids.iter().zip(standings) {
            if matches!(standing, Standing::Over | Standing::Pending) {
                pipeline.audit.approval(id, "expired", None, None);
            }
            let use_up = || pipeline.queue.use_up(id.clone(), clock::now_ms());
            verdicts.push(match standing {
                Standing::Approved(words) if pipeline.persist("a yes", use_up).await == Ok(true) => {
                    words.map_or(Verdict::Yes, Verdict::Words)
                }
                Standing::Denied(why) => Verdict::said_no(why.as_deref()),
                Standing::Unanswered => Verdict::No(UNANSWERED.to_owned()),
                Standing::Used => Verdict::No(
                    "this was not run: the owner's yes was used up when a restart came; call it again, and they are asked again"
                        .to_owned(),
                ),
                Standing::Approved(_) | Standing::Pending | Standing::Over => {
                    Verdict::No("this was not run: nobody said yes within 15 minutes, which counts as no".to_owned())
                }
            });
        }
        verdicts
    }

    /// Waits until all requests are answered or over, and returns how each stands. Never returns while the daemon ends.
    pub(super) async fn standings(&self, ids: &[String]) -> Vec<Standing> {
        let pipeline = &self.pipeline;
        // Whatever happens to the clock on the wall.
        let until = Instant::now() + Duration::from_millis(self.patience_ms.unsigned_abs());
        loop {
            let word = pipeline.decided.notified();
            tokio::pin!(word);
            word.as_mut().enable();
            let standings = pipeline
                .persist("the owner's word", || {
                    pipeline.queue.standing(ids.to_vec(), clock::now_ms())
                })
                .await;
            let standings = match standings {
                Ok(standings) => standings,
                // A daemon that ends asks again after its next start.
                Err(Unrecorded::Ending) => return std::future::pending().await,
                Err(Unrecorded::Failed(_)) => return vec![Standing::Over; ids.len()],
            };
            if !standings.contains(&Standing::Pending) || Instant::now() > until {
                return standings;
            }
            tokio::select! {
                () = word => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}

/// Returns when and where a word of the owner was written.
fn written(envelope: &Envelope) -> Written {
    Written {
        at: envelope
            .sent_at
            .map_or(envelope.received_at, |at| at.min(envelope.received_at)),
        in_chat: envelope.source.is_chat(),
    }
}

impl Pipeline {
    /// Returns the message that asks the owner about what they, or somebody else, wanted there.
    fn question(
        &self,
        requests: &[Request],
        route: &Route,
        (whence, of_owner): (&str, bool),
    ) -> Vec<NewPart> {
        let Some(channel) = self.channels.get(route.channel.as_str()) else {
            return Vec::new();
        };
        let zone = self.live().config.agent.timezone.0;
        let text = question(requests, (whence, of_owner), zone);
        let mut parts: Vec<NewPart> = channel
            .render(&text)
            .into_iter()
            .map(|part| NewPart {
                markup: part.markup,
                ..NewPart::plain(route.clone(), part.plain)
            })
            .collect();
        if let Some(last) = parts.last_mut() {
            last.buttons = buttons(requests, of_owner);
            last.asks = requests.first().map(|first| first.batch.clone());
        }
        parts
    }

    /// Takes the owner's word and returns what is said about it; the error says why it was not taken.
    pub(super) async fn decide(
        self: &Arc<Self>,
        envelope: &Envelope,
        (id, verdict): (&str, Approval),
        why: Option<&str>,
    ) -> Recorded<Result<String, String>> {
        if !envelope.from_owner
            || envelope.trust != Trust::Owner
            || envelope.forwarded_from.is_some()
        {
            return Ok(Err(OWNER_DECIDES.to_owned()));
        }
        let shown = text::shorten(&text::visible(id), 40);
        let why = why
            .map(|why| kept_words(verdict, why))
            .filter(|why| !why.is_empty());
        let now = clock::now_ms();
        let written = written(envelope);
        let decide = || {
            self.queue
                .decide(id.to_owned(), verdict, why.clone(), written, now)
        };
        Ok(match self.persist("the owner's word", decide).await? {
            Decided::Unknown if id == crate::message::approval_reply::ONLY => {
                Err("No approval is pending.".to_owned())
            }
            Decided::Unknown => Err(format!("No pending approval with ID {shown}.")),
            Decided::Over(how) => Err(format!("{shown} is closed already: {how}.")),
            Decided::OnlyOnce => Err(format!(
                "{shown} can only be allowed once: approve it, or deny it."
            )),
            Decided::NotAlways => Err(format!(
                "{shown} was requested by somebody else, and “always” is only for your own requests: allow it once or for that conversation, or deny it."
            )),
            Decided::NoWords => Err(format!(
                "Nothing was approved: {shown} takes no words. /approve {shown}, or /deny {shown} WHY."
            )),
            Decided::Several(waiting) => Err(name_one(&waiting, envelope.source)),
            Decided::Taken(requests) => {
                self.audit_word(&requests, verdict, envelope);
                self.decided.notify_waiters();
                self.show_ends(&requests).await;
                let done = match verdict {
                    Approval::Approve if why.is_some() => "answered",
                    Approval::Approve => "approved",
                    Approval::Session => "approved for this conversation",
                    Approval::Always => "approved always",
                    Approval::Deny => "denied",
                };
                let rules = match verdict {
                    Approval::Always => self.keep_rules(&requests, now),
                    _ => String::new(),
                };
                let tools: Vec<String> = requests
                    .iter()
                    .map(|request| first_line(&request.question))
                    .collect();
                Ok(format!("{done}: {}{rules}", tools.join("; ")))
            }
        })
    }

    /// Stores what the owner allowed permanently, and confirms it.
    fn keep_rules(&self, requests: &[Request], now: i64) -> String {
        let rules = StandingRules::new(&self.memory.home().rules());
        let keep = |(words, digest): &(String, String)| {
            let shown = text::shorten(&text::visible(words), 200);
            match rules.add(digest, words, now) {
                Ok(()) => format!("\nFrom now on without a question: {shown} (state/rules.json)"),
                Err(error) => format!("\nThe rule could not be stored ({error}): {shown}"),
            }
        };
        requests
            .iter()
            .filter_map(|request| request.rule.as_ref())
            .map(keep)
            .collect()
    }

    /// Takes back what a conversation waits for, because its owner wrote something else.
    pub(super) async fn leave_unanswered(self: &Arc<Self>, key: &SessionKey) {
        let leave = || self.queue.leave_unanswered(key.0.clone(), clock::now_ms());
        let Ok(left) = self.persist("an answer", leave).await else {
            return;
        };
        self.audit_ends(&left, "not answered: a message came instead");
        self.decided.notify_waiters();
        self.show_ends(&left).await;
    }

    /// Shows how requests ended where they were asked.
    async fn show_ends(self: &Arc<Self>, ended: &[Request]) {
        let mut batches: Vec<&str> = ended.iter().map(|request| request.batch.as_str()).collect();
        batches.dedup();
        for batch in batches {
            self.show_end(batch).await;
        }
    }

    /// Shows how the requests of one message ended, once it arrived and nothing of it is open.
    pub(super) async fn show_end(self: &Arc<Self>, batch: &str) {
        let Ok(all) = self.queue.batch(batch.to_owned()).await else {
            return;
        };
        // What is asked about a dead letter is not a request.
        if all.is_empty() || all.iter().any(|(_, state)| state == "pending") {
            return;
        }
        self.close_question(batch, |plain| how_it_ended(&all, plain))
            .await;
    }

    /// Takes the buttons from the message that asked, and says there how it ended.
    pub(super) async fn close_question(
        self: &Arc<Self>,
        batch: &str,
        text: impl FnOnce(&str) -> String,
    ) {
        let Ok(Some(asked)) = self.queue.where_asked(batch.to_owned()).await else {
            return;
        };
        let Some(channel) = self.channels.get(asked.channel.as_str()).cloned() else {
            return;
        };
        let text = text(&asked.plain);
        // The person who decided does not wait for it.
        tokio::spawn(async move {
            let chat = ChatRef {
                chat: asked.chat,
                topic: None,
            };
            if let Err(error) = channel.close(&chat, &asked.message_id, &text).await {
                tracing::debug!(%error, "a question that is over keeps its buttons");
            }
        });
    }
}
