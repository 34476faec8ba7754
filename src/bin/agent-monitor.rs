//! Show what the daemon is doing right now.
use std::process::ExitCode;

fn main() -> ExitCode {
    agent_toolkit::app::monitor::main()
}
