use super::*;

const HOUR: i64 = 3_600_000;

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::new(&dir.path().join("people.json"));
    (dir, store)
}

fn pairing() -> Telegram {
    Telegram {
        owner: vec![1],
        allow_from: vec![2],
        ..Telegram::default()
    }
}

/// Asks as the intake does.
fn asked(store: &Store, id: i64, now: i64) -> String {
    assert_eq!(store.decide(&pairing(), id, "hi", now), Access::MayAsk);
    let code = new_code();
    store.ask(id, "Eve", &code, now).expect("ask");
    code
}

#[test]
fn a_stranger_gets_one_code_and_comes_in_when_the_owner_says_so() {
    let (_dir, store) = store();
    let decide = |id, now| store.decide(&pairing(), id, "hi", now);
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
        Some(7)
    );
    assert_eq!(decide(7, 6), Access::Allowed);
    assert!(store.change(|people| people.revoke(7)).expect("change"));
    assert_eq!(decide(7, 7), Access::MayAsk);
}

#[test]
fn a_fourth_request_is_ignored_until_one_expires() {
    let (_dir, store) = store();
    let decide = |id, now| store.decide(&pairing(), id, "hi", now);
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
    let send = |text: &str, now| store.decide(&Telegram::default(), 9, text, now);
    assert_eq!(send(&code, 600_000), Access::MayAsk, "the code is too old");
    assert_eq!(send(&code, 1), Access::SentOwnerCode);
    assert!(store.redeem(9, "Ada", &code, 1).expect("redeemed"));
    assert_eq!(send("hi", 2), Access::Owner);
    let code = store
        .change(|people| people.new_owner_code(0))
        .expect("code");
    let stranger = |text: &str| {
        store.decide(
            &Telegram {
                dm_policy: DmPolicy::Allowlist,
                ..pairing()
            },
            66,
            text,
            1,
        )
    };
    for _ in 0..5 {
        let wrong = "AAAAAAAAAAAAAAAA";
        assert_eq!(stranger(wrong), Access::SentWrongCode);
        assert!(!store.redeem(66, "Eve", wrong, 1).expect("counted"));
    }
    assert_eq!(stranger(&code), Access::Refused);
}

#[test]
fn an_empty_configuration_is_closed_and_a_damaged_file_lets_only_owners_in() {
    let (_dir, store) = store();
    let closed = Telegram {
        dm_policy: DmPolicy::Allowlist,
        ..Telegram::default()
    };
    assert_eq!(store.decide(&closed, 5, "hi", 0), Access::Refused);
    atomic::write(&store.path, b"{", atomic::Durability::Rename).expect("write");
    let listed = Telegram {
        dm_policy: DmPolicy::Allowlist,
        ..pairing()
    };
    assert_eq!(store.decide(&listed, 1, "hi", 0), Access::Owner);
    assert_eq!(store.decide(&listed, 5, "hi", 0), Access::Refused);
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
        id: 3,
        name: "Guest".to_owned(),
        since: 0,
    });
    let contact = |id: i64| Contact {
        id,
        name: format!("n{id}"),
        username: None,
    };
    people.know(&pairing(), &[1, 2, 3, -4].map(contact));
    for batch in 1..=300 {
        let batch: Vec<Contact> = (batch * 1000..(batch + 1) * 1000).map(contact).collect();
        people.know(&pairing(), &batch);
    }
    let ids: Vec<i64> = people.contacts.iter().map(|one| one.id).collect();
    assert_eq!(ids.len(), 4 + MAX_STRANGERS);
    assert_eq!(ids.first_chunk(), Some(&[1, 2, 3, -4]));
    assert_eq!(ids.last(), Some(&300_999));
}
