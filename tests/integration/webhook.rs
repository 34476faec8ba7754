//! Telegram brings messages: who does not know the secret is not heard, what is answered with 200 is on the
//! disk, and nothing is listened on without a webhook.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{FakeModel, FakeTelegram, House, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;

fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0))
        .expect("a port")
        .local_addr()
        .expect("it has one")
        .port()
}

/// A house to which Telegram brings messages, and what it brings them with.
struct Hooked {
    house: House,
    port: u16,
    secret: String,
}

impl Hooked {
    fn new() -> Self {
        let (telegram, model, port) = (FakeTelegram::start(), FakeModel::start(), free_port());
        let sandbox = Sandbox::new().with_telegram(&telegram).with_anthropic(&model).config(&format!(
            "[telegram]\npoll_timeout_secs = 1\nwebhook = \"http://127.0.0.1:{port}/tele/gram\"\n[http]\nlisten = \"127.0.0.1:{port}\""
        ));
        let daemon = sandbox.ready();
        let mut hooked = Self {
            house: House {
                daemon,
                telegram,
                model,
                sandbox,
            },
            port,
            secret: String::new(),
        };
        hooked.learn_secret();
        hooked
    }

    fn learn_secret(&mut self) {
        let call = wait_for("setWebhook", SOON, || {
            let known = &self.secret;
            let calls = self.house.telegram.calls_of("setWebhook");
            calls
                .into_iter()
                .find(|call| call.status == 200 && call.params["secret_token"] != known.as_str())
        });
        assert_eq!(
            call.params["max_connections"].to_string().trim_matches('"'),
            "1"
        );
        assert!(
            call.params["allowed_updates"]
                .to_string()
                .contains("edited_message"),
            "{:?}",
            call.params
        );
        self.secret = call.params["secret_token"]
            .as_str()
            .expect("a secret")
            .to_owned();
        assert_eq!(self.secret.len(), 64);
    }

    fn restart(&mut self) {
        self.house.daemon.signal(nix::sys::signal::Signal::SIGKILL);
        self.house.daemon = self.house.sandbox.daemon();
        self.house.daemon.wait_ready();
        self.learn_secret();
    }

    fn connect(&self) -> TcpStream {
        wait_for("the listener", SOON, || {
            TcpStream::connect(("127.0.0.1", self.port)).ok()
        })
    }

    fn post(&self, path: &str, secret: Option<&str>, body: &[u8]) -> u16 {
        request(self.connect(), "POST", path, secret, body)
    }

    fn bring(&self, update: &Value) -> u16 {
        self.post(
            "/tele/gram",
            Some(&self.secret),
            update.to_string().as_bytes(),
        )
    }
}

/// Returns the status of the answer, 0 when there was none.
fn request(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    secret: Option<&str>,
    body: &[u8],
) -> u16 {
    let secret = secret.map_or_else(String::new, |secret| {
        format!("X-Telegram-Bot-Api-Secret-Token: {secret}\r\n")
    });
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\n{secret}content-length: {}\r\n\r\n",
        body.len()
    );
    // Who is refused at the door need not be heard to the end.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer);
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0)
}

fn update(id: i64, text: &str) -> Value {
    json!({"update_id": id, "message": {
        "message_id": id, "date": 1_700_000_000, "text": text,
        "from": {"id": OWNER, "is_bot": false, "first_name": "Ada"}, "chat": {"id": OWNER, "type": "private"},
    }})
}

