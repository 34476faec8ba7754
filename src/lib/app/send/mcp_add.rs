//! `--mcp add`: a tool server is written into agent.toml, started by the daemon, shown, and trusted on the owner's word.
//!
//! ```text
//! agent-send --mcp add files writes=/srv/notes -- npx -y @modelcontextprotocol/server-filesystem /srv/notes
//! agent-send --mcp add tracker url=https://mcp.example.com/mcp token_env=TRACKER_TOKEN
//! agent-send --mcp add - < mcp.json          {"mcpServers": {"files": {"command": "npx", "args": […], "env": {…}}}}
//! ```
//! Secrets of a pasted document go into `.env`; agent.toml names them.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::{mcp, submit};
use crate::app::cli::{self, Exit, Failure};
use crate::app::daemon;
use crate::app::render::Context;
use crate::config::{self, Config, Secrets};
use crate::mcp::{Off, ServerStatus};
use crate::secret::Secret;
use crate::trust::approved_hashes::Decision;
use crate::{clock, logging, text};

/// A start may take 20 s, and a package may be fetched first.
const START_WAIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(200);
/// Fields of a server in a document that are read, or say nothing that is needed.
const FIELDS: [&str; 12] = [
    "command",
    "args",
    "env",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "type",
    "transport",
    "disabled",
    "name",
    "description",
];
/// The largest document.
const MAX_JSON: u64 = 1 << 20;
/// What fetches packages, and from where.
const FETCHERS: [(&str, &[&str]); 4] = [
    ("npx", &["registry.npmjs.org"]),
    ("bunx", &["registry.npmjs.org"]),
    ("uvx", &["pypi.org", "files.pythonhosted.org"]),
    ("pipx", &["pypi.org", "files.pythonhosted.org"]),
];

/// A server to write down.
#[derive(Debug, Clone, Default, PartialEq)]
struct Entry {
    name: String,
    /// Its keys in agent.toml.
    keys: toml::Table,
    /// What goes into `.env`.
    secrets: Vec<(String, String)>,
    /// Fields of the document that agent.toml has no key for.
    left_out: Vec<String>,
}

pub(super) fn add(
    context: &Context<'_>,
    words: &[String],
    program: &[String],
) -> Result<Exit, Failure> {
    let home = context.home;
    cli::may_write(home)?;
    let entries = match words {
        [file] if program.is_empty() => parse_document(&read(file)?).map_err(usage)?,
        [name, keys @ ..] => vec![parse_words(name, keys, program).map_err(usage)?],
        [] => return Err(usage("--mcp add takes a name and a command".to_owned())),
    };
    let has_no_name = |entry: &&Entry| !config::is_server_name(&entry.name);
    if let Some(entry) = entries.iter().find(has_no_name) {
        return Err(usage(format!("{:?}: {}", entry.name, config::SERVER_NAME)));
    }
    let config = config::load_config(home, context.env)?;
    if let Some(entry) = entries
        .iter()
        .find(|entry| config.mcp.servers.contains_key(&entry.name))
    {
        let what = format!("[mcp.servers.{}] is in agent.toml already", entry.name);
        return Err(Failure::data(what)
            .hint("choose another name, or edit agent.toml and send the daemon SIGHUP"));
    }
    // A damaged file of trust is set aside; that must be seen.
    let _guard = logging::init(&logging::Options::stderr_only(false));
    write(context, &config, &entries)?;
    let is_running = submit::reload(home)?;
    let mut shown = Vec::new();
    let mut exit = Exit::Ok;
    for entry in &entries {
        let status = match is_running {
            true => started(context, &entry.name)?,
            false => None,
        };
        if !context.json {
            let shown = show(context, entry, status.as_ref(), is_running)?;
            exit = if exit == Exit::Ok { shown } else { exit };
        }
        let status = status.as_ref();
        shown.push(json!({
            "name": entry.name,
            "left_out": entry.left_out,
            "sha256": status.and_then(|status| Some(&status.offer.as_ref()?.sha256)),
            "broken": status.and_then(|status| status.broken.as_ref()),
        }));
    }
    if context.json {
        cli::json(&json!({"added": shown, "running": is_running}));
    }
    Ok(exit)
}

