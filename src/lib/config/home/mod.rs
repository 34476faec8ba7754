//! [`Home`]: the paths of all files.
//!
//! ```text
//! --home / $AGENT_HOME   DIR/{agent.toml, providers.d/, .env, workspace/, state/}
//! systemd                $CONFIGURATION_DIRECTORY, $STATE_DIRECTORY, $CREDENTIALS_DIRECTORY
//! the system's agent     /etc/agent, /var/lib/agent: whom /var/lib/agent belongs to
//! otherwise (XDG)        ~/.config/agent, ~/.local/share/agent/workspace, ~/.local/state/agent
//! ```
//! `--instance NAME` adds `-NAME` to each directory.

mod create;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::error::Error;

/// What systemd makes of `StateDirectory=` in a system unit.
const VAR_LIB: &str = "/var/lib";

/// The flags that choose the home, as written.
#[derive(Debug, Clone, Default)]
pub struct HomeFlags {
    /// `--home DIR`.
    pub home: Option<PathBuf>,
    /// `--instance NAME`.
    pub instance: Option<String>,
    /// `-c/--config FILE`.
    pub config: Option<PathBuf>,
}

/// The directory in which a restore puts what is not in its place yet.
pub const RESTORING: &str = ".restoring";

/// The resolved, absolute paths. Nothing is touched before [`Home::create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    config_dir: PathBuf,
    config_file: PathBuf,
    config_is_named: bool,
    workspace: PathBuf,
    state: PathBuf,
    credentials: Option<PathBuf>,
    /// `-NAME` of an instance, or nothing.
    suffix: String,
}

#[cfg(test)]
impl Home {
    /// Returns the home of a test: everything below `dir`, whatever the environment says.
    pub(crate) fn at(dir: &Path) -> Self {
        let flags = HomeFlags {
            home: Some(dir.to_owned()),
            ..HomeFlags::default()
        };
        Self::resolve(flags, &|_| None).expect("a directory of a test is a home")
    }
}

