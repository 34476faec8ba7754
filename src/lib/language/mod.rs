//! Text as words: tokens, stems and stop words, for the search index and for rules that read sentences.

pub(crate) mod stop_words;
pub(crate) mod tokenize;
