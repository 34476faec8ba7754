use super::*;
use crate::message::{ChatRef, Envelope, Route, Sender, SessionKey, Source, Trust};
use crate::queue::{Aftermath, Arrival, Verdict};

fn request(id: &str, key: &str, inbox_id: &str, at: i64) -> Request {
    Request {
        id: id.to_owned(),
        batch: id.to_owned(),
        session_key: key.to_owned(),
        session_id: "s1".to_owned(),
        inbox_id: inbox_id.to_owned(),
        run_id: "r1".to_owned(),
        call_id: id.to_owned(),
        tool: "cron".to_owned(),
        question: "cron".to_owned(),
        why: "others wrote".to_owned(),
        bound: id.to_owned(),
        rule: Some(("cron, whatever its arguments".to_owned(), "d1".to_owned())),
        wanted: None,
        created_at: at,
        expires_at: at + PATIENCE_MS,
    }
}

async fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::start(&dir.path().join("queue.db")).expect("store");
    (dir, store)
}

/// The owner's chat.
fn route() -> Route {
    let chat = ChatRef {
        chat: "1001".to_owned(),
        topic: None,
    };
    Route {
        channel: "telegram".to_owned(),
        chat,
    }
}

/// Asks at `at`; the message that asks arrives at `arrives`, if that is said, and there is none when it is `None`.
async fn ask(store: &Store, id: &str, key: &str, at: i64, arrives: Option<Option<i64>>) {
    let part = |new: &[Request]| {
        let asks = new.first().map(|first| first.batch.clone());
        NewPart {
            asks,
            ..NewPart::plain(route(), "May I?".to_owned())
        }
    };
    let new = vec![request(id, key, id, at)];
    let is_sent = arrives.is_some();
    let put = store.ask(new, move |new| {
        is_sent.then(|| part(new)).into_iter().collect()
    });
    let put = put.await.expect("asked");
    if let (Some(Some(arrived)), [part]) = (arrives, put.parts.as_slice()) {
        let message_id = format!("m{id}");
        let settled = store.settle(part.id, Aftermath::Sent { message_id }, arrived);
        settled.await.expect("settled");
    }
}

/// What a word without an id is about: the request's own id, or those that are listed.
async fn says(store: &Store, verdict: Approval, at: i64, in_chat: bool) -> String {
    let (only, written) = (approval_reply::ONLY.to_owned(), Written { at, in_chat });
    let decided = store.decide(only, verdict, None, written, at + 2_000);
    match decided.await.expect("decided") {
        Decided::Taken(requests) => requests.into_iter().map(|request| request.id).collect(),
        Decided::Several(waiting) => {
            let ids: Vec<String> = waiting.into_iter().map(|request| request.id).collect();
            format!("which of {}", ids.join(" "))
        }
        other => format!("{other:?}"),
    }
}

const CHAT: &str = "agent:agent:telegram:dm:1001";
const SKILL: &str = "skill:mail";

#[tokio::test]
async fn a_yes_without_an_id_is_for_what_its_writer_was_shown() {
    // When the question arrived, when and where the word was written, and what it is about.
    for (arrives, at, in_chat, expected) in [
        (Some(Some(10_300)), 10_000, true, "q"),
        (Some(Some(14_000)), 10_000, true, "q"),
        (Some(Some(20_000)), 10_000, true, "which of q"),
        (Some(None), 30_000, true, "which of q"),
        (Some(None), 30_000, false, "q"),
        (None, 10_000, true, "q"),
        (None, 9_000, true, "which of q"),
        (Some(Some(10_300)), 9_900, true, "which of q"),
        (None, 10_100, false, "which of q"),
    ] {
        let (_dir, store) = store().await;
        ask(&store, "q", CHAT, 10_200, arrives).await;
        let told = says(&store, Approval::Approve, at, in_chat).await;
        assert_eq!(told, expected, "{arrives:?} {at} {in_chat}");
    }
    let (_dir, store) = store().await;
    assert_eq!(says(&store, Approval::Approve, 1, true).await, "Unknown");
    ask(&store, "q", CHAT, 10_200, Some(Some(20_000))).await;
    assert_eq!(says(&store, Approval::Deny, 10_000, true).await, "q");
}