impl Home {
    /// Finds the home: `--home`, `$AGENT_HOME`, systemd's directories, XDG. An empty variable
    /// counts as unset, and so does a relative one of XDG's (its specification wants it so); `$HOME`
    /// must name a directory where it is needed.
    ///
    /// # Errors
    /// [`Error::NoHome`] when nothing names one, [`Error::BadName`] for an instance or `--home`
    /// that makes no directory name, [`Error::Io`] when the current directory is gone.
    pub fn resolve(
        flags: HomeFlags,
        env: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Error> {
        let variable = |name: &str| env(name).filter(|value| !value.is_empty() || name == "HOME");
        let suffix = instance_suffix(flags.instance, variable("AGENT_INSTANCE"))?;
        let credentials = variable("CREDENTIALS_DIRECTORY").map(PathBuf::from);
        let mut home = match flags
            .home
            .or_else(|| variable("AGENT_HOME").map(PathBuf::from))
        {
            Some(dir) => Self::under(&suffixed(&absolute(&dir)?, &suffix)?, credentials),
            None => Self::from_system(&suffix, credentials, &variable)?,
        };
        home.suffix = suffix;
        if let Some(file) = flags.config {
            home.config_file = absolute(&file)?;
            home.config_is_named = true;
        }
        Ok(home)
    }

    /// Returns the user whom the system's agent of this name belongs to, for a home that nobody named and another user.
    pub fn system_user(&self) -> Option<u32> {
        let is_named = self.config_is_named || self.state == self.config_dir.join("state");
        let dir = Path::new(VAR_LIB).join(format!("agent{}", self.suffix));
        another_owner(&dir, nix::unistd::geteuid().as_raw()).filter(|_| !is_named)
    }

    /// Everything under one directory.
    fn under(dir: &Path, credentials: Option<PathBuf>) -> Self {
        Self {
            config_dir: dir.to_owned(),
            config_file: dir.join("agent.toml"),
            config_is_named: false,
            workspace: dir.join("workspace"),
            state: dir.join("state"),
            credentials,
            suffix: String::new(),
        }
    }

    /// systemd's directories where they are set or this is the system unit's user, XDG's for the
    /// rest.
    ///
    /// systemd gives a user unit the same state directory as XDG does; then the workspace is XDG's
    /// too, so that unit and shell agree. A system unit keeps its workspace in its state directory.
    fn from_system(
        suffix: &str,
        credentials: Option<PathBuf>,
        env: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Error> {
        let by_systemd = |name| env(name).and_then(|list| first_of_list(&list));
        let agent_dir = format!("agent{suffix}");
        let mut state_by_systemd = by_systemd("STATE_DIRECTORY")
            .map(|dir| suffixed_once(&dir, suffix))
            .transpose()?;
        let mut config_by_systemd = by_systemd("CONFIGURATION_DIRECTORY")
            .map(|dir| suffixed_once(&dir, suffix))
            .transpose()?;
        // In the shell and in cron the user of the system unit has no such variables.
        let of_system = Path::new(VAR_LIB).join(&agent_dir);
        if state_by_systemd.is_none()
            && config_by_systemd.is_none()
            && belongs_to(&of_system, nix::unistd::geteuid().as_raw())
        {
            state_by_systemd = Some(of_system);
            config_by_systemd = Some(Path::new("/etc").join(&agent_dir));
        }
        let xdg = |name, default| {
            Ok::<_, Error>(
                xdg_dir(env, name, default)?
                    .ok_or(Error::NoHome)?
                    .join(&agent_dir),
            )
        };

        let config_dir = match config_by_systemd {
            Some(dir) => dir,
            None => xdg("XDG_CONFIG_HOME", ".config")?,
        };
        let xdg_state = xdg("XDG_STATE_HOME", ".local/state");
        let (state, workspace) = match state_by_systemd {
            Some(dir) if xdg_state.as_ref().ok() != Some(&dir) => {
                (dir.clone(), dir.join("workspace"))
            }
            _ => (
                xdg_state?,
                xdg("XDG_DATA_HOME", ".local/share")?.join("workspace"),
            ),
        };
        let config_file = config_dir.join("agent.toml");
        Ok(Self {
            config_dir,
            config_file,
            config_is_named: false,
            workspace,
            state,
            credentials,
            suffix: String::new(),
        })
    }

    /// Returns the directory of the settings: agent.toml, providers.d, .env.
    pub fn config_dir(&self) -> &Path {
        &self.config_dir
    }

    /// Returns the settings file: `agent.toml`, or the file of `--config`.
    pub fn config_file(&self) -> &Path {
        &self.config_file
    }

    /// Returns whether `--config` named the settings file: then it must exist.
    pub fn config_is_named(&self) -> bool {
        self.config_is_named
    }

    /// Returns the name of the instance; `None` for the agent without one.
    pub fn instance(&self) -> Option<&str> {
        self.suffix.strip_prefix('-')
    }

    /// Returns the other agents with settings beside this one, by the name of their instance; `None` is the one without a name.
    pub fn beside(&self) -> Vec<Option<String>> {
        let own = self.config_dir.file_name().map(OsStr::to_string_lossy);
        let own = own.unwrap_or_default();
        let base = own.strip_suffix(&self.suffix).unwrap_or(&own);
        let entries = self.config_dir.parent().map(std::fs::read_dir);
        let mut found: Vec<Option<String>> = entries
            .into_iter()
            .flatten()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join("agent.toml").is_file())
            .filter_map(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                let suffix = name.strip_prefix(base).filter(|_| name != own)?;
                let named = suffix.strip_prefix('-').map(str::to_owned);
                (suffix.is_empty() || named.is_some()).then_some(named)
            })
            .collect();
        found.sort();
        found
    }

    /// Returns `providers.d`.
    pub fn providers_dir(&self) -> PathBuf {
        self.config_dir.join("providers.d")
    }

    /// Returns the directory of the settings of channels that are programs of their own.
    pub fn channel_settings(&self) -> PathBuf {
        self.config_dir.join("channels")
    }

    /// Returns `.env`.
    pub fn env_file(&self) -> PathBuf {
        self.config_dir.join(".env")
    }

    /// Returns the agent's own directory.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Returns systemd's directory of credentials, if it gave one.
    pub fn credentials_dir(&self) -> Option<&Path> {
        self.credentials.as_deref()
    }

    /// Returns the directory of the program's own files.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// Returns the file that exists in the state during a restore, and after an interrupted one.
    pub fn restoring(&self) -> PathBuf {
        self.state.join(RESTORING)
    }

