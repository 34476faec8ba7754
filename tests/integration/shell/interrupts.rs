//! Ctrl-C while `agent-send --wait` waits, and before that.

use std::{fs, io::Read as _, os::unix::fs::OpenOptionsExt as _};

use super::SOON;
use crate::support::{Reply, Running, Sandbox, wait_for};

#[test]
fn who_interrupts_waiting_is_told_that_the_message_goes_on() {
    let (model, sandbox) = Sandbox::with_model();
    let _daemon = sandbox.ready();
    model.push(Reply::Held("a long story".to_owned()));
    // Whoever runs the tests in the background has it ignored, and so had the program.
    let line = "exec env --default-signal=INT agent-send --id story --wait 'tell me'";
    let waiting = Running::start(sandbox.shell().args(["-c", line]));
    model.wait_requests(1, SOON);
    let interrupt = nix::sys::signal::Signal::SIGINT;
    let status = format!("/proc/{}/status", waiting.pid());
    wait_for("it to wait", SOON, || {
        let status = fs::read_to_string(&status).ok()?;
        let blocked = status
            .lines()
            .find_map(|line| line.strip_prefix("SigBlk:"))?;
        let blocked = u64::from_str_radix(blocked.trim(), 16).ok()?;
        (blocked >> (interrupt as u32 - 1) & 1 == 1).then_some(())
    });
    nix::sys::signal::kill(waiting.pid(), interrupt).expect("it runs");
    let told = waiting.end();
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (-(interrupt as i32), ""),
        "the shell sees what ended it: {told:?}"
    );
    for words in [
        "the agent continues",
        "agent-send --result story --wait",
        "agent-send --stop",
    ] {
        assert!(told.stderr.contains(words), "{words}: {told:?}");
    }
    model.go_on();
    let answer = sandbox.send(&["--result", "story", "--wait"]);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "a long story\n"));
}

#[test]
fn who_interrupts_as_soon_as_the_message_is_posted_is_told_its_id() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.ready().term(), 0);
    // Between posting and waiting the queue is asked whether the id is another message's: that takes as long as we like.
    let queue = rusqlite::Connection::open(sandbox.path("state/queue.db")).expect("a queue");
    queue
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        .expect("locked");
    // We are the daemon that hears of it.
    let path = sandbox.path("state/control.fifo");
    let _ = fs::remove_file(&path);
    let mode = nix::sys::stat::Mode::S_IRUSR | nix::sys::stat::Mode::S_IWUSR;
    nix::unistd::mkfifo(&path, mode).expect("a FIFO");
    let mut fifo = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .expect("a FIFO");
    let line = "exec env --default-signal=INT agent-send --id story --wait 'tell me'";
    let waiting = Running::start(sandbox.shell().args(["-c", line]));
    let mut bytes = [0; 4096];
    wait_for("it to be posted", SOON, || fifo.read(&mut bytes).ok());
    let interrupt = nix::sys::signal::Signal::SIGINT;
    nix::sys::signal::kill(waiting.pid(), interrupt).expect("it runs");
    drop(queue);
    let told = waiting.end();
    assert_eq!(told.code, -(interrupt as i32), "{told:?}");
    assert!(
        told.stderr.contains("agent-send --result story --wait"),
        "{told:?}"
    );
}
