//! A text with placeholders filled from JSON: `{repository.name}: {commits.0.message}`. Pure.
//!
//! ```text
//! {a.b.0.c}    the value there: text as it is, anything else as JSON
//! {}           the whole document
//! {@name}      a value of the caller with this name, such as a header
//! {{ and }}    literal braces
//! ```

use serde_json::Value;

/// What is where nothing is.
const NOTHING: &str = "(none)";

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The keys and places of a list that lead to a value; none for the whole document.
    Value(Vec<String>),
    /// A name of the caller's, in lower case.
    Named(String),
}

/// What is written wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A place has no end.
    #[error("has a `{{` without its `}}`; a brace itself is written twice")]
    Open,
    /// An end without a place.
    #[error("has a `}}` without its `{{`; a brace itself is written twice")]
    Close,
    /// What is between the braces leads nowhere.
    #[error(
        "has a place that is no path such as `{{repository.name}}`, `{{}}` or `{{@header}}`; a brace itself is written twice"
    )]
    Path,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// The first [`Fault`].
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.peek() == Some(&c) => {
                    // `{}}` would be read twice; who wants a brace after a place writes `{}}}`.
                    chars.next();
                    plain.push(c);
                }
                '{' => {
                    let mut place = String::new();
                    loop {
                        match chars.next() {
                            Some('}') => break,
                            Some('{') | None => return Err(Fault::Open),
                            Some(c) => place.push(c),
                        }
                    }
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::parse(place.trim())?);
                }
                '}' => return Err(Fault::Close),
                c => plain.push(c),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }

    /// Returns the text with `document` in its places, each value cut to `max_value` characters. `named` returns what
    /// the caller knows by a name.
    pub fn fill(
        &self,
        document: &Value,
        max_value: usize,
        named: impl Fn(&str) -> Option<String>,
    ) -> String {
        let shown = |value: &Value| match value {
            Value::Null => NOTHING.to_owned(),
            Value::String(text) => super::shorten(text, max_value),
            other => super::shorten(&other.to_string(), max_value),
        };
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Named(name) => named(name).map_or_else(
                || NOTHING.to_owned(),
                |value| super::shorten(&value, max_value),
            ),
            Part::Value(path) => path
                .iter()
                .try_fold(document, |value, key| step(value, key))
                .map_or_else(|| NOTHING.to_owned(), shown),
        };
        self.0.iter().map(part).collect()
    }
}

fn step<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        other => other.get(key),
    }
}

impl Part {
    fn parse(place: &str) -> Result<Self, Fault> {
        let is_key = |key: &str| {
            !key.is_empty()
                && key
                    .chars()
                    .all(|c| c.is_alphanumeric() || "_-:/$".contains(c))
        };
        if place.is_empty() {
            return Ok(Self::Value(Vec::new()));
        }
        if let Some(name) = place.strip_prefix('@') {
            return match is_key(name) {
                true => Ok(Self::Named(name.to_ascii_lowercase())),
                false => Err(Fault::Path),
            };
        }
        let keys: Vec<String> = place.split('.').map(str::to_owned).collect();
        match keys.iter().all(|key| is_key(key)) {
            true => Ok(Self::Value(keys)),
            false => Err(Fault::Path),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_filled_with_what_is_there() {
        let document = json!({
            "repository": {"full_name": "ada/engine", "stars": 3, "owner": null},
            "commits": [{"message": "first\nline {x}"}, {"message": "second"}],
            "0": "zero"
        });
        for (template, expected) in [
            (
                "{repository.full_name}: {commits.0.message}",
                "ada/engine: first\nline {x}",
            ),
            (
                "{ repository.stars } {repository.owner} {no.such.thing}",
                "3 (none) (none)",
            ),
            ("{commits.1}", r#"{"message":"second"}"#),
            ("{commits.9.message}{commits.-1}", "(none)(none)"),
            ("{0} {@X-Event} {@other}", "zero push (none)"),
            ("{{\"a\": {repository.stars}}}", "{\"a\": 3}"),
            ("plain", "plain"),
            ("", ""),
        ] {
            let template = Template::parse(template).expect("a template");
            let filled = template.fill(&document, 100, |name| {
                (name == "x-event").then(|| "push".to_owned())
            });
            assert_eq!(filled, expected);
        }
        let whole = Template::parse("{}").expect("a template");
        assert_eq!(whole.fill(&json!([1]), 100, |_| None), "[1]");
        assert_eq!(
            whole.fill(&json!("x".repeat(50)), 10, |_| None),
            format!("{}…", "x".repeat(10))
        );
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        for (template, fault) in [
            ("{a", Fault::Open),
            ("{a {b}", Fault::Open),
            ("a}", Fault::Close),
            ("{a b}", Fault::Path),
            ("{a..b}", Fault::Path),
            ("{.}", Fault::Path),
            ("{@}", Fault::Path),
            ("{\"a\": 1}", Fault::Path),
        ] {
            assert_eq!(Template::parse(template), Err(fault), "{template}");
        }
    }
}