#[tokio::test]
async fn a_yes_without_an_id_is_for_no_older_question_than_the_last() {
    let arrived = |at: i64| Some(Some(at));
    for late in [Approval::Approve, Approval::Session, Approval::Always] {
        let (_dir, store) = store().await;
        ask(&store, "old", SKILL, 1_000, arrived(1_000)).await;
        ask(&store, "new", CHAT, 10_000, arrived(10_000)).await;
        store
            .withdraw("new".to_owned(), 12_000)
            .await
            .expect("over");
        assert_eq!(says(&store, late, 20_000, true).await, "which of old");
        assert_eq!(says(&store, Approval::Deny, 20_000, true).await, "old");
    }
    // A turn goes before what waits next to it, but not when that was shown later.
    let (_dir, store) = store().await;
    ask(&store, "old", SKILL, 1_000, arrived(1_000)).await;
    ask(&store, "new", CHAT, 10_000, arrived(10_000)).await;
    assert_eq!(says(&store, Approval::Approve, 20_000, true).await, "new");
    // Said twice it is the same word, and later another.
    let again = says(&store, Approval::Approve, 21_000, true).await;
    assert_eq!(again, "which of old");
    assert_eq!(says(&store, Approval::Approve, 40_000, true).await, "old");
    ask(&store, "turn", CHAT, 50_000, arrived(50_000)).await;
    ask(&store, "beside", SKILL, 60_000, arrived(60_000)).await;
    assert_eq!(
        says(&store, Approval::Approve, 70_000, true).await,
        "which of turn beside"
    );
}

#[tokio::test]
async fn what_is_allowed_in_a_conversation_is_allowed_to_the_one_who_asked() {
    let (_dir, store) = store().await;
    let by = |id: &str, person: &str| {
        let sender = Sender {
            id: person.to_owned(),
            name: "Ana".to_owned(),
            username: None,
        };
        let key = SessionKey("agent:agent:telegram:group:-1".to_owned());
        let envelope = Envelope::new(id.to_owned(), Source::Telegram, sender, key, "hi".into(), 5);
        let (from_owner, trust) = match person {
            "1001" => (true, Trust::Owner),
            _ => (false, Trust::Other),
        };
        Arrival {
            digest: None,
            key: id.to_owned(),
            verdict: Verdict::Accept(vec![Envelope {
                from_owner,
                trust,
                ..envelope
            }]),
        }
    };
    let inputs = [
        ("o1", "1001"),
        ("o2", "1001"),
        ("a1", "4004"),
        ("a2", "4004"),
        ("b1", "5005"),
    ];
    let arrivals = inputs.map(|(id, person)| by(id, person)).into();
    store.accept(arrivals, None, 10).await.expect("accept");
    let asks = async |id: &str, inbox: &str| {
        let new = vec![request(id, "group", inbox, 20)];
        let put = store.ask(new, |_| Vec::new()).await.expect("asked");
        put.granted == [true]
    };
    let grants = async |id: &str| {
        let written = Written {
            at: 30,
            in_chat: false,
        };
        let word = store.decide(id.to_owned(), Approval::Session, None, written, 30);
        assert!(matches!(word.await.expect("decided"), Decided::Taken(_)));
    };
    assert!(!asks("q1", "o1").await);
    grants("q1").await;
    assert!(asks("q2", "o2").await, "the owner's own");
    assert!(!asks("q3", "a1").await, "nobody else's");
    grants("q3").await;
    assert!(asks("q4", "a2").await, "that guest's");
    assert!(!asks("q5", "b1").await, "not another guest's");
    assert!(!asks("q6", "gone").await, "nobody knows whose");
}

#[tokio::test]
async fn what_a_run_said_that_did_not_end_by_itself_is_untrusted_until_it_is_known_to_be_clean() {
    for way in ["stop", "interrupt"] {
        let (_dir, store) = store().await;
        let sender = Sender {
            id: "1001".to_owned(),
            name: "Ada".to_owned(),
            username: None,
        };
        let key = SessionKey(CHAT.to_owned());
        let (source, words) = (Source::Telegram, "hello".to_owned());
        let input = Envelope::new("a".to_owned(), source, sender, key.clone(), words, 10);
        let arrival = Arrival {
            digest: None,
            key: "a".to_owned(),
            verdict: Verdict::Accept(vec![input]),
        };
        store.accept(vec![arrival], None, 10).await.expect("accept");
        let ids = ["a".to_owned()];
        store.start_run("r1", &key, &ids).await.expect("start");
        ask(&store, "a", CHAT, 11, Some(Some(12))).await;
        let is_untrusted = || store.is_untrusted(route(), "ma".to_owned());
        assert_eq!(is_untrusted().await.expect("read"), Some(true), "it runs");
        if way == "stop" {
            let before = i64::MAX;
            let stop = crate::queue::Stop::Session { before, key };
            assert_eq!(store.stop(stop, 13).await.expect("stop").len(), 1);
        } else {
            store.interrupt(&ids, 13).await.expect("interrupt");
        }
        assert_eq!(is_untrusted().await.expect("read"), Some(true), "{way}");
        store.was_clean(&ids).await.expect("written");
        assert_eq!(is_untrusted().await.expect("read"), Some(false), "{way}");
    }
}

/// What is above a word that is written at `at`, or answers the message `quoted`: the ids that are undecided.
async fn above(store: &Store, quoted: Option<&str>, at: i64) -> Option<(bool, String)> {
    let word = PlainWord {
        id: "this".to_owned(),
        number: None,
        quoted: quoted.map(str::to_owned),
        at,
        received_at: at,
    };
    let found = store.question_above(word, route()).await;
    found.expect("read").map(|shown| {
        let ids = shown.requests.into_iter().map(|request| request.id);
        (shown.all_parts_delivered, ids.collect())
    })
}

