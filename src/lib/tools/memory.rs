//! `memory_search`, `memory_get`, `memory_read`, `memory_write`, `remember`: the agent's own memory.
//!
//! Whose memories a call sees is decided by the turn it belongs to, never by its arguments.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDate;
use serde_json::{Value, json};

use super::{Needs, blocking, number, text};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::memory::index::{Filter, Hit, Query};
use crate::memory::items;
use crate::memory::items::{Item, Stated};
use crate::memory::{Memory, Scope, Viewer, show_lines};
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox::{BeneathError, Root};
use crate::{clock, people};

/// Results when no number is named, and the most (specification §12).
const RESULTS: (u64, u64) = (6, 20);
/// Results below this score are left out (specification §12).
const MIN_SCORE: f32 = 0.35;
/// The most characters of a result (specification §12).
const MAX_PASSAGE: usize = 700;
/// Characters of an item that are shown when no limit is named (specification §12).
const READ_CHARS: u64 = 1_000;
/// From this size on a person's episodes continue in a new file, and the longest file that is moved aside, bytes.
const FULL_EPISODES: usize = 1 << 20;
const MAX_EPISODES: u64 = 16 << 20;
/// What is answered when a search finds nothing.
const NOTHING: &str = "nothing was found";

pub(super) fn all(needs: &Arc<Needs>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Search(needs.clone())),
        Arc::new(Get(needs.clone())),
        Arc::new(Read(needs.clone())),
        Arc::new(Write(needs.clone())),
        Arc::new(Remember(needs.clone())),
    ]
}

struct Search(Arc<Needs>);

impl Tool for Search {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "memory_search".into(),
            description: "Search notes and past conversations, by a question or words.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "query": {"type": "string"},
                    "max_results": {"type": "integer", "minimum": 1, "maximum": 20},
                    "max_tokens": {"type": "integer", "minimum": 50},
                    "after": {"type": "string", "description": "YYYY-MM-DD"},
                    "before": {"type": "string", "description": "YYYY-MM-DD"}
                },
                "required": ["query"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let k = number(input, "max_results")
            .unwrap_or(RESULTS.0)
            .clamp(1, RESULTS.1);
        let max_tokens =
            number(input, "max_tokens").and_then(|tokens| usize::try_from(tokens).ok());
        let k = usize::try_from(k).unwrap_or(1);
        let day = |name: &str| match text(input, name) {
            "" => Ok(None),
            day => day
                .parse::<NaiveDate>()
                .map(Some)
                .map_err(|_| format!("`{name}` must be a day like 2026-05-31")),
        };
        let days = day("after").and_then(|after| Ok(Filter::days(after, day("before")?)));
        let query = days.map(|days| Query {
            k,
            max_tokens,
            max_chars: MAX_PASSAGE,
            min_score: MIN_SCORE,
            filter: Filter {
                days,
                ..Filter::default()
            },
            today: Some(clock::local_date(clock::now_ms(), self.0.zone)),
            ..Query::new(text(input, "query"))
        });
        let (memory, viewer) = (self.0.memory.clone(), context.viewer.clone());
        Box::pin(blocking(move || search(&memory, &viewer, query?)))
    }
}

fn search(memory: &Memory, viewer: &Viewer, query: Query) -> Result<String, String> {
    // What was written by hand a moment ago is found, too.
    memory.refresh();
    let found =
        memory
            .search(viewer, query)
            .map_err(|error| match viewer.may_see(&Scope::Owner) {
                true => format!("{error}; the owner can run: agent-index rebuild"),
                false => "the memory cannot be searched now".to_owned(),
            })?;
    if found.hits.is_empty() {
        return Ok(NOTHING.to_owned());
    }
    let hits: Vec<String> = (1..)
        .zip(&found.hits)
        .map(|(number, hit)| shown(number, hit))
        .collect();
    Ok(hits.join("\n\n"))
}

fn shown(number: usize, hit: &Hit) -> String {
    let percent = hit.score * 100.0;
    let words = crate::text::shorten(&hit.text, MAX_PASSAGE);
    format!(
        "[{number}] {}:{}-{} ({percent:.0}%)\n{words}",
        hit.path, hit.start_line, hit.end_line
    )
}

struct Get(Arc<Needs>);

