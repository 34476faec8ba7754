//! Commands in the sandbox: what they can do, what they cannot, and what is left of them. Every
//! claim is checked on this machine's kernel, at each level that it has.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and writes files plainly"
)]

mod ahead;
mod covers;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, Instant};

use agent_toolkit::sandbox::{
    Error, Level, Outcome, Spec, Status, probe, run_at, serve_at, set_launcher,
};
use tokio_util::sync::CancellationToken;

fn launcher() {
    static SET: Once = Once::new();
    SET.call_once(|| set_launcher(PathBuf::from(env!("CARGO_BIN_EXE_agent-daemon"))));
}

/// A home with a secret and a workspace in it.
struct Place {
    _dir: tempfile::TempDir,
    home: PathBuf,
    workspace: PathBuf,
}

fn place() -> Place {
    launcher();
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().canonicalize().unwrap().join("home");
    let workspace = home.join("workspace");
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::write(home.join("secret"), "canary").unwrap();
    Place {
        _dir: dir,
        home,
        workspace,
    }
}

impl Place {
    fn spec(&self, command: &str) -> Spec {
        Spec {
            command: command.to_owned(),
            cwd: self.workspace.clone(),
            workspace: self.workspace.clone(),
            writable: vec![],
            hidden: vec![self.home.clone(), "/root".into()],
            read_only: vec![
                self.workspace.join("SOUL.md"),
                self.workspace.join("skills"),
            ],
            exit: None,
            env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            timeout: Duration::from_secs(20),
            max_output: 20_000,
            off: false,
            disk_reserve: 0,
        }
    }
}

fn levels() -> Vec<Level> {
    vec![Level::Namespaces, Level::Landlock(6)]
}

fn all_levels() -> Vec<Level> {
    vec![Level::Namespaces, Level::Landlock(6), Level::Off]
}

fn go(level: &Level, spec: Spec) -> Result<Outcome, Error> {
    go_with(level, spec, CancellationToken::new())
}

fn go_with(level: &Level, spec: Spec, cancel: CancellationToken) -> Result<Outcome, Error> {
    fn sent<T: Send>(future: T) -> T {
        future
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(sent(run_at(level, spec, cancel, &|_| {})))
}

/// Runs a shell command and returns its output and how it ended.
fn shell(level: &Level, place: &Place, command: &str) -> (String, Status) {
    let outcome =
        go(level, place.spec(command)).unwrap_or_else(|e| panic!("{level}: {command}: {e}"));
    (outcome.output, outcome.status)
}

/// Runs Python and returns its output; a refused call is printed as its errno.
fn python(level: &Level, place: &Place, code: &str) -> String {
    std::fs::write(place.workspace.join("try.py"), format!("import ctypes, errno, os, socket, sys\nlibc = ctypes.CDLL(None, use_errno=True)\ntry:\n{}\nexcept OSError as e:\n print(errno.errorcode[e.errno])\n", indent(code))).unwrap();
    let spec = place.spec("/usr/bin/python3 try.py");
    go(level, spec).unwrap().output.trim().to_owned()
}

fn indent(code: &str) -> String {
    code.lines().map(|line| format!(" {line}\n")).collect()
}

/// Returns seconds to sleep that no other test and no other run of the tests sleeps.
fn marker(number: usize, test: u32) -> String {
    format!("86{number}{test}.{}", std::process::id())
}

/// Returns whether a process has `marker` on its command line.
fn is_there(marker: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| {
            line.split(|b| *b == 0)
                .any(|word| word == marker.as_bytes())
        })
    })
}

