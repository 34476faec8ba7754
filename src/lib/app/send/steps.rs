//! The steps of an answer, a line for each tool: read from the transcript, where the daemon writes each step
//! before the next.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use serde_json::Value;

use crate::config::Home;
use crate::control::replies::Reply;
use crate::session;
use crate::session::{Event, Kind};
use crate::text;

/// More is not looked through for the beginning of a run.
const TAIL: u64 = 1 << 20;
/// Characters of a line.
const LINE: usize = 100;
/// A tool that takes no longer is done before it is read of.
const LONG_MS: u64 = 1_000;

/// Steps that are new.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct New {
    /// How calls ended, those that began just now among them: words of the answer that are new come after them.
    pub ended: Vec<String>,
    /// Calls that began after those words and still run.
    pub begun: Vec<String>,
}

/// The steps of one run that were not told yet.
#[derive(Default)]
pub(super) struct Steps {
    file: Option<File>,
    /// A line that is not whole yet.
    rest: Vec<u8>,
}

impl Steps {
    /// Returns a line for each new step of the run that `answer` comes from.
    pub(super) fn new_of(&mut self, home: &Home, answer: &Reply) -> New {
        let mut new = New::default();
        let mut running = 0_usize;
        for (is_call, line) in self.lines(home, answer) {
            running = if is_call {
                running + 1
            } else {
                running.saturating_sub(1)
            };
            new.begun.extend(line);
            if running == 0 {
                new.ended.append(&mut new.begun);
            }
        }
        new
    }

    /// Returns whether a call begins or ends, and the line for it where there is one.
    fn lines(&mut self, home: &Home, answer: &Reply) -> Vec<(bool, Option<String>)> {
        let (Some(session), Some(run)) = (&answer.session_id, &answer.run_id) else {
            return Vec::new();
        };
        if self.file.is_none() {
            self.file = newest(home, session);
        }
        let Some(file) = &mut self.file else {
            return Vec::new();
        };
        // What cannot be read is not shown; the answer comes nevertheless.
        if file.read_to_end(&mut self.rest).is_err() {
            return Vec::new();
        }
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.rest.split_off(end + 1);
        let lines = std::mem::replace(&mut self.rest, rest);
        lines
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Event>(line).ok())
            .flat_map(|event| shown(event.kind, run))
            .collect()
    }
}

/// Opens the transcript that is written to, where the run may have begun.
fn newest(home: &Home, session: &str) -> Option<File> {
    let files = session::transcript_files(&home.sessions(), &home.archive(), session).ok()?;
    let mut file = File::open(files.last()?).ok()?;
    let size = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(TAIL))).ok()?;
    Some(file)
}

fn shown(kind: Kind, run: &str) -> Vec<(bool, Option<String>)> {
    match kind {
        Kind::Message(spoken) if spoken.run_id == run => spoken
            .tool_calls()
            .map(|call| {
                (
                    true,
                    Some(format!("· {}", call_line(&call.name, &call.input))),
                )
            })
            .collect(),
        Kind::ToolResult {
            run_id,
            name,
            duration_ms,
            result,
            ..
        } if run_id == run => {
            let took = text::span(i64::try_from(duration_ms).unwrap_or(i64::MAX));
            if result.is_error {
                let why = result.text.lines().find(|line| !line.trim().is_empty());
                let why = why.unwrap_or_default();
                let told = line(&format!("{name} failed after {took}: {why}"));
                vec![(false, Some(format!("  {told}")))]
            } else {
                let told = line(&format!("{name} took {took}"));
                vec![(false, (duration_ms >= LONG_MS).then(|| format!("  {told}")))]
            }
        }
        _ => Vec::new(),
    }
}

/// Returns a call as a person reads it: the tool, and the one argument that says most.
fn call_line(name: &str, input: &Value) -> String {
    const TELLING: [&str; 6] = ["command", "path", "url", "query", "text", "name"];
    let fields = input.as_object();
    let telling = fields.and_then(|fields| {
        let of_name = TELLING.iter().find_map(|name| fields.get(*name)?.as_str());
        of_name.or_else(|| match fields.values().collect::<Vec<_>>().as_slice() {
            [one] => one.as_str(),
            _ => None,
        })
    });
    match telling {
        Some(words) => line(&format!("{name}: {words}")),
        None if fields.is_none_or(serde_json::Map::is_empty) => line(name),
        None => line(&format!("{name}: {input}")),
    }
}

fn line(words: &str) -> String {
    let one_line = text::one_line(&text::shorten(words, 4 * LINE));
    text::visible(&text::shorten(&one_line, LINE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_told_by_what_says_most_of_it_and_commands_no_terminal() {
        let check = |name: &str, input: Value, shown: &str| {
            assert_eq!(call_line(name, &input), shown);
        };
        check(
            "exec",
            json!({"timeout_secs": 5, "command": "ls\n\u{1b}[2Jx"}),
            "exec: ls \\u{1b}[2Jx",
        );
        check("silent", json!({}), "silent");
        check("tide", json!({"port": "Kiel"}), "tide: Kiel");
        check("sum", json!({"a": 1, "b": 2}), "sum: {\"a\":1,\"b\":2}");
        let long = call_line("read", &json!({"path": "x".repeat(5000)}));
        assert_eq!(long.chars().count(), LINE + 1);
    }

    #[test]
    fn only_the_steps_of_the_run_are_told_and_each_once() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        std::fs::create_dir_all(home.sessions()).expect("sessions");
        let file = home.sessions().join("s1.2026-11-26.jsonl");
        let call = |run: &str, command: &str| {
            json!({"v": 1, "ts": "2026-11-26T04:21:38.253Z", "seq": 1, "type": "message", "role": "assistant", "run_id": run,
                "content": [{"type": "tool_call", "id": "1", "name": "exec", "input": {"command": command}}]})
        };
        let result = json!({"v": 1, "ts": "2026-11-26T04:21:39.253Z", "seq": 2, "type": "tool_result", "run_id": "mine",
            "name": "exec", "duration_ms": 1500, "id": "1", "text": "", "is_error": false});
        let other = call("other", "no");
        let mine = call("mine", "yes");
        let write = |text: &str| {
            use std::io::Write as _;
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.create(true).append(true).open(&file).expect("open");
            file.write_all(text.as_bytes()).expect("write");
        };
        let mut answer = Reply::new("x", crate::control::replies::Status::Running);
        let mut steps = Steps::default();
        assert_eq!(steps.new_of(&home, &answer), New::default());
        answer.session_id = Some("s1".to_owned());
        answer.run_id = Some("mine".to_owned());
        let result = result.to_string();
        let (begun, rest) = result.split_at(20);
        write(&format!("{other}\n{mine}\n{begun}"));
        let told = |ended: &[&str], begun: &[&str]| New {
            ended: ended.iter().map(|&line| line.to_owned()).collect(),
            begun: begun.iter().map(|&line| line.to_owned()).collect(),
        };
        let new = steps.new_of(&home, &answer);
        assert_eq!(new, told(&[], &["· exec: yes"]));
        assert_eq!(steps.new_of(&home, &answer), New::default());
        write(&format!("{rest}\n{mine}\n"));
        let new = steps.new_of(&home, &answer);
        assert_eq!(new, told(&["  exec took 1.5 s"], &["· exec: yes"]));
        // Begun and ended before anybody looked: what the agent says comes after it.
        write(&format!("{result}\n{mine}\n{result}\n"));
        let ends = "  exec took 1.5 s";
        let new = steps.new_of(&home, &answer);
        assert_eq!(new, told(&[ends, "· exec: yes", ends], &[]));
    }
}
