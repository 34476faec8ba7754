//! Resolves a text to the person or fact to forget.

use std::slice;

use crate::config::Home;
use crate::memory::facts;
use crate::memory::facts::{ALIAS, Fact, Filter, Meant, Person, Target};
use crate::message::Address;
use crate::people::{Contact, People};
use crate::text;

/// The possible meanings of the words of a forget command.
#[derive(Debug, Clone, PartialEq)]
pub enum Named {
    One(Target),
    Nothing,
    /// Not one thing that can be forgotten: why, and the words to give instead, each with what they mean.
    Unclear(String, Vec<(String, String)>),
}

/// Facts that are named when several may be meant.
const MAX_NAMED: usize = 10;

impl Named {
    /// Returns the one that is meant.
    ///
    /// # Errors
    /// A sentence with what else `words` may mean, and how to say which.
    pub fn one(self, words: &str) -> Result<Target, String> {
        match self {
            Self::One(target) => Ok(target),
            Self::Nothing => Err(text::visible(&nothing(words))),
            Self::Unclear(message, choices) => {
                let lines = choices.iter().map(|(name, what)| format!("{name} {what}"));
                let lines: Vec<String> = lines.map(|line| text::visible(line.trim())).collect();
                let colon = if lines.is_empty() { "" } else { ":\n" };
                Err(format!(
                    "{}{colon}{}",
                    text::visible(&message),
                    lines.join("\n")
                ))
            }
        }
    }
}

/// Returns the error that nothing has the name `words`.
pub fn nothing(words: &str) -> String {
    format!(
        "no fact and no person \"{words}\"; person:NAME is any person of this name, also without known facts"
    )
}

/// Returns whom or what `words` mean: somebody with that name, other name, id or username, else a fact as [`facts::find`]
/// does. `#12` is a fact; `person:12` is somebody, and `person:NAME` whoever is called so. `is_owner` says whose id is an
/// owner's.
///
/// # Errors
/// When the database is damaged or cannot be read.
pub fn named(
    home: &Home,
    people: &People,
    is_owner: &dyn Fn(&Address) -> bool,
    words: &str,
) -> Result<Named, facts::Error> {
    let path = facts::database(home);
    let (name, is_person) = words
        .trim()
        .strip_prefix("person:")
        .map_or((words.trim(), false), |name| (name, true));
    if name.is_empty() {
        return Ok(Named::Nothing);
    }
    let contacts = if name.starts_with('#') {
        Vec::new()
    } else {
        people.with_linked(people.find(name))
    };
    if contacts.iter().any(|contact| is_owner(&contact.id)) || name.eq_ignore_ascii_case("user") {
        let message = "that is the owner, whom the agent cannot forget".to_owned();
        return Ok(Named::Unclear(message, Vec::new()));
    }
    let is_one = |all: &[Contact]| {
        let mut firsts = all.iter().map(|one| people.first_of(&one.id));
        let first = firsts.next();
        firsts.all(|other| Some(other) == first)
    };
    if !is_one(&contacts) {
        let message = format!("`{name}` may be several people; give an id");
        let choice = |one: &Contact| (one.id.to_string(), one.name.clone());
        return Ok(Named::Unclear(
            message,
            contacts.iter().map(choice).collect(),
        ));
    }
    let all = facts::list(
        &path,
        &Filter {
            all: true,
            ..Filter::default()
        },
    )?;
    let mut person = of_contacts(contacts);
    let meant = facts::folded(name);
    let is_called = |fact: &Fact| {
        facts::folded(&fact.entity) == meant
            || (facts::folded(&fact.attribute) == ALIAS && facts::value_key(&fact.value) == meant)
    };
    let is_known = person.ids.is_empty() && all.iter().any(is_called);
    let own_scope = format!("person:{name}");
    if person.ids.is_empty() && all.iter().any(|fact| fact.scope.to_string() == own_scope) {
        person.ids.push(name.to_owned());
    }
    let given = Address::parse(name).map(|id| id.to_string());
    let by_id = given.is_some_and(|given| person.ids.contains(&given));
    if is_person || is_known || !person.ids.is_empty() {
        person.names.push(as_name(name.trim_start_matches('@')));
        spread(&all, &mut person);
    }
    let others = Others::of(people, is_owner, &all, &person.ids);
    if by_id {
        // Only what is theirs by id is certainly theirs.
        let is_theirs = |name: &String| others.confused_with(slice::from_ref(name)).is_none();
        person.names.retain(is_theirs);
    } else if let Some((message, mut choices)) = others.confused_with(&person.names) {
        let own = all.iter().filter(|fact| is_called(fact));
        choices.extend(own.take(MAX_NAMED).map(choice));
        return Ok(Named::Unclear(message, choices));
    }
    let fact = facts::find(&path, name, None)?;
    let is_nobody = person.names.is_empty() && person.ids.is_empty();
    Ok(match (is_nobody, fact) {
        (false, Meant::One(fact)) if !is_person && name.parse() == Ok(fact.id) => Named::Unclear(
            format!("`{name}` is a person and a fact; say which"),
            vec![(format!("person:{name}"), String::new()), choice(&fact)],
        ),
        (false, _) => Named::One(Target::Person(person)),
        (true, Meant::One(fact)) if !is_person => Named::One(Target::Fact(fact)),
        (true, Meant::Several(facts)) if !is_person => Named::Unclear(
            format!("`{name}` may be several facts; give a number"),
            facts.iter().take(MAX_NAMED).map(choice).collect(),
        ),
        (true, _) => Named::Nothing,
    })
}

