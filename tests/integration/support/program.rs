//! The five programs as the tests run them: where they are, and one run to its end.

use std::{
    io::{Read, Write as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, Sender},
    },
    thread,
    time::Duration,
};

use nix::unistd::Pid;
use serde_json::Value;

use super::{server::lock, wait::look_until};

/// The longest a one-shot program may take; a hung one must fail its test, not the whole suite.
const RUN_MAX: Duration = Duration::from_secs(240);

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

/// Runs `command` to its end with `stdin`; kills it and panics after four minutes.
pub(super) fn run(command: &mut Command, stdin: &str) -> Output {
    let running = Running::start(command);
    running.write(stdin);
    running.end()
}

/// A program that runs. Dropping it kills it and nothing else.
pub(crate) struct Running {
    child: Child,
    what: String,
    /// What is still to be written, in order; dropped, it closes the pipe.
    input: Option<Sender<String>>,
    stdout: Collected,
    stderr: Collected,
}

impl Running {
    /// Starts `command` with pipes at all three ends.
    pub(crate) fn start(command: &mut Command) -> Self {
        let what = format!("{command:?}");
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|why| panic!("cannot start {what}: {why}"));
        let mut pipe = child.stdin.take().expect("stdin is piped");
        let (input, texts) = mpsc::channel::<String>();
        // A program that does not read its input closes the pipe early, which is its right.
        thread::spawn(move || {
            texts
                .into_iter()
                .try_for_each(|text| pipe.write_all(text.as_bytes()))
        });
        let stdout = Collected::from(child.stdout.take().expect("stdout is piped"));
        let stderr = Collected::from(child.stderr.take().expect("stderr is piped"));
        Self {
            child,
            what,
            input: Some(input),
            stdout,
            stderr,
        }
    }

    /// Writes to its standard input, without waiting until it reads.
    pub(crate) fn write(&self, text: &str) {
        if let Some(input) = &self.input {
            // The writer has gone with the pipe.
            let _ = input.send(text.to_owned());
        }
    }

    /// Returns what it has printed so far: (stdout, stderr).
    pub(crate) fn said(&self) -> (String, String) {
        (self.stdout.text(), self.stderr.text())
    }

    /// Returns its stdout as soon as that contains `words`; panics when they do not come.
    pub(crate) fn wait_said(&self, words: &str) -> String {
        let found = look_until(RUN_MAX, || {
            Some(self.stdout.text()).filter(|text| text.contains(words))
        });
        found.unwrap_or_else(|| panic!("{} never said {words:?}: {:?}", self.what, self.said()))
    }

    /// Returns its process id.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a pid is an i32"))
    }

    /// Returns true when it has ended, however.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be waited for")
            .is_some()
    }

    /// Kills it as a power cut would; what it left behind says [`Running::end`].
    pub(crate) fn kill9(&mut self) {
        // It fails only when it has ended and been waited for already.
        let _ = self.child.kill();
    }

    /// Closes its input and returns what it left behind; kills it and panics after four minutes.
    pub(crate) fn end(mut self) -> Output {
        drop(self.input.take());
        let status = look_until(RUN_MAX, || {
            self.child.try_wait().expect("a child can be waited for")
        });
        if status.is_none() {
            self.child.kill().expect("a child can be killed");
            self.child.wait().expect("a killed child ends");
        }
        let stdout = std::mem::take(&mut self.stdout).end();
        let stderr = std::mem::take(&mut self.stderr).end();
        match status {
            Some(status) => Output {
                code: code(status),
                stdout,
                stderr,
            },
            None => panic!(
                "{} still ran after {RUN_MAX:?}: {stdout:?} {stderr:?}",
                self.what
            ),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended and been waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the exit code, or the signal's number below zero.
pub(super) fn code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .unwrap_or_else(|| -status.signal().unwrap_or_default())
}

/// What came out of a pipe.
#[derive(Default)]
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<thread::JoinHandle<()>>,
}

impl Collected {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            // What came before an error is still worth showing.
            while let Ok(count @ 1..) = pipe.read(&mut chunk) {
                lock(&into).extend_from_slice(&chunk[..count]);
            }
        });
        Self {
            bytes,
            reader: Some(reader),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.bytes)).into_owned()
    }

    fn end(mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader ignores errors");
        }
        self.text()
    }
}
