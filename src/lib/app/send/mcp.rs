//! `--mcp`: which tool servers there are, what they offer, and which the owner trusts. Works without a
//! daemon, on what the daemon saw last; a running daemon sees the change with the next message.
//!
//! All words of a server are shown escaped, and what is hidden in them is named: they are what a model
//! would read.

use serde_json::{Map, Value, json};

use super::skill::{SHOWN, TrustVerb, distrusted};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::config;
use crate::config::{Config, Home};
use crate::mcp;
use crate::mcp::{Off, Offered, Seen, ServerStatus};
use crate::text;
use crate::text::hidden_chars;
use crate::trust::approved_hashes::{ApprovedHashes, Decision};
use crate::{clock, logging};

const MAX_NAMED: usize = 4;

pub(super) fn mcp(context: &Context<'_>, words: &[String]) -> Result<Exit, Failure> {
    let home = context.home;
    cli::must_be_there(home)?;
    let standings = standings(context)?;
    let verb = TrustVerb::parse("--mcp", words)?;
    let (TrustVerb::Trust(name, _) | TrustVerb::Distrust(name)) = verb else {
        list(&standings, context.json);
        return Ok(Exit::Ok);
    };
    cli::may_write(home)?;
    // A damaged file is set aside; that must be seen.
    let _guard = logging::init(&logging::Options::stderr_only(false));
    let standing = standings.iter().find(|standing| standing.name == name);
    let standing = standing.ok_or_else(|| {
        let message = format!("no tool server {:?}", text::visible(name));
        Failure::failed(message)
            .hint("agent-send --mcp lists them; agent-send --mcp add NAME -- COMMAND adds one")
    })?;
    let trusted = mcp::approved_hashes(&home.trusted_servers());
    if let TrustVerb::Trust(_, hash) = verb {
        return trust(context, &trusted, standing, hash.as_deref());
    }
    trusted.decide(name, Decision::Distrust, clock::now_ms())?;
    distrusted(context, name)
}

pub(super) fn standings(context: &Context<'_>) -> Result<Vec<ServerStatus>, Failure> {
    let config = config::load_config(context.home, context.env)?;
    Ok(statuses(context.home, &config))
}

/// Returns how the tool servers of the settings stand.
pub(in crate::app) fn statuses(home: &Home, config: &Config) -> Vec<ServerStatus> {
    let seen = Seen::read(&home.tool_servers());
    let trusted = mcp::approved_hashes(&home.trusted_servers()).read();
    let status = |(name, server): (&String, &config::McpServer)| {
        let identity = mcp::identity(&server.command, &server.url);
        mcp::status((name, &identity, &server.trust), &seen, &trusted)
    };
    config.mcp.servers.iter().map(status).collect()
}

fn trust(
    context: &Context<'_>,
    trusted: &ApprovedHashes,
    standing: &ServerStatus,
    listed: Option<&str>,
) -> Result<Exit, Failure> {
    let name = &standing.name;
    let Some(offer) = &standing.offer else {
        let why = standing
            .broken
            .as_deref()
            .unwrap_or("no daemon has asked it yet");
        return Err(Failure::failed(format!(
            "the tools of {name} are not known: {}",
            text::visible(why)
        ))
        .hint(
            "start the daemon, or send it SIGHUP when it runs, and look at agent-send --mcp list",
        ));
    };
    if let Some(listed) = listed
        && !offer.sha256.starts_with(listed)
    {
        let message = format!(
            "{name} offers something else than you name: now it is {}",
            exactly(standing).unwrap_or_default()
        );
        return Err(Failure::failed(format!("{message}; nothing was changed"))
            .hint("agent-send --mcp list"));
    }
    let decision = Decision::Trust(offer.sha256.clone());
    trusted.decide(name, decision, clock::now_ms())?;
    let count = offer
        .tools
        .iter()
        .filter(|tool| tool.refused.is_none())
        .count();
    let tools = if count == 1 {
        "its tool is".to_owned()
    } else {
        format!("its {count} tools are")
    };
    let words = format!(
        "{name} is trusted: {tools} offered from the next message on, until it offers something else"
    );
    Ok(context.done(&json!({"trusted": name, "sha256": offer.sha256}), &words))
}

