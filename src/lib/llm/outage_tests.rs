//! Calls when servers are down, hang or refuse a request.

use parking_lot::Mutex;

use super::tests::{USAGE, busy, house, house_of, provider_file};
use super::*;
use crate::message::{Block, Role, StopReason, ToolCall, ToolResult};
use crate::provider::{BoxFuture, OnText, Request};

type Script = Box<dyn Fn(usize, &Request) -> Answer + Send + Sync>;

/// What a server does.
enum Answer {
    Says(&'static str),
    Fails(provider::Error),
    /// As a real one: for as long as it is borne.
    Hangs,
}

/// A server that keeps what it is sent.
struct Scripted {
    script: Script,
    requests: Mutex<Vec<Request>>,
}

impl Scripted {
    fn new(script: impl Fn(usize, &Request) -> Answer + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            script: Box::new(script),
            requests: Mutex::default(),
        })
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().clone()
    }

    fn count(&self) -> usize {
        self.requests().len()
    }
}

impl Provider for Scripted {
    fn complete<'a>(
        &'a self,
        request: &'a Request,
        _: OnText<'a>,
    ) -> BoxFuture<'a, Result<Response, provider::Error>> {
        let mut requests = self.requests.lock();
        let answer = (self.script)(requests.len(), request);
        requests.push(request.clone());
        let patience = request.begin_within.unwrap_or(Duration::from_secs(300));
        Box::pin(async move {
            match answer {
                Answer::Says(text) => Ok(Response {
                    message: Message::text(Role::Assistant, text),
                    stop: StopReason::EndTurn,
                    usage: USAGE,
                }),
                Answer::Fails(error) => Err(error),
                Answer::Hangs => {
                    tokio::time::sleep(patience).await;
                    Err(provider::Error::Interrupted {
                        host: "h".into(),
                        reason: "nothing came".into(),
                        again: true,
                    })
                }
            }
        })
    }
}

fn says(text: &'static str) -> Arc<Scripted> {
    Scripted::new(move |_, _| Answer::Says(text))
}

fn fails(error: fn() -> provider::Error) -> Arc<Scripted> {
    Scripted::new(move |_, _| Answer::Fails(error()))
}

fn unreachable() -> provider::Error {
    provider::Error::Unreachable {
        host: "h".into(),
        reason: "refused".into(),
    }
}

fn rejected() -> provider::Error {
    provider::Error::Rejected {
        host: "h".into(),
        status: 400,
        message: "invalid".into(),
    }
}

/// Two providers, `a` with the model `primary` that falls back to `second` of `b`.
fn client(a: &Arc<Scripted>, b: &Arc<Scripted>) -> (tempfile::TempDir, Client) {
    let mut house = house(Cost::default(), "", 0, busy);
    house.client.providers.insert("a".into(), a.clone());
    house.client.providers.insert("b".into(), b.clone());
    house.client.call_timeout = Duration::from_secs(600);
    (house.dir, house.client)
}

async fn ask_for(
    client: &Client,
    source: &'static str,
    model: &str,
    messages: Vec<Message>,
) -> Result<Paid, Error> {
    let prompt = Prompt {
        system: Vec::new(),
        tools: [].into(),
        may_call: true,
        messages: messages.into(),
        schema: None,
    };
    client
        .complete(
            Purpose {
                run_id: "r",
                session_id: "s",
                source,
                budget_usd: None,
                share_usd: None,
                of_others: false,
            },
            model,
            &prompt,
            &|_| {},
            &|_| {},
        )
        .await
}

async fn ask(client: &Client, model: &str) -> Result<Paid, Error> {
    ask_for(
        client,
        "cli",
        model,
        vec![Message::text(Role::User, "hello")],
    )
    .await
}

/// Does the work while tokio's clock moves by what is slept only; returns how long that was. (How long a
/// provider rests is told by the true clock.)
async fn with_still_clock<T>(work: impl Future<Output = T>) -> (T, Duration) {
    tokio::time::pause();
    let begin = tokio::time::Instant::now();
    let value = work.await;
    let slept = begin.elapsed();
    tokio::time::resume();
    (value, slept)
}

