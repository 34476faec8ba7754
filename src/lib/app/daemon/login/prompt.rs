//! Reads a line without showing it. The terminal is restored whatever ends the input: Enter, Ctrl-C, an error or a signal.

use std::io::{Read, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::termios::{self, LocalFlags, SetArg, SpecialCharacterIndices, Termios};

use crate::app::cli;
use crate::app::cli::Failure;

/// The longest line, bytes.
const MAX: usize = 64 * 1024;

/// The terminal as it was; dropping this puts it back.
struct Quiet {
    stdin: std::io::Stdin,
    before: Termios,
    mask: SigSet,
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // TCSADRAIN: what was typed ahead belongs to the shell.
        let _ = termios::tcsetattr(&self.stdin, SetArg::TCSADRAIN, &self.before);
        let _ = self.mask.thread_set_mask();
        cli::err("");
    }
}

/// Asks on the terminal and returns what was typed, without its end; `None` when the person gave up: Ctrl-C, Ctrl-D or
/// a signal.
pub(in crate::app::daemon) fn hidden(question: &str) -> Result<Option<String>, Failure> {
    let failed = |error: nix::Error| {
        Failure::io(format!("the terminal cannot be made quiet: {error}"))
            .hint("pipe the key's one line instead: agent-daemon login NAME < file")
    };
    let stdin = std::io::stdin();
    let before = termios::tcgetattr(&stdin).map_err(failed)?;
    // Signals are read like keys, so that none ends us with the terminal dumb.
    let mut signals = SigSet::empty();
    [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
    ]
    .into_iter()
    .for_each(|signal| signals.add(signal));
    let mask = SigSet::thread_get_mask().map_err(failed)?;
    signals.thread_block().map_err(failed)?;
    let quiet = Quiet {
        stdin: std::io::stdin(),
        before: before.clone(),
        mask,
    };
    let mut raw = before;
    raw.local_flags.remove(
        LocalFlags::ECHO
            | LocalFlags::ECHONL
            | LocalFlags::ICANON
            | LocalFlags::ISIG
            | LocalFlags::IEXTEN,
    );
    set(&mut raw, SpecialCharacterIndices::VMIN, 1);
    set(&mut raw, SpecialCharacterIndices::VTIME, 0);
    termios::tcsetattr(&stdin, SetArg::TCSADRAIN, &raw).map_err(failed)?;
    let heard = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC).map_err(failed)?;
    let mut err = std::io::stderr();
    let _ = err
        .write_all(question.as_bytes())
        .and_then(|()| err.flush());
    let typed = read(&stdin, &heard);
    drop(quiet);
    typed
}

fn set(terminal: &mut Termios, index: SpecialCharacterIndices, value: u8) {
    if let Some(place) = terminal.control_chars.get_mut(index as usize) {
        *place = value;
    }
}

/// Reads keys up to Enter; `None` when the person gave up.
fn read(stdin: &std::io::Stdin, heard: &SignalFd) -> Result<Option<String>, Failure> {
    let broken = |error: std::io::Error| {
        Failure::io(format!("the terminal cannot be read: {error}"))
            .hint("try again in another terminal")
    };
    // Past the buffer of the standard library: poll would not see what is in it.
    let mut raw = std::fs::File::from(stdin.as_fd().try_clone_to_owned().map_err(broken)?);
    let mut line = Vec::new();
    loop {
        let mut ends = [
            PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
            PollFd::new(heard.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ends, PollTimeout::NONE) {
            Err(nix::Error::EINTR) => continue,
            Err(error) => return Err(broken(error.into())),
            Ok(_) => {}
        }
        if ends.get(1).and_then(PollFd::any).unwrap_or(false) {
            return Ok(None);
        }
        let mut bytes = [0; 1024];
        let count = raw.read(&mut bytes).map_err(broken)?;
        if count == 0 {
            return Ok(None);
        }
        for byte in bytes.into_iter().take(count) {
            match typed(&mut line, byte) {
                Typed::More => {}
                Typed::Line => return Ok(Some(String::from_utf8_lossy(&line).into_owned())),
                Typed::GaveUp => return Ok(None),
            }
        }
        if line.len() > MAX {
            return Err(
                Failure::data("that is no key: it is too long; nothing was stored")
                    .hint("copy the key alone"),
            );
        }
    }
}

enum Typed {
    More,
    Line,
    GaveUp,
}

/// Does what a terminal does with a key.
fn typed(line: &mut Vec<u8>, byte: u8) -> Typed {
    match byte {
        b'\n' | b'\r' => return Typed::Line,
        // Ctrl-C, Ctrl-backslash; Ctrl-D on an empty line.
        3 | 28 => return Typed::GaveUp,
        4 if line.is_empty() => return Typed::GaveUp,
        4 => return Typed::Line,
        8 | 127 => drop(line.pop()),
        // Ctrl-U
        21 => line.clear(),
        // A paste that the terminal puts in brackets, arrow keys and the like are no letters of a key.
        byte => line.push(byte),
    }
    Typed::More
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(keys: &[u8]) -> Option<String> {
        let mut line = Vec::new();
        for key in keys {
            match typed(&mut line, *key) {
                Typed::More => {}
                Typed::Line => return Some(String::from_utf8_lossy(&line).into_owned()),
                Typed::GaveUp => return None,
            }
        }
        panic!("the line did not end")
    }

    #[test]
    fn keys_do_what_they_do_in_a_terminal() {
        let cases: [(&[u8], Option<&str>); 7] = [
            (b"sk-1\n", Some("sk-1")),
            (b"sk-12\x7f\r", Some("sk-1")),
            (b"wrong\x15sk-1\n", Some("sk-1")),
            (b"sk-1\x04", Some("sk-1")),
            (b"\x04", None),
            (b"sk-1\x03", None),
            (b"\n", Some("")),
        ];
        for (keys, expected) in cases {
            assert_eq!(line(keys).as_deref(), expected, "{keys:?}");
        }
    }
}
