//! PostgreSQL, for collections: an address without a password, and a connection with a time-out for every call.
//!
//! The connection has its own runtime with one thread; callers wait. A connection that failed or was too slow must be
//! dropped, because the rest of its answer belongs to no request.

mod tls;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;

pub use tokio_postgres::types::{ToSql, Type};
pub use tokio_postgres::{Client, Error as ServerError, Row};

/// A value that a statement is given, and its type: so it needs no preparing, which takes another round trip.
pub type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

use crate::secret::Secret;
use crate::text;

/// Characters of what a server says of an error.
const MAX_REASON: usize = 300;
/// How the server sees us.
const NAME: &str = "agent-toolkit";

/// The database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its address has no sense.
    #[error("{0}")]
    Address(String),
    /// It did not answer in time.
    #[error("{server} did not answer within {secs} s")]
    TimedOut {
        /// The host.
        server: String,
        /// How long it had.
        secs: u64,
    },
    /// Its certificate does not vouch for it.
    #[error("{server}: {why}")]
    Certificate {
        /// The host.
        server: String,
        /// In one line.
        why: String,
    },
    /// It refused, or is not there.
    #[error("{server}: {why}")]
    Failed {
        /// The host.
        server: String,
        /// In one line.
        why: String,
        /// The code of the server, five letters.
        code: Option<String>,
    },
}

impl Error {
    /// Returns true when the server answered with `state`.
    pub fn is(&self, state: &SqlState) -> bool {
        matches!(self, Self::Failed { code: Some(code), .. } if code == state.code())
    }

    /// Returns true when the role may not do this.
    pub fn is_denied(&self) -> bool {
        self.is(&SqlState::INSUFFICIENT_PRIVILEGE)
    }

    /// Returns true when a table or schema is not there.
    pub fn is_absent(&self) -> bool {
        self.is(&SqlState::UNDEFINED_TABLE) || self.is(&SqlState::INVALID_SCHEMA_NAME)
    }

    /// Returns true when the server has said so: the connection is still good, except for a transaction.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Failed { code: Some(_), .. })
    }
}

/// Where a database is.
#[derive(Clone)]
pub struct Address {
    config: tokio_postgres::Config,
    authority: Option<PathBuf>,
    server: String,
}

impl Address {
    /// Returns the database of `url`. In addition to what tokio-postgres knows, `sslrootcert` names the certificates of the
    /// authorities, and `verify-ca` and `verify-full` are ways to say `require`: certificates are always checked. A server
    /// that is reached over a network must speak TLS, unless the address says `sslmode=disable` or `prefer`.
    ///
    /// # Errors
    /// [`Error::Address`].
    pub fn new(url: &str, password: Option<&Secret>) -> Result<Self, Error> {
        let (url, options) = url.split_once('?').unwrap_or((url, ""));
        let (mut kept, mut authority, mut says_mode) = (Vec::new(), None, false);
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("sslrootcert", path)) => authority = Some(PathBuf::from(path)),
                Some(("sslmode", "verify-ca" | "verify-full")) => {
                    kept.push("sslmode=require");
                    says_mode = true;
                }
                Some((name, _)) => {
                    says_mode |= name == "sslmode";
                    kept.push(option);
                }
                None => kept.push(option),
            }
        }
        let mut config: tokio_postgres::Config = format!("{url}?{}", kept.join("&"))
            .parse()
            .map_err(|error| {
                Error::Address(format!("the address has no sense: {}", whole(&error)))
            })?;
        if config.get_hosts().is_empty() || config.get_user().is_none() {
            let why = "the address names no user or no host: postgres://USER@HOST/DATABASE";
            return Err(Error::Address(why.to_owned()));
        }
        let is_local = config.get_hosts().iter().all(is_here)
            && config.get_hostaddrs().iter().all(IpAddr::is_loopback);
        if !says_mode && !is_local {
            config.ssl_mode(SslMode::Require);
        }
        if let Some(password) = password {
            config.password(password.expose());
        }
        config.application_name(NAME);
        let server = config.get_hosts().first().map_or_else(String::new, name);
        Ok(Self {
            config,
            authority,
            server,
        })
    }
}

/// Returns true for this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
    }
}

fn name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => text::visible(name),
        Host::Unix(path) => path.display().to_string(),
    }
}

