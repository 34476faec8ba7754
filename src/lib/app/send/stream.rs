//! `--stream`: copies `replies/<id>.part` to stdout while it grows.

use crate::app::cli;
use crate::app::documents::reply::Part;
use crate::config::Home;
use crate::control::Id;
use crate::control::replies::{Reply, Status};

pub(super) struct Tail {
    part: Part,
    /// Whether something was printed, and did not end its line.
    in_line: bool,
}

impl Tail {
    /// Waits for the file of command `id`.
    pub(super) fn of(home: &Home, id: &Id) -> Self {
        Self {
            part: Part::of(home, id),
            in_line: false,
        }
    }

    /// Prints what is new, if anything, calling `before` first.
    pub(super) fn read(&mut self, mut before: impl FnMut()) {
        let words = self.part.read();
        if !words.is_empty() {
            before();
            self.print(&words);
        }
    }

    fn print(&mut self, words: &str) {
        if !words.is_empty() {
            cli::words(words);
            self.in_line = !words.ends_with('\n');
        }
    }

    /// Ends with the final `reply`; returns true when all of it was printed here.
    pub(super) fn finish(self, reply: &Reply) -> bool {
        let is_answer = reply.status == Status::Done;
        if is_answer {
            self.end(reply.reply.as_deref().unwrap_or_default());
        } else {
            self.abort();
        }
        is_answer
    }

    /// Prints what is missing of `reply`.
    pub(super) fn end(mut self, reply: &str) {
        let words = self.part.end(reply);
        self.print(&words);
        self.end_line();
    }

    /// Ends without a reply.
    pub(super) fn abort(mut self) {
        self.read(|| {});
        self.end_line();
    }

    pub(super) fn end_line(&mut self) {
        if self.in_line {
            self.print("\n");
        }
    }
}
