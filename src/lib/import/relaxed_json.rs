//! JSON as people write it into settings: with comments and a comma too many.

use serde_json::Value;

/// Reads JSON that may have `//` and `/* */` comments and trailing commas.
///
/// # Errors
/// What serde_json says of the rest, such as keys without quotation marks.
pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(&strict(text))
}

fn strict(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('"', _) => {
                out.push('"');
                while let Some(inner) = chars.next() {
                    out.push(inner);
                    match inner {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
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
            _ => out.push(c),
        }
    }
    out
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
        assert!(parse("{key: 1}").is_err());
    }
}
