//! The systemd unit that starts this agent, if one is installed: its name, and how it is started.

use std::path::{Path, PathBuf};

use crate::config::{Environment, Home};

/// Where systemd looks for units of users, in addition to the user's own directories (systemd.unit(5)).
const USER_DIRS: [&str; 6] = [
    "/etc/systemd/user",
    "/usr/local/share/systemd/user",
    "/usr/share/systemd/user",
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
/// What systemd makes of `StateDirectory=` in a system unit.
const VAR_LIB: &str = "/var/lib";

/// An installed unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// Such as `agent-daemon@work.service`.
    pub(super) name: String,
    /// Its file.
    pub(super) file: PathBuf,
    /// Whether it is a user's; else the system's.
    of_user: bool,
}

impl Unit {
    /// Returns the installed unit that starts the agent of `home`. A home that `--home` or `$AGENT_HOME` names has
    /// none, and neither has one with other settings.
    pub(super) fn of(env: &Environment, home: &Home) -> Option<Self> {
        let (instance, of_user) = place(env, home)?;
        let file = match instance {
            None => "agent-daemon.service",
            Some(_) => "agent-daemon@.service",
        };
        let dirs: Vec<PathBuf> = if of_user {
            let common = USER_DIRS.iter().map(PathBuf::from);
            own_dirs(env).into_iter().chain(common).collect()
        } else {
            SYSTEM_DIRS.iter().map(PathBuf::from).collect()
        };
        Some(Self {
            name: name(instance),
            file: dirs
                .iter()
                .map(|dir| dir.join(file))
                .find(|path| path.exists())?,
            of_user,
        })
    }

    /// Returns the unit's name, if it is a user's.
    pub(super) fn of_user(self) -> Option<String> {
        self.of_user.then_some(self.name)
    }

    /// Returns the command that starts it; `None` where systemd does not run the machine (sd_booted(3)), as in most
    /// containers.
    pub(super) fn start(&self) -> Option<String> {
        let is_booted = Path::new("/run/systemd/system").is_dir();
        is_booted.then(|| self.systemctl("start"))
    }

    fn systemctl(&self, verb: &str) -> String {
        match (self.of_user, nix::unistd::geteuid().is_root()) {
            (true, _) => format!("systemctl --user {verb} {}", self.name),
            (false, true) => format!("systemctl {verb} {}", self.name),
            (false, false) => format!("sudo systemctl {verb} {}", self.name),
        }
    }
}

/// Returns the directories of the user's own units that may be enabled or edited: `~/.config/systemd/user`, then
/// `~/.local/share/systemd/user`, where `scripts/install --user` puts them.
pub(super) fn own_dirs(env: &Environment) -> Vec<PathBuf> {
    let dirs = [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
    ];
    let dir = |(name, below): (&str, &str)| xdg(env, name, below);
    dirs.into_iter()
        .filter_map(dir)
        .map(|dir| dir.join("systemd/user"))
        .collect()
}

/// Returns whether systemd is to start the daemon of `home` by itself.
pub(super) fn is_enabled(env: &Environment, home: &Home) -> bool {
    let Some((instance, of_user)) = place(env, home) else {
        return false;
    };
    let wants = match of_user {
        true => own_dirs(env)
            .into_iter()
            .next()
            .map(|dir| dir.join("default.target.wants")),
        false => Some(PathBuf::from("/etc/systemd/system/multi-user.target.wants")),
    };
    wants.is_some_and(|dir| std::fs::symlink_metadata(dir.join(name(instance))).is_ok())
}

/// Returns the user's unit that starts the daemon of `home` by itself. A home that `--home` or `$AGENT_HOME` names has none.
pub(super) fn enabled_of_user(env: &Environment, home: &Home) -> Option<String> {
    let (instance, of_user) = place(env, home)?;
    (of_user && is_enabled(env, home)).then(|| name(instance))
}

/// Returns what the unit of an instance is called.
pub(super) fn name(instance: Option<&str>) -> String {
    match instance {
        Some(name) => format!("agent-daemon@{name}.service"),
        None => "agent-daemon.service".to_owned(),
    }
}

/// Returns the instance of a home where units have theirs, and whether it is a user's.
fn place<'a>(env: &Environment, home: &'a Home) -> Option<(Option<&'a str>, bool)> {
    let dir = home.state().file_name()?.to_str()?;
    let instance = match dir.strip_prefix("agent")? {
        "" => None,
        rest => Some(rest.strip_prefix('-')?),
    };
    let parent = home.state().parent()?;
    let of_user = xdg(env, "XDG_STATE_HOME", ".local/state").as_deref() == Some(parent);
    let known = (of_user || parent == Path::new(VAR_LIB)) && !home.config_is_named();
    known.then_some((instance, of_user))
}

