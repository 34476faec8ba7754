//! Accepts commands: from the FIFO, which also signals new spool files, and from the spool, which is durable.

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::channel_backlog::Backlog;
use super::channel_spools;
use super::channel_spools::{Opened, SpoolDir};
use super::watchdog;
use crate::config::Home;
use crate::control;
use crate::control::attachments;
use crate::control::replies;
use crate::control::replies::Reply;
use crate::control::spool;
use crate::control::spool::Entry;
use crate::control::{Command, Id, Order};
use crate::message::Source;
use crate::pipeline::Pipeline;
use crate::sys;
use crate::sys::fifo;
use crate::{secret, text};

/// The spool is looked at this often even when nobody rang and no watcher saw anything.
const RESCAN: Duration = Duration::from_secs(5);
/// Spooled commands that are accepted with one commit.
const TOGETHER: usize = 64;
/// Rings that are answered before the rest of the loop has its turn again, however many come.
const AT_ONCE: usize = 256;

/// Of a line in the FIFO that is too long so many bytes are kept, so that its sender can be told: as much as a pipe holds
/// (pipe(7)).
const KEPT: usize = 64 << 10;

/// What came through a small door.
enum Ring {
    Line(Vec<u8>),
    Look,
}

/// Takes commands in until the daemon closes. `reload` is told to read the configuration again.
pub(super) async fn serve(
    pipeline: Arc<Pipeline>,
    home: Home,
    doorbell: File,
    reload: mpsc::Sender<()>,
    mut watchdog: watchdog::Link,
) {
    let (rings, mut heard) = mpsc::channel(AT_ONCE);
    let (again, came) = (rings.clone(), rings.clone());
    let watcher = sys::watch_changes(
        &spools(&pipeline, &home),
        |_| true,
        move || {
            // A full channel will be worked off and then looks at the spool anyway.
            let _ = came.try_send(Ring::Look);
        },
    );
    if let Err(error) = &watcher {
        tracing::warn!(%error, "cannot watch the spool; it is checked every 5 s");
    }
    let listener = tokio::spawn(listen(doorbell, rings));
    let mut rescan = tokio::time::interval(RESCAN);
    rescan.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut now = Vec::new();
    loop {
        tokio::select! {
            () = pipeline.closing().cancelled() => break,
            () = watchdog.pass() => {}
            _ = rescan.tick() => look(&pipeline, &home, &again).await,
            1.. = heard.recv_many(&mut now, AT_ONCE) => {
                let mut rang = false;
                for ring in now.drain(..) {
                    match ring {
                        Ring::Look => rang = true,
                        Ring::Line(line) => rang |= line_in(&pipeline, &home, &line, &reload).await,
                    }
                }
                if rang {
                    look(&pipeline, &home, &again).await;
                }
            }
        }
    }
    listener.abort();
}

/// Looks at the spools, and asks to be called again at once when there was more than one look takes in.
async fn look(pipeline: &Arc<Pipeline>, home: &Home, again: &mpsc::Sender<Ring>) {
    if empty_spool(pipeline, home).await {
        // A full channel will be worked off and then looks at the spool anyway.
        let _ = again.try_send(Ring::Look);
    }
}

/// Returns the directories in which commands and lines arrive.
fn spools(pipeline: &Pipeline, home: &Home) -> Vec<PathBuf> {
    let own = channel_spools::own(pipeline, home).into_iter();
    let own = own.map(|(_, layout)| layout.spool_new());
    [home.spool_new()].into_iter().chain(own).collect()
}

/// Reads whole lines off the FIFO forever.
async fn listen(doorbell: File, rings: mpsc::Sender<Ring>) {
    let mut doorbell = match pipe::Receiver::from_file(doorbell) {
        Ok(doorbell) => doorbell,
        Err(error) => {
            return tracing::error!(%error, "cannot open the control FIFO; the spool still works");
        }
    };
    let mut lines = Lines::default();
    let mut chunk = [0_u8; 16 * 1024];
    loop {
        match doorbell.read(&mut chunk).await {
            Ok(count) => {
                for line in lines.push(chunk.get(..count).unwrap_or_default()) {
                    if rings.send(Ring::Line(line)).await.is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "the control FIFO cannot be read");
                tokio::time::sleep(RESCAN).await;
            }
        }
    }
}

