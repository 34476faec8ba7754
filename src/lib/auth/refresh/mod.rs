//! Renews a token with one request, however many processes and turns need it at the same time.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Client;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::store::{Store, Tokens};
use super::{Error, oauth};
use crate::clock;
use crate::secret::Secret;
use crate::sys::lock::Lock;

/// A token is renewed this long before it ends, milliseconds, or after three quarters of a shorter
/// life: clocks differ, and a request takes a while.
const MARGIN: i64 = 60_000;

/// How long another process's renewal is waited for: an issuer may take 30 s.
const LOCK_TIMEOUT: Duration = Duration::from_secs(35);
/// Between two tries to get the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The renewals of this process: they outlast the caller that asked for them, and a reload.
#[derive(Debug, Clone, Default)]
pub struct Renewals {
    running: TaskTracker,
    /// By provider what could not be written down, with the refresh token that it was got for.
    unsaved: Arc<Mutex<HashMap<String, (Secret, Tokens)>>>,
}

impl Renewals {
    /// Waits until those under way have ended: an answer that nobody writes down would be the end of the
    /// sign-in.
    pub async fn end(&self) {
        self.running.close();
        self.running.wait().await;
    }
}

impl Tokens {
    /// Returns why the sign-in has ended, if it has by `now`, milliseconds since 1970 UTC.
    pub fn ended(&self, now: i64) -> Option<String> {
        let over =
            || (self.refresh.is_none() && !is_fresh(self, now)).then(|| NO_REFRESH.to_owned());
        self.signed_out.clone().or_else(over)
    }
}

const NO_REFRESH: &str = "its token has ended, and the issuer gave nothing to renew it with";

/// Returns whether the access token can be sent now.
pub(super) fn is_fresh(tokens: &Tokens, now: i64) -> bool {
    let life = tokens
        .expires_at
        .zip(tokens.obtained_at)
        .map_or(i64::MAX, |(end, start)| end.saturating_sub(start));
    let margin = MARGIN.min(life / 4).max(0);
    tokens.access.is_some()
        && tokens.signed_out.is_none()
        && tokens
            .expires_at
            .is_none_or(|end| now < end.saturating_sub(margin))
}

/// Returns an access token that is fresh and is not `refused`, renewed if need be. What began continues
/// when the caller is dropped: an answer that nobody writes down would be the end of the sign-in.
///
/// # Errors
/// [`Error::SignedOut`], [`Error::Trouble`] when the issuer cannot be asked, [`Error::File`].
pub(super) async fn fresh(
    store: &Arc<Store>,
    http: &Client,
    provider: &str,
    refused: Option<&Secret>,
) -> Result<Secret, Error> {
    if let Some(access) = usable(&tokens(store, provider)?, refused) {
        return Ok(access);
    }
    let (store, http, provider, refused) = (
        Arc::clone(store),
        http.clone(),
        provider.to_owned(),
        refused.cloned(),
    );
    let running = store.renewals.running.clone();
    let renewal =
        running.spawn(async move { alone(&store, &http, &provider, refused.as_ref()).await });
    let broken = |_| {
        Err(Error::trouble(
            "the renewal",
            "it panicked; this is a bug in agent-toolkit, please report it",
        ))
    };
    renewal.await.unwrap_or_else(broken)
}