fn xdg(env: &Environment, name: &str, below: &str) -> Option<PathBuf> {
    let absolute = |name| {
        env.get(name)
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute())
    };
    absolute(name).or_else(|| Some(absolute("HOME")?.join(below)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HomeFlags;
    use crate::sys::atomic;

    fn home(env: &Environment, flags: HomeFlags) -> Home {
        Home::resolve(flags, &|name| env.raw(name)).expect("a home")
    }

    #[test]
    fn a_unit_is_found_where_it_was_installed_and_starts_no_other_home() {
        let dir = tempfile::tempdir().expect("dir");
        let user = dir.path().to_str().expect("text");
        let env = Environment::of(&[("HOME", user)]);
        let named = |instance: Option<&str>| {
            let instance = instance.map(str::to_owned);
            Unit::of(
                &env,
                &home(
                    &env,
                    HomeFlags {
                        instance,
                        ..HomeFlags::default()
                    },
                ),
            )
        };
        assert_eq!(named(None), None);
        for below in [".local/share/systemd/user", ".config/systemd/user"] {
            let units = dir.path().join(below);
            std::fs::create_dir_all(&units).expect("units");
            for file in ["agent-daemon.service", "agent-daemon@.service"] {
                atomic::write(&units.join(file), b"", atomic::Durability::Rename).expect("write");
            }
            for (instance, file, start) in [
                (
                    None,
                    "agent-daemon.service",
                    "systemctl --user start agent-daemon.service",
                ),
                (
                    Some("work"),
                    "agent-daemon@.service",
                    "systemctl --user start agent-daemon@work.service",
                ),
            ] {
                let unit = named(instance).expect("a unit");
                assert_eq!(
                    (&unit.file, unit.systemctl("start").as_str()),
                    (&units.join(file), start)
                );
            }
        }
        let other = HomeFlags {
            home: Some(dir.path().join("other")),
            ..HomeFlags::default()
        };
        assert_eq!(Unit::of(&env, &home(&env, other)), None);
        let settings = HomeFlags {
            config: Some(dir.path().join("a.toml")),
            ..HomeFlags::default()
        };
        assert_eq!(Unit::of(&env, &home(&env, settings)), None);
    }

    #[test]
    fn the_enabled_unit_of_the_default_home_starts_no_home_that_was_named() {
        let dir = tempfile::tempdir().expect("dir");
        let user = dir.path().to_str().expect("text");
        let env = Environment::of(&[("HOME", user)]);
        let enabled = |instance: Option<&str>, named: Option<&str>| {
            let flags = HomeFlags {
                home: named.map(|name| dir.path().join(name)),
                instance: instance.map(str::to_owned),
                ..HomeFlags::default()
            };
            enabled_of_user(&env, &home(&env, flags))
        };
        assert_eq!(enabled(None, None), None);
        let wants = dir.path().join(".config/systemd/user/default.target.wants");
        std::fs::create_dir_all(&wants).expect("own directory");
        let unit = "agent-daemon.service";
        std::os::unix::fs::symlink("../gone", wants.join(unit)).expect("a link");
        assert_eq!(enabled(None, None).as_deref(), Some(unit));
        assert_eq!(enabled(Some("work"), None), None);
        assert_eq!(enabled(None, Some("other")), None);
    }

    #[test]
    fn the_unit_of_the_system_is_not_that_of_a_user() {
        let of = |state: &'static str| {
            let env = Environment::of(&[("HOME", "/home/ann")]);
            let flags = HomeFlags::default();
            let variable = |name: &str| match name {
                "STATE_DIRECTORY" if !state.is_empty() => Some(state.into()),
                "CONFIGURATION_DIRECTORY" if !state.is_empty() => Some("/etc/agent".into()),
                _ => env.raw(name),
            };
            let home = Home::resolve(flags, &variable).expect("a home");
            place(&env, &home).map(|(instance, of_user)| (instance.map(str::to_owned), of_user))
        };
        assert_eq!(of("/var/lib/agent"), Some((None, false)));
        assert_eq!(
            of("/var/lib/agent-bob"),
            Some((Some("bob".to_owned()), false))
        );
        // root runs no tests as the user of the unit, whose home it would be.
        assert_eq!(of("").map(|(_, of_user)| of_user), Some(true));
        assert_eq!(of("/srv/agent"), None);
    }
}
