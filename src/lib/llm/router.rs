//! One model call: which model is called, when it is called again (retry), the fallbacks that take over (failover), and the
//! time limits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant as Clock;

use super::reduce_request::{Optional, Shown};
use super::unavailable::{Cause, Unavailable};
use super::{Client, Error, PATIENCE, Paid, Prompt, Purpose};
use crate::config;
use crate::config::Model;
use crate::cost::{Kind, Outcome, Rates, Refusal, nano, usd};
use crate::message::{Block, Message, Usage};
use crate::provider;
use crate::provider::{OnText, Request, Response};
use crate::text;

/// Within this a fallback is asked, whatever the one before it does: 30 s (specification §8), less what
/// is spent around the waiting.
const FALLBACK_WITHIN: Duration = Duration::from_secs(28);
/// Pictures of more bytes than this can be why a request is too large: Anthropic takes 32 MB in all,
/// Gemini 20 MB (their vision guides, read 2026-11).
const HEAVY: usize = 10 << 20;

/// The most tokens of one picture: OpenAI cuts those of `detail: original` into at most 10,000
/// patches, a token each (images-vision guide); Anthropic's have at most 4,784, older models' 1,600
/// (vision guide; both read 2026-11). Only gpt-4o-mini counts more, at a twentieth of the price.
pub(crate) const PICTURE_TOKENS: u64 = 10_000;

/// The shortest answer that is worth a call, tokens: some paragraphs, or a call of a tool.
const LEAST_ANSWER: u32 = 1_024;

/// Returns the most that a call of `model` with a request of `bytes` and the shortest answer can cost, US dollars; less
/// than that holds no call. `None` when it has no price.
pub fn least_usd(model: &Model, bytes: usize) -> Option<f64> {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    Rates::of(model).map(|rates| usd(rates.bound(bytes, LEAST_ANSWER.min(model.max_tokens))))
}

/// Returns the tokens of the longest answer that what is left of a run's own limit pays for; `None` when `error` is another
/// one, or that is too short an answer.
fn affordable(error: &Error, rates: Rates, bytes: u64) -> Option<u32> {
    let Error::Refused(Refusal::Cap {
        period: "job" | "heartbeat",
        limit,
        spent,
        held: false,
        ..
    }) = error
    else {
        return None;
    };
    let left = nano(*limit) - nano(*spent) - rates.bound(bytes, 0);
    let tokens = left.checked_div(rates.bound(0, 1))?;
    u32::try_from(tokens)
        .ok()
        .filter(|tokens| *tokens >= LEAST_ANSWER)
}

