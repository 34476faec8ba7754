//! `scripts/install`: an installed copy is a whole copy, a second run changes nothing, and removing it
//! leaves the agent's data.
#![allow(
    clippy::disallowed_methods,
    reason = "a test writes and reads files plainly"
)]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Output, Running, bin};

/// A prefix and a home of a user, both empty.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            dir: TempDir::with_prefix("agent-install-")
                .expect("the temporary directory is writable"),
        }
    }

    fn prefix(&self) -> PathBuf {
        self.dir.path().join("prefix")
    }

    /// Runs `program` with `arguments` and nothing in its environment but `HOME` and `PATH`.
    fn run(&self, program: &Path, arguments: &[&str], stdin: &str) -> Output {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.dir.path().join("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("AGENT_HOME", self.dir.path().join("agent"))
            .current_dir(self.dir.path());
        let running = Running::start(&mut command);
        running.write(stdin);
        running.end()
    }

    fn install(&self, arguments: &[&str]) -> Output {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/install");
        let prefix = self.prefix();
        let prefix = prefix.to_str().expect("the path of a test is UTF-8");
        let all: Vec<&str> = ["--prefix", prefix]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        self.run(&script, &all, "")
    }

    fn installed(&self, program: &str, arguments: &[&str], stdin: &str) -> Output {
        let ran = self.run(&self.prefix().join("bin").join(program), arguments, stdin);
        assert_eq!(ran.code, 0, "{program} {arguments:?}: {ran:?}");
        ran
    }
}

fn programs() -> String {
    let daemon = bin("agent-daemon");
    let dir = daemon.parent().expect("a program lies in a directory");
    dir.to_str().expect("UTF-8").to_owned()
}

/// Returns every file below `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

