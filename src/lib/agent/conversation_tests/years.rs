//! A conversation of thousands of turns with tools in a small window: no request is ever one that a vendor
//! refuses, none is larger than the window, and it ends.
//!
//! `AGENT_TURNS=5000 cargo test --lib years` continues for as long as you like.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::agent::{
    Agent, Asked, Context, Ended, Limits, Order, Owner, Reach, Registry, Rights, Room, Tool,
    ToolOutput, Verdict,
};
use crate::config;
use crate::config::{Compaction, Environment, Home, Models};
use crate::cost::Ledger;
use crate::llm::Client;
use crate::media::Pictures;
use crate::memory::{Memory, Viewer};
use crate::message::{Envelope, Message, Role, Sender, SessionKey, Source, Trust};
use crate::provider::offline::Offline;
use crate::provider::{
    BoxFuture, OnText, Provider, Request, Response, SystemBlock, Tier, ToolSpec, vendor_rules,
};
use crate::session::{Entry, Kind, Session, Spoken, Store};
use crate::{prompt, text};

/// Tokens of the model's window, of an answer, and what a request may have.
const WINDOW: (u64, u32, u64) = (6_000, 800, 5_200);

/// The offline provider, behind the wall that every vendor's request must pass.
#[derive(Default)]
struct Walled {
    requests: AtomicU64,
    largest: AtomicU64,
    broken: Mutex<Vec<String>>,
}

/// Returns the tokens of a request as a vendor would about count them: words, and four for the frame of each message.
fn tokens(request: &Request) -> u64 {
    let system: u64 = request
        .system
        .iter()
        .map(|block| text::estimate_tokens(&block.text))
        .sum();
    let of = |message: &Message| {
        4 + Entry {
            seq: 1,
            trust: None,
            provenance: Vec::new(),
            message: message.clone(),
        }
        .tokens()
    };
    system + request.messages.iter().map(of).sum::<u64>()
}

impl Provider for Walled {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, crate::provider::Error>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let tokens = tokens(request);
        self.largest.fetch_max(tokens, Ordering::Relaxed);
        if let Err(why) = vendor_rules::check(request) {
            self.broken.lock().push(why);
        }
        Offline.complete(request, on_text)
    }
}

/// An owner who says no to everything.
struct Nobody;

impl Owner for Nobody {
    fn ask<'a>(&'a self, questions: &'a [Asked]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move { vec![Verdict::No("no".to_owned()); questions.len()] })
    }
}

/// A file of any size.
struct Read;

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        ToolSpec {
            name: "read".into(),
            description: "Read a file.".into(),
            schema: schema.into(),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn run<'a>(&'a self, input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let size: usize = input["path"]
            .as_str()
            .and_then(|path| path.parse().ok())
            .unwrap_or(0);
        Box::pin(async move { ToolOutput::ok("word ".repeat(size / 5)) })
    }
}

struct House {
    _dir: tempfile::TempDir,
    agent: Agent,
    store: Store,
    wall: Arc<Walled>,
}

fn house() -> House {
    let dir = tempfile::tempdir().expect("dir");
    let home = Home::at(dir.path());
    for path in [home.sessions(), home.archive(), home.providers_dir()] {
        std::fs::create_dir_all(path).expect("dirs");
    }
    let (window, answer, _) = WINDOW;
    let provider = format!(
        "type = \"offline\"\n[models.primary]\nmodel = \"m\"\nmax_tokens = {answer}\ncontext_window = {window}\n"
    );
    put(&home.providers_dir().join("walled.toml"), &provider);
    put(home.config_file(), "[providers]\nload = [\"walled\"]\n");
    let models: Models = config::load(&home, &Environment::of(&[]), &[])
        .expect("config")
        .models;
    let wall = Arc::new(Walled::default());
    let providers: HashMap<String, Arc<dyn Provider>> =
        HashMap::from([("walled".to_owned(), Arc::clone(&wall) as Arc<dyn Provider>)]);
    let ledger = Ledger::start(&home.cost_db(), chrono_tz::UTC).expect("ledger");
    let client = Client::new(
        ledger,
        providers,
        models,
        config::Cost::default(),
        Duration::from_secs(60),
    );
    let limits = Limits {
        max_turns: 8,
        max_turns_for: std::collections::BTreeMap::new(),
        run_timeout: Duration::from_secs(600),
    };
    let agent = Agent::new(
        Arc::new(client),
        Registry::new(vec![Arc::new(Read)], None, BTreeMap::new()),
        limits,
        Compaction::default(),
        broadcast::channel(16).0,
        Pictures::new(home.downloads()),
        Arc::new(Memory::new(&home)),
    );
    let store = Store::open(
        home.sessions(),
        home.archive(),
        home.sessions_index(),
        chrono_tz::UTC,
    )
    .expect("store");
    House {
        _dir: dir,
        agent,
        store,
        wall,
    }
}