/// A connection.
pub struct Connection {
    client: Option<Client>,
    runtime: Option<Runtime>,
    server: String,
    patience: Duration,
    /// Until when all calls together have, when they have a common time.
    deadline: Option<Instant>,
}

impl Connection {
    /// Connects within `patience`, which continues for the calls that follow, until they are given another time. The server
    /// stops what takes longer than `limit`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn open(address: &Address, (patience, limit): (Duration, Duration)) -> Result<Self, Error> {
        let failed = |why: String| Error::Failed {
            server: address.server.clone(),
            why,
            code: None,
        };
        let tls = tls::Tls::new(address.authority.as_deref()).map_err(failed)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        let mut connection = Self {
            client: None,
            runtime: Some(runtime),
            server: address.server.clone(),
            patience,
            deadline: Some(Instant::now() + patience),
        };
        let connected = connection.wait(async {
            let (client, driver) = address.config.connect(tls).await?;
            // Its errors come back from the calls.
            tokio::spawn(driver);
            Ok(client)
        });
        connection.client = Some(connected?);
        let limits = format!(
            "SET statement_timeout = {0}; SET lock_timeout = {0}; SET idle_in_transaction_session_timeout = 60000",
            limit.as_millis()
        );
        connection.run(async |client| client.batch_execute(&limits).await)?;
        Ok(connection)
    }

    /// Returns what `work` does with the server.
    ///
    /// # Errors
    /// See [`Error`]. After any but an answer the connection is closed.
    pub fn run<T>(
        &mut self,
        work: impl AsyncFnOnce(&Client) -> Result<T, ServerError>,
    ) -> Result<T, Error> {
        let Some(client) = self.client.take() else {
            return Err(Error::Failed {
                server: self.server.clone(),
                why: "the connection is closed".to_owned(),
                code: None,
            });
        };
        let done = self.wait(work(&client));
        if done.as_ref().err().is_none_or(Error::is_answer) {
            self.client = Some(client);
        }
        done
    }

    /// Gives each further call so long.
    pub fn set_patience(&mut self, patience: Duration) {
        (self.patience, self.deadline) = (patience, None);
    }

    /// Gives all further calls together until then.
    pub fn set_deadline(&mut self, until: Instant) {
        self.patience = until.saturating_duration_since(Instant::now());
        self.deadline = Some(until);
    }

    /// Puts a deadline off.
    pub fn extend(&mut self, by: Duration) {
        self.deadline = self.deadline.map(|until| until + by);
    }

    /// Returns true when a call cannot succeed any more.
    pub fn is_closed(&self) -> bool {
        self.client.as_ref().is_none_or(Client::is_closed)
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, ServerError>>) -> Result<T, Error> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::Address("the connection is gone".to_owned()));
        };
        let left = self.deadline.map_or(self.patience, |until| {
            until.saturating_duration_since(Instant::now())
        });
        let done = runtime.block_on(async { tokio::time::timeout(left, work).await });
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(self.timed_out()),
        }
    }

    fn timed_out(&self) -> Error {
        Error::TimedOut {
            server: self.server.clone(),
            secs: (self.patience + Duration::from_millis(999)).as_secs(),
        }
    }

    fn failed(&self, error: &ServerError) -> Error {
        // The server stops a statement at the same time as we do.
        if error.code() == Some(&SqlState::QUERY_CANCELED) {
            return self.timed_out();
        }
        let (server, why) = (self.server.clone(), whole(error));
        if tls::is_certificate(error) {
            return Error::Certificate { server, why };
        }
        Error::Failed {
            server,
            why,
            code: error.code().map(|state| state.code().to_owned()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The search for a name may hang, and nobody waits for it.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns an error with its causes in one line: what a server says, without the rows it is about.
fn whole(error: &ServerError) -> String {
    let why = match error.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => {
            let mut why = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(next) = cause {
                why = format!("{why}: {next}");
                cause = next.source();
            }
            why
        }
    };
    let why = crate::secret::redact(&why);
    text::shorten(&text::visible(&text::one_line(&why)), MAX_REASON).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn over_a_network_an_address_without_a_word_means_tls() {
        let check = |url: &str, expected: SslMode| {
            let address = Address::new(url, None).expect(url);
            assert_eq!(address.config.get_ssl_mode(), expected, "{url}");
        };
        check("postgres://a@db.example.org/x", SslMode::Require);
        check("postgres://a@127.0.0.1,db.example.org/x", SslMode::Require);
        check("postgres://a@127.0.0.1:5433/x", SslMode::Prefer);
        check("postgres://a@%2Frun%2Fpostgresql/x", SslMode::Prefer);
        check(
            "postgres://a@localhost/x?hostaddr=10.0.0.7",
            SslMode::Require,
        );
        check("postgres://a@10.0.0.7/x?sslmode=disable", SslMode::Disable);
        check(
            "postgres://a@db.example.org/x?sslmode=verify-full&sslrootcert=/etc/ca.pem",
            SslMode::Require,
        );
    }

    #[test]
    fn an_address_needs_a_host_and_a_user() {
        for url in [
            "postgres://a@/x",
            "postgres://h/x",
            "postgres://a@h/x?nonsense=1",
        ] {
            assert!(
                matches!(Address::new(url, None), Err(Error::Address(_))),
                "{url}"
            );
        }
    }

    #[test]
    fn who_is_not_there_or_says_nothing_holds_nobody() {
        let patience = Duration::from_millis(300);
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("a port").port();
        let address = |port: u16| {
            Address::new(&format!("postgres://a@127.0.0.1:{port}/x"), None).expect("an address")
        };
        let began = Instant::now();
        let error = Connection::open(&address(port), (patience, patience)).err();
        assert!(matches!(error, Some(Error::TimedOut { .. })), "{error:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
        drop(silent);
        let error = Connection::open(&address(port), (patience, patience)).err();
        assert!(
            matches!(error, Some(Error::Failed { code: None, .. })),
            "{error:?}"
        );
    }

    /// Starts a server for one peer that refuses TLS, and then does as it is told. Returns its port.
    fn server(then: impl FnOnce(TcpStream) + Send + 'static) -> (u16, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let thread = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a peer");
            let _ = peer.read(&mut [0; 512]);
            let _ = peer.write_all(b"N");
            then(peer);
        });
        (port, thread)
    }

    #[test]
    fn calls_with_a_deadline_have_one_time_together() {
        // Does all it is asked to, each time a little late.
        let (port, thread) = server(|mut peer| {
            let mut bytes = [0; 1024];
            let _ = peer.read(&mut bytes);
            let _ = peer.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I");
            while peer.read(&mut bytes).is_ok_and(|count| count > 0) {
                std::thread::sleep(Duration::from_millis(200));
                let _ = peer.write_all(b"C\0\0\0\x08SET\0Z\0\0\0\x05I");
            }
        });
        let url = format!("postgres://a@127.0.0.1:{port}/x");
        let address = Address::new(&url, None).expect("an address");
        let patience = Duration::from_secs(20);
        let mut connection = Connection::open(&address, (patience, patience)).expect("open");
        let began = Instant::now();
        connection.set_deadline(began + Duration::from_secs(1));
        let mut calls =
            (0..50).map(|_| connection.run(async |client| client.batch_execute("").await));
        let late = calls.find_map(Result::err);
        assert!(matches!(late, Some(Error::TimedOut { .. })), "{late:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
        drop(connection);
        thread.join().expect("done");
    }

    #[test]
    fn a_password_is_in_no_error() {
        // Says an error with the password in it, as a hostile server may.
        let (port, thread) = server(|mut peer| {
            let _ = peer.read(&mut [0; 512]);
            let said = b"SERROR\0C28P01\0Mno canary-secret-4711 here\0\0";
            let length = u32::try_from(said.len() + 4).expect("short").to_be_bytes();
            let _ = peer.write_all(&[b"E".as_slice(), &length, said].concat());
        });
        let password = Secret::new("canary-secret-4711");
        let url = format!("postgres://a@127.0.0.1:{port}/x");
        let address = Address::new(&url, Some(&password)).expect("an address");
        let error = Connection::open(&address, (Duration::from_secs(5), Duration::from_secs(5)))
            .err()
            .expect("an error");
        let told = format!("{error} {error:?}");
        assert!(
            !told.contains("canary") && told.contains("[redacted]"),
            "{told}"
        );
        thread.join().expect("done");
    }
}
