//! The pages of section 1 against the command lines and the exit codes.

use std::collections::BTreeSet;

use agent_toolkit::app::{self, cli::Exit};
use clap::{Arg, Command};

use super::{
    compare,
    mdoc::{Item, Page, Place},
    report,
};

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

/// Returns the five command lines as clap completes them, each with its page.
fn programs() -> Vec<(Command, Page)> {
    let with_page = |mut command: Command| {
        command.build();
        let page = Page::read(&format!("{}.1", command.get_name()));
        (command, page)
    };
    app::commands().into_iter().map(with_page).collect()
}

/// Brings a head into the one form in which two are compared.
fn normal(head: &str) -> String {
    let words = head.split_whitespace().collect::<Vec<_>>().join(" ");
    words
        .replace('…', "...")
        .replace(" | ", "|")
        .replace(" ...", "...")
}

/// Returns an argument as a page has it at the margin: `-c FILE, --config FILE`, `--wait[=SECS]`.
fn head(arg: &Arg) -> String {
    let count = arg.get_num_args().unwrap_or_default();
    let value = count.takes_values().then(|| {
        let name = arg
            .get_value_names()
            .and_then(<[_]>::first)
            .map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string);
        let more = arg.get_value_names().and_then(|names| names.get(1));
        let many = match more {
            // What stands behind the last of several may be missing.
            Some(more) => format!(" [{more}]"),
            None if count.max_values() > 1 => "...".to_owned(),
            None => String::new(),
        };
        match (count.min_values(), arg.is_require_equals_set()) {
            (0, true) => format!("[={name}{many}]"),
            (0, false) => format!(" [{name}{many}]"),
            (_, true) => format!("={name}{many}"),
            (_, false) => format!(" {name}{many}"),
        }
    });
    let value = value.unwrap_or_default();
    if arg.is_positional() {
        let optional = !arg.is_required_set() && count.min_values() == 0;
        let name = value.trim().trim_matches(['[', ']']).to_owned();
        return if optional || !arg.is_required_set() {
            format!("[{name}]")
        } else {
            name
        };
    }
    let short = arg.get_short().map(|letter| format!("-{letter}{value}"));
    let long = arg.get_long().map(|name| format!("--{name}{value}"));
    normal(&short.into_iter().chain(long).collect::<Vec<_>>().join(", "))
}

fn shown(arg: &&Arg) -> bool {
    !arg.is_hide_set()
}

/// The flags of a verb that the program itself does not have.
fn own_flags<'a>(program: &'a Command, verb: &'a Command) -> impl Iterator<Item = &'a Arg> {
    let known = |id: &clap::Id| program.get_arguments().any(|arg| arg.get_id() == id);
    verb.get_arguments()
        .filter(shown)
        .filter(move |arg| !arg.is_positional() && !arg.is_global_set() && !known(arg.get_id()))
}

fn verbs(program: &Command) -> impl Iterator<Item = &Command> {
    // `help` is clap's own and has no definition.
    program
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

fn heads<'a>(items: impl IntoIterator<Item = &'a Item>) -> Vec<String> {
    items
        .into_iter()
        .map(|item| normal(&item.head.text))
        .collect()
}

#[test]
fn a_page_has_the_options_of_its_program_under_the_same_headings_and_no_others() {
    let mut wrong = Vec::new();
    for (program, page) in programs() {
        let groups: BTreeSet<Option<String>> = program
            .get_arguments()
            .filter(shown)
            .map(|arg| arg.get_help_heading().map(str::to_owned))
            .collect();
        let documented = page
            .items
            .iter()
            .filter(|item| item.place.section == "OPTIONS");
        let groups: BTreeSet<_> = documented
            .map(|item| item.place.subsection.clone())
            .chain(groups)
            .collect();
        for group in groups {
            let args = program
                .get_arguments()
                .filter(shown)
                .filter(|arg| !arg.is_positional());
            let expected: Vec<String> = args
                .filter(|arg| arg.get_help_heading() == group.as_deref())
                .map(head)
                .collect();
            let place = Place {
                section: "OPTIONS".to_owned(),
                subsection: group.clone(),
            };
            let found = heads(page.items.iter().filter(|item| item.place == place));
            let what =
                group.map_or_else(|| "OPTIONS".to_owned(), |group| format!("OPTIONS, {group}"));
            wrong.extend(compare(&page.file, &what, &expected, &found));
        }
    }
    report(&wrong);
}

