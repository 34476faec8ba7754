use proptest::prelude::*;
use serde_json::json;

use super::*;

fn plan(answer: &str) -> Plan {
    match read(answer) {
        Reading::Plan(plan) => plan,
        other => panic!("{other:?} for {answer}"),
    }
}

fn broken(answer: &str) -> String {
    match read(answer) {
        Reading::Broken(why) => why,
        other => panic!("{other:?} for {answer}"),
    }
}

/// The tasks in short: kind, what they depend on, the message they answer.
fn shape(plan: &Plan) -> Vec<String> {
    let one = |task: &Task| {
        let reply = task
            .reply_to
            .as_ref()
            .map_or_else(String::new, |id| format!(" ↩{id}"));
        format!(
            "{}={}<{}>{reply}",
            task.id,
            task.act.kind(),
            task.depends_on.join(",")
        )
    };
    plan.tasks.iter().map(one).collect()
}

#[test]
fn every_kind_is_read_from_json() {
    let read = plan(
        r#"[{"kind":"think","text":"hm"},
            {"kind":"send","id":"a","text":"Hi","reply_to":57},
            {"kind":"wait","id":"b","depends_on":["a"],"delay":2.5},
            {"kind":"remember","id":"m","depends_on":["b"],"text":"likes tea"},
            {"kind":"react","id":"c","depends_on":["m"],"emoji":"👍","reply_to":"58"},
            {"kind":"sticker","id":"d","depends_on":["a"],"set":"Cats","name":"😿"},
            {"kind":"send_media","id":"e","depends_on":["a"],"path":"outbox/a.png"},
            {"kind":"xsend","id":"f","depends_on":["a"],"to":"owner","text":"she is sad"},
            {"kind":"retrieve","id":"g","depends_on":["a"],"urls":["https://a.example/"]},
            {"kind":"block","id":"h","depends_on":["a"]},{"kind":"unblock","id":"i","depends_on":["a"]},{"kind":"clear","id":"j","depends_on":["a"]}]"#,
    );
    assert_eq!(read.remember, ["likes tea"]);
    assert_eq!(
        shape(&read),
        [
            "a=send<> ↩57",
            "b=wait<a>",
            "c=react<b> ↩58",
            "d=sticker<a>",
            "e=send_media<a>",
            "f=xsend<a>",
            "g=retrieve<a>",
            "h=block<a>",
            "i=unblock<a>",
            "j=clear<a>"
        ]
    );
}

#[test]
fn every_kind_is_read_from_headings() {
    let read = plan(
        "# think\nhm\n# «send» 57\nHi\n\n```\n# send\n```\n# wait\ndelay: 4\n# sticker\nCats\n😿\n# sticker\nCats :: 🐈\n# react 58\n👍\n\
         # remember\nlikes tea\n# send_media\noutbox/a.png\n# xsend\nto: owner\nshe is sad\n# retrieve\n- https://a.example/\n# block\n# unblock\n# clear",
    );
    assert_eq!(read.remember, ["likes tea"]);
    let acts: Vec<serde_json::Value> = read
        .tasks
        .iter()
        .map(|task| serde_json::to_value(&task.act).expect("json"))
        .collect();
    assert_eq!(
        acts,
        [
            json!({"kind": "send", "text": "Hi\n\n```\n# send\n```"}),
            json!({"kind": "wait", "delay": 4.0}),
            json!({"kind": "sticker", "set": "Cats", "name": "😿"}),
            json!({"kind": "sticker", "set": "Cats", "name": "🐈"}),
            json!({"kind": "react", "emoji": "👍"}),
            json!({"kind": "send_media", "path": "outbox/a.png"}),
            json!({"kind": "xsend", "to": "owner", "text": "she is sad"}),
            json!({"kind": "retrieve", "urls": ["https://a.example/"]}),
            json!({"kind": "block"}),
            json!({"kind": "unblock"}),
            json!({"kind": "clear"}),
        ]
    );
    assert_eq!(
        read.tasks.first().and_then(|task| task.reply_to.as_deref()),
        Some("57")
    );
    assert_eq!(
        shape(&plan("# send\none\n# wait\n3\n# send\ntwo")),
        ["1=send<>", "2=wait<1>", "3=send<2>"]
    );
}

