//! Requests of a server during a call: a question to the owner, or a model answer. Each goes to the code that makes the call;
//! without a running call it is refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::address::Address;
use super::elicitation::{Elicited, Form};
use super::sampling::{SampleRequest, Sampled};

/// What a server may ask in one call; more would tire the owner.
const MAX_ASKS: usize = 10;
/// Questions that a server may have open at once.
const MAX_OPEN: usize = 4;
/// Bytes of the id of a question.
const MAX_ID: usize = 256;

const ELICIT: &str = "elicitation/create";
const SAMPLE: &str = "sampling/createMessage";

/// The one who makes a call, and answers what its server asks meanwhile.
pub trait Caller: Send + Sync {
    /// Puts a question to the owner.
    fn elicit(&self, form: Form) -> BoxFuture<'_, Elicited>;

    /// Asks the owner to open an address.
    fn open(&self, address: Address) -> BoxFuture<'_, Elicited>;

    /// Has a model say something.
    ///
    /// # Errors
    /// Why not, for the server.
    fn sample(&self, request: SampleRequest) -> BoxFuture<'_, Result<Sampled, String>>;

    /// Hears how the call continues.
    fn told(&self, words: String);
}

/// Calls that run at a server, by the numbers of their requests.
#[derive(Default)]
pub(super) struct Asks {
    calls: Mutex<BTreeMap<u64, Call>>,
    /// Its questions that are open, by their ids.
    open: Mutex<BTreeMap<String, CancellationToken>>,
}

#[derive(Clone)]
struct Call {
    caller: Arc<dyn Caller>,
    /// The call has ended.
    over: CancellationToken,
    asked: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
}

/// A call that runs; when it is dropped, what its server still asks is taken back.
pub(super) struct Running<'a> {
    asks: &'a Asks,
    id: u64,
    open: Arc<AtomicUsize>,
}

impl Running<'_> {
    /// Returns whether an answer of ours is waited for: that is not the server's time.
    pub(super) fn is_asking(&self) -> bool {
        self.open.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.asks.calls.lock().remove(&self.id) {
            call.over.cancel();
        }
    }
}

/// Counts an open question.
struct Open<'a> {
    asks: &'a Asks,
    key: String,
    count: Arc<AtomicUsize>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        self.asks.open.lock().remove(&self.key);
    }
}

impl Asks {
    pub(super) fn run(&self, id: u64, caller: Arc<dyn Caller>) -> Running<'_> {
        let open = Arc::new(AtomicUsize::new(0));
        let call = Call {
            caller,
            over: CancellationToken::new(),
            asked: Arc::default(),
            open: open.clone(),
        };
        self.calls.lock().insert(id, call);
        Running {
            asks: self,
            id,
            open,
        }
    }

    /// The server does not want to know any more.
    pub(super) fn take_back(&self, id: &Value) {
        if let Some(open) = self.open.lock().get(&id.to_string()) {
            open.cancel();
        }
    }

    /// Returns the answer to what the server asks because of the call of this number, or of the newest; `None` when
    /// nobody wants it any more.
    pub(super) async fn answer(
        &self,
        call: Option<u64>,
        (id, method, params): (&Value, &str, &Value),
    ) -> Option<Value> {
        let refuse = |code: i64, why: &str| {
            let error = json!({"code": code, "message": why});
            Some(json!({"jsonrpc": "2.0", "id": id, "error": error}))
        };
        let found = {
            let calls = self.calls.lock();
            let found = match call {
                Some(call) => calls.get(&call),
                None => calls.values().next_back(),
            };
            found.cloned()
        };
        let Some(call) = found else {
            return match method {
                ELICIT => Some(answered(id, &Elicited::Cancel.result())),
                _ => refuse(-1, "there is no call under way, so there is nobody to ask"),
            };
        };
        let key = id.to_string();
        let (mine, is_full) = {
            let mut open = self.open.lock();
            let is_full = open.len() >= MAX_OPEN || open.contains_key(&key) || key.len() > MAX_ID;
            let mine = CancellationToken::new();
            if !is_full {
                open.insert(key.clone(), mine.clone());
            }
            (mine, is_full)
        };
        if is_full {
            return refuse(-32000, "it asks too much at once");
        }
        call.open.fetch_add(1, Ordering::SeqCst);
        let _open = Open {
            asks: self,
            key,
            count: call.open.clone(),
        };
        if call.asked.fetch_add(1, Ordering::SeqCst) >= MAX_ASKS {
            return refuse(-32000, "it asks too often in one call");
        }
        let work = async {
            match method {
                ELICIT if params["mode"] == "url" => match Address::read(params) {
                    Ok(address) => Ok(call.caller.open(address).await.result()),
                    Err(why) => Err((-32602, why)),
                },
                ELICIT => match Form::read(params) {
                    Ok(form) => Ok(call.caller.elicit(form).await.result()),
                    Err(why) => Err((-32602, why)),
                },
                SAMPLE => match SampleRequest::read(params) {
                    Ok(request) => {
                        let sampled = call.caller.sample(request).await;
                        sampled
                            .map(|sampled| sampled.result())
                            .map_err(|why| (-1, why))
                    }
                    Err(why) => Err((-32602, why)),
                },
                _ => Err((-32601, "not offered by this client".to_owned())),
            }
        };
        tokio::select! {
            biased;
            () = call.over.cancelled() => None,
            () = mine.cancelled() => None,
            done = work => match done {
                Ok(result) => Some(answered(id, &result)),
                Err((code, why)) => refuse(code, &why),
            },
        }
    }
}

