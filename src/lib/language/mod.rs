//! Text as words: one pack of data a language, tokens, stems and stop words, and what language a text is in.

pub(crate) mod detect;
pub(crate) mod pack;
pub(crate) mod service_keys;
pub(crate) mod stop_words;
pub(crate) mod summary;
pub(crate) mod tokenize;
