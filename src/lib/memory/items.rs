//! Items: what the agent was asked to remember, one Markdown file each.
//!
//! ```text
//! memory/items/2026-11-22-my-sister-lives-in-porto-k3f9.md
//! ---
//! id: 2026-11-22-my-sister-lives-in-porto-k3f9
//! type: note
//! tags: [family]
//! created_at: 2026-11-22T05:00:00.000Z
//! ---
//! My sister lives in Porto.
//! ```
//! One of type `fact` has `entity`, `attribute` and `value` above its text, too; they become a fact
//! of `memory.db` as they stand. A value that is not a plain word is a JSON string.

use std::path::{Path, PathBuf};

use crate::sandbox::{BeneathError, Root};
use crate::text::front_matter::Field;
use crate::text::front_matter::FrontMatter;
use crate::{clock, text};

/// The longest item, bytes; longer texts are files.
pub const MAX_CONTENT: usize = 20_000;
/// The longest file that is read as one.
const MAX_FILE: u64 = 1 << 20;
/// Items that are compared with a new one.
const MAX_ITEMS: usize = 20_000;
/// Where they are in the workspace.
const DIR: &str = "memory/items";
/// Letters of its content in a name.
const SLUG: usize = 40;
/// Letters that tell two items of one name apart: no 0 O 1 I.
const LETTERS: &[u8] = b"23456789abcdefghjkmnpqrstuvwxyz";

/// A remembered item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its name, `[A-Za-z0-9_-]{1,64}`.
    pub id: String,
    /// What it is: `note`, `fact`, `preference` …
    pub kind: String,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// The time of its creation, RFC 3339 UTC.
    pub created_at: String,
    /// What it says as a fact.
    pub fact: Option<Stated>,
    /// The words.
    pub content: String,
}

/// A fact as it is stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stated {
    /// Of whom or what.
    pub entity: String,
    /// What of it.
    pub attribute: String,
    /// What that is.
    pub value: String,
}

/// An item cannot be stored or read. The text is for the model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No item is called this.
    #[error("there is no item {0:?}; memory_search finds their names")]
    Unknown(String),
    /// The file system.
    #[error(transparent)]
    File(#[from] BeneathError),
}

/// Returns the item called `id`.
///
/// # Errors
/// See [`Error`].
pub fn read(root: &Root, id: &str) -> Result<Item, Error> {
    let unknown = || Error::Unknown(text::shorten(&text::visible(id), 80));
    let bytes = match root.read(&path(id).ok_or_else(unknown)?, MAX_FILE) {
        Err(BeneathError::NotFound(_)) => return Err(unknown()),
        bytes => bytes?,
    };
    Ok(parse(id, &String::from_utf8_lossy(&bytes)))
}

/// Keeps an item under a new name and returns it, and whether it is new. What is kept already, word by word, is
/// returned as it is.
///
/// # Errors
/// When it cannot be written.
pub fn keep(
    root: &Root,
    item: Item,
    zone: chrono_tz::Tz,
    now_ms: i64,
) -> Result<(Item, bool), Error> {
    if let Some(there) = same(root, &item) {
        return Ok((there, false));
    }
    let date = clock::local_date(now_ms, zone)
        .format("%Y-%m-%d")
        .to_string();
    let slug = slug(item.fact.as_ref().map_or(&item.content, |fact| &fact.value));
    let item = Item {
        id: format!("{date}-{slug}{}", letters()),
        created_at: clock::rfc3339(now_ms),
        ..item
    };
    write(root, &item)?;
    Ok((item, true))
}

/// Writes an item under its own name.
///
/// # Errors
/// When it cannot be written, or its name is none.
pub fn write(root: &Root, item: &Item) -> Result<(), Error> {
    let path = path(&item.id).ok_or_else(|| Error::Unknown(item.id.clone()))?;
    Ok(root.write_atomic(&path, render(item).as_bytes())?)
}

/// Returns where the item called `id` is in the workspace; `None` when that is not a name.
pub fn path(id: &str) -> Option<PathBuf> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    ((1..=64).contains(&id.len()) && id.bytes().all(is_name))
        .then(|| Path::new(DIR).join(format!("{id}.md")))
}

/// Returns the kept item that says the same as `item`.
fn same(root: &Root, item: &Item) -> Option<Item> {
    // Without the directory there is none.
    let entries = root.list(Path::new(DIR), MAX_ITEMS).unwrap_or_default();
    let size = item.content.trim().len() as u64;
    entries
        .iter()
        .filter_map(|entry| entry.name.strip_suffix(".md"))
        // What is shorter cannot hold the same words.
        .filter(|id| {
            path(id)
                .and_then(|path| root.metadata(&path).ok())
                .is_some_and(|meta| meta.len() > size && meta.len() < size + 2000)
        })
        .filter_map(|id| read(root, id).ok())
        .find(|there| {
            there.kind == item.kind
                && there.fact == item.fact
                && there.content.trim() == item.content.trim()
        })
}

/// Reads an item file; a field that it does not have is empty.
pub fn parse(id: &str, file: &str) -> Item {
    let matter = FrontMatter::split(file);
    let (fields, body) = match matter.and_then(|matter| Some((matter.fields()?, matter.body))) {
        Some(found) => found,
        None => (Vec::new(), file.strip_prefix('\u{feff}').unwrap_or(file)),
    };
    let field = |name: &str| fields.iter().find(|field| field.key == name);
    let text = |name: &str| field(name).map(Field::text).unwrap_or_default();
    let stated = Stated {
        entity: text("entity"),
        attribute: text("attribute"),
        value: text("value"),
    };
    let is_fact = ![&stated.entity, &stated.attribute, &stated.value]
        .iter()
        .any(|part| part.is_empty());
    let content = body.replace("\r\n", "\n");
    Item {
        id: id.to_owned(),
        kind: text("type"),
        tags: field("tags").map(Field::list).unwrap_or_default(),
        created_at: text("created_at"),
        fact: is_fact.then_some(stated),
        content: content.trim_start_matches('\n').trim_end().to_owned(),
    }
}

