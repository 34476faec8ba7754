//! Tasks of plans: one graph a conversation, saved after each task.
//!
//! A task is `blocked` until everything it depends on is done, then `ready`; it is done `lead_ms` after that, when it
//! is due. What it leads to (parts to be sent, inputs) is stored in the transaction that makes it `done`, so it is
//! done once, whatever is killed. A message that calls for an answer cancels what is open, in the transaction that
//! accepts it.

use rusqlite::{Connection, OptionalExtension, Row};

use super::inbox::Accepted;
use super::outbox::{NewPart, Part};
use super::{Store, from_json, inbox, outbox, to_json};
use crate::db;
use crate::message::{Command, Envelope, SessionKey};

/// How often a task is tried again, and after how long (specification §17).
const RETRIES: i64 = 10;
const RETRY_MS: i64 = 10_000;
/// Tasks of a conversation that its next plan is told of.
const TOLD: i64 = 500;

/// A task to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its id in the graph.
    pub id: String,
    /// Its kind.
    pub kind: &'static str,
    /// The tasks of the graph that come before it.
    pub depends_on: Vec<String>,
    /// How long after that it is done, milliseconds.
    pub lead_ms: i64,
    /// What it does, as JSON that only its writer reads.
    pub task: String,
    /// The answer of the model that it stands in.
    pub answer: String,
}

/// A task that is due, now or later.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadyTask {
    /// Its row.
    pub seq: i64,
    /// The conversation.
    pub session_key: SessionKey,
    /// The message that its plan answers.
    pub envelope: Envelope,
    /// The run that made the plan.
    pub run_id: String,
    /// Its id in the graph.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// What it does.
    pub task: String,
    /// When it is done, milliseconds since 1970 UTC.
    pub due_at: i64,
}

/// A task as the next plan is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The answer of the model that it stood in.
    pub answer: String,
    /// What it did.
    pub task: String,
    /// `blocked`, `ready`, `done`, `dead` or `cancelled`.
    pub state: String,
    /// When, milliseconds since 1970 UTC.
    pub finished_at: Option<i64>,
    /// The channel's id of its message.
    pub message_id: Option<String>,
}

/// What becomes of a task that could not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is tried again, after a pause.
    Again,
    /// What depends on it is dropped, after the last retry all of its graph, and its message is a dead letter.
    GivenUp,
    /// It was cancelled meanwhile.
    Gone,
}

