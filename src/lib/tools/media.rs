//! `send_media` and `react`: send files, or add an emoji, in the current chat.

use std::collections::VecDeque;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Needs;
use super::send_command::post;
use super::typed::{About, Property, TypedTool};
use crate::agent::{Context, Question, Reach, ToolOutput};
use crate::control::Command;
use crate::control::attachments::{MAX_FILE, MAX_FILES};
use crate::message::Route;
use crate::sandbox::Root;
use crate::sys::{Version, atomic};
use crate::text::sha256_hex;

/// The only directory whose files are sent (specification §6).
const OUTBOX: &str = "outbox";

pub(super) struct SendMedia(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct MediaArgs {
    paths: Vec<PathBuf>,
    #[serde(default)]
    caption: String,
}

impl TypedTool for SendMedia {
    type Args = MediaArgs;

    const ABOUT: About = About {
        name: "send_media",
        description: "Send files of outbox/ into this chat.",
        properties: &[],
    };

    fn reach(&self, _args: &MediaArgs, _context: &Context) -> Reach {
        Reach::Shows
    }

    fn question(&self, args: &MediaArgs, input: &Value) -> Question {
        Question {
            bound_to: json!([
                "send_media",
                input,
                self.0.digests.of(&self.0.root, &args.paths)
            ]),
            ..Question::of("send_media", input)
        }
    }

    async fn run(&self, args: MediaArgs, context: &Context) -> ToolOutput {
        self.send(args, context, agreed(context)).await.into()
    }
}

/// Sends a file of the outbox into the chat that is talked in.
pub(super) async fn send_file(
    needs: &Arc<Needs>,
    path: PathBuf,
    context: &Context,
) -> Result<String, String> {
    let args = MediaArgs {
        paths: vec![path],
        caption: String::new(),
    };
    SendMedia(needs.clone()).send(args, context, None).await
}

impl SendMedia {
    async fn send(
        &self,
        args: MediaArgs,
        context: &Context,
        agreed: Option<Value>,
    ) -> Result<String, String> {
        let MediaArgs { paths, caption } = args;
        let route = context.route.clone().ok_or(NO_CHAT)?;
        if paths.is_empty() {
            return Err("`paths` must name at least one file".to_owned());
        }
        let command = to_chat(route, caption, None, context.untrusted);
        post_files(&self.0, command, paths, agreed).await
    }
}

/// What is in files that are to be sent: a yes is for the content and not for a name. It is asked for when the owner is
/// asked, and again before the call runs; the same version of a file is read once.
#[derive(Debug, Default)]
pub struct FileDigests(Mutex<VecDeque<(Version, Value)>>);

impl FileDigests {
    /// Returns the digests of files in their order. Blocks.
    pub(super) fn of(&self, root: &Root, paths: &[PathBuf]) -> Vec<Value> {
        let digest = |path: &PathBuf| self.of_file(root, path).unwrap_or_default();
        paths.iter().take(MAX_FILES).map(digest).collect()
    }

    /// Returns the digest of a file; `None` when it cannot be read.
    fn of_file(&self, root: &Root, path: &Path) -> Option<Value> {
        let version = || Some(Version::of(&root.metadata(path).ok()?));
        let before = version()?;
        let known = self
            .0
            .lock()
            .iter()
            .find(|known| known.0 == before)
            .cloned();
        if let Some((_, digest)) = known {
            return Some(digest);
        }
        let digest = digest(&root.read(path, MAX_FILE).ok()?);
        if version()? == before {
            let mut known = self.0.lock();
            known.push_front((before, digest.clone()));
            known.truncate(MAX_FILES);
        }
        Some(digest)
    }
}

fn digest(bytes: &[u8]) -> Value {
    sha256_hex(bytes).into()
}

/// Returns the [`FileDigests`] that a yes to this call is bound to, where they are last.
pub(super) fn agreed(context: &Context) -> Option<Value> {
    context.approved.as_ref()?.as_array()?.last().cloned()
}

/// Posts a command with files of the outbox; `agreed` are the [`FileDigests`] that the owner said yes to.
pub(super) async fn post_files(
    needs: &Needs,
    command: Command,
    paths: Vec<PathBuf>,
    agreed: Option<Value>,
) -> Result<String, String> {
    if paths.len() > MAX_FILES {
        return Err(format!("at most {MAX_FILES} files go at once"));
    }
    let home = needs.memory.home();
    let root = needs.root.clone();
    let dir = home
        .spool_tmp()
        .join(uuid::Uuid::new_v4().simple().to_string());
    let copy_dir = dir.clone();
    let copied = move || copies(&root, &paths, &copy_dir, agreed.as_ref());
    let posted = match crate::sys::blocking(copied).await {
        Ok(files) => post(home, command, files).await,
        Err(why) => Err(why),
    };
    // What stays is removed with other leftovers of the spool.
    let _ = crate::sys::blocking(move || std::fs::remove_dir_all(&dir)).await;
    posted
}

/// Copies files of the outbox into `dir`. They are read below the workspace, so that no link leads out
/// of it.
fn copies(
    root: &Root,
    paths: &[PathBuf],
    dir: &Path,
    agreed: Option<&Value>,
) -> Result<Vec<PathBuf>, String> {
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
        if agreed.is_some_and(|agreed| agreed.get(number) != Some(&digest(&bytes))) {
            return Err(format!(
                "{shown} was not sent: it has changed since the owner said yes; call it again"
            ));
        }
        // Two files may have the same name.
        let own = dir.join(number.to_string());
        make(&own)?;
        let to = own.join(name);
        atomic::write(&to, &bytes, atomic::Durability::Rename)
            .map_err(|error| error.to_string())?;
        Ok(to)
    };
    paths.iter().enumerate().map(copy).collect()
}

