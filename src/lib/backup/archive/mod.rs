//! The file of a backup: a tar with a manifest and a checksum over all of it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path, PathBuf};

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::Error;
use crate::{sys, text};

/// The directory that everything in the archive is in.
pub(super) const ROOT: &str = "agent-backup/";
const README: &str = "README.txt";
const MANIFEST: &str = "MANIFEST.json";
const END: &str = "END";
/// What this version writes and reads.
const FORMAT: u64 = 1;
/// A header and a block of content, and the two empty blocks that end a tar.
const TAIL: u64 = 2048;
/// Of a manifest, bytes: half a million files.
const MAX_MANIFEST: u64 = 128 << 20;

const HOW_TO_READ: &str = "This is a backup of an agent of agent-toolkit.

  agent-daemon restore FILE --verify     puts it into an empty home and proves that it works

Without that program: it is a plain tar. To check every file:

  tar -xf FILE && cd agent-backup
  jq -r '.files[] | select(.sha256) | \"\\(.sha256)  \\(.path)\"' MANIFEST.json | sha256sum -c --quiet

Directories with nothing in them stand in the manifest alone. To make them:

  jq -r '.directories[]?.path' MANIFEST.json | xargs -r -d '\\n' mkdir -p --

state/*.db are SQLite databases, state/sessions/ holds the conversations (a JSON document a line),
workspace/ the agent's own files (Markdown). END is the SHA-256 of all bytes before it.
";

/// What is in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The number of the format.
    pub format: u64,
    /// The version of the program that wrote it.
    pub version: String,
    /// RFC 3339 UTC.
    pub created_at: String,
    /// Whether `.env` and `auth.json` are in it.
    pub secrets: bool,
    /// In the order of the archive.
    pub files: Vec<Entry>,
    /// Directories with nothing in them: they stand here alone, so that earlier versions read the archive.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<Directory>,
    /// What of the home is not in it, and why.
    pub left_out: Vec<String>,
}

/// One file or symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Such as `state/queue.db`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// Of a file, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Of a link, where it points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// A directory that is in a backup for its own sake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directory {
    /// Such as `workspace/notes.git/refs/heads`.
    pub path: String,
    /// Its permissions, such as 493 (0755).
    pub mode: u32,
}

/// How a file is to be when it is restored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Attributes {
    pub mode: u32,
    /// Seconds since 1970 UTC.
    pub modified: u64,
}

/// Passes bytes on and digests them.
struct Digesting<W> {
    inner: W,
    digest: Context,
    bytes: u64,
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.digest.update(bytes.get(..written).unwrap_or_default());
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn digesting<W>(inner: W) -> Digesting<W> {
    Digesting {
        inner,
        digest: Context::new(&SHA256),
        bytes: 0,
    }
}

fn hex(digest: Context) -> String {
    text::hex(digest.finish().as_ref())
}

/// Returns the SHA-256 of what is left of `from`, and its length.
fn digest_of(from: &mut impl Read) -> io::Result<(String, u64)> {
    let mut sink = digesting(io::sink());
    io::copy(from, &mut sink)?;
    Ok((hex(sink.digest), sink.bytes))
}

/// Returns the SHA-256 of a file.
pub(super) fn sha256(path: &Path) -> io::Result<String> {
    Ok(digest_of(&mut File::open(path)?)?.0)
}

/// Writes a backup.
pub(super) struct Writer<W: Write> {
    tar: tar::Builder<Digesting<W>>,
    files: Vec<Entry>,
    directories: Vec<Directory>,
    names: HashSet<String>,
}

impl<W: Write> Writer<W> {
    pub(super) fn start(out: W) -> io::Result<Self> {
        let mut tar = tar::Builder::new(digesting(out));
        put(
            &mut tar,
            README,
            HOW_TO_READ.as_bytes(),
            HOW_TO_READ.len() as u64,
            Attributes::default(),
        )?;
        Ok(Self {
            tar,
            files: Vec::new(),
            directories: Vec::new(),
            names: HashSet::new(),
        })
    }

    /// Adds a file of exactly `size` bytes.
    pub(super) fn file(
        &mut self,
        path: &str,
        bytes: impl Read,
        size: u64,
        attributes: Attributes,
    ) -> io::Result<()> {
        let mut bytes = DigestingReader {
            inner: bytes.take(size),
            digest: Context::new(&SHA256),
            bytes: 0,
        };
        put(&mut self.tar, path, &mut bytes, size, attributes)?;
        if bytes.bytes != size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let sha256 = Some(hex(bytes.digest));
        self.add(Entry {
            path: path.to_owned(),
            size,
            sha256,
            link: None,
        });
        Ok(())
    }

    pub(super) fn link(&mut self, path: &str, to: &str) -> io::Result<()> {
        let mut header = header(0, Attributes::default());
        header.set_entry_type(tar::EntryType::Symlink);
        self.tar
            .append_link(&mut header, format!("{ROOT}{path}"), to)?;
        self.add(Entry {
            path: path.to_owned(),
            size: 0,
            sha256: None,
            link: Some(to.to_owned()),
        });
        Ok(())
    }

    /// Notes a directory with nothing in it.
    pub(super) fn directory(&mut self, path: &str, mode: u32) {
        self.directories.push(Directory {
            path: path.to_owned(),
            mode,
        });
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.names.contains(path)
    }

    fn add(&mut self, entry: Entry) {
        self.names.insert(entry.path.clone());
        self.files.push(entry);
    }

    /// Adds the manifest and the checksum; returns what was written to, the manifest and the bytes of all.
    pub(super) fn end(
        mut self,
        created_at: String,
        secrets: bool,
        left_out: Vec<String>,
    ) -> io::Result<(W, Manifest, u64)> {
        let manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            created_at,
            secrets,
            files: self.files,
            directories: self.directories,
            left_out,
        };
        let mut json = serde_json::to_vec_pretty(&manifest)?;
        json.push(b'\n');
        put(
            &mut self.tar,
            MANIFEST,
            json.as_slice(),
            json.len() as u64,
            Attributes::default(),
        )?;
        let so_far = self.tar.get_ref();
        let line = end_line(&hex(so_far.digest.clone()), so_far.bytes);
        put(
            &mut self.tar,
            END,
            line.as_bytes(),
            line.len() as u64,
            Attributes::default(),
        )?;
        let mut written = self.tar.into_inner()?;
        written.flush()?;
        Ok((written.inner, manifest, written.bytes))
    }
}

fn header(size: u64, attributes: Attributes) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(if attributes.mode == 0 {
        0o600
    } else {
        attributes.mode
    });
    header.set_mtime(attributes.modified);
    header
}

fn put<W: Write>(
    tar: &mut tar::Builder<W>,
    path: &str,
    bytes: impl Read,
    size: u64,
    attributes: Attributes,
) -> io::Result<()> {
    tar.append_data(
        &mut header(size, attributes),
        format!("{ROOT}{path}"),
        bytes,
    )
}

fn end_line(digest: &str, bytes: u64) -> String {
    format!("sha256 {digest} of the {bytes} bytes before this entry\n")
}

/// Returns the last [`TAIL`] bytes of an archive with this line.
fn tail(line: &str) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    put(
        &mut tar,
        END,
        line.as_bytes(),
        line.len() as u64,
        Attributes::default(),
    )?;
    tar.into_inner()
}

/// Passes bytes on and digests them.
struct DigestingReader<R> {
    inner: R,
    digest: Context,
    bytes: u64,
}

impl<R: Read> Read for DigestingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.update(buffer.get(..read).unwrap_or_default());
        self.bytes += read as u64;
        Ok(read)
    }
}

/// A complete backup: every byte was verified.
#[derive(Debug)]
pub struct Contents {
    path: PathBuf,
    file: File,
    /// Bytes before [`END`].
    body: u64,
    /// Its manifest.
    pub manifest: Manifest,
}

/// What a file in the archive is.
pub(super) enum Content<'a> {
    File(&'a mut dyn Read, Attributes),
    Link(&'a str),
}

impl Contents {
    /// Opens a backup and reads all of it.
    ///
    /// # Errors
    /// [`Error::Damaged`] when it is not a backup, cut short or changed by a bit; [`Error::Newer`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(sys::Error::at("open", path))?;
        let damaged = |why: &str| Error::Damaged {
            path: path.to_owned(),
            why: why.to_owned(),
        };
        let fail = |error| Error::from(sys::Error::at("read", path)(error));
        let length = file.metadata().map_err(fail)?.len();
        let mut start = [0; ROOT.len() + README.len()];
        let is_ours = file.read_exact(&mut start).is_ok()
            && start.as_slice() == format!("{ROOT}{README}").as_bytes();
        let body = length
            .checked_sub(TAIL)
            .filter(|_| is_ours)
            .ok_or_else(|| damaged("this is no backup of an agent"))?;
        file.seek(SeekFrom::Start(0)).map_err(fail)?;
        let (digest, bytes) = digest_of(&mut (&file).take(body)).map_err(fail)?;
        let mut end = Vec::new();
        (&file).take(TAIL).read_to_end(&mut end).map_err(fail)?;
        if end != tail(&end_line(&digest, bytes)).map_err(fail)? {
            return Err(damaged(
                "the backup is cut short or was changed: its checksum is wrong",
            ));
        }
        let manifest = read_manifest(&mut file, body).map_err(|why| damaged(&why))?;
        if manifest.format != FORMAT {
            return Err(Error::Newer {
                path: path.to_owned(),
                found: manifest.format,
                known: FORMAT,
            });
        }
        let contents = Self {
            path: path.to_owned(),
            file,
            body,
            manifest,
        };
        contents.agrees()?;
        Ok(contents)
    }

    /// Returns it as the backup at `path`, of which another file is a copy.
    pub fn named(self, path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            ..self
        }
    }

    /// Calls `each` with every file and link, in the order of the manifest.
    pub(super) fn each(
        &self,
        mut each: impl FnMut(&Entry, Content<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let damaged = |why: String| Error::Damaged {
            path: self.path.clone(),
            why,
        };
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))
            .map_err(sys::Error::at("read", &self.path))?;
        let mut archive = tar::Archive::new(file.take(self.body));
        let entries = archive
            .entries()
            .map_err(|error| damaged(error.to_string()))?;
        let mut expected = self.manifest.files.iter();
        for entry in entries {
            let mut entry = entry.map_err(|error| damaged(error.to_string()))?;
            let name = name_of(&entry).map_err(damaged)?;
            if [README, MANIFEST].contains(&name.as_str()) {
                continue;
            }
            let listed = expected.next().filter(|listed| listed.path == name);
            let listed = listed.ok_or_else(|| damaged(format!("{name} is not in its manifest")))?;
            let header = entry.header();
            match (&listed.link, header.entry_type()) {
                (None, tar::EntryType::Regular) => {
                    let attributes = Attributes {
                        mode: header.mode().unwrap_or(0o600) & 0o777,
                        modified: header.mtime().unwrap_or(0),
                    };
                    let mut bytes = DigestingReader {
                        inner: &mut entry,
                        digest: Context::new(&SHA256),
                        bytes: 0,
                    };
                    each(listed, Content::File(&mut bytes, attributes))?;
                    // What was not read is digested, too.
                    io::copy(&mut bytes, &mut io::sink())
                        .map_err(|error| damaged(error.to_string()))?;
                    if bytes.bytes != listed.size || Some(hex(bytes.digest)) != listed.sha256 {
                        return Err(damaged(format!("{name} does not match its manifest")));
                    }
                }
                (Some(to), tar::EntryType::Symlink) => each(listed, Content::Link(to))?,
                _ => return Err(damaged(format!("{name} is of an unknown kind"))),
            }
        }
        match expected.next() {
            Some(missing) => Err(damaged(format!("{} is missing", missing.path))),
            None => Ok(()),
        }
    }

    /// Checks every file against the manifest, and that no directory of it leads out of the home.
    fn agrees(&self) -> Result<(), Error> {
        let mut directories = self.manifest.directories.iter();
        if let Some(astray) = directories.find(|directory| !is_plain(&directory.path)) {
            return Err(Error::Damaged {
                path: self.path.clone(),
                why: format!("{} leads elsewhere", astray.path),
            });
        }
        self.each(|_, _| Ok(()))
    }
}

/// Finds the manifest, the last file of the archive.
fn read_manifest(file: &mut File, body: u64) -> Result<Manifest, String> {
    let text = |error: io::Error| error.to_string();
    file.seek(SeekFrom::Start(0)).map_err(text)?;
    let mut archive = tar::Archive::new(file.take(body));
    for entry in archive.entries().map_err(text)? {
        let entry = entry.map_err(text)?;
        if name_of(&entry)? == MANIFEST {
            let mut json = Vec::new();
            entry
                .take(MAX_MANIFEST)
                .read_to_end(&mut json)
                .map_err(text)?;
            return serde_json::from_slice(&json).map_err(|error| format!("{MANIFEST}: {error}"));
        }
    }
    Err("it has no manifest".to_owned())
}

/// Returns whether a name leads to no place but the one below the home that it names.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Returns the path of an entry in the home; nothing leads out of it.
fn name_of<R: Read>(entry: &tar::Entry<'_, R>) -> Result<String, String> {
    let path = entry.path_bytes().into_owned();
    let path = String::from_utf8(path).map_err(|_| "a name is not UTF-8".to_owned())?;
    let name = path
        .strip_prefix(ROOT)
        .ok_or_else(|| format!("{path} is elsewhere"))?;
    is_plain(name)
        .then(|| name.to_owned())
        .ok_or_else(|| format!("{path} leads elsewhere"))
}

#[cfg(test)]
mod tests;