/// Returns how a server is called that may only offer what it offers now.
pub(super) fn exactly(standing: &ServerStatus) -> Option<String> {
    let hash = standing.offer.as_ref()?.sha256.get(..SHOWN)?;
    Some(format!("{}@{hash}", standing.name))
}

fn list(standings: &[ServerStatus], json: bool) {
    if json {
        let servers: Vec<Value> = standings.iter().map(document).collect();
        cli::json(&json!({"servers": servers}));
        return;
    }
    if standings.is_empty() {
        cli::err("agent-send: no tool servers; agent-send --mcp add NAME -- COMMAND adds one");
    }
    standings
        .iter()
        .flat_map(lines)
        .for_each(|line| cli::out(&line));
}

pub(super) fn lines(standing: &ServerStatus) -> Vec<String> {
    let name = &standing.name;
    let mut lines = vec![match &standing.off {
        None => format!("on   {name}  {}", exactly(standing).unwrap_or_default()),
        Some(off) => {
            let exactly = exactly(standing).filter(|_| !matches!(off, Off::Unknown(_)));
            let next = exactly.map(|exactly| {
                format!("; once you have read it: agent-send --mcp trust {exactly}")
            });
            format!(
                "off  {name}  {}{}",
                text::visible(&off.to_string()),
                next.unwrap_or_default()
            )
        }
    }];
    lines.extend(
        standing
            .broken
            .iter()
            .map(|why| format!("     broken: {}", text::visible(why))),
    );
    // What it is broken by is its last failure.
    let past = standing
        .last_failure
        .iter()
        .filter(|_| standing.broken.is_none());
    lines.extend(past.map(|mcp::Failure { at, why }| {
        let at = clock::rfc3339(*at);
        format!("     failed last at {at}: {}", text::visible(why))
    }));
    for tool in standing.offer.iter().flat_map(|offer| &offer.tools) {
        lines.extend(of_tool(tool));
    }
    lines
}

fn of_tool(tool: &Offered) -> Vec<String> {
    let reads_only = if tool.read_only { " (reads only)" } else { "" };
    let name = text::visible(&tool.name) + reads_only;
    let mut lines = match &tool.refused {
        Some(why) => {
            vec![
                format!("     {name}: left out: {}", text::visible(why)),
                format!("       {}", shown(&tool.description)),
            ]
        }
        None => vec![format!("     {name}: {}", shown(&tool.description))],
    };
    let mut words = Vec::new();
    collect(&tool.parameters(), "", &mut words);
    lines.extend(
        words
            .iter()
            .map(|(path, words)| format!("       {}: {}", text::visible(path), shown(words))),
    );
    let mut all = vec![tool.description.as_str()];
    strings(&tool.schema, &mut all);
    let found: Vec<String> = all
        .iter()
        .flat_map(|words| hidden_chars::find(words, MAX_NAMED))
        .map(|hidden| hidden.to_string())
        .collect();
    if !found.is_empty() {
        let named = found
            .iter()
            .take(MAX_NAMED)
            .cloned()
            .collect::<Vec<_>>()
            .join("; ");
        lines.push(format!(
            "       hidden characters, which the model does not get: {named}"
        ));
    }
    lines
}

fn shown(words: &str) -> String {
    text::visible(&text::one_line(words))
}

/// Collects the parameters, and all words of a schema that a model reads, with their places.
fn collect(schema: &Value, path: &str, out: &mut Vec<(String, String)>) {
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, inner) in properties.into_iter().flatten() {
        let word = |key: &str| inner.get(key).and_then(Value::as_str);
        let kind = word("type").unwrap_or("any");
        let words = format!("{kind}. {}", word("description").unwrap_or_default());
        let words = words.trim_end_matches([' ', '.']).to_owned();
        out.push((below(name), words));
        collect(inner, &below(name), out);
    }
    for (key, inner) in schema.as_object().into_iter().flatten() {
        match key.as_str() {
            // These are said already.
            "properties" => {}
            "description" | "type" if !path.is_empty() && inner.is_string() => {}
            "type" if inner == "object" => {}
            "items" if inner.is_object() => {
                let words = inner.get("description").map(plain);
                out.extend(words.map(|words| (below(key), words)));
                collect(inner, &below(key), out);
            }
            "required" if names_properties(inner, properties) => {}
            _ => {
                let mut words = Vec::new();
                strings(inner, &mut words);
                if !words.is_empty() {
                    out.push((below(key), plain(inner)));
                }
            }
        }
    }
}

