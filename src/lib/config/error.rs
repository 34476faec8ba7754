//! The errors in settings.

use std::path::{Path, PathBuf};

use super::key_names::UnknownKey;

/// Why the settings, the home or the secrets cannot be used. Its text names the file or setting,
/// [`Error::hint`] the next step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a flag nor the environment nor the user database names a home.
    #[error("no home: neither --home, $AGENT_HOME nor $HOME is set")]
    NoHome,
    /// `--home` or `--instance` has a form that makes no directory name.
    #[error("{what}: {problem}")]
    BadName {
        /// The flag or variable.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What we wanted, as a verb.
        action: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file is not TOML.
    #[error("{}:{line}:{column}: {message}\n  {line} | {text}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The line, redacted.
        text: String,
        /// The parser's words.
        message: String,
    },
    /// agent.toml is not there any more, or empty, while what it said is active.
    #[error("{} is missing or empty, and was not when it was read before", .0.display())]
    Emptied(PathBuf),
    /// A section is in a file twice, as when a block was pasted below a template that has it already.
    #[error("{}:{second}: duplicate section [{section}], first in line {first}", file.display())]
    Twice {
        /// The file.
        file: PathBuf,
        /// Its name, such as `telegram`.
        section: String,
        /// Its first line, from 1.
        first: usize,
        /// The line where it is again.
        second: usize,
    },
    /// A setting has a value that cannot be.
    #[error("{origin}: {}{message}", quoted(key, ": "))]
    Value {
        /// The file and line, variable, credential or flag it came from.
        origin: String,
        /// The path of the key; empty for the file as a whole.
        key: String,
        /// What is wrong and what was expected.
        message: String,
    },
    /// Keys and tables that no setting has.
    #[error("{}", one_a_line(.0))]
    UnknownKeys(Vec<UnknownKey>),
    /// A name in `providers.load` has no file.
    #[error("{}: the provider file is missing (`providers.load` names `{name}`{})", file.display(), meant.as_ref().map_or_else(String::new, |meant| format!("; did you mean `{meant}`?")))]
    NoProviderFile {
        /// The name.
        name: String,
        /// Where its file should be.
        file: PathBuf,
        /// The provider that was probably meant.
        meant: Option<String>,
    },
    /// Two providers name a model alike.
    #[error("{second}: the model `{name}` is already defined in {first}")]
    DuplicateModel {
        /// The name.
        name: String,
        /// Where it stood first.
        first: String,
        /// Where it is again.
        second: String,
    },
    /// No loaded provider has a model `primary`.
    #[error("no loaded provider defines the model `primary` (loaded: {loaded})")]
    NoPrimary {
        /// `providers.load`.
        loaded: String,
        /// The file it should be added to.
        file: PathBuf,
    },
    /// A name of a model that no loaded provider defines.
    #[error("{origin}: no model is called `{name}` (there are: {known})")]
    UnknownModel {
        /// The setting that names it.
        origin: String,
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// A name of a provider that is not loaded.
    #[error("{origin}: no loaded provider is called `{name}` (there are: {known})")]
    UnknownProvider {
        /// The setting that names it.
        origin: String,
        /// The name.
        name: String,
        /// All names.
        known: String,
    },
    /// `.env` can be read by others.
    #[error("{}: its mode {mode:04o} lets group or others read it", path.display())]
    EnvFileMode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A line of `.env` is not `NAME=VALUE`. The line itself may be a secret and is not shown.
    #[error("{}:{line}: {problem}", path.display())]
    EnvFileLine {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, without the content.
        problem: &'static str,
    },
    /// A secret was asked for by something that is not a variable name: perhaps the secret itself, so
    /// it is not shown.
    #[error("the name of a secret is not a valid variable name")]
    SecretName,
    /// A secret is not text.
    #[error("{origin}: the secret is not valid UTF-8")]
    SecretText {
        /// Where it came from.
        origin: String,
    },
}

/// What a caller can do about an [`Error`]; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Change the settings (exit 78).
    Config,
    /// Run as another user or change modes (exit 77).
    NotPermitted,
    /// Look at the disk (exit 74).
    Io,
    /// Use another flag (exit 2).
    Usage,
}

impl Error {
    /// Returns what the caller can do.
    pub fn kind(&self) -> Kind {
        match self {
            Self::BadName { what, .. } if what.starts_with('-') => Kind::Usage,
            Self::Io { source, .. } if is_refusal(source) => Kind::NotPermitted,
            Self::Io { .. } => Kind::Io,
            Self::NoHome
            | Self::BadName { .. }
            | Self::Syntax { .. }
            | Self::Twice { .. }
            | Self::Emptied(_)
            | Self::Value { .. }
            | Self::UnknownKeys(_)
            | Self::NoProviderFile { .. }
            | Self::DuplicateModel { .. }
            | Self::NoPrimary { .. }
            | Self::UnknownModel { .. }
            | Self::UnknownProvider { .. }
            | Self::EnvFileMode { .. }
            | Self::EnvFileLine { .. }
            | Self::SecretName
            | Self::SecretText { .. } => Kind::Config,
        }
    }

