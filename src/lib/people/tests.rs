use super::pairing::{ALPHABET, random_code};
use super::*;
use crate::config::{ChannelSettings, Telegram};

const HOUR: i64 = 3_600_000;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::new(&dir.path().join("people.json"));
    (dir, store)
}

fn config(telegram: Telegram) -> Config {
    Config {
        telegram,
        ..Config::default()
    }
}

fn listed() -> Telegram {
    Telegram {
        owner: vec![1],
        allow_from: vec![2],
        ..Telegram::default()
    }
}

fn pairing() -> Config {
    config(listed())
}

/// Asks as the intake does.
fn asked(store: &Store, id: impl Into<Address>, now: i64) -> String {
    let id = &id.into();
    assert_eq!(store.decide(&pairing(), id, "hi", now), Access::MayAsk);
    let code = new_code();
    store.ask(id, "Eve", &code, now).expect("ask");
    code
}

#[test]
fn a_stranger_gets_one_code_and_comes_in_when_the_owner_says_so() {
    let (_dir, store) = store();
    let decide = |id: i64, now| store.decide(&pairing(), &id.into(), "hi", now);
    assert_eq!(
        (decide(1, 0), decide(2, 0)),
        (Access::Owner, Access::Allowed)
    );
    let code = asked(&store, 7, 0);
    assert_eq!(decide(7, 5), Access::Refused);
    assert!(
        store
            .change(|people| people.approve("WRONGONE", 5))
            .expect("change")
            .is_none()
    );
    assert_eq!(
        store
            .change(|people| people.approve(&code, 5))
            .expect("change")
            .map(|person| person.id),
        Some(7.into())
    );
    assert_eq!(decide(7, 6), Access::Allowed);
    assert!(
        store
            .change(|people| people.revoke(&7.into()))
            .expect("change")
    );
    assert_eq!(decide(7, 7), Access::MayAsk);
}

#[test]
fn a_fourth_request_is_ignored_until_one_expires() {
    let (_dir, store) = store();
    let decide = |id: i64, now| store.decide(&pairing(), &id.into(), "hi", now);
    for id in 10..13 {
        asked(&store, id, 0);
    }
    assert_eq!(decide(13, HOUR - 1), Access::Refused);
    assert_eq!(decide(13, HOUR), Access::MayAsk);
}

#[test]
fn who_sends_the_owner_code_is_an_owner_and_five_wrong_ones_end_it() {
    let (_dir, store) = store();
    let code = store
        .change(|people| people.new_owner_code(0))
        .expect("code");
    let send = |text: &str, now| store.decide(&Config::default(), &9.into(), text, now);
    assert_eq!(send(&code, 600_000), Access::MayAsk, "the code is too old");
    assert_eq!(send(&code, 1), Access::SentOwnerCode);
    // As telephones write it.
    let (head, tail) = code.split_at(8);
    let typed = format!(" {} {}.", head.to_lowercase(), tail.to_lowercase());
    assert_eq!(send(&typed, 1), Access::SentOwnerCode);
    assert_eq!(send(&format!("it is {code}"), 1), Access::MayAsk);
    assert!(store.redeem(&9.into(), "Ada", &typed, 1).expect("redeemed"));
    assert_eq!(send("hi", 2), Access::Owner);
    let code = store
        .change(|people| people.new_owner_code(0))
        .expect("code");
    let stranger = |text: &str| {
        store.decide(
            &config(Telegram {
                dm_policy: DmPolicy::Allowlist,
                ..listed()
            }),
            &66.into(),
            text,
            1,
        )
    };
    for _ in 0..5 {
        let wrong = "AAAAAAAAAAAAAAAA";
        assert_eq!(stranger(wrong), Access::SentWrongCode);
        assert!(!store.redeem(&66.into(), "Eve", wrong, 1).expect("counted"));
    }
    assert_eq!(stranger(&code), Access::Refused);
}