/// Returns the person of these contacts: their ids, and what they call themselves.
fn of_contacts(contacts: Vec<Contact>) -> Person {
    let mut person = Person::default();
    for Contact { id, name, username } in contacts {
        person.ids.push(id.to_string());
        let names = [Some(name), username];
        person
            .names
            .extend(names.iter().flatten().map(|name| as_name(name)));
    }
    person
}

/// Everybody but the person to forget, by what they are called: words about them must not go along.
struct Others {
    owners: Vec<String>,
    contacts: Vec<Contact>,
}

impl Others {
    fn of(
        people: &People,
        is_owner: &dyn Fn(&Address) -> bool,
        all: &[Fact],
        ids: &[String],
    ) -> Self {
        let of_owner = |fact: &&Fact| {
            fact.entity == "user"
                && [ALIAS, "name", "full name", "first name", "nickname"]
                    .contains(&facts::folded(&fact.attribute).as_str())
        };
        let stated = all.iter().filter(of_owner).map(|fact| as_name(&fact.value));
        let mut owners: Vec<String> = stated.collect();
        let mut contacts = people.everybody();
        contacts.retain(|one| !ids.contains(&one.id.to_string()));
        contacts.retain(|one| {
            let is_owner = is_owner(&one.id);
            if is_owner {
                owners.push(called(one));
            }
            !is_owner
        });
        Self { owners, contacts }
    }

    /// Returns whom else one of `names` may mean; `None` when it is nobody else's.
    fn confused_with(&self, names: &[String]) -> Option<(String, Vec<(String, String)>)> {
        for name in names {
            if self.owners.iter().any(|other| text::has_word(other, name)) {
                let message = format!(
                    "the owner is called `{name}`, too; give an id, a fuller name, or facts by their numbers"
                );
                return Some((message, Vec::new()));
            }
            let same = |one: &&Contact| text::has_word(&called(one), name);
            let others: Vec<&Contact> = self.contacts.iter().filter(same).collect();
            if !others.is_empty() {
                let message = format!(
                    "others are called `{name}`, too; give an id, a fuller name, or facts by their numbers"
                );
                let choice = |one: &&Contact| (one.id.to_string(), one.name.clone());
                return Some((message, others.iter().map(choice).collect()));
            }
        }
        None
    }
}

/// Returns all that somebody is called, for a search of words.
fn called(contact: &Contact) -> String {
    let username = contact.username.as_deref().unwrap_or_default();
    format!("{} {username}", contact.name).to_lowercase()
}

fn choice(fact: &Fact) -> (String, String) {
    (format!("#{}", fact.id), fact.said())
}

