//! The tools of tool servers: a tool of ours for each tool that the owner trusts.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::changed_files::{Change, ChangedFiles};
use super::network;
use super::server_pictures;
use super::server_questions::Questions;
use crate::agent::{Context, Question, Reach, Rights, Shown, Tool, ToolOutput};
use crate::audit;
use crate::clock;
use crate::llm::Client;
use crate::mcp::{Answer, Caller, File, Kind, Offered, Server, Servers};
use crate::message::ToolPicture;
use crate::provider::{BoxFuture, ToolSpec};
use crate::session::addresses;
use crate::trust::Provenance;

/// Names that no server may use in addition to those of our tools: what models call the shell, and the tool that
/// tells about rare ones.
const KEPT: [&str; 2] = ["bash", "more_tools"];

/// Where files of their answers are kept, in a folder for each server: `send_media` sends them from there, and they go
/// as old files of the inbox do.
pub const SERVER_FILES: &str = "outbox/servers";
/// The most bytes that the files of one server may have together.
const MAX_KEPT: u64 = 64 << 20;

/// Returns the tools of `servers` that may be used now.
/// `files` are those of the workspace: what a server changes there is marked, and what may be changed outside of a call of
/// it counts as marked.
pub fn of_servers(
    servers: &Servers,
    files: &ChangedFiles,
    (audit, client, downloads): (&audit::Log, &Arc<Client>, &Path),
) -> Vec<Arc<dyn Tool>> {
    let tool = |(server, sha256, offered): (Arc<Server>, String, Offered)| -> Arc<dyn Tool> {
        if let Some((since, writes)) = server.writes_since() {
            files.note_server(server.name(), since, writes);
        }
        let spec = ToolSpec {
            name: offered.name.clone().into(),
            description: offered.summary().into(),
            schema: offered.parameters().into(),
        };
        Arc::new(ServerTool {
            files: files.clone(),
            may_write: server.may_write(),
            server,
            sha256,
            remote: offered.remote,
            kind: offered.kind,
            read_only: offered.read_only,
            spec,
            audit: audit.clone(),
            client: client.clone(),
            downloads: downloads.to_owned(),
        })
    };
    servers.tools().into_iter().map(tool).collect()
}

/// Returns the names that no server's tool may have in addition to `ours`.
pub fn names_taken(ours: &[Arc<dyn Tool>]) -> HashSet<String> {
    ours.iter()
        .map(|tool| tool.spec().name.into_owned())
        .chain(KEPT.map(str::to_owned))
        .collect()
}

struct ServerTool {
    server: Arc<Server>,
    /// The files of the workspace.
    files: ChangedFiles,
    /// Whether it may change any of them.
    may_write: bool,
    /// What was trusted when it was offered.
    sha256: String,
    /// The server's name of it.
    remote: String,
    kind: Kind,
    /// Whether the server says that it changes nothing.
    read_only: bool,
    spec: ToolSpec,
    audit: audit::Log,
    /// The models that its server may ask, when the settings say so.
    client: Arc<Client>,
    /// Where pictures lie that models are shown.
    downloads: PathBuf,
}

impl ServerTool {
    /// Returns what is known of a call that may change files, before it. What the server changes later counts as what it
    /// changes within the call.
    async fn change(&self, began: i64, context: &Context) -> Change {
        let (files, server) = (self.files.clone(), self.server.clone());
        let is_wanted = context.marking().asked;
        let note = move || match server.writes_since() {
            Some((_, writes)) if !is_wanted => files.doubt_server(server.name(), began, writes),
            _ => files.settle_servers(),
        };
        crate::sys::blocking(note).await;
        let files = self.files.clone();
        let there = match self.may_write && context.untrusted {
            true => Some(crate::sys::blocking(move || files.there()).await),
            false => None,
        };
        Change {
            there,
            ..Change::default()
        }
    }