#[tokio::test]
async fn a_server_that_hangs_holds_nobody_for_longer_than_30_s_when_there_is_another() {
    let (a, b) = (Scripted::new(|_, _| Answer::Hangs), says("from b"));
    let (_dir, client) = client(&a, &b);
    let (paid, slept) = with_still_clock(ask(&client, "primary")).await;
    assert_eq!(paid.expect("the fallback").model, "second");
    assert!(slept < Duration::from_secs(30), "{slept:?}");
    assert_eq!((a.count(), b.count()), (1, 1));
    let given = a.requests()[0].begin_within.expect("a limit");
    assert!(
        given > Duration::from_secs(27) && given <= Duration::from_secs(28),
        "{given:?}"
    );
    assert_eq!(
        b.requests()[0].begin_within,
        None,
        "the last one may take its time"
    );
}

#[tokio::test]
async fn a_fallback_takes_over_at_once() {
    let (a, b) = (fails(busy_for_long), says("from b"));
    let (_dir, client) = client(&a, &b);
    let (paid, slept) = with_still_clock(ask(&client, "primary")).await;
    assert_eq!(paid.expect("the fallback").model, "second");
    assert_eq!((a.count(), slept.as_secs()), (1, 0));
}

fn overflow() -> provider::Error {
    provider::Error::ContextOverflow {
        message: "prompt is too long".into(),
    }
}

#[tokio::test]
async fn a_fallback_with_a_smaller_window_is_passed_over() {
    let (a, b) = (fails(busy_for_long), fails(overflow));
    let (_dir, client) = client(&a, &b);
    for asked in [1, 2] {
        let error = ask(&client, "primary").await.expect_err("nobody answers");
        let away = error.away().expect("the first may answer later");
        assert_eq!((away.cause, b.count()), (Cause::Limited, asked));
        assert_eq!(a.count(), 1, "it rests");
    }

    let (a, b) = (fails(wrong_key), fails(overflow));
    let (_dir, client) = self::client(&a, &b);
    let error = ask(&client, "primary").await.expect_err("nobody answers");
    assert!(
        matches!(error, Error::Failed(provider::Error::Auth { .. })),
        "{error}"
    );

    // The conversation's own model says that it does not fit: room is made for it, and nobody else is asked.
    let (a, b) = (fails(overflow), says("from b"));
    let (_dir, client) = self::client(&a, &b);
    let error = ask(&client, "primary").await.expect_err("too long");
    assert!(
        matches!(
            error,
            Error::Failed(provider::Error::ContextOverflow { .. })
        ),
        "{error}"
    );
    assert_eq!((a.count(), b.count()), (1, 0));
}

#[tokio::test]
async fn a_fallback_whose_window_is_too_small_is_not_asked() {
    let (a, b) = (fails(busy_for_long), says("from b"));
    let mut house = house_of(
        "fallbacks = [\"second\"]",
        &provider_file("second", "context_window = 4000"),
    );
    house.client.providers.insert("a".into(), a.clone());
    house.client.providers.insert("b".into(), b.clone());
    let say = |words: usize| vec![Message::text(Role::User, "word ".repeat(words))];
    let client = &house.client;
    let error = ask_for(client, "cli", "primary", say(5_000)).await;
    let away = error.expect_err("nobody").away().expect("it comes back");
    assert_eq!((away.cause, b.count()), (Cause::Limited, 0));
    // What may fit is tried: nobody knows how its tokens are counted.
    let paid = ask_for(client, "cli", "primary", say(3_900)).await;
    assert_eq!(paid.expect("the fallback").model, "second");
}

