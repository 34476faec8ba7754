//! Bytes as lower-case hexadecimal digits.

use std::io::Read;

use ring::digest;

/// Returns two lower-case hexadecimal digits a byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns text for an address or a file's name: ASCII letters, digits and `plain` stay, any other byte is `%XX`.
pub fn percent_encoded(bytes: &[u8], plain: &str) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match char::from(*byte) {
            c if c.is_ascii_alphanumeric() || plain.contains(c) => out.push(c),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Returns the bytes that hexadecimal digits of any letter case stand for; `None` for anything else.
pub fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
        _ => None,
    };
    digits.as_bytes().chunks(2).map(pair).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_and_the_other_way_round() {
        assert_eq!(unhex("00ff7F"), Some(vec![0, 255, 127]));
        assert_eq!(
            unhex(&hex(b"any bytes")).as_deref(),
            Some(&b"any bytes"[..])
        );
        for bad in ["0", "0g", "+1", " 1", "ü"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }
}
