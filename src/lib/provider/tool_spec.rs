//! A tool as a model is offered it.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

/// A tool as offered to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: Cow<'static, str>,
    /// What it does, one or two sentences.
    pub description: Cow<'static, str>,
    /// JSON Schema of its parameters (an object).
    pub schema: Schema,
}

/// A JSON Schema with its text: both are made once, and every request shares them.
#[derive(Clone)]
pub struct Schema(Arc<(Value, Box<RawValue>)>);

impl Schema {
    /// Returns its JSON as it is sent.
    pub fn raw(&self) -> &RawValue {
        &self.0.1
    }

    /// Returns its JSON as text.
    pub fn text(&self) -> &str {
        self.raw().get()
    }
}

impl From<Value> for Schema {
    fn from(value: Value) -> Self {
        // A value is always JSON.
        let text = serde_json::value::to_raw_value(&value).unwrap_or_default();
        Self(Arc::new((value, text)))
    }
}

impl Deref for Schema {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.0
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
