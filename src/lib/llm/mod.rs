//! The model client: which model is called, how often and for how long, and which fallback takes over.
//!
//! ```text
//! complete ─→ candidates: the model, then its fallbacks; not those that are down (circuit_breaker)
//!               └ attempt: reduce_request → reserve (refused? stop) → provider → settle
//! ```
//! When no candidate can answer now, a call waits for a few seconds; then it is [`Unavailable`], and the caller suspends the
//! turn. `transcribe` does the same for speech.

mod circuit_breaker;
mod metered_speech;
mod reduce_request;
mod router;
mod unavailable;

pub use circuit_breaker::Health;
pub use router::least_usd;
pub use unavailable::{Cause, Unavailable};

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::Instant as Clock;

use crate::config::{self, Cost, Model, Models};
use crate::cost::{Kind, Ledger, NewCall, Outcome, Refusal, Reserved};
use crate::message::Message;
use crate::provider::speech::Voices;
use crate::provider::transcription::Transcriptions;
use crate::provider::{self, Provider, Response, SystemBlock, ToolSpec};
use crate::{clock, db};
use circuit_breaker::Circuits;
use reduce_request::Refused;

/// Waiting between tries to write a reservation.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(800),
];

/// How long a call waits in place, with the slot of its turn, before it is [`Unavailable`].
const PATIENCE: Duration = Duration::from_secs(4);

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
    pub messages: Arc<[Message]>,
    /// The JSON Schema of the answer, for vendors that enforce one; `None` = words.
    pub schema: Option<Arc<serde_json::Value>>,
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy)]
pub struct Purpose<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The session.
    pub session_id: &'a str,
    /// The source of the turn.
    pub source: &'static str,
    /// The most the run may cost, US dollars.
    pub budget_usd: Option<f64>,
    /// The most the session may cost of that; set for a sub-agent.
    pub share_usd: Option<f64>,
    /// Whether somebody else than the owner has it made.
    pub of_others: bool,
}

impl Prompt {
    /// Returns a prompt that is answered with text, without tools.
    pub fn plain(system: Vec<SystemBlock>, messages: Vec<Message>) -> Self {
        Self {
            system,
            tools: [].into(),
            may_call: false,
            messages: messages.into(),
            schema: None,
        }
    }
}

impl<'a> Purpose<'a> {
    /// Returns a purpose without a separate budget; `of_others` as in the field.
    pub fn new(
        run_id: &'a str,
        session_id: &'a str,
        source: &'static str,
        of_others: bool,
    ) -> Self {
        Self {
            run_id,
            session_id,
            source,
            budget_usd: None,
            share_usd: None,
            of_others,
        }
    }

