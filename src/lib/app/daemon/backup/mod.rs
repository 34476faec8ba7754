//! `agent-daemon backup PATH` and `agent-daemon restore PATH`.

mod cipher;

use std::fs::{File, TryLockError};
use std::io;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use cipher::{Cipher, Program};
use clap::Args;
use serde_json::json;

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::backup;
use crate::backup::{Began, Contents, Options, Proof, Record, Report};
use crate::clock;
use crate::config;
use crate::config::{Environment, Home};
use crate::sys;
use crate::sys::atomic;

/// For the standard input and output.
const PIPE: &str = "-";

/// What `agent-daemon backup` takes.
#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The file to write; in a directory, a file named by the time; `-` for standard output
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    path: PathBuf,
    /// Keep only the newest N backups of the directory PATH
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    /// Include .env and the keys that login stored: anyone who has the file has your keys
    #[arg(long)]
    with_secrets: bool,
    /// Do not encrypt, whatever agent.toml says
    #[arg(long)]
    plain: bool,
}

/// What `agent-daemon restore` takes.
#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The backup; from a directory the newest one in it; `-` for standard input
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    path: PathBuf,
    /// Then open everything and answer a question from the memory
    #[arg(long)]
    verify: bool,
    /// The key file of an age-encrypted backup
    #[arg(long, value_name = "KEYFILE", value_hint = clap::ValueHint::FilePath)]
    identity: Option<PathBuf>,
    /// Only check every byte of the backup
    #[arg(long, conflicts_with = "verify")]
    dry_run: bool,
}

pub(super) fn backup(shared: &Shared, wanted: &Backup, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    cli::may_write(&home)?;
    cli::must_be_there(&home)?;
    let made = make(shared, wanted, json, &env, &home);
    note(&home, wanted, made.as_ref().err());
    made
}

/// Writes down how it ended, for doctor: a timer fails where nobody looks.
fn note(home: &Home, wanted: &Backup, failure: Option<&Failure>) {
    // One that cannot be read is begun again: it says when a backup was made, not what is in it.
    let mut record = Record::read(home).unwrap_or_default();
    let (command, now) = (again(wanted), clock::now_ms());
    match failure {
        // A slip of the hand, or another backup that is being made.
        Some(failure) if failure.exit == Exit::Usage => return,
        Some(failure) if failure.message == backup::Error::Busy.to_string() => return,
        Some(failure) => record.failed(command, failure.message.clone(), now),
        None => record.made(command, wanted.keep.is_some(), now),
    }
    if let Err(error) = record.write(home) {
        cli::err(&format!("warning: doctor cannot report this: {error}"));
    }
}

/// Returns the words behind the program that do the same from any directory.
fn again(wanted: &Backup) -> String {
    let mut words = "backup".to_owned();
    for (flag, is_given) in [
        ("--with-secrets", wanted.with_secrets),
        ("--plain", wanted.plain),
    ] {
        if is_given {
            words = format!("{words} {flag}");
        }
    }
    if let Some(keep) = wanted.keep {
        words = format!("{words} --keep {keep}");
    }
    match wanted.path == Path::new(PIPE) {
        true => format!("{words} - >agent.tar"),
        false => format!("{words} {}", cli::quote(absolute(&wanted.path))),
    }
}

/// Returns why nobody could encrypt for whom the settings name.
pub(in crate::app) fn refused_recipients(settings: &config::Backup) -> Option<String> {
    Cipher::of(settings)?.refused()
}