/// Waits until no process has `marker` on its command line.
fn gone(marker: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let alive = is_there(marker);
        if !alive || Instant::now() > deadline {
            return !alive;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_command_runs_and_its_exit_code_is_told() {
    let place = place();
    for level in all_levels() {
        assert_eq!(
            shell(&level, &place, "echo out; exit 3"),
            ("out\n".into(), Status::Exited(3)),
            "{level}"
        );
        assert_eq!(
            shell(&level, &place, "kill -TERM $$"),
            (String::new(), Status::Signaled(15)),
            "{level}"
        );
        assert_eq!(
            shell(&level, &place, "nonsense-command 2>/dev/null").1,
            Status::Exited(127),
            "{level}"
        );
        assert_eq!(
            shell(&level, &place, "yes | head -1; read x; pwd").0,
            format!("y\n{}\n", place.workspace.display()),
            "{level}"
        );
    }
}

#[test]
fn this_machine_has_a_level_and_probing_is_quick() {
    launcher();
    let (start, level) = (Instant::now(), probe());
    assert!(
        matches!(level, Level::Namespaces | Level::Landlock(_)),
        "{level}"
    );
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn stdout_and_stderr_keep_their_order() {
    let place = place();
    for level in all_levels() {
        assert_eq!(
            shell(&level, &place, "echo 1; echo 2 >&2; echo 3; echo 4 >&2").0,
            "1\n2\n3\n4\n",
            "{level}"
        );
    }
}

#[test]
fn a_timeout_kills_every_grandchild() {
    let place = place();
    for (number, level) in levels().into_iter().enumerate() {
        let marker = marker(number, 1);
        let mut spec =
            place.spec(&format!("setsid sleep {marker} & (setsid setsid sleep {marker} &) & trap '' TERM; sleep {marker}"));
        spec.timeout = Duration::from_millis(400);
        let start = Instant::now();
        assert_eq!(go(&level, spec).unwrap().status, Status::TimedOut);
        assert!(
            start.elapsed() < Duration::from_millis(1400),
            "{level}: {:?}",
            start.elapsed()
        );
        assert!(gone(&marker), "{level}");
    }
}

#[test]
fn a_cancelled_command_dies_at_once() {
    let place = place();
    for (number, level) in all_levels().into_iter().enumerate() {
        let (cancel, marker) = (CancellationToken::new(), marker(number, 2));
        let (later, begun) = (cancel.clone(), marker.clone());
        let cancelling = std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(10);
            while !is_there(&begun) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            later.cancel();
            Instant::now()
        });
        let outcome = go_with(
            &level,
            place.spec(&format!("echo begun; sleep {marker}")),
            cancel,
        )
        .unwrap();
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("begun\n", Status::Cancelled),
            "{level}"
        );
        let cancelled = cancelling.join().unwrap();
        assert!(cancelled.elapsed() < Duration::from_secs(1), "{level}");
        assert!(gone(&marker), "{level}");
    }
}

#[test]
fn what_a_command_leaves_in_the_background_dies_with_it() {
    let place = place();
    for (number, level) in levels().into_iter().enumerate() {
        let (marker, start) = (marker(number, 3), Instant::now());
        let command = format!(
            "nohup setsid sleep {marker} >/dev/null 2>&1 & (setsid sleep {marker} &) ; sleep 0.2; echo done"
        );
        assert_eq!(
            shell(&level, &place, &command),
            ("done\n".into(), Status::Exited(0))
        );
        assert!(
            start.elapsed() < Duration::from_secs(2) && gone(&marker),
            "{level}"
        );
    }
}

#[test]
fn processes_that_fork_and_exit_all_the_time_do_not_outrun_the_end() {
    let place = place();
    std::fs::write(
        place.workspace.join("hop.py"),
        "import os, sys\nwhile True:\n if os.fork(): os._exit(0)\n os.setsid()\n",
    )
    .unwrap();
    for (number, level) in levels().into_iter().enumerate() {
        let marker = marker(number, 4);
        shell(
            &level,
            &place,
            &format!("/usr/bin/python3 hop.py {marker} & sleep 0.3"),
        );
        assert!(gone(&marker), "{level}");
    }
}

#[test]
fn a_dropped_run_leaves_nothing() {
    let place = place();
    for (number, level) in levels().into_iter().enumerate() {
        let marker = marker(number, 5);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let run = run_at(
                &level,
                place.spec(&format!("setsid sleep {marker} & sleep {marker}")),
                CancellationToken::new(),
                &|_| {},
            );
            assert!(
                tokio::time::timeout(Duration::from_millis(300), run)
                    .await
                    .is_err()
            );
        });
        drop(runtime);
        assert!(gone(&marker), "{level}");
    }
}

