//! The bearer token: whether it is strong enough, and whether a request has it.
//!
//! Anyone who has it is the owner, so it must not be guessable. On an address that other machines can reach it must have
//! 128 bits; on this machine only, a short one is accepted with a warning. Placeholders, from examples or from scripts with
//! an unset variable, are refused everywhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use ring::{hmac, rand};

use crate::app::cli::Failure;
use crate::config::{Http, Listen};
use crate::secret::Secret;

/// Words that stand for an unset token, in lower case.
const PLACEHOLDERS: &[&str] = &[
    "agent_http_token",
    "changeit",
    "changeme",
    "change-me",
    "change_me",
    "default",
    "example",
    "none",
    "null",
    "password",
    "placeholder",
    "replaceme",
    "replace-me",
    "replace_me",
    "secret",
    "todo",
    "token",
    "undefined",
    "your-token",
    "your_token",
    "your-token-here",
    "your_token_here",
    "yourtoken",
];
/// What a token must be worth where others can try theirs.
const MIN_BITS: f64 = 128.0;
/// A random one of that strength has more different characters, except for one in a million.
const MIN_DIFFERENT: usize = 8;

/// A hint how to make a good one.
pub(crate) const HOW_TO_MAKE_A_TOKEN: &str =
    "make one: openssl rand -hex 32; put it into .env (mode 0600) as";

/// How strong a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strength {
    /// At least 128 bits.
    Good,
    /// It can be guessed by many tries.
    Weak,
    /// A placeholder, or not allowed in a header.
    Refused(&'static str),
}

/// Returns what `token` is worth.
pub(crate) fn strength(token: &Secret) -> Strength {
    let text = token.expose();
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Strength::Refused(
            "has characters that a header cannot hold; use ASCII letters, digits and punctuation",
        );
    }
    let lower = text.to_ascii_lowercase();
    let is_one_letter = |text: &str| text.len() >= 3 && text.chars().all(|c| text.starts_with(c));
    let named = lower.trim_matches(|c| "<>{}$[]\"'".contains(c));
    if PLACEHOLDERS.contains(&named) || is_one_letter(&lower) {
        return Strength::Refused("is a placeholder, not a secret");
    }
    if bits(text) >= MIN_BITS {
        Strength::Good
    } else {
        Strength::Weak
    }
}

/// Returns what a random text of such letters and such a length is worth; nothing for one that repeats itself.
fn bits(text: &str) -> f64 {
    let of = |fits: fn(&u8) -> bool| text.bytes().all(|byte| fits(&byte));
    let letters: f64 = match () {
        () if of(u8::is_ascii_digit) => 10.0,
        () if of(u8::is_ascii_hexdigit) => 16.0,
        () if of(u8::is_ascii_alphanumeric)
            && !text.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            36.0
        }
        () => 62.0,
    };
    let mut different: Vec<u8> = text.bytes().collect();
    different.sort_unstable();
    different.dedup();
    let bytes = text.as_bytes();
    let repeats = (1..=bytes.len() / 2).any(|period| {
        bytes
            .iter()
            .zip(bytes.iter().skip(period))
            .all(|(a, b)| a == b)
    });
    if different.len() < MIN_DIFFERENT || repeats {
        return 0.0;
    }
    f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX)) * letters.log2()
}

/// Returns a warning about the token, if there is one.
///
/// # Errors
/// When the API must not be opened with it, or without one.
pub(super) fn check_token(http: &Http, token: Option<&Secret>) -> Result<Option<String>, Failure> {
    let name = &http.token_env;
    let fail =
        |words: String| Err(Failure::config(words).hint(format!("{HOW_TO_MAKE_A_TOKEN} {name}=…")));
    let Some(token) = token else {
        return match http.address() {
            // Only the agent's user can open the socket.
            Some(Listen::Unix(_)) => Ok(None),
            _ => fail(format!(
                "[http] is enabled on {} and the token {name} is not set",
                http.listen
            )),
        };
    };
    judged(http, token, name, &format!("the token {name} of [http]"))
}

