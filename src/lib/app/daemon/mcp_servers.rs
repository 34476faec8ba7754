//! From `[mcp.servers]` to the tool servers that the daemon keeps.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::build::home_of_user;
use crate::auth::{Renewals, ServerSignIns};
use crate::config::{Config, Environment, Home, McpServer, Sandbox, Secrets};
use crate::mcp;
use crate::mcp::{Program, Settings, Transport};
use crate::workspace;

/// What every program is given, where we have it.
const GIVEN: [&str; 7] = ["PATH", "LANG", "LC_ALL", "TZ", "TERM", "USER", "LOGNAME"];

/// Returns the servers of the configuration. One that cannot be used says so when it is asked.
pub(super) fn settings(
    home: &Home,
    env: &Environment,
    config: &Config,
    secrets: &Secrets,
) -> Vec<Settings> {
    let one = |(name, server): (&String, &McpServer)| {
        let transport = transport(home, env, config, secrets, (name, server));
        Settings {
            name: name.clone(),
            identity: mcp::identity(&server.command, &server.url),
            transport: transport.unwrap_or_else(Transport::Unusable),
            trust: server.trust.clone(),
            timeout: Duration::from_secs(server.timeout_secs),
            sampling: mcp::Sampling {
                rule: server.sampling,
                tokens: server.sampling_tokens,
                usd: server.sampling_usd,
            },
        }
    };
    config.mcp.servers.iter().map(one).collect()
}

fn transport(
    home: &Home,
    env: &Environment,
    config: &Config,
    secrets: &Secrets,
    (name, server): (&str, &McpServer),
) -> Result<Transport, String> {
    let unset =
        |variable: &str| format!("{variable} is not set; put {variable}=… into .env (mode 0600)");
    let secret = |variable: &str| {
        let found = secrets.get(variable).map_err(|error| error.to_string())?;
        found.ok_or_else(|| unset(variable))
    };
    if !server.url.is_empty() {
        let token = Some(&server.token_env)
            .filter(|name| !name.is_empty())
            .map(|name| secret(name))
            .transpose()?;
        let sign_ins = ServerSignIns::new(&home.server_auth(), Renewals::default());
        return Ok(Transport::Url {
            url: server.url.clone(),
            token,
            issuer: server.issuer.clone(),
            since: sign_ins.since(name, &server.url),
        });
    }
    let dir = home.server_dirs().join(name);
    let mut given: Vec<(String, String)> = GIVEN
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), env.get(name)?.into_string().ok()?)))
        .chain([("HOME".to_owned(), dir.display().to_string())])
        .collect();
    for variable in &server.env {
        let value = secrets.variable(variable);
        let value = value.map_err(|error| error.to_string())?;
        let value = value.ok_or_else(|| unset(variable))?;
        given.retain(|(name, _)| name != variable);
        given.push((variable.clone(), value));
    }
    // A link is where it leads.
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (state, settings, workspace) = (
        real(home.state()),
        real(home.config_dir()),
        real(home.workspace()),
    );
    let is_own = |path: &&PathBuf| {
        let path = real(path);
        path.starts_with(&state) || (path.starts_with(&settings) && !path.starts_with(&workspace))
    };
    if let Some(path) = server.reads.iter().chain(&server.writes).find(is_own) {
        return Err(format!(
            "{} is of the agent's own state or settings, which no server may see",
            path.display()
        ));
    }
    let asked = |path: &Path| {
        server
            .reads
            .iter()
            .chain(&server.writes)
            .any(|asked| asked == path)
    };
    let hidden = [home.config_dir(), home.state(), home.workspace()]
        .map(Path::to_owned)
        .into_iter()
        .chain(home_of_user(env));
    // What shapes the agent is not a server's to write, wherever it may write.
    let shape = workspace::protected_paths(home.workspace())
        .into_iter()
        .filter(|path| server.writes.iter().any(|dir| path.starts_with(dir)));
    Ok(Transport::Program(Box::new(Program {
        argv: server.command.clone(),
        dir,
        env: given,
        hidden: hidden.filter(|path| !asked(path)).collect(),
        reads: server.reads.iter().cloned().chain(shape).collect(),
        writes: server.writes.clone(),
        network: server.network.clone(),
        off: config.tools.exec.sandbox == Sandbox::Off,
        disk_reserve: config.media.reserve_mb.saturating_mul(1 << 20),
    })))
}
