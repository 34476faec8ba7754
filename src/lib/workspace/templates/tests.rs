use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::config::{Config, Cost, Environment, Zone, load};

fn new_home(dir: &Path) -> Home {
    Home::at(dir)
}

/// Takes the `#` off every line like `#key = value` or `#[table]`.
fn uncommented(template: &str) -> String {
    let setting = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    template.lines().map(|line| setting(line) + "\n").collect()
}

fn keys(value: &serde_json::Value, path: &str, out: &mut BTreeSet<String>) {
    let chosen_by_user = [
        "routing",
        "agent.stickers",
        "session.identity_links",
        "telegram.groups",
        "context.tiers",
        "http.hooks",
        "mcp.servers",
        "memory.collections",
    ]
    .contains(&path);
    match value {
        serde_json::Value::Object(table) if !chosen_by_user => {
            table.iter().for_each(|(key, inner)| {
                keys(inner, format!("{path}.{key}").trim_start_matches('.'), out)
            });
        }
        _ => {
            out.insert(path.to_owned());
        }
    }
}

#[test]
fn a_new_home_loads_without_a_warning_and_has_its_documented_defaults() {
    let dir = tempfile::tempdir().expect("dir");
    let home = new_home(dir.path());
    let created = init(&home, Tz::Europe__Berlin).expect("init");
    assert!(created.iter().all(|file| file.fate == Fate::Written));
    assert_eq!(created.len(), 14);
    let loaded = load(&home, &Environment::default(), &[]).expect("load");
    assert_eq!((loaded.warnings, loaded.notes), (vec![], vec![]));
    let mut expected = Config {
        cost: Cost {
            day_usd: 5.0,
            ..Cost::default()
        },
        ..Config::default()
    };
    expected.agent.timezone = Zone(Tz::Europe__Berlin);
    assert_eq!(loaded.config, expected);
    assert_eq!(
        loaded.models.get("primary", "test").expect("primary").name,
        "offline"
    );
}

#[test]
fn the_agent_is_told_that_it_may_propose_edits_of_what_shapes_it() {
    let dir = tempfile::tempdir().expect("dir");
    let home = new_home(dir.path());
    init(&home, Tz::UTC).expect("init");
    let agents = std::fs::read_to_string(home.workspace().join("AGENTS.md")).expect("file");
    assert!(agents.contains("propose edits") && agents.contains("diff"));
}

#[test]
fn the_commented_lines_are_the_defaults_and_every_key_is_there() {
    let text = uncommented(&AGENT_TOML.replace("@ZONE@", "UTC"));
    let mut written: Config = toml::from_str(&text).expect("the uncommented template");
    let mut found = BTreeSet::new();
    keys(
        &serde_json::to_value(toml::from_str::<toml::Table>(&text).expect("table")).expect("json"),
        "",
        &mut found,
    );
    let mut known = BTreeSet::new();
    keys(
        &serde_json::to_value(Config::default()).expect("json"),
        "",
        &mut known,
    );
    assert_eq!(found, known);

    // What the template calls an example, and the cap it sets.
    assert!(
        !written.routing.is_empty()
            && !written.telegram.groups.is_empty()
            && !written.session.identity_links.is_empty()
    );
    written.routing.clear();
    written.telegram.groups.clear();
    written.session.identity_links.clear();
    written.context.tiers.clear();
    written.http.hooks.clear();
    written.mcp.servers.clear();
    written.memory.collections.clear();
    written.session.reset_for = crate::config::ResetFor::default();
    written.compaction.keep = None;
    written.telegram.pace = None;
    written.memory.vector_weight = None;
    written.tools.enabled = None;
    written.cost.day_usd = 0.0;
    assert_eq!(written, Config::default());
}

#[test]
fn the_example_providers_load_under_their_names() {
    let dir = tempfile::tempdir().expect("dir");
    let home = new_home(dir.path());
    init(&home, Tz::UTC).expect("init");
    for Vendor { name, .. } in VENDORS {
        let example = home.providers_dir().join(format!("{name}.toml.example"));
        let all = uncommented(&std::fs::read_to_string(&example).expect("example"));
        let plain = std::fs::read_to_string(&example).expect("example");
        for text in [plain, all] {
            let path = home.providers_dir().join(format!("{name}.toml"));
            let _ = std::fs::remove_file(&path);
            write_new(path, &text).expect("write");
            let loaded = load(
                &home,
                &Environment::default(),
                &[("providers.load".to_owned(), name.to_owned())],
            )
            .expect("load");
            assert_eq!(loaded.warnings, []);
            assert!(
                loaded
                    .models
                    .get("primary", "test")
                    .expect("primary")
                    .rates
                    .is_some()
            );
        }
    }
}

#[test]
fn a_second_init_overwrites_nothing() {
    let dir = tempfile::tempdir().expect("dir");
    let home = new_home(dir.path());
    init(&home, Tz::UTC).expect("init");
    let soul = home.workspace().join("SOUL.md");
    std::fs::remove_file(&soul).expect("remove");
    write_new(soul.clone(), "mine").expect("write");
    std::fs::remove_file(home.workspace().join("USER.md")).expect("remove");
    std::os::unix::fs::symlink("/nowhere", home.workspace().join("USER.md")).expect("link");
    std::fs::remove_file(home.workspace().join("TOOLS.md")).expect("remove");
    let written: Vec<PathBuf> = init(&home, Tz::UTC)
        .expect("init")
        .into_iter()
        .filter(|file| file.fate == Fate::Written)
        .map(|file| file.path)
        .collect();
    assert_eq!(written, [home.workspace().join("TOOLS.md")]);
    assert_eq!(std::fs::read_to_string(soul).expect("soul"), "mine");
}

#[test]
fn everything_is_private_and_the_prompt_files_are_short() {
    let dir = tempfile::tempdir().expect("dir");
    for file in init(&new_home(dir.path()), Tz::UTC).expect("init") {
        let mode = std::fs::metadata(&file.path)
            .expect("file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.path.display());
    }
    let bytes: usize = WORKSPACE_FILES.iter().map(|(_, text)| text.len()).sum();
    assert!(bytes < 2_500, "{bytes} bytes");
    let heartbeat = template("HEARTBEAT.md");
    let has_item = |line: &str| !line.is_empty() && !line.starts_with('#');
    assert!(!heartbeat.lines().any(has_item), "a new agent has no item");
}