/// Cuts a byte stream into lines. One that is longer than [`KEPT`] is dropped whole and logged.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    dropping: bool,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = piece
                .strip_suffix(b"\n")
                .map_or((piece, false), |piece| (piece, true));
            if !self.dropping {
                self.rest.extend_from_slice(piece);
            }
            if self.rest.len() > KEPT {
                tracing::warn!("{}", too_long(self.rest.len()));
                self.rest.clear();
                self.dropping = true;
            }
            if ends {
                if !self.dropping && !self.rest.is_empty() {
                    whole.extend(objects(std::mem::take(&mut self.rest)));
                }
                self.rest.clear();
                self.dropping = false;
            }
        }
        // Writes of a line are atomic, so what is whole JSON is a whole line, only without its end.
        let ended = self.rest.last() == Some(&b'}') && {
            let mut values = serde_json::Deserializer::from_slice(&self.rest)
                .into_iter::<serde::de::IgnoredAny>();
            values.all(|value| value.is_ok())
        };
        if ended {
            whole.extend(objects(std::mem::take(&mut self.rest)));
        }
        whole
    }
}

/// Returns why a line is not carried out.
fn too_long(bytes: usize) -> String {
    format!(
        "a line in the control FIFO has {bytes} bytes or more and was dropped: longer ones than {} with their end may be torn; \
         agent-send sends any length",
        fifo::MAX_LINE
    )
}

/// Cuts a line that is several JSON values into them: somebody forgot to end theirs. Any other line
/// stays as it is, and one that is too long, which may be torn.
fn objects(line: Vec<u8>) -> Vec<Vec<u8>> {
    if line.len() >= fifo::MAX_LINE {
        return vec![line];
    }
    let mut values =
        serde_json::Deserializer::from_slice(&line).into_iter::<serde::de::IgnoredAny>();
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(Ok(_)) = values.next() {
        let end = values.byte_offset();
        pieces.push(line.get(start..end).unwrap_or_default().to_vec());
        start = end;
    }
    if start == line.len() && pieces.len() > 1 {
        pieces
    } else {
        vec![line]
    }
}

/// Handles a line of the FIFO; true when the spool is to be looked at.
async fn line_in(
    pipeline: &Arc<Pipeline>,
    home: &Home,
    line: &[u8],
    reload: &mpsc::Sender<()>,
) -> bool {
    let order = match control::decode(line) {
        // Its end is a part of it.
        read if line.len() >= fifo::MAX_LINE => {
            let why = too_long(line.len());
            tracing::warn!("{why}");
            let id = read.map_or_else(|bad| bad.id, |order| order.answer.then_some(order.id));
            if let Some(id) = id {
                refuse(pipeline, home, &id, &why).await;
            }
            return false;
        }
        Ok(order) => order,
        Err(bad) => {
            let shown = text::shorten(&secret::redact(&String::from_utf8_lossy(line)), 200);
            tracing::warn!(reason = %bad, line = text::visible(&shown), "invalid command in the control FIFO");
            if let Some(id) = &bad.id {
                refuse(pipeline, home, id, &bad.reason).await;
            }
            return false;
        }
    };
    match order.command {
        Command::Spool { .. } => true,
        Command::Heard(_) | Command::Delivered(_) => {
            let door = SpoolDir::common(home);
            let id = order.id.clone();
            if let Err(error) = channel_spools::take(pipeline, home, &door, vec![order]).await {
                tracing::error!(%error, "cannot accept a line of a channel");
                refuse(pipeline, home, &id, &error.to_string()).await;
            }
            false
        }
        Command::Reload => {
            // A reload that is under way will see the same file.
            let _ = reload.try_send(());
            false
        }
        // It must outlive this process.
        Command::Forget { hard: true, .. } => {
            let line = control::encode(&order.id, &order.command);
            let (tmp, new, id) = (home.spool_tmp(), home.spool_new(), order.id.clone());
            let put = move || spool::put(&tmp, &new, &id, &line);
            if let Err(error) = crate::sys::blocking(put).await {
                refuse(pipeline, home, &order.id, &error.to_string()).await;
            }
            true
        }
        _ => {
            // The FIFO is not a record: what cannot be stored now is lost, so its sender is notified.
            let id = order.id.clone();
            let mut order = order;
            if let Err(error) = take_files_in(pipeline, home, &mut order).await {
                tracing::warn!(%id, "cannot accept the files of a command: {error}");
                refuse(pipeline, home, &id, &error.to_string()).await;
                return false;
            }
            if let Err(error) = pipeline.take_orders(&[order]).await {
                tracing::error!(%error, "cannot accept a command");
                refuse(pipeline, home, &id, &error.to_string()).await;
            }
            false
        }
    }
}

