//! The audit log: the newest entries, a line each, and whether it is whole.

use std::fmt::Write as _;

use chrono_tz::Tz;
use serde_json::{Map, Value};

use super::Context;
use crate::app::cli;
use crate::app::cli::Exit;
use crate::app::documents::log::Entries;
use crate::audit::Report;
use crate::{clock, text};

const SHOWN: [&str; 12] = [
    "v", "seq", "ts", "kind", "tool", "channel", "chat", "verdict", "outcome", "who", "prev",
    "hash",
];
const DIGITS: usize = 12;

/// Shows the newest entries.
pub(crate) fn audit(context: &Context<'_>, audit: &Entries) -> Exit {
    context.entries(audit, line, "the audit log is empty")
}

/// Says whether the audit log is whole: 65 when it is not.
pub(crate) fn verify(context: &Context<'_>, report: &Report) -> Exit {
    context.answer(report, |report| {
        let zone = context.zone();
        told(report, zone).iter().for_each(|line| cli::out(line));
    });
    if report.whole {
        return Exit::Ok;
    }
    if !context.json {
        cli::err("agent-send: the audit log is not as it was written");
        cli::err(
            "hint: keep a copy; compare the conversations of that time: agent-send --history, and the log: agent-send --log 1000",
        );
    }
    Exit::Data
}

fn told(report: &Report, zone: Tz) -> Vec<String> {
    let stamp = |ts: &Option<String>| {
        ts.as_deref()
            .and_then(clock::parse_rfc3339)
            .map(|at| clock::local_stamp(at, zone))
    };
    let span = match (stamp(&report.from), stamp(&report.to)) {
        (Some(from), Some(to)) => format!(", from {from} to {to}"),
        _ => String::new(),
    };
    let entries = if report.entries == 1 {
        "1 entry".to_owned()
    } else {
        format!("{} entries", report.entries)
    };
    let mut lines = vec![if report.whole {
        format!("{entries}, whole{span}")
    } else {
        format!("as written: {entries}{span}")
    }];
    lines.extend(
        report
            .notes
            .iter()
            .map(|note| format!("line {} {}", note.line, text::visible(&note.meaning))),
    );
    lines.extend(
        report
            .damage
            .as_ref()
            .map(|damage| format!("line {}: {}", damage.line, text::visible(&damage.meaning))),
    );
    lines.extend(
        report
            .hash
            .as_ref()
            .map(|hash| format!("last hash {}", text::visible(hash))),
    );
    lines
}

fn line(entry: &Map<String, Value>, zone: Tz) -> String {
    let word = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let time = clock::parse_rfc3339(word("ts"))
        .map_or_else(|| " ".repeat(19), |at| clock::local_stamp(at, zone));
    let about: Vec<&str> = ["tool", "channel", "chat"]
        .map(word)
        .into_iter()
        .filter(|word| !word.is_empty())
        .collect();
    let kind = match word("kind") {
        "tool_call" => "call",
        "tool_result" => "result",
        kind => kind,
    };
    let verdict = [word("verdict"), word("outcome")].concat();
    let mut line = format!("{time}  {:<8}", text::visible(kind));
    for part in [about.join(" "), verdict] {
        if !part.is_empty() {
            let _ = write!(line, "  {}", text::visible(&part));
        }
    }
    if !word("who").is_empty() {
        let _ = write!(line, " by {}", text::visible(word("who")));
    }
    let rest = entry
        .iter()
        .filter(|(name, _)| !SHOWN.contains(&name.as_str()));
    for (name, value) in rest {
        let inner = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), value));
        let flat: Vec<(&str, &Value)> = if value.is_object() {
            inner.collect()
        } else {
            vec![(name, value)]
        };
        for (name, value) in flat {
            let shown = match value {
                Value::String(text) => short(text),
                other => other.to_string(),
            };
            let _ = write!(line, "  {}={}", text::visible(name), text::visible(&shown));
        }
    }
    line
}

fn short(text: &str) -> String {
    let is_digest = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest {
        text.chars().take(DIGITS).collect()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(entry: &Value, expected: &str) {
        let entry = entry.as_object().expect("an object").clone();
        assert_eq!(line(&entry, chrono_tz::Europe::Berlin), expected);
    }

    #[test]
    fn an_entry_is_one_line_that_says_what_and_who() {
        let digest = "0123456789abcdef".repeat(4);
        let ts = "2025-11-21T22:56:01.120Z";
        check(
            &serde_json::json!({"v": 1, "seq": 4, "ts": ts, "kind": "tool_call", "session": "s", "run": "r", "call": "c",
                "tool": "exec", "args": digest, "verdict": "run", "prev": digest, "hash": digest}),
            "2025-11-21 23:56:01  call      exec  run  session=s  run=r  call=c  args=0123456789ab",
        );
        check(
            &serde_json::json!({"ts": ts, "kind": "approval", "id": "abc", "verdict": "approved", "who": "1001", "tool": "exec"}),
            "2025-11-21 23:56:01  approval  exec  approved by 1001  id=abc",
        );
        check(
            &serde_json::json!({"ts": ts, "kind": "config", "at": "start", "outcome": "in force", "files": {"agent.toml": digest}}),
            "2025-11-21 23:56:01  config    in force  at=start  agent.toml=0123456789ab",
        );
        check(
            &serde_json::json!({"kind": "unreadable", "line": "a\u{1b}[2Jb"}),
            &format!("{}  unreadable  line=a\\u{{1b}}[2Jb", " ".repeat(19)),
        );
    }
}
