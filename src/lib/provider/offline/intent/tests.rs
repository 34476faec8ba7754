//! Phrases, and what they are taken for.

use super::*;

#[test]
fn a_question_is_looked_up_by_what_it_is_about() {
    let check = |text: &str, expected: &str| {
        assert_eq!(read(text, None), Intent::Question(expected), "{text}")
    };
    check(
        "When is my sister's birthday?",
        "When is my sister's birthday?",
    );
    check("hey, where is my passport", "where is my passport");
    check("what do you know about me?", "me?");
    check("Tell me about the harbour", "the harbour");
    check(
        "do you remember my sister's birthday?",
        "my sister's birthday?",
    );
    check("do you know who Anna is", "who Anna is");
    check("search for boiler service", "boiler service");
    check("did Bob call", "did Bob call");
    check("Wann hat Anna Geburtstag?", "Wann hat Anna Geburtstag?");
    check("妹の誕生日はいつですか？", "妹の誕生日はいつですか？");
    check("Where is it? Thank you!", "Where is it? Thank you!");
    check("What colour is my car", "What colour is my car");
}

#[test]
fn a_statement_is_no_question() {
    let statements = [
        "I live in Berlin.",
        "What a nice day",
        "When I was young I lived in Rome.",
        "do the dishes",
        "have a nice day",
        "will do",
        "may the force be",
        "See https://x.org/?q=1 for it",
        "How nice of you",
        "Findings are good",
        "summer is here",
        "Notes on tea",
    ];
    for text in statements {
        assert_eq!(read(text, None), Intent::Statement, "{text}");
    }
}

#[test]
fn small_talk_is_known() {
    let check = |text: &str, expected: &str| {
        let Intent::SmallTalk(talk) = read(text, Some("Ada")) else {
            panic!("{text}")
        };
        assert!(talk.answer.starts_with(expected), "{text}: {}", talk.answer);
    };
    check("Hello, who are you?", "I am {name}");
    check("Hi Ada! What can you do?", "{introduction}");
    check("help", "{introduction}");
    check("What model are you?", "None.");
    check("Are you still there?", "Yes, I am here.");
    check("what time is it?", "{time}");
    for text in [
        "remind me to call Bob",
        "Remind me tomorrow at 9 to call Ana",
    ] {
        check(text, "I cannot set reminders from words; nothing is set.");
    }
    check("please forget my birthday", "I cannot forget on order.");
    check("Hello!", "Hello!");
    check("hi Ada", "Hello!");
    check("thanks for remembering", "You are welcome.");
    check("ok danke", "You are welcome.");
    check("bye", "Goodbye!");
    check("ok", "All right.");
}

#[test]
fn what_to_summarise_is_told_apart() {
    let check = |text: &str, expected: Subject<'_>| {
        assert_eq!(read(text, None), Intent::Summary(expected), "{text}")
    };
    check("summarise: One. Two.", Subject::Text("One. Two."));
    check("TL;DR: One. Two.", Subject::Text("One. Two."));
    check(
        "Please summarize this:\nOne. Two.",
        Subject::Text("One. Two."),
    );
    check(
        "can you summarise notes/plan.md?",
        Subject::File("notes/plan.md"),
    );
    check("sum up the file plan", Subject::File("plan"));
    check("summarise `a.md`", Subject::File("a.md"));
    check("summarise", Subject::Attached);
    check("summarise the attached file please", Subject::Attached);
    check(
        "give me a summary of this conversation",
        Subject::Conversation,
    );
    check("what did we talk about today?", Subject::Conversation);
    check("summarise our chat so far", Subject::Conversation);
    check("summarise the meeting", Subject::Unknown);
}

#[test]
fn orders_begin_with_their_mark() {
    assert_eq!(read("!exec ls", None), Intent::Command("!exec ls"));
    assert_eq!(read("so !exec ls", None), Intent::Statement);
    assert_eq!(read(" \n", None), Intent::Nothing);
    assert_eq!(read("remember", None), Intent::Remember(Note::Empty));
}
