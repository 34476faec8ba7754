//! Money: prices, the ledger, the caps, and the one client through which every paid call goes.
//!
//! ```text
//! complete ─→ candidates: the model, then its fallbacks
//!               └ attempt (≤ 3): reserve (refused? stop) → provider → settle
//! ```
//! `transcribe` goes the same way, for speech.
//! Each attempt is a row of its own in `cost.db`, so that what was really paid is what is shown.

mod ledger;
mod rates;
mod report;
mod speech;

pub use ledger::{Kind, Ledger, NewCall, Outcome, Refusal, examine, start_of_day, start_of_month, start_of_week};
pub use rates::{Rates, left_usd, usd};
pub use report::{Group, Line, Report, by_model, report, total_usd};

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{self, Cost, Model, Models};
use crate::message::{Block, Message};
use crate::provider::transcription::Transcriptions;
use crate::provider::{self, OnText, Provider, Request, Response, SystemBlock, ToolSpec};
use crate::{clock, db, net};

/// Repeats of one model call (specification §8).
const REPEATS: u32 = 2;
/// Waiting before the first repeat, and the most we wait inside one call before we turn to a
/// fallback or to the user (specification §8: fallbacks within 30 s).
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Waiting between tries to write a reservation.
const PAUSES: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(200), Duration::from_millis(800)];

/// The most tokens of one picture: OpenAI cuts those of `detail: original` into at most 10,000
/// patches, a token each (images-vision guide); Anthropic's have at most 4,784, older models' 1,600
/// (vision guide; both read 2026-11). Only gpt-4o-mini counts more, at a twentieth of the price.
const PICTURE_TOKENS: u64 = 10_000;

/// What is asked of a model, before a model is chosen.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// System text, most stable first.
    pub system: Vec<SystemBlock>,
    /// The tools on offer.
    pub tools: Arc<[ToolSpec]>,
    /// Whether the model may call them in this step.
    pub may_call: bool,
    /// The conversation, repaired, with the bytes of its pictures.
    pub messages: Vec<Message>,
}

/// For whom a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Purpose<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The session.
    pub session_id: &'a str,
    /// The source of the turn.
    pub source: &'static str,
}

impl NewCall {
    fn new(purpose: Purpose<'_>, model: &Model, kind: Kind, bound: Option<i64>) -> Self {
        Self {
            call_id: uuid::Uuid::now_v7().to_string(),
            run_id: purpose.run_id.to_owned(),
            session_id: purpose.session_id.to_owned(),
            source: purpose.source,
            provider: model.provider.name.clone(),
            model: model.name.clone(),
            kind,
            bound,
        }
    }
}

/// A call that was made and settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Paid {
    /// The answer.
    pub response: Response,
    /// The configured name of the model that gave it.
    pub model: String,
    /// Nano US dollars; `None` = unpriced.
    pub cost_nano_usd: Option<i64>,
    /// How long it took.
    pub duration_ms: u64,
}

