//! An address that a server wants the person to open (`elicitation/create` with the mode `url`): shown whole with its host,
//! opened by nobody but them. Pure.

use reqwest::Url;
use serde_json::Value;

use crate::text;

/// Characters of what the server says of it, and of the address: what cannot be shown whole is not asked about.
const MAX_MESSAGE: usize = 1000;
const MAX_ADDRESS: usize = 2000;
/// The error of a call that wants addresses opened first.
pub(super) const WANTED: i64 = -32042;
/// Addresses of one such error; more would tire the owner.
pub(super) const MOST: usize = 3;

/// An address and what the server says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    message: String,
    url: Url,
}

impl Address {
    /// Reads a question.
    ///
    /// # Errors
    /// Why it cannot be asked, for the server.
    pub(super) fn read(params: &Value) -> Result<Self, String> {
        let written = params["url"].as_str().unwrap_or_default();
        let url = Url::parse(written).map_err(|error| format!("url is no address: {error}"))?;
        // What is shown is what a browser makes of it: a name of other letters as `xn--…`.
        if url.as_str().chars().count() > MAX_ADDRESS {
            return Err(format!("url has more than {MAX_ADDRESS} characters"));
        }
        let has_user = !url.username().is_empty() || url.password().is_some();
        if url.scheme() != "https" || url.host_str().is_none() || has_user {
            return Err("url is none that begins with https:// and a host".to_owned());
        }
        let message = params["message"].as_str().unwrap_or_default().trim();
        Ok(Self {
            message: text::shorten(message, MAX_MESSAGE),
            url,
        })
    }

    /// Reads those that an error of a call names; none in one that names too many, or one that cannot be asked about.
    pub(super) fn of_error(data: &Value) -> Vec<Self> {
        let named = data["elicitations"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        if named.len() > MOST {
            return Vec::new();
        }
        let read: Result<Vec<Self>, String> = named.iter().map(Self::read).collect();
        read.unwrap_or_default()
    }

    /// Returns the question as the owner reads it: the words of its second part are the server's.
    pub fn text(&self, server: &str) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self
            .url
            .port()
            .map_or_else(String::new, |port| format!(":{port}"));
        let mut lines = vec![format!(
            "the tool server {server} wants you to open an address at {host}{port}:"
        )];
        lines.push(self.url.as_str().to_owned());
        if !self.message.is_empty() {
            lines.push("It says:".to_owned());
            lines.extend(self.message.lines().map(str::to_owned));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_address_is_shown_whole_as_a_browser_reads_it() {
        let read = |url: &str| Address::read(&json!({"url": url, "message": "Sign in\nto go on"}));
        let address = read("https://id.example:8443/a?b=c").expect("an address");
        assert_eq!(
            address.text("desk"),
            "the tool server desk wants you to open an address at id.example:8443:\nhttps://id.example:8443/a?b=c\nIt says:\nSign in\nto go on"
        );
        // Letters that look like others.
        let address = read("https://gіthub.com/x").expect("an address");
        assert!(
            address.text("desk").contains("at xn--gthub-n2e.com:"),
            "{}",
            address.text("desk")
        );
        for bad in [
            "http://id.example/",
            "https://id.example@evil.example/",
            "https://u:p@id.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "https://",
            "",
            &format!("https://id.example/{}", "a".repeat(3000)),
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_error_names_a_few_addresses_or_none() {
        let one = json!({"mode": "url", "url": "https://id.example/", "elicitationId": "e1"});
        let of = |named: Vec<Value>| Address::of_error(&json!({"elicitations": named})).len();
        assert_eq!((of(vec![one.clone()]), of(vec![one.clone(); 4])), (1, 0));
        assert_eq!(of(vec![one, json!({"url": "http://x/"})]), 0);
        assert_eq!(Address::of_error(&Value::Null), Vec::new());
    }
}
