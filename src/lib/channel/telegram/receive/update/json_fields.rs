//! A JSON object from outside: what is missing, null or of another type than asked for is absent.

use serde_json::{Map, Value};

/// The fields of an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    /// Returns the fields of `value` when it is an object.
    pub(super) fn of(value: &'a Value) -> Option<Self> {
        value.as_object().map(Self)
    }

    /// Returns what is there, with its name, in the order of the names.
    pub(super) fn all(self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.as_str(), value))
    }

    /// Returns whatever stands under `name`.
    pub(super) fn get(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns true when anything stands under `name`.
    pub(super) fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the object under `name`.
    pub(super) fn object(self, name: &str) -> Option<Self> {
        self.get(name).and_then(Self::of)
    }

    /// Returns the list under `name`; an empty one when there is none.
    pub(super) fn list(self, name: &str) -> &'a [Value] {
        self.get(name)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// Returns the objects of the list under `name`.
    pub(super) fn objects(self, name: &str) -> impl Iterator<Item = Fields<'a>> {
        self.list(name).iter().filter_map(Self::of)
    }

    /// Returns the words under `name`, when there are any.
    pub(super) fn text(self, name: &str) -> Option<&'a str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns the whole number under `name`, also when it is written as a string.
    pub(super) fn number(self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    /// Returns the number under `name`, also when it is written as a string.
    pub(super) fn decimal(self, name: &str) -> Option<f64> {
        let value = self.get(name)?;
        value.as_f64().or_else(|| value.as_str()?.parse().ok())
    }

    /// Returns true when `name` says so.
    pub(super) fn yes(self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }
}
