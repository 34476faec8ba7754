//! The set-up of the trust tests: an agent with tools that only report what they would do, a model that is a function,
//! and an owner who counts the questions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::agent::{
    Agent, Asked, Context, Ended, Form, Limits, Order, Owner, Reach, Registry, Rights, Single,
    Tool, ToolOutput, Verdict,
};
use crate::config;
use crate::config::{Compaction, Environment, Home, Policy};
use crate::cost::Ledger;
use crate::llm::Client;
use crate::media::Pictures;
use crate::memory::{Memory, Viewer};
use crate::message::{
    Block, Envelope, Message, Role, Sender, SessionKey, Source, StopReason, ToolCall, Trust, Usage,
};
use crate::prompt;
use crate::provider::{
    BoxFuture, OnText, Provider, Request, Response, SystemBlock, Tier, ToolSpec,
};
use crate::session::{Kind, Session, Spoken, Store};
use crate::trust::Provenance;

/// A model: what it answers to a request.
pub(super) type Mind = Arc<dyn Fn(&Request) -> Message + Send + Sync>;

struct Model(Mutex<Mind>);

impl Provider for Model {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, crate::provider::Error>> {
        let mind = self.0.lock().clone();
        let message = mind(request);
        on_text(&message.plain_text());
        let calls = message.tool_calls().next().is_some();
        let stop = if calls {
            StopReason::ToolUse
        } else {
            StopReason::EndTurn
        };
        let usage = Usage {
            input_tokens: 10,
            output_tokens: 10,
            ..Usage::default()
        };
        Box::pin(async move {
            Ok(Response {
                message,
                stop,
                usage,
            })
        })
    }
}

/// The owner: counts, and says the same to everything.
pub(super) struct Counting {
    pub(super) says_yes: bool,
    /// Never answers.
    pub(super) hangs: bool,
    pub(super) asked: Mutex<Vec<String>>,
    /// Of each question whether it offers a rule.
    pub(super) rules: Mutex<Vec<bool>>,
}

impl Owner for Counting {
    fn ask<'a>(&'a self, questions: &'a [Asked]) -> BoxFuture<'a, Vec<Verdict>> {
        let line = |asked: &Asked| format!("{}: {}", asked.question.text, asked.why);
        self.asked.lock().extend(questions.iter().map(line));
        let has_rule = |asked: &Asked| asked.question.rule.is_some();
        self.rules.lock().extend(questions.iter().map(has_rule));
        let verdict = if self.says_yes {
            Verdict::Yes
        } else {
            Verdict::No("no".to_owned())
        };
        Box::pin(async move {
            if self.hangs {
                std::future::pending::<()>().await;
            }
            vec![verdict; questions.len()]
        })
    }
}

/// What a tool of the tests answers.
pub(super) type Answer = Arc<dyn Fn(&Value, &Context) -> ToolOutput + Send + Sync>;

/// Returns what the tools of the tests take, which is the same for all.
fn known_fields() -> Value {
    let names = [
        "amount", "at", "city", "command", "content", "day", "days", "end", "from", "guest",
        "guests", "id", "name", "path", "place", "query", "start", "street", "subject", "text",
        "title", "to", "unread", "url", "with",
    ];
    names
        .into_iter()
        .map(|name| (name.to_owned(), json!({})))
        .collect()
}

/// A tool that notes its calls.
pub(super) struct Fake {
    pub(super) name: &'static str,
    pub(super) reach: fn(&Value) -> Reach,
    pub(super) brings_pages: bool,
    pub(super) answer: Answer,
    pub(super) ran: Arc<Mutex<Vec<String>>>,
}

impl Tool for Fake {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.into(),
            description: "Does it.".into(),
            schema: json!({"type": "object", "properties": known_fields()}).into(),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    /// What is refused is so of text of others only, as a proposed skill.
    fn reach(&self, input: &Value, context: &Context) -> Reach {
        match (self.reach)(input) {
            Reach::Refused(_) if !context.untrusted => Reach::Free,
            reach => reach,
        }
    }

    fn brings_pages(&self) -> bool {
        self.brings_pages
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        self.ran.lock().push(format!("{} {input}", self.name));
        let output = (self.answer)(input, context);
        Box::pin(async move { output })
    }
}

pub(super) struct Place {
    _dir: tempfile::TempDir,
    agent: Agent,
    store: Store,
    model: Arc<Model>,
    pub(super) owner: Counting,
    pub(super) ran: Arc<Mutex<Vec<String>>>,
}

