//! What types cannot say: ranges of values, probable mistakes, and what has no effect in this
//! build.

use std::path::Path;

use super::error::Error;
use super::key_names;
use super::key_names::UnknownKey;
use super::types::{
    Config, DmPolicy, DmScope, Keep, MAX_CARRIED, McpServer, Policy, Sandbox, SearchEngine,
    Session, Typing,
};

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
    let Config {
        agent,
        telegram,
        http,
        tools,
        media,
        session,
        context,
        compaction,
        cost,
        memory,
        log,
        subagents,
        ..
    } = config;
    let name_fits = (1..=64).contains(&agent.name.chars().count())
        && agent
            .name
            .chars()
            .all(|c| c.is_alphanumeric() || "_-".contains(c));
    let (exec, embeddings) = (&tools.exec, &memory.embeddings);
    let rules = [
        (
            "agent.name",
            name_fits,
            "expected 1 to 64 letters, digits, `_` or `-`",
        ),
        (
            "agent.max_concurrent_runs",
            agent.max_concurrent_runs >= 1,
            "expected at least 1",
        ),
        (
            "agent.max_turns",
            agent.max_turns >= 1,
            "expected at least 1",
        ),
        (
            "agent.history_size",
            agent.history_size >= 1,
            "expected at least 1",
        ),
        (
            "agent.typing",
            typing_fits(&agent.typing),
            "expected 0 to 3600 seconds, and a number of signs",
        ),
        (
            "agent.stickers.stickers",
            agent
                .stickers
                .stickers
                .iter()
                .all(|one| sticker(one).is_some()),
            "expected `SET :: NAME`",
        ),
        (
            "agent.call_timeout_secs",
            agent.call_timeout_secs >= 1,
            "expected at least 1 second",
        ),
        (
            "agent.run_timeout_secs",
            agent.run_timeout_secs >= 1,
            "expected at least 1 second",
        ),
        (
            "memory.vector_weight",
            memory
                .vector_weight
                .is_none_or(|share| (0.0..=1.0).contains(&share)),
            "expected 0 to 1",
        ),
        (
            "subagents.timeout_secs",
            (1..=subagents.max_timeout_secs).contains(&subagents.timeout_secs),
            "expected 1 to `subagents.max_timeout_secs`",
        ),
        (
            "tools.max_output",
            tools.max_output >= 1_000,
            "expected at least 1000 characters",
        ),
        (
            "agent.roles",
            agent.roles.iter().all(|role| is_prompt_name(role)),
            NO_PROMPT,
        ),
        (
            "context.tiers",
            !context.tiers.contains_key("full"),
            "`full` is everything; choose another name",
        ),
        (
            "telegram.api_url",
            is_http(&telegram.api_url),
            "expected an address that begins with http:// or https://",
        ),
        (
            "telegram.token_env",
            is_variable(&telegram.token_env),
            NO_VARIABLE,
        ),
        (
            "telegram.poll_timeout_secs",
            (1..=50).contains(&telegram.poll_timeout_secs),
            "expected 1 to 50 seconds",
        ),
        (
            "telegram.webhook",
            telegram.webhook.is_empty() || telegram.webhook_path().is_some(),
            "expected an address that begins with https:// (http:// on this machine only) and has no `?`, or nothing",
        ),
        (
            "http.listen",
            http.address().is_some(),
            "expected ADDRESS:PORT or unix:/path",
        ),
        ("http.token_env", is_variable(&http.token_env), NO_VARIABLE),
        (
            "http.reads_per_minute",
            http.reads_per_minute >= 1,
            "expected at least 1",
        ),
        (
            "http.writes_per_minute",
            http.writes_per_minute >= 1,
            "expected at least 1",
        ),
        (
            "telegram.webhook",
            !(http.enabled && telegram.webhook_path().is_some_and(is_path_of_api)),
            "its path is one of the HTTP API, which is enabled; choose another path",
        ),
        (
            "tools.exec.timeout_secs",
            (1..=exec.max_timeout_secs).contains(&exec.timeout_secs),
            "expected 1 to max_timeout_secs seconds",
        ),
        (
            "tools.exec.env",
            exec.env.iter().all(|name| is_variable(name)),
            "expected names of variables",
        ),
        (
            "tools.allowed_paths",
            tools.allowed_paths.iter().all(|path| path.is_absolute()),
            "expected absolute paths",
        ),
        (
            "tools.web.allow",
            tools.web.allow.iter().all(|host| is_host(host)),
            "expected hosts: `nas.lan`, `127.0.0.1:8931`",
        ),
        (
            "tools.web.ports",
            !tools.web.ports.contains(&0),
            "expected ports, 1 to 65535",
        ),
        (
            "tools.web.search_url",
            is_http(&tools.web.search_url)
                || (tools.web.search_url.is_empty() && tools.web.search != SearchEngine::Searxng),
            "expected the address of your SearXNG, which begins with https:// or http://",
        ),
        (
            "tools.web.search_url",
            tools.web.search != SearchEngine::Brave
                || tools.web.search_url.is_empty()
                || is_private_way(&tools.web.search_url),
            "the key of Brave is sent to https:// only (or http:// on this machine)",
        ),
        (
            "tools.web.search_key_env",
            is_variable(&tools.web.search_key_env),
            NO_VARIABLE,
        ),
        (
            "media.transcribe",
            is_command(&media.transcribe),
            "expected a program and its arguments, `{file}` among them",
        ),
        (
            "media.transcribe_reads",
            media.transcribe_reads.iter().all(|path| can_be_shown(path)),
            NO_DIRECTORY,
        ),
        (
            "session.idle_minutes",
            session.idle_minutes >= 1,
            "expected at least 1 minute",
        ),
        (
            "session.carry_turns",
            session.carry_turns <= MAX_CARRIED,
            "expected 0 to 20 turns",
        ),
        (
            "agent.max_turns_for",
            agent.max_turns_for.values().all(|turns| *turns >= 1),
            "expected at least 1 for each",
        ),
        (
            "agent.max_turns_for",
            agent
                .max_turns_for
                .keys()
                .all(|source| SOURCES.contains(&source.as_str())),
            NO_SOURCE,
        ),
        (
            "compaction.compact_at",
            compaction.compact_at == 0 || compaction.compact_at >= 1000,
            NO_SIZE,
        ),
        (
            "compaction.keep",
            compaction.keep != Some(Keep::Tokens(0)),
            "expected at least 1 token",
        ),
        ("cost.day_usd", is_amount(cost.day_usd), NO_AMOUNT),
        ("cost.month_usd", is_amount(cost.month_usd), NO_AMOUNT),
        ("cost.session_usd", is_amount(cost.session_usd), NO_AMOUNT),
        ("cost.job_usd", is_amount(cost.job_usd), NO_AMOUNT),
        ("cost.message_usd", is_amount(cost.message_usd), NO_AMOUNT),
        (
            "heartbeat.day_usd",
            is_amount(config.heartbeat.day_usd),
            NO_AMOUNT,
        ),
        (
            "memory.embeddings.model",
            embeddings.provider != "local" || embeddings.model.is_empty(),
            "expected nothing: `local` is the table that ships with the project, and models in directories are not read; \
             for another model set `memory.embeddings.provider` to a server (Ollama, llama-server, vLLM: \
             a provider of type `openai`)",
        ),
        (
            "memory.embeddings.dims",
            embeddings.dims <= MAX_DIMS,
            "expected 0 (the model's own) to 16384",
        ),
        (
            "log.keep_days",
            log.keep_days >= 1,
            "expected at least 1 day",
        ),
    ];
    for (key, good, message) in rules {
        if !good {
            return Err(Error::Value {
                origin: origin(key),
                key: key.to_owned(),
                message: message.to_owned(),
            });
        }
    }
    if let Some(message) = exec.patterns.iter().find_map(super::types::Pattern::fault) {
        let key = "tools.exec.patterns".to_owned();
        return Err(Error::Value {
            origin: origin(&key),
            key,
            message,
        });
    }
    for (name, server) in &config.mcp.servers {
        if let Some((field, message)) = tool_server(name, server) {
            let key = key_names::join("mcp.servers", name);
            let key = if field.is_empty() {
                key
            } else {
                key_names::join(&key, field)
            };
            return Err(Error::Value {
                origin: origin(&key),
                key,
                message: message.to_owned(),
            });
        }
    }
    for (name, tier) in &context.tiers {
        if let Some(path) = tier.files.iter().find(|path| !is_below(path)) {
            let key = key_names::join(&key_names::join("context.tiers", name), "files");
            let message = format!(
                "`{path}` is no file of the workspace: expected paths like `SOUL.md` or `notes/ops.md`"
            );
            return Err(Error::Value {
                origin: origin(&key),
                key,
                message,
            });
        }
    }
    Ok(())
}

