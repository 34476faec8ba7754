//! Larger models from a directory that the owner laid down: `[memory.embeddings] provider = "local", model = "/path"`.
//!
//! ```text
//! config.json         what it is: a transformer of the BERT family (model_type "bert"), or a table (model2vec)
//! model.safetensors   its numbers
//! tokenizer.json      its pieces (WordPiece); or vocab.txt, a piece a line
//! config_sentence_transformers.json   what goes before a question and a passage (prompts: query, document or passage)
//! 1_Pooling/config.json, modules.json, sentence_bert_config.json, tokenizer_config.json   are heeded where they are
//! ```
//! That is how all-MiniLM-L6-v2, bge-small-en-v1.5, e5-small-v2 or potion-base-8M are published. Other architectures are
//! refused with words: a wrong vector looks like a right one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use ring::digest::{Context, SHA256};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};

use super::bert::{Bert, Pooling, Shape};
use super::matrix::add;
use super::safetensors::Tensors;
use super::wordpiece::Vocabulary;
use super::{Error, Model, normal, tokenizer};

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const POOLING: &str = "1_Pooling/config.json";
const PROMPTS: &str = "config_sentence_transformers.json";
/// The numbers of a table, as model2vec calls them.
const TABLE: &str = "embeddings";
/// Every setting beside a model is far shorter.
const MAX_SETTINGS: u64 = 1 << 20;
/// What must be there, for whoever laid down something else.
const HOLDS: &str = "[memory.embeddings] model names a directory with config.json, model.safetensors, and tokenizer.json or vocab.txt";

/// A model that was read.
struct Directory {
    name: String,
    dims: usize,
    prompts: Prompts,
    kind: Kind,
}

/// What goes before texts; empty for models that were not trained with it.
struct Prompts {
    question: String,
    passage: String,
}

enum Kind {
    Transformer(Box<Bert>),
    Table {
        vocabulary: Vocabulary,
        width: usize,
        numbers: Vec<f32>,
    },
}

/// What of `config.json` says which kind it is.
#[derive(Deserialize)]
struct Config {
    model_type: Option<String>,
    #[serde(default)]
    architectures: Vec<String>,
    quantization_config: Option<IgnoredAny>,
}

/// Reads the model in `dir`. With `dims` above 0 a vector is its first `dims` numbers, made as long as 1 again: only models that
/// were trained for it (Matryoshka) lose little by that. 0 takes all of them.
///
/// # Errors
/// [`Error::Unusable`], with the file and what to do, when a file is missing or is not what it should be, when the model is of
/// a kind that is not computed here, or when it has fewer than `dims` numbers.
pub fn open(dir: &Path, dims: u32) -> Result<Box<dyn Model>, Error> {
    let read = || -> Result<Directory, String> {
        if !dir.is_dir() {
            return Err(format!(
                "{}: there is no such directory; {HOLDS}",
                dir.display()
            ));
        }
        let mut weights = weights(dir)?;
        let said = beside(dir, CONFIG, MAX_SETTINGS)?.ok_or_else(|| missing(dir, CONFIG))?;
        let prompts = prompts(dir)?;
        let sum = fingerprint(dir, &mut weights, &prompts.passage)?;
        let kind = kind(dir, &said, weights)?;
        if let Some(prompt) = [&prompts.question, &prompts.passage]
            .into_iter()
            .find(|prompt| !kind.has_room_for(prompt))
        {
            return Err(format!(
                "{}: the prompt {prompt:?} takes the room of the text behind it",
                dir.join(PROMPTS).display()
            ));
        }
        let own = kind.width();
        let dims = if dims == 0 {
            own
        } else {
            usize::try_from(dims).unwrap_or(usize::MAX)
        };
        if dims > own {
            let place = dir.display();
            return Err(format!(
                "{place}: its vectors have {own} numbers, [memory.embeddings] dims asks for {dims}; 0 takes all"
            ));
        }
        Ok(Directory {
            name: format!("local/{}-{sum}/{dims}", called(dir)),
            dims,
            prompts,
            kind,
        })
    };
    read()
        .map(|model| Box::new(model) as Box<dyn Model>)
        .map_err(Error::Unusable)
}

