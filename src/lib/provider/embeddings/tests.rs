use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::config::ProviderType;
use crate::provider::test_server;
use crate::provider::test_server::{End, Recorded, Reply};
use crate::provider::{BoxFuture, Credential, KeySource};
use crate::secret::Secret;

type Vectors = Result<Vec<Option<Vec<f32>>>, Error>;

const KEY: &str = "sk-embedding-canary-1";

/// What was set aside and what was booked, in order; with `allowed` requests left, refuses the next.
#[derive(Clone)]
struct Book {
    lines: Arc<Mutex<Vec<String>>>,
    allowed: usize,
}

impl Meter for Book {
    fn cost_usd(&self, tokens: u64) -> Option<f64> {
        u32::try_from(tokens).ok().map(f64::from)
    }

    fn spent_usd(&self) -> f64 {
        0.0
    }

    fn reserve(&mut self, kind: Kind, most_tokens: u64) -> BoxFuture<'_, Result<(), String>> {
        let may = self
            .allowed
            .checked_sub(1)
            .ok_or_else(|| "no money".to_owned());
        self.allowed = self.allowed.saturating_sub(1);
        self.note(format!("{kind:?} {most_tokens}"));
        Box::pin(async move { may.map(drop) })
    }

    fn settle<'a>(&'a mut self, ended: Result<Usage, &'a provider::Error>) -> BoxFuture<'a, ()> {
        self.note(match ended {
            Ok(usage) => format!(
                "{}{}",
                usage.input_tokens,
                if usage.estimated { "?" } else { "" }
            ),
            Err(error) => format!(
                "failed, {}",
                if error.may_be_charged() {
                    "unknown"
                } else {
                    "free"
                }
            ),
        });
        Box::pin(async {})
    }
}

impl Book {
    fn note(&self, line: String) {
        self.lines.lock().push(line);
    }
}

fn provider(kind: ProviderType, base_url: &str) -> Provider {
    Provider {
        name: "mock".to_owned(),
        kind,
        base_url: base_url.to_owned(),
        api_key_env: None,
        oauth: None,
        scripts_dir: None,
        file: None,
    }
}

/// A server that plays answers, and its client.
struct Play {
    server: test_server::Server,
    remote: Option<Remote>,
    book: Book,
}

impl Play {
    async fn of(
        kind: ProviderType,
        model: &str,
        dims: u32,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Self {
        let server = test_server::Server::start(replies).await;
        let key = Some(Secret::new(KEY));
        let mut play = Self {
            server,
            remote: None,
            book: Book {
                lines: Arc::default(),
                allowed: usize::MAX,
            },
        };
        let server = provider(kind, &play.server.url);
        play.put(
            Remote::new(
                test_server::client(),
                &server,
                key,
                model,
                dims,
                play.meter(),
            )
            .expect("remote"),
        );
        play
    }

    fn meter(&self) -> impl FnOnce(&str) -> Box<dyn Meter> + use<> {
        let book = self.book.clone();
        |_| Box::new(book)
    }

    fn put(&mut self, mut remote: Remote) {
        remote.server.pause = Duration::from_millis(1);
        self.remote = Some(remote);
    }

    async fn openai(dims: u32, replies: impl IntoIterator<Item = Reply>) -> Self {
        Self::of(ProviderType::Openai, "", dims, replies).await
    }

    /// Asks from a thread of the test's runtime that may wait.
    async fn embed(&mut self, texts: &[String]) -> Vectors {
        self.embed_as(Kind::Passage, texts).await
    }

    async fn embed_as(&mut self, kind: Kind, texts: &[String]) -> Vectors {
        let mut remote = self.remote.take().expect("one at a time");
        let texts = texts.to_vec();
        let work = move || {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let vectors = remote.embed(kind, &texts);
            (vectors, remote)
        };
        let (vectors, remote) = tokio::task::spawn_blocking(work).await.expect("no panic");
        self.remote = Some(remote);
        vectors
    }

    fn remote(&mut self) -> &mut Remote {
        self.remote.as_mut().expect("not at work")
    }

    /// A whole answer may take so many milliseconds.
    fn limit(&mut self, ms: u64) {
        self.remote().server.endpoint.timeouts.head = Duration::from_millis(ms);
    }

    fn known(&mut self) -> (String, usize) {
        let remote = self.remote();
        (remote.name().to_owned(), remote.dims)
    }

    fn booked(&self) -> Vec<String> {
        std::mem::take(&mut self.book.lines.lock())
    }

    fn bodies(&self) -> Vec<Value> {
        let body = |request: Recorded| serde_json::from_str(&request.body).expect("JSON");
        self.server.requests().into_iter().map(body).collect()
    }
}

/// Returns OpenAI's answer: vectors with their numbers.
fn listed(vectors: &[(usize, Vec<f32>)]) -> Reply {
    let item = |(index, vector): &(usize, Vec<f32>)| json!({"object": "embedding", "index": index, "embedding": vector});
    let data: Vec<Value> = vectors.iter().map(item).collect();
    Reply::json(
        200,
        &json!({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 5, "total_tokens": 5}}),
    )
}

