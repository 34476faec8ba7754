//! Invariants for any input, for the tests of the rooms below and for `fuzz/`.

use serde_json::Value;

use super::receive::updates::{Identity, incoming, update_id};
use super::send::format::{Part, flow, plain, render};
use super::send::split::{is_blank, units};

/// Reads an update for the bot 42, `@our_bot` or Robo, and panics when what is read of it is not bounded.
pub fn check_update(raw: &Value) {
    let bot = Identity {
        id: 42,
        username: Some("our_bot".to_owned()),
        aliases: vec!["Robo".to_owned()],
    };
    let Some(incoming) = incoming(raw, &bot) else {
        return;
    };
    let id = update_id(raw).expect("only an update with an id brings something");
    assert_eq!(incoming.key, format!("tg:42:{id}"));
    let fits = |text: Option<&str>, max| text.is_none_or(|text| text.chars().count() <= max);
    let kind = incoming.kind.as_deref();
    assert!(fits(kind, 601) && !kind.is_some_and(|kind| kind.contains('\n')));
    assert!(fits(incoming.group.as_deref(), 131));
    assert!(fits(
        incoming.quoted.as_ref().map(|quoted| quoted.text.as_str()),
        301
    ));
    let press = incoming
        .press
        .is_none_or(|press| press.len() <= 64 && incoming.text.is_empty());
    assert!(press && (incoming.command.is_none() || !incoming.forwarded));
}

/// Renders an answer in parts of the usual length.
#[cfg(test)]
pub(crate) fn rendered(text: &str) {
    drop(render(text, 4096));
}

/// Shows an answer in plain parts of the usual length.
#[cfg(test)]
pub(crate) fn shown_plain(text: &str) {
    drop(plain(text, 4096));
}

/// Renders `markdown`, and shows it as plain text, and panics when not every part is what Telegram takes, of
/// at most `limit` UTF-16 units, or when not all of it is there in order. `limit` is at least 64.
pub fn check_markdown(markdown: &str, limit: usize) {
    let (parts, shown) = checked(markdown, limit);
    let (source, flow) = flow(markdown, limit);
    assert_eq!(
        without_blanks(&shown),
        without_blanks(flow.text()),
        "{markdown:?}"
    );
    let is_rewritten = markdown.contains("]:") || markdown.contains('&');
    for part in parts.iter().filter(|_| !is_rewritten) {
        let mut plain = part.plain.chars();
        let shown = visible(&part.html).unwrap_or_default();
        for letter in shown.chars().filter(|c| c.is_alphabetic()) {
            assert!(
                plain.any(|c| c == letter),
                "{letter:?} of {part:?}, {markdown:?}"
            );
        }
    }
    let texts = plain(markdown, limit);
    assert_eq!(
        without_blanks(&texts.concat()),
        without_blanks(&source),
        "{markdown:?}"
    );
    let fits = |text: &String| units(text) <= limit && !is_blank(text);
    assert!(texts.iter().all(fits), "{texts:?} of {markdown:?}");
}

/// Renders and checks each part; returns the parts and what they show.
pub(super) fn checked(markdown: &str, limit: usize) -> (Vec<Part>, String) {
    let parts = render(markdown, limit);
    let mut all = String::new();
    for part in &parts {
        let shown = visible(&part.html)
            .unwrap_or_else(|why| panic!("{why}\n{markdown:?}\n{:?}", part.html));
        for text in [&shown, &part.plain] {
            assert!(!is_blank(text), "blank part of {markdown:?}: {part:?}");
            assert!(units(text) <= limit, "> {limit}: {part:?}, {markdown:?}");
        }
        all.push_str(&shown);
        all.push('\n');
    }
    (parts, all)
}

pub(super) fn without_blanks(text: &str) -> String {
    text.chars()
        .filter(|c| !is_blank(c.encode_utf8(&mut [0; 4])))
        .collect()
}

/// Returns what Telegram shows for `html`, or what it, or its documentation, objects to.
pub(super) fn visible(html: &str) -> Result<String, String> {
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

#[cfg(test)]
mod settings {
    use super::super::is_paced;
    use crate::config;

    #[test]
    fn only_the_official_server_is_paced_unless_the_settings_say_otherwise() {
        for (api_url, pace, expected) in [
            ("https://api.telegram.org", None, true),
            ("https://API.telegram.org/", None, true),
            ("http://127.0.0.1:8081", None, false),
            ("https://api.telegram.org.example", None, false),
            ("http://127.0.0.1:8081", Some(true), true),
            ("https://api.telegram.org", Some(false), false),
        ] {
            let config = config::Telegram {
                api_url: api_url.to_owned(),
                pace,
                ..config::Telegram::default()
            };
            assert_eq!(is_paced(&config), expected, "{api_url} {pace:?}");
        }
    }
}
