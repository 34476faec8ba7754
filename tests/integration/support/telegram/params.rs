//! The parameters of one Bot API call, whichever way the client sent them: JSON, a form or the query.

use std::collections::BTreeMap;

use reqwest::Url;
use serde_json::{Map, Value};

use super::{Upload, multipart};

/// Named parameters and files. In a form every value is a string, nested objects included, so the readers
/// accept both.
#[derive(Clone, Default)]
pub(super) struct Params {
    values: Map<String, Value>,
    files: BTreeMap<String, Upload>,
}

impl Params {
    /// Returns the parameters of the query and the body together; the body wins. `None` when the body does
    /// not parse as its content type says.
    pub(super) fn read(query: &str, content_type: &str, body: &[u8]) -> Option<Self> {
        let mut params = form(query);
        let mut files = BTreeMap::new();
        if content_type.starts_with("multipart/form-data") {
            let (texts, uploads) = multipart::read(content_type, body)?;
            params.extend(texts);
            files = uploads;
        } else if content_type.starts_with("application/x-www-form-urlencoded") {
            params.extend(form(std::str::from_utf8(body).ok()?));
        } else if !body.is_empty() {
            params.extend(serde_json::from_slice::<Map<String, Value>>(body).ok()?);
        }
        Some(Self {
            values: params,
            files,
        })
    }

    /// Returns them with one more.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.values
            .insert(name.to_owned(), Value::String(value.to_owned()));
        self
    }

    /// Returns an integer written as a number or as digits.
    pub(super) fn int(&self, name: &str) -> Option<i64> {
        let value = self.values.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    /// Returns a string; the empty one when it is absent.
    pub(super) fn text(&self, name: &str) -> &str {
        self.values
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// Returns an object or array, parsed first when it came as a string; `Null` when it is absent.
    pub(super) fn json(&self, name: &str) -> Value {
        match self.values.get(name) {
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or(Value::Null),
            Some(value) => value.clone(),
            None => Value::Null,
        }
    }

    /// Returns them all, as received; a file that is no value by itself is the value `attach://` with its
    /// name.
    pub(super) fn to_value(&self) -> Value {
        let mut all = self.values.clone();
        for name in self.files.keys().filter(|name| !self.attaches(name)) {
            all.insert(name.clone(), Value::String(format!("attach://{name}")));
        }
        Value::Object(all)
    }

    /// Returns the values by name, without the files.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values
            .iter()
            .map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the files by the names of their parts.
    pub(super) fn files(&self) -> &BTreeMap<String, Upload> {
        &self.files
    }

    /// Returns whether some value names the file of part `name`.
    pub(super) fn attaches(&self, name: &str) -> bool {
        let media = self.json("media");
        let link = format!("attach://{name}");
        media
            .as_array()
            .is_some_and(|items| items.iter().any(|item| item["media"] == link.as_str()))
    }
}

fn form(encoded: &str) -> Map<String, Value> {
    let mut url = Url::parse("http://form.invalid/").expect("a constant URL parses");
    url.set_query(Some(encoded));
    url.query_pairs()
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect()
}
