//! The five programs as the tests run them: where they are, and one run to its end.

use std::{
    io::{Read, Write as _},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use super::wait::look_until;

/// The longest a one-shot program may take; a hung one must fail its test, not the whole suite.
const RUN_MAX: Duration = Duration::from_secs(60);

/// What a program left behind.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// The exit code; negative is the signal that ended it.
    pub(crate) code: i32,
    /// Data.
    pub(crate) stdout: String,
    /// Talk.
    pub(crate) stderr: String,
}

impl Output {
    /// Returns stdout as the one JSON document it must be.
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.stdout) {
            Ok(document) => document,
            Err(why) => panic!("not one JSON document ({why}): {self:#?}"),
        }
    }
}

/// Returns the path of one of the five programs, built by cargo for this test.
pub(crate) fn bin(name: &str) -> PathBuf {
    PathBuf::from(match name {
        "agent-daemon" => env!("CARGO_BIN_EXE_agent-daemon"),
        "agent-send" => env!("CARGO_BIN_EXE_agent-send"),
        "agent-index" => env!("CARGO_BIN_EXE_agent-index"),
        "agent-consolidate" => env!("CARGO_BIN_EXE_agent-consolidate"),
        "agent-monitor" => env!("CARGO_BIN_EXE_agent-monitor"),
        other => panic!("{other} is none of the five programs"),
    })
}

/// Runs `command` to its end with `stdin`; kills it and panics after a minute.
pub(super) fn run(command: &mut Command, stdin: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("cannot start {command:?}: {why}"));
    let mut input = child.stdin.take().expect("stdin is piped");
    let text = stdin.to_owned();
    // A program that does not read its input closes the pipe early, which is its right.
    let writer = thread::spawn(move || drop(input.write_all(text.as_bytes())));
    let stdout = collect(child.stdout.take().expect("stdout is piped"));
    let stderr = collect(child.stderr.take().expect("stderr is piped"));
    let status = look_until(RUN_MAX, || child.try_wait().expect("a child can be waited for"));
    if status.is_none() {
        child.kill().expect("a child can be killed");
        child.wait().expect("a killed child ends");
    }
    writer.join().expect("the writer ignores errors");
    let output = |code| Output {
        code,
        stdout: stdout.join().expect("the reader ignores errors"),
        stderr: stderr.join().expect("the reader ignores errors"),
    };
    match status {
        Some(status) => output(code(status)),
        None => panic!("{command:?} still ran after {RUN_MAX:?}: {:#?}", output(-9)),
    }
}

/// Returns the exit code, or the signal's number below zero.
pub(super) fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().unwrap_or_else(|| -status.signal().unwrap_or_default())
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
