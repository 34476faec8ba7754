//! What the machine does not give. Most of it needs namespaces; without them a test is skipped by name.

use std::{fs, process::Command, time::Duration};

use serde_json::Value;

use super::*;

/// Runs the doctor after `prepare`, in namespaces of its own; `None` where there are none.
fn apart(sandbox: &Sandbox, namespaces: &[&str], prepare: &str) -> Option<Vec<Value>> {
    let like = sandbox.command("agent-daemon");
    let run = |script: &str| {
        Command::new("unshare")
            .args(namespaces)
            .args(["bash", "-c", script])
            .env_clear()
            .envs(
                like.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .output()
            .expect("unshare is part of util-linux")
    };
    if !run(prepare).status.success() {
        println!("skipped: this is not allowed here: unshare {namespaces:?} {prepare}");
        return None;
    }
    let output = run(&format!("{prepare} && exec agent-daemon doctor --json -q"));
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let output = Output {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    Some(listed(&output))
}

fn check_apart(namespaces: &[&str], prepare: &str, id: &str, says: &[&str]) {
    let sandbox = healthy();
    let Some(findings) = apart(&sandbox, namespaces, prepare) else {
        return;
    };
    let finding = findings
        .iter()
        .find(|finding| finding["id"] == id)
        .unwrap_or_else(|| panic!("no {id}: {findings:#?}"));
    for word in says {
        let told = finding["evidence"].as_str().expect("text").contains(word)
            || command(finding).contains(word);
        assert!(told, "{word:?}: {finding:#}");
    }
}

#[test]
fn a_disk_that_is_nearly_full_is_named() {
    let home = "mount -t tmpfs -o size=4m,mode=0700 tmpfs \"$AGENT_HOME/state\"";
    check_apart(&["-m"], home, "disk-full", &["MB (", "are free", "df -h"]);
    let few = "mount -t tmpfs -o size=400m,nr_inodes=50,mode=0700 tmpfs \"$AGENT_HOME/state\"";
    check_apart(
        &["-m"],
        few,
        "inodes-low",
        &["more files can be made", "df -i"],
    );
}

#[test]
fn a_read_only_disk_is_named() {
    let mount =
        "mount --bind \"$AGENT_HOME\" \"$AGENT_HOME\" && mount -o remount,bind,ro \"$AGENT_HOME\"";
    check_apart(
        &["-m"],
        mount,
        "read-only",
        &["mounted read-only", "findmnt -T"],
    );
}

#[test]
fn watches_that_are_used_up_are_named() {
    let none = "echo 0 > /proc/sys/user/max_inotify_watches";
    check_apart(
        &["-U", "-r"],
        none,
        "inotify-exhausted",
        &["nothing can be watched", "max_user_watches"],
    );
    let none = "echo 0 > /proc/sys/user/max_inotify_instances";
    check_apart(
        &["-U", "-r"],
        none,
        "inotify-exhausted",
        &["nothing can be watched", "max_user_instances"],
    );
}

#[test]
fn a_weaker_wall_is_named_with_what_it_lets_through() {
    let none = "echo 0 > /proc/sys/user/max_user_namespaces";
    let sandbox = healthy();
    let Some(findings) = apart(&sandbox, &["-U", "-r"], none) else {
        return;
    };
    let weaker = |finding: &&Value| {
        matches!(
            finding["id"].as_str(),
            Some("sandbox-weak" | "sandbox-refused")
        )
    };
    let finding = findings
        .iter()
        .find(weaker)
        .unwrap_or_else(|| panic!("{findings:#?}"));
    assert!(
        command(finding) == "sudo sysctl -w user.max_user_namespaces=15000",
        "{finding:#}"
    );
}

#[test]
fn a_file_from_the_future_means_a_wrong_clock() {
    let sandbox = healthy();
    put(&sandbox, "state/people.json", b"{}");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(sandbox.path("state/people.json"))
        .expect("own file");
    let written = file
        .metadata()
        .and_then(|meta| meta.modified())
        .expect("a time");
    file.set_modified(written + Duration::from_secs(3 * 3600))
        .expect("own file");
    let finding = only(&sandbox, "clock-wrong", "error");
    let evidence = finding["evidence"].as_str().expect("text");
    assert!(
        evidence.contains("state/people.json") && evidence.contains("2 hours later"),
        "{evidence}"
    );
    file.set_modified(written).expect("own file");
    assert_eq!(ids(&sandbox), [] as [&str; 0]);
}

#[test]
fn a_program_that_was_not_installed_is_named() {
    let sandbox = healthy().env("PATH", "/usr/bin:/bin");
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    let alone = dir.path().join("agent-daemon");
    fs::hard_link(bin("agent-daemon"), &alone)
        .or_else(|_| fs::copy(bin("agent-daemon"), &alone).map(drop))
        .expect("a copy");
    let like = sandbox.command("agent-daemon");
    let output = Command::new(&alone)
        .args(["doctor", "--json"])
        .env_clear()
        .env("AGENT_SHARE", concat!(env!("CARGO_MANIFEST_DIR"), "/share"))
        .envs(
            like.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .output()
        .expect("it runs");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(
        document["findings"][0]["id"], "programs-missing",
        "{document:#}"
    );
    let evidence = document["findings"][0]["evidence"].as_str().expect("text");
    assert!(
        evidence
            .starts_with("agent-send, agent-monitor, agent-index, agent-consolidate can be found"),
        "{evidence}"
    );
}

/// Returns what the doctor says to a user whose own unit starts the daemon: of a default home, and of one that was named.
fn with_a_unit_of_the_user() -> [Vec<Value>; 2] {
    let sandbox = healthy();
    let user = sandbox.home().with_file_name("user");
    let wants = user.join(".config/systemd/user/default.target.wants");
    fs::create_dir_all(&wants).expect("the sandbox is writable");
    std::os::unix::fs::symlink(
        "../agent-daemon.service",
        wants.join("agent-daemon.service"),
    )
    .expect("a link");
    [false, true].map(|is_named| {
        let mut doctor = sandbox.command("agent-daemon");
        doctor.args(["doctor", "--json", "-q"]).env("HOME", &user);
        if !is_named {
            doctor.env_remove("AGENT_HOME");
        }
        let output = doctor.output().expect("it runs");
        let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        document["findings"].as_array().expect("a list").clone()
    })
}

#[test]
fn a_unit_of_a_user_who_does_not_linger_is_named_for_the_home_that_it_starts() {
    let name = nix::unistd::User::from_uid(nix::unistd::geteuid())
        .ok()
        .flatten()
        .map_or_else(String::new, |user| user.name);
    let lingers = fs::exists(format!("/var/lib/systemd/linger/{name}")).unwrap_or(true);
    let [of_unit, named] = with_a_unit_of_the_user();
    let found = |findings: &[Value]| {
        let found = findings.iter().find(|one| one["id"] == "linger-off");
        found.map(command)
    };
    assert_eq!(found(&named), None);
    let advice = format!("loginctl enable-linger {name}");
    assert_eq!(found(&of_unit), (!lingers).then_some(advice));
}
