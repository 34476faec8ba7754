//! The language packs: one file per language in `packs/`, parsed once. The index, the extraction of facts and the
//! offline provider read the same files.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer};

/// Words, or phrases with one space between words, in lower case. In the file: one text with words between white space,
/// or a list of texts.
#[derive(Debug, Default)]
pub(crate) struct WordList(HashSet<String>);

impl WordList {
    pub(crate) fn has(&self, word: &str) -> bool {
        self.0.contains(word)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for WordList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Words(String),
            Phrases(Vec<String>),
        }
        Ok(Self(match Written::deserialize(deserializer)? {
            Written::Words(words) => words.split_whitespace().map(str::to_owned).collect(),
            Written::Phrases(phrases) => phrases.into_iter().collect(),
        }))
    }
}

/// Phrases in the order of the file, their words parted by one space, marks (`,` `:`) words of their own.
pub(crate) type Phrases = Vec<String>;

/// What is stated by a phrase: the phrase, the attribute, and what its value looks like.
pub(crate) type Row = (String, String, ValueKind);

/// The head of a file, before its first section: all that the search index needs. Read apart from the rest, because
/// that takes ten times as long.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SmallWords {
    /// What the language is called in itself.
    pub name: String,
    pub stop_words: WordList,
    pub small_words: WordList,
    pub irregular: Phrases,
}

/// The sections of a file. One that it leaves out is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Pack {
    pub statements: Statements,
    pub facts: Facts,
    pub values: Values,
    pub promises: Promises,
    pub calendar: Calendar,
    pub notes: Notes,
    pub answers: Answers,
    pub requests: Requests,
}

/// Which sentences state something.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Statements {
    pub starters: Phrases,
    pub wrappers: Phrases,
    pub hedges: Phrases,
    pub passing: Phrases,
    pub takes_back: Phrases,
    pub polite: Phrases,
    pub text_requests: Phrases,
    pub own_texts: Phrases,
    pub own_labels: Phrases,
    pub secret_phrases: Phrases,
    pub rights_phrases: Phrases,
    pub addressed: WordList,
    pub asking: WordList,
    pub reported: WordList,
    pub text_work: WordList,
    pub pointers: WordList,
    pub texts: WordList,
    pub is_correct: WordList,
    pub greetings: WordList,
    pub first_person: WordList,
    pub speaks: WordList,
    pub no: WordList,
    pub before_day: WordList,
    pub secrets: WordList,
    pub rights: WordList,
    pub abbreviations: WordList,
    pub open_ends: WordList,
}

/// Of whom something is said, and by which verbs.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Facts {
    pub i: String,
    /// "I" may be left out.
    pub pro_drop: bool,
    pub my: WordList,
    pub forms: Phrases,
    pub third: WordList,
    pub continues: WordList,
    pub joints: WordList,
    pub cuts: WordList,
    pub adverbs: WordList,
    pub no_value: WordList,
    pub over: Vec<WordList>,
    pub places: WordList,
    pub articles: WordList,
    pub indefinite: WordList,
    pub before_value: WordList,
    pub relation_words: WordList,
    pub plural: WordList,
    pub degrees: WordList,
    pub parents: WordList,
    pub languages: WordList,
    pub jobs: WordList,
    pub traits: WordList,
    pub trait_nouns: WordList,
    pub trait_phrases: WordList,
    pub numbers: WordList,
    pub many: WordList,
    pub vague_favourites: WordList,
    pub named_favourites: WordList,
    pub left_job: Phrases,
    pub left_home: Phrases,
    pub rows: Vec<Row>,
    pub attributes: Vec<Row>,
    /// The English name of a relation, and the words for it.
    pub relations: BTreeMap<String, WordList>,
}

/// What a value may look like. Only the English lists are used, for all languages: a value is mostly names.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Values {
    pub cuts: WordList,
    pub cut_phrases: Phrases,
    pub no_value: WordList,
    pub no_names: WordList,
    pub brands: WordList,
    pub no_places: WordList,
    pub no_thing: WordList,
    pub hobbies: WordList,
    pub pastimes: WordList,
    pub states: WordList,
    pub name_particles: WordList,
    pub place_particles: WordList,
    pub workplaces: WordList,
    pub possessions: WordList,
    pub illnesses: WordList,
    pub passing_possessions: WordList,
    pub played: WordList,
    pub played_before: WordList,
    pub lasting: WordList,
    pub kinds: BTreeMap<ValueKind, KindRules>,
}

