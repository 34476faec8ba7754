//! What was written can be read, and nothing else is accepted.

use super::*;
use crate::sys::atomic;

fn written() -> Vec<u8> {
    let mut writer = Writer::start(Vec::new()).expect("start");
    let long = format!("workspace/{}/note.md", "long/".repeat(60));
    let attributes = Attributes {
        mode: 0o700,
        modified: 1_700_000_000,
    };
    writer
        .file(
            "agent.toml",
            b"[agent]\n".as_slice(),
            8,
            Attributes::default(),
        )
        .expect("file");
    writer
        .file(&long, [7; 5000].as_slice(), 5000, attributes)
        .expect("file");
    writer.link("workspace/link", "note.md").expect("link");
    writer.directory("workspace/a.git/refs", 0o755);
    let (bytes, manifest, length) = writer
        .end("2026-11-24T00:00:00.000Z".to_owned(), false, Vec::new())
        .expect("end");
    assert_eq!((bytes.len() as u64, manifest.files.len()), (length, 3));
    bytes
}

fn open(bytes: &[u8]) -> Result<Contents, Error> {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("backup.tar");
    atomic::write(&path, bytes, atomic::Durability::Rename).expect("write");
    Contents::open(&path)
}

#[test]
fn what_was_written_is_read() {
    let contents = open(&written()).expect("whole");
    let mut seen = Vec::new();
    let each = |entry: &Entry, content: Content<'_>| {
        if let Content::File(bytes, attributes) = content {
            let mut text = Vec::new();
            bytes.read_to_end(&mut text).expect("read");
            seen.push((entry.path.len(), text.len(), attributes.mode));
        }
        Ok(())
    };
    contents.each(each).expect("each");
    let directories = &contents.manifest.directories;
    assert_eq!(directories.len(), 1);
    assert_eq!(directories[0].path, "workspace/a.git/refs");
    assert_eq!(directories[0].mode, 0o755);
    assert_eq!(seen, [(10, 8, 0o600), (318, 5000, 0o700)]);
}

#[test]
fn a_directory_that_leads_out_of_the_home_is_refused() {
    for path in ["workspace/../../x", "/x", ""] {
        let mut writer = Writer::start(Vec::new()).expect("start");
        writer.directory(path, 0o700);
        let (bytes, ..) = writer.end(String::new(), false, Vec::new()).expect("end");
        let refused = open(&bytes);
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{path}");
    }
}

#[test]
fn every_bit_and_every_length_counts() {
    let whole = written();
    for at in (0..whole.len())
        .step_by(97)
        .chain(whole.len() - 2100..whole.len())
    {
        let mut changed = whole.clone();
        if let Some(byte) = changed.get_mut(at) {
            *byte ^= 4;
        }
        assert!(
            matches!(open(&changed), Err(Error::Damaged { .. })),
            "byte {at}"
        );
    }
    for length in (0..whole.len()).step_by(511).chain([whole.len() - 1]) {
        let short = whole.get(..length).unwrap_or_default();
        assert!(
            matches!(open(short), Err(Error::Damaged { .. })),
            "length {length}"
        );
    }
    let longer = [whole.as_slice(), &[0; 512]].concat();
    assert!(matches!(open(&longer), Err(Error::Damaged { .. })));
}

#[test]
fn a_name_that_leads_out_of_the_home_is_refused() {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = header(1, Attributes::default());
    header.as_gnu_mut().expect("GNU").name[..24].copy_from_slice(b"agent-backup/../../x.txt");
    header.set_cksum();
    tar.append(&header, b"x".as_slice()).expect("append");
    let bytes = tar.into_inner().expect("tar");
    let mut archive = tar::Archive::new(bytes.as_slice());
    for entry in archive.entries().expect("entries") {
        assert!(name_of(&entry.expect("entry")).is_err());
    }
}