fn put(path: &Path, words: &str) {
    crate::sys::atomic::write(
        path,
        words.as_bytes(),
        crate::sys::atomic::Durability::Rename,
    )
    .expect("write");
}

/// What is said in turn `number`: short and long words, orders to a tool with answers of every size.
fn said(number: u64) -> String {
    match number % 11 {
        0 => format!("!read {}", number * 37 % 29_000),
        3 => format!("!read {}", number * 13 % 2_000),
        5 => "My dentist is called Ana. ".repeat(usize::try_from(number * 7 % 150).unwrap_or(1)),
        7 => "好".repeat(usize::try_from(number * 5 % 900).unwrap_or(1)),
        9 if number.is_multiple_of(90) => "one enormous message ".repeat(2_000),
        _ => format!("This is turn {number}."),
    }
}

async fn turn(house: &House, session: &mut Session, number: u64) -> (Ended, Room) {
    let sender = Sender {
        id: "ada".into(),
        name: "ada".into(),
        username: None,
    };
    let key = SessionKey("cli:ada".into());
    let envelope = Envelope::new(
        number.to_string(),
        Source::Cli,
        sender,
        key,
        said(number),
        0,
    );
    let envelope = Envelope {
        from_owner: true,
        trust: Trust::Owner,
        ..envelope
    };
    let content = prompt::message(&envelope, chrono_tz::UTC, "0a1b2c3d", false);
    let content = content.into_iter().map(|(block, _)| block).collect();
    let (inbox_id, trust) = (Some(envelope.id.clone()), Some(Trust::Owner));
    let spoken = Kind::Message(Spoken {
        inbox_id,
        trust,
        ..Spoken::new(Role::User, content, "run")
    });
    session.append(vec![spoken], false).await.expect("append");
    let viewer = Viewer::of(&envelope, &|_| true);
    let (cancel, interrupted) = (CancellationToken::new(), AtomicBool::new(false));
    let order = || Order {
        run_id: "run",
        inbox_id: &envelope.id,
        person: "ada",
        person_name: "ada",
        from_owner: true,
        viewer: &viewer,
        route: None,
        message_id: None,
        source: Source::Cli,
        paying_run: "run",
        budget_usd: None,
        share_usd: None,
        bounds: None,
        spawner: None,
        model: "primary",
        system: vec![SystemBlock {
            tier: Tier::Stable,
            text: "You are an agent. ".repeat(20),
        }],
        own_words: String::new(),
        cancel: &cancel,
        interrupted: &interrupted,
        owner: &Nobody,
        reader: &|_| {},
        form: None,
    };
    let ended = house.agent.run(session, order()).await;
    (ended, house.agent.make_room(session, order(), false).await)
}

#[tokio::test]
async fn a_conversation_of_years_never_makes_a_request_that_is_refused() {
    let turns: u64 = std::env::var("AGENT_TURNS")
        .ok()
        .and_then(|turns| turns.parse().ok())
        .unwrap_or(300);
    let house = house();
    let mut session = house
        .store
        .take(&SessionKey("cli:ada".into()), "ada")
        .await
        .expect("session");
    let mut compactions = 0;
    for number in 1..=turns {
        let (ended, room) = turn(&house, &mut session, number).await;
        assert!(matches!(ended, Ended::Reply(_)), "turn {number}: {ended:?}");
        assert!(
            !matches!(room, Room::Failed(_) | Room::Stopped),
            "turn {number}: {room:?}"
        );
        compactions += u64::from(matches!(room, Room::Made { .. }));
        // A crash in between: what is on disk is what continues.
        if number.is_multiple_of(97) {
            house.store.put(session);
            house.store.flush().expect("flush");
            session = house
                .store
                .take(&SessionKey("cli:ada".into()), "ada")
                .await
                .expect("session");
        }
    }
    let broken = house.wall.broken.lock().clone();
    assert!(
        broken.is_empty(),
        "{} requests would be refused, the first: {}",
        broken.len(),
        broken.first().expect("one")
    );
    let (requests, largest) = (
        house.wall.requests.load(Ordering::Relaxed),
        house.wall.largest.load(Ordering::Relaxed),
    );
    println!(
        "{turns} turns, {requests} requests, {compactions} compactions after turns, the largest request {largest} tokens"
    );
    assert!(largest <= WINDOW.0, "{largest} tokens were sent");
    assert!(
        requests < turns * 4,
        "{requests} requests for {turns} turns"
    );
    assert!(compactions > turns / 100);
}