impl Tool for Get {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "memory_get".into(),
            description: "Show lines of a file that memory_search named.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "start_line": {"type": "integer", "minimum": 1},
                    "end_line": {"type": "integer", "minimum": 1}
                },
                "required": ["path"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let line = |name| number(input, name).map(|line| u32::try_from(line).unwrap_or(u32::MAX));
        let (first, last) = (line("start_line"), line("end_line"));
        let (memory, viewer, path) = (
            self.0.memory.clone(),
            context.viewer.clone(),
            text(input, "path").to_owned(),
        );
        Box::pin(blocking(move || {
            show_lines::lines(memory.home(), &viewer, &path, first, last)
                .map_err(|error| error.to_string())
        }))
    }
}

struct Read(Arc<Needs>);

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "memory_read".into(),
            description: "Read an item of memory/items by its id.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "offset": {"type": "integer", "minimum": 0, "description": "characters"},
                    "limit": {"type": "integer", "minimum": 1, "description": "characters, default 1000"}
                },
                "required": ["id"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Shows
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (needs, id) = (self.0.clone(), text(input, "id").to_owned());
        let (offset, limit) = (
            number(input, "offset").unwrap_or(0),
            number(input, "limit").unwrap_or(READ_CHARS),
        );
        let may = context.viewer.may_see(&Scope::Owner);
        Box::pin(blocking(move || {
            let item = if may {
                items::read(&needs.root, &id)
            } else {
                Err(items::Error::Unknown(id))
            };
            Ok(part(
                &item.map_err(|error| error.to_string())?,
                offset,
                limit,
            ))
        }))
    }
}

/// Returns what an item is, then `limit` characters of its words from `offset` on.
fn part(item: &Item, offset: u64, limit: u64) -> String {
    let total = item.content.chars().count() as u64;
    let (from, many) = (
        usize::try_from(offset).unwrap_or(usize::MAX),
        usize::try_from(limit).unwrap_or(usize::MAX),
    );
    let words: String = item.content.chars().skip(from).take(many).collect();
    let next = offset.saturating_add(limit);
    let rest = if next < total {
        format!("\n[{total} characters; go on with offset {next}]")
    } else {
        String::new()
    };
    let tags = if item.tags.is_empty() {
        String::new()
    } else {
        format!(" [{}]", item.tags.join(", "))
    };
    format!("{}{tags}, {}\n{words}{rest}", item.kind, item.created_at)
}

struct Write(Arc<Needs>);

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "memory_write".into(),
            description:
                "Keep something for good: {type, tags, content}, or a fact {entity, attribute, value}. With id, change that item."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "type": {"type": "string", "description": "note, preference, decision …"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                    "content": {"type": "string"},
                    "entity": {"type": "string", "description": "user, or a name"},
                    "attribute": {"type": "string"},
                    "value": {"type": "string"}
                }
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
        Reach::Acts
    }

    fn run<'a>(&'a self, input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (needs, input) = (self.0.clone(), input.clone());
        Box::pin(blocking(move || write(&needs, &input)))
    }
}

