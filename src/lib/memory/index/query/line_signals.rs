//! What in a line speaks for it beside its words: it is said by somebody the question names, and it says
//! when something was. Small, and only for the order: a score means the same without it.

use super::candidates::Term;
use crate::language::tokenize::Words;

/// What a line gains that is said by somebody the question names, that says a time at all, and that says one
/// where the question asks for it. On the scale of a line's score, 0–1; measured, see docs/memory.md.
const SPEAKER: f32 = 0.02;
const TIME: f32 = 0.015;
const ASKED: f32 = 0.02;
/// Characters in which the name of a speaker stands, up to its colon.
const LABEL: usize = 40;

/// What a question asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cues {
    asks_when: bool,
}

impl Cues {
    pub(crate) fn of(question: &str) -> Self {
        let folded = question.to_lowercase();
        let first: Vec<&str> = folded
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(2)
            .collect();
        Self {
            asks_when: first.iter().any(|word| WHEN.contains(word)) || first == ["how", "long"],
        }
    }

    /// Returns what a line gains.
    pub(crate) fn gain(self, words: &mut Words, text: &str, terms: &[Term]) -> f32 {
        let mut gain = 0.0;
        if let Some(label) = label(text)
            && words
                .of(label)
                .iter()
                .any(|word| terms.iter().any(|term| term.word.code == word.code))
        {
            gain += SPEAKER;
        }
        if says_when(text) {
            gain += TIME + if self.asks_when { ASKED } else { 0.0 };
        }
        gain
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
        let lower = || word.chars().flat_map(char::to_lowercase);
        is_number
            || (word.len() < 16
                && TIMES
                    .binary_search_by(|time| time.chars().cmp(lower()))
                    .is_ok())
    })
}

/// With which a question for a time begins: English, German, French, Spanish, Italian, Portuguese, Dutch, Russian.
const WHEN: &[&str] = &[
    "when",
    "wann",
    "quand",
    "cuándo",
    "cuando",
    "quando",
    "wanneer",
    "когда",
];

/// Words of time in the same languages, in order.
const TIMES: &[&str] = &[
    "ago",
    "ahora",
    "amanhã",
    "anno",
    "ano",
    "april",
    "august",
    "año",
    "december",
    "domani",
    "february",
    "friday",
    "gestern",
    "gisteren",
    "heute",
    "hier",
    "hoje",
    "hoy",
    "ieri",
    "jahr",
    "jahre",
    "january",
    "july",
    "june",
    "last",
    "letzte",
    "letzten",
    "march",
    "may",
    "mañana",
    "mes",
    "mois",
    "monat",
    "monate",
    "monday",
    "month",
    "months",
    "morgen",
    "next",
    "november",
    "october",
    "oggi",
    "ontem",
    "recently",
    "saturday",
    "semaine",
    "semana",
    "september",
    "settimana",
    "since",
    "sunday",
    "thursday",
    "today",
    "tomorrow",
    "tonight",
    "tuesday",
    "vandaag",
    "wednesday",
    "week",
    "weekend",
    "weeks",
    "woche",
    "wochen",
    "year",
    "years",
    "yesterday",
    "вчера",
    "год",
    "завтра",
    "месяц",
    "неделю",
    "сегодня",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_in_lines_and_questions() {
        assert!(
            TIMES.is_sorted(),
            "they are searched for by halves: {:?}",
            TIMES.windows(2).find(|two| two[0] > two[1])
        );
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
        assert!(Cues::of("When did it rain?").asks_when && Cues::of("Und wann war das?").asks_when);
        assert!(
            Cues::of("how long was it").asks_when
                && !Cues::of("what happened when it rained").asks_when
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
