//! agent.toml(5) against the config types: every key once, with its default, its type and its words, and
//! marked where this build has no use for it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    sync::Arc,
};

use agent_toolkit::{
    config::{
        self, Config, Environment, Group, Home, HomeFlags, McpServer, ProviderType, ROLES, Tier,
    },
    memory::Memory,
    sandbox::Root,
    skills::Skills,
    tools, undo,
    workspace::{Grounds, Marks},
};
use serde_json::{Map, Value};

use super::{
    mdoc::{Item, Page},
    report,
};
use crate::support::Sandbox;

const MARK: &str = "Not in this build:";

fn page() -> Page {
    Page::read("agent.toml.5")
}

/// A key with its default; `None` when it has none.
type Keys = BTreeMap<String, Option<Value>>;

/// Returns every key of the config types as the page calls it: NAME and ID are the user's own words.
fn expected() -> Keys {
    let mut config = serde_json::to_value(Config::default()).expect("the settings are plain data");
    config["telegram"]["groups"]["ID"] =
        serde_json::to_value(Group::default()).expect("plain data");
    config["routing"] = Value::Object(
        ROLES
            .iter()
            .map(|role| ((*role).to_owned(), Value::Null))
            .collect(),
    );
    config["session"]["identity_links"]["NAME"] = Value::Null;
    config["context"]["tiers"]["NAME"] = serde_json::to_value(Tier::default()).expect("plain data");
    config["tools"]["policies"]["NAME"] = Value::Null;
    config["mcp"]["servers"]["NAME"] =
        serde_json::to_value(McpServer::default()).expect("plain data");
    let mut keys = Keys::new();
    flatten("", &config, &mut keys);
    keys
}

fn flatten(path: &str, value: &Value, keys: &mut Keys) {
    match value {
        Value::Object(table) if table.is_empty() && path == "agent.max_turns_for" => {
            keys.insert(path.to_owned(), Some(value.clone()));
        }
        Value::Object(table) => {
            let below = |key: &str| {
                if path.is_empty() {
                    key.to_owned()
                } else {
                    format!("{path}.{key}")
                }
            };
            assert!(
                !table.is_empty(),
                "the map [{path}] has keys of the user's own: give it an example in expected()"
            );
            table
                .iter()
                .for_each(|(key, value)| flatten(&below(key), value, keys));
        }
        value => drop(keys.insert(
            path.to_owned(),
            Some(value.clone()).filter(|value| !value.is_null()),
        )),
    }
}

/// The keys of a page with their items; `table` says where an item belongs.
struct Documented<'a> {
    keys: Keys,
    items: BTreeMap<String, &'a Item>,
    wrong: Vec<String>,
}

/// Returns the table that a subsection is about.
fn table_of(item: &Item) -> String {
    let title = item.place.subsection.clone().unwrap_or_default();
    title.trim_matches(['[', ']']).replace('"', "")
}

fn documented<'a>(page: &'a Page, section: &str) -> Documented<'a> {
    let mut found = Documented {
        keys: Keys::new(),
        items: BTreeMap::new(),
        wrong: Vec::new(),
    };
    for item in page
        .items
        .iter()
        .filter(|item| item.place.section == section)
    {
        let at = format!("man/{}:{}", page.file, item.line);
        let (key, default) = match item.head.text.split_once(" = ") {
            Some((key, default)) => (key, Some(default)),
            None => (item.head.text.as_str(), None),
        };
        let table = table_of(item);
        let path = if table.is_empty() {
            key.to_owned()
        } else {
            format!("{table}.{key}")
        };
        let value = default.map(|default| {
            let parsed = format!("value = {default}").parse::<toml::Table>();
            let value = parsed.map(|mut table| {
                serde_json::to_value(table.remove("value")).expect("TOML is plain data")
            });
            value.unwrap_or_else(|why| panic!("{at}: `{default}` is no TOML value: {why}"))
        });
        if found.keys.insert(path.clone(), value).is_some() {
            found
                .wrong
                .push(format!("{at}: `{path}` is documented twice"));
        }
        found.items.insert(path, item);
    }
    found
}

