//! Opens the embedder that `[memory.embeddings]` names: `local` is the table that ships with the project, `none` is
//! keyword search only, any other name a loaded provider.

use parking_lot::Mutex;
use std::path::Path;
use std::sync::{Arc, Weak};

use crate::auth::{Keys, ProviderKey};
use crate::config;
use crate::config::{Embeddings, Environment, Home};
use crate::cost::{EmbeddingMeter, Ledger};
use crate::embedding::static_table;
use crate::embedding::static_table::Table;
use crate::embedding::{Embedder, Error, Opener};
use crate::net;
use crate::provider::Key;
use crate::provider::embeddings::Remote;

/// Returns what opens the embedder of `home` as its settings are then. The table is shared while anybody has it. Calls
/// to a server are booked in `ledger`; without one cost.db is opened with the first call.
pub fn opener(home: &Home, env: &Environment, ledger: Option<Ledger>) -> Opener {
    let (home, env) = (home.clone(), env.clone());
    let open_table: Mutex<Weak<static_table::Shared>> = Mutex::default();
    Arc::new(move || {
        let config =
            config::load_config(&home, &env).map_err(|error| Error::Unusable(error.to_string()))?;
        let settings = &config.memory.embeddings;
        let mut open_table = open_table.lock();
        if settings == &Embeddings::default()
            && let Some(table) = open_table.upgrade()
        {
            return Ok(Some(Embedder::Table(Table::of(table))));
        }
        let opened = of_home(&home, &env, settings, ledger.clone())?;
        if let Some(Embedder::Table(table)) = &opened {
            *open_table = Arc::downgrade(table.shared());
        }
        Ok(opened)
    })
}

/// Returns the embedder of `settings`; `None` for `none`. Provider files and keys are read only for a server, and
/// nothing is sent yet.
///
/// # Errors
/// [`Error::Unusable`], which names the setting or the file: keyword search still works.
fn of_home(
    home: &Home,
    env: &Environment,
    settings: &Embeddings,
    ledger: Option<Ledger>,
) -> Result<Option<Embedder>, Error> {
    let embedder = match settings.server() {
        None if settings.provider == "none" => return Ok(None),
        None => Embedder::Table(shipped(config::share_dir(env).as_deref(), settings.dims)?),
        Some(name) => {
            let unusable =
                |error: config::Error| Error::Unusable(format!("{error}; {}", error.hint()));
            let models = config::load(home, env, &[]).map_err(unusable)?.models;
            let keys = Arc::new(Keys::open(home, env).map_err(unusable)?);
            let provider = models.provider(name).ok_or_else(|| {
                Error::Unusable(format!(
                    "`[memory.embeddings] provider` is `{name}`, and no loaded provider is called so"
                ))
            })?;
            let meter = |id: &str| {
                Box::new(EmbeddingMeter::new(
                    home, env, ledger, &models, provider, id,
                )) as Box<_>
            };
            // A client of its own, for the issuer of tokens too: see `Remote::new`.
            let client = net::client().map_err(|error| {
                Error::Unusable(format!("TLS cannot be set up: {}", error.without_url()))
            })?;
            let key = Key::From(Arc::new(ProviderKey::new(
                keys,
                provider.clone(),
                client.clone(),
            )));
            Embedder::Model(Box::new(Remote::new(
                client,
                provider,
                key,
                &settings.model,
                settings.dims,
                meter,
            )?))
        }
    };
    Ok(Some(embedder))
}

