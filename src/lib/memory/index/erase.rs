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
    let count = |connection: &_| db::count_rows(connection, "chunks", hit);
    Ok(db::read(&place.database(), count)?.unwrap_or_default())
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
