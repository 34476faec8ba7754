//! A SKILL.md as text: its head, and what stands below.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::draft::{Example, MAX_EXAMPLES};
use super::is_name;
use super::needs::Needs;
use crate::text;
use crate::text::front_matter::FrontMatter;
use crate::text::hidden_chars;

use super::Why;

/// The longest head, bytes: nothing longer is given to the reader of YAML.
const MAX_HEAD: usize = 8 * 1024;
/// The longest description, characters.
const MAX_DESCRIPTION: usize = 1024;
/// Hidden characters that are named.
const MAX_HIDDEN: usize = 20;

/// What a SKILL.md says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub description: String,
    pub always_on: bool,
    pub brief: bool,
    pub needs: Needs,
    pub examples: Vec<Example>,
    pub body: String,
}

/// Keys that others know (`license`, `allowed-tools` …) mean nothing here.
#[derive(Debug, Deserialize)]
struct Head {
    name: Option<String>,
    description: Option<String>,
    always_on: Option<bool>,
    brief: Option<bool>,
    needs: Option<Declared>,
    examples: Option<Shown>,
}

/// `examples` as we read them; somebody else's may be anything.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Shown {
    Ours(Vec<Example>),
    Other(IgnoredAny),
}

/// `needs` as we read it; somebody else's may mean something else by the word.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Declared {
    Ours(Needs),
    Other(IgnoredAny),
}

/// Reads the SKILL.md of the directory called `dir`.
pub(super) fn parse(bytes: &[u8], dir: &str) -> Result<Contents, Why> {
    let wrong = |why: &str| Why::Wrong(why.to_owned());
    let file = std::str::from_utf8(bytes).map_err(|error| {
        Why::Wrong(format!(
            "it is no text (not UTF-8 at byte {})",
            error.valid_up_to()
        ))
    })?;
    let hidden = hidden_chars::find(file, MAX_HIDDEN);
    if !hidden.is_empty() {
        return Err(Why::Hidden(hidden));
    }
    let matter = FrontMatter::split(file)
        .ok_or_else(|| wrong("it does not begin with a head between two lines `---`"))?;
    if matter.head.len() > MAX_HEAD {
        return Err(Why::Wrong(format!(
            "its head has {} bytes, at most {MAX_HEAD} are read",
            matter.head.len()
        )));
    }
    let head: Head = matter
        .read()
        .map_err(|error| Why::Wrong(format!("its head is no YAML: {error}")))?;
    let name = head
        .name
        .filter(|name| !name.is_empty())
        .ok_or_else(|| wrong("it has no `name`"))?;
    if !is_name(&name) {
        return Err(Why::Wrong(format!(
            "its name {} is not 1 to 64 of a-z, 0-9 and -",
            text::shorten(&text::visible(&name), 80)
        )));
    }
    if name != dir {
        return Err(Why::Wrong(format!(
            "its name is {name}, and its directory is called {}",
            text::visible(dir)
        )));
    }
    let description = text::one_line(&head.description.unwrap_or_default());
    match description.chars().count() {
        0 => return Err(wrong("it has no `description`")),
        count if count > MAX_DESCRIPTION => {
            return Err(Why::Wrong(format!(
                "its description has {count} characters, at most {MAX_DESCRIPTION} are read"
            )));
        }
        _ => {}
    }
    let body = matter.body.replace("\r\n", "\n");
    let body = body.trim();
    if body.is_empty() {
        return Err(wrong("it has no text below its head"));
    }
    Ok(Contents {
        description,
        always_on: head.always_on.unwrap_or(false),
        brief: head.brief.unwrap_or(false),
        needs: match head.needs {
            Some(Declared::Ours(needs)) => needs,
            Some(Declared::Other(_)) | None => Needs::default(),
        },
        examples: match head.examples {
            Some(Shown::Ours(examples)) => examples.into_iter().take(MAX_EXAMPLES).collect(),
            Some(Shown::Other(_)) | None => Vec::new(),
        },
        body: body.to_owned(),
    })
}
