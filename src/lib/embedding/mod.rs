//! Texts as vectors: near in meaning, near in direction.
//!
//! ```text
//! table      the table that ships with the project: a vector a piece of word, added up; no neural pass
//! directory  a larger model that the owner laid down: a table, or a small transformer (bert)
//! provider/embedding   a server
//! ```
//! Whoever asks keeps the vectors under [`Model::name`]: those of two models are never compared.

mod bert;
mod char_class;
pub mod directory;
mod matrix;
mod safetensors;
pub mod similar_words;
pub mod static_table;
mod tokenizer;
pub mod wordpiece;

use std::sync::Arc;

use static_table::Table;

/// A text cannot be made a vector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The settings or the files of the model are wrong; trying again changes nothing.
    #[error("{0}")]
    Unusable(String),
    /// This time it did not work: the server is down, or slow.
    #[error("{0}")]
    Failed(String),
}

/// What texts are: some models want to know, and make other vectors of the one than of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What is searched for.
    Question,
    /// What is found.
    Passage,
}

/// What texts are made vectors with.
pub enum Embedder {
    /// The table: so cheap that single lines and words have vectors, too.
    Table(Table),
    /// Anything that takes its time.
    Model(Box<dyn Model>),
}

impl Embedder {
    /// Returns what the vectors are called, see [`Model::name`].
    pub fn name(&self) -> &str {
        match self {
            Self::Table(table) => table.name(),
            Self::Model(model) => model.name(),
        }
    }
}

/// Opens the embedder that the settings name; `None` when they name none.
pub type Opener = Arc<dyn Fn() -> Result<Option<Embedder>, Error> + Send + Sync>;

/// Makes vectors. Its calls block.
pub trait Model: Send {
    /// Returns provider, model and dimensions as one word that changes when the vectors of passages do:
    /// `local/minilm-1/256`, `openai/text-embedding-3-small/0` (0: as many as the model has).
    fn name(&self) -> &str;

    /// Returns what vectors of `texts` would cost, US dollars; `None` when nobody knows. On this machine
    /// they cost nothing.
    fn cost_usd(&self, _texts: &[&str]) -> Option<f64> {
        Some(0.0)
    }

    /// Returns what was spent since it was opened, US dollars, as far as that has a price.
    fn spent_usd(&self) -> f64 {
        0.0
    }

    /// Returns the vector of each of `texts`, of length 1; `None` for a text that it has no words for.
    ///
    /// # Errors
    /// See [`Error`]; then none of `texts` has a vector.
    fn embed(&mut self, kind: Kind, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, Error>;
}

/// Makes a vector's length 1; `None` for one that points nowhere.
pub fn normal(mut vector: Vec<f32>) -> Option<Vec<f32>> {
    let length = dot(&vector, &vector).sqrt();
    if !length.is_finite() || length < 1e-6 {
        return None;
    }
    let share = length.recip();
    vector.iter_mut().for_each(|x| *x *= share);
    Some(vector)
}

/// Returns the sum of the products of two vectors' numbers: their cosine, if both have length 1.
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
