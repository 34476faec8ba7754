//! Shows lines of a memory file, by path and line numbers as in search results.

use super::index::{Text, texts_of};
use super::scope::Viewer;
use super::session_prefix::SessionPrefixes;
use super::sources;
use super::sources::{Candidate, Reader, Source, Unread};
use crate::config::Home;

/// Lines shown when no end is named.
const LINES: u32 = 100;

/// Why nothing is shown. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a memory file, or not one that the viewer may see; which of the two is not told.
    #[error("{0:?} is no memory file that this conversation may see; memory_search names those")]
    Unknown(String),
    /// The file is shorter.
    #[error("{path} has only {lines} lines")]
    Short {
        /// The file as printed.
        path: String,
        /// Its lines.
        lines: u32,
    },
    /// It cannot be read.
    #[error("{path} cannot be read: {why}")]
    Unread {
        /// The file as printed.
        path: String,
        /// Why.
        why: String,
    },
}

/// Returns lines `first` to `last` (from 1; both with a default) of the memory file shown as
/// `path`, each as `N<TAB>line`; of a transcript who said what.
///
/// # Errors
/// See [`Error`].
pub fn lines(
    home: &Home,
    viewer: &Viewer,
    path: &str,
    first: Option<u32>,
    last: Option<u32>,
) -> Result<String, Error> {
    let unknown = || Error::Unknown(crate::text::shorten(&crate::text::visible(path), 200));
    let (files, _) = sources::list(home);
    let in_workspace = format!("workspace/{path}");
    let file = files
        .iter()
        .find(|file| file.shown == path || file.shown == in_workspace)
        .ok_or_else(unknown)?;
    let bytes = Reader::new(home)
        .read(file)
        .map_err(|unread| match unread {
            Unread::Gone => unknown(),
            Unread::Failed(skipped) => Error::Unread {
                path: skipped.path,
                why: skipped.why,
            },
        })?;
    let mut texts = texts_of(
        file,
        &bytes,
        SessionPrefixes::new(home).before(file, &bytes),
    );
    texts.retain(|text| viewer.may_see(&text.scope));
    if texts.is_empty() {
        return Err(unknown());
    }
    show(file, &texts, &bytes, first.unwrap_or(1).max(1), last)
}

fn show(
    file: &Candidate,
    texts: &[Text],
    bytes: &[u8],
    first: u32,
    last: Option<u32>,
) -> Result<String, Error> {
    let last = last.unwrap_or_else(|| first.saturating_add(LINES - 1));
    let mut total = 0;
    let mut shown = String::new();
    let mut add = |number: u32, line: &str| {
        total = total.max(number);
        if (first..=last).contains(&number) {
            shown.push_str(&format!("{number}\t{line}\n"));
        }
    };
    if file.source == Source::Session {
        let mut units: Vec<_> = texts.iter().flat_map(|text| &text.document.units).collect();
        units.sort_by_key(|unit| unit.line);
        units
            .into_iter()
            .for_each(|unit| add(unit.line, unit.text.trim_end_matches('\n')));
    } else {
        (1..)
            .zip(sources::text_of(bytes).lines())
            .for_each(|(number, line)| add(number, line));
    }
    if shown.is_empty() && first > total {
        return Err(Error::Short {
            path: file.shown.clone(),
            lines: total,
        });
    }
    if last < total {
        shown.push_str(&format!("[lines {first} to {last} of {total}]"));
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Envelope, Sender, SessionKey, Source as From};
    use crate::sys::atomic::{Durability, write};

    fn viewer(owner: bool) -> Viewer {
        let sender = Sender {
            id: "1002".into(),
            name: "Bob".into(),
            username: None,
        };
        let key = SessionKey("agent:a:telegram:dm:1002".into());
        let envelope = Envelope::new("1".into(), From::Telegram, sender, key, String::new(), 0);
        Viewer::of(
            &Envelope {
                from_owner: owner,
                ..envelope
            },
            &|_| owner,
        )
    }

    #[test]
    fn only_memory_is_shown_and_only_to_whom_it_belongs() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        let people = home.workspace().join("memory/people");
        std::fs::create_dir_all(&people).expect("dirs");
        std::os::unix::fs::symlink("/etc/passwd", home.workspace().join("memory/link.md"))
            .expect("link");
        let put = |path: &std::path::Path, text: &str| {
            write(path, text.as_bytes(), Durability::Rename).expect("write")
        };
        put(&home.workspace().join("MEMORY.md"), "one\ntwo\nthree\n");
        put(&home.workspace().join("SOUL.md"), "soul\n");
        put(&people.join("1002.md"), "likes tea\n");
        let ask = |owner: bool, path: &str, first: u32, last: u32| {
            lines(&home, &viewer(owner), path, Some(first), Some(last))
        };
        assert_eq!(
            ask(true, "workspace/MEMORY.md", 2, 2),
            Ok("2\ttwo\n[lines 2 to 2 of 3]".to_owned())
        );
        assert_eq!(
            ask(true, "MEMORY.md", 2, 9),
            Ok("2\ttwo\n3\tthree\n".to_owned())
        );
        assert_eq!(
            ask(true, "MEMORY.md", 9, 9),
            Err(Error::Short {
                path: "workspace/MEMORY.md".into(),
                lines: 3
            })
        );
        assert_eq!(
            ask(false, "memory/people/1002.md", 1, 1),
            Ok("1\tlikes tea\n".to_owned())
        );
        for path in [
            "MEMORY.md",
            "SOUL.md",
            "memory/link.md",
            "../x",
            "/etc/passwd",
            "memory/../SOUL.md",
        ] {
            assert_eq!(ask(false, path, 1, 1), Err(Error::Unknown(path.into())));
        }
        for path in ["SOUL.md", "memory/link.md", "memory/people/../../SOUL.md"] {
            assert_eq!(ask(true, path, 1, 1), Err(Error::Unknown(path.into())));
        }
    }
    #[test]
    fn a_summary_is_shown_on_the_line_of_its_event_to_whom_it_belongs() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("made");
        let event = |seq: u64, rest: &str| {
            format!(r#"{{"v":1,"ts":"2026-05-04T10:00:00.000Z","seq":{seq},{rest}}}"#) + "\n"
        };
        let text = event(
            1,
            r#""type":"session","session_id":"s","key":"cli:ada","contact":"Ada","created_at":"x""#,
        ) + &event(
            2,
            r#""type":"message","role":"user","trust":"owner","run_id":"r","content":[{"type":"text","text":"hello"}]"#,
        ) + &event(
            3,
            r#""type":"compaction","run_id":"r","kept_from":3,"summary":"A greeting.","by":"model","tokens":[9,5]"#,
        );
        write(
            &home.archive().join("s.2026-05-04.jsonl"),
            text.as_bytes(),
            Durability::Rename,
        )
        .expect("write");
        let path = "state/sessions/archive/s.2026-05-04.jsonl";
        let ask = |owner: bool| lines(&home, &viewer(owner), path, None, None);
        assert_eq!(
            ask(true),
            Ok("2\tAda: hello\n3\tsummary: A greeting.\n".to_owned())
        );
        assert_eq!(ask(false), Err(Error::Unknown(path.into())));
    }
}
