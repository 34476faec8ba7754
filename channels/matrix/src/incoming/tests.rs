//! Events as clients write them, and as nobody should.
use super::*;
use serde_json::json;

fn me() -> Me {
    Me {
        id: "@agent:example.org".to_owned(),
        name: "Agent".to_owned(),
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "written as json!({…}) where it is used"
)]
fn event(content: Value) -> Value {
    json!({"type": "m.room.message", "event_id": "$e1", "sender": "@ada:example.org", "content": content})
}

fn read(content: Value) -> Option<Heard> {
    message(&event(content), &me())
}

fn text(content: Value) -> String {
    read(content).expect("a message").text
}

#[test]
fn words_come_without_quotes_and_programs_are_not_heard() {
    assert_eq!(text(json!({"msgtype": "m.text", "body": "hello"})), "hello");
    assert_eq!(
        text(json!({"msgtype": "m.emote", "body": "waves"})),
        "* waves"
    );
    let answer = json!({"msgtype": "m.text", "body": "> <@bob:example.org> old\n> more\n\nnew\n> kept",
        "m.relates_to": {"m.in_reply_to": {"event_id": "$e0"}}});
    let heard = read(answer).expect("a message");
    assert_eq!(
        (heard.text.as_str(), heard.reply_to.as_deref()),
        ("new\n> kept", Some("$e0"))
    );
    // Who quotes without answering means the words.
    assert_eq!(
        text(json!({"msgtype": "m.text", "body": "> <@x> a\nb"})),
        "> <@x> a\nb"
    );
    for nothing in [
        json!({"msgtype": "m.notice", "body": "I am a program"}),
        json!({"msgtype": "m.key.verification.request", "body": "x"}),
        json!({"msgtype": "m.text", "body": " "}),
        json!({"msgtype": "m.text", "body": 7}),
        json!({"msgtype": "m.image", "body": "no address"}),
        json!({}),
        json!(null),
    ] {
        assert_eq!(read(nothing.clone()), None, "{nothing}");
    }
    let mut own = event(json!({"msgtype": "m.text", "body": "mine"}));
    own["sender"] = json!("@agent:example.org");
    assert_eq!(message(&own, &me()), None);
    for (field, wrong) in [
        ("event_id", json!(null)),
        ("sender", json!("@\u{7}:x")),
        ("event_id", json!("x".repeat(300))),
    ] {
        let mut odd = event(json!({"msgtype": "m.text", "body": "odd"}));
        odd[field] = wrong;
        assert_eq!(message(&odd, &me()), None, "{odd}");
    }
}

#[test]
fn a_thread_is_one_and_its_fallback_is_no_answer() {
    let relation = |falling: bool| {
        json!({"rel_type": "m.thread", "event_id": "$root", "is_falling_back": falling,
        "m.in_reply_to": {"event_id": "$last"}})
    };
    let heard = |falling| {
        let content = json!({"msgtype": "m.text", "body": "x", "m.relates_to": relation(falling)});
        read(content).expect("a message")
    };
    assert_eq!(heard(true).thread.as_deref(), Some("$root"));
    assert_eq!(heard(true).reply_to, None);
    assert_eq!(heard(false).reply_to.as_deref(), Some("$last"));
}

