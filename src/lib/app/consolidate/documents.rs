//! Facts, commitments, episodes and changes as JSON has them, and as lines.

use serde_json::{Value, json};

use crate::memory::facts::commitments::Commitment;
use crate::memory::facts::episodes::Episode;
use crate::memory::facts::{Change, Fact, Origin};
use crate::{clock, text};

/// Returns a fact as the contract has it.
pub(crate) fn fact(fact: &Fact) -> Value {
    let mut document = json!({
        "id": fact.id, "entity": fact.entity, "attribute": fact.attribute, "value": fact.value,
        "confidence": fact.confidence, "source": fact.source, "source_line": fact.source_line,
        "valid_from": clock::rfc3339(fact.valid_from), "valid_to": fact.valid_to.map(clock::rfc3339),
        "superseded_by": fact.superseded_by, "scope": fact.scope.to_string(),
    });
    if fact.is_forgotten {
        document["forgotten"] = json!(true);
    }
    document
}

pub(super) fn commitment(one: &Commitment) -> Value {
    json!({
        "id": one.id, "who": one.who, "what": one.what, "deadline": one.deadline, "status": one.status.as_str(),
        "source": one.source, "source_line": one.source_line, "quote": one.quote,
        "created_at": clock::rfc3339(one.created_at), "scope": one.scope.to_string(),
    })
}

pub(super) fn episode(one: &Episode) -> Value {
    json!({
        "id": one.id, "session_id": one.session_id, "date": one.date, "participants": one.participants,
        "topics": one.topics, "decisions": one.decisions, "summary": one.summary,
        "emotional_tone": one.emotional_tone, "source": one.source, "source_line": one.source_line,
        "scope": one.scope.to_string(),
    })
}

pub(crate) fn origin(one: &Origin) -> Value {
    json!({
        "path": one.path, "line": one.line, "session_id": one.session_id, "seq": one.seq, "quote": one.quote,
        "at": clock::rfc3339(one.at),
    })
}

pub(super) fn change(change: &Change) -> Value {
    match change {
        Change::New(new) => json!({"change": "new", "fact": fact(new)}),
        Change::Superseded { old, new } => {
            json!({"change": "superseded", "fact": fact(new), "old": fact(old)})
        }
        Change::Gone(gone) => json!({"change": "gone", "fact": fact(gone)}),
    }
}

pub(super) fn list<T>(all: &[T], document: fn(&T) -> Value) -> Vec<Value> {
    all.iter().map(document).collect()
}

/// Returns whose a fact is, when that is not the owner, and whom or what it is about.
pub(super) fn who(fact: &Fact) -> String {
    match fact.scope.to_string() {
        scope if scope == "owner" => fact.entity.clone(),
        scope => format!("[{scope}] {}", fact.entity),
    }
}

/// Returns a fact on a line.
pub(super) fn fact_line(fact: &Fact) -> String {
    text::visible(&format!("{} {}: {}", who(fact), fact.attribute, fact.value))
}

/// Returns a change as a line of a diff.
pub(super) fn change_line(change: &Change) -> String {
    let source = |fact: &Fact| format!("{}:{}", fact.source, fact.source_line);
    text::visible(&match change {
        Change::New(new) => format!("+ {}  ({})", fact_line(new), source(new)),
        Change::Superseded { old, new } => format!(
            "~ {} {}: {} → {}  ({})",
            who(new),
            new.attribute,
            old.value,
            new.value,
            source(new)
        ),
        Change::Gone(gone) => format!("- {}  (was in {})", fact_line(gone), source(gone)),
    })
}