#[test]
fn an_installed_copy_is_whole_and_goes_without_a_trace_but_the_data() {
    let place = Place::new();
    let programs = programs();
    let user = ["--user", "--bin-from", programs.as_str()];
    let first = place.install(&user);
    assert_eq!(first.code, 0, "{first:?}");
    for file in [
        "bin/agent-consolidate",
        "share/agent-toolkit/embeddings/table.bin",
        "share/man/man1/agent-send.1",
        "share/man/man5/agent.toml.5",
        "share/doc/agent-toolkit/crontab.example",
        "share/systemd/user/agent-daemon@.service",
        "share/bash-completion/completions/agent-index",
        "share/zsh/site-functions/_agent-toolkit",
        "share/fish/vendor_completions.d/agent-send.fish",
    ] {
        assert!(place.prefix().join(file).is_file(), "{file}: {first:?}");
        assert!(first.stdout.contains(file), "nobody was told of {file}");
    }
    let here = place.prefix().join("bin/agent-daemon");
    let unit = place
        .prefix()
        .join("share/systemd/user/agent-daemon.service");
    let unit = fs::read_to_string(unit).expect("a unit");
    assert!(
        unit.contains(&format!("\nExecStart={} run\n", here.display())),
        "{unit}"
    );

    let second = place.install(&user);
    assert_eq!(second.code, 0, "{second:?}");
    assert!(second.stdout.starts_with("up to date"), "{second:?}");

    place.installed("agent-daemon", &["init"], "");
    let words = "remember that my sister Ana moved to Porto\n";
    let kept = place.installed("agent-daemon", &["--channel", "cli"], words);
    assert!(kept.stdout.contains("moved to Porto"), "{kept:?}");
    place.installed("agent-index", &[], "");
    let status: Value = place
        .installed("agent-index", &["status", "--json"], "")
        .json();
    assert!(
        status["vectors"].as_i64() > Some(0),
        "meaning is not searched: {status}"
    );
    assert_eq!(status["lacking"], Value::Null);

    let removed = place.install(&["--user", "--uninstall"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(files(&place.prefix()), Vec::<PathBuf>::new());
    let agent = place.dir.path().join("agent");
    assert!(agent.join("agent.toml").is_file() && agent.join("state/queue.db").is_file());
    let again = place.install(&["--user", "--uninstall"]);
    assert!(
        again.code == 0 && again.stdout.contains("nothing to remove"),
        "{again:?}"
    );
}

#[test]
fn the_next_steps_name_no_user_that_nobody_made() {
    let place = Place::new();
    let told = place.install(&["--system", "--bin-from", &programs()]);
    assert_eq!(told.code, 0, "{told:?}");
    let at = |words: &str| told.stdout.find(words);
    let init = at("  sudo -u agent agent-daemon init").expect("a next step");
    let is_there = Command::new("getent")
        .args(["passwd", "agent"])
        .output()
        .is_ok_and(|found| found.status.success());
    let made = at("  sudo useradd --system");
    assert_eq!(made.is_none(), is_there, "{told:?}");
    assert!(made.is_none_or(|made| made < init), "{told:?}");
}

#[test]
fn the_channel_to_matrix_is_installed_when_asked_for_and_missed_when_switched_on() {
    let place = Place::new();
    let programs = place.dir.path().join("programs");
    fs::create_dir(&programs).expect("a directory");
    for name in [
        "agent-daemon",
        "agent-send",
        "agent-index",
        "agent-consolidate",
        "agent-monitor",
    ] {
        std::os::unix::fs::symlink(bin(name), programs.join(name)).expect("a link");
    }
    let from = programs.to_str().expect("UTF-8");
    let with = ["--user", "--bin-from", from, "--with-matrix"];
    let refused = place.install(&with);
    assert!(
        refused.code == 2 && refused.stderr.contains("there is no agent-channel-matrix"),
        "{refused:?}"
    );
    assert_eq!(files(&place.prefix()), [] as [PathBuf; 0]);
    let without = place.install(&["--user", "--bin-from", from]);
    assert_eq!(without.code, 0, "{without:?}");
    place.installed("agent-daemon", &["init", "-q"], "");
    let settings = place.dir.path().join("agent/agent.toml");
    let mut text = fs::read_to_string(&settings).expect("settings");
    text.push_str("\n[channels.matrix]\nenabled = true\nowner = [\"@ada:home.test\"]\n");
    fs::write(&settings, text).expect("settings");
    let doctor = || {
        let daemon = place.prefix().join("bin/agent-daemon");
        let told = place.run(&daemon, &["doctor", "--json", "-q"], "");
        told.json()["findings"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|one| one["id"] == "channel-not-installed")
            .cloned()
    };
    let finding = doctor().expect("a finding");
    let evidence = finding["evidence"].as_str().unwrap_or_default();
    assert!(
        evidence.contains("[channels.matrix]")
            && evidence.contains("scripts/install --with-matrix"),
        "{finding}"
    );

    // Any program will do: that it works the tests of the channel say.
    let stand_in = programs.join("agent-channel-matrix");
    fs::copy("/bin/true", &stand_in).expect("a program");
    let installed = place.install(&with);
    assert_eq!(installed.code, 0, "{installed:?}");
    for file in [
        "bin/agent-channel-matrix",
        "share/man/man1/agent-channel-matrix.1",
        "share/systemd/user/agent-channel@.service",
    ] {
        assert!(place.prefix().join(file).is_file(), "{file}: {installed:?}");
    }
    assert_eq!(doctor(), None);
    // An update from programs without a channel takes none away.
    fs::remove_file(&stand_in).expect("own file");
    for _ in 0..2 {
        let again = place.install(&["--user", "--bin-from", from]);
        assert!(
            again.code == 0 && again.stdout.contains("bin/agent-channel-matrix as it is"),
            "{again:?}"
        );
        assert_eq!(doctor(), None);
    }
    let removed = place.install(&["--user", "--uninstall"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(files(&place.prefix()), [] as [PathBuf; 0]);
}

/// Where no systemd of the user can be asked, its links stay until they are taken away; the homes of all instances are named.
#[test]
fn no_link_of_a_removed_unit_is_left_and_every_instance_is_named() {
    let place = Place::new();
    let home = place.dir.path().join("home");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/install");
    let programs = programs();
    let install = |arguments: &[&str]| {
        let ran = place.run(&script, arguments, "");
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    install(&["--user", "--bin-from", &programs]);
    let wants = home.join(".config/systemd/user/default.target.wants");
    let work = home.join(".config/agent-work");
    let foreign = home.join(".config/agent-foreign");
    for dir in [&wants, &work, &foreign] {
        fs::create_dir_all(dir).expect("own directory");
    }
    fs::write(work.join("agent.toml"), "").expect("own file");
    for (link, unit) in [
        ("agent-daemon.service", "agent-daemon.service"),
        ("agent-daemon@work.service", "agent-daemon@.service"),
        ("agent-theirs.service", "agent-theirs.service"),
    ] {
        let unit = home.join(".local/share/systemd/user").join(unit);
        std::os::unix::fs::symlink(unit, wants.join(link)).expect("a link");
    }
    let told = install(&["--user", "--uninstall"]);
    let left: Vec<_> = fs::read_dir(&wants)
        .expect("it is there")
        .flatten()
        .collect();
    let left: Vec<_> = left.iter().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["agent-theirs.service"], "{told}");
    let names = |path: &Path| told.contains(&format!("  {}\n", path.display()));
    assert!(names(&work) && !names(&foreign), "{told}");
}

#[test]
fn files_of_others_stay_and_what_an_older_version_had_goes() {
    let place = Place::new();
    let programs = programs();
    let system = ["--system", "--bin-from", programs.as_str()];
    let theirs = place.prefix().join("bin/theirs");
    let old = place.prefix().join("share/agent-toolkit/old/file");
    for file in [&theirs, &old] {
        fs::create_dir_all(file.parent().expect("it has one")).expect("directories");
        fs::write(file, "x").expect("write");
    }
    fs::write(
        place.prefix().join("share/agent-toolkit/installed.txt"),
        "share/agent-toolkit/old/file\n",
    )
    .expect("write");
    let ran = place.install(&system);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        place
            .prefix()
            .join("lib/systemd/system/agent-daemon.service")
            .is_file()
    );
    assert!(!old.parent().expect("it has one").exists(), "{ran:?}");
    assert_eq!(place.install(&["--system", "--uninstall"]).code, 0);
    assert_eq!(files(&place.prefix()), [theirs]);
}

#[test]
fn what_a_killed_installation_left_can_be_removed_or_completed() {
    let place = Place::new();
    // `install` kills whoever called it in the middle.
    let bin = place.dir.path().join("bin");
    fs::create_dir_all(&bin).expect("own directory");
    let killer = "#!/bin/bash\necho x >>$0.calls; /usr/bin/install \"$@\"; [[ $(wc -l <$0.calls) != 9 ]] || kill -9 $PPID\n";
    fs::write(bin.join("install"), killer).expect("own directory");
    fs::set_permissions(bin.join("install"), fs::Permissions::from_mode(0o755)).expect("own file");
    let prefix = place.prefix();
    let killed = |prefix: &Path| {
        let _ = fs::remove_file(bin.join("install.calls"));
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/install");
        let ended = Command::new(script)
            .args(["--user", "--bin-from", &programs(), "--prefix"])
            .arg(prefix)
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .output()
            .expect("bash is there");
        assert!(!ended.status.success(), "{ended:?}");
        assert!(files(prefix).len() > 8, "{:?}", files(prefix));
    };
    killed(&prefix);
    let removed = place.install(&["--user", "--uninstall"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    assert_eq!(files(&prefix), Vec::<PathBuf>::new());
    killed(&prefix);
    let whole = place.install(&["--user", "--bin-from", &programs()]);
    assert_eq!(whole.code, 0, "{whole:?}");
    assert_eq!(place.install(&["--user", "--uninstall"]).code, 0);
    assert_eq!(files(&prefix), Vec::<PathBuf>::new());
}

#[test]
fn what_cannot_be_done_is_said_and_nothing_is_written() {
    let place = Place::new();
    for (arguments, code, says) in [
        (&["--usr"][..], 2, "unknown option: --usr"),
        (&["--user", "--system"], 2, "exclude each other"),
        (
            &["--bin-from", "/nonexistent"],
            2,
            "no program agent-daemon",
        ),
        (&["--bin-from"], 2, "needs a directory"),
        (&["--prefix", "/tmp/a b"], 2, "--prefix /tmp/a b"),
        (
            &["--prefix", "/dev/null/x"],
            74,
            "/dev/null is not a directory",
        ),
    ] {
        let ran = place.install(arguments);
        assert!(
            ran.code == code && ran.stderr.contains(says),
            "{arguments:?}: {ran:?}"
        );
    }
    assert!(!place.prefix().exists());
}

/// What `--version` says is told to the build: of a repository, of what `git archive` made of it, and of a copy in
/// somebody else's repository, which has none.
#[test]
fn the_commit_of_the_sources_is_built_in() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let place = Place::new();
    let git = |script: &str| {
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .current_dir(&root)
            .env("to", place.dir.path());
        command.output().expect("bash is there")
    };
    let paths = "scripts share man docs systemd crontab.example README.md CHANGELOG.md Cargo.toml LICENSE-MIT LICENSE-APACHE .gitattributes";
    let made = git(&format!(
        "set -e; git archive HEAD {paths} | tar -x -C $to --one-top-level=archive; git rev-parse HEAD; mkdir -p $to/other/copy; \
         cp -r {paths} $to/other/copy; cd $to/other; git init -q; git -c user.name=x -c user.email=x commit -q --allow-empty -m x"
    ));
    if !made.status.success() {
        eprintln!("skipped: these sources are in no repository");
        return;
    }
    let head = String::from_utf8_lossy(&made.stdout).into_owned();
    let bin = place.dir.path().join("bin");
    fs::create_dir_all(&bin).expect("own directory");
    let cargo = bin.join("cargo");
    let fake = format!(
        "#!/bin/bash\necho \"commit=$AGENT_COMMIT\"; dir=$(dirname \"${{@: -1}}\")/target/release; mkdir -p $dir && cp {}/agent-daemon $dir",
        programs()
    );
    fs::write(&cargo, fake).expect("own directory");
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("own file");
    for (dir, commit) in [
        ("archive", head.get(..12).expect("a commit")),
        ("other/copy", ""),
    ] {
        let dir = place.dir.path().join(dir);
        let ran = Command::new(dir.join("scripts/install"))
            .args(["--user", "--prefix"])
            .arg(place.prefix())
            .env_clear()
            .env("HOME", place.dir.path())
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .output()
            .expect("bash is there");
        let told = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success(), "{ran:?}");
        assert!(
            told.lines().any(|line| line == format!("commit={commit}")),
            "{}: {told}",
            dir.display()
        );
    }
}

#[test]
fn an_update_builds_the_channel_to_matrix_where_it_was_installed() {
    let place = Place::new();
    let bin = place.dir.path().join("bin");
    fs::create_dir_all(&bin).expect("own directory");
    // It builds what its manifest is of, into the directory that it is told.
    let cargo = format!(
        "#!/bin/bash\ncase \"$*\" in\n*channels/matrix*) mkdir -p ${{@: -1}}/release && cp /bin/true ${{@: -1}}/release/agent-channel-matrix ;;\n\
         *) mkdir -p $CARGO_TARGET_DIR/release && cp {}/agent-daemon $CARGO_TARGET_DIR/release ;;\nesac\n",
        programs()
    );
    fs::write(bin.join("cargo"), cargo).expect("own directory");
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).expect("own file");
    let install = |more: &[&str]| {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/install");
        let mut command = Command::new(script);
        command
            .args(["--user", "--prefix"])
            .arg(place.prefix())
            .args(more)
            .env_clear()
            .env("HOME", place.dir.path())
            .env("CARGO_TARGET_DIR", place.dir.path().join("target"))
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let ran = Running::start(&mut command).end();
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    let channel = place.prefix().join("bin/agent-channel-matrix");
    install(&[]);
    assert!(!channel.exists());
    install(&["--with-matrix"]);
    fs::write(&channel, "of an older version").expect("own file");
    let told = install(&[]);
    assert!(told.contains("bin/agent-channel-matrix"), "{told}");
    assert_eq!(
        fs::read(&channel).expect("a program"),
        fs::read("/bin/true").expect("a program")
    );
}

/// Tools that pack by the metadata of Cargo.toml take what its lists name.
#[test]
fn the_lists_of_packages_leave_out_no_directory_of_share() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("the manifest");
    let manifest: toml::Value = toml::from_str(&manifest).expect("TOML");
    let dirs: Vec<String> = fs::read_dir(root.join("share"))
        .expect("the directory")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(dirs.len() > 3, "{dirs:?}");
    for list in ["deb", "generate-rpm"] {
        let assets = &manifest["package"]["metadata"][list]["assets"];
        let sources: Vec<&str> = assets
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|asset| asset.get(0).or_else(|| asset.get("source"))?.as_str())
            .collect();
        for dir in &dirs {
            let takes = |source: &&str| {
                let below = source.strip_prefix("target/package/root/usr/share/agent-toolkit/");
                let pattern = below.and_then(|below| below.strip_suffix("/**/*"));
                pattern == Some(dir.as_str()) || pattern == Some("[!s]*") && !dir.starts_with('s')
            };
            // Twice would be a conflict.
            assert_eq!(
                sources.iter().filter(|source| takes(source)).count(),
                1,
                "{list}: {dir}: {sources:?}"
            );
        }
    }
}

/// A systemctl that notes what it is told; an instance of the daemon runs, another one of a channel is enabled.
const SYSTEMCTL: &str = r#"#!/bin/bash
echo "$*" >>"$0.calls"
case "$*" in
    *list-units*) echo 'agent-daemon@work.service loaded active running The agent' ;;
    *is-active*agent-daemon@work.service) echo active ;;
    *is-active*) echo inactive && exit 3 ;;
    *is-enabled*agent-channel@mail.service) ;;
    *is-enabled*) exit 1 ;;
