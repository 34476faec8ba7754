//! Turn what was said into facts.
use std::process::ExitCode;

fn main() -> ExitCode {
    agent_toolkit::app::consolidate::main()
}
