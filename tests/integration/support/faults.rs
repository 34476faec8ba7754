//! A machine that fails when it is told to: `faults.c`, preloaded into the daemon. One count over all threads, so
//! that "the 17th write" is one write, and no tracer, so that it works wherever the tests are built.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// What changes files, and what else can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    Write,
    Sync,
    /// `open` and `openat` with `O_CREAT`.
    Create,
    Rename,
    /// `unlink`, `rmdir`.
    Remove,
    /// `ftruncate`.
    Cut,
    /// `mkdir`, `link`.
    Make,
    /// All of these.
    Any,
    Read,
    /// What needs a new descriptor: files, sockets, pipes.
    Descriptor,
    /// All that is done with sockets to elsewhere.
    Socket,
    /// All that is done with sockets between processes.
    Local,
    /// Threads and programs that are started.
    Start,
}

impl Calls {
    fn bits(self) -> i32 {
        match self {
            Self::Write => 1,
            Self::Sync => 2,
            Self::Create => 4,
            Self::Rename => 8,
            Self::Remove => 16,
            Self::Cut => 32,
            Self::Make => 64,
            Self::Any => 127,
            Self::Read => 128,
            Self::Descriptor => 256,
            Self::Socket => 512,
            Self::Start => 1024,
            Self::Local => 2048,
        }
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// It fails with this error and does nothing.
    Fails(nix::errno::Errno),
    /// The daemon dies before it.
    Kill,
    /// It writes half.
    Short,
    /// It writes half, and those after it find no room.
    Torn,
    /// It is only counted.
    Pass,
}

impl Action {
    fn number(self) -> i32 {
        match self {
            Self::Fails(errno) => errno as i32,
            Self::Kill => -1,
            Self::Short => -2,
            Self::Torn => -3,
            Self::Pass => -4,
        }
    }
}

/// Which calls are hit, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) calls: Calls,
    pub(crate) action: Action,
    /// The first call that is hit, counted from 1, and the last.
    pub(crate) from: i32,
    pub(crate) until: i32,
}

/// The control file of one home's disk.
pub(crate) struct Disk {
    control: fs::File,
    path: PathBuf,
}

impl Disk {
    /// Makes the control file `path`; nothing fails yet.
    pub(crate) fn new(path: &Path) -> Self {
        let mut options = fs::OpenOptions::new();
        let control = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .expect("the sandbox is writable");
        control.set_len(4096).expect("the sandbox is writable");
        Self {
            control,
            path: path.to_owned(),
        }
    }

    /// Returns what a daemon needs in its environment so that its disk below `home` is this one.
    pub(crate) fn environment(&self, home: &Path) -> [(&'static str, String); 3] {
        let text = |path: &Path| path.display().to_string();
        [
            ("LD_PRELOAD", text(library())),
            ("FAULTS", text(&self.path)),
            ("FAULTS_ROOT", text(home)),
        ]
    }

    /// Counts from now on, and fails as planned.
    pub(crate) fn arm(&self, plan: Plan) {
        for (field, value) in [
            (1, plan.calls.bits()),
            (2, plan.action.number()),
            (3, plan.from),
            (4, plan.until),
            (5, 0),
            (6, 0),
        ] {
            self.set(field, value);
        }
        self.set(0, 1);
    }

    /// Lets everything succeed again.
    pub(crate) fn heal(&self) {
        self.set(0, 0);
    }

    /// Returns how many calls were counted.
    pub(crate) fn count(&self) -> i32 {
        self.get(5)
    }

    /// Returns how many calls were hit.
    pub(crate) fn hits(&self) -> i32 {
        self.get(6)
    }

    /// Returns a line for each call that was counted: its number, its name, the file; an arrow where it was hit.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path.with_extension("log")).unwrap_or_default()
    }

    fn set(&self, field: u64, value: i32) {
        self.control
            .write_all_at(&value.to_ne_bytes(), field * 4)
            .expect("the sandbox is writable");
    }

    fn get(&self, field: u64) -> i32 {
        let mut bytes = [0; 4];
        self.control
            .read_exact_at(&mut bytes, field * 4)
            .expect("it is as long as it was made");
        i32::from_ne_bytes(bytes)
    }
}

/// Builds the library, once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("faults"))
}

/// Builds `NAME.c` to be preloaded. SQLite is compiled from C for every build of ours, so there is a compiler.
pub(crate) fn build(name: &str) -> PathBuf {
    compile(name, &["-shared", "-fPIC"])
}

/// Builds `NAME.c` as a program.
pub(crate) fn build_program(name: &str) -> PathBuf {
    compile(name, &["-pie", "-fPIE"])
}

fn compile(name: &str, kind: &[&str]) -> PathBuf {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/integration/support/{name}.c"));
    let target =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.so", std::process::id()));
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler
        .args(kind)
        .args([
            "-O1",
            "-Wall",
            "-Winit-self",
            "-Wno-unused-result",
            "-Werror",
            "-o",
        ])
        .arg(&target)
        .arg(source)
        .arg("-ldl");
    let built = compiler.output().expect("there is a C compiler");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );
    target
}
