//! The names of all keys, taken from the types, and the nearest one to a wrong name.

use std::fmt::{Display, Formatter};

use serde_json::Value;

use super::types::{Channel, Config, Group, Hook, ROLES, Tier};

/// A key or table that no setting has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKey {
    /// The file and line, variable, credential or flag it is in.
    pub origin: String,
    /// Its path.
    pub key: String,
    /// Whether it is a table.
    is_table: bool,
    /// The known key or table that was probably meant.
    nearest: Option<String>,
    /// The key that names a secret, which was probably written here itself.
    names_secret: Option<String>,
}

impl UnknownKey {
    /// Returns the unknown `key` of `origin`; `known` are the keys there are.
    pub(super) fn new(origin: String, key: &str, is_table: bool, known: &[String]) -> Self {
        Self {
            origin,
            key: key.to_owned(),
            is_table,
            nearest: nearest(key, known),
            names_secret: names_secret(key, known),
        }
    }
}

impl Display for UnknownKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self {
            origin,
            key,
            is_table,
            nearest,
            names_secret,
        } = self;
        let split = |path: &str| match path.rsplit_once('.') {
            Some((table, name)) => (table.to_owned(), name.to_owned()),
            None => (String::new(), path.to_owned()),
        };
        let (table, name) = split(key);
        match (is_table, table.as_str()) {
            (true, _) => write!(f, "{origin}: unknown section [{key}]")?,
            (false, "") => write!(f, "{origin}: unknown key `{name}` outside any section")?,
            (false, table) => write!(f, "{origin}: unknown key `{name}` in [{table}]")?,
        }
        if *is_table && table == "providers" {
            return write!(
                f,
                "; a provider has a file of its own, providers.d/{name}.toml, and its name is listed in `load` of [providers]"
            );
        }
        if *is_table && (table == "mcp" || ["mcpServers", "mcp_servers"].contains(&key.as_str())) {
            let server = if table == "mcp" {
                name.as_str()
            } else {
                "NAME"
            };
            return write!(f, "; a tool server is a section [mcp.servers.{server}]");
        }
        if let Some(by) = names_secret {
            let (_, by) = split(by);
            return write!(
                f,
                "; secrets are in .env (mode 0600) as NAME=…, and `{by}` is that NAME"
            );
        }
        let Some(nearest) = nearest else {
            return Ok(());
        };
        let (near_table, near) = split(nearest);
        match (is_table, near_table == table) {
            (true, _) => write!(f, "; did you mean [{nearest}]?"),
            (false, true) => write!(f, "; did you mean `{near}`?"),
            (false, false) if near_table.is_empty() => {
                write!(f, "; did you mean the section [{near}]?")
            }
            (false, false) => write!(f, "; did you mean `{near}` in [{near_table}]?"),
        }
    }
}

/// Returns `parent.key`.
pub(super) fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() {
        key.to_owned()
    } else {
        format!("{parent}.{key}")
    }
}

/// Returns the leaves of a serialised configuration in order: path and value. Empty tables and
/// absent values are leaves too.
pub(super) fn leaves(value: &Value) -> Vec<(String, Value)> {
    fn walk(value: &Value, path: &str, out: &mut Vec<(String, Value)>) {
        match value {
            Value::Object(table) if !table.is_empty() => table
                .iter()
                .for_each(|(key, inner)| walk(inner, &join(path, key), out)),
            leaf => out.push((path.to_owned(), leaf.clone())),
        }
    }
    let mut out = Vec::new();
    walk(value, "", &mut out);
    out
}

/// Returns every key of agent.toml; `*` stands for a name the user chooses.
pub(super) fn all() -> Vec<String> {
    let mut sample = Config::default();
    sample
        .telegram
        .groups
        .insert("*".to_owned(), Group::default());
    sample.http.hooks.insert("*".to_owned(), Hook::default());
    let mut channel = Channel::default();
    channel.groups.insert("*".to_owned(), Group::default());
    sample.channels.insert("*".to_owned(), channel);
    sample.context.tiers.insert("*".to_owned(), Tier::default());
    sample.routing = ROLES
        .iter()
        .map(|role| ((*role).to_owned(), String::new()))
        .collect();
    let sample = serde_json::to_value(sample).unwrap_or_default();
    let keys = leaves(&sample).into_iter().map(|(path, _)| path);
    // The short form of a table.
    keys.chain(["tools.exec.network".to_owned()]).collect()
}

/// Returns the top tables of agent.toml.
pub(super) fn sections() -> Vec<String> {
    let mut sections: Vec<String> = all()
        .iter()
        .filter_map(|key| key.split('.').next())
        .map(str::to_owned)
        .collect();
    sections.dedup();
    sections
}

/// Returns the known key that `unknown` was probably meant to be: the nearest name in the same
/// table, else the same last name in another table.
pub(super) fn nearest(unknown: &str, known: &[String]) -> Option<String> {
    let (parent, name) = unknown.rsplit_once('.').unwrap_or(("", unknown));
    let siblings = known.iter().filter_map(|key| sibling(key, parent));
    let by_distance = siblings
        .map(|key| (edits(name, key.rsplit('.').next().unwrap_or("")), key))
        .min();
    match by_distance {
        Some((far, key)) if far <= (name.chars().count() / 3).max(1) => Some(key),
        _ => {
            let below = format!(".{unknown}");
            let ends = known.iter().find(|key| key.ends_with(&below));
            let named = || known.iter().find_map(|key| ancestor(key, name));
            ends.cloned().or_else(named)
        }
    }
}

