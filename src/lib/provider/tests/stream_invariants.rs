//! Invariants for any stream of any vendor.

use std::sync::Arc;

use crate::config::Ttl;
use crate::net::Timeouts;
use crate::net::sse::Events;
use crate::provider::Request;
use crate::provider::anthropic::MessageAnswer;
use crate::provider::gemini::Candidate;
use crate::provider::http::Answer;
use crate::provider::openai::Completion;

/// Reads bytes as a stream in pieces, as long as the first byte says, for each vendor.
pub(crate) async fn check_events(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else {
        return;
    };
    check::<MessageAnswer>(usize::from(*size) + 1, bytes).await;
    check::<Candidate>(usize::from(*size) + 1, bytes).await;
    check::<Completion>(usize::from(*size) + 1, bytes).await;
}

async fn check<A: Answer>(size: usize, bytes: &[u8]) {
    let pieces = bytes.chunks(size).map(Ok::<_, std::io::Error>);
    let mut events = Events::new(futures_util::stream::iter(pieces), Timeouts::default());
    let mut answer = A::default();
    while let Ok(Some(data)) = events.next().await {
        if answer.event(&data, &|_| {}).is_err() {
            break;
        }
    }
    if let Ok(value) = serde_json::from_slice(bytes) {
        // It may make no sense.
        let _ = A::default().whole(&value, &|_| {});
    }
    let request = Request {
        model: "a-model".to_owned(),
        max_tokens: 100,
        system: Vec::new(),
        tools: Arc::new([]),
        may_call: true,
        messages: [].into(),
        cache: false,
        cache_ttl: [Ttl::default(); 3],
        thinking: false,
        begin_within: None,
        schema: None,
    };
    let response = answer
        .into_received()
        .finish(A::PROTOCOL, &request, b"null");
    let _ = crate::provider::repair(vec![response.message]);
}
