//! The hands: one file a tool family.

mod exec;
mod files;
mod silent;

use std::sync::Arc;

pub use exec::ExecSettings;

use crate::agent::Tool;
use crate::sandbox::Root;

/// Returns all tools of this build in the order in which they are offered.
pub fn all(root: Arc<Root>, exec: Option<ExecSettings>) -> Vec<Arc<dyn Tool>> {
    let mut tools = files::all(root);
    if let Some(settings) = exec {
        tools.push(Arc::new(exec::Exec::new(settings)));
    }
    tools.push(Arc::new(silent::Silent));
    tools
}

/// Reads a required string argument; the schema has been checked before.
fn text<'a>(input: &'a serde_json::Value, name: &str) -> &'a str {
    input.get(name).and_then(serde_json::Value::as_str).unwrap_or_default()
}

/// Reads an optional whole number argument.
fn number(input: &serde_json::Value, name: &str) -> Option<u64> {
    input.get(name).and_then(serde_json::Value::as_u64)
}
