//! A fake of Gemini's API: it answers every request with the same words, as a stream, and keeps the bodies.

use std::sync::{Arc, Mutex};

use axum::{Json, Router, extract::State};
use serde_json::{Value, json};

use super::server::{Server, lock};

/// The server; dropping it closes the port.
pub(crate) struct FakeGemini {
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    words: String,
    bodies: Mutex<Vec<Value>>,
}

impl FakeGemini {
    /// Starts one that says `words`.
    pub(crate) fn saying(words: &str) -> Self {
        let shared = Arc::new(Shared {
            words: words.to_owned(),
            bodies: Mutex::default(),
        });
        let routes = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        Self {
            server: Server::start("fake-gemini", routes),
            shared,
        }
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        self.server.url().to_owned()
    }

    /// Returns the bodies of all requests, the oldest first.
    pub(crate) fn requests(&self) -> Vec<Value> {
        lock(&self.shared.bodies).clone()
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    Json(body): Json<Value>,
) -> ([(&'static str, &'static str); 1], String) {
    lock(&shared.bodies).push(body);
    let event = json!({
        "candidates": [{
            "content": {"role": "model", "parts": [{"text": shared.words}]},
            "finishReason": "STOP",
        }],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18},
    });
    (
        [("content-type", "text/event-stream")],
        format!("data: {event}\n\n"),
    )
}
