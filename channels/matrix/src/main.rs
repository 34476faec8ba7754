//! `agent-channel-matrix`: talk to the agent in Matrix, with end-to-end encryption. It speaks agent-channel(7) with the
//! daemon, and is a client of the homeserver with its own device.

mod attachments;
mod bot;
mod error;
mod events;
mod incoming;
mod invitations;
mod key_store;
mod lines;
mod moves;
mod outgoing;
mod previews;
mod receive;
mod rooms;
mod send;
mod session;
mod settings;
mod status;
mod undecrypted;
mod verify;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use agent_channel::{Password, Spool, directory, settings_file, watch};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use bot::Bot;
use error::Error;
use settings::Settings;

/// The longest message, units of UTF-16. An event has at most 65,536 bytes, encrypted and in base64: 12,000 units are at most
/// 36,000 bytes, and those 48,000 of base64.
const LENGTH: u32 = 12_000;
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
        "warn,agent_channel=info,agent_channel_matrix=info,matrix_sdk=off,matrix_sdk_base=off,matrix_sdk_crypto=off,matrix_sdk_sqlite=warn",
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
    let config = arguments.config.unwrap_or_else(|| settings_file(&name));
    let settings = Settings::read(&config)?;
    let spool = Spool::open(directory(&name), &name)?;
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
        return Err(none("there is no terminal to ask for it".to_owned()));
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
            spool.announce(&capabilities(Some(&error.to_string())))?;
            return Err(error);
        }
    };
    let mut end =
        signal(SignalKind::terminate()).map_err(|error| Error::Store(error.to_string()))?;
    spool.announce(&capabilities(None))?;
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
            bot.spool
                .announce(&capabilities(Some(&error.to_string())))?;
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

/// Returns what rooms can show, or why the channel can do nothing.
fn capabilities(problem: Option<&str>) -> Value {
    json!({"length": LENGTH, "length_unit": "utf16", "formats": ["markdown"], "edits": true,
        "reactions": true, "files": true, "threads": true, "buttons": false, "problem": problem})
}
