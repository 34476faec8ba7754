//! Shared by the five programs: flags, exit codes, and the output of success and failure.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

pub use super::failure::{Exit, Failure};
use crate::config::{Environment, Home, HomeFlags};
use crate::standby::Role;
use crate::{db, net, standby, sys};

/// Flags that mean the same everywhere.
#[derive(Debug, Clone, Args)]
pub struct Shared {
    /// Keep everything under this directory [env: AGENT_HOME]
    #[arg(long, value_name = "DIR", global = true, value_hint = clap::ValueHint::DirPath)]
    pub home: Option<PathBuf>,
    /// Use the agent of this name [env: AGENT_INSTANCE]
    #[arg(long, value_name = "NAME", global = true)]
    pub instance: Option<String>,
    /// Read this file instead of agent.toml
    #[arg(short, long, value_name = "FILE", global = true, value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Print more; twice: everything
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Print errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Shared {
    /// Returns the flags that lead another of the programs to the same home.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let instance = self.instance.as_ref().map(PathBuf::from);
        let all = [
            ("--home", &self.home),
            ("--instance", &instance),
            ("--config", &self.config),
        ];
        let given = |(flag, value): (&str, &Option<PathBuf>)| {
            Some([flag.into(), value.clone()?.into_os_string()])
        };
        all.into_iter().filter_map(given).flatten().collect()
    }

    /// Returns the same for a shell: each word behind a space.
    pub(super) fn words(&self) -> String {
        let words = self.arguments();
        words
            .iter()
            .map(|word| format!(" {}", quote(word)))
            .collect()
    }

    /// Returns the flags in a line that may not be whole, such as one that a shell completes.
    pub(super) fn of_words(words: &[String]) -> Self {
        let given = |flag: &str| {
            let joined =
                |word: &String| Some(word.strip_prefix(flag)?.strip_prefix('=')?.to_owned());
            let at = words.iter().position(|word| word == flag);
            at.and_then(|at| words.get(at + 1).cloned())
                .or_else(|| words.iter().find_map(joined))
        };
        Self {
            home: given("--home").map(Into::into),
            instance: given("--instance"),
            config: given("--config").or_else(|| given("-c")).map(Into::into),
            verbose: 0,
            quiet: true,
        }
    }

    /// Returns the environment and the home that flags and environment name.
    ///
    /// # Errors
    /// When nothing names a home.
    pub fn home(&self) -> Result<(Environment, Home), Failure> {
        let env = Environment::of_process();
        let flags = HomeFlags {
            home: self.home.clone(),
            instance: self.instance.clone(),
            config: self.config.clone(),
        };
        let home = Home::resolve(flags, &|name| env.raw(name))?;
        must_exist(&env, &home)?;
        Ok((env, home))
    }
}

/// Returns a command line of one of the five programs for a hint: with the flags of this process and for its user, so
/// that it leads to the same agent.
pub(super) fn command(program: &str, words: &str) -> String {
    let flags = Shared::of_words(&arguments()).words();
    format!("{}{program}{flags} {words}", sudo())
}

/// Returns `sudo -u USER `, when sudo(8) itself started us: the reader of a hint has the shell of another user.
fn sudo() -> String {
    let parent = nix::unistd::getppid();
    let comm = std::fs::read_to_string(format!("/proc/{parent}/comm"));
    if !comm.is_ok_and(|name| name.trim_end() == "sudo") {
        return String::new();
    }
    let uid = nix::unistd::geteuid();
    match nix::unistd::User::from_uid(uid) {
        Ok(Some(user)) => format!("sudo -u {} ", quote(user.name)),
        _ => String::new(),
    }
}