#[test]
fn what_is_brought_with_the_secret_is_answered_once_and_nothing_else_is_heard() {
    let mut hooked = Hooked::new();
    assert_eq!(hooked.bring(&update(71, "hello")), 200);
    assert_eq!(
        hooked
            .house
            .telegram
            .wait_sent(|sent| sent.reply_to == Some(71), SOON)
            .text,
        "echo: hello"
    );
    // Telegram did not hear that it was taken.
    assert_eq!(hooked.bring(&update(71, "hello")), 200);
    // What is none of ours is taken, too, or it would come for ever.
    assert_eq!(
        hooked.bring(&json!({"update_id": 72, "poll_answer": {}})),
        200
    );

    let secret = hooked.secret.clone();
    let words = update(73, "nobody's").to_string().into_bytes();
    let check = |path: &str, secret: Option<&str>, body: &[u8], status: u16| {
        assert_eq!(hooked.post(path, secret, body), status, "{path}")
    };
    check("/tele/gram", None, &words, 401);
    check("/tele/gram", Some(""), &words, 401);
    check("/tele/gram", secret.get(..63), &words, 401);
    check("/tele/gram", Some(&secret.to_uppercase()), &words, 401);
    check("/tele", Some(&secret), &words, 404);
    check("/tele/gram/", Some(&secret), &words, 404);
    check("/", Some(&secret), &words, 404);
    check("/tele/gram", Some(&secret), b"{}", 400);
    check("/tele/gram", Some(&secret), b"\xff\xfe", 400);
    check("/tele/gram", Some(&secret), &vec![b' '; (1 << 20) + 1], 413);
    assert_eq!(
        request(hooked.connect(), "GET", "/tele/gram", Some(&secret), b""),
        404
    );
    // Not even the length is believed: nothing of the body was sent, and the answer is there.
    let mut stream = hooked.connect();
    stream
        .write_all(b"POST /tele/gram HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n\r\n")
        .expect("open");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 401");

    // Half a letter (one surrogate of a pair) must not make it come for ever.
    let half = update(74, "the last").to_string();
    let half = half.replace("last", "last\\ud83d");
    check("/tele/gram", Some(&secret), half.as_bytes(), 200);
    hooked
        .house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(74), SOON);
    assert_eq!(hooked.house.model.requests().len(), 2);
    assert_eq!(hooked.house.telegram.calls_of("getUpdates").len(), 0);
    let channel =
        || hooked.house.sandbox.send(&["--status", "--json"]).json()["channels"][0].clone();
    let told = wait_for("the last update", SOON, || {
        Some(channel()).filter(|channel| channel["last_update_at"].is_string())
    });
    assert_eq!(
        (&told["mode"], &told["state"]),
        (&json!("webhook"), &json!("ok")),
        "{told}"
    );
    assert!(
        hooked
            .house
            .sandbox
            .send(&["--status"])
            .stdout
            .contains("telegram: ok (webhook)")
    );

    // Somebody else takes it away; it is set again with the same secret. A new daemon has a new one.
    let set = hooked.house.telegram.calls_of("setWebhook").len();
    hooked
        .house
        .telegram
        .set_webhook("https://example.org/elsewhere");
    wait_for("the webhook to be set again", SOON, || {
        (hooked.house.telegram.calls_of("setWebhook").len() > set).then_some(())
    });
    hooked.restart();
    assert_ne!(hooked.secret, secret);
    assert_eq!(hooked.bring(&update(75, "after all that")), 200);
    hooked
        .house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(75), SOON);
    let printed = hooked.house.daemon.log();
    assert!(
        !printed.contains(&secret) && !printed.contains(&hooked.secret),
        "the secret is told to nobody"
    );
}

#[test]
fn slow_and_many_connections_do_not_keep_telegram_out() {
    let hooked = Hooked::new();
    let began = Instant::now();
    // A header that never ends, and bodies that never come, on more connections than are served.
    let mut open = Vec::new();
    for number in 0..40 {
        let mut stream = hooked.connect();
        let head = format!(
            "POST /tele/gram HTTP/1.1\r\nX-Telegram-Bot-Api-Secret-Token: {}\r\n",
            hooked.secret
        );
        stream.write_all(head.as_bytes()).expect("open");
        if number % 2 == 0 {
            stream
                .write_all(b"host: x\r\ncontent-length: 100\r\n\r\n{")
                .expect("open");
        }
        open.push(stream);
    }
    assert_eq!(hooked.house.sandbox.send(&["--wait", "hello"]).code, 0);
    assert_eq!(hooked.bring(&update(81, "behind them")), 200);
    assert!(
        began.elapsed() < Duration::from_secs(18),
        "{:?}",
        began.elapsed()
    );
    hooked
        .house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(81), SOON);
}

