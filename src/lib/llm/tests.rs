use std::sync::atomic::{AtomicU32, Ordering};

use super::router::{PICTURE_TOKENS, input_bytes};
use super::*;
use crate::config::{Environment, Home};
use crate::message::{Block, Role, StopReason, Usage};
use crate::provider::{BoxFuture, OnText, Request};
use crate::sys::atomic as files;

pub(crate) const USAGE: Usage = Usage {
    input_tokens: 100,
    output_tokens: 10,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    estimated: false,
};

/// Fails as often as it is told, then answers.
struct Fickle {
    failures: AtomicU32,
    error: fn() -> provider::Error,
}

impl Provider for Fickle {
    fn complete<'a>(
        &'a self,
        _request: &'a Request,
        _on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, provider::Error>> {
        let fails = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            })
            .is_ok();
        let answer = Response {
            message: Message::text(Role::Assistant, "hi"),
            stop: StopReason::EndTurn,
            usage: USAGE,
        };
        Box::pin(async move {
            if fails {
                Err((self.error)())
            } else {
                Ok(answer)
            }
        })
    }
}

pub(crate) fn busy() -> provider::Error {
    let retry_after = Some(Duration::from_millis(1));
    provider::Error::Busy {
        host: "h".into(),
        status: 529,
        message: "busy".into(),
        retry_after,
    }
}

fn broke_off() -> provider::Error {
    provider::Error::Interrupted {
        host: "h".into(),
        reason: "cut".into(),
        again: true,
    }
}

fn wrong_key() -> provider::Error {
    provider::Error::Auth {
        host: "h".into(),
        status: 401,
        message: "no".into(),
    }
}

/// Returns the model `name` of the provider `a`.
pub(crate) fn model(name: &str) -> Model {
    let house = house(Cost::default(), "", 0, busy);
    let primary = house.client.models.get("primary", "test").expect("primary");
    Model {
        name: name.to_owned(),
        ..(*primary).clone()
    }
}

pub(crate) struct House {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) client: Client,
}

/// A client with the models `primary` (falls back to `second`, priced) and `second`.
pub(crate) fn house(
    caps: Cost,
    price: &str,
    failures: u32,
    error: fn() -> provider::Error,
) -> House {
    let more = |more: &str| format!("{price}\n{more}");
    build(
        &provider_file("primary", &more("fallbacks = [\"second\"]")),
        &provider_file("second", price),
        caps,
        failures,
        error,
    )
}

/// The same without limits and failures, with more for the model `primary` and another file of `b`.
pub(crate) fn house_of(primary: &str, b: &str) -> House {
    build(
        &provider_file("primary", primary),
        b,
        Cost::default(),
        0,
        busy,
    )
}

/// A provider file of one model.
pub(crate) fn provider_file(model: &str, more: &str) -> String {
    format!(
        "type = \"anthropic\"\nbase_url = \"http://127.0.0.1:1\"\n[models.{model}]\nmodel = \"m\"\nmax_tokens = 2048\n{more}\n"
    )
}

fn build(a: &str, b: &str, caps: Cost, failures: u32, error: fn() -> provider::Error) -> House {
    let dir = tempfile::tempdir().expect("dir");
    let write = |name: &str, text: &str| {
        files::write(
            &dir.path().join(name),
            text.as_bytes(),
            files::Durability::Rename,
        )
        .expect("write")
    };
    std::fs::create_dir(dir.path().join("providers.d")).expect("dir");
    write("agent.toml", "[providers]\nload = [\"a\", \"b\"]\n");
    write("providers.d/a.toml", a);
    write("providers.d/b.toml", b);
    let home = Home::at(dir.path());
    let loaded = crate::config::load(&home, &Environment::of(&[]), &[]).expect("config");
    let ledger = Ledger::start(&dir.path().join("cost.db"), chrono_tz::UTC).expect("ledger");
    let mut providers: HashMap<String, Arc<dyn Provider>> = HashMap::new();
    providers.insert(
        "a".into(),
        Arc::new(Fickle {
            failures: failures.into(),
            error,
        }),
    );
    providers.insert(
        "b".into(),
        Arc::new(Fickle {
            failures: 0.into(),
            error,
        }),
    );
    let client = Client::new(
        ledger,
        providers,
        loaded.models,
        caps,
        Duration::from_secs(5),
    );
    House { dir, client }
}

const PRICE: &str = "cost_per_mtok = [3, 15, 0.3, 3.75]";

impl House {
    async fn ask(&self) -> Result<Paid, Error> {
        self.ask_within("cli", None).await
    }

