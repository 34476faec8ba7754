//! The session: signing in, and restoring a stored session.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_channel::{Password, Spool, now_ms};
use matrix_sdk::authentication::matrix::MatrixSession;
use matrix_sdk::config::{RequestConfig, SyncSettings};
use matrix_sdk::encryption::{BackupDownloadStrategy, EncryptionSettings};
use matrix_sdk::reqwest;
use matrix_sdk::ruma::api::client::uiaa;
use matrix_sdk::store::{StateStoreDataKey, StoreConfig};
use matrix_sdk::{Client, SessionMeta, SqliteEventCacheStore, SqliteMediaStore, SqliteStateStore};
use matrix_sdk_common::cross_process_lock::CrossProcessLockConfig;
use matrix_sdk_sqlite::OpenStoreError;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::key_store::KeyStore;
use crate::receive;
use crate::settings::Settings;

/// What is kept of the session: the token, in a file of mode 600.
const SESSION: &str = "secret/session.json";
/// The keys, and what is known of rooms.
const STORE: &str = "secret/store";
/// The keys alone, in it.
const KEYS: &str = "matrix-sdk-crypto.sqlite3";
/// What a server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is kept of a session.
#[derive(Serialize, Deserialize)]
struct Saved {
    /// Where the homeserver is.
    homeserver: String,
    #[serde(flatten)]
    session: MatrixSession,
}

/// How somebody signs in.
#[derive(Debug, Default)]
pub struct Login {
    /// The recovery key of the account.
    pub recovery_key: Option<Password>,
    /// Whether the account gets a new identity.
    pub reset_identity: bool,
}

/// What the person is told of a sign-in.
#[derive(Debug)]
pub struct SignedIn {
    /// The device.
    pub meta: SessionMeta,
    /// Whether other people's clients see the device as one of its owner's.
    pub is_signed: bool,
    /// A recovery key that is new.
    pub recovery_key: Option<String>,
}

/// Returns the client that the kept session is of, for whom everything is new that it is told: what the library was told
/// last, and this program may not have taken in, it would otherwise pass over without a word.
///
/// # Errors
/// When there is none, or the disk fails.
pub async fn restore_anew(settings: &Settings, spool: &Spool) -> Result<Client, Error> {
    let (client, session) = opened(settings, spool).await?;
    let forgotten = client
        .state_store()
        .remove_kv_data(StateStoreDataKey::SyncToken)
        .await;
    forgotten.map_err(|error| Error::Store(format!("what is known of rooms: {error}")))?;
    let restored = client.restore_session(session).await;
    restored.map_err(|error| Error::Store(format!("the session: {error}")))?;
    Ok(client)
}

/// Returns the client that the kept session is of.
///
/// # Errors
/// When there is none, or the disk fails.
pub async fn restore(settings: &Settings, spool: &Spool) -> Result<Client, Error> {
    let (client, session) = opened(settings, spool).await?;
    let restored = client.restore_session(session).await;
    restored.map_err(|error| Error::Store(format!("the session: {error}")))?;
    Ok(client)
}

/// Returns a client with what is kept, and the session that it may go on with.
async fn opened(settings: &Settings, spool: &Spool) -> Result<(Client, MatrixSession), Error> {
    let saved: Option<Saved> = spool.recall(SESSION)?;
    let saved = saved.ok_or_else(|| Error::SignedOut("not signed in".to_owned()))?;
    if saved.session.meta.user_id != settings.user {
        let (is, wanted) = (&saved.session.meta.user_id, &settings.user);
        return Err(Error::SignedOut(format!(
            "{is} is signed in, and user is {wanted}"
        )));
    }
    let store = spool.path(STORE);
    if !store.join(KEYS).is_file() {
        // With new keys under the old name, others would send to it what it cannot read, and be warned of it.
        return Err(Error::SignedOut(format!(
            "the keys of the device are gone from {}",
            store.display()
        )));
    }
    let client = build(settings, Some(&saved.homeserver), &store).await?;
    Ok((client, saved.session))
}