fn answered(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says yes to everything; to `slow` never.
    struct Yes;

    impl Caller for Yes {
        fn elicit(&self, form: Form) -> BoxFuture<'_, Elicited> {
            Box::pin(async move {
                if form.text("s").contains("slow") {
                    std::future::pending::<()>().await;
                }
                Elicited::Accept(serde_json::Map::new())
            })
        }

        fn open(&self, _: Address) -> BoxFuture<'_, Elicited> {
            Box::pin(async { Elicited::Opened })
        }

        fn sample(&self, _: SampleRequest) -> BoxFuture<'_, Result<Sampled, String>> {
            Box::pin(async { Err("no".to_owned()) })
        }

        fn told(&self, _: String) {}
    }

    fn ask(message: &str) -> Value {
        json!({"message": message})
    }

    #[tokio::test]
    async fn a_question_goes_to_the_call_and_without_one_to_nobody() {
        let asks = Asks::default();
        let id = json!("q");
        let none = asks
            .answer(None, (&id, ELICIT, &ask("a")))
            .await
            .expect("an answer");
        assert_eq!(none["result"]["action"], "cancel");
        let none = asks
            .answer(None, (&id, SAMPLE, &ask("a")))
            .await
            .expect("an answer");
        assert_eq!(none["error"]["code"], -1);
        let running = asks.run(7, Arc::new(Yes));
        let yes = asks
            .answer(Some(7), (&id, ELICIT, &ask("a")))
            .await
            .expect("an answer");
        assert_eq!(
            (&yes["id"], &yes["result"]["action"]),
            (&id, &json!("accept"))
        );
        let other = asks
            .answer(Some(8), (&id, ELICIT, &ask("a")))
            .await
            .expect("an answer");
        assert_eq!(other["result"]["action"], "cancel");
        drop(running);
        let over = asks
            .answer(Some(7), (&id, ELICIT, &ask("a")))
            .await
            .expect("an answer");
        assert_eq!(over["result"]["action"], "cancel");
    }

    #[tokio::test]
    async fn who_asks_without_end_is_told_so_and_what_is_taken_back_has_no_answer() {
        let asks = Arc::new(Asks::default());
        let running = asks.run(1, Arc::new(Yes));
        let slow = |id: u64| {
            let asks = asks.clone();
            tokio::spawn(async move { asks.answer(None, (&json!(id), ELICIT, &ask("slow"))).await })
        };
        let first = slow(1);
        while !running.is_asking() {
            tokio::task::yield_now().await;
        }
        let same = asks
            .answer(None, (&json!(1), ELICIT, &ask("a")))
            .await
            .expect("an answer");
        assert_eq!(same["error"]["message"], "it asks too much at once");
        asks.take_back(&json!(1));
        assert_eq!(first.await.expect("no panic"), None);
        assert!(!running.is_asking());
        for n in 2..=10 {
            let answer = asks
                .answer(None, (&json!(n), ELICIT, &ask("a")))
                .await
                .expect("an answer");
            assert_eq!(answer["result"]["action"], "accept", "{n}");
        }
        let more = asks
            .answer(None, (&json!(11), ELICIT, &ask("a")))
            .await
            .expect("an answer");
        assert_eq!(more["error"]["message"], "it asks too often in one call");
        drop(running);
        let running = asks.run(2, Arc::new(Yes));
        let last = slow(12);
        while !running.is_asking() {
            tokio::task::yield_now().await;
        }
        drop(running);
        assert_eq!(last.await.expect("no panic"), None);
    }
}
