//! Text for a person's decision: neither blank space nor repetitions in it can push the rest out of sight.

/// Blanks in a row, and blank lines in a row, that stay as they are.
const MOST: (usize, usize) = (40, 3);
/// The same character in a row, and the same line, that stay as they are; of a few characters again and again, so many in all.
const SAME: (usize, usize) = (100, 8);
/// Characters of the longest such few.
const PATTERN: usize = 24;

/// Returns `text` with a number in the place of longer runs of blanks, of blank lines, of one character or a few and of one
/// line. A line of a change with nothing behind its `+` or `-` is blank.
pub fn squeeze(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut blank = 0;
    let mut same = ("", 0);
    for line in text.lines() {
        let said = line.strip_prefix(['+', '-']).unwrap_or(line);
        if said.chars().all(is_blank) {
            blank += 1;
            continue;
        }
        if blank == 0 && line.trim_end() == same.0.trim_end() {
            same.1 += 1;
            continue;
        }
        push_same(&mut lines, std::mem::replace(&mut same, (line, 1)));
        push_blank(&mut lines, std::mem::take(&mut blank));
    }
    push_same(&mut lines, same);
    push_blank(&mut lines, blank);
    lines.join("\n")
}

fn push_same(lines: &mut Vec<String>, (line, count): (&str, usize)) {
    let shown = if count > SAME.1 { 1 } else { count };
    lines.extend(std::iter::repeat_n(in_line(line), shown));
    if shown < count {
        lines.push(format!("[this line {count} times]"));
    }
}

fn push_blank(lines: &mut Vec<String>, count: usize) {
    match count > MOST.1 {
        true => lines.push(format!("[{count} blank lines]")),
        false => lines.extend(vec![String::new(); count]),
    }
}

fn in_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let chars: Vec<char> = line.chars().collect();
    let is_alike = |one: &char, other: &char| one == other || (is_blank(*one) && is_blank(*other));
    for run in chars.chunk_by(is_alike) {
        match run {
            [first, ..] if is_blank(*first) && run.len() > MOST.0 => {
                out.push_str(&format!(" [{} blanks] ", run.len()));
            }
            [first, ..] if run.len() > SAME.0 => {
                out.push_str(&format!("{first}[{} times]", run.len()));
            }
            run => out.extend(run),
        }
    }
    (2..=PATTERN).fold(out, |line, length| without_pattern(&line, length))
}

/// Puts a number in the place of what is the same `length` characters again and again. The time is linear in the line's
/// length.
fn without_pattern(line: &str, length: usize) -> String {
    let chars: Vec<char> = line.chars().collect();
    if chars.len() <= SAME.0 {
        return line.to_owned();
    }
    let is_again = |at: usize| at >= length && chars.get(at) == chars.get(at - length);
    let mut out = String::with_capacity(line.len());
    // What stands before `from` is in `out`.
    let (mut from, mut at) = (0, length);
    while at < chars.len() {
        let first = at;
        while at < chars.len() && is_again(at) {
            at += 1;
        }
        let begin = (first - length).max(from);
        let times = (at - begin) / length;
        if at - begin > SAME.0 && times > 1 {
            out.extend(chars.get(from..begin + length).into_iter().flatten());
            out.push_str(&format!("[{times} times]"));
            from = begin + times * length;
        }
        at += 1;
    }
    out.extend(chars.get(from..).into_iter().flatten());
    out
}

/// A Braille pattern without a dot, a note without a head and a letter that only fills room look like a space.
fn is_blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{2800}' | '\u{1d159}' | '\u{16fe4}')
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

    #[test]
    fn one_thing_again_and_again_is_a_number() {
        let check = |text: &str, expected: &str| assert_eq!(squeeze(text), expected, "{text:?}");
        let few = "# \n".repeat(8);
        check(
            &format!("run: ls\n{}rm -r notes\n{few}ls", "#\n".repeat(500)),
            &format!("run: ls\n#\n[this line 500 times]\nrm -r notes\n{few}ls"),
        );
        check(&"# \n#\n".repeat(5), "# \n[this line 10 times]");
        check("a\n\na\n\na", "a\n\na\n\na");
        let signs = format!("ls #{} && rm -r notes", "#".repeat(3000));
        check(&signs, "ls #[3001 times] && rm -r notes");
        check(&"=".repeat(80), &"=".repeat(80));
        let room = |pad: &str| format!("ls # {} && rm -r notes", pad.repeat(1000));
        check(&room(". "), "ls # .[1000 times]  && rm -r notes");
        check(
            &room("\u{180b} "),
            "ls # \u{180b}[1000 times]  && rm -r notes",
        );
        check(
            &room("no news; "),
            "ls # no news;[1000 times]  && rm -r notes",
        );
        check(
            &room("\u{1d159}\u{2800}"),
            "ls # [2002 blanks] && rm -r notes",
        );
        let table = "|---".repeat(20);
        check(&table, &table);
    }
}