/// A spool file and what is in it; `None` when it is gone.
type Spooled = (Entry, Result<Option<Vec<u8>>, sys::Error>);

/// Takes in everything that waits in the spool, in order of arrival, and of the lines of each channel as much as one look
/// takes. Returns whether there is more.
pub(super) async fn empty_spool(pipeline: &Arc<Pipeline>, home: &Home) -> bool {
    // One look at a time: who comes second finds nothing, and knows that it is done.
    static LOOK: LazyLock<tokio::sync::Mutex<Backlog>> = LazyLock::new(Default::default);
    let mut backlog = LOOK.lock().await;
    let waits = |words: &str| {
        pipeline.set_trouble("spool", Some(words));
        false
    };
    let mut entries = match backlog.scan_common(home).await {
        Ok(entries) => entries.into_iter(),
        Err(error) => {
            tracing::error!(%error, "the spool cannot be read");
            return waits(&error.to_string());
        }
    };
    loop {
        let together: Vec<Entry> = entries.by_ref().take(TOGETHER).collect();
        if together.is_empty() {
            break;
        }
        let read = move || {
            let read = |entry| {
                let bytes = spool::read(&entry);
                (entry, bytes)
            };
            together.into_iter().map(read).collect()
        };
        let spooled = crate::sys::blocking(read).await;
        if let Err(error) = take_in(pipeline, home, spooled, &mut backlog).await {
            tracing::error!(%error, "spooled commands wait");
            return waits(&format!("spooled commands wait: {error}"));
        }
    }
    match backlog.work_off(pipeline, home).await {
        Ok(is_more) => {
            pipeline.end_troubles("spool");
            is_more
        }
        Err(error) => {
            tracing::error!(%error, "lines of channels wait");
            waits(&format!("lines of channels wait: {error}"))
        }
    }
}

/// Takes some spooled commands in with one commit, and removes their files.
async fn take_in(
    pipeline: &Arc<Pipeline>,
    home: &Home,
    spooled: Vec<Spooled>,
    backlog: &mut Backlog,
) -> Result<(), crate::db::Error> {
    let (mut taken, mut orders) = (Vec::new(), Vec::new());
    for (entry, bytes) in spooled {
        let Some(order) = open_entry(pipeline, home, &entry, bytes).await else {
            continue;
        };
        if let Some(channel) = order.command.channel() {
            backlog.keep(channel, entry);
            continue;
        }
        let Command::Forget { target, hard: true } = &order.command else {
            taken.push(entry);
            orders.push(order);
            continue;
        };
        match will_erase(pipeline, target) {
            // It waits where it is.
            Ok(()) => pipeline.request_restart(),
            Err(reason) => {
                refuse(pipeline, home, &order.id, &reason).await;
                taken.push(entry);
            }
        }
    }
    pipeline.take_orders(&orders).await?;
    remove(taken).await;
    Ok(())
}

/// Removes spool files whose commands are on disk.
pub(super) async fn remove(taken: Vec<Entry>) {
    let remove = move || {
        for entry in taken {
            if let Err(error) = spool::remove(&entry) {
                tracing::warn!(%error, id = %entry.id, "cannot remove a spool file; its command is not run twice");
            }
        }
    };
    crate::sys::blocking(remove).await;
}

/// Says whether what is to be erased can be, before the daemon restarts for it.
fn will_erase(pipeline: &Pipeline, target: &str) -> Result<(), String> {
    if pipeline.channels().contains_key(Source::Cli.as_str()) {
        return Err(
            "this daemon reads its standard input, and cannot restart; end it first".to_owned(),
        );
    }
    tokio::task::block_in_place(|| pipeline.meant(target)).map(drop)
}

