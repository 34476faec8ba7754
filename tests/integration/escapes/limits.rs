//! Ways to wear the machine out: memory, processes, disk, output, time; and what a command leaves in /tmp.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Jail, behind_each_wall};

behind_each_wall!(bombs, output_and_time, nothing_stays_in_tmp);

fn bombs(mut jail: Jail) {
    jail.doors(&["memory", "descriptors"]);
    let namespaces = !jail
        .sandbox
        .read("state/monitor.json")
        .unwrap_or_default()
        .contains("landlock");
    // Linux 6.14 counts the processes of user 0 too, and only behind namespaces.
    if namespaces && nix::unistd::geteuid().is_root() && kernel() >= (6, 14)
        || !nix::unistd::geteuid().is_root()
    {
        jail.attempt(
            "processes",
            "/usr/bin/python3 -c \"
import os, time
for n in range(1500):
    if os.fork() == 0: time.sleep(9); os._exit(0)
open('opened-processes', 'w')\"",
        );
        let machine = fs::read_to_string("/proc/sys/kernel/pid_max")
            .expect("proc")
            .trim()
            .parse::<u64>()
            .expect("a number");
        assert!(
            machine > 4096,
            "the machine's own bound is untouched: {machine}"
        );
    }
    jail.attempt(
        "a huge file",
        "truncate -s 3G big; dd if=/dev/zero of=big2 bs=1 count=9 seek=3G; true",
    );
    for name in ["big", "big2"] {
        let size = fs::metadata(jail.workspace().join(name)).map_or(0, |meta| meta.len());
        assert!(size <= 1 << 30, "{name}: {size}");
        let _ = fs::remove_file(jail.workspace().join(name));
    }
    jail.attempt(
        "a core dump",
        "ulimit -c unlimited; sh -c 'kill -SEGV $$'; sh -c 'kill -ABRT $$'; ls | grep core && touch opened-core; true",
    );
    jail.attempt("higher limits", "ulimit -n 100000 && touch opened-nofile; ulimit -f unlimited && touch opened-fsize; ulimit -t unlimited && touch opened-cpu; true");
}

fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("proc");
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn output_and_time(mut jail: Jail) {
    for (cause, command, end) in [
        ("a flood", "yes", "[timed out after 1 s]"),
        ("a flood of errors", "yes >&2", "[timed out after 1 s]"),
        ("a loop", "while :; do :; done", "[timed out after 1 s]"),
        (
            "bytes that are no text",
            "cat /dev/urandom",
            "[timed out after 1 s]",
        ),
        (
            "waiting for input",
            "cat; read x; sleep 61",
            "[timed out after 1 s]",
        ),
        ("a stop", "kill -STOP $$", "[timed out after 1 s]"),
        (
            "a huge line",
            "head -c 5000000 /dev/zero | tr '\\0' x",
            "[cut ",
        ),
    ] {
        let started = Instant::now();
        let told = jail.tool("exec", json!({"command": command, "timeout_secs": 1}));
        assert!(
            told.contains(end) || cause == "a huge line" && told.contains("[timed out"),
            "{cause}: {}",
            told.chars().take(300).collect::<String>()
        );
        assert!(
            told.len() < 400_000 && started.elapsed() < Duration::from_secs(15),
            "{cause}: {}",
            told.len()
        );
        let broken = jail.broken(&told);
        assert!(broken.is_empty(), "{cause}: {broken:?}");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", jail.pid())).expect("it lives");
    let peak = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .trim()
            .strip_suffix(" kB")?
            .parse::<u64>()
            .ok()
    });
    assert!(peak.is_some_and(|peak| peak < 300_000), "{peak:?} kB");
}

fn nothing_stays_in_tmp(mut jail: Jail) {
    for (cause, command) in [
        (
            "a closed directory",
            "mkdir -p $TMPDIR/a/b && touch $TMPDIR/a/b/c && chmod 0 $TMPDIR/a/b $TMPDIR/a",
        ),
        (
            "a deep one",
            "cd $TMPDIR; i=0; while [ $i -lt 300 ]; do mkdir d && cd d; i=$((i+1)); done",
        ),
        (
            "a link out",
            "ln -s @HOME $TMPDIR/link; ln -s / $TMPDIR/root; mkdir $TMPDIR/d; ln -s @WORKSPACE $TMPDIR/d/w",
        ),
        (
            "a kill of the guardian",
            "touch $TMPDIR/x; kill -9 $PPID; sleep 61 & exit 0",
        ),
    ] {
        let command = jail.filled(&format!("echo $TMPDIR >tmpdir; {command}"));
        jail.attempt(cause, &command);
        let path = fs::read_to_string(jail.workspace().join("tmpdir")).expect("the command began");
        let path = path.trim();
        assert!(
            path == "/tmp" || !std::path::Path::new(path).exists(),
            "{cause}: {path}"
        );
    }
}