fn make(
    shared: &Shared,
    wanted: &Backup,
    json: bool,
    env: &Environment,
    home: &Home,
) -> Result<Exit, Failure> {
    match home.create() {
        // What is there is backed up nevertheless.
        Err(config::Error::Io { source, .. }) if sys::is_no_room(&source) => {}
        made => made?,
    }
    let options = Options {
        secrets: wanted.with_secrets,
    };
    let cipher = match wanted.plain {
        true => None,
        false => Cipher::of(&settings(home, env)?),
    };
    let cipher = cipher.as_ref();
    let temporary = env
        .get("TMPDIR")
        .map_or_else(|| "/tmp".into(), PathBuf::from);
    let mut source = Source {
        home,
        options,
        cipher,
        elsewhere: vec![temporary],
        command: again(wanted),
    };
    if wanted.path == Path::new(PIPE) {
        return to_stdout(shared, &source, wanted.keep);
    }
    let dir = directory(&wanted.path, wanted.keep)?;
    let now = clock::now_ms();
    let path = match &dir {
        Some(dir) => backup::new_path(dir, now, Cipher::suffix(cipher)),
        None => wanted.path.clone(),
    };
    if cipher.is_none() {
        // Next to one that is encrypted nothing may lie that is not.
        let beside = absolute(&path).parent().map(Path::to_owned);
        source.elsewhere.splice(..0, beside);
    }
    let report = to_file(&source, &path)?;
    let removed = match (&dir, wanted.keep) {
        (Some(dir), Some(keep)) => backup::prune(dir, usize::from(keep), &path, now)?,
        _ => Vec::new(),
    };
    let encrypted = cipher.map(|cipher| cipher.program);
    if json {
        cli::json(&json!({
            "path": path, "bytes": report.bytes, "files": report.manifest.files.len(), "secrets": options.secrets,
            "encrypted": encrypted.map(Program::name), "left_out": report.manifest.left_out, "removed": removed,
        }));
        return Ok(Exit::Ok);
    }
    if !shared.quiet {
        cli::out(&path.display().to_string());
    }
    say(shared, &report, encrypted);
    if !shared.quiet && !removed.is_empty() {
        cli::err(&format!("removed {} older backups", removed.len()));
    }
    Ok(Exit::Ok)
}

/// Returns the directory that backups are collected in; with `--keep` it is made.
fn directory(path: &Path, keep: Option<u16>) -> Result<Option<PathBuf>, Failure> {
    if keep.is_some() && !path.exists() {
        std::fs::create_dir(path).map_err(sys::Error::at("make", path))?;
    }
    if path.is_dir() {
        return Ok(Some(path.to_owned()));
    }
    if keep.is_some() {
        let message = format!("--keep needs a directory, but {} is a file", path.display());
        return Err(Failure::usage(message).hint("agent-daemon backup --help"));
    }
    Ok(None)
}

/// Who can read the backup is a setting, so settings that cannot be read stop it.
fn settings(home: &Home, env: &Environment) -> Result<config::Backup, Failure> {
    let read = config::load_config(home, env);
    let settings = read.map_err(|error| {
        let failure = Failure::from(error);
        let hint = failure.hint.unwrap_or_default();
        let message = failure.message;
        Failure::new(failure.exit, message).hint(format!(
            "{hint}; or agent-daemon backup --plain, without encryption"
        ))
    })?;
    Ok(settings.backup)
}

/// What is backed up, and how.
struct Source<'a> {
    home: &'a Home,
    options: Options,
    cipher: Option<&'a Cipher>,
    /// Where databases are copied to when the home is full or only read, the best first.
    elsewhere: Vec<PathBuf>,
    /// What does it again, behind the name of the program.
    command: String,
}

impl Source<'_> {
    fn write(&self, out: &mut dyn Write) -> Result<Report, Failure> {
        let report = backup::write(self.home, self.options, &self.elsewhere, &mut *out)?;
        out.flush()
            .map_err(sys::Error::at("write", Path::new("the backup")))?;
        Ok(report)
    }
}

fn to_stdout(shared: &Shared, source: &Source<'_>, keep: Option<u16>) -> Result<Exit, Failure> {
    if keep.is_some() {
        return Err(Failure::usage(
            "--keep needs a directory, but - is standard output",
        ));
    }
    if io::IsTerminal::is_terminal(&io::stdout()) {
        return Err(Failure::usage("a backup is not for a terminal")
            .hint("agent-daemon backup - | ssh HOST 'cat > agent.tar'"));
    }
    let report = match source.cipher {
        Some(cipher) => cipher.encrypt(Stdio::inherit(), |out| source.write(out))?,
        None => source.write(&mut io::BufWriter::new(io::stdout().lock()))?,
    };
    say(shared, &report, source.cipher.map(|cipher| cipher.program));
    Ok(Exit::Ok)
}

