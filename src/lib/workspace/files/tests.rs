use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

fn put(dir: &Path, name: &str, text: &[u8]) {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(dir.join(name)).expect("open");
    file.write_all(text).expect("write");
}

fn read(files: &ConventionFiles) -> Vec<(&'static str, String)> {
    files.stable().into_iter().chain(files.semi_stable()).map(|file| (file.name, file.text.to_string())).collect()
}

#[test]
fn files_come_in_order_and_missing_and_blank_ones_are_skipped() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "USER.md", b"user\n");
    put(dir.path(), "SOUL.md", b"\n soul \n");
    put(dir.path(), "TOOLS.md", b" \n");
    put(dir.path(), "MEMORY.md", b"memory");
    put(dir.path(), "HEARTBEAT.md", b"- item");
    let files = ConventionFiles::new(dir.path());
    assert_eq!(
        read(&files),
        [("SOUL.md", "soul".to_owned()), ("USER.md", "user".to_owned()), ("MEMORY.md", "memory".to_owned())]
    );
}

#[test]
fn a_change_is_seen_and_no_change_is_not_read() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "SOUL.md", b"one");
    let files = ConventionFiles::new(dir.path());
    let first = files.stable();
    assert!(Arc::ptr_eq(&first[0].text, &files.stable()[0].text), "read again without a change");
    put(dir.path(), "SOUL.md", b"three");
    assert_eq!(&*files.stable()[0].text, "three");
    put(dir.path(), "new", b"3hree");
    std::fs::rename(dir.path().join("new"), dir.path().join("SOUL.md")).expect("rename");
    assert_eq!(&*files.stable()[0].text, "3hree");
    std::fs::remove_file(dir.path().join("SOUL.md")).expect("remove");
    assert_eq!(files.stable(), []);
}

#[test]
fn twenty_thousand_characters_go_in_whole_and_one_more_is_cut() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "SOUL.md", "ä".repeat(20_000).as_bytes());
    put(dir.path(), "USER.md", "ä".repeat(20_001).as_bytes());
    let files = ConventionFiles::new(dir.path()).stable();
    assert_eq!(files[0].text.chars().count(), 20_000);
    assert!(files[1].text.contains("characters left out") && files[1].text.chars().count() < 18_100);
}

#[test]
fn bytes_that_are_no_text_do_not_hide_the_rest() {
    let dir = tempfile::tempdir().expect("dir");
    put(dir.path(), "SOUL.md", b"a\xffb");
    assert_eq!(&*ConventionFiles::new(dir.path()).stable()[0].text, "a\u{fffd}b");
}

#[test]
fn links_fifos_and_directories_are_left_out_and_the_others_stay() {
    let dir = tempfile::tempdir().expect("dir");
    let outside = tempfile::tempdir().expect("outside");
    put(outside.path(), "secret", b"hidden");
    symlink(outside.path().join("secret"), dir.path().join("SOUL.md")).expect("link");
    nix::unistd::mkfifo(&dir.path().join("IDENTITY.md"), nix::sys::stat::Mode::S_IRUSR).expect("fifo");
    std::fs::create_dir(dir.path().join("AGENTS.md")).expect("dir");
    put(dir.path(), "USER.md", b"user");
    assert_eq!(read(&ConventionFiles::new(dir.path())), [("USER.md", "user".to_owned())]);
}
