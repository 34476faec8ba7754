//! A launcher that stands ready: its command meets the walls of any other, and nothing of it is there for the next.

use std::os::unix::net::UnixListener;

use agent_toolkit::sandbox::Ahead;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::*;

/// Commands one after another in one event loop, as the daemon runs them.
struct Turn {
    runtime: tokio::runtime::Runtime,
    ahead: Ahead,
}

impl Turn {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        Self {
            runtime,
            ahead: Ahead::default(),
        }
    }

    fn run(&self, spec: Spec) -> Outcome {
        let cancel = CancellationToken::new();
        let run = self.ahead.run_at(&Level::Namespaces, spec, cancel, &|_| {});
        self.runtime.block_on(run).unwrap()
    }

    /// Waits for the launcher that stands ready, and until it has nothing left to do but to wait.
    fn ready(&self) -> u32 {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let process = self.ahead.process();
            let inits: Vec<u32> = process.map(waiting_below).unwrap_or_default();
            if let (Some(process), 2..) = (process, inits.len()) {
                return process;
            }
            assert!(Instant::now() < deadline, "none is made ready: {inits:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs a command of which is asserted that the launcher that stood ready ran it.
    fn run_ready(&self, spec: Spec) -> Outcome {
        let process = self.ready();
        let outcome = self.run(spec);
        assert!(!is_alive(process), "it is used, and once");
        outcome
    }
}

/// Returns whether a process is there; one that nobody has waited for is not.
fn is_alive(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

/// Returns the children of a process that wait in a read of a pipe.
fn waiting_below(process: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().map(|pid| pid.parse().unwrap());
    children
        .filter(|pid: &u32| {
            let call = std::fs::read_to_string(format!("/proc/{pid}/syscall"));
            // read(2), the only call that waits there.
            call.is_ok_and(|call| call.starts_with("0 "))
        })
        .collect()
}

fn gone_soon(process: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_alive(process) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    !is_alive(process)
}

/// What a command can find out about where it is.
const LOOK: &str = "id; env | sort; pwd; hostname; umask; ulimit -a; ls -la /proc/self/fd | wc -l; ls / /tmp /dev /dev/shm /proc/self/task; \
                    cut -d' ' -f5- /proc/self/mountinfo | sed 's/ master:[0-9]*//'; grep -E '^(Cap|Seccomp|NoNew|NSpid|Sig)' /proc/self/status; cat /proc/net/dev /proc/net/tcp; \
                    ls ..; cat ../secret; cat SOUL.md; echo x >>SOUL.md; echo x >/usr/x; cat /proc/1/environ";

#[test]
fn a_command_that_finds_a_launcher_ready_sees_what_any_other_sees() {
    let place = place();
    std::fs::write(place.workspace.join("SOUL.md"), "soul").unwrap();
    let turn = Turn::new();
    let first = turn.run(place.spec(LOOK));
    let second = turn.run_ready(place.spec(LOOK));
    assert_eq!(first, second);
    assert!(first.output.contains("soul") && !first.output.contains("canary"));
}

#[test]
fn nothing_of_a_command_is_there_for_the_next_one() {
    let place = place();
    let turn = Turn::new();
    let mut spec =
        place.spec("echo $SECRET; touch /tmp/left /dev/shm/left; (sleep 50 >/dev/null 2>&1 &)");
    spec.env.push(("SECRET".into(), "one".into()));
    assert_eq!(turn.run(spec).output, "one\n");
    turn.ready();
    // What holds is what is so when the command begins: a file that is hidden now, a socket, another workspace.
    let other = place.home.join("other");
    std::fs::create_dir_all(other.join("private")).unwrap();
    std::fs::write(other.join("private/notes"), "canary").unwrap();
    let _socket = UnixListener::bind(other.join("new.sock")).unwrap();
    let spec = Spec {
        workspace: other.clone(),
        cwd: other.clone(),
        hidden: vec![place.home.clone(), other.join("private")],
        ..place.spec(&format!(
            "echo \"[$SECRET]\"; ls -A /tmp /dev/shm private {}; ps ax 2>/dev/null | grep -c '[s]leep 50'; pwd; test -S new.sock; echo $?",
            place.workspace.display()
        ))
    };
    let outcome = turn.run_ready(spec);
    let expected = format!("0\n{}\n1\n", other.display());
    assert!(outcome.output.starts_with("[]\n"), "{outcome:?}");
    assert!(outcome.output.ends_with(&expected), "{outcome:?}");
    for absent in ["left", "notes", "canary"] {
        assert!(!outcome.output.contains(absent), "{outcome:?}");
    }
}

#[test]
fn a_workspace_that_was_moved_meanwhile_is_the_one_that_is_there_now() {
    let place = place();
    let turn = Turn::new();
    std::fs::write(place.workspace.join("old"), "").unwrap();
    assert_eq!(turn.run(place.spec("ls")).output, "old\n");
    turn.ready();
    std::fs::rename(&place.workspace, place.home.join("moved")).unwrap();
    std::fs::create_dir(&place.workspace).unwrap();
    std::fs::write(place.workspace.join("new"), "").unwrap();
    assert_eq!(turn.run_ready(place.spec("ls")).output, "new\n");
}

#[test]
fn one_that_died_is_not_missed_and_one_that_nobody_needs_ends() {
    let place = place();
    let turn = Turn::new();
    turn.run(place.spec("true"));
    let ready = turn.ready();
    kill(Pid::from_raw(ready.try_into().unwrap()), Signal::SIGKILL).unwrap();
    assert!(gone_soon(ready) || turn.ahead.process().is_none());
    assert_eq!(turn.run(place.spec("echo again")).output, "again\n");
    let ready = turn.ready();
    let below = waiting_below(ready);
    drop(turn);
    assert!([vec![ready], below].concat().into_iter().all(gone_soon));
}

/// In a mount namespace of its own, because it mounts something.
#[test]
fn what_was_mounted_since_is_seen() {
    const IN_OWN_NAMESPACE: &str = "AGENT_TEST_MOUNTS";
    if std::env::var_os(IN_OWN_NAMESPACE).is_none() {
        let alone = std::process::Command::new("unshare")
            .args([
                "--user",
                "--map-root-user",
                "--mount",
                "--propagation",
                "private",
            ])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "sandbox::ahead::what_was_mounted_since_is_seen"])
            .env(IN_OWN_NAMESPACE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(
            alone.status.success() && said.contains("1 passed"),
            "{alone:?}"
        );
        return;
    }
    let place = place();
    let turn = Turn::new();
    std::fs::write(place.workspace.join("below"), "").unwrap();
    turn.run(place.spec("true"));
    turn.ready();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(&place.workspace)
        .status();
    assert!(mounted.unwrap().success());
    std::fs::write(place.workspace.join("above"), "").unwrap();
    assert_eq!(turn.run(place.spec("ls")).output, "above\n");
}
