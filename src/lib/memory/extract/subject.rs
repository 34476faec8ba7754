//! The subject of a clause: "I", "my sister Ana", "Ana's birthday".

use super::Voice;
use super::value::{is_name, is_name_word};
use super::words::{Word, base, between, low, phrase_at};
use crate::language::pack::{Pack, ValueKind, english};

/// The entity of the speaker.
pub(super) const USER: &str = "user";

/// What is before the verb.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Subject {
    pub entity: String,
    pub role: Role,
    /// That the entity is the relation of somebody: (owner, relation, name).
    pub related: Option<(String, String, String)>,
}

/// What a verb may say about the subject.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Role {
    /// The speaker.
    First,
    /// "We": only where one lives.
    We,
    /// A person or animal; of whom it is the relation, when it has no name here.
    Other(Option<(String, String)>),
    /// "my birthday": what it is follows.
    Attribute(String, ValueKind),
}

impl Subject {
    pub(super) fn new(entity: &str, role: Role) -> Self {
        Self {
            entity: entity.to_owned(),
            role,
            related: None,
        }
    }

    /// Returns true for somebody with a name.
    pub(super) fn is_named(&self) -> bool {
        self.role == Role::Other(None)
    }
}

/// Returns the subject `words` begin with and how many words it has.
pub(super) fn subject(words: &[Word], voice: Voice, pack: &Pack) -> Option<(Subject, usize)> {
    let first = words.first()?;
    let low_first = first.low.as_str();
    if voice.first_person && low_first == pack.facts.i {
        return Some((Subject::new(USER, Role::First), 1));
    }
    if voice.first_person && pack.facts.my.has(low_first) {
        let (subject, next) = noun(words, 1, USER, pack, 0)?;
        let is_ours = |what: &str| what.ends_with("anniversary") || what == "address";
        let is_shared = matches!(&subject.role, Role::Attribute(what, _) if low_first == "our" && !is_ours(what));
        return (!is_shared).then_some((subject, next));
    }
    // Without "I" or "my" only English sentences are read.
    let facts = &pack.facts;
    if facts.relation_words.is_empty() {
        return None;
    }
    if voice.first_person && low_first == "we" {
        return Some((Subject::new(USER, Role::We), 1));
    }
    let user = usize::from(low_first == "the");
    if voice.about_user && low(words, user) == "user" {
        return match low(words, user + 1) {
            "'s" => noun(words, user + 2, USER, pack, 0),
            _ => Some((Subject::new(USER, Role::First), user + 1)),
        };
    }
    // "mum's birthday"
    let is_parent = facts.parents.has(low_first);
    let is_small_parent = is_parent && !first.is_capital() && low(words, 1) == "'s";
    let end = if is_small_parent && voice.first_person {
        1
    } else {
        name_end(words, 0)?
    };
    if end == 1 && english().values.no_places.has(low_first) {
        return None;
    }
    let name = if end == 1 && is_parent {
        format!("{USER}'s {low_first}")
    } else {
        written(between(words, 0, end))
    };
    if low(words, end) == "'s"
        && let Some(found) = noun(words, end + 1, &name, pack, 0)
    {
        return Some(found);
    }
    let mut subject = Subject::new(&name, Role::Other(None));
    // "Ana, my sister, lives …"
    if voice.first_person && low(words, end) == "," && low(words, end + 1) == "my" {
        let (label, next) = relation(words, end + 2, pack)?;
        subject.related = Some((USER.to_owned(), label, name));
        return (low(words, next) == ",").then_some((subject, next + 1));
    }
    Some((subject, end))
}

