//! The changes between two texts, line by line: `-` before removed, `+` before added lines.

/// Lines next to a change that are shown.
const AROUND: usize = 2;
/// The most lines of either text between the first and the last change that are compared; of more all go and all come.
const MOST: usize = 1_500;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Same,
    Gone,
    New,
}

/// Returns the changes from `old` to `new` with some lines around them, and `…` where lines are left out; nothing when
/// they are the same.
pub fn line_diff(old: &str, new: &str) -> String {
    let lines = compare(
        &old.lines().collect::<Vec<&str>>(),
        &new.lines().collect::<Vec<&str>>(),
    );
    let is_near = |at: usize| {
        let around = lines
            .iter()
            .skip(at.saturating_sub(AROUND))
            .take(AROUND.min(at) + 1 + AROUND);
        around.into_iter().any(|(kind, _)| *kind != Kind::Same)
    };
    let mut shown = String::new();
    let mut left_out = false;
    for (at, (kind, line)) in lines.iter().enumerate() {
        if !is_near(at) {
            left_out = true;
            continue;
        }
        if std::mem::take(&mut left_out) {
            shown.push_str("…\n");
        }
        let sign = match kind {
            Kind::Same => ' ',
            Kind::Gone => '-',
            Kind::New => '+',
        };
        shown.extend([sign, ' ']);
        shown.push_str(line);
        shown.push('\n');
    }
    if left_out && !shown.is_empty() {
        shown.push_str("…\n");
    }
    shown
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Kind, &'a str)> {
    let start = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (&old[start..], &new[start..]);
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let end = ends.take_while(|(a, b)| a == b).count();
    let (gone, come) = (
        &old_rest[..old_rest.len() - end],
        &new_rest[..new_rest.len() - end],
    );
    let of = |kind: Kind| move |line: &&'a str| (kind, *line);
    let mut lines: Vec<(Kind, &str)> = old[..start].iter().map(of(Kind::Same)).collect();
    if gone.len() > MOST || come.len() > MOST {
        lines.extend(gone.iter().map(of(Kind::Gone)));
        lines.extend(come.iter().map(of(Kind::New)));
    } else {
        lines.extend(shortest(gone, come));
    }
    lines.extend(old_rest[old_rest.len() - end..].iter().map(of(Kind::Same)));
    lines
}

/// The longest common subsequence, by its table.
fn shortest<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Kind, &'a str)> {
    let width = new.len() + 1;
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            common[i * width + j] = match a == b {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::with_capacity(old.len() + new.len());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((Kind::Same, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len()
            && (j == new.len() || common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            lines.push((Kind::Gone, old[i]));
            i += 1;
        } else {
            lines.push((Kind::New, new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_and_what_comes_is_shown_with_the_lines_beside_it() {
        let check = |old: &str, new: &str, expected: &str| {
            assert_eq!(line_diff(old, new), expected, "{old:?} {new:?}");
        };
        check("a\nb\n", "a\nb\n", "");
        check("", "a\n", "+ a\n");
        check("a\n", "", "- a\n");
        check(
            "1\n2\n3\n4\n5\n6\n7\n",
            "1\n2\n3\nfour\n5\n6\n7\n",
            "…\n  2\n  3\n- 4\n+ four\n  5\n  6\n…\n",
        );
        check("a\nb\nc\n", "b\nc\nd\n", "- a\n  b\n  c\n+ d\n");
        let long = |word: &str| format!("same\n{}", format!("{word}\n").repeat(MOST + 1));
        let shown = line_diff(&long("x"), &long("y"));
        assert_eq!(shown.matches("- x").count(), MOST + 1);
        assert_eq!(shown.matches("+ y").count(), MOST + 1);
    }
}
