//! Which group messages are addressed to us.

use super::*;

/// Marks every stretch of `text` between `[kind:` and `]`, as Telegram would: `[mention:@our_bot] hi`.
fn marked(text: &str) -> (String, Vec<Value>) {
    let (mut plain, mut entities) = (String::new(), Vec::new());
    for (at, part) in text.split(['[', ']']).enumerate() {
        let (kind, words) = if at % 2 == 1 {
            part.split_once(':').expect("[kind:words]")
        } else {
            ("", part)
        };
        if !kind.is_empty() {
            let (offset, length) = (plain.encode_utf16().count(), words.encode_utf16().count());
            let user = kind
                .strip_prefix("text_mention=")
                .map(|id| json!({"id": id, "is_bot": true, "first_name": "x"}));
            let kind = kind.split('=').next();
            entities.push(json!({"type": kind, "offset": offset, "length": length, "user": user}));
        }
        plain.push_str(words);
    }
    (plain, entities)
}

fn said(text: &str) -> Value {
    let (text, entities) = marked(text);
    json!({"text": text, "entities": entities})
}

const CALLS: &[&str] = &[
    "[mention:@our_bot] what is it?",
    "[mention:@OUR_bot]",
    "😀😀 tell me, [mention:@our_bot]",
    "[mention:@other_bot] and [mention:@our_bot]",
    "[text_mention=42:Robby] come",
    "[bot_command:/status]",
    "[bot_command:/status@Our_Bot] now",
    "[bot_command:/dance@our_bot]",
    "as [bot_command:/help@our_bot] says",
    "Robo, what is it?",
    "hey ROBO!",
    "thanks,robo:go",
    "(robo)",
    "请小助帮忙",
    "[bold:Robo] help",
];

const SILENCE: &[&str] = &[
    "hello everybody",
    "@our_bot without a mark",
    "[mention:@our_bot2] hello",
    "[mention:@other_bot] hello",
    "[text_mention=43:Robo] hello",
    "see [url:https://t.me/@our_bot] there",
    "mail [email:robo@our_bot.example]",
    "[code:@our_bot] is its name",
    "[pre:call robo now]",
    "[url:robo.example] is down",
    "[blockquote:Robo said so] really?",
    "[hashtag:#robo]",
    "[bot_command:/status@other_bot] Robo",
    "[bot_command:/stop@other_bot] [mention:@our_bot]",
    "[bot_command:/dance]",
    "what does [bot_command:/status] do?",
    "robots are robo_cops, microrobo",
    "ro[bold:b]ots",
    "ro[code:x]bo",
];

#[test]
fn a_call_is_a_mark_a_command_or_a_name() {
    for (texts, expected) in [(CALLS, true), (SILENCE, false)] {
        for text in texts {
            assert_eq!(read(&group(&said(text))).addressed, expected, "{text}");
            assert!(
                read(&private(&said(text))).addressed,
                "in private everything is: {text}"
            );
            let (words, entities) = marked(text);
            let photo =
                json!({"caption": words, "caption_entities": entities, "photo": [size("p", 9, 9)]});
            let captioned = read(&group(&photo)).addressed;
            assert_eq!(captioned, expected, "as a caption: {text}");
        }
    }
}

#[test]
fn mention_reply_topic_and_name_in_every_mixture() {
    let from = |id: i64| json!({"message_id": 4, "date": 1, "text": "before", "from": {"id": id, "is_bot": true, "first_name": "Robo"}});
    let root = with(
        from(BOT),
        &json!({"message_id": 77, "forum_topic_created": {"name": "t"}}),
    );
    let replies = [
        (None, false),
        (Some(from(BOT)), true),
        (Some(from(43)), false),
        (Some(root), false),
    ];
    let mentions = [
        ("", false),
        ("[mention:@our_bot] ", true),
        ("[mention:@bob_the_man] ", false),
    ];
    for (mention, called) in mentions {
        for name in ["go", "go Robo"] {
            for (reply, answers) in &replies {
                for topic in [
                    json!({}),
                    json!({"is_topic_message": true, "message_thread_id": 77}),
                ] {
                    let mut extra = with(said(&format!("{mention}{name}")), &topic);
                    extra["reply_to_message"] = reply.clone().into();
                    let expected = called || *answers || name.contains("Robo");
                    assert_eq!(read(&group(&extra)).addressed, expected, "{extra}");
                }
            }
        }
    }
    // What is meant for another bot is not for us, even below our own message.
    let extra = with(
        said("[bot_command:/go@other_bot] Robo"),
        &json!({"reply_to_message": from(BOT)}),
    );
    assert!(!read(&group(&extra)).addressed);
}

#[test]
fn commands_of_a_group_are_ours_only_when_they_call_us() {
    let command = |text: &str| read(&group(&said(text))).command;
    for (text, expected) in [
        ("[bot_command:/status]", Some(Command::Status)),
        (
            "[bot_command:/stop@our_bot] please",
            Some(Command::Stop { all: false }),
        ),
        ("[bot_command:/stop@other_bot]", None),
        ("[code:/stop]", None),
        ("[mention:@our_bot] what does /stop do?", None),
    ] {
        assert_eq!(command(text), expected, "{text}");
    }
    // Before our name is known nobody can tell whom it is for.
    let nameless = Identity {
        username: None,
        ..us()
    };
    let read = |text: &str| incoming(&group(&said(text)), &nameless).expect("a message");
    let stop = read("[bot_command:/stop@our_bot]");
    assert!(stop.command.is_none() && !stop.addressed);
    for text in ["[text_mention=42:you]", "Robo?", "[bot_command:/stop]"] {
        assert!(read(text).addressed, "{text}");
    }
}

#[test]
fn words_that_are_passed_on_call_nobody() {
    let origin =
        json!({"forward_origin": {"type": "hidden_user", "sender_user_name": "Eve", "date": 1}});
    for text in CALLS {
        assert!(
            !read(&group(&with(said(text), &origin))).addressed,
            "{text}"
        );
        assert!(
            read(&private(&with(said(text), &origin))).addressed,
            "{text}"
        );
    }
}

#[test]
fn without_names_nobody_is_called_by_one() {
    let addressed = |text: &str, aliases: &[&str]| {
        let bot = Identity {
            aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            ..us()
        };
        let incoming = incoming(&group(&said(text)), &bot);
        incoming.expect("a message").addressed
    };
    assert!(!addressed("Robo, hello ", &["", " "]));
    for (text, expected) in [
        ("c++ is my agent", true),
        ("ask My agent.", true),
        ("hi🤖hi", true),
        ("my agents", false),
        ("cc+", false),
    ] {
        let called = addressed(text, &[" C++ ", "MY Agent", "🤖"]);
        assert_eq!(called, expected, "{text}");
    }
}
