//! `commitment_update`: the status or the deadline of a commitment.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::{Context, ToolOutput};
use crate::memory::facts::commitments::{Change, Commitment, Status, is_deadline};
use crate::tools::typed::{About, Property, TypedTool};
use crate::tools::{Needs, blocking};
use crate::undo::Deed;

pub(super) struct CommitmentUpdate(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    #[schemars(range(min = 1))]
    id: u64,
    status: Option<NewStatus>,
    /// YYYY-MM-DD or RFC 3339; empty: none
    deadline: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum NewStatus {
    Done,
    Cancelled,
    Open,
}

impl TypedTool for CommitmentUpdate {
    type Args = Args;

    const ABOUT: About = About {
        name: "commitment_update",
        description: "Say how it stands with a commitment that memory names by its number.",
        properties: &[Property::Rare],
    };

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let (needs, context) = (self.0.clone(), context.clone());
        blocking(move || {
            let id = i64::try_from(args.id).unwrap_or(0);
            let changed = needs
                .memory
                .update_commitment(&context.viewer, id, change(&args)?);
            let changed = changed.map_err(|error| error.to_string())?;
            // A reminder may have to be moved, or to go.
            needs.memory.tell_news();
            if changed.is_some() {
                needs.note_deed(&context, Deed::Noted);
            }
            let changed = changed.ok_or_else(|| {
                format!("no commitment has the number {id} here; memory names those that are open")
            })?;
            let is_marked = needs.memory.is_untrusted(&changed.source);
            let marked = is_marked.then(|| super::of_file(&changed.source));
            Ok::<_, String>(ToolOutput::ok(described(&changed)).marked(marked))
        })
        .await
    }
}

fn change(args: &Args) -> Result<Change, String> {
    let deadline = match args.deadline.as_deref().map(str::trim) {
        None => None,
        Some("") => Some(None),
        Some(deadline) if is_deadline(deadline) => Some(Some(deadline.to_owned())),
        Some(_) => return Err(
            "`deadline` must be a day like 2026-05-31, or a moment like 2026-05-31T18:00:00+02:00"
                .to_owned(),
        ),
    };
    let status = args.status.map(|status| match status {
        NewStatus::Done => Status::Done,
        NewStatus::Cancelled => Status::Cancelled,
        NewStatus::Open => Status::Open,
    });
    let change = Change { status, deadline };
    if change == Change::default() {
        return Err("there is nothing to change: give status or deadline".to_owned());
    }
    Ok(change)
}

fn described(one: &Commitment) -> String {
    let until = one
        .deadline
        .as_ref()
        .map_or_else(String::new, |deadline| format!(" (by {deadline})"));
    format!(
        "commitment {} is {}: {}{until}",
        one.id,
        one.status.as_str(),
        one.what
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_to_change_and_a_deadline_is_a_time() {
        let of = |status: Option<NewStatus>, deadline: Option<&str>| {
            change(&Args {
                id: 1,
                status,
                deadline: deadline.map(str::to_owned),
            })
        };
        let done = Change {
            status: Some(Status::Done),
            deadline: None,
        };
        assert_eq!(of(Some(NewStatus::Done), None), Ok(done));
        for good in ["2026-05-31", "2026-05-31T18:00:00+02:00", ""] {
            let expected = Change {
                status: None,
                deadline: Some((!good.is_empty()).then(|| good.to_owned())),
            };
            assert_eq!(of(None, Some(good)), Ok(expected));
        }
        assert!(of(None, None).is_err() && of(None, Some("tomorrow")).is_err());
        assert!(of(Some(NewStatus::Done), Some("31.5.")).is_err());
    }
}