    /// Returns the FIFO that short commands come through.
    pub fn fifo(&self) -> PathBuf {
        self.state.join("control.fifo")
    }

    /// Returns where commands are written before they are visible.
    pub fn spool_tmp(&self) -> PathBuf {
        self.state.join("spool/tmp")
    }

    /// Returns where commands wait for the daemon.
    pub fn spool_new(&self) -> PathBuf {
        self.state.join("spool/new")
    }

    /// Returns the directory of answers to commands.
    pub fn replies(&self) -> PathBuf {
        self.state.join("replies")
    }

    /// Returns the file the daemon locks.
    pub fn lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// Returns the live state for agent-monitor.
    pub fn monitor(&self) -> PathBuf {
        self.state.join("monitor.json")
    }

    /// Returns the live status.
    pub fn status(&self) -> PathBuf {
        self.state.join("status.json")
    }

    /// Returns the database of inbox and outbox.
    pub fn queue_db(&self) -> PathBuf {
        self.state.join("queue.db")
    }

    /// Returns the ledger.
    pub fn cost_db(&self) -> PathBuf {
        self.state.join("cost.db")
    }

    /// Returns the record of what was done.
    pub fn audit_log(&self) -> PathBuf {
        self.state.join("audit.jsonl")
    }

    /// Returns how far that record surely goes.
    pub fn audit_head(&self) -> PathBuf {
        self.state.join("audit.head")
    }

    /// Returns the key of the digests in it.
    pub fn audit_key(&self) -> PathBuf {
        self.state.join("audit.key")
    }

    /// Returns the directory of the transcripts.
    pub fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    /// Returns the list of live sessions.
    pub fn sessions_index(&self) -> PathBuf {
        self.state.join("sessions/sessions.json")
    }

    /// Returns the directory of ended sessions.
    pub fn archive(&self) -> PathBuf {
        self.state.join("sessions/archive")
    }

    /// Returns the directory of what runs changed in files.
    pub fn undo(&self) -> PathBuf {
        self.state.join("undo")
    }

    /// Returns the list of files that hold untrusted text.
    pub fn untrusted(&self) -> PathBuf {
        self.state.join("untrusted.json")
    }

    /// Returns what the owner allowed permanently.
    pub fn rules(&self) -> PathBuf {
        self.state.join("rules.json")
    }

    /// Returns which browsers are signed in.
    pub fn http_sessions(&self) -> PathBuf {
        self.state.join("http_sessions.json")
    }

    /// Returns the list of people.
    pub fn people(&self) -> PathBuf {
        self.state.join("people.json")
    }

    /// Returns the file of keys and tokens that `agent-daemon login` stores.
    pub fn auth(&self) -> PathBuf {
        self.state.join("auth.json")
    }

    /// Returns the file of sign-ins at tool servers that `agent-send --mcp login` stores.
    pub fn server_auth(&self) -> PathBuf {
        self.state.join("mcp-auth.json")
    }

    /// Returns which skills the owner trusts.
    pub fn trusted_skills(&self) -> PathBuf {
        self.state.join("skills.json")
    }

    /// Returns what the agent proposed of skills, and how often each was of use.
    pub fn learned_skills(&self) -> PathBuf {
        self.state.join("learned.json")
    }

    /// Returns what the tool servers offered when the daemon asked them last.
    pub fn tool_servers(&self) -> PathBuf {
        self.state.join("mcp.json")
    }

    /// Returns which tool servers the owner trusts.
    pub fn trusted_servers(&self) -> PathBuf {
        self.state.join("mcp-trust.json")
    }

    /// Returns the directory in which each tool server has one of its own.
    pub fn server_dirs(&self) -> PathBuf {
        self.state.join("mcp")
    }

    /// Returns the directory of files that came with messages.
    pub fn downloads(&self) -> PathBuf {
        self.state.join("downloads")
    }

    /// Returns the directory of descriptions of files.
    pub fn media_cache(&self) -> PathBuf {
        self.state.join("media")
    }

    /// Returns the jobs.
    pub fn jobs(&self) -> PathBuf {
        self.state.join("cron/jobs.json")
    }

    /// Returns the directory of job results.
    pub fn job_runs(&self) -> PathBuf {
        self.state.join("cron/runs")
    }

