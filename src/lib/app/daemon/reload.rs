//! A reload (SIGHUP, or the command `reload`): the settings and what hangs on them are built again and
//! swapped whole. Turns that run keep the old ones.

use super::build;
use super::startup::{Daemon, note_signed_out};
use crate::app::cli::Failure;
use crate::audit;
use crate::auth::Keys;
use crate::config;
use crate::config::{Config, DmPolicy, Telegram};
use crate::pipeline::Live;
use crate::sandbox;

/// Returns the sections that changed and are read at the start only. Who may talk counts at once.
fn needs_restart(before: &Config, after: &Config) -> Vec<&'static str> {
    let lasting = |config: &Config| Telegram {
        owner: Vec::new(),
        allow_from: Vec::new(),
        dm_policy: DmPolicy::default(),
        ..config.telegram.clone()
    };
    let telegram = lasting(before) != lasting(after);
    let http = before.http != after.http;
    let sections = [telegram.then_some("telegram"), http.then_some("http")];
    sections.into_iter().flatten().collect()
}

impl Daemon {
    /// Puts the configuration in force again; an invalid one changes nothing and is reported.
    pub(super) fn reload(&self) {
        match self.build_again() {
            Ok((live, signed_out)) => {
                let before = self.pipeline.live();
                let waiting = needs_restart(&before.config, &live.config);
                let zone = live.config.agent.timezone.0;
                self.pipeline.sessions().set_zone(zone);
                self.kept.ledger.set_zone(zone);
                self.log.set_zone(zone);
                self.pipeline.reload(live);
                tracing::info!("the configuration was read again");
                self.audit_configuration("reload");
                note_signed_out(&self.pipeline, &signed_out);
                for section in waiting {
                    let words = format!(
                        "changes of [{section}] take effect at the next start: restart the daemon"
                    );
                    tracing::warn!("{words}");
                    self.pipeline.note_trouble(&words);
                }
            }
            Err(failure) => self.report_failed_reload(&failure),
        }
    }

    fn build_again(&self) -> Result<(Live, Vec<String>), Failure> {
        let loaded = config::load(&self.home, &self.env, &self.options.settings())?;
        let keys = Keys::open(&self.home, &self.env)?;
        let signed_out = build::signed_out(&loaded.models, &keys);
        let kept = build::Kept {
            outages: self.pipeline.live().agent.client().outages(),
            ..self.kept.clone()
        };
        Ok((
            build::live(&self.home, &self.env, loaded, kept)?,
            signed_out,
        ))
    }

    fn report_failed_reload(&self, failure: &Failure) {
        let message = &failure.message;
        self.systemd.status(&format!(
            "open; the configuration stays as it was: {message}"
        ));
        let files = audit::settings(&self.home);
        self.kept
            .audit
            .configured("reload", false, "as before", files);
        tracing::error!(
            hint = failure.hint,
            "the configuration stays as it was: {message}"
        );
        self.pipeline
            .note_trouble(&format!("the configuration was not read again: {message}"));
    }

    /// Says what stands between a command and the machine, in the log, in `systemctl status` and, with the
    /// settings that are in force from now on, in the audit log.
    pub(super) fn audit_configuration(&self, at: &'static str) {
        let (audit, files) = (self.kept.audit.clone(), audit::settings(&self.home));
        let systemd = self.systemd.clone();
        let off = self.pipeline.live().config.tools.exec.sandbox == config::Sandbox::Off;
        // The first time it is found out by trying.
        tokio::task::spawn_blocking(move || {
            let level = if off {
                &sandbox::Level::Off
            } else {
                sandbox::level()
            };
            audit.configured(at, true, &level.to_string(), files);
            match level {
                sandbox::Level::Namespaces => tracing::debug!(wall = %level, "sandbox of exec"),
                _ => {
                    tracing::info!(wall = %level, "sandbox of exec; agent-daemon doctor says what it lets through")
                }
            }
            systemd.status(&format!("open; sandbox of exec: {level}"));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_talk_needs_no_restart_and_an_address_does() {
        let before = Config::default();
        let changed = |change: fn(&mut Config)| {
            let mut after = Config::default();
            change(&mut after);
            needs_restart(&before, &after)
        };
        assert_eq!(
            changed(|config| config.telegram.allow_from.push(1)),
            [] as [&str; 0]
        );
        assert_eq!(
            changed(|config| config.telegram.enabled = true),
            ["telegram"]
        );
        assert_eq!(changed(|config| config.http.listen.push('1')), ["http"]);
    }
}
