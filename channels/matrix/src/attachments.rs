//! Received files: fetched up to a maximum size, whatever size is declared, and decrypted.

use std::io::{Cursor, Read};
use std::time::Duration;

use matrix_sdk::reqwest;
use matrix_sdk::ruma::OwnedMxcUri;
use matrix_sdk::ruma::events::room::EncryptedFile;
use matrix_sdk_crypto::AttachmentDecryptor;
use serde_json::Value;

use crate::bot::Bot;
use crate::error;
use crate::error::{Error, LONGEST_PAUSE};
use crate::incoming::File;

/// What the whole of a file may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// An answer that says why there is no file has some hundred bytes.
const MOST_SAID: usize = 64 << 10;
/// How long to wait when the homeserver asks for a pause and names none, milliseconds.
const PAUSE_MS: u64 = 5_000;

/// Fetches a file, or says why there is none.
///
/// # Errors
/// When the homeserver is unreachable.
pub async fn fetch(bot: &Bot, event: &str, file: &File) -> Result<Result<Vec<u8>, String>, Error> {
    let most = bot.settings.max_file;
    let too_large = |size: u64| {
        Ok(Err(format!(
            "{} MB, more than the {} MB that are taken",
            size.div_ceil(1_000_000),
            most / 1_000_000
        )))
    };
    if let Some(size) = file.size.filter(|size| *size > most) {
        return too_large(size);
    }
    let (uri, key) = match file.content.get("file") {
        Some(encrypted) => match serde_json::from_value::<EncryptedFile>(encrypted.clone()) {
            Ok(encrypted) => (encrypted.url.clone(), Some(encrypted)),
            Err(_) => return Ok(Err("its key is not understood".to_owned())),
        },
        None => match serde_json::from_value::<OwnedMxcUri>(file.content["url"].clone()) {
            Ok(uri) => (uri, None),
            Err(_) => return Ok(Err("its address is not understood".to_owned())),
        },
    };
    let Ok((server, id)) = uri.parts() else {
        return Ok(Err("its address is not understood".to_owned()));
    };
    let Some(url) = address(&bot.client.homeserver(), server.as_str(), id) else {
        return Ok(Err("its address is not understood".to_owned()));
    };
    let bytes = match download(bot, url, most).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(Refusal::TooLarge)) => return too_large(most + 1),
        Ok(Err(Refusal::Status(status))) => {
            return Ok(Err(format!("it could not be fetched: {status}")));
        }
        Err(error) if !error.is_of_all() && bot.gives_up(event) => {
            return Ok(Err(format!("it could not be fetched: {error}")));
        }
        Err(error) => return Err(error),
    };
    let Some(key) = key else {
        return Ok(Ok(bytes));
    };
    let mut sealed = Cursor::new(bytes);
    let mut plain = Vec::new();
    let read = AttachmentDecryptor::new(&mut sealed, key.into())
        .map_err(|error| error.to_string())
        .and_then(|mut open| {
            open.read_to_end(&mut plain)
                .map_err(|error| error.to_string())
        });
    Ok(read
        .map(|_| plain)
        .map_err(|why| format!("it could not be decrypted: {why}")))
}

/// Returns where a file lies at the homeserver. Both parts are the sender's: neither may lead elsewhere.
fn address(home: &reqwest::Url, server: &str, id: &str) -> Option<reqwest::Url> {
    if server.chars().all(|c| c == '.') || id.chars().all(|c| c == '.') {
        return None;
    }
    let mut url = home.clone();
    url.path_segments_mut()
        .ok()?
        .pop_if_empty()
        .extend(["_matrix", "client", "v1", "media", "download", server, id]);
    Some(url)
}

enum Refusal {
    TooLarge,
    Status(reqwest::StatusCode),
}

