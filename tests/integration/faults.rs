//! A line to Telegram on which everything goes wrong that can, all the time: every message is answered, in the
//! order of its chat, and an answer comes twice only where nobody can know whether it came.
//!
//! `FAULTS_MESSAGES=2000 cargo test --test integration faults -- --nocapture` is the full size; it has connections
//! that hang, too, which take 11 and 30 seconds each to be given up.
#![allow(clippy::print_stdout, reason = "the figures of a measurement")]

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{FakeModel, FakeTelegram, FaultKind, House, Sandbox, wait_for};

/// All of them may write.
const CHATS: std::ops::Range<i64> = 1001..1009;
/// Messages in all, unless `FAULTS_MESSAGES` says otherwise: the gate has no time for more.
const MESSAGES: usize = 150;
/// So many more are written while one of them has no answer.
const OPEN: usize = 32;
/// A conversation starts over after so many messages of a chat: the model is sent all of it each time.
const CONVERSATION: usize = 20;
const NEW_SESSION: &str = "New conversation. The previous one is archived.";
const NOT_HTML: FaultKind =
    FaultKind::Says(400, "Bad Request: can't parse entities: it is a bad day");
const SLOW: FaultKind = FaultKind::Delay(Duration::from_millis(300));

/// What goes wrong with the sends of some message, in turn.
const SENDS: &[&[FaultKind]] = &[
    &[FaultKind::Html502],
    &[],
    &[FaultKind::DropAfter],
    &[],
    &[SLOW],
    &[],
    &[],
    &[FaultKind::Status(429)],
    &[],
    &[FaultKind::Drop],
    &[],
    &[],
    &[NOT_HTML],
    &[],
    &[FaultKind::DropAfter, FaultKind::Drop],
    &[],
    &[],
    &[FaultKind::Drop, FaultKind::Status(500), SLOW],
    &[],
    &[],
    &[],
    &[],
    &[],
];
/// And with polls, from one to the next.
const POLLS: &[Option<FaultKind>] = &[
    None,
    Some(FaultKind::Backwards),
    Some(FaultKind::DupUpdates),
    Some(FaultKind::Html502),
    None,
    Some(FaultKind::DropAfter),
    None,
    Some(FaultKind::Backwards),
    None,
    Some(SLOW),
    Some(FaultKind::DupUpdates),
    None,
    Some(FaultKind::Drop),
    None,
    Some(FaultKind::Backwards),
    Some(FaultKind::Status(429)),
    None,
    None,
    Some(FaultKind::Status(409)),
    None,
    None,
];

/// One message: the words, and what goes wrong with its answer.
struct Said {
    text: String,
    faults: Vec<FaultKind>,
}

impl Said {
    /// Returns message `number` of a chat.
    fn new(chat: i64, number: usize, full: bool) -> Self {
        let slot = number + 3 * usize::try_from(chat - CHATS.start).expect("a chat of ours");
        let hangs = full && number % 120 == 50 && chat < CHATS.start + 2;
        let faults = if hangs {
            vec![FaultKind::Hang]
        } else {
            SENDS[slot % SENDS.len()].to_vec()
        };
        match number % CONVERSATION {
            0 if number > 0 => Self {
                text: "/new".to_owned(),
                faults: Vec::new(),
            },
            // Long enough to show that one is typing.
            7 => Self {
                text: format!("[[sleep 600]] {chat}-{number}"),
                faults,
            },
            _ => Self {
                text: format!("{chat}-{number}"),
                faults,
            },
        }
    }

    /// Returns what the chat sees of the answer: as it is, unless that was lost on the way, and marked where nobody
    /// could know.
    fn answers(&self) -> Vec<String> {
        let answer = if self.text == "/new" {
            NEW_SESSION.to_owned()
        } else {
            format!("echo: {}", self.text)
        };
        let (mut seen, mut mark) = (Vec::new(), "");
        for fault in self.faults.iter().copied().map(Some).chain([None]) {
            if matches!(
                fault,
                None | Some(FaultKind::Delay(_) | FaultKind::DropAfter)
            ) {
                seen.push(format!("{mark}{answer}"));
            }
            match fault {
                None | Some(FaultKind::Delay(_)) => break,
                Some(FaultKind::Drop | FaultKind::DropAfter | FaultKind::Hang) => {
                    mark = "(resent)\n"
                }
                Some(_) => {}
            }
        }
        seen
    }
}