fn usage(what: String) -> Failure {
    Failure::usage(what).hint("agent-send --mcp --help")
}

fn read(file: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let fail = |error: std::io::Error| Failure::io(format!("cannot read {file}: {error}"));
    let read = match file {
        "-" => std::io::stdin()
            .lock()
            .take(MAX_JSON)
            .read_to_end(&mut bytes),
        path => std::fs::File::open(path)
            .and_then(|opened| opened.take(MAX_JSON).read_to_end(&mut bytes)),
    };
    read.map_err(fail)?;
    Ok(bytes)
}

/// Reads `NAME KEY=VALUE … -- COMMAND …`.
fn parse_words(name: &str, words: &[String], program: &[String]) -> Result<Entry, String> {
    let mut keys = toml::Table::new();
    if !program.is_empty() {
        keys.insert("command".to_owned(), program.to_vec().into());
    }
    let list = |value: &str| value.split(',').map(str::to_owned).collect::<Vec<_>>();
    for word in words {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| format!("{word:?} is not KEY=VALUE; the command comes after --"))?;
        let value: toml::Value = match key {
            "network" => match value {
                "true" => true.into(),
                "false" => false.into(),
                hosts => allow(&list(hosts)),
            },
            "reads" | "writes" => list(value)
                .iter()
                .map(|path| absolute(path))
                .collect::<Vec<_>>()
                .into(),
            "env" => list(value).into(),
            "url" | "token_env" | "client_id" | "client_secret_env" | "issuer" => value.into(),
            "redirect_port" => {
                let port = value
                    .parse::<u16>()
                    .map_err(|_| format!("no port: {value:?}"))?;
                i64::from(port).into()
            }
            other => {
                return Err(format!(
                    "no key {other:?}: network, reads, writes, env, url, token_env, client_id, client_secret_env, redirect_port, issuer"
                ));
            }
        };
        keys.insert(key.to_owned(), value);
    }
    if keys.contains_key("command") == keys.contains_key("url") {
        return Err("a server needs a command after --, or url=ADDRESS".to_owned());
    }
    let keys = with_registry(keys);
    Ok(Entry {
        name: name.to_owned(),
        keys,
        ..Entry::default()
    })
}

fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path));
    absolute.to_string_lossy().into_owned()
}

fn allow(hosts: &[String]) -> toml::Value {
    let table = toml::Table::from_iter([("allow".to_owned(), hosts.to_vec().into())]);
    table.into()
}

/// Gives what fetches packages the hosts of its registry, unless the network is said.
fn with_registry(mut keys: toml::Table) -> toml::Table {
    let first = keys.get("command").and_then(|command| command.get(0));
    let program = first.and_then(toml::Value::as_str).unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    let hosts = FETCHERS.iter().find(|(fetcher, _)| *fetcher == name);
    if let Some((_, hosts)) = hosts
        && !keys.contains_key("network")
    {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        keys.insert("network".to_owned(), allow(&hosts));
    }
    keys
}

/// Reads a document as other programs have it: `mcpServers`, or VS Code's `servers`, or the servers alone.
fn parse_document(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    let document: Value = text::json::parse(bytes)
        .map_err(|error| format!("this is not JSON with \"mcpServers\": {error}"))?;
    let servers = ["mcpServers", "servers"]
        .iter()
        .find_map(|key| document.get(key))
        .unwrap_or(&document);
    let servers = servers.as_object().filter(|servers| !servers.is_empty());
    let servers = servers.ok_or("there is no server in \"mcpServers\"")?;
    let is_on = |server: &&Value| server["disabled"] != true;
    let servers = servers.iter().filter(|(_, server)| is_on(server));
    let entries: Result<Vec<Entry>, String> = servers
        .map(|(name, server)| parse_server(name, server))
        .collect();
    match entries {
        Ok(entries) if entries.is_empty() => {
            Err("every server in \"mcpServers\" is disabled".to_owned())
        }
        entries => entries,
    }
}

