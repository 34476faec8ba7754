//! Removes an index with words that are to be erased; it is rebuilt from the files.

use super::{Error, Place, schema};
use crate::db;
use crate::db::Hit;
use crate::sys::lock;

/// Returns how many chunks have what `hit` finds.
///
/// # Errors
/// When the index cannot be read.
pub fn holds(place: &Place, hit: &Hit) -> Result<usize, Error> {
    let path = place.database();
    let Some(connection) = db::open_read(&path)? else {
        return Ok(0);
    };
    Ok(db::count_rows(&connection, "chunks", hit).map_err(|error| db::Error::of(&path, error))?)
}

/// Removes the index with its caches; false when another process is indexing.
///
/// # Errors
/// When a file cannot be removed.
pub fn remove(place: &Place) -> Result<bool, Error> {
    let Some(_lock) = lock::try_lock(&place.lock())? else {
        return Ok(false);
    };
    schema::remove(&place.database())?;
    Ok(true)
}
