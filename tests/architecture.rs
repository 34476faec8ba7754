//! The house rules of ARCHITECTURE.md, enforced: which room may use which, and what is absent.
//!
//! The sources are read as text: a small lexer drops comments and what only tests contain, so
//! that a rule speaks about the programs. Each rule is a pure function of a file, and the tests at
//! the foot show each one a file that breaks it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Crates that the toolkit needs, itself among them; raise it with the one that is worth it (25: tokio-postgres).
const MOST_CRATES: usize = 476;
/// And of the channel that speaks mail; most of them are the toolkit's, too.
const MOST_OF_MAIL: usize = 260;
/// And of the one that speaks Matrix, in a workspace of its own: encryption, another SQLite, another HTTP.
const MOST_OF_MATRIX: usize = 445;

/// The floors, ground first, each with its rooms; the same table stands in ARCHITECTURE.md, and
/// `src/lib/lib.rs` declares the rooms in this order.
const FLOORS: &[(&str, &[&str])] = &[
    (
        "ground",
        &[
            "clock",
            "embedding",
            "language",
            "message",
            "secret",
            "sys",
            "text",
            "trust",
        ],
    ),
    ("settings", &["config", "logging"]),
    (
        "doors",
        &[
            "auth", "channel", "control", "db", "mcp", "net", "provider", "sandbox",
        ],
    ),
    (
        "stores",
        &[
            "audit",
            "cost",
            "jobs",
            "media",
            "monitor_state",
            "people",
            "queue",
            "session",
            "skills",
            "undo",
            "workspace",
        ],
    ),
    ("mind", &["agent", "llm", "memory", "prompt"]),
    ("hands", &["tools"]),
    (
        "path",
        &["backup", "forget", "import", "pipeline", "standby"],
    ),
    ("programs", &["app"]),
];

/// A file longer than this has a second concept in it.
const MAX_LINES: usize = 760;
const MAX_TEST_LINES: usize = 1060;

/// A word that only some places may use.
struct Reserved {
    name: &'static str,
    /// Any of these; `a::b` is a path, `a!` a macro.
    words: &'static [&'static str],
    /// Rooms, or files below `src/lib`.
    allowed: &'static [&'static str],
    because: &'static str,
}

const RESERVED: &[Reserved] = &[
    Reserved {
        name: "printing",
        words: &[
            "print!",
            "println!",
            "eprint!",
            "eprintln!",
            "dbg!",
            "io::stdout",
            "io::stderr",
        ],
        // logging hands stderr to tracing; the launcher speaks to the daemon over its two pipes.
        allowed: &[
            "app",
            "logging.rs",
            "logging",
            "sandbox/launcher.rs",
            "sandbox/compute.rs",
        ],
        because: "the library never prints; app does",
    },
    Reserved {
        name: "exiting",
        words: &["process::exit", "process::abort"],
        allowed: &[],
        because: "main returns an ExitCode, so that everything is dropped",
    },
    Reserved {
        name: "environment",
        words: &[
            "env::var",
            "env::var_os",
            "env::vars",
            "env::vars_os",
            "env::args",
            "env::args_os",
            "env::home_dir",
        ],
        // A program reads its own arguments; the variables come from config::Environment.
        allowed: &["config", "app/mod.rs", "app/cli.rs", "app/daemon/mod.rs"],
        because: "config reads the environment, once",
    },
    Reserved {
        name: "SQL",
        words: &["rusqlite", "tokio_postgres"],
        allowed: &["db", "queue", "cost", "memory"],
        because: "a database belongs to one room",
    },
    Reserved {
        name: "network",
        words: &[
            "reqwest",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "ToSocketAddrs",
            "lookup_host",
            "tokio_postgres",
        ],
        // db/postgres, mcp: databases and tool servers at the addresses that the owner wrote.
        // sandbox/network_exit.rs: listens inside a command's own network, for the proxy in net.
        allowed: &[
            "auth",
            "mcp",
            "net",
            "provider",
            "channel",
            "db/postgres",
            "sandbox/network_exit.rs",
        ],
        because: "the network is reached from auth, mcp, net, provider, channel and db/postgres only",
    },
    Reserved {
        name: "processes",
        words: &[
            "Command::new",
            "process::Command",
            "unistd::fork",
            "libc::fork",
            "execve",
            "posix_spawn",
        ],
        // A person's own browser, from that person's shell, needs no walls; the daemon restarts itself.
        allowed: &[
            "sandbox",
            "app/daemon/login/browser.rs",
            "app/daemon/mod.rs",
            // age and gpg, which the owner asked for in the settings.
            "app/daemon/backup/cipher.rs",
            // rsync, with which the owner has this home copied to a standby.
            "standby/rsync.rs",
            // `init` on a terminal: systemctl, and our own programs for the first message.
            "app/daemon/init/service.rs",
            "app/daemon/init/greeting.rs",
        ],
        because: "sandbox starts processes, nobody else",
    },
    Reserved {
        name: "unsafe",
        words: &["unsafe"],
        // Memory is given back, and the kernel's clock is asked, by calls that no library wraps.
        allowed: &["sandbox", "sys/release_memory.rs", "sys/clock_check.rs"],
        because: "only the launcher, memory that is given back and the kernel's clock need it",
    },
    Reserved {
        name: "teloxide",
        words: &["teloxide"],
        allowed: &["channel/telegram"],
        because: "Telegram's types stay in its channel",
    },
    Reserved {
        name: "anyhow",
        words: &["anyhow"],
        allowed: &["app"],
        because: "a room has its own error enum",
    },
];

