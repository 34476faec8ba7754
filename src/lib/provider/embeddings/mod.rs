//! Embeddings (texts as vectors) by a server: OpenAI's embeddings, with every server that speaks them (Ollama,
//! llama-server, vLLM), and Gemini's.
//!
//! Written after <https://platform.openai.com/docs/api-reference/embeddings/create> and
//! <https://ai.google.dev/api/embeddings> (v1beta, `batchEmbedContents`), read 2026-11.

mod wire;

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::BoxFuture;
use super::api_key::Key;
use super::http::Endpoint;
use crate::config::Provider;
use crate::embedding::{Error, Kind, Model, normalize};
use crate::message::Usage;
use crate::net::Timeouts;
use crate::{net, provider, text};
use wire::{Answer, Protocol};

/// Texts a request has at most (specification §12). Gemini refuses more: "at most 100 requests can be
/// in one batch"; OpenAI takes 2048. Who wants to keep what came before a failure asks for so many at a time.
pub const BATCH: usize = 100;
/// Characters of all texts of a request at most. OpenAI takes 300,000 tokens a request, and hardly a
/// text has more tokens than characters.
const MAX_CHARS_OF_BATCH: usize = 300_000;
/// What a text has beyond is not sent: about the 8,192 tokens that OpenAI's and Gemini's newest models
/// read; Gemini's older ones leave off the rest themselves.
const MAX_CHARS: usize = 32_000;
/// Where the server still finds a text too long, it is halved until it has about so many.
const LEAST_CHARS: usize = 250;
/// What a vendor and we put around a text has fewer bytes than this, and so fewer tokens: `[CLS]` and `[SEP]`, the
/// words of a task.
const FRAME: usize = 32;
/// More numbers than any known model's vectors have (8,192).
const MAX_DIMS: usize = 16_384;
/// Who is told to wait longer comes back another day.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// For one whole answer (specification §12).
const TIMEOUT: Duration = Duration::from_secs(30);
/// For a key: longer than a renewal takes (another process's 35 s, then 30 s of the issuer). It must end
/// while the event loop turns, or it would stand still with its lock held.
const KEY_TIMEOUT: Duration = Duration::from_secs(100);
/// Before the second try, when the server says nothing about it.
const PAUSE: Duration = Duration::from_secs(1);

/// Pays for each request: the ledger is kept above this room.
pub trait Meter: Send {
    /// Returns what a request of so many tokens costs, US dollars; `None` when the price is unknown.
    fn cost_usd(&self, tokens: u64) -> Option<f64>;

    /// Returns what was spent here, US dollars, as far as it has a price.
    fn spent_usd(&self) -> f64;

    /// Reserves what a request of `most_tokens` can cost.
    ///
    /// # Errors
    /// In words, why it may not be made.
    fn reserve(&mut self, kind: Kind, most_tokens: u64) -> BoxFuture<'_, Result<(), String>>;

    /// Books how the request ended: with so many tokens, or with a failure.
    fn settle<'a>(&'a mut self, ended: Result<Usage, &'a provider::Error>) -> BoxFuture<'a, ()>;
}

/// A model on a server. Its calls block: it has an event loop of its own, and belongs on a thread that
/// may wait (`main` without a runtime, `spawn_blocking`).
pub struct Remote {
    server: Server,
    /// `None` until it is needed.
    runtime: Option<Runtime>,
    /// See [`Model::name`].
    name: String,
    /// Numbers a vector has; 0 = not known yet.
    dims: usize,
    meter: Box<dyn Meter>,
}

/// A model of a server.
struct Server {
    endpoint: Endpoint,
    protocol: Protocol,
    /// Provider and model, for errors.
    label: String,
    model: String,
    /// `dims` of the settings; 0 = the model's own.
    dims: usize,
    pause: Duration,
}

