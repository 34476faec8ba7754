//! The ranges of values: each rule names its key and what is expected.

use std::path::Path;

use super::channels;
use super::formats::{
    NO_VARIABLE, can_be_shown, is_amount, is_command, is_host, is_http, is_private_way,
    is_prompt_name, is_variable,
};
use crate::config::error::Error;
use crate::config::key_names;
use crate::config::types::{
    Agent, Backup, Callback, Collection, Config, Hook, Http, Keep, MAX_CARRIED, McpServer, Media,
    Memory, Pattern, SearchEngine, Session, Subagents, Telegram, Tools, Typing,
};
use crate::text::template::Template;

/// A key, whether its value is good, and what is expected of it.
type Rule = (&'static str, bool, &'static str);

/// Checks ranges. `origin` says where the value of a key came from.
pub(in crate::config) fn values(
    config: &Config,
    origin: &dyn Fn(&str) -> String,
) -> Result<(), Error> {
    let rules = [
        agent(&config.agent),
        context_and_compaction(config),
        telegram(&config.telegram, &config.http),
        http(&config.http),
        tools(&config.tools),
        web(&config.tools),
        media(&config.media),
        session(&config.session),
        subagents(&config.subagents),
        callback(&config.callback),
        amounts(config),
        memory(&config.memory),
        backup(&config.backup),
        vec![(
            "log.keep_days",
            config.log.keep_days >= 1,
            "expected at least 1 day",
        )],
    ];
    let fault = |key: String, message: String| Error::Value {
        origin: origin(&key),
        key,
        message,
    };
    if let Some((key, _, message)) = rules.into_iter().flatten().find(|(_, good, _)| !good) {
        return Err(fault(key.to_owned(), message.to_owned()));
    }
    if let Some(message) = config.tools.exec.patterns.iter().find_map(Pattern::fault) {
        return Err(fault("tools.exec.patterns".to_owned(), message));
    }
    let servers = config.mcp.servers.iter().filter_map(|(name, server)| {
        let (field, message) = tool_server(name, server)?;
        Some(("mcp.servers", name, field, message.to_owned()))
    });
    let collections = config.memory.collections.iter();
    let collections = collections.filter_map(|(name, settings)| {
        let (field, message) = collection(name, settings)?;
        Some(("memory.collections", name, field, message.to_owned()))
    });
    let hooks = config.http.hooks.iter().filter_map(|(name, settings)| {
        let (field, message) = hook(name, settings)?;
        Some(("http.hooks", name, field, message))
    });
    let mut tables = servers.chain(collections).chain(hooks);
    if let Some((table, name, field, message)) = tables.next() {
        return Err(fault(key_of(table, name, field), message));
    }
    if let Some((key, message)) = channels::fault(config) {
        return Err(fault(key, message));
    }
    for (name, tier) in &config.context.tiers {
        if let Some(path) = tier.files.iter().find(|path| !is_below(path)) {
            let key = key_of("context.tiers", name, "files");
            let message = format!(
                "`{path}` is no file of the workspace: expected paths like `SOUL.md` or `notes/ops.md`"
            );
            return Err(fault(key, message));
        }
    }
    Ok(())
}

/// Returns the key of a field of the table `name` in `table`; of that table itself where `field` is empty.
fn key_of(table: &str, name: &str, field: &str) -> String {
    let table = key_names::join(table, name);
    if field.is_empty() {
        table
    } else {
        key_names::join(&table, field)
    }
}

fn agent(agent: &Agent) -> Vec<Rule> {
    let name_fits = is_prompt_name(&agent.name);
    vec![
        (
            "agent.name",
            name_fits,
            "expected 1 to 64 letters, digits, `_` or `-`",
        ),
        (
            "agent.max_concurrent_runs",
            agent.max_concurrent_runs >= 1,
            AT_LEAST_1,
        ),
        ("agent.max_turns", agent.max_turns >= 1, AT_LEAST_1),
        ("agent.history_size", agent.history_size >= 1, AT_LEAST_1),
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
            A_SECOND,
        ),
        (
            "agent.run_timeout_secs",
            agent.run_timeout_secs >= 1,
            A_SECOND,
        ),
        (
            "agent.roles",
            agent.roles.iter().all(|role| is_prompt_name(role)),
            NO_PROMPT,
        ),
        (
            "agent.max_turns_for",
            agent.max_turns_for.values().all(|turns| *turns >= 1),
            "expected at least 1 for each",
        ),
    ]
}

fn context_and_compaction(config: &Config) -> Vec<Rule> {
    let compaction = &config.compaction;
    let of_full = config.context.tiers.get("full");
    vec![
        (
            "context.tiers",
            of_full.is_none_or(|full| !full.files.is_empty()),
            "`full` replaces the files of every message: expected `files`, such as [\"SOUL.md\", \"AGENTS.md\"]",
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
    ]
}

fn telegram(telegram: &Telegram, http: &Http) -> Vec<Rule> {
    vec![
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
            "telegram.webhook",
            !(http.enabled && telegram.webhook_path().is_some_and(is_path_of_api)),
            "its path is one of the HTTP API, which is enabled; choose another path",
        ),
    ]
}