#[test]
fn a_process_that_holds_the_output_open_delays_nothing() {
    let place = place();
    for level in all_levels() {
        let start = Instant::now();
        assert_eq!(
            shell(&level, &place, "setsid sleep 3 & echo done").0,
            "done\n",
            "{level}"
        );
        assert!(
            start.elapsed() < Duration::from_millis(1500),
            "{level}: {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn only_the_given_environment_and_three_descriptors_are_inherited() {
    let place = place();
    let _open = std::fs::File::open(place.home.join("secret")).unwrap();
    for level in all_levels() {
        let mut spec = place.spec("env | cut -d= -f1 | sort | tr '\\n' ' '; echo $GIVEN");
        spec.env.push(("GIVEN".into(), "a b".into()));
        assert_eq!(
            go(&level, spec).unwrap().output,
            "GIVEN HOME PATH PWD TMPDIR a b\n",
            "{level}"
        );
    }
    let fds = python(
        &Level::Namespaces,
        &place,
        "print(sorted(os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd') if int(n) != 3 and os.path.exists(f'/proc/self/fd/{n}')))",
    );
    assert!(fds.starts_with("['/dev/null', 'pipe', 'pipe'"), "{fds}");
    assert_eq!(
        python(
            &Level::Landlock(6),
            &place,
            "for n in range(3, 100):\n try:\n  os.fstat(n)\n  print(n)\n except OSError: pass\nprint('end')"
        ),
        "end"
    );
}

#[test]
fn the_workspace_is_writable_and_the_system_is_not() {
    let place = place();
    let extra = tempfile::tempdir().unwrap();
    for level in levels() {
        let name = level.to_string();
        let mut spec = place.spec(&format!("echo text > 'made by {name}' && mkdir -p d && mv 'made by {name}' d/ && ln -s d/x l && rm l && cat d/*; echo more > {}/file", extra.path().display()));
        spec.writable = vec![extra.path().to_owned(), "/does/not/exist".into()];
        let outcome = go(&level, spec).unwrap();
        assert_eq!(
            (outcome.output.as_str(), outcome.status),
            ("text\n", Status::Exited(0)),
            "{level}"
        );
        let meta =
            std::fs::metadata(place.workspace.join("d").join(format!("made by {name}"))).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o644);
        assert_eq!(
            std::os::unix::fs::MetadataExt::uid(&meta),
            nix::unistd::geteuid().as_raw()
        );
        assert_eq!(
            std::fs::read_to_string(extra.path().join("file")).unwrap(),
            "more\n"
        );
        std::fs::remove_dir_all(place.workspace.join("d")).unwrap();
        for dir in [
            "/usr", "/etc", "/bin", "/opt", "/", "/var", "/home", "/run", "/proc", "/dev",
        ] {
            let (output, status) =
                shell(&level, &place, &format!("echo x > {dir}/sandbox-test-file"));
            assert_ne!(status, Status::Exited(0), "{level}: {dir}: {output}");
            assert!(!Path::new(dir).join("sandbox-test-file").exists());
        }
        assert_eq!(
            shell(&level, &place, "cp /etc/passwd $TMPDIR/p && cat $TMPDIR/p | head -1 | cut -c1-4; echo x > /dev/null").0,
            "root\n",
            "{level}"
        );
        assert_ne!(
            shell(&level, &place, "echo x > /proc/sys/kernel/core_pattern").1,
            Status::Exited(0),
            "{level}"
        );
    }
}

#[test]
fn the_temporary_directory_is_private_and_gone_afterwards() {
    let place = place();
    let outside = tempfile::NamedTempFile::new_in("/tmp").unwrap();
    for level in levels() {
        let tmp = shell(
            &level,
            &place,
            "touch $TMPDIR/mine && ls $TMPDIR && echo $TMPDIR",
        )
        .0;
        let path = tmp
            .strip_prefix("mine\n")
            .unwrap_or_else(|| panic!("{level}: {tmp}"))
            .trim();
        assert!(
            path == "/tmp" || !Path::new(path).exists(),
            "{level}: {path}"
        );
        assert_ne!(
            shell(&level, &place, &format!("cat {}", outside.path().display())).1,
            Status::Exited(0),
            "{level}"
        );
    }
}

#[test]
fn home_and_agent_home_are_invisible() {
    let place = place();
    std::os::unix::fs::symlink(place.home.join("secret"), place.workspace.join("link")).unwrap();
    std::fs::hard_link(place.home.join("secret"), place.home.join("other-name")).unwrap();
    for level in levels() {
        for path in [
            "../secret",
            "link",
            "/root/.profile",
            "/proc/1/root/root/.profile",
            "/proc/self/root/root/.profile",
            "/root/.bashrc",
        ] {
            let (output, status) = shell(&level, &place, &format!("cat {path}"));
            assert!(
                status != Status::Exited(0) && !output.contains("canary"),
                "{level}: {path}: {output}"
            );
        }
        for command in [
            "ls /root",
            "ln ../secret stolen",
            "mv ../secret stolen",
            "rm ../secret",
            "ls .. | grep -v workspace",
        ] {
            assert_ne!(
                shell(&level, &place, command).1,
                Status::Exited(0),
                "{level}: {command}"
            );
        }
        // With namespaces this may write to the private /tmp that the test's home is in.
        shell(&level, &place, "echo x > ../secret");
    }
    assert_eq!(
        std::fs::read_to_string(place.home.join("secret")).unwrap(),
        "canary"
    );
}

#[test]
fn a_hidden_directory_in_the_workspace_is_empty_and_the_rest_is_not() {
    let place = place();
    for path in ["memory/people", "notes"] {
        std::fs::create_dir_all(place.workspace.join(path)).unwrap();
        std::fs::write(place.workspace.join(path).join("file"), "canary").unwrap();
    }
    std::fs::write(place.workspace.join("key"), "canary").unwrap();
    for level in levels() {
        let mut spec = place
            .spec("cat memory/people/file key; ls memory; cat notes/file; echo x > memory/new");
        spec.hidden
            .extend([place.workspace.join("memory"), place.workspace.join("key")]);
        let output = go(&level, spec).unwrap().output;
        assert_eq!(output.matches("canary").count(), 1, "{level}: {output}");
        assert!(!place.workspace.join("memory/new").exists(), "{level}");
    }
}

#[test]
fn a_planted_symlink_is_no_way_to_more_rights() {
    let place = place();
    let extra = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.home.join("private")).unwrap();
    std::fs::write(place.home.join("private/key"), "canary").unwrap();
    for dir in [place.workspace.as_path(), extra.path()] {
        std::os::unix::fs::symlink(place.home.join("private"), dir.join("out")).unwrap();
    }
    for level in levels() {
        let mut spec = place.spec("cat out/key; cat ../private/key");
        spec.writable = vec![
            place.workspace.join("out"),
            extra.path().to_owned(),
            extra.path().join("out"),
        ];
        assert!(
            !go(&level, spec).unwrap().output.contains("canary"),
            "{level}"
        );
        for path in ["/", "/proc", "/dev"] {
            let mut spec = place.spec("true");
            spec.writable = vec![path.into()];
            assert!(
                matches!(go(&level, spec), Err(Error::Setup { .. })),
                "{level}: {path}"
            );
        }
    }
}

