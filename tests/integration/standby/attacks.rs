//! What a standby must not fall for: a replica that is damaged, empty, another agent's, of a newer version or full of links.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use super::Pair;
use crate::support::Sandbox;

/// A pair whose replica has one answered message in it.
fn replicated() -> Option<Pair> {
    let pair = Pair::new()?;
    pair.sandbox.put(".env", b"MOCK_EXTRA=very-secret-key\n");
    let daemon = pair.sandbox.ready();
    assert!(!pair.ask("hello").is_empty());
    assert_eq!(daemon.term(), 0);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    Some(pair)
}

#[test]
fn a_damaged_replica_is_told_and_the_last_proved_copy_takes_over() {
    let Some(pair) = replicated() else { return };
    let replica = pair.text("replica");
    let proved = pair.there(&["standby", &replica, "--once"]);
    assert!(
        proved.code == 0 && proved.stdout.contains("a standby"),
        "{proved:?}"
    );
    // Half a file, as a full disk leaves it.
    let mut files = Vec::new();
    let mut dirs = vec![pair.path("replica/push")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("read").flatten() {
            match entry.path().is_dir() {
                true => dirs.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    assert!(!files.is_empty());
    for file in files {
        let bytes = fs::read(&file).expect("read");
        fs::write(&file, &bytes[..bytes.len() / 2]).expect("write");
    }
    let told = pair.there(&["standby", "--once"]);
    assert!(
        told.code == 1 && told.stdout.contains("trouble"),
        "{told:?}"
    );
    let doctor = pair.there(&["doctor", "--json"]);
    assert!(
        doctor.code == 1 && doctor.stdout.contains("standby-trouble"),
        "{doctor:?}"
    );
    let refused = pair.there(&["standby", "--promote"]);
    assert!(
        refused.code != 0 && refused.stderr.contains("--last-proven"),
        "{refused:?}"
    );
    assert_eq!(pair.record().expect("a record")["role"], "standby");
    // The primary is not stopped by a promotion that failed.
    let daemon = pair.sandbox.ready();
    assert_eq!(daemon.term(), 0);
    let promoted = pair.there(&["standby", "--promote", "--last-proven"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    let mut agent = pair.daemon_there(&["run"]);
    agent.wait_ready();
    assert!(!pair.ask("again").is_empty());
    assert_eq!(agent.term(), 0);
}

#[test]
fn another_agent_a_newer_version_and_an_empty_replica_are_refused() {
    let Some(pair) = replicated() else { return };
    let replica = pair.text("replica");
    fs::create_dir(pair.path("empty")).expect("own directory");
    let told = pair.there(&["standby", &pair.text("empty"), "--once"]);
    assert!(
        told.code == 1 && told.stdout.contains("no complete push yet"),
        "{told:?}"
    );
    let proved = pair.there(&["standby", &replica, "--once"]);
    assert_eq!(proved.code, 0, "{proved:?}");
    // Another agent pushes into a replica of this one, and this standby is shown another one's.
    let Some(other) = Pair::new() else { return };
    let daemon = other.sandbox.ready();
    assert_eq!(daemon.term(), 0);
    let refused = other.here(&["standby", "--to", &replica, "--once"]);
    assert!(
        refused.code == 78 && refused.stderr.contains("another agent"),
        "{refused:?}"
    );
    let pushed = other.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let told = pair.there(&["standby", &other.text("replica"), "--once"]);
    assert!(
        told.code == 1 && told.stdout.contains("another agent"),
        "{told:?}"
    );
    let refused = pair.there(&["standby", &other.text("replica"), "--promote"]);
    assert!(
        refused.code == 78 && refused.stderr.contains("another agent"),
        "{refused:?}"
    );
    assert!(!pair.path("home/state/queue.db").exists());
    // A primary with a newer program.
    let queue = rusqlite::Connection::open(pair.sandbox.path("state/queue.db")).expect("open");
    queue
        .pragma_update(None, "user_version", 9999)
        .expect("a newer schema");
    drop(queue);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let told = pair.there(&["standby", &replica, "--once"]);
    assert!(told.code == 1 && told.stdout.contains("9999"), "{told:?}");
    let refused = pair.there(&["standby", "--promote"]);
    assert!(
        refused.code != 0 && !pair.path("home/state/queue.db").exists(),
        "{refused:?}"
    );
    // A home with an agent is no standby.
    let agent = Sandbox::new();
    let daemon = agent.ready();
    assert_eq!(daemon.term(), 0);
    let refused = agent.run("agent-daemon", &["standby", &replica], "");
    assert!(
        refused.code == 78 && refused.stderr.contains("there is an agent already"),
        "{refused:?}"
    );
}

#[test]
fn secrets_stay_unless_they_are_asked_for_and_nothing_leads_out_of_a_replica() {
    let Some(pair) = replicated() else { return };
    let replica = pair.text("replica");
    assert!(!pair.path("replica/push/config/.env").exists());
    // What was set aside as damaged: the same secrets.
    for (beside, gone) in [
        ("auth.json.corrupt-1", true),
        (".mcp-auth.json.tmp-1-2", true),
        ("mcp-auth.json~", true),
        ("channels/matrix/secret.corrupt-1/session.json", true),
        ("channels/matrix/.secret.tmp-1-2", true),
        // Where tool servers keep sign-ins.
        ("mcp/notes/.config/token.json", true),
        ("mcp/notes/notes.json", false),
        ("people.json.corrupt-1", false),
    ] {
        pair.sandbox.put(&format!("state/{beside}"), b"very-secret");
        let pushed = pair.push_once();
        assert_eq!(pushed.code, 0, "{pushed:?}");
        let is_there = ["state", "places", "push/spools"].map(|place| {
            let below = beside.strip_prefix("channels/").unwrap_or(beside);
            let all = [beside, below].map(|name| pair.path("replica").join(place).join(name));
            all.iter().any(|path| path.exists())
        });
        assert_eq!(is_there.contains(&true), !gone, "{beside}: {is_there:?}");
    }
    let to = ["standby", "--to", &replica, "--with-secrets", "--once"];
    let pushed = pair.here(&to);
    assert_eq!(pushed.code, 0, "{pushed:?}");
    let mode = |name: &str| {
        fs::metadata(pair.path(name))
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode("replica/push/config/.env"), 0o600);
    assert_eq!(mode("replica/state"), 0o700);
    let pushed = pair.push_once();
    assert_eq!(pushed.code, 0, "{pushed:?}");
    assert!(
        !pair.path("replica/push/config/.env").exists(),
        "it is taken away again"
    );
    let pushed = pair.here(&to);
    assert_eq!(pushed.code, 0, "{pushed:?}");

    fs::write(pair.path("outside"), "mine").expect("write");
    for link in [
        "replica/state/outside",
        "replica/state/standby.json",
        "replica/push/config/.netrc",
    ] {
        symlink(pair.path("outside"), pair.path(link)).expect("link");
    }
    fs::write(pair.path("replica/state/queue.db"), "not from a push").expect("write");
    // What this machine has of settings stays.
    fs::create_dir_all(pair.path("home")).expect("directory");
    let own = pair.sandbox.read("agent.toml").expect("settings") + "\n# of this machine\n";
    fs::write(pair.path("home/agent.toml"), own).expect("write");
    let promoted = pair.there(&["standby", &replica, "--promote"]);
    assert_eq!(promoted.code, 0, "{promoted:?}");
    assert_eq!(mode("home/.env"), 0o600);
    assert_eq!(mode("home/state/people.json") & 0o077, 0);
    assert!(!pair.path("home/state/outside").exists() && !pair.path("home/.netrc").exists());
    let settings = fs::read_to_string(pair.path("home/agent.toml")).expect("read");
    assert!(settings.ends_with("# of this machine\n"), "{settings}");
    assert_eq!(pair.record().expect("a record")["role"], "primary");
    assert_eq!(
        fs::read_to_string(pair.path("outside")).expect("read"),
        "mine"
    );
    let mut agent = pair.daemon_there(&["run"]);
    agent.wait_ready();
    assert_eq!(agent.term(), 0);
}

#[test]
fn a_link_in_place_of_the_state_is_not_followed() {
    let Some(pair) = replicated() else { return };
    fs::create_dir(pair.path("elsewhere")).expect("own directory");
    fs::rename(pair.path("replica/state"), pair.path("moved")).expect("own directory");
    symlink(pair.path("elsewhere"), pair.path("replica/state")).expect("link");
    let refused = pair.there(&["standby", &pair.text("replica"), "--promote"]);
    assert!(
        refused.code == 65 && refused.stderr.contains("no such directory"),
        "{refused:?}"
    );
}
