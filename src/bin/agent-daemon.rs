//! The long-running process: channels, queue, agent loop.
use std::process::ExitCode;

fn main() -> ExitCode {
    agent_toolkit::app::daemon::main()
}
