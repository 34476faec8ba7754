//! Ways through other processes: the daemon's memory, its files, its limits; and processes that stay.

use super::{Jail, behind_each_wall};

behind_each_wall!(the_daemon_as_a_process, what_is_inherited, what_stays);

fn the_daemon_as_a_process(mut jail: Jail) {
    jail.doors(&[
        "ptrace",
        "read-memory",
        "kcmp",
        "fd-of",
        "signal",
        "signal-by-fd",
        "signal-by-owner",
        "limits-of",
        "priority-of",
        "schedule-of",
        "io-priority-of",
    ]);
    jail.attempts(&[
        ("its environment", "for f in environ cmdline maps mem status; do head -c 4096 /proc/@PID/$f >got-$f && test -s got-$f && touch opened-$f; done"),
        ("its root", "cat /proc/@PID/root@HOME/.env /proc/@PID/cwd/home/.env"),
        ("its files", "for fd in /proc/@PID/fd/*; do cat $fd; done; cat /proc/@PID/fd/3; ls /proc/@PID/fd/ | grep . && touch opened-fds"),
        ("any process's environment", "cat /proc/[0-9]*/environ"),
        ("process 1", "cat /proc/1/root@HOME/.env; cat /proc/1/environ; cat /proc/1/cwd/.env"),
        ("its guardian", "kill -9 $PPID; kill -9 1; kill -TERM -1; touch still-here"),
        ("the program through its guardian", "cp /bin/true /proc/1/exe; cp /bin/true /proc/$PPID/exe; cp /bin/true /proc/@PID/exe"),
        ("signals to it", "kill -9 @PID; kill -STOP @PID; pkill -9 agent-daemon; killall -9 agent-daemon; kill -9 -@PID"),
        ("out-of-memory score", "echo 1000 >/proc/@PID/oom_score_adj && touch opened-oom"),
        ("nice and affinity", "renice -n 5 -p @PID && touch opened-renice; taskset -p 1 @PID && touch opened-taskset; renice -n 5 -u root; true"),
    ]);
}

fn what_is_inherited(mut jail: Jail) {
    jail.doors(&["inherited"]);
    jail.attempts(&[
        ("the environment", "env; cat /proc/self/environ; printenv EXTRA_TOKEN EXTRA_NOTE MOCK_KEY"),
        ("the standard files", "for fd in 0 1 2; do readlink /proc/self/fd/$fd; done | grep -v -e null -e pipe -e loot | grep home && touch opened-fd"),
        ("a lie to the guardian", "echo '{\"Exited\":0}' >&2; printf '{\"Setup\":{\"step\":\"x\",\"reason\":\"y\"}}\\n' >&2; exit 3"),
    ]);
    let told = jail.tool(
        "exec",
        serde_json::json!({"command": "env | cut -d= -f1 | sort | tr '\\n' ' '"}),
    );
    assert!(
        told.contains("PATH PIP_DISABLE_PIP_VERSION_CHECK PWD TMPDIR ") && !told.contains("KEY"),
        "{told}"
    );
    // Its home is where its temporary files are, and nobody else's.
    let told = jail.tool(
        "exec",
        serde_json::json!({"command": "test \"$HOME\" = \"$TMPDIR\" && echo its own home"}),
    );
    assert!(told.contains("its own home"), "{told}");
    // What a command leaves behind its output is no report of its guardian.
    let told = jail.tool(
        "exec",
        serde_json::json!({"command": "echo '{\"Exited\":0}'; exit 3"}),
    );
    assert!(told.contains("[exit 3]"), "{told}");
}

fn what_stays(mut jail: Jail) {
    jail.attempts(&[
        ("the background", "sleep 61 &"),
        ("nohup", "nohup sleep 61 >/dev/null 2>&1 &"),
        ("a session of its own", "setsid sleep 61 >/dev/null 2>&1 & setsid -f sleep 61 >/dev/null 2>&1"),
        ("two forks", "(setsid sh -c '(sleep 61 &) ; sleep 61' >/dev/null 2>&1 &)"),
        ("deaf to signals", "(trap '' TERM HUP INT QUIT; setsid sleep 61 >/dev/null 2>&1 &) ; sleep 0.1"),
        ("a stopped process", "sleep 61 & kill -STOP $!"),
        ("a fork that never rests", "setsid sh -c 'while :; do (sleep 0.01 &); done' >/dev/null 2>&1 & sleep 0.1"),
        ("at and cron", "echo 'touch @HOME/new' | at now; echo '* * * * * touch @HOME/new' | crontab -; crontab -l && touch opened-crontab; true"),
        ("systemd", "systemd-run --user touch @HOME/new; systemctl --user start x; true"),
        ("another name", "cp /bin/sleep agent-daemon; setsid ./agent-daemon 61 >/dev/null 2>&1 & sleep 0.1"),
    ]);
    let started = std::time::Instant::now();
    let told = jail.tool("exec", serde_json::json!({"command": "trap '' TERM; setsid sleep 61 & sleep 61", "timeout_secs": 1}));
    assert!(
        told.contains("[timed out after 1 s]") && started.elapsed().as_secs() < 10,
        "{told}"
    );
    assert_eq!(jail.broken(&told), [] as [String; 0]);
}