/// Returns the key next to `unknown` that gives the name of such a secret: `telegram.token_env` for `telegram.bot_token`.
fn names_secret(unknown: &str, known: &[String]) -> Option<String> {
    let (parent, name) = unknown.rsplit_once('.')?;
    let mut siblings = known.iter().filter_map(|key| sibling(key, parent));
    siblings.find(|key| {
        let last = key.rsplit('.').next().unwrap_or_default();
        last.strip_suffix("_env")
            .is_some_and(|kind| name.ends_with(kind))
    })
}

/// Returns `key` up to its part `name`: `tools.exec` for `exec`.
fn ancestor(key: &str, name: &str) -> Option<String> {
    let depth = key.split('.').position(|part| part == name)?;
    Some(key.split('.').take(depth + 1).collect::<Vec<_>>().join("."))
}

/// Cuts `key` to the level below `parent`, if it is there: `telegram.groups.*.members` below
/// `telegram` is `telegram.groups`.
fn sibling(key: &str, parent: &str) -> Option<String> {
    let mut parts = key.split('.');
    let mut path = String::new();
    for wanted in parent.split('.').filter(|part| !part.is_empty()) {
        let part = parts.next()?;
        if part != wanted && part != "*" {
            return None;
        }
        path = join(&path, wanted);
    }
    Some(join(&path, parts.next()?))
}

/// Returns the edits (insert, delete, replace, swap of neighbours) that make `b` of `a`.
pub(crate) fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unknown: &str, expected: Option<&str>) {
        assert_eq!(nearest(unknown, &all()).as_deref(), expected, "{unknown}");
    }

    #[test]
    fn a_wrong_name_finds_the_nearest_in_its_table() {
        check("telegram.api_ulr", Some("telegram.api_url"));
        check("telegrm", Some("telegram"));
        check("agent.timezon", Some("agent.timezone"));
        check(
            "telegram.groups.-100500.require_mentions",
            Some("telegram.groups.-100500.require_mention"),
        );
        check("routing.telegramm", Some("routing.telegram"));
    }

    #[test]
    fn a_right_name_in_the_wrong_table_finds_its_table() {
        check("telegram.day_usd", Some("cost.day_usd"));
        check("exec.policy", Some("tools.exec.policy"));
        check("exec", Some("tools.exec"));
        check("day_usd", Some("cost.day_usd"));
    }

    #[test]
    fn an_unknown_key_is_told_with_its_section_and_the_nearest_name() {
        let told = |key: &str, is_table| {
            UnknownKey::new("f:1".to_owned(), key, is_table, &all()).to_string()
        };
        let cases = [
            (
                "cost.day_usdd",
                false,
                "f:1: unknown key `day_usdd` in [cost]; did you mean `day_usd`?",
            ),
            (
                "costs",
                true,
                "f:1: unknown section [costs]; did you mean [cost]?",
            ),
            ("agent.quux", false, "f:1: unknown key `quux` in [agent]"),
            (
                "telegram.bot_token",
                false,
                "f:1: unknown key `bot_token` in [telegram]; secrets are in .env (mode 0600) as NAME=…, and `token_env` is that NAME",
            ),
            (
                "telegram.day_usd",
                false,
                "f:1: unknown key `day_usd` in [telegram]; did you mean `day_usd` in [cost]?",
            ),
            (
                "day_usd",
                false,
                "f:1: unknown key `day_usd` outside any section; did you mean `day_usd` in [cost]?",
            ),
            (
                "providers.ollama",
                true,
                "f:1: unknown section [providers.ollama]; a provider has a file of its own, providers.d/ollama.toml, and its name is listed in `load` of [providers]",
            ),
            (
                "mcp.notes",
                true,
                "f:1: unknown section [mcp.notes]; a tool server is a section [mcp.servers.notes]",
            ),
            (
                "mcpServers",
                true,
                "f:1: unknown section [mcpServers]; a tool server is a section [mcp.servers.NAME]",
            ),
            (
                "exec",
                true,
                "f:1: unknown section [exec]; did you mean [tools.exec]?",
            ),
        ];
        for (key, is_table, expected) in cases {
            assert_eq!(told(key, is_table), expected);
        }
    }

    /// An unknown key is an error, so a file of an earlier release must find all of its keys again.
    #[test]
    fn every_key_that_was_ever_in_the_template_is_still_known() {
        let known = all();
        let keys = include_str!("released_keys.txt").lines();
        let gone: Vec<&str> = keys
            .filter(|key| !known.iter().any(|known| known == key))
            .collect();
        assert!(
            gone.is_empty(),
            "read them under both names, or say what became of them: {gone:?}"
        );
    }

    #[test]
    fn nothing_alike_finds_nothing() {
        check("agent.quux", None);
    }

    #[test]
    fn swapped_letters_are_one_edit() {
        assert_eq!(
            (edits("ulr", "url"), edits("", "abc"), edits("käse", "kase")),
            (1, 3, 1)
        );
    }
}
