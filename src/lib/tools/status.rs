//! `session_status`: what this conversation is and what it took.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Needs, blocking};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::memory::Scope;
use crate::provider::{BoxFuture, ToolSpec};
use crate::session;
use crate::session::State;
use crate::{clock, cost};

pub(super) struct SessionStatus(pub Arc<Needs>);

impl Tool for SessionStatus {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "session_status".into(),
            description: "Show this conversation's model, size, cost and the time.".into(),
            schema: json!({"type": "object", "properties": {}}),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn is_rare(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Free
    }

    fn run<'a>(&'a self, _input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (needs, id) = (self.0.clone(), context.session_id.clone());
        // What it costs is the owner's affair.
        let of_owner = context.viewer.may_see(&Scope::Owner);
        Box::pin(blocking(move || {
            let sessions = needs.memory.home().sessions();
            let state = session::view(&sessions, &id)
                .map_err(|error| error.to_string())?
                .unwrap_or_default();
            let window = state
                .model
                .as_deref()
                .and_then(|model| needs.windows.get(model))
                .copied();
            Ok(format!(
                "now: {}\n{}",
                clock::local_text(clock::now_ms(), needs.zone),
                describe(&state, window, of_owner)
            ))
        }))
    }
}

fn describe(state: &State, window: Option<u64>, with_cost: bool) -> String {
    let head = state.head.as_ref();
    let of = window.map_or_else(String::new, |window| format!(" of {window}"));
    let mut lines = vec![
        format!("session: {}", head.map_or("", |head| &head.session_id)),
        format!("key: {}", head.map_or("", |head| &head.key)),
        format!("begun: {}", head.map_or("", |head| &head.created_at)),
        format!(
            "model: {}",
            state.model.as_deref().unwrap_or("none has answered yet")
        ),
        format!("messages: {}", state.message_count),
        format!("context: {}{of} tokens", state.context_tokens),
        format!("tokens so far: {}", state.usage.total()),
    ];
    if with_cost {
        lines.push(format!(
            "cost so far: ${:.4}",
            cost::usd(state.cost_nano_usd)
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Head;

    #[test]
    fn a_status_names_what_is_known() {
        let head = Head {
            session_id: "s".into(),
            key: "cli:cli".into(),
            contact: "cli".into(),
            created_at: "T".into(),
        };
        let state = State {
            head: Some(head),
            model: Some("primary".into()),
            message_count: 3,
            context_tokens: 1200,
            cost_nano_usd: 12_300_000,
            ..State::default()
        };
        let expected = "session: s\nkey: cli:cli\nbegun: T\nmodel: primary\nmessages: 3\ncontext: 1200 of 200000 tokens\n\
                        tokens so far: 0\ncost so far: $0.0123";
        assert_eq!(describe(&state, Some(200_000), true), expected);
        assert!(!describe(&state, None, false).contains("cost"));
    }
}
