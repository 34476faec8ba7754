//! The parser that `$PARSER` names, fed with any bytes.
#![no_main]

use std::sync::OnceLock;

use agent_toolkit::parsers::{Check, PARSERS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    static PARSER: OnceLock<Check> = OnceLock::new();
    let check = PARSER.get_or_init(|| {
        let name = std::env::var("PARSER").unwrap_or_default();
        let found = PARSERS.iter().find(|(parser, _)| *parser == name);
        found.unwrap_or_else(|| panic!("no parser {name:?}")).1
    });
    check(bytes);
});
