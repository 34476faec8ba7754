//! Telegram's HTML, read as the service reads it: which tags it takes, that they close in order, and the
//! plain text that remains. After core.telegram.org/bots/api#html-style (Bot API 9, 2025).

/// The tags the service takes. All others are refused, never ignored.
const TAGS: [&str; 16] = [
    "a",
    "b",
    "strong",
    "i",
    "em",
    "u",
    "ins",
    "s",
    "strike",
    "del",
    "span",
    "tg-spoiler",
    "tg-emoji",
    "code",
    "pre",
    "blockquote",
];

/// Returns the text a reader sees.
///
/// # Errors
/// The service's own words after "can't parse entities: ".
pub(super) fn plain(source: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once('<') {
        let offset = source.len() - rest.len() + before.len();
        text += &unescape(before);
        let (tag, after) = after
            .split_once('>')
            .ok_or_else(|| format!("Unclosed start tag at byte offset {offset}"))?;
        match tag.strip_prefix('/') {
            Some(name) => close(&mut open, name.trim(), offset)?,
            None => open.push(start(tag, offset)?),
        }
        rest = after;
    }
    text += &unescape(rest);
    match open.pop() {
        Some(name) => Err(format!(
            "Can't find end tag corresponding to start tag \"{name}\""
        )),
        None => Ok(text),
    }
}

/// Returns the name of the start tag `tag` (what stood between `<` and `>`).
fn start(tag: &str, offset: usize) -> Result<String, String> {
    let end = tag
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .unwrap_or(tag.len());
    let (name, attributes) = tag.split_at(end);
    let name = name.to_ascii_lowercase();
    if !TAGS.contains(&name.as_str()) {
        return Err(format!(
            "Unsupported start tag \"{name}\" at byte offset {offset}"
        ));
    }
    let attributes = read_attributes(attributes).ok_or_else(|| {
        format!("Can't parse attributes of start tag \"{name}\" at byte offset {offset}")
    })?;
    if name == "span" && !attributes.contains(&("class", "tg-spoiler")) {
        return Err(format!(
            "Tag \"span\" must have class \"tg-spoiler\" at byte offset {offset}"
        ));
    }
    Ok(name)
}

fn close(open: &mut Vec<String>, name: &str, offset: usize) -> Result<(), String> {
    let Some(expected) = open.pop() else {
        return Err(format!("Unexpected end tag at byte offset {offset}"));
    };
    if name.is_empty() || name.eq_ignore_ascii_case(&expected) {
        return Ok(());
    }
    Err(format!(
        "Unmatched end tag at byte offset {offset}, expected \"</{expected}>\", found \"</{name}>\""
    ))
}

/// Returns the `name="value"` pairs (a bare name has an empty value), or `None` when they do not parse.
fn read_attributes(source: &str) -> Option<Vec<(&str, &str)>> {
    let mut found = Vec::new();
    let mut rest = source.trim_start();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return None;
        }
        let (value, after) = match after.trim_start().strip_prefix('=') {
            Some(after) => read_value(after.trim_start())?,
            None => ("", after),
        };
        found.push((name, value));
        rest = after.trim_start();
    }
    Some(found)
}

fn read_value(source: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(inner) = source.strip_prefix(quote) {
            return inner.split_once(quote);
        }
    }
    let end = source
        .find(|c: char| !c.is_ascii_alphanumeric() && !".-_".contains(c))
        .unwrap_or(source.len());
    (end > 0).then(|| source.split_at(end))
}

/// Replaces the four named and the numeric entities; anything else that starts with `&` stays as it is.
fn unescape(source: &str) -> String {
    let mut text = String::new();
    let mut rest = source;
    while let Some((before, after)) = rest.split_once('&') {
        text += before;
        let decoded = after
            .split_once(';')
            .and_then(|(name, after)| Some((entity(name)?, after)));
        match decoded {
            Some((letter, after)) => {
                text.push(letter);
                rest = after;
            }
            None => {
                text.push('&');
                rest = after;
            }
        }
    }
    text + rest
}

fn entity(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}
