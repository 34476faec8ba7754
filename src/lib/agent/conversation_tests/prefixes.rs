//! Whatever is left of a transcript, the next request is one that every vendor takes.

use proptest::prelude::*;
use serde_json::json;

use crate::message::{
    Block, Message, Role, StopReason, Thinking, ToolCall, ToolResult, Trust, Usage,
};
use crate::provider::{Request, SystemBlock, Tier, ToolSpec, repair, vendor_rules};
use crate::session::{Compaction, Event, Kind, Position, Spoken, State, SummaryBy};

/// A piece of a conversation; what it refers to is settled when the transcript is made.
#[derive(Debug, Clone)]
enum Piece {
    /// Somebody speaks: words, and whether a picture is with them.
    Turn(String, bool),
    /// The model speaks, with so many calls, of which so many are answered.
    Step {
        words: String,
        calls: usize,
        answered: usize,
        thinks: bool,
        twins: bool,
    },
    /// A word of ours.
    Aside,
    /// A turn ends badly; whether it is forgotten.
    Error(bool),
    /// The older part is summarized: how much of it stays, whether the question does, whether blocks are cut.
    Compaction(usize, bool, bool),
    Pin,
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n\t".to_owned()),
        "[a-zé⟦{\"]{1,40}",
        Just("x".repeat(900))
    ]
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        3 => (words(), any::<bool>()).prop_map(|(words, picture)| Piece::Turn(words, picture)),
        6 => (words(), 0..4_usize, 0..4_usize, any::<bool>(), any::<bool>())
            .prop_map(|(words, calls, answered, thinks, twins)| Piece::Step { words, calls, answered, thinks, twins }),
        1 => Just(Piece::Aside),
        1 => any::<bool>().prop_map(Piece::Error),
        1 => (0..12_usize, any::<bool>(), any::<bool>()).prop_map(|(kept, question, cut)| Piece::Compaction(kept, question, cut)),
        1 => Just(Piece::Pin),
    ]
}

/// Ids and names as models invent them; of `twins` two calls have the same.
fn call(number: usize, twins: bool) -> ToolCall {
    let names = ["exec", "", "functions.exec", "a name with spaces", "读"];
    let inputs = [
        json!({"command": "ls"}),
        json!({}),
        json!(["no object"]),
        json!({"_raw": "{\"cut"}),
    ];
    let id = if twins {
        "call_0".to_owned()
    } else {
        format!("functions.exec:{number}")
    };
    let name = names
        .get(number % names.len())
        .copied()
        .unwrap_or_default()
        .to_owned();
    ToolCall {
        id,
        name,
        input: inputs
            .get(number % inputs.len())
            .cloned()
            .unwrap_or_default(),
    }
}

/// Adds a step of the model: what it said and called, and the results of the first `answered` calls.
fn step(
    kinds: &mut Vec<Kind>,
    number: &mut usize,
    (words, calls, answered): (String, usize, usize),
    (thinks, twins): (bool, bool),
) {
    let made: Vec<ToolCall> = (*number..*number + calls)
        .map(|number| call(number, twins))
        .collect();
    *number += calls;
    let thinking = Thinking {
        by: "anthropic:claude-sonnet-4-5".into(),
        data: json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
    };
    let mut content: Vec<Block> = thinks
        .then_some(Block::Thinking(thinking))
        .into_iter()
        .collect();
    content.push(Block::Text { text: words });
    content.extend(made.iter().cloned().map(Block::ToolCall));
    kinds.push(Kind::Message(Spoken {
        model: Some("primary".into()),
        stop: Some(StopReason::EndTurn),
        usage: Some(Usage {
            input_tokens: 50,
            output_tokens: 9,
            ..Usage::default()
        }),
        ..Spoken::new(Role::Assistant, content, "r")
    }));
    for call in made.iter().take(answered) {
        let (run_id, name) = ("r".to_owned(), call.name.clone());
        kinds.push(Kind::ToolCall {
            run_id: run_id.clone(),
            id: call.id.clone(),
            name: name.clone(),
        });
        let text = if (*number).is_multiple_of(3) {
            String::new()
        } else {
            "y".repeat(*number * 40)
        };
        let result = ToolResult {
            id: call.id.clone(),
            text,
            is_error: false,
            from: None,
            pictures: Vec::new(),
        };
        kinds.push(Kind::ToolResult {
            run_id,
            name,
            duration_ms: 1,
            receipt: None,
            result,
        });
    }
}

