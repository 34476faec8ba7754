//! A sign-in with a browser, from the address to the tokens.

use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::browser;
use super::browser::Page;
use crate::app::cli;
use crate::app::cli::Failure;
use crate::auth::{Callback, Error, Flow, Granted, Listener};
use crate::config::{Environment, Provider};
use crate::secret::Secret;

/// A person must have found their password by then.
const PATIENCE: Duration = Duration::from_secs(300);

/// Signs in; `state` is where a page for the browser may lie, `None` when no browser is to be started.
pub(super) async fn sign_in(
    provider: &Provider,
    env: &Environment,
    state: Option<&Path>,
) -> Result<Granted, Failure> {
    let name = &provider.name;
    let port = provider
        .oauth
        .as_ref()
        .and_then(|oauth| oauth.redirect_port);
    let listener = Listener::open(port).await.map_err(|error| {
        let port = port.map_or_else(|| "any port".to_owned(), |port| format!("port {port}"));
        Failure::try_again(format!(
            "{port} of 127.0.0.1 cannot be opened for the browser to come back to: {error}"
        ))
        .hint("another sign-in may be waiting there; end it and try again")
    })?;
    let flow = Flow::new(provider, listener.port()).ok_or_else(|| {
        Failure::usage(format!("{name} offers no sign-in"))
            .hint(format!("agent-daemon login {name} --api-key"))
    })?;
    let code = code_of(
        (name, &format!("agent-daemon login {name} --oauth")),
        (&flow, &listener),
        env,
        state,
    )
    .await?;
    flow.exchange(&code).await.map_err(|error| match error {
        Error::Refused { .. } => Failure::failed(format!("{error}; nothing was stored")).hint(
            format!("a code is valid once, for about a minute: agent-daemon login {name} --oauth"),
        ),
        error => error.into(),
    })
}

/// Sends the person to sign in at `name`, and returns the code that comes back; `again` is the command that tries it
/// again.
pub(crate) async fn code_of(
    (name, again): (&str, &str),
    (flow, listener): (&Flow, &Listener),
    env: &Environment,
    state: Option<&Path>,
) -> Result<Secret, Failure> {
    let url = flow.url()?;
    // It is there until the sign-in has ended, however it ends.
    let page = state
        .filter(|_| browser::has_screen(env))
        .map(|state| Page::write(state, &url))
        .transpose()?;
    let started = page.as_ref().is_some_and(|page| page.open(env));
    let what = if started {
        "your browser was opened; if it shows nothing, open"
    } else {
        "open this address in a browser:"
    };
    cli::err(&format!("{what}\n\n  {url}\n"));
    cli::err(
        "when the browser is on another machine, it ends at a page that cannot be shown: paste its whole address here",
    );
    match tokio::time::timeout(PATIENCE, answer(flow, listener)).await {
        Ok(Ok(Callback::Code(code))) => Ok(code),
        Ok(Ok(Callback::Denied(words))) => Err(Failure::failed(format!(
            "{name} did not sign you in: {words}; nothing was stored"
        ))
        .hint(format!("{again}, and agree there"))),
        Ok(Ok(Callback::Foreign)) => Err(Failure::bug("an answer of another sign-in was taken")),
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::try_again(
            "the browser did not return within 5 minutes; nothing was stored",
        )
        .hint(again)),
    }
}

/// Waits for the browser or the person, whoever is first.
async fn answer(flow: &Flow, listener: &Listener) -> Result<Callback, Failure> {
    let stopped = |error| Failure::io(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(stopped)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(stopped)?;
    let mut lines = lines();
    let foreign =
        || cli::err("an answer came that does not belong to this sign-in; it was ignored");
    let browser = listener.wait(flow, foreign);
    tokio::pin!(browser);
    loop {
        tokio::select! {
            callback = &mut browser => return Ok(callback),
            Some(line) = lines.recv() => match Callback::pasted(flow, &line) {
                None => {}
                Some(Callback::Foreign) => cli::err("that is no address of this sign-in; paste the last one the browser shows, whole"),
                Some(callback) => return Ok(callback),
            },
            _ = interrupt.recv() => return Err(gave_up()),
            _ = terminate.recv() => return Err(gave_up()),
        }
    }
}

fn gave_up() -> Failure {
    Failure::failed("nothing was stored").hint("agent-daemon login --oauth, when you like")
}

/// Reads standard input on a separate thread, which may wait forever; its end is not an answer.
fn lines() -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receive
}
