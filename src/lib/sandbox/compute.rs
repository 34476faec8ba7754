//! Work on hostile bytes, in a separate process that can do nothing but that work.
//!
//! [`compute`] starts our own executable again with a hidden argument, and a file as its standard
//! input. That process calls [`compute_main`], which reads the bytes, gives up every system call
//! except those for memory and its open pipe, and only then parses them. It can reach no file, no network and no
//! process; this needs no namespaces and no Landlock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use seccompiler::{SeccompAction, SeccompFilter, apply_filter};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::{At, Error, Failure, Status, run, syscalls};

/// What the work may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of memory, the program itself included.
    pub memory: u64,
    /// CPU time.
    pub cpu: Duration,
    /// Wall-clock time.
    pub wall: Duration,
    /// Bytes that it may answer; it is ended when it says more.
    pub max_output: usize,
}

/// The exit code when the walls could not be built; the work did not begin.
const NO_WALLS: u8 = 125;

/// The system calls that are left: memory, time, randomness (maps are seeded with it), the end,
/// and writing, which leads only to the pipe.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Starts this program with `argument` and `input` as its standard input, and returns what it wrote
/// and how it ended. It is killed when the future is dropped.
///
/// # Errors
/// When it could not be started, or not be confined.
pub async fn compute(
    argument: &str,
    input: File,
    limits: Limits,
    cancel: &CancellationToken,
) -> Result<(Vec<u8>, Status), Error> {
    let mut child = Command::new(run::launcher())
        .arg(argument)
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::from(input))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(Error::Start)?;
    let mut output = Vec::new();
    let Some(mut from) = child.stdout.take() else {
        return Err(Error::Start(std::io::ErrorKind::BrokenPipe.into()));
    };
    let listen = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = from.read(&mut buffer).await?;
            output.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if count == 0 || output.len() > limits.max_output {
                return Ok(count == 0);
            }
        }
    };
    let cut_short = tokio::select! {
        biased;
        () = cancel.cancelled() => Some(Status::Cancelled),
        () = tokio::time::sleep(limits.wall) => Some(Status::TimedOut),
        // The one who says too much is ended as by a closed pipe.
        whole = listen => if whole.map_err(Error::Start)? { None } else { Some(Status::Signaled(Signal::SIGPIPE as i32)) },
    };
    if cut_short.is_some() {
        // It may have ended by itself just now.
        let _ = child.start_kill();
    }
    let ended = child.wait().await.map_err(Error::Start)?;
    output.truncate(limits.max_output);
    match (cut_short, ended.code()) {
        (Some(status), _) => Ok((output, status)),
        (None, Some(code)) if code == i32::from(NO_WALLS) => Err(Error::Setup {
            step: "confine".to_owned(),
            reason: "the process could not be confined".to_owned(),
        }),
        (None, Some(code)) => Ok((output, Status::Exited(code))),
        (None, None) => Ok((
            output,
            Status::Signaled(ended.signal().unwrap_or(Signal::SIGKILL as i32)),
        )),
    }
}

/// Returns `bytes` as a file that is in memory and has no name, read from its beginning.
///
/// # Errors
/// When there is no room for it.
pub fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = File::from(memfd_create(c"input", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Does `work` on standard input behind the walls; what it writes goes to standard output. Must be
/// called before any thread exists. A panic ends the process with code 101.
pub fn compute_main(
    limits: Limits,
    work: impl FnOnce(&[u8], &mut dyn Write) -> ExitCode,
) -> ExitCode {
    let Ok((bytes, mut output)) = confine(limits) else {
        return ExitCode::from(NO_WALLS);
    };
    // Nobody reads it, and a trace would want files.
    std::panic::set_hook(Box::new(|_| {}));
    work(&bytes, &mut output)
}

fn confine(limits: Limits) -> Result<(Vec<u8>, File), Failure> {
    syscalls::close_from(3).at("close descriptors")?;
    let limit = |resource, value| setrlimit(resource, value, value).at("set the limits");
    limit(Resource::RLIMIT_CORE, 0)?;
    limit(Resource::RLIMIT_CPU, limits.cpu.as_secs().max(1))?;
    limit(Resource::RLIMIT_AS, limits.memory)?;
    let mut bytes = Vec::new();
    std::io::stdin()
        .lock()
        .take(limits.memory)
        .read_to_end(&mut bytes)
        .at("read")?;
    let output = File::from(
        std::io::stdout()
            .as_fd()
            .try_clone_to_owned()
            .at("arrange the pipes")?,
    );
    nix::sys::prctl::set_dumpable(false).at("close the memory")?;
    nix::sys::prctl::set_no_new_privs().at("refuse system calls")?;
    let rules: BTreeMap<i64, _> = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH
        .try_into()
        .at("refuse system calls")?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, refuse, SeccompAction::Allow, arch).at("refuse system calls")?;
    let program = seccompiler::BpfProgram::try_from(filter).at("refuse system calls")?;
    apply_filter(&program).at("refuse system calls")?;
    Ok((bytes, output))
}