/// Returns the secret of a webhook, which `what` names, and a warning about it if there is one.
///
/// # Errors
/// When there is none, or it must not be used.
pub(super) fn checked(
    http: &Http,
    secret: Option<Secret>,
    variable: &str,
    what: &str,
) -> Result<(Secret, Option<String>), Failure> {
    let secret = secret.ok_or_else(|| {
        Failure::config(format!("{what} is not set"))
            .hint(format!("{HOW_TO_MAKE_A_TOKEN} {variable}=…"))
    })?;
    let warning = judged(http, &secret, variable, what)?;
    Ok((secret, warning))
}

/// Returns a warning about a secret of this strength, if there is one.
fn judged(http: &Http, token: &Secret, name: &str, what: &str) -> Result<Option<String>, Failure> {
    let fail =
        |words: String| Err(Failure::config(words).hint(format!("{HOW_TO_MAKE_A_TOKEN} {name}=…")));
    match strength(token) {
        Strength::Good => Ok(None),
        Strength::Refused(why) => fail(format!("{what} {why}")),
        Strength::Weak if http.is_local() => Ok(Some(format!(
            "{what} is weak; {HOW_TO_MAKE_A_TOKEN} {name}=…, and restart the daemon"
        ))),
        Strength::Weak => fail(format!(
            "{what} is too weak for {}, which other machines can reach: it needs 128 bits",
            http.listen
        )),
    }
}

/// Compares tokens in constant time.
pub(super) struct TokenCheck {
    /// A random key and the token's HMAC under it, so that not even the token's length shows.
    expected: Option<(hmac::Key, hmac::Tag)>,
}

/// The credentials of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Credentials {
    /// The token, or none is needed.
    Valid,
    /// None.
    Missing,
    /// A wrong token, or two.
    Invalid,
}