#[test]
fn a_workspace_may_be_named_through_a_symlink() {
    let place = place();
    let link = place.home.parent().unwrap().join("link");
    std::os::unix::fs::symlink(&place.home, &link).unwrap();
    for level in levels() {
        let mut spec = place.spec(&format!(
            "echo 1 > {0}/workspace/new && cat {0}/workspace/new; cat {0}/secret",
            link.display()
        ));
        (spec.workspace, spec.cwd) = (link.join("workspace"), link.join("workspace"));
        let output = go(&level, spec).unwrap().output;
        assert!(
            output.starts_with("1\n") && !output.contains("canary"),
            "{level}: {output}"
        );
    }
}

#[test]
fn what_others_may_not_read_in_etc_is_unreadable_even_for_root() {
    let place = place();
    for level in levels() {
        for path in [
            "/etc/shadow",
            "/etc/shadow-",
            "/etc/gshadow",
            "/etc/sudoers",
            "/etc/ssl/private/ssl-cert-snakeoil.key",
        ] {
            let (output, _) = shell(
                &level,
                &place,
                &format!("cat {path} 2>/dev/null; ls {path}/ 2>/dev/null"),
            );
            assert_eq!(output, "", "{level}: {path}");
        }
        assert_eq!(
            shell(
                &level,
                &place,
                "head -c4 /etc/passwd; ls /etc/ssl/certs >/dev/null && echo ok"
            )
            .0,
            "rootok\n",
            "{level}"
        );
    }
}

