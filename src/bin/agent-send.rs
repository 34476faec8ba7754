//! Talk to the daemon from a shell.
use std::process::ExitCode;

mod same_program;

fn main() -> ExitCode {
    same_program::run("agent-send")
}