/// Writes to a draft next to `path`, which takes its name when all of it is on disk.
fn to_file(source: &Source<'_>, path: &Path) -> Result<Report, Failure> {
    may_replace(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(backup::DRAFT);
    let draft = path.with_file_name(name);
    let fail = |op| sys::Error::at(op, &draft);
    let file = open_draft(&draft)?;
    began(source, &draft);
    let write_all = || {
        let report = match source.cipher {
            Some(cipher) => {
                let out = file.try_clone().map_err(fail("write"))?;
                cipher.encrypt(out.into(), |out| source.write(out))?
            }
            None => source.write(&mut io::BufWriter::new(&file))?,
        };
        file.sync_all().map_err(fail("write"))?;
        std::fs::rename(&draft, path).map_err(sys::Error::at("write", path))?;
        atomic::sync_parent(&absolute(path)).map_err(sys::Error::at("write", path))?;
        Ok(report)
    };
    let written = write_all();
    if written.is_err() {
        // A part of a backup is of no use.
        let _ = std::fs::remove_file(&draft);
    }
    written
}

/// Opens the draft of a backup. Another backup into the same file keeps its own: it is neither emptied nor removed.
fn open_draft(draft: &Path) -> Result<File, Failure> {
    let fail = |error: io::Error| sys::Error::at("write", draft)(error);
    loop {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(draft)
            .map_err(fail)?;
        // Where a file system has no locks there is the one of the home.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(backup::Error::Busy.into());
        }
        let own = file.metadata().map_err(fail)?;
        // What was opened may be a whole backup by now, under its own name.
        let is_draft = std::fs::metadata(draft)
            .is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()));
        if is_draft {
            file.set_len(0).map_err(fail)?;
            return Ok(file);
        }
    }
}

/// Writes down that a backup begins, for doctor when it is killed; `note` then says how it ended.
fn began(source: &Source<'_>, draft: &Path) {
    if backup::is_under_way(source.home) {
        return;
    }
    let mut record = Record::read(source.home).unwrap_or_default();
    record.began = Some(Began {
        at: clock::now_ms(),
        draft: absolute(draft),
        command: source.command.clone(),
    });
    // Where nothing can be written, that is told in the end.
    let _ = record.write(source.home);
}

