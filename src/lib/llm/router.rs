//! One question to a model: who is asked, how often, and for how long.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::Instant as Clock;

use super::degrade::Shown;
use super::{Client, Error, Paid, Prompt, Purpose};
use crate::config;
use crate::config::Model;
use crate::cost::Rates;
use crate::cost::{Kind, Outcome};
use crate::message::{Block, Message};
use crate::net;
use crate::provider;
use crate::provider::{OnText, Request, Response};

/// Repeats of one model call (specification §8).
const REPEATS: u32 = 2;
/// Waiting before the first repeat, and the most we wait inside one call before we turn to a
/// fallback or to the user.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Within this a fallback is asked, whatever the one before it does: 30 s (specification §8), less what
/// is spent around the waiting.
const FALLBACK_WITHIN: Duration = Duration::from_secs(28);
/// An attempt that is given less time than this would be pointless.
const LEAST_ATTEMPT: Duration = Duration::from_secs(2);
/// Pictures of more bytes than this can be why a request is too large: Anthropic takes 32 MB in all,
/// Gemini 20 MB (their vision guides, read 2026-11).
const HEAVY: usize = 10 << 20;

/// The most tokens of one picture: OpenAI cuts those of `detail: original` into at most 10,000
/// patches, a token each (images-vision guide); Anthropic's have at most 4,784, older models' 1,600
/// (vision guide; both read 2026-11). Only gpt-4o-mini counts more, at a twentieth of the price.
pub(crate) const PICTURE_TOKENS: u64 = 10_000;

/// How long and how often a candidate is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    /// Attempts after the first.
    repeats: u32,
    /// When somebody else is asked instead, unless an answer has begun; `None` = nobody else is left.
    until: Option<Clock>,
}

impl Default for Limit {
    fn default() -> Self {
        Self {
            repeats: REPEATS,
            until: None,
        }
    }
}

impl Limit {
    fn left(self) -> Option<Duration> {
        self.until.map(|until| {
            until
                .saturating_duration_since(Clock::now())
                .max(LEAST_ATTEMPT)
        })
    }
}