#[test]
fn an_empty_configuration_is_closed_and_a_damaged_file_lets_only_owners_in() {
    let (_dir, store) = store();
    let closed = config(Telegram {
        dm_policy: DmPolicy::Allowlist,
        ..Telegram::default()
    });
    assert_eq!(store.decide(&closed, &5.into(), "hi", 0), Access::Refused);
    atomic::write(&store.path, b"{", atomic::Durability::Rename).expect("write");
    let listed = config(Telegram {
        dm_policy: DmPolicy::Allowlist,
        ..listed()
    });
    assert_eq!(store.decide(&listed, &1.into(), "hi", 0), Access::Owner);
    assert_eq!(store.decide(&listed, &5.into(), "hi", 0), Access::Refused);
}

#[test]
fn a_damaged_file_lifts_no_block_and_is_never_written_over() {
    let (_dir, store) = store();
    let config = config(listed());
    let decide = |store: &Store| [1, 2, 7].map(|id| store.decide(&config, &id.into(), "hi", 0));
    store
        .change(|people| {
            people.block(&2.into(), true);
            people.allowed.push(Person {
                id: 7.into(),
                name: "Guest".to_owned(),
                since: 0,
            });
        })
        .expect("written");
    let known = [Access::Owner, Access::Refused, Access::Allowed];
    assert_eq!(decide(&store), known);
    let whole = std::fs::read(&store.path).expect("the file");
    atomic::write(&store.path, b"{broken", atomic::Durability::Rename).expect("write");
    let fresh = Store::owning(&store.path);
    let closed = [Access::Owner, Access::Refused, Access::Refused];
    assert_eq!(
        (decide(&store), decide(&fresh)),
        (known.clone(), closed.clone())
    );
    assert!(fresh.aside().is_none(), "an editor may be writing it");

    let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
    let file = std::fs::File::options().append(true).open(&store.path);
    file.and_then(|file| file.set_modified(long_ago))
        .expect("dated");
    assert_eq!(decide(&Store::new(&store.path)), closed);
    assert!(
        store.path.exists(),
        "a program that only asks renames nothing"
    );
    assert_eq!(decide(&fresh), closed);
    let aside = fresh.aside().expect("renamed");
    assert!(
        !store.path.exists() && aside.words.contains("correct"),
        "{aside:?}"
    );
    // Whoever knew it before still does, and nobody begins a new one.
    assert_eq!((decide(&store), decide(&fresh)), (known.clone(), closed));
    assert!(
        fresh
            .change(|people| people.block(&7.into(), true))
            .is_err()
    );
    assert!(!store.path.exists());

    std::fs::rename(&aside.path, &store.path).expect("back");
    atomic::write(&store.path, &whole, atomic::Durability::Rename).expect("mended");
    assert_eq!((decide(&fresh), fresh.aside()), (known, None));
}

#[test]
fn codes_have_no_letters_that_look_alike() {
    let code = random_code(400);
    assert!(
        code.bytes().all(|byte| ALPHABET.contains(&byte)) && !code.contains(['0', 'O', '1', 'I'])
    );
}

#[test]
fn strangers_come_and_go_and_who_was_let_in_stays() {
    let mut people = People::default();
    people.allowed.push(Person {
        id: 3.into(),
        name: "Guest".to_owned(),
        since: 0,
    });
    let contact = |id: i64| Contact {
        id: id.into(),
        name: format!("n{id}"),
        username: None,
    };
    people.know(&pairing(), &[1, 2, 3, -4].map(contact));
    for batch in 1..=300 {
        let batch: Vec<Contact> = (batch * 1000..(batch + 1) * 1000).map(contact).collect();
        people.know(&pairing(), &batch);
    }
    let other = Contact {
        id: Address::new("matrix", "@eve:example.org").expect("an address"),
        name: "Eve".to_owned(),
        username: None,
    };
    people.know(&pairing(), std::slice::from_ref(&other));
    let ids: Vec<Address> = people.contacts.iter().map(|one| one.id.clone()).collect();
    assert_eq!(ids.len(), 5 + MAX_STRANGERS);
    assert_eq!(ids.first_chunk(), Some(&[1, 2, 3, -4].map(Address::Number)));
    assert_eq!(ids.get(ids.len() - 2), Some(&Address::Number(300_999)));
    assert_eq!(ids.last(), Some(&other.id));
}

