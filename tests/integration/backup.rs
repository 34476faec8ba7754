//! `agent-daemon backup` and `restore`: a backup taken under load and restored elsewhere answers; a damaged
//! one is refused before anything is written; a home in use is never overwritten.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test writes and reads files plainly, and says what it skips"
)]

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Output, Sandbox, wait_for};

/// A home with a daemon, and a directory for its backups.
struct Place {
    sandbox: Sandbox,
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            sandbox: Sandbox::new(),
            dir: TempDir::with_prefix("agent-backup-")
                .expect("the temporary directory is writable"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }

    fn daemon(&self, arguments: &[&str]) -> Output {
        self.sandbox.run("agent-daemon", arguments, "")
    }

    fn backup(&self, name: &str) {
        let made = self.daemon(&["backup", &self.text(name)]);
        assert_eq!(made.code, 0, "{made:?}");
        assert_eq!(made.stdout, format!("{}\n", self.text(name)));
    }

    fn restore(&self, name: &str, home: &str) -> Output {
        self.daemon(&[
            "--home",
            &self.text(home),
            "restore",
            &self.text(name),
            "--verify",
        ])
    }

    fn ask(&self, words: &str) -> String {
        let asked = self.sandbox.send(&["--wait=60", words]);
        assert_eq!(asked.code, 0, "{asked:?}");
        asked.stdout
    }
}

/// Returns the text of every transcript below a home.
fn transcripts(home: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(home.join("state/sessions"))
        .expect("sessions")
        .flatten()
    {
        if entry.path().extension().is_some_and(|end| end == "jsonl") {
            all += &fs::read_to_string(entry.path()).expect("a transcript");
        }
    }
    all
}

#[test]
fn what_was_answered_before_a_backup_under_load_is_there_after_a_kill() {
    let place = Place::new();
    let daemon = place.sandbox.ready();
    place.ask("remember that my sister Ana moved to Porto");
    place.sandbox.put("workspace/tools/run.sh", b"#!/bin/sh\n");
    std::os::unix::fs::symlink("run.sh", place.sandbox.path("workspace/tools/link")).expect("link");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for speaker in 0..3 {
            let (sandbox, stop) = (&place.sandbox, &stop);
            scope.spawn(move || {
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let (from, words) = (
                        format!("speaker{speaker}"),
                        format!("word {speaker} {turn}"),
                    );
                    // The last one is killed with the daemon.
                    sandbox.send(&["--from", &from, "--wait=10", &words]);
                }
            });
        }
        place.ask("the last word before the backup");
        place.backup("agent.tar");
        daemon.kill9();
        stop.store(true, Ordering::Relaxed);
        place.backup("after.tar");
    });
    for (backup, home) in [("agent.tar", "one"), ("after.tar", "two")] {
        let restored = place.restore(backup, home);
        assert_eq!(restored.code, 0, "{restored:?}");
        assert!(
            restored.stdout.contains("state/queue.db: whole"),
            "{restored:?}"
        );
        assert!(
            restored.stdout.contains("found in workspace/memory/items/"),
            "{restored:?}"
        );
        let home = place.path(home);
        let said = transcripts(&home);
        assert!(said.contains("the last word before the backup"), "{said}");
        assert!(
            said.lines()
                .all(|line| serde_json::from_str::<Value>(line).is_ok())
        );
        let script = home.join("workspace/tools/run.sh");
        assert_eq!(fs::read(&script).expect("restored"), b"#!/bin/sh\n");
        assert_eq!(
            fs::read_link(home.join("workspace/tools/link")).expect("a link"),
            Path::new("run.sh")
        );
        for gone in [
            "state/daemon.lock",
            "state/replies/x",
            ".env",
            "state/backup.tmp",
        ] {
            assert!(!home.join(gone).exists(), "{gone}");
        }
        // What was accepted and not answered is answered there.
        let home = home.to_str().expect("UTF-8");
        let worked = place.daemon(&["--home", home, "--once"]);
        assert_eq!(worked.code, 0, "{worked:?}");
        let status = place
            .sandbox
            .send(&["--home", home, "--status", "--json"])
            .json();
        assert_eq!(status["queue"]["inbox"], 0, "{status}");
    }
}