fn shown(value: &Option<Value>) -> String {
    value.as_ref().map_or_else(
        || "no default".to_owned(),
        |value| format!("the default {value}"),
    )
}

fn compare(place: &str, expected: &Keys, found: &Keys) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, default) in expected {
        match found.get(key) {
            None => wrong.push(format!(
                "{place}: `{key}` ({}) is not documented",
                shown(default)
            )),
            Some(said) if said != default => {
                wrong.push(format!(
                    "{place}: `{key}` has {}, and the page says {}",
                    shown(default),
                    shown(said)
                ));
            }
            Some(_) => {}
        }
    }
    let unknown = found.keys().filter(|key| !expected.contains_key(*key));
    wrong.extend(unknown.map(|key| format!("{place}: `{key}` is documented, and no type has it")));
    wrong
}

#[test]
fn every_key_stands_once_in_agent_toml_5_with_its_default_and_no_other_does() {
    let page = page();
    let found = documented(&page, "SETTINGS");
    let mut wrong = compare("man/agent.toml.5, SETTINGS", &expected(), &found.keys);
    wrong.extend(found.wrong);
    report(&wrong);
}

/// Returns the words a key may have: what the type answers to a wrong one.
fn words(error: &str) -> Option<BTreeSet<String>> {
    let (_, expected) = error.split_once("unknown variant `?`, expected ")?;
    Some(
        expected
            .lines()
            .next()?
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect(),
    )
}

/// Checks the words in the item, or the type it begins with.
fn check_type(
    at: &str,
    item: &Item,
    words: Option<BTreeSet<String>>,
    default: Option<&Value>,
) -> Option<String> {
    let Some(words) = words else {
        let begins = match default? {
            Value::String(_) => "String",
            Value::Bool(_) => "Boolean",
            Value::Array(_) => "List of",
            Value::Number(number) if number.is_f64() => "Number",
            Value::Number(_) => "Whole number",
            Value::Null | Value::Object(_) => return None,
        };
        return (!item.body.text.starts_with(begins))
            .then(|| format!("{at}: its text begins with its type, {begins}"));
    };
    let found: BTreeSet<String> = item
        .items
        .iter()
        .flat_map(|item| item.head.of("Cm"))
        .map(str::to_owned)
        .collect();
    let opened = item.body.text.contains("ne of these strings:");
    (found != words || !opened).then(|| {
        format!(
            "{at}: `One of these strings:` and a list of .It Cm with {words:?}; found {found:?}"
        )
    })
}

#[test]
fn every_key_names_its_type_or_the_words_it_may_have() {
    let page = page();
    let found = documented(&page, "SETTINGS");
    let mut wrong = Vec::new();
    for (key, default) in expected() {
        let Some(item) = found.items.get(&key) else {
            continue;
        };
        let (table, last) = key.rsplit_once('.').unwrap_or(("", &key));
        let tried = toml::from_str::<Config>(&format!("[{table}]\n{last} = \"?\""));
        let words = tried.err().and_then(|error| words(error.message()));
        wrong.extend(check_type(
            &format!("man/{}:{}: {key}", page.file, item.line),
            item,
            words,
            default.as_ref(),
        ));
    }
    report(&wrong);
}

