//! The prompt: lines are edited, remembered and completed as in a shell, and a message may have many lines. Pasted
//! lines stay one message (bracketed paste); Alt-Enter, or Enter behind a backslash, begins a new one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::config::{ColorMode, CompletionType};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{
    Cmd, ConditionalEventHandler, Config, Editor, Event, EventContext, EventHandler, Helper,
    KeyCode, KeyEvent, Modifiers, RepeatCount,
};

use super::mentions::below_home;
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::render::Context;
use crate::app::send::complete;
use crate::config::{Environment, Home};
use crate::{config, pipeline, secret};

const HISTORY: usize = 1000;
const PROMPT: &str = "> ";
/// Words that end the program instead of being said.
const LEAVE: [&str; 4] = ["/quit", "/exit", "quit", "exit"];

/// The line editor, and where its history is.
pub(super) struct Prompt {
    editor: Editor<Known, FileHistory>,
    history: PathBuf,
    /// What stood before each new line that Enter behind a backslash began.
    continued: Arc<Mutex<Vec<String>>>,
    /// Somebody sits there.
    person: bool,
}

impl Prompt {
    pub(super) fn new(context: &Context<'_>, person: bool) -> Result<Self, Failure> {
        let wrong = |error: ReadlineError| Failure::io(format!("no prompt can be shown: {error}"));
        let color = if cli::escapes() {
            ColorMode::Enabled
        } else {
            ColorMode::Disabled
        };
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .color_mode(color)
            .max_history_size(HISTORY)
            .and_then(|builder| builder.history_ignore_dups(true));
        let mut editor = Editor::with_config(config.map_err(wrong)?.build()).map_err(wrong)?;
        editor.set_helper(Some(Known {
            home: context.home.clone(),
            env: context.env.clone(),
        }));
        let continued: Arc<Mutex<Vec<String>>> = Arc::default();
        let alt_enter = KeyEvent(KeyCode::Enter, Modifiers::ALT);
        editor.bind_sequence(alt_enter, Cmd::Newline);
        for enter in [
            KeyEvent(KeyCode::Enter, Modifiers::NONE),
            KeyEvent::ctrl('J'),
        ] {
            let handler = BehindBackslash(continued.clone());
            editor.bind_sequence(enter, EventHandler::Conditional(Box::new(handler)));
        }
        let history = context.home.state().join("chat_history");
        // There is none at first.
        let _ = editor.load_history(&history);
        Ok(Self {
            editor,
            history,
            continued,
            person,
        })
    }

    /// Reads one message, beginning with words that are there already; `None` when somebody leaves.
    pub(super) fn message(&mut self, begun: &str) -> Result<Option<String>, Failure> {
        let text = if self.person {
            self.edited(begun)?
        } else {
            self.lines()?
        };
        Ok(text.filter(|text| !LEAVE.contains(&text.trim())))
    }

    /// Asks for a yes; anything else is a no.
    pub(super) fn confirms(&mut self, question: &str) -> bool {
        let answer = self.editor.readline(&format!("{question} [y/N] "));
        answer.is_ok_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes"))
    }

    /// Keeps a line in the history, without what looks like a key: the daemon takes that out of the message, too.
    pub(super) fn remember(&mut self, text: &str) {
        let withheld = secret::withhold(text);
        let text = withheld.as_deref().unwrap_or(text);
        let added = self
            .editor
            .add_history_entry(text)
            .and_then(|_| self.editor.append_history(&self.history));
        if let Err(error) = added {
            cli::err(&format!(
                "agent-send: the line is not kept in the history: {error}"
            ));
        }
    }

    fn edited(&mut self, begun: &str) -> Result<Option<String>, Failure> {
        let mut begun = begun.to_owned();
        loop {
            self.continued.lock().clear();
            match self.editor.readline_with_initial(PROMPT, (&begun, "")) {
                Ok(text) => return Ok(Some(joined(&text, &self.continued.lock()))),
                Err(ReadlineError::Eof) => return Ok(None),
                // Ctrl-C at the prompt takes away what is there.
                Err(ReadlineError::Interrupted) => begun.clear(),
                Err(error) => return Err(unreadable(error)),
            }
        }
    }

