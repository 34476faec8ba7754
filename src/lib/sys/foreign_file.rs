//! Files that another process wrote, and may change or replace meanwhile.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::Error;

/// Reads a file that another process wrote: at most `max` bytes, no link, and nothing that holds us up. `None`
/// when it is not there.
///
/// # Errors
/// When it cannot be read now. What can never be read (a link, no regular file, too large) has the kind `InvalidData`.
pub fn read_foreign(path: &Path, max: u64) -> Result<Option<Vec<u8>>, Error> {
    let invalid = |why: &str| {
        Error::at("read", path)(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            why.to_owned(),
        ))
    };
    let open = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_NOFOLLOW)
        .open(path);
    let file = match open {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // A link, a socket.
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(nix::libc::ELOOP | nix::libc::ENXIO)
            ) =>
        {
            return Err(invalid("it is not a regular file"));
        }
        Err(error) => return Err(Error::at("read", path)(error)),
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err(invalid("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(Error::at("read", path))?;
    if bytes.len() as u64 > max {
        return Err(invalid("it is too large"));
    }
    Ok(Some(bytes))
}