fn names_properties(required: &Value, properties: Option<&Map<String, Value>>) -> bool {
    let is_property = |name: &Value| {
        let name = name.as_str();
        name.is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)))
    };
    required
        .as_array()
        .is_some_and(|names| names.iter().all(is_property))
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn strings<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(words) => out.push(words),
        Value::Array(values) => values.iter().for_each(|value| strings(value, out)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            out.push(name);
            strings(value, out);
        }),
        _ => {}
    }
}

fn document(standing: &ServerStatus) -> Value {
    json!({
        "name": standing.name,
        "on": standing.off.is_none(),
        "why": standing.off.as_ref().map(ToString::to_string),
        "broken": standing.broken,
        "last_failure": standing.last_failure.as_ref().map(|failure| json!({
            "at": clock::rfc3339(failure.at), "why": failure.why,
        })),
        "sha256": standing.offer.as_ref().map(|offer| &offer.sha256),
        "tools": standing.offer.as_ref().map(|offer| &offer.tools),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Offer;

    #[test]
    fn every_word_that_a_model_would_read_is_shown_and_what_is_hidden_is_named() {
        let tool = Offered {
            name: "s_add".to_owned(),
            remote: "add".to_owned(),
            description: "Add\u{200b} it.\nThen \u{1b}[2Jmore.".to_owned(),
            schema: json!({
                "type": "object",
                "properties": {"a": {"type": "array", "description": "What.", "items": {"type": "object", "properties": {"b": {"type": "string", "description": "Deep.", "enum": ["x"]}}}}},
                "$defs": {"X": {"description": "Elsewhere."}}
            }),
            read_only: false,
            kind: mcp::Kind::Tool,
            refused: None,
        };
        let left = Offered {
            read_only: false,
            refused: Some("it has no name".to_owned()),
            name: "s_".to_owned(),
            ..tool.clone()
        };
        let reads = Offered {
            name: "s_list".to_owned(),
            description: "List them.".to_owned(),
            schema: json!({"type": "object"}),
            read_only: true,
            ..tool.clone()
        };
        let offer = Offer {
            sha256: "0123456789abcdef99".to_owned(),
            tools: vec![tool, left, reads],
        };
        let standing = ServerStatus {
            name: "s".to_owned(),
            off: Some(Off::Changed),
            broken: Some("it exited".to_owned()),
            last_failure: None,
            offer: Some(offer),
        };
        let expected = [
            "off  s  its tools have changed since you trusted it; once you have read it: agent-send --mcp trust s@0123456789abcdef",
            "     broken: it exited",
            "     s_add: Add\\u{200b} it. Then \\u{1b}[2Jmore.",
            "       a: array. What",
            "       a.items.b: string. Deep",
            "       a.items.b.enum: [\"x\"]",
            "       $defs: {\"X\":{\"description\":\"Elsewhere.\"}}",
            "       hidden characters, which the model does not get: 1:4 U+200B, which has no width; 2:6 U+001B, a control character",
            "     s_: left out: it has no name",
            "       Add\\u{200b} it. Then \\u{1b}[2Jmore.",
        ];
        let reads = "     s_list (reads only): List them.";
        let expected = expected.iter().chain(&expected[3..8]).chain([&reads]);
        let expected: Vec<&str> = expected.copied().collect();
        assert_eq!(lines(&standing), expected);
        // One that works again tells its last failure, so that one which hangs now and then is seen.
        let (at, why) = (1_700_000_000_000, "it hung".to_owned());
        let standing = ServerStatus {
            broken: None,
            last_failure: Some(mcp::Failure { at, why }),
            ..standing
        };
        assert_eq!(
            lines(&standing)[1],
            "     failed last at 2023-11-14T22:13:20.000Z: it hung"
        );
    }
}
