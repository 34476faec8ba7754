//! The step that sets up the bot: its token, tested at once, and the code that makes somebody its owner.

use std::sync::Arc;

use super::ask::Stop;
use super::{Setup, ask, settings_file};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::daemon::build::is_bot_token;
use crate::channel::telegram::Telegram;
use crate::clock;
use crate::config;
use crate::config::Secrets;
use crate::people::Store;
use crate::secret::Secret;

pub(super) fn step(setup: &Setup<'_>) -> Result<(), Stop> {
    let loaded = setup.loaded()?;
    let settings = &loaded.config.telegram;
    let secrets = Secrets::open(&setup.home, &setup.env)?;
    let is_set = secrets.get(&settings.token_env)?.is_some();
    if settings.enabled && is_set {
        cli::err("  the bot is set up");
        if ask::yes("Keep it?", true)? {
            return Ok(owner(setup, &loaded.config, "your bot")?);
        }
    }
    cli::err("  make a bot: write /newbot to @BotFather in Telegram; it gives you a token");
    let name = loop {
        let token = Secret::new(ask::hidden("Token")?);
        if !is_bot_token(&token) {
            cli::err("  a token looks like 123456789:AAF…; copy it whole");
            continue;
        }
        match verify(setup, settings, &loaded.config.http, token.clone())? {
            Err(why) => {
                cli::err(&format!(
                    "  Telegram refuses the token: {}; try again",
                    crate::text::visible(&why)
                ));
            }
            Ok(name) => {
                settings_file::set_secret(&setup.home, &settings.token_env, token.expose())?;
                break name;
            }
        }
    };
    let shown = match &name {
        Some(name) => format!("@{}", crate::text::visible(name)),
        None => "your bot".to_owned(),
    };
    cli::err(&match name {
        Some(_) => format!("  the token is good: {shown}"),
        None => format!(
            "  Token saved but not verified: cannot reach {}",
            settings.api_url
        ),
    });
    if !settings.enabled && !settings_file::set(&setup.home, "telegram", "enabled", "true")? {
        let file = setup.home.config_file().display();
        cli::err(&format!(
            "  write `enabled = true` below [telegram] in {file}"
        ));
    }
    if setup.is_running() {
        cli::err("  the bot is used from the next start of the daemon on");
    }
    Ok(owner(setup, &loaded.config, &shown)?)
}

fn verify(
    setup: &Setup<'_>,
    settings: &config::Telegram,
    http: &config::Http,
    token: Secret,
) -> Result<Result<Option<String>, String>, Failure> {
    let bot = Telegram::new(settings, http, token, Arc::default())
        .map_err(|error| Failure::failed(format!("no TLS: {}", error.without_url())))?;
    Ok(setup.runtime.block_on(bot.verify()))
}

/// Shows the code that makes its sender the owner, where there is none yet.
fn owner(setup: &Setup<'_>, config: &config::Config, bot: &str) -> Result<(), Failure> {
    let store = Store::new(&setup.home.people());
    if store.read()?.first_owner(config).is_some() {
        return Ok(());
    }
    let code = store.change(|people| people.new_owner_code(clock::now_ms()))?;
    cli::err(&format!(
        "  when the agent runs, send this code to {bot} within 10 minutes: {code}"
    ));
    cli::err(&format!(
        "  it makes you the owner; a new code: {}",
        cli::command("agent-send", "--pair owner")
    ));
    Ok(())
}