fn write(needs: &Needs, input: &Value) -> Result<String, String> {
    let field = |name: &str| {
        input
            .get(name)
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|value| !value.is_empty())
    };
    let tags = input.get("tags").and_then(Value::as_array);
    let tags = tags.map(|tags| {
        tags.iter()
            .filter_map(Value::as_str)
            .map(|tag| crate::text::shorten(tag.trim(), 60))
            .collect()
    });
    let fact = match (field("entity"), field("attribute"), field("value")) {
        (Some(entity), Some(attribute), Some(value)) => Some(Stated {
            entity: entity.to_owned(),
            attribute: attribute.to_owned(),
            value: value.to_owned(),
        }),
        (None, None, None) => None,
        _ => return Err("a fact needs all of entity, attribute and value".to_owned()),
    };
    let stated = fact
        .as_ref()
        .map(|fact| format!("{}: {}: {}", fact.entity, fact.attribute, fact.value));
    let content = field("content").map(str::to_owned).or(stated);
    if content
        .as_ref()
        .is_some_and(|content| content.len() > items::MAX_CONTENT)
    {
        return Err(format!(
            "content has more than {} bytes; write a file, and keep what matters of it",
            items::MAX_CONTENT
        ));
    }
    let known = field("id")
        .map(|id| items::read(&needs.root, id))
        .transpose()
        .map_err(|error| error.to_string())?;
    let kind = if fact.is_some() {
        "fact"
    } else {
        field("type").unwrap_or("note")
    };
    let item = match (known, content) {
        (None, None) => {
            return Err(
                "there is nothing to keep: give content, or entity, attribute and value".to_owned(),
            );
        }
        (None, Some(content)) => {
            let item = Item {
                id: String::new(),
                kind: kind.to_owned(),
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
                kind: if fact.is_some() || field("type").is_some() {
                    kind.to_owned()
                } else {
                    old.kind
                },
                tags: tags.unwrap_or(old.tags),
                // New words say nothing of an old fact.
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

struct Remember(Arc<Needs>);

impl Tool for Remember {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "remember".into(),
            description:
                "Note what happened with a person, for them alone: by default the one who speaks."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "person": {"type": "string", "description": "id, @username or name"}
                },
                "required": ["text"]
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
        Reach::Acts
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (needs, words) = (self.0.clone(), text(input, "text").trim().to_owned());
        let person = input
            .get("person")
            .and_then(Value::as_str)
            .map(str::to_owned);
        let speaker = context.person.clone();
        Box::pin(blocking(move || {
            if words.is_empty() || words.len() > items::MAX_CONTENT {
                return Err(format!("text must have 1 to {} bytes", items::MAX_CONTENT));
            }
            let id = person.map_or(Ok(speaker), |name| named(&needs, &name))?;
            let path = {
                // Two turns may speak of one person.
                let _one = needs.episodes.lock();
                append(&needs.root, &id, &words, clock::now_ms())?
            };
            needs.memory.refresh();
            Ok(format!("noted in workspace/{}", path.display()))
        }))
    }
}

fn named(needs: &Needs, name: &str) -> Result<String, String> {
    let known =
        people::People::read(&needs.memory.home().people()).map_err(|error| error.to_string())?;
    match known.find(name).as_slice() {
        [contact] => Ok(contact.id.to_string()),
        [] => Err(format!(
            "nobody is called {}; people are known by name once they wrote",
            crate::text::visible(name)
        )),
        several => {
            let ids: Vec<String> = several
                .iter()
                .map(|one| format!("{} ({})", one.id, crate::text::visible(&one.name)))
                .collect();
            Err(format!(
                "{} may be {}",
                crate::text::visible(name),
                ids.join(" or ")
            ))
        }
    }
}

/// Adds an episode to a person's file and returns its path in the workspace.
fn append(root: &Root, id: &str, words: &str, now_ms: i64) -> Result<PathBuf, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.is_empty() || id.len() > 64 || !id.chars().all(is_name) {
        return Err(format!(
            "{} is no name for a file; memory_write keeps things for the owner",
            crate::text::visible(id)
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
    fn an_item_is_read_in_parts() {
        let item = Item {
            id: "x".into(),
            kind: "note".into(),
            tags: vec!["a".into()],
            created_at: "T".into(),
            fact: None,
            content: "äbcdef".into(),
        };
        assert_eq!(part(&item, 0, 1000), "note [a], T\näbcdef");
        assert_eq!(
            part(&item, 1, 2),
            "note [a], T\nbc\n[6 characters; go on with offset 3]"
        );
        assert_eq!(part(&item, 9, 2), "note [a], T\n");
    }

    #[test]
    fn episodes_follow_each_other_in_a_persons_file() {
        let dir = tempfile::tempdir().expect("dir");
        let root = Root::open(dir.path()).expect("root");
        append(&root, "1002", "likes tea", 0).expect("one");
        let path = append(&root, "1002", "moved", 60_000).expect("two");
        let expected = "# Memory from 1970-01-01T00:00:00.000Z\n\nlikes tea\n\n# Memory from 1970-01-01T00:01:00.000Z\n\nmoved\n";
        assert_eq!(
            std::fs::read_to_string(dir.path().join(path)).expect("file"),
            expected
        );
        assert!(append(&root, "../x", "y", 0).is_err());
    }

    #[test]
    fn a_full_file_of_episodes_is_moved_aside_and_the_next_one_begins() {
        let dir = tempfile::tempdir().expect("dir");
        let root = Root::open(dir.path()).expect("root");
        let path = append(&root, "1002", &"x".repeat(FULL_EPISODES), 0).expect("one");
        append(&root, "1002", "moved", 60_000).expect("two");
        let read = |path: PathBuf| std::fs::read_to_string(dir.path().join(path)).expect("file");
        assert_eq!(
            read(path),
            "# Memory from 1970-01-01T00:01:00.000Z\n\nmoved\n"
        );
        let full = "memory/people/1002.until-1970-01-01T00-01-00-000Z.episodes.md";
        assert!(read(full.into()).len() > FULL_EPISODES);
    }
}
