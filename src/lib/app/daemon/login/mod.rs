//! `agent-daemon login`: store a key, or sign in with a browser.
//!
//! A key is never on the command line: it is typed without being shown, or read from standard input. agent.toml is never
//! written. If no provider is set up yet, `login` creates `providers.d/NAME.toml`, and a home without `providers.load`
//! loads the providers that have an entry in auth.json. So a new home needs two commands for a model:
//! `agent-daemon init` and `agent-daemon login anthropic`.

mod browser;
pub(super) mod prompt;
mod sign_in;
mod target;

use std::io::{BufRead, IsTerminal, Read};

use clap::Args;
use serde_json::json;

use super::auth::{self, last_four};
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::systemd_unit::Unit;
use crate::auth::{Granted, Keys, Origin, Verdict, is_openrouter, probe};
use crate::config::{Environment, Home};
use crate::provider::Credential;
use crate::secret::Secret;
use crate::sys::lock;
use target::Target;
pub(super) use target::names;

pub(crate) use sign_in::code_of;

/// The longest key, bytes; a service account's token of 4 KiB is the longest we know of.
const MAX_KEY: u64 = 64 * 1024;

/// What `login` is told.
#[derive(Debug, Args)]
pub(super) struct Login {
    /// The provider: NAME of providers.d/NAME.toml, or anthropic, openai, openrouter, gemini
    provider: Option<String>,
    /// Store an API key: typed without being shown, or the first line of standard input
    #[arg(long, conflicts_with = "oauth")]
    api_key: bool,
    /// Sign in with a browser, if the provider offers it to third-party programs
    #[arg(long)]
    oauth: bool,
    /// Do not start a browser; print the address to open, here or on another machine
    #[arg(long)]
    no_browser: bool,
    /// Store the key without verifying it
    #[arg(long, conflicts_with = "oauth")]
    no_check: bool,
}

pub(super) fn login(shared: &Shared, login: &Login, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    cli::may_write(&home)?;
    cli::prepare(&home)?;
    let target = Target::find(&home, &env, login.provider.as_deref())?;
    let keys = Keys::open(&home, &env)?;
    // What cannot be read must not be found out after a key was typed.
    keys.store().read()?;
    let was_loaded = target.is_loaded(&home, &env)?;
    let (granted, verdict) = obtain(shared, login, &target, (&env, &home))?;
    refuse_wrong(&verdict, target.name())?;
    let aside = match &granted {
        Granted::Key(key) => keys.store().put_key(target.name(), key)?,
        Granted::Tokens(tokens) => keys.store().put_tokens(target.name(), tokens)?,
    };
    if let Some(aside) = aside {
        cli::err(&format!(
            "warning: the unreadable file is kept as {}",
            home.display(&aside)
        ));
    }
    let is_untested = matches!(verdict, Verdict::Unknown(_)) && !login.no_check;
    if is_untested && !was_loaded {
        keys.store().set_verified(target.name(), false)?;
    }
    let created = target.set_up(&home)?;
    let daemon = lock::holder(&home.lock())?;
    let told = super::tell_to_reload(&home, daemon);
    let loaded = target.is_loaded(&home, &env)?;
    if json {
        cli::json(&json!({
            "provider": target.name(),
            "stored": if matches!(granted, Granted::Key(_)) { "api_key" } else { "oauth" },
            "checked": auth::told(&verdict).0,
            "created": created.as_ref().map(|path| path.display().to_string()),
            "loaded": loaded,
            "daemon_running": daemon.is_some(),
        }));
        return Ok(Exit::Ok);
    }
    cli::out(&said(&target, &granted, &verdict));
    if shared.quiet {
        return Ok(Exit::Ok);
    }
    if let Some(path) = &created {
        cli::err(&format!(
            "created {}: it names a model and its prices; look at them",
            path.display()
        ));
    }
    shadow(&keys, &target, &granted)?;
    if loaded || !is_untested {
        next((&env, &home), &target, loaded, daemon, told);
    } else {
        cli::err(
            "the agent continues as before; when the network is available: agent-daemon auth --check",
        );
    }
    Ok(Exit::Ok)
}

/// Asks for the key, or signs in, and tries a key that was typed.
fn obtain(
    shared: &Shared,
    login: &Login,
    target: &Target,
    (env, home): (&Environment, &Home),
) -> Result<(Granted, Verdict), Failure> {
    let http = cli::http_client()?;
    let way = Way::choose(login, target)?;
    let typed = (way == Way::Key)
        .then(|| ask_for_key(shared, target))
        .transpose()?;
    // Not before: a second thread would take the signals that the prompt waits for.
    let runtime = cli::event_loop()?;
    let granted = match typed {
        Some(key) => Granted::Key(key),
        None => {
            let state = (!login.no_browser).then_some(home.state());
            runtime.block_on(sign_in::sign_in(&target.provider, env, state))?
        }
    };
    let verdict = match &granted {
        Granted::Key(secret) if way == Way::Key && !login.no_check => {
            let given = Credential {
                secret: secret.clone(),
                is_token: false,
            };
            runtime.block_on(probe(&http, &target.provider, &given))
        }
        Granted::Key(_) if way == Way::Key => Verdict::Unknown("--no-check".to_owned()),
        Granted::Key(_) | Granted::Tokens(_) => Verdict::Good(String::new()),
    };
    // A person may still be reading from standard input.
    runtime.shutdown_background();
    Ok((granted, verdict))
}

