//! The parameters of one Bot API call, whichever way the client sent them: JSON, a form or the query.

use reqwest::Url;
use serde_json::{Map, Value};

/// Named parameters. In a form every value is a string, nested objects included, so the readers accept both.
#[derive(Clone, Default)]
pub(super) struct Params(Map<String, Value>);

impl Params {
    /// Returns the parameters of the query and the body together; the body wins. `None` when the body does
    /// not parse as its content type says.
    pub(super) fn read(query: &str, content_type: &str, body: &[u8]) -> Option<Self> {
        let mut params = form(query);
        if content_type.starts_with("application/x-www-form-urlencoded") {
            params.extend(form(std::str::from_utf8(body).ok()?));
        } else if !body.is_empty() {
            params.extend(serde_json::from_slice::<Map<String, Value>>(body).ok()?);
        }
        Some(Self(params))
    }

    /// Returns an integer written as a number or as digits.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        let value = self.0.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    /// Returns a string; the empty one when it is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns an object or array, parsed first when it came as a string; `Null` when it is absent.
    pub(super) fn json(&self, name: &str) -> Value {
        match self.0.get(name) {
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
            Some(value) => value.clone(),
            None => Value::Null,
        }
    }

    /// Returns them all, as received.
    pub(super) fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

fn form(encoded: &str) -> Map<String, Value> {
    let mut url = Url::parse("http://form.invalid/").expect("a constant URL parses");
    url.set_query(Some(encoded));
    url.query_pairs().map(|(name, value)| (name.into_owned(), Value::String(value.into_owned()))).collect()
}
