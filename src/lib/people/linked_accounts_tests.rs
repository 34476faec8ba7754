//! One person with several accounts.

use super::linked_accounts::{MAX_ACCOUNTS, MAX_CODES};
use super::*;
use crate::config::ChannelSettings;

const MINUTE: i64 = 60_000;

fn at(id: &str) -> Address {
    Address::parse(id).expect("an address")
}

/// Telegram 1 is the owner's and 2 a guest's; both channels are on, the second lets in only who is named.
fn config() -> Config {
    let mut config = Config::default();
    config.telegram.owner = vec![1];
    config.telegram.allow_from = vec![2];
    let mail = ChannelSettings {
        enabled: true,
        dm_policy: DmPolicy::Allowlist,
        ..ChannelSettings::default()
    };
    config.channels.insert("mail".to_owned(), mail);
    config
}

fn link(people: &mut People, first: &str, id: &str) -> Option<Address> {
    let code = people.new_link_code(&at(first), 0);
    people.link(&at(id), "Ada", &code, 1)
}

#[test]
fn who_sends_the_code_is_the_one_who_asked_for_it_and_no_more_than_they() {
    let (config, mut people) = (config(), People::default());
    let mail = at("mail:ada@example.org");
    assert_eq!(people.decide(&config, &mail, "hi", 0), Access::Refused);
    let code = people.new_link_code(&at("1"), 0);
    let sent = |people: &People, text: &str, now| people.decide(&config, &mail, text, now);
    for typed in [format!(" {code}\n"), code.to_lowercase() + "."] {
        assert_eq!(sent(&people, &typed, 1), Access::SentLinkCode(at("1")));
    }
    for wrong in [
        format!("{code}2"),
        format!("my code {code}"),
        "2".repeat(16),
    ] {
        assert_eq!(sent(&people, &wrong, 1), Access::Refused, "{wrong}");
    }
    assert_eq!(sent(&people, &code, 10 * MINUTE), Access::Refused);
    assert_eq!(people.link(&mail, "Ada", &code, 10 * MINUTE), None);
    assert_eq!(people.link(&mail, "Ada", &code, 2), Some(at("1")));
    assert_eq!(sent(&people, "hi", 3), Access::Owner);
    // It is used up.
    assert_eq!(
        people.link(&at("mail:eve@example.org"), "Eve", &code, 3),
        None
    );

    // A guest's account is a guest's, while they are one.
    assert_eq!(
        link(&mut people, "2", "mail:bob@example.org"),
        Some(at("2"))
    );
    let bob = at("mail:bob@example.org");
    assert_eq!(people.decide(&config, &bob, "hi", 3), Access::Allowed);
    assert!(people.block(&at("2"), true));
    assert_eq!(people.decide(&config, &bob, "hi", 3), Access::Refused);
    let mut closed = config.clone();
    closed.telegram.allow_from.clear();
    people.block(&at("2"), false);
    assert_eq!(people.decide(&closed, &bob, "hi", 3), Access::Refused);
    closed.telegram.owner.clear();
    assert_eq!(sent(&people, "hi", 3), Access::Owner);
    assert_eq!(people.decide(&closed, &mail, "hi", 3), Access::Refused);
}

#[test]
fn the_newest_code_of_a_person_counts_and_those_of_many_stay_few() {
    let mut people = People::default();
    let old = people.new_link_code(&at("1"), 0);
    let new = people.new_link_code(&at("1"), 0);
    assert_eq!(people.link(&at("7"), "Ada", &old, 1), None);
    assert_eq!(people.link(&at("7"), "Ada", &new, 1), Some(at("1")));
    for id in 10..200 {
        people.new_link_code(&id.into(), 0);
    }
    assert_eq!(people.link_codes.len(), MAX_CODES);
    // Nor does one person fill the file.
    let objects = |people: &People| people.objection(&config(), &at("9999"), &at("1")).is_some();
    for id in 2_000.. {
        if objects(&people) {
            break;
        }
        link(&mut people, "1", &id.to_string());
    }
    assert_eq!(people.accounts_of(&at("1")).len(), MAX_ACCOUNTS);
}

