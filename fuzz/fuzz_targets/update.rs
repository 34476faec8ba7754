//! Whatever Telegram sends as an update is read without a panic, and what is read of it is bounded.
#![no_main]

use agent_toolkit::channel::telegram::tests::check_update;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(update) = serde_json::from_slice(bytes) {
        check_update(&update);
    }
});
