//! `cron/runs/<job>.jsonl`: a line for every due time of a job, with its result or why it was skipped.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::job::{Status, Time};
use crate::sys;
use crate::sys::{atomic, jsonl};

/// A log larger than this loses its older half.
const MAX_BYTES: u64 = 256 << 10;
/// Among so many last lines is one that was written before a crash: times of a job end in another order than theirs
/// only while several run.
const LATELY: usize = 64;

/// The result of one run of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The time.
    pub at: Time,
    /// Its result.
    pub status: Status,
    /// When that was known.
    pub ended_at: Time,
    /// How long it took from its beginning, its wait included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The session it was thought about in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// US dollars; absent when a call was unpriced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// All its tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// How many times were left out with this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Why nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The beginning of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<String>,
}

impl Run {
    /// Returns what is known of every time.
    pub fn new(at: i64, status: Status, ended_at: i64) -> Self {
        Self {
            at: Time(at),
            status,
            ended_at: Time(ended_at),
            duration_ms: None,
            run_id: None,
            session_id: None,
            cost_usd: None,
            tokens: None,
            count: None,
            reason: None,
            reply: None,
        }
    }
}

/// Adds a line to the log of the job `id` in the directory `dir`, unless it says already that this came of this
/// time: who was killed after the line writes it again.
///
/// # Errors
/// When it cannot be written.
pub fn note(dir: &Path, id: &str, run: &Run) -> Result<(), sys::Error> {
    std::fs::create_dir_all(dir).map_err(sys::Error::at("make", dir))?;
    let path = dir.join(format!("{id}.jsonl"));
    let lately = newest(dir, id, LATELY)?;
    if lately
        .iter()
        .any(|last| (last.at, last.status, &last.run_id) == (run.at, run.status, &run.run_id))
    {
        return Ok(());
    }
    if let Some(last) = lately.last()
        && let Some(both) = left_out_too(last, run)
    {
        let mut lines = lines_from(&path, 0)?;
        lines.retain(|line| serde_json::from_slice(line).ok().as_ref() != Some(last));
        lines.push(line_of(&both));
        return write(&path, &lines);
    }
    let mut line = line_of(run);
    line.push(b'\n');
    let length = jsonl::Appender::open(&path)?.append(&line, false)?;
    if length > MAX_BYTES {
        // The first is torn where the file was cut.
        let lines = lines_from(&path, length / 2)?;
        write(&path, lines.get(1..).unwrap_or_default())?;
    }
    Ok(())
}

/// Returns one line for both when `run` is left out for the same reason as the one before it: an outage of days is a line.
fn left_out_too(last: &Run, run: &Run) -> Option<Run> {
    let same = (last.status, &last.reason) == (run.status, &run.reason);
    let count = last.count? + run.count?;
    (same && run.status == Status::Skipped).then(|| Run {
        count: Some(count),
        ..run.clone()
    })
}

fn line_of(run: &Run) -> Vec<u8> {
    serde_json::to_vec(run).expect("plain data with string keys")
}

fn lines_from(path: &Path, start: u64) -> Result<Vec<Vec<u8>>, sys::Error> {
    let mut lines = Vec::new();
    jsonl::for_each_line(path, start, |line, _| lines.push(line.to_vec()))?;
    Ok(lines)
}

fn write(path: &Path, lines: &[Vec<u8>]) -> Result<(), sys::Error> {
    let bytes = [lines.join(&b'\n'), b"\n".to_vec()].concat();
    atomic::write(path, &bytes, atomic::Durability::Rename)
}

/// Deletes the logs in `dir` of the jobs that are gone and to which nothing was added since `before`, milliseconds since
/// 1970 UTC.
///
/// # Errors
/// When the directory exists and cannot be read, or a log cannot be deleted.
pub fn prune(dir: &Path, is_gone: impl Fn(&str) -> bool, before: i64) -> Result<(), sys::Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(sys::Error::at("read", dir))?,
    };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let job = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        let is_old = sys::modified_at(&path).is_some_and(|at| at < before);
        if is_old && job.is_some_and(&is_gone) {
            std::fs::remove_file(&path).map_err(sys::Error::at("delete", &path))?;
        }
    }
    Ok(())
}