/// Returns the same for another terminal, which knows neither our directory nor our environment.
pub(super) fn command_elsewhere(env: &Environment, program: &str, words: &str) -> String {
    let flags = Shared::of_words(&arguments());
    let variable = |name: &str| env.get(name).filter(|value| !value.is_empty());
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let home = flags
        .home
        .or_else(|| variable("AGENT_HOME").map(PathBuf::from));
    let of_env = || variable("AGENT_INSTANCE")?.into_string().ok();
    let flags = Shared {
        home: home.map(absolute),
        instance: flags.instance.or_else(of_env),
        config: flags.config.map(absolute),
        ..flags
    };
    format!("{}{program}{} {words}", sudo(), flags.words())
}

/// Checks that the user's own directory is there, if the home is in it: it is not ours to make.
fn must_exist(env: &Environment, home: &Home) -> Result<(), Failure> {
    let Some(dir) = env.get("HOME").map(PathBuf::from) else {
        return Ok(());
    };
    let places = [home.config_dir(), home.state(), home.workspace()];
    let is_used = places
        .iter()
        .any(|place| place.starts_with(&dir) && !place.exists());
    // A directory that cannot be looked at is told by who needs it.
    if !is_used || dir.try_exists().unwrap_or(true) {
        return Ok(());
    }
    let message = format!(
        "the home directory {} does not exist ($HOME)",
        dir.display()
    );
    Err(Failure::config(message)
        .hint("set HOME to your home directory, or name the agent's with --home DIR"))
}

/// Returns the words of the command line behind the program's name.
pub(super) fn arguments() -> Vec<String> {
    std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Parses the command line; on `--help`, `--version` and mistakes returns the exit code after
/// saying what there is to say.
///
/// # Errors
/// The exit code with which to end at once.
pub fn parse<T: Parser + CommandFactory>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|mut error| {
        if let Some(tip) = tip(T::command().get_name(), &error) {
            // It names another command that is spelt alike.
            error.remove(ContextKind::SuggestedSubcommand);
            error.insert(
                ContextKind::Suggested,
                ContextValue::StyledStrs(vec![tip.into()]),
            );
        }
        let wrong = error.use_stderr();
        if wrong && std::env::args_os().any(|argument| argument == "--json") {
            let text = error.to_string();
            // What is missing is in the lines below.
            let lines = text.lines().map(str::trim);
            let message: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
            let message = message.join(" ");
            let message = message.trim_start_matches("error: ");
            let failure =
                Failure::usage(message).hint(format!("{} --help", T::command().get_name()));
            return report(T::command().get_name(), true, &failure);
        }
        // A closed pipe while help is printed is nobody's problem.
        let _ = error.print();
        ExitCode::from(if wrong {
            Exit::Usage as u8
        } else {
            Exit::Ok as u8
        })
    })
}

/// Returns a word as a shell reads it back.
pub(super) fn quote(word: impl AsRef<OsStr>) -> String {
    let word = word.as_ref();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(byte);
    match word.to_str() {
        Some(text) if !text.is_empty() && text.as_bytes().iter().all(plain) => text.to_owned(),
        Some(text) if !text.chars().any(char::is_control) => {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
        _ => {
            let byte = |byte: &u8| match byte {
                b'\'' | b'\\' => format!("\\{}", char::from(*byte)),
                b' '..=b'~' => char::from(*byte).to_string(),
                _ => format!("\\x{byte:02x}"),
            };
            format!(
                "$'{}'",
                word.as_bytes().iter().map(byte).collect::<String>()
            )
        }
    }
}

/// Returns false when the user wants no escape codes: `NO_COLOR` is set and not empty (no-color.org).
pub fn escapes() -> bool {
    !Environment::of_process().has("NO_COLOR")
}

/// Returns what is probably meant by a word too many.
fn tip(program: &str, error: &clap::Error) -> Option<&'static str> {
    if let Some(ContextValue::String(verb)) = error.get(ContextKind::InvalidSubcommand) {
        return verb_elsewhere(verb);
    }
    if !is_loose_word(error) {
        return None;
    }
    if program == "agent-send" {
        return Some(
            "quote words with spaces: agent-send 'hello world'; join the seconds: --wait=10",
        );
    }
    let is_login = std::env::args_os().any(|word| word == "login");
    is_login.then_some("a key is never an argument: it is asked for, or comes through a pipe")
}

