//! The manual pages against the programs: flags, verbs, exit codes, settings with their defaults
//! and fields of JSON, in both directions. The message of a failure says which line is missing.

mod examples;
mod howto;
mod page;

use std::collections::{BTreeMap, BTreeSet};

use agent_toolkit::{
    app::{self, cli::Exit},
    config::{ChannelSettings, Collection, Config, Group, Hook, McpServer, ROLES, Tier},
    control::{self, replies},
    monitor_state,
};
use clap::{Arg, Command};
use page::{Item, Page};
use serde_json::{Value, json};

/// Compares what the program has with what a page documents.
fn compare(page: &str, expected: &BTreeSet<String>, found: &BTreeSet<String>) {
    let missing: Vec<_> = expected.difference(found).collect();
    let unknown: Vec<_> = found.difference(expected).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "man/{page}: not documented: {missing:?}; documented, and the program has none: {unknown:?}"
    );
}

fn programs() -> impl Iterator<Item = (Command, Page)> {
    app::commands().into_iter().map(|mut command| {
        command.build();
        let page = Page::read(&format!("{}.1", command.get_name()));
        (command, page)
    })
}

fn verbs(program: &Command) -> impl Iterator<Item = &Command> {
    // `help` is clap's own.
    program
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

/// Returns the visible options of a program and its verbs.
fn options(program: &Command) -> impl Iterator<Item = &Arg> {
    std::iter::once(program)
        .chain(verbs(program))
        .flat_map(Command::get_arguments)
        .filter(|arg| !arg.is_hide_set() && !arg.is_positional())
}

fn spellings(arg: &Arg) -> impl Iterator<Item = String> {
    let long = arg.get_long().map(|name| format!("--{name}"));
    long.into_iter()
        .chain(arg.get_short().map(|c| format!("-{c}")))
}

#[test]
fn a_page_lists_the_options_and_verbs_of_its_program_and_no_others() {
    for (program, page) in programs() {
        let listed = |sections: [&str; 2], head: fn(&Item) -> Vec<String>| -> BTreeSet<String> {
            let items = page.items.iter();
            items
                .filter(|item| sections.contains(&item.section.as_str()))
                .flat_map(head)
                .collect()
        };
        let flags = options(&program).flat_map(spellings).collect();
        compare(
            &page.file,
            &flags,
            &listed(["OPTIONS", "COMMANDS"], Item::flags),
        );
        let names: BTreeSet<String> = verbs(&program)
            .map(|verb| verb.get_name().to_owned())
            .collect();
        let commands = page
            .items
            .iter()
            .filter(|item| item.section == "COMMANDS" && item.depth == 1);
        let mut found: BTreeSet<String> = commands.filter_map(Item::command).collect();
        found.remove("help");
        compare(&page.file, &names, &found);
    }
}

#[test]
fn every_value_and_default_of_an_option_is_in_its_page() {
    for (program, page) in programs() {
        for arg in options(&program) {
            let values = arg.get_possible_values();
            let defaults = arg
                .get_default_values()
                .iter()
                .filter(|_| arg.get_num_args().is_some_and(|count| count.takes_values()));
            let words = values
                .iter()
                .filter(|value| !value.is_hide_set())
                .map(|value| value.get_name().to_owned())
                .chain(defaults.map(|value| value.to_string_lossy().into_owned()));
            let long = spellings(arg).next().unwrap_or_default();
            let texts: String = page
                .items
                .iter()
                .filter(|item| item.flags().contains(&long))
                .map(|item| item.text.as_str())
                .collect();
            for word in words.filter(|word| !["true", "false"].contains(&word.as_str())) {
                assert!(
                    texts
                        .split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_')
                        .any(|found| found == word),
                    "man/{}: {long}: `{word}` is not named",
                    page.file
                );
            }
        }
    }
}

#[test]
fn every_flag_that_a_page_names_exists() {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (program, page) in programs() {
        known.insert(page.file, options(&program).flat_map(spellings).collect());
    }
    let all: BTreeSet<String> = known.values().flatten().cloned().collect();
    for (file, flags) in known.iter().chain([(&"agent.toml.5".to_owned(), &all)]) {
        let page = Page::read(file);
        for (flag, line) in &page.flags {
            // `.Fl qv` is `-q` and `-v`.
            let letters = flag.trim_start_matches('-').chars();
            let known = flags.contains(flag)
                || !flag.starts_with("--")
                    && letters
                        .map(|letter| format!("-{letter}"))
                        .all(|letter| flags.contains(&letter));
            assert!(known, "man/{file}:{line}: no flag is called {flag}");
        }
    }
}

#[test]
fn a_quotation_of_a_page_ends_where_it_should() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("man");
    for page in std::fs::read_dir(dir).expect("man") {
        let page = page.expect("a page").path();
        let text = std::fs::read_to_string(&page).expect("a page is text");
        for (line, number) in text.lines().zip(1..) {
            let Some(line) = line
                .strip_prefix('.')
                .filter(|line| !line.starts_with('\\'))
            else {
                continue;
            };
            // Behind \" all is a comment, and Ql quotes the rest of its line, other macros included.
            let quoted = line.split_once("Ql ").map_or("", |(_, rest)| rest);
            let runs_on = quoted.split(' ').any(|word| ["No", "Ql"].contains(&word));
            let page = page.display();
            assert!(
                !line.contains("\\\"") && !runs_on,
                "{page}:{number}: {line}"
            );
        }
    }
}