impl Store {
    /// Returns the tasks that wait for nothing but their time, the earliest first.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn ready_tasks(&self) -> Result<Vec<ReadyTask>, db::Error> {
        self.writer
            .write_lazily(|connection| {
                connection
                    .prepare_cached(
                        "SELECT t.seq, t.session_key, i.envelope, t.run_id, t.id, t.kind, t.task, t.due_at
                         FROM tasks t JOIN inbox i ON i.id = t.inbox_id WHERE t.state = 'ready' ORDER BY t.due_at, t.seq",
                    )?
                    .query_map([], ready)?
                    .collect()
            })
            .await
    }

    /// Records that a task is done and what it leads to; `None` when it was cancelled meanwhile.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn complete_task(
        &self,
        task: &ReadyTask,
        parts: Vec<NewPart>,
        input: Option<Envelope>,
        now: i64,
    ) -> Result<Option<(Vec<Part>, Option<Accepted>)>, db::Error> {
        let (seq, inbox_id, run_id) = (task.seq, task.envelope.id.clone(), task.run_id.clone());
        self.writer
            .write(move |connection| {
                let done = connection
                    .prepare_cached("UPDATE tasks SET state = 'done', finished_at = ?2 WHERE seq = ?1 AND state = 'ready'")?
                    .execute((seq, now))?;
                if done == 0 {
                    return Ok(None);
                }
                let count = i64::try_from(parts.len()).unwrap_or(i64::MAX);
                let mut stored = Vec::with_capacity(parts.len());
                for (number, part) in (1..).zip(&parts) {
                    let part = outbox::insert(connection, Some(&inbox_id), Some(&run_id), part, (number, count), now)?;
                    connection
                        .prepare_cached("UPDATE outbox SET task = ?2 WHERE id = ?1")?
                        .execute((part.id, seq))?;
                    stored.push(part);
                }
                let input = input.map(|envelope| inbox::insert(connection, &envelope)).transpose()?.flatten();
                unblock(connection, &run_id, now)?;
                Ok(Some((stored, input)))
            })
            .await
    }

    /// Records that a task could not be done. What may succeed later is tried again after a `wait` task, at most ten
    /// times.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn fail_task(
        &self,
        task: &ReadyTask,
        reason: &str,
        is_retryable: bool,
        now: i64,
    ) -> Result<AfterFailure, db::Error> {
        let (seq, reason) = (task.seq, reason.to_owned());
        self.writer
            .write(move |connection| fail(connection, seq, &reason, is_retryable, now))
            .await
    }

    /// Records that a task was left out; what depends on it goes on.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn skip_task(
        &self,
        task: &ReadyTask,
        reason: &str,
        now: i64,
    ) -> Result<(), db::Error> {
        let (seq, run_id, reason) = (task.seq, task.run_id.clone(), reason.to_owned());
        self.writer
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "UPDATE tasks SET state = 'dead', reason = ?2, finished_at = ?3 WHERE seq = ?1 AND state = 'ready'",
                    )?
                    .execute((seq, &reason, now))?;
                unblock(connection, &run_id, now)
            })
            .await
    }

    /// Returns what became of the newest tasks of a conversation, oldest first.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn told_tasks(&self, session: &SessionKey) -> Result<Vec<Told>, db::Error> {
        let key = session.0.clone();
        self.writer
            .write_lazily(move |connection| {
                let mut told: Vec<Told> = connection
                    .prepare_cached(
                        "SELECT answer, task,
                           CASE WHEN EXISTS (SELECT 1 FROM outbox o WHERE o.task = t.seq AND o.state = 'dead') THEN 'dead' ELSE state END,
                           finished_at, (SELECT o.message_id FROM outbox o WHERE o.task = t.seq ORDER BY o.id DESC LIMIT 1)
                         FROM tasks t WHERE session_key = ?1 AND kind != 'wait' ORDER BY seq DESC LIMIT ?2",
                    )?
                    .query_map((key, TOLD), |row| {
                        Ok(Told {
                            answer: row.get(0)?,
                            task: row.get(1)?,
                            state: row.get(2)?,
                            finished_at: row.get(3)?,
                            message_id: row.get(4)?,
                        })
                    })?
                    .collect::<rusqlite::Result<_>>()?;
                told.reverse();
                Ok(told)
            })
            .await
    }
}

/// Stores the graph of a run. What was open in the conversation is cancelled; so is the graph itself when a newer
/// message waits for its own.
pub(super) fn insert(
    connection: &Connection,
    (inbox_id, run_id): (&str, &str),
    tasks: &[NewTask],
    now: i64,
) -> rusqlite::Result<()> {
    let (key, seq): (String, i64) = connection
        .prepare_cached("SELECT session_key, seq FROM inbox WHERE id = ?1")?
        .query_row([inbox_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    cancel(connection, &key, now)?;
    let mut new = connection.prepare_cached(
        "INSERT OR IGNORE INTO tasks(session_key, inbox_id, run_id, id, kind, depends_on, lead_ms, task, answer, state, due_at, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
    )?;
    for task in tasks {
        let is_ready = task.depends_on.is_empty();
        new.execute(rusqlite::params![
            key,
            inbox_id,
            run_id,
            task.id,
            task.kind,
            to_json(&task.depends_on)?,
            task.lead_ms,
            task.task,
            task.answer,
            if is_ready { "ready" } else { "blocked" },
            is_ready.then_some(now + task.lead_ms),
            now
        ])?;
    }
    let newer: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM inbox WHERE session_key = ?1 AND seq > ?2 AND state IN ('pending', 'running')
               AND envelope ->> '$.command' IS NULL AND envelope ->> '$.reply_to' IS NOT NULL)",
        )?
        .query_row((&key, seq), |row| row.get(0))?;
    if newer {
        cancel(connection, &key, now)?;
    }
    Ok(())
}

/// Cancels what is open in a conversation, before a message is answered that `envelope` is.
pub(super) fn make_way(
    connection: &Connection,
    envelope: &Envelope,
    now: i64,
) -> rusqlite::Result<()> {
    let calls_for_an_answer =
        envelope.source.is_person() && matches!(envelope.command, None | Some(Command::New { .. }));
    if calls_for_an_answer {
        cancel(connection, &envelope.session_key.0, now)?;
    }
    Ok(())
}