impl TokenCheck {
    /// Returns the check of `token`; without one every request is the owner's.
    ///
    /// # Errors
    /// When this machine gives no random numbers.
    pub(super) fn new(token: Option<&Secret>) -> Result<Self, Failure> {
        let tagged = |token: &Secret| {
            let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new())
                .map_err(|_| Failure::failed("this machine gives no random numbers"))?;
            let tag = hmac::sign(&key, token.expose().as_bytes());
            Ok::<_, Failure>((key, tag))
        };
        Ok(Self {
            expected: token.map(tagged).transpose()?,
        })
    }

    /// Returns the credentials of the header `Authorization: Bearer`. A token in a URL does not count:
    /// URLs are logged.
    pub(super) fn bearer(&self, headers: &HeaderMap) -> Credentials {
        self.credentials(headers, |scheme, token| {
            scheme
                .eq_ignore_ascii_case(b"bearer")
                .then(|| token.to_owned())
        })
    }

    /// Returns true for the secret itself.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        let expected = self.expected.as_ref();
        expected.is_none_or(|(key, tag)| hmac::verify(key, given, tag.as_ref()).is_ok())
    }

    /// The same for a browser (`Authorization: Basic`): the token is the password, the name is ignored.
    pub(super) fn basic(&self, headers: &HeaderMap) -> Credentials {
        self.credentials(headers, |scheme, given| {
            let pair = scheme
                .eq_ignore_ascii_case(b"basic")
                .then(|| STANDARD.decode(given).ok())
                .flatten()?;
            let at = pair.iter().position(|byte| *byte == b':')?;
            pair.get(at + 1..).map(<[u8]>::to_owned)
        })
    }

    fn credentials(
        &self,
        headers: &HeaderMap,
        token_in: impl Fn(&[u8], &[u8]) -> Option<Vec<u8>>,
    ) -> Credentials {
        let Some((key, tag)) = &self.expected else {
            return Credentials::Valid;
        };
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let (Some(one), None) = (given.next(), given.next()) else {
            return if headers.contains_key(AUTHORIZATION) {
                Credentials::Invalid
            } else {
                Credentials::Missing
            };
        };
        let bytes = one.as_bytes();
        let Some((scheme, token)) = bytes
            .iter()
            .position(|byte| *byte == b' ')
            .map(|at| bytes.split_at(at))
        else {
            return Credentials::Invalid;
        };
        let token = token_in(scheme, token.trim_ascii());
        let is_same = token.is_some_and(|token| hmac::verify(key, &token, tag.as_ref()).is_ok());
        if is_same {
            Credentials::Valid
        } else {
            Credentials::Invalid
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_refused_and_short_ones_are_weak() {
        let check = |text: &str, expected: Strength| {
            assert_eq!(strength(&Secret::new(text)), expected, "{text}")
        };
        let refused = Strength::Refused("is a placeholder, not a secret");
        for text in [
            "changeme",
            "CHANGE_ME",
            "secret",
            "token",
            "xxx",
            "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
            "<your-token>",
            "null",
        ] {
            check(text, refused);
        }
        for text in [
            "x",
            "test-token",
            "0123456789abcdef",
            "12345678901234567890123456789012345678",
            "correcthorsebattery",
            "abcdefgh12abcdefgh12abcdefgh12abcdefgh12",
            "0101010101010101010101010101010101010101010101010101010101",
        ] {
            check(text, Strength::Weak);
        }
        for text in [
            "9f86d081884c7d659a2feaa0c55ad015",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "4hSgMyU3Ff_TRAwA1o1oWg",
            "sk-2b1f8e6c0d9a4f7b3e5c8d1a6f0b4e7c",
        ] {
            check(text, Strength::Good);
        }
        assert!(matches!(
            strength(&Secret::new("two words")),
            Strength::Refused(_)
        ));
        assert!(matches!(
            strength(&Secret::new("schlüssel")),
            Strength::Refused(_)
        ));
    }

    #[test]
    fn where_others_can_try_a_token_must_be_good_and_no_token_is_for_sockets() {
        let strong = Secret::new("9f86d081884c7d659a2feaa0c55ad015");
        let weak = Secret::new("test-token");
        let check = |listen: &str, token: Option<&Secret>, expected: &str| {
            let http = Http {
                enabled: true,
                listen: listen.to_owned(),
                ..Http::default()
            };
            let said = match check_token(&http, token) {
                Ok(None) => "open".to_owned(),
                Ok(Some(warning)) => warning,
                Err(failure) => format!("{:?}: {}", failure.exit, failure.message),
            };
            assert!(said.starts_with(expected), "{listen}: {said}");
        };
        check(
            "127.0.0.1:8100",
            None,
            "Config: [http] is enabled on 127.0.0.1:8100 and the token AGENT_HTTP_TOKEN is not set",
        );
        check(
            "127.0.0.1:8100",
            Some(&weak),
            "the token AGENT_HTTP_TOKEN of [http] is weak",
        );
        check(
            "localhost:8100",
            Some(&weak),
            "the token AGENT_HTTP_TOKEN of [http] is weak",
        );
        check("[::1]:8100", Some(&strong), "open");
        check(
            "0.0.0.0:8100",
            Some(&weak),
            "Config: the token AGENT_HTTP_TOKEN of [http] is too weak",
        );
        check("example.org:8100", Some(&weak), "Config: ");
        check("0.0.0.0:8100", Some(&strong), "open");
        check("unix:/run/agent/http", None, "open");
        check(
            "unix:/run/agent/http",
            Some(&Secret::new("changeme")),
            "Config: the token AGENT_HTTP_TOKEN of [http] is a placeholder",
        );
    }

    #[test]
    fn only_one_bearer_header_with_the_whole_token_opens() {
        let guard = TokenCheck::new(Some(&Secret::new("the-token"))).expect("random");
        let bearer = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, value.parse().expect("value"));
            }
            guard.bearer(&headers)
        };
        for values in [
            &["Bearer the-token"][..],
            &["bearer the-token"],
            &["BEARER  the-token "],
        ] {
            assert_eq!(bearer(values), Credentials::Valid, "{values:?}");
        }
        assert_eq!(bearer(&[]), Credentials::Missing);
        for values in [
            &["Bearer the-toke"][..],
            &["Bearer the-token2"],
            &["Bearer"],
            &["Bearer "],
            &["the-token"],
            &["Basic the-token"],
            &["Bearer THE-TOKEN"],
            &["Bearer the-token", "Bearer the-token"],
            &["Bearer the-token", "Bearer wrong"],
        ] {
            assert_eq!(bearer(values), Credentials::Invalid, "{values:?}");
        }
        assert_eq!(
            TokenCheck::new(None)
                .expect("none")
                .bearer(&HeaderMap::new()),
            Credentials::Valid
        );
    }
}