#[test]
fn what_cannot_be_stored_comes_again() {
    let hooked = Hooked::new();
    let database =
        rusqlite::Connection::open(hooked.house.sandbox.path("state/queue.db")).expect("own file");
    database
        .execute_batch(
            "CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'full'); END",
        )
        .expect("own table");
    assert_eq!(hooked.bring(&update(91, "later")), 503);
    database
        .execute_batch("DROP TRIGGER full")
        .expect("own table");
    assert_eq!(hooked.bring(&update(91, "later")), 200);
    hooked
        .house
        .telegram
        .wait_sent(|sent| sent.reply_to == Some(91), SOON);
    assert_eq!(hooked.house.model.requests().len(), 1);
}

#[test]
fn an_address_in_use_is_named_and_taken_when_it_is_free() {
    let telegram = FakeTelegram::start();
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = taken.local_addr().expect("it has one");
    let sandbox = Sandbox::new().with_telegram(&telegram).config(&format!(
        "[telegram]\nwebhook = \"https://example.org/\"\n[http]\nlisten = \"{address}\""
    ));
    let _daemon = sandbox.ready();
    let channel = |key: &str| {
        sandbox.send(&["--status", "--json"]).json()["channels"][0][key]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    wait_for("the trouble", SOON, || {
        channel("state")
            .starts_with(&format!("webhook: cannot listen on {address}: "))
            .then_some(())
    });
    assert_eq!(sandbox.send(&["--wait", "hello"]).code, 0);
    drop(taken);
    wait_for("the listener", SOON, || {
        (channel("state") == "ok").then_some(())
    });
}

#[test]
fn a_socket_in_the_file_system_is_listened_on_and_an_abandoned_one_replaced() {
    let telegram = FakeTelegram::start();
    let place = tempfile::tempdir().expect("the temporary directory is writable");
    let path = place.path().join("http");
    let sandbox = Sandbox::new().with_telegram(&telegram).config(&format!(
        "[telegram]\nwebhook = \"https://example.org/\"\n[http]\nlisten = \"unix:{}\"",
        path.display()
    ));
    for _ in 0..2 {
        let daemon = sandbox.ready();
        let stream = wait_for("the socket", SOON, || UnixStream::connect(&path).ok());
        assert_eq!(request(stream, "POST", "/", Some("guess"), b"{}"), 401);
        daemon.kill9();
        assert!(path.exists());
    }
}

#[test]
fn once_fetches_what_waits_though_a_webhook_is_set() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config("[telegram]\nwebhook = \"https://example.org/\"\npoll_timeout_secs = 1");
    telegram.set_webhook("https://example.org/");
    let (_, id) = telegram.say(OWNER, OWNER, "waiting");
    let told = sandbox.run("agent-daemon", &["run", "--once"], "");
    assert_eq!(told.code, 0, "{told:?}");
    assert!(telegram.sent().iter().any(|sent| sent.reply_to == Some(id)));
}

#[test]
fn nothing_is_listened_on_without_a_webhook() {
    let telegram = FakeTelegram::start();
    let port = free_port();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .config(&format!("[http]\nlisten = \"127.0.0.1:{port}\""));
    let daemon = sandbox.ready();
    // Inodes of listening TCP sockets (proc_net(5), state 0A) that this process has open.
    let tables = ["tcp", "tcp6"].map(|table| {
        std::fs::read_to_string(format!("/proc/{}/net/{table}", daemon.pid())).unwrap_or_default()
    });
    let listening: Vec<String> = tables
        .iter()
        .flat_map(|table| {
            table
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>())
        })
        .filter(|fields| fields.get(3) == Some(&"0A"))
        .map(|fields| format!("socket:[{}]", fields[9]))
        .collect();
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid()))
        .expect("an own process")
        .flatten();
    let open: Vec<String> = open
        .filter_map(|fd| Some(std::fs::read_link(fd.path()).ok()?.display().to_string()))
        .collect();
    assert!(
        !listening.is_empty(),
        "the fakes of the tests are among them"
    );
    assert!(open.iter().all(|fd| !listening.contains(fd)), "{open:?}");
}

#[test]
fn an_address_that_telegram_could_not_use_is_refused_at_the_start() {
    for (settings, key) in [
        (
            "[telegram]\nwebhook = \"http://example.org/telegram\"",
            "telegram.webhook",
        ),
        ("[http]\nlisten = \"8100\"", "http.listen"),
    ] {
        let told = Sandbox::new()
            .config(settings)
            .run("agent-daemon", &["check"], "");
        assert!(told.code == 78 && told.stderr.contains(key), "{told:?}");
    }
}
