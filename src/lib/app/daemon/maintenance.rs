//! Periodic tasks of the daemon, outside the message path: they update the memory, write missing reply files again and
//! remove old data.

use std::sync::Arc;
use std::time::Duration;

use crate::app::cli::Failure;
use crate::app::commitment_reminders;
use crate::config::Home;
use crate::control::{attachments, replies};
use crate::cost::Ledger;
use crate::pipeline::Pipeline;
use crate::sys;
use crate::sys::atomic;
use crate::sys::clock_check::{self, Reading};
use crate::{clock, control, media, queue, tools, undo};

/// Answer files are kept this long (specification §3).
const KEEP_REPLIES: Duration = Duration::from_secs(24 * 3600);
/// An answer file that could not be written is written again after this long.
const REWRITE: Duration = Duration::from_secs(2);
/// Snapshots are written this long after a turn; the transcript has everything before.
const FLUSH: Duration = Duration::from_secs(1);
/// Between two looks at what is to be remembered.
const MEMORY_PAUSE: Duration = Duration::from_secs(1);

/// How long nothing comes before memory is given back.
const IDLE_LOOK: Duration = Duration::from_secs(5);
/// Every so many looks it is given back again while nothing comes: what is done from time to time maps parts of the program file,
/// 64 KB or more at a time, and half of it is mapped again within some minutes.
const LOOKS_BETWEEN: u64 = 4;
/// How often it is looked for what other processes noted of the limits.
const LEDGER_LOOK: Duration = Duration::from_secs(60);
/// How often it is looked whether somebody holds the ledger.
const HELD_LOOK: Duration = Duration::from_secs(5);

