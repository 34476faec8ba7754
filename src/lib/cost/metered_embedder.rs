//! Embeddings paid by the token: the reservation before each request and the settlement after it, in any process.

use std::sync::Arc;
use std::time::Instant;

use super::caps::Refusal;
use super::ledger::{Kind, Ledger, NewCall, Outcome, Reserved};
use super::rates;
use super::rates::usd;
use crate::clock;
use crate::config;
use crate::config::{Environment, Home, Loaded, Model, Models, Provider};
use crate::message::Usage;
use crate::provider;
use crate::provider::{BoxFuture, embeddings};

/// Where the requests of one model are paid.
pub struct EmbeddingMeter {
    home: Home,
    env: Environment,
    /// `None` until something is paid: a run that pays nothing does not open it.
    ledger: Option<Ledger>,
    provider: Arc<Provider>,
    /// The vendor's id of the model.
    id: String,
    /// What its provider's file says of it; `None` = nothing, so it has no price.
    model: Option<Arc<Model>>,
    /// The request that is under way.
    open: Option<Open>,
    spent: i64,
}

struct Open {
    reserved: Reserved,
    began: Instant,
    bound: Option<i64>,
}

impl EmbeddingMeter {
    /// Returns the meter for the model `id` of `provider`, a loaded one of `home`. `ledger` is that of this process, if it
    /// has one.
    pub fn new(
        home: &Home,
        env: &Environment,
        ledger: Option<Ledger>,
        models: &Models,
        provider: &Arc<Provider>,
        id: &str,
    ) -> Self {
        let (home, env, provider, id) =
            (home.clone(), env.clone(), provider.clone(), id.to_owned());
        let model = model(models, &provider, &id);
        Self {
            home,
            env,
            ledger,
            provider,
            id,
            model,
            open: None,
            spent: 0,
        }
    }

    fn price(&self, tokens: u64) -> Option<i64> {
        rates::of_vectors(self.model.as_deref()?, tokens)
    }

    async fn open(&mut self, kind: crate::embedding::Kind, most_tokens: u64) -> Result<(), String> {
        // As the settings are now: a process may stay for weeks, and a limit or a price that was changed holds at once.
        let Loaded { config, models, .. } =
            config::load(&self.home, &self.env, &[]).map_err(|error| error.to_string())?;
        self.model = model(&models, &self.provider, &self.id);
        let bound = self.price(most_tokens);
        let failed = |error| format!("the cost ledger cannot be written: {error}");
        let ledger = match &self.ledger {
            Some(ledger) => ledger,
            None => {
                let opened =
                    Ledger::start(&self.home.cost_db(), config.agent.timezone.0).map_err(failed)?;
                self.ledger.insert(opened)
            }
        };
        let call = NewCall {
            call_id: uuid::Uuid::now_v7().to_string(),
            run_id: String::new(),
            session_id: String::new(),
            source: match kind {
                crate::embedding::Kind::Question => "search",
                crate::embedding::Kind::Passage => "index",
            },
            provider: self.provider.name.clone(),
            model: self
                .model
                .as_ref()
                .map_or_else(|| self.id.clone(), |model| model.name.clone()),
            kind: Kind::Embedding,
            bound,
            budget_usd: None,
            share_usd: None,
            of_others: false,
        };
        let reserved = ledger
            .reserve(call, &config.cost, clock::now_ms())
            .await
            .map_err(failed)?;
        let reserved = reserved.map_err(|refusal| self.told(&refusal))?;
        self.open = Some(Open {
            reserved,
            began: Instant::now(),
            bound,
        });
        Ok(())
    }

    /// Says a refusal, and where a price that is missing belongs.
    fn told(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::Cap { .. } => refusal.to_string(),
            Refusal::Unpriced { .. } => {
                let file = self
                    .provider
                    .file
                    .as_ref()
                    .map(|file| format!(" in {}", file.display()))
                    .unwrap_or_default();
                format!(
                    "{refusal}; its place is a [models.NAME] with model = {:?}{file}",
                    self.id
                )
            }
        }
    }

    async fn close(&mut self, ended: Result<Usage, &provider::Error>) {
        let (
            Some(Open {
                reserved,
                began,
                bound,
            }),
            Some(ledger),
        ) = (self.open.take(), &self.ledger)
        else {
            return;
        };
        let (outcome, cost) = match ended {
            Ok(usage) => {
                let cost = self.price(usage.input_tokens);
                (Outcome::Answered { usage, cost }, cost)
            }
            Err(error) if error.may_be_charged() => (Outcome::Unknown, bound),
            Err(_) => (Outcome::Free, None),
        };
        self.spent = self.spent.saturating_add(cost.unwrap_or(0));
        ledger.close(reserved, outcome, began.elapsed()).await;
    }
}

