//! Stores keys completely or not at all. The library stores a new Olm session when it has decrypted its first message, but the
//! room key in that message only at the end of the sync response. A process that dies in between receives the message again,
//! cannot decrypt it twice, and never gets the key: all messages under it are lost. Here such a session is stored together
//! with its keys.

use std::collections::HashMap;
use std::path::Path;

use async_trait::async_trait;
use matrix_sdk::SqliteCryptoStore;
use matrix_sdk::ruma::events::secret::request::SecretName;
use matrix_sdk::ruma::{DeviceId, OwnedDeviceId, RoomId, TransactionId, UserId};
use matrix_sdk_crypto::olm::{
    Curve25519PublicKey, InboundGroupSession, OlmMessageHash, OutboundGroupSession,
    PrivateCrossSigningIdentity, SenderDataType,
};
use matrix_sdk_crypto::store::CryptoStore;
use matrix_sdk_crypto::store::types::{
    BackupKeys, Changes, DehydratedDeviceKey, PendingChanges, RoomKeyCounts, RoomKeyWithheldEntry,
    RoomPendingKeyBundleDetails, RoomSettings, StoredRoomKeyBundleData, TrackedUser,
};
use matrix_sdk_crypto::{
    Account, DeviceData, GossipRequest, SecretInfo, Session, UserIdentityData,
};
use matrix_sdk_sqlite::OpenStoreError;
use tokio::sync::Mutex;
use zeroize::Zeroizing;

/// The keys.
#[derive(Debug)]
pub struct KeyStore {
    inner: SqliteCryptoStore,
    /// Sessions that are not on the disk yet, with what was learned of their devices.
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    sessions: Vec<Session>,
    devices: Vec<DeviceData>,
}

