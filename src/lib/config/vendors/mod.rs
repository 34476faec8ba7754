//! The vendors that need only a key: their provider files are built in. `init` writes the same files as examples next to the
//! settings.

use super::key_names::edits;
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

/// Returns the word of a model's id that is a slip for one in the vendors' own names, and that word: `sonet`, `sonnet`.
/// New models have new numbers and new words, so other words are nobody's slip.
pub fn misspelt_word(model: &str) -> Option<(String, &'static str)> {
    let of_vendors = VENDORS.iter().flat_map(|vendor| vendor.text.lines());
    let ids = of_vendors.filter_map(|line| line.trim_start_matches('#').strip_prefix("model = "));
    // Of a short word one other letter makes another word.
    let is_long = |word: &&str| word.len() >= 5;
    let letters = |c: char| !c.is_ascii_alphabetic();
    let known: Vec<&str> = ids
        .flat_map(|id| id.split(letters))
        .filter(is_long)
        .collect();
    let lower = model.to_ascii_lowercase();
    let words = lower.split(letters).filter(|word| !known.contains(word));
    let slip = |word: &str| known.iter().find(|one| edits(word, one) == 1).copied();
    words
        .map(|word| (word, slip(word)))
        .find_map(|(word, meant)| Some((word.to_owned(), meant?)))
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

#[cfg(test)]
mod tests {
    use super::misspelt_word;

    #[test]
    fn a_slip_in_a_models_name_is_found_and_a_new_model_is_none() {
        let check = |model: &str, expected: Option<(&str, &str)>| {
            let found = misspelt_word(model);
            let found = found.as_ref().map(|(word, meant)| (word.as_str(), *meant));
            assert_eq!(found, expected, "{model}");
        };
        check("claude-sonet-9", Some(("sonet", "sonnet")));
        check("anthropic/cluade-sonnet-4.5", Some(("cluade", "claude")));
        check("claude-hiaku-4-5", Some(("hiaku", "haiku")));
        check("gemni-2.5-flash", Some(("gemni", "gemini")));
        for good in [
            "claude-sonnet-9",
            "claude-opus-5",
            "gpt-6-mini",
            "gemini-4-flash-lite",
            "llama-3.3-70b",
            "qwen3",
        ] {
            check(good, None);
        }
    }
}
