//! Index the memory files and search them.
use std::process::ExitCode;

fn main() -> ExitCode {
    agent_toolkit::app::index::main()
}