/// Returns what is wrong with a tool server: the key, empty for the table, and what is expected.
fn tool_server(name: &str, server: &McpServer) -> Option<(&'static str, &'static str)> {
    let McpServer {
        command,
        url,
        env,
        token_env,
        network: _,
        reads,
        writes,
        trust,
        timeout_secs,
    } = server;
    let is_name = name.len() <= 24
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_program = command.first().is_none_or(|program| !program.is_empty())
        && !command.iter().any(|word| word.contains('\0'));
    let is_hash = trust
        .strip_prefix("sha256:")
        .is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    let rules = [
        (
            "",
            is_name,
            "a server is called by a letter, then letters, digits or `_`, at most 24 in all",
        ),
        (
            "",
            command.is_empty() != url.is_empty(),
            "expected `command = [\"program\", \"argument\"]` or `url = \"https://…\"`, one of the two",
        ),
        (
            "command",
            is_program,
            "expected a program and its arguments",
        ),
        (
            "url",
            url.is_empty() || is_http(url),
            "expected an address that begins with http:// or https://",
        ),
        (
            "url",
            token_env.is_empty() || is_private_way(url),
            "a token is sent to https:// only (or http:// on this machine)",
        ),
        (
            "token_env",
            token_env.is_empty() || is_variable(token_env),
            NO_VARIABLE,
        ),
        (
            "env",
            env.iter().all(|name| is_variable(name)),
            "expected names of variables; their values belong in .env",
        ),
        (
            "reads",
            reads.iter().all(|path| can_be_shown(path)),
            NO_DIRECTORY,
        ),
        (
            "writes",
            writes.iter().all(|path| can_be_shown(path)),
            NO_DIRECTORY,
        ),
        (
            "trust",
            trust.is_empty() || is_hash,
            "expected `sha256:` and the 64 digits that `agent-send --mcp list` shows",
        ),
        (
            "timeout_secs",
            (1..=3600).contains(timeout_secs),
            "expected 1 to 3600 seconds",
        ),
    ];
    rules
        .into_iter()
        .find(|(_, good, _)| !good)
        .map(|(key, _, message)| (key, message))
}