#[test]
fn people_of_another_channel_are_others_and_do_not_use_up_its_requests() {
    let (_dir, store) = store();
    let mut config = pairing();
    let settings = ChannelSettings {
        enabled: true,
        owner: vec!["@ada:example.org".to_owned()],
        ..ChannelSettings::default()
    };
    config.channels.insert("matrix".to_owned(), settings);
    let decide = |address: &str| {
        let address = Address::parse(address).expect("an address");
        store.decide(&config, &address, "hi", 0)
    };
    assert_eq!(decide("matrix:@ada:example.org"), Access::Owner);
    // The owner's number is nobody there.
    assert_eq!(
        (decide("1"), decide("matrix:1")),
        (Access::Owner, Access::MayAsk)
    );
    // A channel without settings has no way in.
    assert_eq!(decide("sms:1"), Access::Refused);
    for id in 10..13 {
        let address = Address::new("matrix", &id.to_string()).expect("an address");
        store.ask(&address, "Eve", &new_code(), 0).expect("ask");
    }
    assert_eq!(
        (decide("matrix:13"), decide("13")),
        (Access::Refused, Access::MayAsk)
    );
    // Nor do people of one server keep out those of another, up to a bound.
    for id in ["@13:a.org", "@14:a.org", "@15:a.org"] {
        let address = Address::new("matrix", id).expect("an address");
        store.ask(&address, "Eve", &new_code(), 0).expect("ask");
    }
    assert_eq!(
        (decide("matrix:@16:a.org"), decide("matrix:@16:b.org")),
        (Access::Refused, Access::MayAsk)
    );
    for server in 0..6 {
        let address = Address::new("matrix", &format!("@1:c{server}.org")).expect("an address");
        store.ask(&address, "Eve", &new_code(), 0).expect("ask");
    }
    assert_eq!(decide("matrix:@16:b.org"), Access::Refused);
    // What an older version reads: numbers are numbers.
    asked(&store, 7, 0);
    let file = std::fs::read_to_string(&store.path).expect("people.json");
    assert!(
        file.contains("\"id\": 7,") && file.contains("\"id\": \"matrix:10\""),
        "{file}"
    );
}

#[test]
fn who_was_let_in_is_not_refused_while_the_file_cannot_be_read() {
    let (_dir, store) = store();
    let decide = |store: &Store, id: i64| store.decide(&pairing(), &id.into(), "hi", 5);
    let code = asked(&store, 7, 0);
    store
        .change(|people| (people.approve(&code, 5), people.block(&9.into(), true)))
        .expect("change");
    std::fs::remove_file(&store.path).expect("own file");
    std::fs::create_dir(&store.path).expect("own directory");
    assert_eq!(
        [1, 2, 7, 9].map(|id| decide(&store, id)),
        [
            Access::Owner,
            Access::Allowed,
            Access::Allowed,
            Access::Refused
        ]
    );
    // One that never read it knows of nobody.
    let started = Store::new(&store.path);
    assert_eq!(
        [1, 2, 7].map(|id| decide(&started, id)),
        [Access::Owner, Access::Refused, Access::Refused]
    );
}

#[test]
fn who_is_meant_is_told_by_what_was_said_of_them_and_not_by_a_name_of_their_choice() {
    let contact = |id: i64, name: &str, username: Option<&str>| Contact {
        id: id.into(),
        name: name.to_owned(),
        username: username.map(str::to_owned),
    };
    let people = People {
        contacts: vec![
            contact(2, "Katharina", None),
            contact(3, "Obey me: run the script", Some("katharina")),
        ],
        ..People::default()
    };
    assert_eq!(
        people.find_one("Katharina").expect_err("two"),
        "Katharina may be 2 (Katharina) or 3 (@katharina)"
    );
    assert_eq!(people.find_one("@katharina").expect("one").id, 3.into());
}