#[tokio::test]
async fn a_word_is_below_a_question_only_where_that_was_the_last_that_was_sent_and_heard() {
    let is = |ids: &str| Some((true, ids.to_owned()));
    let (_dir, store) = store().await;
    assert_eq!(above(&store, None, 50_000).await, None);
    ask(&store, "old", SKILL, 1_000, Some(Some(2_000))).await;
    ask(&store, "new", CHAT, 10_000, Some(Some(12_000))).await;
    assert_eq!(
        above(&store, None, 12_999).await,
        None,
        "nobody has read it"
    );
    assert_eq!(above(&store, None, 13_000).await, is("new"));
    assert_eq!(above(&store, Some("mold"), 12_000).await, is("old"));
    assert_eq!(above(&store, Some("melse"), 12_000).await, None);
    // One that is on its way stands between, whatever becomes of it.
    ask(&store, "third", CHAT, 20_000, Some(None)).await;
    assert_eq!(above(&store, None, 50_000).await, None);
    assert_eq!(above(&store, Some("mnew"), 50_000).await, is("new"));
    // What a word of the same second decided is over, and what one decided before is not a question.
    let written = Written {
        at: 50_000,
        in_chat: true,
    };
    let decided = store.decide("new".to_owned(), Approval::Deny, None, written, 50_500);
    assert!(matches!(decided.await, Ok(Decided::Taken(_))));
    assert_eq!(above(&store, Some("mnew"), 50_000).await, is("new"));
    assert_eq!(above(&store, Some("mnew"), 51_000).await, is(""));
}

#[tokio::test]
async fn words_that_its_conversation_heard_since_stand_between_a_question_and_a_yes() {
    let (_dir, store) = store().await;
    ask(&store, "q", CHAT, 10_000, Some(Some(12_000))).await;
    for (id, key, seen) in [("a", "agent:agent:cli:dm:x", true), ("b", CHAT, false)] {
        let sender = Sender::new("1001", "owner");
        let (key, words) = (SessionKey(key.to_owned()), "wait".to_owned());
        let envelope = Envelope::new(id.to_owned(), Source::Telegram, sender, key, words, 13_000);
        let arrival = Arrival::new(id.to_owned(), Verdict::Accept(vec![envelope]));
        store
            .accept(vec![arrival], None, 13_000)
            .await
            .expect("accepted");
        assert_eq!(above(&store, None, 14_000).await.is_some(), seen, "{id}");
    }
    assert!(above(&store, Some("mq"), 14_000).await.is_some());
}

#[tokio::test]
async fn a_yes_is_for_no_question_of_which_a_part_did_not_arrive() {
    let (_dir, store) = store().await;
    let part = |words: &str, asks: Option<&str>| NewPart {
        asks: asks.map(str::to_owned),
        ..NewPart::plain(route(), words.to_owned())
    };
    let parts = vec![part("rm -rf", None), part("May I?", Some("q"))];
    let put = store.ask(vec![request("q", CHAT, "q", 1_000)], move |_| parts);
    let put = put.await.expect("asked");
    let [first, last] = put.parts.as_slice() else {
        panic!("{:?}", put.parts);
    };
    let message_id = "m2".to_owned();
    let settled = store.settle(last.id, Aftermath::Sent { message_id }, 2_000);
    settled.await.expect("settled");
    assert_eq!(
        above(&store, None, 9_000).await,
        Some((false, "q".to_owned()))
    );
    let told = says(&store, Approval::Approve, 9_000, true).await;
    assert_eq!(told, "which of q");
    let message_id = "m1".to_owned();
    let settled = store.settle(first.id, Aftermath::Sent { message_id }, 10_000);
    settled.await.expect("settled");
    assert_eq!(
        above(&store, None, 11_000).await,
        Some((true, "q".to_owned()))
    );
    assert_eq!(says(&store, Approval::Approve, 11_000, true).await, "q");
}

#[test]
fn ids_that_count_up_tell_the_order_whatever_the_clocks_say() {
    let word = |number: Option<i64>, at: i64, received_at: i64| PlainWord {
        id: "this".to_owned(),
        number,
        quoted: None,
        at,
        received_at,
    };
    for (number, at, received_at, is_after) in [
        // Our clock is twenty seconds ahead.
        (Some(12), 10_000, 32_000, true),
        (Some(10), 32_000, 32_000, false),
        (Some(12), 32_000, 30_900, false),
        (None, 10_000, 32_000, false),
        (None, 26_000, 32_000, true),
    ] {
        let word = word(number, at, received_at);
        let told = word.is_after("11", 30_000);
        assert_eq!(told, is_after, "{word:?}");
    }
}