    async fn execute(&self, input: &Value, context: &Context) -> ToolOutput {
        let arguments = without_nulls(&self.spec.schema, input);
        let began = clock::now_ms();
        let change = self.change(began, context).await;
        let caller: Arc<dyn Caller> = Arc::new(Questions {
            server: self.server.name().to_owned(),
            tool: self.spec.name.to_string(),
            context: context.clone(),
            client: self.client.clone(),
            sampling: self.server.sampling(),
            count: Mutex::default(),
        });
        let mut output = match self
            .server
            .call(
                (&self.remote, self.kind),
                &self.sha256,
                &arguments,
                (&context.cancel, &caller),
            )
            .await
        {
            Ok(answer) => {
                let is_error = answer.is_error;
                let (text, pictures) = self.kept_files(answer, context).await;
                ToolOutput {
                    is_error,
                    pictures,
                    ..ToolOutput::ok(text)
                }
            }
            Err(why) => ToolOutput::error(why),
        };
        if self.may_write {
            let (files, context) = (self.files.clone(), context.clone());
            let mark = move || files.mark_since(began, context.marking(), &change);
            crate::sys::blocking(mark).await;
        }
        let visits = self.server.take_visits().await;
        network::record(
            &self.audit,
            network::audited(context, &self.spec.name),
            &visits,
        );
        for line in network::refusals(&visits) {
            output.text.push_str(&format!("\n{line}"));
        }
        // Why it failed is told in the server's words, too.
        output.marked(Some(Provenance::Server(self.server.name().to_owned())))
    }

    /// Returns the words of an answer, its files kept and named where they stood, and its pictures.
    async fn kept_files(&self, answer: Answer, context: &Context) -> (String, Vec<ToolPicture>) {
        if answer.files.is_empty() {
            return (answer.text(|_| String::new()), Vec::new());
        }
        let folder = Path::new(SERVER_FILES).join(self.server.name());
        let (files, context) = (self.files.clone(), context.clone());
        let downloads = self.downloads.clone();
        crate::sys::blocking(move || {
            let mut number = 0;
            let mut pictures = Vec::new();
            let text = answer.text(|file| {
                number += 1;
                let stem = format!("{}-{number}", clock::now_ms());
                let name = format!("{stem}.{}", extension(file));
                if file.what == "image" && pictures.len() < server_pictures::MAX_SHOWN {
                    let run = &context.run_id;
                    pictures.extend(server_pictures::keep(&downloads, run, &stem, &file.bytes));
                }
                kept(&files, &folder.join(name), file, &context)
            });
            (text, pictures)
        })
        .await
    }
}

/// Keeps a file of an answer, and returns what is said of it.
fn kept(files: &ChangedFiles, path: &Path, file: &File, context: &Context) -> String {
    let File {
        what,
        content_type,
        bytes,
    } = file;
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    let size = bytes.len();
    let result = match files.size_of(&folder) + size as u64 > MAX_KEPT {
        true => Err(format!(
            "{} would have more than {} MB",
            folder.display(),
            MAX_KEPT >> 20
        )),
        false => files.keep(path, bytes, context.marking()),
    };
    match result {
        Ok(()) => format!("[{what}, {content_type}, {size} bytes: {}]", path.display()),
        Err(why) => format!("[{what}, {content_type}, {size} bytes, not kept: {why}]"),
    }
}

/// Returns the ending of a file's name, by what the server says it is.
fn extension(file: &File) -> String {
    let words = file.content_type.split(';').next().unwrap_or_default();
    let last = words
        .rsplit(['/', '+', '.', '-'])
        .next()
        .unwrap_or_default();
    let plain: String = last
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(8)
        .collect();
    match plain.to_ascii_lowercase().as_str() {
        "" | "stream" => "bin".to_owned(),
        "jpeg" => "jpg".to_owned(),
        "mpeg" => "mp3".to_owned(),
        "plain" => "txt".to_owned(),
        plain => plain.to_owned(),
    }
}

/// The ends of names of fields whose value is an address, also without a scheme; more of them end with an `s`.
const NAMES_ADDRESS: [&str; 16] = [
    "url",
    "uri",
    "link",
    "href",
    "domain",
    "host",
    "hostname",
    "fqdn",
    "site",
    "page",
    "endpoint",
    "address",
    "addresses",
    "server",
    "target",
    "origin",
];

/// Returns the address in arguments; where there are others next to it, all of them, which together were read nowhere. `None`
/// without an address that has a scheme or stands where one is expected.
fn address_in(input: &Value) -> Option<String> {
    let mut texts = Vec::new();
    strings(input, false, &mut texts);
    let mut any = false;
    let mut found = Vec::new();
    for (text, is_expected) in texts {
        let there: Vec<&str> = addresses(text).collect();
        any |= there
            .iter()
            .any(|address| is_expected || address.contains("://"));
        found.extend(there);
    }
    any.then(|| found.join(" "))
}

