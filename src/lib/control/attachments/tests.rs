//! Tests of the files that come with a command.

use super::*;

struct Place {
    _dir: tempfile::TempDir,
    tmp: PathBuf,
    new: PathBuf,
    downloads: PathBuf,
    id: Id,
}

fn place() -> Place {
    let dir = tempfile::tempdir().expect("dir");
    let [tmp, new, downloads] = ["tmp", "new", "downloads"].map(|name| dir.path().join(name));
    for dir in [&tmp, &new, &downloads] {
        std::fs::create_dir(dir).expect("dir");
    }
    Place {
        _dir: dir,
        tmp,
        new,
        downloads,
        id: Id::parse("a").expect("id"),
    }
}

fn file(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.tmp.join(name);
    atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
    path
}

#[test]
fn files_go_from_the_sender_to_the_daemon_and_a_second_look_finds_them_too() {
    let place = place();
    let files = [file(&place, "a b.log", "one"), file(&place, "ü.txt", "two")];
    let left = leave(&place.tmp, &place.new, &place.id, &files).expect("leave");
    for _ in 0..2 {
        let mut files = left.clone();
        take_in(&place.new, &place.downloads, &place.id, &mut files).expect("take in");
        let seen: Vec<_> = files
            .iter()
            .map(|file| (file.path.get(10..), file.filename.as_deref()))
            .collect();
        assert_eq!(
            seen,
            [
                (Some("-0-a_b.log"), Some("a b.log")),
                (Some("-1-ü.txt"), Some("ü.txt"))
            ]
        );
        let text = std::fs::read_to_string(place.downloads.join(&files[0].path)).expect("read");
        assert_eq!(
            (text.as_str(), place.new.join("a.d").exists()),
            ("one", false)
        );
    }
}

#[test]
fn bytes_of_a_request_come_the_same_way_under_safe_names() {
    let place = place();
    let file = |filename: &str| Brought {
        filename: filename.into(),
        content_type: None,
        bytes: b"x".to_vec(),
    };
    let files = [file("../../etc/passwd"), file("a\u{0}b\n.txt"), file("")];
    let mut left = bring(&place.tmp, &place.new, &place.id, &files).expect("bring");
    take_in(&place.new, &place.downloads, &place.id, &mut left).expect("take in");
    let ends: Vec<_> = left
        .iter()
        .map(|file| file.path.get(10..).unwrap_or_default())
        .collect();
    assert_eq!(ends, ["-0-.._.._etc_passwd", "-1-a_b_.txt", "-2-"]);
    assert!(
        left.iter()
            .all(|file| place.downloads.join(&file.path).is_file())
    );
    let large = [Brought {
        bytes: vec![0; usize::try_from(MAX_FILE).expect("size") + 1],
        ..file("large")
    }];
    assert!(matches!(
        bring(&place.tmp, &place.new, &place.id, &large),
        Err(Error::Unfit { .. })
    ));
    assert!(matches!(
        bring(&place.tmp, &place.new, &place.id, &vec![file("x"); 21]),
        Err(Error::Unfit { .. })
    ));
    assert_eq!(std::fs::read_dir(&place.tmp).expect("tmp").count(), 0);
}

#[test]
fn whichever_of_two_senders_of_one_id_comes_first_its_files_are_there() {
    for second_comes_before_the_daemon in [true, false] {
        let place = place();
        let files = [file(&place, "x", "one"), file(&place, "y", "two")];
        let send = |file: &PathBuf| {
            leave(
                &place.tmp,
                &place.new,
                &place.id,
                std::slice::from_ref(file),
            )
            .expect("leave")
        };
        let take = |mut files: Vec<Attachment>| {
            take_in(&place.new, &place.downloads, &place.id, &mut files).expect("take in");
            std::fs::read_to_string(place.downloads.join(&files[0].path)).expect("read")
        };
        let first = send(&files[0]);
        if !second_comes_before_the_daemon {
            assert_eq!(take(first.clone()), "one");
        }
        let second = send(&files[1]);
        assert_eq!(
            (take(first), take(second)),
            ("one".to_owned(), "two".to_owned())
        );
    }
}

#[test]
fn what_is_no_file_is_refused_and_nothing_stays_behind() {
    let place = place();
    let good = file(&place, "good", "x");
    let fifo = place.tmp.join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
    for (bad, why) in [
        (place.tmp.join("nothing"), "no such file"),
        (place.new.clone(), "it is a directory"),
        (fifo, "it is not a regular file"),
    ] {
        let error =
            leave(&place.tmp, &place.new, &place.id, &[good.clone(), bad]).expect_err("unfit");
        assert!(error.to_string().contains(why), "{error}");
        assert!(!place.tmp.join("a.d").exists() && !place.new.join("a.d").exists());
    }
}

#[test]
fn a_command_reaches_its_own_files_and_absolute_paths_only() {
    let place = place();
    let outside = file(&place, "outside.txt", "x");
    let take = |path: &str| {
        let mut files = [Attachment {
            path: path.to_owned(),
            content_type: None,
            filename: None,
            sha256: None,
        }];
        take_in(&place.new, &place.downloads, &place.id, &mut files).map(|()| files)
    };
    for bad in ["../outside.txt", "..", "", "missing", "a/b"] {
        assert!(matches!(take(bad), Err(Error::Unfit { .. })), "{bad}");
    }
    let own = place.downloads.join("a");
    assert!(!own.exists(), "nothing of what is refused is kept");
    std::fs::create_dir(&own).expect("dir");
    std::os::unix::fs::symlink(&outside, own.join("link")).expect("link");
    assert!(matches!(take("link"), Err(Error::Unfit { .. })));
    let [taken] = take(outside.to_str().expect("path")).expect("take in");
    assert_eq!(
        (taken.path.as_str(), taken.filename.as_deref()),
        ("a/0-outside.txt", Some("outside.txt"))
    );
}