#[test]
fn a_damaged_backup_and_a_home_in_use_are_refused_before_anything_is_written() {
    let place = Place::new();
    place
        .sandbox
        .put("workspace/MEMORY.md", b"- the boat lies in Lisbon\n");
    place.backup("good.tar");
    let good = fs::read(place.path("good.tar")).expect("the backup");
    let mut flipped = good.clone();
    flipped[good.len() / 3] ^= 1;
    for (name, bytes) in [
        ("short.tar", &good[..good.len() - 700]),
        ("flipped.tar", &flipped),
        ("empty.tar", &[]),
    ] {
        fs::write(place.path(name), bytes).expect("write");
        let refused = place.restore(name, "home");
        assert!(
            refused.code == 65 && refused.stderr.contains("nothing was written"),
            "{name}: {refused:?}"
        );
        assert!(!place.path("home").exists(), "{name}");
    }
    let own = place.daemon(&["restore", &place.text("good.tar")]);
    assert!(
        own.code == 1 && own.stderr.contains("agent.toml"),
        "{own:?}"
    );
    fs::create_dir_all(place.path("used/workspace/memory")).expect("directories");
    fs::write(place.path("used/workspace/memory/mine.md"), "mine").expect("write");
    let used = place.restore("good.tar", "used");
    assert!(
        used.code == 1 && used.stderr.contains("mine.md"),
        "{used:?}"
    );
    assert_eq!(fs::read_dir(place.path("used")).expect("read").count(), 1);
    // Hidden files make no agent, and none is replaced.
    place.sandbox.put("workspace/.tools/run", b"of the backup");
    place.backup("hidden.tar");
    let own = place.path("hidden/workspace/.tools/run");
    for path in [&own, &place.path("hidden/state/.ssh/id_ed25519")] {
        fs::create_dir_all(path.parent().expect("it has one")).expect("directories");
        fs::write(path, "of this machine").expect("write");
    }
    let refused = place.restore("hidden.tar", "hidden");
    assert!(
        refused.code == 1 && refused.stderr.contains("workspace/.tools/run"),
        "{refused:?}"
    );
    assert_eq!(fs::read(&own).expect("own file"), b"of this machine");
    assert!(!place.path("hidden/agent.toml").exists());
    fs::write(&own, "of the backup").expect("write");
    let restored = place.restore("hidden.tar", "hidden");
    assert_eq!(restored.code, 0, "{restored:?}");
    // Directories without a file are nobody's.
    fs::create_dir_all(place.path("bare/state/spool/new")).expect("directories");
    let bare = place.restore("good.tar", "bare");
    assert!(
        bare.code == 0 && bare.stdout.contains("found in workspace/MEMORY.md"),
        "{bare:?}"
    );
    // Ordinary tools agree.
    let checked = place.sandbox.bash(&format!(
        "cd {0} && tar -xf good.tar && cd agent-backup && test -s MANIFEST.json && head -c $(($(stat -c %s ../good.tar) - 2048)) ../good.tar | sha256sum | cut -c 1-64 | grep -qf - END",
        place.dir.path().display()
    ));
    assert_eq!(checked.code, 0, "{checked:?}");
}