    async fn ask_within(
        &self,
        source: &'static str,
        budget_usd: Option<f64>,
    ) -> Result<Paid, Error> {
        let prompt = Prompt {
            system: Vec::new(),
            tools: [].into(),
            may_call: true,
            messages: [Message::text(Role::User, "hello")].into(),
            schema: None,
        };
        let purpose = Purpose {
            run_id: source,
            session_id: "s",
            source,
            budget_usd,
            share_usd: None,
            of_others: false,
        };
        self.client
            .complete(purpose, "primary", &prompt, &|_| {}, &|_| {})
            .await
    }

    fn rows(&self) -> Vec<(String, Option<i64>, Option<i64>)> {
        let connection = db::open_read(&self.dir.path().join("cost.db"))
            .expect("open")
            .expect("ledger");
        let mut query = connection
            .prepare("SELECT model, ok, cost_nano_usd FROM costs ORDER BY call_id")
            .expect("query");
        let rows = query
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }
}

// 100 × 3 + 10 × 15 micro dollars.
const COST: i64 = 450_000;

#[tokio::test]
async fn each_attempt_is_a_row_and_a_refused_one_costs_nothing() {
    let house = house(Cost::default(), PRICE, 1, busy);
    let paid = house.ask().await.expect("the fallback");
    assert_eq!(
        (paid.model.as_str(), paid.cost_nano_usd),
        ("second", Some(COST))
    );
    let row = |model: &str, ok, cost| (model.to_owned(), Some(ok), Some(cost));
    assert_eq!(house.rows(), [row("primary", 0, 0), row("second", 1, COST)]);
}

#[tokio::test]
async fn a_run_with_a_small_budget_is_answered_shorter_as_long_as_that_is_an_answer() {
    // An answer of 2048 tokens may cost .031; its request costs next to nothing.
    let house = house(Cost::default(), PRICE, 0, broke_off);
    for source in ["job", "heartbeat"] {
        house.ask_within(source, Some(0.02)).await.expect("shorter");
    }
    let refused = house.ask_within("job", Some(0.01)).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    // What somebody asked for is not made shorter, nor what another limit refuses.
    let refused = house.ask_within("cli", Some(0.02)).await;
    assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");

    // It is reserved with what is left, and stays at that when it breaks off.
    let house = self::house(Cost::default(), PRICE, 9, broke_off);
    let _ = house.ask_within("job", Some(0.02)).await;
    let reserved = house.rows()[0].2.expect("reserved");
    assert!((19_000_000..=20_000_000).contains(&reserved), "{reserved}");
}

#[tokio::test]
async fn tokens_that_cannot_be_are_estimated_and_cost_what_was_reserved() {
    for (tokens, is_possible) in [(300_000, true), (1 << 40, false), (u64::MAX, false)] {
        let mut house = house(Cost::default(), PRICE, 0, busy);
        let boaster = Arc::new(Boaster(tokens));
        house.client.providers.insert("a".into(), boaster);
        let paid = house.ask().await.expect("an answer");
        let cost = paid.cost_nano_usd.expect("priced");
        let usage = paid.response.usage;
        assert_eq!(usage.estimated, !is_possible, "{tokens}");
        assert_eq!(usage.output_tokens == tokens, is_possible);
        // One dollar: more than all that was sent and the longest answer cost.
        assert_eq!(cost < 1_000_000_000, !is_possible, "{cost}");
    }
}

/// Says that an answer had so many tokens.
struct Boaster(u64);

impl Provider for Boaster {
    fn complete<'a>(
        &'a self,
        _request: &'a Request,
        _on_text: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, provider::Error>> {
        let usage = Usage {
            output_tokens: self.0,
            ..USAGE
        };
        let answer = Response {
            message: Message::text(Role::Assistant, "hi"),
            stop: StopReason::EndTurn,
            usage,
        };
        Box::pin(async move { Ok(answer) })
    }
}

#[tokio::test]
async fn a_broken_off_call_stays_at_its_reservation() {
    let house = house(Cost::default(), PRICE, 1, broke_off);
    house.ask().await.expect("second time");
    let rows = house.rows();
    assert!(
        rows[0].1 == Some(0) && rows[0].2.expect("reserved") > COST,
        "{rows:?}"
    );
    assert_eq!(rows[1].2, Some(COST));
}

#[tokio::test]
async fn the_fallback_answers_when_the_model_cannot() {
    let house = house(Cost::default(), PRICE, 9, wrong_key);
    assert_eq!(house.ask().await.expect("fallback").model, "second");
    assert_eq!(house.rows().len(), 2, "a wrong key is not tried again");
}

