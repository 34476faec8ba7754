//! `[compaction]`: when the older part of a conversation is summarized, and how much stays.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::Model;

/// `[compaction]`; tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Compaction {
    /// The defaults of the settings that are not set here; default `standard`.
    pub preset: Preset,
    /// The size at which a conversation is compacted; default 0: the preset's. A model's own
    /// `compact_at` wins, and no conversation outgrows its model's window.
    pub compact_at: u64,
    /// How much stays verbatim: `fraction:F` of the messages, `window:F` of the model's window,
    /// or `tokens:N`; default: the preset's.
    pub keep: Option<Keep>,
    /// Whether the model is asked to keep what matters before it is summarized; default true.
    pub flush: bool,
    /// Messages, calls and results included, at which a conversation is compacted too, however short they are; 0 = any
    /// number; default 500.
    pub history_size: usize,
}

impl Default for Compaction {
    fn default() -> Self {
        Self {
            preset: Preset::Standard,
            compact_at: 0,
            keep: None,
            flush: true,
            history_size: 500,
        }
    }
}

/// Numbers that belong together (specification §11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// At 150,000 tokens; a third of the messages stays.
    #[default]
    Standard,
    /// At 191,808 tokens, what matters is kept from 187,808 on; half a window stays.
    Jeeves,
    /// At 150,000 tokens; a third stays.
    Lucyd,
    /// At 100,000 tokens; 20,000 stay.
    Jarvis,
}

/// How much of a conversation stays verbatim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keep {
    /// This share of its messages.
    Fraction(f64),
    /// This share of the model's window.
    Window(f64),
    /// So many tokens.
    Tokens(u64),
}

impl std::fmt::Display for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fraction(share) => write!(f, "fraction:{share}"),
            Self::Window(share) => write!(f, "window:{share}"),
            Self::Tokens(tokens) => write!(f, "tokens:{tokens}"),
        }
    }
}

impl Serialize for Keep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let share = |number: &str| {
            number
                .parse::<f64>()
                .ok()
                .filter(|share| (0.0..1.0).contains(share))
        };
        let keep = text.split_once(':').and_then(|(word, number)| match word {
            "fraction" => share(number).map(Self::Fraction),
            "window" => share(number).map(Self::Window),
            "tokens" => number.parse().ok().map(Self::Tokens),
            _ => None,
        });
        keep.ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{text}` does not say how much is kept, expected `fraction:0.33`, `window:0.5` or `tokens:20000`"
            ))
        })
    }
}

/// The limits of compaction for one model; tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// From here on the model is asked to keep what matters.
    pub flush_at: u64,
    /// From here on the older part is summarized when a turn has ended.
    pub compact_at: u64,
    /// What a question may have: the window without room for an answer. Before it would be larger the older part is
    /// summed up at once.
    pub room: u64,
    /// The window.
    pub hard_at: u64,
    /// How much stays.
    pub keep: Keep,
}

impl Compaction {
    /// Returns the thresholds for `model` (specification §11): what is set never exceeds the window, which keeps a
    /// reserve of min(8,192, max_tokens, window / 4) for the answer.
    pub fn thresholds(&self, model: &Model) -> Thresholds {
        const LEAST: u64 = 512;
        let window = model.context_window;
        let room = window - u64::from(model.max_tokens).min(8_192).min(window / 4);
        let (preset_at, flush_margin) = match self.preset {
            Preset::Standard | Preset::Lucyd => (150_000, 4_000),
            Preset::Jeeves => (191_808, 4_000),
            Preset::Jarvis => (100_000, 4_000),
        };
        let set = [model.compact_at, self.compact_at]
            .into_iter()
            .find(|at| *at > 0)
            .unwrap_or(preset_at);
        let compact_at = set.max(LEAST).min(room);
        let keep = self.keep.unwrap_or(match self.preset {
            Preset::Standard | Preset::Lucyd => Keep::Fraction(0.33),
            Preset::Jeeves => Keep::Window(0.5),
            Preset::Jarvis => Keep::Tokens(20_000),
        });
        let flush_at = compact_at - flush_margin.min(window / 20).min(compact_at / 10);
        Thresholds {
            flush_at,
            compact_at,
            room,
            hard_at: window,
            keep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Home, HomeFlags, load};
    use crate::sys::atomic;

    /// Returns (flush at, compact at, room, what is kept) of a model with this window and longest answer.
    fn of(settings: &str, window: u64, max_tokens: u32, more: &str) -> (u64, u64, u64, String) {
        let dir = tempfile::tempdir().expect("dir");
        let put = |name: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join("providers.d")).expect("dir");
            atomic::write(
                &dir.path().join(name),
                text.as_bytes(),
                atomic::Durability::Rename,
            )
            .expect("write");
        };
        put(
            "agent.toml",
            &format!("[providers]\nload = [\"a\"]\n[compaction]\n{settings}"),
        );
        let model =
            format!("model = \"m\"\nmax_tokens = {max_tokens}\ncontext_window = {window}\n{more}");
        put(
            "providers.d/a.toml",
            &format!("type = \"offline\"\n[models.primary]\n{model}"),
        );
        let flags = HomeFlags {
            home: Some(dir.path().to_owned()),
            ..HomeFlags::default()
        };
        let home = Home::resolve(flags, &|_| None).expect("home");
        let loaded = load(&home, &Environment::of(&[]), &[]).expect("config");
        let model = loaded.models.get("primary", "the test").expect("primary");
        let Thresholds {
            flush_at,
            compact_at,
            room,
            hard_at,
            keep,
        } = loaded.config.compaction.thresholds(&model);
        assert_eq!(hard_at, window);
        (flush_at, compact_at, room, keep.to_string())
    }

    #[test]
    fn the_presets_have_the_numbers_they_are_known_by() {
        let large = |settings: &str| of(settings, 200_000, 8_192, "");
        let third = || "fraction:0.33".to_owned();
        assert_eq!(large(""), (146_000, 150_000, 191_808, third()));
        assert_eq!(
            large("preset = \"lucyd\""),
            (146_000, 150_000, 191_808, third())
        );
        assert_eq!(
            large("preset = \"jeeves\""),
            (187_808, 191_808, 191_808, "window:0.5".to_owned())
        );
        assert_eq!(
            large("preset = \"jarvis\""),
            (96_000, 100_000, 191_808, "tokens:20000".to_owned())
        );
        assert_eq!(
            large("compact_at = 50000\nkeep = \"window:0.5\""),
            (46_000, 50_000, 191_808, "window:0.5".to_owned())
        );
    }

    #[test]
    fn no_conversation_outgrows_its_models_window() {
        let third = || "fraction:0.33".to_owned();
        assert_eq!(of("", 8_000, 2_000, ""), (5_600, 6_000, 6_000, third()));
        assert_eq!(
            of("", 32_000, 30_000, ""),
            (22_400, 24_000, 24_000, third())
        );
        assert_eq!(
            of("compact_at = 50000", 200_000, 8_192, "compact_at = 20000"),
            (18_000, 20_000, 191_808, third())
        );
        assert_eq!(
            of("compact_at = 900000", 200_000, 8_192, ""),
            (187_808, 191_808, 191_808, third())
        );
    }
}