/// What an attribute wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ValueKind {
    /// One name: "Ana", "Dr. Weber", "Rui da Costa".
    Name,
    /// One or several names.
    Names,
    /// "Porto", "the Netherlands", "Porto, Portugal".
    Place,
    /// A day: "3 May", "May 3rd 1990", "3.5.1990".
    Date,
    /// "Siemens", "a bakery", "the Ministry of Health".
    Employer,
    /// "nurse", "primary school teacher", after "works as".
    Job,
    /// A job that is on the list, after "is a".
    KnownJob,
    /// "jazz", "long walks by the sea".
    Thing,
    /// "pork", "shellfish".
    Food,
    /// Names of languages.
    Languages,
    /// Something one studies.
    Subject,
    /// "two cats", "a garden": a thing on the list.
    Possession,
    /// An instrument or a game on the list.
    Played,
    Email,
    Phone,
    /// 1 to 120.
    Age,
    /// Has a digit: a street, a size.
    Numbered,
    /// Begins with a capital letter: a product.
    Proper,
    /// "A positive", "0+".
    BloodType,
    /// A few plain words.
    Short,
}

/// What holds of every value of a kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct KindRules {
    pub cut: WordList,
    pub articles: WordList,
    /// A comma may belong to it.
    pub list: bool,
    /// At most so many words; 0 for no limit of its own.
    pub max_words: usize,
    /// Each word has a letter.
    pub plain: bool,
    pub no_digit: bool,
    /// It begins with none of `no_thing`.
    pub thing: bool,
    /// It ends with none of `states`.
    pub not_state: bool,
    pub not_first: WordList,
    pub not_last: WordList,
}

/// How one promises something, or asks to be reminded.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Promises {
    pub asked: Phrases,
    pub about: Phrases,
    pub will: Phrases,
    pub fillers: Phrases,
    pub hedges: Phrases,
    pub infinitives: Phrases,
    pub polite: Phrases,
    pub promised: Phrases,
    pub prefixes: Phrases,
    pub doing: WordList,
    pub joints: WordList,
    pub cuts: WordList,
    pub vague: WordList,
    pub questions: WordList,
    pub negations: WordList,
    /// A bare order is one's own where it is wrapped: "remember to call …".
    pub orders: bool,
    /// "den Bericht abgeben"
    pub verb_last: bool,
}

/// Days and times.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Calendar {
    /// From Monday on.
    pub weekdays: Vec<WordList>,
    /// From January on.
    pub months: Vec<WordList>,
    pub today: Phrases,
    pub tomorrow: Phrases,
    pub after_tomorrow: Phrases,
    pub by: Phrases,
    pub before: Phrases,
    pub article: Phrases,
    pub this: Phrases,
    pub next: Phrases,
    pub part: Phrases,
    pub end_of_week: Phrases,
    pub end_of_month: Phrases,
    pub weekend: Phrases,
    pub next_week: Phrases,
    pub next_month: Phrases,
    pub within: Phrases,
    /// From one to ten.
    pub counts: Vec<Phrases>,
    pub hours: Phrases,
    pub minutes: Phrases,
    pub days: Phrases,
    pub weeks: Phrases,
    pub month_units: Phrases,
    pub of: Phrases,
    pub at: Phrases,
    pub oclock: Phrases,
    pub noon: Phrases,
    pub midnight: Phrases,
    pub day_parts: Phrases,
    pub no_deadline: WordList,
    pub every: WordList,
    pub or: WordList,
    pub not: WordList,
    pub instead: WordList,
    pub next_is_coming: bool,
    pub dotted: bool,
    pub day_first: bool,
}

/// Memory files.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Notes {
    pub user_headings: Phrases,
    pub plain_headings: WordList,
    pub verbs: WordList,
    pub keys: Vec<Row>,
}

/// A yes to a question of the agent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Answers {
    pub yes: Phrases,
    pub question_starters: Phrases,
    pub question_tags: Phrases,
    pub not_turned: WordList,
}