/// Places below the path that may say "telegram"; the same list stands in ARCHITECTURE.md.
const KNOWS_TELEGRAM: &[(&str, &str)] = &[
    ("channel/telegram", "it is Telegram"),
    ("channel/mod.rs", "declares that folder"),
    ("config", "the settings and their plain types"),
    (
        "message/address.rs",
        "whose ids are bare numbers, and no other channel's",
    ),
    (
        "message/envelope.rs",
        "Source::Telegram, the name of a source",
    ),
    ("prompt/mod.rs", "tells the model where a message came from"),
];

// ── The rules ──

#[test]
fn architecture_md_has_the_same_floors() {
    let text = read(&root().join("ARCHITECTURE.md"));
    assert_eq!(
        table(&text),
        floors(),
        "ARCHITECTURE.md and tests/architecture.rs change together"
    );
    for (place, _) in KNOWS_TELEGRAM {
        assert!(
            text.contains(&format!("`{place}`")),
            "ARCHITECTURE.md does not name {place}, which may say telegram"
        );
    }
}

#[test]
fn lib_rs_declares_the_rooms_in_the_order_of_the_floors() {
    let lib = Source::new("lib.rs", &read(&root().join("src/lib/lib.rs")));
    let rooms: Vec<String> = FLOORS
        .iter()
        .flat_map(|(_, rooms)| rooms.iter().map(|room| (*room).to_owned()))
        .collect();
    assert_eq!(lib.declared(), rooms);
}

