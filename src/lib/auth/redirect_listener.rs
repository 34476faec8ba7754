//! The redirect target of the browser: one path on 127.0.0.1, open during a sign-in (RFC 8252 §7.3).

use std::net::Ipv4Addr;
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::oauth::Flow;
use crate::secret::Secret;

/// The longest head of a request, bytes; a code has at most a few hundred.
const MAX_HEAD: usize = 16 * 1024;
/// A connection that says nothing for longer is closed. Browsers open some that they never use.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the browser, or the person, brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callback {
    Code(Secret),
    /// The issuer or the person says no, in the issuer's words.
    Denied(String),
    /// It does not belong to this sign-in.
    Foreign,
}

impl Callback {
    /// Reads what a person pasted: the whole address that the browser could not open, or the code
    /// alone. A bare code has no `state`; that it is ours the issuer checks by the verifier.
    pub fn pasted(flow: &Flow, text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() {
            return None;
        }
        if let Some((_, query)) = text.split_once('?') {
            let path = Url::parse(text).map(|url| url.path().trim_start_matches('/').to_owned());
            let other_path = path.is_ok_and(|path| path != flow.path());
            return Some(if other_path {
                Self::Foreign
            } else {
                Self::of_query(flow, query)
            });
        }
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.contains("://");
        Some(if plain {
            Self::Code(Secret::new(text))
        } else {
            Self::Foreign
        })
    }

    /// The state is looked at first: a page somewhere may send the browser here with anything.
    fn of_query(flow: &Flow, query: &str) -> Self {
        let Ok(url) = Url::parse(&format!("http://127.0.0.1/?{query}")) else {
            return Self::Foreign;
        };
        let field = |key: &str| {
            url.query_pairs()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value.into_owned())
        };
        if flow
            .state()
            .is_some_and(|state| field("state").as_deref() != Some(state.expose()))
        {
            return Self::Foreign;
        }
        if !flow.is_from(field("iss").as_deref()) {
            return Self::Foreign;
        }
        match (
            field("code").filter(|code| !code.is_empty()),
            field("error"),
        ) {
            (_, Some(error)) => {
                let words = field("error_description")
                    .map_or_else(String::new, |words| format!(": {words}"));
                Self::Denied(crate::net::server_text(&format!("{error}{words}")))
            }
            (Some(code), None) => Self::Code(Secret::new(code)),
            (None, None) => Self::Foreign,
        }
    }
}

#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// Opens `port` of 127.0.0.1, or any that is free.
    ///
    /// # Errors
    /// When it is taken.
    pub async fn open(port: Option<u16>) -> std::io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?,
        })
    }

    pub fn port(&self) -> u16 {
        self.listener
            .local_addr()
            .map_or(0, |address| address.port())
    }

    /// Waits for the browser; what does not belong to `flow` is refused, told to `foreign`, and changes
    /// nothing.
    pub async fn wait(&self, flow: &Flow, foreign: impl Fn()) -> Callback {
        let mut open = JoinSet::new();
        let path = flow.path().to_owned();
        loop {
            let asked = tokio::select! {
                accepted = self.listener.accept() => {
                    match accepted {
                        Ok((stream, _)) => drop(open.spawn(tokio::time::timeout(TIMEOUT, head(stream)))),
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                    continue;
                }
                Some(asked) = open.join_next() => asked,
            };
            let Ok(Ok(Some((mut stream, target)))) = asked else {
                continue;
            };
            let (found, query) = target.split_once('?').unwrap_or((&target, ""));
            if found.trim_start_matches('/') != path {
                answer(&mut stream, "404 Not Found", "There is nothing here.").await;
                continue;
            }
            let callback = Callback::of_query(flow, query);
            let (status, text) = match &callback {
                Callback::Code(_) => (
                    "200 OK",
                    "Done. You can close this page and go back to the terminal.",
                ),
                Callback::Denied(_) => (
                    "200 OK",
                    "Nothing was granted. The terminal shows more; you can close this page.",
                ),
                Callback::Foreign => (
                    "400 Bad Request",
                    "This does not belong to the sign-in that waits here. Nothing was done.",
                ),
            };
            answer(&mut stream, status, text).await;
            if callback == Callback::Foreign {
                foreign();
                continue;
            }
            return callback;
        }
    }
}

/// Reads the head of a request; returns the target of a GET.
async fn head(mut stream: TcpStream) -> Option<(TcpStream, String)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 2048];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream
            .read(&mut chunk)
            .await
            .ok()
            .filter(|count| *count > 0)?;
        bytes.extend_from_slice(chunk.get(..count)?);
        if bytes.len() > MAX_HEAD {
            return None;
        }
    }
    let head = String::from_utf8(bytes).ok()?;
    let mut words = head.lines().next()?.split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some(target)) => {
            let target = target.to_owned();
            Some((stream, target))
        }
        _ => None,
    }
}

/// Answers with one plain page. Its address is not told to anybody, and it is not kept.
async fn answer(stream: &mut TcpStream, status: &str, words: &str) {
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>agent-daemon</title><p>{words}</p>\n"
    );
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\n\r\n",
        page.len()
    );
    // The browser may have gone; what it brought counts nevertheless.
    let _ = stream.write_all(format!("{head}{page}").as_bytes()).await;
    let _ = stream.shutdown().await;
}
