//! How the daemon is started and restarted on this machine: by systemd where a unit is installed,
//! by hand elsewhere.

use std::path::{Path, PathBuf};

use super::subject::Patient;

/// Where systemd looks for units of users, below the user's own directories (systemd.unit(5)).
const USER_DIRS: [&str; 4] = [
    "/etc/systemd/user",
    "/usr/local/lib/systemd/user",
    "/usr/lib/systemd/user",
    "/lib/systemd/user",
];
/// And for those of the system.
const SYSTEM_DIRS: [&str; 4] = [
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

/// Returns the command that starts the daemon.
pub(super) fn start(patient: &Patient) -> String {
    systemctl(patient, "start").unwrap_or_else(|| patient.agent("run"))
}

/// Returns the command that ends the daemon `pid` and starts another one. Nothing is lost by it.
pub(super) fn restart(patient: &Patient, pid: i32) -> String {
    let unit = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))
        .ok()
        .and_then(|text| unit_of(&text));
    let by_unit = unit.map(|(unit, of_user)| match of_user {
        true => format!("systemctl --user restart {unit}"),
        false => format!("sudo systemctl restart {unit}"),
    });
    by_unit.unwrap_or_else(|| {
        let sudo = patient.sudo();
        format!(
            "{sudo}kill {pid} && tail --pid={pid} -f /dev/null; {}",
            patient.agent("run")
        )
    })
}

/// Returns the command that ends a daemon which hears nothing any more, and starts another one.
pub(super) fn replace(patient: &Patient, pid: i32) -> String {
    let restart = restart(patient, pid);
    if restart.contains("systemctl") {
        restart
    } else {
        format!("{}kill -9 {pid}; {}", patient.sudo(), patient.agent("run"))
    }
}

/// Returns the name of the unit of this agent.
pub(super) fn unit(patient: &Patient) -> String {
    match &patient.instance {
        Some(name) => format!("agent-daemon@{name}.service"),
        None => "agent-daemon.service".to_owned(),
    }
}

/// Returns the directory in which the user's own units lie.
pub(super) fn user_units(patient: &Patient) -> Option<PathBuf> {
    let absolute = |name| {
        patient
            .env
            .get(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    let config = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(config.join("systemd/user"))
}

/// Returns whether systemd is to start the daemon of the usual home by itself.
pub(super) fn enabled(patient: &Patient) -> bool {
    let of_user = user_units(patient).map(|dir| dir.join("default.target.wants"));
    let wants = of_user
        .into_iter()
        .chain([PathBuf::from("/etc/systemd/system/multi-user.target.wants")]);
    patient.usual
        && wants
            .map(|dir| dir.join(unit(patient)))
            .any(|link| std::fs::symlink_metadata(link).is_ok())
}

/// Returns whether systemd can start the daemon, and so may give it secrets that we do not see.
pub(super) fn installed(patient: &Patient) -> bool {
    systemctl(patient, "start").is_some()
}

/// Returns the file of the unit that would start this agent, and its text.
pub(super) fn installed_unit(patient: &Patient) -> Option<(PathBuf, String)> {
    if !patient.usual {
        return None;
    }
    let file = match patient.instance {
        Some(_) => "agent-daemon@.service",
        None => "agent-daemon.service",
    };
    let own = user_units(patient);
    let dirs = own.iter().map(PathBuf::as_path);
    let dirs = dirs
        .chain(USER_DIRS.map(Path::new))
        .chain(SYSTEM_DIRS.map(Path::new));
    let path = dirs.map(|dir| dir.join(file)).find(|path| path.exists())?;
    let text = std::fs::read_to_string(&path).ok()?;
    Some((path, text))
}

/// Returns the user's unit, where it is installed for this home.
pub(super) fn of_user(patient: &Patient) -> Option<String> {
    systemctl(patient, "start")
        .filter(|command| command.starts_with("systemctl --user"))
        .map(|_| unit(patient))
}

/// A unit belongs to the usual home; another one is started by hand.
fn systemctl(patient: &Patient, verb: &str) -> Option<String> {
    let unit = unit(patient);
    let file = if patient.instance.is_some() {
        "agent-daemon@.service"
    } else {
        "agent-daemon.service"
    };
    let own = user_units(patient);
    let of_user = own
        .iter()
        .map(PathBuf::as_path)
        .chain(USER_DIRS.map(Path::new))
        .any(|dir| dir.join(file).exists());
    let of_system = SYSTEM_DIRS
        .iter()
        .any(|dir| Path::new(dir).join(file).exists());
    match (patient.usual, of_user, of_system) {
        (true, true, _) => Some(format!("systemctl --user {verb} {unit}")),
        (true, false, true) => Some(format!("sudo systemctl {verb} {unit}")),
        _ => None,
    }
}

/// Returns the unit that a line of `/proc/PID/cgroup` names, and whether it is a user's.
fn unit_of(cgroup: &str) -> Option<(String, bool)> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let name = path
        .rsplit('/')
        .find(|part| part.starts_with("agent-daemon") && part.ends_with(".service"))?;
    Some((
        name.to_owned(),
        path.contains("/user.slice/") || path.starts_with("/user.slice"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_process_is_read_off_its_control_group() {
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/agent-daemon@work.service\n";
        assert_eq!(
            unit_of(user),
            Some(("agent-daemon@work.service".to_owned(), true))
        );
        assert_eq!(
            unit_of("0::/system.slice/agent-daemon.service\n"),
            Some(("agent-daemon.service".to_owned(), false))
        );
        assert_eq!(
            unit_of("0::/user.slice/user-1000.slice/session-1.scope\n"),
            None
        );
        assert_eq!(unit_of("1:name=systemd:/\n"), None);
    }

    #[test]
    fn a_unit_of_the_user_is_started_by_systemd_and_a_named_home_by_hand() {
        let dir = tempfile::tempdir().expect("dir");
        let units = dir.path().join("systemd/user");
        std::fs::create_dir_all(&units).expect("units");
        let config = dir.path().to_str().expect("text");
        let mut patient = Patient::of(&dir.path().join("home"), &[("XDG_CONFIG_HOME", config)]);
        patient.usual = true;
        let by_hand = start(&patient);
        assert!(by_hand.ends_with(" run"), "{by_hand}");
        for file in ["agent-daemon.service", "agent-daemon@.service"] {
            crate::sys::atomic::write(
                &units.join(file),
                b"",
                crate::sys::atomic::Durability::Rename,
            )
            .expect("write");
        }
        assert_eq!(
            start(&patient),
            "systemctl --user start agent-daemon.service"
        );
        patient.instance = Some("work".to_owned());
        assert_eq!(
            start(&patient),
            "systemctl --user start agent-daemon@work.service"
        );
        patient.usual = false;
        assert!(start(&patient).ends_with(" run"));
    }
}