/// Returns `count` vectors in order; that of text `at` points to (`at` + `from`, 1).
fn counted(from: u16, count: u16) -> Reply {
    let vectors = (0..count).map(|at| (usize::from(at), vec![f32::from(from + at), 1.0]));
    listed(&vectors.collect::<Vec<_>>())
}

fn refused(status: u16) -> Reply {
    Reply::json(
        status,
        &json!({"error": {"message": format!("not with {KEY}")}}),
    )
}

fn texts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn unit(x: f32, y: f32) -> Option<Vec<f32>> {
    normalize(vec![x, y])
}

/// Returns the error of one text that gets these answers.
async fn failing(dims: u32, replies: impl IntoIterator<Item = Reply>) -> Error {
    let mut play = Play::openai(dims, replies).await;
    play.embed(&texts(&["a"])).await.expect_err("no vectors")
}

#[tokio::test]
async fn vectors_come_in_the_order_of_the_texts_whatever_the_order_of_the_answer_and_have_the_length_one()
 {
    let answer = listed(&[
        (2, vec![0.0, 2.0]),
        (0, vec![3.0, 4.0]),
        (1, vec![0.0, 0.0]),
    ]);
    let mut play = Play::openai(2, [answer]).await;
    let vectors = play
        .embed(&texts(&["a", " \n", "nothing", "", "c"]))
        .await
        .expect("vectors");
    assert_eq!(vectors, [unit(3.0, 4.0), None, None, None, unit(0.0, 1.0)]);
    assert_eq!(vectors.first().cloned().flatten(), Some(vec![0.6, 0.8]));
    let model = "text-embedding-3-small";
    assert_eq!(
        play.bodies(),
        [json!({"model": model, "input": ["a", "nothing", "c"], "dimensions": 2})]
    );
    let request = play.server.request();
    assert_eq!(request.path, "/v1/embeddings");
    assert_eq!(
        request.headers["authorization"],
        format!("Bearer {KEY}").as_str()
    );
}

#[tokio::test]
async fn more_tokens_than_were_sent_are_not_believed() {
    for (told, booked) in [(60, "60"), (u64::MAX, "1?")] {
        let usage = json!({"prompt_tokens": told, "total_tokens": told});
        let answer = json!({"data": [{"embedding": [1, 0]}], "usage": usage});
        let mut play = Play::openai(0, [Reply::json(200, &answer)]).await;
        play.embed(&texts(&["a"])).await.expect("a vector");
        assert_eq!(play.booked().last().map(String::as_str), Some(booked));
    }
}

