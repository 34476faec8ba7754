//! Finds apparent secrets in text that a person typed: keys of known vendors, private keys, tokens that are called so,
//! numbers of payment cards. Ordinary numbers, hashes, UUIDs and telephone numbers are none.

use std::ops::Range;

/// What keys and tokens begin with, and the least characters that follow; from the vendors' own documentation.
const PREFIXES: [(&str, usize); 27] = [
    ("sk-ant-", 20),
    ("sk-proj-", 20),
    ("sk-or-", 20),
    ("sk-", 20),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("whsec_", 20),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxa-", 20),
    ("xoxs-", 20),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 30),
    ("ya29.", 20),
    ("hf_", 30),
    ("npm_", 30),
    ("pypi-", 40),
    ("SG.", 40),
];
/// What a token is called before it is named, without spaces and signs.
const CALLED: [&str; 8] = [
    "apikey",
    "secretkey",
    "accesskey",
    "accesstoken",
    "apitoken",
    "authtoken",
    "clientsecret",
    "bearer",
];
/// The least characters of a token that is only called so.
const CALLED_LEAST: usize = 20;
/// Digits of a payment card (ISO/IEC 7812).
const CARD: std::ops::RangeInclusive<usize> = 13..=19;

/// Something that looks like a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lookalike {
    /// Where it is, bytes.
    pub at: Range<usize>,
    /// What it looks like: `a key or token`.
    pub what: &'static str,
}

/// Returns `text` with a mark for everything that looks like a secret; `None` when nothing does.
pub fn withhold(text: &str) -> Option<String> {
    let found = lookalikes(text);
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for Lookalike { at, what } in &found {
        out.push_str(text.get(from..at.start)?);
        out.push_str(&format!("[{what}, left out]"));
        from = at.end;
    }
    out.push_str(text.get(from..)?);
    (!found.is_empty()).then_some(out)
}

/// Returns what looks like a secret, in its order. Takes time linear in the text.
pub fn lookalikes(text: &str) -> Vec<Lookalike> {
    let mut found = private_keys(text);
    found.extend(tokens(text));
    found.extend(cards(text));
    found.sort_by_key(|one| one.at.start);
    let mut end = 0;
    found.retain(|one| {
        let is_new = one.at.start >= end;
        end = end.max(one.at.end);
        is_new
    });
    found
}

fn private_keys(text: &str) -> Vec<Lookalike> {
    const END: &str = "PRIVATE KEY-----";
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(begin) = text.get(from..).and_then(|rest| rest.find("-----BEGIN ")) {
        let begin = from + begin;
        let rest = text.get(begin..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        if !line.contains(END) {
            from = begin + 1;
            continue;
        }
        let after = rest.get(line.len()..).unwrap_or_default();
        let end = after
            .find(END)
            .map_or(rest.len(), |at| line.len() + at + END.len());
        let (at, what) = (begin..begin + end, "a private key");
        from = at.end;
        found.push(Lookalike { at, what });
    }
    found
}

/// Looks at each word made of the letters that keys are made of.
fn tokens(text: &str) -> Vec<Lookalike> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.+/=:".contains(c);
    let mut found = Vec::new();
    let mut before = Before::default();
    let mut from = None;
    let ends = text.char_indices().chain([(text.len(), ' ')]);
    for (at, letter) in ends {
        match (is_letter(letter), from) {
            (true, None) => from = Some(at),
            (false, Some(start)) => {
                from = None;
                let word = text.get(start..at).unwrap_or_default();
                if let Some(part) = token(word, &before) {
                    let (at, what) = (start + part.start..start + part.end, "a key or token");
                    found.push(Lookalike { at, what });
                }
                before.push(word);
            }
            _ => {}
        }
    }
    found
}

/// The two words before one, as a name is compared.
#[derive(Default)]
struct Before([String; 2]);

impl Before {
    fn push(&mut self, word: &str) {
        let bare: String = word
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(32)
            .collect();
        if bare.is_empty() || matches!(bare.as_str(), "is") {
            return;
        }
        self.0.swap(0, 1);
        self.0[1] = bare.to_ascii_lowercase();
    }