impl Model for Directory {
    fn name(&self) -> &str {
        &self.name
    }

    fn embed(&mut self, kind: super::Kind, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, Error> {
        let prompt = match kind {
            super::Kind::Question => &self.prompts.question,
            super::Kind::Passage => &self.prompts.passage,
        };
        let vectors = match &self.kind {
            Kind::Transformer(bert) => bert.vectors(prompt, texts),
            Kind::Table {
                vocabulary,
                width,
                numbers,
            } => texts
                .iter()
                .map(|text| mean(vocabulary, *width, numbers, prompt, text))
                .collect(),
        };
        let cut = |mut vector: Vec<f32>| {
            vector.truncate(self.dims);
            normal(vector)
        };
        Ok(vectors
            .into_iter()
            .map(|vector| vector.and_then(cut))
            .collect())
    }
}

impl Kind {
    fn width(&self) -> usize {
        match self {
            Self::Transformer(bert) => bert.width(),
            Self::Table { width, .. } => *width,
        }
    }

    fn has_room_for(&self, prompt: &str) -> bool {
        match self {
            Self::Transformer(bert) => bert.has_room_for(prompt),
            Self::Table { .. } => true,
        }
    }
}

/// Returns the sum of the vectors of the pieces, those of `prompt` too, which points where their mean does; `None` when most of
/// `text` is unknown.
fn mean(
    vocabulary: &Vocabulary,
    width: usize,
    numbers: &[f32],
    prompt: &str,
    text: &str,
) -> Option<Vec<f32>> {
    let mut sum = vec![0.0; width];
    let mut take = |text: &str| {
        let (mut known, mut unknown) = (0_usize, 0_usize);
        vocabulary.pieces(text, |piece| {
            let row = piece.and_then(|piece| {
                numbers
                    .chunks_exact(width)
                    .nth(usize::try_from(piece).ok()?)
            });
            if let Some(row) = row {
                known += 1;
                add(&mut sum, row);
            } else {
                unknown += 1;
            }
        });
        known > unknown
    };
    take(prompt);
    let is_known = take(text);
    normal(sum).filter(|_| is_known)
}

/// Reads what `config.json` (`said`) says the directory holds.
fn kind(dir: &Path, said: &[u8], weights: File) -> Result<Kind, String> {
    let at = |file: &str, why: &str| format!("{}: {why}", dir.join(file).display());
    let config: Config =
        serde_json::from_slice(said).map_err(|error| at(CONFIG, &error.to_string()))?;
    if config.quantization_config.is_some() {
        return Err(at(
            CONFIG,
            "a quantised model (quantization_config); take the one it was made of",
        ));
    }
    let mut tensors = Tensors::open(weights).map_err(|why| at(WEIGHTS, &why))?;
    match config.model_type.as_deref() {
        Some("bert") => {
            modules(dir)?;
            let shape: Shape =
                serde_json::from_slice(said).map_err(|error| at(CONFIG, &error.to_string()))?;
            shape.check().map_err(|why| at(CONFIG, &why))?;
            let (pooling, limit) = (pooling(dir)?, limit(dir)?);
            let bert = Bert::read(&shape, tokenizer::read(dir)?, pooling, limit, &mut tensors)
                .map_err(|why| at(WEIGHTS, &why))?;
            Ok(Kind::Transformer(Box::new(bert)))
        }
        None | Some("model2vec")
            if tensors.shape(TABLE).is_some() || config.model_type.is_some() =>
        {
            modules(dir)?;
            let vocabulary = tokenizer::read(dir)?;
            table(vocabulary, &mut tensors).map_err(|why| at(WEIGHTS, &why))
        }
        other => {
            let names = other
                .map(str::to_owned)
                .into_iter()
                .chain(config.architectures)
                .collect::<Vec<_>>()
                .join(", ");
            let what = if names.is_empty() {
                "a model that does not say what it is".to_owned()
            } else {
                names
            };
            let kinds =
                "transformers with model_type \"bert\" and tables of model2vec are computed here";
            Err(at(
                CONFIG,
                &format!("{what}; {kinds}, others by a server ([memory.embeddings] provider)"),
            ))
        }
    }
}

/// Reads a table: a row of numbers for each piece.
fn table<R: Read + Seek>(vocabulary: Vocabulary, tensors: &mut Tensors<R>) -> Result<Kind, String> {
    if let Some(name) = ["weights", "mapping"]
        .into_iter()
        .find(|name| tensors.shape(name).is_some())
    {
        return Err(format!(
            "a table with the tensor {name}: model2vec with vocabulary_quantization is not computed here"
        ));
    }
    let sides = tensors.shape(TABLE).map(|sides| {
        sides
            .iter()
            .filter_map(|side| usize::try_from(*side).ok())
            .collect::<Vec<_>>()
    });
    let (rows, width) = match sides.as_deref() {
        None => return Err(format!("the tensor {TABLE} is missing")),
        Some([rows, width]) if *width > 0 => (*rows, *width),
        Some(sides) => {
            return Err(format!(
                "the tensor {TABLE} has the shape {sides:?}; a row for each piece is needed"
            ));
        }
    };
    if vocabulary
        .highest()
        .is_none_or(|highest| usize::try_from(highest).is_ok_and(|highest| highest >= rows))
    {
        return Err(format!(
            "its vocabulary ({} pieces) is not that of the tensor {TABLE} ({rows} rows)",
            vocabulary.len()
        ));
    }
    let numbers = tensors.read(TABLE, &[rows, width])?;
    Ok(Kind::Table {
        vocabulary,
        width,
        numbers,
    })
}

/// Opens the numbers, or says what lies there in their place.
fn weights(dir: &Path) -> Result<File, String> {
    let path = dir.join(WEIGHTS);
    if path.is_file() {
        return File::open(&path).map_err(|error| format!("{}: {error}", path.display()));
    }
    let names: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    let ends = |end: &str| {
        names
            .iter()
            .find(|name| name.as_encoded_bytes().ends_with(end.as_bytes()))
    };
    let [onnx, torch, split, gguf] = [
        "onnx",
        "pytorch_model.bin",
        ".safetensors.index.json",
        ".gguf",
    ]
    .map(ends);
    let instead = |name: &OsStr, what: &str| {
        let (place, name) = (dir.display(), name.display());
        format!(
            "{place} has no {WEIGHTS} but {name}: {what}; the same model as {WEIGHTS} is needed"
        )
    };
    Err(match (onnx, torch, split, gguf) {
        (Some(name), ..) => instead(name, "ONNX files, quantised or not, are not read"),
        (_, Some(name), ..) => instead(name, "PyTorch's own files are programs, and are not run"),
        (_, _, Some(name), _) => instead(name, "a model of several files is too large to run here"),
        (.., Some(name)) => instead(
            name,
            "GGUF files are not read here (llama-server reads them: set it as the provider)",
        ),
        _ => missing(dir, WEIGHTS),
    })
}

/// Refuses a model with further steps behind the transformer, which would be left out.
fn modules(dir: &Path) -> Result<(), String> {
    #[derive(Deserialize)]
    struct Module {
        #[serde(rename = "type")]
        kind: String,
    }
    let modules: Vec<Module> = json(dir, "modules.json")?.unwrap_or_default();
    let kinds = || {
        modules
            .iter()
            .map(|module| module.kind.rsplit('.').next().unwrap_or_default())
    };
    if let Some(kind) = kinds()
        .find(|kind| !["Transformer", "Pooling", "Normalize", "StaticEmbedding"].contains(kind))
    {
        return Err(format!(
            "{}: the step {kind} is not computed here",
            dir.join("modules.json").display()
        ));
    }
    if kinds().any(|kind| kind == "Pooling") && !dir.join(POOLING).is_file() {
        return Err(format!(
            "{} is missing, and modules.json says that it belongs to the model",
            dir.join(POOLING).display()
        ));
    }
    Ok(())
}

/// Returns how a text's vectors become one: the mean, unless the model says otherwise.
fn pooling(dir: &Path) -> Result<Pooling, String> {
    let settings: Map<String, Value> = json(dir, POOLING)?.unwrap_or_default();
    let mode = |(key, value): (&String, &Value)| match value {
        Value::Bool(true) => key.strip_prefix("pooling_mode_").map(str::to_owned),
        Value::String(mode) if key == "pooling_mode" => Some(mode.clone()),
        _ => None,
    };
    let modes: Vec<String> = settings.iter().filter_map(mode).collect();
    match modes
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] | ["mean_tokens" | "mean"] => Ok(Pooling::Mean),
        ["cls_token" | "cls"] => Ok(Pooling::First),
        others => {
            let (place, others) = (dir.join(POOLING), others.join(" and "));
            Err(format!(
                "{}: {others} is not computed here; the mean (mean_tokens) or cls_token is",
                place.display()
            ))
        }
    }
}

