//! Whatever Telegram sends as an update is read without a panic, and what is read of it is bounded.
#![no_main]

use agent_toolkit::channel::telegram::read_update;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Ok(update) = serde_json::from_slice::<Value>(bytes) else { return };
    let (id, incoming) = read_update(&update);
    assert_eq!(id.is_some(), update["update_id"].as_i64().is_some() || id_in_words(&update["update_id"]));
    let Some(incoming) = incoming else { return };
    let id = id.expect("only an update with an id brings something");
    assert_eq!(incoming.key, format!("tg:42:{id}"));
    assert!(incoming.kind.is_none_or(|kind| kind.chars().count() <= 601 && !kind.contains('\n')));
    assert!(incoming.quoted.is_none_or(|quoted| quoted.text.chars().count() <= 301));
    assert!(incoming.group.is_none_or(|title| title.chars().count() <= 131));
});

fn id_in_words(value: &Value) -> bool {
    value.as_str().is_some_and(|id| id.parse::<i64>().is_ok())
}