#[tokio::test]
async fn who_is_down_is_passed_over_until_it_answers() {
    let up = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_up = up.clone();
    let a = Scripted::new(move |_, _| {
        if is_up.load(std::sync::atomic::Ordering::SeqCst) {
            Answer::Says("from a")
        } else {
            Answer::Fails(unreachable())
        }
    });
    let b = says("from b");
    let (_dir, client) = client(&a, &b);
    let client = Arc::new(client);
    assert!(!client.is_down("primary"));
    for _ in 0..3 {
        let (paid, _) = with_still_clock(ask(&client, "primary")).await;
        assert_eq!(paid.expect("the fallback").model, "second");
    }
    assert_eq!(a.count(), 1, "one try of the first call, and none after it");
    let down: Vec<(String, bool)> = client
        .health()
        .into_iter()
        .map(|health| (health.name, health.down.is_some()))
        .collect();
    assert_eq!(down, [("a".to_owned(), true), ("b".to_owned(), false)]);
    assert!(!client.is_down("primary"), "its fallback answers");

    // The settings are read again: what is known stays.
    let mut after = house(Cost::default(), "", 0, busy)
        .client
        .with_outages(client.outages());
    after.providers.insert("a".into(), a.clone());
    assert_eq!(
        ask(&after, "primary").await.expect("the fallback").model,
        "second"
    );
    assert_eq!(a.count(), 1);

    up.store(true, std::sync::atomic::Ordering::SeqCst);
    client.outages.retry_now();
    assert_eq!(
        ask(&client, "primary").await.expect("an answer").model,
        "primary"
    );
    assert!(client.health().iter().all(|health| health.down.is_none()));
}

#[tokio::test]
async fn without_another_a_call_is_away_and_nobody_asks_until_the_rest_is_over() {
    let (a, b) = (fails(busy_for_long), fails(busy_for_long));
    let (_dir, client) = client(&a, &b);
    for _ in 0..3 {
        let error = ask(&client, "second").await.expect_err("down");
        let away = error.away().expect("it may answer later");
        assert_eq!((away.cause, b.count()), (Cause::Limited, 1));
        assert!(away.rest > Duration::from_secs(118), "{away:?}");
    }
    assert!(client.is_down("second") && !client.answers("second"));
    assert!(!client.is_down("primary"));
    // Both down: each was asked once.
    assert!(ask(&client, "primary").await.is_err());
    assert!(client.is_down("primary"));
    assert!(ask(&client, "primary").await.is_err());
    assert_eq!((a.count(), b.count()), (1, 1));
    client.outages.retry_now();
    assert!(!client.is_down("primary"), "new settings are tried at once");
    assert!(!client.answers("primary"));
}

#[tokio::test]
async fn a_short_outage_is_waited_for_in_place_by_one_call_for_all() {
    let a = Scripted::new(|count, _| {
        if count < 2 {
            Answer::Fails(busy())
        } else {
            Answer::Says("up")
        }
    });
    let mut house = house_of("", &provider_file("second", ""));
    house.client.providers.insert("b".into(), a.clone());
    let asks = (0..50).map(|_| ask(&house.client, "second"));
    let answers = futures_util::future::join_all(asks).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_err()).count(), 0);
    assert_eq!(a.count(), 50 + 2, "who failed asks once more");
}

fn busy_for_long() -> provider::Error {
    let retry_after = Some(Duration::from_secs(120));
    provider::Error::Busy {
        host: "h".into(),
        status: 429,
        message: "slow down".into(),
        retry_after,
    }
}

fn no_model() -> provider::Error {
    provider::Error::Missing {
        host: "h".into(),
        status: 404,
        message: "no".into(),
    }
}

/// What a hotel's network answers in place of every server until somebody signed in.
fn sign_in_page(status: u16) -> provider::Error {
    provider::Error::Missing {
        host: "h".into(),
        status,
        message: "a web page".into(),
    }
}

#[tokio::test]
async fn a_sign_in_page_in_place_of_a_server_that_was_down_is_not_its_answer() {
    for status in [200, 302] {
        let b = Scripted::new(move |asked, _| match asked {
            0 => Answer::Fails(busy_for_long()),
            1 => Answer::Fails(sign_in_page(status)),
            _ => Answer::Says("from b"),
        });
        let (_dir, client) = client(&says("from a"), &b);
        let away = ask(&client, "second").await.expect_err("down").away();
        assert_eq!(away.expect("may answer later").cause, Cause::Limited);
        client.outages.circuits.retry_now();
        let paid = ask(&client, "second").await.expect("it is back");
        assert_eq!((paid.model.as_str(), b.count()), ("second", 3));
    }
}

