//! The fields of a JSON object from outside: what is missing, null or of another type is absent.

use serde_json::Value;

/// Reads the fields of an object; a value of another type has none.
pub(super) trait Fields {
    fn field(&self, name: &str) -> Option<&Value>;
    fn object(&self, name: &str) -> Option<&Value>;
    /// Returns the items of a list, none when it is not a list.
    fn list(&self, name: &str) -> &[Value];
    /// Returns a string that is not empty.
    fn text(&self, name: &str) -> Option<&str>;
    /// Returns a whole number, also one written as a string.
    fn number(&self, name: &str) -> Option<i64>;
    /// Returns a number, also one written as a string.
    fn decimal(&self, name: &str) -> Option<f64>;
    fn is_true(&self, name: &str) -> bool;

    /// Returns an identifier: a string or a whole number.
    fn id(&self, name: &str) -> Option<String> {
        let text = self.text(name).map(str::to_owned);
        text.or_else(|| Some(self.number(name)?.to_string()))
    }
}

impl Fields for Value {
    fn field(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| !value.is_null())
    }

    fn object(&self, name: &str) -> Option<&Value> {
        self.get(name).filter(|value| value.is_object())
    }

    fn list(&self, name: &str) -> &[Value] {
        let list = self.get(name).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    fn number(&self, name: &str) -> Option<i64> {
        let value = self.get(name)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    }

    fn decimal(&self, name: &str) -> Option<f64> {
        let value = self.get(name)?;
        value.as_f64().or_else(|| value.as_str()?.parse().ok())
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name) == Some(&Value::Bool(true))
    }
}
