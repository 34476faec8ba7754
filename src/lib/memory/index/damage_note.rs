//! `index.doubt`: a reader that met damage leaves this note, because it never changes the database. The next run then
//! checks the database, even if no file has changed, and rebuilds it if it is damaged.

use std::path::PathBuf;

use super::Place;
use crate::sys::atomic;
use crate::sys::atomic::Durability;

fn path(place: &Place) -> PathBuf {
    place.home.state().join("index.doubt")
}

pub(super) fn leave(place: &Place) {
    // Without a writable directory there is no next run either.
    let _ = atomic::write(&path(place), b"", Durability::Rename);
}

pub(super) fn is_there(place: &Place) -> bool {
    path(place).exists()
}

/// Removes the note after the check.
pub(super) fn clear(place: &Place) {
    // If it stays, the next run checks again.
    let _ = std::fs::remove_file(path(place));
}
