//! Money: prices, the ledger, the caps, and the one client through which every paid call goes.
//!
//! ```text
//! complete ─→ candidates: the model, then its fallbacks
//!               └ attempt (≤ 3): reserve (refused? stop) → provider → settle
//! ```
//! Each attempt is a row of its own in `cost.db`, so that what was really paid is what is shown.

mod ledger;
mod rates;
mod report;

pub use ledger::{Ledger, NewCall, Outcome, Refusal, examine, start_of_day, start_of_month, start_of_week};
pub use rates::{Rates, left_usd, usd};
pub use report::{Group, Line, Report, by_model, report, total_usd};

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::config::{self, Cost, Model, Models};
use crate::message::Message;
use crate::provider::{self, OnText, Provider, Request, Response, SystemBlock, ToolSpec};
use crate::{clock, db, net};

/// Repeats of one model call (specification §8).
const REPEATS: u32 = 2;
/// Waiting before the first repeat, and the most we wait inside one call before we turn to a
/// fallback or to the user (specification §8: fallbacks within 30 s).
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// What is asked of a model, before a model is chosen.
#[derive(Debug, Clone)]
pub struct Prompt {
    /// System text, most stable first.
    pub system: Vec<SystemBlock>,
    /// The tools on offer.
    pub tools: Arc<[ToolSpec]>,
    /// Whether the model may call them in this step.
    pub may_call: bool,
    /// The conversation, repaired.
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
        Self { ledger, providers, models, caps, call_timeout }
    }

    /// Returns the configured models.
    pub fn models(&self) -> &Models {
        &self.models
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
        let mut attempt = 0;
        loop {
            let error = match self.attempt(purpose, model, prompt, on_text).await {
                Err(Error::Failed(error)) if error.retryable() && attempt < REPEATS => error,
                ended => return ended,
            };
            let wait = error.retry_after().unwrap_or_else(|| net::backoff(attempt, BACKOFF.0, BACKOFF.1));
            if wait > BACKOFF.1 {
                return Err(error.into());
            }
            on_retry(&error.to_string());
            tracing::warn!(model = %model.name, %error, wait_ms = wait.as_millis(), "the model call is tried again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, purpose: Purpose<'_>, model: &Model, prompt: &Prompt, on_text: OnText<'_>) -> Result<Paid, Error> {
        let provider = self.providers.get(&model.provider.name).ok_or_else(|| Error::NoProvider(model.name.clone()))?;
        let request = Request {
            model: model.model.clone(),
            max_tokens: model.max_tokens,
            system: prompt.system.clone(),
            tools: prompt.tools.clone(),
            may_call: prompt.may_call,
            messages: prompt.messages.clone(),
            cache: model.cache,
        };
        let rates = Rates::of(model);
        let bound = rates.map(|rates| rates.bound(input_bytes(prompt), model.max_tokens));
        let call_id = uuid::Uuid::now_v7().to_string();
        let call = NewCall {
            call_id: call_id.clone(),
            run_id: purpose.run_id.to_owned(),
            session_id: purpose.session_id.to_owned(),
            source: purpose.source,
            provider: model.provider.name.clone(),
            model: model.name.clone(),
            bound,
        };
        self.ledger.reserve(call, &self.caps, clock::now_ms()).await??;
        let started = Instant::now();
        let answer = tokio::time::timeout(self.call_timeout, provider.complete(&request, on_text)).await.unwrap_or_else(|_| {
            let reason = format!("no answer within {} s", self.call_timeout.as_secs());
            Err(provider::Error::Interrupted { host: model.provider.name.clone(), reason, again: true })
        });
        let duration = started.elapsed();
        // Estimated tokens may be too few; what is not known costs what it can cost at most.
        let cost = |response: &Response| match response.usage.estimated {
            true => bound,
            false => rates.map(|rates| rates.cost(&response.usage)),
        };
        let outcome = match &answer {
            Ok(response) => Outcome::Answered { usage: response.usage, cost: cost(response) },
            Err(error) if error.may_be_charged() => Outcome::Unknown,
            Err(_) => Outcome::Free,
        };
        let latency_ms = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        if let Err(error) = self.ledger.settle(&call_id, outcome, latency_ms).await {
            tracing::error!(%error, "a call stays at its reservation");
        }
        let response = answer?;
        let cost_nano_usd = cost(&response);
        let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Ok(Paid { response, model: model.name.clone(), cost_nano_usd, duration_ms })
    }
}

/// Returns an upper bound of the request's bytes, and so of its input tokens.
fn input_bytes(prompt: &Prompt) -> u64 {
    let system: usize = prompt.system.iter().map(|block| block.text.len()).sum();
    let tools: usize =
        prompt.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len()).sum();
    let messages = serde_json::to_vec(&prompt.messages).map_or(usize::MAX / 4, |bytes| bytes.len());
    // 64 bytes for each of the roles, ids and separators that a vendor adds.
    let frame = 64 * (1 + prompt.messages.len() + prompt.tools.len());
    (system + tools + messages + frame) as u64
}

#[cfg(test)]
mod tests;