/// Adds the texts in a value, with whether an address is expected there, and the names of its fields.
fn strings<'a>(value: &'a Value, is_expected: bool, texts: &mut Vec<(&'a str, bool)>) {
    match value {
        Value::String(text) => texts.push((text, is_expected)),
        Value::Array(items) => items
            .iter()
            .for_each(|item| strings(item, is_expected, texts)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            let lower = name.to_ascii_lowercase();
            texts.push((name, false));
            let one = lower.strip_suffix('s').unwrap_or(&lower);
            let mut ends = NAMES_ADDRESS.iter();
            let is_expected = ends.any(|end| lower.ends_with(end) || one.ends_with(end));
            strings(value, is_expected, texts);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the arguments without the nulls that models write for what they leave out: most servers take
/// them for a value.
fn without_nulls(schema: &Value, input: &Value) -> Value {
    let Value::Object(fields) = input else {
        return json!({});
    };
    let takes_null = |name: &str| {
        let required = schema.get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let kept = fields
        .iter()
        .filter(|(name, value)| !value.is_null() || takes_null(name));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect::<Map<String, Value>>()
        .into()
}

impl Tool for ServerTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    /// A server may say so of a tool, and nobody could hold it to its word.
    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn shown(&self) -> Shown {
        Shown::WhileItFits
    }

    /// The owner trusts the server, and so what it says of its tools. Nobody has seen what it does with an address or the
    /// arguments of a prompt: to open an address changes nothing either, and tells its host all that stands in it.
    fn reach(&self, input: &Value, _context: &Context) -> Reach {
        let given = |name: &str| input.get(name).filter(|value| !value.is_null());
        match (self.kind, given("uri"), given("arguments")) {
            (Kind::Resources, Some(uri), _) => {
                Reach::Carries(uri.as_str().unwrap_or_default().to_owned())
            }
            (Kind::Prompts, _, Some(_)) => Reach::Acts,
            _ if self.read_only => address_in(input).map_or(Reach::Shows, Reach::Opens),
            _ => Reach::Acts,
        }
    }

    /// A list of resources names addresses that its server made.
    fn brings_pages(&self) -> bool {
        self.kind == Kind::Resources
    }

    /// What was asked to open one address may repeat no other that the model put together.
    fn brings_page(&self, input: &Value) -> bool {
        self.brings_pages() || self.read_only && address_in(input).is_some()
    }

    /// What a server brings may be the owner's.
    fn is_public(&self, _input: &Value) -> bool {
        false
    }

    fn server(&self) -> Option<&str> {
        Some(self.server.name())
    }

    fn question(&self, input: &Value, _context: &Context) -> Question {
        let question = Question::of(&self.spec.name, input);
        Question {
            bound_to: json!([question.bound_to, self.sha256]),
            ..question
        }
    }

    fn receipt(&self, _input: &Value, _answer: &str) -> Option<String> {
        Some(format!("called {}", self.spec.name))
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.execute(input, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_arguments_is_found_wherever_it_stands_and_with_others_beside_it() {
        let check = |input: Value, expected: Option<&str>| {
            assert_eq!(address_in(&input).as_deref(), expected, "{input}");
        };
        let page = "https://a.example/?q=1";
        check(json!({"url": page, "max_length": 500}), Some(page));
        check(json!({"urls": [{"u": page}]}), Some(page));
        check(json!({page: true}), Some(page));
        check(
            json!({"url": page, "note": "b.example/7731"}),
            Some("https://a.example/?q=1 b.example/7731"),
        );
        check(json!({"from": "bob@x.org", "q": "the plan"}), None);
        check(json!({"pageUrl": "a.example/?q=1"}), Some("a.example/?q=1"));
        check(json!({"url": "//a.example/?q=1"}), Some("//a.example/?q=1"));
        check(json!({"query": "what is example.org"}), None);
        for field in [
            "hostname",
            "Hosts",
            "domains",
            "website",
            "page",
            "fqdn",
            "server",
            "ipAddress",
            "addresses",
        ] {
            let input = json!({field: "7731.evil.example"});
            check(input, Some("7731.evil.example"));
        }
        check(
            json!({"page": "2", "host": "nas", "target": "the plan", "address": 1}),
            None,
        );
    }

    #[test]
    fn a_null_that_nobody_asked_for_is_not_sent() {
        let schema = json!({"type": "object", "required": ["a"]});
        let input = json!({"a": null, "b": null, "c": 0});
        assert_eq!(without_nulls(&schema, &input), json!({"a": null, "c": 0}));
    }
}
