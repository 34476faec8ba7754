//! `memory_write` and `remember`: what the agent keeps for good, for its owner or of a person.

use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::{Context, ToolOutput};
use crate::memory::items;
use crate::memory::items::{Item, Stated};
use crate::sandbox::{BeneathError, Root};
use crate::text::{shorten, visible};
use crate::tools::typed::{About, TypedTool};
use crate::tools::{Needs, blocking};
use crate::{clock, people};

/// From this size on a person's episodes continue in a new file, and the longest file that is moved aside, bytes.
const FULL_EPISODES: usize = 1 << 20;
const MAX_EPISODES: u64 = 16 << 20;
/// The most characters of a tag.
const MAX_TAG: usize = 60;

pub(super) struct Write(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct WriteArgs {
    id: Option<String>,
    /// note, preference, decision …
    #[serde(rename = "type")]
    kind: Option<String>,
    tags: Option<Vec<String>>,
    content: Option<String>,
    /// user, or a name
    entity: Option<String>,
    attribute: Option<String>,
    value: Option<String>,
}

impl TypedTool for Write {
    type Args = WriteArgs;

    const ABOUT: About = About {
        name: "memory_write",
        description: "Keep something for good: {type, tags, content}, or a fact {entity, attribute, value}. With id, change that item.",
        properties: &[],
    };

    async fn run(&self, args: WriteArgs, _context: &Context) -> ToolOutput {
        let needs = self.0.clone();
        blocking(move || write(&needs, args)).await
    }
}

fn write(needs: &Needs, args: WriteArgs) -> Result<String, String> {
    let given = |field: Option<String>| {
        field
            .map(|value| value.trim().to_owned())
            .filter(|value| !value.is_empty())
    };
    let tags = args.tags.map(|tags| {
        let tags = tags.iter().map(|tag| shorten(tag.trim(), MAX_TAG));
        tags.collect::<Vec<_>>()
    });
    let fact = match (given(args.entity), given(args.attribute), given(args.value)) {
        (Some(entity), Some(attribute), Some(value)) => Some(Stated {
            entity,
            attribute,
            value,
        }),
        (None, None, None) => None,
        _ => return Err("a fact needs all of entity, attribute and value".to_owned()),
    };
    let stated = fact
        .as_ref()
        .map(|fact| format!("{}: {}: {}", fact.entity, fact.attribute, fact.value));
    let content = given(args.content).or(stated);
    if content
        .as_ref()
        .is_some_and(|content| content.len() > items::MAX_CONTENT)
    {
        return Err(format!(
            "content has more than {} bytes; write a file, and keep what matters of it",
            items::MAX_CONTENT
        ));
    }
    let kind = match fact {
        Some(_) => Some("fact".to_owned()),
        None => given(args.kind),
    };
    let known = given(args.id).map(|id| items::read(&needs.root, &id));
    let known = known.transpose().map_err(|error| error.to_string())?;
    let item = match (known, content) {
        (None, None) => {
            return Err(
                "there is nothing to keep: give content, or entity, attribute and value".to_owned(),
            );
        }
        (None, Some(content)) => {
            let item = Item {
                id: String::new(),
                kind: kind.unwrap_or_else(|| "note".to_owned()),
                tags: tags.unwrap_or_default(),
                created_at: String::new(),
                fact,
                content,
            };
            items::keep(&needs.root, item, needs.zone, clock::now_ms())
                .map_err(|error| error.to_string())?
        }
        (Some(old), content) => {
            let is_same = fact.is_none() && content.is_none();
            let item = Item {
                kind: kind.unwrap_or(old.kind),
                tags: tags.unwrap_or(old.tags),
                // A new content says nothing of an old fact.
                fact: if is_same { old.fact } else { fact },
                content: content.unwrap_or(old.content),
                ..old
            };
            items::write(&needs.root, &item).map_err(|error| error.to_string())?;
            item
        }
    };
    // Found from now on, whatever comes next.
    needs.memory.refresh();
    needs.memory.tell_news();
    Ok(format!("kept as workspace/memory/items/{}.md", item.id))
}

pub(super) struct Remember(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct RememberArgs {
    text: String,
    /// id, @username or name
    person: Option<String>,
}

impl TypedTool for Remember {
    type Args = RememberArgs;

    const ABOUT: About = About {
        name: "remember",
        description: "Note what happened with a person, for them alone: by default the one who speaks.",
        properties: &[],
    };

    async fn run(&self, args: RememberArgs, context: &Context) -> ToolOutput {
        let (needs, speaker) = (self.0.clone(), context.person.clone());
        blocking(move || {
            let words = args.text.trim();
            if words.is_empty() || words.len() > items::MAX_CONTENT {
                return Err(format!("text must have 1 to {} bytes", items::MAX_CONTENT));
            }
            let id = args
                .person
                .map_or(Ok(speaker), |name| person_id(&needs, &name))?;
            let path = {
                // Two turns may speak of one person.
                let _one = needs.episodes.lock();
                append_episode(&needs.root, &id, words, clock::now_ms())?
            };
            needs.memory.refresh();
            Ok(format!("noted in workspace/{}", path.display()))
        })
        .await
    }
}

fn person_id(needs: &Needs, name: &str) -> Result<String, String> {
    let known = people::People::read(&needs.memory.home().people());
    let known = known.map_err(|error| error.to_string())?;
    match known.find(name).as_slice() {
        [contact] => Ok(contact.id.to_string()),
        [] => Err(format!(
            "nobody is called {}; people are known by name once they wrote",
            visible(name)
        )),
        several => {
            let one = |one: &people::Contact| format!("{} ({})", one.id, visible(&one.name));
            let ids: Vec<String> = several.iter().map(one).collect();
            Err(format!("{} may be {}", visible(name), ids.join(" or ")))
        }
    }
}

/// Adds an episode to a person's file and returns its path in the workspace.
fn append_episode(root: &Root, id: &str, words: &str, now_ms: i64) -> Result<PathBuf, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.is_empty() || id.len() > 64 || !id.chars().all(is_name) {
        return Err(format!(
            "{} is no name for a file; memory_write keeps things for the owner",
            visible(id)
        ));
    }
    let path = PathBuf::from(format!("memory/people/{id}.episodes.md"));
    let mut file = match root.read(&path, MAX_EPISODES) {
        Ok(bytes) => bytes,
        Err(BeneathError::NotFound(_)) => Vec::new(),
        Err(error) => return Err(error.to_string()),
    };
    if file.len() >= FULL_EPISODES {
        let time = clock::rfc3339(now_ms).replace([':', '.'], "-");
        let full = path.with_file_name(format!("{id}.until-{time}.episodes.md"));
        root.write_atomic(&full, &file)
            .map_err(|error| error.to_string())?;
        file.clear();
    }
    if !file.is_empty() {
        file.extend(if file.ends_with(b"\n") {
            b"\n".as_slice()
        } else {
            b"\n\n"
        });
    }
    file.extend(format!("# Memory from {}\n\n{words}\n", clock::rfc3339(now_ms)).into_bytes());
    root.write_atomic(&path, &file)
        .map_err(|error| error.to_string())?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn episodes_follow_each_other_in_a_persons_file() {
        let dir = tempfile::tempdir().expect("dir");
        let root = Root::open(dir.path()).expect("root");
        append_episode(&root, "1002", "likes tea", 0).expect("one");
        let path = append_episode(&root, "1002", "moved", 60_000).expect("two");
        let expected = "# Memory from 1970-01-01T00:00:00.000Z\n\nlikes tea\n\n# Memory from 1970-01-01T00:01:00.000Z\n\nmoved\n";
        assert_eq!(
            std::fs::read_to_string(dir.path().join(path)).expect("file"),
            expected
        );
        assert!(append_episode(&root, "../x", "y", 0).is_err());
    }

    #[test]
    fn a_full_file_of_episodes_is_moved_aside_and_the_next_one_begins() {
        let dir = tempfile::tempdir().expect("dir");
        let root = Root::open(dir.path()).expect("root");
        let path = append_episode(&root, "1002", &"x".repeat(FULL_EPISODES), 0).expect("one");
        append_episode(&root, "1002", "moved", 60_000).expect("two");
        let read = |path: PathBuf| std::fs::read_to_string(dir.path().join(path)).expect("file");
        assert_eq!(
            read(path),
            "# Memory from 1970-01-01T00:01:00.000Z\n\nmoved\n"
        );
        let full = "memory/people/1002.until-1970-01-01T00-01-00-000Z.episodes.md";
        assert!(read(full.into()).len() > FULL_EPISODES);
    }
}