    /// Reads lines of a pipe; one that ends with a backslash continues in the next.
    fn lines(&mut self) -> Result<Option<String>, Failure> {
        let mut text = String::new();
        loop {
            match self.editor.readline("") {
                Ok(line) => match line.strip_suffix('\\') {
                    Some(begun) => {
                        text.push_str(begun);
                        text.push('\n');
                    }
                    None => return Ok(Some(text + &line)),
                },
                Err(ReadlineError::Eof) => return Ok(Some(text).filter(|text| !text.is_empty())),
                Err(error) => return Err(unreadable(error)),
            }
        }
    }
}

fn unreadable(error: ReadlineError) -> Failure {
    match error {
        ReadlineError::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Failure::data("standard input is not valid UTF-8")
                .hint("convert it first: … | iconv -f LATIN1 -t UTF-8 | agent-send --chat")
        }
        error => Failure::io(format!("standard input cannot be read: {error}"))
            .hint("agent-send - < FILE sends a file as one message"),
    }
}

/// Enter behind a backslash begins a new line.
struct BehindBackslash(Arc<Mutex<Vec<String>>>);

impl ConditionalEventHandler for BehindBackslash {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let before = context.line().get(..context.pos())?;
        if !before.ends_with('\\') {
            return None;
        }
        self.0.lock().push(before.to_owned());
        Some(Cmd::Newline)
    }
}

/// Returns `text` without the backslashes that only began a new line. Those of a text that was pasted belong to it.
fn joined(text: &str, continued: &[String]) -> String {
    let begins_line = |before: &String| {
        let rest = text.strip_prefix(before.as_str())?;
        rest.starts_with('\n').then(|| before.len() - 1)
    };
    let signs: Vec<usize> = continued.iter().filter_map(begins_line).collect();
    let kept = text.char_indices().filter(|(at, _)| !signs.contains(at));
    kept.map(|(_, c)| c).collect()
}

/// What is known of this home, for the tab key.
struct Known {
    home: Home,
    env: Environment,
}

impl Helper for Known {}
impl Highlighter for Known {}
impl Validator for Known {}

impl Hinter for Known {
    type Hint = String;
}

/// A candidate that is shown as it is put in.
fn plain(word: String) -> Pair {
    Pair {
        display: word.clone(),
        replacement: word,
    }
}

impl Completer for Known {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..pos).unwrap_or_default();
        let found = self
            .command(before)
            .or_else(|| self.file(before))
            .unwrap_or((pos, Vec::new()));
        Ok(found)
    }
}

impl Known {
    /// Completes `/WORD`, and the first word behind it.
    fn command(&self, before: &str) -> Option<(usize, Vec<Pair>)> {
        let words = before.strip_prefix('/')?;
        let Some((name, begun)) = words.split_once(' ') else {
            let known = pipeline::commands_for_owners().chain([("quit", "leave this prompt")]);
            let pair = |(name, help): (&str, &str)| Pair {
                display: format!("/{name:<13} {help}"),
                replacement: format!("/{name} "),
            };
            let found = known.filter(|(name, _)| name.starts_with(words)).map(pair);
            return Some((0, found.collect()));
        };
        let flag = match name {
            "model" | "reset" => "--model",
            "approve" | "deny" | "answer" => "--approve",
            "continue" => return Some((before.len() - begun.len(), self.places(begun))),
            _ => return None,
        };
        // Nobody reads an error behind the tab key.
        let all = complete::after_words(&[flag], &self.env, &self.home).unwrap_or_default();
        let found = all.into_iter().filter(|one| one.starts_with(begun));
        Some((before.len() - begun.len(), found.map(plain).collect()))
    }

    /// Returns the places where a conversation may be.
    fn places(&self, begun: &str) -> Vec<Pair> {
        let config = config::load_config(&self.home, &self.env).unwrap_or_default();
        let channels = config.open_channels().map(str::to_owned);
        let all = channels.chain(["terminal".to_owned(), "web".to_owned()]);
        let found = all.filter(|place| place.starts_with(begun));
        found.map(plain).collect()
    }