#[test]
fn an_edit_is_the_new_words_of_the_old_message() {
    let content = json!({"msgtype": "m.text", "body": "* new", "m.new_content": {"msgtype": "m.text", "body": "new"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$old"}});
    let heard = read(content).expect("a message");
    assert_eq!(
        (heard.text.as_str(), heard.edit_of.as_deref()),
        ("new", Some("$old"))
    );
    let without = json!({"msgtype": "m.text", "body": "* new", "m.relates_to": {"rel_type": "m.replace", "event_id": "$old"}});
    assert_eq!(read(without), None);
}

#[test]
fn who_is_spoken_to_is_what_the_client_says_or_else_what_the_words_say() {
    let mentions = |content: Value| read(content).expect("a message").is_mentioning;
    let says = |body: &str| mentions(json!({"msgtype": "m.text", "body": body}));
    assert!(
        says("Agent: how full?") && says("tell me, agent, how") && says("@agent:example.org hi")
    );
    assert!(!says("agents are many") && !says("a reagent") && !says("hello"));
    // A pill, as older clients write it.
    let pill = "<a href=\"https://matrix.to/#/@agent:example.org\">Bot</a> hi";
    assert!(mentions(
        json!({"msgtype": "m.text", "body": "Bot hi", "formatted_body": pill})
    ));
    let coded = "<a href=\"https://matrix.to/#/%40agent%3aexample.org\">Bot</a> hi";
    assert!(mentions(
        json!({"msgtype": "m.text", "body": "Bot hi", "formatted_body": coded})
    ));
    // The client says, and is believed, both ways.
    let said = |body: &str, ids: Value| {
        mentions(json!({"msgtype": "m.text", "body": body, "m.mentions": {"user_ids": ids}}))
    };
    assert!(said("you there", json!(["@agent:example.org"])));
    assert!(
        !said("Agent is slow", json!([])) && !said("Agent is slow", json!(["@bob:example.org"]))
    );
    // A command is all of a message.
    let command = json!({"msgtype": "m.text", "body": "Agent: /status", "m.mentions": {"user_ids": ["@agent:example.org"]}});
    assert_eq!(text(command), "/status");
    assert_eq!(
        text(json!({"msgtype": "m.text", "body": "Agent:"})),
        "Agent:"
    );
}

#[test]
fn a_file_has_a_name_and_a_caption_only_when_there_is_one() {
    let plain = json!({"msgtype": "m.file", "body": "a.pdf", "url": "mxc://example.org/x", "info": {"size": 7, "mimetype": "application/pdf"}});
    let heard = read(plain).expect("a message");
    let file = heard.file.expect("a file");
    assert_eq!(
        (heard.text.as_str(), file.name.as_str(), file.size),
        ("", "a.pdf", Some(7))
    );
    let captioned = json!({"msgtype": "m.image", "body": "what is this?", "filename": "b.png", "url": "mxc://example.org/y"});
    let heard = read(captioned).expect("a message");
    assert_eq!(
        (
            heard.text.as_str(),
            heard.file.expect("a file").name.as_str()
        ),
        ("what is this?", "b.png")
    );
}

#[test]
fn lines_have_names_that_the_daemon_takes() {
    for id in [
        "$Rqnc-F-dvnEYJTyHq_iKxU2bZ1CI92-kuZq3a5lr5Zg",
        "$143273582443PhrSn:example.org",
        "$../../x",
        "$",
        &"$a".repeat(200),
    ] {
        let name = line_id(id);
        let is_plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        assert!(is_plain && (3..=64).contains(&name.len()), "{id}: {name}");
    }
    assert_ne!(line_id("$1:a.org"), line_id("$1:b.org"));
}

/// Returns the event with each of its values replaced by each of `wrong`, one at a time.
fn broken(event: &Value, wrong: &[Value]) -> Vec<Value> {
    let mut all = wrong.to_vec();
    let inner: Vec<(String, Value)> = match event {
        Value::Object(fields) => fields.clone().into_iter().collect(),
        Value::Array(items) => (0..)
            .map(|at: usize| at.to_string())
            .zip(items.clone())
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in inner {
        for other in broken(&value, wrong) {
            let mut event = event.clone();
            match &mut event {
                Value::Object(fields) => drop(fields.insert(name.clone(), other)),
                Value::Array(items) => items[name.parse::<usize>().expect("a number")] = other,
                _ => {}
            }
            all.push(event);
        }
    }
    all
}

#[test]
fn whatever_is_wrong_in_an_event_what_is_read_of_it_fits_the_daemon() {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let wrong = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("\u{0}\n"),
        json!("> <@a:b> x"),
        json!(format!("${}", "x".repeat(70_000))),
        json!("\u{202e}🏳️‍🌈"),
        json!([]),
        json!({}),
        json!(["m.text"]),
        json!({"event_id": {"event_id": "$e1"}}),
        deep,
    ];
    let relations = [
        json!({"rel_type": "m.replace", "event_id": "$e1"}),
        json!({"rel_type": "m.thread", "event_id": "$e1", "is_falling_back": false, "m.in_reply_to": {"event_id": "$e1"}}),
        json!({"rel_type": "m.annotation", "event_id": "$e1", "key": "👍"}),
    ];
    let mut count = 0;
    for (kind, relation) in ["m.text", "m.image", "m.location"].iter().zip(relations) {
        let content = json!({"msgtype": kind, "body": "agent: hi", "formatted_body": "<b>hi</b>", "filename": "a.png", "url": "mxc://a/b",
            "file": {"url": "mxc://a/b", "key": {"k": "x"}}, "geo_uri": "geo:1,2", "info": {"size": 7, "mimetype": "image/png"},
            "m.mentions": {"user_ids": ["@agent:example.org"]}, "m.relates_to": relation,
            "m.new_content": {"msgtype": kind, "body": "agent: ho", "url": "mxc://a/b"}});
        for event in broken(&event(content), &wrong) {
            count += 1;
            let ids = |ids: &[&String]| ids.iter().all(|id| (1..=MAX_ID).contains(&id.len()));
            if let Some(heard) = message(&event, &me()) {
                let others: Vec<&String> = [&heard.reply_to, &heard.thread, &heard.edit_of]
                    .into_iter()
                    .flatten()
                    .collect();
                assert!(
                    ids(&[&heard.id, &heard.sender]) && ids(&others),
                    "{heard:?}"
                );
                let kind = heard.kind.as_deref().unwrap_or_default();
                assert!(
                    heard.text.chars().count() <= MAX_TEXT && kind.len() < 500,
                    "{heard:?}"
                );
                let file = heard
                    .file
                    .iter()
                    .all(|file| !file.name.is_empty() && file.name.chars().count() <= 150);
                assert!(file, "{heard:?}");
            }
            if let Some(heard) = reaction(&event, &me()) {
                assert!(
                    ids(&[&heard.id, &heard.sender, &heard.to]) && !heard.emoji.is_empty(),
                    "{heard:?}"
                );
            }
        }
    }
    assert!(count > 1_000, "{count}");
}

#[test]
fn reactions_are_read_but_never_our_own() {
    let event = |sender: &str| {
        json!({"type": "m.reaction", "event_id": "$r", "sender": sender,
        "content": {"m.relates_to": {"rel_type": "m.annotation", "event_id": "$e", "key": "👍"}}})
    };
    let read = reaction(&event("@ada:example.org"), &me()).expect("a reaction");
    assert_eq!((read.emoji.as_str(), read.to.as_str()), ("👍", "$e"));
    assert_eq!(reaction(&event("@agent:example.org"), &me()), None);
}

#[test]
fn when_it_was_written_is_told_where_the_homeserver_says_so() {
    let at = |time: Value| {
        let mut event = event(json!({"msgtype": "m.text", "body": "hello"}));
        event["origin_server_ts"] = time;
        message(&event, &me()).expect("a message").sent_at
    };
    let written = at(json!(1_795_305_601_020_u64));
    assert_eq!(written.as_deref(), Some("2026-11-22T00:00:01.020Z"));
    for odd in [
        json!(null),
        json!(-1),
        json!("now"),
        json!(1e300),
        json!(u64::MAX),
    ] {
        assert_eq!(at(odd.clone()), None, "{odd}");
    }
    let mut event = event(
        json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$e0", "key": "👍"}}),
    );
    event["origin_server_ts"] = json!(1_795_305_601_020_u64);
    let reaction = reaction(&event, &me()).expect("a reaction");
    assert_eq!(reaction.sent_at, written);
}
