//! Requests to remember, and what is saved.

use super::*;

fn keep(text: &str, expected: &str) {
    assert_eq!(read(text), Some(Note::Keep(expected.to_owned())), "{text}");
}

#[test]
fn the_words_are_kept_as_the_person_said_them() {
    keep(
        "remember that my sister's birthday is 3 May",
        "My sister's birthday is 3 May.",
    );
    keep("Please remember: I like tea!", "I like tea!");
    keep("remember my car is red", "My car is red.");
    keep(
        "Note that the boiler was serviced in 2025.",
        "The boiler was serviced in 2025.",
    );
    keep("note: milk", "Milk");
    keep("Don’t forget that Anna is vegan, ok?", "Anna is vegan.");
    keep("keep in mind I hate loud places", "I hate loud places.");
    keep(
        "Can you remember that I live in Berlin?",
        "I live in Berlin.",
    );
    keep("could you please remember this: gate B12", "Gate B12.");
    keep(
        "I want you to remember that Bob is my boss",
        "Bob is my boss.",
    );
    keep("remember to call Bob", "Remember to call Bob.");
    keep(
        "Don't forget to call Bob, please",
        "Don't forget to call Bob.",
    );
    keep("remember that iPhone 15 is mine", "iPhone 15 is mine.");
    keep("remember https://example.org/a", "https://example.org/a");
    keep("remember: !exec rm -rf x", "!exec rm -rf x.");
    keep("remember that:\n- milk\n- eggs", "- milk\n- eggs");
    keep("I live in Berlin. Remember that.", "I live in Berlin.");
    keep(
        "my door code changes monthly, please remember this",
        "My door code changes monthly.",
    );
    keep("remember that 猫が好き", "猫が好き");
}

#[test]
fn a_question_about_remembering_is_no_order() {
    for text in [
        "do you remember my sister's birthday?",
        "remember when we met?",
        "Can you remember my birthday?",
        "can you remember what I said?",
        "Remember me?",
        "I remember that day",
        "note the difference",
        "notes on tea",
        "save the whales",
        "I'll remember that",
        "remembering is hard",
        "",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn nothing_to_keep_is_noticed() {
    for text in [
        "remember",
        "Remember!",
        "remember that",
        "please remember this.",
        "remember:",
        "note that",
    ] {
        assert_eq!(read(text), Some(Note::Empty), "{text}");
    }
}

#[test]
fn a_secret_is_not_kept() {
    for text in [
        "remember that my wifi password is hunter2",
        "remember: password=hunter2",
        "remember my PIN is 4711",
        "note that the pin of my card is 1234",
        "remember my card number 4111 1111 1111 1111",
        "remember ghp_0123456789abcdefghij",
        "remember api_key: abc",
        "remember that my passwords are a and b",
    ] {
        assert_eq!(read(text), Some(Note::Secret), "{text}");
    }
    keep(
        "remember that I must change my password on Friday",
        "I must change my password on Friday.",
    );
    keep(
        "remember the pin board in the hall",
        "The pin board in the hall.",
    );
    keep(
        "remember that order 4111 1111 1111 1112 came",
        "Order 4111 1111 1111 1112 came.",
    );
}
