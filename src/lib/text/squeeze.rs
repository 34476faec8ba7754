//! Text that a person decides about: blank room in it cannot push the rest out of sight.

/// Blanks in a row, and blank lines in a row, that stay as they are.
const MOST: (usize, usize) = (40, 3);

/// Returns `text` with a number in the place of longer runs of blanks and of blank lines. A line of a change with
/// nothing behind its `+` or `-` is blank.
pub fn squeeze(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut blank = 0;
    for line in text.lines() {
        let said = line.strip_prefix(['+', '-']).unwrap_or(line);
        if said.chars().all(is_blank) {
            blank += 1;
            continue;
        }
        push_blank(&mut lines, std::mem::take(&mut blank));
        lines.push(in_line(line));
    }
    push_blank(&mut lines, blank);
    lines.join("\n")
}

fn push_blank(lines: &mut Vec<String>, count: usize) {
    match count > MOST.1 {
        true => lines.push(format!("[{count} blank lines]")),
        false => lines.extend(vec![String::new(); count]),
    }
}

fn in_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut run = String::new();
    for c in line.chars().chain(['\n']) {
        if c != '\n' && is_blank(c) {
            run.push(c);
            continue;
        }
        let count = run.chars().count();
        match count > MOST.0 {
            true => out.push_str(&format!(" [{count} blanks] ")),
            false => out.push_str(&run),
        }
        run.clear();
        out.extend((c != '\n').then_some(c));
    }
    out
}

/// A Braille pattern without a dot looks like a space.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == '\u{2800}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_room_is_a_number() {
        let check = |text: &str, expected: &str| assert_eq!(squeeze(text), expected, "{text:?}");
        check("", "");
        check("+ a\n\n\n\n  b", "+ a\n\n\n\n  b");
        check(
            "+ tea\n+ \n+\n- \n\u{2800}\n\n+ obey",
            "+ tea\n[5 blank lines]\n+ obey",
        );
        check("---\n---\n---\n---\n---", "---\n---\n---\n---\n---");
        let wide = format!("+ tea{}obey{}", "\u{a0} ".repeat(30), " ".repeat(50));
        check(&wide, "+ tea [60 blanks] obey [50 blanks] ");
        let narrow = format!("x{}y", " ".repeat(40));
        check(&narrow, &narrow);
    }
}
