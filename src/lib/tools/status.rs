//! `session_status`: the state and the cost of this conversation.

use std::sync::Arc;

use super::typed::{About, NoArgs, Property, TypedTool};
use super::{Needs, blocking};
use crate::agent::{Context, Reach, ToolOutput};
use crate::memory::Scope;
use crate::message::SessionKey;
use crate::session;
use crate::{clock, cost, monitor_state, text};

pub(super) struct SessionStatus(pub(super) Arc<Needs>);

impl TypedTool for SessionStatus {
    type Args = NoArgs;

    const ABOUT: About = About {
        name: "session_status",
        description: "Show this conversation's model, size, cost, the time, uptime and today's cost.",
        properties: &[Property::Anybody, Property::ReadOnly, Property::Rare],
    };

    fn reach(&self, _args: &NoArgs, _context: &Context) -> Reach {
        Reach::Free
    }

    async fn run(&self, _args: NoArgs, context: &Context) -> ToolOutput {
        let needs = self.0.clone();
        let (key, entry) = (context.conversation.clone(), context.session.clone());
        // How long it runs and what it costs is the owner's affair.
        let of_owner = context.viewer.may_see(&Scope::Owner);
        blocking(move || {
            let model = entry.model.as_deref();
            let window = model.and_then(|model| needs.windows.get(model)).copied();
            let now = clock::now_ms();
            let mut lines = vec![format!("now: {}", clock::local_text(now, needs.zone))];
            let home = needs.memory.home();
            if of_owner {
                let daemon = monitor_state::read(&home.monitor()).ok().flatten();
                let started = daemon.and_then(|daemon| clock::parse_rfc3339(&daemon.started_at));
                lines.extend(started.map(|at| format!("uptime: {}", text::span(now - at))));
                let since = cost::start_of_day(now, needs.zone);
                let spent = cost::by_model(&home.cost_db(), since, now)
                    .map_err(|error| error.to_string())?;
                lines.push(format!("cost today: ${:.4}", cost::total_usd(&spent)));
            }
            lines.push(describe(&key, &entry, window, of_owner));
            Ok(lines.join("\n"))
        })
        .await
    }
}

fn describe(
    key: &SessionKey,
    entry: &session::IndexEntry,
    window: Option<u64>,
    with_cost: bool,
) -> String {
    let of = window.map_or_else(String::new, |window| {
        let left = window.saturating_sub(entry.context_tokens);
        let percent = left.saturating_mul(100) / window.max(1);
        format!(" of {window}, {left} left ({percent} %)")
    });
    let mut lines = vec![
        format!("session: {}", entry.session_id),
        format!("key: {}", key.0),
        format!("begun: {}", entry.created_at),
        format!(
            "model: {}",
            entry.model.as_deref().unwrap_or("none has answered yet")
        ),
        format!("messages: {}", entry.message_count),
        format!("context tokens: {}{of}", entry.context_tokens),
        format!("tokens so far: {}", entry.token_count),
    ];
    if with_cost {
        lines.push(format!(
            "cost so far: ${:.4}",
            cost::usd(entry.cost_nano_usd)
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_left_of_the_context() {
        let entry = session::IndexEntry {
            context_tokens: 50_000,
            ..Default::default()
        };
        let key = SessionKey("cli:ada".to_owned());
        let told = describe(&key, &entry, Some(200_000), false);
        assert!(
            told.contains("context tokens: 50000 of 200000, 150000 left (75 %)"),
            "{told}"
        );
        assert!(!told.contains("cost"), "{told}");
    }
}
