//! `--mcp`: which tool servers there are, what they offer, and which the owner trusts. Works without a
//! daemon, on what the daemon saw last; a running daemon sees the change with the next message.
//!
//! All words of a server are shown escaped, and what is hidden in them is named: they are what a model
//! would read.

use serde_json::{Value, json};

use super::skill::{SHOWN, hash_begins};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::config;
use crate::config::{Environment, Home};
use crate::mcp;
use crate::mcp::{Off, Offered, Seen, Standing, Trust};
use crate::text;
use crate::text::hidden_chars;
use crate::{clock, logging};

/// Hidden characters of one text that are named.
const MAX_NAMED: usize = 4;

pub(super) fn mcp(
    home: &Home,
    env: &Environment,
    words: &[String],
    json: bool,
) -> Result<Exit, Failure> {
    cli::must_be_there(home)?;
    let standings = standings(home, env)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["list"] => {
            list(&standings, json);
            Ok(Exit::Ok)
        }
        [verb @ ("trust" | "distrust"), name] => {
            let (name, listed) = match name.split_once('@') {
                Some((name, hash)) if *verb == "trust" => {
                    (name, Some(hash_begins(hash, "agent-send --mcp list")?))
                }
                _ => (*name, None),
            };
            cli::may_write(home)?;
            // A damaged file is set aside; that must be seen.
            let _guard = logging::init(&logging::Options::stderr_only(0, false));
            let standing = standings
                .iter()
                .find(|standing| standing.name == name)
                .ok_or_else(|| {
                    let message = format!("no tool server is called {}", text::visible(name));
                    Failure::new(Exit::Failed, message).hint(
                        "agent-send --mcp list; servers stand in agent.toml as [mcp.servers.NAME]",
                    )
                })?;
            let trust = Trust::new(&home.trusted_servers());
            match *verb {
                "trust" => say_yes(&trust, standing, listed.as_deref(), json),
                _ => say_no(&trust, standing, json),
            }
        }
        _ => Err(Failure::new(
            Exit::Usage,
            "--mcp takes list, trust NAME[@HASH] or distrust NAME",
        )
        .hint("agent-send --help")),
    }
}

/// Returns how each server of agent.toml stands.
fn standings(home: &Home, env: &Environment) -> Result<Vec<Standing>, Failure> {
    let config = config::load_config(home, env)?;
    let seen = Seen::read(&home.tool_servers());
    let trusted = Trust::new(&home.trusted_servers()).read();
    let standing = |(name, server): (&String, &config::McpServer)| {
        mcp::standing(
            (
                name,
                &mcp::identity(&server.command, &server.url),
                &server.trust,
            ),
            &seen,
            &trusted,
        )
    };
    Ok(config.mcp.servers.iter().map(standing).collect())
}

