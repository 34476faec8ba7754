//! Embeddings: texts as vectors whose cosine measures the similarity of their meanings.
//!
//! ```text
//! static_table          ships with the project: a vector for each word piece, added up; no neural pass
//! provider/embeddings   a server, behind the trait [`Model`]
//! ```
//! Vectors are stored under [`Model::name`]; vectors of different models are never compared.

pub mod similar_words;
pub mod static_table;
mod wordpiece;

use std::sync::Arc;

use static_table::Table;

/// A text cannot be embedded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings or the table are wrong; a retry changes nothing.
    #[error("{0}")]
    Unusable(String),
    /// The server is down or slow; a retry may help.
    #[error("{0}")]
    Failed(String),
}

/// What is embedded: some models make other vectors of questions than of passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What is searched for.
    Question,
    /// What is found.
    Passage,
}

/// What makes the vectors.
pub enum Embedder {
    /// The table: so fast that single lines and words are embedded too.
    Table(Table),
    /// A server.
    Model(Box<dyn Model>),
}

impl Embedder {
    /// Returns the name of its vectors, see [`Model::name`].
    pub fn name(&self) -> &str {
        match self {
            Self::Table(table) => table.name(),
            Self::Model(model) => model.name(),
        }
    }
}

/// Opens the embedder that the settings name; `None` when they name none.
pub type Opener = Arc<dyn Fn() -> Result<Option<Embedder>, Error> + Send + Sync>;

/// Embeds texts. Its calls block.
pub trait Model: Send {
    /// Returns provider, model and dimensions as one word:
    /// `local/minilm-1/256`, `openai/text-embedding-3-small/0` (0: as many as the model has).
    fn name(&self) -> &str;

    /// Returns what embedding `texts` would cost, US dollars; `None` when the price is unknown.
    fn cost_usd(&self, _texts: &[&str]) -> Option<f64> {
        Some(0.0)
    }

    /// Returns what was spent since it was opened, US dollars, as far as prices are known.
    fn spent_usd(&self) -> f64 {
        0.0
    }

    /// Returns the vector of each of `texts`, of length 1; `None` for a text without known words.
    ///
    /// # Errors
    /// See [`Error`]; then none of `texts` has a vector.
    fn embed(&mut self, kind: Kind, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, Error>;
}

/// Scales a vector to length 1; `None` for one of length 0.
pub fn normalize(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = dot(&vector, &vector).sqrt();
    if !length.is_finite() || length < 1e-6 {
        return None;
    }
    let share = length.recip();
    vector.iter_mut().for_each(|x| *x *= share);
    Some(vector)
}

/// Returns the dot product of two vectors: their cosine, if both have length 1.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    // Eight sums at once, which the compiler keeps in one register.
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut()
            .zip(a.iter().zip(b))
            .for_each(|(sum, (a, b))| *sum += a * b);
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
