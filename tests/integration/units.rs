//! The files that run the agent on a machine: systemd's units and the crontab. What they say to systemd and
//! cron themselves is checked by `scripts/check`; here, that they agree with each other and with us.
#![allow(clippy::disallowed_methods, reason = "a test reads files plainly")]

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use crate::support::bin;

fn text(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Returns the lines that mean something to systemd, and those that would without their `#`.
fn settings(text: &str) -> Vec<&str> {
    let means = |line: &&str| {
        let line = line.strip_prefix('#').unwrap_or(line);
        line.starts_with('[')
            || line
                .split_once('=')
                .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_alphabetic()))
    };
    text.lines().filter(means).collect()
}

#[test]
fn a_template_is_its_service_with_the_instance_in_every_directory() {
    for dir in ["systemd", "systemd/user"] {
        let (service, template) = (
            text(&format!("{dir}/agent-daemon.service")),
            text(&format!("{dir}/agent-daemon@.service")),
        );
        let mut wanted = Vec::new();
        for line in settings(&service) {
            let line = line
                .replace("AI agent", "AI agent %i")
                .replace("Directory=agent", "Directory=agent-%i");
            let line = line
                .replace("/etc/agent/", "/etc/agent-%i/")
                .replace("/share/agent", "/share/agent-%i");
            wanted.push(line.replace("/state/agent", "/state/agent-%i"));
            if wanted
                .last()
                .is_some_and(|line| line.starts_with("NotifyAccess"))
            {
                wanted.push("Environment=AGENT_INSTANCE=%i".to_owned());
            }
        }
        assert_eq!(settings(&template), wanted, "{dir}");
    }
}

/// A reload opens no channel and changes no name by which the bot is called: the daemon says so (`app/daemon/reload.rs`).
#[test]
fn who_adds_a_channel_is_told_to_restart_the_daemon() {
    for file in [
        "docs/howto/mail.md",
        "docs/howto/matrix.md",
        "docs/howto/family-group.md",
        "systemd/agent-channel@.service",
        "systemd/user/agent-channel@.service",
    ] {
        let text = text(file);
        assert!(
            text.contains("restart agent-daemon") && !text.contains("reload agent-daemon"),
            "{file}"
        );
    }
}

#[test]
fn a_channel_sees_its_own_directory_and_has_the_walls_of_the_others() {
    let (channel, index) = (
        text("systemd/agent-channel@.service"),
        text("systemd/agent-index.service"),
    );
    let channel = settings(&channel);
    // What the index needs and a channel must not have: the agent's own directories, and a timer's manners.
    let own = [
        "Type",
        "ExecStart",
        "TimeoutStart",
        "Nice",
        "IOSch",
        "Configuration",
        "ReadOnlyPaths=/etc/agent/",
        "State",
        "Description",
        "Memory",
    ];
    let walls = settings(&index);
    let walls = walls
        .iter()
        .filter(|line| !own.iter().any(|own| line.starts_with(own)));
    for wall in walls {
        assert!(channel.contains(wall), "{wall}");
    }
    for line in [
        "TemporaryFileSystem=/var/lib/agent:mode=0755",
        "BindPaths=/var/lib/agent/channels/%i",
        "TemporaryFileSystem=/etc/agent:mode=0755",
        "BindReadOnlyPaths=-/etc/agent/channels/%i.toml",
        "ExecStart=/usr/local/bin/agent-channel-%i",
    ] {
        assert!(channel.contains(&line), "{line}");
    }
    let user = text("systemd/user/agent-channel@.service");
    for line in [
        "ExecStart=/usr/local/bin/agent-channel-%i",
        "NoNewPrivileges=yes",
    ] {
        assert!(settings(&user).contains(&line), "{line}");
    }
}

