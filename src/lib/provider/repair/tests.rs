use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::provider::test_server::{
    assistant, call, message, request, result, said, thought, user,
};
use crate::provider::vendor_rules;

#[expect(
    clippy::needless_pass_by_value,
    reason = "the lists are written in the calls"
)]
fn check(input: Vec<Message>, expected: Vec<Message>) {
    assert_eq!(repair(input.clone()), expected);
    validate(&expected);
}

fn exec(id: &str) -> Block {
    call(id, "exec", json!({}))
}

fn lost(id: &str) -> Block {
    result(id, INTERRUPTED, true)
}

#[test]
fn a_valid_list_is_unchanged() {
    let heads = vec![message(
        Role::User,
        [
            Block::Context {
                text: "[09:00]".to_owned(),
            },
            said("hi"),
        ],
    )];
    let neighbours = vec![
        user("a"),
        user("b"),
        message(Role::Assistant, [exec("1")]),
        message(Role::Assistant, [said("and"), exec("2")]),
        message(Role::User, [result("2", "", false)]),
        message(Role::User, [said("c"), result("1", "x", true)]),
        user("d"),
    ];
    for list in [heads, neighbours] {
        check(list.clone(), list);
    }
}

#[test]
fn a_missing_result_is_made_up_where_it_belongs() {
    let called = message(Role::Assistant, [exec("1"), exec("2")]);
    check(
        vec![user("a"), called.clone()],
        vec![
            user("a"),
            called.clone(),
            message(Role::User, [lost("1"), lost("2")]),
        ],
    );
    check(
        vec![
            user("a"),
            called.clone(),
            message(Role::User, [result("2", "ok", false)]),
            user("b"),
        ],
        vec![
            user("a"),
            called.clone(),
            message(Role::User, [lost("1"), result("2", "ok", false)]),
            user("b"),
        ],
    );
    // A result after the model has gone on is not a result any more.
    check(
        vec![
            user("a"),
            called.clone(),
            user("b"),
            assistant("c"),
            message(Role::User, [result("1", "late", false), said("d")]),
        ],
        vec![
            user("a"),
            called,
            message(Role::User, [lost("1"), lost("2"), said("b")]),
            assistant("c"),
            user("d"),
        ],
    );
}

#[test]
fn orphaned_and_repeated_results_are_dropped() {
    check(
        vec![
            message(Role::User, [result("0", "x", false)]),
            user("a"),
            message(Role::Assistant, [exec("1")]),
        ]
        .into_iter()
        .chain([message(
            Role::User,
            [
                result("1", "first", false),
                result("1", "second", false),
                result("9", "x", false),
            ],
        )])
        .collect(),
        vec![
            user("a"),
            message(Role::Assistant, [exec("1")]),
            message(Role::User, [result("1", "first", false)]),
        ],
    );
}

#[test]
fn an_id_used_again_is_numbered_in_call_and_result() {
    let round = |id: &str, text: &str| {
        [
            message(Role::Assistant, [exec(id)]),
            message(Role::User, [result(id, text, false)]),
        ]
    };
    let rounds = |ids: [&str; 3]| {
        let [a, b, c] = ids;
        [
            vec![user("go")],
            round(a, "x").to_vec(),
            round(b, "y").to_vec(),
            round(c, "z").to_vec(),
        ]
        .concat()
    };
    check(rounds(["1", "1", "1_2"]), rounds(["1", "1_2", "1_2_2"]));
    check(
        rounds(["", "", "call"]),
        rounds(["call", "call_2", "call_3"]),
    );
    let twice = |a: &str, b: &str| {
        vec![
            user("go"),
            message(Role::Assistant, [exec(a), exec(b)]),
            message(Role::User, [result(a, "x", false), result(b, "y", false)]),
        ]
    };
    check(twice("1", "1"), twice("1", "1_2"));
}

#[test]
fn it_begins_and_ends_with_the_user() {
    check(
        vec![assistant("a")],
        vec![user(EARLIER), assistant("a"), user(CONTINUE)],
    );
    // The calls' message and the result of another were cut away.
    check(
        vec![
            message(Role::User, [result("0", "x", false)]),
            assistant("a"),
            user("b"),
        ],
        vec![user(EARLIER), assistant("a"), user("b")],
    );
}

#[test]
fn blocks_of_the_wrong_role_are_dropped() {
    check(
        vec![
            message(Role::User, [said("a"), exec("1")]),
            message(Role::Assistant, [result("1", "x", false), said("b")]),
            user("c"),
        ],
        vec![user("a"), assistant("b"), user("c")],
    );
}

#[test]
fn thinking_stays_before_what_it_led_to_and_goes_with_it() {
    let thinking = || {
        thought(
            "anthropic:test-model",
            json!({"type": "thinking", "thinking": "hm", "signature": "s"}),
        )
    };
    let valid = vec![
        user("a"),
        message(
            Role::Assistant,
            [thinking(), said("b"), thinking(), exec("1")],
        ),
        message(Role::User, [result("1", "x", false)]),
    ];
    check(valid.clone(), valid);
    check(
        vec![
            message(Role::User, [thinking(), said("a")]),
            message(
                Role::Assistant,
                [thinking(), said("b"), thinking(), thinking()],
            ),
            message(Role::Assistant, [thinking()]),
            message(Role::Assistant, [thinking(), said(" ")]),
            user("c"),
        ],
        vec![
            user("a"),
            message(Role::Assistant, [thinking(), said("b")]),
            user("c"),
        ],
    );
}

