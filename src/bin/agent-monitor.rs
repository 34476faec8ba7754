//! Show what the daemon is doing right now.
use std::process::ExitCode;

mod same_program;

fn main() -> ExitCode {
    same_program::run("agent-monitor")
}