/// Returns what does that which other daemons have a verb for.
fn verb_elsewhere(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "start" | "restart" => {
            "`agent-daemon run` starts it here, `systemctl --user restart agent-daemon` its service"
        }
        "stop" => {
            "Ctrl-C ends it where it runs, `systemctl --user stop agent-daemon` its service; `agent-send --stop` ends what the agent does"
        }
        "status" | "ps" => "`agent-send --status`, or `agent-monitor`",
        "log" | "logs" => "`agent-send --log`",
        "config" | "configure" | "validate" => {
            "`agent-daemon check --show-origin` shows the settings and says what is wrong with them"
        }
        "setup" | "onboard" | "install" => "`agent-daemon init`",
        "chat" => "`agent-send --chat`",
        _ => return None,
    })
}

/// Returns true when a word too many is in the line, as of a text without quotes.
fn is_loose_word(error: &clap::Error) -> bool {
    let word = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::UnknownArgument
        && matches!(word, Some(ContextValue::String(word)) if !word.starts_with('-'))
}

/// Returns what `--version` prints after the program's name.
pub fn version() -> &'static str {
    // scripts/install names the commit; a build of a source archive has none.
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let commit = option_env!("AGENT_COMMIT").filter(|commit| !commit.is_empty());
        let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
        format!(
            "{} (SQLite {}{commit})",
            env!("CARGO_PKG_VERSION"),
            db::version()
        )
    });
    &VERSION
}

/// Refuses to write into the home of another user's agent: their daemon could not read it.
///
/// # Errors
/// When the daemon of this home ran as somebody else; before the first one ran, when somebody else made the home.
pub fn may_write(home: &Home) -> Result<(), Failure> {
    let own = nix::unistd::geteuid().as_raw();
    let owner = |path: &Path| std::fs::metadata(path).ok().map(|meta| meta.uid());
    let state = home.state();
    let maker = owner(&home.spool_new()).and_then(|_| owner(state));
    let Some(other) = owner(&home.lock()).or(maker).filter(|uid| *uid != own) else {
        return Ok(());
    };
    let name = |uid: u32| {
        let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
        user.map_or_else(|| format!("'#{uid}'"), |user| user.name)
    };
    let shown = state.display();
    if maker == Some(own) {
        let what = format!("a daemon of {} ran in {shown}, which is yours", name(other));
        let command = format!(
            "sudo chown -R {}: {} {}",
            name(own),
            quote(state),
            quote(home.workspace())
        );
        return Err(Failure::not_permitted(what).hint(format!("take it back: {command}")));
    }
    let what = format!("the agent in {shown} is another user's");
    let hint = format!("run it as that user: sudo -u {} …", name(other));
    Err(Failure::not_permitted(what).hint(hint))
}

/// Makes the directories of the state where there is an agent, one of ours.
///
/// # Errors
/// When there is no agent, it is another user's, or a directory cannot be made.
pub fn prepare(home: &Home) -> Result<(), Failure> {
    must_be_there(home)?;
    may_write(home)?;
    Ok(home.create()?)
}

/// Checks that the settings that `--config` names are there, for who needs none of them but must not take a slip for a
/// wish.
///
/// # Errors
/// When they are not.
pub fn named_settings_must_be_there(home: &Home) -> Result<(), Failure> {
    let file = home.config_file();
    // What may not be looked at is there.
    if !home.config_is_named() || file.try_exists().unwrap_or(true) {
        return Ok(());
    }
    let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no such file");
    Err(sys::Error::at("read", file)(missing).into())
}

