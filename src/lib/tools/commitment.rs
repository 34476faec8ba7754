//! `commitment_update`: how it stands with what was promised.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Needs, blocking, number, text};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::memory::facts::commitments::{Change, Commitment, Status, is_deadline};
use crate::provider::{BoxFuture, ToolSpec};

pub(super) struct CommitmentUpdate(pub(super) Arc<Needs>);

impl Tool for CommitmentUpdate {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "commitment_update".into(),
            description: "Say how it stands with a commitment that memory names by its number."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "minimum": 1},
                    "status": {"type": "string", "enum": ["done", "cancelled", "open"]},
                    "deadline": {"type": "string", "description": "YYYY-MM-DD or RFC 3339; empty: none"}
                },
                "required": ["id"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn is_rare(&self) -> bool {
        true
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Acts
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (memory, viewer) = (self.0.memory.clone(), context.viewer.clone());
        let id = number(input, "id")
            .and_then(|id| i64::try_from(id).ok())
            .unwrap_or(0);
        let change = change(input);
        Box::pin(blocking(move || {
            let changed = memory
                .update_commitment(&viewer, id, change?)
                .map_err(|error| error.to_string())?;
            // A reminder may have to be moved, or to go.
            memory.tell_news();
            changed.as_ref().map(said).ok_or_else(|| {
                format!("no commitment has the number {id} here; memory names those that are open")
            })
        }))
    }
}

fn change(input: &Value) -> Result<Change, String> {
    let deadline = match input.get("deadline").and_then(Value::as_str).map(str::trim) {
        None => None,
        Some("") => Some(None),
        Some(deadline) if is_deadline(deadline) => Some(Some(deadline.to_owned())),
        Some(_) => return Err(
            "`deadline` must be a day like 2026-05-31, or a moment like 2026-05-31T18:00:00+02:00"
                .to_owned(),
        ),
    };
    let change = Change {
        status: Status::parse(text(input, "status")),
        deadline,
    };
    if change == Change::default() {
        return Err("there is nothing to change: give status or deadline".to_owned());
    }
    Ok(change)
}

fn said(one: &Commitment) -> String {
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
        let of = |input: Value| change(&input);
        let deadline = |text: &str| {
            Ok(Change {
                status: None,
                deadline: Some((!text.is_empty()).then(|| text.to_owned())),
            })
        };
        assert_eq!(
            of(json!({"status": "done"})),
            Ok(Change {
                status: Some(Status::Done),
                deadline: None
            })
        );
        for good in ["2026-05-31", "2026-05-31T18:00:00+02:00", ""] {
            assert_eq!(of(json!({"deadline": good})), deadline(good));
        }
        for bad in [
            json!({}),
            json!({"deadline": "tomorrow"}),
            json!({"status": "done", "deadline": "31.5."}),
        ] {
            assert!(of(bad.clone()).is_err(), "{bad}");
        }
    }
}