impl embeddings::Meter for EmbeddingMeter {
    fn cost_usd(&self, tokens: u64) -> Option<f64> {
        self.price(tokens).map(usd)
    }

    fn spent_usd(&self) -> f64 {
        usd(self.spent)
    }

    fn reserve(
        &mut self,
        kind: crate::embedding::Kind,
        most_tokens: u64,
    ) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.open(kind, most_tokens))
    }

    fn settle<'a>(&'a mut self, ended: Result<Usage, &'a provider::Error>) -> BoxFuture<'a, ()> {
        Box::pin(self.close(ended))
    }
}

/// Returns the model whose id at `provider` is `id`: the one with a price, if several have it.
fn model(models: &Models, provider: &Provider, id: &str) -> Option<Arc<Model>> {
    let bare = |id: &str| id.strip_prefix("models/").unwrap_or(id).to_owned();
    let named = || {
        models
            .all()
            .filter(|model| model.provider.name == provider.name && bare(&model.model) == bare(id))
    };
    named()
        .find(|model| rates::of_vectors(model, 0).is_some())
        .or_else(|| named().next())
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cost::by_model;
    use crate::db;
    use crate::embedding::Kind::{Passage, Question};
    use crate::provider::embeddings::Meter as _;
    use crate::sys::atomic;
    use crate::sys::atomic::Durability;

    /// A home whose server of vectors has one model, and these settings.
    struct House {
        dir: tempfile::TempDir,
        home: Home,
    }

    impl House {
        fn new(caps: &str, price: &str) -> Self {
            let dir = tempfile::tempdir().expect("dir");
            for below in ["providers.d", "state"] {
                std::fs::create_dir_all(dir.path().join(below)).expect("dir");
            }
            let house = Self {
                home: Home::at(dir.path()),
                dir,
            };
            house.cap(caps);
            house.price(price);
            house
        }

        fn put(&self, path: &str, text: &str) {
            atomic::write(
                &self.dir.path().join(path),
                text.as_bytes(),
                Durability::Rename,
            )
            .expect("write");
        }

        fn cap(&self, caps: &str) {
            self.put(
                "agent.toml",
                &format!("[providers]\nload = [\"offline\", \"vec\"]\n[cost]\n{caps}\n"),
            );
        }

        fn price(&self, price: &str) {
            let models = format!(
                "[models.vectors]\nmodel = \"bge-m3\"\n{price}\n[models.primary]\nmodel = \"m\"\n"
            );
            self.put(
                "providers.d/vec.toml",
                &format!("type = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n{models}"),
            );
        }

        /// The meter of a process of its own.
        fn meter(&self, id: &str) -> EmbeddingMeter {
            let env = Environment::of(&[]);
            let models = config::load(&self.home, &env, &[])
                .expect("settings")
                .models;
            EmbeddingMeter::new(
                &self.home,
                &env,
                None,
                &models,
                models.provider("vec").expect("loaded"),
                id,
            )
        }

        fn rows(&self) -> Vec<String> {
            let connection = db::open_read(&self.home.cost_db())
                .expect("open")
                .expect("ledger");
            let mut query = connection
                .prepare(
                    "SELECT concat_ws(' ', source, provider, model, kind, input_tokens, coalesce(cost_nano_usd, 'unpriced'),
                       coalesce(ok, '-'), estimated) FROM costs ORDER BY call_id",
                )
                .expect("query");
            let rows = query.query_map([], |row| row.get(0)).expect("rows");
            rows.collect::<Result<_, _>>().expect("rows")
        }
    }

    fn usage(tokens: u64, estimated: bool) -> Usage {
        Usage {
            input_tokens: tokens,
            estimated,
            ..Usage::default()
        }
    }

    const PRICE: &str = "cost_per_mtok = [2.0, 0, 0]";

    #[tokio::test]
    async fn a_request_is_set_aside_at_its_bytes_and_booked_as_it_ended() {
        let house = House::new("day_usd = 1.0", PRICE);
        let mut meter = house.meter("bge-m3");
        assert_eq!(meter.cost_usd(500), Some(0.001));
        assert!(!house.home.cost_db().exists(), "nothing was paid yet");
        meter.reserve(Passage, 1000).await.expect("money");
        assert_eq!(house.rows(), ["index vec vectors embedding 0 2000000 - 1"]);
        meter.settle(Ok(usage(250, false))).await;
        meter.reserve(Question, 100).await.expect("money");
        meter.settle(Ok(usage(30, true))).await;
        for again in [true, false] {
            meter.reserve(Passage, 10).await.expect("money");
            let (host, reason) = ("h".to_owned(), "r".to_owned());
            let error = match again {
                true => provider::Error::Interrupted {
                    host,
                    reason,
                    again,
                },
                false => provider::Error::Unreachable { host, reason },
            };
            meter.settle(Err(&error)).await;
        }
        let booked = [
            "index vec vectors embedding 250 500000 1 0",
            "search vec vectors embedding 30 60000 1 1",
            "index vec vectors embedding 0 20000 0 1",
            "index vec vectors embedding 0 0 0 0",
        ];
        assert_eq!(house.rows(), booked);
        assert!(
            (meter.spent_usd() - 0.000_58).abs() < 1e-12,
            "{}",
            meter.spent_usd()
        );
        let lines = by_model(&house.home.cost_db(), 0, i64::MAX).expect("report");
        assert_eq!(
            (
                lines[0].input_tokens,
                lines[0].all_input_tokens(),
                lines[0].cache_read_ratio()
            ),
            (280, 0, None)
        );
    }

    #[tokio::test]
    async fn a_limit_that_is_changed_holds_for_the_next_request_and_is_named_with_its_value() {
        let house = House::new("day_usd = 0.0", PRICE);
        let mut meter = house.meter("bge-m3");
        meter.reserve(Passage, 1000).await.expect("no limit");
        meter.settle(Ok(usage(1000, false))).await;
        house.cap("month_usd = 0.0025");
        let why = meter.reserve(Passage, 1000).await.expect_err("refused");
        let says = "the month limit is reached: [cost] month_usd = 0.0025 in agent.toml, spent or reserved 0.002, \
                    this call may cost up to 0.002 (US dollars)";
        assert_eq!(why, says);
        meter.reserve(Passage, 250).await.expect("so much is left");
        house.cap("message_usd = 0.000001");
        meter
            .reserve(Passage, 1000)
            .await
            .expect("it belongs to no message");
        house.cap("day_usd = 1.0\n[nonsense");
        assert!(
            meter
                .reserve(Passage, 1)
                .await
                .expect_err("no settings")
                .contains("agent.toml")
        );
    }

    #[tokio::test]
    async fn a_model_without_a_price_is_refused_under_a_limit_until_its_line_is_written() {
        let house = House::new("day_usd = 0.0", "");
        let mut meter = house.meter("bge-m3");
        assert_eq!(meter.cost_usd(1), None);
        meter.reserve(Passage, 9).await.expect("no limit");
        meter.settle(Ok(usage(3, false))).await;
        assert_eq!(house.rows(), ["index vec vectors embedding 3 unpriced 1 0"]);
        house.cap("message_usd = 1.0");
        let file = house
            .home
            .providers_dir()
            .join("vec.toml")
            .display()
            .to_string();
        for (id, name) in [("bge-m3", "vectors"), ("models/other", "models/other")] {
            let why = house
                .meter(id)
                .reserve(Passage, 9)
                .await
                .expect_err("refused");
            let says = format!(
                "the model {name} has no price, so no limit can be enforced; set its price, or for a free model: \
                 cost_per_mtok = [0, 0, 0, 0]; its place is a [models.NAME] with model = {id:?} in {file}"
            );
            assert_eq!(why, says);
        }
        for price in ["cost_per_mtok = [0, 0, 0, 0]", "cost_per_request = 0.5"] {
            house.price(price);
            meter.reserve(Passage, 9).await.expect("a price");
        }
        assert_eq!(
            house.rows()[1..],
            [
                "index vec vectors embedding 0 0 - 1",
                "index vec vectors embedding 0 500000000 - 1"
            ]
        );
    }

    #[test]
    fn processes_side_by_side_never_exceed_a_limit_together() {
        // Of ten each wants 7 of 50 micro dollars, three times: seven have it, and none more.
        let house = House::new("day_usd = 0.00005", "cost_per_mtok = [7.0, 0, 0]");
        let pay = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .build()
                .expect("runtime");
            let mut meter = house.meter("bge-m3");
            (0..3)
                .filter(|_| runtime.block_on(meter.reserve(Passage, 1)).is_ok())
                .count()
        };
        let paid: usize = std::thread::scope(|scope| {
            let payers: Vec<_> = (0..10).map(|_| scope.spawn(pay)).collect();
            payers
                .into_iter()
                .map(|payer| payer.join().expect("no panic"))
                .sum()
        });
        let spent: i64 = by_model(&house.home.cost_db(), 0, i64::MAX)
            .expect("report")
            .iter()
            .map(|line| line.cost_nano_usd)
            .sum();
        assert_eq!((paid, spent), (7, 49_000));
    }
}