#[test]
fn a_command_has_no_network_but_its_own_loopback() {
    let place = place();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = |address: &str, port: u16| {
        format!("socket.create_connection(('{address}', {port}), 2)\nprint('connected')")
    };
    let (local, far) = (connect("127.0.0.1", port), connect("1.1.1.1", 53));
    assert_eq!(python(&Level::Namespaces, &place, &local), "ECONNREFUSED");
    assert_eq!(python(&Level::Namespaces, &place, &far), "ENETUNREACH");
    assert_eq!(python(&Level::Landlock(6), &place, &local), "EPERM");
    for level in levels() {
        for family in ["AF_VSOCK", "AF_PACKET", "AF_ALG", "AF_BLUETOOTH"] {
            let code = format!(
                "socket.socket(socket.{family}, socket.SOCK_RAW if '{family}' == 'AF_PACKET' else socket.SOCK_STREAM)\nprint('opened')"
            );
            assert_eq!(python(&level, &place, &code), "EPERM", "{level}: {family}");
        }
    }
}

#[test]
fn the_exit_is_a_port_inside_that_the_daemon_serves() {
    let place = place();
    let code = format!(
        "import socket; s = socket.create_connection(('127.0.0.1', {}), 5); s.sendall(b'hi'); s.shutdown(1); print(s.makefile().read())",
        agent_toolkit::sandbox::EXIT_PORT
    );
    let mut spec = place.spec(&format!("/usr/bin/python3 -c \"{code}\""));
    spec.exit = Some(agent_toolkit::sandbox::NetworkExit::new(|listener| {
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut said = String::new();
            std::io::Read::read_to_string(&mut stream, &mut said).unwrap();
            std::io::Write::write_all(&mut stream, format!("{said} too").as_bytes()).unwrap();
        });
    }));
    let outcome = go(&Level::Namespaces, spec).unwrap();
    assert_eq!(
        (outcome.output.as_str(), outcome.status),
        ("hi too\n", Status::Exited(0))
    );
}

#[test]
fn unix_sockets_of_the_machine_are_out_of_reach() {
    let place = place();
    let path = place.home.join("socket");
    let _by_path = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let name = format!("agent-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(
            &name,
        )
        .unwrap();
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    for level in levels() {
        for target in [format!("'{}'", path.display()), format!("'\\0{name}'")] {
            let output = python(
                &level,
                &place,
                &format!("socket.socket(socket.AF_UNIX).connect({target})\nprint('connected')"),
            );
            assert!(
                ["EPERM", "ENOENT", "ECONNREFUSED"].contains(&output.as_str()),
                "{level}: {target}: {output}"
            );
            assert!(
                level == Level::Namespaces || output == "EPERM",
                "{level}: {output}"
            );
        }
        assert_eq!(
            python(&level, &place, "socket.socketpair()\nprint('pair')"),
            "pair",
            "{level}"
        );
    }
}

#[test]
fn processes_of_the_machine_are_out_of_reach() {
    let place = place();
    let own = std::process::id();
    let seen = python(
        &Level::Namespaces,
        &place,
        "print(all(int(name) < 20 for name in os.listdir('/proc') if name.isdigit()))",
    );
    assert_eq!(seen, "True");
    for level in levels() {
        assert!(
            ["EPERM", "ESRCH"].contains(
                &python(&level, &place, &format!("os.kill({own}, 0)\nprint('sent')")).as_str()
            ),
            "{level}"
        );
        for file in ["environ", "mem", "cmdline", "fd/0", "root/etc/passwd"] {
            assert_ne!(
                shell(
                    &level,
                    &place,
                    &format!("cat /proc/{own}/{file} >/dev/null")
                )
                .1,
                Status::Exited(0),
                "{level}: {file}"
            );
        }
        // Its own guardian neither.
        assert_ne!(
            shell(&level, &place, "cat /proc/$PPID/environ").1,
            Status::Exited(0),
            "{level}"
        );
        let (output, status) = shell(&level, &place, "kill -9 $PPID; sleep 0.1; echo alive");
        assert!(
            output.ends_with("alive\n") && status == Status::Exited(0),
            "{level}: {output}"
        );
    }
}

