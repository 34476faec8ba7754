//! Signing in with access tokens, as Gmail and Outlook want it: dovecot asks an issuer whose a token is, and an SMTP server
//! takes the same ones. Tokens end while the program runs.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "a test writes plainly")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A token, and what XOAUTH2 makes of it for `agent@example.org`.
type Token = (&'static str, &'static str);
const FIRST: Token = (
    "first-token",
    "dXNlcj1hZ2VudEBleGFtcGxlLm9yZwFhdXRoPUJlYXJlciBmaXJzdC10b2tlbgEB",
);
const SECOND: Token = (
    "second-token",
    "dXNlcj1hZ2VudEBleGFtcGxlLm9yZwFhdXRoPUJlYXJlciBzZWNvbmQtdG9rZW4BAQ==",
);
/// A machine that builds beside is slow.
const SOON: Duration = Duration::from_secs(60);

fn wait_for(what: &str, mut probe: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !probe() {
        assert!(Instant::now() < until, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Who gives tokens out; and what was sent.
struct Issuer {
    good: Mutex<Token>,
    /// How often SMTP and IMAP refused somebody.
    refused: Mutex<[usize; 2]>,
    sent: Mutex<Vec<String>>,
}

impl Issuer {
    fn refused(&self) -> [usize; 2] {
        *self.refused.lock().expect("no panic")
    }

    fn has_sent(&self, words: &str) -> bool {
        let sent = self.sent.lock().expect("no panic");
        sent.iter().any(|mail| mail.contains(words))
    }

    fn judge(&self, is_it: impl Fn(Token) -> bool, at: usize) -> bool {
        let is_good = is_it(*self.good.lock().expect("no panic"));
        self.refused.lock().expect("no panic")[at] += usize::from(!is_good);
        is_good
    }

    /// Serves each connection of a port by `serve`.
    fn listen(self: &Arc<Self>, serve: fn(&Self, TcpStream) -> std::io::Result<()>) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let issuer = Arc::clone(self);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let issuer = Arc::clone(&issuer);
                // Whoever hangs up ends its thread.
                thread::spawn(move || serve(&issuer, client).ok());
            }
        });
        port
    }

    /// Says whose a token is (RFC 7662), to dovecot.
    fn introspect(&self, mut client: TcpStream) -> std::io::Result<()> {
        let mut token = String::new();
        for line in BufReader::new(client.try_clone()?).lines() {
            let line = line?;
            if let Some(bearer) = line.strip_prefix("Authorization: Bearer ") {
                bearer.clone_into(&mut token);
            }
            if line.is_empty() {
                break;
            }
        }
        let body = if self.judge(|(good, _)| token == good, 1) {
            r#"{"active":true,"email":"agent@example.org"}"#
        } else {
            r#"{"active":false}"#
        };
        let length = body.len();
        write!(
            client,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    /// An SMTP server that takes tokens and nothing else, as far as a client needs one.
    fn smtp(&self, mut client: TcpStream) -> std::io::Result<()> {
        let mut lines = BufReader::new(client.try_clone()?).lines();
        write!(client, "220 mx ESMTP\r\n")?;
        let mut is_known = false;
        while let Some(line) = lines.next() {
            let line = line?;
            let answer = match line.split(' ').next().unwrap_or_default() {
                "EHLO" => "250-mx\r\n250-8BITMIME\r\n250 AUTH XOAUTH2",
                "AUTH" => {
                    let said = line.strip_prefix("AUTH XOAUTH2 ").unwrap_or_default();
                    is_known = self.judge(|(_, answer)| said == answer, 0);
                    // As Gmail does: the reason first, the refusal after an empty line.
                    if is_known {
                        "235 2.7.0 Accepted"
                    } else {
                        "334 eyJzdGF0dXMiOiI0MDEifQ=="
                    }
                }
                "MAIL" | "RCPT" | "DATA" if !is_known => "530 5.7.0 Authentication required",
                "DATA" => {
                    write!(client, "354 go on\r\n")?;
                    let mail = lines.by_ref().map_while(Result::ok);
                    let mail: Vec<String> = mail.take_while(|line| line != ".").collect();
                    self.sent.lock().expect("no panic").push(mail.join("\n"));
                    "250 2.0.0 taken"
                }
                "QUIT" => {
                    self.sent
                        .lock()
                        .expect("no panic")
                        .push("it said goodbye".to_owned());
                    return write!(client, "221 bye\r\n");
                }
                "" => "535 5.7.8 Username and Password not accepted",
                _ => "250 OK",
            };
            write!(client, "{answer}\r\n")?;
        }
        Ok(())
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The mailbox, whose server asks `issuer` at that port; `None`, and says so, where there is no dovecot.
fn dovecot(place: &Path, issuer: u16) -> Option<(Running, u16)> {
    let program = Path::new("/usr/sbin/dovecot");
    let is_root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    if !program.exists() || !is_root {
        println!("skipped: dovecot is not installed, or this is not root");
        return None;
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    drop(listener);
    let dir = place.display();
    fs::set_permissions(place, fs::Permissions::from_mode(0o777)).expect("own");
    for name in [
        "run",
        "boxes",
        "boxes/agent",
        "boxes/agent/tmp",
        "boxes/agent/new",
        "boxes/agent/cur",
    ] {
        fs::create_dir(place.join(name)).expect("dir");
        if name != "run" {
            chown(place.join(name), Some(65534), Some(65534)).expect("we are root");
        }
    }
    let oauth2 = format!(
        "introspection_mode = auth\nintrospection_url = http://127.0.0.1:{issuer}/\nusername_attribute = email\n\
         active_attribute = active\nactive_value = true\n"
    );
    fs::write(place.join("oauth2"), oauth2).expect("write");
    let settings = format!(
        "base_dir = {dir}/run\nlog_path = {dir}/log\nprotocols = imap\nssl = no\ndisable_plaintext_auth = no\nfirst_valid_uid = 1\n\
         auth_mechanisms = xoauth2\nauth_cache_size = 0\nmail_location = maildir:{dir}/boxes/%n\n\
         passdb {{\n driver = oauth2\n mechanisms = xoauth2\n args = {dir}/oauth2\n}}\n\
         userdb {{\n driver = static\n args = uid=65534 gid=65534 home={dir}/boxes\n}}\nnamespace inbox {{\n inbox = yes\n}}\n\
         service imap-login {{\n chroot =\n inet_listener imap {{\n address = 127.0.0.1\n port = {port}\n }}\n inet_listener imaps {{\n port = 0\n }}\n}}\n"
    );
    fs::write(place.join("conf"), settings).expect("write");
    let server = Command::new(program)
        .arg("-F")
        .arg("-c")
        .arg(place.join("conf"))
        .spawn();
    let server = Running(server.expect("it starts"));
    wait_for("dovecot", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    Some((server, port))
}

fn mail_arrives(place: &Path, words: &str) {
    let mail = format!(
        "Authentication-Results: mx.home.net; dmarc=pass header.from=example.org\r\nFrom: Ada <ada@example.org>\r\nTo: agent@example.org\r\n\
         Message-ID: <{words}@x>\r\nDate: Tue, 24 Nov 2026 10:00:00 +0000\r\nSubject: x\r\n\r\n{words}\r\n"
    );
    let draft = place.join("boxes/agent/tmp").join(words);
    fs::write(&draft, mail).expect("write");
    chown(&draft, Some(65534), Some(65534)).expect("we are root");
    fs::rename(draft, place.join("boxes/agent/new").join(words)).expect("delivered");
}

/// The home of an agent whose daemon leaves and takes nothing: the test does.
struct Home(tempfile::TempDir);

impl Home {
    fn new(imap: u16, smtp: u16) -> Self {
        let home = Self(tempfile::tempdir().expect("dir"));
        for dir in [
            "channels",
            "out",
            "sending",
            "files",
            "spool/tmp",
            "spool/new",
            "replies",
        ] {
            let dir = if dir == "channels" {
                home.path(dir)
            } else {
                home.channel(dir)
            };
            fs::create_dir_all(dir).expect("dir");
        }
        let settings = format!(
            "address = \"agent@example.org\"\nimap = \"imap://127.0.0.1:{imap}\"\nsmtp = \"smtp://127.0.0.1:{smtp}\"\n\
             authserv_id = \"mx.home.net\"\naccess_token_command = \"echo x >>{asked}; echo geheim >&2; cat {token}\"\n",
            asked = home.path("asked").display(),
            token = home.path("token").display(),
        );
        fs::write(home.path("channels/mail.toml"), settings).expect("write");
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn channel(&self, below: &str) -> PathBuf {
        self.path("state/channels/mail").join(below)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent-channel-mail"));
        command.env_clear().env("AGENT_HOME", self.0.path());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    fn start(&self) -> Running {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"));
        let log = log.expect("a log");
        let child = self.command().stdin(Stdio::null()).stderr(log).spawn();
        Running(child.expect("it starts"))
    }

    fn token(&self, token: Token) {
        fs::write(self.path("token"), format!("{}\n", token.0)).expect("write");
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Returns how often the command ran.
    fn asked(&self) -> usize {
        fs::read_to_string(self.path("asked"))
            .unwrap_or_default()
            .lines()
            .count()
    }

    /// Waits until the state of the channel says `why`; nothing is said where all is well.
    fn state_is(&self, why: Option<&str>) {
        wait_for(&format!("the state {why:?}"), || {
            let told = fs::read_to_string(self.channel("channel.json")).unwrap_or_default();
            match why {
                Some(why) => told.contains(&format!("\"problem\":\"{why}")),
                None => told.contains("\"problem\":null"),
            }
        });
    }

    /// Offers an answer to Ada.
    fn answers(&self, key: &str, words: &str) {
        let message = format!(
            r#"{{"v":1,"key":"{key}","chat":"ada@example.org","thread":null,"text":"{words}","plain":"{words}","reply_to":null,"files":[],"reaction":null,"edit_of":null,"buttons":[],"resent":false}}"#
        );
        let draft = self.channel("files").join(key);
        fs::write(&draft, message).expect("write");
        fs::rename(draft, self.channel("out").join(format!("{key}.json"))).expect("offered");
    }

    fn hears(&self, words: &str) {
        wait_for(words, || {
            let lines = fs::read_dir(self.channel("spool/new"))
                .expect("spool")
                .flatten();
            let mut texts = lines.filter_map(|line| fs::read_to_string(line.path()).ok());
            texts.any(|text| text.contains(words) && text.contains("\"ada@example.org\""))
        });
    }
}

#[test]
fn a_token_is_asked_for_at_each_sign_in_and_one_that_ended_is_no_loop() {
    let issuer = Arc::new(Issuer {
        good: Mutex::new(FIRST),
        refused: Mutex::default(),
        sent: Mutex::default(),
    });
    let (who, smtp) = (
        issuer.listen(Issuer::introspect),
        issuer.listen(Issuer::smtp),
    );
    let place = tempfile::tempdir().expect("dir");
    let Some((_server, imap)) = dovecot(place.path(), who) else {
        return;
    };
    let home = Home::new(imap, smtp);
    home.token(FIRST);
    let process = home.start();
    mail_arrives(place.path(), "question-one");
    home.hears("question-one");
    home.answers("1-1", "answer-one");
    wait_for("the first answer", || issuer.has_sent("answer-one"));
    wait_for("the end of that session", || {
        issuer.has_sent("it said goodbye")
    });

    // The token ends, and whoever renews it is late: it is tried again, but not in a loop.
    *issuer.good.lock().expect("no panic") = SECOND;
    let ([before, _], asked) = (issuer.refused(), home.asked());
    home.answers("2-2", "answer-two");
    wait_for("a refusal", || issuer.refused()[0] > before);
    thread::sleep(Duration::from_secs(4));
    let (tries, asked) = (issuer.refused()[0] - before, home.asked() - asked);
    assert!(
        tries <= 5 && asked <= 5,
        "{tries} tries, {asked} tokens in four seconds"
    );
    assert!(
        home.channel("out/2-2.json").exists(),
        "it surely was not sent"
    );
    home.state_is(Some("SMTP at 127.0.0.1: signing in as agent@example.org"));
    // It is renewed: nobody has to start anything.
    home.token(SECOND);
    wait_for("the second answer", || issuer.has_sent("answer-two"));
    home.state_is(None);

    // The mailbox wants the new one as well, at the next sign-in.
    drop(process);
    mail_arrives(place.path(), "question-two");
    fs::remove_file(home.path("token")).expect("it was there");
    let process = home.start();
    home.state_is(Some("access_token_command: it failed"));
    home.token(FIRST);
    home.state_is(Some("IMAP at 127.0.0.1: signing in as agent@example.org"));
    home.token(SECOND);
    home.hears("question-two");
    home.state_is(None);
    drop(process);

    let log = home.log();
    assert!(log.contains("signing in as agent@example.org"), "{log}");
    home.token(FIRST);
    let checked = home.command().arg("--check").output().expect("it runs");
    let told = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert_eq!(checked.status.code(), Some(75), "{told}");
    assert!(
        told.contains("IMAP at 127.0.0.1") && told.contains("signing in as"),
        "{told}"
    );
    for secret in [FIRST.0, FIRST.1, SECOND.0, SECOND.1, "geheim"] {
        assert!(
            !log.contains(secret) && !told.contains(secret),
            "{secret}: {log}{told}"
        );
    }
}