esac
"#;

/// A directory of programs with [`SYSTEMCTL`] in it, and the link of the channel below `own`.
fn systemctl(place: &Place, own: &Path) -> PathBuf {
    let bin = place.dir.path().join("bin");
    fs::create_dir_all(&bin).expect("own directory");
    fs::write(bin.join("systemctl"), SYSTEMCTL).expect("own directory");
    fs::set_permissions(bin.join("systemctl"), fs::Permissions::from_mode(0o755))
        .expect("own file");
    let wants = own.join("default.target.wants");
    fs::create_dir_all(&wants).expect("own directory");
    std::os::unix::fs::symlink("/gone", wants.join("agent-channel@mail.service")).expect("a link");
    bin
}

/// Checks that both instances were disabled by their names.
fn check_disabled(bin: &Path) {
    let calls = fs::read_to_string(bin.join("systemctl.calls")).expect("it was called");
    for unit in ["agent-daemon@work.service", "agent-channel@mail.service"] {
        let is_it = |line: &&str| line.ends_with(&format!("disable --now {unit}"));
        assert_eq!(calls.lines().filter(is_it).count(), 1, "{calls}");
    }
}

#[test]
fn removing_stops_instances_by_name_and_names_what_still_runs() {
    let place = Place::new();
    let home = place.dir.path().join("home");
    let bin = systemctl(&place, &home.join(".config/systemd/user"));
    // Where the user's manager of systemd would listen.
    let run = place.dir.path().join("run/systemd");
    fs::create_dir_all(&run).expect("own directory");
    let _manager = std::os::unix::net::UnixListener::bind(run.join("private")).expect("a socket");
    let from = place.dir.path().join("programs");
    fs::create_dir(&from).expect("own directory");
    std::os::unix::fs::symlink(
        crate::support::bin("agent-daemon"),
        from.join("agent-daemon"),
    )
    .expect("a link");
    fs::copy("/bin/bash", from.join("agent-channel-matrix")).expect("a program");
    let script = |arguments: &[&str]| {
        let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/install");
        let mut command = Command::new(script);
        command
            .arg("--user")
            .args(arguments)
            .env_clear()
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", place.dir.path().join("run"))
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        let ran = Running::start(&mut command).end();
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout
    };
    script(&["--bin-from", from.to_str().expect("UTF-8")]);
    let channel = home.join(".local/bin/agent-channel-matrix");
    // It waits for a line that does not come.
    let mut running = Running::start(Command::new(&channel).args(["-c", "read line"]));
    let removed = script(&["--uninstall"]);
    check_disabled(&bin);
    let named = format!("\n  {} {}\n", running.pid(), channel.display());
    assert!(removed.contains(&named), "{named}: {removed}");
    assert!(removed.contains(&format!("kill {}\n", running.pid())));
    running.kill9();
}

