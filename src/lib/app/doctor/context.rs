//! The subject of the checks: the home, the settings, the daemon's state; and formatting of a command
//! that can be pasted.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, User};

use super::Finding;
pub(super) use crate::app::cli::quote;
use crate::app::cli::{Failure, Shared};
use crate::config;
use crate::config::{Environment, Home, Loaded};
use crate::sys;
use crate::sys::lock;
use crate::{clock, monitor_state, text};

/// What the checks look at. Nothing of it is changed by looking.
pub(super) struct DoctorContext {
    pub home: Home,
    pub env: Environment,
    pub now: i64,
    /// Who we are.
    pub uid: u32,
    /// The owner of `state/`; `None` when it does not exist.
    pub owner: Option<u32>,
    /// The process that holds the lock.
    pub daemon: Result<Option<i32>, sys::Error>,
    /// The last state that the daemon wrote.
    pub monitor: Option<monitor_state::State>,
    pub settings: Result<Loaded, config::Error>,
    /// The flags that lead here again, each after a space.
    flags: String,
    /// Where this program lies.
    programs: Option<PathBuf>,
}

impl DoctorContext {
    /// Finds the home that flags and environment name; else returns why there is none.
    ///
    /// # Errors
    /// For flags that make no sense; anything else is a finding.
    pub(super) fn meet(shared: &Shared) -> Result<Result<Self, Finding>, Failure> {
        match shared.home() {
            Ok((env, home)) => Ok(Ok(Self::new(shared, env, home))),
            Err(failure) if failure.exit == crate::app::cli::Exit::Usage => Err(failure),
            Err(failure) => {
                let command = "agent-daemon --home /var/lib/agent doctor";
                let finding = Finding::error("home-unknown", failure.message, command);
                Ok(Err(finding))
            }
        }
    }

    fn new(shared: &Shared, env: Environment, home: Home) -> Self {
        let owner = std::fs::metadata(home.state())
            .ok()
            .map(|state| state.uid());
        let uid = Uid::effective().as_raw();
        let variable = |name: &str| env.get(name).and_then(|value| value.into_string().ok());
        // sudo takes the variables away.
        let alien = owner.is_some_and(|owner| owner != uid);
        let named = |flag: Option<PathBuf>, name: &str| {
            flag.or_else(|| variable(name).filter(|_| alien).map(PathBuf::from))
        };
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let instance_flag = named(shared.instance.clone().map(PathBuf::from), "AGENT_INSTANCE");
        let flags = Shared {
            home: named(shared.home.clone(), "AGENT_HOME").map(absolute),
            instance: instance_flag.map(|name| name.to_string_lossy().into_owned()),
            config: shared.config.clone().map(absolute),
            ..shared.clone()
        };
        Self {
            now: clock::now_ms(),
            uid,
            owner,
            daemon: match blocks(&home.lock()) {
                true => Err(sys::Error::at("open", &home.lock())(
                    ErrorKind::InvalidInput,
                )),
                false => lock::holder(&home.lock()),
            },
            monitor: Some(home.monitor())
                .filter(|path| !blocks(path))
                .and_then(|path| monitor_state::read(&path).ok().flatten()),
            settings: match blocks(home.config_file()) && !home.config_is_named() {
                true => Err(config::Error::Io {
                    action: "read",
                    path: home.config_file().to_owned(),
                    source: ErrorKind::InvalidInput.into(),
                }),
                false => config::load(&home, &env, &[]),
            },
            flags: flags.words(),
            programs: std::env::current_exe()
                .ok()
                .and_then(|program| Some(program.parent()?.to_owned())),
            home,
            env,
        }
    }

    /// Returns a context at `dir` for tests.
    #[cfg(test)]
    pub(super) fn of(dir: &Path, variables: &[(&str, &str)]) -> Self {
        let shared = Shared {
            home: Some(dir.to_owned()),
            instance: None,
            config: None,
            verbose: 0,
            quiet: false,
        };
        let flags = config::HomeFlags {
            home: shared.home.clone(),
            ..config::HomeFlags::default()
        };
        let home = Home::resolve(flags, &|_| None).expect("a home");
        Self::new(&shared, Environment::of(variables), home)
    }

    /// Returns the process id of a daemon that runs.
    pub(super) fn pid(&self) -> Option<i32> {
        self.daemon.as_ref().ok().copied().flatten()
    }

    /// Returns what the daemon that runs wrote about itself.
    pub(super) fn live(&self) -> Option<&monitor_state::State> {
        let pid = self.pid()?;
        self.monitor.as_ref().filter(|state| state.is_of(pid))
    }

    /// Returns whether somebody else owns the state.
    pub(super) fn is_foreign(&self) -> bool {
        self.owner.is_some_and(|owner| owner != self.uid)
    }

    /// Returns `path` for evidence: `state/…`, `workspace/…`, or in full.
    pub(super) fn shown(&self, path: &Path) -> String {
        self.home.display(path)
    }

    /// Returns a command line of the daemon's program.
    pub(super) fn agent(&self, arguments: &str) -> String {
        self.program("agent-daemon", arguments)
    }