#[test]
fn dangerous_system_calls_are_refused() {
    let place = place();
    let calls = [
        (
            "mount",
            "libc.mount(b'x', b'/tmp', b'tmpfs', 0, None)",
            "EPERM",
        ),
        ("umount", "libc.umount2(b'/etc/shadow', 2)", "EPERM"),
        ("unshare", "libc.unshare(0x10000000)", "EPERM"),
        ("setns", "libc.setns(0, 0)", "EPERM"),
        ("chroot", "libc.chroot(b'/tmp')", "EPERM"),
        ("ptrace", "libc.ptrace(0, 0, 0, 0)", "EPERM"),
        (
            "clone in a namespace",
            "libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)",
            "EPERM",
        ),
        ("clone3", "libc.syscall(435, 0, 0)", "ENOSYS"),
        ("bpf", "libc.syscall(321, 0, 0, 0)", "EPERM"),
        ("io_uring_setup", "libc.syscall(425, 1, 0)", "EPERM"),
        ("keyctl", "libc.syscall(250, 0, 0)", "EPERM"),
        (
            "perf_event_open",
            "libc.syscall(298, 0, 0, 0, 0, 0)",
            "EPERM",
        ),
        (
            "open_by_handle_at",
            "libc.open_by_handle_at(0, 0, 0)",
            "EPERM",
        ),
        ("TIOCSTI", "libc.ioctl(0, 0x5412, b'x')", "EPERM"),
        (
            "TIOCSTI with high bits",
            "libc.syscall(16, 0, 0x100005412, b'x')",
            "EPERM",
        ),
        ("personality", "libc.personality(0x0040000)", "EPERM"),
        ("x32 getpid", "libc.syscall(0x40000000 + 39)", "ENOSYS"),
        ("sethostname", "libc.sethostname(b'x', 1)", "EPERM"),
        ("chmod +s", "libc.chmod(b'try.py', 0o4755)", "EPERM"),
        (
            "fchmodat +s",
            "libc.fchmodat(-100, b'try.py', 0o2755, 0)",
            "EPERM",
        ),
        (
            "open a new set-id file",
            "libc.open(b'new', 0o102, 0o4755)",
            "EPERM",
        ),
        (
            "mknod",
            "libc.syscall(133, b'dev', 0o020666, 0x103)",
            "EPERM EACCES",
        ),
    ];
    for level in levels() {
        for (name, call, expected) in calls {
            let output = python(
                &level,
                &place,
                &format!(
                    "r = {call}\nprint(errno.errorcode[ctypes.get_errno()] if r < 0 else 'done')"
                ),
            );
            assert!(
                expected.split(' ').any(|errno| errno == output),
                "{level}: {name}: {output}"
            );
        }
        let status =
            shell(&level, &place, "grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status | sort -u | tr -d '\\t'").0;
        if level == Level::Namespaces {
            assert_eq!(
                status,
                "CapAmb:0000000000000000\nCapBnd:0000000000000000\nCapEff:0000000000000000\nCapPrm:0000000000000000\nNoNewPrivs:1\n"
            );
        }
    }
    for call in [
        "libc.shmget(1, 1, 0)",
        "libc.msgget(1, 0)",
        "libc.semget(1, 1, 0)",
        "libc.syscall(254, 0, b'/root', 2)",
        "libc.prlimit(1, 7, None, None)",
    ] {
        let output = python(
            &Level::Landlock(6),
            &place,
            &format!("r = {call}\nprint(errno.errorcode[ctypes.get_errno()] if r < 0 else 'done')"),
        );
        assert_eq!(output, "EPERM", "{call}");
    }
}

