//! Permitted and refused paths.

use std::os::unix::fs::{PermissionsExt, symlink};

use nix::fcntl::RenameFlags;

use super::*;
use crate::sandbox::syscalls;

struct Fixture {
    dir: tempfile::TempDir,
    root: Root,
}

impl Fixture {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("inside").join(name)
    }

    fn read(&self, path: impl AsRef<Path>) -> String {
        match self.root.read(path.as_ref(), 100) {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(e) => format!("error: {e}"),
        }
    }

    fn write(&self, path: impl AsRef<Path>, text: &str) -> String {
        self.root
            .write_atomic(path.as_ref(), text.as_bytes())
            .map_or_else(|e| format!("error: {e}"), |()| "ok".into())
    }
}

/// Resolved by the kernel, and step by step.
fn fixtures() -> [Fixture; 2] {
    [fixture(true), fixture(false)]
}

fn fixture(by_kernel: bool) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    put(&dir.path().join("secret"), "secret");
    put(&inside.join("file"), "text");
    Fixture {
        root: Root {
            by_kernel,
            ..Root::open(&inside).unwrap()
        },
        dir,
    }
}

#[test]
fn relative_and_absolute_paths_inside_are_read() {
    for place in fixtures() {
        assert_eq!(place.read("file"), "text");
        assert_eq!(place.read("./x/../file"), "error: ./x/../file is not found");
        assert_eq!(place.read(place.path("file")), "text");
    }
}

