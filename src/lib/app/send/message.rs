//! A message on its way to the daemon: what is said, to whom, and with which files.

use super::arguments::{Arguments, MessageFlags, parse_data, parse_id};
use super::submit;
use super::submit::{check_contact, check_session};
use crate::app::cli::{Exit, Failure};
use crate::app::render::Context;
use crate::config::Home;
use crate::control::attachments;
use crate::control::{Attachment, Command, Id, Words};

/// Sends a message, and prints its reply when that is waited for.
pub(super) fn send(context: &Context<'_>, arguments: &Arguments) -> Result<Exit, Failure> {
    let (home, flags) = (context.home, &arguments.message);
    let piped = arguments.is_piped();
    let text = arguments.text()?;
    let id = flags.id.as_deref().map(parse_id).transpose()?;
    let id = id.unwrap_or_default();
    check_target(home, flags)?;
    let may_queue = !arguments.no_queue;
    if !may_queue && !submit::is_running(home)? {
        return Err(submit::no_daemon(home));
    }
    let command = command(home, flags, &id, (text, piped))?;
    submit::send(context, &id, &command, may_queue, arguments.wait()).inspect_err(|_| {
        // Files without their command would lie there for a day.
        if !flags.attach.is_empty() && !home.spool_new().join(format!("{id}.json")).exists() {
            attachments::withdraw(&home.spool_new(), &id);
        }
    })
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
            attachments: attach(home, flags, id)?,
            topic: None,
            reply_to: None,
            emoji: None,
        },
        None => Command::User {
            words,
            sender: flags.from.clone(),
            session: flags.session.clone(),
            stream: flags.stream,
            attachments: attach(home, flags, id)?,
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

fn attach(home: &Home, flags: &MessageFlags, id: &Id) -> Result<Vec<Attachment>, Failure> {
    if flags.attach.is_empty() {
        return Ok(Vec::new());
    }
    submit::make_spool(home)?;
    attachments::leave(&home.spool_tmp(), &home.spool_new(), id, &flags.attach).map_err(|error| {
        match error {
            attachments::Error::Io(error) => error.into(),
            error @ attachments::Error::Unfit { .. } => {
                Failure::new(Exit::Usage, error.to_string())
                    .hint("nothing was sent; --attach takes regular files of at most 20 MB")
            }
        }
    })
}

/// Refuses a name that may mean several, before anything is sent.
fn check_target(home: &Home, flags: &MessageFlags) -> Result<(), Failure> {
    match (&flags.session, &flags.to) {
        // Other names mean conversations of our own, there or new.
        (Some(session), _) if session.starts_with('@') => check_session(home, session),
        (_, Some(to)) if to != "owner" && to.parse::<i64>().is_err() => check_contact(home, to),
        _ => Ok(()),
    }
}