impl Place {
    pub(super) fn new(
        tools: impl FnOnce(&Arc<Mutex<Vec<String>>>) -> Vec<Arc<dyn Tool>>,
        policies: BTreeMap<String, Policy>,
        says_yes: bool,
    ) -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        for path in [home.sessions(), home.archive(), home.providers_dir()] {
            std::fs::create_dir_all(path).expect("dirs");
        }
        let provider = "type = \"offline\"\n[models.primary]\nmodel = \"m\"\nmax_tokens = 800\ncontext_window = 200000\n";
        put(&home.providers_dir().join("mind.toml"), provider);
        put(home.config_file(), "[providers]\nload = [\"mind\"]\n");
        let models = config::load(&home, &Environment::of(&[]), &[])
            .expect("config")
            .models;
        let silent: Mind = Arc::new(|_| Message::text(Role::Assistant, "ok"));
        let model = Arc::new(Model(Mutex::new(silent)));
        let providers: HashMap<String, Arc<dyn Provider>> =
            HashMap::from([("mind".to_owned(), Arc::clone(&model) as Arc<dyn Provider>)]);
        let ledger = Ledger::start(&home.cost_db(), chrono_tz::UTC).expect("ledger");
        let cost = config::Cost::default();
        let client = Client::new(ledger, providers, models, cost, Duration::from_secs(60));
        let limits = Limits {
            max_turns: 12,
            max_turns_for: BTreeMap::new(),
            run_timeout: Duration::from_secs(600),
        };
        let ran = Arc::new(Mutex::new(Vec::new()));
        let agent = Agent::new(
            Arc::new(client),
            Registry::new(tools(&ran), None, policies),
            limits,
            Compaction::default(),
            broadcast::channel(16).0,
            Pictures::new(home.downloads()),
            Arc::new(Memory::new(&home)),
        );
        let (sessions, archive, index) = (home.sessions(), home.archive(), home.sessions_index());
        let store = Store::open(sessions, archive, index, chrono_tz::UTC).expect("store");
        let owner = Counting {
            says_yes,
            hangs: false,
            asked: Mutex::default(),
            rules: Mutex::default(),
        };
        Self {
            _dir: dir,
            agent,
            store,
            model,
            owner,
            ran,
        }
    }

    pub(super) fn think(&self, mind: Mind) {
        *self.model.0.lock() = mind;
    }

    pub(super) async fn session(&self, name: &str) -> Session {
        let key = SessionKey(format!("cli:{name}"));
        self.store.take(&key, name).await.expect("session")
    }

    /// Writes a message and what is `beside` it down, as the pipeline does.
    pub(super) async fn hear(
        &self,
        session: &mut Session,
        envelope: &Envelope,
        beside: Vec<(Block, Provenance)>,
    ) {
        let mut pairs = prompt::message(envelope, chrono_tz::UTC, "0a1b2c3d", false);
        pairs.splice(1..1, beside);
        let (content, provenance): (Vec<Block>, Vec<Provenance>) = pairs.into_iter().unzip();
        let spoken = Kind::Message(Spoken {
            inbox_id: Some(envelope.id.clone()),
            trust: Some(envelope.trust),
            provenance,
            ..Spoken::new(Role::User, content, "run")
        });
        session.append(vec![spoken], false).await.expect("append");
    }

    /// Decides about a call outside of the loop.
    pub(super) async fn permit(&self, of: &Single, name: &str) -> Result<(), String> {
        let call = ToolCall {
            id: "call".to_owned(),
            name: name.to_owned(),
            input: json!({}),
        };
        self.agent.permit(of, &call, None, &self.owner).await
    }

    /// Runs the turn of a message to its end; that of a sub-agent within its bounds.
    pub(super) async fn run(&self, session: &mut Session, envelope: &Envelope) -> Ended {
        self.run_in_form(session, envelope, None).await
    }

    /// As [`Self::run`]; with a form as a persona.
    pub(super) async fn run_in_form(
        &self,
        session: &mut Session,
        envelope: &Envelope,
        form: Option<Form<'_>>,
    ) -> Ended {
        let viewer = Viewer::of(envelope, &|_| true);
        let (cancel, interrupted) = (CancellationToken::new(), AtomicBool::new(false));
        let order = Order {
            run_id: "run",
            inbox_id: &envelope.id,
            person: &envelope.sender.id,
            person_name: &envelope.sender.name,
            from_owner: envelope.from_owner,
            viewer: &viewer,
            route: None,
            message_id: None,
            source: Source::Cli,
            paying_run: &envelope.id,
            budget_usd: None,
            share_usd: None,
            bounds: envelope.task.as_ref().map(|task| &task.bounds),
            spawner: None,
            model: "primary",
            system: vec![SystemBlock {
                tier: Tier::Stable,
                text: "You are an agent.".to_owned(),
            }],
            own_words: String::new(),
            cancel: &cancel,
            interrupted: &interrupted,
            owner: &self.owner,
            reader: &|_| {},
            form,
        };
        self.agent.run(session, order).await
    }

    /// Runs a turn in which the owner types `words`.
    pub(super) async fn owner_says(&self, session: &mut Session, id: &str, words: &str) {
        let envelope = owner(id, words);
        self.hear(session, &envelope, Vec::new()).await;
        let ended = self.run(session, &envelope).await;
        assert!(matches!(ended, Ended::Reply(_)), "{ended:?}");
    }
}

/// Returns a message that the owner typed.
pub(super) fn owner(id: &str, words: &str) -> Envelope {
    let sender = Sender {
        id: "ada".into(),
        name: "ada".into(),
        username: None,
    };
    let key = SessionKey("cli:ada".into());
    let envelope = Envelope::new(id.into(), Source::Cli, sender, key, words.into(), 0);
    Envelope {
        from_owner: true,
        trust: Trust::Owner,
        ..envelope
    }
}

fn put(path: &Path, words: &str) {
    let durability = crate::sys::atomic::Durability::Rename;
    crate::sys::atomic::write(path, words.as_bytes(), durability).expect("write");
}
