//! A house with everything in it: a daemon with a fake Telegram and a fake model.

use super::{Daemon, FakeModel, FakeTelegram, Sandbox};

/// The daemon, those it talks to, and where it lives.
pub(crate) struct House {
    // First, so that it ends before its files go.
    pub(crate) daemon: Daemon,
    pub(crate) telegram: FakeTelegram,
    pub(crate) model: FakeModel,
    pub(crate) sandbox: Sandbox,
}

impl House {
    /// Starts a daemon that serves.
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// Starts one with TOML laid over its settings.
    pub(crate) fn with(config: &str) -> Self {
        let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model)
            .config(config);
        Self::of(sandbox, telegram, model)
    }

    /// Kills the daemon as a power cut would, and starts another.
    pub(crate) fn killed(self) -> Self {
        self.daemon.kill9();
        Self::of(self.sandbox, self.telegram, self.model)
    }

    /// Starts the daemon of a sandbox that these two are set up in.
    pub(crate) fn of(sandbox: Sandbox, telegram: FakeTelegram, model: FakeModel) -> Self {
        Self {
            daemon: sandbox.ready(),
            telegram,
            model,
            sandbox,
        }
    }
}