#[tokio::test]
async fn parallel_payers_never_exceed_a_cap_together_and_wait_for_what_is_only_reserved() {
    // Each may cost .031 and costs .00045: one at a time is below the cap, and all 24 fit.
    let caps = Cost {
        day_usd: 0.05,
        ..Cost::default()
    };
    let house = house(caps.clone(), PRICE, 0, busy);
    let answers = futures_util::future::join_all((0..24).map(|_| house.ask())).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let spent: i64 = house.rows().iter().filter_map(|row| row.2).sum();
    assert_eq!(spent, 24 * COST);

    // Calls that broke off stay at their reservations: nobody waits for those.
    let house = self::house(caps, PRICE, 9, broke_off);
    let refused = house
        .ask()
        .await
        .expect_err("spent")
        .away()
        .expect("until tomorrow");
    assert_eq!(refused.cause, Cause::Capped);
    assert!(
        refused.detail.contains("[cost] day_usd = 0.05"),
        "{refused:?}"
    );
    let spent: i64 = house.rows().iter().filter_map(|row| row.2).sum();
    assert!(spent <= 50_000_000, "{spent}");
}

#[tokio::test]
async fn a_model_without_a_price_is_unpriced_never_free_and_refused_under_a_cap() {
    let free = house(Cost::default(), "", 0, busy);
    assert_eq!(free.ask().await.expect("no cap").cost_nano_usd, None);
    assert_eq!(free.rows(), [("primary".to_owned(), Some(1), None)]);
    let capped = house(
        Cost {
            month_usd: 1.0,
            ..Cost::default()
        },
        "",
        0,
        busy,
    );
    let error = capped.ask().await.expect_err("refused").to_string();
    assert!(error.contains("cost_per_mtok = [0, 0, 0, 0]"), "{error}");
    assert_eq!(capped.rows(), []);
}

/// A conversation of one picture.
fn picture() -> Vec<Message> {
    let image = Block::Image {
        file: "a/0-x".into(),
        content_type: "image/png".into(),
        data: Some("A".repeat(1_000_000).into()),
    };
    vec![Message {
        role: Role::User,
        content: vec![image],
    }]
}

#[test]
fn a_picture_is_reserved_for_as_its_tokens_and_not_as_its_bytes() {
    let request = Request {
        model: "m".into(),
        max_tokens: 1,
        system: Vec::new(),
        tools: [].into(),
        may_call: true,
        messages: picture().into(),
        cache: false,
        cache_ttl: Default::default(),
        thinking: false,
        begin_within: None,
        schema: None,
    };
    assert!(
        (PICTURE_TOKENS..PICTURE_TOKENS + 500).contains(&input_bytes(&request)),
        "{}",
        input_bytes(&request)
    );
}

/// Refuses every request with a picture, and answers with what it was shown.
struct Blind;

impl Provider for Blind {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        _: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, provider::Error>> {
        let refused = provider::Error::Rejected {
            host: "h".into(),
            status: 400,
            message: "Could not process image".into(),
        };
        let shown = match request
            .messages
            .first()
            .and_then(|message| message.content.first())
        {
            Some(Block::Context { text }) => Ok(text.clone()),
            _ => Err(refused),
        };
        let response = |text| Response {
            message: Message::text(Role::Assistant, text),
            stop: StopReason::EndTurn,
            usage: USAGE,
        };
        Box::pin(async move { shown.map(response) })
    }
}

#[tokio::test]
async fn a_model_that_does_not_see_is_told_so_and_a_refused_picture_ends_nothing() {
    for (vision, expected) in [
        (
            false,
            "⟦a picture; the model primary does not see pictures (vision = true in providers.d)⟧",
        ),
        (
            true,
            "⟦a picture that the server of the model primary refused⟧",
        ),
    ] {
        let mut house = house(Cost::default(), &format!("vision = {vision}"), 0, busy);
        house.client.providers.insert("a".into(), Arc::new(Blind));
        assert_eq!(house.client.sees_pictures("primary"), vision);
        let prompt = Prompt {
            system: Vec::new(),
            tools: [].into(),
            may_call: true,
            messages: picture().into(),
            schema: None,
        };
        let purpose = Purpose {
            run_id: "r",
            session_id: "s",
            source: "cli",
            budget_usd: None,
            share_usd: None,
            of_others: false,
        };
        let paid = house
            .client
            .complete(purpose, "primary", &prompt, &|_| {}, &|_| {})
            .await
            .expect("an answer");
        assert_eq!(paid.response.message.plain_text(), expected);
    }
}
