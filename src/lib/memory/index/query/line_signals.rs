//! Small bonuses in the rank of a line: it is said by somebody whom the question names, or it names a time. They do not
//! change its score.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::candidates::Term;
use crate::language::tokenize::Words;

/// The bonus of a line that is said by somebody whom the question names, that names a time, and that names one when the
/// question asks for it. On the scale of a line's score, 0–1; measured, see docs/memory.md.
const SPEAKER: f32 = 0.02;
const TIME: f32 = 0.015;
const ASKED_TIME: f32 = 0.02;
/// The longest name of a speaker, bytes up to its colon.
const LABEL: usize = 40;

/// What a question asks for beyond its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineSignals {
    asks_when: bool,
}

impl LineSignals {
    pub(crate) fn of(question: &str) -> Self {
        let folded = question.to_lowercase();
        let first: Vec<&str> = folded
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(2)
            .collect();
        Self {
            asks_when: first
                .iter()
                .any(|word| WHEN.split(' ').any(|when| when == *word))
                || first == ["how", "long"],
        }
    }

    /// Returns the bonus of a line.
    pub(crate) fn bonus(self, words: &mut Words, text: &str, terms: &[Term]) -> f32 {
        let mut bonus = 0.0;
        if let Some(label) = label(text)
            && words
                .of(label)
                .iter()
                .any(|word| terms.iter().any(|term| term.word.code == word.code))
        {
            bonus += SPEAKER;
        }
        if says_when(text) {
            bonus += TIME + if self.asks_when { ASKED_TIME } else { 0.0 };
        }
        bonus
    }
}

/// Returns the name before a colon at the beginning of a line: `**Ana**: …`, `- ana: …`.
fn label(text: &str) -> Option<&str> {
    let (label, _) = text.split_once(':')?;
    let label = label.trim_matches(|c: char| !c.is_alphanumeric());
    (!label.is_empty() && label.len() <= LABEL && label.split_whitespace().count() <= 3)
        .then_some(label)
}

/// Returns true when a line names a time: a number or a word such as `yesterday`.
fn says_when(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|word| {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        is_number || (word.len() < 16 && TIMES.contains(word.to_lowercase().as_str()))
    })
}

/// First words of a question for a time: English, German, French, Spanish, Italian, Portuguese, Dutch, Russian.
const WHEN: &str = "when wann quand cuándo cuando quando wanneer когда";

/// Words of time in the same languages.
static TIMES: LazyLock<HashSet<&str>> = LazyLock::new(|| TIME_WORDS.split(' ').collect());
const TIME_WORDS: &str = "\
    ago ahora amanhã anno ano april august año december domani february friday gestern \
    gisteren heute hier hoje hoy ieri jahr jahre january july june last letzte letzten march \
    may mañana mes mois monat monate monday month months morgen next november october oggi \
    ontem recently saturday semaine semana september settimana since sunday thursday today \
    tomorrow tonight tuesday vandaag wednesday week weekend weeks woche wochen year years \
    yesterday вчера год завтра месяц неделю сегодня";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_lines_and_questions() {
        for line in [
            "I went Yesterday.",
            "in 2023",
            "at 7pm",
            "Es war letzten Sommer",
            "это было вчера",
        ] {
            assert!(says_when(line), "{line}");
        }
        assert!(!says_when("I like my garden a lot") && !says_when(""));
        assert!(
            LineSignals::of("When did it rain?").asks_when
                && LineSignals::of("Und wann war das?").asks_when
        );
        assert!(
            LineSignals::of("how long was it").asks_when
                && !LineSignals::of("what happened when it rained").asks_when
        );
    }

    #[test]
    fn a_label_is_a_name_before_a_colon() {
        let check =
            |line: &str, expected: Option<&str>| assert_eq!(label(line), expected, "{line}");
        check("**Ana**: hello", Some("Ana"));
        check("- Ana Maria: hello", Some("Ana Maria"));
        check("assistant: hello", Some("assistant"));
        check("what I think of it all: nothing", None);
        check("hello", None);
        check(": x", None);
    }
}
