//! Work on bytes from outside takes time linear in their length: every room that looks into messages, pages, files,
//! answers of models or lines of programs.

use crate::text::linear::check;
use crate::{agent, control, jobs, language, media, memory, net, secret, text, trust};

#[test]
fn texts_that_anybody_wrote() {
    check("visible", |text| drop(text::visible(text)));
    check("hidden characters", |text| {
        drop(text::hidden_chars::find(text, 20))
    });
    check("without hidden characters", |text| {
        drop(text::hidden_chars::without(text))
    });
    check("shorten", |text| drop(text::shorten(text, 300)));
    check("head and tail", |text| {
        drop(text::head_and_tail(text, 20_000, 70))
    });
    check("file name", |text| drop(text::file_name(text, "._-")));
    check("a command", |text| drop(text::argv::plain(text)));
    check("differences", |text| {
        drop(text::line_diff(text, &format!("{text}x")))
    });
    check("fence", |text| {
        drop(trust::fence::around("0a1b", "a page", text))
    });
    check("redact", |text| drop(secret::redact(text)));
    check("withhold", |text| drop(secret::withhold(text)));
    check("text of a file", |text| {
        drop(media::text(text.as_bytes(), true))
    });
    check("kind of a file", |text| {
        std::hint::black_box(media::sniff(text.as_bytes()));
    });
    check("words of a server", |text| drop(net::server_text(text)));
}

#[test]
fn data_that_anybody_sent() {
    check("depth of JSON", |text| drop(text::json::pruned(text)));
    check("JSON", |text| {
        drop(text::json::parse::<serde_json::Value>(text.as_bytes()))
    });
    check("a control line", |text| {
        drop(control::decode(text.as_bytes()))
    });
    let line = |text: &str| serde_json::json!({"v": 1, "cmd": "user", "text": text}).to_string();
    check("a message in a control line", |text| {
        drop(control::decode(line(text).as_bytes()))
    });
    check("a time", |text| drop(jobs::parse_every(text)));
    check("items of a heartbeat", |text| {
        std::hint::black_box(jobs::heartbeat_gate::has_item(text));
    });
    check("an item of the memory", |text| {
        drop(memory::items::parse("a", text))
    });
    check("front matter", |text| {
        drop(memory::items::parse(
            "a",
            &format!("---\n{text}\n---\n{text}"),
        ))
    });
}

#[test]
fn words_and_their_language() {
    check("another language", |text| {
        std::hint::black_box(language::detect::foreign(text));
    });
    check("words", |text| {
        language::tokenize::each_word(text, |word| {
            std::hint::black_box(word);
        });
    });
}

#[test]
fn facts_drawn_from_a_message() {
    check("facts", |text| drop(memory::extract::speech(text)));
}

#[test]
fn commitments_drawn_from_a_message() {
    check("commitments", |text| {
        drop(memory::extract::commitments(text, 0, chrono_tz::UTC));
    });
}

#[test]
fn what_is_drawn_from_answers_and_notes() {
    check("facts of the agent", |text| {
        drop(memory::extract::own(text))
    });
    check("facts of a note", |text| drop(memory::extract::notes(text)));
    check("what is kept of words", |text| {
        drop(memory::extract::kept(text))
    });
}

#[test]
fn plans_of_a_model() {
    check("a plan", |text| drop(agent::plan::read(text)));
    check("a plan in JSON", |text| {
        drop(agent::plan::read(&format!(
            "[{{\"kind\":\"send\",\"text\":\"{text}"
        )));
    });
}
