//! `agent-channel-mail`: talk to the agent by mail. It speaks agent-channel(7) with the daemon, IMAP with the server of the
//! mailbox, and SMTP with the server that sends.

mod error;
mod head;
mod incoming;
mod outgoing;
mod readable;
mod receive;
mod send;
mod settings;
mod sign_in;
mod signed;
mod state;
mod subject;
mod threads;
mod tls;
mod verified;
mod whose;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use agent_channel::{Spool, directory, settings_file, watch};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use error::Error;
use settings::Settings;
use state::State;

/// How long a mail that is on its way is waited for at the end; the unit has 30 seconds for it.
const LAST: std::time::Duration = std::time::Duration::from_secs(20);

/// Talk to the agent by mail
///
/// A channel of agent-daemon: switch it on by [channels.mail] in agent.toml, and say in mail.toml which mailbox it has.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Read the settings from this file instead of channels/NAME.toml beside agent.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sign in at both servers, say what is wrong, and end
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .init();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(&arguments)),
        Err(error) => Err(Error::Server(error.to_string())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::from(error.code())
        }
    }
}

async fn run(arguments: &Arguments) -> Result<(), Error> {
    let name = std::env::var("AGENT_CHANNEL").unwrap_or_else(|_| "mail".to_owned());
    let config = arguments
        .config
        .clone()
        .unwrap_or_else(|| settings_file(&name));
    let settings = Settings::read(&config)?;
    let tls = tls::connector(settings.ca_file.as_deref())?;
    if arguments.check {
        return check(&settings, &tls).await;
    }
    let spool = Spool::open(directory(&name), &name)?;
    let _lock = spool.lock()?;
    let mut end =
        signal(SignalKind::terminate()).map_err(|error| Error::Server(error.to_string()))?;
    let state = State::new(&spool);
    state.tell()?;
    if settings.authserv_id.is_none() {
        tracing::warn!(
            "authserv_id is not set: every sender is a stranger; agent-channel-mail --check names what your server writes"
        );
    }
    threads::Threads::new(&spool, settings.domain()).forget_old();
    let changed = Arc::new(Notify::new());
    let _watcher = watch(&spool, &changed);
    let turn = send::Turn::default();
    let sending = send::run(&settings, &spool, &changed, &turn, &state);
    tokio::pin!(sending);
    tokio::select! {
        done = receive::run(&settings, &spool, &tls, &state) => return done,
        done = &mut sending => return done,
        error = spool.elsewhere() => return Err(error.into()),
        _ = end.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    // What is on its way is waited for: broken off, it would go out twice.
    turn.stop.set(true);
    if turn.busy.get() {
        tokio::time::timeout(LAST, sending)
            .await
            .unwrap_or(Ok(()))?;
    }
    Ok(())
}

/// Signs in at both servers.
async fn check(settings: &Settings, tls: &tokio_rustls::TlsConnector) -> Result<(), Error> {
    let mut session = receive::connect(settings, tls).await?;
    tracing::info!(
        "IMAP: signed in at {} as {}",
        settings.imap.host,
        settings.user
    );
    let seen = receive::look(&mut session, settings).await?;
    if let Some(why) = receive::folder_fault(&mut session, settings).await? {
        tracing::warn!("move_to: mail cannot be moved there and stays where it is: {why}");
    }
    drop(session.logout().await);
    send::connect(settings).await?;
    tracing::info!("SMTP: signed in at {}", settings.smtp.host);
    match &settings.authserv_id {
        Some(id) if seen.servers.contains(id) => {
            tracing::info!("authserv_id: {id} occurs in the newest mails")
        }
        Some(id) => tracing::warn!(
            "authserv_id: {id} occurs in none of the newest mails; they have: {}",
            listed(&seen.servers)
        ),
        None => tracing::warn!(
            "authserv_id is not set; the newest mails have: {}",
            listed(&seen.servers)
        ),
    }
    if let Some(lack) = &seen.lack {
        tracing::warn!("the newest mail: {lack}");
    }
    Ok(())
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}
