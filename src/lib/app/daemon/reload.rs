//! A reload (SIGHUP, or the command `reload`): the settings and everything that depends on them are rebuilt and replaced
//! at once. Running turns keep the old ones.

use ring::digest::{SHA256, digest};

use super::build;
use super::startup::{Daemon, note_cannot_answer};
use crate::app::cli::Failure;
use crate::auth::Keys;
use crate::config;
use crate::config::{Config, Http, Secrets, Telegram};
use crate::pipeline::{Live, SETTINGS};
use crate::sandbox;
use crate::secret::Secret;

/// What the daemon began with, of which some stays active until the next start.
pub(super) struct Began {
    config: Config,
    /// Of the tokens of the bot, and of those of the HTTP API and its webhooks, where these are on.
    telegram: Vec<Digest>,
    http: Vec<Digest>,
}

/// A secret as it was, without it; `None` where it was not set.
type Digest = Option<Vec<u8>>;

impl Began {
    pub(super) fn with(config: Config, secrets: &Secrets) -> Result<Self, config::Error> {
        let of = |name: &String| -> Result<Digest, config::Error> {
            let digest = |secret: Secret| digest(&SHA256, secret.expose().as_bytes());
            let digest = secrets.get(name)?.map(digest);
            Ok(digest.map(|digest| digest.as_ref().to_vec()))
        };
        let hooks = config.http.hooks.iter();
        let hooks = hooks.map(|(name, hook)| hook.secret_name(name));
        let http: Vec<String> = hooks.chain([config.http.token_env.clone()]).collect();
        let telegram = config
            .telegram
            .enabled
            .then_some(&config.telegram.token_env);
        let http = http.iter().filter(|_| config.http.enabled);
        Ok(Self {
            telegram: telegram.into_iter().map(of).collect::<Result<_, _>>()?,
            http: http.map(of).collect::<Result<_, _>>()?,
            config,
        })
    }
}

/// Returns the sections of which the daemon began with something else than what is set now, and which are read at the
/// start only. What is read each time (who may talk, how answers are shown) counts at once; so does what is off.
fn needs_restart(at_start: &Began, at_reload: &Began) -> Vec<&'static str> {
    let (began, now) = (&at_start.config, &at_reload.config);
    let telegram = |config: &Config| {
        config.telegram.enabled.then(|| {
            let at_once = Telegram::default();
            Telegram {
                owner: at_once.owner,
                dm_policy: at_once.dm_policy,
                allow_from: at_once.allow_from,
                stream: at_once.stream,
                interim: at_once.interim,
                typing: at_once.typing,
                reply_to_mode: at_once.reply_to_mode,
                ack_reaction: at_once.ack_reaction,
                group_policy: at_once.group_policy,
                groups: at_once.groups,
                ..config.telegram.clone()
            }
        })
    };
    let http = |config: &Config| {
        // A webhook of Telegram listens at the same address, also when the API is off.
        let listens = config.http.enabled
            || (config.telegram.enabled && config.telegram.webhook_path().is_some());
        listens.then(|| Http {
            ignore_tools: false,
            ..config.http.clone()
        })
    };
    let channels = |config: &Config| -> Vec<String> {
        let on = config.channels.iter().filter(|(_, one)| one.enabled);
        on.map(|(name, _)| name.clone()).collect()
    };
    let sections = [
        (
            telegram(began) != telegram(now) || at_start.telegram != at_reload.telegram,
            "telegram",
        ),
        (
            http(began) != http(now) || at_start.http != at_reload.http,
            "http",
        ),
        (channels(began) != channels(now), "channels"),
        (began.log != now.log, "log"),
    ];
    let changed = sections.into_iter().filter(|(is_new, _)| *is_new);
    changed.map(|(_, section)| section).collect()
}

impl Daemon {
    /// Activates the configuration again; an invalid one changes nothing and is reported.
    pub(super) fn reload(&self) {
        self.pipeline.end_troubles("reload");
        match self.build_again() {
            Ok((live, now, silent)) => {
                let waiting = needs_restart(&self.began_with, &now);
                let zone = live.config.agent.timezone.0;
                self.pipeline.sessions().set_zone(zone);
                self.kept.ledger.set_zone(zone);
                self.log.set_zone(zone);
                self.pipeline.reload(live);
                tracing::info!("configuration reloaded");
                self.audit_configuration("reload");
                self.pipeline.end_troubles(SETTINGS);
                note_cannot_answer(&self.pipeline, &silent);
                for section in waiting {
                    let words = format!(
                        "changes of [{section}] take effect at the next start: restart the daemon"
                    );
                    tracing::warn!("{words}");
                    self.pipeline.note_trouble_of(SETTINGS, &words);
                }
            }
            Err(failure) => self.report_failed_reload(&failure),
        }
    }