/// A name that can stand before `.md`.
fn is_prompt_name(name: &str) -> bool {
    (1..=64).contains(&name.chars().count())
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "_-".contains(c))
}

/// A path that stays below where it begins.
fn is_below(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// The left sides of `[agent.max_turns_for]`.
const SOURCES: [&str; 9] = [
    "telegram",
    "cli",
    "http",
    "system",
    "notify",
    "job",
    "heartbeat",
    "subagent",
    "report",
];
const NO_SOURCE: &str = "expected `telegram`, `cli`, `http`, `system`, `notify`, `job`, `heartbeat`, `subagent` or `report` on the left";
const NO_SIZE: &str = "expected at least 1000 tokens, or 0 for the preset's";

/// Takes the links out that say nothing, or two things, and returns what was taken.
pub(super) fn drop_bad_links(
    session: &mut Session,
    origin: &dyn Fn(&str) -> String,
) -> Vec<Warning> {
    let links = std::mem::take(&mut session.identity_links);
    let mut warnings = Vec::new();
    for (person, ids) in &links {
        let key = key_names::join("session.identity_links", person);
        let mut warn = |message| {
            warnings.push(Warning {
                origin: origin(&key),
                key: key.clone(),
                message,
            })
        };
        if !is_person(person) {
            warn("is ignored: a person is called by 1 to 64 letters, digits, `_` or `-`, not by a number".to_owned());
            continue;
        }
        let mut good = Vec::new();
        for id in ids {
            let other = links
                .iter()
                .find(|(other, ids)| *other != person && ids.contains(id));
            match other {
                _ if !is_id(id) => warn(format!(
                    "has `{id}`, which is no id and is ignored: expected `telegram:NUMBER` (a user's id), `cli:NAME` or `http:NAME`"
                )),
                Some((other, _)) => warn(format!(
                    "has `{id}`, which is {other}, too, and is ignored: an id is one person's"
                )),
                None => good.push(id.clone()),
            }
        }
        if !good.is_empty() || ids.is_empty() {
            session.identity_links.insert(person.clone(), good);
        }
    }
    warnings
}

fn is_person(name: &str) -> bool {
    is_prompt_name(name) && name.chars().any(|c| !c.is_ascii_digit())
}

fn is_id(id: &str) -> bool {
    match id.split_once(':') {
        Some(("telegram", id)) => id
            .parse::<i64>()
            .is_ok_and(|number| number.to_string() == id && number > 0),
        Some(("cli" | "http", name)) => {
            (1..=200).contains(&name.chars().count()) && !name.contains(char::is_control)
        }
        _ => false,
    }
}

/// More than any known model's vectors have.
const MAX_DIMS: u32 = 16_384;
const NO_AMOUNT: &str = "expected US dollars, 0 or more (0 = no cap)";
const NO_DIRECTORY: &str = "expected absolute paths, none of them `/` or in /proc, /sys or /dev";
const NO_PROMPT: &str =
    "expected names of 1 to 64 letters, digits, `_` or `-`: `Memory` stands for Memory.md";
const NO_VARIABLE: &str = "expected the NAME of a variable; the secret itself belongs in .env";

/// What the HTTP API answers, or may one day.
fn is_path_of_api(path: &str) -> bool {
    ["/api/", "/v1/"]
        .iter()
        .any(|of_api| path.starts_with(of_api))
        || ["/metrics", "/openapi.json"].contains(&path)
}

pub(super) fn is_http(url: &str) -> bool {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !url.contains(char::is_whitespace)
}

/// `HOST` or `HOST:PORT`, as an address names them.
fn is_host(entry: &str) -> bool {
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port),
        _ => (entry, "1"),
    };
    let address = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let good = match address {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .chars()
                    .all(|c| c.is_alphanumeric() || "-._".contains(c))
        }
    };
    good && port.parse::<u16>().is_ok_and(|port| port > 0)
}