fn http(http: &Http) -> Vec<Rule> {
    vec![
        (
            "http.listen",
            http.address().is_some(),
            "expected ADDRESS:PORT or unix:/path",
        ),
        ("http.token_env", is_variable(&http.token_env), NO_VARIABLE),
        (
            "http.reads_per_minute",
            http.reads_per_minute >= 1,
            AT_LEAST_1,
        ),
        (
            "http.writes_per_minute",
            http.writes_per_minute >= 1,
            AT_LEAST_1,
        ),
    ]
}

/// Returns what is wrong with a collection: the key, empty for the table, and what is expected.
fn collection(name: &str, collection: &Collection) -> Option<(&'static str, &'static str)> {
    let is_name = (1..=40).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let Collection {
        url, password_env, ..
    } = collection;
    let after = ["postgres://", "postgresql://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme));
    let has_password = after.is_some_and(|rest| {
        let account = rest.split(['/', '?']).next().unwrap_or_default();
        let account = account.rsplit_once('@').map_or("", |(account, _)| account);
        account.contains(':') || url.to_ascii_lowercase().contains("password=")
    });
    match () {
        () if !is_name => Some((
            "",
            "a collection is called by a letter, then a-z, 0-9 or `_`, at most 40",
        )),
        () if after.is_none() => Some((
            "url",
            "expected the address of a database: postgres://USER@HOST/DATABASE",
        )),
        () if has_password => Some((
            "url",
            "expected no password: write the NAME of a variable in `password_env`, and the password in .env",
        )),
        () if !password_env.is_empty() && !is_variable(password_env) => {
            Some(("password_env", NO_VARIABLE))
        }
        () => None,
    }
}

/// Returns what is wrong with a webhook: the key, empty for the table, and what is expected.
fn hook(name: &str, hook: &Hook) -> Option<(&'static str, String)> {
    let is_name = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
    if !is_name {
        return Some((
            "",
            "a webhook is called by 1 to 64 of a-z, 0-9, `_` and `-`".to_owned(),
        ));
    }
    if !is_variable(&hook.secret_name(name)) {
        return Some(("secret_env", NO_VARIABLE.to_owned()));
    }
    if let Err(fault) = Template::parse(&hook.template) {
        return Some(("template", fault.to_string()));
    }
    (hook.per_minute < 1).then(|| ("per_minute", AT_LEAST_1.to_owned()))
}

fn tools(tools: &Tools) -> Vec<Rule> {
    let exec = &tools.exec;
    vec![
        (
            "tools.max_output",
            tools.max_output >= 1_000,
            "expected at least 1000 characters",
        ),
        (
            "tools.trusted_hosts",
            tools.trusted_hosts.iter().all(|host| {
                is_host(host.strip_prefix("*.").unwrap_or(host)) && !host.contains(':')
            }),
            "expected hosts such as `git.example.org` or `*.example.org`",
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
    ]
}

fn web(tools: &Tools) -> Vec<Rule> {
    let web = &tools.web;
    vec![
        (
            "tools.web.allow",
            web.allow.iter().all(|host| is_host(host)),
            "expected hosts: `nas.lan`, `127.0.0.1:8931`",
        ),
        (
            "tools.web.ports",
            !web.ports.contains(&0),
            "expected ports, 1 to 65535",
        ),
        (
            "tools.web.search_url",
            is_http(&web.search_url)
                || (web.search_url.is_empty() && web.search != SearchEngine::Searxng),
            "expected the address of your SearXNG, which begins with https:// or http://",
        ),
        (
            "tools.web.search_url",
            web.search != SearchEngine::Brave
                || web.search_url.is_empty()
                || is_private_way(&web.search_url),
            "the key of Brave is sent to https:// only (or http:// on this machine)",
        ),
        (
            "tools.web.search_key_env",
            is_variable(&web.search_key_env),
            NO_VARIABLE,
        ),
    ]
}

fn media(media: &Media) -> Vec<Rule> {
    vec![
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
    ]
}

fn session(session: &Session) -> Vec<Rule> {
    vec![
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
    ]
}

fn subagents(subagents: &Subagents) -> Vec<Rule> {
    vec![
        (
            "subagents.timeout_secs",
            (1..=subagents.max_timeout_secs).contains(&subagents.timeout_secs),
            "expected 1 to `subagents.max_timeout_secs`",
        ),
        ("subagents.max_turns", subagents.max_turns >= 1, AT_LEAST_1),
    ]
}

fn callback(callback: &Callback) -> Vec<Rule> {
    let Callback { url, token_env } = callback;
    vec![
        (
            "callback.url",
            url.is_empty() || is_private_way(url),
            "expected an address that begins with https:// (http:// on this machine only), or nothing",
        ),
        (
            "callback.token_env",
            token_env.is_empty() || is_variable(token_env),
            NO_VARIABLE,
        ),
    ]
}

fn amounts(config: &Config) -> Vec<Rule> {
    let cost = &config.cost;
    vec![
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
    ]
}

fn backup(backup: &Backup) -> Vec<Rule> {
    // The programs take them as arguments.
    let is_age = |key: &String| key.starts_with("age1") || key.starts_with("ssh-");
    let is_gpg = |key: &String| !key.trim().is_empty() && !key.starts_with('-');
    vec![
        (
            "backup.age",
            backup.age.iter().all(is_age),
            "expected recipients of age: `age1…`, or a public key `ssh-…`",
        ),
        (
            "backup.gpg",
            backup.gpg.iter().all(is_gpg),
            "expected keys of gpg: fingerprints or addresses",
        ),
        (
            "backup.gpg",
            backup.age.is_empty() || backup.gpg.is_empty(),
            "expected none, because `backup.age` names recipients: one program encrypts",
        ),
    ]
}

fn memory(memory: &Memory) -> Vec<Rule> {
    let (embeddings, recall) = (&memory.embeddings, &memory.recall);
    vec![
        (
            "memory.recall.max_tokens",
            recall.max_tokens == 0 || (200..=20_000).contains(&recall.max_tokens),
            "expected 200 to 20000 tokens, or 0 for none",
        ),
        (
            "memory.recall.episode_header",
            recall.episode_header.chars().count() <= 100
                && !recall.episode_header.contains(char::is_control),
            "expected one line of at most 100 characters",
        ),
        (
            "memory.recall.decay_per_day",
            (0.0..=1.0).contains(&recall.decay_per_day),
            "expected 0 to 1",
        ),
        (
            "memory.vector_weight",
            memory
                .vector_weight
                .is_none_or(|share| (0.0..=1.0).contains(&share)),
            "expected 0 to 1",
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
    ]
}

/// The valid names of tool servers, in words.
pub const SERVER_NAME: &str =
    "a server is called by a letter, then letters, digits or `_`, at most 24 in all";

/// Returns true for what a tool server may be called.
pub fn is_server_name(name: &str) -> bool {
    name.len() <= 24
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
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
        ..
    } = server;
    let is_program = command.first().is_none_or(|program| !program.is_empty())
        && !command.iter().any(|word| word.contains('\0'));
    let is_hash = trust
        .strip_prefix("sha256:")
        .is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()));
    let rules = [
        ("", is_server_name(name), SERVER_NAME),
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
        .chain(more_of_server(server))
        .find(|(_, good, _)| !good)
        .map(|(key, _, message)| (key, message))
}

/// What a tool server may ask of a model, and how one signs in there.
fn more_of_server(server: &McpServer) -> [(&'static str, bool, &'static str); 6] {
    let McpServer {
        url,
        client_id,
        client_secret_env,
        redirect_port,
        issuer,
        ..
    } = server;
    let is_plain = client_id.bytes().all(|byte| byte.is_ascii_graphic());
    [
        (
            "client_id",
            client_id.is_empty() || (!url.is_empty() && is_plain),
            "expected who you are where one signs in for `url`",
        ),
        (
            "client_secret_env",
            client_secret_env.is_empty() || is_variable(client_secret_env),
            NO_VARIABLE,
        ),
        (
            "client_id",
            !client_id.is_empty() || (client_secret_env.is_empty() && *redirect_port == 0),
            "`client_secret_env` and `redirect_port` belong to a client of your own: write its `client_id`",
        ),
        (
            "issuer",
            issuer.is_empty() || (!url.is_empty() && is_private_way(issuer)),
            "expected the address where one signs in for `url`: https:// (or http:// on this machine)",
        ),
        (
            "sampling_tokens",
            (1..=100_000).contains(&server.sampling_tokens),
            "expected 1 to 100000 tokens",
        ),
        (
            "sampling_usd",
            (0.000_001..=1000.0).contains(&server.sampling_usd),
            "expected US dollars, more than 0 and at most 1000",
        ),
    ]
}

/// A path that stays below where it begins.
fn is_below(path: &str) -> bool {
    !path.is_empty()
        && Path::new(path)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)))
}

const AT_LEAST_1: &str = "expected at least 1";
const A_SECOND: &str = "expected at least 1 second";
const NO_SIZE: &str = "expected at least 1000 tokens, or 0 for the preset's";

/// More than any known model's vectors have.
const MAX_DIMS: u32 = 16_384;
const NO_AMOUNT: &str = "expected US dollars, 0 or more (0 = no cap)";
const NO_DIRECTORY: &str = "expected absolute paths, none of them `/` or in /proc, /sys or /dev";
const NO_PROMPT: &str =
    "expected names of 1 to 64 letters, digits, `_` or `-`: `Memory` means Memory.md";

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

/// What the HTTP API answers, or may one day.
fn is_path_of_api(path: &str) -> bool {
    ["/api/", "/v1/", "/hooks/"]
        .iter()
        .any(|of_api| path.starts_with(of_api))
        || ["/metrics", "/openapi.json"].contains(&path)
}
