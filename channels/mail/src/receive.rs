//! The mailbox: new mails become lines for the daemon, in order. A mail is marked as read after its line is on disk; if this
//! program ends in between, the same line is written again and the daemon drops it.

use std::time::Duration;

use agent_channel::{Backoff, Password, Spool};
use async_imap::Session;
use async_imap::extensions::idle::IdleResponse;
use async_imap::types::{Fetch, UnsolicitedResponse};
use futures_util::TryStreamExt;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::error::Error;
use crate::incoming::{self, Raw, Verdict};
use crate::settings::{Security, Settings};
use crate::sign_in::{SignIn, Xoauth2};
use crate::state::State;
use crate::threads::Threads;
use crate::tls;
use crate::verified;

/// What a server may take for one answer; a mail of 50 MB over a slow line takes that long.
const PATIENCE: Duration = Duration::from_secs(300);
/// A server, or a router on the way, forgets who is silent longer (RFC 2177 has 29 minutes for servers alone).
const IDLE: Duration = Duration::from_secs(9 * 60);
/// While the daemon has so many lines to take, mails stay where they are.
const MAX_WAITING: usize = 200;
/// So often a mail may end the program before it is handed on unread.
const TRIES: u32 = 5;
/// The file that knows how far the mailbox was read.
const PLACE: &str = "mailbox.json";
/// The file that knows which mail is being read.
const WORKING: &str = "reading.json";

/// How far a mailbox was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Place {
    /// Which time of the mailbox: with another one its numbers mean other mails.
    validity: u32,
    /// The first number that is new.
    next: u32,
    /// Numbers below it that are still to be read.
    todo: Vec<u32>,
}

/// Which mail is being read, and for the how manieth time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Working {
    validity: u32,
    uid: u32,
    tries: u32,
}

/// A stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + std::fmt::Debug> Stream for T {}
/// A signed-in connection.
pub type Mailbox = Session<Box<dyn Stream>>;

