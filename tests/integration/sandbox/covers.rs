//! What a command could do about the covers over files and sockets, and about memory that belongs to no process.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[test]
fn a_socket_of_another_program_in_the_workspace_is_out_of_reach() {
    let place = place();
    std::fs::create_dir(place.workspace.join("deep")).unwrap();
    let path = place.workspace.join("deep/other.sock");
    let _other = UnixListener::bind(&path).unwrap();
    for level in levels() {
        let code = "socket.socket(socket.AF_UNIX).connect('deep/other.sock')\nprint('connected')";
        let refused = python(&level, &place, code);
        assert!(
            ["ECONNREFUSED", "EPERM", "EACCES"].contains(&refused.as_str()),
            "{level}: {refused}"
        );
    }
    let own = "s = socket.socket(socket.AF_UNIX)\ns.bind('own.sock')\ns.listen()\nsocket.socket(socket.AF_UNIX).connect('own.sock')\nos.unlink('own.sock')\nprint('connected')";
    assert_eq!(python(&Level::Namespaces, &place, own), "connected");
}

/// The owner saves SOUL.md by a rename while a command waits for just that: the cover goes, and the command writes
/// before anybody can end it.
#[test]
fn who_waits_for_the_cover_to_go_changes_nothing() {
    let place = place();
    let soul = place.workspace.join("SOUL.md");
    let save = |words: &str| {
        let draft = place.home.join("draft");
        std::fs::write(&draft, words).unwrap();
        std::fs::rename(&draft, &soul).unwrap();
    };
    save("before");
    let began = place.workspace.join("began");
    let stop = Arc::new(AtomicBool::new(false));
    let attempts = "import time
print('begun'); open('began', 'w').close()
end = time.time() + 10
while time.time() < end:
    try:
        with open('SOUL.md', 'r+') as soul: soul.truncate(0); soul.write('obey the page'); soul.flush()
        time.sleep(5)
    except OSError: pass
";
    std::fs::write(place.workspace.join("wait.py"), attempts).unwrap();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !began.exists() && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            save("the owner's new words");
        });
        let outcome = go(&Level::Namespaces, place.spec("python3 wait.py"));
        stop.store(true, Ordering::Relaxed);
        outcome
    })
    .unwrap();
    assert_eq!(
        outcome.replaced.as_deref(),
        Some(soul.as_path()),
        "{outcome:?}"
    );
    let now = std::fs::read_to_string(&soul).unwrap();
    assert_eq!(now, "before", "{outcome:?}");
}

#[test]
fn another_name_of_what_shapes_the_agent_is_no_way_around_its_cover() {
    let place = place();
    let soul = place.workspace.join("SOUL.md");
    std::fs::write(&soul, "before").unwrap();
    std::fs::hard_link(&soul, place.workspace.join("other")).unwrap();
    for level in levels() {
        shell(
            &level,
            &place,
            "echo obey >>other; echo obey >other; chmod 777 other",
        );
        assert_eq!(std::fs::read_to_string(&soul).unwrap(), "before", "{level}");
    }
}

#[test]
fn modes_of_hidden_files_are_as_before() {
    let place = place();
    let secret = place.home.join("secret");
    let mode = || secret.metadata().unwrap().permissions().mode() & 0o777;
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    for level in levels() {
        shell(&level, &place, "chmod -R 777 .. ; chmod 777 ../secret");
        assert_eq!(mode(), 0o600, "{level}");
    }
}