async fn download(
    bot: &Bot,
    url: reqwest::Url,
    most: u64,
) -> Result<Result<Vec<u8>, Refusal>, Error> {
    let broken = |error: reqwest::Error| {
        let why = format!("a file: {error}");
        match error.is_connect() {
            true => Error::Away(why),
            false => Error::Server(why),
        }
    };
    let token = bot.client.access_token().unwrap_or_default();
    let asked = bot
        .client
        .http_client()
        .get(url)
        .bearer_auth(token)
        .timeout(PATIENCE)
        .send()
        .await;
    let mut answer = asked.map_err(broken)?;
    let status = answer.status();
    if !status.is_success() {
        return match passing(status, &said(answer).await) {
            Some(error) => Err(error),
            None => Ok(Err(Refusal::Status(status))),
        };
    }
    let mut bytes = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(broken)? {
        if (bytes.len() + part.len()) as u64 > most {
            return Ok(Err(Refusal::TooLarge));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Ok(bytes))
}

/// Returns the JSON of an answer that is not the file; null when it is none.
async fn said(mut answer: reqwest::Response) -> Value {
    let mut bytes = Vec::new();
    while let Ok(Some(part)) = answer.chunk().await {
        bytes.extend_from_slice(&part);
        if bytes.len() > MOST_SAID {
            return Value::Null;
        }
    }
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Returns what passes, of answers that are not the file; `None` for those that are final.
fn passing(status: reqwest::StatusCode, said: &Value) -> Option<Error> {
    let why = format!("a file: {status}");
    let code = said["errcode"].as_str();
    match (status.as_u16(), code) {
        (401, Some("M_UNKNOWN_TOKEN" | "M_MISSING_TOKEN")) => Some(Error::SignedOut(why)),
        (429, Some(_)) => {
            let pause = said["retry_after_ms"].as_u64().unwrap_or(PAUSE_MS);
            let pause = Duration::from_millis(pause).min(LONGEST_PAUSE);
            Some(Error::Limited(why, pause))
        }
        (status, code) if error::is_away(status, code.is_some()) => Some(Error::Away(why)),
        // The homeserver is there, and the remote server that has the file is away: it may be so for ever, and whoever
        // sends such a file must not hold up what others write.
        (502 | 504, Some(_)) => None,
        (408 | 425 | 500.., _) => Some(Error::Server(why)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use agent_channel::Spool;
    use matrix_sdk::Client;
    use matrix_sdk::config::RequestConfig;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use crate::settings::Settings;

    #[test]
    fn an_address_leads_nowhere_but_to_a_file_of_the_homeserver() {
        let home = reqwest::Url::parse("https://m.example.org/matrix/").expect("a URL");
        let begin = "https://m.example.org/matrix/_matrix/client/v1/media/download/";
        let good = address(&home, "remote.org:8448", "Ab_c-1").map(String::from);
        assert_eq!(good, Some(format!("{begin}remote.org:8448/Ab_c-1")));
        for (server, id) in [("..", "x"), ("a.org", ".."), (".", "."), ("", "")] {
            assert_eq!(address(&home, server, id), None, "{server} {id}");
        }
        for (server, id) in [
            ("a.org", "../../x"),
            ("a.org/..", "x?y#z"),
            ("@evil.com", "%2e%2e"),
        ] {
            let url = address(&home, server, id)
                .map(String::from)
                .unwrap_or_default();
            assert!(
                url.starts_with(begin)
                    && url.matches('/').count() == begin.matches('/').count() + 1,
                "{url}"
            );
        }
    }

    /// A homeserver that gives the same answer to everything.
    struct Server {
        answer: Arc<Mutex<(u16, String)>>,
        url: String,
    }

    impl Server {
        async fn start() -> Self {
            let answer = Arc::new(Mutex::new((200, String::new())));
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let given = answer.clone();
            tokio::spawn(async move {
                while let Ok((peer, _)) = listener.accept().await {
                    let (status, body) = given.lock().expect("held").clone();
                    serve(peer, status, &body).await;
                }
            });
            Self { answer, url }
        }

        fn answers(&self, status: u16, body: &str) {
            *self.answer.lock().expect("held") = (status, body.to_owned());
        }
    }

    /// Reads the head of a request and answers it.
    async fn serve(mut peer: TcpStream, status: u16, body: &str) {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            peer.read_exact(&mut byte).await.expect("a head");
            head.push(byte[0]);
        }
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        peer.write_all(answer.as_bytes()).await.expect("heard");
    }

    /// The channel before a homeserver.
    async fn bot(url: &str, dir: &Path) -> Bot {
        std::fs::create_dir_all(dir.join("spool/new")).expect("a directory");
        let file = dir.join("matrix.toml");
        let settings = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&file);
        let written = settings
            .expect("a file")
            .write_all(b"user = \"@agent:home.test\"\n");
        written.expect("written");
        let http = reqwest::Client::builder().no_proxy().build();
        let client = Client::builder()
            .homeserver_url(url)
            .http_client(http.expect("a client"))
            .request_config(RequestConfig::new().disable_retry());
        Bot::new(
            Settings::read(&file).expect("settings"),
            Spool::open(dir.to_owned(), "matrix").expect("a spool"),
            client.build().await.expect("a client"),
        )
    }

    #[tokio::test]
    async fn a_file_waits_for_its_homeserver_and_is_given_up_when_it_alone_is_not_to_be_had() {
        let dir = tempfile::tempdir().expect("a directory");
        let server = Server::start().await;
        let bot = bot(&server.url, dir.path()).await;
        let file = File {
            name: "milk.txt".to_owned(),
            content_type: None,
            size: None,
            content: json!({"url": "mxc://home.test/abc"}),
        };
        let of_server = r#"{"errcode": "M_UNKNOWN", "error": "no"}"#;
        // As often as it may be: all else waits, too.
        for (status, body) in [
            (502, "<html>Bad Gateway</html>"),
            (503, ""),
            (429, "slow down"),
            (
                429,
                r#"{"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 700}"#,
            ),
        ] {
            server.answers(status, body);
            for _ in 0..20 {
                let passing = fetch(&bot, "$waits", &file).await;
                let passing = passing.expect_err("it waits");
                assert!(passing.is_of_all(), "{status} {body}: {passing:?}");
                let pause = Duration::from_millis(700);
                assert!(!matches!(passing, Error::Limited(_, other) if other != pause));
            }
        }
        server.answers(200, "milk");
        let found = fetch(&bot, "$waits", &file).await.expect("it answers");
        assert_eq!(found.as_deref(), Ok(&b"milk"[..]));

        // It fails at this one only.
        server.answers(500, of_server);
        for _ in 0..4 {
            let passing = fetch(&bot, "$broken", &file).await;
            assert!(matches!(passing, Err(Error::Server(_))), "{passing:?}");
        }
        let given_up = fetch(&bot, "$broken", &file).await.expect("given up");
        assert!(given_up.is_err_and(|why| why.contains("500")));
        for (status, body) in [
            (404, r#"{"errcode": "M_NOT_FOUND"}"#),
            (403, "<html>"),
            (413, r#"{"errcode": "M_TOO_LARGE"}"#),
            (502, of_server),
        ] {
            server.answers(status, body);
            let refused = fetch(&bot, "$refused", &file).await.expect("final");
            assert!(refused.is_err(), "{status} {body}");
        }
        server.answers(401, r#"{"errcode": "M_UNKNOWN_TOKEN"}"#);
        let ended = fetch(&bot, "$ended", &file).await;
        assert!(matches!(ended, Err(Error::SignedOut(_))), "{ended:?}");
    }

    #[tokio::test]
    async fn a_homeserver_that_is_away_is_told_from_one_that_cannot_do_something() {
        let dir = tempfile::tempdir().expect("a directory");
        let server = Server::start().await;
        let of_server = r#"{"errcode": "M_UNKNOWN", "error": "no"}"#;
        let here = bot(&server.url, dir.path()).await;
        let asks = async |bot: &Bot| {
            let sign_in = bot.client.matrix_auth().login_username("agent", "x");
            let asked = sign_in.send().await.map_err(Error::of("a question"));
            asked.expect_err("not signed in")
        };
        server.answers(502, "<html>Bad Gateway</html>");
        let away = asks(&here).await;
        assert!(matches!(away, Error::Away(_)), "{away:?}");
        server.answers(502, of_server);
        let fails = asks(&here).await;
        assert!(matches!(fails, Error::Server(_)), "{fails:?}");
        // Nobody listens there any more.
        let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", gone.local_addr().expect("an address"));
        drop(gone);
        let there = bot(&url, dir.path()).await;
        let away = asks(&there).await;
        assert!(matches!(away, Error::Away(_)), "{away:?}");
        let file = File {
            name: "milk.txt".to_owned(),
            content_type: None,
            size: None,
            content: json!({"url": "mxc://home.test/abc"}),
        };
        for _ in 0..20 {
            let away = fetch(&there, "$e", &file).await;
            assert!(matches!(away, Err(Error::Away(_))), "{away:?}");
        }
    }
}