/// Why no answer came.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cap or a missing price forbids it.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// No model of this name is configured.
    #[error("{0}")]
    NoModel(#[from] config::Error),
    /// The model's provider is not there; a bug, models are checked at start.
    #[error("the provider of the model {0} is not loaded")]
    NoProvider(String),
    /// Every candidate failed; this is the last failure.
    #[error("{0}")]
    Failed(#[from] provider::Error),
    /// The ledger cannot be written, so nothing may be spent.
    #[error("the cost ledger cannot be written: {0}")]
    Ledger(#[from] db::Error),
}

/// The metered client.
pub struct Client {
    ledger: Ledger,
    providers: HashMap<String, Arc<dyn Provider>>,
    speech: HashMap<String, Transcriptions>,
    models: Models,
    caps: Cost,
    call_timeout: Duration,
}

impl Client {
    /// Puts the client together; `providers` by configured name.
    pub fn new(
        ledger: Ledger,
        providers: HashMap<String, Arc<dyn Provider>>,
        models: Models,
        caps: Cost,
        call_timeout: Duration,
    ) -> Self {
        Self { ledger, providers, speech: HashMap::new(), models, caps, call_timeout }
    }

    /// Returns the client with those who can listen, by the configured name of their provider.
    pub fn with_speech(self, speech: HashMap<String, Transcriptions>) -> Self {
        Self { speech, ..self }
    }

    /// Returns the configured models.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns true when `model` or one of its fallbacks sees pictures.
    pub fn sees_pictures(&self, model: &str) -> bool {
        let Ok(first) = self.models.get(model, "the request") else { return false };
        let sees = |name: &String| self.models.get(name, "fallbacks").is_ok_and(|model| model.vision);
        first.vision || first.fallbacks.iter().any(sees)
    }

    /// Asks `model` and, when it cannot answer, its fallbacks. `on_retry` hears why a call is
    /// tried again; text streamed before that is void.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn complete(
        &self,
        purpose: Purpose<'_>,
        model: &str,
        prompt: &Prompt,
        on_text: OnText<'_>,
        on_retry: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Paid, Error> {
        let first = self.models.get(model, "the request")?;
        let mut answer = self.try_candidate(purpose, &first, prompt, on_text, on_retry).await;
        for name in &first.fallbacks {
            match &answer {
                Err(Error::Failed(error)) if !matches!(error, provider::Error::ContextOverflow { .. }) => {
                    on_retry(&error.to_string())
                }
                _ => break,
            }
            let fallback = self.models.get(name, "fallbacks")?;
            answer = self.try_candidate(purpose, &fallback, prompt, on_text, on_retry).await;
        }
        answer
    }

    async fn try_candidate(
        &self,
        purpose: Purpose<'_>,
        model: &Model,
        prompt: &Prompt,
        on_text: OnText<'_>,
        on_retry: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Paid, Error> {
        let mut pictures = if model.vision { Pictures::Shown } else { Pictures::Unseen };
        loop {
            match repeated(model, on_retry, || self.attempt(purpose, model, prompt, pictures, on_text)).await {
                // One picture that a server does not like must not end the conversation it is in.
                Err(Error::Failed(error @ provider::Error::Rejected { .. }))
                    if pictures == Pictures::Shown && has_pictures(&prompt.messages) =>
                {
                    tracing::warn!(model = %model.name, %error, "the request is tried again without its pictures");
                    on_retry(&error.to_string());
                    pictures = Pictures::Refused;
                }
                ended => return ended,
            }
        }
    }

    async fn attempt(
        &self,
        purpose: Purpose<'_>,
        model: &Model,
        prompt: &Prompt,
        pictures: Pictures,
        on_text: OnText<'_>,
    ) -> Result<Paid, Error> {
        let provider = self.providers.get(&model.provider.name).ok_or_else(|| Error::NoProvider(model.name.clone()))?;
        let request = Request {
            model: model.model.clone(),
            max_tokens: model.max_tokens,
            system: prompt.system.clone(),
            tools: prompt.tools.clone(),
            may_call: prompt.may_call,
            messages: pictures.of(&prompt.messages, &model.name),
            cache: model.cache,
        };
        let rates = Rates::of(model);
        let bound = rates.map(|rates| rates.bound(input_bytes(&request), model.max_tokens));
        // Estimated tokens may be too few; what is not known costs what it can cost at most.
        let cost = |response: &Response| match response.usage.estimated {
            true => bound,
            false => rates.map(|rates| rates.cost(&response.usage)),
        };
        let settled = |response: &Response| Outcome::Answered { usage: response.usage, cost: cost(response) };
        let call = NewCall::new(purpose, model, Kind::Chat, bound);
        let (response, took) = self.metered(call, provider.complete(&request, on_text), settled).await?;
        let cost_nano_usd = cost(&response);
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Ok(Paid { response, model: model.name.clone(), cost_nano_usd, duration_ms })
    }

    /// Writes a call down before it is made. A disk that fails for a moment is given another.
    async fn reserve(&self, call: NewCall) -> Result<(), Error> {
        let again = || self.ledger.reserve(call.clone(), &self.caps, clock::now_ms());
        for pause in PAUSES {
            match again().await {
                Ok(reserved) => return Ok(reserved?),
                Err(error) => tracing::warn!(%error, "a reservation is written again"),
            }
            tokio::time::sleep(pause).await;
        }
        Ok(again().await??)
    }

    /// Makes one paid call: reserved before, settled after. Returns the answer and how long it took.
    async fn metered<T>(
        &self,
        call: NewCall,
        work: impl Future<Output = Result<T, provider::Error>>,
        settled: impl Fn(&T) -> Outcome,
    ) -> Result<(T, Duration), Error> {
        let (call_id, host) = (call.call_id.clone(), call.provider.clone());
        self.reserve(call).await?;
        let started = Instant::now();
        let answer = tokio::time::timeout(self.call_timeout, work).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s", self.call_timeout.as_secs());
            Err(provider::Error::Interrupted { host, reason, again: true })
        });
        let took = started.elapsed();
        let outcome = match &answer {
            Ok(answer) => settled(answer),
            Err(error) if error.may_be_charged() => Outcome::Unknown,
            Err(_) => Outcome::Free,
        };
        let latency_ms = i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
        if let Err(error) = self.ledger.settle(&call_id, outcome, latency_ms).await {
            tracing::error!(%error, "a call stays at its reservation");
        }
        Ok((answer?, took))
    }
}

/// Makes attempts at `model` until one succeeds, fails for good, or too often.
async fn repeated<T, F: Future<Output = Result<T, Error>>>(
    model: &Model,
    on_retry: &(dyn Fn(&str) + Send + Sync),
    attempt: impl Fn() -> F,
) -> Result<T, Error> {
    let mut repeats = 0;
    loop {
        let error = match attempt().await {
            Err(Error::Failed(error)) if error.retryable() && repeats < REPEATS => error,
            ended => return ended,
        };
        let wait = error.retry_after().unwrap_or_else(|| net::backoff(repeats, BACKOFF.0, BACKOFF.1));
        if wait > BACKOFF.1 {
            return Err(error.into());
        }
        on_retry(&error.to_string());
        tracing::warn!(model = %model.name, %error, wait_ms = wait.as_millis(), "the model call is tried again");
        tokio::time::sleep(wait).await;
        repeats += 1;
    }
}

/// What a model is shown of the pictures in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pictures {
    /// Themselves.
    Shown,
    /// Words: it sees none.
    Unseen,
    /// Words: its server refused them.
    Refused,
}

