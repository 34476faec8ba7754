//! The paths of a channel and its settings.

use std::path::{Path, PathBuf};

/// Returns the directory of the channel `name`, which the daemon makes.
pub fn directory(name: &str) -> PathBuf {
    let var = std::env::var_os;
    match (var("AGENT_CHANNEL_DIR"), var("AGENT_HOME")) {
        (Some(dir), _) => PathBuf::from(dir),
        (None, Some(home)) => PathBuf::from(home).join("state/channels").join(name),
        (None, None) => home().join(".local/state/agent/channels").join(name),
    }
}

/// Returns where the settings of the channel lie: beside agent.toml.
pub fn settings_file(name: &str) -> PathBuf {
    let file = format!("channels/{name}.toml");
    let var = std::env::var_os;
    match (var("AGENT_CHANNEL_CONFIG"), var("AGENT_HOME")) {
        (Some(file), _) => PathBuf::from(file),
        (None, Some(home)) => PathBuf::from(home).join(file),
        (None, None) => home().join(".config/agent").join(file),
    }
}

/// Returns what a file of settings says. Nothing waits for a FIFO in its place.
///
/// # Errors
/// When it cannot be read, or is no regular file.
pub fn settings_text(path: &Path) -> std::io::Result<String> {
    match std::fs::metadata(path)?.is_file() {
        true => std::fs::read_to_string(path),
        false => Err(std::io::Error::other("it is no regular file")),
    }
}

fn home() -> PathBuf {
    std::env::var_os("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from)
}
