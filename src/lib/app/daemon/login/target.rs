//! The provider of a key: one with a file, or a known one without a file.

use std::path::PathBuf;
use std::sync::Arc;

use crate::app::cli::Failure;
use crate::config;
use crate::config::{Environment, Home, Origin, Provider, ProviderType, VENDORS, Vendor};
use crate::workspace;

/// Whom a key is for.
pub(super) struct Target {
    pub(super) provider: Arc<Provider>,
    /// Whether `providers.load` says who is loaded, and not who is signed in.
    pub(super) listed: bool,
    /// Whether its file may be made: nothing else is set up.
    vacant: bool,
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
        let provider = config::provider(home, name)?.ok_or_else(|| nobody(home, name, &present))?;
        let vacant = provider.file.is_none() && (named || matches!(origin, Origin::Default));
        if provider.kind == ProviderType::Offline {
            return Err(Failure::usage("offline is no server: it has no key")
                .hint("agent-daemon login anthropic"));
        }
        // `load = ["offline"]` names nobody else, and login must not overrule it.
        let listed = !matches!(
            origin,
            Origin::Default | Origin::SignedIn(_) | Origin::Key(..)
        );
        Ok(Self {
            provider,
            listed,
            vacant,
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.provider.name
    }

    /// Returns where keys are made, for those we know.
    pub(super) fn key_page(&self) -> Option<&'static str> {
        let built_in =
            |vendor: &&Vendor| self.provider.api_key_env.as_deref() == Some(vendor.variable);
        VENDORS.iter().find(built_in).map(|vendor| vendor.key_page)
    }

    /// Makes the provider's file where that sets the agent up; returns it.
    pub(super) fn set_up(&self, home: &Home) -> Result<Option<PathBuf>, Failure> {
        // Without settings a home loads nothing by itself.
        if !self.vacant || !home.config_file().exists() {
            return Ok(None);
        }
        Ok(workspace::add_provider(home, self.name())?)
    }

    /// Returns whether a start would load it now, after it was stored.
    pub(super) fn is_loaded(&self, home: &Home, env: &Environment) -> Result<bool, Failure> {
        let (wanted, _) = config::providers_wanted(home, env)?;
        Ok(wanted.iter().any(|name| name == self.name()))
    }
}

/// Returns whom a key can be for: those we know, and those of the files that are `present`.
pub(in crate::app::daemon) fn names(present: &[String]) -> Vec<String> {
    let mut names: Vec<&str> = VENDORS.iter().map(|vendor| vendor.name).collect();
    names.extend(
        present
            .iter()
            .map(String::as_str)
            .filter(|name| *name != "offline"),
    );
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(str::to_owned).collect()
}

fn which(loaded: &[&String], present: &[String]) -> Failure {
    let why = if loaded.is_empty() {
        "no provider is set up yet"
    } else {
        "several providers are loaded"
    };
    Failure::usage(format!(
        "{why}: name the provider, one of {}",
        names(present).join(", ")
    ))
    .hint(format!(
        "agent-daemon login {}",
        loaded.first().map_or("anthropic", |name| name.as_str())
    ))
}

fn nobody(home: &Home, name: &str, present: &[String]) -> Failure {
    let name = crate::text::visible(&crate::text::shorten(name, 64));
    let dir = home.providers_dir();
    Failure::failed(format!(
        "no provider \"{name}\": there is no {}/{name}.toml",
        dir.display()
    ))
    .hint(format!(
        "agent-daemon login with one of {}; other servers need a file first (man agent.toml)",
        names(present).join(", ")
    ))
}
