//! Changes to files that belong to the person, made only on the person's answer: one line of agent.toml or `.env`, the
//! rest stays as it is.

use std::path::Path;

use crate::app::cli::Failure;
use crate::config;
use crate::config::Home;
use crate::sys;
use crate::sys::atomic;

/// Writes `key = value` into `[section]` of agent.toml. Returns false where the file has no such line, not even
/// commented out: then it is told to the person.
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

fn with_setting(text: &str, section: &str, key: &str, value: &str) -> Option<String> {
    let mut here = "";
    let is_key = |line: &str| {
        let line = line.strip_prefix('#').unwrap_or(line);
        line.split_once('=')
            .is_some_and(|(name, _)| name.trim() == key && !name.starts_with(' '))
    };
    let mut found: Vec<(usize, &str)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        match line
            .trim()
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            Some((name, _)) => here = name,
            None if here == section && is_key(line) => found.push((number, line)),
            None => {}
        }
    }
    let in_force = found.iter().find(|(_, line)| !line.starts_with('#'));
    let (at, _) = in_force.or(found.first())?;
    let lines = text
        .lines()
        .enumerate()
        .map(|(number, line)| match number == *at {
            true => format!("{key} = {value}\n"),
            false => format!("{line}\n"),
        });
    Some(lines.collect())
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