fn parse_server(name: &str, server: &Value) -> Result<Entry, String> {
    let wrong = |what: &str| Err(format!("{}: {what}", text::visible(name)));
    if ["type", "transport"]
        .iter()
        .any(|key| server[*key] == "sse")
    {
        return wrong(
            "it speaks the older transport \"sse\"; the address of its Streamable HTTP is needed",
        );
    }
    let words = |key: &str| -> Option<Vec<String>> {
        let words = server.get(key)?.as_array()?;
        words
            .iter()
            .map(|word| word.as_str().map(str::to_owned))
            .collect()
    };
    let mut keys = toml::Table::new();
    let mut secrets = Vec::new();
    let own = own_name(name);
    let url = ["url", "serverUrl", "httpUrl"]
        .iter()
        .find_map(|key| server[key].as_str());
    match (server["command"].as_str(), url) {
        (Some(program), None) => {
            let mut command = vec![program.to_owned()];
            if !server["args"].is_null() {
                let Some(arguments) = words("args") else {
                    return wrong("`args` must be a list of strings");
                };
                command.extend(arguments);
            }
            keys.insert("command".to_owned(), command.into());
        }
        (None, Some(url)) => drop(keys.insert("url".to_owned(), url.into())),
        _ => return wrong("it needs `command` or `url`"),
    }
    let empty = Map::new();
    let env = server["env"].as_object().unwrap_or(&empty);
    for (variable, value) in env {
        let Some(value) = value.as_str() else {
            return wrong("the values of `env` must be strings");
        };
        let value = without_end(value);
        if !is_reference(value) {
            secrets.push((variable.clone(), value.to_owned()));
        }
    }
    if !env.is_empty() {
        let names: Vec<String> = env.keys().cloned().collect();
        keys.insert("env".to_owned(), names.into());
    }
    for (header, value) in server["headers"].as_object().unwrap_or(&empty) {
        let token = value
            .as_str()
            .and_then(|value| value.strip_prefix("Bearer "));
        let Some(token) = token.filter(|_| header.eq_ignore_ascii_case("authorization")) else {
            return wrong("of `headers` only \"Authorization\": \"Bearer TOKEN\" is known");
        };
        let variable = format!("{}_TOKEN", own.to_ascii_uppercase());
        let token = without_end(token);
        if !is_reference(token) {
            secrets.push((variable.clone(), token.to_owned()));
        }
        keys.insert("token_env".to_owned(), variable.into());
    }
    let fields = server.as_object().unwrap_or(&empty).keys();
    let left_out = fields.filter(|field| !FIELDS.contains(&field.as_str()));
    Ok(Entry {
        name: own,
        keys: with_registry(keys),
        secrets,
        left_out: left_out.map(|field| text::visible(field)).collect(),
    })
}

/// Returns a name as agent.toml takes it.
fn own_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let name = match name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        true => name,
        false => format!("s{name}"),
    };
    name.chars().take(24).collect()
}

/// A secret has no newlines at its end ([`Secrets::get`]).
fn without_end(value: &str) -> &str {
    value.trim_end_matches(['\n', '\r'])
}

/// `${VARIABLE}`, `${env:VARIABLE}`, or nothing: its value is elsewhere.
fn is_reference(value: &str) -> bool {
    value.is_empty() || (value.starts_with("${") && value.ends_with('}'))
}