    /// Completes the path behind `@`. Names that could command the terminal are left out.
    fn file(&self, before: &str) -> Option<(usize, Vec<Pair>)> {
        let (start, path) = mention(before)?;
        let home = self.env.get("HOME").map(PathBuf::from);
        let real = below_home(path, home.as_deref());
        let real = real.to_str()?;
        let own = |found: String| {
            if path.starts_with("~/") {
                back(&found, home.as_deref())
            } else {
                found
            }
        };
        let (at, found) = FilenameCompleter::new()
            .complete_path(real, real.len())
            .ok()?;
        let before_name = real.get(..at)?;
        let pair = |pair: Pair| Pair {
            replacement: own(format!("{before_name}{}", pair.replacement)),
            display: pair.display,
        };
        let is_shown = |pair: &Pair| !pair.display.contains(char::is_control);
        let found: Vec<Pair> = found.into_iter().filter(is_shown).map(pair).collect();
        Some((start, found))
    }
}

/// Returns a path below the home directory as it was begun.
fn back(path: &str, home: Option<&Path>) -> String {
    let below = home
        .and_then(Path::to_str)
        .and_then(|home| path.strip_prefix(home));
    below.map_or_else(|| path.to_owned(), |rest| format!("~{rest}"))
}

/// Returns where the path of a mention that is being written begins, and the path so far.
fn mention(before: &str) -> Option<(usize, &str)> {
    let at = before.rfind('@')?;
    let (text, path) = (before.get(..at)?, before.get(at + 1..)?);
    let begins = text.is_empty() || text.ends_with(|c: char| c.is_whitespace() || c == '(');
    let ends = path
        .replace("\\ ", "")
        .contains(|c: char| c.is_whitespace() || c == '"');
    (begins && !ends).then_some((at + 1, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(dir: &Path) -> Known {
        Known {
            home: Home::at(dir),
            env: Environment::of(&[("HOME", dir.to_str().expect("UTF-8"))]),
        }
    }

    fn complete(known: &Known, before: &str) -> (usize, Vec<String>) {
        let found = known.command(before).or_else(|| known.file(before));
        let (at, found) = found.unwrap_or((before.len(), Vec::new()));
        (at, found.into_iter().map(|pair| pair.replacement).collect())
    }

    #[test]
    fn a_backslash_that_began_a_line_is_none_of_the_words() {
        let check = |text: &str, continued: &[&str], expected: &str| {
            let continued: Vec<String> = continued.iter().map(|&one| one.to_owned()).collect();
            assert_eq!(joined(text, &continued), expected, "{text}");
        };
        check("ä \\\nb\\\nc", &["ä \\", "ä \\\nb\\"], "ä \nb\nc");
        check("curl \\\n -H x", &[], "curl \\\n -H x");
        // It was taken back, or something else is there now.
        check("other \\\nb", &["one \\"], "other \\\nb");
        check("one \\b", &["one \\"], "one \\b");
    }

    #[test]
    fn commands_are_completed_where_a_line_begins() {
        let dir = tempfile::tempdir().expect("dir");
        let known = known(dir.path());
        assert_eq!(complete(&known, "/sto"), (0, vec!["/stop ".to_owned()]));
        assert_eq!(complete(&known, "/q"), (0, vec!["/quit ".to_owned()]));
        let all = complete(&known, "/").1;
        assert!(
            all.len() > 10 && all.contains(&"/model ".to_owned()),
            "{all:?}"
        );
        assert_eq!(complete(&known, "say /sto").1, [""; 0]);
        assert_eq!(complete(&known, "/sto p").1, [""; 0]);
    }

    #[test]
    fn paths_are_completed_behind_the_sign_and_nothing_in_them_commands_the_terminal() {
        let dir = tempfile::tempdir().expect("dir");
        for name in ["notes.txt", "no way.txt", "not\u{1b}[2J.txt", "other"] {
            std::fs::create_dir(dir.path().join(name)).expect("made");
        }
        let known = known(dir.path());
        let below = dir.path().to_str().expect("UTF-8");
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let line = format!("read @{below}/no");
        let found = complete(&known, &line);
        let expected = [
            format!("{below}/no\\ way.txt/"),
            format!("{below}/notes.txt/"),
        ];
        assert_eq!(found, (6, expected.to_vec()));
        assert_eq!(
            complete(&known, "it's @~/not"),
            (6, names(&["~/notes.txt/"]))
        );
        assert_eq!(complete(&known, "ada@~/not").1, names(&[]));
        assert_eq!(complete(&known, "@~/notes.txt and").1, names(&[]));
    }
}