/// Cancels what is open in a conversation.
pub(super) fn cancel(
    connection: &Connection,
    session_key: &str,
    now: i64,
) -> rusqlite::Result<usize> {
    connection
        .prepare_cached(
            "UPDATE tasks SET state = 'cancelled', finished_at = ?2 WHERE session_key = ?1 AND state IN ('blocked', 'ready')",
        )?
        .execute((session_key, now))
}

/// Cancels what is open in a conversation, or in all.
pub(super) fn stop(
    connection: &Connection,
    session_key: Option<&str>,
    now: i64,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE tasks SET state = 'cancelled', finished_at = ?2
             WHERE state IN ('blocked', 'ready') AND (?1 IS NULL OR session_key = ?1)",
        )?
        .execute((session_key, now))
        .map(drop)
}

/// Cancels what depends on a task, and on that.
pub(super) fn cancel_after(connection: &Connection, seq: i64, now: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "WITH RECURSIVE after(run_id, id) AS (
               SELECT run_id, id FROM tasks WHERE seq = ?1
               UNION SELECT t.run_id, t.id FROM tasks t, json_each(t.depends_on) d
                 JOIN after ON after.id = d.value AND after.run_id = t.run_id)
             UPDATE tasks SET state = 'cancelled', finished_at = ?2
             WHERE state IN ('blocked', 'ready') AND (run_id, id) IN (SELECT run_id, id FROM after)",
        )?
        .execute((seq, now))
        .map(drop)
}

/// Makes ready what waited only for tasks that are done; its time begins now.
fn unblock(connection: &Connection, run_id: &str, now: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE tasks SET state = 'ready', due_at = ?2 + lead_ms WHERE run_id = ?1 AND state = 'blocked'
               AND NOT EXISTS (SELECT 1 FROM json_each(tasks.depends_on) d
                 JOIN tasks before ON before.run_id = tasks.run_id AND before.id = d.value
                 WHERE before.state NOT IN ('done', 'dead'))",
        )?
        .execute((run_id, now))
        .map(drop)
}