/// Returns one spooled command; what makes no sense is put aside.
async fn open_entry(
    pipeline: &Pipeline,
    home: &Home,
    entry: &Entry,
    bytes: Result<Option<Vec<u8>>, sys::Error>,
) -> Option<Order> {
    let reason = match Opened::of(entry, bytes) {
        Opened::Gone | Opened::Later => return None,
        Opened::Order(order) if order.command.channel().is_some() => return Some(*order),
        Opened::Order(mut order) => match take_files_in(pipeline, home, &mut order).await {
            Ok(()) => return Some(*order),
            Err(attachments::Error::Io(error)) => {
                tracing::warn!(%error, "cannot read a spooled command now; it is retried later");
                return None;
            }
            Err(error @ attachments::Error::Unfit { .. }) => error.to_string(),
        },
        Opened::Bad(reason) => reason,
    };
    put_aside(pipeline, home, entry, &reason).await;
    None
}

/// Makes the files of a command ours before the command is.
pub(crate) async fn take_files_in(
    pipeline: &Pipeline,
    home: &Home,
    order: &mut Order,
) -> Result<(), attachments::Error> {
    let Some(attachments) = order
        .command
        .attachments_mut()
        .filter(|files| !files.is_empty())
    else {
        return Ok(());
    };
    let mut files = std::mem::take(attachments);
    let digests = move || {
        attachments::add_digests(&mut files);
        files
    };
    *attachments = crate::sys::blocking(digests).await;
    let known = pipeline.knows(&order.id).await;
    if known.map_err(|error| {
        sys::Error::at("look into", &home.queue_db())(std::io::Error::other(error))
    })? {
        // It is that command, which has its files.
        attachments::withdraw(&home.spool_new(), &order.id);
        return Ok(());
    }
    let (new, downloads, id) = (home.spool_new(), home.downloads(), order.id.clone());
    let mut files = std::mem::take(attachments);
    let work = move || attachments::take_in(&new, &downloads, &id, &mut files).map(|()| files);
    let taken = crate::sys::blocking(work).await;
    *attachments = taken?;
    Ok(())
}

/// A spool file that makes no sense is kept under another name, and its sender is notified.
async fn put_aside(pipeline: &Pipeline, home: &Home, entry: &Entry, reason: &str) {
    tracing::error!(id = %entry.id, reason, "invalid command in the spool; the file is moved aside");
    refuse(pipeline, home, &entry.id, reason).await;
    if let Err(error) = sys::quarantine_file(&entry.path) {
        tracing::error!(%error, "it could not be set aside");
    }
}

/// Tells a sender that its command cannot be done, unless the id is that of one which could.
pub(super) async fn refuse(pipeline: &Pipeline, home: &Home, id: &Id, reason: &str) {
    if pipeline.knows(id).await.is_ok_and(|known| known) {
        return tracing::warn!(%id, "cannot replace the answer to the earlier command with this id");
    }
    if let Err(error) = replies::write(&home.replies(), &Reply::error(id.as_str(), reason)) {
        tracing::error!(%error, "an answer file could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_kept_as_far_as_its_sender_can_be_told_and_the_next_one_does_not_suffer() {
        let line = |length: usize| [vec![b'x'; length], vec![b'\n']].concat();
        for (length, is_kept) in [(fifo::MAX_LINE, true), (KEPT, true), (KEPT + 1, false)] {
            let mut lines = Lines::default();
            let whole = lines.push(&line(length));
            assert_eq!(whole.len(), usize::from(is_kept), "{length}");
            assert_eq!(lines.push(b"next\n"), [b"next"]);
        }
    }

    #[test]
    fn lines_are_cut_anywhere_and_a_long_one_is_dropped_alone() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"a\"").is_empty());
        assert_eq!(
            lines.push(b":1}\n\n{}\n{"),
            [b"{\"a\":1}".to_vec(), b"{}".to_vec()]
        );
        assert_eq!(lines.push(b"}\n"), [b"{}".to_vec()]);
        assert_eq!(
            lines.push(b"{\"b\":2}"),
            [b"{\"b\":2}".to_vec()],
            "a line that its writer did not end"
        );
        assert_eq!(
            lines.push(b"{\"c\":3}{\"d\":4}\n"),
            [b"{\"c\":3}".to_vec(), b"{\"d\":4}".to_vec()],
            "nor this one, and the next came with it"
        );
        assert_eq!(
            lines.push(b"{\"c\":3} nonsense\n"),
            [b"{\"c\":3} nonsense".to_vec()]
        );
        assert!(lines.push(&[b'x'; KEPT]).is_empty());
        assert!(lines.push(&[b'x'; 3000]).is_empty());
        assert_eq!(lines.push(b"tail\n{}\n"), [b"{}".to_vec()]);
    }
}