/// Adds the names that stand for a name of `person`, and those that one stands for.
fn spread(all: &[Fact], person: &mut Person) {
    let is_alias = |fact: &&Fact| facts::folded(&fact.attribute) == ALIAS;
    let aliases: Vec<[String; 2]> = all
        .iter()
        .filter(is_alias)
        // The owner's other names are nobody else's.
        .filter(|fact| fact.entity != "user" && facts::folded(&fact.value) != "user")
        .map(|fact| [as_name(&fact.entity), as_name(&fact.value)])
        .collect();
    loop {
        let known = person.names.len();
        for both in &aliases {
            let is_theirs = |name: &String| {
                person
                    .names
                    .iter()
                    .any(|other| facts::folded(other) == facts::folded(name))
            };
            if both.iter().any(is_theirs) {
                person.names.extend(both.iter().cloned());
            }
        }
        person.names.sort();
        person.names.dedup();
        if person.names.len() == known {
            break;
        }
    }
    // One letter stands everywhere.
    person
        .names
        .retain(|name| name.chars().count() > 1 && name != "user");
}

fn as_name(words: &str) -> String {
    words.trim().trim_end_matches('.').to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::memory::consolidate;
    use crate::memory::consolidate::{Means, Options};
    use crate::sys::atomic;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("create");
        std::fs::create_dir_all(home.workspace().join("memory")).expect("dir");
        (dir, home)
    }

    fn put(home: &Home, below: &str, text: &str) {
        let path = home.workspace().join(below);
        atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
    }

    fn meant(home: &Home, words: &str) -> Named {
        let contact = |id: i64, name: &str| Contact {
            id: id.into(),
            name: name.to_owned(),
            username: Some(format!("{name}_u")),
        };
        let mut people = People::default();
        people.contacts = vec![
            contact(1, "Owner"),
            contact(1002, "Rita"),
            contact(3, "Al"),
            contact(4, "Al"),
            contact(55, "Eve"),
            contact(66, "Eve Adams"),
            contact(77, "Owner of Cats"),
        ];
        named(home, &people, &|id| *id == Address::Number(1), words).expect("named")
    }

    #[test]
    fn words_mean_a_person_before_a_fact_and_never_the_owner() {
        let (_dir, home) = home();
        put(
            &home,
            "MEMORY.md",
            "- Dog: Rex\n- Ana's birthday: 3 May\n- My sister is Ana\n- Nickname: Dora Great\n- Dora's birthday: 5 May\n",
        );
        put(&home, "memory/people.md", "- Likes: tea\n- Likes: chess\n");
        let rules = Means::rules(chrono_tz::UTC);
        consolidate::run(&home, rules, Options::default(), &mut |_| {}).expect("run");
        let person = |names: &[&str], ids: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
            Named::One(Target::Person(Person {
                names: owned(names),
                ids: owned(ids),
            }))
        };
        assert_eq!(meant(&home, "RITA"), person(&["rita", "rita_u"], &["1002"]));
        assert_eq!(meant(&home, "@rita_u"), meant(&home, "Rita"));
        // By the id they are forgotten, and nobody who is called so, too.
        let by_address = person(&["eve_u", "telegram:55"], &["55"]);
        assert_eq!(meant(&home, "telegram:55"), by_address);
        assert_eq!(meant(&home, "55"), person(&["55", "eve_u"], &["55"]));
        assert_eq!(
            meant(&home, "77"),
            person(&["77", "owner of cats", "owner of cats_u"], &["77"])
        );
        assert_eq!(
            meant(&home, "person:Somebody Else"),
            person(&["somebody else"], &[])
        );
        for (words, expected) in [
            ("owner", "that is the owner, whom the agent cannot forget"),
            ("1", "that is the owner, whom the agent cannot forget"),
            ("user", "that is the owner, whom the agent cannot forget"),
            (
                "dora",
                "the owner is called `dora`, too; give an id, a fuller name, or facts by their numbers:\n#2 Dora birthday: 5 May",
            ),
            (
                "Eve",
                "others are called `eve`, too; give an id, a fuller name, or facts by their numbers:\n66 Eve Adams",
            ),
            ("al", "`al` may be several people; give an id:\n3 Al\n4 Al"),
            (
                "likes",
                "`likes` may be several facts; give a number:\n#6 user likes: chess\n#7 user likes: tea",
            ),
        ] {
            assert_eq!(meant(&home, words).one(words), Err(expected.to_owned()));
        }
        for words in ["nonsense", ""] {
            assert_eq!(meant(&home, words), Named::Nothing, "{words}");
        }
        assert!(
            matches!(meant(&home, "dog rex"), Named::One(Target::Fact(fact)) if fact.value == "Rex")
        );
    }
}
