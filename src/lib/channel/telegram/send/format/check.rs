//! What must hold for anything that is rendered, for the tests and for `fuzz/`.

use super::source::clean;
use super::{Part, Writer, is_blank, mask, parse, plain, render, units};

/// Renders `markdown`, and shows it as plain words, and panics when not every part is what Telegram takes, of
/// at most `limit` UTF-16 units, or when not all of it is there in order. `limit` is at least 64.
pub fn holds(markdown: &str, limit: usize) {
    let (parts, shown) = checked(markdown, limit);
    let source = clean(markdown);
    let masked = mask(&source);
    let flow = Writer::new(&masked, limit).write(parse(&masked));
    let all = if is_blank(flow.text()) {
        &source
    } else {
        flow.text()
    };
    assert_eq!(without_blanks(&shown), without_blanks(all), "{markdown:?}");
    for part in parts
        .iter()
        .filter(|_| !markdown.contains("]:") && !markdown.contains('&'))
    {
        let mut plain = part.plain.chars();
        let shown = visible(&part.html).unwrap_or_default();
        for letter in shown.chars().filter(|c| c.is_alphabetic()) {
            assert!(
                plain.any(|c| c == letter),
                "{letter:?} of {shown:?} is not in {:?}, {markdown:?}",
                part.plain
            );
        }
    }
    let words = plain(markdown, limit);
    assert_eq!(
        without_blanks(&words.concat()),
        without_blanks(&source),
        "{markdown:?}"
    );
    assert!(
        words
            .iter()
            .all(|words| units(words) <= limit && !is_blank(words)),
        "{words:?} of {markdown:?}"
    );
}

/// Renders and checks everything that must hold for any input; returns the parts and what they show.
pub(crate) fn checked(markdown: &str, limit: usize) -> (Vec<Part>, String) {
    let parts = render(markdown, limit);
    let mut all = String::new();
    for part in &parts {
        let shown = visible(&part.html)
            .unwrap_or_else(|why| panic!("{why}\n{markdown:?}\n{:?}", part.html));
        assert!(
            !is_blank(&shown) && !is_blank(&part.plain),
            "blank part of {markdown:?}: {part:?}"
        );
        assert!(
            units(&shown) <= limit,
            "{} > {limit}: {markdown:?}",
            units(&shown)
        );
        assert!(
            units(&part.plain) <= limit,
            "plain: {} > {limit}: {markdown:?}",
            units(&part.plain)
        );
        all.push_str(&shown);
        all.push('\n');
    }
    (parts, all)
}

pub(crate) fn without_blanks(text: &str) -> String {
    text.chars()
        .filter(|c| !is_blank(c.encode_utf8(&mut [0; 4])))
        .collect()
}

/// Returns what Telegram shows for `html`, or what it, or its documentation, objects to.
pub(crate) fn visible(html: &str) -> Result<String, String> {
    let mut shown = String::new();
    let mut stack: Vec<&str> = Vec::new();
    let mut rest = html;
    let mut opened_at = None;
    while let Some(c) = rest.chars().next() {
        let tail = |length: usize| rest.get(length..).ok_or("cut tag");
        match c {
            '<' => {
                let end = rest.find('>').ok_or("unclosed tag")?;
                let tag = rest.get(1..end).ok_or("unclosed tag")?;
                if let Some(name) = tag.strip_prefix('/') {
                    let open = stack.pop().ok_or_else(|| format!("unexpected </{name}>"))?;
                    if open != name {
                        return Err(format!("</{name}> closes <{open}>"));
                    }
                    if opened_at == Some(shown.len()) {
                        return Err(format!("empty <{name}>"));
                    }
                } else {
                    let name = tag.split(' ').next().unwrap_or("");
                    let attributes = tag.get(name.len()..).unwrap_or("");
                    check_tag(name, attributes, &stack, html, rest)?;
                    stack.push(name);
                    opened_at = Some(shown.len());
                }
                rest = tail(end + 1)?;
            }
            '&' => {
                let entities = [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&')];
                let (entity, c) = entities
                    .iter()
                    .find(|(entity, _)| rest.starts_with(entity))
                    .ok_or("raw &")?;
                shown.push(*c);
                rest = tail(entity.len())?;
            }
            '>' => return Err("raw >".into()),
            c if c.is_control() && c != '\n' && c != '\t' => {
                return Err(format!("control character {c:?}"));
            }
            c => {
                shown.push(c);
                rest = tail(c.len_utf8())?;
            }
        }
    }
    if stack.is_empty() {
        Ok(shown)
    } else {
        Err(format!("not closed: {stack:?}"))
    }
}

/// The rules of core.telegram.org/bots/api#html-style and of nesting.
fn check_tag(
    name: &str,
    attributes: &str,
    stack: &[&str],
    html: &str,
    rest: &str,
) -> Result<(), String> {
    let parent = stack.last().copied();
    let refuse = |why: &str| Err(format!("<{name}{attributes}> {why}, inside {stack:?}"));
    let value = |prefix: &str| {
        attributes
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix('"'))
            .filter(|value| !value.contains(['"', '<']))
    };
    match name {
        "a" => {
            let Some(url) = value(" href=\"") else {
                return refuse("has no clean href");
            };
            if !["http://", "https://", "tg:", "mailto:"]
                .iter()
                .any(|scheme| url.to_ascii_lowercase().starts_with(scheme))
            {
                return refuse("has a foreign scheme");
            }
            if url
                .replace("&lt;", "")
                .replace("&gt;", "")
                .replace("&amp;", "")
                .replace("&quot;", "")
                .contains('&')
            {
                return refuse("has a raw &");
            }
        }
        "code" if value(" class=\"language-").is_some_and(|language| !language.is_empty()) => {
            let before = html.strip_suffix(rest).unwrap_or("");
            return if parent == Some("pre") && before.ends_with("<pre>") {
                Ok(())
            } else {
                refuse("is not right after <pre>")
            };
        }
        "b" | "i" | "u" | "s" | "tg-spoiler" | "code" | "pre" | "blockquote"
            if attributes.is_empty() => {}
        _ => return refuse("is not a tag of Telegram's"),
    }
    match () {
        () if stack.contains(&name) => refuse("is nested in itself"),
        () if stack.contains(&"code") || stack.contains(&"pre") => refuse("is in code"),
        () if name == "blockquote" && parent.is_some() => refuse("is nested"),
        () if matches!(name, "code" | "pre")
            && stack.iter().any(|outer| *outer != "blockquote") =>
        {
            refuse("is styled code")
        }
        () => Ok(()),
    }
}