/// Reads the mailbox for ever.
///
/// # Errors
/// When the disk fails: then nothing can be taken in.
pub async fn run(
    settings: &Settings,
    spool: &Spool,
    tls: &TlsConnector,
    state: &State<'_>,
) -> Result<(), Error> {
    let mut backoff = Backoff::default();
    loop {
        match watch(settings, spool, tls, state, &mut backoff).await {
            Ok(()) => {}
            Err(Error::SignIn(why)) => {
                state.reading(Some(&why))?;
                let pause = backoff.next_pause();
                tracing::error!(%why, pause_secs = pause.as_secs(), "mail cannot be read: the sign-in failed");
                tokio::time::sleep(pause).await;
            }
            Err(Error::Server(why)) => {
                let pause = backoff.next_pause();
                tracing::warn!(%why, pause_secs = pause.as_secs(), "mail cannot be read now");
                tokio::time::sleep(pause).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Connects and signs in.
///
/// # Errors
/// When the server is away or says no.
pub async fn connect(settings: &Settings, tls: &TlsConnector) -> Result<Mailbox, Error> {
    let server = &settings.imap;
    let failed = Error::server(&format!("IMAP at {}", server.host));
    let stream = within(TcpStream::connect((server.host.as_str(), server.port))).await?;
    let stream = stream.map_err(|error| failed(&error))?;
    let mut stream: Box<dyn Stream> = Box::new(stream);
    if server.security == Security::StartTls {
        let mut client = async_imap::Client::new(stream);
        greeted(&mut client, &server.host).await?;
        let asked = within(client.run_command_and_check_ok("STARTTLS", None)).await?;
        asked.map_err(|error| failed(&error))?;
        stream = client.into_inner();
    }
    if server.security != Security::Plain {
        let encrypted = within(tls.connect(tls::name(&server.host)?, stream)).await?;
        stream = Box::new(encrypted.map_err(|error| failed(&error))?);
    }
    let mut client = async_imap::Client::new(stream);
    if server.security != Security::StartTls {
        greeted(&mut client, &server.host).await?;
    }
    let signed_in = match &settings.sign_in {
        SignIn::Password(password) => {
            let password = password.as_ref().map(Password::expose).unwrap_or_default();
            within(client.login(&settings.user, password)).await?
        }
        SignIn::Token(source) => {
            let mut answer = Xoauth2::new(&settings.user, &source.token().await?);
            within(client.authenticate("XOAUTH2", &mut answer)).await?
        }
    };
    signed_in.map_err(|(error, _)| {
        let is_refusal = is_refusal(&error);
        match failed(&format!("signing in as {}: {error}", settings.user)) {
            Error::Server(why) if is_refusal => Error::SignIn(why),
            error => error,
        }
    })
}

/// Returns whether the server knows who asks, and says no: it may also have trouble of its own (RFC 5530).
fn is_refusal(error: &async_imap::error::Error) -> bool {
    match error {
        async_imap::error::Error::No(why) | async_imap::error::Error::Bad(why) => {
            let passes = ["UNAVAILABLE", "INUSE", "LIMIT", "SERVERBUG"];
            !passes.iter().any(|code| why.to_uppercase().contains(code))
        }
        _ => false,
    }
}

async fn greeted(
    client: &mut async_imap::Client<Box<dyn Stream>>,
    host: &str,
) -> Result<(), Error> {
    let failed = Error::server(&format!("IMAP at {host}"));
    match within(client.read_response()).await? {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(failed(&"it hung up")),
        Err(error) => Err(failed(&error)),
    }
}

/// Waits for a server, but not for ever.
async fn within<F: Future>(answer: F) -> Result<F::Output, Error> {
    let waited = tokio::time::timeout(PATIENCE, answer).await;
    waited.map_err(|_| Error::Server("the server does not answer".to_owned()))
}

/// Asks the server something.
async fn ask<T>(answer: impl Future<Output = async_imap::error::Result<T>>) -> Result<T, Error> {
    within(answer)
        .await?
        .map_err(|error| Error::server("IMAP")(&error))
}

async fn watch(
    settings: &Settings,
    spool: &Spool,
    tls: &TlsConnector,
    state: &State<'_>,
    backoff: &mut Backoff,
) -> Result<(), Error> {
    let mut session = connect(settings, tls).await?;
    state.reading(None)?;
    let can = ask(session.capabilities()).await?;
    let (idles, moves) = (can.has_str("IDLE"), can.has_str("MOVE"));
    let mailbox = ask(session.select(&settings.mailbox)).await?;
    let validity = mailbox.uid_validity.unwrap_or_default();
    tracing::info!(
        mailbox = settings.mailbox,
        mails = mailbox.exists,
        idles,
        "the mailbox is open"
    );
    let news = session.unsolicited_responses.clone();
    loop {
        // What is told from here on may be newer than what is read now.
        brought(&news);
        let reader = Reader {
            settings,
            spool,
            validity,
            moves,
        };
        reader.read_new(&mut session).await?;
        backoff.reset();
        report_refusals(spool);
        if !idles {
            tokio::time::sleep(settings.poll).await;
            ask(session.noop()).await?;
            continue;
        }
        let mut handle = session.idle();
        ask(handle.init()).await?;
        if !brought(&news) {
            let (waiting, _interrupt) = handle.wait_with_timeout(IDLE);
            let waited = waiting
                .await
                .map_err(|error| Error::server("IMAP")(&error))?;
            if waited == IdleResponse::ManualInterrupt {
                return Err(Error::Server("IMAP: the server hung up".to_owned()));
            }
        }
        session = ask(handle.done()).await?;
    }
}

/// Takes what the server said unasked, and returns true when it told of new mail.
fn brought(news: &async_channel::Receiver<UnsolicitedResponse>) -> bool {
    let mut is_new = false;
    while let Ok(told) = news.try_recv() {
        is_new |= matches!(
            told,
            UnsolicitedResponse::Exists(_) | UnsolicitedResponse::Recent(_)
        );
    }
    is_new
}

/// Says in the log why the daemon took something not: there is nobody else to tell.
fn report_refusals(spool: &Spool) {
    for (id, why) in spool.refusals() {
        tracing::warn!(line = id, why, "the daemon refused a mail");
    }
}

/// What reads new mails.
struct Reader<'a> {
    settings: &'a Settings,
    spool: &'a Spool,
    validity: u32,
    moves: bool,
}

impl Reader<'_> {
    /// Takes in what is new.
    async fn read_new(&self, session: &mut Mailbox) -> Result<(), Error> {
        loop {
            let mut place = self.place(session).await?;
            let query = format!("UID {}:*", place.next);
            let found = ask(session.uid_search(query)).await?;
            // `*` is the last one, also where it is below.
            place
                .todo
                .extend(found.into_iter().filter(|uid| *uid >= place.next));
            place.todo.sort_unstable();
            if place.todo.is_empty() {
                return Ok(());
            }
            for uid in place.todo.clone() {
                while self.spool.waiting() >= MAX_WAITING {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                self.read_one(session, uid).await?;
                place.todo.retain(|one| *one != uid);
                place.next = place.next.max(uid.saturating_add(1));
                let rest = place.todo.iter().copied().filter(|uid| *uid < place.next);
                let kept = Place {
                    todo: rest.collect(),
                    ..place.clone()
                };
                self.spool.remember(PLACE, &kept)?;
            }
        }
    }

    /// Returns how far the mailbox was read.
    async fn place(&self, session: &mut Mailbox) -> Result<Place, Error> {
        let place: Option<Place> = self.spool.recall(PLACE)?;
        let query = match place {
            Some(place) if place.validity == self.validity => return Ok(place),
            // The numbers are others: what was read before is marked as read, and the daemon knows it by what it says.
            Some(_) => "UNSEEN".to_owned(),
            // A mailbox of many years is not answered anew.
            None => {
                let since = chrono::Utc::now() - chrono::Duration::days(1);
                format!("UNSEEN SINCE {}", since.format("%d-%b-%Y"))
            }
        };
        let last = ask(session.uid_search("UID *")).await?.into_iter().max();
        let todo = ask(session.uid_search(query)).await?;
        let next = last.map_or(1, |last| last.saturating_add(1));
        let place = Place {
            validity: self.validity,
            next,
            todo: todo.into_iter().filter(|uid| *uid < next).collect(),
        };
        self.spool.remember(PLACE, &place)?;
        Ok(place)
    }

    async fn read_one(&self, session: &mut Mailbox, uid: u32) -> Result<(), Error> {
        let Some(head) = fetch(session, uid, "(UID RFC822.SIZE INTERNALDATE)").await? else {
            return Ok(());
        };
        let size = head.size.unwrap_or_default();
        let too_large = (size > self.settings.max_size).then_some(size);
        let what = if too_large.is_some() {
            "(UID BODY.PEEK[HEADER])"
        } else {
            "(UID BODY.PEEK[])"
        };
        let Some(fetched) = fetch(session, uid, what).await? else {
            return Ok(());
        };
        let bytes = fetched
            .body()
            .or_else(|| fetched.header())
            .unwrap_or_default();
        let raw = Raw {
            validity: self.validity,
            uid,
            bytes,
            too_large,
            came_at: head.internal_date(),
            read_at: chrono::Utc::now(),
        };
        if self.take(raw)? {
            self.mark(session, uid).await?;
        }
        Ok(())
    }

    /// Takes one mail in: what it says is on the disk when this returns true. Otherwise it stays unread.
    fn take(&self, raw: Raw<'_>) -> Result<bool, Error> {
        let before: Option<Working> = self.spool.recall(WORKING)?;
        let before = before.filter(|one| (one.validity, one.uid) == (raw.validity, raw.uid));
        let tries = before.map_or(0, |one| one.tries);
        if tries >= TRIES {
            tracing::error!(
                uid = raw.uid,
                "this mail ended the program repeatedly; it stays in the mailbox, unread"
            );
            self.spool.forget(WORKING);
            return Ok(false);
        }
        self.spool.remember(
            WORKING,
            &Working {
                validity: raw.validity,
                uid: raw.uid,
                tries: tries + 1,
            },
        )?;
        let threads = Threads::new(self.spool, self.settings.domain());
        let taken = match incoming::read(raw, self.settings, &threads)? {
            Verdict::Ignored(why) => {
                tracing::info!(uid = raw.uid, why, "not for the agent");
                false
            }
            Verdict::Line(line) => {
                if let Some(why) = &line.unverified {
                    tracing::warn!(
                        uid = raw.uid,
                        why,
                        "the sender is unverified: nothing confirms From"
                    );
                }
                threads.write(&line.thread.0, &line.thread.1)?;
                self.spool.put(&line.id, line.fields, &line.files)?;
                if line.is_untimely {
                    tracing::warn!(
                        uid = raw.uid,
                        "its Date is too far from today; it stays in the mailbox, unread"
                    );
                }
                !line.is_untimely
            }
        };
        self.spool.forget(WORKING);
        Ok(taken)
    }

    /// Marks a mail as read, and puts it where the settings say.
    async fn mark(&self, session: &mut Mailbox, uid: u32) -> Result<(), Error> {
        let uid = uid.to_string();
        let stored = session.uid_store(&uid, "+FLAGS.SILENT (\\Seen)");
        let answers = ask(stored).await?;
        let _: Vec<Fetch> = ask(answers.try_collect()).await?;
        let Some(folder) = &self.settings.move_to else {
            return Ok(());
        };
        if self.moves {
            is_put(folder, session.uid_mv(&uid, folder)).await?;
            return Ok(());
        }
        if is_put(folder, session.uid_copy(&uid, folder)).await? {
            let deleted = ask(session.uid_store(&uid, "+FLAGS.SILENT (\\Deleted)")).await?;
            let _: Vec<Fetch> = ask(deleted.try_collect()).await?;
        }
        Ok(())
    }
}

/// Returns whether the server put a mail into `folder`. Where it says no, as for one that does not exist, the mail stays, and
/// keeps back none that came after it.
async fn is_put(
    folder: &str,
    answer: impl Future<Output = async_imap::error::Result<()>>,
) -> Result<bool, Error> {
    match within(answer).await? {
        Ok(()) => Ok(true),
        Err(async_imap::error::Error::No(why)) => {
            tracing::error!(
                folder,
                why,
                "a mail cannot be moved (move_to): it stays in the mailbox, marked as read"
            );
            Ok(false)
        }
        Err(error) => Err(Error::server("IMAP")(&error)),
    }
}

async fn fetch(session: &mut Mailbox, uid: u32, what: &str) -> Result<Option<Fetch>, Error> {
    let answers = ask(session.uid_fetch(uid.to_string(), what)).await?;
    let all: Vec<Fetch> = ask(answers.try_collect()).await?;
    Ok(all.into_iter().find(|one| one.uid == Some(uid)))
}

/// What the newest mails say of the server that got them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Whose Authentication-Results stand above them.
    pub servers: Vec<String>,
    /// What the newest one lacks.
    pub lack: Option<String>,
}

/// Looks at the newest mails, for whoever writes the settings.
///
/// # Errors
/// When the server is away or says no.
pub async fn look(session: &mut Mailbox, settings: &Settings) -> Result<Seen, Error> {
    let mailbox = ask(session.examine(&settings.mailbox)).await?;
    let from = mailbox.exists.saturating_sub(19).max(1);
    if mailbox.exists == 0 {
        return Ok(Seen::default());
    }
    let what = "BODY.PEEK[HEADER]";
    let answers = ask(session.fetch(format!("{from}:*"), what)).await?;
    let mut all: Vec<Fetch> = ask(answers.try_collect()).await?;
    all.sort_by_key(|one| one.message);
    let heads = all.iter().filter_map(Fetch::header);
    Ok(seen(heads, settings.authserv_id.as_deref()))
}

/// Returns why no mail can be moved to where the settings say, if none can.
///
/// # Errors
/// When the server is away.
pub async fn folder_fault(
    session: &mut Mailbox,
    settings: &Settings,
) -> Result<Option<String>, Error> {
    let Some(folder) = &settings.move_to else {
        return Ok(None);
    };
    match within(session.examine(folder)).await? {
        Ok(_) => Ok(None),
        Err(async_imap::error::Error::No(why)) => Ok(Some(format!("{folder}: {why}"))),
        Err(error) => Err(Error::server("IMAP")(&error)),
    }
}

/// Returns what the heads of mails say, of which the last is the newest.
fn seen<'a>(heads: impl Iterator<Item = &'a [u8]>, authserv_id: Option<&str>) -> Seen {
    let mut seen = Seen::default();
    for bytes in heads {
        let head = String::from_utf8_lossy(bytes);
        let Some(mail) = mail_parser::MessageParser::default().parse(head.as_bytes()) else {
            continue;
        };
        let headers: Vec<(&str, &str)> = mail.headers_raw().collect();
        seen.servers
            .extend(verified::servers(&headers).into_iter().next());
        seen.lack = authserv_id.and_then(|id| verified::lacking(&headers, id));
    }
    seen.servers.sort();
    seen.servers.dedup();
    seen
}

#[cfg(test)]
mod tests {
    use super::{Raw, Reader, is_refusal, seen};
    use agent_channel::Spool;
    use async_imap::error::Error;

    #[test]
    fn a_mail_that_is_too_old_is_told_of_and_not_marked_as_read() {
        let dir = tempfile::tempdir().expect("dir");
        for part in ["new", "tmp"] {
            std::fs::create_dir_all(dir.path().join("spool").join(part)).expect("dir");
        }
        let spool = Spool::open(dir.path().to_owned(), "mail").expect("a spool");
        let reader = Reader {
            settings: &crate::settings::tests::least(),
            spool: &spool,
            validity: 7,
            moves: false,
        };
        let mail = b"Authentication-Results: mx.home.net; dmarc=pass header.from=example.org\r\n\
            From: ada@example.org\r\nTo: agent@example.org\r\nDate: Sat, 21 Nov 2026 23:00:00 +0000\r\n\r\nhi";
        let came = chrono::DateTime::from_timestamp(1_795_305_600, 0).expect("a time");
        for (uid, days, is_marked) in [(1, 1, true), (2, 9, false)] {
            let raw = Raw {
                validity: 7,
                uid,
                bytes: mail,
                too_large: None,
                came_at: Some(came.fixed_offset()),
                read_at: came + chrono::Duration::days(days),
            };
            assert_eq!(reader.take(raw).expect("taken"), is_marked, "{days} days");
            assert_eq!(spool.waiting(), uid as usize);
        }
    }

    #[test]
    fn what_the_newest_mail_lacks_is_told() {
        let (apart, whole) = (
            &b"Authentication-Results: mx.home.net; dmarc=pass header.from=example.org\r\n\
                Authentication-Results: mx.home.net; spf=pass smtp.mailfrom=example.org\r\n\
                From: ada@example.org\r\n\r\n"[..],
            &b"Authentication-Results: mx.home.net; dmarc=pass; spf=pass\r\n\r\n"[..],
        );
        let look = |heads: &[&'static [u8]], id| seen(heads.iter().copied(), id);
        let id = Some("mx.home.net");
        assert_eq!(look(&[apart, whole], id).lack, None);
        let told = look(&[whole, apart], id);
        assert_eq!(told.servers, ["mx.home.net"]);
        let lack = told.lack.expect("SPF stands apart");
        assert!(lack.contains("in a separate header"), "{lack}");
        assert_eq!(look(&[apart], None).lack, None);
        assert_eq!(look(&[], id), super::Seen::default());
    }

    #[test]
    fn a_server_with_trouble_of_its_own_refuses_nobody() {
        let no = |why: &str| is_refusal(&Error::No(why.to_owned()));
        assert!(no(
            "code: None, info: Some(\"[AUTHENTICATIONFAILED] Invalid credentials\")"
        ));
        assert!(!no(
            "code: None, info: Some(\"[UNAVAILABLE] Temporary authentication failure.\")"
        ));
        assert!(!is_refusal(&Error::ConnectionLost));
    }
}