/// Checks that there is an agent, because a misspelt directory must not look like an empty agent.
///
/// # Errors
/// When there is none.
pub fn must_be_there(home: &Home) -> Result<(), Failure> {
    let own = [
        home.config_file().to_owned(),
        home.providers_dir(),
        home.env_file(),
        home.workspace().to_owned(),
        home.state().to_owned(),
    ];
    // What may not be looked at is there.
    if own.iter().any(|path| path.try_exists().unwrap_or(true)) {
        return must_be_whole(home);
    }
    let called = home.instance().map(|name| format!(" called {name}"));
    if let Some(user) = home.system_user() {
        let name = nix::unistd::User::from_uid(user.into()).ok().flatten();
        let name = name.map_or_else(|| user.to_string(), |user| user.name);
        let message = format!("the agent of this machine is the user {name}'s");
        return Err(Failure::not_permitted(message).hint(format!(
            "sudo -u {name} before the command; for an agent of your own: {}",
            command("agent-daemon", "init")
        )));
    }
    let message = format!(
        "there is no agent{}: neither {} nor {} exists",
        called.unwrap_or_default(),
        home.config_file().display(),
        home.state().display()
    );
    let there = beside(home).map_or_else(String::new, |agents| format!("there are: {agents}; "));
    Err(Failure::config(message).hint(format!(
        "{there}{} makes one; --home DIR names another directory",
        command("agent-daemon", "init")
    )))
}

/// Returns the other agents beside this one, by the flag that leads to each: a name may be a slip for theirs.
pub(super) fn beside(home: &Home) -> Option<String> {
    let flag = |name: Option<String>| match name {
        Some(name) => format!("--instance {name}"),
        None => "the one without --instance".to_owned(),
    };
    let agents: Vec<String> = home.beside().into_iter().map(flag).collect();
    (!agents.is_empty()).then(|| agents.join(", "))
}

/// Refuses a home whose restore is running or was interrupted, because it is incomplete.
///
/// # Errors
/// When it is one.
pub fn must_be_whole(home: &Home) -> Result<(), Failure> {
    if !home.restoring().is_dir() {
        return not_waiting(home);
    }
    let message = format!(
        "a restore into this home is not finished: {}",
        home.restoring().display()
    );
    Err(Failure::config(message).hint(
        "if none is under way, restore the same backup again: agent-daemon restore FILE --verify",
    ))
}

/// Refuses a standby: there is no agent in it yet, and what is put into it would be in the way of the copy.
fn not_waiting(home: &Home) -> Result<(), Failure> {
    match standby::read(home)?.map(|record| record.role) {
        Some(role @ (Role::Standby | Role::Promoting)) => Err(standby::Error::Role { role }.into()),
        _ => Ok(()),
    }
}

/// Returns the client for requests to other machines.
///
/// # Errors
///
/// When TLS cannot be set up.
pub(super) fn http_client() -> Result<net::Client, Failure> {
    net::client()
        .map_err(|error| Failure::failed(format!("TLS cannot be set up: {}", error.without_url())))
}

/// Returns an event loop with one additional thread, for a command that uses the network.
///
/// # Errors
/// When there are no threads left.
pub(super) fn event_loop() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::io(format!("no event loop: {error}")))
}

/// Runs a program to its end: reports a failure, chooses the exit code. A panic is reported as a bug.
pub fn end(program: &str, json: bool, work: impl FnOnce() -> Result<Exit, Failure>) -> ExitCode {
    // Nothing we write is for others.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    // A crash leaves no memory image with keys in it. Where that is forbidden, there is nothing to do about it.
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
    let result =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
            Err(
                Failure::bug("this is a bug of agent-toolkit; the lines above say where")
                    .hint("report it with these lines; accepted messages are not lost"),
            )
        });
    match result {
        Ok(_) if LOST.load(Ordering::Relaxed) => report(
            program,
            false,
            &Failure::io("standard output could not be written").hint("is its disk full?"),
        ),
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => report(program, json, &failure),
    }
}

fn report(program: &str, json: bool, failure: &Failure) -> ExitCode {
    if json {
        out(&serde_json::json!({"error": error(failure)}).to_string());
    } else {
        complain(program, failure);
    }
    ExitCode::from(failure.exit as u8)
}

