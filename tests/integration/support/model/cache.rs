//! Anthropic's prompt cache, after platform.claude.com/docs/en/build-with-claude/prompt-caching (2026-11): tools,
//! system and messages are one row of blocks; what stands up to a marked block is kept for 5 minutes, and again
//! for 5 when it is read; a mark finds what was kept at itself or at one of the 20 blocks before it; nothing
//! shorter than 1,024 tokens is kept; with another `tool_choice` the messages are new.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use serde_json::Value;

const TTL: Duration = Duration::from_secs(5 * 60);
const LOOKBACK: usize = 20;
const SHORTEST: u64 = 1024;
const MOST_MARKS: usize = 4;

/// What was kept, by a hash of everything up to its end.
#[derive(Default)]
pub(super) struct Cache {
    now: Duration,
    kept: HashMap<u64, Duration>,
    /// The ends of all blocks ever sent, marked or not, and until when they could be known.
    sent: HashMap<u64, Duration>,
    pub(super) met: Vec<Met>,
}

/// How a request met the cache, tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) rest: u64,
    /// What a cache that knows every block of the last 5 minutes would have read.
    pub(crate) best: u64,
}

/// The end of a block.
struct End {
    hash: u64,
    /// Tokens up to it.
    tokens: u64,
    marked: bool,
}

impl Cache {
    pub(super) fn later(&mut self, time: Duration) {
        self.now += time;
    }

    pub(super) fn meet(&mut self, body: &Value) -> Met {
        let (ends, now) = (ends(body), self.now);
        let marks: Vec<usize> = (0..ends.len()).filter(|at| ends[*at].marked).collect();
        assert!(
            marks.len() <= MOST_MARKS,
            "{} blocks are marked, at most {MOST_MARKS} may be",
            marks.len()
        );
        let lives = |kept: &HashMap<u64, Duration>, at: usize| {
            kept.get(&ends[at].hash).is_some_and(|until| *until > now)
        };
        let back = |mark: &usize| (mark.saturating_sub(LOOKBACK)..=*mark).rev();
        let hit = marks
            .iter()
            .rev()
            .find_map(|mark| back(mark).find(|at| lives(&self.kept, *at)));
        let best = (0..ends.len())
            .rev()
            .find(|at| ends[*at].tokens >= SHORTEST && lives(&self.sent, *at));
        let tokens = |at: Option<usize>| at.map_or(0, |at| ends[at].tokens);
        let last = tokens(
            marks
                .last()
                .copied()
                .filter(|at| ends[*at].tokens >= SHORTEST),
        );
        let read = tokens(hit);
        let whole = ends.last().map_or(0, |end| end.tokens);
        let met = Met {
            read,
            written: last.saturating_sub(read),
            rest: whole - last.max(read),
            best: tokens(best),
        };
        for at in marks
            .into_iter()
            .chain(hit)
            .filter(|at| ends[*at].tokens >= SHORTEST)
        {
            self.kept.insert(ends[at].hash, now + TTL);
        }
        self.sent
            .extend(ends.iter().map(|end| (end.hash, now + TTL)));
        self.met.push(met);
        met
    }
}

fn ends(body: &Value) -> Vec<End> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut blocks: Vec<(String, Value)> = list(&body["tools"])
        .into_iter()
        .map(|tool| ("tool".to_owned(), tool))
        .collect();
    blocks.extend(
        list(&body["system"])
            .into_iter()
            .map(|block| ("system".to_owned(), block)),
    );
    for message in list(&body["messages"]) {
        let place = format!("{} {}", message["role"], body["tool_choice"]);
        blocks.extend(
            list(&message["content"])
                .into_iter()
                .map(|block| (place.clone(), block)),
        );
    }
    let (mut hash, mut tokens) = (0, 0);
    let end = |(place, mut block): (String, Value)| {
        let marked = block
            .as_object_mut()
            .is_some_and(|block| block.remove("cache_control").is_some());
        let text = block.to_string();
        let mut hasher = DefaultHasher::new();
        (hash, place, &text).hash(&mut hasher);
        hash = hasher.finish();
        tokens += u64::try_from(text.len() / 4).expect("small").max(1);
        End {
            hash,
            tokens,
            marked,
        }
    };
    blocks.into_iter().map(end).collect()
}
