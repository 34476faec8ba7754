//! Network access in both directions: the hosts that commands may connect to, and the permitted places of the HTTP API's socket.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::key_names;
use super::types::{Config, Listen};

/// Refuses a socket where commands or tool servers may connect to it: anything that reaches the API may be the owner.
pub(super) fn check(
    config: &Config,
    workspace: &Path,
    origin: &dyn Fn(&str) -> String,
) -> Result<(), Error> {
    let Some(Listen::Unix(path)) = config.http.address() else {
        return Ok(());
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let dir = real(path.parent().unwrap_or(&path));
    let writes = config
        .mcp
        .servers
        .values()
        .flat_map(|server| server.writes.iter().chain(&server.reads));
    let reach = writes.map(PathBuf::as_path).chain([workspace]);
    match reach.map(real).find(|reach| dir.starts_with(reach)) {
        None => Ok(()),
        Some(reach) => Err(Error::Value {
            origin: origin("http.listen"),
            key: "http.listen".to_owned(),
            message: format!(
                "the socket is in {}, where commands of the agent can connect to it: put it elsewhere, such as into /run",
                reach.display()
            ),
        }),
    }
}

/// Checks the hosts that commands and tool servers may connect to.
pub(super) fn check_networks(
    config: &Config,
    origin: &dyn Fn(&str) -> String,
) -> Result<(), Error> {
    let networks = config.mcp.servers.iter().map(|(name, server)| {
        let key = key_names::join("mcp.servers", name);
        (key_names::join(&key, "network.allow"), &server.network)
    });
    let exec_network = (
        "tools.exec.network.allow".to_owned(),
        &config.tools.exec.network,
    );
    for (key, network) in networks.chain([exec_network]) {
        if let Some(message) = network.fault() {
            let origin = origin(&key);
            return Err(Error::Value {
                origin,
                key,
                message,
            });
        }
    }
    Ok(())
}