impl KeyStore {
    /// Opens the keys that are kept below `store`.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn open(store: &Path) -> Result<Self, OpenStoreError> {
        Ok(Self {
            inner: SqliteCryptoStore::open(store, None).await?,
            held: Mutex::default(),
        })
    }

    /// Returns whether none of the sessions is on the disk.
    async fn are_new(&self, sessions: &[Session]) -> Result<bool, Error> {
        for session in sessions {
            let key = session.sender_key().to_base64();
            let known = self.inner.get_sessions(&key).await?.unwrap_or_default();
            if known.iter().any(|known| is_same(known, session)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

type Error = <SqliteCryptoStore as CryptoStore>::Error;

fn is_same(one: &Session, other: &Session) -> bool {
    one.session_id() == other.session_id()
}

/// Returns whether sessions, and what was learned of their devices, are all that is to be kept.
fn are_sessions_alone(changes: &mut Changes) -> bool {
    let sessions = std::mem::take(&mut changes.sessions);
    let devices = std::mem::take(&mut changes.devices.changed);
    let are_alone = !sessions.is_empty()
        && changes.is_empty()
        && changes.room_key_backups_fully_downloaded.is_empty()
        && changes.rooms_pending_key_bundle.is_empty();
    changes.sessions = sessions;
    changes.devices.changed = devices;
    are_alone
}

impl Held {
    /// Adds what is kept with `changes`: all with the messages of a sync response, otherwise the sessions that are in them.
    fn join(&mut self, changes: &mut Changes) {
        let is_sync = !changes.message_hashes.is_empty();
        let (mut now, later): (Vec<Session>, Vec<Session>) = self
            .sessions
            .drain(..)
            .partition(|held| is_sync || changes.sessions.iter().any(|one| is_same(one, held)));
        self.sessions = later;
        // What is there twice is the same session, as it is now.
        now.retain(|held| !changes.sessions.iter().any(|one| is_same(one, held)));
        changes.sessions.extend(now);
        if is_sync {
            let changed = &mut changes.devices.changed;
            for device in self.devices.drain(..) {
                let is_it = |one: &DeviceData| {
                    (one.user_id(), one.device_id()) == (device.user_id(), device.device_id())
                };
                if !changed.iter().any(is_it) {
                    changed.push(device);
                }
            }
        }
    }
}

/// The trait, of which all but `save_changes` is the library's own store.
macro_rules! store {
    ($(async fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl CryptoStore for KeyStore {
            type Error = Error;

            async fn save_changes(&self, mut changes: Changes) -> Result<(), Error> {
                let mut held = self.held.lock().await;
                let is_held = |one: &Session| held.sessions.iter().any(|held| is_same(held, one));
                if are_sessions_alone(&mut changes)
                    && !changes.sessions.iter().any(is_held)
                    && self.are_new(&changes.sessions).await?
                {
                    held.sessions.append(&mut changes.sessions);
                    held.devices.append(&mut changes.devices.changed);
                    return Ok(());
                }
                held.join(&mut changes);
                self.inner.save_changes(changes).await
            }

            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer, Error> {
                self.inner.$name($($argument),*).await
            })*
        }
    };
}

store! {
    async fn load_account() -> Option<Account>;
    async fn load_identity() -> Option<PrivateCrossSigningIdentity>;
    async fn save_pending_changes(changes: PendingChanges) -> ();
    async fn save_inbound_group_sessions(sessions: Vec<InboundGroupSession>, backed_up_to_version: Option<&str>) -> ();
    async fn get_sessions(sender_key: &str) -> Option<Vec<Session>>;
    async fn get_inbound_group_session(room_id: &RoomId, session_id: &str) -> Option<InboundGroupSession>;
    async fn get_withheld_info(room_id: &RoomId, session_id: &str) -> Option<RoomKeyWithheldEntry>;
    async fn get_withheld_sessions_by_room_id(room_id: &RoomId) -> Vec<RoomKeyWithheldEntry>;
    async fn get_inbound_group_sessions() -> Vec<InboundGroupSession>;
    async fn inbound_group_session_counts(backup_version: Option<&str>) -> RoomKeyCounts;
    async fn get_inbound_group_sessions_by_room_id(room_id: &RoomId) -> Vec<InboundGroupSession>;
    async fn get_inbound_group_sessions_for_device_batch(curve_key: Curve25519PublicKey, sender_data_type: SenderDataType, after_session_id: Option<String>, limit: usize) -> Vec<InboundGroupSession>;
    async fn inbound_group_sessions_for_backup(backup_version: &str, limit: usize) -> Vec<InboundGroupSession>;
    async fn mark_inbound_group_sessions_as_backed_up(backup_version: &str, room_and_session_ids: &[(&RoomId, &str)]) -> ();
    async fn reset_backup_state() -> ();
    async fn load_backup_keys() -> BackupKeys;
    async fn load_dehydrated_device_pickle_key() -> Option<DehydratedDeviceKey>;
    async fn delete_dehydrated_device_pickle_key() -> ();
    async fn get_outbound_group_session(room_id: &RoomId) -> Option<OutboundGroupSession>;
    async fn load_tracked_users() -> Vec<TrackedUser>;
    async fn save_tracked_users(users: &[(&UserId, bool)]) -> ();
    async fn get_device(user_id: &UserId, device_id: &DeviceId) -> Option<DeviceData>;
    async fn get_user_devices(user_id: &UserId) -> HashMap<OwnedDeviceId, DeviceData>;
    async fn get_own_device() -> DeviceData;
    async fn get_user_identity(user_id: &UserId) -> Option<UserIdentityData>;
    async fn is_message_known(message_hash: &OlmMessageHash) -> bool;
    async fn get_outgoing_secret_requests(request_id: &TransactionId) -> Option<GossipRequest>;
    async fn get_secret_request_by_info(secret_info: &SecretInfo) -> Option<GossipRequest>;
    async fn get_unsent_secret_requests() -> Vec<GossipRequest>;
    async fn delete_outgoing_secret_requests(request_id: &TransactionId) -> ();
    async fn get_secrets_from_inbox(secret_name: &SecretName) -> Vec<Zeroizing<String>>;
    async fn delete_secrets_from_inbox(secret_name: &SecretName) -> ();
    async fn get_room_settings(room_id: &RoomId) -> Option<RoomSettings>;
    async fn get_received_room_key_bundle_data(room_id: &RoomId, user_id: &UserId) -> Option<StoredRoomKeyBundleData>;
    async fn get_pending_key_bundle_details_for_room(room_id: &RoomId) -> Option<RoomPendingKeyBundleDetails>;
    async fn get_all_rooms_pending_key_bundles() -> Vec<RoomPendingKeyBundleDetails>;
    async fn has_downloaded_all_room_keys(room_id: &RoomId) -> bool;
    async fn get_custom_value(key: &str) -> Option<Vec<u8>>;
    async fn set_custom_value(key: &str, value: Vec<u8>) -> ();
    async fn remove_custom_value(key: &str) -> ();
    async fn try_take_leased_lock(lease_duration_ms: u32, key: &str, holder: &str) -> Option<u64>;
    async fn next_batch_token() -> Option<String>;
    async fn close() -> ();
    async fn reopen() -> ();
    async fn get_size() -> Option<usize>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use matrix_sdk_crypto::OlmMachine;
    use matrix_sdk_crypto::vodozemac::olm::SessionConfig;

    /// Returns a session of the device with somebody.
    fn session(account: &Account) -> Session {
        let (user, device) = ("@ada:a.org".try_into(), "PHONE".into());
        let mut ada = Account::with_device_id(user.expect("an id"), device);
        ada.generate_one_time_keys(1);
        let key = *ada.one_time_keys().values().next().expect("a key");
        let (config, theirs) = (SessionConfig::default(), ada.identity_keys().curve25519);
        let made = account.create_outbound_session_helper(
            config,
            theirs,
            key,
            false,
            account.device_keys(),
        );
        made.expect("a session")
    }

    fn alone(session: &Session) -> Changes {
        Changes {
            sessions: vec![session.clone()],
            ..Changes::default()
        }
    }

    /// Returns whether a process that begins now finds the session.
    async fn is_kept(place: &Path, session: &Session) -> bool {
        let keys = KeyStore::open(place).await.expect("keys");
        keys.load_account().await.expect("an account");
        let found = keys.get_sessions(&session.sender_key().to_base64()).await;
        found.expect("keys").is_some()
    }

    #[tokio::test]
    async fn a_session_that_somebody_begins_is_kept_with_the_room_key_that_came_in_it() {
        let place = tempfile::tempdir().expect("dir");
        let place = place.path();
        let user: &UserId = "@agent:a.org".try_into().expect("an id");
        let first = KeyStore::open(place).await.expect("keys");
        let machine = OlmMachine::with_store(user, "DEVICE".into(), first, None).await;
        drop(machine.expect("a device"));
        let keys = KeyStore::open(place).await.expect("keys");
        let account = keys
            .load_account()
            .await
            .expect("keys")
            .expect("an account");
        let (one, two) = (session(&account), session(&account));
        keys.save_changes(alone(&one)).await.expect("saved");
        assert!(!is_kept(place, &one).await);
        // Something else is kept meanwhile, and another session is written with.
        keys.save_changes(alone(&two)).await.expect("saved");
        keys.save_changes(alone(&two)).await.expect("saved");
        assert!(!is_kept(place, &one).await && is_kept(place, &two).await);
        let hash = OlmMessageHash {
            sender_key: one.sender_key().to_base64(),
            hash: "x".to_owned(),
        };
        let end = Changes {
            message_hashes: vec![hash],
            ..Changes::default()
        };
        keys.save_changes(end).await.expect("saved");
        assert!(is_kept(place, &one).await);
    }
}
