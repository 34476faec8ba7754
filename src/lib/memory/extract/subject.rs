//! Who or what a clause speaks of: "I", "my sister Ana", "Ana's birthday".

use super::Voice;
use super::value::{Kind, is_name, name_word};
use super::vocabulary as v;
use super::words::{Word, phrase_at};

/// The entity of the speaker.
pub(super) const USER: &str = "user";

/// What stands before the verb.
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
    Attribute(String, Kind),
}

/// Returns the subject `words` begin with and how many words it has.
pub(super) fn subject(words: &[Word], voice: Voice) -> Option<(Subject, usize)> {
    let plain = |entity: &str, role, next| {
        Some((
            Subject {
                entity: entity.into(),
                role,
                related: None,
            },
            next,
        ))
    };
    let first = words.first()?;
    match first.low.as_str() {
        "i" if voice.first_person => return plain(USER, Role::First, 1),
        "we" if voice.first_person => return plain(USER, Role::We, 1),
        "my" | "our" if voice.first_person => {
            let (subject, next) = noun(words, 1, USER, 0)?;
            let ours =
                |attribute: &str| attribute.ends_with("anniversary") || attribute == "address";
            let shared = matches!(&subject.role, Role::Attribute(what, _) if first.low == "our" && !ours(what));
            return (!shared).then_some((subject, next));
        }
        _ => {}
    }
    if voice.about_user
        && let Some(next) = phrase_at(words, 0, "the user").or_else(|| phrase_at(words, 0, "user"))
    {
        return if words.get(next).is_some_and(|word| word.low == "'s") {
            noun(words, next + 1, USER, 0)
        } else {
            plain(USER, Role::First, next)
        };
    }
    // "mum's birthday"
    let small_parent = v::among(v::PARENTS, &first.low)
        && !first.is_capital()
        && words.get(1).is_some_and(|word| word.low == "'s");
    let end = if small_parent && voice.first_person {
        1
    } else {
        name_end(words, 0)?
    };
    if end == 1 && v::among(v::NO_PLACES, &first.low) {
        return None;
    }
    let name = render(words, 0, end);
    let name = if end == 1 && v::among(v::PARENTS, &first.low) {
        format!("{USER}'s {}", first.low)
    } else {
        name
    };
    if words.get(end).is_some_and(|word| word.low == "'s")
        && let Some(found) = noun(words, end + 1, &name, 0)
    {
        return Some(found);
    }
    // "Ana, my sister, lives …"
    if voice.first_person
        && words.get(end).is_some_and(|word| word.low == ",")
        && words.get(end + 1).is_some_and(|word| word.low == "my")
    {
        let (label, next) = relation(words, end + 2)?;
        let related = Some((USER.to_owned(), label, name.clone()));
        if words.get(next).is_some_and(|word| word.low == ",") {
            return Some((
                Subject {
                    entity: name,
                    role: Role::Other(None),
                    related,
                },
                next + 1,
            ));
        }
        return None;
    }
    plain(&name, Role::Other(None), end)
}

/// Returns what "my …" or "Ana's …" means; `at` is behind the owner.
fn noun(words: &[Word], at: usize, owner: &str, depth: usize) -> Option<(Subject, usize)> {
    let newer = words
        .get(at)
        .is_some_and(|word| matches!(word.low.as_str(), "new" | "current"));
    let at = at + usize::from(newer);
    if let Some((attribute, kind, next)) = attribute(words, at) {
        return Some((
            Subject {
                entity: owner.into(),
                role: Role::Attribute(attribute, kind),
                related: None,
            },
            next,
        ));
    }
    let (label, next) = relation(words, at)?;
    let entity = format!("{owner}'s {label}");
    let is = |at: usize, low: &str| words.get(at).is_some_and(|word| word.low == low);
    if is(next, "'s") && depth < 2 {
        if is(next + 1, "name") {
            let kind = if v::among(v::PLURAL, &label) {
                Kind::Names
            } else {
                Kind::Name
            };
            return Some((
                Subject {
                    entity: owner.into(),
                    role: Role::Attribute(label, kind),
                    related: None,
                },
                next + 2,
            ));
        }
        if let Some(found) = noun(words, next + 1, &entity, depth + 1) {
            return Some(found);
        }
    }
    let comma = is(next, ",");
    let from = next + usize::from(comma);
    if let Some(end) = name_end(words, from).filter(|end| !comma || is(*end, ",")) {
        let name = render(words, from, end);
        let related = Some((owner.to_owned(), label, name.clone()));
        if is(end, "'s")
            && depth < 2
            && let Some((mut found, next)) = noun(words, end + 1, &name, depth + 1)
        {
            found.related = found.related.or(related);
            return Some((found, next));
        }
        return Some((
            Subject {
                entity: name,
                role: Role::Other(None),
                related,
            },
            end + usize::from(comma),
        ));
    }
    Some((
        Subject {
            entity,
            role: Role::Other(Some((owner.to_owned(), label))),
            related: None,
        },
        next,
    ))
}

/// Returns the label of the relation at `at` and where it ends: "sister", "best friend".
pub(super) fn relation(words: &[Word], at: usize) -> Option<(String, usize)> {
    let mut at = at + usize::from(words.get(at).is_some_and(|word| word.low == "new"));
    let mut label = String::new();
    if let Some(word) = words.get(at).filter(|word| v::among(v::DEGREES, &word.low)) {
        label = format!("{} ", word.low);
        at += 1;
    }
    let word = words
        .get(at)
        .filter(|word| v::among(v::RELATIONS, &word.low))?;
    Some((label + &word.low, at + 1))
}

