use super::*;
use crate::config::Environment;
use crate::config::home::HomeFlags;
use crate::sys::atomic;

struct Place(tempfile::TempDir);

impl Place {
    fn new(auth: &str, files: &[(&str, &str)]) -> Self {
        let place = Self(tempfile::tempdir().expect("dir"));
        place.put("agent.toml", "");
        place.put("state/auth.json", auth);
        for (name, models) in files {
            let tables: String = models
                .split(' ')
                .map(|model| format!("[models.{model}]\nmodel = \"m\"\n"))
                .collect();
            place.put(
                &format!("providers.d/{name}.toml"),
                &format!("type = \"anthropic\"\n{tables}"),
            );
        }
        place
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("dir");
        atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
    }

    fn home(&self) -> Home {
        let flags = HomeFlags {
            home: Some(self.0.path().to_owned()),
            ..HomeFlags::default()
        };
        Home::resolve(flags, &|_| None).expect("home")
    }

    /// Returns who is loaded, and how many warnings there are.
    fn chosen(&self) -> (Vec<String>, usize) {
        let home = self.home();
        let secrets = Secrets::lenient(&home, &Environment::default());
        let Chosen {
            load,
            speech,
            warnings,
        } = choose(&home, &secrets).expect("choose");
        assert_eq!(speech, None);
        let names = load.map(|(names, _)| names).unwrap_or_default();
        assert!(
            warnings
                .iter()
                .all(|warning| warning.to_string().contains("`providers.load` is not set")),
            "{warnings:?}"
        );
        (names, warnings.len())
    }
}

fn signed_in(names: &[&str]) -> String {
    let entries: Vec<String> = names
        .iter()
        .map(|name| format!("\"{name}\": {{\"api_key\": {{\"key\": \"k\"}}}}"))
        .collect();
    format!(
        "{{\"version\": 1, \"providers\": {{{}}}}}",
        entries.join(", ")
    )
}

fn check(auth: &str, files: &[(&str, &str)], names: &[&str], warnings: usize) {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(
        Place::new(auth, files).chosen(),
        (names, warnings),
        "{auth} {files:?}"
    );
}

#[test]
fn drafts_are_never_loaded() {
    check("", &[("a", "primary"), ("b", "primary")], &[], 0);
    check(
        &signed_in(&["c"]),
        &[("a", "primary"), ("b", "primary")],
        &[],
        0,
    );
    check(
        &signed_in(&["b"]),
        &[("a", "primary"), ("b", "primary")],
        &["b"],
        0,
    );
    check("{\"providers\": {\"a\": {}}}", &[("a", "primary")], &[], 0);
}

#[test]
fn of_two_the_one_signed_in_first_comes_first() {
    check(
        &signed_in(&["b", "a"]),
        &[("a", "primary"), ("b", "primary")],
        &["b", "a"],
        0,
    );
    check(
        &signed_in(&["b", "a"]),
        &[("a", "small"), ("b", "primary")],
        &["b", "a"],
        0,
    );
}

#[test]
fn without_a_primary_nothing_is_loaded_and_that_is_said() {
    check(&signed_in(&["a"]), &[("a", "small")], &[], 1);
}

#[test]
fn a_key_that_nobody_could_try_loads_nothing() {
    let key = |more: &str| {
        format!("{{\"providers\": {{\"a\": {{\"api_key\": {{\"key\": \"k\"{more}}}}}}}}}")
    };
    check(&key(", \"unverified\": true"), &[("a", "primary")], &[], 0);
    check(&key(""), &[("a", "primary")], &["a"], 0);
}

#[test]
fn a_vendor_needs_no_file() {
    check(&signed_in(&["openrouter"]), &[], &["openrouter"], 0);
}

#[test]
fn a_file_of_keys_that_makes_no_sense_loads_nothing_and_that_is_said() {
    for text in ["[]", "{", "{\"providers\": 1}"] {
        check(text, &[("a", "primary")], &[], 1);
    }
}

#[test]
fn a_broken_file_is_left_to_who_says_what_is_wrong_with_it() {
    let place = Place::new(&signed_in(&["a"]), &[]);
    place.put("providers.d/a.toml", "no TOML");
    assert_eq!(place.chosen(), (vec!["a".to_owned()], 0));
}