/// Returns what goes before texts, where the model says so.
fn prompts(dir: &Path) -> Result<Prompts, String> {
    let [said, pooling]: [Value; 2] = [
        json(dir, PROMPTS)?.unwrap_or_default(),
        json(dir, POOLING)?.unwrap_or_default(),
    ];
    let first = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| said["prompts"][name].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let prompts = Prompts {
        question: first(&["query"]),
        passage: first(&["document", "passage"]),
    };
    if pooling["include_prompt"] == false
        && !(prompts.question.is_empty() && prompts.passage.is_empty())
    {
        return Err(format!(
            "{}: include_prompt false is not computed here",
            dir.join(POOLING).display()
        ));
    }
    Ok(prompts)
}

/// Returns how many pieces the model takes at once, where it says so.
fn limit(dir: &Path) -> Result<Option<usize>, String> {
    #[derive(Deserialize)]
    struct Settings {
        max_seq_length: Option<usize>,
    }
    Ok(json::<Settings>(dir, "sentence_bert_config.json")?
        .and_then(|settings| settings.max_seq_length))
}

/// Returns what the directory is called, as one word.
fn called(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let name = whole.file_name().unwrap_or_default().to_string_lossy();
    name.chars()
        .take(64)
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .collect()
}

/// Returns eight letters that change when the model does: of its settings, its pieces, what goes before a passage, the size of
/// its numbers, and sixteen places in them, since a model that was trained on has the settings and the size of the one before.
fn fingerprint(dir: &Path, weights: &mut File, passage: &str) -> Result<String, String> {
    const PLACES: u64 = 16;
    let mut sum = Context::new(&SHA256);
    for name in [
        CONFIG,
        POOLING,
        "sentence_bert_config.json",
        "tokenizer_config.json",
        "tokenizer.json",
        "vocab.txt",
    ] {
        let bytes = beside(dir, name, tokenizer::MAX_BYTES)?.unwrap_or_default();
        sum.update(&(bytes.len() as u64).to_le_bytes());
        sum.update(&bytes);
    }
    sum.update(passage.as_bytes());
    let mut places = || -> Result<(), std::io::Error> {
        let length = weights.metadata()?.len();
        sum.update(&length.to_le_bytes());
        for place in 0..PLACES {
            weights.seek(SeekFrom::Start(length / PLACES * place))?;
            let mut bytes = Vec::new();
            weights.take(4096).read_to_end(&mut bytes)?;
            sum.update(&bytes);
        }
        Ok(())
    };
    places().map_err(|error| format!("{}: {error}", dir.join(WEIGHTS).display()))?;
    Ok(sum
        .finish()
        .as_ref()
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Says that a file is missing.
pub(super) fn missing(dir: &Path, name: &str) -> String {
    format!("{} has no {name}; {HOLDS}", dir.display())
}

/// Reads a file beside the numbers; `None` when it is not there.
pub(super) fn beside(dir: &Path, name: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
    let path = dir.join(name);
    let why = |why: String| format!("{}: {why}", path.display());
    let meta = match std::fs::metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(why(error.to_string())),
    };
    if !meta.is_file() || meta.len() > most {
        return Err(why(format!("it is no file of at most {most} bytes")));
    }
    std::fs::read(&path)
        .map(Some)
        .map_err(|error| why(error.to_string()))
}

/// Reads a file of settings beside the numbers; `None` when it is not there.
pub(super) fn json<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>, String> {
    let Some(bytes) = beside(dir, name, MAX_SETTINGS)? else {
        return Ok(None);
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| format!("{}: {error}", dir.join(name).display()))
}

#[cfg(test)]
mod tests;
