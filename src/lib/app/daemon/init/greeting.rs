//! The first message, along the whole path: a daemon accepts it, and the model answers.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::ask::Stop;
use super::{Setup, ask};
use crate::app::cli;
use crate::app::cli::Failure;

const FIRST: &str = "Hello! Who are you?";

pub(super) fn step(setup: &Setup<'_>) -> Result<(), Stop> {
    let text = ask::line("Say something to the agent", FIRST)?;
    let said = match setup.is_running() {
        true => by_daemon(setup, &text),
        false => alone(setup, &text),
    };
    let answer =
        said.map_err(|error| Failure::io(format!("the agent cannot be started: {error}")))?;
    match answer.trim() {
        "" => cli::err(&format!(
            "  there was no answer; {} shows why",
            cli::command("agent-daemon", "doctor")
        )),
        answer => cli::err(&format!("\n{}", cli::harmless(answer))),
    }
    Ok(())
}

/// The running daemon is asked as from any shell.
fn by_daemon(setup: &Setup<'_>, text: &str) -> std::io::Result<String> {
    let mut send = called("agent-send", setup);
    ask_program(send.args(["--wait", "-"]), text)
}

/// A daemon of our own, which ends with its input.
fn alone(setup: &Setup<'_>, text: &str) -> std::io::Result<String> {
    let mut daemon = called("agent-daemon", setup);
    ask_program(daemon.args(["--quiet", "--channel", "cli"]), text)
}

/// The five programs are this one, by the name it is called.
fn called(name: &str, setup: &Setup<'_>) -> Command {
    let mut program = Command::new("/proc/self/exe");
    program.arg0(name).args(setup.shared.arguments());
    program
}

fn ask_program(program: &mut Command, text: &str) -> std::io::Result<String> {
    let mut child = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A program that has ended already says why on stderr.
        let _ = writeln!(input, "{}", text.replace('\n', " "));
    }
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