/// systemd leaves a directory of settings that is there as it is, complains at each start of another mode, and makes it
/// writable in spite of `ProtectSystem=strict`.
#[test]
fn the_settings_are_as_closed_as_the_installation_makes_them_and_not_written_by_a_unit() {
    for file in ["scripts/install", "scripts/packaging/postinst"] {
        let script = text(file);
        assert!(
            script.contains("install -d -o agent -g agent -m 700 "),
            "{file}"
        );
    }
    let units = fs::read_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("systemd"));
    let names = units.expect("the directory").flatten();
    let mut seen = 0;
    for name in names.map(|entry| entry.file_name()) {
        let name = name.to_string_lossy();
        if !name.ends_with(".service") {
            continue;
        }
        let unit = text(&format!("systemd/{name}"));
        let has = |line: &str| settings(&unit).contains(&line);
        if settings(&unit)
            .iter()
            .any(|line| line.starts_with("ConfigurationDirectory=agent"))
        {
            assert!(has("ConfigurationDirectoryMode=0700"), "{name}");
            assert!(
                has("ReadOnlyPaths=/etc/agent/") || has("ReadOnlyPaths=/etc/agent-%i/"),
                "{name}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 6);
}

/// keepalived knows neither the PATH nor the home of the user, and disables an instance without peers where there is no
/// multicast.
#[test]
fn keepalived_can_run_what_the_page_of_the_standby_gives_it() {
    let page = text("docs/howto/standby.md");
    let (_, block) = page.split_once("global_defs {").expect("its settings");
    let (block, _) = block.split_once("```").expect("their end");
    for line in [
        "    script_user ada ",
        "    interface wg0\n    unicast_peer {\n",
        "    notify_master \"/home/ada/.local/bin/agent-daemon standby --promote\"\n",
    ] {
        assert!(block.contains(line), "{line} in {block}");
    }
}

#[test]
fn the_timers_and_the_crontab_say_the_same() {
    let crontab = text("crontab.example");
    let home = tempfile::tempdir().expect("dir");
    fs::create_dir_all(home.path().join(".config/agent")).expect("dirs");
    fs::write(home.path().join(".config/agent/agent.toml"), "").expect("settings");
    for (program, minute) in [("agent-index", "10"), ("agent-consolidate", "15")] {
        let timer = text(&format!("systemd/{program}.timer"));
        assert!(
            timer.contains(&format!("\nOnCalendar=*-*-* *:{minute}:00\n"))
                && timer.contains("\nPersistent=true\n"),
            "{timer}"
        );
        assert_eq!(text(&format!("systemd/user/{program}.timer")), timer);
        assert!(
            crontab.contains(&format!("\n{minute} * * * *  {program} --quiet\n")),
            "{crontab}"
        );
        for dir in ["systemd", "systemd/user"] {
            let service = text(&format!("{dir}/{program}.service"));
            assert!(
                service.contains(&format!("\nExecStart=/usr/local/bin/{program} --quiet\n")),
                "{service}"
            );
        }
        let ran = Command::new(bin(program))
            .arg("--quiet")
            .env_clear()
            .env("HOME", home.path())
            .output()
            .expect("it starts");
        assert!(
            ran.status.success() && ran.stdout.is_empty() && ran.stderr.is_empty(),
            "cron would mail: {ran:?}"
        );
    }
}

#[test]
fn backups_are_made_alike_by_timer_and_crontab() {
    let timer = text("systemd/agent-backup.timer");
    assert!(
        timer.contains("\nOnCalendar=*-*-* 04:25:00\n") && timer.contains("\nPersistent=true\n")
    );
    assert_eq!(text("systemd/user/agent-backup.timer"), timer);
    let command = "agent-daemon --quiet backup --keep 14 ";
    for file in [
        "systemd/agent-backup.service",
        "systemd/user/agent-backup.service",
    ] {
        let unit = text(file);
        assert!(
            unit.contains(&format!("\nExecStart=/usr/local/bin/{command}")),
            "{unit}"
        );
        // The user's is the same place under every systemd, and the page names both.
        let start = format!("ExecStart=/usr/local/bin/{command}");
        let dir = unit.lines().find_map(|line| line.strip_prefix(&start));
        let dir = dir.expect("it says where to");
        assert!(!dir.contains("%S"), "{unit}");
        let shown = format!("`{}`", dir.replace("%h", "~"));
        assert!(text("docs/howto/backup.md").contains(&shown), "{shown}");
        assert!(unit.contains(dir.replace("%h", "~").as_str()), "{unit}");
        if dir.starts_with("%h") {
            let made = format!("\nExecStartPre=/bin/mkdir -p {dir}\n");
            assert!(unit.contains(&made), "{unit}");
        }
    }
    assert!(text("crontab.example").contains(&format!("\n25 4 * * *  {command}")));
}

/// Returns what cron would run, `\%` already as the shell sees it; panics at a line that cron would refuse or
/// cut at a `%`.
fn command_of(line: &str) -> String {
    let mut rest = line;
    for most in [59, 23, 31, 12, 7] {
        let (field, behind) = rest
            .split_once(char::is_whitespace)
            .unwrap_or_else(|| panic!("too few fields: {line}"));
        assert!(
            field == "*" || field.parse::<u32>().is_ok_and(|number| number <= most),
            "{field:?} in: {line}"
        );
        rest = behind.trim_start();
    }
    assert!(
        !rest.replace("\\%", "").contains('%'),
        "cron ends the command at a bare %: {line}"
    );
    rest.replace("\\%", "%")
}

#[test]
fn each_line_of_the_crontab_is_one_that_cron_and_the_shell_take() {
    let crontab = text("crontab.example");
    assert!(
        crontab.ends_with('\n'),
        "cron does not see a last line without an end"
    );
    let mut called = BTreeSet::new();
    for line in crontab
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some((name, value)) = line.split_once('=')
            && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        {
            assert!(
                !value.contains(['$', '~']),
                "cron takes it as it stands: {line}"
            );
            continue;
        }
        let command = command_of(line);
        let parsed = Command::new("sh")
            .args(["-n", "-c", &command])
            .output()
            .expect("sh is there");
        assert!(parsed.status.success(), "{command}: {parsed:?}");
        called.extend(
            command
                .split([' ', ';'])
                .filter(|word| word.starts_with("agent-"))
                .map(str::to_owned),
        );
    }
    assert_eq!(
        called.into_iter().collect::<Vec<_>>(),
        [
            "agent-consolidate",
            "agent-daemon",
            "agent-index",
            "agent-send"
        ]
    );
}

#[test]
fn the_disk_line_speaks_only_when_the_disk_is_full() {
    let crontab = text("crontab.example");
    let command = command_of(
        crontab
            .lines()
            .find(|line| line.contains("--source disk"))
            .expect("there is one"),
    );
    let full = command.replace("$(df -P / |", "$(printf 'head\\n/dev/x 9 9 0 97%% /\\n' |");
    let free = command.replace("$(df -P / |", "$(printf 'head\\n/dev/x 9 1 8 11%% /\\n' |");
    assert!(full != command && free != full, "{command}");
    let said = |command: &str| {
        let script = format!("agent-send() {{ printf '%s|' \"$@\"; }}\n{command}");
        let ran = Command::new("bash")
            .args(["-c", &script])
            .output()
            .expect("bash is there");
        assert!(ran.status.success() && ran.stderr.is_empty(), "{ran:?}");
        String::from_utf8(ran.stdout).expect("UTF-8")
    };
    assert_eq!(said(&free), "");
    let told = said(&full);
    assert!(told.starts_with("--quiet|--id|disk-20"), "{told}");
    assert!(
        told.ends_with("|--notify|--source|disk|the disk / is 90% full or more|"),
        "{told}"
    );
    // The same id with other words is refused: an hour later, fuller, it says the same.
    assert_eq!(said(&full.replace("97%%", "98%%")), told);
}
