//! Any text, as Markdown and as plain words, becomes messages that Telegram takes, and nothing is lost. The first
//! byte says how long a message may be.
#![no_main]

use agent_toolkit::channel::telegram::tests::check_markdown;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((limit, text)) = bytes.split_first() else { return };
    check_markdown(&String::from_utf8_lossy(text), 64 + usize::from(*limit) * 15);
});
