//! The key of the digests, so that a short text cannot be found by hashing guesses.

use ring::hmac;

use super::Place;
use crate::sys;
use crate::sys::atomic;
use crate::sys::atomic::Durability;
use crate::text::hex;

const LEN: usize = 32;

/// Makes and keeps digests.
#[derive(Clone)]
pub(super) struct Key(hmac::Key);

impl Key {
    /// Reads `audit.key`, or makes a new one. With a disk that takes none, the digests of this run can be
    /// compared with those of no other; the second value says why.
    pub(super) fn open(place: &Place) -> (Self, Option<sys::Error>) {
        match atomic::read(&place.key) {
            Ok(Some(bytes)) if bytes.len() == LEN => (Self::of(&bytes), None),
            Ok(old) => {
                if old.is_some() {
                    tracing::warn!(file = %place.key.display(), "the key of the audit log is invalid; a new one is created");
                }
                let bytes = random();
                (
                    Self::of(&bytes),
                    atomic::write(&place.key, &bytes, Durability::Full).err(),
                )
            }
            Err(error) => (Self::passing(), Some(error)),
        }
    }

    /// Returns a key that nobody keeps.
    pub(super) fn passing() -> Self {
        Self::of(&random())
    }

    /// Returns the HMAC-SHA-256 of `bytes`, 64 hexadecimal digits.
    pub(super) fn digest(&self, bytes: &[u8]) -> String {
        hex(hmac::sign(&self.0, bytes).as_ref())
    }

    fn of(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }
}

/// Two random ids have 244 random bits; hashing spreads them over the key.
fn random() -> [u8; LEN] {
    let (one, other) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    let digest = ring::digest::digest(
        &ring::digest::SHA256,
        &[*one.as_bytes(), *other.as_bytes()].concat(),
    );
    let mut key = [0; LEN];
    key.copy_from_slice(digest.as_ref());
    key
}
