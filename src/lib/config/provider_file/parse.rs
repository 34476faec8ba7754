//! Parses a provider file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Model, OAuth, Provider, ProviderType, Ttl};
use crate::config::error::Error;
use crate::config::home::Home;
use crate::config::key_names;
use crate::config::key_names::{UnknownKey, edits};
use crate::config::toml_file::TomlFile;
use crate::config::validate::{Warning, is_amount, is_http, is_private_way, is_variable};
use crate::config::vendors::{VENDORS, vendor};

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(expecting = "a table")]
struct File {
    r#type: ProviderType,
    #[serde(default)]
    base_url: Option<String>,
    #[serde(default)]
    api_key_env: Option<String>,
    #[serde(default)]
    oauth: Option<SignIn>,
    #[serde(default)]
    scripts_dir: Option<PathBuf>,
    #[serde(default)]
    models: BTreeMap<String, Entry>,
}

/// `[oauth]`
#[derive(Default, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
struct SignIn {
    authorize_url: Option<String>,
    token_url: Option<String>,
    client_id: Option<String>,
    scope: Option<String>,
    redirect_port: Option<u16>,
}

/// `[models.NAME]`
#[derive(Default, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
struct Entry {
    model: Option<String>,
    max_tokens: Option<u32>,
    context_window: Option<u64>,
    compact_at: Option<u64>,
    cost_per_mtok: Option<Vec<f64>>,
    cost_per_minute: Option<f64>,
    cost_per_mchar: Option<f64>,
    voice: Option<String>,
    cost_per_image: Option<f64>,
    cost_per_request: Option<f64>,
    vision: bool,
    thinking: bool,
    tools: Option<bool>,
    cache_control: Option<bool>,
    cache_ttl: Vec<Ttl>,
    fallbacks: Vec<String>,
}

/// Reads the provider `name` of `providers.load`, and its models.
pub(super) fn provider(
    home: &Home,
    name: &str,
    warnings: &mut Vec<Warning>,
    unknown: &mut Vec<UnknownKey>,
) -> Result<(Arc<Provider>, Vec<Model>), Error> {
    let (source, path) = source(home, name)?.ok_or_else(|| missing(home, name))?;
    let (file, strange): (File, _) = source.decode()?;
    unknown.extend(source.unknown(&strange, known_keys));
    Reader {
        source: &source,
        path,
        name,
    }
    .models(file, warnings)
}

/// Returns the file of the provider `name` with its path; without a file, what is built in.
fn source(home: &Home, name: &str) -> Result<Option<(TomlFile, Option<PathBuf>)>, Error> {
    if !is_name(name) {
        return Ok(None);
    }
    let path = home.providers_dir().join(format!("{name}.toml"));
    if let Some(file) = TomlFile::read(&path)? {
        return Ok(Some((file, Some(path))));
    }
    let text = match vendor(name) {
        Some(vendor) => vendor.text,
        None if name == "offline" => OFFLINE,
        None => return Ok(None),
    };
    let shown = PathBuf::from(format!("the built-in provider {name}"));
    Ok(Some((TomlFile::built_in(&shown, text)?, None)))
}

/// Returns whether the provider `name` has a file, or is built in.
pub(super) fn exists(home: &Home, name: &str) -> bool {
    is_name(name)
        && (vendor(name).is_some() || home.providers_dir().join(format!("{name}.toml")).exists())
}

fn missing(home: &Home, name: &str) -> Error {
    Error::NoProviderFile {
        name: crate::text::visible(name),
        file: home.providers_dir().join(format!("{name}.toml")),
        meant: meant(home, name),
    }
}

/// Returns the provider, one with a file or a built-in one, that was probably meant by `name`.
fn meant(home: &Home, name: &str) -> Option<String> {
    let written = name.trim_end_matches(".toml").to_lowercase();
    let built_in = VENDORS.iter().map(|vendor| vendor.name.to_owned());
    let files = super::present(home).unwrap_or_default();
    let known = built_in.chain(["offline".to_owned()]).chain(files);
    let nearest = known.map(|known| (edits(&written, &known.to_lowercase()), known));
    let (far, nearest) = nearest.min()?;
    (far <= written.chars().count() / 4).then_some(nearest)
}