#[test]
fn a_room_uses_its_own_floor_or_a_lower_one_and_rooms_form_no_circle() {
    let uses = uses_of(&library());
    let mut wrong = upward(&uses);
    wrong.extend(circles(&uses));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn words_stand_only_where_they_may() {
    let wrong: Vec<String> = library().iter().flat_map(misplaced).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_below_the_path_knows_telegram() {
    let files = library();
    let wrong: Vec<String> = files.iter().flat_map(telegram).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for (place, _) in KNOWS_TELEGRAM {
        let used = files
            .iter()
            .any(|file| within(&file.path, place) && file.says("telegram"));
        assert!(
            used,
            "{place} does not say telegram any more: take it off the list"
        );
    }
}

#[test]
fn every_file_says_what_it_is_for_and_stays_short() {
    let mut files = tree("src", "rs");
    files.extend(tree("tests", "rs"));
    let wrong: Vec<String> = files
        .iter()
        .filter_map(|(path, text)| misshapen(path, text))
        .collect();
    assert!(files.len() > 100, "the sources were not found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_tree_of_crates_does_not_grow_unseen() {
    for (lock, program, most) in [
        ("Cargo.lock", "agent-toolkit", MOST_CRATES),
        ("Cargo.lock", "agent-channel-mail", MOST_OF_MAIL),
        (
            "channels/matrix/Cargo.lock",
            "agent-channel-matrix",
            MOST_OF_MATRIX,
        ),
    ] {
        let lock = read(&root().join(lock));
        let crates = needs(&lock, program).len();
        assert!(crates > 100, "Cargo.lock was not read");
        assert!(
            crates <= most,
            "{crates} crates are built for {program}, {most} were allowed: each one more is downloaded, built, trusted and kept up to date"
        );
    }
}

/// Returns the packages of a Cargo.lock that `root` needs, itself among them, by name and version.
fn needs<'a>(lock: &'a str, root: &str) -> BTreeSet<(&'a str, &'a str)> {
    let quoted = |line: &'a str, key: &str| {
        let value = line.strip_prefix(key)?.strip_prefix(" = \"")?;
        value.strip_suffix('"')
    };
    let packages: Vec<(&str, &str, Vec<&str>)> = lock
        .split("[[package]]")
        .filter_map(|package| {
            let name = package.lines().find_map(|line| quoted(line, "name"))?;
            let version = package.lines().find_map(|line| quoted(line, "version"))?;
            let listed = package.lines().filter_map(|line| line.strip_prefix(" \""));
            let needed = listed.filter_map(|line| line.strip_suffix("\","));
            Some((name, version, needed.collect()))
        })
        .collect();
    let mut found = BTreeSet::new();
    let mut open = vec![root];
    while let Some(wanted) = open.pop() {
        // Where there are several versions, the lock names the one.
        let (name, version) = wanted.split_once(' ').unwrap_or((wanted, ""));
        for (own, its, needed) in &packages {
            let is_it = *own == name && (version.is_empty() || *its == version);
            if is_it && found.insert((*own, *its)) {
                open.extend(needed);
            }
        }
    }
    found
}

#[test]
fn a_program_only_calls_app() {
    let programs = tree("src/bin", "rs");
    assert_eq!(
        programs.len(),
        6,
        "the five, and what four of them have in common"
    );
    for (path, text) in programs
        .iter()
        .filter(|(path, _)| !path.contains("same_program"))
    {
        let calls = Source::new(path, text).paths("agent_toolkit");
        assert!(
            calls.iter().all(|room| room == "app") && text.lines().count() < 15,
            "{path} does more than call app: {calls:?}"
        );
    }
}

fn floors() -> Vec<(String, Vec<String>)> {
    FLOORS
        .iter()
        .map(|(name, rooms)| {
            (
                (*name).to_owned(),
                rooms.iter().map(|room| (*room).to_owned()).collect(),
            )
        })
        .collect()
}

fn floor_of(room: &str) -> Option<usize> {
    FLOORS.iter().position(|(_, rooms)| rooms.contains(&room))
}

/// Reads the floor table: ` 0 ground     clock.rs    what it is`, then a room a line, in the first
/// code block between the lines that begin with `src/lib/` and `tests/`.
fn table(text: &str) -> Vec<(String, Vec<String>)> {
    let mut floors: Vec<(String, Vec<String>)> = Vec::new();
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("src/lib/"))
        .skip(1);
    for line in lines.take_while(|line| line.starts_with(' ')) {
        let mut words = line.split_whitespace().peekable();
        if words
            .next_if(|word| word.parse::<usize>() == Ok(floors.len()))
            .is_some()
        {
            floors.push((words.next().unwrap_or_default().to_owned(), Vec::new()));
        }
        let Some(room) = words
            .next()
            .and_then(|word| word.strip_suffix('/').or_else(|| word.strip_suffix(".rs")))
        else {
            continue;
        };
        if let Some((_, rooms)) = floors.last_mut() {
            rooms.push(room.to_owned());
        }
    }
    floors
}

