//! Text as words: language packs, tokens and stems, stop words.

pub(crate) mod pack;
pub(crate) mod stop_words;
pub(crate) mod tokenize;
