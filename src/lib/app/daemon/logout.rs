//! `agent-daemon logout`: deletes the credentials that `login` stored. It is not an error if they are already gone.

use serde_json::json;

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::auth::{Keys, State};
use crate::config;
use crate::sys::lock;

pub(super) fn logout(
    shared: &Shared,
    provider: Option<&str>,
    all: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    cli::may_write(&home)?;
    cli::prepare(&home)?;
    let keys = Keys::open(&home, &env)?;
    let contents = keys.store().read()?;
    let name = match (provider, all) {
        (_, true) => None,
        (Some(name), false) => Some(name.to_owned()),
        (None, false) => match contents.entries.keys().collect::<Vec<_>>().as_slice() {
            [only] => Some((*only).clone()),
            [] => return done(&[], json, &keys, &contents.state),
            several => {
                let names: Vec<&str> = several.iter().map(|name| name.as_str()).collect();
                return Err(Failure::usage(format!(
                    "name a provider: credentials of {} are stored",
                    names.join(", ")
                ))
                .hint(format!(
                    "agent-daemon logout {}, or --all",
                    names.first().unwrap_or(&"NAME")
                )));
            }
        },
    };
    if let Some(name) = &name
        && !contents.entries.contains_key(name)
        && config::provider(&home, name)?.is_none()
    {
        let name = crate::text::visible(&crate::text::shorten(name, 64));
        return Err(
            Failure::failed(format!("no provider \"{name}\"")).hint("agent-daemon auth lists them")
        );
    }
    let removed = keys.store().remove(name.as_deref())?;
    if !removed.is_empty() {
        super::tell_to_reload(&home, lock::holder(&home.lock())?);
    }
    let exit = done(&removed, json, &keys, &contents.state)?;
    if !json && !shared.quiet {
        for name in &removed {
            let Ok(Some(provider)) = config::provider(&home, name) else {
                continue;
            };
            if let Some(left) = keys.sources(&provider)?.first() {
                cli::err(&format!(
                    "note: {} still has a key for {name}",
                    super::auth::place(left.origin, &provider)
                ));
            }
        }
        if !removed.is_empty() {
            cli::err(
                "the key itself is still valid: revoke it at the provider if others may have it",
            );
        }
    }
    Ok(exit)
}

fn done(removed: &[String], json: bool, keys: &Keys, state: &State) -> Result<Exit, Failure> {
    if json {
        cli::json(&json!({"removed": removed}));
    } else if removed.is_empty() {
        cli::out("nothing was stored");
    } else {
        cli::out(&format!(
            "deleted the stored credentials of {}",
            removed.join(", ")
        ));
    }
    if let State::Corrupt { reason } = state {
        cli::err(&format!(
            "warning: {} cannot be read ({reason}) and may still hold keys: rm it",
            keys.store().path().display()
        ));
    }
    Ok(Exit::Ok)
}