#[test]
fn exit_codes_of_a_page_exist_and_those_of_the_help_are_in_it() {
    const EXITS: [Exit; 10] = [
        Exit::Ok,
        Exit::Failed,
        Exit::Usage,
        Exit::Data,
        Exit::NoDaemon,
        Exit::Bug,
        Exit::Io,
        Exit::TryAgain,
        Exit::NotPermitted,
        Exit::Config,
    ];
    let known = EXITS.map(|exit| (exit as u8).to_string());
    for (program, page) in programs() {
        let codes: Vec<String> = page
            .items
            .iter()
            .filter(|item| item.section == "EXIT STATUS")
            .map(|item| item.head.clone())
            .collect();
        assert!(
            codes.iter().all(|code| known.contains(code)),
            "{}",
            page.file
        );
        let about = program
            .get_long_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        let (_, in_help) = about.split_once("Exit code:").unwrap_or_default();
        let in_help = in_help
            .split([',', ':'])
            .filter_map(|part| part.split_whitespace().next())
            .filter(|word| word.parse::<u8>().is_ok());
        for code in in_help.chain(["0", "2"]) {
            assert!(
                codes.iter().any(|found| found == code),
                "man/{}: EXIT STATUS: no {code}",
                page.file
            );
        }
    }
}

/// Returns every key below `value` with its default.
fn flatten(path: &str, value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(table) if !table.is_empty() => {
            for (key, value) in table {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                flatten(&path, value, keys);
            }
        }
        Value::Null => drop(keys.insert(path.to_owned())),
        value => drop(keys.insert(format!("{path} = {value}"))),
    }
}

fn documented(page: &Page, section: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for item in page.items.iter().filter(|item| item.section == section) {
        let Some(head) = item.head.strip_prefix("Va ") else {
            continue;
        };
        let table = item.subsection.trim_matches(['[', ']']).replace('"', "");
        let table = if table.is_empty() {
            table
        } else {
            format!("{table}.")
        };
        let line = match head.split_once(" No = ") {
            None => format!("{table}{head}"),
            Some((key, default)) => {
                let parsed = format!("value = {default}").parse::<toml::Table>();
                let mut parsed = parsed.unwrap_or_else(|why| panic!("{head}: {why}"));
                let value = serde_json::to_value(parsed.remove("value")).expect("plain data");
                format!("{table}{key} = {value}")
            }
        };
        assert!(
            found.insert(line),
            "man/{}: {table}{head} is documented twice",
            page.file
        );
    }
    found
}

#[test]
fn every_key_is_in_agent_toml_5_with_its_default_and_no_other_is() {
    let mut config = to_json(&Config::default());
    config["telegram"]["groups"]["ID"] = to_json(&<Group>::default());
    config["channels"]["NAME"] = to_json(&ChannelSettings::default());
    config["channels"]["NAME"]["groups"]["ID"] = to_json(&<Group>::default());
    config["routing"] = ROLES
        .iter()
        .map(|role| ((*role).to_owned(), Value::Null))
        .collect::<serde_json::Map<_, _>>()
        .into();
    config["session"]["identity_links"]["NAME"] = Value::Null;
    config["context"]["tiers"]["NAME"] = to_json(&Tier::default());
    config["tools"]["policies"]["NAME"] = Value::Null;
    config["http"]["hooks"]["NAME"] = to_json(&Hook::default());
    config["memory"]["collections"]["NAME"] = to_json(&Collection::default());
    config["mcp"]["servers"]["NAME"] = to_json(&McpServer::default());
    let mut expected = BTreeSet::new();
    flatten("", &config, &mut expected);
    let page = Page::read("agent.toml.5");
    compare(&page.file, &expected, &documented(&page, "SETTINGS"));
}

