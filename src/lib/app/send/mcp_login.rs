//! `--mcp login` and `--mcp logout`: a sign-in with a browser at the authorization server of a tool server.

use serde_json::json;

use super::submit;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::daemon::code_of;
use crate::app::render::Context;
use crate::auth::{
    self, Client, ClientSecret, Flow, Granted, Issuer, Listener, Place, Renewals, ServerSignIns,
};
use crate::config;
use crate::text;

/// `--mcp login NAME`.
pub(super) fn login(context: &Context<'_>, words: &[String]) -> Result<Exit, Failure> {
    let home = context.home;
    cli::may_write(home)?;
    let name = only(words)?;
    let config = config::load_config(home, context.env)?;
    let server = config.mcp.servers.get(name).ok_or_else(|| {
        let what = format!("no tool server {:?}", text::visible(name));
        Failure::failed(what).hint("agent-send --mcp add NAME url=ADDRESS adds one")
    })?;
    if server.url.is_empty() {
        let what = format!("{name} is a program on this machine: it needs no sign-in");
        return Err(Failure::usage(what).hint("its secrets are in .env, see `env`"));
    }
    if !server.token_env.is_empty() {
        let what = format!("{name} has a token already: {}", server.token_env);
        return Err(Failure::usage(what).hint("remove token_env from agent.toml first"));
    }
    let sign_ins = ServerSignIns::new(&home.server_auth(), Renewals::default());
    let runtime = cli::event_loop()?;
    let (issuer, scope) = runtime.block_on(sign_in(context, (name, server), &sign_ins))?;
    submit::reload(home)?;
    let words = format!("signed in at {issuer} for {name}; agent-send --mcp list shows its tools");
    let document = json!({"signed_in": name, "issuer": issuer, "scope": scope});
    Ok(context.done(&document, &text::visible(&words)))
}

/// `--mcp logout NAME`.
pub(super) fn logout(context: &Context<'_>, words: &[String]) -> Result<Exit, Failure> {
    let home = context.home;
    cli::may_write(home)?;
    let name = only(words)?;
    let sign_ins = ServerSignIns::new(&home.server_auth(), Renewals::default());
    if !sign_ins.remove(name)? {
        let what = format!("not signed in at {:?}", text::visible(name));
        return Err(Failure::failed(what).hint("agent-send --mcp list"));
    }
    submit::reload(home)?;
    let words = format!("signed out of {name}: its tokens are deleted here");
    Ok(context.done(&json!({"signed_out": name}), &words))
}

fn only(words: &[String]) -> Result<&str, Failure> {
    match words {
        [name] => Ok(name),
        _ => Err(Failure::usage("--mcp login takes the name of a server")
            .hint("agent-send --mcp list shows them")),
    }
}

/// Signs in and stores the tokens; returns where, and for what.
async fn sign_in(
    context: &Context<'_>,
    (name, server): (&str, &config::McpServer),
    sign_ins: &ServerSignIns,
) -> Result<(String, Option<String>), Failure> {
    let place = Place::new(&server.url, &server.issuer);
    let failed = |error: auth::Error| {
        let hint = match server.issuer.as_str() {
            "" => "where one signs in can be written: [mcp.servers.NAME] issuer, client_id",
            _ => "is [mcp.servers.NAME] issuer right?",
        };
        Failure::failed(format!("{name}: {error}; nothing was stored")).hint(hint)
    };
    let issuer = auth::discover(&place, &server.issuer)
        .await
        .map_err(failed)?;
    let port = Some(server.redirect_port).filter(|port| *port > 0);
    let listener = Listener::open(port).await.map_err(|error| {
        let what = format!("no port of 127.0.0.1 can be opened for the browser: {error}");
        Failure::try_again(what)
    })?;
    let client = match server.client_id.as_str() {
        "" => {
            let redirect = Flow::redirect(listener.port());
            let client = auth::register(&place, &issuer, &redirect).await;
            client.map_err(failed)?
        }
        id => Client {
            id: id.to_owned(),
            secret: own_secret(context, server, &issuer)?,
        },
    };
    let flow = Flow::at_server(&issuer, client, listener.port());
    let again = format!("agent-send --mcp login {name}");
    let at = text::visible(&issuer.issuer);
    let screen = Some(context.home.state());
    let code = code_of((&at, &again), (&flow, &listener), context.env, screen).await?;
    let http = place.client(&issuer.token_url).await.map_err(failed)?;
    let Granted::Tokens(tokens) = flow.exchange_by(&http, &code).await.map_err(failed)? else {
        return Err(Failure::bug("a tool server gave a key"));
    };
    let scope = tokens.scope.clone();
    sign_ins.put(name, &server.url, *tokens)?;
    Ok((issuer.issuer, scope))
}

/// Returns the secret of the client that the owner made, where it has one.
fn own_secret(
    context: &Context<'_>,
    server: &config::McpServer,
    issuer: &Issuer,
) -> Result<Option<ClientSecret>, Failure> {
    let name = &server.client_secret_env;
    if name.is_empty() {
        return Ok(None);
    }
    let secrets = config::Secrets::open(context.home, context.env)?;
    let secret = secrets.get(name)?.ok_or_else(|| {
        let what = format!("client_secret_env: {name} is not set");
        Failure::config(what).hint(format!(
            "write {name}=… into {}",
            context.home.env_file().display()
        ))
    })?;
    if server.issuer.is_empty()
        && let Some(host) = issuer.foreign_token_host(&server.url)
    {
        let host = text::visible(&host);
        let what = format!("the server has the secret of your client sent to another host, {host}");
        let hint = format!(
            "if you know that host, write issuer = \"{}\" into [mcp.servers.NAME] of agent.toml",
            text::visible(&issuer.issuer)
        );
        return Err(Failure::failed(what).hint(hint));
    }
    let stands = issuer.secret_stands.ok_or_else(|| {
        let what = format!(
            "{} takes no secret of a client",
            text::visible(&issuer.issuer)
        );
        Failure::failed(what)
            .hint("remove client_secret_env from agent.toml if the client has none")
    })?;
    Ok(Some(ClientSecret { secret, stands }))
}