/// What kill -9 leaves between the files of the settings and those of the state.
#[test]
fn a_restore_that_was_broken_off_is_no_agent_and_goes_on() {
    let place = Place::new();
    place
        .sandbox
        .put("workspace/MEMORY.md", b"- the boat lies in Lisbon\n");
    let daemon = place.sandbox.ready();
    assert_eq!(place.sandbox.send(&["--wait", "hello"]).code, 0);
    assert_eq!(daemon.term(), 0);
    place.backup("good.tar");
    let home = place.text("home");
    // Without a proof, which makes the index.
    let restored = place.daemon(&["--home", &home, "restore", &place.text("good.tar")]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let state = place.path("home/state");
    let draft = state.join(".restoring");
    fs::create_dir(&draft).expect("own directory");
    fs::rename(state.join("queue.db"), draft.join("queue.db")).expect("own file");
    fs::remove_dir_all(state.join("sessions")).expect("own directory");
    for arguments in [&["check"][..], &["run", "--once"], &["migrate"], &["init"]] {
        let told = place.daemon(&[&["--home", &home], arguments].concat());
        assert!(
            told.code == 78
                && told
                    .stderr
                    .contains("a restore into this home is not finished"),
            "{told:?}"
        );
    }
    let told = place.daemon(&["--home", &home, "doctor", "--json"]);
    assert!(
        told.code == 1 && told.stdout.contains("\"restore-unfinished\""),
        "{told:?}"
    );
    // What the restore did not put there stays somebody's.
    fs::write(place.path("home/workspace/MEMORY.md"), "other").expect("own file");
    let refused = place.restore("good.tar", "home");
    assert!(
        refused.code == 1 && refused.stderr.contains("there is an agent already"),
        "{refused:?}"
    );
    fs::write(
        place.path("home/workspace/MEMORY.md"),
        "- the boat lies in Lisbon\n",
    )
    .expect("own file");
    let again = place.restore("good.tar", "home");
    assert!(
        again.code == 0
            && again.stdout.contains("state/queue.db: whole")
            && again.stdout.contains("1 conversation\n"),
        "{again:?}"
    );
    let told = place.daemon(&["--home", &home, "check"]);
    assert_eq!(told.code, 0, "{told:?}");
}

#[test]
fn generations_secrets_and_pipes() {
    let place = Place::new();
    place.sandbox.put(".env", b"MOCK_KEY=very-secret-key\n");
    place
        .sandbox
        .put("channels/mail.toml", b"password = \"mail-password\"\n");
    let own = "state/channels/matrix/secret/session.json";
    place.sandbox.put(own, b"{\"token\": \"matrix-token\"}");
    // What was set aside as damaged, and what a writer that died left: the same secrets.
    for beside in [
        "state/auth.json.corrupt-1",
        "state/.mcp-auth.json.tmp-1-2",
        "state/mcp-auth.json~",
        "state/channels/matrix/secret.corrupt-1/session.json",
        "state/channels/matrix/.secret.tmp-1-2",
    ] {
        place.sandbox.put(beside, b"{\"access\": \"torn-token");
    }
    // The state is the HOME of the system's agent, its directory that of a tool server.
    for (hidden, secret) in [
        ("state/.ssh/id_ed25519", "ssh-private-key"),
        ("state/mcp/notes/.config/token.json", "server-token"),
        ("state/mcp/notes/vault/.git/HEAD", "notes of a server"),
    ] {
        place.sandbox.put(hidden, secret.as_bytes());
    }
    let program = "state/mcp/notes/node_modules/.bin/run";
    place.sandbox.put(program, b"#!/bin/sh\n");
    let mode = |path: PathBuf, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own file");
    };
    mode(place.sandbox.path(program), 0o755);
    place
        .sandbox
        .put("state/channels/matrix/place.json", b"{\"a place\": 1}");
    let names = || -> BTreeSet<String> {
        let entries = fs::read_dir(place.path("all")).expect("read").flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    };
    // Until a second has passed that has no backup yet.
    let more = || {
        let before = if place.path("all").exists() {
            names()
        } else {
            BTreeSet::new()
        };
        wait_for("another backup", Duration::from_secs(30), || {
            let made = place.daemon(&["backup", "--keep", "2", &place.text("all"), "--json"]);
            assert_eq!(made.code, 0, "{made:?}");
            (names() != before).then_some(())
        });
        names()
    };
    let first = more();
    fs::write(place.path("all/agent-mine.tar"), "mine").expect("write");
    let two = more();
    assert!(two.len() == 3 && two.is_superset(&first), "{two:?}");
    let three = more();
    assert!(
        three.len() == 3 && three.contains("agent-mine.tar") && three.is_disjoint(&first),
        "{three:?}"
    );
    // One of a clock that was wrong is not the newest.
    let future = "all/agent-2099-01-01T000000Z.tar";
    fs::write(place.path(future), "of a wrong clock").expect("write");
    let looked = place.daemon(&["restore", "--dry-run", &place.text("all")]);
    assert!(
        looked.code == 0
            && looked
                .stderr
                .contains(&format!("skipped {}", place.text(future))),
        "{looked:?}"
    );
    fs::create_dir(place.path("future")).expect("a directory");
    fs::copy(
        place.path(future),
        place.path(&future.replace("all", "future")),
    )
    .expect("a copy");
    let refused = place.daemon(&["restore", "--dry-run", &place.text("future")]);
    assert!(
        refused.code == 65 && refused.stderr.contains("dated in the future"),
        "{refused:?}"
    );
    fs::remove_file(place.path(future)).expect("own file");
    let bytes = |name: &str| fs::read(place.path(name)).expect("the backup");
    let has = |bytes: &[u8], words: &[u8]| bytes.windows(words.len()).any(|part| part == words);
    place.backup("plain.tar");
    for secret in [
        "very-secret-key",
        "mail-password",
        "matrix-token",
        "torn-token",
        "ssh-private-key",
        "server-token",
    ] {
        assert!(!has(&bytes("plain.tar"), secret.as_bytes()), "{secret}");
    }
    assert!(has(&bytes("plain.tar"), b"a place"));
    assert!(has(&bytes("plain.tar"), b"notes of a server"));
    let told = place.daemon(&["backup", &place.text("plain.tar")]);
    for left in ["state/.ssh", "state/mcp/notes/.config"] {
        let named = format!("not in it: {left} (hidden");
        assert!(told.stderr.contains(&named), "{named}: {told:?}");
    }
    let made = place.daemon(&["backup", "--with-secrets", &place.text("secret.tar")]);
    assert!(
        made.code == 0 && has(&bytes("secret.tar"), b"very-secret-key"),
        "{made:?}"
    );
    assert!(has(&bytes("secret.tar"), b"mail-password"));
    assert!(has(&bytes("secret.tar"), b"server-token"));
    assert!(!has(&bytes("secret.tar"), b"matrix-token"));
    assert!(!has(&bytes("secret.tar"), b"ssh-private-key"));
    let home = place.text("with-secrets");
    let restored = place.daemon(&["--home", &home, "restore", &place.text("secret.tar")]);
    assert_eq!(restored.code, 0, "{restored:?}");
    assert!(place.path("with-secrets/channels/mail.toml").is_file());
    let restored = fs::metadata(place.path("with-secrets").join(program)).expect("a program");
    assert_eq!(restored.permissions().mode() & 0o777, 0o700);
    // A file of somebody else is not replaced.
    fs::write(place.path("letter"), "dear").expect("write");
    let refused = place.daemon(&["backup", &place.text("letter")]);
    assert!(
        refused.code == 1 && bytes("letter") == b"dear",
        "{refused:?}"
    );

    let piped = place.sandbox.bash(&format!(
        "agent-daemon backup - | agent-daemon --home {0}/piped restore - && agent-daemon --home {0}/piped restore --dry-run {0}/all",
        place.dir.path().display()
    ));
    assert!(
        piped.code == 0 && piped.stdout.contains("the backup is whole"),
        "{piped:?}"
    );
    assert!(place.path("piped/agent.toml").is_file());
}

