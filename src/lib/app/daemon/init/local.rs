//! Finds model servers on this machine, at their usual ports.

use std::sync::Arc;
use std::time::Duration;

use crate::auth;
use crate::config::{Provider, ProviderType};
use crate::net;

/// Where they listen by default (their documentation, read 2025-11).
const USUAL: [(&str, &str); 3] = [
    ("Ollama", "http://127.0.0.1:11434/v1"),
    ("llama-server", "http://127.0.0.1:8080/v1"),
    ("vLLM", "http://127.0.0.1:8000/v1"),
];
/// One that is there answers at once.
const LIMIT: Duration = Duration::from_millis(1500);

/// A server that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) base_url: &'static str,
    pub(super) models: Vec<String>,
}

/// Returns the servers that offer models.
pub(super) async fn find() -> Vec<Server> {
    let Ok(http) = net::client() else {
        return Vec::new();
    };
    let ask = |(name, base_url): (&'static str, &'static str)| {
        let http = http.clone();
        async move {
            let provider = provider(base_url);
            let models = auth::models(&http, &provider, None, LIMIT)
                .await
                .unwrap_or_default();
            (!models.is_empty()).then_some(Server {
                name,
                base_url,
                models,
            })
        }
    };
    let [a, b, c] = USUAL.map(ask);
    let (a, b, c) = tokio::join!(a, b, c);
    [a, b, c].into_iter().flatten().collect()
}

fn provider(base_url: &str) -> Arc<Provider> {
    Arc::new(Provider {
        name: "local".to_owned(),
        kind: ProviderType::Openai,
        base_url: base_url.to_owned(),
        api_key_env: None,
        oauth: None,
        scripts_dir: None,
        file: None,
    })
}

/// Returns the provider file of a model of that server.
pub(super) fn file(base_url: &str, model: &str) -> String {
    format!(
        "# A model on this machine, written by `agent-daemon init`. It costs nothing and needs no key.\n\
         type = \"openai\"\nbase_url = {base_url:?}\n\n[models.primary]\nmodel = {model:?}\nmax_tokens = 4096\n\
         # What the server was started with: Ollama's OLLAMA_CONTEXT_LENGTH, llama-server's --ctx-size.\n\
         context_window = 32768\ncost_per_mtok = [0, 0, 0, 0]\n\
         # For a model that sees pictures:\n#vision = true\n# For a small model that cannot call tools:\n#tools = false\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_local_model_loads_and_costs_nothing() {
        let dir = tempfile::tempdir().expect("dir");
        let home = crate::config::Home::at(dir.path());
        std::fs::create_dir_all(home.providers_dir()).expect("dir");
        let path = home.providers_dir().join("local.toml");
        let text = file("http://127.0.0.1:11434/v1", "qwen3:8b");
        let rename = crate::sys::atomic::Durability::Rename;
        crate::sys::atomic::write(&path, text.as_bytes(), rename).expect("write");
        let env = crate::config::Environment::of(&[("AGENT_PROVIDERS__LOAD", "local")]);
        let loaded = crate::config::load(&home, &env, &[]).expect("good");
        let model = loaded.models.get("primary", "test").expect("primary");
        assert_eq!(
            (model.model.as_str(), model.rates),
            ("qwen3:8b", Some([0.0; 4]))
        );
        assert_eq!(model.provider.api_key_env, None);
    }
}
