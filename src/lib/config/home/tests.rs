use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;
use crate::config::error::Kind;

fn resolve(flags: HomeFlags, variables: &[(&str, &str)]) -> Result<Home, Error> {
    let env = crate::config::Environment::of(variables);
    Home::resolve(flags, &|name| env.get(name))
}

/// Config file, workspace and state.
fn check(flags: HomeFlags, variables: &[(&str, &str)], expected: [&str; 3]) {
    let home = resolve(flags, variables).expect("home");
    let found =
        [home.config_file(), home.workspace(), home.state()].map(|path| path.display().to_string());
    assert_eq!(found, expected);
}

fn flags(home: Option<&str>, instance: Option<&str>, config: Option<&str>) -> HomeFlags {
    HomeFlags {
        home: home.map(PathBuf::from),
        instance: instance.map(str::to_owned),
        config: config.map(PathBuf::from),
    }
}

const USER: (&str, &str) = ("HOME", "/home/ada");

#[test]
fn the_flag_wins_over_everything() {
    let env = [
        USER,
        ("AGENT_HOME", "/b"),
        ("STATE_DIRECTORY", "/var/lib/agent"),
    ];
    check(
        flags(Some("/a"), None, None),
        &env,
        ["/a/agent.toml", "/a/workspace", "/a/state"],
    );
}

#[test]
fn agent_home_wins_over_systemd_and_an_empty_one_is_unset() {
    check(
        HomeFlags::default(),
        &[USER, ("AGENT_HOME", "/b"), ("STATE_DIRECTORY", "/s")],
        ["/b/agent.toml", "/b/workspace", "/b/state"],
    );
    let xdg = [
        "/home/ada/.config/agent/agent.toml",
        "/home/ada/.local/share/agent/workspace",
        "/home/ada/.local/state/agent",
    ];
    check(HomeFlags::default(), &[USER, ("AGENT_HOME", "")], xdg);
}

#[test]
fn a_relative_home_becomes_absolute() {
    let home = resolve(flags(Some("here"), None, None), &[]).expect("home");
    assert!(home.state().is_absolute() && home.state().ends_with("here/state"));
}

#[test]
fn xdg_variables_are_followed_when_they_are_absolute() {
    let env = [
        USER,
        ("XDG_CONFIG_HOME", "/c"),
        ("XDG_DATA_HOME", "/d"),
        ("XDG_STATE_HOME", "relative"),
    ];
    check(
        HomeFlags::default(),
        &env,
        [
            "/c/agent/agent.toml",
            "/d/agent/workspace",
            "/home/ada/.local/state/agent",
        ],
    );
}

#[test]
fn a_system_unit_keeps_everything_in_its_directories() {
    let env = [
        ("CONFIGURATION_DIRECTORY", "/etc/agent:/etc/other"),
        ("STATE_DIRECTORY", "/var/lib/agent"),
        USER,
    ];
    check(
        HomeFlags::default(),
        &env,
        [
            "/etc/agent/agent.toml",
            "/var/lib/agent/workspace",
            "/var/lib/agent",
        ],
    );
}

#[test]
fn a_user_unit_and_the_shell_agree() {
    let env = [
        USER,
        ("STATE_DIRECTORY", "/home/ada/.local/state/agent"),
        ("CONFIGURATION_DIRECTORY", "/home/ada/.config/agent"),
    ];
    assert_eq!(
        resolve(HomeFlags::default(), &env).expect("unit"),
        resolve(HomeFlags::default(), &[USER]).expect("shell")
    );
}

#[test]
fn the_system_agents_directory_is_its_users_alone() {
    let dir = tempfile::tempdir().expect("dir");
    let (file, link) = (dir.path().join("file"), dir.path().join("link"));
    std::fs::File::create_new(&file).expect("file");
    symlink(dir.path(), &link).expect("link");
    let user = if nix::unistd::geteuid().is_root() {
        4711
    } else {
        nix::unistd::geteuid().as_raw()
    };
    for path in [dir.path(), &file] {
        // Only root may give away, and only root has to.
        let _ = std::os::unix::fs::chown(path, Some(user), None);
    }
    let of = |path: &Path, user| belongs_to(path, user);
    assert_eq!(
        [
            of(dir.path(), user),
            of(dir.path(), user + 1),
            of(dir.path(), 0)
        ],
        [true, false, false]
    );
    let other = |path: &Path, than| another_owner(path, than);
    assert_eq!(
        [
            other(dir.path(), user),
            other(dir.path(), user + 1),
            other(&file, user + 1)
        ],
        [None, Some(user), None]
    );
    assert_eq!(
        [
            of(&file, user),
            of(&link, user),
            of(&dir.path().join("none"), user)
        ],
        [false; 3]
    );
}

#[test]
fn credentials_are_systemds_with_any_home() {
    let home = resolve(
        flags(Some("/a"), None, None),
        &[("CREDENTIALS_DIRECTORY", "/run/credentials/agent")],
    )
    .expect("home");
    assert_eq!(
        home.credentials_dir(),
        Some(Path::new("/run/credentials/agent"))
    );
}

