//! `agent-monitor --follow` at a terminal: what it shows, what its keys do to a daemon, and that it always gives
//! the terminal back. The terminal is a pseudo terminal of script(1); without it these tests say so and pass.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::support::{FakeModel, Reply, Running, Sandbox, wait_for};
use crate::terminal::{no_terminal, on_terminal};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
/// The largest terminal here.
const COLUMNS: usize = 120;
const ROWS: usize = 30;
/// Runs until it is stopped.
const FOR_EVER: &str = "touch started; while true; do sleep 0.05; done";

/// Begins the screen in a shell that says how it ended, and how the terminal is then.
fn open(sandbox: &Sandbox, environment: &[(&str, &str)], size: (usize, usize)) -> Running {
    let (columns, rows) = size;
    let script = format!(
        "stty cols {columns} rows {rows}\nsh -c 'echo $$ >pid; exec agent-monitor --follow'\necho \"code $?\"\nstty -a\n"
    );
    sandbox.put("go.sh", script.as_bytes());
    on_terminal(sandbox, environment, "sh go.sh")
}

/// Returns what stands on the screen now. Only what changes is drawn, so everything that was said counts.
fn shown(screen: &Running) -> String {
    let said = screen.said().0;
    let mut rows = vec![vec![' '; COLUMNS]; ROWS];
    let (mut x, mut y) = (0, 0);
    let mut rest = said.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\u{1b}' if rest.next_if_eq(&'[').is_some() => {
                let mut code = String::new();
                let end = rest
                    .by_ref()
                    .find(|c| c.is_ascii_alphabetic() || (code.push(*c), false).1);
                match (end, code.as_str()) {
                    (Some('H'), place) => {
                        let mut numbers =
                            place.split(';').map(|number| number.parse().unwrap_or(1));
                        (y, x) = (
                            numbers.next().unwrap_or(1) - 1,
                            numbers.next().unwrap_or(1) - 1,
                        );
                    }
                    (Some('J'), _) => rows.iter_mut().for_each(|row| row.fill(' ')),
                    _ => {}
                }
            }
            '\r' => x = 0,
            '\n' => y += 1,
            c => {
                if let Some(cell) = rows.get_mut(y).and_then(|row| row.get_mut(x)) {
                    *cell = c;
                }
                x += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
            }
        }
    }
    rows.into_iter()
        .map(|row| row.into_iter().collect::<String>() + "\n")
        .collect()
}

fn sees(screen: &Running, words: &str) {
    let until = Instant::now() + SOON;
    while !shown(screen).contains(words) {
        assert!(
            Instant::now() < until,
            "{words:?} is not to be seen:\n{}",
            shown(screen)
        );
        thread::sleep(Duration::from_millis(20));
    }
}

/// Returns what stands on the terminal after the screen was closed; checks that it was given back whole.
fn closed(screen: Running, code: i32) {
    let told = screen.end();
    let (during, after) = told
        .stdout
        .rsplit_once("\u{1b}[?1049l")
        .expect("the other screen is left");
    assert!(
        during.contains("\u{1b}[?1049h") && during.contains("\u{1b}[?25l"),
        "{during:?}"
    );
    assert!(
        after.contains("\u{1b}[?25h"),
        "the cursor is back: {after:?}"
    );
    assert!(after.contains(&format!("code {code}")), "{after:?}");
    let modes: Vec<&str> = after.split_whitespace().collect();
    for mode in ["icanon", "echo", "isig", "opost"] {
        assert!(modes.contains(&mode), "{mode}: {after:?}");
    }
}

fn pid(sandbox: &Sandbox) -> Pid {
    let pid = wait_for("its process id", SOON, || {
        sandbox.read("pid")?.trim().parse().ok()
    });
    Pid::from_raw(pid)
}

/// Lets the agent run a command that lasts until it is stopped.
fn busy(sandbox: &Sandbox, model: &FakeModel, from: &str) {
    model.push(Reply::Tool("exec".to_owned(), json!({"command": FOR_EVER})));
    assert_eq!(sandbox.send(&["--from", from, "work"]).code, 0);
    wait_for("a running tool", SOON, || {
        sandbox.path("workspace/started").exists().then_some(())
    });
}

#[test]
fn a_lane_is_shown_and_stopped_and_the_terminal_given_back() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    busy(&sandbox, &model, "ada");
    let screen = open(&sandbox, &[], (COLUMNS, ROWS));
    sees(&screen, "running exec");
    for words in [
        "▸ ada",
        "to answer",
        "cli:ada",
        "today",
        "facts",
        "started",
        &format!("pid {}", daemon.pid()),
    ] {
        sees(&screen, words);
    }
    screen.write("s");
    sees(&screen, "Stop the turn of ada?");
    screen.write("n");
    screen.write("sy");
    sees(&screen, "Stopped.");
    sees(&screen, "no turn runs");
    wait_for("the run to end", SOON, || {
        sandbox
            .read_json("state/monitor.json")
            .filter(|file| file["lanes"] == json!([]) && file["state"] == "idle")
    });
    screen.write("q");
    closed(screen, 0);
}