/// Checks `messages` against the rules of the vendors' APIs, on the bodies as sent.
fn validate(messages: &[Message]) {
    let checked = vendor_rules::check(&request(messages.to_vec()));
    assert_eq!(checked, Ok(()), "{messages:?}");
}

/// Any block, valid or not, with few ids so that they collide.
fn any_block() -> impl Strategy<Value = Block> {
    let id = prop::sample::select(vec!["", "a", "b", "a_2", "call", "x:0", "x.0"]);
    let text = prop::sample::select(vec!["", " ", "words", "error"]);
    prop_oneof![
        text.clone().prop_map(said),
        text.clone().prop_map(|text| Block::Context {
            text: text.to_owned()
        }),
        (
            id.clone(),
            prop::sample::select(vec!["", "exec", "odd name!"])
        )
            .prop_map(|(id, name)| call(id, name, json!("raw"))),
        (id, text, any::<bool>()).prop_map(|(id, text, is_error)| result(id, text, is_error)),
        prop::sample::select(vec![
            "anthropic:test-model",
            "gemini:test-model",
            "openai:other"
        ])
        .prop_map(|by| thought(
            by,
            json!({"type": "thinking", "thinking": "hm", "signature": "s"})
        )),
    ]
}

fn any_message() -> impl Strategy<Value = Message> {
    let role = prop_oneof![Just(Role::User), Just(Role::Assistant)];
    (role, prop::collection::vec(any_block(), 0..5))
        .prop_map(|(role, content)| Message { role, content })
}

/// A valid conversation: rounds of calls and results, with unique ids.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    prop::collection::vec((0usize..4, any::<bool>()), 0..8).prop_map(|rounds| {
        let mut messages = vec![user("begin")];
        for (round, (calls, words)) in rounds.into_iter().enumerate() {
            let ids: Vec<String> = (0..calls).map(|n| format!("t{round}_{n}")).collect();
            let mut asked: Vec<Block> = ids.iter().map(|id| exec(id)).collect();
            if words || calls == 0 {
                asked.insert(0, said("let me see"));
            }
            messages.push(message(Role::Assistant, asked));
            let mut answered: Vec<Block> =
                ids.iter().rev().map(|id| result(id, "ok", false)).collect();
            if words || calls == 0 {
                answered.push(said("go on"));
            }
            messages.push(message(Role::User, answered));
        }
        messages
    })
}

/// A way to damage a list.
#[derive(Debug, Clone)]
enum Damage {
    Delete(usize),
    Double(usize),
    Swap(usize, usize),
    DeleteBlock(usize, usize),
    Cut(usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || 0usize..32;
    prop_oneof![
        at().prop_map(Damage::Delete),
        at().prop_map(Damage::Double),
        (at(), at()).prop_map(|(a, b)| Damage::Swap(a, b)),
        (at(), at()).prop_map(|(a, b)| Damage::DeleteBlock(a, b)),
        at().prop_map(Damage::Cut),
    ]
}

fn apply(damage: &Damage, list: &mut Vec<Message>) {
    let len = list.len();
    if len == 0 {
        return;
    }
    match *damage {
        Damage::Delete(at) => drop(list.remove(at % len)),
        Damage::Double(at) => list.insert(at % len, list[at % len].clone()),
        Damage::Swap(a, b) => list.swap(a % len, b % len),
        Damage::DeleteBlock(at, block) => {
            let content = &mut list[at % len].content;
            if !content.is_empty() {
                content.remove(block % content.len());
            }
        }
        Damage::Cut(at) => list.truncate(at % len),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_valid_conversation_is_unchanged(list in conversation()) {
        validate(&list);
        prop_assert_eq!(repair(list.clone()), list);
    }

    #[test]
    fn a_damaged_conversation_is_valid_again(mut list in conversation(), damages in prop::collection::vec(damage(), 1..6)) {
        for damage in &damages {
            apply(damage, &mut list);
        }
        let repaired = repair(list.clone());
        validate(&repaired);
        prop_assert_eq!(repair(repaired.clone()), repaired);
    }

    #[test]
    fn any_blocks_at_all_become_valid(list in prop::collection::vec(any_message(), 0..12)) {
        let repaired = repair(list.clone());
        validate(&repaired);
        prop_assert_eq!(repair(repaired.clone()), repaired);
    }

    #[test]
    fn a_valid_beginning_stays_whatever_follows(list in conversation(), rest in prop::collection::vec(any_message(), 0..6)) {
        // The next turn is the model's, so that nothing is added to the last turn of `list`.
        let all = [list.clone(), vec![assistant("next")], rest].concat();
        let repaired = repair(all.clone());
        prop_assert_eq!(repaired.get(..list.len()), Some(list.as_slice()));
    }
}
