//! `session_status`: what this conversation is and what it took.

use std::sync::Arc;

use super::typed::{About, NoArgs, Property, TypedTool};
use super::{Needs, blocking};
use crate::agent::{Context, Reach, ToolOutput};
use crate::memory::Scope;
use crate::session;
use crate::session::State;
use crate::{clock, cost};

pub(super) struct SessionStatus(pub(super) Arc<Needs>);

impl TypedTool for SessionStatus {
    type Args = NoArgs;

    const ABOUT: About = About {
        name: "session_status",
        description: "Show this conversation's model, size, cost and the time.",
        properties: &[Property::Anybody, Property::ReadOnly, Property::Rare],
    };

    fn reach(&self, _args: &NoArgs, _context: &Context) -> Reach {
        Reach::Free
    }

    async fn run(&self, _args: NoArgs, context: &Context) -> ToolOutput {
        let (needs, id) = (self.0.clone(), context.session_id.clone());
        // What it costs is the owner's affair.
        let of_owner = context.viewer.may_see(&Scope::Owner);
        blocking(move || {
            let state = session::view(&needs.memory.home().sessions(), &id)
                .map_err(|error| error.to_string())?
                .unwrap_or_default();
            let model = state.model.as_deref();
            let window = model.and_then(|model| needs.windows.get(model)).copied();
            let now = clock::local_text(clock::now_ms(), needs.zone);
            Ok(format!(
                "now: {now}\n{}",
                describe(&state, window, of_owner)
            ))
        })
        .await
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