#[test]
fn directories_with_nothing_in_them_come_back() {
    let place = Place::new();
    for dir in [
        "a.git/refs/heads",
        "a.git/objects",
        "Maildir/new",
        "Maildir/cur",
    ] {
        fs::create_dir_all(place.sandbox.path(&format!("workspace/{dir}"))).expect("a directory");
    }
    place
        .sandbox
        .put("workspace/a.git/HEAD", b"ref: refs/heads/main\n");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.sandbox.path("workspace/Maildir/new"), open).expect("a mode");
    place.backup("agent.tar");
    let restored = place.restore("agent.tar", "other");
    assert_eq!(restored.code, 0, "{restored:?}");
    let mode = |dir: &str| {
        let path = place.path("other").join("workspace").join(dir);
        let meta = fs::metadata(&path).expect("a directory");
        assert!(meta.is_dir(), "{dir}");
        meta.permissions().mode() & 0o777
    };
    let modes = [
        "a.git/refs/heads",
        "a.git/objects",
        "Maildir/new",
        "Maildir/cur",
    ]
    .map(mode);
    assert_eq!(modes[2], 0o755);
    assert!(modes.iter().all(|mode| mode & 0o700 == 0o700), "{modes:?}");
}

#[test]
fn a_backup_has_no_backup_in_it() {
    let place = Place::new();
    let own = place.sandbox.path("workspace/backups");
    let first = place.sandbox.path("workspace/first.tar");
    fs::create_dir_all(&own).expect("own directory");
    let (own, first) = (own.to_str().expect("UTF-8"), first.to_str().expect("UTF-8"));
    let made = place.daemon(&["backup", first]);
    assert_eq!(made.code, 0, "{made:?}");
    let size = |path: &str| fs::metadata(path).expect("a backup").len();
    for _ in 0..2 {
        let made = place.daemon(&["backup", "--json", "--keep", "3", own]);
        let made = made.json();
        let path = made["path"].as_str().expect("a path");
        assert!(size(path) < 2 * size(first), "{made}");
        assert!(
            made["left_out"]
                .to_string()
                .contains("first.tar (a backup)"),
            "{made}"
        );
        // Their names have seconds.
        thread::sleep(Duration::from_millis(1100));
    }
}