#[tokio::test]
async fn a_server_that_numbers_nothing_has_them_in_order_and_one_that_numbers_wrongly_is_not_believed()
 {
    let bare = Reply::json(
        200,
        &json!({"data": [{"embedding": [1, 0]}, {"embedding": [0, 1]}]}),
    );
    let mut play = Play::openai(0, [bare]).await;
    assert_eq!(
        play.embed(&texts(&["a", "b"])).await.expect("vectors"),
        [unit(1.0, 0.0), unit(0.0, 1.0)]
    );
    for wrong in [[0, 0], [1, 2], [0, 5]] {
        let mut play = Play::openai(0, [listed(&wrong.map(|index| (index, vec![1.0, 2.0])))]).await;
        let error = play
            .embed(&texts(&["a", "b"]))
            .await
            .expect_err("wrong numbers");
        assert!(
            error
                .to_string()
                .contains("the vectors of 2 texts are not numbered from 0 to 1"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn two_hundred_and_one_texts_are_three_requests() {
    let words: Vec<String> = (0..201).map(|at| format!("text {at}")).collect();
    let mut play = Play::openai(0, [counted(0, 100), counted(100, 100), counted(200, 1)]).await;
    let vectors = play.embed(&words).await.expect("vectors");
    let expected: Vec<_> = (0..201_u16).map(|at| unit(f32::from(at), 1.0)).collect();
    assert_eq!(vectors, expected);
    let sizes: Vec<_> = play
        .bodies()
        .iter()
        .map(|body| body["input"].as_array().map(Vec::len))
        .collect();
    assert_eq!(sizes, [Some(100), Some(100), Some(1)]);
    assert_eq!(
        play.bodies().get(1).map(|body| body["input"][99].clone()),
        Some(json!("text 199"))
    );
    // "text 0" has six bytes, and around each text there are 32.
    assert_eq!(
        play.booked(),
        ["Passage 3890", "5", "Passage 4000", "5", "Passage 40", "5"]
    );
}

#[tokio::test]
async fn nothing_is_sent_for_nothing() {
    let mut play = Play::openai(0, []).await;
    assert_eq!(
        play.embed(&texts(&["", " \t"])).await.expect("none"),
        [None, None]
    );
    assert_eq!(play.embed(&[]).await.expect("none"), []);
    assert_eq!((play.server.requests().len(), play.remote().dims), (0, 0));
}

#[tokio::test]
async fn gemini_is_asked_for_a_content_each_and_needs_no_numbers() {
    let answer = Reply::json(
        200,
        &json!({"embeddings": [{"values": [0, 1]}, {"values": [1, 0]}]}),
    );
    let mut play = Play::of(ProviderType::Gemini, "", 2, [answer]).await;
    let vectors = play.embed(&texts(&["a", "b"])).await.expect("vectors");
    assert_eq!(vectors, [unit(0.0, 1.0), unit(1.0, 0.0)]);
    let part = |text: &str| {
        json!({"model": "models/gemini-embedding-001", "content": {"parts": [{"text": text}]},
        "taskType": "RETRIEVAL_DOCUMENT", "outputDimensionality": 2})
    };
    assert_eq!(play.bodies(), [json!({"requests": [part("a"), part("b")]})]);
    let request = play.server.request();
    assert_eq!(
        request.path,
        "/v1beta/models/gemini-embedding-001:batchEmbedContents"
    );
    assert_eq!(request.headers["x-goog-api-key"], KEY);
    assert_eq!(
        play.remote().name(),
        "mock/gemini-embedding-001/2/retrieval"
    );
    assert_eq!(play.booked(), ["Passage 66", "2?"], "it counted none");
}

#[tokio::test]
async fn gemini_is_told_what_is_a_question_in_a_field_and_its_second_generation_in_the_text() {
    let answer = || Reply::json(200, &json!({"embeddings": [{"values": [0, 1]}]}));
    for (model, asked, told) in [
        ("", json!({"text": "a"}), json!("RETRIEVAL_QUERY")),
        (
            "models/gemini-embedding-2",
            json!({"text": "task: search result | query: a"}),
            Value::Null,
        ),
    ] {
        let mut play = Play::of(ProviderType::Gemini, model, 0, [answer()]).await;
        play.embed_as(Kind::Question, &texts(&["a"]))
            .await
            .expect("vectors");
        let body = play.bodies().remove(0);
        assert_eq!(
            (
                &body["requests"][0]["content"]["parts"][0],
                &body["requests"][0]["taskType"]
            ),
            (&asked, &told)
        );
        assert_eq!(play.booked(), ["Question 33", "1?"]);
    }
    let mut play = Play::of(
        ProviderType::Gemini,
        "gemini-embedding-2-preview",
        0,
        [answer()],
    )
    .await;
    play.embed(&texts(&["a"])).await.expect("vectors");
    assert_eq!(
        play.bodies()[0]["requests"][0]["content"]["parts"][0]["text"],
        "title: none | text: a"
    );
}

#[tokio::test]
async fn without_a_wish_no_dimensions_are_asked_for_and_the_first_answer_tells_them() {
    let mut play = Play::of(
        ProviderType::Openai,
        "BAAI/bge-m3",
        0,
        [counted(0, 1), counted(0, 1), listed(&[(0, vec![1.0])])],
    )
    .await;
    assert_eq!(play.known(), ("mock/BAAI/bge-m3/0".to_owned(), 0));
    play.embed(&texts(&["a"])).await.expect("vectors");
    assert_eq!(play.known(), ("mock/BAAI/bge-m3/0".to_owned(), 2));
    play.embed(&texts(&["b"])).await.expect("vectors");
    let error = play
        .embed(&texts(&["c"]))
        .await
        .expect_err("other dimensions");
    let says = "mock/BAAI/bge-m3: a vector has 1 numbers, and others have 2: if another model answers there now, run: agent-index rebuild";
    assert_eq!(error, Error::Unusable(says.to_owned()));
    assert!(
        play.bodies()
            .iter()
            .all(|body| body.get("dimensions").is_none())
    );
}

#[tokio::test]
async fn an_answer_whose_vectors_differ_teaches_nothing() {
    let mixed = listed(&[(0, vec![1.0]), (1, vec![1.0, 2.0])]);
    let mut play = Play::openai(0, [mixed, counted(0, 2)]).await;
    play.embed(&texts(&["a", "b"]))
        .await
        .expect_err("two lengths");
    assert_eq!(play.remote().dims, 0);
    play.embed(&texts(&["a", "b"])).await.expect("vectors");
    assert_eq!(play.remote().dims, 2);
}

#[tokio::test]
async fn an_answer_that_is_no_answer_is_an_error_and_never_a_vector() {
    let raw = |numbers: &str| {
        Reply::raw(
            200,
            "application/json",
            &format!(r#"{{"data":[{{"index":0,"embedding":{numbers}}}]}}"#),
        )
    };
    for (dims, reply, says) in [
        (0, counted(0, 2), "2 vectors came for 1 texts"),
        (
            0,
            Reply::json(200, &json!({"data": []})),
            "0 vectors came for 1 texts",
        ),
        (
            3,
            counted(0, 1),
            "a vector has 2 numbers, and `[memory.embeddings] dims` asks for 3: write 0 there, or 2",
        ),
        (0, raw("[]"), "a vector has 0 numbers"),
        (0, raw("[1e39, 1]"), "number out of range"),
        (0, raw("[null, 1]"), "invalid type: null, expected f32"),
        (0, raw("[1, \"x\"]"), "expected f32"),
        (
            0,
            Reply::json(200, &json!({"result": 1})),
            "missing field `data`",
        ),
        (
            0,
            Reply::json(
                200,
                &json!({"error": {"code": 404, "message": "no such model"}}),
            ),
            "does not have it (404): no such model",
        ),
        (
            0,
            Reply::raw(200, "text/html", "<html>"),
            "is base_url right?",
        ),
    ] {
        let mut play = Play::openai(dims, [reply]).await;
        let error = play
            .embed(&texts(&["a"]))
            .await
            .expect_err(says)
            .to_string();
        assert!(
            error.starts_with("mock/text-embedding-3-small: ") && error.contains(says),
            "{error}"
        );
        assert_eq!(play.server.requests().len(), 1, "{says}: nobody asks again");
    }
    // NaN is not JSON: such an answer counts as broken off.
    let error = failing(0, [raw("[NaN]"), raw("[NaN]")]).await;
    assert!(error.to_string().contains("malformed JSON"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_once_more() {
    for status in [429, 500, 503] {
        let mut play = Play::openai(0, [refused(status), counted(0, 1)]).await;
        assert_eq!(
            play.embed(&texts(&["a"])).await.expect("vectors"),
            [unit(0.0, 1.0)]
        );
        let mut play = Play::openai(0, [refused(status), refused(status), counted(0, 1)]).await;
        let error = play.embed(&texts(&["a"])).await.expect_err("busy twice");
        assert!(
            matches!(&error, Error::Failed(said) if said.contains(&format!("answered {status}"))),
            "{error}"
        );
        assert_eq!(play.server.requests().len(), 2);
    }
}

#[tokio::test]
async fn the_servers_word_when_to_come_back_counts_and_who_says_later_is_left_alone() {
    let mut play = Play::openai(0, [refused(429).header("retry-after", "1"), counted(0, 1)]).await;
    let began = Instant::now();
    play.embed(&texts(&["a"])).await.expect("vectors");
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    let mut play = Play::openai(0, [refused(429).header("retry-after", "11"), counted(0, 1)]).await;
    let began = Instant::now();
    assert!(matches!(
        play.embed(&texts(&["a"])).await,
        Err(Error::Failed(_))
    ));
    assert!(play.server.requests().len() == 1 && began.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_refused_key_is_said_at_once_and_never_shown() {
    for (status, says) in [
        (401, "refused the key (401)"),
        (403, "refused the key (403)"),
    ] {
        let mut play = Play::openai(0, [refused(status)]).await;
        let error = play.embed(&texts(&["a"])).await.expect_err("refused");
        let Error::Unusable(said) = &error else {
            panic!("{error:?}")
        };
        assert!(
            said.contains(says) && said.contains("agent-daemon auth"),
            "{said}"
        );
        assert!(!format!("{error:?}").contains("canary"), "{said}");
        assert_eq!(play.server.requests().len(), 1);
    }
    for (status, says) in [
        (404, "correct `[memory.embeddings] model`"),
        (400, "look at `model` and `dims`"),
    ] {
        let error = failing(0, [refused(status)]).await;
        assert!(
            matches!(&error, Error::Unusable(said) if said.contains(says) && !said.contains("canary")),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_twice() {
    let stalled = || counted(0, 1).end(End::Stall);
    let mut play = Play::openai(0, [stalled(), stalled()]).await;
    play.limit(200);
    let began = Instant::now();
    let error = play.embed(&texts(&["a"])).await.expect_err("late");
    assert!(
        matches!(&error, Error::Failed(said) if said.contains("it was not whole within 0.2 s")),
        "{error}"
    );
    assert!(
        (400..5_000).contains(&began.elapsed().as_millis()),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(play.server.requests().len(), 2);
    assert_eq!(
        play.booked(),
        [
            "Passage 33",
            "failed, unknown",
            "Passage 33",
            "failed, unknown"
        ]
    );
}

#[tokio::test]
async fn nothing_is_sent_without_money_not_even_once_more() {
    for (allowed, sent) in [(0, 0), (1, 1)] {
        let mut play = Play::openai(0, [refused(503), counted(0, 1)]).await;
        play.book.allowed = allowed;
        let server = provider(ProviderType::Openai, &play.server.url);
        play.put(
            Remote::new(test_server::client(), &server, None, "", 0, play.meter()).expect("remote"),
        );
        let error = play.embed(&texts(&["a"])).await.expect_err("refused");
        assert_eq!(
            error,
            Error::Failed("mock/text-embedding-3-small: no money".to_owned())
        );
        assert_eq!(play.server.requests().len(), sent);
    }
}

#[tokio::test]
async fn nobody_there_is_a_failure_in_words() {
    let mut play = Play::openai(0, []).await;
    let nobody = provider(ProviderType::Openai, "http://127.0.0.1:1");
    play.put(
        Remote::new(test_server::client(), &nobody, None, "", 0, play.meter()).expect("remote"),
    );
    let said = play
        .embed(&texts(&["a"]))
        .await
        .expect_err("nobody")
        .to_string();
    assert_eq!(
        play.booked(),
        ["Passage 33", "failed, free", "Passage 33", "failed, free"]
    );
    assert!(
        said.starts_with("mock/text-embedding-3-small: 127.0.0.1:1 cannot be reached"),
        "{said}"
    );
}

#[tokio::test]
async fn a_text_that_the_server_finds_too_long_is_cut_until_it_fits_and_its_neighbours_stay_whole()
{
    let overflow = || {
        Reply::json(
            500,
            &json!({"error": {"message": "input (612 tokens) is too large to process. increase the physical batch size"}}),
        )
    };
    let words = texts(&[&"long ".repeat(320), "short"]);
    let mut play = Play::openai(0, [overflow(), overflow(), counted(0, 2)]).await;
    play.embed(&words).await.expect("vectors");
    let lengths = |body: &Value| [0, 1].map(|at| body["input"][at].as_str().map_or(0, str::len));
    let sent: Vec<_> = play.bodies().iter().map(lengths).collect();
    assert_eq!(sent, [[1600, 5], [1000, 5], [500, 5]]);
    let booked = [
        "Passage 1669",
        "failed, free",
        "Passage 1069",
        "failed, free",
        "Passage 569",
        "5",
    ];
    assert_eq!(play.booked(), booked, "each attempt is paid for itself");
    let mut play = Play::openai(0, (0..9).map(|_| overflow())).await;
    let error = play.embed(&words).await.expect_err("never fits");
    assert!(
        error.to_string().contains("a text is too long for it"),
        "{error}"
    );
    assert_eq!(play.server.requests().len(), 4);
}

#[tokio::test]
async fn long_texts_are_cut_and_go_out_in_smaller_batches() {
    let words = vec!["x".repeat(40_000); 10];
    let mut play = Play::openai(0, [counted(0, 9), counted(0, 1)]).await;
    assert_eq!(play.embed(&words).await.expect("vectors").len(), 10);
    assert_eq!(
        play.bodies()
            .first()
            .and_then(|body| body["input"][0].as_str())
            .map(str::len),
        Some(MAX_CHARS)
    );
}

#[test]
fn it_works_where_there_is_no_runtime_and_may_be_dropped_inside_one() {
    let other = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let mut play = other.block_on(Play::openai(0, [counted(0, 1), counted(1, 1)]));
    for at in [0.0, 1.0] {
        let vectors = play.remote().embed(Kind::Passage, &["a"]).expect("vectors");
        assert_eq!(vectors, [unit(at, 1.0)]);
    }
    other.block_on(async move { drop(play) });
}

#[test]
fn who_has_no_embeddings_says_so_with_the_setting() {
    for kind in [ProviderType::Anthropic, ProviderType::Offline] {
        let book = |_: &str| -> Box<dyn Meter> { panic!("nothing is paid") };
        let error = Remote::new(
            test_server::client(),
            &provider(kind, ""),
            None,
            "",
            0,
            book,
        )
        .err()
        .expect("none");
        let says = format!(
            "the provider `mock` is of type `{}`, which has no embeddings",
            kind.as_str()
        );
        assert!(
            matches!(&error, Error::Unusable(said) if said.starts_with(&says) && said.contains("[memory.embeddings] provider"))
        );
    }
}

#[tokio::test]
async fn the_cost_is_that_of_the_texts_as_they_are_sent() {
    let mut play = Play::openai(0, []).await;
    let words: Vec<String> = (0..150)
        .map(|_| "x".repeat(100))
        .chain([String::new()])
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A dollar a token, here.
    assert_eq!(play.remote().cost_usd(&words), Some(4500.0));
    assert_eq!(
        play.remote().cost_usd(&["x".repeat(50_000).as_str()]),
        Some(9600.0)
    );
    assert_eq!(play.remote().cost_usd(&["", " "]), Some(0.0));
}

/// A key that takes more time than a request may, and than any request gets at least.
#[derive(Debug)]
struct Slow;

impl KeySource for Slow {
    fn key(&self) -> BoxFuture<'_, Result<Option<Credential>, provider::Error>> {
        Box::pin(async {
            let renewal = tokio::spawn(tokio::time::sleep(Duration::from_millis(1_200)));
            renewal.await.expect("renewed");
            Ok(Some(Credential {
                secret: Secret::new("slow-token-1"),
                is_token: true,
            }))
        })
    }

    fn renew<'a>(
        &'a self,
        _refused: &'a Credential,
    ) -> BoxFuture<'a, Result<Option<Credential>, provider::Error>> {
        self.key()
    }
}

#[tokio::test]
async fn a_renewal_of_the_key_is_never_cut_off_by_the_limit_of_a_request() {
    let mut play = Play::openai(0, [refused(401), counted(0, 1)]).await;
    let server = provider(ProviderType::Openai, &play.server.url);
    play.put(
        Remote::new(
            test_server::client(),
            &server,
            Key::From(Arc::new(Slow)),
            "",
            0,
            play.meter(),
        )
        .expect("remote"),
    );
    play.limit(200);
    play.embed(&texts(&["a"])).await.expect("vectors");
    let requests = play.server.requests();
    assert!(
        requests.len() == 2
            && requests
                .iter()
                .all(|request| request.headers["authorization"] == "Bearer slow-token-1")
    );
}
