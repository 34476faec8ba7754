//! Detects that a text is clearly not English.
//!
//! Letters of another script are sufficient. In Latin script the stop words decide: at least two of one language, a fifth
//! of all words, and twice as many as English ones. No crate is used: they bring hundreds of kilobytes of tables for a
//! sentence that is said once.

use std::collections::BTreeMap;

use super::pack::{SmallWords, small_words};
use super::tokenize::each_word;
use crate::text;

/// Fewer letters in Latin script are no sentence to judge.
const MIN_LETTERS: usize = 20;
/// No more of a text is looked at, characters.
const MAX_CHARS: usize = 2000;

/// A language that is not English.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// What it is called in itself, where it can be told.
    pub name: Option<&'static str>,
}

/// Returns the language of `text` when it is certainly not English.
pub(crate) fn foreign(text: &str) -> Option<Foreign> {
    let text = text::head(text, MAX_CHARS);
    let mut scripts: BTreeMap<&str, usize> = BTreeMap::new();
    for c in text.chars().filter(|c| c.is_alphabetic()) {
        *scripts.entry(script(c)).or_default() += 1;
    }
    let letters: usize = scripts.values().sum();
    let latin = scripts.remove("latin").unwrap_or(0);
    if letters >= 2 && latin * 2 < letters {
        // Japanese is Chinese letters with its own between them.
        let kana = scripts.get_key_value("日本語");
        let most = kana.or_else(|| scripts.iter().max_by_key(|(_, count)| **count));
        let name = most.map(|(name, _)| *name).filter(|name| !name.is_empty());
        return Some(Foreign { name });
    }
    if latin < MIN_LETTERS {
        return None;
    }
    let mut words: Vec<String> = Vec::new();
    each_word(text, |word| words.push(word.to_owned()));
    let count = |of: &SmallWords| {
        let is_small = |word: &&String| of.stop_words.has(word) || of.small_words.has(word);
        words.iter().filter(is_small).count()
    };
    let (english, others) = small_words().split_first()?;
    let others = others.iter().map(|of| (count(of), of));
    let (hits, most) = others.rev().max_by_key(|(hits, _)| *hits)?;
    let is_plain = hits >= 2 && hits * 5 >= words.len() && hits >= count(english) * 2;
    is_plain.then_some(Foreign {
        name: Some(most.name.as_str()),
    })
}

/// Returns the language a letter belongs to; empty where several share the script.
fn script(c: char) -> &'static str {
    match c {
        '\u{0}'..='\u{24f}'
        | '\u{1e00}'..='\u{1eff}'
        | '\u{2c60}'..='\u{2c7f}'
        | '\u{ff21}'..='\u{ff5a}' => "latin",
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => "Ελληνικά",
        '\u{530}'..='\u{58f}' => "Հայերեն",
        '\u{590}'..='\u{5ff}' => "עברית",
        '\u{e00}'..='\u{e7f}' => "ไทย",
        '\u{10a0}'..='\u{10ff}' => "ქართული",
        '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}' => "한국어",
        '\u{3040}'..='\u{30ff}' => "日本語",
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' => "中文",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_named_only_when_it_is_plain() {
        let check = |text: &str, expected: Option<Option<&str>>| {
            assert_eq!(
                foreign(text).map(|foreign| foreign.name),
                expected,
                "{text}"
            );
        };
        check(
            "Wann hat meine Schwester Geburtstag, und wo ist das Fest?",
            Some(Some("Deutsch")),
        );
        check(
            "Ich wohne seit zwei Jahren mit meiner Katze in Berlin.",
            Some(Some("Deutsch")),
        );
        check(
            "Quand est l'anniversaire de ma sœur et où sont les clés ?",
            Some(Some("Français")),
        );
        check(
            "¿Cuándo es el cumpleaños de mi hermana?",
            Some(Some("Español")),
        );
        check(
            "Quando è il compleanno di mia sorella?",
            Some(Some("Italiano")),
        );
        check(
            "Wanneer is de verjaardag van mijn zus?",
            Some(Some("Nederlands")),
        );
        check("Когда день рождения моей сестры?", Some(None));
        check("妹の誕生日はいつですか？", Some(Some("日本語")));
        check("我妹妹的生日是什么时候？", Some(Some("中文")));
        check("너는 누구니?", Some(Some("한국어")));
        check("ok danke", None);
        check("Grüß\n dich", None);
        check(
            "When is my sister's birthday, and where are the keys?",
            None,
        );
        check("Berlin Hamburg München Wuppertal Osnabrück", None);
        check(
            "I drove from Los Angeles to La Paz with my friend Jean de la Tour",
            None,
        );
        check("", None);
        check("1234 5678 !!", None);
    }
}