/// Writes the servers down, all or none of them.
fn write(context: &Context<'_>, config: &Config, entries: &[Entry]) -> Result<(), Failure> {
    let home = context.home;
    let secrets: Vec<(String, String)> = entries
        .iter()
        .flat_map(|entry| entry.secrets.clone())
        .collect();
    let known = Secrets::open(home, context.env)?;
    if let Some(what) = unwanted(config, &known, &secrets)? {
        return Err(Failure::data(what).hint(format!(
            "nothing was changed; rename it in the document, or edit {}",
            home.env_file().display()
        )));
    }
    let env_file = config::with_secrets(home, &secrets)?;
    let sections: Vec<String> = entries.iter().map(section).collect();
    let path = home.config_file();
    let before = std::fs::read_to_string(path).unwrap_or_default();
    daemon::append(home, &sections.join("\n"))?;
    // As a reload reads them: one that the daemon would refuse changes nothing.
    let accepted = config::load(home, context.env, &[]).map_err(Failure::from);
    let written = accepted.and_then(|_| match secrets.is_empty() {
        true => Ok(()),
        false => daemon::write_settings(&home.env_file(), &env_file),
    });
    if written.is_err() {
        daemon::write_settings(path, &before)?;
    }
    written
}

/// Returns why one of the secrets of a document must not be written: it would take the place of another, or whoever
/// wrote the document would know what lets people in here.
fn unwanted(
    config: &Config,
    known: &Secrets,
    secrets: &[(String, String)],
) -> Result<Option<String>, Failure> {
    let hooks = config.http.hooks.iter();
    let doors: Vec<String> = hooks
        .map(|(name, hook)| hook.secret_name(name))
        .chain([
            config.http.token_env.clone(),
            config.telegram.token_env.clone(),
            config.callback.token_env.clone(),
        ])
        .collect();
    let mut given = BTreeMap::new();
    for (name, value) in secrets {
        let there = known.get(name)?;
        let before = given.insert(name, value);
        let there = there.as_ref().map(Secret::expose);
        match there.or(before.map(String::as_str)) {
            Some(other) if other != value => {
                return Ok(Some(format!("{name} has another value already")));
            }
            None if doors.contains(name) => {
                return Ok(Some(format!("{name} is a secret of the agent itself")));
            }
            _ => {}
        }
    }
    Ok(None)
}

fn section(entry: &Entry) -> String {
    let keys = entry.keys.iter();
    let lines = keys.map(|(key, value)| format!("{key} = {value}\n"));
    format!(
        "[mcp.servers.{}]\n{}",
        entry.name,
        lines.collect::<String>()
    )
}