/// Refuses a file that is there and not known to be a backup; an encrypted one cannot be looked into.
fn may_replace(path: &Path) -> Result<(), Failure> {
    let is_empty = || std::fs::metadata(path).is_ok_and(|meta| meta.len() == 0);
    if !path.exists() || is_empty() {
        return Ok(());
    }
    let why = match (Program::of_file(path)?, Contents::open(path)) {
        (Some(_), _) => "is encrypted".to_owned(),
        (None, Err(backup::Error::Damaged { why, .. })) => {
            format!("is not a complete backup: {why}")
        }
        (None, _) => return Ok(()),
    };
    let message = format!("{} already exists and {why}", path.display());
    Err(Failure::failed(message).hint(
        "move it away, choose another name, or name a directory, in which each backup is a separate file",
    ))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn say(shared: &Shared, report: &Report, encrypted: Option<Program>) {
    if shared.quiet {
        return;
    }
    let how = encrypted.map_or_else(String::new, |program| {
        format!(", encrypted by {}", program.name())
    });
    cli::err(&format!(
        "{} files, {} bytes{how}",
        report.manifest.files.len(),
        report.bytes
    ));
    for left in &report.manifest.left_out {
        cli::err(&format!("not in it: {left}"));
    }
    if report.manifest.secrets && encrypted.is_none() {
        cli::err("it contains your keys: keep it where nobody else can read it");
    }
}

pub(super) fn restore(shared: &Shared, wanted: &Restore, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    let spooled;
    let mut path = if wanted.path == Path::new(PIPE) {
        spooled = Spooled::make(&home, |mut file| {
            io::copy(&mut io::stdin().lock(), &mut file)
                .map_err(sys::Error::at("read", Path::new("standard input")))?;
            Ok(())
        })?;
        spooled.path()
    } else if wanted.path.is_dir() {
        newest(&wanted.path)?
    } else {
        wanted.path.clone()
    };
    let named = match wanted.path == Path::new(PIPE) {
        true => PathBuf::from("standard input"),
        false => path.clone(),
    };
    let decrypted;
    if let Some(program) = Program::of_file(&path)? {
        let from = File::open(&path).map_err(sys::Error::at("read", &path))?;
        decrypted = Spooled::make(&home, |file| {
            program.decrypt(from, file, wanted.identity.as_deref())
        })?;
        path = decrypted.path();
    }
    let contents = Contents::open(&path).map_err(|error| error.about(&named))?;
    let contents = contents.named(&named);
    let manifest = &contents.manifest;
    let of = format!(
        "{} files of {}, written by version {}",
        manifest.files.len(),
        manifest.created_at,
        manifest.version
    );
    if wanted.dry_run {
        match json {
            true => cli::json(
                &json!({"path": named, "whole": true, "files": manifest.files.len(), "created_at": manifest.created_at}),
            ),
            false => cli::out(&format!("the backup is whole: {of}")),
        }
        return Ok(Exit::Ok);
    }
    backup::restore(&contents, &home)?;
    let proof = wanted
        .verify
        .then(|| backup::prove(&home, &env))
        .transpose()?;
    if json {
        let answer = proof.as_ref().and_then(|proof| proof.answer.as_ref());
        cli::json(&json!({
            "path": named, "files": manifest.files.len(), "created_at": manifest.created_at, "secrets": manifest.secrets,
            "verified": proof.is_some(), "opened": proof.as_ref().map(|proof| &proof.opened),
            "answer": answer.map(|(question, path)| json!({"question": question, "path": path})),
        }));
        return Ok(Exit::Ok);
    }
    cli::out(&format!("restored {of}"));
    if let Some(proof) = &proof {
        print_proof(proof);
    }
    if !manifest.secrets && !shared.quiet {
        cli::err(&format!(
            "the keys are not in it: put them into {}, or agent-daemon login",
            home.env_file().display()
        ));
    }
    Ok(Exit::Ok)
}

/// Returns the newest backup in a directory, and says which are dated later than now.
fn newest(dir: &Path) -> Result<PathBuf, Failure> {
    let found = backup::newest(dir, clock::now_ms())?;
    for path in &found.passed_over {
        cli::err(&format!(
            "warning: skipped {}, which is dated in the future: a clock was wrong; name the file itself to use it",
            path.display()
        ));
    }
    let dir = dir.display();
    found
        .path
        .ok_or_else(|| match found.passed_over.is_empty() {
            true => Failure::data(format!("{dir} has no backup in it")),
            false => Failure::data(format!(
                "{dir} has only backups that are dated in the future"
            ))
            .hint("look at the clock of this machine with date, or name the file itself"),
        })
}

fn print_proof(proof: &Proof) {
    for line in &proof.opened {
        cli::out(line);
    }
    cli::out(&match &proof.answer {
        Some((question, path)) => format!(
            "asked its memory “{}”: found in {path}",
            cli::harmless(question)
        ),
        None => "its memory was not asked: nothing is remembered yet".to_owned(),
    });
    for warning in &proof.warnings {
        cli::err(&format!("warning: {warning}"));
    }
}

/// A backup as a file next to the home that has no name: nothing of it stays, however this process ends. What was encrypted is
/// in it for everyone to read.
struct Spooled(File);

impl Spooled {
    fn make(home: &Home, fill: impl FnOnce(File) -> Result<(), Failure>) -> Result<Self, Failure> {
        let beside = home
            .state()
            .ancestors()
            .skip(1)
            .find(|dir| dir.is_dir())
            .unwrap_or(Path::new("/"));
        let path = beside.join(format!(".agent-restore-{}", uuid::Uuid::new_v4().simple()));
        let fail = |op| sys::Error::at(op, &path);
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(fail("write"))?;
        std::fs::remove_file(&path).map_err(fail("remove"))?;
        fill(file.try_clone().map_err(fail("write"))?)?;
        Ok(Self(file))
    }

    /// Returns where this process opens it, from its beginning.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

impl From<backup::Error> for Failure {
    fn from(error: backup::Error) -> Self {
        let message = error.to_string();
        match error {
            backup::Error::File(error) => Self::from(error),
            backup::Error::Home(error) => Self::from(error),
            backup::Error::Database(error) => Self::from(error),
            backup::Error::Index(error) => Self::from(error),
            backup::Error::Busy => Self::try_again(message).hint("try again in a moment"),
            backup::Error::Restless(_) => Self::try_again(message).hint("try again when nobody writes it"),
            backup::Error::Damaged { .. } => {
                Self::data(message).hint("nothing was written; use an older backup, or what tar -xf can still read of this one")
            }
            backup::Error::Newer { .. } => Self::data(message).hint("use the newer version of agent-toolkit that wrote it"),
            backup::Error::Occupied(_) => Self::failed(message)
                .hint("nothing was written; restore into an empty home: --home DIR, or move this one away first"),
            backup::Error::Unproved(_) => Self::failed(message).hint("use an older backup; agent-daemon doctor shows more"),
        }
    }
}