/// Returns which rooms each room uses, with one place where it does.
fn uses_of(files: &[Source]) -> BTreeMap<(String, String), String> {
    let mut uses = BTreeMap::new();
    for file in files {
        for room in file.rooms().into_iter().filter(|room| *room != file.room()) {
            uses.insert((file.room().to_owned(), room), file.path.clone());
        }
    }
    uses
}

fn upward(uses: &BTreeMap<(String, String), String>) -> Vec<String> {
    let too_high = uses
        .iter()
        .filter(|((room, used), _)| floor_of(used) > floor_of(room) || floor_of(used).is_none());
    too_high
        .map(|((room, used), path)| {
            format!("{path}: {room} uses {used}, which is no room below it")
        })
        .collect()
}

/// Returns the rooms from which a way through other rooms leads back.
fn circles(uses: &BTreeMap<(String, String), String>) -> Vec<String> {
    let next = |room: &str| {
        uses.keys()
            .filter(|(from, _)| from == room)
            .map(|(_, to)| to.clone())
            .collect::<Vec<_>>()
    };
    let rooms: BTreeSet<&String> = uses.keys().map(|(room, _)| room).collect();
    let returns = |start: &String| {
        let mut seen = BTreeSet::new();
        let mut open = next(start);
        while let Some(room) = open.pop() {
            if seen.insert(room.clone()) {
                open.extend(next(&room));
            }
        }
        seen.contains(start)
    };
    rooms
        .into_iter()
        .filter(|room| returns(room))
        .map(|room| format!("{room} uses itself by way of other rooms"))
        .collect()
}

fn misplaced(file: &Source) -> Vec<String> {
    let rules = RESERVED
        .iter()
        .filter(|rule| !rule.allowed.iter().any(|place| within(&file.path, place)));
    let found = rules.flat_map(|rule| {
        let lines = rule
            .words
            .iter()
            .flat_map(|word| file.find(word).into_iter().map(move |line| (line, word)));
        lines.map(move |(line, word)| {
            format!(
                "{}:{line}: {word} ({}): {}",
                file.path, rule.name, rule.because
            )
        })
    });
    found.collect()
}

fn telegram(file: &Source) -> Option<String> {
    let below = floor_of(file.room()) < floor_of("pipeline");
    let excepted = KNOWS_TELEGRAM
        .iter()
        .any(|(place, _)| within(&file.path, place));
    (below && !excepted && file.says("telegram"))
        .then(|| format!("{}: knows that Telegram exists", file.path))
}

fn misshapen(path: &str, text: &str) -> Option<String> {
    let test = path.starts_with("tests/") || path.ends_with("tests.rs");
    let (lines, most) = (
        text.lines().count(),
        if test { MAX_TEST_LINES } else { MAX_LINES },
    );
    if lines > most {
        return Some(format!(
            "{path}: {lines} lines, {most} is the most: look for the second concept"
        ));
    }
    let says = text.starts_with("//!") || path.ends_with("tests.rs");
    (!says).then(|| format!("{path}: does not begin with a //! line that says what it is for"))
}

/// Returns true when `path` is `place` or lies in it.
fn within(path: &str, place: &str) -> bool {
    path.strip_prefix(place)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

// ── The files ──

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the files below `dir` with their paths from the root of the repository, in order.
fn tree(dir: &str, extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(dir)];
    while let Some(dir) = open.pop() {
        for entry in
            std::fs::read_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        {
            let path = entry.expect("entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let name = path
                    .strip_prefix(root())
                    .expect("below the root")
                    .to_str()
                    .expect("UTF-8")
                    .to_owned();
                found.push((name, read(&path)));
            }
        }
    }
    found.sort();
    found
}

/// Returns the library without what is compiled for tests only.
fn library() -> Vec<Source> {
    let files = tree("src/lib", "rs");
    let files: Vec<Source> = files
        .iter()
        .map(|(path, text)| Source::new(path.strip_prefix("src/lib/").unwrap_or(path), text))
        .collect();
    let tests: Vec<String> = files.iter().flat_map(Source::test_modules).collect();
    let is_test = |path: &str| {
        tests
            .iter()
            .any(|module| within(path, module) || path == format!("{module}.rs"))
    };
    files
        .into_iter()
        .filter(|file| file.path != "lib.rs" && !is_test(&file.path))
        .collect()
}

