//! Bytes as lower-case hexadecimal digits.

use std::io::Read;

use ring::digest;

/// Returns two lower-case hexadecimal digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the SHA-256 of `bytes` in hexadecimal: 64 digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// Gives `each` what is read, block by block, and returns the SHA-256 of all in hexadecimal.
///
/// # Errors
/// The first of `source` and of `each`.
pub fn sha256_of<E: From<std::io::Error>>(
    source: &mut dyn Read,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<String, E> {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut block = vec![0_u8; 1 << 16];
    loop {
        let count = match source.read(&mut block) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        let bytes = block.get(..count).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(hex(context.finish().as_ref()));
        }
        context.update(bytes);
        each(bytes)?;
    }
}
