//! The vendors whose key alone is enough: what loads them is built in. It is also the example that `init` writes
//! beside the settings, so that both say the same.

use super::provider_file;
use super::secrets::{SecretOrigin, Secrets};

/// A vendor that everybody knows.
#[derive(Debug, PartialEq, Eq)]
pub struct Vendor {
    /// What it is called in `providers.load`.
    pub name: &'static str,
    /// The usual name of its key.
    pub variable: &'static str,
    /// Where keys are made.
    pub key_page: &'static str,
    /// Its provider file.
    pub text: &'static str,
}

/// All of them; the first whose key is set answers.
pub const VENDORS: [Vendor; 4] = [
    Vendor {
        name: "anthropic",
        variable: "ANTHROPIC_API_KEY",
        key_page: "https://console.anthropic.com/settings/keys",
        text: include_str!("anthropic.toml"),
    },
    Vendor {
        name: "openai",
        variable: "OPENAI_API_KEY",
        key_page: "https://platform.openai.com/api-keys",
        text: include_str!("openai.toml"),
    },
    Vendor {
        name: "gemini",
        variable: "GEMINI_API_KEY",
        key_page: "https://aistudio.google.com/apikey",
        text: include_str!("gemini.toml"),
    },
    Vendor {
        name: "openrouter",
        variable: "OPENROUTER_API_KEY",
        key_page: "https://openrouter.ai/settings/keys",
        text: include_str!("openrouter.toml"),
    },
];

/// Returns the vendor of the provider `name`.
pub fn vendor(name: &str) -> Option<&'static Vendor> {
    VENDORS.iter().find(|vendor| vendor.name == name)
}

/// A vendor's key that is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyInUse {
    /// Its name.
    pub variable: &'static str,
    /// Where it is set.
    pub place: SecretOrigin,
    /// The loaded provider that uses it; `None` = nobody does.
    pub provider: Option<String>,
}

/// Returns the vendors' keys that are set, and who uses each.
pub(super) fn keys(models: &provider_file::Models, secrets: &Secrets) -> Vec<KeyInUse> {
    let key = |vendor: &Vendor| {
        let (_, place) = secrets.find(vendor.variable).ok().flatten()?;
        let mut loaded = models.providers();
        let user = loaded.find(|provider| provider.api_key_env.as_deref() == Some(vendor.variable));
        Some(KeyInUse {
            variable: vendor.variable,
            place,
            provider: user.map(|provider| provider.name.clone()),
        })
    };
    VENDORS.iter().filter_map(key).collect()
}
