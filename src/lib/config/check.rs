//! What types cannot say: ranges of values, probable mistakes, and what has no effect in this
//! build.

use std::path::Path;

use super::error::Error;
use super::names;
use super::types::{Config, DmPolicy, ExecPolicy, Mode, OnBusy, Sandbox};

/// A probable mistake; the agent starts all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file and line, variable, credential or flag.
    pub origin: String,
    /// The path of the key.
    pub key: String,
    /// What is wrong.
    pub message: String,
}

impl Warning {
    pub(super) fn unknown_key(origin: impl Into<String>, key: &str, known: &[String]) -> Self {
        let message = match names::nearest(key, known) {
            Some(name) => format!("is no known key (did you mean `{name}`?)"),
            None => "is no known key".to_owned(),
        };
        Self { origin: origin.into(), key: key.to_owned(), message }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: `{}` {}", self.origin, self.key, self.message)
    }
}

/// A setting that is understood and has no effect in this build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The path of the key.
    pub key: String,
    /// What happens instead.
    pub instead: &'static str,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: not in this build: {}", self.key, self.instead)
    }
}

/// Checks ranges. `origin` says where the value of a key came from.
pub(super) fn values(config: &Config, origin: &dyn Fn(&str) -> String) -> Result<(), Error> {
    let Config { agent, telegram, http, tools, media, cost, log, .. } = config;
    let name_fits =
        (1..=64).contains(&agent.name.chars().count()) && agent.name.chars().all(|c| c.is_alphanumeric() || "_-".contains(c));
    let exec = &tools.exec;
    let rules = [
        ("agent.name", name_fits, "expected 1 to 64 letters, digits, `_` or `-`"),
        ("agent.max_concurrent_runs", agent.max_concurrent_runs >= 1, "expected at least 1"),
        ("agent.max_turns", agent.max_turns >= 1, "expected at least 1"),
        ("agent.call_timeout_secs", agent.call_timeout_secs >= 1, "expected at least 1 second"),
        ("agent.run_timeout_secs", agent.run_timeout_secs >= 1, "expected at least 1 second"),
        ("telegram.api_url", is_http(&telegram.api_url), "expected an address that begins with http:// or https://"),
        ("telegram.token_env", is_variable(&telegram.token_env), NO_VARIABLE),
        ("telegram.poll_timeout_secs", (1..=50).contains(&telegram.poll_timeout_secs), "expected 1 to 50 seconds"),
        (
            "telegram.webhook",
            telegram.webhook.is_empty() || telegram.webhook_path().is_some(),
            "expected an address that begins with https:// (http:// on this machine only) and has no `?`, or nothing",
        ),
        ("http.listen", http.address().is_some(), "expected ADDRESS:PORT or unix:/path"),
        ("http.token_env", is_variable(&http.token_env), NO_VARIABLE),
        (
            "tools.exec.timeout_secs",
            (1..=exec.max_timeout_secs).contains(&exec.timeout_secs),
            "expected 1 to max_timeout_secs seconds",
        ),
        ("tools.exec.env", exec.env.iter().all(|name| is_variable(name)), "expected names of variables"),
        ("tools.allowed_paths", tools.allowed_paths.iter().all(|path| path.is_absolute()), "expected absolute paths"),
        ("media.transcribe", is_command(&media.transcribe), "expected a program and its arguments, `{file}` among them"),
        ("media.transcribe_reads", media.transcribe_reads.iter().all(|path| can_be_shown(path)), NO_DIRECTORY),
        ("cost.day_usd", is_amount(cost.day_usd), NO_AMOUNT),
        ("cost.month_usd", is_amount(cost.month_usd), NO_AMOUNT),
        ("cost.message_usd", is_amount(cost.message_usd), NO_AMOUNT),
        ("log.keep_days", log.keep_days >= 1, "expected at least 1 day"),
    ];
    for (key, good, message) in rules {
        if !good {
            return Err(Error::Value { origin: origin(key), key: key.to_owned(), message: message.to_owned() });
        }
    }
    Ok(())
}

const NO_AMOUNT: &str = "expected US dollars, 0 or more (0 = no cap)";
const NO_DIRECTORY: &str = "expected absolute paths, none of them `/` or in /proc, /sys or /dev";
const NO_VARIABLE: &str = "expected the NAME of a variable; the secret itself belongs in .env";

pub(super) fn is_http(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) && !url.contains(char::is_whitespace)
}

