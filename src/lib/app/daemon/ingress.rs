//! Commands in: the FIFO as doorbell and short path, the spool as record.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecursiveMode, Watcher};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::config::Home;
use crate::control::replies::{self, Reply};
use crate::control::spool::{self, Entry};
use crate::control::{self, Command, Order};
use crate::pipeline::Pipeline;
use crate::sys::{atomic, fifo};
use crate::{secret, text};

/// The spool is looked at this often even when nobody rang and no watcher saw anything.
const RESCAN: Duration = Duration::from_secs(5);
/// Spooled commands that are taken in with one commit.
const TOGETHER: usize = 64;

/// What came through a small door.
enum Ring {
    Line(Vec<u8>),
    Look,
}

/// Takes commands in until the daemon closes. `reload` is told to read the configuration again.
pub(super) async fn serve(pipeline: Arc<Pipeline>, home: Home, doorbell: File, reload: mpsc::Sender<()>) {
    let (rings, mut heard) = mpsc::channel(256);
    let watcher = watch(&home.spool_new(), rings.clone());
    if let Err(error) = &watcher {
        tracing::warn!(%error, "the spool cannot be watched; it is looked at every 5 s");
    }
    let listener = tokio::spawn(listen(doorbell, rings));
    let mut rescan = tokio::time::interval(RESCAN);
    rescan.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = pipeline.closing.cancelled() => break,
            _ = rescan.tick() => empty_spool(&pipeline, &home).await,
            Some(ring) = heard.recv() => {
                let mut look = false;
                let mut next = Some(ring);
                while let Some(ring) = next {
                    match ring {
                        Ring::Look => look = true,
                        Ring::Line(line) => look |= line_in(&pipeline, &home, &line, &reload).await,
                    }
                    next = heard.try_recv().ok();
                }
                if look {
                    empty_spool(&pipeline, &home).await;
                }
            }
        }
    }
    listener.abort();
}

fn watch(dir: &Path, rings: mpsc::Sender<Ring>) -> notify::Result<notify::RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let news = event.is_ok_and(|event| event.kind.is_create() || event.kind.is_modify());
        if news {
            // A full channel will be worked off and then looks at the spool anyway.
            let _ = rings.try_send(Ring::Look);
        }
    })?;
    watcher.watch(dir, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Reads whole lines off the FIFO for ever.
async fn listen(doorbell: File, rings: mpsc::Sender<Ring>) {
    let mut doorbell = match pipe::Receiver::from_file(doorbell) {
        Ok(doorbell) => doorbell,
        Err(error) => return tracing::error!(%error, "the control FIFO cannot be listened to; the spool still works"),
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

/// Cuts a byte stream into lines; one that is too long is dropped whole and logged.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
    dropping: bool,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut whole = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (piece, ends) = piece.strip_suffix(b"\n").map_or((piece, false), |piece| (piece, true));
            if !self.dropping {
                self.rest.extend_from_slice(piece);
            }
            if self.rest.len() > fifo::MAX_LINE {
                tracing::warn!(bytes = self.rest.len(), "a line in the control FIFO is too long (4096 bytes) and was dropped");
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
            let mut values = serde_json::Deserializer::from_slice(&self.rest).into_iter::<serde::de::IgnoredAny>();
            values.all(|value| value.is_ok())
        };
        if ended {
            whole.extend(objects(std::mem::take(&mut self.rest)));
        }
        whole
    }
}

/// Cuts a line that is several JSON values into them: somebody forgot to end theirs. Any other line
/// stays as it is.
fn objects(line: Vec<u8>) -> Vec<Vec<u8>> {
    let mut values = serde_json::Deserializer::from_slice(&line).into_iter::<serde::de::IgnoredAny>();
    let mut pieces = Vec::new();
    let mut start = 0;
    while let Some(Ok(_)) = values.next() {
        let end = values.byte_offset();
        pieces.push(line.get(start..end).unwrap_or_default().to_vec());
        start = end;
    }
    if start == line.len() && pieces.len() > 1 { pieces } else { vec![line] }
}

/// Handles a line of the FIFO; true when the spool is to be looked at.
async fn line_in(pipeline: &Arc<Pipeline>, home: &Home, line: &[u8], reload: &mpsc::Sender<()>) -> bool {
    let order = match control::decode(line) {
        Ok(order) => order,
        Err(bad) => {
            let shown = text::shorten(&secret::redact(&String::from_utf8_lossy(line)), 200);
            tracing::warn!(reason = %bad, line = text::visible(&shown), "a line in the control FIFO is no command");
            if let Some(id) = &bad.id {
                refuse(home, id.as_str(), &bad.reason);
            }
            return false;
        }
    };
    match order.command {
        Command::Spool { .. } => true,
        Command::Reload => {
            // A reload that is under way will see the same file.
            let _ = reload.try_send(());
            false
        }
        _ => {
            // The FIFO is no record: what cannot be stored now is lost, so its sender is told.
            let id = order.id.to_string();
            if let Err(error) = pipeline.take_orders(&[order]).await {
                tracing::error!(%error, "a command could not be taken in");
                refuse(home, &id, &error.to_string());
            }
            false
        }
    }
}

/// Takes in everything that waits in the spool, in id order.
async fn empty_spool(pipeline: &Arc<Pipeline>, home: &Home) {
    let entries = match spool::scan(&home.spool_new()) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::error!(%error, "the spool cannot be read");
            return pipeline.note_trouble(&error.to_string());
        }
    };
    for entries in entries.chunks(TOGETHER) {
        let (entries, orders): (Vec<&Entry>, Vec<Order>) =
            entries.iter().filter_map(|entry| Some((entry, open_entry(home, entry)?))).unzip();
        if let Err(error) = pipeline.take_orders(&orders).await {
            tracing::error!(%error, count = orders.len(), "spooled commands wait");
            return pipeline.note_trouble(&format!("spooled commands wait: {error}"));
        }
        for entry in entries {
            if let Err(error) = std::fs::remove_file(&entry.path) {
                tracing::warn!(%error, id = %entry.id, "a spool file stays; its id is known, it will not be done twice");
            }
        }
    }
}

