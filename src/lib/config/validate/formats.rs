//! The forms of values: names, addresses, programs, amounts.

use std::path::Path;

use crate::text::HostPort;

pub(super) const NO_VARIABLE: &str =
    "expected the NAME of a variable; the secret itself belongs in .env";

/// A name that can be before `.md`.
pub(super) fn is_prompt_name(name: &str) -> bool {
    (1..=64).contains(&name.chars().count())
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || "_-".contains(c))
}

pub(in crate::config) fn is_http(url: &str) -> bool {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && !url.contains(char::is_whitespace)
}

/// `HOST` or `HOST:PORT`, as an address names them.
pub(super) fn is_host(entry: &str) -> bool {
    let is_name = |host: &str| {
        let is_letter = |c: char| c.is_alphanumeric() || "-._".contains(c);
        !host.is_empty() && host.chars().all(is_letter)
    };
    HostPort::parse(entry)
        .is_some_and(|read| read.port != Some(0) && (is_name(read.host) || read.is_bracketed()))
}

/// Where a token may be sent: nobody reads along.
pub(in crate::config) fn is_private_way(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return is_http(url);
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_here = |host: &str| ["127.0.0.1", "localhost", "[::1]"].contains(&host);
    is_http(url) && HostPort::parse(host).is_some_and(|read| is_here(read.host))
}

/// A name and not, by a slip of the clipboard, a token: those have `:` or `-` or begin with a digit.
pub(in crate::config) fn is_variable(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= 64
        && bytes
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Nothing, or a program that is told where the file is.
pub(super) fn is_command(argv: &[String]) -> bool {
    let whole = |word: &String| !word.contains('\0');
    match argv {
        [] => true,
        [program, arguments @ ..] => {
            !program.is_empty()
                && arguments.iter().any(|word| word.contains("{file}"))
                && argv.iter().all(whole)
        }
    }
}

pub(super) fn can_be_shown(path: &Path) -> bool {
    path.is_absolute()
        && path.parent().is_some()
        && !["/proc", "/sys", "/dev"]
            .iter()
            .any(|dir| path.starts_with(dir))
}

pub(in crate::config) fn is_amount(usd: f64) -> bool {
    usd.is_finite() && usd >= 0.0
}
