//! Databases whose files are removed or replaced while the daemon has them open, by a cleaning hand or a copy of a backup: what
//! is written from then on is gone when the daemon ends, and nothing else says so before that.

use std::path::PathBuf;

use crate::config::Home;
use crate::db;
use crate::pipeline::Pipeline;

/// The databases of which nothing may be lost, each with the file that was opened.
pub(super) struct OpenDatabases([Open; 2]);

struct Open {
    name: &'static str,
    path: PathBuf,
    /// By device and number; `None` when it could not be looked at.
    file: Option<(u64, u64)>,
    is_replaced: bool,
}

impl OpenDatabases {
    /// Returns those of a daemon that has just opened them.
    pub(super) fn of(home: &Home) -> Self {
        let open = |name, path: PathBuf| Open {
            name,
            file: db::identity(&path).ok().flatten(),
            path,
            is_replaced: false,
        };
        Self([
            open("queue.db", home.queue_db()),
            open("cost.db", home.cost_db()),
        ])
    }

    /// Notes as a trouble which of them is no longer where it was, and ends the trouble when it is back.
    pub(super) fn look(&mut self, pipeline: &Pipeline) {
        for open in &mut self.0 {
            let Ok(there) = db::identity(&open.path) else {
                continue;
            };
            let is_replaced = open.file.is_some() && there != open.file;
            if is_replaced == open.is_replaced {
                continue;
            }
            open.is_replaced = is_replaced;
            let words = format!(
                "{} was removed or replaced while the daemon runs: what is stored now is lost when it ends. Put the file back, or \
                 let it answer what waits and restart it",
                open.name
            );
            if is_replaced {
                tracing::error!("{words}");
            }
            pipeline.set_trouble(open.name, is_replaced.then_some(words.as_str()));
        }
    }
}
