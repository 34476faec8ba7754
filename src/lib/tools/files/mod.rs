//! `read`, `write`, `edit`: files of the workspace and of the directories that the settings allow, and
//! nothing outside them.

mod find_replace;
mod obeyed_names;
mod read;
mod render;
mod write_edit;

use std::fs::Metadata;
use std::sync::Arc;

use super::typed::tool;
use super::{Needs, blocking};
use crate::agent::{Tool, ToolOutput};
use crate::text::visible;
use crate::trust::Provenance;
use crate::undo;
use crate::workspace::{ContentId, PathPolicy, ReadTarget};

/// The largest file that is read whole, or edited, bytes; of a larger one lines are read.
const MAX_FILE: u64 = 4 << 20;

/// What the three work with.
#[derive(Clone)]
struct Files {
    path_policy: Arc<PathPolicy>,
    undo: Arc<undo::Store>,
}

impl Files {
    /// Returns the provenance of a file; `None` for one that is the owner's. It may have been marked under another name.
    fn provenance_of(&self, target: &ReadTarget) -> Option<Provenance> {
        let content = || ContentId::of_file(&target.found.open().ok()?).ok();
        self.provenance(&target.key, &target.found.metadata, content)
    }

    /// As [`Self::provenance_of`], for the file called `key`.
    fn provenance(
        &self,
        key: &str,
        metadata: &Metadata,
        content: impl Fn() -> Option<ContentId>,
    ) -> Option<Provenance> {
        let is_marked = self.undo.marks.is_marked(key, metadata, content);
        is_marked.then(|| Provenance::File(visible(key)))
    }
}

pub(super) fn all(needs: &Needs) -> Vec<Arc<dyn Tool>> {
    let files = Files {
        path_policy: needs.path_policy.clone(),
        undo: needs.undo.clone(),
    };
    vec![
        tool(read::Read(files.clone())),
        tool(write_edit::Write(files.clone())),
        tool(write_edit::Edit(files)),
    ]
}

#[cfg(test)]
pub(super) mod tests;
