//! The pipeline built as in the daemon, with a channel that panics where a test requests it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono_tz::Tz;
use parking_lot::Mutex;
use tokio::sync::{RwLock, mpsc, oneshot};

use super::{build, startup};
use crate::channel::{Batch, Channel, Health, Incoming, Outgoing, Rendered, SendError};
use crate::config::{self, Environment, Home};
use crate::control;
use crate::cost::Ledger;
use crate::message::{ChatRef, Route, Sender};
use crate::pipeline::{self, Pipeline, Services, Stores};
use crate::provider::BoxFuture;
use crate::{clock, people, prompt, queue, session};

const NOTICE: &str = "may not have reached you";

/// A chat that keeps what was sent. Words with `send!` panic when they are sent, with `render!` when they are
/// rendered, and all while it is broken.
#[derive(Default)]
struct Chat {
    sent: Mutex<Vec<String>>,
    is_broken: AtomicBool,
    /// Who has it for writing holds up what is about to be sent, and what is being sent.
    pause: RwLock<()>,
    line: RwLock<()>,
}

impl Chat {
    fn sent(&self) -> Vec<String> {
        self.sent.lock().clone()
    }
}

impl Channel for Chat {
    fn name(&self) -> &'static str {
        "telegram"
    }

    fn render(&self, markdown: &str) -> Vec<Rendered> {
        let is_broken = self.is_broken.load(Ordering::Relaxed) || markdown.contains("render!");
        assert!(!is_broken, "a bug in render");
        let plain = markdown.to_owned();
        vec![Rendered {
            markup: None,
            plain,
        }]
    }

    fn plain(&self, text: &str) -> Vec<Rendered> {
        self.render(text)
    }

    fn send<'a>(&'a self, message: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>> {
        Box::pin(async move {
            assert!(!message.plain.contains("send!"), "a bug in send");
            drop(self.line.read().await);
            let mut sent = self.sent.lock();
            sent.push(message.plain.to_owned());
            Ok(sent.len().to_string())
        })
    }

    fn ready<'a>(&'a self, _chat: &'a ChatRef) -> BoxFuture<'a, ()> {
        Box::pin(async { drop(self.pause.read().await) })
    }

    fn typing<'a>(&'a self, _chat: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn health(&self) -> Health {
        Health {
            state: "ok".to_owned(),
            mode: "",
            last_ok_at: None,
            last_update_at: None,
        }
    }
}

struct Fixture {
    dir: tempfile::TempDir,
    home: Home,
    chat: Arc<Chat>,
    pipeline: Arc<Pipeline>,
}

impl Fixture {
    async fn new() -> Self {
        Self::with("", tempfile::tempdir().expect("dir")).await
    }

    /// Starts the path in the home that `dir` is.
    async fn with(settings: &str, dir: tempfile::TempDir) -> Self {
        let home = Home::at(dir.path());
        home.create().expect("directories");
        let env = Environment::of(&[]);
        let text = format!("[providers]\nload = [\"offline\"]\n{settings}");
        std::fs::create_dir_all(home.config_dir()).expect("dir");
        crate::sys::atomic::write(
            home.config_file(),
            text.as_bytes(),
            crate::sys::atomic::Durability::Rename,
        )
        .expect("settings");
        crate::workspace::create_protected(home.workspace()).expect("workspace");
        let mut loaded = config::load(&home, &env, &[]).expect("settings");
        loaded.config.telegram.owner = vec![1001];
        let zone = Tz::UTC;
        let queue = queue::Store::start(&home.queue_db()).expect("queue");
        let ledger = Ledger::start(&home.cost_db(), zone).expect("ledger");
        let (kept, _) =
            startup::keep(&home, &env, ledger, mpsc::unbounded_channel().0).expect("kept");
        let live = build::live(&home, &env, loaded, kept.clone()).expect("live");
        let (archive, index) = (home.archive(), home.sessions_index());
        let stores = Stores {
            queue,
            sessions: session::Store::open(home.sessions(), archive, index, zone)
                .expect("sessions"),
            undo: kept.undo,
            audit: kept.audit,
            memory: kept.memory,
        };
        let chat = Arc::new(Chat::default());
        let services = Services {
            prompt: Arc::new(prompt::Sources::new(&home, kept.skills)),
            channels: HashMap::from([("telegram".to_owned(), chat.clone() as Arc<dyn Channel>)]),
            changed: Arc::default(),
            live,
        };
        let pipeline = Pipeline::new(&home, stores, services);
        pipeline.start().await.expect("start");
        tokio::spawn(pipeline::drive(pipeline.clone(), Duration::ZERO));
        Self {
            dir,
            home,
            chat,
            pipeline,
        }
    }

