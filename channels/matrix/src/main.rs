//! `agent-channel-matrix`: the agent is written to, and answers, in Matrix, with end-to-end encryption. It speaks
//! agent-channel(7) with the daemon, and with the homeserver as a client of its own device.

mod attachments;
mod backoff;
mod bot;
mod error;
mod events;
mod incoming;
mod invitations;
mod lines;
mod outgoing;
mod receive;
mod rooms;
mod send;
mod session;
mod settings;
mod spool;
mod status;
mod undecrypted;
mod verify;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use notify::Watcher;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tracing_subscriber::EnvFilter;

use bot::Bot;
use error::Error;
use settings::{Password, Settings};
use spool::Spool;

/// How long a message that is on its way is waited for at the end; the unit has 30 seconds for it.
const LAST: std::time::Duration = std::time::Duration::from_secs(20);

/// Talk to the agent in Matrix, with end-to-end encryption
///
/// A channel of agent-daemon: switch it on by [channels.matrix] in agent.toml, and say in matrix.toml which account it has.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Read the settings from this file instead of channels/NAME.toml beside agent.toml
    #[arg(long, value_name = "FILE", global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Sign in with the password of matrix.toml, or one that is asked for
    Login {
        /// Take the identity that the account has, by the recovery key in this file
        #[arg(long, value_name = "FILE")]
        recovery_key_file: Option<PathBuf>,
        /// Give the account a new identity; who verified the old one is warned
        #[arg(long, conflicts_with = "recovery_key_file")]
        reset_identity: bool,
    },
    /// End the session at the homeserver, and set its keys aside
    Logout,
    /// Compare emoji with somebody who asks for it, or with USER
    Verify {
        /// Whom to ask, such as @ada:example.org; otherwise whoever asks first
        user: Option<String>,
    },
    /// Show who is signed in, and whether others trust this device
    Status,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // What the library tells is for those who look for a fault.
    let quiet = EnvFilter::new(
        "warn,agent_channel_matrix=info,matrix_sdk=off,matrix_sdk_base=off,matrix_sdk_crypto=off,matrix_sdk_sqlite=warn",
    );
    let filter = EnvFilter::try_from_env("AGENT_MATRIX_LOG").unwrap_or(quiet);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(Box::pin(run(arguments))),
        Err(error) => Err(Error::Store(error.to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(error.code())
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Error> {
    let name = std::env::var("AGENT_CHANNEL").unwrap_or_else(|_| "matrix".to_owned());
    let config = arguments.config.unwrap_or_else(|| settings_of(&name));
    let settings = Settings::read(&config)?;
    let root = match (
        std::env::var_os("AGENT_CHANNEL_DIR"),
        std::env::var_os("AGENT_HOME"),
    ) {
        (Some(dir), _) => PathBuf::from(dir),
        (None, Some(home)) => PathBuf::from(home).join("state/channels").join(&name),
        (None, None) => home().join(".local/state/agent/channels").join(&name),
    };
    let spool = Spool::open(root, &name)?;
    let Some(verb) = arguments.verb else {
        let _lock = spool.lock()?;
        return serve(settings, spool).await;
    };
    // Two processes with the same keys would make each other's useless.
    let _lock = spool.lock_now()?;
    match verb {
        Verb::Login {
            recovery_key_file,
            reset_identity,
        } => {
            let login = session::Login {
                recovery_key: recovery_key_file
                    .map(|path| settings::secret_of(&path))
                    .transpose()?,
                reset_identity,
            };
            let password = match &settings.password {
                Some(password) => Password::new(password.expose().to_owned()),
                None => asked(&settings)?,
            };
            let done = session::login(&settings, &spool, &password, &login).await?;
            status::signed_in(&done, &name)
        }
        Verb::Logout => session::logout(&settings, &spool).await,
        Verb::Verify { user } => verify::run(&settings, &spool, user.as_deref()).await,
        Verb::Status => status::run(&settings, &spool).await,
    }
}

/// Asks for the password, which stays in no file.
fn asked(settings: &Settings) -> Result<Password, Error> {
    let none = |why: String| {
        Error::SignedOut(format!(
            "there is no password: {why}; set password_file or AGENT_MATRIX_PASSWORD"
        ))
    };
    if !std::io::stdin().is_terminal() {
        return Err(none("nobody can be asked for it".to_owned()));
    }
    let typed = rpassword::prompt_password(format!("Password of {}: ", settings.user));
    typed
        .map(Password::new)
        .map_err(|error| none(error.to_string()))
}

async fn serve(settings: Settings, spool: Spool) -> Result<(), Error> {
    let client = match session::restore_anew(&settings, &spool).await {
        Ok(client) => client,
        Err(error) => {
            spool.announce(Some(&error.to_string()))?;
            return Err(error);
        }
    };
    let mut end =
        signal(SignalKind::terminate()).map_err(|error| Error::Store(error.to_string()))?;
    spool.announce(None)?;
    let bot = Bot::new(settings, spool, client);
    let _watcher = watch(&bot.spool, &bot.changed);
    let sending = send::run(&bot);
    tokio::pin!(sending);
    let done = tokio::select! {
        done = receive::run(&bot) => Some(done),
        done = &mut sending => Some(done),
        () = events::run(&bot) => None,
        _ = end.recv() => None,
        _ = tokio::signal::ctrl_c() => None,
    };
    if let Some(done) = done {
        if let Err(error) = &done {
            bot.spool.announce(Some(&error.to_string()))?;
        }
        return done;
    }
    // What is on its way is waited for: it would be done once more at the next start.
    bot.is_ending.set(true);
    if bot.is_sending.get() {
        tokio::time::timeout(LAST, sending)
            .await
            .unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Notifies `changed` when messages appear; `None`, and looks now and then suffice, when the kernel cannot say.
fn watch(spool: &Spool, changed: &Arc<Notify>) -> Option<notify::RecommendedWatcher> {
    let changed = changed.clone();
    let told = move |told: notify::Result<notify::Event>| {
        // To look into the directory is an event, too.
        if !told.is_ok_and(|event| event.kind.is_access()) {
            changed.notify_one();
        }
    };
    let watcher = notify::recommended_watcher(told);
    let mut watcher = watcher
        .inspect_err(|error| tracing::warn!(%error, "looking every 30 seconds"))
        .ok()?;
    let watched = watcher.watch(&spool.out(), notify::RecursiveMode::NonRecursive);
    watched
        .inspect_err(|error| tracing::warn!(%error, "looking every 30 seconds"))
        .ok()?;
    Some(watcher)
}

fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

/// Returns where the settings of the channel lie: beside agent.toml.
fn settings_of(name: &str) -> PathBuf {
    let file = format!("channels/{name}.toml");
    let var = std::env::var_os;
    match (var("AGENT_CHANNEL_CONFIG"), var("AGENT_HOME")) {
        (Some(file), _) => PathBuf::from(file),
        (None, Some(home)) => PathBuf::from(home).join(file),
        (None, None) => home().join(".config/agent").join(file),
    }
}