/// Takes the lock; its previous holder may have done the work.
async fn alone(
    store: &Arc<Store>,
    http: &Client,
    provider: &str,
    refused: Option<&Secret>,
) -> Result<Secret, Error> {
    let _lock = lock(store, provider).await?;
    let old = tokens(store, provider)?;
    if let Some(access) = usable(&old, refused) {
        return Ok(access);
    }
    let signed_out = |reason: &str| Error::SignedOut {
        provider: provider.to_owned(),
        reason: reason.to_owned(),
    };
    if let Some(reason) = &old.signed_out {
        return Err(signed_out(reason));
    }
    let Some(refresh) = &old.refresh else {
        return Err(signed_out(NO_REFRESH));
    };
    // Also the proof that the disk can be written, before the refresh token is used up.
    if !store.update(provider, refresh, |tokens| {
        tokens.renewing_at = Some(clock::now_ms())
    })? {
        let reason = "state/auth.json changed at the same moment; try again".to_owned();
        return Err(Error::trouble("the renewal", reason));
    }
    let renewed = oauth::renew(http, &old, refresh).await;
    match renewed {
        // Written down before it is used: else a crash would lose it.
        Ok(new) => match store.update(provider, refresh, |tokens| *tokens = new.clone()) {
            Ok(true) => new
                .access
                .ok_or_else(|| signed_out("the issuer gave no token")),
            // The disk filled up meanwhile. The old refresh token may be used up, so the new ones are kept
            // here and written down as soon as that is possible.
            Err(error) => {
                tracing::error!(%error, provider, "renewed tokens cannot be stored yet; the sign-in is lost if this process ends before they are");
                store
                    .renewals
                    .unsaved
                    .lock()
                    .insert(provider.to_owned(), (refresh.clone(), new.clone()));
                new.access
                    .ok_or_else(|| signed_out("the issuer gave no token"))
            }
            // Somebody signed in or out meanwhile; what they did counts.
            Ok(false) => usable(&tokens(store, provider)?, refused)
                .ok_or_else(|| signed_out("it was ended while it was renewed")),
        },
        Err(error) => failed(store, provider, &old, refresh, refused, error),
    }
}

/// The renewal failed; perhaps somebody else's did not.
fn failed(
    store: &Store,
    provider: &str,
    old: &Tokens,
    refresh: &Secret,
    refused: Option<&Secret>,
    error: Error,
) -> Result<Secret, Error> {
    if let Some(access) = usable(&tokens(store, provider)?, refused) {
        return Ok(access);
    }
    if let Error::Refused { code, reason, .. } = &error
        && code == "invalid_grant"
    {
        let reason = match old.renewing_at {
            Some(_) => format!(
                "{reason} (an earlier renewal was cut off before its answer was written down)"
            ),
            None => reason.clone(),
        };
        store.update(provider, refresh, |tokens| {
            *tokens = Tokens {
                access: None,
                refresh: None,
                renewing_at: None,
                signed_out: Some(reason.clone()),
                ..old.clone()
            };
        })?;
        return Err(Error::SignedOut {
            provider: provider.to_owned(),
            reason,
        });
    }
    // A refusal uses nothing up; behind silence the issuer may have done its work.
    if matches!(error, Error::Refused { .. }) {
        store.update(provider, refresh, |tokens| {
            tokens.renewing_at = old.renewing_at
        })?;
    }
    let alive = old.expires_at.is_none_or(|end| clock::now_ms() < end);
    match &old.access {
        Some(access) if alive && refused != Some(access) => Ok(access.clone()),
        _ => Err(error),
    }
}

/// Waits for the lock without blocking a thread.
async fn lock(store: &Store, provider: &str) -> Result<Lock, Error> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        if let Some(lock) = store.renewing(provider)? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            let secs = LOCK_TIMEOUT.as_secs();
            let reason = format!(
                "another process has held auth.{provider}.lock for {secs} s; is one stopped?"
            );
            return Err(Error::trouble("the renewal", reason));
        }
        tokio::time::sleep(LOCK_PAUSE).await;
    }
}

/// Returns the sign-in, with what could not be written down yet, which is tried again.
pub(super) fn tokens(store: &Store, provider: &str) -> Result<Tokens, Error> {
    let found = stored(store, provider);
    let unsaved = store.renewals.unsaved.lock().get(provider).cloned();
    let Some((refresh, new)) = unsaved else {
        return found;
    };
    match store.update(provider, &refresh, |tokens| *tokens = new.clone()) {
        Err(_) => {
            return found.map(|found| {
                if found.refresh.as_ref() == Some(&refresh) {
                    new
                } else {
                    found
                }
            });
        }
        Ok(true) => tracing::info!(provider, "renewed tokens are stored"),
        // Somebody signed in or out meanwhile; what they did counts.
        Ok(false) => {}
    }
    store.renewals.unsaved.lock().remove(provider);
    stored(store, provider)
}

fn stored(store: &Store, provider: &str) -> Result<Tokens, Error> {
    store.entry(provider)?.tokens.ok_or_else(|| Error::Absent {
        provider: provider.to_owned(),
    })
}

fn usable(tokens: &Tokens, refused: Option<&Secret>) -> Option<Secret> {
    let fresh = is_fresh(tokens, clock::now_ms());
    tokens
        .access
        .clone()
        .filter(|access| fresh && Some(access) != refused)
}

#[cfg(test)]
mod tests;