    /// Ends it without letting anything finish, and starts it again.
    async fn restart(self) -> Self {
        self.pipeline.closing().cancel();
        self.pipeline.close(Duration::ZERO).await;
        drop(self.pipeline);
        Self::with("", self.dir).await
    }

    async fn raw(&self, words: &str) {
        let line = serde_json::json!({"v": 1, "cmd": "raw", "to": "1001", "text": words});
        let order = control::decode(line.to_string().as_bytes()).expect("a command");
        self.pipeline.take_orders(&[order]).await.expect("taken in");
    }

    async fn says(&self, key: &str, id: i64, words: &str) {
        let item = Incoming {
            key: key.to_owned(),
            sender: Some(Sender {
                id: id.to_string(),
                name: "Ada".to_owned(),
                username: None,
            }),
            chat: ChatRef {
                chat: id.to_string(),
                topic: None,
            },
            addressed: true,
            message_id: "7".to_owned(),
            text: words.to_owned(),
            ..Incoming::default()
        };
        let (done, _done) = oneshot::channel();
        let batch = Batch {
            offset: None,
            items: vec![item],
            done,
        };
        self.pipeline.take_batch(batch, "telegram").await;
    }

    /// Waits until the chat has these words in some message.
    async fn hears(&self, words: &str) {
        let heard = async {
            while !self.chat.sent().iter().any(|sent| sent.contains(words)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(20), heard).await;
        assert!(heard.is_ok(), "{words:?} is not in {:?}", self.chat.sent());
    }

    fn dead_letters(&self) -> Vec<String> {
        let listing = queue::listing(&self.home.queue_db()).expect("listing");
        listing.dead.into_iter().map(|dead| dead.reason).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_panics_is_a_dead_letter_and_its_chat_continues() {
    let fixture = Fixture::new().await;
    fixture.raw("send! this").await;
    fixture.hears(NOTICE).await;
    fixture.raw("and this").await;
    fixture.hears("and this").await;
    assert_eq!(fixture.dead_letters(), ["internal error while sending"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_panics_is_a_dead_letter_and_its_lane_continues_also_after_a_restart() {
    let fixture = Fixture::new().await;
    fixture.raw("render! this").await;
    fixture.raw("and this").await;
    fixture.hears("and this").await;
    fixture.hears(NOTICE).await;
    assert_eq!(fixture.dead_letters(), ["internal error while sending"]);
    let fixture = fixture.restart().await;
    fixture.raw("after it").await;
    fixture.hears("after it").await;
    assert_eq!(fixture.chat.sent(), ["after it"], "nothing is tried again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_answer_cannot_be_rendered_leaves_its_session_and_its_slot_to_the_next() {
    let settings = "[agent]\nmax_concurrent_runs = 1\n";
    let fixture = Fixture::with(settings, tempfile::tempdir().expect("dir")).await;
    fixture.chat.is_broken.store(true, Ordering::Relaxed);
    // Neither the answer can be rendered nor what is said about it.
    fixture.says("tg:1:1", 1001, "hello").await;
    fixture.hears(NOTICE).await;
    assert_eq!(fixture.dead_letters(), ["internal error"]);
    fixture.chat.is_broken.store(false, Ordering::Relaxed);
    fixture.says("tg:1:2", 1001, "help").await;
    fixture.hears("!").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permanent_error_of_the_queue_is_given_up_and_the_lane_continues() {
    let fixture = Fixture::new().await;
    let rows = rusqlite::Connection::open(fixture.home.queue_db()).expect("queue");
    rows.execute_batch("ALTER TABLE outbox RENAME TO hidden")
        .expect("nothing can be stored to be sent");
    fixture.raw("this").await;
    fixture.hears(NOTICE).await;
    rows.execute_batch("ALTER TABLE hidden RENAME TO outbox")
        .expect("it can again");
    fixture.raw("and this").await;
    fixture.hears("and this").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_noted_as_being_sent_through_a_channel_that_is_off_is_pending_again() {
    let fixture = Fixture::new().await;
    let rows = rusqlite::Connection::open(fixture.home.queue_db()).expect("queue");
    rows.execute_batch(
        "INSERT INTO outbox(id, channel, chat, part, parts, plain, created_at, state)
         VALUES (7, 'gone', '1001', 1, 1, 'hi', 5, 'sending')",
    )
    .expect("a part");
    let route = Route {
        channel: "gone".to_owned(),
        chat: ChatRef::default(),
    };
    fixture.pipeline.deliver(vec![queue::Part {
        id: 7,
        content: queue::NewPart::plain(route, "hi".to_owned()),
        unknowns: 0,
        sending_at: None,
        created_at: 5,
        task: None,
        is_claimed: true,
    }]);
    fixture.pipeline.sends_end(Duration::from_secs(20)).await;
    let outbox = queue::listing(&fixture.home.queue_db()).expect("listing");
    let states: Vec<String> = outbox.outbox.into_iter().map(|row| row.state).collect();
    assert_eq!(states, ["pending"]);
}

/// Returns a part of an answer to the owner, and notes it in the queue.
fn part(rows: &rusqlite::Connection, id: i64, is_claimed: bool) -> queue::Part {
    let (words, state) = match is_claimed {
        true => (format!("claimed {id}"), "sending"),
        false => (format!("stored {id}"), "pending"),
    };
    rows.execute(
        "INSERT INTO outbox(id, channel, chat, part, parts, plain, created_at, state)
         VALUES (?1, 'telegram', '1001', 1, 1, ?2, 5, ?3)",
        (id, &words, state),
    )
    .expect("a part");
    let route = Route {
        channel: "telegram".to_owned(),
        chat: ChatRef {
            chat: "1001".to_owned(),
            topic: None,
        },
    };
    queue::Part {
        id,
        content: queue::NewPart::plain(route, words),
        unknowns: 0,
        sending_at: None,
        created_at: 5,
        task: None,
        is_claimed,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_noted_as_being_sent_is_pending_while_it_waits_for_its_chat_or_its_channel() {
    let fixture = Fixture::new().await;
    let rows = rusqlite::Connection::open(fixture.home.queue_db()).expect("queue");
    let reaches = async |id: i64, wanted: &str| {
        let sql = "SELECT state FROM outbox WHERE id = ?1";
        let state = || rows.query_row(sql, [id], |row| row.get::<_, String>(0));
        let reached = async {
            while state().expect("its row") != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(20), reached).await;
        assert!(reached.is_ok(), "{id} is {:?}, not {wanted}", state());
    };
    // Another message of the chat slips in between.
    let line = fixture.chat.line.write().await;
    fixture.pipeline.deliver(vec![part(&rows, 1, false)]);
    reaches(1, "sending").await;
    fixture.pipeline.deliver(vec![part(&rows, 2, true)]);
    reaches(2, "pending").await;
    drop(line);
    reaches(2, "sent").await;
    fixture.pipeline.sends_end(Duration::from_secs(20)).await;
    // The channel asks for a pause.
    let pause = fixture.chat.pause.write().await;
    fixture.pipeline.deliver(vec![part(&rows, 3, true)]);
    reaches(3, "pending").await;
    drop(pause);
    reaches(3, "sent").await;
    let sent = fixture.chat.sent();
    assert_eq!(sent, ["stored 1", "claimed 2", "claimed 3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_code_is_redeemed_only_when_its_message_is_on_the_disk() {
    let fixture = Fixture::new().await;
    let people = people::Store::new(&fixture.home.people());
    let code = people
        .change(|people| people.new_owner_code(clock::now_ms()))
        .expect("code");
    let rows = rusqlite::Connection::open(fixture.home.queue_db()).expect("queue");
    rows.execute_batch("ALTER TABLE seen RENAME TO hidden")
        .expect("the queue takes nothing in");
    fixture.says("tg:1:1", 77, &code).await;
    let known = people.read().expect("people");
    assert!(known.owners.is_empty() && known.owner_code.is_some());
    rows.execute_batch("ALTER TABLE hidden RENAME TO seen")
        .expect("it does again");
    // The channel brings what was not taken in again.
    fixture.says("tg:1:1", 77, &code).await;
    fixture.hears("you are my owner now").await;
    let known = people.read().expect("people");
    assert_eq!(
        known
            .owners
            .iter()
            .map(|one| one.id.to_string())
            .collect::<Vec<_>>(),
        ["77"]
    );
    assert_eq!(known.owner_code, None);
}