fn to_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("plain data")
}

#[test]
fn the_keys_of_a_provider_file_are_those_of_the_page() {
    // Private types: their fields are read from the source.
    let source = include_str!("../../src/lib/config/provider_file/parse.rs");
    let fields = |of: &str, table: &str| -> Vec<String> {
        let (_, body) = source
            .split_once(&format!("struct {of} {{\n"))
            .expect("the type is there");
        let (body, _) = body.split_once("\n}").expect("a struct ends");
        body.lines()
            .map(str::trim)
            .filter(|line| !line.starts_with(['#', '/']))
            .filter_map(|line| line.split_once(':'))
            .map(|(name, _)| format!("{table}{}", name.trim_start_matches("r#")))
            .collect()
    };
    let mut expected: BTreeSet<String> = fields("File", "").into_iter().collect();
    expected.retain(|key| key != "models" && key != "oauth");
    expected.extend(fields("Entry", "models.NAME."));
    expected.extend(fields("SignIn", "oauth."));
    let page = Page::read("agent.toml.5");
    let found = documented(&page, "PROVIDER FILES");
    let names = |line: &String| line.split(" = ").next().unwrap_or_default().to_owned();
    compare(&page.file, &expected, &found.iter().map(names).collect());
}

fn fields_of(page: &Page, section: &str, subsection: &str) -> BTreeSet<String> {
    page.items
        .iter()
        .filter(|item| item.section == section && item.subsection == subsection && item.depth == 1)
        .filter_map(|item| item.head.strip_prefix("Va "))
        .flat_map(|head| head.split(" , "))
        .map(str::to_owned)
        .collect()
}

fn keys(value: &impl serde::Serialize) -> BTreeSet<String> {
    to_json(value)
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect()
}

#[test]
fn the_fields_of_monitor_json_and_of_a_reply_are_those_of_the_pages() {
    let monitor = Page::read("agent-monitor.1");
    let state = keys(&monitor_state::State::default());
    compare(
        &monitor.file,
        &state,
        &fields_of(&monitor, "JSON DOCUMENT", ""),
    );
    let ask = replies::Ask {
        id: String::new(),
        tool: String::new(),
        text: String::new(),
        why: String::new(),
        expires_at: String::new(),
        rule: None,
        wanted: None,
    };
    let reply = replies::Reply {
        reply: Some(String::new()),
        session_id: Some(String::new()),
        run_id: Some(String::new()),
        tokens: Some(1),
        output_tokens: Some(1),
        cost_usd: Some(1.0),
        silent: Some(true),
        asks: vec![ask],
        waits_for: Some(String::new()),
        ..replies::Reply::error("x", "why")
    };
    let send = Page::read("agent-send.1");
    compare(
        &send.file,
        &keys(&reply),
        &fields_of(&send, "PROTOCOL", "Replies"),
    );
}

#[test]
fn the_commands_of_the_protocol_are_accepted_as_the_page_has_them() {
    let page = Page::read("agent-send.1");
    let mut verbs = BTreeSet::new();
    let items = page
        .items
        .iter()
        .filter(|item| item.section == "PROTOCOL" && item.subsection.is_empty());
    for item in items {
        let Some(head) = item.head.strip_prefix("Cm ") else {
            continue;
        };
        let (verb, fields) = head.split_once(" Pq ").unwrap_or((head, ""));
        verbs.insert(verb.to_owned());
        let names = fields.split(", ").filter(|field| !field.is_empty());
        let required: Vec<&str> = names.filter(|name| !name.ends_with('?')).collect();
        let value = |name: &str| match name {
            "verdict" => "approve",
            "op" if verb == "pair" => "owner",
            "op" => "add",
            "action" => "retry",
            _ => "x",
        };
        let command = |skip: Option<&str>| {
            let mut line = json!({"id": "a", "cmd": verb});
            for name in required.iter().filter(|name| Some(**name) != skip) {
                line[*name] = json!(value(name));
            }
            control::decode(line.to_string().as_bytes())
        };
        assert!(
            command(None).is_ok(),
            "man/{}: {verb}: {:?}",
            page.file,
            command(None)
        );
        // The id of a spooled command is the line's own.
        for name in required.iter().filter(|name| **name != "id") {
            assert!(
                command(Some(name)).is_err(),
                "man/{}: {verb}: {name} is optional",
                page.file
            );
        }
    }
    let refused = control::decode(br#"{"id": "a", "cmd": "?"}"#)
        .expect_err("no command")
        .to_string();
    let known: BTreeSet<String> = refused
        .split('`')
        .skip(3)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    compare(&page.file, &known, &verbs);
}