#[test]
fn an_instance_has_directories_of_its_own() {
    check(
        flags(Some("/a"), Some("bob"), None),
        &[],
        ["/a-bob/agent.toml", "/a-bob/workspace", "/a-bob/state"],
    );
    let xdg = [
        "/home/ada/.config/agent-bob/agent.toml",
        "/home/ada/.local/share/agent-bob/workspace",
        "/home/ada/.local/state/agent-bob",
    ];
    check(
        HomeFlags::default(),
        &[USER, ("AGENT_INSTANCE", "bob")],
        xdg,
    );
}

#[test]
fn a_template_unit_is_not_suffixed_twice() {
    let env = [
        ("AGENT_INSTANCE", "bob"),
        ("STATE_DIRECTORY", "/var/lib/agent-bob"),
        ("CONFIGURATION_DIRECTORY", "/etc/agent"),
        USER,
    ];
    check(
        HomeFlags::default(),
        &env,
        [
            "/etc/agent-bob/agent.toml",
            "/var/lib/agent-bob/workspace",
            "/var/lib/agent-bob",
        ],
    );
}

#[test]
fn an_instance_that_is_no_name_is_refused() {
    for name in ["", "a/b", "..", "ä", &"x".repeat(33)] {
        let error = resolve(flags(Some("/a"), Some(name), None), &[]).expect_err(name);
        assert_eq!(error.kind(), Kind::Usage, "{error}");
    }
    let error = resolve(flags(Some("/"), Some("bob"), None), &[]).expect_err("no name");
    assert!(error.to_string().contains("--home"), "{error}");
}

#[test]
fn the_config_flag_moves_agent_toml_only() {
    let home = resolve(flags(Some("/a"), None, Some("/etc/my.toml")), &[]).expect("home");
    assert_eq!(home.config_file(), Path::new("/etc/my.toml"));
    assert_eq!(
        (home.providers_dir(), home.env_file()),
        (PathBuf::from("/a/providers.d"), PathBuf::from("/a/.env"))
    );
}

#[test]
fn printed_paths_are_the_same_everywhere() {
    let home = resolve(HomeFlags::default(), &[("STATE_DIRECTORY", "/s"), USER]).expect("home");
    let shown = |path: &str| home.display(Path::new(path));
    assert_eq!(shown("/s/workspace/memory/x.md"), "workspace/memory/x.md");
    assert_eq!(shown("/s/queue.db"), "state/queue.db");
    assert_eq!(
        (shown("/s"), shown("/etc/passwd")),
        ("state".to_owned(), "/etc/passwd".to_owned())
    );
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path)
        .expect("metadata")
        .permissions()
        .mode()
        & 0o777
}

fn in_dir(dir: &Path) -> Home {
    resolve(
        HomeFlags {
            home: Some(dir.join("deep/home")),
            ..HomeFlags::default()
        },
        &[],
    )
    .expect("home")
}

#[test]
fn create_makes_private_directories_and_repairs_what_is_open() {
    let dir = tempfile::tempdir().expect("dir");
    let home = in_dir(dir.path());
    home.create().expect("create");
    for path in [
        home.state().to_owned(),
        home.spool_tmp(),
        home.spool_new(),
        home.replies(),
        home.archive(),
        home.logs(),
        home.workspace().to_owned(),
    ] {
        assert_eq!(mode(&path), 0o700, "{}", path.display());
    }
    std::fs::File::create_new(home.queue_db()).expect("file");
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod")
    };
    open(&home.queue_db(), 0o644);
    open(&home.logs(), 0o755);
    open(home.workspace(), 0o755);
    home.create().expect("create again");
    assert_eq!((mode(&home.queue_db()), mode(&home.logs())), (0o600, 0o700));
    assert_eq!(mode(home.workspace()), 0o755, "the workspace is the user's");
}

#[test]
fn a_link_in_state_does_not_change_modes_elsewhere() {
    let dir = tempfile::tempdir().expect("dir");
    let home = in_dir(dir.path());
    home.create().expect("create");
    let outside = dir.path().join("outside");
    std::fs::File::create_new(&outside).expect("file");
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o644)).expect("chmod");
    symlink(&outside, home.state().join("monitor.json")).expect("link");
    home.create().expect("create again");
    assert_eq!(mode(&outside), 0o644);
}

#[test]
fn state_may_be_a_link_to_another_disk_but_not_a_file() {
    let dir = tempfile::tempdir().expect("dir");
    let home = in_dir(dir.path());
    std::fs::create_dir_all(dir.path().join("deep/home")).expect("dir");
    std::fs::create_dir(dir.path().join("disk")).expect("dir");
    symlink(dir.path().join("disk"), home.state()).expect("link");
    home.create().expect("create");
    std::fs::remove_file(home.state()).expect("unlink");
    std::fs::File::create_new(home.state()).expect("file");
    let error = home.create().expect_err("a file");
    assert!(
        error
            .to_string()
            .contains(&home.state().display().to_string()),
        "{error}"
    );
    assert!(error.hint().contains("ls -ld"), "{}", error.hint());
}
