//! The flags of a run: which channels are open in addition to the spool, and whether the daemon ends when it is done.

use clap::{Args, ValueEnum};

/// How the daemon runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(super) struct RunOptions {
    /// Use these channels only; default: those that the configuration enables
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    channel: Option<Vec<ChannelName>>,
    /// Process waiting messages, then exit
    #[arg(long)]
    pub once: bool,
}

/// A channel beside the spool, which is always open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChannelName {
    /// The bot
    Telegram,
    /// A line of standard input is a message, an answer goes to standard output; the daemon ends
    /// with its input
    Cli,
}

impl RunOptions {
    /// Returns these flags with others: they may stand before and after `run`.
    pub(super) fn or(self, after: Self) -> Self {
        Self {
            channel: self.channel.or(after.channel),
            once: self.once || after.once,
        }
    }

    fn names(&self, door: ChannelName) -> bool {
        self.channel
            .as_ref()
            .is_some_and(|channels| channels.contains(&door))
    }

    /// Returns true when standard input is a channel.
    pub(super) fn cli(&self) -> bool {
        self.names(ChannelName::Cli)
    }

    /// Returns true when the daemon ends by itself.
    pub(super) fn end(&self) -> bool {
        self.once || self.cli()
    }

    /// Returns the settings that the flags stand for.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let telegram = self
            .channel
            .as_ref()
            .map(|_| self.names(ChannelName::Telegram));
        telegram
            .map(|on| ("telegram.enabled".to_owned(), on.to_string()))
            .into_iter()
            .collect()
    }
}