impl Remote {
    /// Returns the model called `model` (empty: the one that is usual there) at `provider`, asked for
    /// vectors of `dims` numbers (0: its own). `meter` makes the meter for the id of the model. Nothing is sent.
    ///
    /// Of the address and `key` the same holds as for the provider's chat. `client` must be one of its
    /// own, and follow no redirects: its connections live while [`Model::embed`] runs, and would stand
    /// still under anybody else.
    ///
    /// # Errors
    /// [`Error::Unusable`] when that type of provider has no embeddings.
    pub fn new(
        client: reqwest::Client,
        provider: &Provider,
        key: impl Into<Key>,
        model: &str,
        dims: u32,
        meter: impl FnOnce(&str) -> Box<dyn Meter>,
    ) -> Result<Self, Error> {
        let Some(protocol) = Protocol::of(provider.kind) else {
            return Err(Error::Unusable(format!(
                "the provider `{}` is of type `{}`, which has no embeddings: `[memory.embeddings] provider` is `local`, `none`, \
                 or a provider of type `openai` or `gemini`",
                provider.name,
                provider.kind.as_str()
            )));
        };
        let model = match model.trim() {
            "" => protocol.usual_model(),
            model => model,
        };
        let dims = usize::try_from(dims).unwrap_or(usize::MAX);
        let label = format!("{}/{model}", provider.name);
        let mut endpoint = protocol.endpoint(client, &provider.base_url, model, key.into());
        endpoint.timeouts = Timeouts::all(TIMEOUT);
        endpoint.key_timeout = Some(KEY_TIMEOUT);
        let name = format!("{label}/{dims}{}", protocol.task());
        let server = Server {
            endpoint,
            protocol,
            label,
            model: model.to_owned(),
            dims,
            pause: PAUSE,
        };
        Ok(Self {
            server,
            runtime: None,
            name,
            dims,
            meter: meter(model),
        })
    }

    /// Takes what the server answered to `texts`, and returns a vector for each.
    fn accepted(&mut self, answer: Answer, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let vectors = answer
            .in_order(texts.len())
            .map_err(|why| self.server.failed(&why))?;
        let first = vectors.first().map_or(0, Vec::len);
        let dims = if self.dims == 0 { first } else { self.dims };
        for vector in &vectors {
            self.server.check(vector, dims)?;
        }
        self.dims = dims;
        Ok(vectors.into_iter().map(normalize).collect())
    }

    /// Asks for the vectors of a batch: one that is too long for the server, cut shorter and shorter.
    fn batch(
        &mut self,
        runtime: &Runtime,
        kind: Kind,
        texts: &[&str],
    ) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let chars = texts.iter().map(|text| text.chars().count());
        let longest = chars.max().unwrap_or_default();
        let shorter = std::iter::successors(Some(MAX_CHARS / 2), |most| Some(most / 2));
        let mut shorter = shorter
            .take_while(|most| *most >= LEAST_CHARS)
            .filter(|most| *most < longest);
        let mut texts = texts.to_vec();
        loop {
            match runtime.block_on(self.server.ask(&mut *self.meter, kind, &texts))? {
                Ok(answer) => return self.accepted(answer, &texts),
                Err(error @ provider::Error::ContextOverflow { .. }) => match shorter.next() {
                    Some(most) => texts
                        .iter_mut()
                        .for_each(|text| *text = text::head(text, most)),
                    None => return Err(self.server.error(&error)),
                },
                Err(error) => return Err(self.server.error(&error)),
            }
        }
    }
}

impl Model for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn cost_usd(&self, texts: &[&str]) -> Option<f64> {
        batches(&sent(texts))
            .into_iter()
            .map(|batch| self.meter.cost_usd(estimated_tokens(batch)))
            .sum()
    }

    fn spent_usd(&self) -> f64 {
        self.meter.spent_usd()
    }

    fn embed(&mut self, kind: Kind, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let sent = sent(texts);
        if sent.is_empty() {
            return Ok(vec![None; texts.len()]);
        }
        let runtime = self
            .runtime
            .take()
            .map_or_else(|| Builder::new_current_thread().enable_all().build(), Ok);
        let runtime = runtime.map_err(|error| {
            let why = format!("no request can be made: {error}");
            self.server.failed(&why)
        })?;
        let vectors: Result<Vec<_>, Error> = batches(&sent)
            .into_iter()
            .map(|batch| self.batch(&runtime, kind, batch))
            .collect();
        self.runtime = Some(runtime);
        let mut vectors = vectors?.into_iter().flatten();
        Ok(texts
            .iter()
            .map(|text| {
                if is_blank(text) {
                    None
                } else {
                    vectors.next().flatten()
                }
            })
            .collect())
    }
}

impl Drop for Remote {
    /// A runtime that is simply dropped waits for its threads, which panics inside another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Server {
    /// Asks once, and once more when that may help. An error outside means that it was not asked.
    async fn ask(
        &self,
        meter: &mut dyn Meter,
        kind: Kind,
        texts: &[&str],
    ) -> Result<Result<Answer, provider::Error>, Error> {
        let error = match self.attempt(meter, kind, texts).await? {
            Err(error) if error.retryable() => error,
            outcome => return Ok(outcome),
        };
        let wait = error
            .retry_after()
            .unwrap_or_else(|| net::backoff(0, self.pause, self.pause));
        if wait > MAX_WAIT {
            return Ok(Err(error));
        }
        tracing::debug!(%error, ?wait, "asked for vectors once more");
        tokio::time::sleep(wait).await;
        self.attempt(meter, kind, texts).await
    }

