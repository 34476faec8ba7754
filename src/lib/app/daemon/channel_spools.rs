//! Lines of channel processes: from the common spool, and from the spool of each channel, which accepts nothing else.
//! `channel_backlog` decides whose turn it is.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::command_intake;
use crate::channel::process::Layout;
use crate::config::Home;
use crate::control;
use crate::control::replies::Reply;
use crate::control::spool::Entry;
use crate::control::{Command, Heard, Id, Order, attachments, replies, spool};
use crate::pipeline::{Line, Pipeline};
use crate::queue::Known;
use crate::{db, sys};

/// Where a line came in: what it may say there, and where its answer is read.
#[derive(Debug, Clone)]
pub(super) struct SpoolDir {
    pub(super) new: PathBuf,
    replies: PathBuf,
    /// The one channel that may speak here.
    channel: Option<String>,
}

impl SpoolDir {
    /// Returns the spool of whoever may command the daemon.
    pub(super) fn common(home: &Home) -> Self {
        Self {
            new: home.spool_new(),
            replies: home.replies(),
            channel: None,
        }
    }

    pub(super) fn of(channel: &str, layout: &Layout) -> Self {
        Self {
            new: layout.spool_new(),
            replies: layout.replies(),
            channel: Some(channel.to_owned()),
        }
    }
}

/// Returns the channels that are processes, with their directories.
pub(super) fn own(pipeline: &Pipeline, home: &Home) -> Vec<(String, Layout)> {
    let processes = pipeline
        .channels()
        .iter()
        .filter(|(_, channel)| channel.outlives_us());
    processes
        .map(|(name, _)| (name.clone(), Layout::new(home.channels().join(name))))
        .collect()
}

/// What is in a file of a spool.
pub(super) enum Opened {
    /// It went.
    Gone,
    /// It cannot be read now.
    Later,
    /// A line or a command.
    Order(Box<Order>),
    /// What is never taken, and why.
    Bad(String),
}

impl Opened {
    /// Returns what the bytes of a file mean.
    pub(super) fn of(entry: &Entry, bytes: Result<Option<Vec<u8>>, sys::Error>) -> Self {
        match bytes {
            Ok(None) => Self::Gone,
            Ok(Some(bytes)) => match control::decode(&bytes) {
                Ok(order) if order.id == entry.id => Self::Order(Box::new(order)),
                Ok(_) => Self::Bad("the id in the file does not match its name".to_owned()),
                Err(bad) => Self::Bad(bad.reason),
            },
            Err(error) if error.source.kind() == std::io::ErrorKind::InvalidData => {
                Self::Bad(error.to_string())
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read a spool file now; it is retried later");
                Self::Later
            }
        }
    }
}

/// Reads a line.
pub(super) async fn open(dir: &SpoolDir, entry: &Entry) -> Opened {
    let of_entry = entry.clone();
    let bytes = sys::blocking(move || spool::read(&of_entry)).await;
    let order = match Opened::of(entry, bytes) {
        Opened::Order(order) => order,
        other => return other,
    };
    match (order.command.channel(), &dir.channel) {
        (Some(channel), Some(own)) if channel != own => Opened::Bad(format!(
            "this is the spool of the channel {own}: lines of other channels are refused"
        )),
        (None, _) => Opened::Bad(
            "only `user` and `delivered` lines of a channel are accepted here".to_owned(),
        ),
        _ => Opened::Order(order),
    }
}

