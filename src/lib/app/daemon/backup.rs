//! `agent-daemon backup PATH` and `agent-daemon restore PATH`.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::backup;
use crate::backup::{Contents, Options, Report};
use crate::clock;
use crate::config::Home;
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
    /// With .env and the keys that login stored: whoever has the file has your keys
    #[arg(long)]
    with_secrets: bool,
}

/// What `agent-daemon restore` takes.
#[derive(Debug, Args)]
pub(super) struct Restore {
    /// The backup; of a directory the newest one in it; `-` for standard input
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    path: PathBuf,
    /// Then open everything and answer a question from its memory
    #[arg(long)]
    verify: bool,
    /// Check every byte of the backup, write nothing
    #[arg(long, conflicts_with = "verify")]
    dry_run: bool,
}

pub(super) fn backup(shared: &Shared, wanted: &Backup, json: bool) -> Result<Exit, Failure> {
    let (_, home) = shared.home()?;
    cli::may_write(&home)?;
    cli::prepare(&home)?;
    let options = Options {
        secrets: wanted.with_secrets,
    };
    if wanted.path == Path::new(PIPE) {
        return to_stdout(shared, &home, options, wanted.keep);
    }
    let dir = directory(&wanted.path, wanted.keep)?;
    let path = match &dir {
        Some(dir) => backup::new_path(dir, clock::now_ms()),
        None => wanted.path.clone(),
    };
    let report = to_file(&home, options, &path)?;
    let removed = match (&dir, wanted.keep) {
        (Some(dir), Some(keep)) => backup::prune(dir, usize::from(keep))?,
        _ => Vec::new(),
    };
    if json {
        cli::json(&json!({
            "path": path, "bytes": report.bytes, "files": report.manifest.files.len(), "secrets": options.secrets,
            "left_out": report.manifest.left_out, "removed": removed,
        }));
        return Ok(Exit::Ok);
    }
    if !shared.quiet {
        cli::out(&path.display().to_string());
    }
    say(shared, &report);
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
        let message = format!("--keep wants a directory, and {} is a file", path.display());
        return Err(Failure::new(Exit::Usage, message).hint("agent-daemon backup --help"));
    }
    Ok(None)
}

fn to_stdout(
    shared: &Shared,
    home: &Home,
    options: Options,
    keep: Option<u16>,
) -> Result<Exit, Failure> {
    if keep.is_some() {
        return Err(Failure::new(
            Exit::Usage,
            "--keep wants a directory, and - is standard output",
        ));
    }
    if io::IsTerminal::is_terminal(&io::stdout()) {
        return Err(Failure::new(Exit::Usage, "a backup is not for a terminal")
            .hint("agent-daemon backup - | age -r RECIPIENT > agent.tar.age"));
    }
    let report = backup::write(home, options, io::BufWriter::new(io::stdout().lock()))?;
    say(shared, &report);
    Ok(Exit::Ok)
}

/// Writes to a draft beside `path`, which takes its name when all of it is on the disk.
fn to_file(home: &Home, options: Options, path: &Path) -> Result<Report, Failure> {
    if path.exists()
        && let Err(backup::Error::Damaged { why, .. }) = Contents::open(path)
        && std::fs::metadata(path).is_ok_and(|meta| meta.len() > 0)
    {
        let message = format!(
            "{} is there already and is not a whole backup: {why}",
            path.display()
        );
        return Err(
            Failure::new(Exit::Failed, message).hint("move it away, or choose another name")
        );
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let draft = path.with_file_name(name);
    let fail = |op| sys::Error::at(op, &draft);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .map_err(fail("write"))?;
    let written = backup::write(home, options, io::BufWriter::new(&file)).and_then(|report| {
        file.sync_all().map_err(fail("write"))?;
        std::fs::rename(&draft, path).map_err(sys::Error::at("write", path))?;
        atomic::sync_parent(&absolute(path)).map_err(sys::Error::at("write", path))?;
        Ok(report)
    });
    if written.is_err() {
        // A part of a backup is of no use.
        let _ = std::fs::remove_file(&draft);
    }
    Ok(written?)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn say(shared: &Shared, report: &Report) {
    if shared.quiet {
        return;
    }
    cli::err(&format!(
        "{} files, {} bytes",
        report.manifest.files.len(),
        report.bytes
    ));
    for left in &report.manifest.left_out {
        cli::err(&format!("not in it: {left}"));
    }
    if report.manifest.secrets {
        cli::err("your keys are in it: keep it where nobody else can read it");
    }
}

pub(super) fn restore(shared: &Shared, wanted: &Restore, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    let spooled;
    let path = if wanted.path == Path::new(PIPE) {
        spooled = Spooled::read(&home)?;
        spooled.0.clone()
    } else if wanted.path.is_dir() {
        backup::newest(&wanted.path)?.ok_or_else(|| {
            Failure::new(
                Exit::Data,
                format!("{} has no backup in it", wanted.path.display()),
            )
        })?
    } else {
        wanted.path.clone()
    };
    let contents = Contents::open(&path)?;
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
                &json!({"path": path, "whole": true, "files": manifest.files.len(), "created_at": manifest.created_at}),
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
            "path": path, "files": manifest.files.len(), "created_at": manifest.created_at, "secrets": manifest.secrets,
            "verified": proof.is_some(), "opened": proof.as_ref().map(|proof| &proof.opened),
            "answer": answer.map(|(question, path)| json!({"question": question, "path": path})),
        }));
        return Ok(Exit::Ok);
    }
    cli::out(&format!("restored {of}"));
    if let Some(proof) = proof {
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
    if !manifest.secrets && !shared.quiet {
        cli::err(&format!(
            "the keys are not in it: put them into {}, or agent-daemon login",
            home.env_file().display()
        ));
    }
    Ok(Exit::Ok)
}

/// Standard input as a file beside the home, removed in the end.
struct Spooled(PathBuf);

impl Spooled {
    fn read(home: &Home) -> Result<Self, Failure> {
        let beside = home
            .state()
            .ancestors()
            .skip(1)
            .find(|dir| dir.is_dir())
            .unwrap_or(Path::new("/"));
        let spooled = Self(beside.join(format!(".agent-restore-{}.tar", std::process::id())));
        let path = &spooled.0;
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(sys::Error::at("write", path))?;
        io::copy(&mut io::stdin().lock(), &mut file).map_err(sys::Error::at("write", path))?;
        Ok(spooled)
    }
}

impl Drop for Spooled {
    fn drop(&mut self) {
        // What stays is hidden and named by what it was for.
        let _ = std::fs::remove_file(&self.0);
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
            backup::Error::Busy => Self::new(Exit::TryAgain, message).hint("try again in a moment"),
            backup::Error::Restless(_) => Self::new(Exit::TryAgain, message).hint("try again when nobody writes it"),
            backup::Error::Damaged { .. } => {
                Self::new(Exit::Data, message).hint("nothing was written; take an older backup, or what tar -xf still reads of this one")
            }
            backup::Error::Newer { .. } => Self::new(Exit::Data, message).hint("use the newer version of agent-toolkit that wrote it"),
            backup::Error::Occupied(_) => Self::new(Exit::Failed, message)
                .hint("nothing was written; restore into an empty home: --home DIR, or move this one away first"),
            backup::Error::Unproved(_) => Self::new(Exit::Failed, message).hint("take an older backup; doctor says more"),
        }
    }
}