#[tokio::test]
async fn a_web_page_in_place_of_a_server_that_answered_before_is_an_outage() {
    let page = || provider::Error::WebPage {
        host: "h".into(),
        status: 403,
    };
    let b = Scripted::new(move |asked, _| match asked {
        1 => Answer::Fails(page()),
        _ => Answer::Says("from b"),
    });
    let (_dir, client) = client(&says("from a"), &b);
    ask(&client, "second").await.expect("an answer");
    let paid = ask(&client, "second").await.expect("asked once more");
    assert_eq!((paid.model.as_str(), b.count()), ("second", 3));
}

#[tokio::test]
async fn a_web_page_of_a_server_that_was_never_down_is_told_at_once() {
    let b = fails(|| sign_in_page(200));
    let (_dir, client) = client(&says("from a"), &b);
    let told = ask(&client, "second").await.expect_err("a page");
    assert!(matches!(told, Error::Failed(_)), "{told}");
    assert_eq!(b.count(), 1);
}

#[tokio::test]
async fn a_fallback_that_the_money_is_not_enough_for_is_passed_over() {
    let cheap = "cost_per_mtok = [0.1, 0.1, 0.1, 0.1]\nfallbacks = [\"second\"]";
    let dear = provider_file("second", "cost_per_mtok = [15, 75, 1.5, 18.75]");
    let capped = [
        Cost {
            message_usd: 0.1,
            ..Cost::default()
        },
        Cost {
            day_usd: 0.1,
            ..Cost::default()
        },
    ];
    for caps in capped {
        let mut house = house_of(cheap, &dear);
        let a = Scripted::new(|asked, _| match asked {
            0 => Answer::Fails(busy()),
            _ => Answer::Says("from a"),
        });
        let b = says("from b");
        house.client.providers.insert("a".into(), a.clone());
        house.client.providers.insert("b".into(), b.clone());
        house.client.caps = caps;
        let paid = ask(&house.client, "primary").await.expect("it is back");
        assert_eq!(
            (paid.model.as_str(), a.count(), b.count()),
            ("primary", 2, 0)
        );
    }
}

#[tokio::test]
async fn a_model_that_the_money_is_not_enough_for_is_passed_over() {
    let dear = "cost_per_mtok = [15, 75, 1.5, 18.75]\nfallbacks = [\"second\"]";
    let free = provider_file("second", "cost_per_mtok = [0, 0, 0, 0]");
    let capped = |message_usd, day_usd| Cost {
        message_usd,
        day_usd,
        ..Cost::default()
    };
    let check = async |caps: Cost, b: &Arc<Scripted>| {
        let mut house = house_of(dear, &free);
        let a = says("from a");
        house.client.providers.insert("a".into(), a.clone());
        house.client.providers.insert("b".into(), b.clone());
        house.client.caps = caps;
        let answer = ask(&house.client, "primary").await;
        assert_eq!(a.count(), 0);
        answer
    };
    for caps in [capped(0.1, 0.0), capped(0.0, 0.1)] {
        // It is waited for, too.
        let b = Scripted::new(|asked, _| match asked {
            0 => Answer::Fails(busy()),
            _ => Answer::Says("from b"),
        });
        let paid = check(caps, &b).await.expect("the free one");
        assert_eq!((paid.model.as_str(), b.count()), ("second", 2));
    }
    // Where it refuses, the limit is what is told.
    for caps in [capped(0.1, 0.0), capped(0.0, 0.1)] {
        let refused = check(caps, &fails(wrong_key)).await;
        assert!(matches!(refused, Err(Error::Refused(_))), "{refused:?}");
    }
}

fn no_money() -> provider::Error {
    provider::Error::Exhausted {
        host: "h".into(),
        status: 402,
        message: "no".into(),
    }
}

fn wrong_key() -> provider::Error {
    provider::Error::Auth {
        host: "h".into(),
        status: 401,
        message: "no".into(),
    }
}