/// Waits until the daemon has asked a server; `None` when it did not in time.
fn started(context: &Context<'_>, name: &str) -> Result<Option<ServerStatus>, Failure> {
    let until = Instant::now() + START_WAIT;
    loop {
        let status = mcp::standings(context)?
            .into_iter()
            .find(|one| one.name == name);
        let is_asked =
            |status: &ServerStatus| status.off != Some(Off::Unseen) || status.broken.is_some();
        if let Some(status) = status.filter(is_asked) {
            return Ok(Some(status));
        }
        if Instant::now() > until {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Shows a server that was added, and trusts it when the owner says so.
fn show(
    context: &Context<'_>,
    entry: &Entry,
    status: Option<&ServerStatus>,
    is_running: bool,
) -> Result<Exit, Failure> {
    let name = &entry.name;
    cli::out(section(entry).trim_end());
    for (variable, _) in &entry.secrets {
        cli::out(&format!(
            "{variable} is in {}",
            context.home.env_file().display()
        ));
    }
    if !entry.left_out.is_empty() {
        cli::err(&format!(
            "agent-send: {name}: left out, as agent.toml has no such key: {}",
            entry.left_out.join(", ")
        ));
    }
    let Some(status) = status else {
        let when = match is_running {
            true => "it has not answered yet",
            false => "it is started with the daemon",
        };
        cli::err(&format!(
            "agent-send: {name}: {when}; then: agent-send --mcp list"
        ));
        return Ok(if is_running { Exit::TryAgain } else { Exit::Ok });
    };
    mcp::lines(status).iter().for_each(|line| cli::out(line));
    let (Some(offer), Some(exactly)) = (&status.offer, mcp::exactly(status)) else {
        cli::err(&format!(
            "agent-send: {name} does not work yet; change its section of agent.toml and send the daemon SIGHUP"
        ));
        return Ok(Exit::Failed);
    };
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Ok(Exit::Ok);
    }
    let question = "Trust these tools? Their descriptions are instructions to the model.";
    if cli::confirms(&format!("{question} ({exactly})"))? {
        let trusted = crate::mcp::approved_hashes(&context.home.trusted_servers());
        trusted.decide(name, Decision::Trust(offer.sha256.clone()), clock::now_ms())?;
        cli::out(&format!("{name} is trusted as it is now"));
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn words_are_a_section() {
        let entry = parse_words(
            "files",
            &words(&["writes=/srv/a,/srv/b", "env=KEY"]),
            &words(&["npx", "-y", "@x/files", "/srv/a"]),
        );
        assert_eq!(
            section(&entry.expect("good")),
            "[mcp.servers.files]\ncommand = [\"npx\", \"-y\", \"@x/files\", \"/srv/a\"]\nenv = [\"KEY\"]\n\
             network = { allow = [\"registry.npmjs.org\"] }\nwrites = [\"/srv/a\", \"/srv/b\"]\n"
        );
        let entry = parse_words(
            "a",
            &words(&["network=a.example,b.example:80"]),
            &words(&["npx"]),
        );
        assert!(
            section(&entry.expect("good"))
                .contains("network = { allow = [\"a.example\", \"b.example:80\"] }")
        );
        for (keys, program) in [
            (&[][..], &[][..]),
            (&["url=https://a.example"], &["npx"]),
            (&["colour=red"], &["npx"]),
            (&["npx"], &[]),
        ] {
            assert!(
                parse_words("a", &words(keys), &words(program)).is_err(),
                "{keys:?}"
            );
        }
    }

    #[test]
    fn a_document_of_another_program_is_read_and_its_secrets_kept_apart() {
        let document = br#"{"mcpServers": {
            "my-files": {"command": "/opt/files", "args": ["--quiet"], "env": {"KEY": "s3cret", "OTHER": "${OTHER}"}},
            "2nd": {"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer t0ken"}},
            "there": {"command": "/opt/there", "cwd": "/srv", "envFile": ".env", "disabled": false},
            "off": {"command": "x", "disabled": true}
        }}"#;
        let entries = parse_document(document).expect("good");
        let sections: Vec<String> = entries.iter().map(section).collect();
        assert_eq!(
            sections,
            [
                "[mcp.servers.my_files]\ncommand = [\"/opt/files\", \"--quiet\"]\nenv = [\"KEY\", \"OTHER\"]\n",
                "[mcp.servers.s2nd]\ntoken_env = \"S2ND_TOKEN\"\nurl = \"https://a.example/mcp\"\n",
                "[mcp.servers.there]\ncommand = [\"/opt/there\"]\n",
            ]
        );
        let left_out: Vec<usize> = entries.iter().map(|entry| entry.left_out.len()).collect();
        assert_eq!(left_out, [0, 0, 2]);
        assert_eq!(entries[2].left_out, ["cwd", "envFile"]);
        assert_eq!(
            entries[0].secrets,
            [("KEY".to_owned(), "s3cret".to_owned())]
        );
        assert_eq!(
            entries[1].secrets,
            [("S2ND_TOKEN".to_owned(), "t0ken".to_owned())]
        );
        for bad in [
            &b"{"[..],
            b"[]",
            b"{}",
            br#"{"mcpServers": {"a": {}}}"#,
            br#"{"mcpServers": {"a": {"command": "x", "disabled": true}}}"#,
            br#"{"mcpServers": {"a": {"type": "sse", "url": "https://x"}}}"#,
            br#"{"mcpServers": {"a": {"command": "x", "args": "y"}}}"#,
            br#"{"mcpServers": {"a": {"url": "https://x", "headers": {"X-Key": "1"}}}}"#,
        ] {
            assert!(
                parse_document(bad).is_err(),
                "{}",
                String::from_utf8_lossy(bad)
            );
        }
    }
}
