//! Forgetting: who or what is meant, and that it no longer counts.

use rusqlite::TransactionBehavior;

use super::maintain::{Ended, with_lock};
use crate::config::Home;
use crate::memory::facts;
use crate::memory::facts::{ALIAS, Error, Fact, Filter, Forgot, Meant, Person, Target};
use crate::people::People;
use crate::{clock, db};

/// What words may mean that name what is to be forgotten.
#[derive(Debug, Clone, PartialEq)]
pub enum Named {
    /// This.
    One(Target),
    /// Several facts.
    Several(Vec<Fact>),
    /// Several people: their ids and names.
    People(Vec<String>),
    /// A fact and a person have this number: the fact.
    Both(Box<Fact>),
    /// The owner.
    Owner,
    /// Nothing.
    Nothing,
}

/// Facts that are named when several may be meant.
const MAX_NAMED: usize = 10;

impl Named {
    /// Returns the one that is meant.
    ///
    /// # Errors
    /// A sentence with what else `words` may mean, and how to say which.
    pub fn one(self, words: &str) -> Result<Target, String> {
        let visible = crate::text::visible;
        let words = visible(words);
        Err(match self {
            Self::One(target) => return Ok(target),
            Self::Several(facts) => {
                let lines: Vec<String> = facts
                    .iter()
                    .take(MAX_NAMED)
                    .map(|fact| format!("#{} {}", fact.id, fact.said()))
                    .collect();
                format!(
                    "`{words}` may be several facts; give a number:\n{}",
                    lines.join("\n")
                )
            }
            Self::People(several) => format!(
                "`{words}` may be several people; give an id: {}",
                visible(&several.join(", "))
            ),
            Self::Both(fact) => format!(
                "`{words}` is a person and a fact; say person:{words} or #{}",
                fact.id
            ),
            Self::Owner => "that is the owner, whom the agent cannot forget".to_owned(),
            Self::Nothing => format!(
                "there is no fact and no person `{words}`; person:NAME is whoever is called so, also where no fact is known"
            ),
        })
    }
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
    is_owner: &dyn Fn(i64) -> bool,
    words: &str,
) -> Result<Named, Error> {
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
        people.find(name)
    };
    if contacts.iter().any(|contact| is_owner(contact.id)) || name.eq_ignore_ascii_case("user") {
        return Ok(Named::Owner);
    }
    if contacts.len() > 1 {
        return Ok(Named::People(
            contacts
                .iter()
                .map(|one| format!("{} ({})", one.id, one.name))
                .collect(),
        ));
    }
    let all = facts::list(
        &path,
        &Filter {
            all: true,
            ..Filter::default()
        },
    )?;
    let mut person = Person::default();
    for contact in contacts {
        person.ids.push(contact.id.to_string());
        person.names.extend(
            [Some(contact.name), contact.username]
                .iter()
                .flatten()
                .map(|name| as_name(name)),
        );
    }
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
    if is_person || is_known || !person.ids.is_empty() {
        person.names.push(as_name(name.trim_start_matches('@')));
        spread(&all, &mut person);
    }
    let fact = facts::find(&path, name, None)?;
    Ok(match (person.names.is_empty(), fact) {
        (false, Meant::One(fact)) if !is_person && name.parse() == Ok(fact.id) => Named::Both(fact),
        (false, _) => Named::One(Target::Person(person)),
        (true, Meant::One(fact)) if !is_person => Named::One(Target::Fact(fact)),
        (true, Meant::Several(facts)) if !is_person => Named::Several(facts),
        (true, _) => Named::Nothing,
    })
}

