//! `read`, `write`, `edit`: files of the workspace and of the directories that the settings allow, and
//! nothing outside them.

mod find_replace;
mod read;
mod render;
mod write_edit;

use std::sync::Arc;

use super::Needs;
use crate::agent::{Tool, ToolOutput};
use crate::undo;
use crate::workspace::Grounds;

/// The largest file that is read whole, or edited, bytes; of a larger one lines are read.
const MAX_FILE: u64 = 4 << 20;

/// What the three work with.
#[derive(Clone)]
struct Files {
    grounds: Arc<Grounds>,
    undo: Arc<undo::Store>,
}

pub(super) fn all(needs: &Needs) -> Vec<Arc<dyn Tool>> {
    let files = Files {
        grounds: needs.grounds.clone(),
        undo: needs.undo.clone(),
    };
    vec![
        Arc::new(read::Read(files.clone())),
        Arc::new(write_edit::Write(files.clone())),
        Arc::new(write_edit::Edit(files)),
    ]
}

/// What a call comes to: words for the model, and whether somebody else's are among them.
struct Answer {
    text: Result<String, String>,
    untrusted: bool,
}

impl Answer {
    fn of_ours(text: Result<String, String>) -> Self {
        Self {
            text,
            untrusted: false,
        }
    }

    fn output(self) -> ToolOutput {
        ToolOutput {
            untrusted: self.untrusted,
            ..super::output(self.text)
        }
    }
}

/// Runs work that blocks on a thread of its own.
async fn blocking(work: impl FnOnce() -> Answer + Send + 'static) -> ToolOutput {
    match super::blocking_work(move || Ok(work())).await {
        Ok(answer) => answer.output(),
        Err(reason) => ToolOutput::error(reason),
    }
}

#[cfg(test)]
mod tests;