/// A file as words and signs, without comments and without items under `#[cfg(test)]`.
struct Source {
    /// Below `src/lib`, as `queue/mod.rs`.
    path: String,
    tokens: Vec<Token>,
    /// Modules declared under `#[cfg(test)]`.
    tests: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Token {
    line: usize,
    kind: Kind,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Word,
    Sign,
    Text,
}

impl Source {
    fn new(path: &str, text: &str) -> Self {
        let (tokens, tests) = without_tests(&lex(text));
        Self {
            path: path.to_owned(),
            tokens,
            tests,
        }
    }

    fn room(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Returns how many modules deep the file lies: 1 for a room itself.
    fn depth(&self) -> usize {
        self.path
            .split('/')
            .filter(|part| *part != "mod.rs")
            .count()
    }

    /// Returns the folder in which its modules lie, as `queue` or `queue/inbox`.
    fn folder(&self) -> &str {
        self.path
            .strip_suffix("/mod.rs")
            .or_else(|| self.path.strip_suffix(".rs"))
            .unwrap_or(&self.path)
    }

    fn test_modules(&self) -> Vec<String> {
        let below = |name: &String| match self.path.as_str() {
            "lib.rs" => name.clone(),
            _ => format!("{}/{name}", self.folder()),
        };
        self.tests.iter().map(below).collect()
    }

    fn declared(&self) -> Vec<String> {
        let modules = self
            .tokens
            .windows(3)
            .filter(|three| three[0].text == "mod" && three[2].text == ";");
        modules.map(|three| three[1].text.clone()).collect()
    }

    /// Returns the rooms it names, by `crate::` or by enough `super::`.
    fn rooms(&self) -> BTreeSet<String> {
        let mut rooms = self.paths("crate");
        let mut at = 0;
        while at < self.tokens.len() {
            let mut supers = 0;
            while self.is(at, "super") && self.is(at + 1, "::") {
                supers += 1;
                at += 2;
            }
            // Inline modules make it deeper than the path tells; no room has a room's name inside.
            if supers >= self.depth() {
                rooms.extend(
                    self.heads(at)
                        .into_iter()
                        .filter(|name| floor_of(name).is_some()),
                );
            }
            at += 1;
        }
        rooms
    }

    /// Returns the first names after `start::`, those in braces too.
    fn paths(&self, start: &str) -> BTreeSet<String> {
        let starts =
            (0..self.tokens.len()).filter(|at| self.is(*at, start) && self.is(at + 1, "::"));
        starts.flat_map(|at| self.heads(at + 2)).collect()
    }

    /// Returns the name at `at`, or the first names in the braces that open there.
    fn heads(&self, mut at: usize) -> Vec<String> {
        if !self.is(at, "{") {
            let word = self.tokens.get(at).filter(|token| token.kind == Kind::Word);
            return word.map(|token| token.text.clone()).into_iter().collect();
        }
        let mut heads = Vec::new();
        let mut depth = 0;
        loop {
            match self.tokens.get(at).map(|token| token.text.as_str()) {
                Some("{") => depth += 1,
                Some("}") if depth == 1 => return heads,
                Some("}") => depth -= 1,
                None => return heads,
                Some(_) => {}
            }
            let opens = depth == 1 && (self.is(at, "{") || self.is(at, ","));
            if let Some(next) = self
                .tokens
                .get(at + 1)
                .filter(|next| opens && next.kind == Kind::Word)
            {
                heads.push(next.text.clone());
            }
            at += 1;
        }
    }

    /// Returns the lines on which `pattern` stands in the code.
    fn find(&self, pattern: &str) -> Vec<usize> {
        let wanted = lex(pattern);
        let same = |(a, b): (&Token, &Token)| a.kind == b.kind && a.text == b.text;
        let hits = self
            .tokens
            .windows(wanted.len())
            .filter(|window| window.iter().zip(&wanted).all(same));
        hits.map(|window| window[0].line).collect()
    }

    /// Returns true when a name or a text contains `word`, in whatever case.
    fn says(&self, word: &str) -> bool {
        self.tokens
            .iter()
            .any(|token| token.text.to_ascii_lowercase().contains(word))
    }

    fn is(&self, at: usize, text: &str) -> bool {
        self.tokens
            .get(at)
            .is_some_and(|token| token.kind != Kind::Text && token.text == text)
    }
}

/// Takes away the items under `#[cfg(test)]`; returns the modules among them that are files.
fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    const TEST: &[&str] = &["#", "[", "cfg", "(", "test", ")", "]"];
    // What the fuzzer needs, too.
    const FUZZ: &[&str] = &[
        "#", "[", "cfg", "(", "any", "(", "test", ",", "fuzzing", ")", ")", "]",
    ];
    let marked = |at: usize| {
        [TEST, FUZZ].into_iter().find(|mark| {
            mark.iter()
                .enumerate()
                .all(|(n, text)| tokens.get(at + n).is_some_and(|token| token.text == *text))
        })
    };
    let (mut kept, mut tests) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let Some(mark) = marked(at) else {
            kept.push(token.clone());
            at += 1;
            continue;
        };
        let item = at + mark.len();
        at = end_of_item(tokens, item);
        let item = tokens.get(item..at).unwrap_or_default();
        if let [.., word, name, end] = item
            && (word.text.as_str(), end.text.as_str()) == ("mod", ";")
        {
            tests.push(name.text.clone());
        }
    }
    (kept, tests)
}