/// Returns the file of an item.
pub fn render(item: &Item) -> String {
    let mut head = format!("id: {}\ntype: {}\n", item.id, quote(&item.kind));
    let tags: Vec<String> = item.tags.iter().map(|tag| quote(tag)).collect();
    head.push_str(&format!(
        "tags: [{}]\ncreated_at: {}\n",
        tags.join(", "),
        item.created_at
    ));
    if let Some(Stated {
        entity,
        attribute,
        value,
    }) = &item.fact
    {
        head.push_str(&format!(
            "entity: {}\nattribute: {}\nvalue: {}\n",
            quote(entity),
            quote(attribute),
            quote(value)
        ));
    }
    format!("---\n{head}---\n{}\n", item.content.trim_end())
}

/// Writes a value so that it is one again when it is read, also for those who read YAML.
fn quote(value: &str) -> String {
    let is_plain = value.starts_with(char::is_alphabetic)
        && value
            .chars()
            .all(|c| c.is_alphanumeric() || " _-".contains(c))
        && value.trim() == value
        && !["true", "false", "yes", "no", "null", "on", "off"]
            .contains(&value.to_lowercase().as_str());
    if is_plain {
        value.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    }
}

/// Returns the first words of `content` as a part of a name, with a `-` at its end.
fn slug(content: &str) -> String {
    let mut slug = String::new();
    for word in content
        .replace(['\'', '’'], "")
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
    {
        if slug.len() + word.len() >= SLUG {
            break;
        }
        slug.push_str(&word.to_ascii_lowercase());
        slug.push('-');
    }
    slug
}

fn letters() -> String {
    let bits = uuid::Uuid::new_v4().as_u128();
    let letter = |at: u32| {
        LETTERS[usize::try_from((bits >> (at * 8)) & 0xff).unwrap_or(0) % LETTERS.len()] as char
    };
    (0..4).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(content: &str) -> Item {
        Item {
            id: String::new(),
            kind: "note".into(),
            tags: vec!["family".into(), "a: \"b\", \\c]".into()],
            created_at: String::new(),
            fact: None,
            content: content.into(),
        }
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let dir = tempfile::tempdir().expect("dir");
        let root = Root::open(dir.path()).expect("root");
        let kept = keep(
            &root,
            note("My sister lives in Porto.\n\n---\nid: other"),
            chrono_tz::UTC,
            0,
        )
        .expect("kept")
        .0;
        assert!(
            kept.id
                .starts_with("1970-01-01-my-sister-lives-in-porto-id-other-"),
            "{}",
            kept.id
        );
        assert_eq!(read(&root, &kept.id).expect("read"), kept);
        let fact = Stated {
            entity: "user".into(),
            attribute: "birthday".into(),
            value: "yes: \"3\"\nMay".into(),
        };
        let kept = keep(
            &root,
            Item {
                fact: Some(fact),
                ..note("x")
            },
            chrono_tz::UTC,
            0,
        )
        .expect("kept")
        .0;
        assert_eq!(read(&root, &kept.id).expect("read"), kept);
    }

    #[test]
    fn the_same_words_are_kept_once() {
        let dir = tempfile::tempdir().expect("dir");
        let root = Root::open(dir.path()).expect("root");
        let first = keep(&root, note("tea"), chrono_tz::UTC, 0).expect("kept").0;
        assert_eq!(
            keep(&root, note("tea"), chrono_tz::UTC, 5).expect("kept").0,
            first
        );
        assert!(!keep(&root, note("tea"), chrono_tz::UTC, 5).expect("kept").1);
        assert_ne!(
            keep(&root, note("teas"), chrono_tz::UTC, 5)
                .expect("kept")
                .0
                .id,
            first.id
        );
    }

    #[test]
    fn names_lead_nowhere_else() {
        for id in ["", "../x", "a/b", "a.md", "ä", &"x".repeat(65)] {
            assert_eq!(path(id), None, "{id}");
        }
        assert_eq!(slug("Ana's «Ünï» the 3rd"), "anas-n-the-3rd-");
        assert_eq!(slug(&"x".repeat(100)), "");
    }

    #[test]
    fn a_file_written_by_hand_is_an_item_too() {
        let item = parse("x", "just words\n");
        assert_eq!(
            (item.kind.as_str(), item.content.as_str(), item.fact),
            ("", "just words", None)
        );
        let item = parse(
            "x",
            "---\ntype: fact\nentity: Ana\nattribute: lives in\nvalue: Porto\n---\n\nAna lives in Porto.\n",
        );
        assert_eq!(item.fact.map(|fact| fact.value).as_deref(), Some("Porto"));
        assert_eq!(item.content, "Ana lives in Porto.");
        let rules = "---\nTold him: never\n---\nmore";
        assert_eq!(parse("x", rules).content, rules);
    }

    #[test]
    fn heads_with_crlf_and_block_lists_are_read() {
        let head = "---\ntype: fact\ntags:\n  - family\n  - Porto\nentity: Ana\nattribute: lives in\nvalue: 'Porto'\n---\nOne.\nTwo.\n";
        for file in [head.to_owned(), head.replace('\n', "\r\n")] {
            let item = parse("x", &file);
            assert_eq!(
                (item.kind.as_str(), item.content.as_str()),
                ("fact", "One.\nTwo.")
            );
            assert_eq!(item.tags, ["family", "Porto"]);
            assert_eq!(item.fact.map(|fact| fact.value).as_deref(), Some("Porto"));
        }
    }
}