/// A conversation that ends on the results of two tools.
fn results() -> Vec<Message> {
    let call = |id: &str| {
        Block::ToolCall(ToolCall {
            id: id.into(),
            name: "read".into(),
            input: serde_json::json!({}),
        })
    };
    let result = |id: &str, text: &str| {
        Block::ToolResult(ToolResult {
            id: id.into(),
            text: text.into(),
            is_error: false,
            from: None,
            pictures: Vec::new(),
        })
    };
    vec![
        Message::text(Role::User, "read"),
        Message {
            role: Role::Assistant,
            content: vec![call("1"), call("2")],
        },
        Message {
            role: Role::User,
            content: vec![result("1", "good"), result("2", "poison")],
        },
    ]
}

fn holds_poison(request: &Request) -> bool {
    request
        .messages
        .iter()
        .flat_map(|message| &message.content)
        .any(|block| match block {
            Block::ToolResult(result) => result.text == "poison",
            _ => false,
        })
}

fn refuses_poison() -> Arc<Scripted> {
    Scripted::new(|_, request| {
        if holds_poison(request) {
            Answer::Fails(rejected())
        } else {
            Answer::Says("ok")
        }
    })
}

#[tokio::test]
async fn what_is_refused_twice_is_sent_once_more_without_its_newest_block() {
    let (a, b) = (refuses_poison(), says("from b"));
    let (_dir, client) = client(&a, &b);
    let paid = ask_for(&client, "cli", "primary", results())
        .await
        .expect("an answer");
    assert_eq!((paid.model.as_str(), a.count()), ("primary", 3));
    let last = a
        .requests()
        .pop()
        .expect("a request")
        .messages
        .last()
        .expect("a message")
        .clone();
    let texts: Vec<(String, bool)> = last
        .content
        .iter()
        .map(|block| match block {
            Block::ToolResult(result) => (result.text.clone(), result.is_error),
            _ => panic!("{block:?}"),
        })
        .collect();
    let left_out =
        "⟦left out: the server of the model primary refuses a request with it⟧".to_owned();
    assert_eq!(texts, [("good".to_owned(), false), (left_out, true)]);
    // From then on it is left out at once, also where it is not the newest any more.
    let later = [
        results(),
        vec![
            Message::text(Role::Assistant, "ok"),
            Message::text(Role::User, "and?"),
        ],
    ]
    .concat();
    ask_for(&client, "cli", "primary", later)
        .await
        .expect("an answer");
    assert_eq!(a.count(), 4);
}

#[tokio::test]
async fn the_words_of_a_file_are_left_out_and_those_of_people_are_not() {
    let context = |text: &str| Block::Context {
        text: text.to_owned(),
    };
    let file = context("⟦file a.txt⟧\npoison\n⟦end of file⟧");
    let heard = context("⟦heard since then⟧\nBob: hello\n⟦end of what was heard⟧");
    for (block, tries) in [(file, 3), (heard, 1)] {
        let (a, b) = (fails(rejected), fails(rejected));
        let (_dir, client) = client(&a, &b);
        let message = Message {
            role: Role::User,
            content: vec![
                block,
                Block::Text {
                    text: "see?".into(),
                },
            ],
        };
        assert!(
            ask_for(&client, "cli", "second", vec![message])
                .await
                .is_err()
        );
        assert_eq!(b.count(), tries);
        let last = b.requests().pop().expect("a request");
        assert_eq!(last.messages[0].plain_text(), "see?");
        assert!(
            !serde_json::to_string(&*last.messages)
                .expect("JSON")
                .contains("poison")
        );
    }
}

#[tokio::test]
async fn nothing_is_left_out_for_other_reasons_and_no_refusal_loops() {
    let text = vec![Message::text(Role::User, "hello")];
    for (error, messages, tries) in [
        (wrong_key as fn() -> provider::Error, results(), 1),
        (no_model, results(), 1),
        (no_money, results(), 1),
        (rejected, text, 1),
        (rejected, results(), 3),
    ] {
        let (a, b) = (fails(error), fails(error));
        let (_dir, client) = client(&a, &b);
        assert!(ask_for(&client, "cli", "second", messages).await.is_err());
        assert_eq!(b.count(), tries, "{}", error());
        assert!(
            client.health().iter().all(|health| health.down.is_none()),
            "a server that answers is not down"
        );
    }
}

