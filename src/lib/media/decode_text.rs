//! Bytes as text, in the encodings that people's files come in.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// Endings of files that are text, whatever their encoding.
const ENDINGS: [&str; 34] = [
    "txt", "md", "markdown", "rst", "log", "csv", "tsv", "json", "jsonl", "xml", "html", "htm",
    "css", "js", "ts", "py", "rs", "c", "h", "java", "go", "sh", "sql", "yaml", "yml", "toml",
    "ini", "cfg", "conf", "tex", "srt", "vcf", "ics", "eml",
];

/// The most control characters among a thousand that a text in an old encoding has.
const MAX_CONTROLS: usize = 5;

/// Returns true when a file of this name, or of this MIME type, calls itself a text.
pub fn is_text_name(name: &str, content_type: Option<&str>) -> bool {
    let named = name.rsplit_once('.').is_some_and(|(_, ending)| {
        ENDINGS
            .iter()
            .any(|known| ending.eq_ignore_ascii_case(known))
    });
    named || content_type.is_some_and(|kind| kind.starts_with("text/"))
}

/// Returns the text that `bytes` are: UTF-8, UTF-16 with its mark, or, when `claimed` says that it
/// is a text, Windows-1252 (Latin-1 with quotes and dashes). `None` for what is not text.
pub fn text(bytes: &[u8], claimed: bool) -> Option<String> {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        let (text, _) = encoding.decode_without_bom_handling(bytes.get(mark..).unwrap_or_default());
        return (!text.contains('\0')).then(|| text.into_owned());
    }
    if bytes.contains(&0) {
        return None;
    }
    if let Some(text) = UTF_8.decode_without_bom_handling_and_without_replacement(bytes) {
        return Some(text.into_owned());
    }
    let controls = bytes
        .iter()
        .filter(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace())
        .count();
    let text_like = controls * 1000 <= bytes.len() * MAX_CONTROLS;
    (claimed && text_like).then(|| {
        WINDOWS_1252
            .decode_without_bom_handling(bytes)
            .0
            .into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_in_its_own_encoding_and_bytes_are_no_text() {
        let check = |bytes: &[u8], claimed: bool, expected: Option<&str>| {
            assert_eq!(
                text(bytes, claimed).as_deref(),
                expected,
                "{bytes:?} {claimed}"
            );
        };
        check("Grüße".as_bytes(), false, Some("Grüße"));
        check(b"\xef\xbb\xbfGr\xc3\xbc\xc3\x9fe", false, Some("Grüße"));
        check(b"\xff\xfeG\0r\0\xfc\0", false, Some("Grü"));
        check(b"\xfe\xff\0G\0r\0\xfc", false, Some("Grü"));
        check(b"Gr\xfc\xdfe \x96 \x80", true, Some("Grüße – €"));
        check(b"Gr\xfc\xdfe", false, None);
        check(b"a\0b", true, None);
        check(b"\xff\xfe\0\0", true, None);
        check(b"\x01\x02\x03\xfc", true, None);
        check(b"", false, Some(""));
    }

    #[test]
    fn a_name_or_a_type_claims_a_text() {
        assert!(
            is_text_name("a.b.LOG", None) && is_text_name("x", Some("text/plain; charset=latin1"))
        );
        assert!(!is_text_name("log", None) && !is_text_name("a.png", Some("image/png")));
    }
}