/// Returns whether a provider can be called so: its file is.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'.')
        && !name.starts_with('.')
}

/// Reads the server of the file `name` without its models.
pub(super) fn server(home: &Home, name: &str) -> Result<Arc<Provider>, Error> {
    let (source, path) = source(home, name)?.ok_or_else(|| missing(home, name))?;
    let (file, _): (File, _) = source.decode()?;
    Ok(Arc::new(
        Reader {
            source: &source,
            path,
            name,
        }
        .provider(&file)?,
    ))
}

/// The provider without a server.
const OFFLINE: &str = "type = \"offline\"
[models.offline]
cache_control = false
";

/// The example's numbers in SPEC.md, appendix A.
const DEFAULT_MAX_TOKENS: u32 = 8192;
const DEFAULT_WINDOW: u64 = 200_000;

/// Anthropic's least budget is 1024 tokens (its guide "Extended thinking", read 2026-11), and the answer
/// needs as many.
const LEAST_FOR_THINKING: u32 = 2048;

fn known_keys() -> Vec<String> {
    let file = File {
        r#type: ProviderType::Offline,
        base_url: None,
        api_key_env: None,
        oauth: Some(SignIn::default()),
        scripts_dir: None,
        models: BTreeMap::from([("*".to_owned(), Entry::default())]),
    };
    let value = serde_json::to_value(file).unwrap_or_default();
    key_names::leaves(&value)
        .into_iter()
        .map(|(path, _)| path)
        .collect()
}

struct Reader<'a> {
    source: &'a TomlFile,
    /// `None` for what is built in.
    path: Option<PathBuf>,
    name: &'a str,
}