    /// Returns where the channels are that are processes of their own, a directory each.
    pub fn channels(&self) -> PathBuf {
        self.state.join("channels")
    }

    /// Returns the directory of the logs.
    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// Returns `path` as it is printed: `workspace/…` and `state/…`, anything else in full.
    pub fn display(&self, path: &Path) -> String {
        // The workspace first: under a system unit it is in the state directory.
        let prefixed = |dir: &Path, name: &str| {
            let rest = path.strip_prefix(dir).ok()?;
            Some(if rest.as_os_str().is_empty() {
                name.to_owned()
            } else {
                format!("{name}/{}", rest.display())
            })
        };
        prefixed(&self.workspace, "workspace")
            .or_else(|| prefixed(&self.state, "state"))
            .unwrap_or_else(|| path.display().to_string())
    }
}

/// Returns `-NAME`, or nothing.
fn instance_suffix(flag: Option<String>, variable: Option<OsString>) -> Result<String, Error> {
    let (what, name) = match (flag, variable) {
        (Some(name), _) => ("--instance", name),
        (None, Some(name)) => ("$AGENT_INSTANCE", name.to_string_lossy().into_owned()),
        (None, None) => return Ok(String::new()),
    };
    let good = (1..=32).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if good {
        Ok(format!("-{name}"))
    } else {
        Err(Error::BadName {
            what,
            problem: format!("`{}` cannot be an instance", crate::text::visible(&name)),
        })
    }
}

fn suffixed(dir: &Path, suffix: &str) -> Result<PathBuf, Error> {
    if suffix.is_empty() {
        return Ok(dir.to_owned());
    }
    let problem = || {
        format!(
            "{} has no name that `{suffix}` could be added to",
            dir.display()
        )
    };
    let mut name = dir
        .file_name()
        .ok_or_else(|| Error::BadName {
            what: "--home",
            problem: problem(),
        })?
        .to_owned();
    name.push(suffix);
    Ok(dir.with_file_name(name))
}

/// A template unit says `StateDirectory=agent-%i` already.
fn suffixed_once(dir: &Path, suffix: &str) -> Result<PathBuf, Error> {
    let done = dir
        .file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with(suffix));
    if done {
        Ok(dir.to_owned())
    } else {
        suffixed(dir, suffix)
    }
}

/// Returns who owns the directory, if it is there and neither root's nor the user's.
fn another_owner(dir: &Path, user: u32) -> Option<u32> {
    let meta = std::fs::symlink_metadata(dir).ok()?;
    (meta.is_dir() && meta.uid() != 0 && meta.uid() != user).then(|| meta.uid())
}

/// Returns whether the directory is there and the user's own. Never for root: there it could be
/// any program's.
fn belongs_to(dir: &Path, user: u32) -> bool {
    user != 0
        && std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == user)
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    std::path::absolute(path).map_err(Error::io("find", path))
}

/// systemd separates several directories by colons; the first is the unit's own.
fn first_of_list(list: &std::ffi::OsStr) -> Option<PathBuf> {
    std::env::split_paths(list)
        .next()
        .filter(|dir| dir.is_absolute())
}

fn xdg_dir(
    env: &dyn Fn(&str) -> Option<OsString>,
    name: &str,
    under_home: &str,
) -> Result<Option<PathBuf>, Error> {
    let named = env(name).map(PathBuf::from).filter(|dir| dir.is_absolute());
    match named {
        Some(dir) => Ok(Some(dir)),
        None => Ok(user_home(env)?.map(|home| home.join(under_home))),
    }
}

/// `directories` asks the user database where `$HOME` is not set (cron, minimal units). One that is set and names no
/// directory is a mistake: what is written elsewhere would not be found again.
fn user_home(env: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<PathBuf>, Error> {
    let Some(named) = env("HOME").map(PathBuf::from) else {
        return Ok(directories::BaseDirs::new().map(|dirs| dirs.home_dir().to_owned()));
    };
    if named.is_absolute() {
        return Ok(Some(named));
    }
    let problem = match named.as_os_str().is_empty() {
        true => "it is empty".to_owned(),
        false => format!(
            "`{}` is not an absolute path",
            crate::text::visible(&named.to_string_lossy())
        ),
    };
    Err(Error::BadName {
        what: "$HOME",
        problem,
    })
}

#[cfg(test)]
mod tests;
