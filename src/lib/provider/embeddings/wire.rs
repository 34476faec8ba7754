//! Requests and responses in the format of each vendor.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::ProviderType;
use crate::embedding::Kind;
use crate::provider::api_key::Key;
use crate::provider::http::Endpoint;
use crate::provider::{Error, gemini, openai};

/// Who is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Openai,
    Gemini,
}

/// The vectors of a request.
#[derive(Debug)]
pub(super) struct Answer {
    /// Each with the number of its text, if it came with one.
    vectors: Vec<(Option<usize>, Vec<f32>)>,
    /// The tokens that the server counted.
    pub(super) tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OfOpenai {
    data: Vec<Item>,
    #[serde(default)]
    usage: Value,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct OfGemini {
    embeddings: Vec<Values>,
    #[serde(default, rename = "usageMetadata")]
    usage: Value,
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f32>,
}

impl Protocol {
    /// Returns how `kind` is asked for vectors; `None` when it has none.
    pub(super) fn of(kind: ProviderType) -> Option<Self> {
        match kind {
            ProviderType::Openai => Some(Self::Openai),
            ProviderType::Gemini => Some(Self::Gemini),
            ProviderType::Anthropic | ProviderType::Offline | ProviderType::Elevenlabs => None,
        }
    }

    /// Returns the model that is asked when none is set.
    pub(super) fn usual_model(self) -> &'static str {
        match self {
            Self::Openai => "text-embedding-3-small",
            Self::Gemini => "gemini-embedding-001",
        }
    }

    pub(super) fn endpoint(
        self,
        client: reqwest::Client,
        base_url: &str,
        model: &str,
        key: Key,
    ) -> Endpoint {
        match self {
            Self::Openai => openai::endpoint(client, base_url, "embeddings", key),
            Self::Gemini => gemini::models(client, base_url, key)
                .below(&format!("{}:batchEmbedContents", gemini::bare(model)), None),
        }
    }

    /// Returns the end of a model's name that says that questions and passages are told apart.
    pub(super) fn task(self) -> &'static str {
        match self {
            Self::Openai => "",
            Self::Gemini => "/retrieval",
        }
    }

    /// Returns the request as sent; `dims` = 0 asks for no number of dimensions: older models refuse the field.
    pub(super) fn body(self, model: &str, dims: usize, kind: Kind, texts: &[&str]) -> Value {
        match self {
            Self::Openai => {
                let mut body = json!({"model": model, "input": texts});
                if dims > 0 {
                    body["dimensions"] = json!(dims);
                }
                body
            }
            Self::Gemini => {
                let model = format!("models/{}", gemini::bare(model));
                let (task, words) = match kind {
                    Kind::Question => ("RETRIEVAL_QUERY", "task: search result | query: "),
                    Kind::Passage => ("RETRIEVAL_DOCUMENT", "title: none | text: "),
                };
                // The second generation has no field for the task and reads it in the text (guide "Embeddings").
                let words = if model.starts_with("models/gemini-embedding-2") {
                    words
                } else {
                    ""
                };
                // A content each: the parts of one content become one vector.
                let requests = texts.iter().map(|text| {
                    let mut request = json!({"model": model, "content": {"parts": [{"text": format!("{words}{text}")}]}});
                    if words.is_empty() {
                        request["taskType"] = json!(task);
                    }
                    if dims > 0 {
                        request["outputDimensionality"] = json!(dims);
                    }
                    request
                });
                json!({"requests": requests.collect::<Vec<_>>()})
            }
        }
    }

    pub(super) async fn fetch(self, endpoint: &Endpoint, body: &Value) -> Result<Answer, Error> {
        match self {
            Self::Openai => {
                let OfOpenai { data, usage } = endpoint.fetch(|request| request.json(body)).await?;
                let tokens = usage["prompt_tokens"]
                    .as_u64()
                    .or_else(|| usage["total_tokens"].as_u64());
                let vectors = data
                    .into_iter()
                    .map(|item| (item.index, item.embedding))
                    .collect();
                Ok(Answer {
                    vectors,
                    tokens: tokens.filter(|tokens| *tokens > 0),
                })
            }
            Self::Gemini => {
                let OfGemini { embeddings, usage } =
                    endpoint.fetch(|request| request.json(body)).await?;
                let tokens = usage["promptTokenCount"]
                    .as_u64()
                    .filter(|tokens| *tokens > 0);
                Ok(Answer {
                    vectors: embeddings
                        .into_iter()
                        .map(|one| (None, one.values))
                        .collect(),
                    tokens,
                })
            }
        }
    }
}

impl Answer {
    /// Returns a vector for each of `count` texts, in their order.
    ///
    /// # Errors
    /// In words, when it cannot be told which vector is whose.
    pub(super) fn in_order(self, count: usize) -> Result<Vec<Vec<f32>>, String> {
        if self.vectors.len() != count {
            return Err(format!(
                "{} vectors came for {count} texts",
                self.vectors.len()
            ));
        }
        // Servers that count none have them in order.
        if self.vectors.iter().all(|(index, _)| index.is_none()) {
            return Ok(self.vectors.into_iter().map(|(_, vector)| vector).collect());
        }
        let mut vectors = self.vectors;
        vectors.sort_by_key(|(index, _)| *index);
        if vectors
            .iter()
            .enumerate()
            .any(|(at, (index, _))| *index != Some(at))
        {
            return Err(format!(
                "the vectors of {count} texts are not numbered from 0 to {}",
                count.saturating_sub(1)
            ));
        }
        Ok(vectors.into_iter().map(|(_, vector)| vector).collect())
    }
}
