//! The vocabulary that lies beside a model: `tokenizer.json` (WordPiece only) or `vocab.txt`.
//!
//! `[SEP]` and its like, written in a text, are brackets and a word here: what others write does not steer the model.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::directory::{beside, json};
use super::wordpiece::{Spelling, Vocabulary};

/// XLM-R's, with 250,000 pieces, has 17 MB.
pub(super) const MAX_BYTES: u64 = 64 << 20;

#[derive(Deserialize)]
struct Tokenizer {
    normalizer: Option<Normalizer>,
    pre_tokenizer: Option<Splitter>,
    model: Kind,
}

#[derive(Deserialize)]
struct Splitter {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct Normalizer {
    #[serde(rename = "type")]
    kind: String,
    lowercase: Option<bool>,
    strip_accents: Option<bool>,
    clean_text: Option<bool>,
    handle_chinese_chars: Option<bool>,
}

/// The model of a tokenizer without its pieces: they have another form in each kind.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: Option<String>,
    continuing_subword_prefix: Option<String>,
    merges: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Pieces {
    model: Words,
}

#[derive(Deserialize)]
struct Words {
    vocab: HashMap<Box<str>, u32>,
}

/// `tokenizer_config.json`, of which `vocab.txt` needs this.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Plain {
    do_lower_case: Option<bool>,
    strip_accents: Option<bool>,
}

/// Returns the vocabulary of the model in `dir`: `tokenizer.json` goes first, it says more.
///
/// # Errors
/// In words, with the file, when there is none or it is of another kind.
pub(super) fn read(dir: &Path) -> Result<Vocabulary, String> {
    let (name, list) = ("tokenizer.json", "vocab.txt");
    if let Some(bytes) = beside(dir, name, MAX_BYTES)? {
        return of_json(&bytes).map_err(|why| format!("{}: {why}", dir.join(name).display()));
    }
    let Some(bytes) = beside(dir, list, MAX_BYTES)? else {
        return Err(super::directory::missing(
            dir,
            "vocab.txt or tokenizer.json",
        ));
    };
    let text =
        str::from_utf8(&bytes).map_err(|error| format!("{}: {error}", dir.join(list).display()))?;
    let Plain {
        do_lower_case,
        strip_accents,
    } = json(dir, "tokenizer_config.json")?.unwrap_or_default();
    let lower = do_lower_case.unwrap_or(true);
    let spelling = Spelling {
        lower,
        plain: strip_accents.unwrap_or(lower),
    };
    Ok(Vocabulary::numbered(
        text.lines().map(Box::from).zip(0..),
        spelling,
    ))
}

fn of_json(bytes: &[u8]) -> Result<Vocabulary, String> {
    let Tokenizer {
        normalizer,
        pre_tokenizer,
        model,
    } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let guess = if model.merges.is_none() && model.continuing_subword_prefix.is_some() {
        "WordPiece"
    } else {
        "unnamed"
    };
    let kind = model.kind.as_deref().unwrap_or(guess);
    if kind != "WordPiece" {
        return Err(format!(
            "a tokenizer of the kind {kind}; only WordPiece is read (all-MiniLM, bge-…-en, e5-…)"
        ));
    }
    if model
        .continuing_subword_prefix
        .is_some_and(|prefix| prefix != "##")
    {
        return Err(
            "its pieces are not marked with ##, as those of the BERT family are".to_owned(),
        );
    }
    let bert = normalizer.filter(|normalizer| {
        let default = |setting: Option<bool>| setting.unwrap_or(true);
        normalizer.kind == "BertNormalizer"
            && default(normalizer.clean_text)
            && default(normalizer.handle_chinese_chars)
    });
    let Some(bert) = bert else {
        return Err("it prepares texts in another way than the BERT family (its normalizer is no BertNormalizer)".to_owned());
    };
    if pre_tokenizer.is_none_or(|splitter| splitter.kind != "BertPreTokenizer") {
        return Err(
            "it cuts texts into words in another way than the BERT family (no BertPreTokenizer)"
                .to_owned(),
        );
    }
    let lower = bert.lowercase.unwrap_or(true);
    let spelling = Spelling {
        lower,
        plain: bert.strip_accents.unwrap_or(lower),
    };
    let Pieces { model } = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(Vocabulary::numbered(model.vocab.into_iter(), spelling))
}