/// Where a token may be sent: nobody reads along.
pub(super) fn is_private_way(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return is_http(url);
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Nothing but digits: in `localhost:x@elsewhere` the host is elsewhere.
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let name = host
        .rsplit_once(':')
        .filter(|(_, port)| digits(port))
        .map_or(host, |(name, _)| name);
    is_http(url) && ["127.0.0.1", "localhost", "[::1]"].contains(&name)
}

/// A name and not, by a slip of the clipboard, a token: those have `:` or `-` or begin with a digit.
pub(super) fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 64
        && bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Nothing, or a program that is told where the file is.
fn is_command(argv: &[String]) -> bool {
    let whole = |word: &String| !word.contains('\0');
    match argv {
        [] => true,
        [program, arguments @ ..] => {
            !program.is_empty()
                && arguments.iter().any(|word| word.contains("{file}"))
                && argv.iter().all(whole)
        }
    }
}

fn can_be_shown(path: &Path) -> bool {
    path.is_absolute()
        && path.parent().is_some()
        && !["/proc", "/sys", "/dev"]
            .iter()
            .any(|dir| path.starts_with(dir))
}

pub(super) fn is_amount(usd: f64) -> bool {
    usd.is_finite() && usd >= 0.0
}

/// Returns what is valid and probably not meant.
pub(super) fn warnings(config: &Config, origin: &dyn Fn(&str) -> String) -> Vec<Warning> {
    let telegram = &config.telegram;
    let mut warnings = Vec::new();
    let mut warn = |key: &str, message: &str| {
        warnings.push(Warning {
            origin: origin(key),
            key: key.to_owned(),
            message: message.to_owned(),
        })
    };
    if telegram.enabled && telegram.dm_policy == DmPolicy::Allowlist && telegram.owners().is_empty()
    {
        warn(
            "telegram.enabled",
            "is true and `telegram.owner` names nobody: put your numeric id there, or use `agent-send --pair owner`",
        );
    }
    if config.tools.exec.sandbox == Sandbox::Off && config.tools.exec.runs() {
        warn(
            "tools.exec.sandbox",
            "is `off`: a command may read and change everything that you may",
        );
    }
    if config.tools.exec.policy == Policy::Allow {
        warn(
            "tools.exec.policy",
            "is `allow`: a page or a message that the agent reads may run commands, and nobody is asked",
        );
    }
    for (tool, _) in config
        .tools
        .policies
        .iter()
        .filter(|(_, policy)| **policy == Policy::Allow)
    {
        let key = key_names::join("tools.policies", tool);
        warn(
            &key,
            "is `allow`: a page or a message that the agent reads may use it, and nobody is asked",
        );
    }
    let owners = telegram.owners();
    let guests = telegram.allow_from.iter().any(|id| !owners.contains(id));
    if config.session.dm_scope == DmScope::Main
        && telegram.enabled
        && (guests || telegram.dm_policy == DmPolicy::Open)
    {
        warn(
            "session.dm_scope",
            "is `main` and others than the owners may write: in their one conversation the owner's memory (MEMORY.md, notes, facts) is not used",
        );
    }
    for path in &config.media.transcribe_reads {
        let what = match path.canonicalize() {
            Ok(real) if real == *path => continue,
            Ok(real) => format!(
                "`{}` is really {}: name that, here and in `transcribe`",
                path.display(),
                real.display()
            ),
            Err(error) => format!(
                "`{}` cannot be shown to the program: {error}",
                path.display()
            ),
        };
        warn("media.transcribe_reads", &what);
    }
    for (person, ids) in &config.session.identity_links {
        let owners = config.telegram.owners();
        let telegram: Vec<&str> = config.session.ids_of(person, "telegram").collect();
        let (own, foreign): (Vec<&str>, Vec<&str>) = telegram
            .into_iter()
            .partition(|id| id.parse().is_ok_and(|id| owners.contains(&id)));
        if let (Some(own), Some(foreign)) = (own.first(), foreign.first()) {
            let what = format!(
                "{own} is an owner and {foreign} is not: both read the same conversation of {} ids",
                ids.len()
            );
            warn(&key_names::join("session.identity_links", person), &what);
        }
    }
    if config.http.enabled && !config.http.is_local() {
        warn(
            "http.listen",
            "is reached from other machines over plain HTTP: the token and every word can be read on the way; listen on \
             127.0.0.1 behind a reverse proxy with TLS, or on a private network only",
        );
    }
    warnings
}