impl Client {
    /// Asks `model` and, when it cannot answer, its fallbacks; who was found down is passed over, unless
    /// a person would get no answer at all. `on_retry` hears why a call is tried again; text streamed
    /// before that is void.
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
        let mut unreachable: Option<String> = None;
        let mut answer = None;
        let candidates = self.who_is_up(purpose, self.candidates(model)?)?;
        for (at, (model, repeats)) in candidates.iter().enumerate() {
            match &answer {
                Some(Err(Error::Failed(provider::Error::ContextOverflow { .. }))) => break,
                Some(Err(Error::Failed(error))) => {
                    if matches!(error, provider::Error::Unreachable { .. }) {
                        unreachable = candidates
                            .get(at.wrapping_sub(1))
                            .map(|(model, _)| model.provider.name.clone());
                    }
                    // Another model of a server that nobody reaches is none either.
                    if unreachable.as_ref() == Some(&model.provider.name) {
                        continue;
                    }
                    on_retry(&error.to_string());
                }
                None => {}
                Some(Ok(_) | Err(_)) => break,
            }
            let until = (at + 1 < candidates.len()).then(|| Clock::now() + FALLBACK_WITHIN);
            let limit = Limit {
                repeats: *repeats,
                until,
            };
            answer = Some(
                self.try_candidate(purpose, model, prompt, limit, on_text, on_retry)
                    .await,
            );
        }
        answer.unwrap_or_else(|| Err(Error::NoProvider(model.to_owned())))
    }

    /// Returns `model` and its fallbacks.
    pub(crate) fn candidates(&self, model: &str) -> Result<Vec<Arc<Model>>, config::Error> {
        let first = self.models.get(model, "the request")?;
        let fallbacks = first
            .fallbacks
            .iter()
            .map(|name| self.models.get(name, "fallbacks"));
        std::iter::once(Ok(first.clone()))
            .chain(fallbacks)
            .collect()
    }

    /// Returns whom to ask, each with how often to repeat it.
    fn who_is_up(
        &self,
        purpose: Purpose<'_>,
        candidates: Vec<Arc<Model>>,
    ) -> Result<Vec<(Arc<Model>, u32)>, Error> {
        let (circuits, now) = (&self.outages.circuits, Instant::now());
        let up = |model: &&Arc<Model>| circuits.rest(model, now).is_none();
        let count = candidates.iter().filter(up).count();
        if count > 0 {
            // One that failed last is asked once, when there is another.
            let repeats = |model: &Arc<Model>| {
                if count > 1 && circuits.is_doubtful(model) {
                    0
                } else {
                    REPEATS
                }
            };
            return Ok(candidates
                .iter()
                .filter(up)
                .map(|model| (model.clone(), repeats(model)))
                .collect());
        }
        match candidates.first() {
            Some(model) if !purpose.is_a_persons() => {
                let outage = circuits
                    .health(std::iter::once(model.provider.name.as_str()))
                    .pop()
                    .and_then(|health| health.down);
                Err(Error::Down {
                    provider: model.provider.name.clone(),
                    last_error: outage.map(|outage| outage.last_error).unwrap_or_default(),
                    rest_secs: circuits.rest(model, now).unwrap_or_default().as_secs(),
                })
            }
            _ => Ok(candidates.into_iter().map(|model| (model, 0)).collect()),
        }
    }

    async fn try_candidate(
        &self,
        purpose: Purpose<'_>,
        model: &Model,
        prompt: &Prompt,
        limit: Limit,
        on_text: OnText<'_>,
        on_retry: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Paid, Error> {
        let mut shown = Shown::All;
        loop {
            let attempt =
                |limit: Limit| self.attempt(purpose, model, prompt, shown, limit, on_text);
            let answer = self.repeated(model, limit, on_retry, attempt).await;
            let next = match &answer {
                Err(Error::Failed(provider::Error::Rejected { .. })) => {
                    shown.after_refusal(model, &prompt.messages, prompt.schema.is_some())
                }
                // Pictures alone can make a request larger than a server takes.
                Err(Error::Failed(provider::Error::ContextOverflow { .. }))
                    if shown == Shown::All =>
                {
                    (model.vision && picture_bytes(&prompt.messages) > HEAVY).then_some(Shown::Bare)
                }
                Ok(_) => {
                    shown.learn(&prompt.messages, model, &self.outages.refused);
                    None
                }
                Err(_) => None,
            };
            let (Some(next), Err(error)) = (next, &answer) else {
                return answer;
            };
            tracing::warn!(model = %model.name, %error, "the refused request is tried again with less: {}", next.words());
            on_retry(&error.to_string());
            shown = next;
        }
    }

    async fn attempt(
        &self,
        purpose: Purpose<'_>,
        model: &Model,
        prompt: &Prompt,
        shown: Shown,
        limit: Limit,
        on_text: OnText<'_>,
    ) -> Result<Paid, Error> {
        let provider = self
            .providers
            .get(&model.provider.name)
            .ok_or_else(|| Error::NoProvider(model.name.clone()))?;
        let request = Request {
            model: model.model.clone(),
            max_tokens: model.max_tokens,
            system: prompt.system.clone(),
            tools: if model.tools {
                prompt.tools.clone()
            } else {
                [].into()
            },
            may_call: prompt.may_call && model.tools,
            messages: shown.of(&prompt.messages, model, &self.outages.refused),
            cache: model.cache && shown == Shown::All,
            thinking: model.thinking && shown == Shown::All,
            begin_within: limit.left(),
            schema: prompt.schema.clone().filter(|_| shown == Shown::All),
        };
        let rates = Rates::of(model);
        let bound = rates.map(|rates| rates.bound(input_bytes(&request), model.max_tokens));
        // Estimated tokens may be too few; what is not known costs what it can cost at most.
        let cost = |response: &Response| match response.usage.estimated {
            true => bound,
            false => rates.map(|rates| rates.cost(&response.usage)),
        };
        let settled = |response: &Response| Outcome::Answered {
            usage: response.usage,
            cost: cost(response),
        };
        let call = purpose.call(model, Kind::Chat, bound);
        let (response, took) = self
            .metered(call, provider.complete(&request, on_text), settled)
            .await?;
        let cost_nano_usd = cost(&response);
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Ok(Paid {
            response,
            model: model.name.clone(),
            cost_nano_usd,
            duration_ms,
        })
    }

    /// Makes attempts at `model` until one succeeds, fails for good, too often or for too long; notes
    /// how its provider is.
    pub(crate) async fn repeated<T, F: Future<Output = Result<T, Error>>>(
        &self,
        model: &Model,
        limit: Limit,
        on_retry: &(dyn Fn(&str) + Send + Sync),
        attempt: impl Fn(Limit) -> F,
    ) -> Result<T, Error> {
        let circuits = &self.outages.circuits;
        let mut repeats = 0;
        loop {
            let error = match attempt(limit).await {
                Err(Error::Failed(error)) if error.retryable() => error,
                Ok(answer) => {
                    circuits.succeeded(model);
                    return Ok(answer);
                }
                Err(error) => return Err(error),
            };
            let wait = error
                .retry_after()
                .unwrap_or_else(|| net::backoff(repeats, BACKOFF.0, BACKOFF.1));
            let too_late = limit
                .until
                .is_some_and(|until| Clock::now() + wait + LEAST_ATTEMPT > until);
            if repeats >= limit.repeats || wait > BACKOFF.1 || too_late {
                circuits.failed(model, &error, Instant::now());
                return Err(error.into());
            }
            on_retry(&error.to_string());
            tracing::warn!(model = %model.name, %error, wait_ms = wait.as_millis(), "the model call is tried again");
            tokio::time::sleep(wait).await;
            repeats += 1;
        }
    }
}

/// Returns the pictures that are sent as such.
fn pictures(messages: &[Message]) -> impl Iterator<Item = usize> {
    messages
        .iter()
        .flat_map(|message| &message.content)
        .filter_map(|block| match block {
            Block::Image {
                data: Some(data), ..
            } => Some(data.len()),
            Block::Text { .. }
            | Block::Context { .. }
            | Block::Image { data: None, .. }
            | Block::Thinking(_)
            | Block::ToolCall(_)
            | Block::ToolResult(_) => None,
        })
}

fn picture_bytes(messages: &[Message]) -> usize {
    pictures(messages).sum()
}

/// Returns an upper bound of the request's bytes, and so of its input tokens. A picture counts as
/// the tokens it can have, not as its bytes.
pub(crate) fn input_bytes(request: &Request) -> u64 {
    let system: usize = request.system.iter().map(|block| block.text.len()).sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.schema.to_string().len())
        .sum();
    let messages =
        serde_json::to_vec(&request.messages).map_or(usize::MAX / 4, |bytes| bytes.len());
    // 64 bytes for each of the roles, ids and separators that a vendor adds.
    let frame = 64 * (1 + request.messages.len() + request.tools.len());
    (system + tools + messages + frame) as u64
        + PICTURE_TOKENS * pictures(&request.messages).count() as u64
}