/// What a person asks the offline provider for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Requests {
    pub polite: Phrases,
    pub greetings: Phrases,
    pub asks_us: Phrases,
    pub wishes: Phrases,
    pub remember: Phrases,
    pub note: Phrases,
    pub that: Phrases,
    pub this: Phrases,
    pub tags: Phrases,
    pub remember_that: Phrases,
    pub secrets: Phrases,
    pub number_secrets: Phrases,
    pub is: WordList,
    pub summarise: Phrases,
    pub attached: WordList,
    pub following: Phrases,
    pub file: Phrases,
    pub conversation: Phrases,
    pub talked_about: Phrases,
    pub look_up: Phrases,
    pub asking: WordList,
    pub auxiliaries: WordList,
    pub subjects: WordList,
    pub praise: WordList,
    pub small_talk: Vec<SmallTalk>,
}

/// Words with an answer of their own.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SmallTalk {
    pub phrases: Phrases,
    /// 0: the words are one of the phrases. Else they begin with one, and are at most so many.
    pub max_words: usize,
    /// `{introduction}`, `{configure}`, `{name}` and `{time}` are filled in.
    pub answer: String,
}

impl Pack {
    /// Returns the number of the month that `word` names, from 1, in full or short.
    pub(crate) fn month(&self, word: &str) -> Option<u32> {
        number_of(&self.calendar.months, word)
    }

    /// Returns the number of the weekday that `word` names: 1 is Monday.
    pub(crate) fn weekday(&self, word: &str) -> Option<u32> {
        number_of(&self.calendar.weekdays, word)
    }
}

fn number_of(names: &[WordList], word: &str) -> Option<u32> {
    (1..)
        .zip(names)
        .find_map(|(number, names)| names.has(word).then_some(number))
}

/// The files, English first.
const FILES: [&str; 11] = [
    include_str!("packs/en.toml"),
    include_str!("packs/de.toml"),
    include_str!("packs/es.toml"),
    include_str!("packs/fr.toml"),
    include_str!("packs/it.toml"),
    include_str!("packs/pt.toml"),
    include_str!("packs/nl.toml"),
    include_str!("packs/ru.toml"),
    include_str!("packs/pl.toml"),
    include_str!("packs/sv.toml"),
    include_str!("packs/tr.toml"),
];

/// Returns the head of a file and its sections.
fn parts(file: &str) -> (&str, &str) {
    file.split_at(file.find("\n[").unwrap_or(file.len()))
}

/// Returns the small words of all languages, English first.
pub(crate) fn small_words() -> &'static [SmallWords] {
    static WORDS: LazyLock<Vec<SmallWords>> = LazyLock::new(|| {
        let words = FILES.iter().map(|file| toml::from_str(parts(file).0));
        let words: Result<Vec<SmallWords>, _> = words.collect();
        words.expect("a language pack is part of the program")
    });
    &WORDS
}

/// Returns all languages, English first.
pub(crate) fn packs() -> &'static [Pack] {
    static PACKS: LazyLock<Vec<Pack>> = LazyLock::new(|| {
        let packs = FILES.iter().map(|file| toml::from_str(parts(file).1));
        let packs: Result<Vec<Pack>, _> = packs.collect();
        packs.expect("a language pack is part of the program")
    });
    &PACKS
}

/// Returns English.
pub(crate) fn english() -> &'static Pack {
    packs().first().expect("English is the first pack")
}

/// Returns true when a list of some language has `word`.
pub(crate) fn any_has(list: fn(&Pack) -> &WordList, word: &str) -> bool {
    packs().iter().any(|pack| list(pack).has(word))
}

/// Returns true when `word` names a month in some language.
pub(crate) fn is_month(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ',']).to_lowercase();
    packs().iter().any(|pack| pack.month(&word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pack_is_read() {
        assert!(small_words().iter().all(|words| !words.name.is_empty()));
        let small =
            |words: &SmallWords| !words.stop_words.is_empty() || !words.small_words.is_empty();
        assert!(small_words().iter().all(small));
        let dated = packs().iter().map(|pack| &pack.calendar);
        let dated: Vec<&Calendar> = dated.filter(|calendar| !calendar.by.is_empty()).collect();
        assert_eq!((packs().len(), dated.len()), (11, 4));
        for calendar in dated {
            let months = calendar.months.len();
            let counts = (months, calendar.weekdays.len(), calendar.counts.len());
            assert_eq!(counts, (12, 7, 10));
        }
    }
}