/// Signs in. A session that the server ended softly is continued with its keys; otherwise there is a new device, and what
/// was kept of the old one is set aside.
///
/// # Errors
/// When the server says no, or is away.
pub async fn login(
    settings: &Settings,
    spool: &Spool,
    password: &Password,
    login: &Login,
) -> Result<SignedIn, Error> {
    let old = soft(settings, spool).await?;
    if old.is_none() {
        set_aside(spool)?;
    }
    let client = build(settings, settings.homeserver.as_deref(), &spool.path(STORE)).await?;
    let auth = client.matrix_auth();
    let mut signing_in = auth
        .login_username(settings.user.as_str(), password.expose())
        .initial_device_display_name(&settings.device_name);
    if let Some(device) = &old {
        signing_in = signing_in.device_id(device);
    }
    signing_in.send().await.map_err(Error::of("signing in"))?;
    let session = auth
        .session()
        .ok_or_else(|| Error::SignedOut("the server gave no session".to_owned()))?;
    let meta = session.meta.clone();
    if meta.user_id != settings.user {
        let (is, wanted) = (&meta.user_id, &settings.user);
        return Err(Error::Refused(format!(
            "the homeserver signed {is} in, and user is {wanted}"
        )));
    }
    let homeserver = client.homeserver().to_string();
    spool.remember(
        SESSION,
        &Saved {
            homeserver,
            session,
        },
    )?;
    client
        .encryption()
        .wait_for_e2ee_initialization_tasks()
        .await;
    let synced = client
        .sync_once(
            SyncSettings::new()
                .timeout(Duration::ZERO)
                .filter(receive::filter()),
        )
        .await
        .map_err(Error::of("the first look"))?;
    if old.is_none() {
        // What was said before is history; what comes from here on is not lost, though the channel starts later.
        receive::begin(spool, &synced.next_batch, meta.device_id.as_str())?;
    }
    let recovery_key = identify(&client, settings, password, login).await?;
    // What was made of keys goes out.
    let again = SyncSettings::new()
        .timeout(Duration::ZERO)
        .filter(receive::filter());
    client
        .sync_once(again)
        .await
        .map_err(Error::of("the first look"))?;
    let is_signed = is_signed(&client).await;
    Ok(SignedIn {
        meta,
        is_signed,
        recovery_key,
    })
}

/// Returns true when the account's own identity vouches for this device: clients that send keys to nothing else do to it.
pub async fn is_signed(client: &Client) -> bool {
    let device = client.encryption().get_own_device().await;
    device.is_ok_and(|device| device.is_some_and(|device| device.is_cross_signed_by_owner()))
}

/// Gives the account an identity that signs this device, or takes the one that it has; returns a recovery key that is new.
async fn identify(
    client: &Client,
    settings: &Settings,
    password: &Password,
    login: &Login,
) -> Result<Option<String>, Error> {
    let encryption = client.encryption();
    let failed = Error::of("the identity of the account");
    if let Some(key) = &login.recovery_key {
        let recovered = encryption.recovery().recover(key.expose()).await;
        recovered.map_err(|error| Error::Refused(format!("the recovery key: {error}")))?;
        return Ok(None);
    }
    let own = encryption
        .request_user_identity(&settings.user)
        .await
        .map_err(&failed)?;
    let has_keys = encryption
        .cross_signing_status()
        .await
        .is_some_and(|status| status.is_complete());
    if (own.is_some() || has_keys) && !login.reset_identity {
        return Ok(None);
    }
    if let Err(error) = encryption.bootstrap_cross_signing(None).await {
        let Some(asked) = error.as_uiaa_response() else {
            return Err(failed(error));
        };
        let who = uiaa::UserIdentifier::Matrix(uiaa::MatrixUserIdentifier::new(
            settings.user.to_string(),
        ));
        let mut answer = uiaa::Password::new(who, password.expose().to_owned());
        answer.session = asked.session.clone();
        let again = encryption
            .bootstrap_cross_signing(Some(uiaa::AuthData::Password(answer)))
            .await;
        again.map_err(&failed)?;
    }
    // A backup that another device made stays as it is.
    let enabled = if login.reset_identity {
        encryption.recovery().reset_key().await
    } else {
        encryption.recovery().enable().await
    };
    match enabled {
        Ok(key) => Ok(Some(key)),
        Err(error) => {
            tracing::warn!(%error, "there is no recovery key: the key backup of another device is not used");
            Ok(None)
        }
    }
}

