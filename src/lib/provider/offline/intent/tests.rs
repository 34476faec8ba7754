//! Phrases, and what they are taken for.

use super::*;

#[test]
fn a_question_is_looked_up_by_what_it_is_about() {
    let check = |text: &str, expected: &str| {
        assert_eq!(read(text, None), Wish::Question(expected), "{text}")
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
        assert_eq!(read(text, None), Wish::Statement, "{text}");
    }
}

#[test]
fn a_question_about_the_agent_is_known() {
    let check = |text: &str, expected: Topic| {
        assert_eq!(read(text, Some("Ada")), Wish::Myself(expected), "{text}")
    };
    check("Hello, who are you?", Topic::Who);
    check("Hi Ada! What can you do?", Topic::Abilities);
    check("help", Topic::Abilities);
    check("What model are you?", Topic::Model);
    check("Are you still there?", Topic::There);
    check("How are you?", Topic::HowAreYou);
    assert_eq!(read("what time is it?", None), Wish::Time);
    assert_eq!(read("remind me to call Bob", None), Wish::Reminder);
}

#[test]
fn small_talk_is_known() {
    let check = |text: &str, expected: Talk| {
        assert_eq!(read(text, Some("Ada")), Wish::Small(expected), "{text}")
    };
    check("Hello!", Talk::Hello);
    check("hi Ada", Talk::Hello);
    check("thanks for remembering", Talk::Thanks);
    check("ok danke", Talk::Thanks);
    check("bye", Talk::Goodbye);
    check("ok", Talk::Yes);
}

#[test]
fn what_to_summarise_is_told_apart() {
    let check = |text: &str, expected: Subject<'_>| {
        assert_eq!(read(text, None), Wish::Summary(expected), "{text}")
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
    assert_eq!(read("!exec ls", None), Wish::Order("!exec ls"));
    assert_eq!(read("so !exec ls", None), Wish::Statement);
    assert_eq!(read(" \n", None), Wish::Nothing);
    assert_eq!(read("remember", None), Wish::Remember(Note::Empty));
}