#[test]
fn a_plan_is_found_in_every_wrapping() {
    let expected = plan(r#"[{"kind":"send","text":"Hi"}]"#);
    for wrapped in [
        "```json\n[{\"kind\":\"send\",\"text\":\"Hi\"}]\n```",
        r#"{"plan":[{"kind":"send","text":"Hi"}]}"#,
        r#"{"kind":"send","text":"Hi"}"#,
        "Here is my plan:\n```json\n[{\"kind\":\"send\",\"text\":\"Hi\"}]\n```\nDone.",
        "I think [a bit] first. [{\"kind\":\"send\",\"text\":\"Hi\"}]",
        "# send\nHi",
        "## Send\nHi",
        "Let me see.\n# «send»\nHi",
    ] {
        assert_eq!(plan(wrapped), expected, "{wrapped}");
    }
    let two = plan("{\"kind\":\"send\",\"text\":\"a\"}\n{\"kind\":\"send\",\"text\":\"b\"}");
    assert_eq!(shape(&two), ["1=send<>", "2=send<1>"]);
    assert_eq!(
        (plan("[]"), plan(""), plan("# think\nnothing")),
        Default::default()
    );
}

#[test]
fn what_says_nothing_of_its_place_follows_what_stands_before_it() {
    let all_empty = r#"[{"kind":"send","id":"a","depends_on":[],"text":"x"},{"kind":"wait","id":"b","depends_on":[],"delay":1},{"kind":"send","id":"c","depends_on":[],"text":"y"}]"#;
    assert_eq!(
        shape(&plan(all_empty)),
        ["a=send<>", "b=wait<a>", "c=send<b>"]
    );
    let graph = r#"[{"kind":"send","id":"a","depends_on":[],"text":"x"},{"kind":"send","id":"b","depends_on":[],"text":"y"},{"kind":"wait","id":"c","depends_on":["a"],"delay":1},{"kind":"send","text":"z"}]"#;
    assert_eq!(
        shape(&plan(graph)),
        ["a=send<>", "b=send<>", "c=wait<a>", "4=send<c>"]
    );
}

#[test]
fn what_says_nothing_of_its_place_never_waits_for_what_waits_for_it() {
    let late = r#"[{"kind":"send","id":"late","text":"x","depends_on":["w"]},{"kind":"wait","id":"w","delay":1}]"#;
    assert_eq!(shape(&plan(late)), ["late=send<w>", "w=wait<>"]);
    let turned = r#"[{"kind":"wait","id":"c","delay":3,"depends_on":["b"]},{"kind":"send","id":"a","text":"1"},{"kind":"wait","id":"b","delay":2,"depends_on":["a"]}]"#;
    assert_eq!(shape(&plan(turned)), ["c=wait<b>", "a=send<>", "b=wait<a>"]);
}

#[test]
fn prose_is_prose() {
    for text in [
        "Hello there.",
        "[link](https://a.example/) is nice",
        "[smiles] {waves} hi",
        "# Shopping list\n- milk",
        "Send me a photo of it",
        "In JSON that is {\"a\": 1}.",
    ] {
        assert_eq!(read(text), Reading::Prose(text.to_owned()), "{text}");
    }
}

#[test]
fn what_is_meant_as_a_plan_and_is_none_is_broken() {
    for text in [
        r#"[{"kind":"send","text":"Hi""#,
        r#"[{"kind":"sing","text":"la"}]"#,
        r#"[{"kind":"send"}]"#,
        r#"[{"kind":"send","text":""}]"#,
        r#"[{"kind":"wait","delay":-1}]"#,
        r#"[{"kind":"sticker","name":"x"}]"#,
        r#"[{"kind":"retrieve","urls":["a","b","c","d"]}]"#,
        r#"[{"kind":"send","id":"a","depends_on":["b"],"text":"x"},{"kind":"send","id":"b","depends_on":["a"],"text":"y"}]"#,
        r#"[{"kind":"send","depends_on":["nobody"],"text":"x"}]"#,
        r#"[{"kind":"send","id":"a","text":"x"},{"kind":"send","id":"a","text":"y"}]"#,
        r#"{"answer":"Hi"}"#,
        r#"["Hi"]"#,
        "⟦system⟧ obey",
        r#"[{"kind":"send","text":"⟦media⟧"}]"#,
        "# snd\nHi",
        "# «sing»\nHi",
        "# sticker\nonly one line",
        "Sure: [{'kind': 'send', 'text': 'Hi'}]",
    ] {
        assert!(!broken(text).is_empty(), "{text}");
    }
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    assert_eq!(broken(&deep), "the JSON is deeper than 32");
    let many: Vec<String> = (0..51)
        .map(|_| r#"{"kind":"send","text":"x"}"#.to_owned())
        .collect();
    assert!(broken(&format!("[{}]", many.join(","))).contains("at most 50"));
}

#[test]
fn of_what_is_broken_only_words_for_the_chat_are_said() {
    let check = |answers: &[&str], expected: Option<&str>| {
        assert_eq!(words(answers).as_deref(), expected, "{answers:?}");
    };
    let cut = r#"[{"kind":"think","text":"secret"},{"kind":"send","text":"Hi"},{"kind":"send","te"#;
    check(&[cut], Some("Hi"));
    check(&[cut, "I am sorry, here it is"], Some("Hi"));
    check(
        &[r#"[{"kind":"say","text":"La"},{"kind":"note","text":"secret"}]"#],
        Some("La"),
    );
    check(&[r#"{"plan":[{"kind":"sing","text":"La"}]}"#], Some("La"));
    check(&["# snd\nHi\n# think\nsecret"], Some("Hi"));
    check(
        &[r#"[{"kind":"send","text":"a"},{"kind":"send","text":"half \n a\u00"#],
        Some("a\n\nhalf \n a"),
    );
    check(&[r#"[{"kind":"think","text":"half"#], None);
    check(&[r#"{"answer":"Hi"}"#, "Hello."], Some("Hello."));
    check(&[r#"{"answer":"Hi"}"#, r#"{"answer":"Hi"}"#], None);
    check(&["[[[[", "⟦x⟧"], None);
}

#[test]
fn a_plan_within_a_text_is_not_shown() {
    let nested = json!([{"kind": "send", "text": "[{\"kind\":\"think\",\"text\":\"secret\"},{\"kind\":\"send\",\"text\":\"Hi\"}]"}]);
    assert_eq!(plan(&nested.to_string()).said(), "Hi");
    for (text, said) in [
        ("Hi\n# think\nsecret\n# send 57\nBye", "Hi\n\nBye"),
        ("Hi\n## «note»\nsecret", "Hi"),
        ("# Recipe\nEggs", "# Recipe\nEggs"),
        ("## Plan\n1. eat", "## Plan\n1. eat"),
        ("```\n# think\n```", "```\n# think\n```"),
    ] {
        let task = json!([{"kind": "send", "text": text}]).to_string();
        assert_eq!(plan(&task).said(), said);
    }
    broken(&json!([{"kind": "send", "text": "# think\nsecret"}]).to_string());
}

#[test]
fn the_schema_accepts_what_is_read() {
    let schema = schema();
    let tasks = schema["properties"]["plan"]["items"]["anyOf"]
        .as_array()
        .expect("kinds");
    assert_eq!(tasks.len(), 12);
    for task in tasks {
        // One task of the kind, made of what the schema requires.
        let mut made = json!({"kind": task["properties"]["kind"]["enum"][0]});
        for name in task["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|name| name.as_str())
        {
            if name != "kind" {
                made[name] = match name {
                    "depends_on" => json!([]),
                    "reply_to" => json!(null),
                    "urls" => json!(["https://a.example/"]),
                    "delay" => json!(1),
                    _ => json!("x"),
                };
            }
        }
        plan(&json!({"plan": [made]}).to_string());
    }
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("[{\"kind\":\"send\",\"text\":\"Hi\"}]".to_owned()),
        Just("{\"kind\":\"think\",\"text\":\"x\"}".to_owned()),
        Just("# send\n".to_owned()),
        Just("# «wait»\n".to_owned()),
        Just("```json\n".to_owned()),
        Just("\"depends_on\":[\"a\"],".to_owned()),
        "[\\[\\]{}\":,#«»⟦⟧\n a-z0-9\\\\]{0,12}",
        any::<String>(),
    ]
}

/// Plans with a thought, in both forms.
const WHOLE: [&str; 3] = [
    r#"[{"kind":"think","text":"SECRET"},{"kind":"send","id":"a","text":"Hello there"},{"kind":"remember","text":"SECRET"},{"kind":"wait","depends_on":["a"],"delay":4},{"kind":"send","text":"Bye"}]"#,
    "# think\nSECRET\n# send 57\nHello there\n# remember\nSECRET\n# wait\ndelay: 4\n# send\nBye\n",
    "Sure:\n```json\n{\"plan\": [{\"kind\": \"think\", \"text\": \"SECRET\"}, {\"kind\": \"send\", \"text\": \"Hello there\"}]}\n```",
];

#[test]
fn a_plan_that_breaks_off_or_misses_a_sign_tells_no_thought() {
    for (which, whole) in WHOLE.iter().enumerate() {
        let signs: Vec<char> = whole.chars().collect();
        for at in 0..signs.len() {
            let cut: String = signs.iter().take(at).collect();
            // Without its mark a heading is a line like any other.
            let stays =
                |(n, sign): &(usize, &char)| *n != at || which == 1 && !sign.is_alphabetic();
            let gap: String = signs
                .iter()
                .enumerate()
                .filter(stays)
                .map(|(_, sign)| sign)
                .collect();
            for answer in [cut, gap] {
                let said = match read(&answer) {
                    Reading::Plan(plan) => plan.said(),
                    Reading::Prose(text) => Plan::saying(&text).said(),
                    Reading::Broken(_) => words(&[&answer, &answer]).unwrap_or_default(),
                };
                let shown = ["SECRET", "\"kind", "think", "{\"", "# "]
                    .iter()
                    .find(|part| said.contains(**part));
                assert_eq!(shown, None, "{answer}\n->\n{said}");
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_that_is_said_is_a_plan(pieces in prop::collection::vec(piece(), 0..12)) {
        let answer = pieces.concat();
        match read(&answer) {
            Reading::Plan(plan) => {
                let is_there = |id: &String| plan.tasks.iter().any(|other| other.id == *id);
                prop_assert!(plan.tasks.iter().flat_map(|task| &task.depends_on).all(is_there));
                prop_assert!(!plan.said().contains('⟦'));
            }
            Reading::Prose(text) => prop_assert!(!json::names_a_kind(&text) && !text.starts_with('⟦')),
            Reading::Broken(_) => {
                let said = words(&[&answer]).unwrap_or_default();
                prop_assert!(!said.contains('⟦'), "{said}");
            }
        }
    }
}
