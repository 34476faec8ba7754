//! A message to the daemon: its text, recipient and files.

use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::arguments::{Arguments, MAX_NAME, MessageFlags, parse_data, parse_id};
use super::submit;
use super::submit::{check_contact, check_recipient, check_session};
use super::wait::Waiting;
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::config::Home;
use crate::control::attachments;
use crate::control::{Attachment, Command, Id, Words};
use crate::message::Address;
use crate::people::People;
use crate::{config, text};

/// The most that is read of standard input as a file, bytes: more than a file may have.
const MAX_STDIN: u64 = (20 << 20) + 1;

/// Sends a message, and prints its reply when that is waited for.
pub(super) fn send(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let (home, flags) = (context.home, &arguments.message);
    let piped = arguments.is_piped();
    let text = arguments.text()?;
    let named = flags.id.as_deref().map(parse_id).transpose()?;
    let post = match named {
        Some(_) => submit::post_named,
        None => submit::post,
    };
    let id = named.unwrap_or_default();
    check_names(context, flags)?;
    let may_queue = !arguments.no_queue;
    if !may_queue && !submit::is_running(home)? {
        return Err(submit::no_daemon(home));
    }
    let command = command(home, flags, &id, (text, piped))?;
    let waiting = arguments.wait().map(Waiting::begin);
    let posted = post(home, &id, &command, may_queue).inspect_err(|_| {
        // Files without their command would lie there for a day.
        if !flags.attach.is_empty() && !home.spool_new().join(format!("{id}.json")).exists() {
            attachments::withdraw(&home.spool_new(), &id);
        }
    })?;
    submit::finish(context, &id, &command, posted, waiting)
}

fn command(
    home: &Home,
    flags: &MessageFlags,
    id: &Id,
    (text, piped): (String, bool),
) -> Result<Command, Failure> {
    let words = words(flags, text);
    // Those of an event stay in its conversation.
    let words = Words {
        untrusted: words.untrusted || (piped && !flags.notify),
        ..words
    };
    let source = flags.source.clone();
    Ok(match &flags.to {
        _ if flags.system => Command::System { words, source },
        _ if flags.notify => Command::Notify {
            words,
            source: source.unwrap_or_default(),
            reference: flags.reference.clone(),
            data: flags.data.as_deref().map(parse_data).transpose()?,
            attachments: Vec::new(),
        },
        Some(to) => Command::Raw {
            to: to.clone(),
            text: words.text,
            attachments: attach(home, &flags.attach, id)?,
            topic: None,
            reply_to: None,
            emoji: None,
            untrusted: words.untrusted,
            sticker: None,
        },
        None => Command::User {
            words,
            sender: flags.from.clone(),
            session: flags.session.clone(),
            stream: flags.stream,
            attachments: attach(home, &flags.attach, id)?,
        },
    })
}

/// Returns `text` as the flags want the model to read it.
pub(super) fn words(flags: &MessageFlags, text: String) -> Words {
    Words {
        text,
        context: None,
        tier: flags.tier.clone(),
        model: flags.model.clone(),
        untrusted: flags.untrusted,
        trusted: flags.trusted,
    }
}

/// Copies files into the spool, for the command `id`.
pub(super) fn attach(home: &Home, files: &[PathBuf], id: &Id) -> Result<Vec<Attachment>, Failure> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    submit::make_spool(home)?;
    let dir = home.spool_tmp().join(format!("{id}.stdin"));
    let piped = match files.iter().any(|file| file.as_os_str() == "-") {
        true => Some(keep_stdin(&dir)?),
        false => None,
    };
    let place = |file: &PathBuf| match &piped {
        Some(kept) if file.as_os_str() == "-" => kept.clone(),
        _ => file.clone(),
    };
    let files: Vec<PathBuf> = files.iter().map(place).collect();
    let left = attachments::leave(&home.spool_tmp(), &home.spool_new(), id, &files);
    if piped.is_some() {
        // Best effort: it lies where drafts do.
        let _ = std::fs::remove_dir_all(&dir);
    }
    left.map_err(|error| match error {
        attachments::Error::Io(error) => error.into(),
        error @ attachments::Error::Unfit { .. } => Failure::usage(error.to_string())
            .hint("nothing was sent; a message may have 20 regular files of at most 20 MB each"),
    })
}

