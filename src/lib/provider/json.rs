//! The JSON of a request that borrows its texts: it is written once, and a long conversation is never copied into a
//! tree of values first.

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON value on its way to a vendor.
#[derive(Clone)]
pub enum Json<'a> {
    Text(Cow<'a, str>),
    Value(Cow<'a, Value>),
    /// Text that is JSON already.
    Raw(&'a RawValue),
    List(Vec<Json<'a>>),
    /// Its fields in the order in which they are written; no key twice.
    Object(Vec<(&'static str, Json<'a>)>),
}

/// Returns an object of `fields`.
pub(super) fn object<'a, const N: usize>(fields: [(&'static str, Json<'a>); N]) -> Json<'a> {
    Json::Object(fields.into())
}

impl<'a> Json<'a> {
    /// Adds a field to an object; anything else stays as it is.
    pub(super) fn add(&mut self, key: &'static str, value: impl Into<Json<'a>>) {
        if let Self::Object(fields) = self {
            fields.push((key, value.into()));
        }
    }

    /// Returns the field of an object to be changed.
    pub(super) fn field(&mut self, key: &str) -> Option<&mut Self> {
        let Self::Object(fields) = self else {
            return None;
        };
        fields
            .iter_mut()
            .find_map(|(name, value)| (*name == key).then_some(value))
    }

    /// Returns the last value of a list.
    pub(super) fn last(&mut self) -> Option<&mut Self> {
        match self {
            Self::List(values) => values.last_mut(),
            _ => None,
        }
    }

    /// Returns it as the bytes of a request.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        // Writing to memory does not fail, and no key is anything but text.
        serde_json::to_vec(self).unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn to_value(&self) -> Value {
        serde_json::from_slice(&self.to_bytes()).expect("JSON")
    }
}

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Value(value) => value.serialize(serializer),
            Self::Raw(raw) => raw.serialize(serializer),
            Self::List(values) => serializer.collect_seq(values),
            Self::Object(fields) => {
                serializer.collect_map(fields.iter().map(|(key, value)| (key, value)))
            }
        }
    }
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Json<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl<'a> From<Cow<'a, str>> for Json<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Value> for Json<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Value(Cow::Borrowed(value))
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        Self::Value(Cow::Owned(value))
    }
}

impl<'a> From<Cow<'a, Value>> for Json<'a> {
    fn from(value: Cow<'a, Value>) -> Self {
        Self::Value(value)
    }
}

impl From<bool> for Json<'_> {
    fn from(value: bool) -> Self {
        Value::from(value).into()
    }
}

impl From<u32> for Json<'_> {
    fn from(value: u32) -> Self {
        Value::from(value).into()
    }
}

impl<'a> From<Vec<Json<'a>>> for Json<'a> {
    fn from(values: Vec<Json<'a>>) -> Self {
        Self::List(values)
    }
}