/// Tells the owner how far the limits are used up: at once what this process paid, within a minute what others did.
pub(super) async fn tell_alerts(pipeline: Arc<Pipeline>, ledger: Ledger) {
    let mut looks = tokio::time::interval(LEDGER_LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut trouble = None;
    loop {
        tokio::select! {
            () = pipeline.closing().cancelled() => return,
            () = ledger.news.notified() => {}
            _ = looks.tick() => {}
        }
        let told = pipeline
            .tell_alerts(&ledger)
            .await
            .err()
            .map(|error| error.to_string());
        if let Some(error) = told
            .as_ref()
            .filter(|error| trouble.as_ref() != Some(*error))
        {
            tracing::warn!(
                "cannot notify the owner of the remaining limits; retrying later: {error}"
            );
        }
        trouble = told;
    }
}

/// Names, for status and doctor, who keeps every answer waiting: a program that holds the ledger.
pub(super) async fn watch_ledger(pipeline: Arc<Pipeline>, ledger: Ledger) {
    const PART: &str = "the ledger";
    let mut was_held = false;
    let mut looks = tokio::time::interval(HELD_LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let closing = pipeline.closing().clone();
    while closing.run_until_cancelled(looks.tick()).await.is_some() {
        let is_held = ledger.is_held();
        if is_held != was_held {
            let words = "cost.db cannot be written, so no model is asked: another program locks it (`fuser` names it), or the disk takes long";
            if is_held {
                tracing::warn!("{words}");
            }
            pipeline.set_trouble(PART, is_held.then_some(words));
            was_held = is_held;
        }
    }
}

/// Gives memory back once the start or the last turns are over, and from time to time until there is a next one.
pub(super) async fn give_back_when_idle(pipeline: Arc<Pipeline>) {
    let mut quiet_looks = 0_u64;
    let mut newest = pipeline.newest_input();
    let mut looks = tokio::time::interval(IDLE_LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    looks.tick().await;
    while pipeline
        .closing()
        .run_until_cancelled(looks.tick())
        .await
        .is_some()
    {
        let is_busy = !pipeline.running().is_empty() || pipeline.newest_input() != newest;
        newest = pipeline.newest_input();
        if is_busy {
            quiet_looks = 0;
            continue;
        }
        quiet_looks += 1;
        if quiet_looks % LOOKS_BETWEEN != 1 {
            continue;
        }
        if let Err(error) = sys::blocking(sys::release_memory::give_back).await {
            tracing::debug!(%error, "unused memory is kept");
        }
    }
}

/// Brings the search index up to date at the start, and whenever there is news the facts too; cron
/// does the rest.
pub(super) async fn remember(pipeline: Arc<Pipeline>) {
    let memory = pipeline.memory().clone();
    let mut work = tokio::task::spawn_blocking(move || memory.refresh());
    // An end does not wait for it: what is missing comes the next time.
    while let Some(ended) = pipeline.closing().run_until_cancelled(work).await {
        let is_done = ended.unwrap_or_else(|error| {
            tracing::error!(%error, "the memory could not be updated");
            true
        });
        let pause = tokio::time::sleep(MEMORY_PAUSE);
        let pause = pipeline.closing().run_until_cancelled(pause);
        if pause.await.is_none() {
            return;
        }
        let memory = pipeline.memory().clone();
        if !is_done {
            // Another process is at it and may have missed what is new.
            work = tokio::task::spawn_blocking(move || memory.refresh());
            continue;
        }
        let news = pipeline.memory().news();
        if pipeline.closing().run_until_cancelled(news).await.is_none() {
            return;
        }
        let closing = pipeline.closing().clone();
        let consolidate = pipeline.live().agent.consolidation(None, closing);
        let live = pipeline.live();
        work = tokio::task::spawn_blocking(move || {
            consolidate();
            if let Err(failure) = commitment_reminders::order(memory.home(), &live.config) {
                tracing::warn!(
                    "reminders of commitments are not up to date: {}",
                    failure.message
                );
            }
            memory.refresh()
        });
    }
}

/// What is done from time to time: answers that are missing are written again, snapshots are brought
/// up to date, what is old is forgotten.
pub(super) async fn housekeeping(pipeline: Arc<Pipeline>, home: Home) {
    let own = home.clone();
    // In parallel with the rest: there may be thousands of them.
    tokio::task::spawn_blocking(move || {
        if let Err(failure) = restore_files(&own) {
            tracing::warn!(
                "old answer files could not be restored: {}",
                failure.message
            );
        }
    });
    let mut hours = tokio::time::interval(Duration::from_secs(3600));
    loop {
        tokio::select! {
            () = pipeline.closing().cancelled() => return,
            () = pipeline.sessions().changed() => {
                pipeline.closing().run_until_cancelled(tokio::time::sleep(FLUSH)).await;
                let pipeline = pipeline.clone();
                let flush = move || pipeline.sessions().flush_at_leisure();
                let flushed = tokio::task::spawn_blocking(flush).await;
                if let Ok(Err(error)) = flushed {
                    tracing::warn!(%error, "a snapshot could not be written; the transcript has everything");
                }
            }
            () = pipeline.unwritten().notified() => {
                pipeline.closing().run_until_cancelled(tokio::time::sleep(REWRITE)).await;
                let home = home.clone();
                let restored = tokio::task::spawn_blocking(move || restore_files(&home)).await;
                if let Ok(Err(failure)) = restored {
                    tracing::warn!("answer files could not be restored, retrying: {}", failure.message);
                    pipeline.unwritten().notify_one();
                }
            }
            _ = hours.tick() => {
                let now = clock::now_ms();
                // With a wrong clock nothing is deleted: it could not be restored.
                if matches!(clock_check::read(now), Reading::Ahead { .. }) {
                    continue;
                }
                if let Err(error) = pipeline.prune(now).await {
                    tracing::warn!("cleanup of old database rows failed: {error}");
                }
                pipeline.tidy_jobs(now).await;
                let (own, undo) = (home.clone(), pipeline.undo().clone());
                let keep = Duration::from_secs(pipeline.live().config.media.inbox_days.max(1) * 24 * 3600);
                let pruned = tokio::task::spawn_blocking(move || {
                    let old_runs = undo.prune(undo::KEEP, undo::MAX_BYTES);
                    for dir in [media::inbox::DIR, tools::SERVER_FILES] {
                        if let Err(error) = media::inbox::prune(own.workspace(), dir, keep) {
                            tracing::warn!("cleanup of workspace/{dir} failed: {error}");
                        }
                    }
                    replies::prune(&own.replies(), KEEP_REPLIES).and_then(|_| prune_files(&own)).and(old_runs)
                });
                if let Ok(Err(error)) = pruned.await {
                    tracing::warn!("cleanup of old replies, spool files and undo records failed: {error}");
                }
            }
        }
    }
}

/// Files of messages are kept as long as the messages; those of a command that never came, a day.
fn prune_files(home: &Home) -> Result<(), sys::Error> {
    // What came before a long rest may still be waiting for its turn, and a dead letter may be retried.
    let Ok(in_use) = queue::downloads_in_use(&home.queue_db()) else {
        return Ok(());
    };
    let is_done = |name: &str| !in_use.contains(name);
    attachments::prune(&home.downloads(), queue::KEEP, is_done)?;
    let spool = home.spool_new();
    let orphan = |name: &str| {
        name.strip_suffix(".d")
            .is_some_and(|id| !spool.join(format!("{id}.json")).exists())
    };
    attachments::prune(&spool, KEEP_REPLIES, orphan)?;
    attachments::prune(&home.spool_tmp(), KEEP_REPLIES, |_| true)
}

/// Answer files are not synced; those a power cut took come back from the queue. What a crash left
/// half written is removed.
fn restore_files(home: &Home) -> Result<(), Failure> {
    let since = clock::now_ms() - i64::try_from(KEEP_REPLIES.as_millis()).unwrap_or(0);
    for reply in queue::results(&home.queue_db(), since)? {
        let Some(id) = control::Id::parse(&reply.id) else {
            continue;
        };
        if !replies::read(&home.replies(), &id)
            .ok()
            .flatten()
            .is_some_and(|there| there.is_final())
        {
            replies::write(&home.replies(), &reply)?;
        }
    }
    for dir in [
        home.state(),
        &home.replies(),
        &home.sessions(),
        &home.spool_tmp(),
    ] {
        atomic::remove_litter(dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{
        Attachment, ChatRef, Envelope, MediaKind, OutFile, Route, Sender, SessionKey, Source,
    };
    use crate::queue::{Arrival, Ended, Finish, NewPart, Store, Verdict};

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A message with a file in the directory `dir` below `downloads`.
    fn message(id: &str, dir: &str) -> Arrival {
        let envelope = Envelope::new(
            id.to_owned(),
            Source::Cli,
            Sender::new("ada", "Ada"),
            SessionKey("k".into()),
            String::new(),
            0,
        );
        let file = Attachment {
            path: format!("{dir}/0-a"),
            filename: "a".into(),
            content_type: None,
        };
        let envelope = Envelope {
            attachments: vec![file],
            ..envelope
        };
        Arrival::new(id.to_owned(), Verdict::Accept(vec![envelope]))
    }

    fn end(id: &str, ended: Ended, parts: Vec<NewPart>) -> Finish {
        Finish {
            run_id: format!("run of {id}"),
            inbox_ids: vec![id.to_owned()],
            ended,
            result: None,
            parts,
            sends_at_once: false,
            note: None,
            subagent: None,
            tainted: false,
            tasks: Vec::new(),
        }
    }

    #[tokio::test]
    async fn files_are_kept_as_long_as_something_open_or_dead_has_them() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::at(dir.path());
        home.create().expect("made");
        let queue = Store::start(&home.queue_db()).expect("a queue");
        let arrivals = vec![
            message("ch:sms:1", "ch-1"),
            message("dead", "dead"),
            message("spoken", "spoken"),
            message("answered", "answered"),
        ];
        queue.accept(arrivals, None, 1).await.expect("accepted");
        let voice = OutFile {
            kind: MediaKind::Voice,
            path: "voice-1/a.ogg".into(),
            filename: "a.ogg".into(),
            handle: None,
        };
        let route = Route::new("telegram", ChatRef::new("1001"));
        let part = NewPart {
            files: vec![voice],
            ..NewPart::plain(route, String::new())
        };
        for ended in [
            end("dead", Ended::Dead("no".into()), Vec::new()),
            end("spoken", Ended::Done, vec![part]),
            end("answered", Ended::Done, Vec::new()),
        ] {
            queue.finish(ended, 2).await.expect("finished");
        }
        for name in ["ch-1", "dead", "spoken", "voice-1", "answered"] {
            let path = home.downloads().join(name);
            std::fs::create_dir_all(&path).expect("made");
            let dir = std::fs::File::open(&path).expect("opened");
            dir.set_modified(clock::now() - 15 * DAY).expect("a time");
        }
        prune_files(&home).expect("pruned");
        let left = std::fs::read_dir(home.downloads()).expect("read").flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["ch-1", "dead", "voice-1"]);
    }
}