    /// Returns the call of `model` to be written into the ledger; `bound` is the most it can cost.
    fn call(self, model: &Model, kind: Kind, bound: Option<i64>) -> NewCall {
        NewCall {
            call_id: uuid::Uuid::now_v7().to_string(),
            run_id: self.run_id.to_owned(),
            session_id: self.session_id.to_owned(),
            source: self.source,
            provider: model.provider.name.clone(),
            model: model.name.clone(),
            kind,
            bound,
            budget_usd: self.budget_usd,
            share_usd: self.share_usd,
            of_others: self.of_others,
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

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A cap or a missing price forbids it.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// No model of this name is configured.
    #[error("{0}")]
    NoModel(#[from] config::Error),
    /// The model's provider is not there; a bug, models are checked at start.
    #[error("the provider of model {0} is not loaded")]
    NoProvider(String),
    /// No model can answer now; the same call may succeed later.
    #[error("{}; it is tried again in {} s", .0.detail, .0.rest.as_secs())]
    Unavailable(Unavailable),
    /// Every candidate failed; this is the last failure.
    #[error("{0}")]
    Failed(#[from] provider::Error),
    /// The ledger cannot be written, so nothing may be spent.
    #[error("the cost ledger cannot be written: {0}")]
    Ledger(#[from] db::Error),
}

/// What calls found out about their servers; clones share it, and it outlives a reload of the settings.
#[derive(Debug, Clone, Default)]
pub struct Outages {
    circuits: Circuits,
    refused: Refused,
}

impl Outages {
    /// Lets every provider that is down be asked now.
    pub fn retry_now(&self) {
        self.circuits.retry_now();
    }

    /// Returns what is notified when a provider answers again.
    pub fn changed(&self) -> &Arc<Notify> {
        self.circuits.changed()
    }
}

/// The metered client.
pub struct Client {
    ledger: Ledger,
    providers: HashMap<String, Arc<dyn Provider>>,
    speech: HashMap<String, Transcriptions>,
    voices: HashMap<String, Voices>,
    models: Models,
    caps: Cost,
    call_timeout: Duration,
    outages: Outages,
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
        Self {
            ledger,
            providers,
            speech: HashMap::new(),
            voices: HashMap::new(),
            models,
            caps,
            call_timeout,
            outages: Outages::default(),
        }
    }

    /// Returns the client with the transcription models, by the configured name of their provider.
    pub fn with_speech(self, speech: HashMap<String, Transcriptions>) -> Self {
        Self { speech, ..self }
    }

    /// Returns the client with the speech models, by the configured name of their provider.
    pub fn with_voices(self, voices: HashMap<String, Voices>) -> Self {
        Self { voices, ..self }
    }

    /// Returns the client that knows already what another found out.
    pub fn with_outages(self, outages: Outages) -> Self {
        Self { outages, ..self }
    }

    /// Returns what it found out, for the client that comes after it.
    pub fn outages(&self) -> Outages {
        self.outages.clone()
    }

    /// Returns what is notified when a call has settled: others may fit below a cap now.
    pub fn settled(&self) -> &Arc<Notify> {
        &self.ledger.settled
    }

    /// Returns true when neither `model` nor one of its fallbacks may be asked now, because each was
    /// found down: what nobody waits for should wait.
    pub fn is_down(&self, model: &str) -> bool {
        let candidates = self.candidates(model).unwrap_or_default();
        let circuits = &self.outages.circuits;
        !candidates.is_empty() && !candidates.iter().any(|model| circuits.may_ask(model))
    }

    /// Returns true when nothing speaks against `model` or one of its fallbacks: callers that wait for it may continue.
    pub fn answers(&self, model: &str) -> bool {
        let candidates = self.candidates(model).unwrap_or_default();
        let circuits = &self.outages.circuits;
        candidates.is_empty() || candidates.iter().any(|model| circuits.is_closed(model))
    }

    /// Takes over from before a restart that `model` and its fallbacks were away.
    pub fn was_away(&self, model: &str, away: &Unavailable) {
        for model in self.candidates(model).unwrap_or_default() {
            self.outages.circuits.was_down(&model, away);
        }
    }

    /// Returns how the providers of the configured models are, sorted by name.
    pub fn health(&self) -> Vec<Health> {
        let names: BTreeSet<&str> = self
            .models
            .all()
            .map(|model| model.provider.name.as_str())
            .collect();
        self.outages.circuits.health(names.into_iter())
    }

    /// Returns the configured models.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Returns true when `model` or one of its fallbacks sees pictures.
    pub fn sees_pictures(&self, model: &str) -> bool {
        let Ok(first) = self.models.get(model, "the request") else {
            return false;
        };
        let sees = |name: &String| {
            self.models
                .get(name, "fallbacks")
                .is_ok_and(|model| model.vision)
        };
        first.vision || first.fallbacks.iter().any(sees)
    }

    /// Reserves a call before it is made. While calls that run hold the rest of a cap, it waits for them a little.
    async fn reserve(&self, call: NewCall) -> Result<Reserved, Error> {
        let until = Clock::now() + PATIENCE;
        loop {
            let settled = self.ledger.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            let refusal = match self.write_reservation(&call).await? {
                Ok(reserved) => return Ok(reserved),
                Err(refusal) => refusal,
            };
            let Refusal::Cap {
                held, resets_at, ..
            } = refusal
            else {
                return Err(refusal.into());
            };
            if held && tokio::time::timeout_at(until, settled).await.is_ok() {
                continue;
            }
            let (cause, rest) = match resets_at {
                _ if held => (Cause::Reserved, PATIENCE),
                Some(at) => {
                    let millis = u64::try_from(at - clock::now_ms()).unwrap_or(0);
                    (Cause::Capped, Duration::from_millis(millis))
                }
                None => return Err(refusal.into()),
            };
            let detail = refusal.to_string();
            return Err(Error::Unavailable(Unavailable {
                cause,
                detail,
                rest,
                opened: false,
            }));
        }
    }

    /// Writes a reservation. A disk that fails for a moment is given another.
    async fn write_reservation(
        &self,
        call: &NewCall,
    ) -> Result<Result<Reserved, Refusal>, db::Error> {
        let again = || {
            self.ledger
                .reserve(call.clone(), &self.caps, clock::now_ms())
        };
        for pause in PAUSES {
            match again().await {
                Ok(reserved) => return Ok(reserved),
                Err(error) => {
                    tracing::warn!(%error, "a cost reservation could not be recorded; retrying")
                }
            }
            tokio::time::sleep(pause).await;
        }
        again().await
    }

    /// Makes one paid call, with its timeout: reserved before, settled after. Returns the answer and how long it took.
    async fn metered<T>(
        &self,
        call: NewCall,
        work: impl Future<Output = Result<T, provider::Error>>,
        settled: impl Fn(&T) -> Outcome,
    ) -> Result<(T, Duration), Error> {
        let host = call.provider.clone();
        let reserved = self.reserve(call).await?;
        let started = Instant::now();
        let answer = tokio::time::timeout(self.call_timeout, work)
            .await
            .unwrap_or_else(|_| {
                let reason = format!("no answer within {} s", self.call_timeout.as_secs());
                Err(provider::Error::Interrupted {
                    host,
                    reason,
                    again: true,
                })
            });
        let took = started.elapsed();
        let outcome = match &answer {
            Ok(answer) => settled(answer),
            Err(error) if error.may_be_charged() => Outcome::Unknown,
            Err(_) => Outcome::Free,
        };
        self.ledger.close(reserved, outcome, took).await;
        Ok((answer?, took))
    }
}

#[cfg(test)]
mod outage_tests;
#[cfg(test)]
mod tests;
