//! A power cut: what the programs changed and no sync covers is taken back (`power.c`, preloaded into them). A disk
//! may forget all of it, the data but not the names, or what came after some moment; each is tried.
//!
//! Names are synced in order, as on a journaling file system: a synced directory takes along every older change of a
//! name. Data are synced file by file.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::faults::build;

/// What a disk forgets of what was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgets {
    /// Everything.
    All,
    /// The data; what files are called stays.
    Data,
    /// What came after this share of it, in thousandths.
    After(u64),
}

impl Forgets {
    /// Returns one of them for a number below 1000.
    pub(crate) fn choose(number: u64) -> Self {
        match number {
            0..400 => Self::All,
            400..600 => Self::Data,
            _ => Self::After((number - 600) * 10 / 4),
        }
    }
}

/// The disk below one directory.
pub(crate) struct Power {
    beside: PathBuf,
    root: PathBuf,
}

/// What was changed or synced; the numbers stand in `power.c`.
struct Note {
    kind: u32,
    path: PathBuf,
    other: PathBuf,
    data: Vec<u8>,
    inode: u64,
    other_inode: u64,
    offset: u64,
    size: u64,
}

const WRITE: u32 = 1;
const SYNC: u32 = 2;
const SYNC_DIR: u32 = 3;
const CREATE: u32 = 4;
const MAKE: u32 = 5;
const LINK: u32 = 6;
const UNLINK: u32 = 7;
const REMOVE_DIR: u32 = 8;
const RENAME: u32 = 9;

impl Power {
    /// Makes the directory `beside` for the notes; `root` forgets.
    pub(crate) fn new(beside: &Path, root: &Path) -> Self {
        fs::create_dir_all(beside.join("keep")).expect("the sandbox is writable");
        Self {
            beside: beside.to_owned(),
            root: root.to_owned(),
        }
    }

    /// Returns what programs need in their environment, and the library to preload.
    pub(crate) fn environment(&self) -> ([(&'static str, String); 2], String) {
        static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| build("power"));
        let text = |path: &Path| path.display().to_string();
        (
            [
                ("POWER", text(&self.beside)),
                ("POWER_ROOT", text(&self.root)),
            ],
            text(library),
        )
    }

    /// Takes back what the disk forgets; nobody may be writing. Returns how many changes were.
    pub(crate) fn cut(&self, forgets: Forgets) -> usize {
        let journal = self.beside.join("journal");
        let bytes = fs::read(&journal).unwrap_or_default();
        let mut open = unsynced(read(&bytes));
        match forgets {
            Forgets::All => {}
            Forgets::Data => open.retain(|note| note.kind == WRITE),
            Forgets::After(share) => {
                let kept = u64::try_from(open.len()).expect("few") * share.min(1000) / 1000;
                open.drain(..usize::try_from(kept).expect("fewer"));
            }
        }
        for note in open.iter().rev() {
            self.take_back(note);
        }
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().ends_with("-shm") {
                fs::remove_file(entry.path()).expect("own file");
            }
        }
        self.forget();
        open.len()
    }

    /// Everything until now is on the disk.
    pub(crate) fn forget(&self) {
        // Programs that run go on appending to it.
        let journal = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.beside.join("journal"));
        let journal = journal.expect("the sandbox is writable");
        journal.set_len(0).expect("the sandbox is writable");
        let keep = self.beside.join("keep");
        fs::remove_dir_all(&keep).expect("own files");
        fs::create_dir(&keep).expect("the sandbox is writable");
    }

    fn kept(&self, inode: u64) -> PathBuf {
        self.beside.join("keep").join(inode.to_string())
    }

    /// Takes one change back. What the program did not come to, because it died first, is passed over.
    fn take_back(&self, note: &Note) {
        let is = |path: &Path| fs::symlink_metadata(path).ok().map(|is| is.ino());
        match note.kind {
            WRITE => {
                let file = fs::OpenOptions::new()
                    .write(true)
                    .open(self.kept(note.inode));
                let Ok(file) = file else { return };
                file.write_all_at(&note.data, note.offset)
                    .and_then(|()| file.set_len(note.size))
                    .expect("the sandbox is writable");
            }
            // One that was there already is not noted.
            CREATE => drop(fs::remove_file(&note.path)),
            LINK if is(&note.path) == Some(note.inode) => drop(fs::remove_file(&note.path)),
            MAKE => drop(fs::remove_dir(&note.path)),
            UNLINK => drop(fs::hard_link(self.kept(note.inode), &note.path)),
            REMOVE_DIR => drop(fs::create_dir(&note.path)),
            RENAME if is(&note.other) == Some(note.inode) => {
                fs::rename(&note.other, &note.path).expect("the sandbox is writable");
                if note.other_inode != 0 {
                    drop(fs::hard_link(self.kept(note.other_inode), &note.other));
                }
            }
            _ => {}
        }
    }
}

/// Returns what no sync covers, in order.
fn unsynced(notes: Vec<Note>) -> Vec<Note> {
    let mut open: Vec<Note> = Vec::new();
    for note in notes {
        match note.kind {
            SYNC => open.retain(|old| old.kind != WRITE || old.inode != note.inode),
            SYNC_DIR => {
                let is_in = |path: &Path| path.parent() == Some(&note.path);
                let last = open
                    .iter()
                    .rposition(|old| old.kind != WRITE && (is_in(&old.path) || is_in(&old.other)));
                let mut at = 0;
                open.retain(|old| {
                    at += 1;
                    old.kind == WRITE || last.is_none_or(|last| at > last + 1)
                });
            }
            _ => open.push(note),
        }
    }
    open
}

fn read(mut bytes: &[u8]) -> Vec<Note> {
    let mut notes = Vec::new();
    let number = |bytes: &mut &[u8], size: usize| {
        let mut raw = [0; 8];
        bytes.read_exact(&mut raw[..size]).ok()?;
        Some(u64::from_ne_bytes(raw))
    };
    let one = |bytes: &mut &[u8]| {
        let kind = u32::try_from(number(bytes, 4)?).ok()?;
        let mut sizes = [0; 3];
        for size in &mut sizes {
            *size = usize::try_from(number(bytes, 4)?).ok()?;
        }
        let mut rest = [0; 4];
        for field in &mut rest {
            *field = number(bytes, 8)?;
        }
        let mut parts = sizes.map(|size| vec![0; size]);
        for part in &mut parts {
            bytes.read_exact(part).ok()?;
        }
        let [path, other, data] = parts;
        let path_of = |raw: Vec<u8>| PathBuf::from(String::from_utf8(raw).expect("own paths"));
        let [inode, other_inode, offset, size] = rest;
        Some(Note {
            kind,
            path: path_of(path),
            other: path_of(other),
            data,
            inode,
            other_inode,
            offset,
            size,
        })
    };
    // The last one may be torn by a kill.
    while let Some(note) = one(&mut bytes) {
        notes.push(note);
    }
    notes
}