    fn build_again(&self) -> Result<(Live, Began, Vec<String>), Failure> {
        let running = self.pipeline.live().settings_files.clone();
        let flags = self.options.settings();
        let loaded = config::load_after(&running, &self.home, &self.env, &flags)?;
        let keys = Keys::open(&self.home, &self.env)?;
        let silent = build::cannot_answer(&loaded, &keys);
        let kept = build::Kept {
            outages: self.pipeline.live().agent.client().outages(),
            ..self.kept.clone()
        };
        let live = build::live(&self.home, &self.env, loaded, kept)?;
        let secrets = Secrets::open(&self.home, &self.env)?;
        let now = Began::with(live.config.clone(), &secrets)?;
        Ok((live, now, silent))
    }

    fn report_failed_reload(&self, failure: &Failure) {
        let message = &failure.message;
        self.systemd.status(&format!(
            "open; the configuration stays as it was: {message}"
        ));
        let files = config::settings_files(&self.home);
        self.kept
            .audit
            .configured("reload", false, "as before", files);
        tracing::error!(
            hint = failure.hint,
            "the configuration stays as it was: {message}"
        );
        let words = format!("the configuration was not read again: {message}");
        self.pipeline.note_trouble_of("reload", &words);
    }

    /// Says what stands between a command and the machine, in the log, in `systemctl status` and, with the
    /// settings that are active from now on, in the audit log.
    pub(super) fn audit_configuration(&self, at: &'static str) {
        let (audit, files) = (self.kept.audit.clone(), config::settings_files(&self.home));
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
                    tracing::info!(wall = %level, "sandbox of exec; `agent-daemon doctor` describes its limits")
                }
            }
            systemd.status(&format!("open; sandbox of exec: {level}"));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_settings(began: &Config, now: &Config) -> Vec<&'static str> {
        let secrets = &secrets("");
        let with = |config: &Config| Began::with(config.clone(), secrets).expect("good");
        needs_restart(&with(began), &with(now))
    }

    fn secrets(text: &str) -> Secrets {
        let dir = tempfile::tempdir().expect("dir");
        let home = config::Home::at(dir.path());
        let rename = crate::sys::atomic::Durability::Rename;
        crate::sys::atomic::write(&home.env_file(), text.as_bytes(), rename).expect("write");
        Secrets::open(&home, &config::Environment::of(&[])).expect("good")
    }

    #[test]
    fn a_token_that_is_read_at_the_start_only_is_told_to_wait_for_a_restart() {
        let mut config = Config::default();
        let hook = crate::config::Hook::default();
        config.http.hooks.insert("door".to_owned(), hook);
        let changed = |config: &Config, to: &str| {
            let began = "TELEGRAM_BOT_TOKEN=a\nAGENT_HTTP_TOKEN=b\nAGENT_HOOK_DOOR=c\n";
            let with = |text: &str| Began::with(config.clone(), &secrets(text)).expect("good");
            needs_restart(&with(began), &with(&format!("{began}{to}")))
        };
        let all = [
            "TELEGRAM_BOT_TOKEN=x",
            "AGENT_HTTP_TOKEN=x",
            "AGENT_HTTP_TOKEN=",
            "AGENT_HOOK_DOOR=x",
        ];
        for to in all {
            assert_eq!(changed(&config, to), [] as [&str; 0], "off: {to}");
        }
        config.telegram.enabled = true;
        config.http.enabled = true;
        let sections = all.map(|to| changed(&config, to));
        assert_eq!(sections, [["telegram"], ["http"], ["http"], ["http"]]);
        assert_eq!(changed(&config, "ANTHROPIC_API_KEY=x"), [] as [&str; 0]);
    }

    #[test]
    fn only_what_is_not_in_force_is_told_to_wait_for_a_restart() {
        let began = || {
            let mut config = Config::default();
            config.telegram.enabled = true;
            config.http.enabled = true;
            config
        };
        let changed = |change: fn(&mut Config)| {
            let mut now = began();
            change(&mut now);
            of_settings(&began(), &now)
        };
        let at_once: [fn(&mut Config); 5] = [
            |_| {},
            |config| config.telegram.allow_from.push(1),
            |config| config.telegram.typing = false,
            |config| {
                let group = crate::config::Group::default();
                config.telegram.groups.insert("-1".to_owned(), group);
            },
            |config| config.http.ignore_tools = true,
        ];
        for change in at_once {
            assert_eq!(changed(change), [] as [&str; 0]);
        }
        let telegram: [fn(&mut Config); 3] = [
            |config| config.telegram.enabled = false,
            |config| config.telegram.poll_timeout_secs = 10,
            |config| config.telegram.aliases.push("Jeeves".to_owned()),
        ];
        for change in telegram {
            assert_eq!(changed(change), ["telegram"]);
        }
        assert_eq!(changed(|config| config.http.listen.push('1')), ["http"]);
        assert_eq!(changed(|config| config.log.keep_days += 1), ["log"]);
        let on = |config: &mut Config| {
            let channel = config.channels.entry("mail".to_owned()).or_default();
            channel.enabled = true;
        };
        assert_eq!(changed(on), ["channels"]);
        // What is off before and after is nobody's business.
        let mut off = Config::default();
        off.http.listen.push('1');
        off.telegram.poll_timeout_secs = 10;
        assert_eq!(of_settings(&Config::default(), &off), [] as [&str; 0]);
    }
}