/// Returns the newest `most` lines of the log of the job `id`, oldest first. Lines that make no sense are
/// left out.
///
/// # Errors
/// When it exists and cannot be read.
pub fn newest(dir: &Path, id: &str, most: usize) -> Result<Vec<Run>, sys::Error> {
    let mut runs = std::collections::VecDeque::new();
    jsonl::for_each_line(&dir.join(format!("{id}.jsonl")), 0, |line, _| {
        if let Ok(run) = serde_json::from_slice(line) {
            runs.push_back(run);
            if runs.len() > most {
                runs.pop_front();
            }
        }
    })?;
    Ok(runs.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_job_that_is_gone_goes_when_it_is_old() {
        let dir = tempfile::tempdir().expect("a directory");
        let left = || ["gone", "there"].map(|id| newest(dir.path(), id, 1).expect("read").len());
        for id in ["gone", "there"] {
            note(dir.path(), id, &Run::new(1, Status::Ok, 2)).expect("note");
        }
        let (is_gone, now) = (|id: &str| id == "gone", crate::clock::now_ms());
        prune(dir.path(), is_gone, now - 3_600_000).expect("pruned");
        assert_eq!(left(), [1, 1]);
        prune(dir.path(), is_gone, now + 3_600_000).expect("pruned");
        assert_eq!(left(), [0, 1]);
        prune(&dir.path().join("none"), is_gone, now).expect("nothing to do");
    }

    #[test]
    fn times_that_are_left_out_one_after_the_other_are_one_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let left_out = |at, why: &str| Run {
            count: Some(2),
            reason: Some(why.to_owned()),
            ..Run::new(at, Status::Skipped, at)
        };
        let runs = [
            left_out(1, "missed"),
            left_out(2, "it runs"),
            left_out(3, "it runs"),
            left_out(4, "it runs"),
            Run::new(5, Status::Ok, 5),
            left_out(6, "it runs"),
        ];
        for run in &runs {
            note(dir.path(), "a", run).expect("note");
        }
        note(dir.path(), "a", &runs[5]).expect("once more after a kill");
        let lines = newest(dir.path(), "a", 9).expect("read");
        let lines: Vec<(i64, Option<u64>)> =
            lines.iter().map(|run| (run.at.0, run.count)).collect();
        assert_eq!(lines, [(1, Some(2)), (4, Some(6)), (5, None), (6, Some(2))]);
    }

    #[test]
    fn the_newest_lines_are_kept_and_the_log_does_not_grow_for_ever() {
        let dir = tempfile::tempdir().expect("a directory");
        let runs = dir.path().join("runs");
        assert_eq!(newest(&runs, "a", 3).expect("read"), []);
        let reply = Some("x".repeat(1000));
        for at in 0..600 {
            note(
                &runs,
                "a",
                &Run {
                    reply: reply.clone(),
                    ..Run::new(at, Status::Ok, at + 1)
                },
            )
            .expect("note");
        }
        let last: Vec<i64> = newest(&runs, "a", 3)
            .expect("read")
            .iter()
            .map(|run| run.at.0)
            .collect();
        assert_eq!(last, [597, 598, 599]);
        note(&runs, "a", &Run::new(599, Status::Ok, 700)).expect("note");
        let last: Vec<i64> = newest(&runs, "a", 2)
            .expect("read")
            .iter()
            .map(|run| run.at.0)
            .collect();
        assert_eq!(last, [598, 599], "one line says what came of a time");
        let size = std::fs::metadata(runs.join("a.jsonl"))
            .expect("there")
            .len();
        assert!(size <= MAX_BYTES, "{size}");
        let all = newest(&runs, "a", 1000).expect("read");
        assert!(
            all.len() > 100 && all.windows(2).all(|pair| pair[0].at < pair[1].at),
            "none is lost between"
        );
    }
}