#[test]
fn a_page_has_the_verbs_of_its_program_with_their_options_and_no_others() {
    let mut wrong = Vec::new();
    for (program, page) in programs() {
        let call = |verb: &Command| {
            let positionals: Vec<String> = verb.get_positionals().filter(shown).map(head).collect();
            normal(
                &[&[verb.get_name().to_owned()], positionals.as_slice()]
                    .concat()
                    .join(" "),
            )
        };
        let expected: Vec<String> = verbs(&program).map(call).collect();
        let mut found = heads(page.section("COMMANDS"));
        found.retain(|head| head != "help [COMMAND]");
        wrong.extend(compare(&page.file, "COMMANDS", &expected, &found));
        for verb in verbs(&program) {
            let Some(item) = page
                .section("COMMANDS")
                .find(|item| normal(&item.head.text) == call(verb))
            else {
                continue;
            };
            let expected: Vec<String> = own_flags(&program, verb).map(head).collect();
            let found = heads(
                item.items
                    .iter()
                    .filter(|item| item.head.text.starts_with('-')),
            );
            wrong.extend(compare(
                &page.file,
                &format!("COMMANDS, {}", verb.get_name()),
                &expected,
                &found,
            ));
        }
        // A line of its own, not the value of an option.
        let synopsis = page
            .texts
            .iter()
            .filter(|(place, _)| place.section == "SYNOPSIS");
        let synopsis: Vec<&str> = synopsis
            .filter_map(|(_, span)| span.text.split_whitespace().next())
            .collect();
        for arg in program.get_positionals().filter(shown).map(head) {
            let name = arg.trim_matches(['[', ']']);
            if !synopsis.contains(&name) {
                wrong.push(format!(
                    "man/{}: SYNOPSIS: no line begins with `.Ar {name}`",
                    page.file
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn every_word_and_default_of_an_option_is_named_where_it_stands() {
    let mut wrong = Vec::new();
    for (program, page) in programs() {
        let own = program
            .get_arguments()
            .chain(verbs(&program).flat_map(|verb| own_flags(&program, verb)));
        let positionals = verbs(&program)
            .flat_map(Command::get_positionals)
            .filter(|arg| !arg.get_possible_values().is_empty());
        for arg in own.chain(positionals).filter(shown) {
            let wanted = head(arg);
            let fits = |item: &&Item| {
                let found = normal(&item.head.text);
                found == wanted || arg.is_positional() && found.ends_with(&format!(" {wanted}"))
            };
            // What is missing whole is another test's.
            let Some(item) = page.items.iter().flat_map(Item::all).find(fits) else {
                continue;
            };
            let words: Vec<String> = arg
                .get_possible_values()
                .iter()
                .filter(|word| !word.is_hide_set())
                .map(|word| word.get_name().to_owned())
                .collect();
            if !words.is_empty() {
                let whole = item.whole();
                let mut found: Vec<String> =
                    whole.of("Cm").into_iter().map(str::to_owned).collect();
                found.retain(|word| *word != item.head.of("Cm").concat());
                wrong.extend(compare(
                    &page.file,
                    &format!("the words (.Cm) of {wanted}"),
                    &words,
                    &found,
                ));
            }
            // A flag without a value has a default, too: off.
            let defaults = arg
                .get_default_values()
                .iter()
                .filter(|_| arg.get_num_args().is_some_and(|count| count.takes_values()));
            for default in defaults {
                let default = default.to_string_lossy();
                let text = item.whole().text;
                if !text
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|word| word == default)
                {
                    wrong.push(format!(
                        "man/{}:{}: {wanted}: its default, {default}, is not named",
                        page.file, item.line
                    ));
                }
            }
        }
    }
    report(&wrong);
}

/// Returns every flag of a program and its verbs, as it is typed.
fn flags(program: &Command) -> BTreeSet<String> {
    let all = std::iter::once(program)
        .chain(verbs(program))
        .flat_map(Command::get_arguments)
        .filter(shown);
    all.flat_map(|arg| {
        arg.get_long()
            .map(|name| format!("--{name}"))
            .into_iter()
            .chain(arg.get_short().map(|c| format!("-{c}")))
    })
    .collect()
}

#[test]
fn every_flag_that_a_page_names_exists() {
    let programs = programs();
    let mut pages: Vec<(Page, BTreeSet<String>)> = programs
        .into_iter()
        .map(|(program, page)| (page, flags(&program)))
        .collect();
    let all = pages.iter().flat_map(|(_, flags)| flags.clone()).collect();
    pages.push((Page::read("agent.toml.5"), all));
    let mut wrong = Vec::new();
    for (page, flags) in pages {
        for (_, flag, line) in page
            .spans()
            .flat_map(|span| &span.marks)
            .filter(|(mark, ..)| mark == "Fl")
        {
            // `.Fl qv` is `-q` and `-v`.
            let letters = flag
                .trim_start_matches('-')
                .chars()
                .map(|letter| format!("-{letter}"));
            let known = flags.contains(flag)
                || !flag.starts_with("--") && letters.into_iter().all(|flag| flags.contains(&flag));
            if !known {
                wrong.push(format!(
                    "man/{}:{line}: no flag is called {flag}",
                    page.file
                ));
            }
        }
    }
    report(&wrong);
}

#[test]
fn every_command_line_in_a_page_has_only_flags_that_exist() {
    let programs = programs();
    let known: Vec<(String, BTreeSet<String>)> = programs
        .iter()
        .map(|(program, _)| (program.get_name().to_owned(), flags(program)))
        .collect();
    let pages = programs
        .into_iter()
        .map(|(_, page)| page)
        .chain([Page::read("agent.toml.5")]);
    let mut wrong = Vec::new();
    for page in pages {
        let blocks = page
            .blocks
            .iter()
            .flat_map(|block| block.text.lines().map(|line| (line.to_owned(), block.line)));
        let mut lines: Vec<(String, usize)> = blocks.collect();
        for span in page.spans() {
            let line = span.marks.first().map_or(0, |(.., line)| *line);
            lines.extend(
                span.text
                    .split('‘')
                    .skip(1)
                    .filter_map(|rest| Some((rest.split_once('’')?.0.to_owned(), line))),
            );
        }
        for (text, line) in lines {
            for (program, flag) in typed(&text) {
                let Some((_, flags)) = known.iter().find(|(name, _)| *name == program) else {
                    continue;
                };
                if !flags.contains(&flag) {
                    wrong.push(format!(
                        "man/{}, from line {line}: `{text}`: {program} has no {flag}",
                        page.file
                    ));
                }
            }
        }
    }
    report(&wrong);
}

/// Returns the flags on a line of shell, each with the program it is for.
fn typed(line: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut program, mut quote) = (None, None);
    for word in line.split_whitespace() {
        let quoted = quote.is_some();
        for c in word.chars().filter(|c| matches!(c, '\'' | '"')) {
            match quote {
                None => quote = Some(c),
                Some(open) if open == c => quote = None,
                Some(_) => {}
            }
        }
        let bare = word
            .rsplit(['(', '<', '`'])
            .next()
            .unwrap_or(word)
            .trim_end_matches([';', ')']);
        if !quoted && bare.starts_with("agent-") && !bare.contains(['.', '/']) {
            program = Some(bare.to_owned());
        } else if let (Some(program), false, true) =
            (&program, quoted, bare.starts_with('-') && bare.len() > 1)
        {
            let flag = bare.split('=').next().unwrap_or(bare);
            found.push((program.clone(), flag.to_owned()));
        }
        if quote.is_none() && (["|", "||", "&&", "&"].contains(&word) || word.ends_with([';', ')']))
        {
            program = None;
        }
    }
    found
}

#[test]
fn a_line_of_shell_is_cut_into_programs_and_flags() {
    let found = |line| {
        typed(line)
            .into_iter()
            .map(|(program, flag)| format!("{program} {flag}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("df -h | agent-send --wait=5 -"),
        ["agent-send --wait"]
    );
    assert_eq!(
        found("x=$(agent-send --json 'a --b'); echo -n"),
        ["agent-send --json"]
    );
    assert_eq!(
        found("watch -c agent-monitor --color=always && ls -l"),
        ["agent-monitor --color"]
    );
}

#[test]
fn every_exit_code_exists_and_those_of_the_help_are_in_the_page() {
    let mut wrong = Vec::new();
    for (program, page) in programs() {
        let codes: Vec<&str> = page
            .section("EXIT STATUS")
            .map(|item| item.head.text.as_str())
            .collect();
        let known: Vec<String> = EXITS.iter().map(|exit| (*exit as u8).to_string()).collect();
        for code in &codes {
            if !known.iter().any(|known| known == code) {
                wrong.push(format!(
                    "man/{}: EXIT STATUS: {code} is no code of cli::Exit",
                    page.file
                ));
            }
        }
        if !codes.is_sorted_by_key(|code| code.parse::<u8>().unwrap_or(0))
            || !codes.contains(&"0")
            || !codes.contains(&"2")
        {
            wrong.push(format!(
                "man/{}: EXIT STATUS: 0 and 2 belong there, and codes go up: {codes:?}",
                page.file
            ));
        }
        let about = program
            .get_long_about()
            .map(ToString::to_string)
            .unwrap_or_default();
        let said = about
            .split_once("Exit code:")
            .map(|(_, said)| said.to_owned())
            .unwrap_or_default();
        // `75 queued or timed out`, not `more than 60 s`.
        for part in said.split([',', ':']).map(str::trim) {
            let Some(code) = part
                .split_whitespace()
                .next()
                .filter(|word| word.parse::<u8>().is_ok())
            else {
                continue;
            };
            if !codes.contains(&code) {
                wrong.push(format!(
                    "man/{}: EXIT STATUS: --help says {code}, the page does not",
                    page.file
                ));
            }
        }
    }
    report(&wrong);
}