/// Reads one spooled command; what makes no sense is put aside.
fn open_entry(home: &Home, entry: &Entry) -> Option<Order> {
    let reason = match spool::read(entry) {
        Ok(None) => return None,
        Ok(Some(bytes)) => match control::decode(&bytes) {
            Ok(order) if order.id == entry.id => return Some(order),
            Ok(_) => "the id in the file is not its name".to_owned(),
            Err(bad) => bad.reason,
        },
        Err(error) if error.source.kind() == std::io::ErrorKind::InvalidData => error.to_string(),
        Err(error) => {
            tracing::warn!(%error, "a spooled command is looked at again later");
            return None;
        }
    };
    put_aside(home, entry, &reason);
    None
}

/// A spool file that makes no sense is kept under another name, and its sender is told.
fn put_aside(home: &Home, entry: &Entry, reason: &str) {
    tracing::error!(id = %entry.id, reason, "a spool file is no command");
    refuse(home, entry.id.as_str(), reason);
    if let Err(error) = atomic::set_aside(&entry.path) {
        tracing::error!(%error, "it could not be set aside");
    }
}

fn refuse(home: &Home, id: &str, reason: &str) {
    if let Err(error) = replies::write(&home.replies(), &Reply::error(id, reason)) {
        tracing::error!(%error, "an answer file could not be written");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_anywhere_and_a_long_one_is_dropped_alone() {
        let mut lines = Lines::default();
        assert!(lines.push(b"{\"a\"").is_empty());
        assert_eq!(lines.push(b":1}\n\n{}\n{"), [b"{\"a\":1}".to_vec(), b"{}".to_vec()]);
        assert_eq!(lines.push(b"}\n"), [b"{}".to_vec()]);
        assert_eq!(lines.push(b"{\"b\":2}"), [b"{\"b\":2}".to_vec()], "a line that its writer did not end");
        assert_eq!(
            lines.push(b"{\"c\":3}{\"d\":4}\n"),
            [b"{\"c\":3}".to_vec(), b"{\"d\":4}".to_vec()],
            "nor this one, and the next came with it"
        );
        assert_eq!(lines.push(b"{\"c\":3} nonsense\n"), [b"{\"c\":3} nonsense".to_vec()]);
        assert!(lines.push(&[b'x'; 3000]).is_empty());
        assert!(lines.push(&[b'x'; 3000]).is_empty());
        assert_eq!(lines.push(b"tail\n{}\n"), [b"{}".to_vec()]);
    }
}
