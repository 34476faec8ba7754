//! Sends messages of the agent: claimed when the server is reachable, acknowledged when it has accepted them.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use agent_channel::{Backoff, Message, Outcome, Spool};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use tokio::sync::Notify;

use crate::error::Error;
use crate::incoming::UNVERIFIED;
use crate::outgoing;
use crate::settings::{Security, Settings};
use crate::sign_in::SignIn;
use crate::state::State;
use crate::threads::{Thread, Threads};

/// Between looks where the kernel does not say that something came.
const LOOK: Duration = Duration::from_secs(30);
/// What a server may take for one answer; RFC 5321 has up to ten minutes for the last one.
const PATIENCE: Duration = Duration::from_secs(300);
/// The file that knows which message the server was being given.
const GIVEN: &str = "sending.json";
/// After a refusal that passes, such as greylisting.
const LATER: u64 = 300;
/// After a line that broke before the mail went out.
const SOON: u64 = 30;

/// What whoever ends the program and the sending say to each other.
#[derive(Debug, Default)]
pub struct Turn {
    /// Nothing more is to be claimed.
    pub stop: Cell<bool>,
    /// A message is claimed, and nothing said of it yet.
    pub busy: Cell<bool>,
}

/// Sends for ever what appears in `out/`; `changed` says that something did.
///
/// # Errors
/// When the disk fails: then nothing can be acknowledged.
pub async fn run(
    settings: &Settings,
    spool: &Spool,
    changed: &Notify,
    turn: &Turn,
    state: &State<'_>,
) -> Result<(), Error> {
    let given: Option<String> = spool.recall(GIVEN)?;
    for key in spool.left_behind() {
        let why = "the process ended while it was sending".to_owned();
        let outcome = if given.as_ref() == Some(&key) {
            Outcome::Unknown(why)
        } else {
            Outcome::Again(why, 0)
        };
        spool.tell(&key, &outcome)?;
    }
    let mut backoff = Backoff::default();
    while !turn.stop.get() {
        if spool.offered().is_empty() {
            // What could not go out was taken back.
            state.sending(None)?;
            tokio::select! {
                () = changed.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            continue;
        }
        match send_all(settings, spool, turn, state).await {
            Ok(()) => backoff.reset(),
            Err(Error::SignIn(why)) => {
                state.sending(Some(&why))?;
                let pause = backoff.next_pause();
                tracing::error!(%why, pause_secs = pause.as_secs(), "mail cannot be sent: the sign-in failed");
                tokio::time::sleep(pause).await;
            }
            Err(Error::Server(why)) => {
                let pause = backoff.next_pause();
                tracing::warn!(%why, pause_secs = pause.as_secs(), "mail cannot be sent now");
                tokio::time::sleep(pause).await;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Connects and signs in.
///
/// # Errors
/// When the server is away or says no.
pub async fn connect(settings: &Settings) -> Result<AsyncSmtpConnection, Error> {
    let server = &settings.smtp;
    let failed = Error::server(&format!("SMTP at {}", server.host));
    let hello = ClientId::Domain(settings.domain().to_owned());
    let tls = || {
        let mut builder = TlsParameters::builder(server.host.clone())
            .certificate_store(CertificateStore::WebpkiRoots);
        if let Some(path) = &settings.ca_file {
            let pem = std::fs::read(path).map_err(|error| failed(&error))?;
            builder = builder
                .add_root_certificate(Certificate::from_pem(&pem).map_err(|error| failed(&error))?);
        }
        builder.build_rustls().map_err(|error| failed(&error))
    };
    let first = if server.security == Security::Tls {
        Some(tls()?)
    } else {
        None
    };
    let place = (server.host.as_str(), server.port);
    let connecting = AsyncSmtpConnection::connect_tokio1(
        place,
        Some(Duration::from_secs(60)),
        &hello,
        first,
        None,
    );
    let mut connection = within(connecting).await?.map_err(|error| failed(&error))?;
    if server.security == Security::StartTls {
        let done = within(connection.starttls(tls()?, &hello)).await?;
        done.map_err(|error| failed(&error))?;
    }
    let (mechanisms, secret): (&[Mechanism], String) = match &settings.sign_in {
        SignIn::Password(None) => return Ok(connection),
        SignIn::Password(Some(password)) => (
            &[Mechanism::Plain, Mechanism::Login],
            password.expose().to_owned(),
        ),
        SignIn::Token(source) => (
            &[Mechanism::Xoauth2],
            source.token().await?.expose().to_owned(),
        ),
    };
    let offers = connection.server_info().get_auth_mechanism(mechanisms);
    // A server of this machine may ask for nothing.
    if offers.is_some() || server.security != Security::Plain {
        let credentials = Credentials::new(settings.user.clone(), secret);
        let done = within(connection.auth(mechanisms, &credentials)).await?;
        done.map_err(|error| {
            let told = failed(&format!("signing in as {}: {error}", settings.user));
            match told {
                // It knows who asks and says no, or wants to hear it in a way that is not ours.
                Error::Server(why) if error.is_permanent() || error.is_client() => {
                    Error::SignIn(why)
                }
                told => told,
            }
        })?;
    }
    Ok(connection)
}

async fn within<F: Future>(answer: F) -> Result<F::Output, Error> {
    let waited = tokio::time::timeout(PATIENCE, answer).await;
    waited.map_err(|_| Error::Server("the server does not answer".to_owned()))
}

async fn send_all(
    settings: &Settings,
    spool: &Spool,
    turn: &Turn,
    state: &State<'_>,
) -> Result<(), Error> {
    // Nothing is claimed while the server is away: what lies in out/ surely was not sent.
    let mut connection = connect(settings).await?;
    state.sending(None)?;
    let threads = Threads::new(spool, settings.domain());
    while let Some(key) = spool
        .offered()
        .into_iter()
        .next()
        .filter(|_| !turn.stop.get())
    {
        turn.busy.set(true);
        let message = match spool.claim(&key) {
            Ok(Some(message)) => message,
            Ok(None) => {
                turn.busy.set(false);
                continue;
            }
            Err(agent_channel::Error::NotUnderstood(_, why)) => {
                spool.tell(&key, &Outcome::Never(why))?;
                turn.busy.set(false);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let (outcome, is_broken) = match prepare(&message, settings, &threads)? {
            Err(outcome) => (outcome, false),
            Ok(mail) => {
                let (outcome, is_broken) = deliver(&mut connection, &mail, spool, &key).await?;
                if matches!(outcome, Outcome::Taken(_) | Outcome::Unknown(_)) {
                    threads.count(&mail.thread, chrono::Utc::now().timestamp_millis())?;
                }
                (outcome, is_broken)
            }
        };
        tracing::info!(key, ?outcome, "attempt to send a message");
        spool.tell_surely(&key, &outcome).await?;
        spool.forget(GIVEN);
        turn.busy.set(false);
        if is_broken {
            return Err(Error::Server("SMTP: the line broke".to_owned()));
        }
    }
    // The server may have hung up by itself.
    drop(within(connection.quit()).await);
    Ok(())
}

/// A mail that is ready.
struct Ready {
    id: String,
    thread: String,
    envelope: lettre::address::Envelope,
    bytes: Vec<u8>,
}

/// Makes the mail of a message, or says why none goes out.
fn prepare(
    message: &Message,
    settings: &Settings,
    threads: &Threads<'_>,
) -> Result<Result<Ready, Outcome>, Error> {
    if message.chat.starts_with(UNVERIFIED) {
        // From may be forged: an answer would go to somebody who never wrote.
        let why = "that sender is unverified: no mail is sent there".to_owned();
        return Ok(Err(Outcome::Never(why)));
    }
    if settings.is_own(&message.chat.to_lowercase()) {
        return Ok(Err(Outcome::Never(
            "it is the agent's own address".to_owned(),
        )));
    }
    let name = match &message.thread {
        Some(root) => threads.name(&message.chat, root)?,
        None => threads.name(&message.chat, &format!("key:{}", message.key))?,
    };
    let id = threads.own_id(&message.key, &name);
    let known = threads
        .read(&name)?
        .filter(|thread| thread.chat == message.chat);
    let mut thread = known.unwrap_or_else(|| Thread {
        chat: message.chat.clone(),
        root: message.thread.clone().unwrap_or_else(|| id.clone()),
        references: message.thread.iter().cloned().collect(),
        ..Thread::default()
    });
    let now = SystemTime::from(chrono::Utc::now());
    // What is sent again answers what it answered the first time.
    thread.references.retain(|known| *known != id);
    let mail = match outgoing::write(message, &thread, &id, settings, now) {
        Ok(mail) => mail,
        Err(why) => return Ok(Err(Outcome::Never(why))),
    };
    let limits = (settings.thread_limit, settings.limit);
    if !threads.may_send(&thread, chrono::Utc::now().timestamp_millis(), limits)? {
        let why = "too many mails in an hour: two programs may be answering each other (answers_a_thread_and_hour, answers_an_hour)";
        return Ok(Err(Outcome::Never(why.to_owned())));
    }
    if thread.subject.is_empty() {
        thread.subject = outgoing::subject_of(&message.text);
    }
    thread.add(&id);
    threads.write(&name, &thread)?;
    Ok(Ok(Ready {
        id,
        thread: name,
        envelope: mail.envelope().clone(),
        bytes: mail.formatted(),
    }))
}

/// Gives a mail to the server; true when the line is of no use any more.
async fn deliver(
    connection: &mut AsyncSmtpConnection,
    mail: &Ready,
    spool: &Spool,
    key: &str,
) -> Result<(Outcome, bool), Error> {
    // Until the last dot the server has taken nothing.
    let mut options = Vec::new();
    if !mail
        .envelope
        .to()
        .iter()
        .all(|to| to.to_string().is_ascii())
    {
        options.push(MailParameter::SmtpUtfEight);
    }
    if !mail.bytes.is_ascii()
        && connection
            .server_info()
            .supports_feature(Extension::EightBitMime)
    {
        options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    let opening = async {
        connection
            .command(Mail::new(mail.envelope.from().cloned(), options))
            .await?;
        for to in mail.envelope.to() {
            connection
                .command(Rcpt::new(to.clone(), Vec::new()))
                .await?;
        }
        connection.command(Data).await
    };
    let opened = tokio::time::timeout(PATIENCE, opening).await;
    let refused = match opened {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => {
            Some(refusal(&error).unwrap_or((Outcome::Again(error.to_string(), SOON), true)))
        }
        Err(_) => Some((
            Outcome::Again("the server does not answer".to_owned(), SOON),
            true,
        )),
    };
    if let Some((outcome, is_broken)) = refused {
        // The next mail begins anew.
        let is_broken = is_broken || !matches!(within(connection.command(Rset)).await, Ok(Ok(_)));
        return Ok((outcome, is_broken));
    }
    // From here on nobody can say, if this ends.
    spool.remember(GIVEN, &key)?;
    let given = tokio::time::timeout(PATIENCE * 2, connection.message(&mail.bytes)).await;
    Ok(match given {
        Ok(Ok(_)) => (Outcome::Taken(mail.id.clone()), false),
        Ok(Err(error)) => refusal(&error).unwrap_or((Outcome::Unknown(error.to_string()), true)),
        Err(_) => (
            Outcome::Unknown("the server does not answer".to_owned()),
            true,
        ),
    })
}

/// Returns what an answer of the server's means; `None` when it gave none.
fn refusal(error: &lettre::transport::smtp::Error) -> Option<(Outcome, bool)> {
    if error.is_permanent() {
        return Some((Outcome::Never(error.to_string()), false));
    }
    error
        .is_transient()
        .then(|| (Outcome::Again(error.to_string(), LATER), false))
}