fn fail(
    connection: &Connection,
    seq: i64,
    reason: &str,
    is_retryable: bool,
    now: i64,
) -> rusqlite::Result<AfterFailure> {
    let known: Option<(i64, String, String)> = connection
        .prepare_cached(
            "SELECT retries, run_id, inbox_id FROM tasks WHERE seq = ?1 AND state = 'ready'",
        )?
        .query_row([seq], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((retries, run_id, inbox_id)) = known else {
        return Ok(AfterFailure::Gone);
    };
    if is_retryable && retries < RETRIES {
        let retry = format!("retry-{seq}-{}", retries + 1);
        connection
            .prepare_cached(
                "INSERT INTO tasks(session_key, inbox_id, run_id, id, kind, depends_on, lead_ms, task, answer, state, due_at, created_at)
                 SELECT session_key, inbox_id, run_id, ?2, 'wait', '[]', ?3, json_object('id', ?2, 'kind', 'wait', 'delay', ?3 / 1000.0), answer, 'ready', ?4 + ?3, ?4
                 FROM tasks WHERE seq = ?1",
            )?
            .execute((seq, &retry, RETRY_MS, now))?;
        connection
            .prepare_cached(
                "UPDATE tasks SET state = 'blocked', due_at = NULL, lead_ms = 0, retries = retries + 1, reason = ?3,
                   depends_on = json_insert(depends_on, '$[#]', ?2) WHERE seq = ?1",
            )?
            .execute((seq, &retry, reason))?;
        return Ok(AfterFailure::Again);
    }
    connection
        .prepare_cached(
            "UPDATE tasks SET state = 'dead', reason = ?2, finished_at = ?3 WHERE seq = ?1",
        )?
        .execute((seq, reason, now))?;
    if is_retryable {
        // Nothing works: the rest would fare no better.
        connection
            .prepare_cached(
                "UPDATE tasks SET state = 'cancelled', finished_at = ?2 WHERE run_id = ?1 AND state IN ('blocked', 'ready')",
            )?
            .execute((&run_id, now))?;
    } else {
        cancel_after(connection, seq, now)?;
    }
    connection
        .prepare_cached("UPDATE inbox SET state = 'dead', reason = ?2 WHERE id = ?1")?
        .execute((&inbox_id, format!("its plan was given up: {reason}")))?;
    Ok(AfterFailure::GivenUp)
}

fn ready(row: &Row<'_>) -> rusqlite::Result<ReadyTask> {
    Ok(ReadyTask {
        seq: row.get(0)?,
        session_key: SessionKey(row.get(1)?),
        envelope: from_json(row.get_ref(2)?.as_str()?, 2)?,
        run_id: row.get(3)?,
        id: row.get(4)?,
        kind: row.get(5)?,
        task: row.get(6)?,
        due_at: row.get(7)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ChatRef, Route, Sender, Source};
    use crate::queue::{Aftermath, Arrival, Ended, Finish, Verdict};

    const KEY: &str = "agent:a:telegram:dm:1002";

    struct Bench {
        _dir: tempfile::TempDir,
        store: Store,
    }

    fn task(id: &str, kind: &'static str, depends_on: &[&str], lead_ms: i64) -> NewTask {
        NewTask {
            id: id.into(),
            kind,
            depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
            lead_ms,
            task: format!("{{\"id\":{id:?}}}"),
            answer: "[…]".into(),
        }
    }

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("dir");
            let store = Store::start(&dir.path().join("queue.db")).expect("store");
            Self { _dir: dir, store }
        }

        async fn accept(&self, id: &str, now: i64) {
            let sender = Sender {
                id: "1002".into(),
                name: "Ana".into(),
                username: None,
            };
            let mut envelope = Envelope::new(
                id.into(),
                Source::Telegram,
                sender,
                SessionKey(KEY.into()),
                "hi".into(),
                now,
            );
            envelope.reply_to = Some("57".into());
            let arrival = Arrival {
                key: id.into(),
                verdict: Verdict::Accept(vec![envelope]),
            };
            self.store
                .accept(vec![arrival], None, now)
                .await
                .expect("accepted");
        }

        async fn finish(&self, id: &str, tasks: Vec<NewTask>, now: i64) {
            let finish = Finish {
                run_id: format!("run-{id}"),
                inbox_ids: vec![id.into()],
                ended: Ended::Done,
                result: None,
                parts: Vec::new(),
                note: None,
                subagent: None,
                tainted: false,
                tasks,
            };
            self.store
                .finish(finish, now)
                .await
                .expect("finished")
                .expect("it was open");
        }

        /// The ready tasks as `id@due`.
        async fn ready(&self) -> Vec<String> {
            let ready = self.store.ready_tasks().await.expect("tasks");
            ready
                .iter()
                .map(|task| format!("{}@{}", task.id, task.due_at))
                .collect()
        }

        async fn first(&self) -> ReadyTask {
            self.store
                .ready_tasks()
                .await
                .expect("tasks")
                .into_iter()
                .next()
                .expect("a task")
        }

        async fn states(&self) -> Vec<String> {
            let told = self
                .store
                .told_tasks(&SessionKey(KEY.into()))
                .await
                .expect("told");
            told.into_iter().map(|told| told.state).collect()
        }
    }

    fn part() -> NewPart {
        let route = Route {
            channel: "telegram".into(),
            chat: ChatRef {
                chat: "1002".into(),
                topic: None,
            },
        };
        NewPart::plain(route, "hi".into())
    }

    #[tokio::test]
    async fn a_wait_begins_when_it_is_unblocked_and_each_task_is_done_once() {
        let bench = Bench::new();
        bench.accept("m1", 0).await;
        let graph = vec![
            task("a", "send", &[], 2_000),
            task("b", "wait", &["a"], 5_000),
            task("c", "send", &["a", "b"], 100),
        ];
        bench.finish("m1", graph, 1_000).await;
        assert_eq!(bench.ready().await, ["a@3000"]);
        let first = bench.first().await;
        let done = bench
            .store
            .complete_task(&first, vec![part()], None, 3_500)
            .await
            .expect("done");
        assert_eq!(done.map(|(parts, _)| parts.len()), Some(1));
        assert_eq!(bench.ready().await, ["b@8500"]);
        let again = bench
            .store
            .complete_task(&first, vec![part()], None, 3_600)
            .await
            .expect("done");
        assert_eq!(again, None, "nothing is sent twice");
        let wait = bench.first().await;
        bench
            .store
            .complete_task(&wait, Vec::new(), None, 9_000)
            .await
            .expect("done");
        assert_eq!(bench.ready().await, ["c@9100"]);
        assert_eq!(bench.states().await, ["done", "ready"]);
    }

    #[tokio::test]
    async fn a_new_message_cancels_what_is_open_and_not_what_is_done() {
        let bench = Bench::new();
        bench.accept("m1", 0).await;
        bench
            .finish(
                "m1",
                vec![task("a", "send", &[], 0), task("b", "send", &["a"], 0)],
                0,
            )
            .await;
        let first = bench.first().await;
        bench
            .store
            .complete_task(&first, Vec::new(), None, 1)
            .await
            .expect("done");
        let second = bench.first().await;
        bench.accept("m2", 2).await;
        assert_eq!(bench.states().await, ["done", "cancelled"]);
        let late = bench
            .store
            .complete_task(&second, vec![part()], None, 3)
            .await
            .expect("done");
        assert_eq!(late, None);
        // A plan that was made before the newest message came is not carried out.
        bench.accept("m3", 4).await;
        bench.finish("m2", vec![task("c", "send", &[], 0)], 5).await;
        assert_eq!(bench.ready().await, [] as [String; 0]);
        bench.finish("m3", vec![task("d", "send", &[], 0)], 6).await;
        assert_eq!(bench.ready().await, ["d@6"]);
    }

    #[tokio::test]
    async fn a_failing_task_is_tried_ten_times_again_and_then_its_graph_is_dropped() {
        let bench = Bench::new();
        bench.accept("m1", 0).await;
        bench
            .finish(
                "m1",
                vec![
                    task("a", "sticker", &[], 4_000),
                    task("b", "send", &["a"], 0),
                ],
                0,
            )
            .await;
        let mut now = 4_000;
        for retry in 1..=10 {
            let failing = bench.first().await;
            assert_eq!(failing.id, "a");
            let after = bench
                .store
                .fail_task(&failing, "no net", true, now)
                .await
                .expect("failed");
            assert_eq!(after, AfterFailure::Again, "{retry}");
            now += 10_000;
            assert_eq!(bench.ready().await, [format!("retry-1-{retry}@{now}")]);
            let pause = bench.first().await;
            bench
                .store
                .complete_task(&pause, Vec::new(), None, now)
                .await
                .expect("done");
        }
        let failing = bench.first().await;
        let after = bench
            .store
            .fail_task(&failing, "no net", true, now)
            .await
            .expect("failed");
        assert_eq!(after, AfterFailure::GivenUp);
        assert_eq!(bench.states().await, ["dead", "cancelled"]);
        let progress = bench
            .store
            .progress_of(vec!["m1".into()])
            .await
            .expect("progress");
        let progress = progress.into_iter().next().flatten().expect("an input");
        assert_eq!(
            (progress.state.as_str(), progress.reason.as_deref()),
            ("dead", Some("its plan was given up: no net"))
        );
        // The next message begins a plan of its own.
        bench.accept("m2", now).await;
        bench
            .finish("m2", vec![task("a", "send", &[], 0)], now)
            .await;
        assert_eq!(bench.ready().await.len(), 1);
    }

    #[tokio::test]
    async fn words_that_do_not_arrive_end_what_follows_and_were_never_said() {
        for (reaction, expected) in [
            (None, ["dead", "cancelled"]),
            (Some("🦄"), ["dead", "ready"]),
        ] {
            let bench = Bench::new();
            bench.accept("m1", 0).await;
            let graph = vec![task("a", "send", &[], 0), task("b", "send", &["a"], 9)];
            bench.finish("m1", graph, 0).await;
            let part = NewPart {
                reaction: reaction.map(str::to_owned),
                ..part()
            };
            let done = bench
                .store
                .complete_task(&bench.first().await, vec![part], None, 1)
                .await;
            let (parts, _) = done.expect("stored").expect("it was open");
            let id = parts.first().expect("a part").id;
            let dead = Aftermath::Dead {
                reason: "blocked by the user".into(),
            };
            bench.store.settle(id, dead, 2).await.expect("settled");
            assert_eq!(bench.states().await, expected);
        }
    }

    #[tokio::test]
    async fn what_cannot_succeed_is_given_up_at_once() {
        let bench = Bench::new();
        bench.accept("m1", 0).await;
        let graph = vec![
            task("a", "send_media", &[], 0),
            task("b", "send", &["a"], 0),
            task("c", "send", &["b"], 0),
            task("d", "send", &[], 5),
        ];
        bench.finish("m1", graph, 0).await;
        let failing = bench.first().await;
        let after = bench
            .store
            .fail_task(&failing, "no such set", false, 1)
            .await
            .expect("failed");
        assert_eq!(after, AfterFailure::GivenUp);
        assert_eq!(bench.ready().await, ["d@5"], "the others go on");
        assert_eq!(
            bench.states().await,
            ["dead", "cancelled", "cancelled", "ready"]
        );
    }
}