#[test]
fn output_is_capped_and_memory_is_not_eaten() {
    // Peak memory is a whole process's: it is measured in one that runs no other test.
    if std::env::var_os("AGENT_TEST_ALONE").is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "sandbox::output_is_capped_and_memory_is_not_eaten",
                "--nocapture",
            ])
            .env("AGENT_TEST_ALONE", "1")
            .output()
            .unwrap();
        assert!(
            alone.status.success(),
            "{}",
            String::from_utf8_lossy(&alone.stderr)
        );
        return;
    }
    let place = place();
    for level in all_levels() {
        let mut spec = place.spec("echo begin; yes; ");
        (spec.timeout, spec.max_output) = (Duration::from_secs(2), 1000);
        let outcome = go(&level, spec).unwrap();
        assert_eq!(outcome.status, Status::TimedOut);
        assert!(
            outcome.output.starts_with("begin\ny\n")
                && outcome.output.ends_with("y\n")
                && outcome.output.len() < 1100,
            "{level}"
        );
        assert!(outcome.cut.unwrap() > 1_000_000, "{level}");
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .unwrap();
    assert!(peak < 200_000, "{peak} kB");
}

#[test]
fn invalid_utf8_is_replaced() {
    let place = place();
    assert_eq!(
        shell(&Level::Namespaces, &place, "printf 'a\\377b\\303'").0,
        "a\u{fffd}b\u{fffd}"
    );
}

#[test]
fn a_failed_setup_is_told_from_a_failed_command() {
    let place = place();
    for level in all_levels() {
        let mut spec = place.spec("true");
        spec.cwd = place.workspace.join("missing");
        let Err(Error::Setup { step, reason }) = go(&level, spec) else {
            panic!("{level}")
        };
        assert!(
            step.starts_with("enter ") && reason.contains("ENOENT"),
            "{level}: {step}: {reason}"
        );
        let mut spec = place.spec(&"x".repeat(200_000));
        spec.timeout = Duration::from_secs(5);
        assert!(
            matches!(go(&level, spec), Err(Error::Setup { step, .. }) if step == "start /bin/sh"),
            "{level}"
        );
    }
    assert!(
        matches!(go(&Level::Refused("because".into()), place.spec("true")), Err(Error::Refused(why)) if why == "because")
    );
}

#[test]
fn limits_hold() {
    let place = place();
    for level in all_levels() {
        assert_eq!(
            shell(&level, &place, "ulimit -c; ulimit -n; ulimit -f; umask").0,
            "0\n1024\n2097152\n0022\n",
            "{level}"
        );
    }
    let (output, _) = shell(
        &Level::Namespaces,
        &place,
        "head -c 700000000 /dev/zero > /tmp/big",
    );
    assert!(output.contains("No space left"), "{output}");
}

#[test]
fn a_user_without_privileges_has_the_same_walls() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let program = dir.path().join("agent-daemon");
    std::fs::copy(env!("CARGO_BIN_EXE_agent-daemon"), &program).unwrap();
    let workspace = dir.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    std::os::unix::fs::chown(&workspace, Some(65534), Some(65534)).unwrap();
    for walls in ["Namespaces", "Landlock"] {
        let plan = format!(
            r#"{{"walls":"{walls}","cpu_secs":5,"service":false,"exit":false,"trial":false,"closed":["/etc/shadow"],"spec":{{"command":"id -u; touch made && stat -c %u made; cat /etc/shadow 2>/dev/null; ls /root 2>/dev/null; chmod 700 made; echo x >/usr/x","cwd":"{0}","workspace":"{0}","writable":[],"hidden":[],"read_only":[],"env":[["PATH","/usr/bin"]],"timeout":{{"secs":5,"nanos":0}},"max_output":1000,"off":false}}}}"#,
            workspace.display()
        );
        let mut child = std::process::Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .arg(agent_toolkit::sandbox::LAUNCHER_ARG)
            .env_clear()
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(
            &mut stdin,
            format!("{{\"walls\":\"{walls}\",\"group\":null}}\n{plan}\n").as_bytes(),
        )
        .unwrap();
        let mut report = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut report).unwrap();
        let mut output = String::new();
        std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut output).unwrap();
        child.wait().unwrap();
        assert!(
            output.starts_with("65534\n65534\nsh: ") && output.lines().count() == 3,
            "{walls}: {output}{report}"
        );
        assert_eq!(report.lines().next(), Some("{\"Exited\":2}"), "{walls}");
    }
}