    fn names_a_token(&self) -> bool {
        let [first, last] = &self.0;
        let both = format!("{first}{last}");
        CALLED
            .iter()
            .any(|name| last.ends_with(name) || both.ends_with(name))
    }
}

fn token(word: &str, before: &Before) -> Option<Range<usize>> {
    // `KEY=value`, `key:value`; a Telegram token has a colon of its own.
    let trimmed = word.trim_end_matches([':', '.', '=', '/']);
    let of_bot = |at: usize| {
        let (id, key) = trimmed.split_at(at);
        let key = key.get(1..).unwrap_or_default();
        (8..=11).contains(&id.len())
            && id.bytes().all(|b| b.is_ascii_digit())
            && key.len() == 35
            && !key.contains([':', '/', '.'])
    };
    if trimmed.find(':').is_some_and(of_bot) {
        return Some(0..trimmed.len());
    }
    let start = trimmed.rfind(['=', ':']).map_or(0, |at| at + 1);
    let (name, value) = trimmed.split_at(start);
    let range = start..trimmed.len();
    let is_prefixed = PREFIXES.iter().any(|(prefix, least)| {
        value.strip_prefix(prefix).is_some_and(|rest| {
            rest.len() >= *least && rest.bytes().any(|byte| byte.is_ascii_digit())
        })
    });
    let is_jwt = value.starts_with("eyJ") && value.len() > 40 && value.matches('.').count() == 2;
    let mut named = Before::default();
    named.push(name);
    let is_called = (named.names_a_token() || name.is_empty() && before.names_a_token())
        && value.len() >= CALLED_LEAST
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && (!value.contains('/') || is_forty_of_all_kinds(value))
        && !is_uuid(value);
    (is_prefixed || is_jwt || is_called).then_some(range)
}

/// Returns true for what may be a secret access key of AWS, which has slashes and is not a path.
fn is_forty_of_all_kinds(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.bytes().any(|byte| kind(&byte));
    value.len() == 40
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"/+".contains(&byte))
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