#[test]
fn the_tools_that_can_be_enabled_are_named() {
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    let root = Root::open(dir.path()).expect("it is there");
    let exec = tools::ExecSettings {
        workspace: dir.path().to_owned(),
        hidden: Vec::new(),
        rules: agent_toolkit::config::Exec::default(),
        off: false,
        env: Vec::new(),
    };
    let flags = HomeFlags {
        home: Some(dir.path().to_owned()),
        ..HomeFlags::default()
    };
    let home = Home::resolve(flags, &|_| None).expect("an absolute path is a home");
    let root = Arc::new(root);
    let needs = tools::Needs {
        grounds: Arc::new(Grounds::new(root.clone(), Vec::new(), Vec::new())),
        undo: Arc::new(undo::Store::new(home.undo(), Marks::new(&home.untrusted()))),
        root,
        memory: Arc::new(Memory::new(&home)),
        skills: Arc::new(Skills::new(&home, None)),
        zone: chrono_tz::UTC,
        windows: HashMap::new(),
        exec: Some(exec),
        web: Arc::new(tools::Web::new(&config::Web::default(), None)),
        episodes: parking_lot::Mutex::default(),
    };
    let expected: BTreeSet<String> = tools::all(needs)
        .iter()
        .map(|tool| tool.spec().name.into_owned())
        .collect();
    let page = page();
    let found = documented(&page, "SETTINGS");
    let item = found
        .items
        .get("tools.enabled")
        .expect("every key is documented");
    let found: BTreeSet<String> = item.body.of("Ql").into_iter().map(str::to_owned).collect();
    assert_eq!(
        found, expected,
        "man/{}:{}: tools.enabled",
        page.file, item.line
    );
}

// ------------------------------------------------------------------ what this build has no use for

/// Every setting that may have no effect, set so that the program says so. Settings that found their use stay
/// here; then the page must not say that they have none.
const IDLE: &str = r#"
[agent]
mode = "plan"
config_path = ["/tmp"]
[pipeline]
on_busy = "replan"
[http]
enabled = true
[tools]
allowed_paths = ["/tmp"]
[tools.exec]
policy = "ask"
sandbox = "bubblewrap"
[session.identity_links]
ada = ["cli:ada"]
[memory.embeddings]
provider = "local"
[heartbeat]
every = "1h"
[mcp.servers.x]
command = ["x"]
"#;

/// Marked in the page, and the program says nothing when they are set.
const UNSAID: &[&str] = &["routing.vision", "routing.text_to_speech"];

#[test]
fn what_this_build_has_no_use_for_is_marked_and_nothing_else_is() {
    let sandbox = Sandbox::new()
        .env("AGENT_HTTP_TOKEN", "not-a-secret")
        .config(IDLE);
    let told = sandbox.run("agent-daemon", &["check", "--json"], "");
    let document = told.json();
    let notes = document["notes"]
        .as_array()
        .unwrap_or_else(|| panic!("{told:?}"));
    let notes: BTreeSet<&str> = notes
        .iter()
        .filter_map(|note| note.as_str()?.split('`').nth(1))
        .collect();
    let page = page();
    let found = documented(&page, "SETTINGS");
    let mut marked: BTreeSet<String> = found
        .items
        .iter()
        .filter(|(_, item)| item.whole().text.contains(MARK))
        .map(|(key, _)| key.clone())
        .collect();
    let tables = page.texts.iter().filter(|(place, span)| {
        place.section == "SETTINGS" && span.text.contains(MARK.trim_end_matches(':'))
    });
    marked.extend(tables.filter_map(|(place, _)| {
        Some(
            place
                .subsection
                .as_ref()?
                .trim_matches(['[', ']'])
                .replace('"', ""),
        )
    }));
    let covers = |a: &str, b: &str| {
        a == b || a.starts_with(&format!("{b}.")) || b.starts_with(&format!("{a}."))
    };
    let unmarked = notes
        .iter()
        .filter(|note| !marked.iter().any(|mark| covers(mark, note)));
    let mut wrong: Vec<String> = unmarked
        .map(|note| {
            format!(
                "man/{}: `{note}` is not marked `{MARK}`, and check says so",
                page.file
            )
        })
        .collect();
    let idle = marked.iter().filter(|mark| {
        !UNSAID.contains(&mark.as_str()) && !notes.iter().any(|note| covers(mark, note))
    });
    wrong.extend(idle.map(|mark| {
        format!(
            "man/{}: `{mark}` is marked `{MARK}`, and check does not say so",
            page.file
        )
    }));
    let gone = UNSAID
        .iter()
        .filter(|key| !marked.contains(**key) || notes.contains(**key));
    wrong.extend(
        gone.map(|key| {
            format!("`{key}` is in UNSAID and is not marked, or check speaks of it now")
        }),
    );
    report(&wrong);
}

