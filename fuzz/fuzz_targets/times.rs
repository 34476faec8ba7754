//! Whatever somebody writes for a time is read without a panic, and a line's times come in order.
#![no_main]

use agent_toolkit::jobs::{Crontab, parse_at, parse_every, parse_zone};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let zone = parse_zone("Australia/Lord_Howe").expect("a zone");
    let _ = parse_zone(&text);
    let _ = parse_at(&text, zone);
    assert!(parse_every(&text).map_or(true, |every_ms| every_ms >= 10_000));
    let Ok(line) = Crontab::parse(&text) else { return };
    assert_eq!(Crontab::parse(line.as_str()).as_ref(), Ok(&line));
    // Half an hour of 2026-04-05 is shown twice there.
    let mut last = 1_775_300_000_000;
    for _ in 0..50 {
        let Some(next) = line.next_after(last, zone) else { return };
        assert!(next > last);
        last = next;
    }
});
