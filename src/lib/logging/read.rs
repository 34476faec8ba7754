//! Reads the newest entries of the log, for any process that can read its files.

use std::ops::ControlFlow;
use std::path::Path;

use chrono::NaiveDate;
use chrono_tz::Tz;
use serde_json::{Map, Value};

use crate::clock;
use crate::sys;
use crate::sys::jsonl;

/// Returns the newest `count` entries of the files in `dir`, oldest first, as they were written:
/// `timestamp`, `level`, `message` and the fields of the event. Files are read from their end. Lines
/// that are no entries are passed over. What a clock wrote that was ahead is older than all else.
///
/// # Errors
/// When the directory or a file exists and cannot be read.
pub fn newest(dir: &Path, count: usize) -> Result<Vec<Map<String, Value>>, sys::Error> {
    newest_at(dir, count, clock::now_ms())
}

fn newest_at(dir: &Path, count: usize, now: i64) -> Result<Vec<Map<String, Value>>, sys::Error> {
    // In no zone it is later than tomorrow in UTC.
    let today = clock::local_date(now, Tz::UTC);
    let tomorrow = today.succ_opt().unwrap_or(today);
    let mut dates = dates(dir)?;
    dates.sort_unstable_by_key(|date| (*date <= tomorrow, *date));
    let mut entries = Vec::new();
    for date in dates.into_iter().rev() {
        if entries.len() == count {
            break;
        }
        let file = dir.join(format!("{date}.jsonl"));
        let flow = jsonl::newest_lines(&file, |line| {
            if let Ok(Value::Object(entry)) = serde_json::from_slice(line)
                && is_entry(&entry)
            {
                entries.push(entry);
            }
            if entries.len() == count {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if flow.is_break() {
            break;
        }
    }
    entries.reverse();
    Ok(entries)
}

fn is_entry(entry: &Map<String, Value>) -> bool {
    ["timestamp", "level"]
        .iter()
        .all(|field| entry.get(*field).is_some_and(Value::is_string))
}

/// Returns the days that have a file.
fn dates(dir: &Path) -> Result<Vec<NaiveDate>, sys::Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(sys::Error::at("read", dir))?,
    };
    let date = |name: &str| {
        name.strip_suffix(".jsonl")
            .filter(|name| name.len() == 10)?
            .parse::<NaiveDate>()
            .ok()
    };
    let dates = entries
        .flatten()
        .filter_map(|entry| date(entry.file_name().to_str()?));
    Ok(dates.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    fn messages(files: &[(&str, &str)], count: usize) -> Vec<String> {
        let dir = tempfile::tempdir().expect("dir");
        for (name, text) in files {
            atomic::write(
                &dir.path().join(name),
                text.as_bytes(),
                atomic::Durability::Rename,
            )
            .expect("write");
        }
        let now = clock::parse_rfc3339("2025-12-01T23:00:00Z").expect("a time");
        let entries = newest_at(dir.path(), count, now).expect("read");
        entries
            .iter()
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    fn entry(message: &str) -> String {
        format!(
            "{{\"timestamp\":\"2025-11-21T00:00:00.000Z\",\"level\":\"INFO\",\"message\":\"{message}\"}}\n"
        )
    }

    #[test]
    fn the_newest_come_last_across_days() {
        let (one, two, three) = (entry("one") + &entry("two"), entry("three"), entry("four"));
        let files = [
            ("2025-11-19.jsonl", &*one),
            ("2025-11-20.jsonl", ""),
            ("2025-11-21.jsonl", &*two),
            ("2025-12-01.jsonl", &*three),
        ];
        assert_eq!(messages(&files, 3), ["two", "three", "four"]);
        assert_eq!(messages(&files, 9), ["one", "two", "three", "four"]);
        assert_eq!(messages(&files, 0), [] as [&str; 0]);
    }

    #[test]
    fn what_a_clock_wrote_that_was_ahead_is_not_the_newest() {
        let (ahead, now, tomorrow) = (entry("ahead"), entry("now"), entry("in Kiribati"));
        let files = [
            ("2036-01-01.jsonl", &*ahead),
            ("2025-12-01.jsonl", &*now),
            ("2025-12-02.jsonl", &*tomorrow),
        ];
        assert_eq!(messages(&files, 2), ["now", "in Kiribati"]);
        assert_eq!(messages(&files, 9), ["ahead", "now", "in Kiribati"]);
    }

    #[test]
    fn what_is_no_entry_is_passed_over() {
        let text = format!(
            "{}{{\"half\n\n[1]\nfree text\n{{\"level\":\"INFO\"}}\n\u{0}\n{}{{\"torn\":",
            entry("good"),
            entry("last")
        );
        let files = [
            ("2025-11-21.jsonl", &*text),
            ("notes.jsonl", &*entry("foreign")),
            ("2025-11-22.txt", "x"),
        ];
        assert_eq!(messages(&files, 9), ["good", "last"]);
    }

    #[test]
    fn no_directory_is_an_empty_log() {
        let dir = tempfile::tempdir().expect("dir");
        assert!(
            newest(&dir.path().join("logs"), 5)
                .expect("read")
                .is_empty()
        );
    }
}
