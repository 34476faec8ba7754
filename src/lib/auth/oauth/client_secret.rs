//! Authentication of a client with a secret at the token endpoint (RFC 6749 §2.3.1).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::RequestBuilder;
use reqwest::header::{AUTHORIZATION, HeaderValue};

use crate::secret::Secret;

/// The secret of a client, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSecret {
    pub secret: Secret,
    pub stands: Stands,
}

/// Where a secret is in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    /// `client_secret_basic`.
    InHeader,
    /// `client_secret_post`.
    InForm,
}

impl Stands {
    /// Reads the name of RFC 7591 §2; `None` for other ways to prove who one is.
    pub fn named(method: &str) -> Option<Self> {
        match method {
            "client_secret_basic" => Some(Self::InHeader),
            "client_secret_post" => Some(Self::InForm),
            _ => None,
        }
    }

    /// Returns that name.
    pub fn name(self) -> &'static str {
        match self {
            Self::InHeader => "client_secret_basic",
            Self::InForm => "client_secret_post",
        }
    }
}

/// Puts a form into a request, and who the client `id` is. The id is in the form in any case: there are servers that
/// look for it there first.
pub(super) fn with_form<'a>(
    request: RequestBuilder,
    mut form: Vec<(&'a str, &'a str)>,
    id: &'a str,
    secret: Option<&'a ClientSecret>,
) -> RequestBuilder {
    form.push(("client_id", id));
    match secret {
        None => request.form(&form),
        Some(ClientSecret { secret, stands }) => match stands {
            Stands::InForm => {
                form.push(("client_secret", secret.expose()));
                request.form(&form)
            }
            Stands::InHeader => request.header(AUTHORIZATION, basic(id, secret)).form(&form),
        },
    }
}

fn basic(id: &str, secret: &Secret) -> HeaderValue {
    let words = format!("{}:{}", escaped(id), escaped(secret.expose()));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(words)))
        .expect("base64 is ASCII");
    value.set_sensitive(true);
    value
}

/// Returns a text as a form has it, except for the blank: `%20` is read right by those, too, that do not know `+`.
fn escaped(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let escape = |byte: u8| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(secret: Option<&ClientSecret>) -> (Option<String>, String) {
        let request = reqwest::Client::new().post("https://id.example/token");
        let request = with_form(request, vec![("grant_type", "x")], "me:too", secret);
        let request = request.build().expect("a request");
        let header = request.headers().get(AUTHORIZATION);
        let body = request.body().and_then(reqwest::Body::as_bytes);
        (
            header.map(|header| header.to_str().expect("ASCII").to_owned()),
            String::from_utf8(body.expect("a form").to_vec()).expect("UTF-8"),
        )
    }

    #[test]
    fn a_secret_stands_in_the_header_or_in_the_form_and_never_in_both() {
        let secret = |stands| ClientSecret {
            secret: Secret::new("a b+c%/ü"),
            stands,
        };
        assert_eq!(
            sent(None),
            (None, "grant_type=x&client_id=me%3Atoo".to_owned())
        );
        assert_eq!(
            sent(Some(&secret(Stands::InForm))),
            (
                None,
                "grant_type=x&client_id=me%3Atoo&client_secret=a+b%2Bc%25%2F%C3%BC".to_owned()
            )
        );
        let words = STANDARD.encode("me%3Atoo:a%20b%2Bc%25%2F%C3%BC");
        assert_eq!(
            sent(Some(&secret(Stands::InHeader))),
            (
                Some(format!("Basic {words}")),
                "grant_type=x&client_id=me%3Atoo".to_owned()
            )
        );
    }
}
