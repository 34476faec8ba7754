//! Changes to files that belong to the person, made only on the person's answer: one setting of agent.toml or a provider
//! file, one line of `.env`; the rest stays as it is.

use std::ops::Range;
use std::path::Path;

use toml::de::DeTable;

use crate::app::cli::Failure;
use crate::config;
use crate::config::Home;
use crate::sys;
use crate::sys::atomic;

/// Writes `key = value` into `[section]` of agent.toml. Returns false where the file has no such setting, not even
/// commented out, or more than that one would change: then it is told to the person.
pub(super) fn set(home: &Home, section: &str, key: &str, value: &str) -> Result<bool, Failure> {
    let path = home.config_file();
    let text = std::fs::read_to_string(path).map_err(sys::Error::at("read", path))?;
    let Some(changed) = with_setting(&text, section, key, value) else {
        return Ok(false);
    };
    write(path, &changed)?;
    Ok(true)
}

/// Writes a secret into `.env`, in the place of a line for that name.
pub(super) fn set_secret(home: &Home, name: &str, value: &str) -> Result<(), Failure> {
    let secret = [(name.to_owned(), value.to_owned())];
    write(&home.env_file(), &config::with_secrets(home, &secret)?)
}

/// Appends a section to agent.toml; everything before it stays as it is.
pub(crate) fn append(home: &Home, section: &str) -> Result<(), Failure> {
    let path = home.config_file();
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(sys::Error::at("read", path))?,
    };
    let gap = match text.trim_end() {
        "" => "",
        _ => "\n\n",
    };
    write(path, &format!("{}{gap}{section}", text.trim_end()))
}

/// Writes a file of the settings. A link stays one: people keep settings in a repository.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    Ok(atomic::write(
        &path,
        text.as_bytes(),
        atomic::Durability::Full,
    )?)
}

/// Returns `text` with another value active, or with one in the place of the line in which it is commented out; `None`
/// where there is neither, or where anything else would change.
fn with_setting(text: &str, section: &str, key: &str, value: &str) -> Option<String> {
    let path = [section, key];
    with_value(text, &path, value).or_else(|| {
        let line = commented_out(text, section, key)?;
        replaced(text, line, &format!("{key} = {value}"), &path, value)
    })
}

/// Returns `text` with another value at `path`, over however many lines the old one goes; `None` where there is none.
pub(super) fn with_value(text: &str, path: &[&str], value: &str) -> Option<String> {
    let parsed = DeTable::parse(text).ok()?;
    let (first, below) = path.split_first()?;
    let mut found = parsed.get_ref().get(*first)?;
    for key in below {
        found = found.get_ref().as_table()?.get(*key)?;
    }
    replaced(text, found.span(), value, path, value)
}

/// Returns where `#key = …` is below `[section]`.
fn commented_out(text: &str, section: &str, key: &str) -> Option<Range<usize>> {
    let mut here = "";
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.trim_end_matches(['\n', '\r']).len();
        let header = line.trim().strip_prefix('[');
        let setting = line.strip_prefix('#').and_then(|line| line.split_once('='));
        match (header.and_then(|rest| rest.split_once(']')), setting) {
            (Some((name, _)), _) => here = name,
            (None, Some((name, _))) if here == section && name.trim_end() == key => {
                return Some(start..end);
            }
            _ => {}
        }
        start += line.len();
    }
    None
}

/// Returns `text` with `words` at `at`, if that sets `path` to `value` and changes no other setting.
fn replaced(
    text: &str,
    at: Range<usize>,
    words: &str,
    path: &[&str],
    value: &str,
) -> Option<String> {
    let changed = format!("{}{words}{}", text.get(..at.start)?, text.get(at.end..)?);
    let value = format!("value = {value}").parse::<toml::Table>().ok()?;
    let mut expected = text.parse::<toml::Table>().ok()?;
    let (key, parents) = path.split_last()?;
    let mut table = &mut expected;
    for name in parents {
        let inner = table
            .entry(*name)
            .or_insert_with(|| toml::Table::new().into());
        table = inner.as_table_mut()?;
    }
    table.insert((*key).to_owned(), value.get("value")?.clone());
    (changed.parse::<toml::Table>().ok()? == expected).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_takes_the_place_of_its_line_in_its_section() {
        let text = "[a]\n#on = false\n[b]\n# on = words\n#on = false\nx = 1\n[b.c]\non = 1\n";
        let set = |section, key| with_setting(text, section, key, "true");
        assert_eq!(
            set("b", "on").as_deref(),
            Some("[a]\n#on = false\n[b]\n# on = words\non = true\nx = 1\n[b.c]\non = 1\n")
        );
        assert_eq!(
            set("b", "x").as_deref(),
            Some("[a]\n#on = false\n[b]\n# on = words\n#on = false\nx = true\n[b.c]\non = 1\n")
        );
        assert_eq!((set("b", "y"), set("d", "on")), (None, None));
    }

    #[test]
    fn what_is_in_force_is_changed_and_not_what_is_commented_out() {
        let changed = with_setting("[a]\n#x = 1\nx = 2\n", "a", "x", "3");
        assert_eq!(changed.as_deref(), Some("[a]\n#x = 1\nx = 3\n"));
    }

    #[test]
    fn a_value_of_several_lines_is_replaced_whole_and_nothing_beside_it() {
        let set = |text| with_setting(text, "providers", "load", "[\"local\"]");
        let lines =
            "[providers]\r\nload = [  # mine\n  \"anthropic\",\n  [\"x\"], # ]\n] # all\nx = 1\n";
        assert_eq!(
            set(lines).as_deref(),
            Some("[providers]\r\nload = [\"local\"] # all\nx = 1\n")
        );
        for (text, expected) in [
            ("providers.load = [\n]\n", "providers.load = [\"local\"]\n"),
            (
                "providers = { load = [] }\n",
                "providers = { load = [\"local\"] }\n",
            ),
            (
                "[providers]\n#load = [\n#]\n",
                "[providers]\nload = [\"local\"]\n#]\n",
            ),
        ] {
            assert_eq!(set(text).as_deref(), Some(expected), "{text:?}");
        }
        // What looks like the line and is none, and a file that is not TOML, are told instead.
        for text in [
            "[providers]\nx = \"\"\"\n#load = []\n\"\"\"\n",
            "[providers]\n#load = []\nx =\n",
        ] {
            assert_eq!(set(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_template_has_every_line_that_is_set_here() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        crate::workspace::init(&home, chrono_tz::UTC).expect("init");
        for (section, key, value) in [
            ("providers", "load", "[\"offline\"]"),
            ("telegram", "enabled", "false"),
        ] {
            assert!(
                set(&home, section, key, value).expect("written"),
                "{section} {key}"
            );
        }
        crate::config::load(&home, &crate::config::Environment::of(&[]), &[]).expect("still good");
    }
}
