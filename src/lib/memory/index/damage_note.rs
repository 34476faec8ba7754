//! `index.doubt`: a note of a reader that it met damage. A reader changes nothing in the database, and a
//! run that has nothing to do does not read it: the note makes the next run read it through, and make it
//! anew when it is damaged.

use std::path::PathBuf;

use super::Place;
use crate::sys::atomic;
use crate::sys::atomic::Durability;

fn path(place: &Place) -> PathBuf {
    place.home.state().join("index.doubt")
}

pub(super) fn leave(place: &Place) {
    // Where nothing can be written there is no next run either.
    let _ = atomic::write(&path(place), b"", Durability::Rename);
}

pub(super) fn is_there(place: &Place) -> bool {
    path(place).exists()
}

/// Takes the note away, once the database was read through.
pub(super) fn clear(place: &Place) {
    // A note that stays costs the next run another look.
    let _ = std::fs::remove_file(path(place));
}
