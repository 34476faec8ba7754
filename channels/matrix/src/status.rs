//! Shows the state of the session: after signing in, and on request.

use agent_channel::Spool;
use matrix_sdk::encryption::recovery::RecoveryState;

use crate::error::Error;
use crate::rooms::{self, Kind};
use crate::session::{self, SignedIn};
use crate::settings::Settings;
use crate::verify::say;

/// Tells of a sign-in.
///
/// # Errors
/// When nobody hears it.
pub fn signed_in(done: &SignedIn, channel: &str) -> Result<(), Error> {
    say(&format!(
        "Signed in: {} on the device {}.",
        done.meta.user_id, done.meta.device_id
    ))?;
    if let Some(key) = &done.recovery_key {
        say(
            "Recovery key, shown only now; without it a lost disk means a new identity. Keep it elsewhere:",
        )?;
        say(&format!("  {key}"))?;
    }
    if !done.is_signed {
        say(
            "This device is not signed by the account's identity: many clients will not send it keys. One of:",
        )?;
        say("  agent-channel-matrix logout; agent-channel-matrix login --recovery-key-file FILE")?;
        say("  agent-channel-matrix verify, with another device of the account")?;
        say("  agent-channel-matrix logout; agent-channel-matrix login --reset-identity")?;
    }
    say(&format!(
        "Start it: systemctl --user enable --now agent-channel@{channel}"
    ))
}

/// Shows who is signed in, what others see of this device, and whom the agent has verified.
///
/// # Errors
/// When nobody is signed in, or the homeserver is unreachable.
pub async fn run(settings: &Settings, spool: &Spool) -> Result<(), Error> {
    let client = session::restore(settings, spool).await?;
    let who = client
        .whoami()
        .await
        .map_err(|error| Error::http("the session", &error))?;
    if who.user_id != settings.user {
        let (is, wanted) = (&who.user_id, &settings.user);
        return Err(Error::Refused(format!(
            "the homeserver says that the session is {is}'s, and user is {wanted}"
        )));
    }
    say(&format!(
        "account     {} at {}",
        who.user_id,
        client.homeserver()
    ))?;
    let device = client
        .device_id()
        .map(ToString::to_string)
        .unwrap_or_default();
    let is_signed = session::is_signed(&client).await;
    let seen = if is_signed {
        "signed by the account's identity"
    } else {
        "NOT signed by the account's identity"
    };
    say(&format!("device      {device}, {seen}"))?;
    if let Some(key) = client.encryption().ed25519_key().await {
        say(&format!("key         {key}"))?;
    }
    client
        .encryption()
        .wait_for_e2ee_initialization_tasks()
        .await;
    let recovery = match client.encryption().recovery().state() {
        RecoveryState::Enabled => "a recovery key restores the keys",
        RecoveryState::Incomplete => {
            "there is a recovery key, but this device does not know all keys that it protects"
        }
        RecoveryState::Disabled => "none: after the loss of the disk a new identity is needed",
        RecoveryState::Unknown => "not checked yet",
    };
    say(&format!("recovery    {recovery}"))?;
    for room in client.joined_rooms() {
        let Kind::Direct(other) = rooms::kind(&room).await? else {
            say(&format!(
                "group       {} {}",
                room.room_id(),
                room.display_name()
                    .await
                    .map(|name| name.to_string())
                    .unwrap_or_default()
            ))?;
            continue;
        };
        let identity = client
            .encryption()
            .get_user_identity(&other)
            .await
            .ok()
            .flatten();
        let trust = match identity {
            Some(identity) if identity.is_verified() => "verified",
            Some(identity) if identity.has_verification_violation() => {
                "WAS verified, and has another identity now"
            }
            Some(_) => "not verified",
            None => "without an identity",
        };
        let sealed = if room.encryption_state().is_encrypted() {
            "encrypted"
        } else {
            "not encrypted"
        };
        say(&format!("direct      {other}, {trust}; {sealed}"))?;
    }
    Ok(())
}