#[test]
fn no_path_leads_out() {
    for place in fixtures() {
        symlink("../secret", place.path("out")).unwrap();
        symlink("..", place.path("up")).unwrap();
        symlink("/etc", place.path("etc")).unwrap();
        symlink("/proc/self/root", place.path("magic")).unwrap();
        for path in [
            "../secret",
            "../inside/file",
            "out",
            "up/secret",
            "etc/passwd",
            "magic/etc/passwd",
        ] {
            assert_eq!(
                place.read(path),
                format!("error: {path} is outside the workspace")
            );
            assert_eq!(
                place
                    .root
                    .metadata(Path::new(path))
                    .unwrap_err()
                    .to_string(),
                format!("{path} is outside the workspace")
            );
        }
        for path in ["../new", "up/new", "etc/new", "up/a/b/new"] {
            assert_eq!(
                place.write(path, "x"),
                format!("error: {path} is outside the workspace")
            );
            assert!(place.root.real(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(
            place.read("/etc/passwd"),
            "error: /etc/passwd is outside the workspace"
        );
        assert!(
            place
                .read(place.path("../secret"))
                .ends_with("is outside the workspace")
        );
        assert!(
            place
                .write("nul\0byte", "x")
                .starts_with("error: cannot use")
        );
        assert!(!place.dir.path().join("new").exists() && !place.dir.path().join("a").exists());
    }
}

#[test]
fn step_by_step_comes_to_the_same_as_the_kernel() {
    let place = fixture(true);
    for dir in ["dir/deep", "other"] {
        std::fs::create_dir_all(place.path(dir)).unwrap();
    }
    put(&place.path("dir/deep/file"), "deep");
    for (target, name) in [
        ("dir/deep", "link"),
        ("link/file", "two"),
        ("dir/", "slash"),
        ("file/", "no-dir"),
        ("../inside/file", "out-and-in"),
        ("..", "dir/up"),
        ("loop", "loop"),
        ("file", "chain0"),
        ("/proc/self/fd", "magic"),
    ] {
        symlink(target, place.path(name)).unwrap();
    }
    for number in 1..45 {
        symlink(
            format!("chain{}", number - 1),
            place.path(&format!("chain{number}")),
        )
        .unwrap();
    }
    let parts = [
        "dir",
        "deep",
        "file",
        "link",
        "two",
        "slash",
        "no-dir",
        "out-and-in",
        "up",
        "loop",
        "magic",
        ".",
        "..",
        "gone",
        "",
    ];
    let short = parts
        .iter()
        .flat_map(|a| parts.iter().map(move |b| format!("{a}/{b}")));
    let paths = short
        .clone()
        .chain(short.flat_map(|path| parts.map(|c| format!("{path}/{c}"))));
    let chains = [38, 39, 40, 41].map(|number| format!("chain{number}"));
    let mut opened = 0;
    for path in paths.chain(chains).filter(|path| !path.starts_with('/')) {
        for flags in [
            OFlag::O_PATH,
            OFlag::O_RDONLY,
            OFlag::O_RDONLY | OFlag::O_DIRECTORY,
            OFlag::O_PATH | OFlag::O_DIRECTORY,
        ] {
            let node =
                |fd: nix::Result<OwnedFd>| fd.map(|fd| nix::sys::stat::fstat(fd).unwrap().st_ino);
            // Any rename on the machine makes the kernel say EAGAIN.
            let answers = std::iter::repeat_with(|| {
                node(resolved_by_kernel(&place.root.dir, Path::new(&path), flags))
            });
            let kernel = answers
                .take(1000)
                .find(|answer| *answer != Err(Errno::EAGAIN))
                .unwrap();
            assert_eq!(
                node(walk::open(&place.root.dir, Path::new(&path), flags)),
                kernel,
                "{path} {flags:?}"
            );
            opened += u32::from(kernel.is_ok());
        }
    }
    assert!(opened > 300, "{opened}");
}

#[test]
fn a_symlink_that_stays_inside_is_read_but_not_written_through() {
    for place in fixtures() {
        symlink("file", place.path("link")).unwrap();
        symlink("gone", place.path("dangling")).unwrap();
        assert_eq!(place.read("link"), "text");
        assert_eq!(place.read("dangling"), "error: dangling is not found");
        assert_eq!(place.write("link", "new"), "error: link is a symbolic link");
        assert_eq!(
            place.write("dangling", "new"),
            "error: dangling is a symbolic link"
        );
        assert_eq!(place.read("file"), "text");
    }
}

#[test]
fn the_real_place_is_named() {
    for place in fixtures() {
        std::fs::create_dir(place.path("skills")).unwrap();
        symlink("skills", place.path("innocent")).unwrap();
        put(&place.path("skills/new.md"), "x");
        let real = |path: &str| place.root.real(Path::new(path)).unwrap();
        assert_eq!(real("innocent/new.md"), Path::new("skills/new.md"));
        assert_eq!(real("skills/../file"), Path::new("file"));
        assert_eq!(real(""), Path::new(""));
    }
}

#[test]
fn only_regular_files_are_read_and_replaced() {
    for place in fixtures() {
        std::fs::create_dir(place.path("dir")).unwrap();
        nix::unistd::mkfifo(&place.path("fifo"), Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.path("socket")).unwrap();
        assert_eq!(place.read("dir"), "error: dir is a directory");
        assert_eq!(place.read("fifo"), "error: fifo is not a regular file");
        assert_eq!(place.read("socket"), "error: socket is not a regular file");
        assert_eq!(
            place.read("file/below"),
            "error: file/below is not a directory"
        );
        assert_eq!(place.write("dir", "x"), "error: dir is a directory");
        assert_eq!(place.write("new/", "x"), "error: new/ is a directory");
        assert_eq!(place.write("", "x"), "error:  is a directory");
        assert_eq!(
            place.write("fifo", "x"),
            "error: fifo is not a regular file"
        );
    }
}

#[test]
fn a_file_above_the_bound_is_too_large() {
    for place in fixtures() {
        assert_eq!(place.write("at", &"x".repeat(100)), "ok");
        assert_eq!(place.write("above", &"x".repeat(101)), "ok");
        assert_eq!(place.read("at").len(), 100);
        assert_eq!(
            place.read("above"),
            "error: above is too large (101 bytes, at most 100 are read)"
        );
    }
}

#[test]
fn a_write_makes_private_parents_and_keeps_a_mode() {
    for place in fixtures() {
        let mode = |name: &str| {
            std::fs::metadata(place.path(name))
                .unwrap()
                .permissions()
                .mode()
                & 0o7777
        };
        assert_eq!(place.write("a/b/new", "1"), "ok");
        assert_eq!(
            (place.read("a/b/new").as_str(), mode("a"), mode("a/b/new")),
            ("1", 0o700, 0o600)
        );
        std::fs::set_permissions(place.path("file"), PermissionsExt::from_mode(0o4755)).unwrap();
        // Not every file system has them.
        let tagged = syscalls::set_attribute(&place.path("file"), c"user.tag", b"mine");
        assert_eq!(place.write(place.path("file"), "2"), "ok");
        assert_eq!((place.read("file").as_str(), mode("file")), ("2", 0o755));
        let tag = syscalls::attribute(&place.path("file"), c"user.tag");
        assert_eq!(tag, if tagged { &b"mine"[..] } else { b"" });
        let names: Vec<_> = place
            .root
            .list(Path::new(""), 10)
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.kind))
            .collect();
        assert_eq!(
            names,
            [("a".into(), Kind::Directory), ("file".into(), Kind::File)]
        );
    }
}

#[test]
fn a_parent_that_is_swapped_for_a_symlink_all_the_time_never_lets_a_write_out() {
    for place in fixtures() {
        let (stop, dirs) = (
            std::sync::atomic::AtomicBool::new(false),
            File::open(place.path("")).unwrap(),
        );
        std::fs::create_dir(place.path("dir")).unwrap();
        std::fs::create_dir(place.dir.path().join("target")).unwrap();
        symlink("../target", place.path("link")).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    nix::fcntl::renameat2(
                        &dirs,
                        "dir",
                        &dirs,
                        "link",
                        RenameFlags::RENAME_EXCHANGE,
                    )
                    .unwrap();
                }
            });
            // Until both have been seen often; on a busy machine one side may be long in coming.
            let (mut refused, mut written) = (0, 0);
            let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while (refused < 50 || written < 50) && std::time::Instant::now() < until {
                let outcome = place.write("dir/new", "x");
                refused += u32::from(outcome.contains("outside"));
                written += u32::from(outcome == "ok");
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(
                refused > 0 && written > 0,
                "refused {refused}, written {written}"
            );
        });
        assert_eq!(
            std::fs::read_dir(place.dir.path().join("target"))
                .unwrap()
                .count(),
            0
        );
    }
}

fn put(path: &Path, text: &str) {
    crate::sys::atomic::write(
        path,
        text.as_bytes(),
        crate::sys::atomic::Durability::Rename,
    )
    .unwrap();
}