#[test]
fn the_owner_says_yes_and_no_and_why() {
    if no_terminal() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[tools.exec]\npolicy = \"ask\"");
    let _daemon = sandbox.ready();
    let screen = open(&sandbox, &[("NO_COLOR", "1")], (COLUMNS, ROWS));
    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo fine > yes.txt"}),
    ));
    assert_eq!(sandbox.send(&["--from", "ada", "work"]).code, 0);
    sees(&screen, "waits for approval");
    screen.write("a");
    sees(&screen, "| run: echo fine > yes.txt");
    assert!(!sandbox.path("workspace/yes.txt").exists());
    screen.write("y");
    wait_for("the command", SOON, || {
        sandbox.path("workspace/yes.txt").exists().then_some(())
    });
    sees(&screen, "approved");
    // The next answer of the model is for the next turn.
    let before = model.wait_requests(2, SOON).len();
    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo bad > no.txt"}),
    ));
    assert_eq!(sandbox.send(&["--from", "bob", "work"]).code, 0);
    sees(&screen, "cli:bob");
    screen.write("d");
    sees(&screen, "why:");
    screen.write("not on a Sunday, yes?\r");
    let asked = model.wait_requests(before + 2, SOON);
    assert!(
        asked
            .last()
            .expect("a request")
            .to_string()
            .contains("not on a Sunday, yes?")
    );
    assert!(!sandbox.path("workspace/no.txt").exists());
    screen.write("\u{3}");
    let colours = [
        "\u{1b}[31m",
        "\u{1b}[32m",
        "\u{1b}[33m",
        "38;5;",
        "\u{1b}[2m",
    ];
    let said = screen.said().0;
    assert!(
        !colours.iter().any(|colour| said.contains(colour)),
        "NO_COLOR: {said:?}"
    );
    closed(screen, 0);
}

#[test]
fn every_end_gives_the_terminal_back() {
    if no_terminal() {
        return;
    }
    let sandbox = Sandbox::new();
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
    ] {
        let screen = open(&sandbox, &[], (20, 5));
        sees(&screen, "not running");
        kill(pid(&sandbox), signal).expect("it runs");
        closed(screen, 0);
        fs::remove_file(sandbox.path("pid")).expect("it is there");
    }
}

#[test]
fn it_sleeps_when_it_is_told_to_and_comes_back() {
    if no_terminal() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.put("rc", b"PS1='ready> '; stty cols 80 rows 24\n");
    let shell = on_terminal(&sandbox, &[], "bash --noprofile --rcfile rc -i");
    shell.wait_said("ready> ");
    shell.write("agent-monitor --follow\r");
    sees(&shell, "it never ran here");
    let times = |words: &str, count: usize| {
        wait_for(words, SOON, || {
            (shell.said().0.matches(words).count() >= count).then_some(())
        });
    };
    for round in 1..=2 {
        shell.write("\u{1a}");
        times("\u{1b}[?1049l", round);
        times("Stopped", round);
        shell.write("stty -a | grep -o ' icanon'; fg\r");
        times("\u{1b}[?1049h", round + 1);
        wait_for("the whole screen once more", SOON, || {
            let said = shell.said().0;
            said.rsplit_once("\u{1b}[?1049h")
                .is_some_and(|(_, after)| after.contains("never"))
                .then_some(())
        });
    }
    shell.write("q");
    times("\u{1b}[?1049l", 3);
    shell.write("exit\r");
    let told = shell.end();
    assert_eq!(
        (told.code, told.stdout.matches(" icanon\r\n").count()),
        (0, 2),
        "{told:?}"
    );
}

#[test]
fn a_daemon_that_comes_and_goes_is_seen_without_a_new_start() {
    if no_terminal() {
        return;
    }
    let (_model, sandbox) = Sandbox::with_model();
    let screen = open(&sandbox, &[], (100, 24));
    sees(&screen, "it never ran here");
    let daemon = sandbox.ready();
    sees(&screen, &format!("idle  pid {}", daemon.pid()));
    daemon.kill9();
    sees(&screen, "it was killed or crashed");
    // Without a daemon an order says so, and nothing is left that the next one would hear.
    screen.write("s");
    sees(&screen, "no turn runs");
    screen.write("?");
    sees(&screen, "the next pane");
    screen.write("qq");
    closed(screen, 0);
    assert!(sandbox.spooled().is_empty());
}

#[test]
fn without_a_screen_it_says_what_to_use_instead() {
    let sandbox = Sandbox::new();
    let told = sandbox.monitor(&["--follow"]);
    assert_eq!((told.code, told.stdout.as_str()), (2, ""), "{told:?}");
    assert!(
        told.stderr.contains("--follow needs a terminal")
            && told.stderr.contains("hint: agent-monitor"),
        "{told:?}"
    );
    for together in [
        ["--follow", "--json"],
        ["--follow", "--check"],
        ["--check", "--json"],
    ] {
        assert_eq!(sandbox.monitor(&together).code, 2, "{together:?}");
    }
    if no_terminal() {
        return;
    }
    for term in ["dumb", ""] {
        let told = on_terminal(&sandbox, &[("TERM", term)], "agent-monitor --follow").end();
        assert_eq!(told.code, 2, "{told:?}");
        assert!(
            told.stdout.contains("TERM") && !told.stdout.contains('\u{1b}'),
            "{told:?}"
        );
    }
    let told = on_terminal(&sandbox, &[], "agent-monitor --follow </dev/null").end();
    assert_eq!(told.code, 2, "{told:?}");
}
