//! The content type of a response, and its bytes as text.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

use crate::media;

/// How far from its beginning a page says its encoding (HTML standard, 13.2.3.2).
const META_WITHIN: usize = 1024;

/// What an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    Json,
    Text,
    Pdf,
}

/// The header `content-type`, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ContentType {
    /// `text/html`, lower case; empty when nothing was said.
    pub(super) essence: String,
    pub(super) charset: Option<String>,
}

impl ContentType {
    /// Reads `text/html; charset="utf-8"`.
    pub(super) fn of(header: Option<&str>) -> Self {
        let mut parts = header.unwrap_or_default().split(';').map(str::trim);
        let essence = parts.next().unwrap_or_default().to_ascii_lowercase();
        let charset = parts
            .filter_map(|part| part.split_once('='))
            .find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"));
        Self {
            essence,
            charset: charset.map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned()),
        }
    }
}

/// Returns what `bytes` are; a mark in them counts more than what the server says.
///
/// # Errors
/// What it is instead, in a person's words.
pub(super) fn kind(bytes: &[u8], said: &ContentType) -> Result<Kind, String> {
    match media::sniff(bytes) {
        Some(media::Kind::Pdf) => return Ok(Kind::Pdf),
        Some(media::Kind::Picture(what) | media::Kind::Sound(what)) => {
            return Err(format!("it is {what}, which has no text"));
        }
        Some(media::Kind::Film) => return Err("it is a film, which has no text".to_owned()),
        Some(media::Kind::Other(what)) => {
            return Err(format!("it is {what}, which this tool does not read"));
        }
        None => {}
    }
    match said.essence.as_str() {
        "text/html" | "application/xhtml+xml" => Ok(Kind::Html),
        "application/json" => Ok(Kind::Json),
        essence if essence.ends_with("+json") => Ok(Kind::Json),
        "" | "text/plain" | "application/octet-stream" if looks_like_html(bytes) => Ok(Kind::Html),
        "application/xml"
        | "application/javascript"
        | "application/ecmascript"
        | "application/yaml"
        | "application/toml"
        | "application/x-ndjson"
        | "application/sql" => Ok(Kind::Text),
        essence if essence.starts_with("text/") || essence.ends_with("+xml") => Ok(Kind::Text),
        "" | "application/octet-stream" if media::text(bytes, false).is_some() => Ok(Kind::Text),
        "" => Err("it is no text, and its server does not say what it is".to_owned()),
        essence => Err(format!(
            "it is {:?}, which this tool does not read",
            crate::text::shorten(essence, 80)
        )),
    }
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let start = bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(bytes)
        .trim_ascii_start();
    let begins = |tag: &str| {
        start
            .get(..tag.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
    };
    begins("<!doctype html") || begins("<html")
}

/// Returns the text of `bytes`: by its mark, then by `charset`, which the server said, then (in a page) by
/// what the page says; otherwise it is UTF-8, or what fits everything.
pub(super) fn decode(bytes: &[u8], charset: Option<&str>, is_page: bool) -> String {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return encoding
            .decode_without_bom_handling(bytes.get(mark..).unwrap_or_default())
            .0
            .into_owned();
    }
    let named = charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let named = named.or_else(|| meta(bytes).filter(|_| is_page));
    let encoding = match named {
        Some(encoding) => encoding,
        None if std::str::from_utf8(bytes).is_ok() => UTF_8,
        None => WINDOWS_1252,
    };
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

/// Reads `<meta charset=…>` and `<meta http-equiv=… content="…; charset=…">`.
fn meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = String::from_utf8_lossy(
        bytes
            .get(..META_WITHIN.min(bytes.len()))
            .unwrap_or_default(),
    )
    .to_ascii_lowercase();
    let tags = start
        .split("<meta")
        .skip(1)
        .filter_map(|tag| tag.split('>').next());
    let label = tags
        .filter_map(|tag| tag.split_once("charset"))
        .find_map(|(_, after)| {
            let value = after
                .trim_start()
                .strip_prefix('=')?
                .trim_start()
                .trim_start_matches(['"', '\'']);
            Some(
                value
                    .split(|c: char| c.is_whitespace() || "\"';/".contains(c))
                    .next()?
                    .to_owned(),
            )
        })?;
    let encoding = Encoding::for_label(label.as_bytes())?;
    // What was read as ASCII just now is not UTF-16.
    Some(if encoding.is_ascii_compatible() {
        encoding
    } else {
        UTF_8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_in_the_encoding_that_it_or_its_server_names() {
        let check = |bytes: &[u8], charset: Option<&str>, expected: &str| {
            assert_eq!(decode(bytes, charset, true), expected)
        };
        check("Grüße".as_bytes(), None, "Grüße");
        check(b"\xff\xfeG\0r\0", Some("utf-8"), "Gr");
        check("\u{feff}Grüße".as_bytes(), Some("latin1"), "Grüße");
        check(b"Gr\xfc\xdfe", Some("ISO-8859-1"), "Grüße");
        check(b"Gr\xfc\xdfe", None, "Grüße");
        check(b"\x83e\x83X\x83g", Some("shift_jis"), "テスト");
        check(
            b"<meta charset=shift_jis>\x83e\x83X\x83g",
            None,
            "<meta charset=shift_jis>テスト",
        );
        let old =
            b"<META http-equiv='Content-Type' content='text/html; charset=KOI8-R'>\xf4\xc5\xd3\xd4";
        assert!(decode(old, None, true).ends_with("Тест"));
        assert!(decode(b"<meta charset='utf-16'>gr\xc3\xbc", None, true).ends_with("grü"));
        // The server's word goes before the page's, and what is not a name counts for nothing.
        check(
            b"<meta charset=koi8-r>\xfc",
            Some("latin1"),
            "<meta charset=koi8-r>ü",
        );
        check("ü".as_bytes(), Some("nonsense"), "ü");
        assert_eq!(
            decode(b"<meta charset=koi8-r>\xfc", None, false),
            "<meta charset=koi8-r>ü"
        );
        check(b"a\xc3", Some("utf-8"), "a\u{fffd}");
    }

    #[test]
    fn bytes_count_more_than_what_is_said_of_them() {
        let check = |bytes: &[u8], said: &str, expected: Result<Kind, &str>| {
            assert_eq!(
                kind(bytes, &ContentType::of(Some(said))),
                expected.map_err(str::to_owned),
                "{said}"
            );
        };
        check(b"<p>x", "text/html; charset=utf-8", Ok(Kind::Html));
        check(b"<p>x", "Application/XHTML+xml", Ok(Kind::Html));
        check(b" <!DOCTYPE html><p>", "text/plain", Ok(Kind::Html));
        check(b"<HTML>", "", Ok(Kind::Html));
        check(b"{}", "application/json", Ok(Kind::Json));
        check(b"{}", "application/ld+json", Ok(Kind::Json));
        check(b"<rss/>", "application/rss+xml", Ok(Kind::Text));
        check(b"a,b", "text/csv", Ok(Kind::Text));
        check(b"a", "", Ok(Kind::Text));
        check(b"a", "application/octet-stream", Ok(Kind::Text));
        check(b"%PDF-1.4\n", "text/html", Ok(Kind::Pdf));
        check(
            b"\x89PNG\r\n\x1a\n",
            "text/html",
            Err("it is image/png, which has no text"),
        );
        check(
            b"PK\x03\x04",
            "text/plain",
            Err("it is a ZIP archive or an office document, which this tool does not read"),
        );
        check(
            b"x\0",
            "application/x-thing",
            Err("it is \"application/x-thing\", which this tool does not read"),
        );
        check(
            b"x\0",
            "",
            Err("it is no text, and its server does not say what it is"),
        );
        let said = ContentType::of(Some("text/html; x=y; Charset=\"UTF-8\""));
        assert_eq!(
            said,
            ContentType {
                essence: "text/html".into(),
                charset: Some("UTF-8".into())
            }
        );
    }
}
