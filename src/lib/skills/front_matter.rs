//! A SKILL.md as text: its front matter, and the text below.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

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
    /// What its head says and is not read, a phrase each.
    pub mistakes: Vec<String>,
    pub body: String,
}

/// Keys that mean nothing here: those of agentskills.io, and what other agents' skills have.
const OTHERS: [&str; 16] = [
    "agent",
    "allowed-tools",
    "argument-hint",
    "author",
    "compatibility",
    "context",
    "disable-model-invocation",
    "homepage",
    "hooks",
    "license",
    "metadata",
    "model",
    "platforms",
    "tags",
    "user-invocable",
    "version",
];
const KEYS: [&str; 6] = [
    "name",
    "description",
    "always_on",
    "brief",
    "needs",
    "examples",
];
const NEEDS: [&str; 4] = ["programs", "hosts", "pages", "notes"];

#[derive(Debug, Deserialize)]
struct Head {
    name: Option<String>,
    description: Option<String>,
    always_on: Option<bool>,
    brief: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WithNeeds {
    needs: Option<Needs>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WithExamples {
    examples: Option<Vec<Example>>,
}

type Keys = BTreeMap<String, IgnoredAny>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NeedsKeys {
    needs: Option<Keys>,
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
    let mut mistakes = Vec::new();
    let WithNeeds { needs } = part(&matter, "needs", &mut mistakes);
    let WithExamples { examples } = part(&matter, "examples", &mut mistakes);
    let mut examples = examples.unwrap_or_default();
    if examples.len() > MAX_EXAMPLES {
        let count = examples.len();
        mistakes.push(format!(
            "it has {count} `examples`, of which {MAX_EXAMPLES} are read"
        ));
        examples.truncate(MAX_EXAMPLES);
    }
    mistakes.extend(unknown_keys(&matter));
    Ok(Contents {
        description,
        always_on: head.always_on.unwrap_or(false),
        brief: head.brief.unwrap_or(false),
        needs: needs.unwrap_or_default(),
        examples,
        mistakes,
        body: body.to_owned(),
    })
}

/// Returns a part of the head; where that is not as it must be, none of it, and it is noted.
fn part<T: DeserializeOwned + Default>(
    matter: &FrontMatter<'_>,
    key: &str,
    mistakes: &mut Vec<String>,
) -> T {
    matter.read().unwrap_or_else(|why| {
        mistakes.push(format!("its `{key}` is not read: {why}"));
        T::default()
    })
}

/// Returns which keys of the head nobody knows.
fn unknown_keys(matter: &FrontMatter<'_>) -> Vec<String> {
    let unknown = |known: &[&str], keys: Keys, of: &str| {
        let keys = keys.into_keys();
        let unknown = keys.filter(|key| !known.contains(&key.as_str()));
        let named = unknown.map(|key| {
            let key = text::shorten(&text::visible(&key), 80);
            format!("it has the unknown key `{of}{key}`")
        });
        named.collect::<Vec<String>>()
    };
    let of_head = matter.read::<Keys>().unwrap_or_default();
    let of_needs = matter.read::<NeedsKeys>().unwrap_or_default().needs;
    let of_needs = of_needs.unwrap_or_default();
    let mut named = unknown(&[&KEYS[..], &OTHERS].concat(), of_head, "");
    named.extend(unknown(&NEEDS, of_needs, "needs."));
    named
}
