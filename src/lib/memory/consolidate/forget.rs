//! Forgetting: a fact or a person is no longer used, until it is stated again. `forget::target` resolves the name.

use rusqlite::TransactionBehavior;

use super::{Ended, with_lock};
use crate::config::Home;
use crate::memory::facts;
use crate::memory::facts::{Error, Forgot, Target};
use crate::{clock, db};

/// Lets `target` count no more, until it is stated again; with `dry_run` only says what that would be.
///
/// # Errors
/// As [`super::run()`].
pub fn forget(home: &Home, target: &Target, dry_run: bool) -> Result<Ended<Forgot>, Error> {
    with_lock(home, |connection, path| {
        let fail = |error| Error::from(db::Error::of(path, error));
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(fail)?;
        let forgot = facts::forget(&transaction, path, target, clock::now_ms())?;
        if !dry_run {
            transaction.commit().map_err(fail)?;
        }
        Ok(forgot)
    })
}

/// Writes the database again, so that nothing is left in it of rows that were deleted: of what was being erased when the
/// process was killed, and is known by nothing any more.
///
/// # Errors
/// As [`super::run()`].
pub fn vacuum(home: &Home) -> Result<Ended<()>, Error> {
    with_lock(home, |connection, path| {
        Ok(db::vacuum(connection).map_err(|error| db::Error::of(path, error))?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::consolidate::tests::{
        BACKFILL, SAID, Scripted, answer, conversation, home, put, rules, values, with,
    };
    use crate::memory::consolidate::{Options, run};
    use crate::memory::facts::{Filter, Meant, Person};

    fn again(home: &Home) -> Vec<String> {
        run(home, rules(), BACKFILL, &mut |_| {}).expect("run");
        values(home)
    }

    fn fact(home: &Home, words: &str) -> Target {
        match facts::find(&facts::database(home), words, None).expect("find") {
            Meant::One(fact) => Target::Fact(fact),
            other => panic!("{words}: {other:?}"),
        }
    }

    fn person(names: &[&str], ids: &[&str]) -> Target {
        let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect();
        Target::Person(Person {
            names: owned(names),
            ids: owned(ids),
        })
    }

    fn forget_it(home: &Home, target: &Target) -> Forgot {
        let forget = |dry_run| forget(home, target, dry_run).expect("try").expect("free");
        assert_eq!(forget(true), forget(false));
        forget(true)
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
        let rest = forget_it(&home, &fact(&home, "lives"));
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
            "it was stated again"
        );
        assert_eq!(forget_it(&home, &fact(&home, "lives")).changes, []);
        assert_eq!(again(&home), ["user birthday 3 May"]);
    }

    #[test]
    fn a_line_is_no_newer_because_its_file_has_another_name() {
        let (_dir, home) = home();
        let rename = |from: &str, to: &str| {
            let workspace = home.workspace();
            std::fs::rename(workspace.join(from), workspace.join(to)).expect("renamed");
        };
        put_at(&home, "memory/a.md", "- Lives in: Porto\n", -9000);
        assert_eq!(again(&home), ["user lives in Porto"]);
        forget_it(&home, &fact(&home, "lives"));
        put_at(
            &home,
            "memory/a.md",
            "- Lives in: Porto\n- Birthday: 3 May\n",
            60,
        );
        assert_eq!(again(&home), ["user birthday 3 May"]);
        rename("memory/a.md", "memory/about.md");
        assert_eq!(again(&home), ["user birthday 3 May"], "it stays forgotten");
        // Nor does it replace what was said since.
        put_at(&home, "memory/b.md", "- Birthday: 4 May\n", 90);
        assert_eq!(again(&home), ["user birthday 4 May"]);
        put_at(
            &home,
            "memory/about.md",
            "- Birthday: 3 May\n- Likes: tea\n",
            120,
        );
        assert_eq!(again(&home), ["user birthday 4 May", "user likes tea"]);
        rename("memory/about.md", "memory/zoo.md");
        assert_eq!(again(&home), ["user birthday 4 May", "user likes tea"]);
        // Cut from one note and put into another, which is read before it.
        put_at(&home, "memory/zoo.md", "- Likes: tea\n", 150);
        put_at(&home, "memory/aaa.md", "- Birthday: 3 May\n", 150);
        assert_eq!(again(&home), ["user birthday 4 May", "user likes tea"]);
    }

    #[test]
    fn what_was_forgotten_stays_so_when_another_value_is_erased() {
        let (_dir, home) = home();
        put_at(&home, "MEMORY.md", "- Lives in: Porto\n", -9000);
        assert_eq!(again(&home), ["user lives in Porto"]);
        forget_it(&home, &fact(&home, "lives"));
        put_at(&home, "memory/new.md", "- Lives in: Faro\n", 60);
        assert_eq!(again(&home), ["user lives in Faro"]);
        let Target::Fact(faro) = fact(&home, "lives") else {
            panic!("it is a fact");
        };
        std::fs::remove_file(home.workspace().join("memory/new.md")).expect("removed");
        let hit: db::Hit = std::sync::Arc::new(|text: &str| text.contains("Faro"));
        let path = facts::database(&home);
        facts::erase(&path, &hit, Some(faro.as_ref()), false, clock::now_ms()).expect("erase");
        put_at(&home, "MEMORY.md", "# Me\n- Lives in: Porto\n", 60);
        assert_eq!(again(&home), [] as [String; 0]);
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
        forget_it(&home, &person(&["rita"], &["1002"]));
        assert!(
            values(&home)
                .iter()
                .all(|fact| !fact.contains("Rita") && !fact.contains("4 May")),
            "{:?}",
            values(&home)
        );
        assert_eq!(count(), (1, 0), "the promise does not name her");
        forget_it(&home, &person(&["mother"], &[]));
        with(&home, &mut scripted(), BACKFILL);
        assert_eq!(count(), (0, 0));
    }

    #[test]
    fn what_else_a_model_found_in_a_message_stays_when_one_fact_of_it_is_erased() {
        let (_dir, home) = home();
        let said = "We settled down in Porto, we two, and I promise to send her mother the photos by Friday";
        conversation(&home, "s1", &[said, "Good morning!"]);
        let fact_of = |attribute: &str, value: &str| serde_json::json!({"entity": "user", "attribute": attribute, "value": value, "confidence": 1.0, "line": 1});
        let found = serde_json::json!({
            "facts": [fact_of("lives in", "Porto"), fact_of("keeps", "photos")],
            "commitments": [{"who": "user", "what": "send the photos", "line": 1}],
        });
        with(
            &home,
            &mut Scripted::saying(found.to_string()),
            Options::default(),
        );
        assert_eq!(values(&home), ["user keeps photos", "user lives in Porto"]);
        let path = facts::database(&home);
        let open = || facts::commitments::list(&path, false).expect("list").len();
        assert_eq!(open(), 1);
        let Target::Fact(meant) = fact(&home, "porto") else {
            panic!("it is a fact");
        };
        let hit: db::Hit = std::sync::Arc::new(|text: &str| text.contains("Porto"));
        let erase = || {
            facts::erase(&path, &hit, Some(meant.as_ref()), false, clock::now_ms()).expect("erase")
        };
        assert_eq!(erase().get("commitments"), Some(&1));
        assert_eq!(
            (values(&home), open()),
            (vec!["user keeps photos".to_owned()], 1)
        );
        assert!(erase().is_empty(), "nothing of it is left");
    }

    #[test]
    fn who_is_called_like_a_word_of_every_day_takes_no_other_words_along() {
        let (_dir, home) = home();
        conversation(
            &home,
            "s1",
            &[
                "Remind me to send the report, it will help.",
                "I promised to call Will.",
            ],
        );
        put_at(&home, "MEMORY.md", "- Birthday: 3 May\n- Dog: Rex\n", -9000);
        run(&home, rules(), Options::default(), &mut |_| {}).expect("run");
        let open = || -> Vec<String> {
            let open = facts::commitments::list(&facts::database(&home), false).expect("list");
            open.into_iter().map(|one| one.what).collect()
        };
        let promised = open();
        assert!(promised.contains(&"call Will".to_owned()), "{promised:?}");
        forget_it(&home, &person(&["will"], &[]));
        let left: Vec<String> = promised
            .into_iter()
            .filter(|what| what != "call Will")
            .collect();
        assert!(!left.is_empty() && open() == left, "{:?}", open());
        forget_it(&home, &person(&["may"], &[]));
        assert_eq!(again(&home), ["user birthday 3 May", "user dog Rex"]);
    }
}