/// A name and not, by a slip of the clipboard, a token: those have `:` or `-` or begin with a digit.
pub(super) fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 64
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Nothing, or a program that is told where the file is.
fn is_command(argv: &[String]) -> bool {
    let whole = |word: &String| !word.contains('\0');
    match argv {
        [] => true,
        [program, arguments @ ..] => {
            !program.is_empty() && arguments.iter().any(|word| word.contains("{file}")) && argv.iter().all(whole)
        }
    }
}

fn can_be_shown(path: &Path) -> bool {
    path.is_absolute() && path.parent().is_some() && !["/proc", "/sys", "/dev"].iter().any(|dir| path.starts_with(dir))
}

pub(super) fn is_amount(usd: f64) -> bool {
    usd.is_finite() && usd >= 0.0
}

/// Returns what is valid and probably not meant.
pub(super) fn warnings(config: &Config, origin: &dyn Fn(&str) -> String) -> Vec<Warning> {
    let telegram = &config.telegram;
    let mut warnings = Vec::new();
    let mut warn = |key: &str, message: &str| {
        warnings.push(Warning { origin: origin(key), key: key.to_owned(), message: message.to_owned() })
    };
    if telegram.enabled && telegram.dm_policy == DmPolicy::Allowlist && telegram.owners().is_empty() {
        warn(
            "telegram.enabled",
            "is true and `telegram.owner` names nobody: put your numeric id there, or use `agent-send --pair owner`",
        );
    }
    if config.tools.exec.sandbox == Sandbox::Off && matches!(config.tools.exec.policy, ExecPolicy::Sandboxed | ExecPolicy::Allow)
    {
        warn("tools.exec.sandbox", "is `off`: a command may read and change everything that you may");
    }
    for path in &config.media.transcribe_reads {
        let what = match path.canonicalize() {
            Ok(real) if real == *path => continue,
            Ok(real) => format!("`{}` is really {}: name that, here and in `transcribe`", path.display(), real.display()),
            Err(error) => format!("`{}` cannot be shown to the program: {error}", path.display()),
        };
        warn("media.transcribe_reads", &what);
    }
    for role in config.routing.keys().filter(|role| !super::types::ROLES.contains(&role.as_str())) {
        let key = names::join("routing", role);
        warnings.push(Warning::unknown_key(origin(&key), &key, &names::all()));
    }
    warnings
}

/// Returns the settings that are active and have no room in this build. `is_set` tells whether a
/// key was written anywhere.
pub(super) fn notes(config: &Config, is_set: &dyn Fn(&str) -> bool) -> Vec<Note> {
    let Config { agent, pipeline, http, tools, session, heartbeat, mcp, .. } = config;
    let heartbeat_set =
        ["every", "active_start", "active_end", "driver"].iter().any(|key| is_set(&names::join("heartbeat", key)));
    let embeddings_set = ["provider", "model", "dims"].iter().any(|key| is_set(&names::join("memory.embeddings", key)));
    let active = [
        ("agent.mode", agent.mode != Mode::Tools, "the agent answers and calls tools"),
        ("agent.config_path", !agent.config_path.is_empty(), "only the workspace is read"),
        ("pipeline.on_busy", pipeline.on_busy == OnBusy::Replan, "works like `collect`"),
        ("http.enabled", http.enabled, "there is no HTTP API"),
        ("tools.allowed_paths", !tools.allowed_paths.is_empty(), "file tools use the workspace only"),
        ("tools.exec.policy", tools.exec.policy == ExecPolicy::Ask, "works like `off`, nobody can be asked yet"),
        ("tools.exec.sandbox", tools.exec.sandbox == Sandbox::Bubblewrap, "works like `auto`"),
        ("session.identity_links", !session.identity_links.is_empty(), "each id is a person"),
        ("memory.embeddings", embeddings_set && config.memory.embeddings.provider != "none", "nothing is embedded"),
        ("heartbeat", heartbeat_set, format_heartbeat(heartbeat)),
        ("mcp.servers", !mcp.servers.is_empty(), "no tool server is started"),
    ];
    active.into_iter().filter(|(_, set, _)| *set).map(|(key, _, instead)| Note { key: key.to_owned(), instead }).collect()
}

fn format_heartbeat(heartbeat: &super::types::Heartbeat) -> &'static str {
    match heartbeat.driver {
        super::types::Driver::Internal => "the agent does not wake by itself",
        super::types::Driver::Cron => "`agent-send --heartbeat` is refused",
    }
}