// ------------------------------------------------------------------ providers.d

/// Returns the fields of a private type as its source declares them: serde knows them, and nobody else.
fn fields(source: &str, of: &str) -> BTreeSet<String> {
    let (_, rest) = source
        .split_once(&format!("struct {of} {{\n"))
        .unwrap_or_else(|| panic!("provider_file/parse.rs has no struct {of}"));
    let (body, _) = rest.split_once("\n}").expect("a struct ends");
    let names = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with('#') && !line.starts_with("//"));
    names
        .filter_map(|line| Some(line.split_once(':')?.0.trim_start_matches("r#").to_owned()))
        .collect()
}

/// Returns the defaults of a model that says nothing.
fn defaults() -> Map<String, Value> {
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    let providers = dir.path().join("providers.d");
    fs::create_dir(&providers).expect("it is writable");
    let place = |name: &str, text: &str| {
        use std::io::Write as _;
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(dir.path().join(name));
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("it is writable");
    };
    place("agent.toml", "[providers]\nload = [\"x\"]");
    place(
        "providers.d/x.toml",
        "type = \"anthropic\"\n[models.primary]\nmodel = \"m\"",
    );
    let home = Home::resolve(
        HomeFlags {
            home: Some(dir.path().to_owned()),
            ..HomeFlags::default()
        },
        &|_| None,
    )
    .expect("a home");
    let loaded = config::load(&home, &Environment::of(&[]), &[]).expect("a good file");
    assert_eq!(
        (&loaded.notes, &loaded.warnings),
        (&Vec::new(), &Vec::new())
    );
    let model = loaded.models.get("primary", "the test").expect("the model");
    assert_eq!(model.rates, None, "without prices there is none");
    let json = serde_json::json!({
        "max_tokens": model.max_tokens,
        "context_window": model.context_window,
        "cache_control": model.cache,
        "vision": model.vision,
        "thinking": model.thinking,
        "tools": model.tools,
        "fallbacks": model.fallbacks,
    });
    json.as_object().expect("an object").clone()
}

#[test]
fn every_key_of_a_provider_file_stands_once_with_its_default_and_no_other_does() {
    let source = include_str!("../../../src/lib/config/provider_file/parse.rs");
    let defaults = defaults();
    let mut expected = Keys::new();
    let models = fields(source, "Entry")
        .into_iter()
        .map(|key| (format!("models.NAME.{key}"), defaults.get(&key).cloned()));
    expected.extend(
        fields(source, "SignIn")
            .into_iter()
            .map(|key| (format!("oauth.{key}"), None)),
    );
    let tables = ["models", "oauth"];
    expected.extend(
        fields(source, "File")
            .into_iter()
            .filter(|key| !tables.contains(&key.as_str()))
            .map(|key| (key, None)),
    );
    expected.extend(models);
    assert!(
        expected.len() > 10
            && defaults
                .keys()
                .all(|key| expected.contains_key(&format!("models.NAME.{key}"))),
        "{expected:?}"
    );

    let page = page();
    let found = documented(&page, "PROVIDER FILES");
    let mut wrong = compare("man/agent.toml.5, PROVIDER FILES", &expected, &found.keys);
    for (key, default) in &expected {
        let Some(item) = found.items.get(key) else {
            continue;
        };
        let words =
            (key == "type").then(|| serde_json::from_value::<ProviderType>(Value::from("?")).err());
        let words = words
            .flatten()
            .and_then(|error| self::words(&error.to_string()));
        wrong.extend(check_type(
            &format!("man/{}:{}: {key}", page.file, item.line),
            item,
            words,
            default.as_ref(),
        ));
    }
    wrong.extend(found.wrong);
    report(&wrong);
}
