//! Attachments in the body of a request, as base64.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::Deserialize;

use super::Api;
use super::error::ApiError;
use crate::control::attachments;
use crate::control::attachments::Brought;
use crate::control::{Id, Order};

/// The longest file name (longer ones are cut) and the longest content type.
const MAX_NAME: usize = 200;
const MAX_TYPE: usize = 127;
/// With and without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An attachment in a request.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct File {
    pub(super) content_type: Option<String>,
    /// Base64.
    pub(super) data: String,
    pub(super) filename: Option<String>,
}

/// Returns the files of a request.
///
/// # Errors
/// 400 for what is not base64, or too many.
pub(super) fn decode(files: Vec<File>) -> Result<Vec<Brought>, ApiError> {
    if files.len() > attachments::MAX_FILES {
        return Err(ApiError::bad(format!(
            "at most {} attachments go with one message",
            attachments::MAX_FILES
        )));
    }
    files
        .into_iter()
        .enumerate()
        .map(|(number, file)| one(number, file))
        .collect()
}

fn one(number: usize, file: File) -> Result<Brought, ApiError> {
    let wrong = |why: String| ApiError::bad(format!("attachments[{number}]: {why}"));
    let bytes = BASE64
        .decode(file.data.as_bytes())
        .map_err(|error| wrong(format!("`data` is not base64: {error}")))?;
    let content_type = file.content_type.filter(|kind| !kind.is_empty());
    let plain = |kind: &String| {
        kind.len() <= MAX_TYPE && kind.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    };
    if !content_type.as_ref().is_none_or(plain) {
        return Err(wrong("`content_type` is invalid".to_owned()));
    }
    Ok(Brought {
        filename: name(file.filename.as_deref().unwrap_or_default()),
        content_type,
        bytes,
    })
}

/// Returns a safe file name: no path, no control characters.
fn name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String = last
        .chars()
        .filter(|c| !c.is_control())
        .take(MAX_NAME)
        .collect();
    if plain.trim_matches(['.', ' ']).is_empty() {
        "file".to_owned()
    } else {
        plain
    }
}

/// Stores the files of a message, before the message.
///
/// # Errors
/// 503 when they cannot be stored.
pub(super) async fn take_in(
    api: &Api,
    order: &mut Order,
    files: Vec<Brought>,
) -> Result<(), ApiError> {
    let (tmp, new, id): (_, _, Id) = (api.home.spool_tmp(), api.home.spool_new(), order.id.clone());
    let brought = crate::sys::blocking(move || attachments::bring(&tmp, &new, &id, &files)).await;
    let Some(attachments) = order.command.attachments_mut() else {
        return Ok(());
    };
    *attachments = brought.map_err(refused)?;
    crate::app::daemon::command_intake::take_files_in(&api.pipeline, &api.home, order)
        .await
        .map_err(refused)
}

fn refused(error: attachments::Error) -> ApiError {
    match error {
        attachments::Error::Unfit { .. } => ApiError::bad(error.to_string()),
        attachments::Error::Io(error) => ApiError::not_stored(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(data: &str, filename: Option<&str>) -> File {
        File {
            content_type: None,
            data: data.to_owned(),
            filename: filename.map(str::to_owned),
        }
    }

    #[test]
    fn base64_with_and_without_its_end_is_read_and_nothing_else() {
        let bytes = |data: &str| decode(vec![file(data, None)]).map(|files| files[0].bytes.clone());
        assert_eq!(
            (bytes("aGk="), bytes("aGk"), bytes("")),
            (Ok(b"hi".to_vec()), Ok(b"hi".to_vec()), Ok(Vec::new()))
        );
        for bad in [
            "a",
            "aGk=x",
            "%%%%",
            "aG k=",
            "data:text/plain;base64,aGk=",
            "aGl=",
        ] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
        assert!(decode((0..21).map(|_| file("", None)).collect()).is_err());
    }

    #[test]
    fn a_name_is_the_last_part_of_a_path_and_printable() {
        for (given, expected) in [
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.txt", "a.txt"),
            ("a\u{1b}[2J\n.txt", "a[2J.txt"),
            ("..", "file"),
            ("/", "file"),
            ("", "file"),
            ("größe.pdf", "größe.pdf"),
        ] {
            assert_eq!(name(given), expected);
        }
        assert_eq!(name(&"x".repeat(5000)).len(), 200);
    }
}