#[test]
fn drafts_of_backups_that_were_killed_long_ago_go() {
    let place = Place::new();
    let kept = place.path("kept");
    fs::create_dir(&kept).expect("own directory");
    let draft = |day: &str| kept.join(format!("agent-{day}T031500Z.tar.part"));
    for (day, days) in [("2026-01-01", 3), ("2026-01-02", 0)] {
        let file = fs::File::create(draft(day)).expect("own file");
        let age = Duration::from_secs(days * 86_400);
        file.set_modified(std::time::SystemTime::now() - age)
            .expect("own file");
    }
    let made = place.daemon(&["backup", "--keep", "3", &place.text("kept")]);
    assert_eq!(made.code, 0, "{made:?}");
    assert!(!draft("2026-01-01").exists() && draft("2026-01-02").exists());
}

#[test]
fn what_is_behind_a_link_out_of_the_home_is_said_not_to_be_in_it() {
    let place = Place::new();
    place.sandbox.put("workspace/tools/run.sh", b"#!/bin/sh\n");
    fs::create_dir(place.path("vault")).expect("a directory");
    fs::write(place.path("vault/boat.md"), "- the boat lies in Lisbon\n").expect("write");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, place.sandbox.path(name)).expect("a link");
    };
    link(&place.text("vault"), "workspace/memory");
    link("/no/such/disk", "workspace/away");
    link("run.sh", "workspace/tools/inside");
    link(
        &place.sandbox.path("agent.toml").display().to_string(),
        "workspace/settings",
    );
    link("ada@host.1", "workspace/.#lock");
    let made = place.daemon(&["backup", "--json", &place.text("agent.tar")]);
    let left_out = made.json()["left_out"].clone();
    let left_out = left_out.as_array().expect("a list").iter();
    let links: Vec<&str> = left_out
        .filter_map(|words| words.as_str()?.strip_prefix("what "))
        .collect();
    let vault = format!("workspace/memory links to: {}", place.text("vault"));
    assert_eq!(
        links,
        ["workspace/away links to: /no/such/disk", &vault],
        "{made:?}"
    );
}

#[test]
fn a_backup_that_is_killed_leaves_the_one_before_it() {
    let place = Place::new();
    place
        .sandbox
        .put("workspace/outbox/large.bin", &vec![7; 40 << 20]);
    place.backup("agent.tar");
    let mut command = place.sandbox.command("agent-daemon");
    command
        .args(["backup", &place.text("agent.tar")])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = command.spawn().expect("it starts");
    wait_for("a part of a backup", Duration::from_secs(30), || {
        fs::metadata(place.path("agent.tar.part"))
            .is_ok_and(|meta| meta.len() > 0)
            .then_some(())
    });
    running.kill().expect("killed");
    running.wait().expect("ended");
    let whole = place.daemon(&["restore", "--dry-run", &place.text("agent.tar")]);
    assert_eq!(whole.code, 0, "{whole:?}");
    let found = findings_of_backups(&place);
    let [(id, words)] = found.as_slice() else {
        panic!("{found:?}");
    };
    let (path, draft) = (place.text("agent.tar"), place.text("agent.tar.part"));
    assert!(
        id == "backup-failed"
            && words.contains("was killed")
            && words.contains(&format!("{draft} is only a part"))
            && words.contains(&format!("rm {draft} && "))
            && words.ends_with(&format!("backup {path}")),
        "{words}"
    );
    place.backup("agent.tar");
    assert_eq!(findings_of_backups(&place), []);
}

#[test]
fn a_backup_that_is_being_written_is_not_touched_by_another_one() {
    let place = Place::new();
    place.sandbox.put("workspace/notes.md", b"mine");
    let draft = place.path("agent.tar.part");
    fs::write(&draft, "what is written so far").expect("draft");
    let writer = fs::File::options().write(true).open(&draft).expect("open");
    writer.try_lock().expect("locked");
    let second = place.daemon(&["backup", &place.text("agent.tar")]);
    assert_eq!(second.code, 75, "{second:?}");
    assert!(second.stderr.contains("another backup"), "{second:?}");
    assert_eq!(
        fs::read_to_string(&draft).expect("read"),
        "what is written so far"
    );
    assert!(findings_of_backups(&place).is_empty());
    // What one that was killed left is written over.
    drop(writer);
    place.backup("agent.tar");
    assert!(!draft.exists());
}