/// Copies a file of the outbox into the directory `dir`, which may have it already, and returns its name.
///
/// # Errors
/// Why there is no copy, in words.
pub fn copy_of_outbox(root: &Root, path: &Path, dir: &Path) -> Result<String, String> {
    let copied = copies(root, &[path.to_owned()], dir, None)?;
    let copy = copied.first().ok_or("there is no copy")?;
    let name = copy.file_name().unwrap_or_default();
    std::fs::rename(copy, dir.join(name)).map_err(|error| error.to_string())?;
    Ok(name.to_string_lossy().into_owned())
}

pub(super) struct React(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct ReactArgs {
    emoji: String,
    #[serde(default)]
    message_id: String,
}

impl TypedTool for React {
    type Args = ReactArgs;

    const ABOUT: About = About {
        name: "react",
        description: "Put an emoji on the message you answer. You still answer, unless you use silent.",
        properties: &[Property::Anybody],
    };

    fn reach(&self, _args: &ReactArgs, _context: &Context) -> Reach {
        Reach::Free
    }

    async fn run(&self, args: ReactArgs, context: &Context) -> ToolOutput {
        let emoji = args.emoji.trim().to_owned();
        let earlier = Some(args.message_id.trim().to_owned()).filter(|id| !id.is_empty());
        if earlier
            .as_ref()
            .is_some_and(|id| !id.bytes().all(|c| c.is_ascii_digit()))
        {
            return ToolOutput::error("`message_id` must be a number from the head of a message");
        }
        let message = earlier.or_else(|| context.message_id.clone());
        let chat = context.route.clone().zip(message);
        let Some((route, message)) = chat.filter(|_| !emoji.is_empty()) else {
            return ToolOutput::error(NO_CHAT);
        };
        let reaction = Some((message, emoji));
        let command = to_chat(route, String::new(), reaction, context.untrusted);
        post(self.0.memory.home(), command, Vec::new()).await.into()
    }
}

/// What a tool answers that needs a chat.
pub(super) const NO_CHAT: &str = "this conversation is in no chat";

/// Returns what is sent into a chat as it is; `untrusted`: by a run that had read untrusted text.
pub(super) fn to_chat(
    route: Route,
    text: String,
    reaction: Option<(String, String)>,
    untrusted: bool,
) -> Command {
    let (reply_to, emoji) = reaction.unzip();
    Command::Raw {
        to: route.to(),
        text,
        attachments: Vec::new(),
        topic: route.chat.topic,
        reply_to,
        emoji,
        untrusted,
        sticker: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::OpenedFiles;

    #[test]
    fn what_is_sent_is_what_the_owner_said_yes_to() {
        let dir = tempfile::tempdir().expect("dir");
        let put = |words: &str| {
            let path = dir.path().join("work/outbox/plan.txt");
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
            atomic::write(&path, words.as_bytes(), atomic::Durability::Rename).expect("write");
        };
        put("the walk on Sunday");
        let root = Root::open(&dir.path().join("work")).expect("root");
        let paths = [PathBuf::from("outbox/plan.txt"), PathBuf::from("outbox/x")];
        let digests = FileDigests::default();
        let agreed: Value = digests.of(&root, &paths).into();
        assert_eq!((agreed[0].is_string(), &agreed[1]), (true, &Value::Null));
        // Before the call runs it is looked at twice more.
        let watch = OpenedFiles::watch(&[dir.path().join("work/outbox/plan.txt")]);
        assert_eq!(Value::from(digests.of(&root, &paths)), agreed);
        assert_eq!(watch.take().opened, [] as [PathBuf; 0], "it is read once");
        let [plan, missing] = paths;
        let copied = |number: u8, agreed: Option<&Value>| {
            let to = dir.path().join(number.to_string());
            copies(&root, std::slice::from_ref(&plan), &to, agreed).map(|copies| copies.len())
        };
        assert_eq!(copied(1, Some(&agreed)), Ok(1));
        // It is changed between the last look at it and the copy.
        put("the pin is 4711");
        let now: Value = digests.of(&root, &[plan.clone(), missing]).into();
        assert_ne!(now, agreed);
        let refused = copied(2, Some(&agreed)).expect_err("changed");
        assert!(refused.contains("it has changed since"), "{refused}");
        assert_eq!(copied(3, None), Ok(1), "nobody was asked");
    }
}
