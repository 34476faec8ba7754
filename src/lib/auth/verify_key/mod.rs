//! Verifies a key with one free request: the list of models, or at OpenRouter the data of the key itself, the only free
//! resource there that needs a key.

use std::time::Duration;

use reqwest::{Client, Url};
use serde_json::Value;

use super::oauth::{exchange, host, is_openrouter};
use crate::config::{Provider, ProviderType};
use crate::provider::{Credential, key_header};
use crate::{net, text};

/// The longest a person waits for it.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The largest answer that is read, bytes.
const MAX_ANSWER: usize = 4 << 20;

/// What the server says to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is good; what was found.
    Good(String),
    /// It is wrong; the server's words.
    Refused(String),
    /// That could not be found out; why.
    Unknown(String),
}

pub async fn probe(http: &Client, provider: &Provider, key: &Credential) -> Verdict {
    let Some((url, name, prefix)) = question(provider, false) else {
        return Verdict::Unknown("there is no server to ask".to_owned());
    };
    let (name, prefix) = if key.is_token {
        ("authorization", "Bearer ")
    } else {
        (name, prefix)
    };
    let Ok(value) = key_header(prefix, &key.secret) else {
        return Verdict::Refused("it has characters that no header can carry".to_owned());
    };
    let request = http
        .get(url.clone())
        .header(name, value)
        .header("anthropic-version", "2023-06-01");
    let host = host(&url);
    match exchange(request, TIMEOUT, MAX_ANSWER).await {
        Err(why) => Verdict::Unknown(format!("cannot reach {host}: {why}")),
        Ok((status, answer)) => verdict(provider, &host, status.as_u16(), &answer),
    }
}

/// Returns the ids of the models that the server offers, in its order; `limit` is the longest it may take.
///
/// # Errors
/// Why they are not known, in words.
pub async fn models(
    http: &Client,
    provider: &Provider,
    key: Option<&Credential>,
    limit: Duration,
) -> Result<Vec<String>, String> {
    let (url, name, prefix) = question(provider, true).ok_or("there is no server to ask")?;
    let mut request = http
        .get(url.clone())
        .header("anthropic-version", "2023-06-01");
    if let Some(key) = key {
        let value = key_header(prefix, &key.secret)
            .map_err(|_| "the key has characters that no header can carry")?;
        request = request.header(name, value);
    }
    let (status, answer) = exchange(request, limit, MAX_ANSWER).await?;
    let list = answer["data"]
        .as_array()
        .or_else(|| answer["models"].as_array());
    let Some(list) = list.filter(|_| status.is_success()) else {
        return Err(format!(
            "{} answered {status} without a list of models",
            host(&url)
        ));
    };
    let id = |model: &Value| {
        let id = model["id"].as_str().or_else(|| model["name"].as_str())?;
        Some(id.strip_prefix("models/").unwrap_or(id).to_owned())
    };
    Ok(list.iter().filter_map(id).collect())
}

/// Returns what to ask, and the header and prefix of a key. OpenRouter gives its `list` to everybody.
fn question(provider: &Provider, list: bool) -> Option<(Url, &'static str, &'static str)> {
    let mut url = Url::parse(&provider.base_url).ok()?;
    let base = url.path().trim_end_matches('/').to_owned();
    let bearer = ("authorization", "Bearer ");
    let (path, (name, prefix)) = match provider.kind {
        ProviderType::Anthropic if base.ends_with("/v1") => ("/models", ("x-api-key", "")),
        ProviderType::Anthropic => ("/v1/models", ("x-api-key", "")),
        ProviderType::Openai if is_openrouter(provider) && !list => ("/key", bearer),
        ProviderType::Openai if base.is_empty() => ("/v1/models", bearer),
        ProviderType::Openai => ("/models", bearer),
        ProviderType::Gemini if base.contains("/v1") => ("/models", ("x-goog-api-key", "")),
        ProviderType::Gemini => ("/v1beta/models", ("x-goog-api-key", "")),
        ProviderType::Elevenlabs => ("/v1/models", ("xi-api-key", "")),
        ProviderType::Offline => return None,
    };
    let path = format!("{base}{path}");
    url.set_path(&path);
    Some((url, name, prefix))
}

fn verdict(provider: &Provider, host: &str, status: u16, answer: &Value) -> Verdict {
    let words = answer["error"]["message"]
        .as_str()
        .or_else(|| answer["error"].as_str())
        .map(net::server_text)
        .unwrap_or_default();
    let words = if words.is_empty() {
        format!("status {status}")
    } else {
        words
    };
    match status {
        200..300 if answer.is_object() => Verdict::Good(found(answer)),
        401 | 403 => Verdict::Refused(format!("{host}: {words}")),
        // Gemini says INVALID_ARGUMENT to a key it does not know.
        400 if provider.kind == ProviderType::Gemini => {
            Verdict::Refused(format!("{host}: {words}"))
        }
        _ => Verdict::Unknown(format!("{host} does not say ({words})")),
    }
}

/// Returns what a person wants to learn of it.
fn found(answer: &Value) -> String {
    if let Some(models) = answer["data"]
        .as_array()
        .or_else(|| answer["models"].as_array())
    {
        let more = if answer["has_more"] == true || answer["nextPageToken"].is_string() {
            " or more"
        } else {
            ""
        };
        return format!("{}{more}", text::counted(models.len(), "model"));
    }
    let data = &answer["data"];
    match (data["limit_remaining"].as_f64(), data["usage"].as_f64()) {
        (Some(left), _) => format!("{left:.2} US dollars left"),
        (None, Some(used)) => format!("{used:.2} US dollars used, no limit"),
        (None, None) => "the server takes it".to_owned(),
    }
}

#[cfg(test)]
mod tests;
