//! Colour on a terminal: when it is used, and which. It never carries information that is not in the text.

use std::io::IsTerminal;

use clap::ValueEnum;

use crate::config::Environment;

/// When to use colour: the value of `--color`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    #[default]
    Auto,
    /// Into a pipe too, as for `watch -c`
    Always,
    /// Nowhere
    Never,
}

/// Puts text into colour, or leaves it as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// Leaves every text as it is.
    pub(crate) const PLAIN: Self = Self { on: false };
    /// Puts every text into colour.
    #[cfg(test)]
    pub(crate) const ALWAYS: Self = Self { on: true };

    /// Returns the paint for standard output.
    pub(crate) fn new(color: Color, env: &Environment) -> Self {
        Self::decide(color, env, std::io::stdout().is_terminal())
    }

    /// `always` is somebody's word for this one run, so it beats NO_COLOR (no-color.org), which is
    /// a general wish.
    fn decide(color: Color, env: &Environment, terminal: bool) -> Self {
        let on = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                terminal
                    && !env.has("NO_COLOR")
                    && env.get("TERM").is_none_or(|term| term != "dumb")
            }
        };
        Self { on }
    }

    /// Returns `text` in faint letters.
    pub(crate) fn dim(self, text: &str) -> String {
        self.sgr("2", text)
    }

    /// "Select graphic rendition" of ECMA-48; each text ends with a reset, so none runs into another.
    pub(crate) fn sgr(self, code: &str, text: &str) -> String {
        if self.on && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(color: Color, terminal: bool, variables: &[(&str, &str)]) -> bool {
        Paint::decide(color, &Environment::of(variables), terminal).on
    }

    #[test]
    fn without_a_wish_there_is_colour_on_a_terminal_only() {
        assert!(on(Color::Auto, true, &[("TERM", "xterm")]));
        assert!(
            on(Color::Auto, true, &[("TERM", "xterm"), ("NO_COLOR", "")]),
            "an empty NO_COLOR is none"
        );
        assert!(!on(Color::Auto, false, &[("TERM", "xterm")]));
        assert!(!on(Color::Auto, true, &[("TERM", "dumb")]));
        assert!(!on(
            Color::Auto,
            true,
            &[("TERM", "xterm"), ("NO_COLOR", "1")]
        ));
    }

    #[test]
    fn an_explicit_wish_beats_everything_else() {
        assert!(on(
            Color::Always,
            false,
            &[("NO_COLOR", "1"), ("TERM", "dumb")]
        ));
        assert!(!on(Color::Never, true, &[("TERM", "xterm")]));
    }
}
