//! Type-ahead: text typed while an answer is written. It is not echoed and does not answer later questions; the terminal
//! keeps it for the next prompt. While a question is open, lines are typed as usual.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use nix::poll::PollFlags;
use nix::sys::termios::{
    FlushArg, LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcflush, tcgetattr, tcsetattr,
};

use crate::app::cli;
use crate::config::Environment;

/// Has the terminal mark what is pasted, so that many lines stay one message (xterm, "Bracketed Paste Mode").
const MARK_PASTES: &str = "\u{1b}[?2004h";
const MARK_NO_PASTES: &str = "\u{1b}[?2004l";
/// The marks around it.
const PASTE_BEGINS: &str = "\u{1b}[200~";
const PASTE_ENDS: &str = "\u{1b}[201~";

/// The terminal as it is while an answer is written; dropped, it is as it was before.
pub(super) struct TypeAhead {
    before: Termios,
    hushed: Termios,
    marks: bool,
    kept: RefCell<Vec<u8>>,
}

impl TypeAhead {
    /// Begins to keep what is typed; `None` when standard input is no terminal.
    pub(super) fn begin() -> Option<Self> {
        let before = tcgetattr(std::io::stdin().as_fd()).ok()?;
        let mut hushed = before.clone();
        hushed
            .local_flags
            .remove(LocalFlags::ECHO | LocalFlags::ICANON | LocalFlags::IEXTEN);
        // Ctrl-C stops the answer, and takes nothing away that was typed.
        hushed
            .local_flags
            .insert(LocalFlags::ISIG | LocalFlags::NOFLSH);
        for (which, value) in [
            (SpecialCharacterIndices::VMIN, 1),
            (SpecialCharacterIndices::VTIME, 0),
        ] {
            if let Some(character) = hushed.control_chars.get_mut(which as usize) {
                *character = value;
            }
        }
        let marks = std::io::stdout().is_terminal()
            && Environment::of_process()
                .get("TERM")
                .is_some_and(|term| !is_plain(&term.to_string_lossy()));
        let typed = Self {
            before,
            hushed,
            marks,
            kept: RefCell::default(),
        };
        typed.hush();
        Some(typed)
    }

    /// Keeps what is typed from now on. A shell that had the terminal meanwhile (Ctrl-Z) may have changed it.
    pub(super) fn hush(&self) {
        let stdin = std::io::stdin();
        let now = tcgetattr(stdin.as_fd());
        if now.is_ok_and(|now| now.local_flags == self.hushed.local_flags) {
            return;
        }
        // Where that fails, what is typed is shown.
        let _ = tcsetattr(stdin.as_fd(), SetArg::TCSANOW, &self.hushed);
        self.mark(MARK_PASTES);
    }

    /// Sets aside what was typed, and has the terminal read lines from now on: they answer a question.
    pub(super) fn listen(&self) {
        self.kept.borrow_mut().extend(waiting());
        self.mark(MARK_NO_PASTES);
        let _ = tcsetattr(std::io::stdin().as_fd(), SetArg::TCSANOW, &self.before);
    }

    /// Returns true when keys wait for the next prompt.
    pub(super) fn has_some(&self) -> bool {
        !self.kept.borrow().is_empty() || there_is_input()
    }

    /// Returns what was set aside, as it is edited at a prompt, where Enter says it. What was typed since then the prompt
    /// reads itself.
    pub(super) fn set_aside(&self) -> String {
        let text = readable(&String::from_utf8_lossy(&self.kept.borrow()));
        text.trim_end_matches('\n').to_owned()
    }

    fn mark(&self, sequence: &str) {
        if self.marks {
            let mut stdout = std::io::stdout().lock();
            let _ = stdout
                .write_all(sequence.as_bytes())
                .and_then(|()| stdout.flush());
        }
    }
}

impl Drop for TypeAhead {
    fn drop(&mut self) {
        self.mark(MARK_NO_PASTES);
        let _ = tcsetattr(std::io::stdin().as_fd(), SetArg::TCSANOW, &self.before);
    }
}

/// Drops what was typed before a question was shown: it answers something else.
pub(super) fn forget() {
    let _ = tcflush(std::io::stdin().as_fd(), FlushArg::TCIFLUSH);
}

/// Returns true for a terminal in which the line editor edits nothing, and which has no such marks (rustyline, `UNSUPPORTED_TERM`).
fn is_plain(term: &str) -> bool {
    ["dumb", "cons25", "emacs"]
        .iter()
        .any(|plain| plain.eq_ignore_ascii_case(term))
}

/// Returns true when something was typed that nobody has read.
pub(super) fn there_is_input() -> bool {
    !cli::stdin_events().is_empty()
}

/// Returns true when the terminal is gone.
pub(super) fn has_hung_up() -> bool {
    cli::stdin_events().contains(PollFlags::POLLHUP)
}

fn waiting() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while there_is_input() {
        match nix::unistd::read(std::io::stdin().as_fd(), &mut chunk) {
            Ok(count @ 1..) => bytes.extend(chunk.get(..count).unwrap_or_default()),
            Ok(0) | Err(_) => break,
        }
    }
    bytes
}

/// Returns what a person meant by these keys: without the marks of pastes and the sequences of keys that move.
fn readable(keys: &str) -> String {
    let keys = keys.replace(PASTE_BEGINS, "").replace(PASTE_ENDS, "");
    let mut text = String::new();
    let mut keys = keys.chars().peekable();
    while let Some(key) = keys.next() {
        match key {
            '\u{1b}' => {
                if keys.next_if(|next| matches!(next, '[' | 'O')).is_some() {
                    // Parameters, then one letter (ECMA-48, 5.4).
                    while keys.next_if(|next| (' '..='?').contains(next)).is_some() {}
                }
                keys.next();
            }
            '\r' | '\n' => text.push('\n'),
            '\u{7f}' | '\u{8}' => {
                text.pop();
            }
            '\t' => text.push(' '),
            key if key.is_control() => {}
            key => text.push(key),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_the_text_that_they_would_have_made() {
        let check = |keys: &str, text: &str| assert_eq!(readable(keys), text, "{keys:?}");
        check("hello\rworld", "hello\nworld");
        check("\u{1b}[200~one\ntwo\u{1b}[201~ three", "one\ntwo three");
        check("helo\u{7f}lo", "hello");
        check("a\u{1b}[D\u{1b}[1;5Cb\u{1b}OPc\u{1b}x", "abc");
        check("\u{7f}\u{3}ä\u{9b}1m", "ä1m");
        check("\u{1b}", "");
    }
}