    /// Returns a command line of one of the five programs that works here: with the flags that were
    /// given, as the user who owns the home, and by its path where `$PATH` does not lead to it.
    pub(super) fn program(&self, name: &str, arguments: &str) -> String {
        let beside = self
            .programs
            .as_ref()
            .map(|dir| dir.join(name))
            .filter(|path| is_program(path));
        let program = match beside {
            Some(path) if self.on_path(name).is_none() => quote(&path),
            _ => name.to_owned(),
        };
        let command = format!("{}{program}{} {arguments}", self.sudo(), self.flags);
        command.trim_end().to_owned()
    }

    /// Returns `sudo -u OWNER ` when the home is somebody else's.
    pub(super) fn sudo(&self) -> String {
        match self.owner {
            Some(owner) if owner != self.uid => format!("sudo -u {} ", quote(user(owner))),
            _ => String::new(),
        }
    }

    /// Returns the command that opens `file` in the user's editor.
    pub(super) fn edit(&self, file: &Path, line: Option<usize>) -> String {
        let line = line.map_or_else(String::new, |line| format!(" +{line}"));
        format!("{}${{EDITOR:-vi}}{line} {}", self.sudo(), quote(file))
    }

    /// Returns the command that opens the file with the settings of a provider.
    pub(super) fn edit_provider(&self, provider: &config::Provider) -> String {
        let own = provider.file.as_deref();
        self.edit(own.unwrap_or(self.home.config_file()), None)
    }

    /// Returns the command that opens `FILE:LINE`; for another origin of a setting the one that shows all of them.
    pub(super) fn edit_at(&self, origin: &str) -> String {
        match place(origin) {
            Some((file, line)) => self.edit(&file, Some(line)),
            None => self.agent("check --show-origin"),
        }
    }

    /// Returns the command that shows the end of the log.
    pub(super) fn show_log(&self) -> String {
        format!(
            "{}tail -n 20 {}/*.jsonl",
            self.sudo(),
            quote(self.home.logs())
        )
    }

    /// Returns where `$PATH` leads to `name`.
    pub(super) fn on_path(&self, name: &str) -> Option<PathBuf> {
        let path = self.env.get("PATH")?;
        std::env::split_paths(&path)
            .map(|dir| dir.join(name))
            .find(|path| is_program(path))
    }

    /// Returns the directory of this program.
    pub(super) fn programs(&self) -> Option<&Path> {
        self.programs.as_deref()
    }
}

/// Reads `FILE:LINE`.
fn place(origin: &str) -> Option<(PathBuf, usize)> {
    let (file, line) = origin.rsplit_once(':')?;
    Some((PathBuf::from(file), line.parse().ok()?))
}

/// Returns whether reading `path` would wait for somebody to write: it is a FIFO.
pub(super) fn blocks(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
}

/// Returns whether `path` can be run.
pub(super) fn is_program(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Returns the name of a user, or `#ID` as sudo(8) takes it.
pub(super) fn user(uid: u32) -> String {
    User::from_uid(Uid::from_raw(uid))
        .ok()
        .flatten()
        .map_or_else(|| format!("#{uid}"), |user| user.name)
}

/// Returns a time that has passed, in its largest unit.
pub(super) fn age(millis: i64) -> String {
    let secs = millis.max(0) / 1000;
    match secs {
        0..120 => text::counted(secs, "second"),
        120..7200 => text::counted(secs / 60, "minute"),
        7200..172_800 => text::counted(secs / 3600, "hour"),
        _ => text::counted(secs / 86_400, "day"),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_quoted_as_a_shell_needs_it() {
        let cases: [(&[u8], &str); 6] = [
            (b"/srv/agent.d/state", "/srv/agent.d/state"),
            (b"/my home/it's", r"'/my home/it'\''s'"),
            (b"", "''"),
            (b"~", "'~'"),
            (b"/a\nb'", r"$'/a\x0ab\''"),
            (b"/\xff", r"$'/\xff'"),
        ];
        for (word, expected) in cases {
            assert_eq!(quote(OsStr::from_bytes(word)), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]
        #[test]
        fn a_shell_reads_a_quoted_word_back(word in proptest::collection::vec(1u8..=255, 1..20)) {
            let script = format!("printf %s {}", quote(OsStr::from_bytes(&word)));
            let output = std::process::Command::new("bash").args(["-c", &script]).output();
            if let Ok(output) = output {
                prop_assert_eq!(output.stdout, word);
            }
        }
    }

    #[test]
    fn a_place_is_a_file_and_a_line() {
        assert_eq!(
            place("/a b/agent.toml:12"),
            Some((PathBuf::from("/a b/agent.toml"), 12))
        );
        assert_eq!(
            (place("$AGENT_X"), place("flag"), place("/a:b")),
            (None, None, None)
        );
    }

    #[test]
    fn commands_lead_back_to_the_same_home() {
        let dir = tempfile::tempdir().expect("dir");
        let context = DoctorContext::of(&dir.path().join("my home"), &[("PATH", "/nowhere")]);
        let command = context.agent("check");
        assert_eq!(
            command,
            format!(
                "agent-daemon --home '{}/my home' check",
                dir.path().display()
            )
        );
    }

    #[test]
    fn an_age_has_one_unit() {
        let cases = [
            (-5, "0 seconds"),
            (1000, "1 second"),
            (119_999, "119 seconds"),
            (120_000, "2 minutes"),
            (7_200_000, "2 hours"),
            (200_000_000, "2 days"),
        ];
        for (millis, expected) in cases {
            assert_eq!(age(millis), expected);
        }
    }
}