/// Returns what goes wrong when: with a send, by the last word of its text, and with all else by how many calls
/// came before.
fn plan(
    said: &BTreeMap<i64, Vec<Said>>,
    full: bool,
) -> impl FnMut(&str, &Value) -> Option<FaultKind> + Send + 'static {
    let last = |text: &str| {
        text.split_whitespace()
            .last()
            .unwrap_or_default()
            .to_owned()
    };
    let mut sends: HashMap<String, VecDeque<FaultKind>> = said
        .values()
        .flatten()
        .map(|said| (last(&said.text), said.faults.iter().copied().collect()))
        .collect();
    let (mut polls, mut typings) = (0, 0);
    move |method, params| match method {
        "sendMessage" => sends.get_mut(&last(params["text"].as_str()?))?.pop_front(),
        "getUpdates" => {
            polls += 1;
            if full && polls % 100 == 50 {
                Some(FaultKind::Hang)
            } else {
                POLLS[polls % POLLS.len()]
            }
        }
        "sendChatAction" => {
            typings += 1;
            [
                None,
                Some(FaultKind::Hang),
                Some(FaultKind::Status(429)),
                Some(FaultKind::Drop),
            ][typings % 4]
        }
        _ => None,
    }
}

#[test]
fn whatever_goes_wrong_on_the_line_each_message_is_answered_in_order() {
    let messages = std::env::var("FAULTS_MESSAGES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(MESSAGES);
    let full = messages > MESSAGES;
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let each = messages.div_ceil(CHATS.count());
    let said: BTreeMap<i64, Vec<Said>> = CHATS
        .map(|chat| {
            (
                chat,
                (0..each)
                    .map(|number| Said::new(chat, number, full))
                    .collect(),
            )
        })
        .collect();
    let sandbox = Sandbox::new().with_telegram(&telegram).with_anthropic(&model).config(&format!(
        "[telegram]\npoll_timeout_secs = 1\nallow_from = {:?}\n[agent]\nmax_concurrent_runs = 8",
        CHATS.collect::<Vec<_>>()
    ));
    let house = House::of(sandbox, telegram, model);
    house.telegram.fault_by(plan(&said, full));

    let started = Instant::now();
    let mut expected: BTreeMap<i64, Vec<(Option<i64>, String)>> = BTreeMap::new();
    let mut open = VecDeque::new();
    let numbers: Vec<usize> = (0..each).collect();
    // Some of one chat in a row, so that polls bring them together.
    for some in numbers.chunks(4) {
        for (chat, said) in &said {
            for said in some.iter().map(|number| &said[*number]) {
                let (_, id) = house.telegram.say(*chat, *chat, &said.text);
                let answers = said.answers().into_iter().map(|text| (Some(id), text));
                expected.entry(*chat).or_default().extend(answers);
                open.push_back((*chat, id));
            }
        }
        wait_for("answers", Duration::from_secs(120), || {
            let answered: HashSet<_> = house
                .telegram
                .sent()
                .into_iter()
                .filter_map(|sent| Some((sent.chat, sent.reply_to?)))
                .collect();
            open.retain(|message| !answered.contains(message));
            (open.len() < OPEN).then_some(())
        });
    }
    let settled = "SELECT 1 FROM inbox WHERE state IN ('pending', 'running')
         UNION ALL SELECT 1 FROM outbox WHERE state IN ('pending', 'sending', 'unknown')";
    wait_for("an empty queue", Duration::from_secs(120), || {
        (house.telegram.pending_updates() == 0 && house.sandbox.query("queue", settled).is_empty())
            .then_some(())
    });
    let took = started.elapsed();

    let mut came: BTreeMap<i64, Vec<(Option<i64>, String)>> = BTreeMap::new();
    for sent in house.telegram.sent() {
        came.entry(sent.chat)
            .or_default()
            .push((sent.reply_to, sent.text));
    }
    for (chat, expected) in &expected {
        assert_eq!(came.remove(chat).as_ref(), Some(expected), "chat {chat}");
    }
    assert_eq!(came, BTreeMap::new(), "nobody else was written to");
    assert_eq!(
        house
            .sandbox
            .query("queue", "SELECT 1 FROM outbox WHERE state = 'dead'")
            .len(),
        0
    );
    let words = said.values().flatten().filter(|said| said.text != "/new");
    assert_eq!(
        house.model.requests().len(),
        words.count(),
        "each message is one call of the model"
    );
    // What the fake refuses by itself is a call that the service would not take; but an owner's menu comes early.
    let calls = house.telegram.calls();
    let refused = calls
        .iter()
        .filter(|call| call.status == 400 && call.method != "setMyCommands")
        .count();
    let planned = said
        .values()
        .flatten()
        .flat_map(|said| &said.faults)
        .filter(|fault| **fault == NOT_HTML)
        .count();
    assert_eq!(refused, planned, "{calls:#?}");
    let marked = expected
        .values()
        .flatten()
        .filter(|(_, text)| text.starts_with("(resent)"))
        .count();
    let troubled = calls.iter().filter(|call| call.status != 200).count();
    println!(
        "{} messages of {} chats answered in {took:.1?}, {marked} copies marked; {} calls, {troubled} of them went wrong",
        said.values().map(Vec::len).sum::<usize>(),
        said.len(),
        calls.len(),
    );
}
