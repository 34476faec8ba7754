//! Finds the place that an edit means; if there is none, shows the most similar text.

/// Lines around the best match that are shown.
const AROUND: usize = 2;
/// Lines from the beginning that are shown when none is like what was sought.
const BEGIN: usize = 20;
/// Characters of a line that are shown.
const MAX_LINE: usize = 200;
/// Lines of a file and of a text sought that are compared.
const MAX_LINES: (usize, usize) = (20_000, 40);

/// Returns the text with `old` replaced and how often. In a file whose lines end as on Windows, those of
/// `old` and `new` do too.
pub(super) fn replace(
    text: &str,
    old: &str,
    new: &str,
    all: bool,
) -> Result<(String, usize), String> {
    if old.is_empty() {
        return Err("old_string is empty; use write for a new file".to_owned());
    }
    if old == new {
        return Err("old_string and new_string are the same".to_owned());
    }
    let windows = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    let ends = |ending: &str| text.matches(ending).count();
    if !old.contains('\n')
        && new.contains('\n')
        && !new.contains('\r')
        && ends("\r\n") > 0
        && ends("\r\n") == ends("\n")
    {
        return replace(text, old, &windows(new), all);
    }
    if !text.contains(old) && text.contains("\r\n") && old.contains('\n') && !old.contains('\r') {
        let (old, new) = (windows(old), windows(new));
        if text.contains(&old) {
            return replace(text, &old, &new, all);
        }
    }
    match text.matches(old).count() {
        0 => Err(format!(
            "old_string does not stand there. {}",
            nearest(text, old)
        )),
        count if count > 1 && !all => Err(format!(
            "old_string stands there {count} times{}; make it longer, or set replace_all",
            where_it_stands(text, old)
        )),
        count => Ok((text.replace(old, new), count)),
    }
}

/// Names the lines of the first matches.
fn where_it_stands(text: &str, old: &str) -> String {
    let numbers: Vec<String> = text
        .match_indices(old)
        .take(5)
        .map(|(at, _)| (text.get(..at).unwrap_or_default().matches('\n').count() + 1).to_string())
        .collect();
    format!(" (lines {})", numbers.join(", "))
}

/// Shows the lines of the file that are most like `old`, with some around them, and says when only white
/// space differs.
fn nearest(text: &str, old: &str) -> String {
    let lines: Vec<&str> = text.lines().take(MAX_LINES.0).collect();
    let blank = |line: &&str| line.trim().is_empty();
    let sought: Vec<&str> = old.lines().skip_while(blank).take(MAX_LINES.1).collect();
    let end = sought
        .iter()
        .rposition(|line| !line.trim().is_empty())
        .map_or(0, |last| last + 1);
    let sought = sought.get(..end).unwrap_or_default();
    let last_start = (lines.len() + 1)
        .saturating_sub(sought.len().max(1))
        .max(1)
        .min(lines.len());
    let score = |at: usize| -> usize {
        let there = lines.get(at..).unwrap_or_default();
        sought
            .iter()
            .zip(there)
            .map(|(sought, there)| likeness(sought, there))
            .sum()
    };
    // Of equal ones the first.
    let best = (0..last_start)
        .map(|at| (score(at), at))
        .max_by_key(|(score, at)| (*score, std::cmp::Reverse(*at)));
    let Some((_, at)) = best.filter(|(score, _)| *score > 0 && !sought.is_empty()) else {
        let begin = numbered(0, lines.get(..BEGIN).unwrap_or(&lines));
        return format!("No line there is like it. It begins:\n{begin}");
    };
    let there: Vec<&str> = lines
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take(sought.len())
        .copied()
        .collect();
    let why = if words(&there.join("\n")) == words(old) {
        "Only white space differs: indents, tabs, spaces or line ends. "
    } else {
        ""
    };
    let (first, last) = (
        at.saturating_sub(AROUND),
        (at + sought.len() + AROUND).min(lines.len()),
    );
    let shown = numbered(first, lines.get(first..last).unwrap_or_default());
    format!("{why}The nearest lines are:\n{shown}")
}

/// Returns lines as `read` shows them; `before` are above them.
fn numbered(before: usize, lines: &[&str]) -> String {
    let shown = (before + 1..).zip(lines);
    let shown: Vec<String> = shown
        .map(|(number, line)| format!("{number}\t{}", crate::text::shorten(line, MAX_LINE)))
        .collect();
    shown.join("\n")
}

/// Returns how much two lines have in common: letters of common words, and more for the same words.
fn likeness(sought: &str, there: &str) -> usize {
    let (sought, there) = (words(sought), words(there));
    if sought.is_empty() {
        return 0;
    }
    let common: usize = sought
        .iter()
        .filter(|word| there.contains(word))
        .map(|word| word.chars().count())
        .sum();
    if sought == there { common * 2 } else { common }
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_needs_exactly_one_place() {
        assert_eq!(
            replace("one two", "two", "2", false),
            Ok(("one 2".into(), 1))
        );
        assert_eq!(replace("aa", "a", "b", true), Ok(("bb".into(), 2)));
        assert_eq!(
            replace("a\na", "a", "b", false),
            Err(
                "old_string stands there 2 times (lines 1, 2); make it longer, or set replace_all"
                    .into()
            )
        );
        assert!(replace("a", "", "b", false).is_err() && replace("a", "a", "a", false).is_err());
    }

    #[test]
    fn lines_may_end_as_on_windows() {
        assert_eq!(
            replace("a\r\nb\r\n", "a", "x\ny", false),
            Ok(("x\r\ny\r\nb\r\n".into(), 1))
        );
        assert_eq!(
            replace("a\r\nb\n", "a", "x\ny", false),
            Ok(("x\ny\r\nb\n".into(), 1)),
            "nobody knows which ends are meant"
        );
        assert_eq!(
            replace("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", false),
            Ok(("x\r\ny\r\nz\r\nc\r\n".into(), 1))
        );
        assert_eq!(
            replace("a\r\nb\r\n", "a", "x", false),
            Ok(("x\r\nb\r\n".into(), 1))
        );
    }

    #[test]
    fn a_missed_edit_shows_where_it_may_have_been_meant() {
        let missed = |text: &str, old: &str| replace(text, old, "-", false).unwrap_err();
        let space = "old_string does not stand there. Only white space differs: indents, tabs, spaces or line ends. The nearest lines are:\n";
        assert_eq!(
            missed("fn main() {\n}\n", "fn  main() {"),
            format!("{space}1\tfn main() {{\n2\t}}")
        );
        assert_eq!(
            missed("a b\n\tc d\ne\n", "a b\n    c d"),
            format!("{space}1\ta b\n2\t\tc d\n3\te")
        );
        // Not the first line that shares a word with the first line sought, but the block that is like it.
        let text = "let x = 1;\n\nfn a() {\n    one();\n}\n\nfn b() {\n    two();\n}\n";
        assert_eq!(
            missed(text, "fn b() {\n    two(3);\n}"),
            "old_string does not stand there. The nearest lines are:\n5\t}\n6\t\n7\tfn b() {\n8\t    two();\n9\t}"
        );
        for (text, old, begin) in [
            ("", "x", ""),
            ("a b", "c", "1\ta b"),
            ("a", " \n ", "1\ta"),
            ("\n\n", "x", "1\t\n2\t"),
        ] {
            assert_eq!(
                missed(text, old),
                format!(
                    "old_string does not stand there. No line there is like it. It begins:\n{begin}"
                )
            );
        }
        let long: String = (1..40).map(|n| format!("{n}\n")).collect();
        assert!(missed(&long, "x").ends_with("\n20\t20"));
    }
}