/// An encrypted backup is decrypted into such a file, too.
#[test]
fn a_restore_that_is_killed_leaves_no_copy_of_the_backup() {
    let place = Place::new();
    let mut command = place.sandbox.command("agent-daemon");
    command
        .args(["--home", &place.text("proof"), "restore", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut running = command.spawn().expect("it starts");
    let mut input = running.stdin.take().expect("a pipe");
    // More than a pipe holds: the rest of it is in the copy.
    input.write_all(&vec![b'x'; 1 << 20]).expect("it reads");
    let copies = || {
        let names = fs::read_dir(place.dir.path()).expect("dir").flatten();
        names
            .filter(|entry| {
                entry
                    .file_name()
                    .to_string_lossy()
                    .contains("agent-restore")
            })
            .count()
    };
    assert_eq!(copies(), 0);
    running.kill().expect("killed");
    running.wait().expect("ended");
    assert_eq!(copies(), 0);
}

/// Has bash make a backup in a mount namespace, after `prepare`; `None` where there are none.
fn backup_apart(place: &Place, prepare: &str, to: &str) -> Option<Output> {
    let like = place.sandbox.command("agent-daemon");
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "bash", "-c", script]);
        for (name, value) in like.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        command.output().expect("unshare is part of util-linux")
    };
    if !run(prepare).status.success() {
        eprintln!("skipped: not allowed here: {prepare}");
        return None;
    }
    let program = crate::support::bin("agent-daemon");
    let told = run(&format!("{prepare} && {} backup {to}", program.display()));
    Some(Output {
        code: told.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&told.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&told.stderr).into_owned(),
    })
}