    /// Returns the next step, one line.
    pub fn hint(&self) -> String {
        match self {
            Self::NoHome => "say where it is: --home DIR".to_owned(),
            Self::BadName { what: "$HOME", .. } => {
                "set HOME to your home directory, or name the agent's with --home DIR".to_owned()
            }
            Self::BadName { .. } => "a name has 1 to 32 letters, digits, `_` or `-`".to_owned(),
            Self::Io { path, source, .. } if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem => {
                format!("{} is on a file system that is mounted read-only: remount it, or choose another home with --home DIR", path.display())
            }
            Self::Io { path, source, .. } if is_refusal(source) => {
                format!("run it as the owner of {0}: `sudo -u agent …`, or give the owner access: `ls -ld {0}`", existing(path).display())
            }
            Self::Io { action: "read", source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                "correct the name after --config, or omit it".to_owned()
            }
            Self::Io { path, .. } => {
                format!("look at it: `ls -ld {0}` and `df {0}`", existing(path).display())
            }
            Self::Syntax { file, line, .. } => format!("correct line {line} of {}, then `agent-daemon check`", file.display()),
            Self::Twice { file, section, first, second } => format!(
                "merge the two: in {}, move the lines below line {second} up into [{section}] of line {first}, a key once, and delete line {second}",
                file.display()
            ),
            Self::Emptied(file) => format!(
                "put {} back and send SIGHUP again; for the built-in settings, restart the daemon",
                file.display()
            ),
            Self::Value { origin, key, .. } => format!("correct {}{origin}, then `agent-daemon check`", quoted(key, " in ")),
            Self::UnknownKeys(keys) => {
                let (what, from) = match keys.as_slice() {
                    [only] => ("it", only.origin.as_str()),
                    _ => ("them", "the places named above"),
                };
                format!("correct or remove {what} in {from}, then `agent-daemon check`; `man agent.toml` has every key")
            }
            Self::NoProviderFile { name, meant: Some(meant), .. } => {
                format!("write `{meant}` instead of `{name}` in `providers.load`, then `agent-daemon check`")
            }
            Self::NoProviderFile { name, file, meant: None } => {
                let file = file.display();
                format!("create {file} (examples are next to it), or remove `{name}` from `providers.load`")
            }
            Self::DuplicateModel { name, second, .. } => format!("rename [models.{name}] in {second}"),
            Self::NoPrimary { file, .. } => format!("add a table [models.primary] to {}", file.display()),
            Self::UnknownModel { name, .. } => {
                format!("correct the name, or define [models.{name}] in a loaded providers.d file")
            }
            Self::UnknownProvider { name, .. } => {
                format!("write `local` or `none` there, or correct the name, or put `{name}` into `providers.load`")
            }
            Self::EnvFileMode { path, .. } => format!("chmod 600 {}", path.display()),
            Self::EnvFileLine { path, line, .. } => format!("correct line {line} of {}: each line is NAME=VALUE", path.display()),
            Self::SecretName => "write the NAME of a variable in `token_env` or `api_key_env`, and the secret in .env".to_owned(),
            Self::SecretText { origin } => format!("write the value of {origin} again"),
        }
    }

    /// Makes a value error of serde's words; its names of Rust types become words for people.
    pub(super) fn value(origin: String, key: &str, message: &str) -> Self {
        let numbers = [
            (
                ["expected u32", "expected u64", "expected usize"],
                "expected a whole number, 0 or more",
            ),
            (
                ["expected i64", "expected i32", "expected isize"],
                "expected a whole number",
            ),
            (
                ["expected f64", "expected f32", "expected float"],
                "expected a number",
            ),
        ];
        let tables = [
            ("invalid type: sequence", "invalid type: a list"),
            ("invalid type: map", "invalid type: a table"),
            ("expected a sequence", "expected a list"),
            ("expected a map", "expected a table"),
        ];
        let types = numbers
            .iter()
            .flat_map(|(types, words)| types.iter().map(move |name| (name, words)))
            .chain(tables.iter().map(|(types, words)| (types, words)));
        let words = types.fold(crate::secret::redact(message), |text, (name, words)| {
            text.replace(name, words)
        });
        Self::Value {
            origin,
            key: key.to_owned(),
            message: words,
        }
    }

    pub(super) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

fn one_a_line(keys: &[UnknownKey]) -> String {
    let lines: Vec<String> = keys.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn quoted(key: &str, after: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("`{key}`{after}")
    }
}

/// Returns the part of a path that is there: of what was to be made neither ls(1) nor df(1) knows anything.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|path| path.exists()).unwrap_or(path)
}

/// EACCES and EPERM; the standard library joins them in one kind.
fn is_refusal(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}
