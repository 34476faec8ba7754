//! Index the memory files and search them.
use std::process::ExitCode;

mod same_program;

fn main() -> ExitCode {
    same_program::run("agent-index")
}