impl Reader<'_> {
    fn models(
        &self,
        file: File,
        warnings: &mut Vec<Warning>,
    ) -> Result<(Arc<Provider>, Vec<Model>), Error> {
        let provider = Arc::new(self.provider(&file)?);
        let entries = file.models.into_iter();
        let models: Result<_, Error> = entries
            .map(|(name, entry)| self.model(&provider, name, entry, warnings))
            .collect();
        Ok((provider, models?))
    }

    fn provider(&self, file: &File) -> Result<Provider, Error> {
        let (default_url, default_key) = match file.r#type {
            ProviderType::Anthropic => ("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
            ProviderType::Openai => ("https://api.openai.com/v1", "OPENAI_API_KEY"),
            ProviderType::Offline => ("", ""),
            ProviderType::Elevenlabs => ("https://api.elevenlabs.io", "ELEVENLABS_API_KEY"),
            ProviderType::Gemini => (
                "https://generativelanguage.googleapis.com",
                "GEMINI_API_KEY",
            ),
        };
        let url = file
            .base_url
            .as_deref()
            .map(|url| url.trim_end_matches('/'));
        if url.is_some_and(|url| !is_http(url)) {
            return Err(self.error(
                "base_url",
                "expected an address that begins with http:// or https://",
            ));
        }
        let path = url.and_then(|url| {
            ENDPOINTS
                .iter()
                .find_map(|path| Some((url.strip_suffix(path)?, path)))
        });
        if let Some((server, path)) = path {
            let server = server.trim_end_matches('/');
            let message = format!(
                "expected the address of the server without {path}: write base_url = \"{server}\""
            );
            return Err(self.error("base_url", &message));
        }
        if file.oauth.is_some() && url.is_some_and(|url| !is_private_way(url)) {
            let message =
                "expected https:// (http:// on this machine only): an access token goes there";
            return Err(self.error("base_url", message));
        }
        if file
            .api_key_env
            .as_deref()
            .is_some_and(|name| !is_variable(name))
        {
            return Err(self.error(
                "api_key_env",
                "expected the NAME of a variable; the key itself belongs in .env",
            ));
        }
        // A server of one's own needs no key unless one is named; a vendor's has a usual name.
        let key = file
            .api_key_env
            .clone()
            .or_else(|| (url.is_none() && !default_key.is_empty()).then(|| default_key.to_owned()));
        let scripts_dir = file.scripts_dir.clone();
        let base_url = url.unwrap_or(default_url).to_owned();
        Ok(Provider {
            name: self.name.to_owned(),
            kind: file.r#type,
            base_url,
            api_key_env: key,
            oauth: file
                .oauth
                .as_ref()
                .map(|table| self.sign_in(table))
                .transpose()?,
            scripts_dir,
            file: self.path.clone(),
        })
    }

    fn sign_in(&self, table: &SignIn) -> Result<OAuth, Error> {
        let url = |key: &str, value: &Option<String>| {
            let url = value.clone().filter(|url| is_private_way(url));
            url.ok_or_else(|| {
                self.error(
                    &format!("oauth.{key}"),
                    "expected an address with https:// (http:// on this machine only)",
                )
            })
        };
        let client_id = table.client_id.clone().filter(|id| !id.trim().is_empty());
        Ok(OAuth {
            authorize_url: url("authorize_url", &table.authorize_url)?,
            token_url: url("token_url", &table.token_url)?,
            client_id: client_id.ok_or_else(|| {
                self.error(
                    "oauth.client_id",
                    "expected the id of an application of your own, registered with that issuer",
                )
            })?,
            scope: table.scope.clone().filter(|scope| !scope.trim().is_empty()),
            redirect_port: table.redirect_port.filter(|port| *port > 0),
        })
    }

    fn model(
        &self,
        provider: &Arc<Provider>,
        name: String,
        mut entry: Entry,
        warnings: &mut Vec<Warning>,
    ) -> Result<Model, Error> {
        let key = |last: &str| format!("models.{name}.{last}");
        let offline = provider.kind == ProviderType::Offline;
        let model = match entry.model.take().filter(|model| !model.is_empty()) {
            Some(model) => model,
            None if offline => name.clone(),
            None => {
                return Err(self.error(
                    &format!("models.{name}"),
                    "has no `model`: expected the provider's id of the model",
                ));
            }
        };
        let cache_ttl = self.cache_ttl(&name, &entry)?;
        let rates = match &entry.cost_per_mtok {
            Some(rates) => Some(
                four_rates(rates, provider.kind, cache_ttl[0])
                    .ok_or_else(|| self.error(&key("cost_per_mtok"), RATES))?,
            ),
            None => offline.then_some([0.0; 4]),
        };
        self.check_prices(&name, &entry)?;
        let max_tokens = entry.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        let context_window = entry.context_window.unwrap_or(DEFAULT_WINDOW);
        if max_tokens == 0 {
            return Err(self.error(&key("max_tokens"), "expected at least 1"));
        }
        if context_window <= u64::from(max_tokens) {
            return Err(self.error(
                &key("context_window"),
                "expected more than max_tokens: question and answer share the window",
            ));
        }
        if entry.fallbacks.contains(&name) {
            return Err(self.error(&key("fallbacks"), "expected other models than itself"));
        }
        self.drop_what_cannot_hold(&name, provider, &mut entry, warnings);
        let cache = entry.cache_control.unwrap_or(true);
        let (vision, thinking, tools) = (entry.vision, entry.thinking, entry.tools.unwrap_or(true));
        let (cost_per_minute, cost_per_request) = (entry.cost_per_minute, entry.cost_per_request);
        let provider = Arc::clone(provider);
        Ok(Model {
            name,
            provider,
            model,
            max_tokens,
            context_window,
            compact_at: entry.compact_at.unwrap_or(0),
            rates,
            cost_per_minute,
            cost_per_mchar: entry.cost_per_mchar,
            voice: entry.voice,
            cost_per_request,
            cache,
            cache_ttl,
            vision,
            thinking,
            tools,
            fallbacks: entry.fallbacks,
        })
    }

    /// The cache lifetimes of the system text, what changes seldom, and the conversation.
    fn cache_ttl(&self, name: &str, entry: &Entry) -> Result<[Ttl; 3], Error> {
        match entry.cache_ttl[..] {
            [] => Ok([Ttl::default(); 3]),
            [stable, semi_stable, conversation]
                if stable >= semi_stable && semi_stable >= conversation =>
            {
                Ok([stable, semi_stable, conversation])
            }
            _ => Err(self.error(&format!("models.{name}.cache_ttl"), CACHE_TTL)),
        }
    }

    fn check_prices(&self, name: &str, entry: &Entry) -> Result<(), Error> {
        for (last, price) in [
            ("cost_per_minute", entry.cost_per_minute),
            ("cost_per_mchar", entry.cost_per_mchar),
            ("cost_per_request", entry.cost_per_request),
        ] {
            if price.is_some_and(|usd| !is_amount(usd)) {
                let key = format!("models.{name}.{last}");
                return Err(self.error(&key, "expected US dollars, 0 or more"));
            }
        }
        Ok(())
    }

    /// Takes out, with a warning, what does not go with the rest of the entry.
    fn drop_what_cannot_hold(
        &self,
        name: &str,
        provider: &Provider,
        entry: &mut Entry,
        warnings: &mut Vec<Warning>,
    ) {
        let key = |last: &str| format!("models.{name}.{last}");
        let max_tokens = entry.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
        if entry.thinking
            && provider.kind == ProviderType::Anthropic
            && max_tokens < LEAST_FOR_THINKING
        {
            entry.thinking = false;
            let what = "is off: `max_tokens` is less than 2048, and half of it would be for that";
            warnings.push(self.warning(&key("thinking"), what));
        }
        let has_hour = entry.cache_ttl.contains(&Ttl::Hour) && entry.cache_control != Some(false);
        if let Some([input, _, _, write]) = entry.cost_per_mtok.as_deref()
            && has_hour
            && matches!(
                provider.kind,
                ProviderType::Anthropic | ProviderType::Openai
            )
            && *write < *input * HOUR
        {
            let what = "has too low a price of a cache write: one that is kept for an hour costs twice the input, and \
                        calls are booked for less than they cost";
            warnings.push(self.warning(&key("cost_per_mtok"), what));
        }
        if entry
            .compact_at
            .is_some_and(|tokens| (1..1000).contains(&tokens))
        {
            entry.compact_at = None;
            let what = "is ignored: expected at least 1000 tokens, or 0 for that of `[compaction]`";
            warnings.push(self.warning(&key("compact_at"), what));
        }
    }

    fn warning(&self, key: &str, message: &str) -> Warning {
        Warning {
            origin: self.source.place(key),
            key: key.to_owned(),
            message: message.to_owned(),
        }
    }

    fn error(&self, key: &str, message: &str) -> Error {
        Error::Value {
            origin: self.source.place(key),
            key: key.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// What vendors' pages show behind the address of the server.
const ENDPOINTS: [&str; 3] = ["/chat/completions", "/messages", "/responses"];

const RATES: &str = "expected [input, output, cache_read] or [input, output, cache_read, cache_write], \
                     US dollars a million tokens, none negative";

const CACHE_TTL: &str = "expected three of \"5m\" and \"1h\", none longer than the one before it: tools and stable files, \
                         semi-stable files, the conversation";

/// Times the price of input that a cache write of an hour costs (Anthropic's price page, 2025-11).
const HOUR: f64 = 2.0;

/// A missing write rate is the dearest known: Anthropic takes 1.25 × input to write a cache of five
/// minutes, [`HOUR`] × for one of an hour; OpenAI 1.25 × from GPT-5.6 on (its guide "Prompt caching", read 2026-11), and
/// servers that take nothing for it report no writes.
fn four_rates(rates: &[f64], kind: ProviderType, longest: Ttl) -> Option<[f64; 4]> {
    let rates = match *rates {
        [input, output, read, write] => [input, output, read, write],
        [input, output, read] => [
            input,
            output,
            read,
            match (kind, longest) {
                (ProviderType::Anthropic | ProviderType::Openai, Ttl::Minutes5) => input * 1.25,
                (ProviderType::Anthropic | ProviderType::Openai, Ttl::Hour) => input * HOUR,
                _ => input,
            },
        ],
        _ => return None,
    };
    rates
        .iter()
        .all(|rate| rate.is_finite() && *rate >= 0.0)
        .then_some(rates)
}