impl Client {
    /// Asks `model` and, when it cannot answer, its fallbacks. While none of them can, it waits a few seconds for
    /// the first that may be asked again. `on_retry` hears why a call is tried again; text streamed before that is
    /// void.
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
        let candidates = self.candidates(model)?;
        self.patiently(on_retry, || {
            self.round(purpose, &candidates, prompt, on_text, on_retry)
        })
        .await
    }

    /// Asks as [`Client::complete`] does, for an answer of at most `most` tokens.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn complete_within(
        &self,
        purpose: Purpose<'_>,
        model: &str,
        prompt: &Prompt,
        most: u32,
    ) -> Result<Paid, Error> {
        let short = |model: Arc<Model>| {
            Arc::new(Model {
                max_tokens: model.max_tokens.min(most),
                // Half of the tokens would be for that.
                thinking: false,
                ..(*model).clone()
            })
        };
        let candidates: Vec<Arc<Model>> = self.candidates(model)?.into_iter().map(short).collect();
        self.patiently(&|_| {}, || {
            self.round(purpose, &candidates, prompt, &|_| {}, &|_| {})
        })
        .await
    }

    /// Makes `attempt` until it succeeds, fails permanently, or has to wait for longer than a turn holds its slot.
    pub(crate) async fn patiently<T, F: Future<Output = Result<T, Error>>>(
        &self,
        on_retry: &(dyn Fn(&str) + Send + Sync),
        attempt: impl Fn() -> F,
    ) -> Result<T, Error> {
        let until = Clock::now() + PATIENCE;
        loop {
            let changed = self.outages.changed().notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let away = match attempt().await {
                Err(Error::Unavailable(away)) if away.cause.is_outage() => away,
                other => return other,
            };
            if Clock::now() + away.rest > until {
                return Err(Error::Unavailable(away));
            }
            on_retry(&away.detail);
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(away.rest) => {}
            }
        }
    }

    /// Asks each candidate that is not down, once, until one answers.
    async fn round(
        &self,
        purpose: Purpose<'_>,
        candidates: &[Arc<Model>],
        prompt: &Prompt,
        on_text: OnText<'_>,
        on_retry: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Paid, Error> {
        let (mut away, mut failed): (Option<Unavailable>, Option<Error>) = (None, None);
        let mut capped = None;
        for (at, model) in candidates.iter().enumerate() {
            if at > 0 && outgrows(prompt, model) {
                continue;
            }
            let permit = match self.outages.circuits.admit(model) {
                Ok(permit) => permit,
                Err(rest) => {
                    away = Some(rest.sooner(away));
                    continue;
                }
            };
            let begin_within = (at + 1 < candidates.len()).then_some(FALLBACK_WITHIN);
            let told = |text: &str| {
                permit.answered();
                on_text(text);
            };
            let answer = self
                .try_candidate(purpose, model, prompt, begin_within, &told, on_retry)
                .await;
            let error = match answer {
                Ok(paid) => {
                    permit.is_right_address();
                    permit.answered();
                    return Ok(paid);
                }
                Err(Error::Failed(error)) => error,
                // A fallback may be cheap enough.
                Err(refused) if at == 0 && is_capped(&refused) => {
                    capped = Some(refused);
                    continue;
                }
                // A fallback that the money is not enough for answers nobody; the model before it may be back in a moment.
                Err(Error::Unavailable(capped)) if at > 0 => {
                    away = Some(capped.sooner(away));
                    continue;
                }
                Err(refused @ Error::Refused(_)) if at > 0 => {
                    failed.get_or_insert(refused);
                    continue;
                }
                Err(other) => return Err(other),
            };
            let is_away = error.retryable() || permit.is_away(&error);
            if is_away {
                away = Some(permit.failed(&error).sooner(away));
            } else {
                // A server that refuses something is there.
                permit.answered();
            }
            let overflows = matches!(error, provider::Error::ContextOverflow { .. });
            // Room is made for the model of the conversation alone.
            if overflows && at == 0 {
                return Err(error.into());
            }
            if at + 1 < candidates.len() {
                on_retry(&error.to_string());
            }
            // A fallback with a smaller window is passed over: what is said is why the others did not answer.
            if !is_away && !overflows {
                failed = Some(error.into());
            }
        }
        Err(nobody(capped, away, failed))
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

    async fn try_candidate(
        &self,
        purpose: Purpose<'_>,
        model: &Model,
        prompt: &Prompt,
        begin_within: Option<Duration>,
        on_text: OnText<'_>,
        on_retry: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<Paid, Error> {
        let mut shown = Shown::All;
        loop {
            let answer = self
                .attempt(purpose, model, prompt, shown, begin_within, on_text)
                .await;
            let next = match &answer {
                Err(Error::Failed(provider::Error::Rejected { .. })) => {
                    let has_schema = self.schema(model, prompt, shown).is_some();
                    let refused = &self.outages.refused;
                    shown.after_refusal(model, &prompt.messages, has_schema, refused)
                }
                // Pictures alone can make a request larger than a server takes.
                Err(Error::Failed(provider::Error::ContextOverflow { .. })) if shown.is_whole() => {
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
            tracing::warn!(model = %model.name, %error, "retrying the refused request without optional parts: {}", next.words());
            on_retry(&error.to_string());
            shown = next;
        }
    }

    /// Returns the schema that is sent.
    fn schema(&self, model: &Model, prompt: &Prompt, shown: Shown) -> Option<Arc<Value>> {
        let is_taken = shown == Shown::All && !self.outages.refused.has(Optional::Schema, model);
        prompt.schema.clone().filter(|_| is_taken)
    }

    async fn attempt(
        &self,
        purpose: Purpose<'_>,
        model: &Model,
        prompt: &Prompt,
        shown: Shown,
        begin_within: Option<Duration>,
        on_text: OnText<'_>,
    ) -> Result<Paid, Error> {
        let provider = self
            .providers
            .get(&model.provider.name)
            .ok_or_else(|| Error::NoProvider(model.name.clone()))?;
        let mut request = Request {
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
            cache: model.cache && shown.is_whole(),
            cache_ttl: model.cache_ttl,
            thinking: shown.asks_to_think(model, &self.outages.refused),
            begin_within,
            schema: self.schema(model, prompt, shown),
        };
        let rates = Rates::of(model);
        let bytes = input_bytes(&request);
        let (paid, bound) = loop {
            let bound = rates.map(|rates| rates.bound(bytes, request.max_tokens));
            let settled = |response: &Response| Outcome::Answered {
                usage: response.usage,
                cost: price(response, rates, bound),
            };
            let call = purpose.call(model, Kind::Chat, bound);
            let asked = async {
                let answer = provider.complete(&request, on_text).await;
                answer.map(|answer| plausible(answer, model, bytes, request.max_tokens))
            };
            let refused = match self.metered(call, asked, settled).await {
                Ok(paid) => break (paid, bound),
                Err(error) => error,
            };
            let fewer = rates.and_then(|rates| affordable(&refused, rates, bytes));
            let Some(fewer) = fewer.filter(|fewer| *fewer < request.max_tokens) else {
                return Err(refused);
            };
            // Half of the tokens would be for that.
            (request.max_tokens, request.thinking) = (fewer, false);
        };
        let (response, took) = paid;
        let cost_nano_usd = price(&response, rates, bound);
        let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        Ok(Paid {
            response,
            model: model.name.clone(),
            cost_nano_usd,
            duration_ms,
        })
    }
}

/// Returns true when a limit of money refuses a call; one whose rest is only reserved is waited for in place.
fn is_capped(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused(Refusal::Cap { .. })
            | Error::Unavailable(Unavailable {
                cause: Cause::Capped,
                ..
            })
    )
}

/// Returns why no candidate answered. `capped` is how a limit refused the first.
fn nobody(capped: Option<Error>, away: Option<Unavailable>, failed: Option<Error>) -> Error {
    match (capped, away, failed) {
        // A fallback that is back before the limit ends is waited for.
        (Some(_), Some(away), _) if away.cause != Cause::Capped => Error::Unavailable(away),
        (Some(capped), _, _) => capped,
        // A fallback that refuses answers nobody: whoever waits does not go by its being there.
        (None, Some(away), failed) => Error::Unavailable(Unavailable {
            opened: away.opened || failed.is_some(),
            ..away
        }),
        (None, None, Some(error)) => error,
        (None, None, None) => Error::NoProvider(String::new()),
    }
}

/// Returns true when the words of `prompt` are more than the window of `model` holds, however they are counted: a server
/// may cut them in silence instead of refusing them.
fn outgrows(prompt: &Prompt, model: &Model) -> bool {
    let blocks = prompt.messages.iter().flat_map(|message| &message.content);
    let sent = blocks.filter(|block| !matches!(block, Block::Image { .. } | Block::Thinking(_)));
    let system = prompt.system.iter();
    let words: u64 = sent.map(Block::tokens).sum::<u64>()
        + system
            .map(|block| text::estimate_tokens(&block.text))
            .sum::<u64>();
    // Two thirds of the estimate are five characters a token, which is more than prose has.
    words / 3 * 2 > model.context_window
}

/// Returns an answer whose tokens are possible: those of a server that says more than twice what its window, what was sent and
/// the longest answer are together are estimated, as if it had said nothing. Twice, as models of one name count in several ways.
fn plausible(answer: Response, model: &Model, bytes: u64, max_tokens: u32) -> Response {
    let most = model
        .context_window
        .saturating_add(bytes)
        .saturating_add(u64::from(max_tokens))
        .saturating_mul(2);
    let said = answer.usage;
    let sides = [
        said.input_tokens,
        said.output_tokens,
        said.cache_read_tokens,
        said.cache_write_tokens,
    ];
    let all = sides.into_iter().fold(0, u64::saturating_add);
    if all <= most {
        return answer;
    }
    tracing::warn!(
        model = %model.name,
        tokens = all,
        most,
        "the server reported more tokens than the call can have had; they are estimated"
    );
    let usage = Usage {
        input_tokens: bytes / 4,
        output_tokens: answer.message.tokens(),
        estimated: true,
        ..Usage::default()
    };
    Response { usage, ..answer }
}

/// Returns what an answer cost. Estimated tokens may be too few; what is not known costs what it can cost at most.
fn price(response: &Response, rates: Option<Rates>, bound: Option<i64>) -> Option<i64> {
    match response.usage.estimated {
        true => bound,
        false => rates.map(|rates| rates.cost(&response.usage)),
    }
}

/// Returns the pictures that are sent as such.
fn pictures(messages: &[Message]) -> impl Iterator<Item = usize> {
    let pictures = messages.iter().flat_map(Message::pictures);
    pictures.map(|data| data.len())
}

fn picture_bytes(messages: &[Message]) -> usize {
    pictures(messages).sum()
}

/// Returns the bytes of `value` as JSON.
fn json_length(value: &(impl Serialize + ?Sized)) -> serde_json::Result<usize> {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value)?;
    Ok(count.0)
}

/// Returns an upper bound of the request's bytes, and so of its input tokens. A picture counts as
/// the tokens it can have, not as its bytes.
pub(crate) fn input_bytes(request: &Request) -> u64 {
    let system: usize = request.system.iter().map(|block| block.text.len()).sum();
    let tools: usize = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.schema.text().len())
        .sum();
    let messages = json_length(&*request.messages).unwrap_or(usize::MAX / 4);
    // 64 bytes for each of the roles, ids and separators that a vendor adds.
    let frame = 64 * (1 + request.messages.len() + request.tools.len());
    (system + tools + messages + frame) as u64
        + PICTURE_TOKENS * pictures(&request.messages).count() as u64
}