fn refuse_wrong(verdict: &Verdict, name: &str) -> Result<(), Failure> {
    let Verdict::Refused(words) = verdict else {
        return Ok(());
    };
    let message = format!("the key for {name} is wrong: {words}; nothing was stored");
    Err(Failure::failed(message).hint(format!(
        "copy it whole and try again; to store it anyway: agent-daemon login {name} --no-check"
    )))
}

/// How it is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Key,
    Browser,
}

impl Way {
    fn choose(login: &Login, target: &Target) -> Result<Self, Failure> {
        let offers = target.provider.oauth.is_some() || is_openrouter(&target.provider);
        match (login.api_key, login.oauth) {
            (true, _) => Ok(Self::Key),
            (_, true) if offers => Ok(Self::Browser),
            (_, true) => {
                let name = target.name();
                let message = format!(
                    "{name} offers no sign-in to third-party programs, as far as its file says"
                );
                Err(Failure::usage(message).hint(format!(
                    "agent-daemon login {name} --api-key; [oauth] in providers.d/{name}.toml is for issuers that do"
                )))
            }
            // `pass show x | agent-daemon login house` means the key.
            (false, false) if target.provider.oauth.is_some() && std::io::stdin().is_terminal() => {
                Ok(Self::Browser)
            }
            (false, false) => Ok(Self::Key),
        }
    }
}

fn ask_for_key(shared: &Shared, target: &Target) -> Result<Secret, Failure> {
    let stdin = std::io::stdin();
    let line = if stdin.is_terminal() {
        if let (false, Some(page)) = (shared.quiet, target.key_page()) {
            cli::err(&format!("keys are made at {page}"));
        }
        if is_openrouter(&target.provider) && !shared.quiet {
            cli::err(&format!(
                "or sign in with your browser: agent-daemon login {} --oauth",
                target.name()
            ));
        }
        prompt::hidden(&format!(
            "API key for {} (it is not shown): ",
            target.name()
        ))?
        .ok_or_else(|| {
            Failure::failed("nothing was stored").hint("agent-daemon login, when you have the key")
        })?
    } else {
        let mut line = String::new();
        let read = stdin.lock().take(MAX_KEY).read_line(&mut line);
        read.map_err(|error| {
            Failure::data(format!("no key can be read from standard input: {error}")).hint(PIPE)
        })?;
        line
    };
    let key = Secret::new(line.trim());
    match key.expose() {
        "" => Err(Failure::data("there was no key; nothing was stored").hint(PIPE)),
        text if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(key),
        _ => Err(Failure::data(
            "that is no key: it has spaces or letters that no key has; nothing was stored",
        )
        .hint("copy the key alone, whole")),
    }
}

const PIPE: &str = "type it at the prompt, or pipe its one line: pass show anthropic | agent-daemon login anthropic";

fn said(target: &Target, granted: &Granted, verdict: &Verdict) -> String {
    let name = target.name();
    match (granted, verdict) {
        (Granted::Tokens(tokens), _) => match tokens.expires_at {
            Some(end) if tokens.refresh.is_none() => {
                format!(
                    "signed in at {name} until {}: the issuer gave nothing to renew it with",
                    super::auth::moment(end)
                )
            }
            _ => format!("signed in at {name}"),
        },
        (Granted::Key(key), Verdict::Good(found)) if found.is_empty() => {
            format!("signed in at {name}: it gave a key{}", ending(key))
        }
        (Granted::Key(key), Verdict::Good(found)) => format!(
            "stored the key for {name}{}: it is good, {found}",
            ending(key)
        ),
        (Granted::Key(_), Verdict::Unknown(why) | Verdict::Refused(why)) => {
            format!("Key saved but not verified: {why}")
        }
    }
}

fn ending(key: &Secret) -> String {
    last_four(key).map_or_else(String::new, |end| format!(" that ends in {end}"))
}

/// Says what goes before that which was just stored.
fn shadow(keys: &Keys, target: &Target, granted: &Granted) -> Result<(), Failure> {
    let own = if matches!(granted, Granted::Key(_)) {
        Origin::Stored
    } else {
        Origin::SignIn
    };
    let first = keys.sources(&target.provider)?.into_iter().next();
    if let Some(first) = first.filter(|first| first.origin != own) {
        let what = super::auth::place(first.origin, &target.provider);
        cli::err(&format!(
            "warning: {what} takes precedence and is used; agent-daemon auth"
        ));
    }
    Ok(())
}

/// The next step.
fn next(
    (env, home): (&Environment, &Home),
    target: &Target,
    loaded: bool,
    daemon: Option<i32>,
    told: bool,
) {
    let name = target.name();
    let file = home.config_file().display();
    let check = cli::command("agent-daemon", "check");
    let words = match (loaded, daemon) {
        (true, Some(_)) if told => {
            format!("the running daemon uses {name} from its next message on")
        }
        (true, Some(pid)) => {
            format!("next: kill -HUP {pid}, so that the running daemon reads its settings again")
        }
        (true, None) => {
            let unit = Unit::of(env, home).and_then(|unit| unit.start());
            let start = unit.unwrap_or_else(|| cli::command("agent-daemon", "run"));
            format!("next: {check}, then start it: {start}")
        }
        (false, _) if !home.config_file().exists() => format!(
            "next: {}, which makes {file}; without it only a key in the environment or in .env counts",
            cli::command("agent-daemon", "init")
        ),
        (false, _) => {
            let list = format!("add \"{name}\" to load in [providers] of {file}");
            // It is there, and none of its models is `primary`.
            let no_primary = format!("look at the models in providers.d/{name}.toml");
            let step = if target.listed { list } else { no_primary };
            format!("next: {step}, then {check}")
        }
    };
    cli::err(&words);
}