#[test]
fn what_shapes_the_agent_can_be_read_and_not_changed() {
    let place = place();
    std::fs::create_dir(place.workspace.join("skills")).unwrap();
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(place.workspace.join("SOUL.md"))
        .unwrap();
    let attempts = "cat SOUL.md && for try in 'echo x >SOUL.md' 'rm SOUL.md' 'mv SOUL.md y' 'mkdir skills/x' 'mv skills y' 'ln -sf /dev/null SOUL.md'; \
                    do sh -c \"$try\" 2>/dev/null && echo \"$try\"; done; touch free && echo end";
    assert_eq!(shell(&Level::Namespaces, &place, attempts).0, "end\n");
    assert_eq!(std::fs::read(place.workspace.join("SOUL.md")).unwrap(), b"");
}

#[test]
fn what_is_shown_from_elsewhere_can_be_read_and_not_changed_and_what_is_hidden_in_it_stays_hidden()
{
    for level in levels() {
        let place = place();
        let models = place.home.with_file_name("models");
        std::fs::create_dir_all(models.join("own")).unwrap();
        std::fs::write(models.join("base.bin"), "weights").unwrap();
        std::fs::write(models.join("own/secret"), "canary").unwrap();
        let command = format!(
            "cd {}; cat base.bin own/secret; echo x >base.bin; echo x >new; true",
            models.display()
        );
        let mut spec = place.spec(&command);
        spec.read_only.push(models.clone());
        spec.hidden.push(models.join("own"));
        let outcome = go(&level, spec).unwrap();
        assert!(
            outcome.output.starts_with("weights") && !outcome.output.contains("canary"),
            "{level}: {outcome:?}"
        );
        assert_eq!(
            std::fs::read_to_string(models.join("base.bin")).unwrap(),
            "weights",
            "{level}"
        );
        assert!(!models.join("new").exists(), "{level}");
    }
}

#[test]
fn a_service_that_fills_the_disk_is_ended_before_it_has() {
    for level in all_levels() {
        let place = place();
        let spec = Spec {
            disk_reserve: u64::MAX,
            ..place.spec("head -c 400M /dev/zero > unpacked; sleep 600")
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let mut service = serve_at(&level, spec).await.unwrap();
            let ended = tokio::time::timeout(Duration::from_secs(60), service.life.ended());
            assert_eq!(ended.await.unwrap().unwrap(), Status::DiskFull, "{level}");
            service.life.end().await;
        });
        let size = place.workspace.join("unpacked").metadata().unwrap().len();
        std::thread::sleep(Duration::from_millis(50));
        let later = place.workspace.join("unpacked").metadata().unwrap().len();
        assert_eq!(size, later, "{level}: nothing of it lives on");
    }
}

#[test]
fn a_command_that_fills_the_disk_is_ended_before_it_has() {
    for level in all_levels() {
        let place = place();
        let spec = |reserve: u64, megabytes: u64| Spec {
            disk_reserve: reserve,
            ..place.spec(&format!(
                "head -c {megabytes}M /dev/zero > unpacked; sleep 2; rm unpacked; echo done"
            ))
        };
        let began = Instant::now();
        let ended = go(&level, spec(u64::MAX, 400)).unwrap();
        assert_eq!(ended.status, Status::DiskFull, "{level}: {ended:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{level}");
        assert!(place.workspace.join("unpacked").exists(), "{level}");
        // With enough room nobody is disturbed.
        let ended = go(&level, spec(1 << 20, 400)).unwrap();
        assert_eq!(ended.status, Status::Exited(0), "{level}: {ended:?}");
        // Who tidies up on a full disk needs a little room. It is the room of all who write there,
        // and other tests do: one quiet moment in ten is enough.
        let tidies = || go(&level, spec(u64::MAX, 1)).unwrap().status == Status::Exited(0);
        assert!((0..10).any(|_| tidies()), "{level}");
    }
}