fn is_uuid(value: &str) -> bool {
    let lengths: Vec<usize> = value.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && value.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// Looks at each run of digits in groups.
fn cards(text: &str) -> Vec<Lookalike> {
    let bytes = text.as_bytes();
    let is_word = |at: usize| {
        text.get(..at)
            .and_then(|text| text.chars().next_back())
            .is_some_and(|c| c.is_alphanumeric() || "+-_./".contains(c))
    };
    let goes_on = |at: usize| {
        text.get(at..)
            .and_then(|text| text.chars().next())
            .is_some_and(|c| c.is_alphanumeric() || "-_/".contains(c))
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !bytes[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let (start, mut end) = (at, at);
        let mut digits = Vec::new();
        while let Some(byte) = bytes.get(at) {
            if byte.is_ascii_digit() {
                digits.push(u32::from(byte - b'0'));
                at += 1;
                end = at;
                continue;
            }
            let Some(gap) = text.get(at..).and_then(gap) else {
                break;
            };
            at += gap;
        }
        let written = text.get(start..end).unwrap_or_default();
        if !is_word(start) && !goes_on(end) && is_grouped(written) && is_card(&digits) {
            let (at, what) = (start..end, "a card number");
            found.push(Lookalike { at, what });
        }
    }
    found
}

/// What is between the groups of a number: blanks and hyphens of every kind, as they come with a copy, and dots.
const GAPS: [char; 10] = [
    ' ', '-', '.', '\u{a0}', '\u{2007}', '\u{2009}', '\u{2010}', '\u{2011}', '\u{2013}', '\u{202f}',
];

/// Returns the bytes of a gap that the text begins with, when a digit follows.
fn gap(text: &str) -> Option<usize> {
    let mut chars = text.chars();
    let first = chars.next().filter(|c| GAPS.contains(c))?;
    chars.next().filter(char::is_ascii_digit)?;
    Some(first.len_utf8())
}

/// Returns true for digits without gaps, or in the groups of a card: 4-4-4-4 and 4-6-5.
fn is_grouped(written: &str) -> bool {
    let groups: Vec<usize> = written.split(GAPS).map(str::len).collect();
    groups.len() == 1
        || groups == [4, 6, 5]
        || groups.split_last().is_some_and(|(last, rest)| {
            rest.iter().all(|length| *length == 4) && (1..=4).contains(last) && rest.len() >= 3
        })
}

/// Returns true for a number of a card network whose check digit is right (ISO/IEC 7812-1, annex B).
fn is_card(digits: &[u32]) -> bool {
    let first = |count: usize| {
        digits
            .iter()
            .take(count)
            .fold(0, |sum, digit| sum * 10 + digit)
    };
    let is_issued = match digits.len() {
        15 => matches!(first(2), 34 | 37),
        13 | 19 => first(1) == 4,
        16 => {
            first(1) == 4
                || (51..=55).contains(&first(2))
                || (2221..=2720).contains(&first(4))
                || first(4) == 6011
                || first(2) == 65
                || (3528..=3589).contains(&first(4))
        }
        14 => matches!(first(2), 36 | 38) || (300..=305).contains(&first(3)),
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match place % 2 {
            0 => *digit,
            _ if digit * 2 > 9 => digit * 2 - 9,
            _ => digit * 2,
        })
        .sum();
    CARD.contains(&digits.len()) && is_issued && sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tokens_and_card_numbers_are_withheld() {
        let check = |text: &str, expected: &str| {
            assert_eq!(withhold(text).as_deref(), Some(expected), "{text}");
        };
        let key = "[a key or token, left out]";
        check("use sk-abcdefghijklmnop0123456789.", &format!("use {key}."));
        check(
            "OPENAI_API_KEY=sk-proj-abcdefghijklmnop0123",
            &format!("OPENAI_API_KEY={key}"),
        );
        check(
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789 is it",
            &format!("{key} is it"),
        );
        check("AKIAIOSFODNN7EXAMPLE", key);
        check("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", key);
        check(
            "my API key is 0f1e2d3c4b5a69788796a5b4c3d2e1f0",
            &format!("my API key is {key}"),
        );
        check(
            "api_key: \"q7Zk29fLw81Xc04Vb6Nm\"",
            &format!("api_key: \"{key}\""),
        );
        check(
            "Authorization: Bearer abcDEF0123456789abcDEF",
            &format!("Authorization: Bearer {key}"),
        );
        check(
            "pay with 4111 1111 1111 1111, please",
            "pay with [a card number, left out], please",
        );
        for gap in ["\u{a0}", "\u{202f}", "\u{2011}", "."] {
            let number = ["4111", "1111", "1111", "1111"].join(gap);
            check(
                &format!("{number} it is"),
                "[a card number, left out] it is",
            );
        }
        check(
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            &format!("aws_secret_access_key = {key}"),
        );
        check(
            "5500-0000-0000-0004 and 378282246310005",
            "[a card number, left out] and [a card number, left out]",
        );
        check(
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nkeep",
            "[a private key, left out]\nkeep",
        );
    }

    #[test]
    fn ordinary_words_and_numbers_pass() {
        for text in [
            "call me at +49 171 234 567 8901 or 0171 2345678901",
            "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "id 550e8400-e29b-41d4-a716-446655440000",
            "api token 550e8400-e29b-41d4-a716-446655440000",
            "IBAN DE89 3704 0044 0532 0130 00",
            "order 4111111111111112 and 1764000000000000",
            "the sk-learn and sk-abc packages, task-0123456789abcdefghij",
            "2026-11-24 15:20:00 and 1,234,567,890,123,456",
            "see https://example.org/4111111111111111/sk-abcdefghijklmnop0123456789x/y",
            "the bearer of this token is welcome, the api key lies in the vault",
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            "IMEI 490154203237518, ISBN 978-3-16-148410-0",
            "",
        ] {
            assert_eq!(withhold(text), None, "{text}");
        }
    }
}