/// Returns a failure as `{"code","message","hint"}`.
pub fn error(failure: &Failure) -> serde_json::Value {
    let message = crate::secret::redact(&failure.message);
    serde_json::json!({"code": failure.code(), "message": message, "hint": failure.hint})
}

/// Says a failure on stderr.
pub fn complain(program: &str, failure: &Failure) {
    err(&format!(
        "{program}: {}",
        crate::secret::redact(&failure.message)
    ));
    if let Some(hint) = &failure.hint {
        err(&format!("hint: {hint}"));
    }
}

/// Set when data could not be written; [`end`] says so.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line of data. A reader that has gone away is not an error; a full disk is.
pub fn out(line: &str) {
    note_loss(put(&format!("{line}\n")));
}

fn put(data: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(data.as_bytes())
        .and_then(|()| stdout.flush())
}

fn note_loss(written: std::io::Result<()>) {
    if written.is_err_and(|error| error.kind() != std::io::ErrorKind::BrokenPipe) {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Prints data that is too long to be held in memory: `write` writes it piece by piece, and ends with
/// the first failure. Returns what it returned; `None` when that was a failure.
pub fn stream<T>(write: impl FnOnce(&mut dyn Write) -> std::io::Result<T>) -> Option<T> {
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let written = write(&mut stdout).and_then(|value| stdout.flush().map(|()| value));
    // What is still in the buffer was either written or cannot be.
    drop(stdout.into_parts());
    written.map_err(|error| note_loss(Err(error))).ok()
}

/// Prints text of the agent, which may be untrusted: on a terminal without control characters.
pub fn speech(text: &str) {
    words(&format!("{text}\n"));
}

/// Prints a piece of such words.
pub fn words(text: &str) {
    note_loss(try_words(text));
}

/// Prints a piece of such words, for callers who can do something about it when that fails.
///
/// # Errors
/// When standard output cannot be written.
pub fn try_words(text: &str) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() {
        put(&harmless(text))
    } else {
        put(text)
    }
}

/// Returns `text` without the characters that command terminals, or turn the direction of what is there: no language
/// needs an override, an embedding or an isolate in plain text. Marks of direction and joiners stay.
pub fn harmless(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .filter(|c| (!c.is_control() || matches!(c, '\n' | '\t')) && !turns(*c))
        .collect()
}

/// Asks for a yes, which is not the usual answer.
///
/// # Errors
///
/// When standard input cannot be read.
pub(super) fn confirms(question: &str) -> Result<bool, Failure> {
    err(&format!("{question} [y/N]"));
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.map_err(|error| Failure::io(format!("cannot read your answer: {error}")))?;
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}

/// Returns what poll(2) says of standard input just now.
pub(super) fn stdin_events() -> PollFlags {
    let stdin = std::io::stdin();
    let mut ends = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let polled = poll(&mut ends, PollTimeout::ZERO).is_ok();
    let seen = ends.first().and_then(PollFd::revents);
    seen.filter(|_| polled).unwrap_or(PollFlags::empty())
}

/// Prints a line of talk.
pub fn err(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a JSON document.
pub fn json<T: serde::Serialize>(document: &T) {
    stream(|mut out| {
        serde_json::to_writer_pretty(&mut out, document).inspect_err(|error| {
            // What it is made from could not be read to the end.
            if !error.is_io() {
                err(&error.to_string());
            }
        })?;
        writeln!(out)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_commands_a_terminal_or_turns_its_text_is_left_out() {
        let hostile =
            "\u{1b}]52;c;ZXZpbA==\u{7}a\u{202e}txt.exe\u{2066}b\u{2069}\u{202a}\u{9b}c\n\td";
        assert_eq!(harmless(hostile), "]52;c;ZXZpbA==atxt.exebc\n\td");
        let honest = "שלום\u{200f}!  a\u{200e}b  👨\u{200d}👩\u{200d}👧  می\u{200c}روم";
        assert_eq!(harmless(honest), honest);
    }
}
