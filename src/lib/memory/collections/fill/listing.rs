//! The documents of a directory: lists them, and reads one as text.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::media;
use crate::memory::sources::{Skipped, Stamp};
use crate::sandbox::{BeneathError, Root};

/// Endings of what is read, as far as media knows what to make of it.
const ENDINGS: [&str; 9] = [
    "md", "markdown", "txt", "text", "rst", "org", "adoc", "log", "pdf",
];
/// The longest file that is read, bytes; a PDF has more in it than its text.
const MAX_BYTES: u64 = 16 << 20;
const MAX_PDF: u64 = 64 << 20;
/// The depth of directories, and entries of one.
const MAX_DEPTH: usize = 32;
const MAX_ENTRIES: usize = 1_000_000;

/// A document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    /// Below the directory, with `/` between.
    pub path: String,
    pub stamp: Stamp,
}

/// Why there is no text.
pub(super) enum Unread {
    /// It went away.
    Gone,
    Failed(String),
}

/// Returns the documents below `root` by name, and what was left out. Hidden files and links are ignored.
pub(super) fn list(root: &Root) -> (Vec<Document>, Vec<Skipped>) {
    let mut listing = Listing {
        root,
        found: Vec::new(),
        skipped: Vec::new(),
    };
    listing.directory(Path::new("."), 0);
    listing.found.sort_by(|a, b| a.path.cmp(&b.path));
    (listing.found, listing.skipped)
}

struct Listing<'a> {
    root: &'a Root,
    found: Vec<Document>,
    skipped: Vec<Skipped>,
}

impl Listing<'_> {
    fn directory(&mut self, dir: &Path, depth: usize) {
        let entries = match self.root.list(dir, MAX_ENTRIES) {
            Ok(entries) => entries,
            Err(BeneathError::NotFound(_)) if depth > 0 => return,
            Err(error) => return self.skip(dir, error.to_string()),
        };
        for entry in entries {
            let path = dir.join(&entry.name);
            match entry.kind {
                _ if entry.name.starts_with('.') => {}
                crate::sandbox::Kind::Directory if depth < MAX_DEPTH => {
                    self.directory(&path, depth + 1);
                }
                crate::sandbox::Kind::Directory => {
                    self.skip(&path, format!("it is deeper than {MAX_DEPTH} directories"));
                }
                crate::sandbox::Kind::File if is_read(&entry.name) => self.file(&path),
                _ => {}
            }
        }
    }

    fn file(&mut self, path: &Path) {
        let max = if is_pdf(path) { MAX_PDF } else { MAX_BYTES };
        match self.root.metadata(path) {
            Ok(meta) if meta.len() > max => {
                self.skip(
                    path,
                    format!("it has {} bytes, more than {max}", meta.len()),
                );
            }
            Ok(meta) if meta.is_file() => self.found.push(Document {
                path: shown(path),
                stamp: Stamp::of(&meta),
            }),
            Ok(_) | Err(BeneathError::NotFound(_)) => {}
            Err(error) => self.skip(path, error.to_string()),
        }
    }

    fn skip(&mut self, path: &Path, why: String) {
        self.skipped.push(Skipped::new(shown(path), why));
    }
}

fn shown(path: &Path) -> String {
    let path = path.strip_prefix(".").unwrap_or(path);
    path.to_string_lossy().into_owned()
}

fn is_read(name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    })
}

fn is_pdf(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("pdf"))
}

/// Returns the text of a document: its lines are those that results count. The database takes no NUL, so that becomes a
/// blank.
pub(super) fn read(root: &Root, path: &str) -> Result<String, Unread> {
    let failed = |error: BeneathError| match error {
        BeneathError::NotFound(_) => Unread::Gone,
        error => Unread::Failed(error.to_string()),
    };
    let path = PathBuf::from(path);
    let text = if is_pdf(&path) {
        let file = root.find(&path).and_then(|found| found.open());
        pdf(file.map_err(failed)?).map_err(Unread::Failed)?
    } else {
        let bytes = root.read(&path, MAX_BYTES).map_err(failed)?;
        let no_text = || Unread::Failed("it is no text".to_owned());
        media::text(&bytes, true).ok_or_else(no_text)?
    };
    Ok(text.replace('\0', " "))
}

/// Returns the text of a PDF, as far as it goes, read by a process that can do nothing else.
fn pdf(file: std::fs::File) -> Result<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let pdf = runtime.block_on(media::pdf(file, &CancellationToken::new()))?;
    Ok(pdf.text)
}