fn say_yes(
    trust: &Trust,
    standing: &Standing,
    listed: Option<&str>,
    json: bool,
) -> Result<Exit, Failure> {
    let name = &standing.name;
    let Some(offer) = &standing.offer else {
        let why = standing
            .broken
            .as_deref()
            .unwrap_or("no daemon has asked it yet");
        return Err(Failure::new(
            Exit::Failed,
            format!("nobody knows what {name} offers: {}", text::visible(why)),
        )
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
        return Err(
            Failure::new(Exit::Failed, format!("{message}; nothing was changed"))
                .hint("agent-send --mcp list"),
        );
    }
    trust.say(name, Some(offer.sha256.clone()), clock::now_ms())?;
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
    done(
        json,
        &json!({"trusted": name, "sha256": offer.sha256}),
        &words,
    );
    Ok(Exit::Ok)
}

fn say_no(trust: &Trust, standing: &Standing, json: bool) -> Result<Exit, Failure> {
    trust.say(&standing.name, None, clock::now_ms())?;
    done(
        json,
        &json!({"distrusted": standing.name}),
        &format!("{} is off from now on", standing.name),
    );
    Ok(Exit::Ok)
}

fn done(json: bool, document: &Value, words: &str) {
    if json {
        cli::json(document)
    } else {
        cli::out(words)
    }
}

/// Returns how a server is called that may only offer what it offers now.
fn exactly(standing: &Standing) -> Option<String> {
    let hash = standing.offer.as_ref()?.sha256.get(..SHOWN)?;
    Some(format!("{}@{hash}", standing.name))
}

fn list(standings: &[Standing], json: bool) {
    if json {
        let servers: Vec<Value> = standings.iter().map(document).collect();
        cli::json(&json!({"servers": servers}));
        return;
    }
    if standings.is_empty() {
        cli::err(
            "agent-send: there are no tool servers; they stand in agent.toml as [mcp.servers.NAME], see agent.toml(5)",
        );
    }
    standings
        .iter()
        .flat_map(lines)
        .for_each(|line| cli::out(&line));
}

fn lines(standing: &Standing) -> Vec<String> {
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
    for tool in standing.offer.iter().flat_map(|offer| &offer.tools) {
        lines.extend(of_tool(tool));
    }
    lines
}

fn of_tool(tool: &Offered) -> Vec<String> {
    let name = text::visible(&tool.name);
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
    text::visible(&words.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Collects the parameters, and all words of a schema that a model reads, with their places.
fn collect(schema: &Value, path: &str, out: &mut Vec<(String, String)>) {
    let Value::Object(fields) = schema else {
        return;
    };
    let below = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    let properties = fields.get("properties").and_then(Value::as_object);
    for (name, inner) in properties.into_iter().flatten() {
        let words = inner
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let kind = inner.get("type").and_then(Value::as_str).unwrap_or("any");
        out.push((
            below(name),
            format!("{kind}. {words}")
                .trim_end_matches([' ', '.'])
                .to_owned(),
        ));
        collect(inner, &below(name), out);
    }
    let mut schema_at = |inner: &Value, place: &str| {
        let words = inner.get("description").and_then(Value::as_str);
        out.extend(words.map(|words| (place.to_owned(), words.to_owned())));
        collect(inner, place, out);
    };
    if path.is_empty() {
        let words = fields
            .get("description")
            .map(|words| json!({"description": words}));
        words.iter().for_each(|words| schema_at(words, "(all)"));
    }
    let mut values = Vec::new();
    for (key, inner) in fields {
        match (key.as_str(), inner) {
            // These are said already, or are no words of the server's.
            ("properties" | "description" | "type", _) => {}
            ("$defs" | "definitions", Value::Object(named)) => {
                named
                    .iter()
                    .for_each(|(name, inner)| schema_at(inner, &below(&format!("{key}.{name}"))));
            }
            (
                "items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf",
                Value::Array(schemas),
            ) => {
                schemas
                    .iter()
                    .for_each(|inner| schema_at(inner, &below(key)));
            }
            ("items" | "additionalProperties", inner) => schema_at(inner, &below(key)),
            ("required", Value::Array(names)) => {
                let is_said = |name: &&Value| {
                    name.as_str()
                        .is_some_and(|name| properties.is_some_and(|all| all.contains_key(name)))
                };
                let others: Vec<&Value> = names.iter().filter(|name| !is_said(name)).collect();
                values
                    .extend((!others.is_empty()).then(|| (below(key), json!(others).to_string())));
            }
            (_, value) => {
                let mut words = Vec::new();
                strings(value, &mut words);
                values.extend((!words.is_empty()).then(|| (below(key), value.to_string())));
            }
        }
    }
    out.extend(values);
}

/// Collects every string in a value, names among them.
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

fn document(standing: &Standing) -> Value {
    json!({
        "name": standing.name,
        "on": standing.off.is_none(),
        "why": standing.off.as_ref().map(ToString::to_string),
        "broken": standing.broken,
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
            refused: None,
        };
        let left = Offered {
            refused: Some("it has no name".to_owned()),
            name: "s_".to_owned(),
            ..tool.clone()
        };
        let offer = Offer {
            sha256: "0123456789abcdef99".to_owned(),
            tools: vec![tool, left],
        };
        let standing = Standing {
            name: "s".to_owned(),
            off: Some(Off::Changed),
            broken: Some("it exited".to_owned()),
            offer: Some(offer),
        };
        let expected = [
            "off  s  it offers something else than you trusted; once you have read it: agent-send --mcp trust s@0123456789abcdef",
            "     broken: it exited",
            "     s_add: Add\\u{200b} it. Then \\u{1b}[2Jmore.",
            "       a: array. What",
            "       a.items.b: string. Deep",
            "       a.items.b.enum: [\"x\"]",
            "       $defs.X: Elsewhere.",
            "       hidden characters, which the model does not get: 1:4 U+200B, which has no width; 2:6 U+001B, a control character",
            "     s_: left out: it has no name",
            "       Add\\u{200b} it. Then \\u{1b}[2Jmore.",
        ];
        let expected: Vec<&str> = expected.iter().chain(&expected[3..8]).copied().collect();
        assert_eq!(lines(&standing), expected);
    }
}