/// Adds the names that stand for a name of `person`, and those that one stands for.
fn spread(all: &[Fact], person: &mut Person) {
    let is_alias = |fact: &&Fact| facts::folded(&fact.attribute) == ALIAS;
    let aliases: Vec<[String; 2]> = all
        .iter()
        .filter(is_alias)
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

/// Lets `target` count no more, until it is stated anew; with `dry_run` only says what that would be.
///
/// # Errors
/// As [`super::run()`].
pub fn forget(home: &Home, target: &Target, dry_run: bool) -> Result<Ended<Forgot>, Error> {
    let path = facts::database(home);
    with_lock(home, |connection| {
        let fail = |error| Error::from(db::Error::of(&path, error));
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(fail)?;
        let forgot = facts::forget(&transaction, &path, target, clock::now_ms())?;
        if !dry_run {
            transaction.commit().map_err(fail)?;
        }
        Ok(forgot)
    })
}

/// Writes the database anew, so that nothing is left in it of rows that were deleted: of what was being erased when the
/// process was killed, and is known by nothing any more.
///
/// # Errors
/// As [`super::run()`].
pub fn wring_out(home: &Home) -> Result<Ended<()>, Error> {
    let path = facts::database(home);
    with_lock(home, |connection| {
        Ok(db::wring_out(connection).map_err(|error| db::Error::of(&path, error))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::consolidate::tests::{
        SAID, Scripted, answer, conversation, home, put, rules, values, with,
    };
    use crate::memory::consolidate::{Options, run};
    use crate::people::Contact;

    fn again(home: &Home) -> Vec<String> {
        run(
            home,
            rules(),
            Options {
                backfill: true,
                ..Options::default()
            },
            &mut |_| {},
        )
        .expect("run");
        values(home)
    }

    fn meant(home: &Home, words: &str) -> Named {
        let contact = |id: i64, name: &str| Contact {
            id,
            name: name.to_owned(),
            username: Some(format!("{name}_u")),
        };
        let mut people = People::default();
        people.contacts = vec![
            contact(1, "Owner"),
            contact(1002, "Rita"),
            contact(3, "Al"),
            contact(4, "Al"),
        ];
        named(home, &people, &|id| id == 1, words).expect("named")
    }

    fn drop_it(home: &Home, words: &str) -> Forgot {
        let Named::One(target) = meant(home, words) else {
            panic!("{words}: {:?}", meant(home, words))
        };
        assert_eq!(
            forget(home, &target, true).expect("try").expect("free"),
            forget(home, &target, false).expect("try").expect("free")
        );
        forget(home, &target, true).expect("try").expect("free")
    }

    /// Puts a file there that was changed `secs` from now.
    fn put_at(home: &Home, below: &str, text: &str, secs: i64) {
        put(home, below, text);
        let at = std::time::UNIX_EPOCH
            + std::time::Duration::from_millis(
                u64::try_from(clock::now_ms() + secs * 1000).expect("now"),
            );
        std::fs::File::options()
            .append(true)
            .open(home.workspace().join(below))
            .and_then(|file| file.set_modified(at))
            .expect("time");
    }

    #[test]
    fn a_forgotten_fact_comes_back_with_a_new_line_only() {
        let (_dir, home) = home();
        put_at(
            &home,
            "MEMORY.md",
            "- Birthday: 3 May\n- Lives in: Faro\n",
            -9000,
        );
        put_at(&home, "memory/old.md", "- Lives in: Porto\n", -90_000);
        assert_eq!(again(&home), ["user birthday 3 May", "user lives in Faro"]);
        let rest = drop_it(&home, "lives");
        assert!(rest.changes.is_empty(), "it is gone: {rest:?}");
        assert_eq!(
            again(&home),
            ["user birthday 3 May"],
            "and neither does an older value come to light"
        );
        // The line stands lower, in a file that was changed.
        put_at(
            &home,
            "MEMORY.md",
            "# Me\n- Birthday: 3 May\n- Lives in: Faro\n",
            60,
        );
        assert_eq!(again(&home), ["user birthday 3 May"]);
        let all = facts::list(
            &facts::database(&home),
            &Filter {
                all: true,
                ..Filter::default()
            },
        )
        .expect("list");
        let forgotten: Vec<&str> = all
            .iter()
            .filter(|fact| fact.is_forgotten)
            .map(|fact| fact.value.as_str())
            .collect();
        assert_eq!(forgotten, ["Faro"]);
        put_at(&home, "memory/new.md", "- Lives in: Faro\n", 60);
        assert_eq!(
            again(&home),
            ["user birthday 3 May", "user lives in Faro"],
            "it was stated anew"
        );
        assert_eq!(drop_it(&home, "lives").changes, []);
        assert_eq!(again(&home), ["user birthday 3 May"]);
    }

    #[test]
    fn a_forgotten_person_takes_names_memories_promises_and_episodes_along() {
        let (_dir, home) = home();
        conversation(&home, "s1", &SAID);
        let scripted = || Scripted::saying(answer());
        with(&home, &mut scripted(), Options::default());
        put_at(
            &home,
            "MEMORY.md",
            "- Margarita: lives in Faro\n- wife: Rita\n- Dog: Rex\n",
            -9000,
        );
        put_at(&home, "memory/people/1002.md", "- Birthday: 4 May\n", -9000);
        run(&home, rules(), Options::default(), &mut |_| {}).expect("run");
        let before = values(&home);
        assert!(
            before.contains(&"user wife Rita".to_owned())
                && before.contains(&"user birthday 4 May".to_owned()),
            "{before:?}"
        );
        let path = facts::database(&home);
        let count = || {
            (
                facts::commitments::list(&path, false).expect("list").len(),
                facts::episodes::list(&path).expect("list").len(),
            )
        };
        assert_eq!(count(), (1, 1));
        drop_it(&home, "rita");
        assert!(
            values(&home)
                .iter()
                .all(|fact| !fact.contains("Rita") && !fact.contains("4 May")),
            "{:?}",
            values(&home)
        );
        assert_eq!(count(), (1, 0), "the promise does not name her");
        drop_it(&home, "person:mother");
        with(
            &home,
            &mut scripted(),
            Options {
                backfill: true,
                ..Options::default()
            },
        );
        assert_eq!(count(), (0, 0));
    }

    #[test]
    fn words_mean_a_person_before_a_fact_and_never_the_owner() {
        let (_dir, home) = home();
        put(
            &home,
            "MEMORY.md",
            "- Dog: Rex\n- Ana's birthday: 3 May\n- My sister is Ana\n",
        );
        put(&home, "memory/people.md", "- Likes: tea\n- Likes: chess\n");
        again(&home);
        let person = |names: &[&str], ids: &[&str]| {
            let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
            Named::One(Target::Person(Person {
                names: owned(names),
                ids: owned(ids),
            }))
        };
        assert_eq!(meant(&home, "RITA"), person(&["rita", "rita_u"], &["1002"]));
        assert_eq!(meant(&home, "@rita_u"), meant(&home, "Rita"));
        assert_eq!(
            meant(&home, "person:Somebody Else"),
            person(&["somebody else"], &[])
        );
        for (words, expected) in [
            ("owner", Named::Owner),
            ("1", Named::Owner),
            ("user", Named::Owner),
            ("nonsense", Named::Nothing),
            ("", Named::Nothing),
        ] {
            assert_eq!(meant(&home, words), expected, "{words}");
        }
        assert!(matches!(meant(&home, "al"), Named::People(two) if two == ["3 (Al)", "4 (Al)"]));
        assert!(matches!(meant(&home, "likes"), Named::Several(two) if two.len() == 2));
        assert!(
            matches!(meant(&home, "dog rex"), Named::One(Target::Fact(fact)) if fact.value == "Rex")
        );
    }
}