/// Returns the place after the item that begins at `at`: behind its `;`, or its last `}`.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    let mut depth = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        match (token.kind, token.text.as_str()) {
            (Kind::Sign, "{" | "(" | "[") => depth += 1,
            (Kind::Sign, ")" | "]") => depth -= 1,
            (Kind::Sign, "}") => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            (Kind::Sign, ";") if depth == 0 => break,
            _ => {}
        }
    }
    at
}

/// Cuts a source into words, signs and texts; `::` is one sign. Comments are left out.
fn lex(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let get = |at: usize| chars.get(at).copied().unwrap_or('\0');
    let wordy = |c: char| c.is_alphanumeric() || c == '_';
    let (mut tokens, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let start = at;
        let kind = match get(at) {
            '/' if get(at + 1) == '/' => {
                at = (at..chars.len())
                    .find(|at| get(*at) == '\n')
                    .unwrap_or(chars.len());
                None
            }
            '/' if get(at + 1) == '*' => {
                at = end_of_comment(&chars, at);
                None
            }
            c if c.is_whitespace() => {
                at += 1;
                None
            }
            '"' => {
                at = end_of_text(&chars, at + 1, '"');
                Some(Kind::Text)
            }
            // A lifetime is no letter: 'a but 'a' and '\n'.
            '\'' if get(at + 1) == '\\' || get(at + 2) == '\'' => {
                at = end_of_text(&chars, at + 1, '\'');
                Some(Kind::Text)
            }
            c if wordy(c) => {
                at = (at..chars.len())
                    .find(|at| !wordy(get(*at)))
                    .unwrap_or(chars.len());
                let word: String = chars.get(start..at).unwrap_or_default().iter().collect();
                let hashes = (at..).take_while(|at| get(*at) == '#').count();
                match word.as_str() {
                    "r" | "br" | "cr" if get(at + hashes) == '"' => {
                        at = end_of_raw(&chars, at + hashes + 1, hashes);
                        Some(Kind::Text)
                    }
                    "b" | "c" if get(at) == '"' => {
                        at = end_of_text(&chars, at + 1, '"');
                        Some(Kind::Text)
                    }
                    _ => Some(Kind::Word),
                }
            }
            ':' if get(at + 1) == ':' => {
                at += 2;
                Some(Kind::Sign)
            }
            _ => {
                at += 1;
                Some(Kind::Sign)
            }
        };
        let piece = chars.get(start..at).unwrap_or_default();
        tokens.extend(kind.map(|kind| Token {
            line,
            kind,
            text: piece.iter().collect(),
        }));
        line += piece.iter().filter(|c| **c == '\n').count();
    }
    tokens
}

