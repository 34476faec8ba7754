//! Invisible characters that a model reads: changes of text direction, zero-width characters, whole sentences in tags or
//! variation selectors.
//!
//! Characters that a language or an emoji needs are not hidden: joiners between letters of joining scripts and inside emoji,
//! one selector after a sign with two forms, direction marks in a line with right-to-left letters, the flags of England,
//! Scotland and Wales. The classes are
//! Unicode's (UAX #9 for direction, UTS #51 for emoji, UAX #31 for joiners).

/// A hidden character and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hidden {
    /// Its line, from 1.
    pub line: usize,
    /// Its column in characters, from 1.
    pub column: usize,
    /// The character.
    pub c: char,
}

impl std::fmt::Display for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{} U+{:04X}, {}",
            self.line,
            self.column,
            u32::from(self.c),
            what(self.c)
        )
    }
}

/// Returns the hidden characters of a file in order, at most `max`. A byte order mark at its
/// beginning is none.
pub fn find(text: &str, max: usize) -> Vec<Hidden> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let in_line = |(line, text): (usize, &str)| {
        let chars: Vec<char> = text.strip_suffix('\r').unwrap_or(text).chars().collect();
        let hidden: Vec<Hidden> = hidden_at(&chars)
            .map(|at| Hidden {
                line,
                column: at + 1,
                c: chars[at],
            })
            .collect();
        hidden
    };
    (1..)
        .zip(text.split('\n'))
        .flat_map(in_line)
        .take(max)
        .collect()
}

/// Returns a text without its hidden characters.
pub fn without(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let in_line = |line: &str| {
        let chars: Vec<char> = line.chars().collect();
        let mut hidden = hidden_at(&chars).peekable();
        let seen = chars
            .iter()
            .enumerate()
            .filter(|(at, _)| hidden.next_if_eq(at).is_none());
        seen.map(|(_, c)| c).collect::<String>()
    };
    text.split('\n')
        .map(in_line)
        .collect::<Vec<String>>()
        .join("\n")
}

/// Returns what a character does, in a few words.
fn what(c: char) -> &'static str {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            "which turns the direction of text"
        }
        '\u{e0000}'..='\u{e007f}' => "a tag, which nobody sees",
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            "a variation selector where nothing varies"
        }
        c if c.is_control() => "a control character",
        _ => "which has no width",
    }
}

/// Returns where hidden characters are in a line, in order. Anybody may have written it: the time is linear in
/// its length.
pub(super) fn hidden_at(line: &[char]) -> impl Iterator<Item = usize> {
    let has_leftward = line.iter().any(|c| runs_leftwards(*c));
    (0..line.len()).filter(move |at| is_hidden(line, *at, has_leftward))
}

/// `has_leftward` is whether a letter of the line runs from right to left.
fn is_hidden(line: &[char], at: usize, has_leftward: bool) -> bool {
    let before = at
        .checked_sub(1)
        .and_then(|before| line.get(before))
        .copied();
    match line[at] {
        '\t' => false,
        c if c.is_control() => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{200e}' | '\u{200f}' | '\u{61c}' => !has_leftward,
        '\u{200c}' | '\u{200d}' => !joins(line, at),
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{2060}'..='\u{2065}' => true,
        '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' => true,
        '\u{1d173}'..='\u{1d17a}' => true,
        '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            !before.is_some_and(|c| matches!(c, '\u{1820}'..='\u{18aa}'))
        }
        // Joiners of hieroglyphs, and of the digits of Brahmi.
        '\u{13430}'..='\u{13455}' => !before.is_some_and(is_hieroglyph),
        '\u{1107f}' => !before.is_some_and(|c| matches!(c, '\u{11052}'..='\u{11065}')),
        '\u{16fe4}' => !before.is_some_and(|c| matches!(c, '\u{18b00}'..='\u{18cff}')),
        // No character stands there, and none will be seen.
        '\u{fff0}'..='\u{fff8}' | '\u{e0080}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}' => true,
        '\u{fe0e}' | '\u{fe0f}' => !before.is_some_and(has_two_forms),
        '\u{fe00}'..='\u{fe0d}' => !before.is_some_and(has_variants),
        '\u{e0100}'..='\u{e01ef}' => !before.is_some_and(is_ideograph),
        '\u{e0000}'..='\u{e007f}' => !in_flag(line, at),
        _ => false,
    }
}

/// Letters of scripts that are written from right to left.
fn runs_leftwards(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
        && c != '\u{61c}'
}

