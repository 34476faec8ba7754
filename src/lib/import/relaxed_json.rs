//! JSON5 (json5.org) as people write it in settings: comments, trailing commas, keys without quotation marks, strings in
//! single quotation marks.

use std::iter::Peekable;
use std::str::Chars;

use serde_json::Value;

/// Reads JSON that may have comments, trailing commas, bare keys and single quotation marks.
///
/// # Errors
/// What serde_json says of the rest, such as hexadecimal numbers.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&strict(text))
}

fn strict(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('"' | '\'', _) => quoted(c, &mut chars, &mut out),
            ('/', Some('/')) => while chars.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) => {
                chars.next();
                let mut before = ' ';
                for c in chars.by_ref() {
                    if before == '*' && c == '/' {
                        break;
                    }
                    before = c;
                }
            }
            ('}' | ']', _) => {
                let end = out.trim_end().len();
                if out.get(..end).is_some_and(|kept| kept.ends_with(',')) {
                    out.truncate(end - 1);
                }
                out.push(c);
            }
            _ if c.is_alphabetic() || ['_', '$'].contains(&c) => {
                let mut word = String::from(c);
                let goes_on = |c: &char| c.is_alphanumeric() || ['_', '$'].contains(c);
                word.extend(std::iter::from_fn(|| chars.next_if(goes_on)));
                let is_key = chars.clone().find(|c| !c.is_whitespace()) == Some(':');
                match is_key {
                    true => out.extend(["\"", &word, "\""]),
                    false => out.push_str(&word),
                }
            }
            // The exponent of a number is not a word.
            _ if c.is_ascii_digit() => {
                out.push(c);
                let goes_on = |c: &char| c.is_ascii_alphanumeric() || ['.', '+', '-'].contains(c);
                out.extend(std::iter::from_fn(|| chars.next_if(goes_on)));
            }
            _ => out.push(c),
        }
    }
    out
}

/// Passes a text on in double quotation marks, `mark` being the one it began with; one without an end stays without.
fn quoted(mark: char, chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('"');
    while let Some(inner) = chars.next() {
        match inner {
            _ if inner == mark => return out.push('"'),
            '"' => out.push_str("\\\""),
            '\\' => match chars.next() {
                Some('\'') => out.push('\''),
                Some('\n') | None => {}
                Some(escaped) => out.extend(['\\', escaped]),
            },
            _ => out.push(inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn comments_and_trailing_commas_are_passed_over_and_texts_are_not() {
        let text = "{ // a comment\n \"url\": \"https://x/*y*/,]\", /* and\n another */ \"list\": [1, 2, ], \"quote\": \"\\\"//\", }";
        let expected = json!({"url": "https://x/*y*/,]", "list": [1, 2], "quote": "\"//"});
        assert_eq!(parse(text).expect("JSON"), expected);
    }

    #[test]
    fn keys_need_no_quotation_marks_and_texts_may_have_single_ones() {
        let text = r#"{key: 1e-5, $two_2 : true, 'three': 'it\'s "so"', list: [null, -1.5E+3,],}"#;
        let expected =
            json!({"key": 1e-5, "$two_2": true, "three": "it's \"so\"", "list": [null, -1500.0]});
        assert_eq!(parse(text).expect("JSON"), expected);
        for wrong in ["{key 1}", "{a: b}", "{a: 0x10}", "{\"a", "'"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
