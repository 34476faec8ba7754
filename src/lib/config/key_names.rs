//! The names of all keys, taken from the types, and the nearest one to a wrong name.

use serde_json::Value;

use super::types::{Config, Group, ROLES, Tier};

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
    sample.context.tiers.insert("*".to_owned(), Tier::default());
    sample.routing = ROLES
        .iter()
        .map(|role| ((*role).to_owned(), String::new()))
        .collect();
    let sample = serde_json::to_value(sample).unwrap_or_default();
    leaves(&sample).into_iter().map(|(path, _)| path).collect()
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
            ends.or_else(|| {
                known
                    .iter()
                    .find(|key| key.rsplit('.').next() == Some(name))
            })
            .cloned()
        }
    }
}

/// Cuts `key` to the level below `parent`, if it lies there: `telegram.groups.*.members` below
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