fn end_of_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match chars.get(at..at + 2) {
            Some(['/', '*']) => (depth, at) = (depth + 1, at + 2),
            Some(['*', '/']) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn end_of_text(chars: &[char], mut at: usize, quote: char) -> usize {
    while let Some(c) = chars.get(at) {
        at += if *c == '\\' { 2 } else { 1 };
        if *c == quote {
            break;
        }
    }
    at.min(chars.len())
}

fn end_of_raw(chars: &[char], mut at: usize, hashes: usize) -> usize {
    while at < chars.len() {
        at += 1;
        let closed = (at..at + hashes).all(|at| chars.get(at) == Some(&'#'));
        if chars.get(at - 1) == Some(&'"') && closed {
            return at + hashes;
        }
    }
    at
}

// ── Do the rules bite? ──

fn offences(path: &str, text: &str) -> Vec<String> {
    misplaced(&Source::new(path, text))
}

#[test]
fn a_word_out_of_place_is_found_with_its_line() {
    let file = "//! x\nfn f() {\n    println!(\"hi\");\n}\n";
    assert_eq!(
        offences("queue/mod.rs", file),
        ["queue/mod.rs:3: println! (printing): the library never prints; app does"]
    );
    assert!(offences("app/send.rs", file).is_empty());
    for (path, line) in [
        ("text.rs", "std::process::exit(1)"),
        ("net/mod.rs", "let home = env::var_os(\"HOME\");"),
        ("session/mod.rs", "use rusqlite::Connection;"),
        ("tools/web.rs", "reqwest::get(url)"),
        ("agent/run.rs", "tokio::process::Command::new(\"sh\")"),
        ("sys/mod.rs", "unsafe { libc::fork() }"),
        ("pipeline/turn.rs", "use teloxide::types::Message;"),
        ("control/mod.rs", "fn f() -> anyhow::Result<()> { Ok(()) }"),
    ] {
        assert!(
            !offences(path, line).is_empty(),
            "{path} may not contain {line}"
        );
    }
}

#[test]
fn comments_texts_and_tests_are_not_the_program() {
    for harmless in [
        "// println!(\"x\")",
        "/* a /* nested */ println!() */ fn f() {}",
        "const S: &str = \"println!()\"; const R: &str = r#\"a \" println!()\"#;",
        "const C: char = '\"'; const D: char = '\\''; fn f<'a>(x: &'a str) -> &'a str { x } // rusqlite",
        "#[cfg(test)]\nmod tests { fn f() { println!(); } }",
        "#[cfg(test)]\nuse rusqlite::{Connection, Row};\nfn f() {}",
        "fn reprintln() { telegram_print_reqwests(); }",
    ] {
        assert_eq!(
            offences("queue2/mod.rs", harmless),
            [] as [String; 0],
            "{harmless}"
        );
    }
    assert!(
        !offences(
            "x.rs",
            "#[cfg(test)]\nmod tests { fn f() {} }\nfn g() { println!(); }"
        )
        .is_empty()
    );
    assert!(!offences("x.rs", "const C: char = '\"'; fn g() { println!(); }").is_empty());
    let module = Source::new(
        "provider/mod.rs",
        "#[cfg(test)]\nmod loopback;\npub mod offline;",
    );
    assert_eq!(
        (module.test_modules(), module.declared()),
        (
            vec!["provider/loopback".to_owned()],
            vec!["offline".to_owned()]
        )
    );
}

#[test]
fn a_use_is_found_in_every_form() {
    let rooms = |path: &str, text: &str| {
        Source::new(path, text)
            .rooms()
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let check = |path, text, expected| assert_eq!(rooms(path, text), expected, "{text}");
    check("queue/mod.rs", "use crate::agent::Agent;", "agent");
    check(
        "queue/mod.rs",
        "use crate::{agent::{Agent, run::{self}}, clock, db as base};",
        "agent clock db",
    );
    check(
        "queue/mod.rs",
        "fn f() -> crate::people::Store { crate::text::cut() }",
        "people text",
    );
    check(
        "queue/mod.rs",
        "use super::agent::Agent; use super::{text, clock};",
        "agent clock text",
    );
    check(
        "queue/inbox.rs",
        "use super::super::agent::Agent; use super::text;",
        "agent",
    );
    check("clock.rs", "use super::text;", "text");
    check(
        "queue/mod.rs",
        "// use crate::agent;\nconst S: &str = \"crate::agent\";",
        "",
    );
}

#[test]
fn a_use_upwards_and_a_circle_are_found() {
    let uses = |pairs: &[(&str, &str)]| {
        uses_of(
            &pairs
                .iter()
                .map(|(path, text)| Source::new(path, text))
                .collect::<Vec<_>>(),
        )
    };
    let up = uses(&[
        ("queue/mod.rs", "use crate::agent::Agent;"),
        ("agent/mod.rs", "use crate::queue;"),
    ]);
    assert_eq!(
        upward(&up),
        ["queue/mod.rs: queue uses agent, which is no room below it"]
    );
    assert_eq!(circles(&up).len(), 2);
    let around = uses(&[
        ("cost.rs", "use crate::people;"),
        ("people.rs", "use crate::queue;"),
        ("queue.rs", "use crate::cost;"),
    ]);
    assert_eq!((upward(&around).len(), circles(&around).len()), (0, 3));
    let fine = uses(&[
        ("cost.rs", "use crate::people;"),
        ("people.rs", "use crate::queue; use crate::clock;"),
    ]);
    assert_eq!((upward(&fine).len(), circles(&fine).len()), (0, 0));
    assert_eq!(upward(&uses(&[("cost.rs", "use crate::attic;")])).len(), 1);
}

#[test]
fn telegram_below_the_path_is_found() {
    let knows = |path: &str, text: &str| telegram(&Source::new(path, text)).is_some();
    assert!(
        knows("agent/run.rs", "fn to_telegram() {}")
            && knows("session/mod.rs", "const S: &str = \"Telegram\";")
    );
    assert!(
        !knows("agent/run.rs", "// Telegram shows it\nfn f() {}")
            && !knows("pipeline/turn.rs", "fn to_telegram() {}")
    );
    assert!(
        !knows("channel/telegram/send.rs", "struct Telegram;")
            && knows("channel/telegram2.rs", "struct Telegram;")
    );
}

#[test]
fn a_long_or_wordless_file_is_found() {
    let lines = |count: usize| format!("//! x\n{}", "\n".repeat(count - 1));
    assert_eq!(
        (
            misshapen("src/lib/a.rs", &lines(500)),
            misshapen("src/lib/a/tests.rs", &lines(700))
        ),
        (None, None)
    );
    assert!(
        misshapen("src/lib/a.rs", &lines(MAX_LINES + 1)).is_some()
            && misshapen("tests/a.rs", &lines(MAX_TEST_LINES + 1)).is_some()
    );
    assert!(
        misshapen("src/lib/a.rs", "use std::fs;\n").is_some()
            && misshapen("src/lib/a/tests.rs", "use std::fs;\n").is_none()
    );
}

#[test]
fn the_table_is_read() {
    let text = "before\n```\nsrc/lib/      x\n 0 ground     clock.rs    time\n              sys/        files: a, b\n\
                \x20                         more words\n 1 settings   config/     x\ntests/  y\n 2 no  no/\n```\n";
    let expected = [
        ("ground", vec!["clock", "sys"]),
        ("settings", vec!["config"]),
    ];
    let expected = expected.map(|(name, rooms)| {
        (
            name.to_owned(),
            rooms.into_iter().map(str::to_owned).collect::<Vec<_>>(),
        )
    });
    assert_eq!(table(text), expected);
}
