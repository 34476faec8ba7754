//! Talk to the daemon from a shell.
use std::process::ExitCode;

fn main() -> ExitCode {
    agent_toolkit::app::send::main()
}
