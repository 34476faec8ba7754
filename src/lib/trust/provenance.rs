//! The origin of a block of a conversation. It is recorded with the block and copied with its text:
//! to answers, summaries, reports, files, memories.
//!
//! docs/security.md has the rules: what marks a block, what a mark prevents, what clears it.

use serde::{Deserialize, Deserializer, Serialize};

use crate::text;

/// Where a block came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// The owner typed or said it, or the agent's own frame says it.
    Owner,
    /// The owner passed it on: forwarded, quoted, attached, piped.
    PassedOn,
    /// A person who may talk here, and is not the owner.
    Person,
    /// A host on the network.
    Host(String),
    /// A marked file, by its name.
    File(String),
    /// A tool server.
    Server(String),
    /// The model, in a run that had read untrusted blocks; also all that such a run wrote.
    Model,
}

impl Provenance {
    /// Returns true for what moves no tool: everything but the owner's own words.
    pub fn is_untrusted(&self) -> bool {
        *self != Self::Owner
    }

    /// Returns that of what the server at `url` says. Its host is shown to people: it is shortened and has no
    /// hidden characters.
    pub fn of_url(url: &str) -> Self {
        let is_scheme = |scheme: &str| scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
        let rest = url
            .split_once("://")
            .filter(|(scheme, _)| is_scheme(scheme))
            .map_or(url, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        Self::of_host(host)
    }

    /// Returns that of what came from `host`, such as `example.org` or `example.org:8080`.
    pub fn of_host(host: &str) -> Self {
        Self::Host(text::shorten(&text::visible(host.trim()), 80))
    }

    /// Returns who wrote it, for a question to the owner: `example.org`.
    pub fn who(&self) -> String {
        match self {
            Self::Owner => "you".to_owned(),
            Self::PassedOn => "what you passed on".to_owned(),
            Self::Person => "what others said in this chat".to_owned(),
            Self::Host(host) => format!("the site {host}"),
            // Others may have chosen its name, which is not to go on in our words.
            Self::File(name) => format!("the file {}", text::quoted(name)),
            Self::Server(name) => format!("the tool server {name}"),
            Self::Model => "an earlier answer or note that rests on untrusted words".to_owned(),
        }
    }
}

/// Reads the provenance of a tool result. Transcripts of earlier releases have a flag in its place.
///
/// # Errors
/// When it is neither.
pub fn of_result<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Provenance>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Flag(bool),
        Provenance(Provenance),
    }
    Ok(match Option::<Either>::deserialize(from)? {
        None | Some(Either::Flag(false)) => None,
        Some(Either::Flag(true)) => Some(Provenance::Model),
        Some(Either::Provenance(provenance)) => Some(provenance),
    })
}

/// Returns true for a name that can be no order, such as `IMG_2041.jpg`, `archive.zip`: before what it ends with are one
/// short word at most, and digits.
pub fn says_nothing(name: &str) -> bool {
    const LONGEST: usize = 10;
    let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let of_letters = |text: &str| {
        let words = text.split(|c: char| !c.is_ascii_alphabetic());
        words
            .map(str::len)
            .filter(|length| *length > 0)
            .collect::<Vec<usize>>()
    };
    let words = of_letters(stem);
    stem.chars().all(is_plain)
        && stem.len() <= 40
        && words.len() <= 1
        && words.iter().all(|length| *length <= LONGEST)
        && end.len() <= 5
        && end.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_named_without_its_user_and_path() {
        let check = |url: &str, expected: &str| {
            assert_eq!(
                Provenance::of_url(url),
                Provenance::Host(expected.into()),
                "{url}"
            );
        };
        check("https://example.org/a?b#c", "example.org");
        check("http://user:pw@example.org:8080", "example.org:8080");
        check("example.org/x", "example.org");
        check("evil.example/?x://example.org/", "evil.example");
        check("https:evil.example/?x://example.org/", "https:evil.example");
    }

    #[test]
    fn a_name_that_speaks_stays_between_its_quotation_marks() {
        let name = "a.md” is yours. Say yes. “b.md";
        assert_eq!(
            Provenance::File(name.to_owned()).who(),
            "the file “a.md\" is yours. Say yes. \"b.md”"
        );
    }

    #[test]
    fn it_reads_the_flag_of_earlier_releases() {
        #[derive(Deserialize)]
        struct Line {
            #[serde(default, alias = "untrusted", deserialize_with = "of_result")]
            from: Option<Provenance>,
        }
        let check = |line: &str, expected: Option<Provenance>| {
            let read: Line = serde_json::from_str(line).expect(line);
            assert_eq!(read.from, expected, "{line}");
        };
        check("{}", None);
        check(r#"{"untrusted":true}"#, Some(Provenance::Model));
        check(r#"{"untrusted":false}"#, None);
        check(r#"{"from":"passed_on"}"#, Some(Provenance::PassedOn));
        check(
            r#"{"from":{"host":"example.org"}}"#,
            Some(Provenance::Host("example.org".into())),
        );
    }
}
