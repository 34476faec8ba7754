//! Resources (texts and files) and prompts of servers, offered as tools of ours. Their descriptions are our own text; text of
//! the server comes only as a result.

use std::collections::HashSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::client::{Client, MAX_PAGES};
use super::tool_list::{Offered, name_of};
use crate::net::server_text;

/// The most resources or prompts that are listed.
const MAX_LISTED: usize = 200;

/// What is called by way of a tool of ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A tool of the server.
    #[default]
    Tool,
    /// Its resources: texts and files that it has.
    Resources,
    /// Its prompts: texts that it makes for a task.
    Prompts,
}

impl Kind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(super) fn is_tool(&self) -> bool {
        *self == Self::Tool
    }
}

/// Returns the tools by which a model reads the resources and prompts of the server called `server`. Their words are ours
/// and the server's own come as results, so they are no part of the hash.
pub(super) fn tools(
    server: &str,
    kinds: &[Kind],
    tools: &[Offered],
    taken: &HashSet<String>,
) -> Vec<Offered> {
    let text = || json!({"type": "string"});
    let other = |kind: &Kind| {
        let (remote, description, properties) = match kind {
            Kind::Tool => return None,
            Kind::Resources => (
                "resources",
                "Read a resource (text or file) of this server by its address; without one: which there are.",
                json!({"uri": text()}),
            ),
            Kind::Prompts => (
                "prompts",
                "Get a prompt of this server, a text that it makes for a task; without a name: which there are.",
                json!({"name": text(), "arguments": {"type": "object"}}),
            ),
        };
        let name = name_of(server, remote);
        let is_free = !taken.contains(&name) && tools.iter().all(|tool| tool.name != name);
        is_free.then(|| Offered {
            name,
            remote: remote.to_owned(),
            description: description.to_owned(),
            schema: json!({"type": "object", "properties": properties}),
            read_only: true,
            kind: *kind,
            refused: None,
        })
    };
    kinds.iter().filter_map(other).collect()
}

impl Client {
    /// Reads a resource or gets a prompt, and returns it as the result of a tool.
    pub(super) async fn read_other(
        &self,
        kind: Kind,
        arguments: &Value,
        (limit, cancel): (Duration, &CancellationToken),
    ) -> Result<Value, Error> {
        let read = async {
            match kind {
                Kind::Resources => self.resource(arguments).await,
                Kind::Prompts | Kind::Tool => self.prompt(arguments).await,
            }
        };
        let read = cancel.run_until_cancelled(timeout(limit, read)).await;
        read.unwrap_or(Ok(Err(Error::Stopped)))
            .unwrap_or(Err(Error::Timeout(limit)))
    }

    /// Reads a resource, or with no address lists which there are; as the result of a tool.
    async fn resource(&self, arguments: &Value) -> Result<Value, Error> {
        if let Some(uri) = arguments["uri"].as_str().filter(|uri| !uri.is_empty()) {
            let params = json!({"uri": uri});
            let read = self.request("resources/read", &params).await?;
            let contents = read["contents"].as_array().into_iter().flatten();
            let blocks: Vec<Value> = contents
                .map(|content| json!({"type": "resource", "resource": content}))
                .collect();
            return Ok(json!({"content": blocks}));
        }
        let mut lines = self.named("resources/list", "resources", "uri").await?;
        // A server without templates may not know the method.
        let templates = self.named(
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        );
        lines.extend(templates.await.unwrap_or_default());
        Ok(as_text(&lines))
    }

    /// Gets a prompt, or with no name lists which there are; as the result of a tool.
    async fn prompt(&self, arguments: &Value) -> Result<Value, Error> {
        let Some(name) = arguments["name"].as_str().filter(|name| !name.is_empty()) else {
            let lines = self.named("prompts/list", "prompts", "name").await?;
            return Ok(as_text(&lines));
        };
        let mut params = json!({"name": name});
        if let Some(Value::Object(given)) = arguments.get("arguments") {
            // The protocol has texts only.
            let text = |value: &Value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            };
            let given = given
                .iter()
                .map(|(name, value)| (name.clone(), text(value).into()));
            params["arguments"] = Value::Object(given.collect());
        }
        let got = self.request("prompts/get", &params).await?;
        let messages = got["messages"].as_array().into_iter().flatten();
        let blocks = messages.flat_map(|message| {
            let role = json!({"type": "text", "text": format!("{}:", server_text(message["role"].as_str().unwrap_or_default()))});
            [role, message["content"].clone()]
        });
        Ok(json!({"content": blocks.collect::<Vec<Value>>()}))
    }

    /// Lists what has names, page by page: each with its title and description on a line.
    async fn named(&self, method: &str, list: &str, key: &str) -> Result<Vec<String>, Error> {
        let (mut lines, mut params) = (Vec::new(), json!({}));
        for _ in 0..MAX_PAGES {
            let page = self.request(method, &params).await?;
            for one in page[list].as_array().into_iter().flatten() {
                let field = |key: &str| server_text(one[key].as_str().unwrap_or_default());
                let arguments = one["arguments"].as_array().into_iter().flatten();
                let arguments: Vec<&str> =
                    arguments.filter_map(|one| one["name"].as_str()).collect();
                let arguments = match arguments.is_empty() {
                    true => String::new(),
                    false => format!(" (arguments: {})", server_text(&arguments.join(", "))),
                };
                let name = if key == "name" {
                    String::new()
                } else {
                    format!(" {}", field("name"))
                };
                lines.push(format!(
                    "{}{name}{arguments}: {}",
                    field(key),
                    field("description")
                ));
                if lines.len() == MAX_LISTED {
                    lines.push("(there are more)".to_owned());
                    return Ok(lines);
                }
            }
            match page["nextCursor"].as_str() {
                Some(cursor) if !cursor.is_empty() => params = json!({"cursor": cursor}),
                _ => break,
            }
        }
        Ok(lines)
    }
}

fn as_text(lines: &[String]) -> Value {
    let text = match lines.is_empty() {
        true => "(there are none)".to_owned(),
        false => lines.join("\n"),
    };
    json!({"content": [{"type": "text", "text": text}]})
}