#[test]
fn removing_a_package_stops_instances_by_name() {
    let place = Place::new();
    let etc = place.dir.path().join("etc");
    let bin = systemctl(&place, &etc);
    let prerm = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts/packaging/prerm");
    let prerm = fs::read_to_string(prerm).expect("a script");
    let here = place.dir.path().to_str().expect("UTF-8");
    let prerm = prerm
        .replace("/run/systemd/system", here)
        .replace("/etc/systemd/system", etc.to_str().expect("UTF-8"));
    let mut command = Command::new("sh");
    command
        .args(["-c", &prerm, "prerm", "remove"])
        .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let ran = Running::start(&mut command).end();
    assert_eq!(ran.code, 0, "{ran:?}");
    check_disabled(&bin);
}

#[test]
fn a_debian_package_holds_a_whole_copy() {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        eprintln!("skipped: dpkg-deb is not installed");
        return;
    }
    let place = Place::new();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let packed = Command::new(root.join("scripts/package"))
        .args(["--bin-from", &programs()])
        .env("CARGO_TARGET_DIR", place.dir.path())
        .env("PACKAGE_COMPRESSION", "none")
        .output()
        .expect("bash is there");
    assert!(packed.status.success(), "{packed:?}");
    let told = String::from_utf8_lossy(&packed.stdout).into_owned();
    let package = told.lines().last().expect("its path");
    let unpacked = Command::new("dpkg-deb")
        .args(["-x", package])
        .arg(place.prefix())
        .output()
        .expect("it starts");
    assert!(unpacked.status.success(), "{unpacked:?}");
    let usr = place.prefix().join("usr");
    for file in [
        "bin/agent-send",
        "share/agent-toolkit/embeddings/table.bin",
        "share/agent-toolkit/scripts/agent.sh",
        "share/man/man1/agent-daemon.1",
        "lib/systemd/system/agent-backup.timer",
    ] {
        assert!(usr.join(file).is_file(), "{file}");
    }
    assert!(!usr.join("share/agent-toolkit/installed.txt").exists());
    let unit = fs::read_to_string(usr.join("lib/systemd/system/agent-daemon.service"));
    assert!(
        unit.expect("a unit")
            .contains("\nExecStart=/usr/bin/agent-daemon run\n")
    );
    let version = place.run(&usr.join("bin/agent-daemon"), &["--version"], "");
    assert_eq!(version.code, 0, "{version:?}");
}
