//! Makes passages of ranked lines: each grows around a good line, and no line is in two.

use std::collections::BTreeMap;

use super::rank::{Line, Ranked};
use super::search::Files;

/// Characters of a result at most.
pub const MAX_CHARS: usize = 1600;

/// Lines that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Passage {
    pub file: i64,
    /// Places of the first and the last line in the file.
    pub range: std::ops::RangeInclusive<usize>,
    /// The place of the line that it grew around: its best.
    pub best: usize,
}

/// A line that a passage may grow around.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed {
    pub file: i64,
    pub at: usize,
    pub rank: f32,
    /// The time of its file, milliseconds since 1970 UTC.
    pub time: i64,
}

/// Returns the lines that may be results, the best first. Of equals the newest comes first, then the order of paths
/// decides: it must not depend on the order in which files were indexed.
pub(crate) fn seeds(ranked: &Ranked<'_>, files: &Files) -> Vec<Seed> {
    let path = |file: i64| files.get(&file).map_or("", |file| &file.path);
    let mut seeds: Vec<Seed> = ranked
        .iter()
        .flat_map(|(file, lines)| {
            let time = files.get(file).map_or(0, |file| file.time);
            let lines = lines.iter().filter(|(_, line)| line.is_result);
            lines.map(move |(at, line)| Seed {
                file: *file,
                at: *at,
                rank: line.rank,
                time,
            })
        })
        .collect();
    seeds.sort_by(|a, b| {
        b.rank
            .total_cmp(&a.rank)
            .then(b.time.cmp(&a.time))
            .then_with(|| path(a.file).cmp(path(b.file)))
            .then(a.at.cmp(&b.at))
    });
    seeds
}

/// How long the results may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Results at most.
    pub count: usize,
    /// Characters of one at most.
    pub each: usize,
    /// Characters of all together at most.
    pub all: usize,
    /// A passage grows only by lines whose rank is at least this share of its best line's.
    pub floor: f32,
}

impl Limits {
    /// Returns the limits of `count` results of full length.
    pub(crate) fn plain(count: usize) -> Self {
        Self {
            count,
            each: MAX_CHARS,
            all: usize::MAX,
            floor: 0.0,
        }
    }

    /// Returns the limits that make the best of `all` characters: about six results, without lines that are only next to
    /// good ones. Measured: .82 instead of .78 of the evidence within 1,000 tokens.
    pub(crate) fn within(count: usize, all: usize) -> Self {
        Self {
            count,
            each: (all / 6).clamp(160, MAX_CHARS),
            all,
            floor: 0.65,
        }
    }
}

/// Returns results around the best of `seeds`, the best first.
pub(crate) fn passages(ranked: &Ranked<'_>, seeds: &[Seed], limits: Limits) -> Vec<Passage> {
    let mut taken: BTreeMap<i64, Vec<bool>> = BTreeMap::new();
    let mut passages = Vec::new();
    let mut left = limits.all;
    for seed in seeds {
        let Some(lines) = ranked.get(&seed.file) else {
            continue;
        };
        let taken = taken
            .entry(seed.file)
            .or_insert_with(|| vec![false; lines.keys().last().map_or(0, |last| last + 1)]);
        if passages.len() >= limits.count || left == 0 {
            break;
        }
        let free = |at: usize| taken.get(at) == Some(&false);
        if !free(seed.at) {
            continue;
        }
        let Some((range, size)) = grow(
            lines,
            seed.at,
            Limits {
                all: left,
                ..limits
            },
            free,
        ) else {
            continue;
        };
        left -= size.min(left);
        taken[range.clone()].fill(true);
        passages.push(Passage {
            file: seed.file,
            range,
            best: seed.at,
        });
    }
    passages
}

/// Grows from `at` by the better of the two neighbours while it fits; `None` when not even the line
/// itself does.
fn grow(
    lines: &BTreeMap<usize, Line<'_>>,
    at: usize,
    limits: Limits,
    free: impl Fn(usize) -> bool,
) -> Option<(std::ops::RangeInclusive<usize>, usize)> {
    let chars = |line: &Line<'_>| line.text.chars().count();
    // The newline of the last line is cut off. A long line alone may take what is left.
    let most = MAX_CHARS.min(limits.all).saturating_add(1);
    let limit = limits.each.min(limits.all).saturating_add(1);
    let seed = lines.get(&at)?;
    let mut size = Some(chars(seed)).filter(|size| *size <= most)?;
    let (mut first, mut last) = (at, at);
    loop {
        let candidate = |at: Option<usize>| {
            let at = at.filter(|at| free(*at))?;
            let line = lines.get(&at).filter(|line| {
                size + chars(line) <= limit && line.rank >= limits.floor * seed.rank
            })?;
            Some((line.rank, at, chars(line)))
        };
        let (above, below) = (
            candidate(first.checked_sub(1)),
            candidate(last.checked_add(1)),
        );
        let next = match (above, below) {
            (Some(above), Some(below)) if above.0 > below.0 => above,
            (_, Some(below)) => below,
            (Some(above), None) => above,
            (None, None) => return Some((first..=last, size)),
        };
        size += next.2;
        (first, last) = (first.min(next.1), last.max(next.1));
    }
}