/// Returns the device of a session that the server ended softly, with whose keys it goes on.
async fn soft(settings: &Settings, spool: &Spool) -> Result<Option<String>, Error> {
    let Ok(client) = restore(settings, spool).await else {
        return Ok(None);
    };
    let Err(error) = client.whoami().await else {
        return Err(Error::Refused(
            "already signed in; to start again with another device: agent-channel-matrix logout"
                .to_owned(),
        ));
    };
    use matrix_sdk::ruma::api::error::ErrorKind;
    match error.client_api_error_kind() {
        Some(ErrorKind::UnknownToken(data)) if data.soft_logout => {
            Ok(client.device_id().map(ToString::to_string))
        }
        Some(ErrorKind::UnknownToken(_)) => Ok(None),
        _ => Err(Error::http("the old session", &error)),
    }
}

/// Ends the session, and sets its keys aside.
///
/// # Errors
/// When the server is away: the session would stay open there.
pub async fn logout(settings: &Settings, spool: &Spool) -> Result<(), Error> {
    let client = restore(settings, spool).await?;
    match client.matrix_auth().logout().await {
        Ok(_) => {}
        Err(error) => match Error::http("signing out", &error) {
            Error::SignedOut(_) => {}
            error => return Err(error),
        },
    }
    drop(client);
    set_aside(spool)
}

/// What is kept of a session goes out of the way: its keys may still read what nobody else can.
fn set_aside(spool: &Spool) -> Result<(), Error> {
    spool.forget(SESSION);
    let store = spool.path(STORE);
    if store.is_dir() {
        let aside = PathBuf::from(format!("{}.old-{}", store.display(), now_ms()));
        std::fs::rename(&store, &aside).map_err(agent_channel::Error::at("set aside", &store))?;
        tracing::info!(dir = %aside.display(), "the keys of the former device were moved aside");
    }
    Ok(())
}

/// Builds a client with what is kept below `store`.
async fn build(
    settings: &Settings,
    homeserver: Option<&str>,
    store: &Path,
) -> Result<Client, Error> {
    let config = |path: &Path, why: String| Error::Settings(path.to_owned(), why);
    let mut http = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(30))
        .redirect(reqwest::redirect::Policy::custom(|attempt| {
            // Where the homeserver is may be told by another site; what it answers, by itself alone.
            let is_answer = |url: &reqwest::Url| url.path().contains("/_matrix/");
            if attempt.previous().iter().any(is_answer) || attempt.previous().len() > 5 {
                attempt.stop()
            } else {
                attempt.follow()
            }
        }))
        .user_agent(concat!("agent-channel-matrix/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = &settings.ca_file {
        let pem = std::fs::read(path).map_err(|error| config(path, error.to_string()))?;
        let all = reqwest::Certificate::from_pem_bundle(&pem)
            .map_err(|error| config(path, error.to_string()))?;
        http = all
            .into_iter()
            .fold(http, reqwest::ClientBuilder::add_root_certificate);
    }
    let http = http
        .build()
        .map_err(|error| Error::Store(error.to_string()))?;
    let mut builder = Client::builder()
        .http_client(http)
        .store_config(stores(store).await?)
        // What is to be tried again is tried by whoever asked.
        .request_config(RequestConfig::new().disable_retry().timeout(PATIENCE))
        .with_encryption_settings(EncryptionSettings {
            backup_download_strategy: BackupDownloadStrategy::AfterDecryptionFailure,
            ..EncryptionSettings::default()
        });
    builder = match homeserver {
        Some(url) => builder.homeserver_url(url),
        None => builder.server_name(settings.user.server_name()),
    };
    builder.build().await.map_err(|error| match error {
        matrix_sdk::ClientBuildError::Http(error) => Error::http("the homeserver", &error),
        matrix_sdk::ClientBuildError::AutoDiscovery(error) => Error::Server(format!(
            "the homeserver of {}: {error}",
            settings.user.server_name()
        )),
        error => Error::Store(format!("{}: {error}", store.display())),
    })
}

/// Opens what is kept below `store`.
async fn stores(store: &Path) -> Result<StoreConfig, Error> {
    let broken = |error: OpenStoreError| Error::Store(format!("{}: {error}", store.display()));
    // As the library does it by itself.
    let lock = CrossProcessLockConfig::MultiProcess {
        holder_name: "main".to_owned(),
    };
    Ok(StoreConfig::new(lock)
        .state_store(SqliteStateStore::open(store, None).await.map_err(broken)?)
        .event_cache_store(
            SqliteEventCacheStore::open(store, None)
                .await
                .map_err(broken)?,
        )
        .media_store(SqliteMediaStore::open(store, None).await.map_err(broken)?)
        .crypto_store(KeyStore::open(store).await.map_err(broken)?))
}
