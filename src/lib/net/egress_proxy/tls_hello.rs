//! The server name in the first message of TLS (RFC 8446 §4.1.2, RFC 6066 §3).

/// A record of TLS: its kind, version and length.
const HEADER: usize = 5;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;

/// What the first bytes of a tunnel are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    /// More is needed to tell.
    Unfinished,
    /// Something else than TLS, or a hello that names no server.
    NoName,
    /// A hello for this server, in lower case.
    Name(String),
    /// A hello that cannot be read, such as one in pieces.
    Damaged,
}

/// Looks at the first bytes that a program sends; at most 16 KiB are needed to tell.
pub(super) fn first(bytes: &[u8]) -> First {
    match bytes {
        [] => First::Unfinished,
        [HANDSHAKE, rest @ ..] if rest.first().is_none_or(|major| *major == 3) => {
            let Some(length) = bytes.get(3..HEADER) else {
                return First::Unfinished;
            };
            let length = usize::from(length[0]) << 8 | usize::from(length[1]);
            match bytes.get(HEADER..HEADER + length) {
                // The kernel's largest record, with what encryption adds.
                None if length > (16 << 10) + 256 => First::Damaged,
                None => First::Unfinished,
                Some(message) => name(message).unwrap_or(First::Damaged),
            }
        }
        _ => First::NoName,
    }
}

/// Takes bytes off the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        let bytes = self.take(bytes)?;
        Some(bytes.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)))
    }

    /// Takes a list that begins with its length in so many bytes.
    fn list(&mut self, length_bytes: usize) -> Option<Reader<'a>> {
        let length = self.number(length_bytes)?;
        self.take(length).map(Reader)
    }
}

fn name(message: &[u8]) -> Option<First> {
    let mut message = Reader(message);
    if message.take(1)? != [CLIENT_HELLO] {
        return None;
    }
    // A hello that continues in another record is longer than this one.
    let mut hello = message.list(3)?;
    hello.take(2 + 32)?;
    hello.list(1)?;
    hello.list(2)?;
    hello.list(1)?;
    if hello.0.is_empty() {
        return Some(First::NoName);
    }
    let mut extensions = hello.list(2)?;
    let mut found = First::NoName;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let mut extension = extensions.list(2)?;
        if kind != usize::from(SERVER_NAME) {
            continue;
        }
        let mut names = extension.list(2)?;
        if names.take(1)? != [0] {
            return None;
        }
        let name = std::str::from_utf8(names.list(2)?.0).ok()?;
        // Which of two a server takes, nobody knows.
        if found != First::NoName || !names.0.is_empty() {
            return None;
        }
        found = First::Name(name.trim_end_matches('.').to_ascii_lowercase());
    }
    Some(found)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a hello for this server.
    pub(crate) fn hello(server: &str) -> Vec<u8> {
        hello_for(&[&[server]])
    }

    /// Returns a hello with an extension for each list of servers.
    fn hello_for(servers: &[&[&str]]) -> Vec<u8> {
        fn with_length(bytes: usize, body: &[u8]) -> Vec<u8> {
            let length = body.len().to_be_bytes();
            [&length[length.len() - bytes..], body].concat()
        }
        let name = |server: &&str| [&[0][..], &with_length(2, server.as_bytes())].concat();
        let extension = |kind: u8, body: &[u8]| [&[0, kind][..], &with_length(2, body)].concat();
        let names = |servers: &&[&str]| {
            let names: Vec<u8> = servers.iter().flat_map(name).collect();
            extension(0, &with_length(2, &names))
        };
        let names: Vec<u8> = servers.iter().flat_map(names).collect();
        let extensions = with_length(2, &[extension(43, b"\x02\x03\x04"), names].concat());
        let body = [
            &[3, 3][..],
            &[7; 32],
            &with_length(1, &[1; 32]),
            &with_length(2, &[0x13, 1]),
            &with_length(1, &[0]),
            &extensions,
        ]
        .concat();
        let message = [&[CLIENT_HELLO][..], &with_length(3, &body)].concat();
        [&[HANDSHAKE, 3, 1][..], &with_length(2, &message)].concat()
    }

    #[test]
    fn a_hello_is_read_when_it_is_whole() {
        let bytes = hello("A.example.");
        assert_eq!(first(&bytes), First::Name("a.example".to_owned()));
        for end in 0..bytes.len() {
            assert_eq!(first(&bytes[..end]), First::Unfinished, "{end}");
        }
        assert_eq!(first(b"SSH-2.0-OpenSSH"), First::NoName);
        assert_eq!(first(b"GET / HTTP/1.1"), First::NoName);
    }

    #[test]
    fn a_hello_with_two_names_is_damaged() {
        assert_eq!(first(&hello_for(&[])), First::NoName);
        for two in [
            &[&["a.example", "b.example"][..]][..],
            &[&["a.example"], &["b.example"]],
        ] {
            assert_eq!(first(&hello_for(two)), First::Damaged, "{two:?}");
        }
    }

    #[test]
    fn a_hello_in_pieces_is_not_taken_for_one_without_a_name() {
        let bytes = hello("a.example");
        let (half, rest) = bytes[HEADER..].split_at(20);
        let record = |part: &[u8]| {
            let length = u16::try_from(part.len()).expect("short").to_be_bytes();
            [&[HANDSHAKE, 3, 1][..], &length, part].concat()
        };
        assert_eq!(
            first(&[record(half), record(rest)].concat()),
            First::Damaged
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_something(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = first(&bytes);
            let _ = first(&[&[22, 3, 1, 0, 200][..], &bytes].concat());
        }
    }
}
