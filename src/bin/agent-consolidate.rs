//! Turn what was said into facts.
use std::process::ExitCode;

mod same_program;

fn main() -> ExitCode {
    same_program::run("agent-consolidate")
}
