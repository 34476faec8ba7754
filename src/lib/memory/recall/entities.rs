//! Facts by the words they are told with, and by whom they are about: `Bob` is `Robert` where somebody said so,
//! and `my sister` is whoever that is.

use std::collections::{HashMap, HashSet};

use crate::language::tokenize::{ByCode, Codes, Words};
use crate::memory::facts::{ALIAS, Fact, folded};
use crate::memory::scope::Viewer;

/// What the person of a scope is called in facts.
pub(super) const USER: &str = "user";

/// Facts, ready to be compared with messages.
#[derive(Default)]
pub(super) struct Filed {
    facts: Vec<Fact>,
    /// The words of each.
    told: Vec<Told>,
    /// Word → facts that have it.
    by_word: ByCode<Vec<usize>>,
    /// Entity, folded → facts about it.
    by_entity: HashMap<String, Vec<usize>>,
    aliases: Vec<Alias>,
}

/// The words of a fact, as they are compared.
#[derive(Default)]
struct Told {
    /// Whom it is about, folded.
    whom: String,
    entity: Vec<u32>,
    attribute: Vec<u32>,
    value: Vec<u32>,
}

/// Two names of one: each folded, with its words.
struct Alias {
    fact: usize,
    names: [(String, Vec<u32>); 2],
}

/// A fact that bears on a message.
pub(super) struct Near<'a> {
    pub fact: &'a Fact,
    /// 0: it is about whom the message names or speaks of; 1: it says one of its words.
    pub distance: u8,
    /// The weight of the message's words in it; a rare word weighs more.
    pub weight: f64,
}

impl Filed {
    pub(super) fn new(facts: Vec<Fact>, words: &mut Words) -> Self {
        let mut filed = Self {
            told: facts.iter().map(|fact| told(words, fact)).collect(),
            ..Self::default()
        };
        for (at, (fact, told)) in facts.iter().zip(&filed.told).enumerate() {
            for code in told.all() {
                let there = filed.by_word.entry(code).or_default();
                // A word that comes twice in a fact is one word of it.
                if there.last() != Some(&at) {
                    there.push(at);
                }
            }
            filed
                .by_entity
                .entry(told.whom.clone())
                .or_default()
                .push(at);
            if folded(&fact.attribute) == ALIAS {
                let names = [
                    (told.whom.clone(), told.entity.clone()),
                    (folded(&fact.value), told.value.clone()),
                ];
                filed.aliases.push(Alias { fact: at, names });
            }
        }
        Self { facts, ..filed }
    }

    /// Returns the facts of the person that `viewer` may see.
    pub(super) fn of_user<'a>(&'a self, viewer: &Viewer) -> impl Iterator<Item = &'a Fact> {
        let all = self
            .by_entity
            .get(USER)
            .into_iter()
            .flatten()
            .filter_map(|at| self.facts.get(*at));
        all.filter(move |fact| viewer.may_see(&fact.scope))
    }

    /// Returns the facts that `viewer` may see and that bear on a message with the words `asked`, in no order.
    pub(super) fn near(&self, asked: &Codes, viewer: &Viewer) -> Vec<Near<'_>> {
        let sees = |at: usize| {
            self.facts
                .get(at)
                .is_some_and(|fact| viewer.may_see(&fact.scope))
        };
        let said: HashSet<usize> = asked
            .iter()
            .filter_map(|code| self.by_word.get(code))
            .flatten()
            .copied()
            .collect();
        let mut found: HashMap<usize, u8> = HashMap::new();
        let named = self.other_names(HashSet::new(), asked, &sees);
        let mut spoken_of = named.clone();
        for at in said.into_iter().filter(|at| sees(*at)) {
            let (Some(fact), Some(told)) = (self.facts.get(at), self.told.get(at)) else {
                continue;
            };
            let has = |words: &[u32]| words.iter().any(|word| asked.contains(word));
            let is_named = has(&told.entity) || named.contains(&told.whom);
            let says_what = has(&told.attribute);
            if is_named || (fact.entity == USER && says_what) {
                found.insert(at, 0);
                // `my sister`, `Ana's dog`: it is they who are spoken of.
                if says_what {
                    spoken_of.insert(folded(&fact.value));
                }
            } else if has(&told.value) {
                found.insert(at, 1);
            }
        }
        let named = self.other_names(spoken_of, asked, &sees);
        let of_named = named
            .iter()
            .filter_map(|name| self.by_entity.get(name))
            .flatten();
        found.extend(of_named.filter(|at| sees(**at)).map(|at| (*at, 0)));
        let near = found.into_iter().filter_map(|(at, distance)| {
            let (fact, told) = (self.facts.get(at)?, self.told.get(at)?);
            let is_other_name = named.contains(&told.whom);
            let counts =
                |code: &u32| asked.contains(code) || (is_other_name && told.entity.contains(code));
            // Sorted, so that the same words weigh the same.
            let mut words: Vec<u32> = told.all().filter(counts).collect();
            words.sort_unstable();
            words.dedup();
            Some(Near {
                fact,
                distance,
                weight: words.iter().map(|code| self.weight(*code)).sum(),
            })
        });
        near.collect()
    }

    /// Returns `named` with all names of those, and the other names of those whom a message names, folded.
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
            // A name may lead to the next.
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

impl Told {
    fn all(&self) -> impl Iterator<Item = u32> {
        self.entity
            .iter()
            .chain(&self.attribute)
            .chain(&self.value)
            .copied()
    }
}

fn told(words: &mut Words, fact: &Fact) -> Told {
    let mut of = |text: &str| words.of_query(text).iter().map(|word| word.code).collect();
    // Of `user's sister` it is the sister who is named.
    let named = fact
        .entity
        .strip_prefix("user's ")
        .or_else(|| fact.entity.strip_prefix("user’s "))
        .unwrap_or(&fact.entity);
    let entity = if named == USER { "" } else { named };
    Told {
        whom: folded(&fact.entity),
        entity: of(entity),
        attribute: of(&fact.attribute),
        value: of(&fact.value),
    }
}
