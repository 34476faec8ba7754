//! Whom a key is for: the provider of a file, or one of the known ones that has no file yet.

use std::path::PathBuf;
use std::sync::Arc;

use crate::app::cli::{Exit, Failure};
use crate::auth::OPENROUTER;
use crate::config;
use crate::config::{Environment, Home, Origin, Provider, ProviderType};
use crate::workspace;

/// A provider that everybody knows: its name, type, address, variable, and where keys are made.
struct Known(
    &'static str,
    ProviderType,
    &'static str,
    &'static str,
    &'static str,
);

const KNOWN: [Known; 4] = [
    Known(
        "anthropic",
        ProviderType::Anthropic,
        "https://api.anthropic.com",
        "ANTHROPIC_API_KEY",
        "https://console.anthropic.com/settings/keys",
    ),
    Known(
        "openai",
        ProviderType::Openai,
        "https://api.openai.com/v1",
        "OPENAI_API_KEY",
        "https://platform.openai.com/api-keys",
    ),
    Known(
        "openrouter",
        ProviderType::Openai,
        OPENROUTER,
        "OPENROUTER_API_KEY",
        "https://openrouter.ai/settings/keys",
    ),
    Known(
        "gemini",
        ProviderType::Gemini,
        "https://generativelanguage.googleapis.com",
        "GEMINI_API_KEY",
        "https://aistudio.google.com/apikey",
    ),
];

/// Whom a key is for.
pub(super) struct Target {
    pub(super) provider: Arc<Provider>,
    /// Whether `providers.load` says who is loaded, and not who is signed in.
    pub(super) listed: bool,
    /// Whether its file may be made: nothing else is set up.
    vacant: bool,
    /// Whether others are loaded, whose models may have the names of its example.
    crowded: bool,
}

impl Target {
    /// Finds the provider called `name`; without a name the only one that is loaded.
    pub(super) fn find(
        home: &Home,
        env: &Environment,
        name: Option<&str>,
    ) -> Result<Self, Failure> {
        let (wanted, origin) = config::providers_wanted(home, env)?;
        let present = config::provider_files(home)?;
        let real: Vec<&String> = wanted.iter().filter(|name| *name != "offline").collect();
        let name = match (name, real.as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only.as_str(),
            (None, _) => return Err(which(&real, &present)),
        };
        let named = wanted.iter().any(|loaded| loaded == name);
        let file = config::provider(home, name)?;
        let vacant = file.is_none() && (named || matches!(origin, Origin::Default));
        let provider = match file {
            Some(provider) => provider,
            None => Arc::new(known(name).ok_or_else(|| nobody(home, name, &present))?),
        };
        if provider.kind == ProviderType::Offline {
            return Err(
                Failure::new(Exit::Usage, "offline is no server: it has no key")
                    .hint("agent-daemon login anthropic"),
            );
        }
        // `load = ["offline"]` names nobody else, and login must not overrule it.
        let listed = !matches!(origin, Origin::Default | Origin::SignedIn(_));
        Ok(Self {
            provider,
            listed,
            vacant,
            crowded: !real.is_empty(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.provider.name
    }

    /// Returns where keys are made, for those we know.
    pub(super) fn key_page(&self) -> Option<&'static str> {
        KNOWN
            .iter()
            .find(|known| self.provider.base_url == known.2)
            .map(|known| known.4)
    }

    /// Makes the provider's file where that sets the agent up; returns it.
    pub(super) fn set_up(&self, home: &Home) -> Result<Option<PathBuf>, Failure> {
        // Without settings a home loads nothing by itself.
        if !self.vacant || !home.config_file().exists() {
            return Ok(None);
        }
        workspace::add_provider(home, self.name()).map_err(|error| {
            let hint = error.hint();
            Failure::new(Exit::Io, error.to_string()).hint(hint)
        })
    }

    /// Returns whether a start would load it now, after it was stored.
    pub(super) fn is_loaded(&self, home: &Home, env: &Environment) -> Result<bool, Failure> {
        let there = config::provider(home, self.name())?.is_some();
        Ok(there
            && config::providers_wanted(home, env)?
                .0
                .iter()
                .any(|name| name == self.name()))
    }

    /// Says how the file comes to be, if it is not there.
    pub(super) fn file_step(&self, home: &Home) -> Option<String> {
        if self.provider.file.is_some() {
            return None;
        }
        let file = home.providers_dir().join(format!("{}.toml", self.name()));
        Some(if workspace::has_provider(self.name()) {
            let rename = if self.crowded {
                " and rename its models"
            } else {
                ""
            };
            format!("cp {0}.example {0}{rename}", crate::app::cli::quote(&file))
        } else {
            format!("write {} (man agent.toml)", file.display())
        })
    }
}

fn known(name: &str) -> Option<Provider> {
    let Known(name, kind, base_url, variable, _) = KNOWN.iter().find(|known| known.0 == name)?;
    Some(Provider {
        name: (*name).to_owned(),
        kind: *kind,
        base_url: (*base_url).to_owned(),
        api_key_env: Some((*variable).to_owned()),
        oauth: None,
        scripts_dir: None,
        file: None,
    })
}

fn names(present: &[String]) -> String {
    let mut names: Vec<&str> = KNOWN.iter().map(|known| known.0).collect();
    names.extend(
        present
            .iter()
            .map(String::as_str)
            .filter(|name| *name != "offline"),
    );
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn which(loaded: &[&String], present: &[String]) -> Failure {
    let why = if loaded.is_empty() {
        "no provider is set up yet"
    } else {
        "several providers are loaded"
    };
    Failure::new(
        Exit::Usage,
        format!("{why}: say whom the key is for, one of {}", names(present)),
    )
    .hint(format!(
        "agent-daemon login {}",
        loaded.first().map_or("anthropic", |name| name.as_str())
    ))
}

fn nobody(home: &Home, name: &str, present: &[String]) -> Failure {
    let name = crate::text::visible(&crate::text::shorten(name, 64));
    let dir = home.providers_dir();
    Failure::new(
        Exit::Usage,
        format!(
            "no provider is called {name}: there is no {}/{name}.toml",
            dir.display()
        ),
    )
    .hint(format!(
        "agent-daemon login with one of {}; other servers need a file first (man agent.toml)",
        names(present)
    ))
}