/// Returns where the name at `at` ends: at most three words.
pub(super) fn name_end(words: &[Word], at: usize) -> Option<usize> {
    let particle = |word: &Word| v::among("de da do dos di del van von der", &word.low);
    let mut end = at;
    while end - at < 4 {
        let Some(word) = words.get(end) else { break };
        let after = words.iter().skip(end).find(|word| !particle(word));
        let between = end > at && particle(word) && after.is_some_and(name_word);
        let names = words
            .iter()
            .take(end)
            .skip(at)
            .filter(|word| name_word(word))
            .count();
        if !between && (!name_word(word) || names == 3) {
            break;
        }
        end += 1;
    }
    (end > at && is_name(words.get(at..end)?)).then_some(end)
}

fn render(words: &[Word], from: usize, to: usize) -> String {
    let parts: Vec<&str> = words
        .iter()
        .take(to)
        .skip(from)
        .map(|word| word.raw.as_str())
        .collect();
    // The stop of the sentence.
    parts.join(" ").trim_end_matches('.').to_owned()
}

/// Attributes by the words people use, their normal form and what they want.
const ATTRIBUTES: &[(&str, &str, Kind)] = &[
    ("full name", "name", Kind::Name),
    ("first name", "first name", Kind::Name),
    ("last name", "last name", Kind::Name),
    ("middle name", "middle name", Kind::Name),
    ("maiden name", "maiden name", Kind::Name),
    ("family name", "last name", Kind::Name),
    ("surname", "last name", Kind::Name),
    ("nickname", "nickname", Kind::Name),
    ("name day", "name day", Kind::Date),
    ("name", "name", Kind::Name),
    ("birthday", "birthday", Kind::Date),
    ("birth date", "birthday", Kind::Date),
    ("birthdate", "birthday", Kind::Date),
    ("date of birth", "birthday", Kind::Date),
    ("wedding anniversary", "wedding anniversary", Kind::Date),
    ("wedding day", "wedding anniversary", Kind::Date),
    ("anniversary", "anniversary", Kind::Date),
    ("age", "age", Kind::Age),
    ("email address", "email", Kind::Email),
    ("e-mail address", "email", Kind::Email),
    ("work email", "work email", Kind::Email),
    ("email", "email", Kind::Email),
    ("e-mail", "email", Kind::Email),
    ("phone number", "phone", Kind::Phone),
    ("telephone number", "phone", Kind::Phone),
    ("mobile number", "phone", Kind::Phone),
    ("phone", "phone", Kind::Phone),
    ("mobile", "phone", Kind::Phone),
    ("telephone", "phone", Kind::Phone),
    ("home address", "address", Kind::Numbered),
    ("address", "address", Kind::Numbered),
    ("shoe size", "shoe size", Kind::Numbered),
    ("height", "height", Kind::Numbered),
    ("weight", "weight", Kind::Numbered),
    ("job title", "works as", Kind::Job),
    ("job", "works as", Kind::KnownJob),
    ("profession", "works as", Kind::Job),
    ("occupation", "works as", Kind::Job),
    ("employer", "works at", Kind::Employer),
    ("hometown", "hometown", Kind::Place),
    ("home town", "hometown", Kind::Place),
    ("birthplace", "born in", Kind::Place),
    ("nationality", "nationality", Kind::Languages),
    ("native language", "native language", Kind::Languages),
    ("first language", "native language", Kind::Languages),
    ("mother tongue", "native language", Kind::Languages),
    ("time zone", "time zone", Kind::Proper),
    ("timezone", "time zone", Kind::Proper),
    ("blood type", "blood type", Kind::BloodType),
    ("blood group", "blood type", Kind::BloodType),
    ("star sign", "star sign", Kind::Proper),
    ("pronouns", "pronouns", Kind::Short),
    ("car", "car", Kind::Proper),
    ("bike", "bike", Kind::Proper),
    ("laptop", "laptop", Kind::Proper),
    ("editor", "editor", Kind::Proper),
    ("distro", "distro", Kind::Proper),
    ("operating system", "operating system", Kind::Proper),
];

/// Returns the attribute at `at` in its normal form, what it wants, and where it ends.
fn attribute(words: &[Word], at: usize) -> Option<(String, Kind, usize)> {
    if matches!(words.get(at)?.low.as_str(), "favourite" | "favorite") {
        // "my favourite ice cream is": up to three words before the verb.
        let end = (at + 1..at + 5).find(|end| {
            words
                .get(*end)
                .is_some_and(|word| super::words::base(&word.low) == "be")
        })?;
        let what: Vec<&str> = words
            .get(at + 1..end)?
            .iter()
            .map(|word| word.low.as_str())
            .collect();
        let vague = what.iter().any(|word| {
            v::among(
                "part bit one thing version option line moment scene about of way to in ones",
                word,
            )
        });
        // "My favourite team is losing."
        let named = what
            .last()
            .is_some_and(|word| v::among("team club player band singer actor actress", word));
        let kind = if named { Kind::Proper } else { Kind::Short };
        return (!what.is_empty() && !vague)
            .then(|| (format!("favourite {}", what.join(" ")), kind, end));
    }
    ATTRIBUTES
        .iter()
        .find_map(|(phrase, normal, kind)| {
            phrase_at(words, at, phrase).map(|end| ((*normal).to_owned(), *kind, end))
        })
        .filter(|(.., end)| {
            words
                .get(*end)
                .is_none_or(|word| super::words::base(&word.low) == "be" || word.is_mark())
        })
}