fn typing_fits(typing: &Typing) -> bool {
    let seconds = [typing.start_delay_secs, typing.sticker_delay_secs];
    seconds.iter().all(|secs| (0.0..=3600.0).contains(secs)) && typing.chars_per_sec >= 0.0
}

/// Returns the set and the name of `SET :: NAME`.
fn sticker(text: &str) -> Option<(&str, &str)> {
    let (set, name) = text.split_once("::")?;
    let (set, name) = (set.trim(), name.trim());
    (!set.is_empty() && !name.is_empty()).then_some((set, name))
}

/// Returns the roles of `[routing]` that do not exist.
pub(super) fn unknown_roles(config: &Config, origin: &dyn Fn(&str) -> String) -> Vec<UnknownKey> {
    let is_unknown = |role: &&String| !super::types::ROLES.contains(&role.as_str());
    let roles = config.routing.keys().filter(is_unknown);
    roles
        .map(|role| {
            let key = key_names::join("routing", role);
            UnknownKey::new(origin(&key), &key, false, &key_names::all())
        })
        .collect()
}

/// Returns the settings that are active and have no room in this build.
pub(super) fn notes(config: &Config) -> Vec<Note> {
    let is_inactive = config.tools.exec.sandbox == Sandbox::Bubblewrap;
    let note = is_inactive.then(|| Note {
        key: "tools.exec.sandbox".to_owned(),
        instead: "works like `auto`",
    });
    note.into_iter().collect()
}