/// Returns what "my …" or "Ana's …" means; `at` is behind the owner.
fn noun(
    words: &[Word],
    at: usize,
    owner: &str,
    pack: &Pack,
    depth: usize,
) -> Option<(Subject, usize)> {
    let at = at + usize::from(matches!(low(words, at), "new" | "current"));
    if let Some((attribute, kind, next)) = attribute(words, at, pack) {
        let role = Role::Attribute(attribute, kind);
        return Some((Subject::new(owner, role), next));
    }
    let (label, next) = relation(words, at, pack)?;
    let entity = format!("{owner}'s {label}");
    if low(words, next) == "'s" && depth < 2 {
        if low(words, next + 1) == "name" {
            let kind = name_kind(&label);
            let role = Role::Attribute(label, kind);
            return Some((Subject::new(owner, role), next + 2));
        }
        let found = noun(words, next + 1, &entity, pack, depth + 1);
        if found.is_some() {
            return found;
        }
    }
    let comma = usize::from(low(words, next) == ",");
    let from = next + comma;
    let end = name_end(words, from).filter(|end| comma == 0 || low(words, *end) == ",");
    let Some(end) = end else {
        let role = Role::Other(Some((owner.to_owned(), label)));
        return Some((Subject::new(&entity, role), next));
    };
    let name = written(between(words, from, end));
    let related = Some((owner.to_owned(), label, name.clone()));
    if low(words, end) == "'s"
        && depth < 2
        && let Some((mut found, next)) = noun(words, end + 1, &name, pack, depth + 1)
    {
        found.related = found.related.or(related);
        return Some((found, next));
    }
    let mut subject = Subject::new(&name, Role::Other(None));
    subject.related = related;
    Some((subject, end + comma))
}

/// Returns one name, or several for "parents".
pub(super) fn name_kind(label: &str) -> ValueKind {
    if english().facts.plural.has(label) {
        ValueKind::Names
    } else {
        ValueKind::Name
    }
}

/// Returns the label of the relation at `at`, in English, and where it ends: "sister", "best friend".
pub(super) fn relation(words: &[Word], at: usize, pack: &Pack) -> Option<(String, usize)> {
    let facts = &pack.facts;
    let mut labels = facts.relations.iter();
    if let Some((label, _)) = labels.find(|(_, names)| names.has(low(words, at))) {
        return Some((label.clone(), at + 1));
    }
    let at = at + usize::from(low(words, at) == "new");
    let degree = low(words, at);
    let has_degree = facts.degrees.has(degree);
    let word = low(words, at + usize::from(has_degree));
    let label = match has_degree {
        true => format!("{degree} {word}"),
        false => word.to_owned(),
    };
    let is_relation = facts.relation_words.has(word);
    is_relation.then(|| (label, at + usize::from(has_degree) + 1))
}

/// Returns where the name at `at` ends: at most three words, and particles.
pub(super) fn name_end(words: &[Word], at: usize) -> Option<usize> {
    let is_particle =
        |word: &Word| word.is(&["de", "da", "do", "dos", "di", "del", "van", "von", "der"]);
    let (mut end, mut names) = (at, 0);
    while end - at < 4 {
        let Some(word) = words.get(end) else { break };
        let is_name = is_name_word(word);
        let after = words.iter().skip(end).find(|word| !is_particle(word));
        let is_between = end > at && is_particle(word) && after.is_some_and(is_name_word);
        if !is_between && (!is_name || names == 3) {
            break;
        }
        names += usize::from(is_name);
        end += 1;
    }
    (end > at && is_name(words.get(at..end)?)).then_some(end)
}

fn written(words: &[Word]) -> String {
    let parts: Vec<&str> = words.iter().map(|word| word.raw.as_str()).collect();
    // The stop of the sentence.
    parts.join(" ").trim_end_matches('.').to_owned()
}

/// Returns the attribute at `at` in its normal form, what it wants, and where it ends.
pub(super) fn attribute(
    words: &[Word],
    at: usize,
    pack: &Pack,
) -> Option<(String, ValueKind, usize)> {
    let facts = &pack.facts;
    let is_be = |at: usize| base(pack, low(words, at)) == "be";
    if matches!(low(words, at), "favourite" | "favorite") {
        // "my favourite ice cream is": up to three words before the verb.
        let end = (at + 1..at + 5).find(|end| is_be(*end))?;
        let what: Vec<&str> = between(words, at + 1, end)
            .iter()
            .map(|word| word.low.as_str())
            .collect();
        let is_vague = what.iter().any(|word| facts.vague_favourites.has(word));
        // "My favourite team is losing."
        let is_named = facts.named_favourites.has(what.last()?);
        let kind = if is_named {
            ValueKind::Proper
        } else {
            ValueKind::Short
        };
        return (!is_vague).then(|| (format!("favourite {}", what.join(" ")), kind, end));
    }
    let ends = |end: usize| end >= words.len() || is_be(end) || words[end].is_mark();
    facts.attributes.iter().find_map(|(phrase, normal, kind)| {
        let end = phrase_at(words, at, phrase).filter(|end| ends(*end))?;
        Some((normal.clone(), *kind, end))
    })
}