fn shipped(share: Option<&Path>, dims: u32) -> Result<Table, Error> {
    let share = share.ok_or_else(|| {
        Error::Unusable(format!(
            "{} is not found: no files came with the programs; AGENT_SHARE=DIR says where they lie, and \
             `[memory.embeddings] provider = \"none\"` does without",
            static_table::FILE
        ))
    })?;
    let table = Table::open(&share.join(static_table::FILE))?;
    if dims != 0 && usize::try_from(dims) != Ok(table.dims()) {
        return Err(Error::Unusable(format!(
            "`[memory.embeddings] dims` is {dims}, and a vector of the table has {} numbers: write 0 there",
            table.dims()
        )));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::embedding::Kind;
    use crate::sys::atomic;
    use crate::sys::atomic::Durability;

    /// A home with this agent.toml, and a server of vectors that has no model for conversations.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new(settings: &str) -> Self {
            let place = Self(tempfile::tempdir().expect("dir"));
            for below in ["providers.d", "state"] {
                std::fs::create_dir_all(place.0.path().join(below)).expect("dir");
            }
            place.put(
                "agent.toml",
                &format!("[providers]\nload = [\"offline\", \"vec\"]\n{settings}"),
            );
            let file = "type = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\n\
                        [models.vectors]\nmodel = \"bge-m3\"\ncost_per_mtok = [0.02, 0, 0]\n";
            place.put(
                "providers.d/vec.toml",
                &format!("{file}[models.primary]\nmodel = \"m\"\n"),
            );
            place
        }

        fn put(&self, path: &str, text: &str) {
            atomic::write(
                &self.0.path().join(path),
                text.as_bytes(),
                Durability::Rename,
            )
            .expect("write");
        }

        fn open(&self) -> Result<Option<Embedder>, Error> {
            let home = Home::at(self.0.path());
            let share = self.0.path().join("share").display().to_string();
            let env = Environment::of(&[("AGENT_SHARE", share.as_str())]);
            let config = config::load_config(&home, &env).expect("config");
            of_home(&home, &env, &config.memory.embeddings, None)
        }

        fn refused(&self) -> String {
            match self.open() {
                Err(Error::Unusable(said)) => {
                    said.replace(&format!("{}/", self.0.path().display()), "")
                }
                other => panic!("{}", other.is_ok()),
            }
        }
    }

    fn with(settings: &str) -> Place {
        Place::new(&format!("[memory.embeddings]\n{settings}"))
    }

    #[test]
    fn nothing_is_embedded_where_the_settings_say_none() {
        assert!(
            with("provider = \"none\"")
                .open()
                .expect("settings")
                .is_none()
        );
    }

    #[test]
    fn the_table_is_the_default_and_is_read_without_providers_or_keys() {
        let place = Place::new("");
        assert_eq!(
            place.refused(),
            "share/embeddings/table.bin: No such file or directory (os error 2)"
        );
        let file = place.0.path().join("share").join(static_table::FILE);
        std::fs::create_dir_all(file.parent().expect("parent")).expect("dir");
        atomic::write(&file, &static_table::tests::small(), Durability::Rename).expect("write");
        place.put("providers.d/vec.toml", "no TOML");
        let mut embedder = place.open().expect("table").expect("some");
        let Embedder::Table(table) = &mut embedder else {
            panic!("no table")
        };
        assert!(table.word("cat").is_some());
        place.put("agent.toml", "[memory.embeddings]\ndims = 3\n");
        assert_eq!(
            place.refused(),
            "`[memory.embeddings] dims` is 3, and a vector of the table has 2 numbers: write 0 there"
        );
    }

    #[test]
    fn a_server_is_ready_without_being_asked_and_its_price_is_that_of_the_model() {
        let cost = |settings: &str| {
            let Some(Embedder::Model(model)) = with(settings).open().expect("remote") else {
                panic!("a server")
            };
            (model.name().to_owned(), model.cost_usd(&["four"]))
        };
        let (name, usd) = cost("provider = \"vec\"\nmodel = \"bge-m3\"\ndims = 8");
        assert_eq!(name, "vec/bge-m3/8");
        assert!(
            usd.is_some_and(|usd| (usd - 2.0 * 0.02 / 1e6).abs() < 1e-15),
            "{usd:?}"
        );
        assert_eq!(
            cost("provider = \"vec\""),
            ("vec/text-embedding-3-small/0".to_owned(), None)
        );
    }

    #[test]
    fn a_key_that_is_missing_is_said_with_the_command_before_anything_is_sent() {
        let place = with("provider = \"vec\"\nmodel = \"bge-m3\"");
        let file = "type = \"openai\"\nbase_url = \"http://127.0.0.1:9\"\napi_key_env = \"VEC_KEY\"\n[models.primary]\nmodel = \"m\"\n";
        place.put("providers.d/vec.toml", file);
        let Some(Embedder::Model(mut model)) = place.open().expect("remote") else {
            panic!("a server")
        };
        let error = model.embed(Kind::Passage, &["a"]).expect_err("no key");
        assert!(
            matches!(&error, Error::Unusable(said) if said.contains("run: agent-daemon login vec")),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_with_the_providers_is_said_with_the_next_step() {
        let says = with("provider = \"gone\"").refused();
        assert!(
            says.contains("no loaded provider is called `gone`")
                && says.contains("`providers.load`"),
            "{says}"
        );
    }
}