/// A joiner between the letters of a script that joins, or inside an emoji.
fn joins(line: &[char], at: usize) -> bool {
    let of_script = |c: &char| {
        matches!(c, '\u{600}'..='\u{109f}' | '\u{1780}'..='\u{18aa}' | '\u{1900}'..='\u{1cff}' | '\u{a800}'..='\u{abff}'
            | '\u{fb50}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}' | '\u{11000}'..='\u{11fff}')
            // Marks among them that may be hidden themselves.
            && !matches!(c, '\u{61c}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}')
    };
    let (before, after) = (line[..at].last(), line.get(at + 1));
    if before.is_some_and(of_script) {
        return true;
    }
    // A tone of skin or the selector is between an emoji and what joins it to the next.
    let emoji = line[..at]
        .iter()
        .rfind(|c| !matches!(**c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}'));
    line[at] == '\u{200d}'
        && emoji.copied().is_some_and(is_pictograph)
        && after.copied().is_some_and(is_pictograph)
}

fn is_pictograph(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{23ff}' | '\u{2600}'..='\u{27bf}' | '\u{2900}'..='\u{297f}'
        | '\u{2b00}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

/// Signs that are shown as a letter or as a picture.
fn has_two_forms(c: char) -> bool {
    is_pictograph(c)
        || matches!(c, '0'..='9' | '#' | '*' | '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2100}'..='\u{214f}'
            | '\u{2400}'..='\u{25ff}' | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}')
}

fn has_variants(c: char) -> bool {
    is_ideograph(c)
        || matches!(c, '\u{1000}'..='\u{109f}' | '\u{1820}'..='\u{18aa}' | '\u{2200}'..='\u{22ff}' | '\u{2a00}'..='\u{2aff}'
            | '\u{3000}'..='\u{303f}' | '\u{a840}'..='\u{a87f}' | '\u{ff00}'..='\u{ff60}')
}

fn is_hieroglyph(c: char) -> bool {
    matches!(c, '\u{13000}'..='\u{1342f}' | '\u{13460}'..='\u{143ff}')
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// A tag of one of the three flags that Unicode recommends (UTS #51, annex C).
fn in_flag(line: &[char], at: usize) -> bool {
    /// Tags of a flag. Longer runs are not looked at: they are no flag, and may be very long.
    const TAGS: usize = 6;
    let is_tag = |c: &&char| matches!(**c, '\u{e0000}'..='\u{e007f}');
    let before = line[..at].iter().rev().take(TAGS).take_while(is_tag);
    let first = at - before.count();
    let flag = first.checked_sub(1).and_then(|before| line.get(before)) == Some(&'\u{1f3f4}');
    let tags: String = line[first..]
        .iter()
        .take(TAGS + 1)
        .take_while(is_tag)
        .filter_map(|c| char::from_u32(u32::from(*c) - 0xe0000))
        .collect();
    flag && ["gbeng\u{7f}", "gbsct\u{7f}", "gbwls\u{7f}"].contains(&tags.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Were the time quadratic, this would take hours.
    #[test]
    fn a_million_marks_are_looked_at_once_each() {
        for mark in ['\u{200f}', '\u{e0041}', '\u{200d}', '\u{fe0f}'] {
            let marks: String = std::iter::repeat_n(mark, 1_000_000).collect();
            assert_eq!(without(&format!("a{marks}b")), "ab", "{mark:?}");
        }
    }

    #[test]
    fn what_stays_hides_nothing() {
        for text in [
            "x\u{61c}\u{200d}y",
            "x\u{17b4}\u{200c}y",
            "x\u{180e}\u{200d}y",
        ] {
            assert_eq!(without(text), "xy", "{}", text.escape_unicode());
        }
    }

    #[test]
    fn what_nobody_sees_is_found_where_it_stands() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> = find(text, 9).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{}", text.escape_unicode());
        };
        check(
            "a\r\nbc\u{202e}d",
            &["2:3 U+202E, which turns the direction of text"],
        );
        check("a\u{200b}b", &["1:2 U+200B, which has no width"]);
        check(
            "a\u{200d}b \u{200c}",
            &[
                "1:2 U+200D, which has no width",
                "1:5 U+200C, which has no width",
            ],
        );
        check("x\u{feff}", &["1:2 U+FEFF, which has no width"]);
        for c in "\u{180b}\u{180f}\u{13430}\u{13455}\u{16fe4}\u{1107f}\u{fff0}\u{e0080}".chars() {
            assert_eq!(find(&format!("x{c}"), 9).len(), 1, "{}", c.escape_unicode());
        }
        check("a\u{e0041}", &["1:2 U+E0041, a tag, which nobody sees"]);
        check("a\u{1b}[2J", &["1:2 U+001B, a control character"]);
        check("a\rb", &["1:2 U+000D, a control character"]);
        check(
            "\u{200f}left",
            &["1:1 U+200F, which turns the direction of text"],
        );
        // Bytes in selectors: after a letter, and all except the first after an emoji.
        check(
            "a\u{fe01}",
            &["1:2 U+FE01, a variation selector where nothing varies"],
        );
        assert_eq!(find("😀\u{fe0f}\u{fe0f}\u{e0155}\u{fe03}", 9).len(), 3);
        // A sentence in tags behind a flag that is none.
        assert_eq!(find("🏴\u{e0068}\u{e0069}\u{e007f}", 9).len(), 3);
        assert_eq!(find(&"\u{200b}".repeat(50), 3).len(), 3);
    }

    #[test]
    fn what_a_language_or_an_emoji_needs_is_not_hidden() {
        for text in [
            "\u{feff}plain\ttext\r\n",
            "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 🧑🏽\u{200d}🚀 🏳\u{fe0f}\u{200d}🌈",
            "1\u{fe0f}\u{20e3} ©\u{fe0f} ☎\u{fe0e}",
            "می\u{200c}خواهم क\u{94d}\u{200d}ष",
            "שלום \u{200f}(a)",
            "葛\u{e0100} ≨\u{fe00}",
            "\u{182d}\u{180b} \u{13000}\u{13430}\u{13001}",
            "🏴\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
        ] {
            assert_eq!(find(text, 9), [], "{}", text.escape_unicode());
        }
    }

    proptest! {
        #[test]
        fn plain_letters_are_never_hidden(text in "[ -~\\näöüßéçñЖжαωあ漢字한]{0,80}") {
            prop_assert_eq!(find(&text, 9), []);
        }
    }
}