/// Takes lines of channels in, each channel's in order: they are on disk when this returns.
///
/// # Errors
/// See [`db::Error`]; the lines must stay.
pub(super) async fn take(
    pipeline: &Arc<Pipeline>,
    home: &Home,
    dir: &SpoolDir,
    orders: Vec<Order>,
) -> Result<(), db::Error> {
    let mut heard: HashMap<String, Vec<(Id, Line)>> = HashMap::new();
    for order in orders {
        let channel = order.command.channel().unwrap_or_default().to_owned();
        if let Some(open) = pipeline.channels().get(&channel) {
            open.heard();
        }
        let refused = match order.command {
            Command::Delivered(receipt) => pipeline.take_receipt(&receipt).await?,
            Command::Heard(_) if !is_open(pipeline, &channel) => Some(format!(
                "the channel {channel} is off: `enabled = true` in [channels.{channel}] of agent.toml"
            )),
            Command::Heard(line) => match judge(pipeline, home, dir, &order.id, *line).await? {
                Ok(None) => None,
                Ok(Some(line)) => {
                    heard.entry(channel).or_default().push((order.id, line));
                    continue;
                }
                Err(reason) => Some(reason),
            },
            _ => Some("this is not a line of a channel".to_owned()),
        };
        if let Some(reason) = refused {
            answer(pipeline, home, dir, &order.id, &reason).await;
        }
    }
    for (channel, lines) in heard {
        let (_ids, lines): (Vec<Id>, Vec<Line>) = lines.into_iter().unzip();
        let became = pipeline.take_lines_of(&channel, &lines).await?;
        for (line, is_input) in lines.iter().zip(became) {
            // What strangers send is not kept.
            if !is_input && !line.heard.attachments.is_empty() {
                let dir = home.downloads().join(line.own_id().as_str());
                drop(sys::blocking(move || std::fs::remove_dir_all(dir)).await);
            }
        }
    }
    Ok(())
}

fn is_open(pipeline: &Pipeline, channel: &str) -> bool {
    let channel = pipeline.channels().get(channel);
    channel.is_some_and(|channel| channel.outlives_us())
}

/// Returns a message that is new, with its files in our hands; `None` for one that is here already, and an error for one
/// that cannot be taken.
async fn judge(
    pipeline: &Pipeline,
    home: &Home,
    dir: &SpoolDir,
    id: &Id,
    heard: Heard,
) -> Result<Result<Option<Line>, String>, db::Error> {
    let message_id = heard.message_id.clone();
    // Here a path is a name next to the line: a channel's process is not to have our files read for it.
    let is_own = |file: &control::Attachment| !file.path.contains('/');
    if dir.channel.is_some() && !heard.attachments.iter().all(is_own) {
        return Ok(Err(format!(
            "attachments are files in spool/new/{id}.d, named without a directory"
        )));
    }
    let mut line = Line::new(heard);
    match pipeline.known_line(&line).await? {
        Known::New => {}
        Known::Same => {
            attachments::withdraw(&dir.new, id);
            return Ok(Ok(None));
        }
        Known::Other => {
            attachments::withdraw(&dir.new, id);
            return Ok(Err(format!(
                "the message {} was sent before with a different text; `\"edited\": true` marks a changed text",
                crate::text::visible(&message_id)
            )));
        }
    }
    let (new, downloads, own) = (dir.new.clone(), home.downloads(), line.own_id());
    let (id, mut files) = (id.clone(), std::mem::take(&mut line.heard.attachments));
    let work =
        move || attachments::take_in_as(&new, &downloads, (&id, &own), &mut files).map(|()| files);
    match sys::blocking(work).await {
        Ok(files) => line.heard.attachments = files,
        Err(attachments::Error::Unfit { path, why }) => {
            return Ok(Err(format!("{path} cannot be attached: {why}")));
        }
        // Trouble with our own disk, and not with what a process left for us.
        Err(attachments::Error::Io(error)) if sys::is_no_room(&error.source) => {
            return Err(error.into());
        }
        Err(attachments::Error::Io(error)) => return Ok(Err(error.to_string())),
    }
    Ok(Ok(Some(line)))
}

/// Tells the process why a line is refused.
pub(super) async fn answer(
    pipeline: &Pipeline,
    home: &Home,
    dir: &SpoolDir,
    id: &Id,
    reason: &str,
) {
    tracing::warn!(%id, channel = dir.channel, reason, "a line of a channel is refused");
    if dir.channel.is_none() {
        return command_intake::refuse(pipeline, home, id, reason).await;
    }
    let (dir, reply) = (dir.replies.clone(), Reply::error(id.as_str(), reason));
    if let Err(error) = sys::blocking(move || replies::write(&dir, &reply)).await {
        tracing::warn!(%error, "cannot write the reply for the channel process");
    }
}
