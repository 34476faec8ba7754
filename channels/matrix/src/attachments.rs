//! Files that came: fetched up to a size, whatever is said of it, and decrypted.

use std::io::{Cursor, Read};

use matrix_sdk::reqwest;
use matrix_sdk::ruma::OwnedMxcUri;
use matrix_sdk::ruma::events::room::EncryptedFile;
use matrix_sdk_crypto::AttachmentDecryptor;

use crate::bot::Bot;
use crate::error::Error;
use crate::incoming::File;

/// What the whole of a file may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(300);

/// Fetches a file, or says why there is none.
///
/// # Errors
/// When the homeserver is away.
pub async fn fetch(bot: &Bot, event: &str, file: &File) -> Result<Result<Vec<u8>, String>, Error> {
    let most = bot.settings.max_file;
    let too_large = |size: u64| {
        Ok(Err(format!(
            "{} MB, more than the {} MB that are taken",
            size.div_ceil(1_000_000),
            most / 1_000_000
        )))
    };
    if let Some(size) = file.size.filter(|size| *size > most) {
        return too_large(size);
    }
    let (uri, key) = match file.content.get("file") {
        Some(encrypted) => match serde_json::from_value::<EncryptedFile>(encrypted.clone()) {
            Ok(encrypted) => (encrypted.url.clone(), Some(encrypted)),
            Err(_) => return Ok(Err("its key is not understood".to_owned())),
        },
        None => match serde_json::from_value::<OwnedMxcUri>(file.content["url"].clone()) {
            Ok(uri) => (uri, None),
            Err(_) => return Ok(Err("its address is not understood".to_owned())),
        },
    };
    let Ok((server, id)) = uri.parts() else {
        return Ok(Err("its address is not understood".to_owned()));
    };
    let Some(url) = address(&bot.client.homeserver(), server.as_str(), id) else {
        return Ok(Err("its address is not understood".to_owned()));
    };
    let bytes = match download(bot, url, most).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(Refusal::TooLarge)) => return too_large(most + 1),
        Ok(Err(Refusal::Status(status))) => {
            return Ok(Err(format!("it could not be fetched: {status}")));
        }
        Err(error) if bot.gives_up(event) => {
            return Ok(Err(format!("it could not be fetched: {error}")));
        }
        Err(error) => return Err(error),
    };
    let Some(key) = key else {
        return Ok(Ok(bytes));
    };
    let mut sealed = Cursor::new(bytes);
    let mut plain = Vec::new();
    let read = AttachmentDecryptor::new(&mut sealed, key.into())
        .map_err(|error| error.to_string())
        .and_then(|mut open| {
            open.read_to_end(&mut plain)
                .map_err(|error| error.to_string())
        });
    Ok(read
        .map(|_| plain)
        .map_err(|why| format!("it could not be decrypted: {why}")))
}

/// Returns where a file lies at the homeserver. Both parts are the sender's: neither may lead elsewhere.
fn address(home: &reqwest::Url, server: &str, id: &str) -> Option<reqwest::Url> {
    if server.chars().all(|c| c == '.') || id.chars().all(|c| c == '.') {
        return None;
    }
    let mut url = home.clone();
    url.path_segments_mut()
        .ok()?
        .pop_if_empty()
        .extend(["_matrix", "client", "v1", "media", "download", server, id]);
    Some(url)
}

enum Refusal {
    TooLarge,
    Status(reqwest::StatusCode),
}

async fn download(
    bot: &Bot,
    url: reqwest::Url,
    most: u64,
) -> Result<Result<Vec<u8>, Refusal>, Error> {
    let away = |error: reqwest::Error| Error::Server(format!("a file: {error}"));
    let token = bot.client.access_token().unwrap_or_default();
    let asked = bot
        .client
        .http_client()
        .get(url)
        .bearer_auth(token)
        .timeout(PATIENCE)
        .send()
        .await;
    let mut answer = asked.map_err(away)?;
    let status = answer.status();
    if status.as_u16() == 429 || status.is_server_error() {
        // A remote server that is away is the homeserver's 502 or 504.
        if matches!(status.as_u16(), 502 | 504) {
            return Ok(Err(Refusal::Status(status)));
        }
        return Err(Error::Server(format!("a file: {status}")));
    }
    if !status.is_success() {
        return Ok(Err(Refusal::Status(status)));
    }
    let mut bytes = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(away)? {
        if (bytes.len() + part.len()) as u64 > most {
            return Ok(Err(Refusal::TooLarge));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(Ok(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_nowhere_but_to_a_file_of_the_homeserver() {
        let home = reqwest::Url::parse("https://m.example.org/matrix/").expect("a URL");
        let begin = "https://m.example.org/matrix/_matrix/client/v1/media/download/";
        let good = address(&home, "remote.org:8448", "Ab_c-1").map(String::from);
        assert_eq!(good, Some(format!("{begin}remote.org:8448/Ab_c-1")));
        for (server, id) in [("..", "x"), ("a.org", ".."), (".", "."), ("", "")] {
            assert_eq!(address(&home, server, id), None, "{server} {id}");
        }
        for (server, id) in [
            ("a.org", "../../x"),
            ("a.org/..", "x?y#z"),
            ("@evil.com", "%2e%2e"),
        ] {
            let url = address(&home, server, id)
                .map(String::from)
                .unwrap_or_default();
            assert!(
                url.starts_with(begin)
                    && url.matches('/').count() == begin.matches('/').count() + 1,
                "{url}"
            );
        }
    }
}
