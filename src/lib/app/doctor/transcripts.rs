//! Can the conversations be read, line by line?

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::Finding;
use super::files::more;
use super::patient::Patient;
use crate::sys::jsonl;

/// Bytes that are read at most, the newest conversations first: about a second.
const MOST: u64 = 64 << 20;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    damage(patient).into_iter().collect()
}

fn damage(patient: &Patient) -> Option<Finding> {
    let mut files: Vec<(std::time::SystemTime, u64, PathBuf)> =
        std::fs::read_dir(patient.home.sessions())
            .ok()?
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "jsonl"))
            .filter_map(|entry| {
                let meta = entry.metadata().ok().filter(std::fs::Metadata::is_file)?;
                Some((meta.modified().ok()?, meta.len(), entry.path()))
            })
            .collect();
    files.sort_by(|a, b| b.cmp(a));
    let mut left = MOST;
    let few = files.into_iter().take_while(|(_, size, _)| {
        let fits = *size <= left;
        left = left.saturating_sub(*size);
        fits
    });
    let damaged: Vec<(PathBuf, usize)> = few
        .filter_map(|(_, _, path)| Some((path.clone(), first_bad(&path)?)))
        .collect();
    let (path, line) = damaged.first()?;
    let more = more(damaged.len());
    let evidence = format!(
        "line {line} of {}{more} is no JSON: what it said is left out of the conversation",
        patient.shown(path)
    );
    Some(Finding::warning(
        "transcript-damaged",
        evidence,
        patient.edit(path, Some(*line)),
    ))
}

/// Returns the first line that cannot be read. The last one may be torn: it is cut before the next is written.
fn first_bad(path: &Path) -> Option<usize> {
    let mut number = 0;
    let flow = jsonl::try_for_each_line(path, 0, |line, _| {
        number += 1;
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        if is_blank || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(number)
        }
    });
    flow.ok()?.break_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_json_is_named_and_a_torn_last_one_is_not() {
        let dir = tempfile::tempdir().expect("dir");
        let patient = Patient::of(dir.path(), &[]);
        std::fs::create_dir_all(patient.home.sessions()).expect("dir");
        let path = patient.home.sessions().join("a.2026-01-01.jsonl");
        let told = |text: &str| {
            let rename = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&path, text.as_bytes(), rename).expect("write");
            damage(&patient).map(|finding| (finding.id, finding.evidence))
        };
        assert_eq!(told("{\"a\":1}\n\n{\"b\":2}\n{\"to"), None);
        let (id, evidence) = told("{\"a\":1}\nedited by hand\n{\"b\":2}\n").expect("a finding");
        assert_eq!(id, "transcript-damaged");
        assert!(
            evidence.starts_with("line 2 of state/sessions/a.2026-01-01.jsonl is no JSON"),
            "{evidence}"
        );
    }
}
