//! All five programs: it is the one by whose name it is called, and the daemon by any other name.
use std::process::ExitCode;

fn main() -> ExitCode {
    agent_toolkit::app::main()
}