fn events(pieces: Vec<Piece>) -> Vec<Event> {
    let mut kinds: Vec<Kind> = Vec::new();
    let (mut number, mut turn_seq) = (0, 1);
    for piece in pieces {
        let next = kinds.len() as u64 + 1;
        match piece {
            Piece::Turn(words, picture) => {
                turn_seq = next;
                let mut content = vec![
                    Block::Context {
                        text: "⟦noon; ada⟧".into(),
                    },
                    Block::Text { text: words },
                ];
                if picture {
                    content.push(Block::Image {
                        file: "a.png".into(),
                        content_type: "image/png".into(),
                        data: None,
                    });
                }
                kinds.push(Kind::Message(Spoken {
                    inbox_id: Some(next.to_string()),
                    trust: Some(Trust::Owner),
                    ..Spoken::new(Role::User, content, "r")
                }));
            }
            Piece::Step {
                words,
                calls,
                answered,
                thinks,
                twins,
            } => {
                step(
                    &mut kinds,
                    &mut number,
                    (words, calls, answered),
                    (thinks, twins),
                );
            }
            Piece::Aside => {
                let content = vec![Block::Context {
                    text: "2 steps are left".into(),
                }];
                kinds.push(Kind::Message(Spoken::new(Role::User, content, "r")));
            }
            Piece::Error(forget) => {
                kinds.push(Kind::Error {
                    run_id: "r".into(),
                    text: "no".into(),
                    forget_from: forget.then_some(turn_seq),
                });
            }
            Piece::Compaction(kept, question, cut) => kinds.push(Kind::Compaction(Compaction {
                run_id: "r".into(),
                kept_from: next.saturating_sub(kept as u64),
                question: question.then_some(turn_seq),
                summary: "they met".into(),
                by: SummaryBy::Model,
                longest_block: cut.then_some(300),
                tokens: (900, 90),
            })),
            Piece::Pin => kinds.push(Kind::Pin {
                run_id: "r".into(),
                text: "ask first".into(),
            }),
        }
    }
    (1..)
        .zip(kinds)
        .map(|(seq, kind)| Event {
            v: 1,
            ts: "2026-01-01T00:00:00Z".into(),
            seq,
            kind,
        })
        .collect()
}

/// Returns the ways in which the conversation may be asked to continue.
fn requests(messages: Vec<Message>) -> impl Iterator<Item = Request> {
    let spec = ToolSpec {
        name: "exec".into(),
        description: "Runs it.".into(),
        schema: json!({"type": "object", "properties": {}}).into(),
    };
    let ways = [
        (true, true, "claude-sonnet-4-5"),
        (true, false, "claude-sonnet-4-5"),
        (false, false, "claude-sonnet-4-5"),
        (true, true, "claude-haiku-4-5"),
    ];
    let ways = ways.into_iter().flat_map(|way| [(way, true), (way, false)]);
    ways.map(move |((tools, may_call, model), thinking)| Request {
        model: model.into(),
        max_tokens: 5_000,
        system: vec![SystemBlock {
            tier: Tier::Stable,
            text: "You are an agent.".into(),
        }],
        tools: if tools {
            [spec.clone()].into()
        } else {
            [].into()
        },
        may_call,
        messages: messages.clone().into(),
        cache: true,
        cache_ttl: Default::default(),
        thinking,
        begin_within: None,
        schema: None,
    })
}

fn holds(events: &[&Event]) -> Result<(), TestCaseError> {
    let mut state = State::default();
    for event in events {
        state.apply(event, Position::default());
    }
    let messages = repair(state.messages());
    prop_assert_eq!(
        &repair(messages.clone()),
        &messages,
        "repair changes what it repaired"
    );
    for request in requests(messages) {
        if let Err(why) = vendor_rules::check(&request) {
            return Err(TestCaseError::fail(format!(
                "{why}\n{:#?}",
                request.messages
            )));
        }
    }
    Ok(())
}

/// Each case is some two hundred requests; `PROPTEST_CASES` makes more of them.
fn cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: (usual.cases / 16).max(1),
        ..usual
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn every_beginning_of_a_transcript_is_a_valid_request(pieces in prop::collection::vec(piece(), 0..24)) {
        let events = events(pieces);
        for end in 0..=events.len() {
            holds(&events.iter().take(end).collect::<Vec<_>>())?;
        }
    }

    #[test]
    fn a_transcript_with_any_lines_lost_is_a_valid_request(
        pieces in prop::collection::vec(piece(), 0..40),
        lost in prop::collection::vec(prop::bool::weighted(0.2), 200),
    ) {
        let events = events(pieces);
        let left: Vec<&Event> = events.iter().zip(lost.iter().chain(std::iter::repeat(&false))).filter(|(_, lost)| !**lost).map(|(event, _)| event).collect();
        holds(&left)?;
    }
}