#[tokio::test]
async fn thinking_that_a_server_refuses_is_left_out() {
    let thinks = |request: &Request| {
        request.thinking
            || request
                .messages
                .iter()
                .flat_map(|message| &message.content)
                .any(|block| matches!(block, Block::Thinking(_)))
    };
    let b = Scripted::new(move |_, request| {
        if thinks(request) {
            Answer::Fails(rejected())
        } else {
            Answer::Says("ok")
        }
    });
    let mut house = house_of("", &provider_file("second", "thinking = true"));
    house.client.providers.insert("b".into(), b.clone());
    let thinking = crate::message::Thinking {
        by: "anthropic:m".into(),
        data: serde_json::json!({"type": "thinking"}),
    };
    let answer = Message {
        role: Role::Assistant,
        content: vec![Block::Thinking(thinking), Block::Text { text: "hm".into() }],
    };
    let messages = vec![
        Message::text(Role::User, "a"),
        answer,
        Message::text(Role::User, "b"),
    ];
    ask_for(&house.client, "cli", "second", messages)
        .await
        .expect("an answer");
    // Where nothing else can be meant, it is the switch itself; from then on it is off at once.
    for _ in 0..2 {
        ask(&house.client, "second").await.expect("an answer");
    }
    assert_eq!(
        b.requests()
            .iter()
            .map(|request| (request.thinking, request.cache))
            .collect::<Vec<_>>(),
        [
            (true, true),
            (false, false),
            (true, true),
            (false, true),
            (false, true)
        ]
    );
}

#[tokio::test]
async fn a_model_without_tools_is_offered_none_and_told_in_words() {
    let b = says("ok");
    let mut house = house_of("", &provider_file("second", "tools = false"));
    house.client.providers.insert("b".into(), b.clone());
    ask_for(&house.client, "cli", "second", results())
        .await
        .expect("an answer");
    let request = b.requests().remove(0);
    assert!(request.tools.is_empty() && !request.may_call);
    let is_told = |block: &Block| matches!(block, Block::Text { .. } | Block::Context { .. });
    assert!(
        request
            .messages
            .iter()
            .flat_map(|message| &message.content)
            .all(is_told),
        "{:?}",
        request.messages
    );
}

#[tokio::test]
async fn another_model_of_a_server_that_nobody_reaches_is_not_tried() {
    let b = fails(unreachable);
    let both = format!(
        "{}\n[models.third]\nmodel = \"t\"\n",
        provider_file("second", "fallbacks = [\"third\"]")
    );
    let mut house = house_of("", &both);
    house.client.providers.insert("b".into(), b.clone());
    let (answer, _) = with_still_clock(ask(&house.client, "second")).await;
    assert!(answer.is_err());
    let models: Vec<String> = b
        .requests()
        .into_iter()
        .map(|request| request.model)
        .collect();
    assert_eq!(models, ["m", "m", "m"]);
}

#[tokio::test]
async fn a_schema_that_a_server_refuses_is_left_out_alone_and_not_sent_again() {
    let b = Scripted::new(|_, request| match request.schema {
        Some(_) => Answer::Fails(rejected()),
        None => Answer::Says("ok"),
    });
    let mut house = house_of("", &provider_file("second", "vision = true"));
    house.client.providers.insert("b".into(), b.clone());
    let picture = Block::Image {
        file: "a/0-x".into(),
        content_type: "image/png".into(),
        data: Some("AAAA".into()),
    };
    let messages = vec![Message::new(Role::User, vec![picture])];
    let prompt = Prompt {
        schema: Some(Arc::new(serde_json::json!({"type": "object"}))),
        ..Prompt::plain(Vec::new(), messages.clone())
    };
    let purpose = Purpose::new("r", "s", "cli", false);
    for _ in 0..2 {
        let asked = (house.client).complete(purpose, "second", &prompt, &|_| {}, &|_| {});
        asked.await.expect("an answer");
    }
    let requests = b.requests();
    let sent = requests
        .iter()
        .map(|sent| (sent.schema.is_some(), *sent.messages == *messages));
    assert_eq!(
        sent.collect::<Vec<_>>(),
        [(true, true), (false, true), (false, true)]
    );
}
