//! The five programs are one file: `agent-daemon`, which is whichever of them it is called. An installed copy
//! has that file under five names. A build has it once, and four small programs that run it: so the code is
//! optimised and linked once.

use std::env;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Input/output error, after sysexits(3).
const IO: u8 = 74;

/// Replaces this process with the `agent-daemon` that is next to it, called `name`. Returns only when that
/// fails.
pub fn run(name: &str) -> ExitCode {
    let program = env::current_exe().map(|path| path.with_file_name("agent-daemon"));
    let (program, error) = match program {
        Ok(program) => {
            let error = Command::new(&program)
                .arg0(name)
                .args(env::args_os().skip(1))
                .exec();
            (program.display().to_string(), error)
        }
        Err(error) => ("agent-daemon".to_owned(), error),
    };
    #[expect(clippy::print_stderr, reason = "there is no library here to say it")]
    {
        eprintln!("{name}: cannot run {program}: {error}");
        eprintln!(
            "hint: the five programs are one file; build and install them together: scripts/install"
        );
    }
    ExitCode::from(IO)
}