    async fn attempt(
        &self,
        meter: &mut dyn Meter,
        kind: Kind,
        texts: &[&str],
    ) -> Result<Result<Answer, provider::Error>, Error> {
        meter
            .reserve(kind, most_tokens(texts))
            .await
            .map_err(|why| self.failed(&why))?;
        let answer = self
            .protocol
            .fetch(
                &self.endpoint,
                &self.protocol.body(&self.model, self.dims, kind, texts),
            )
            .await;
        // More than can be sent is not believed, as in a chat.
        let most = most_tokens(texts).saturating_mul(2);
        let usage = |answer: &Answer| {
            let told = answer.tokens.filter(|tokens| *tokens <= most);
            Usage {
                input_tokens: told.unwrap_or_else(|| estimated_tokens(texts)),
                estimated: told.is_none(),
                ..Usage::default()
            }
        };
        meter.settle(answer.as_ref().map(usage)).await;
        Ok(answer)
    }

    /// Checks that `vector` fits to those of `dims` numbers.
    fn check(&self, vector: &[f32], dims: usize) -> Result<(), Error> {
        let found = vector.len();
        let next = match self.dims {
            _ if found == 0 || found > MAX_DIMS => String::new(),
            _ if found == dims => {
                return match vector.iter().all(|x| x.is_finite()) {
                    true => Ok(()),
                    false => {
                        Err(self.failed("a vector has a number that is none (NaN, or infinite)"))
                    }
                };
            }
            0 => format!(
                ", and others have {dims}: if another model answers there now, run: agent-index rebuild"
            ),
            _ => format!(
                ", and `[memory.embeddings] dims` asks for {dims}: write 0 there, or {found}"
            ),
        };
        Err(self.unusable(&format!("a vector has {found} numbers{next}")))
    }

    fn failed(&self, why: &str) -> Error {
        Error::Failed(format!("{}: {why}", self.label))
    }

    fn unusable(&self, why: &str) -> Error {
        Error::Unusable(format!("{}: {why}", self.label))
    }

    /// Returns a failure with the next step.
    fn error(&self, error: &provider::Error) -> Error {
        use provider::Error as E;
        let next = match error {
            E::Unreachable { .. }
            | E::Busy { .. }
            | E::Exhausted { .. }
            | E::Interrupted { .. } => return self.failed(&error.to_string()),
            E::ContextOverflow { message } => {
                return self.failed(&format!(
                    "a text is too long for it, cut to {LEAST_CHARS} characters too: {message}"
                ));
            }
            E::Auth { .. } => "`agent-daemon auth` shows which key is in force",
            E::Missing { .. } | E::WebPage { .. } => {
                "correct `[memory.embeddings] model`, or `base_url` of the provider"
            }
            E::Rejected { .. } => "look at `model` and `dims` in `[memory.embeddings]`",
        };
        self.unusable(&format!("{error}; {next}"))
    }
}

/// A text without words is not sent: OpenAI refuses an empty one, and with it the whole request.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Returns what of `texts` is sent.
fn sent<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    texts
        .iter()
        .filter(|text| !is_blank(text))
        .map(|text| text::head(text, MAX_CHARS))
        .collect()
}

/// Cuts texts that are sent into requests, in order.
fn batches<'a, 'b>(mut texts: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    let mut batches = Vec::new();
    while !texts.is_empty() {
        let mut chars = 0;
        let fits = texts.iter().take(BATCH).take_while(|text| {
            chars += text.chars().count();
            chars <= MAX_CHARS_OF_BATCH
        });
        let (batch, rest) = texts.split_at(fits.count().max(1));
        batches.push(batch);
        texts = rest;
    }
    batches
}

/// Returns the tokens of `texts`, estimated.
fn estimated_tokens(texts: &[&str]) -> u64 {
    texts.iter().map(|text| text::estimate_tokens(text)).sum()
}

/// Returns the most tokens that a request with `texts` can have: each byte one.
fn most_tokens(texts: &[&str]) -> u64 {
    texts.iter().map(|text| (text.len() + FRAME) as u64).sum()
}

#[cfg(test)]
mod tests;