#[test]
fn a_home_that_cannot_be_written_is_backed_up_too() {
    let place = Place::new();
    let daemon = place.sandbox.ready();
    place.ask("remember that my sister Ana moved to Porto");
    // What was written last stands in the logs of the databases.
    daemon.kill9();
    let only_read =
        "mount --bind \"$AGENT_HOME\" \"$AGENT_HOME\" && mount -o remount,bind,ro \"$AGENT_HOME\"";
    let state = "\"$AGENT_HOME/state\"";
    let full = format!(
        "mount -t tmpfs -o size=8m,mode=0700 x /mnt && cp -a {state}/. /mnt && rm -f /mnt/*.db-shm \
         && (head -c 9m /dev/zero >/mnt/filler; true) && mount --bind /mnt {state}"
    );
    for (name, prepare) in [("read", only_read), ("full", &full)] {
        for to in [place.text(name), format!("- >{}", place.text(name))] {
            let Some(made) = backup_apart(&place, prepare, &to) else {
                return;
            };
            assert_eq!(made.code, 0, "{name}: {made:?}");
            let checked = place.daemon(&["restore", "--dry-run", &place.text(name)]);
            assert_eq!(checked.code, 0, "{name}: {checked:?}");
        }
        let restored = place.restore(name, &format!("home-{name}"));
        assert!(
            restored.code == 0 && restored.stdout.contains("found in workspace/memory/items/"),
            "{name}: {restored:?}"
        );
        let said = transcripts(&place.path(&format!("home-{name}")));
        assert!(said.contains("moved to Porto"), "{said}");
    }
    let left: Vec<_> = fs::read_dir(place.dir.path())
        .expect("read")
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Returns the ids of what doctor finds of backups, and its words.
fn findings_of_backups(place: &Place) -> Vec<(String, String)> {
    let told = place.daemon(&["doctor", "--json", "-q"]).json();
    let findings = told["findings"].as_array().expect("a list").clone();
    findings
        .iter()
        .filter_map(|finding| {
            let text = |key: &str| finding[key].as_str().expect("text").to_owned();
            let words = format!("{}; {}", text("evidence"), text("command"));
            text("id")
                .starts_with("backup-")
                .then(|| (text("id"), words))
        })
        .collect()
}

#[test]
fn a_backup_that_failed_is_told_by_doctor_until_one_is_made() {
    let place = Place::new();
    let nowhere = place.text("unmounted/all");
    let refused = place.daemon(&["--quiet", "backup", "--keep", "14", &nowhere]);
    assert_eq!(refused.code, 74, "{refused:?}");
    let found = findings_of_backups(&place);
    let [(id, words)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert!(
        id == "backup-failed"
            && words.contains("cannot make ")
            && words.ends_with(&format!("backup --keep 14 {nowhere}")),
        "{words}"
    );
    // What makes no sense was never a backup.
    fs::write(place.path("letter"), "dear").expect("write");
    let refused = place.daemon(&["backup", "--keep", "14", &place.text("letter")]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(findings_of_backups(&place), found);
    // Each night something has the queue to itself.
    fs::remove_file(place.sandbox.path("state/backup.json")).expect("own file");
    let queue = rusqlite::Connection::open(place.sandbox.path("state/queue.db")).expect("open");
    queue
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        .expect("locked");
    let refused = place.daemon(&["--quiet", "backup", "--keep", "14", &place.text("nightly")]);
    drop(queue);
    assert_eq!(refused.code, 75, "{refused:?}");
    let ids: Vec<String> = findings_of_backups(&place)
        .into_iter()
        .map(|(id, _)| id)
        .collect();
    assert_eq!(ids, ["backup-failed"]);
    fs::create_dir(place.path("unmounted")).expect("a directory");
    let made = place.daemon(&["--quiet", "backup", "--keep", "14", &nowhere]);
    assert!(made.code == 0 && made.stderr.is_empty(), "{made:?}");
    assert_eq!(findings_of_backups(&place), []);
    let record = place.sandbox.read("state/backup.json").expect("a record");
    assert!(record.contains("made_at"), "{record}");
    // It holds of this machine alone.
    place.backup("agent.tar");
    assert_eq!(place.restore("agent.tar", "home").code, 0);
    assert!(!place.path("home/state/backup.json").exists());
}

/// Whether `program` can be run; one that is not installed is skipped by name.
fn is_installed(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
}

/// A home whose settings end with `lines`, and which knows where a boat lies.
fn with_settings(place: &Place, lines: &str) {
    let settings = place.sandbox.read("agent.toml").expect("it is there");
    place
        .sandbox
        .put("agent.toml", format!("{settings}\n{lines}\n").as_bytes());
    place
        .sandbox
        .put("workspace/MEMORY.md", b"- the boat lies in Lisbon\n");
}

fn is_plain(path: &Path) -> bool {
    let bytes = fs::read(path).expect("the backup");
    bytes.windows(6).any(|part| part == b"Lisbon")
}

#[test]
fn recipients_of_age_encrypt_every_backup() {
    if !is_installed("age-keygen") {
        return;
    }
    let place = Place::new();
    let made = Command::new("age-keygen")
        .args(["-o", &place.text("key.txt")])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    let recipient = said.trim().strip_prefix("Public key: ").expect("a key");
    with_settings(&place, &format!("[backup]\nage = [\"{recipient}\"]"));

    fs::create_dir(place.path("all")).expect("a directory");
    let made = place.daemon(&["backup", &place.text("all"), "--json"]);
    assert_eq!(made.json()["encrypted"], "age", "{made:?}");
    let path = PathBuf::from(made.json()["path"].as_str().expect("a path"));
    assert!(path.extension().is_some_and(|end| end == "age") && !is_plain(&path));
    let key = ["--identity", &place.text("key.txt")];
    let restore = |home: &str, more: &[&str]| {
        let home = place.text(home);
        let all = place.text("all");
        place.daemon(&[&["--home", &home, "restore", &all], more].concat())
    };
    let refused = restore("one", &[]);
    assert!(
        refused.code == 2 && refused.stderr.contains("--identity KEYFILE"),
        "{refused:?}"
    );
    let restored = restore("one", &[&["--verify"], &key[..]].concat());
    assert!(
        restored.code == 0 && restored.stdout.contains("found in workspace/MEMORY.md"),
        "{restored:?}"
    );
    // Another key, and bytes that changed on the way.
    let other = Command::new("age-keygen")
        .args(["-o", &place.text("other.txt")])
        .output();
    assert!(other.is_ok_and(|made| made.status.success()));
    let refused = restore("two", &["--identity", &place.text("other.txt")]);
    assert!(
        refused.code == 1 && refused.stderr.contains("age cannot decrypt the backup: "),
        "{refused:?}"
    );
    let mut bytes = fs::read(&path).expect("the backup");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("write");
    for more in [&key[..], &[&["--dry-run"], &key[..]].concat()] {
        let refused = restore("two", more);
        assert!(
            refused.code == 65 && refused.stderr.contains("the backup is damaged"),
            "{refused:?}"
        );
    }
    assert!(!place.path("two").exists());
    assert!(
        fs::read_dir(place.dir.path())
            .expect("read")
            .flatten()
            .all(|entry| !entry
                .file_name()
                .to_string_lossy()
                .starts_with(".agent-restore")),
        "a decrypted copy was left"
    );

    // A slip in a recipient is told when it is written, and not by a timer at night.
    let good = place.sandbox.read("agent.toml").expect("it is there");
    let check = || place.daemon(&["check"]).stderr;
    assert!(!check().contains("no backup can be made"));
    let slip = good.replace(recipient, "age1xyz-misspelt");
    place.sandbox.put("agent.toml", slip.as_bytes());
    let told = check();
    assert!(
        told.contains("warning: no backup can be made: age cannot encrypt")
            && told.contains("age1xyz-misspelt"),
        "{told}"
    );
    let found = findings_of_backups(&place);
    assert!(
        found.len() == 1 && found[0].0 == "backup-recipient",
        "{found:?}"
    );
    place.sandbox.put("agent.toml", good.as_bytes());

    let plain = place.daemon(&["backup", "--plain", &place.text("plain.tar")]);
    assert!(plain.code == 0 && is_plain(&place.path("plain.tar")));
    // Nothing can be told of an encrypted file, so it stays.
    let again = place.daemon(&["backup", path.to_str().expect("UTF-8")]);
    assert!(
        again.code == 1 && again.stderr.contains("is encrypted"),
        "{again:?}"
    );
    // Settings that cannot be read name nobody: better no backup than one that all can read.
    place.sandbox.put("agent.toml", b"[backup]\nage = 1\n");
    let refused = place.daemon(&["backup", &place.text("none.tar")]);
    assert!(
        refused.code == 78 && refused.stderr.contains("--plain"),
        "{refused:?}"
    );
    assert!(!place.path("none.tar").exists());
}

#[test]
fn keys_of_gpg_encrypt_every_backup() {
    if !is_installed("gpg") {
        return;
    }
    let mut place = Place::new();
    let keys = place.text("keys");
    fs::create_dir(&keys).expect("a directory");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).expect("own directory");
    let gpg = |arguments: &[&str]| {
        let ran = Command::new("gpg")
            .args(["--batch", "--homedir", &keys])
            .args(arguments)
            .output()
            .expect("it starts");
        assert!(ran.status.success(), "{ran:?}");
    };
    gpg(&[
        "--passphrase",
        "",
        "--quick-generate-key",
        "ada@example.org",
        "future-default",
        "default",
        "never",
    ]);
    place.sandbox = place.sandbox.env("GNUPGHOME", &keys);
    with_settings(&place, "[backup]\ngpg = [\"ada@example.org\"]");
    let piped = place.sandbox.bash(&format!(
        "agent-daemon backup - | tee {0}/agent.tar.gpg | agent-daemon --home {0}/one restore --verify -",
        place.dir.path().display()
    ));
    assert!(
        piped.code == 0 && piped.stdout.contains("found in workspace/MEMORY.md"),
        "{piped:?}"
    );
    assert!(!is_plain(&place.path("agent.tar.gpg")));
    let bytes = fs::read(place.path("agent.tar.gpg")).expect("the backup");
    fs::write(place.path("agent.tar.gpg"), &bytes[..bytes.len() / 2]).expect("write");
    let (two, backup) = (place.text("two"), place.text("agent.tar.gpg"));
    let restore = ["--home", &two, "restore", &backup];
    let refused = place.daemon(&restore);
    assert!(
        refused.code == 65
            && refused.stderr.contains("gpg cannot decrypt the backup: ")
            && !refused.stderr.contains("GNUPG"),
        "{refused:?}"
    );
    fs::write(place.path("agent.tar.gpg"), &bytes).expect("write");
    let others = place.text("others");
    fs::create_dir(&others).expect("a directory");
    fs::set_permissions(&others, fs::Permissions::from_mode(0o700)).expect("own directory");
    let place_of_others = Sandbox::new().env("GNUPGHOME", &others);
    let refused = place_of_others.run("agent-daemon", &restore, "");
    assert_eq!(refused.code, 1, "{refused:?}");

    let settings = place.sandbox.read("agent.toml").expect("it is there");
    let nobody = settings.replace("ada@example.org", "nobody@example.org");
    place.sandbox.put("agent.toml", nobody.as_bytes());
    let refused = place.daemon(&["backup", &place.text("none.tar.gpg")]);
    assert!(
        refused.code == 1 && refused.stderr.contains("nobody@example.org"),
        "{refused:?}"
    );
    let told = place.daemon(&["check"]).stderr;
    assert!(
        told.contains("warning: no backup can be made: gpg cannot encrypt"),
        "{told}"
    );
    assert!(!place.path("none.tar.gpg").exists() && !place.path("none.tar.gpg.part").exists());
    // The agent of gpg holds its directory.
    let ended = Command::new("gpgconf")
        .args(["--homedir", &keys, "--kill", "all"])
        .status();
    assert!(ended.is_ok());
}