/// Writes standard input, as far as a file may go, to a file in `dir` and returns its path.
fn keep_stdin(dir: &Path) -> Result<PathBuf, Failure> {
    let fail = |error| Failure::io(format!("standard input cannot be kept: {error}"));
    let path = dir.join("stdin.txt");
    let keep = || {
        DirBuilder::new().mode(0o700).create(dir)?;
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        // One byte more is told as too much.
        let mut stdin = std::io::stdin().lock().take(MAX_STDIN);
        std::io::copy(&mut stdin, &mut file)
    };
    keep().map_err(fail)?;
    Ok(path)
}

/// Refuses what nobody could carry out, before anything is sent: names that are unknown or ambiguous, and words that
/// could not be delivered.
pub(super) fn check_names(context: &Context<'_>, flags: &MessageFlags) -> Result<(), Failure> {
    let home = context.home;
    match (&flags.session, &flags.to) {
        (Some(session), _) if session.starts_with('@') => {
            check_session(home, session)?;
            check_contact(home, session)?;
        }
        // Other names mean conversations of our own, there or new.
        (Some(session), _) if !is_name(session) => {
            let what = "--session takes 1 to 200 printable characters";
            return Err(Failure::usage(what).hint("such as --session work"));
        }
        (_, Some(to)) => check_recipient(context, to)?,
        _ => {}
    }
    check_model(context, flags.model.as_deref())?;
    if !(flags.tier.is_some() || flags.raw || flags.notify) {
        return Ok(());
    }
    let Ok(config) = config::load_config(home, context.env) else {
        return Ok(());
    };
    if let Some(tier) = flags.tier.as_ref().filter(|tier| !config.has_tier(tier)) {
        let own = config.context.tiers.keys().map(String::as_str);
        let names: Vec<&str> = ["full", "operational"].into_iter().chain(own).collect();
        return Err(unknown("tier", tier, &names));
    }
    let is_for_owner = flags.notify || (flags.raw && flags.to.as_deref() == Some("owner"));
    let to = flags.to.as_deref().and_then(Address::parse);
    let is_off = |to: &Address| {
        let mut open = config.open_channels();
        config.knows_channel(to.channel()) && !open.any(|name| name == to.channel())
    };
    let off = to.filter(is_off);
    let lacks = if !(flags.raw || flags.notify) {
        return Ok(());
    } else if config.open_channels().next().is_none() {
        (
            "Telegram is off, and so is every other channel",
            "[telegram] enabled = true in agent.toml",
        )
    } else if let Some(to) = off {
        let what = format!("not delivered: the channel {} is off", to.channel());
        return Err(Failure::failed(what).hint("`enabled = true` in its section of agent.toml"));
    } else if is_for_owner && People::read(&home.people())?.first_owner(&config).is_none() {
        ("no owner configured", "agent-send --pair owner")
    } else {
        return Ok(());
    };
    Err(Failure::failed(format!("not delivered: {}", lacks.0)).hint(lacks.1))
}

/// Refuses a model that the settings do not have.
pub(super) fn check_model(context: &Context<'_>, name: Option<&str>) -> Result<(), Failure> {
    // Settings that are broken now may not be those of the daemon that runs.
    if let Some(name) = name
        && let Ok(loaded) = config::load(context.home, context.env, &[])
        && loaded.models.get(name, "--model").is_err()
    {
        let names: Vec<&str> = loaded.models.names().collect();
        return Err(unknown("model", name, &names));
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.chars().count()) && !text.contains(char::is_control)
}

fn unknown(what: &str, name: &str, known: &[&str]) -> Failure {
    Failure::failed(format!("no {what} {:?}", text::visible(name)))
        .hint(format!("there are: {}", known.join(", ")))
}
