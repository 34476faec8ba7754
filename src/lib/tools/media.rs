//! `send_media` and `react`: files and a sign in the chat that is talked in.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::send_command::post;
use super::{Needs, output, text};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::control::Command;
use crate::control::attachments::{MAX_FILE, MAX_FILES};
use crate::message::Route;
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox::Root;

/// The only place whose files are sent (specification §6).
const OUTBOX: &str = "outbox";

pub(super) struct SendMedia(pub Arc<Needs>);

impl Tool for SendMedia {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "send_media".into(),
            description:
                "Send files of outbox/ into this chat: pictures, sounds, films, documents; several pictures are an album.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "paths": {"type": "array", "items": {"type": "string"}, "description": "such as outbox/plan.png"},
                    "caption": {"type": "string"}
                },
                "required": ["paths"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Shows
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let paths = input
            .get("paths")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let paths: Vec<PathBuf> = paths.filter_map(Value::as_str).map(PathBuf::from).collect();
        let caption = text(input, "caption").to_owned();
        Box::pin(async move { output(self.send(paths, caption, context).await) })
    }
}

impl SendMedia {
    async fn send(
        &self,
        paths: Vec<PathBuf>,
        caption: String,
        context: &Context,
    ) -> Result<String, String> {
        let route = context.route.clone().ok_or(NO_CHAT)?;
        if paths.is_empty() || paths.len() > MAX_FILES {
            return Err(format!("`paths` must name 1 to {MAX_FILES} files"));
        }
        let home = self.0.memory.home();
        let (root, tmp) = (
            self.0.root.clone(),
            home.spool_tmp()
                .join(uuid::Uuid::new_v4().simple().to_string()),
        );
        let dir = tmp.clone();
        let files = super::blocking_work(move || copies(&root, &paths, &dir)).await;
        let posted = match files {
            Ok(files) => post(home, to_chat(route, caption, None), files).await,
            Err(reason) => Err(reason),
        };
        // What stays is cleared away with other leftovers of the spool.
        let _ = super::blocking_work(move || {
            std::fs::remove_dir_all(&tmp).map_err(|error| error.to_string())
        })
        .await;
        posted
    }
}

/// Copies files of the outbox into `dir`. They are read below the workspace, so that no link leads out
/// of it.
fn copies(root: &Root, paths: &[PathBuf], dir: &Path) -> Result<Vec<PathBuf>, String> {
    let make = |dir: &Path| {
        let made = std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(dir);
        made.map_err(|error| format!("there is no place for a copy: {error}"))
    };
    let copy = |(number, path): (usize, &PathBuf)| {
        let shown = path.display();
        let real = root.real(path).map_err(|error| error.to_string())?;
        if !real.starts_with(OUTBOX) {
            return Err(format!("{shown} is not in {OUTBOX}/: copy it there first"));
        }
        let name = path
            .file_name()
            .ok_or_else(|| format!("{shown} is no file"))?;
        let bytes = root
            .read(path, MAX_FILE)
            .map_err(|error| error.to_string())?;
        if bytes.is_empty() {
            return Err(format!("{shown} is empty"));
        }
        // Two files may have the same name.
        let own = dir.join(number.to_string());
        make(&own)?;
        let to = own.join(name);
        crate::sys::atomic::write(&to, &bytes, crate::sys::atomic::Durability::Rename)
            .map_err(|error| error.to_string())?;
        Ok(to)
    };
    paths.iter().enumerate().map(copy).collect()
}

pub(super) struct React(pub Arc<Needs>);

impl Tool for React {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "react".into(),
            description: "Put an emoji on the message you are answering, such as 👍. You still answer, unless you use silent."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {"emoji": {"type": "string"}},
                "required": ["emoji"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let emoji = text(input, "emoji").trim().to_owned();
        Box::pin(async move {
            let chat = context
                .route
                .clone()
                .zip(context.message_id.clone())
                .filter(|_| !emoji.is_empty());
            output(match chat {
                Some((route, message)) => {
                    post(
                        self.0.memory.home(),
                        to_chat(route, String::new(), Some((message, emoji))),
                        Vec::new(),
                    )
                    .await
                }
                None => Err(NO_CHAT.to_owned()),
            })
        })
    }
}

const NO_CHAT: &str = "this conversation is in no chat";

fn to_chat(route: Route, text: String, reaction: Option<(String, String)>) -> Command {
    let (reply_to, emoji) = reaction.unzip();
    Command::Raw {
        to: route.chat.chat,
        text,
        attachments: Vec::new(),
        topic: route.chat.topic,
        reply_to,
        emoji,
    }
}
