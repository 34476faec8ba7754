//! The hash to which the owner's trust is bound: one SHA-256 over all files of a skill, because its text may tell the model to run
//! them.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ring::digest::{Context, SHA256};

use super::find::Tree;
use super::shown;
use super::trust::open;

/// The most files and bytes a skill may have to be trusted: nobody reads more than that.
const MAX_FILES: usize = 500;
const MAX_BYTES: u64 = 8 << 20;

/// Returns the hash of the skill in `dir`, in hexadecimal digits, and the names of the files it is over, to
/// be shown. `skill_md` are the bytes of its SKILL.md, which are used, too: what is read twice could be two
/// things. The model is told where a skill lies, so that is part of it.
///
/// # Errors
/// Why it has none: a link, a file that cannot be read, something that was not looked at, too much of all.
pub(super) fn of(
    tree: &Tree,
    dir: &Path,
    skill_md: &[u8],
) -> Result<(String, Vec<String>), String> {
    if let Some(why) = tree.unseen(dir) {
        return Err(why);
    }
    let mut all = Context::new(&SHA256);
    let mut update = |part: &[u8]| {
        all.update(&(part.len() as u64).to_be_bytes());
        all.update(part);
    };
    let top = tree.entries.first().map_or(dir, |top| &top.path);
    update(dir.strip_prefix(top).unwrap_or(dir).as_os_str().as_bytes());
    let (mut files, mut bytes) = (Vec::new(), 0);
    for entry in tree.below(dir).filter(|entry| !entry.metadata.is_dir()) {
        let name = entry.path.strip_prefix(dir).unwrap_or(&entry.path);
        if !entry.metadata.is_file() {
            return Err(format!("{} is no regular file", shown(name)));
        }
        files.push(shown(name));
        let content = if name == Path::new("SKILL.md") {
            skill_md.to_vec()
        } else {
            let mut content = Vec::new();
            let file = open(&entry.path).map_err(|error| format!("{}: {error}", shown(name)))?;
            file.take(MAX_BYTES + 1)
                .read_to_end(&mut content)
                .map_err(|error| format!("{}: {error}", shown(name)))?;
            content
        };
        bytes += content.len() as u64;
        if files.len() > MAX_FILES || bytes > MAX_BYTES {
            return Err(format!(
                "it has more than {MAX_FILES} files or {} MiB",
                MAX_BYTES >> 20
            ));
        }
        update(name.as_os_str().as_bytes());
        update(&content);
    }
    Ok((crate::text::hex(all.finish().as_ref()), files))
}
