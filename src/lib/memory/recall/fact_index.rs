//! Facts indexed by their words and by whom they are about. Aliases are resolved: `Bob` is `Robert` where a fact says so,
//! and `my sister` is whoever that is.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::language::tokenize::{ByCode, Codes, Words};
use crate::memory::facts::{ALIAS, Fact, folded};
use crate::memory::scope::Viewer;

/// The name of the user in facts.
pub(super) const USER: &str = "user";

/// Facts, indexed.
#[derive(Default)]
pub(super) struct FactIndex {
    facts: Vec<Fact>,
    /// The words of each.
    words: Vec<FactWords>,
    /// Word → facts with it.
    by_word: ByCode<Vec<usize>>,
    /// Entity, folded → facts about it.
    by_entity: HashMap<String, Vec<usize>>,
    aliases: Vec<Alias>,
}

/// The words of a fact, as codes.
struct FactWords {
    /// The entity, folded.
    name: String,
    entity: Vec<u32>,
    attribute: Vec<u32>,
    value: Vec<u32>,
}

/// Two names of one entity: each folded, with its words.
struct Alias {
    fact: usize,
    names: [(String, Vec<u32>); 2],
}

/// A fact that is relevant to a message.
pub(super) struct FactMatch<'a> {
    pub fact: &'a Fact,
    /// 0: it is about whom the message names; 1: it has one of its words.
    pub distance: u8,
    /// The weight of the message's words in it; rare words weigh more.
    pub weight: f64,
}

impl FactIndex {
    pub(super) fn new(facts: Vec<Fact>, words: &mut Words) -> Self {
        let mut index = Self::default();
        for (at, fact) in facts.iter().enumerate() {
            let words = FactWords::new(words, fact);
            for code in words.all() {
                let there = index.by_word.entry(code).or_default();
                // A word that occurs twice in a fact counts once.
                if there.last() != Some(&at) {
                    there.push(at);
                }
            }
            let of_entity = index.by_entity.entry(words.name.clone());
            of_entity.or_default().push(at);
            if folded(&fact.attribute) == ALIAS {
                let names = [
                    (words.name.clone(), words.entity.clone()),
                    (folded(&fact.value), words.value.clone()),
                ];
                index.aliases.push(Alias { fact: at, names });
            }
            index.words.push(words);
        }
        Self { facts, ..index }
    }

    /// Returns the facts about the user that `viewer` may see.
    pub(super) fn of_user<'a>(&'a self, viewer: &Viewer) -> impl Iterator<Item = &'a Fact> {
        let all = self.by_entity.get(USER).into_iter().flatten();
        all.map(|at| &self.facts[*at])
            .filter(move |fact| viewer.may_see(&fact.scope))
    }

    /// Returns the facts that `viewer` may see and that are relevant to a message with the words `asked`, in no order.
    pub(super) fn matches(&self, asked: &Codes, viewer: &Viewer) -> Vec<FactMatch<'_>> {
        let sees = |at: usize| viewer.may_see(&self.facts[at].scope);
        let said: HashSet<usize> = asked
            .iter()
            .filter_map(|code| self.by_word.get(code))
            .flatten()
            .copied()
            .collect();
        let mut found: HashMap<usize, u8> = HashMap::new();
        let named = self.other_names(HashSet::new(), asked, &sees);
        let mut mentioned = named.clone();
        for at in said.into_iter().filter(|at| sees(*at)) {
            let (fact, words) = (&self.facts[at], &self.words[at]);
            let has = |words: &[u32]| words.iter().any(|word| asked.contains(word));
            let is_named = has(&words.entity) || named.contains(&words.name);
            let has_attribute = has(&words.attribute);
            if is_named || (fact.entity == USER && has_attribute) {
                found.insert(at, 0);
                // `my sister`, `Ana's dog`: the value is who is mentioned.
                if has_attribute {
                    mentioned.insert(folded(&fact.value));
                }
            } else if has(&words.value) {
                found.insert(at, 1);
            }
        }
        let named = self.other_names(mentioned, asked, &sees);
        let of_named = named
            .iter()
            .filter_map(|name| self.by_entity.get(name))
            .flatten();
        found.extend(of_named.filter(|at| sees(**at)).map(|at| (*at, 0)));
        let matches = found.into_iter().map(|(at, distance)| {
            let words = &self.words[at];
            let is_other_name = named.contains(&words.name);
            let counts =
                |code: &u32| asked.contains(code) || (is_other_name && words.entity.contains(code));
            // Sorted: the same words have the same sum.
            let codes: BTreeSet<u32> = words.all().filter(counts).collect();
            FactMatch {
                fact: &self.facts[at],
                distance,
                weight: codes.iter().map(|code| self.weight(*code)).sum(),
            }
        });
        matches.collect()
    }

    /// Returns all names, folded, of the entities in `named` and of those whom a message names by an alias.
    fn other_names(
        &self,
        mut named: HashSet<String>,
        asked: &Codes,
        sees: &dyn Fn(usize) -> bool,
    ) -> HashSet<String> {
        loop {
            let before = named.len();
            for alias in self.aliases.iter().filter(|alias| sees(alias.fact)) {
                let is_named = |(name, words): &(String, Vec<u32>)| {
                    let is_said = name != USER
                        && !words.is_empty()
                        && words.iter().all(|word| asked.contains(word));
                    is_said || named.contains(name)
                };
                if alias.names.iter().any(is_named) {
                    named.extend(alias.names.iter().map(|(name, _)| name.clone()));
                }
            }
            // An alias may have an alias.
            if named.len() == before {
                return named;
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a weight")]
    fn weight(&self, code: u32) -> f64 {
        let having = self.by_word.get(&code).map_or(1, Vec::len);
        (1.0 + self.facts.len() as f64 / having as f64).ln()
    }
}

impl FactWords {
    fn new(words: &mut Words, fact: &Fact) -> Self {
        let mut codes = |text: &str| words.of_query(text).iter().map(|word| word.code).collect();
        // Of `user's sister` it is the sister who is named.
        let named = fact
            .entity
            .strip_prefix("user's ")
            .or_else(|| fact.entity.strip_prefix("user’s "))
            .unwrap_or(&fact.entity);
        Self {
            name: folded(&fact.entity),
            entity: codes(if named == USER { "" } else { named }),
            attribute: codes(&fact.attribute),
            value: codes(&fact.value),
        }
    }

    fn all(&self) -> impl Iterator<Item = u32> {
        self.entity
            .iter()
            .chain(&self.attribute)
            .chain(&self.value)
            .copied()
    }
}
