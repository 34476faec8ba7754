//! Detects once per process which sandbox this machine supports, by building it.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::{LANDLOCK_ALONE_ABI, LAUNCHER_ARG, Level, Plan, Report, Spec, Walls, run, syscalls};

static LEVEL: OnceLock<Level> = OnceLock::new();

/// Returns the active level, probing for it when nobody has. Blocks for some milliseconds the
/// first time: call [`probe`] at the start of the program, or this on a blocking thread.
pub fn level() -> &'static Level {
    LEVEL.get_or_init(probe)
}

/// Returns the best level that works here and now, by launching `:` behind the walls of each.
/// Blocks for some milliseconds.
pub fn probe() -> Level {
    let without_namespaces = match attempt(Walls::Namespaces) {
        Ok(()) => return Level::Namespaces,
        Err(why) => why,
    };
    let abi = syscalls::landlock_abi();
    if abi < LANDLOCK_ALONE_ABI {
        return Level::Refused(format!(
            "namespaces: {without_namespaces}; landlock: ABI {abi}, {LANDLOCK_ALONE_ABI} is needed (Linux 6.12)"
        ));
    }
    match attempt(Walls::Landlock) {
        Ok(()) => Level::Landlock(abi),
        Err(why) => Level::Refused(format!("namespaces: {without_namespaces}; landlock: {why}")),
    }
}

/// Returns the level if it is known already.
pub(super) fn known() -> Option<&'static Level> {
    LEVEL.get()
}

/// A workspace for a command that does nothing; there may be very much in it. Not a new directory: a daemon that is killed just then would
/// leave it behind, each time.
const WORKSPACE: &str = "/tmp";

fn attempt(walls: Walls) -> Result<(), String> {
    match launch(walls, PathBuf::from(WORKSPACE)).map_err(|e| e.to_string())? {
        Report::Exited(0) => Ok(()),
        Report::Exited(code) => Err(format!("the test command exited with {code}")),
        Report::Signaled(signal) => Err(format!("signal {signal} ended the test command")),
        Report::OutOfMemory => Err("the test command was short of memory".to_owned()),
        Report::Setup { step, reason } => Err(format!("{step}: {reason}")),
    }
}

fn launch(walls: Walls, dir: PathBuf) -> std::io::Result<Report> {
    let spec = Spec {
        command: ":".to_owned(),
        cwd: dir.clone(),
        workspace: dir,
        ..Spec::default()
    };
    let setup = run::setup_of(walls, None)?;
    let plan = run::line_of(&Plan {
        trial: true,
        ..spec.into_plan(walls, super::host_secrets::closed())
    })?;
    let mut child = Command::new(run::launcher())
        .arg(LAUNCHER_ARG)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let (Some(stdin), Some(stderr)) = (&mut child.stdin, child.stderr.take()) {
        stdin.write_all(&[setup, plan].concat())?;
        BufReader::new(stderr).read_line(&mut line)?;
    }
    child.wait()?;
    Ok(serde_json::from_str(&line)?)
}