impl Pictures {
    fn of(self, messages: &[Message], model: &str) -> Vec<Message> {
        let mut messages = messages.to_vec();
        let words = match self {
            Self::Shown => return messages,
            Self::Unseen => format!("⟦a picture; the model {model} does not see pictures (vision = true in providers.d)⟧"),
            Self::Refused => format!("⟦a picture that the server of the model {model} refused⟧"),
        };
        for block in messages.iter_mut().flat_map(|message| &mut message.content) {
            if matches!(block, Block::Image { .. }) {
                *block = Block::Context { text: words.clone() };
            }
        }
        messages
    }
}

fn has_pictures(messages: &[Message]) -> bool {
    count_pictures(messages) > 0
}

/// Returns how many pictures are sent as such.
fn count_pictures(messages: &[Message]) -> u64 {
    let blocks = messages.iter().flat_map(|message| &message.content);
    blocks.filter(|block| matches!(block, Block::Image { data: Some(_), .. })).count() as u64
}

/// Returns an upper bound of the request's bytes, and so of its input tokens. A picture counts as
/// the tokens it can have, not as its bytes.
fn input_bytes(request: &Request) -> u64 {
    let system: usize = request.system.iter().map(|block| block.text.len()).sum();
    let tools: usize =
        request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len()).sum();
    let messages = serde_json::to_vec(&request.messages).map_or(usize::MAX / 4, |bytes| bytes.len());
    // 64 bytes for each of the roles, ids and separators that a vendor adds.
    let frame = 64 * (1 + request.messages.len() + request.tools.len());
    (system + tools + messages + frame) as u64 + PICTURE_TOKENS * count_pictures(&request.messages)
}

#[cfg(test)]
mod tests;
