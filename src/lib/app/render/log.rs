//! The newest entries of the log, a line each, the newest last.

use chrono_tz::Tz;
use serde_json::{Map, Value};

use super::Context;
use crate::app::cli::Exit;
use crate::app::documents;
use crate::app::documents::log::Entries;
use crate::{clock, text};

/// Shows the newest entries of the log.
pub(crate) fn log(context: &Context<'_>, log: &Entries) -> Exit {
    context.entries(log, line, "the log is empty")
}

fn line(entry: &Map<String, Value>, zone: Tz) -> String {
    let word = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let time = clock::parse_rfc3339(word("timestamp")).map_or_else(
        || text::visible(word("timestamp")),
        |at| clock::local_stamp(at, zone),
    );
    format!(
        "{time}  {:<5}  {}",
        text::visible(word("level")),
        documents::log::log_words(entry)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(entry: &Value, expected: &str) {
        let entry = entry.as_object().expect("an object").clone();
        assert_eq!(line(&entry, chrono_tz::Europe::Berlin), expected);
    }

    #[test]
    fn an_entry_is_one_line_whatever_it_says() {
        check(
            &serde_json::json!({
                "timestamp": "2025-11-21T22:56:01.120Z", "level": "INFO", "message": "a\nb\u{1b}[31m", "session": "cli:ada",
                "error": "no \"such\" file", "turns": 2, "empty": "", "target": "agent_toolkit::x",
                "span": {"run_id": "019a", "name": "run"}
            }),
            "2025-11-21 23:56:01  INFO   a\\u{a}b\\u{1b}[31m  session=cli:ada  error=\"no \\\"such\\\" file\"  turns=2  empty=\"\"  run_id=019a",
        );
        check(
            &serde_json::json!({"timestamp": "yester\tday", "level": "WARN"}),
            "yester\\u{9}day  WARN   ",
        );
    }
}