#[test]
fn an_account_of_an_account_is_one_of_the_person() {
    let (config, mut people) = (config(), People::default());
    link(&mut people, "1", "mail:ada@example.org");
    link(&mut people, "mail:ada@example.org", "7");
    let all = [at("1"), at("mail:ada@example.org"), at("7")];
    assert_eq!(people.accounts_of(&at("7")), all);
    // Linked while a code of it waited, which leads on to the first.
    let code = people.new_link_code(&at("8"), 0);
    link(&mut people, "1", "8");
    assert_eq!(
        people.link(&at("9"), "Ada", &code, 1),
        None,
        "that code is void"
    );
    assert_eq!(people.first_of(&at("8")), &at("1"));
    assert_eq!(people.owners(&config).len(), 4);
    // Taken back one by one, or all at once with the first, where that is granted here.
    assert!(people.revoke(&at("7")));
    assert!(!people.revoke(&at("7")));
    assert!(!people.is_owner(&config, &at("7")));
    people.allowed.push(Person {
        id: at("5"),
        name: "Bob".to_owned(),
        since: 0,
    });
    link(&mut people, "5", "6");
    assert!(people.is_let_in(&config, &at("6")));
    assert!(people.revoke(&at("5")));
    assert!(!people.is_let_in(&config, &at("6")));
    assert_eq!(people.accounts_of(&at("6")), [at("6")]);
}

#[test]
fn a_guest_takes_over_nobody_and_what_counted_as_the_new_account_is_not_taken_along() {
    let (mut config, mut people) = (config(), People::default());
    config.telegram.allow_from = vec![2, 3];
    let refuses = |people: &People, id: &str, first: &str| {
        people.objection(&config, &at(id), &at(first)).is_some()
    };
    for (id, first) in [("1", "2"), ("3", "2"), ("1", "1")] {
        assert!(refuses(&people, id, first), "{id} for {first}");
    }
    for (id, first) in [("2", "1"), ("7", "2"), ("7", "1")] {
        assert!(!refuses(&people, id, first), "{id} for {first}");
    }
    // What a guest linked to their account does not become an owner's when an owner links that.
    link(&mut people, "2", "mail:child@example.org");
    link(&mut people, "1", "2");
    assert!(people.is_owner(&config, &at("2")));
    assert!(!people.is_owner(&config, &at("mail:child@example.org")));
    assert!(!people.is_let_in(&config, &at("mail:child@example.org")));
}

#[test]
fn an_account_that_gets_rights_of_its_own_is_no_guests_any_more() {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::new(&dir.path().join("people.json"));
    let (config, redeemed, named, own) = (config(), at("mail:a@x.org"), at("11"), at("12"));
    let change = |change: &dyn Fn(&mut People)| store.change(change).expect("change");
    change(&|people| {
        for id in ["mail:a@x.org", "11", "12", "13"] {
            link(people, "2", id);
        }
        // The owner's word: they count as the owner's.
        link(people, "1", "14");
        let code = people.new_owner_code(2);
        assert!(people.redeem(&redeemed, "Ada", &code, 3));
    });
    let mut after = config.clone();
    after.telegram.owner.push(11);
    after.telegram.allow_from.extend([12, 14]);
    let people = || store.read().expect("people");
    assert_eq!(people().first_of(&redeemed), &redeemed);
    assert_eq!(people().first_of(&named), &at("2"));
    store.unlink_misled(&after).expect("look");
    for id in [&named, &own] {
        assert_eq!(people().first_of(id), id);
    }
    assert_eq!(people().first_of(&at("13")), &at("2"));
    assert_eq!(people().first_of(&at("14")), &at("1"));
    // A guest who becomes an owner takes nobody along.
    change(&|people| {
        let code = people.new_owner_code(4);
        assert!(people.redeem(&at("2"), "Bob", &code, 5));
    });
    assert!(!people().is_owner(&after, &at("13")));
}

#[test]
fn two_names_of_one_person_mean_one() {
    let mut people = People::default();
    link(&mut people, "1", "mail:ada@example.org");
    for id in ["1", "mail:ada@example.org"] {
        people.contacts.push(Contact {
            id: at(id),
            name: "Ada".to_owned(),
            username: None,
        });
    }
    for who in ["Ada", "1", "mail:ada@example.org"] {
        assert_eq!(people.linked_person(who), Some(at("1")), "{who}");
    }
    assert_eq!(people.linked_person("Bob"), None);
    people.contacts.push(Contact {
        id: at("5"),
        name: "Ada".to_owned(),
        username: None,
    });
    assert_eq!(people.linked_person("Ada"), None);
    assert_eq!(people.linked_person("5"), None);
    let of_mail = people.find("mail:ada@example.org");
    assert_eq!(people.with_linked(of_mail).len(), 2);
}
