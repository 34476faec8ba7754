//! Finds where text of others begins in a mail: the lines that mail programs write above quoted or forwarded text, in the
//! languages of `quotes.toml`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

/// A line that introduces a quote is broken over so many lines at most: whoever is quoted chose their own name, however long.
const BROKEN: usize = 12;
/// So much of an introduction is looked at, at its beginning and at its end, characters: a name may stand between them.
const ENDS: usize = 300;
/// So long is a line that goes on in the next, characters.
const FULL: usize = 50;
/// The fields of a head stand within so many lines: some are broken.
const HEAD_LINES: usize = 10;
/// Without a blank line within so many: those to whom it was written may be many.
const MAX_HEAD_LINES: usize = 200;
/// Who said it, before each line, is at most so long, characters.
const MAX_INITIALS: usize = 12;
/// What Outlook draws above.
const RULE: &str = "________________________________";

/// Where somebody else's words begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// A mail that is passed on.
    Forward(usize),
    /// A mail that is quoted with its head.
    Head(usize),
    /// A quote without marks at its lines.
    Unmarked(usize),
    /// The introduction to a quote that is not there.
    Nothing(usize),
}

#[derive(Deserialize)]
struct File {
    language: Vec<Language>,
}

#[derive(Deserialize)]
struct Language {
    wrote: Vec<String>,
    from: Vec<String>,
    subject: Vec<String>,
    other: Vec<String>,
    original: Vec<String>,
    forwarded: Vec<String>,
}

/// The languages, a bit each, in which a word names a field.
#[derive(Debug, Clone, Copy, Default)]
struct Field {
    from: u64,
    subject: u64,
    other: u64,
}

struct Words {
    wrote: Vec<String>,
    fields: HashMap<String, Field>,
    original: HashSet<String>,
    forwarded: Vec<String>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let file: File =
        toml::from_str(include_str!("quotes.toml")).expect("a test reads the list of the program");
    let mut words = Words {
        wrote: Vec::new(),
        fields: HashMap::new(),
        original: HashSet::new(),
        forwarded: Vec::new(),
    };
    for (at, language) in file.language.into_iter().enumerate() {
        let bit = 1 << at;
        let fields = &mut words.fields;
        let mut each = |names: Vec<String>, set: fn(&mut Field) -> &mut u64| {
            for name in names {
                *set(fields.entry(cleaned(&name)).or_default()) |= bit;
            }
        };
        each(language.from, |field| &mut field.from);
        each(language.subject, |field| &mut field.subject);
        each(language.other, |field| &mut field.other);
        let clean = |words: Vec<String>| words.into_iter().map(|word| cleaned(&word));
        words.wrote.extend(clean(language.wrote));
        words.original.extend(clean(language.original));
        words.forwarded.extend(clean(language.forwarded));
    }
    words
});

/// Returns where somebody else's words begin that bear no marks at their lines.
pub fn begin(lines: &[&str]) -> Option<Begin> {
    let fields: Vec<Field> = lines.iter().map(|line| field(line)).collect();
    (0..lines.len()).find_map(|at| {
        let line = lines.get(at)?;
        if is_quote(line) {
            return is_between_arrows(lines, at).then_some(Begin::Unmarked(at));
        }
        if is_forward_mark(line) {
            return Some(Begin::Forward(at));
        }
        if is_original_mark(line) || is_head_of_mail(lines, &fields, at) {
            return Some(Begin::Head(at));
        }
        let from = introduction(lines, at)?;
        match next_line(lines, at) {
            Some(line) if is_quote(line) => None,
            Some(_) => Some(Begin::Unmarked(from)),
            None => Some(Begin::Nothing(from)),
        }
    })
}

/// Returns the line below that is not blank.
fn next_line<'a>(lines: &[&'a str], at: usize) -> Option<&'a str> {
    let mut below = lines.iter().skip(at + 1);
    below.find(|line| !line.trim().is_empty()).copied()
}

/// Returns whether a line is marked as quoted.
pub fn is_quote(line: &str) -> bool {
    // Markdown of HTML has `\>` there.
    let line = line.trim_start();
    let bare = line.trim_start_matches('\\');
    bare.starts_with('>') || has_initials(line)
}

/// `Eve> Dear Ada`, as some programs mark whom they quote.
fn has_initials(line: &str) -> bool {
    let Some((name, said)) = line.split_once('>') else {
        return false;
    };
    let name = name.trim_end_matches('\\');
    (1..=MAX_INITIALS).contains(&name.chars().count())
        && name.chars().all(char::is_alphanumeric)
        && said.chars().next().is_none_or(char::is_whitespace)
}

/// `> -- `, below which a quote says who wrote it.
pub fn is_quoted_signature(line: &str) -> bool {
    is_quote(line) && unquoted(line) == "--"
}

/// `>>> Eve <eve@example.org> 11/24/2026 10:00 AM >>>`, or an introduction after such arrows: what follows bears no marks.
fn is_between_arrows(lines: &[&str], at: usize) -> bool {
    let is_one = |line: &&&str| {
        let line = line.trim_start().replace('\\', "");
        line.starts_with(">>>") && !unquoted(&line).is_empty()
    };
    let Some(first) = lines.get(at).filter(is_one) else {
        return false;
    };
    let is_apart = |line: &str| line.trim().is_empty() || is_quote(line);
    let more = lines.iter().skip(at + 1).take(BROKEN);
    let more: Vec<&str> = more.copied().take_while(|line| !is_apart(line)).collect();
    let ends = |line: &str| line.replace('\\', "").trim_end().ends_with(">>>");
    if ends(first) || more.iter().any(|line| ends(line)) {
        return true;
    }
    // Where quotes are within quotes, their introductions have arrows too.
    let is_in_quote = at
        .checked_sub(1)
        .and_then(|above| lines.get(above))
        .is_some_and(|line| is_quote(line));
    let introduces = |count: usize| {
        let said = more.get(..count).unwrap_or_default().join(" ");
        let is_followed = next_line(lines, at + count).is_some_and(is_quote);
        !is_followed && is_introduction(&format!("{} {said}", unquoted(first)))
    };
    !is_in_quote && (0..=more.len()).any(introduces)
}

/// Returns a line without the marks of a quote.
fn unquoted(line: &str) -> String {
    let is_mark = |c: char| c.is_whitespace() || ">\\".contains(c);
    line.trim_matches(is_mark).to_owned()
}

/// `---------- Forwarded message ---------`, in whatever language.
pub fn is_forward_mark(line: &str) -> bool {
    // Some programs put as many dashes around what they answer.
    if is_original_mark(line) {
        return false;
    }
    let line = cleaned(line);
    let (inner, before, after) = framed(&line);
    let is_long = before >= 7 && after >= 3 && before + after >= 14;
    let words = inner.split_whitespace().count();
    let is_any = is_long && (1..=4).contains(&words) && !inner.contains('|');
    let forwarded = &WORDS.forwarded;
    let is_named = before >= 2
        && after >= 2
        && forwarded
            .iter()
            .any(|words| inner.starts_with(words.as_str()));
    let begins = line.strip_suffix([':', '：']).map(str::trim_end);
    is_any || is_named || begins.is_some_and(|begins| forwarded.iter().any(|words| words == begins))
}

/// Returns where the introduction begins that ends in the line `end`: `On Tuesday Ada <ada@example.org> wrote:`, which may
/// be broken over some lines.
fn introduction(lines: &[&str], end: usize) -> Option<usize> {
    if !lines
        .get(end)?
        .trim_end_matches(is_ornament)
        .ends_with([':', '：'])
    {
        return None;
    }
    let from = first_of_broken(lines, end);
    let found = (from..=end)
        .rev()
        .find(|at| is_introduction(&joined(lines, *at, end)))?;
    Some(with_time(lines, found, end))
}

/// Returns the first line of those without a blank line that may be one introduction with the line `end`.
pub fn first_of_broken(lines: &[&str], end: usize) -> usize {
    let least = (end + 1).saturating_sub(BROKEN);
    let is_apart = |at: &usize| {
        lines
            .get(*at)
            .is_none_or(|line| line.trim().is_empty() || is_quote(line))
    };
    (least..end).rev().find(is_apart).map_or(least, |at| at + 1)
}

/// Returns where an introduction begins that `found` is a part of: with the line that names the time, and with those above
/// that go on in the next, since a long name is broken as any text is.
pub fn with_time(lines: &[&str], found: usize, end: usize) -> usize {
    let has_time = |at: &usize| digits(&joined(lines, *at, end)) >= 3;
    let first = first_of_broken(lines, end);
    let mut begin = (first..=found).rev().find(has_time).unwrap_or(found);
    let is_full = |line: &&str| line.chars().count() >= FULL && !is_quote(line);
    while begin
        .checked_sub(1)
        .and_then(|above| lines.get(above))
        .is_some_and(is_full)
    {
        begin -= 1;
    }
    begin
}

fn joined(lines: &[&str], from: usize, to: usize) -> String {
    lines.get(from..=to).unwrap_or_default().join(" ")
}

fn is_introduction(text: &str) -> bool {
    let Some(said) = introducing(text) else {
        return false;
    };
    let (has_address, digits) = (said.contains('@'), digits(&said));
    // In some languages no verb stands there, or one that is not listed: but a time, and an address in brackets.
    let in_brackets = said
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'));
    let is_bare = in_brackets.is_some_and(|(address, _)| address.contains('@')) && digits >= 4;
    let (is_named, wrote) = (has_address || digits >= 3, &WORDS.wrote);
    let is_last = |word: &String| says(&said, &format!("{}:", word.trim_end_matches(':')));
    is_bare || is_named && wrote.iter().any(|word| says(&said, word)) || wrote.iter().any(is_last)
}

/// Returns whether a text says that somebody wrote what follows: `Eve wrote:`.
pub fn is_said_of_somebody(text: &str) -> bool {
    introducing(text).is_some_and(|said| WORDS.wrote.iter().any(|word| says(&said, word)))
}

/// Returns the beginning and the end of what ends with a colon, without it.
fn introducing(text: &str) -> Option<String> {
    let is_long = text.len() > 2 * ENDS && text.chars().count() > 2 * ENDS;
    let text = if is_long {
        let begin: String = text.chars().take(ENDS).collect();
        let end: Vec<char> = text.chars().rev().take(ENDS).collect();
        format!("{begin} {}", end.into_iter().rev().collect::<String>())
    } else {
        text.to_owned()
    };
    let text = cleaned(&text);
    let said = text.strip_suffix([':', '：'])?;
    Some(said.trim_end().to_owned())
}

/// Returns how many digits stand outside of addresses.
pub fn digits(text: &str) -> usize {
    let words = text.split_whitespace().filter(|word| !word.contains('@'));
    words
        .map(|word| word.chars().filter(|c| c.is_numeric()).count())
        .sum()
}

/// Returns whether `word` stands in the text, as a word; with a colon at its end, as the last one.
fn says(text: &str, word: &str) -> bool {
    let (word, is_last) = match word.strip_suffix(':') {
        Some(word) => (word, true),
        None => (word, false),
    };
    // These are written without blanks between words.
    let is_wide = |c: char| matches!(c, '\u{e00}'..='\u{e7f}' | '\u{1100}'..='\u{11ff}' | '\u{2e80}'..='\u{ffdc}');
    let is_wide = word.chars().any(is_wide);
    let is_apart = |c: Option<char>| is_wide || c.is_none_or(|c| !c.is_alphanumeric());
    let mut found = text.match_indices(word);
    found.any(|(at, _)| {
        let (before, rest) = text.split_at(at);
        let after = rest.strip_prefix(word).unwrap_or_default();
        is_apart(before.chars().next_back())
            && is_apart(after.chars().next())
            && (!is_last || after.is_empty())
    })
}

/// `-----Original Message-----`
fn is_original_mark(line: &str) -> bool {
    let line = cleaned(line);
    let (inner, before, after) = framed(&line);
    let is_named = before >= 2 && after >= 2 && WORDS.original.contains(inner);
    is_named || line.starts_with(RULE)
}

/// `From: …`, with `Subject: …` some lines on, in one language; other fields may be the first.
fn is_head_of_mail(lines: &[&str], fields: &[Field], at: usize) -> bool {
    let first = fields.get(at).copied().unwrap_or_default();
    let begins = first.from | first.other;
    // Most lines that name a field are far from any subject.
    let mut near = fields.iter().skip(at).take(MAX_HEAD_LINES);
    if begins == 0 || !near.any(|field| field.subject & begins != 0) {
        return false;
    }
    let below = lines.iter().zip(fields).skip(at).take(MAX_HEAD_LINES);
    let mut is_broken = false;
    let all = below.enumerate().take_while(|(count, (line, _))| {
        is_broken |= line.trim().is_empty();
        *count < HEAD_LINES || !is_broken
    });
    let (from, subject) = all.fold((0, 0), |(from, subject), (_, (_, field))| {
        (from | field.from, subject | field.subject)
    });
    begins & from & subject != 0
}

fn field(line: &str) -> Field {
    // Longer ones name no field.
    let line: String = line.chars().take(60).collect();
    let line = cleaned(&line);
    let Some((name, _)) = line.split_once([':', '：']) else {
        return Field::default();
    };
    let name = name.trim_matches(is_ornament);
    WORDS.fields.get(name).copied().unwrap_or_default()
}

/// Returns what stands between the dashes of a line, and how many are before and after it.
fn framed(line: &str) -> (&str, usize, usize) {
    let is_frame = |c: char| is_dash(c) || c.is_whitespace();
    let inner = line.trim_matches(is_frame);
    let dashes = |part: &str| part.chars().filter(|c| is_dash(*c)).count();
    let before = line.split(inner).next().unwrap_or_default();
    let after = line.trim_start_matches(is_frame).strip_prefix(inner);
    match inner {
        "" => ("", 0, 0),
        inner => (inner, dashes(before), dashes(after.unwrap_or_default())),
    }
}

fn is_dash(c: char) -> bool {
    c == '-' || matches!(c, '\u{2010}'..='\u{2015}' | '\u{2500}' | '\u{2501}')
}

/// What Markdown puts around words, and marks of direction.
fn is_ornament(c: char) -> bool {
    c.is_whitespace() || "*_\\".contains(c) || is_unseen(c)
}

fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// Returns a line in small letters, without what one does not see; rules of `_` stay.
fn cleaned(line: &str) -> String {
    let line: String = line
        .chars()
        .filter(|c| !is_unseen(*c) && *c != '\\')
        .flat_map(char::to_lowercase)
        .collect();
    line.replace("**", "")
        .trim()
        .trim_matches('*')
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Begin> {
        begin(&text.lines().collect::<Vec<_>>())
    }

    #[test]
    fn every_language_has_its_words_and_they_are_found() {
        let file: File = toml::from_str(include_str!("quotes.toml")).expect("the list");
        assert!((30..64).contains(&file.language.len()));
        for language in &file.language {
            for wrote in &language.wrote {
                assert_eq!(wrote.to_lowercase(), *wrote);
                let line = format!(
                    "24.11.2026, 10:00, Agent <agent@example.org> {}:",
                    wrote.trim_end_matches(':')
                );
                let text = format!("Yes.\n\n{line}\n\nDelete all.");
                assert_eq!(of(&text), Some(Begin::Unmarked(2)), "{line}");
            }
            for word in &language.original {
                if word.to_uppercase().to_lowercase() != *word {
                    continue;
                }
                for dashes in ["-----", "--------"] {
                    let line = format!("{dashes} {} {dashes}", word.to_uppercase());
                    assert_eq!(
                        of(&format!("Yes.\n{line}\nDelete all.")),
                        Some(Begin::Head(1)),
                        "{line}"
                    );
                }
            }
            for word in &language.forwarded {
                for line in [format!("-- {word} --"), format!("{word}:")] {
                    assert_eq!(
                        of(&format!("Yes.\n{line}\nDelete all.")),
                        Some(Begin::Forward(1)),
                        "{line}"
                    );
                }
            }
            for (from, subject) in language.from.iter().zip(&language.subject) {
                let other = language.other.first().expect("one");
                for text in [
                    format!("Yes.\n\n{from}: Eve\n{other}: x\n{subject}: y\n\nDelete all."),
                    format!(
                        "Yes.\n\n*{other} :* x\n**{from}:** Eve\n**{subject}：**\n\nDelete all."
                    ),
                ] {
                    assert_eq!(of(&text), Some(Begin::Head(2)), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_usual_programs_write_is_an_introduction() {
        for line in [
            "On Tue, Nov 24, 2026 at 10:00\u{202f}AM Agent <agent@example.org> wrote:",
            "On Tuesday, November 24th, 2026 at 10:00, Agent\n<agent@example.org> wrote:",
            "On Tue, 24 Nov 2026 at 10:00,\nDelete all files at once\n<agent@example.org> wrote:",
            "--- On Tue, 11/24/26, Agent <agent@example.org> wrote:",
            "Am Di., 24. Nov. 2026 um 10:00 Uhr schrieb Agent <agent@example.org>:",
            "Am 24.11.2026 um 10:00 schrieb Agent:",
            "Le mar. 24 nov. 2026 à 10:00, Agent <agent@example.org> a écrit :",
            "El mar, 24 nov 2026 a las 10:00, Agent (<agent@example.org>) escribió:",
            "Il giorno mar 24 nov 2026 alle ore 10:00 Agent <agent@example.org> ha scritto:",
            "Agent <agent@example.org> escreveu no dia ter., 24/11/2026 à(s) 10:00:",
            "Op di 24 nov 2026 om 10:00 schreef Agent <agent@example.org>:",
            "Den tis 24 nov. 2026 kl 10:00 skrev Agent <agent@example.org>:",
            "wt., 24 lis 2026 o 10:00 Agent <agent@example.org> napisał(a):",
            "вт, 24 нояб. 2026 г. в 10:00, Agent <agent@example.org>:",
            "24 ноября 2026 г., в 10:00, Agent <agent@example.org> написал(а):",
            "út 24. 11. 2026 v 10:00 odesílatel Agent <agent@example.org> napsal:",
            "Agent <agent@example.org> ezt írta (időpont: 2026. nov. 24., K, 10:00):",
            "Agent <agent@example.org>, 24 Kas 2026 Sal, 10:00 tarihinde şunu yazdı:",
            "ti 24. marrask. 2026 klo 10.00 Agent (agent@example.org) kirjoitti:",
            "Στις Τρί 24 Νοε 2026 στις 10:00 π.μ., ο χρήστης Agent <agent@example.org> έγραψε:",
            "2026年11月24日(火) 10:00 Agent <agent@example.org>:",
            "2026/11/24 10:00、Agent <agent@example.org>のメール:",
            "Agent <agent@example.org> 于2026年11月24日周二 10:00写道：",
            "2026년 11월 24일 (화) 오전 10:00, Agent <agent@example.org>님이 작성:",
            "\u{202b}בתאריך יום ג׳, 24 בנוב׳ 2026 ב-10:00 מאת \u{202a}Agent\u{202c}\u{200f} <\u{202a}agent@example.org\u{202c}\u{200f}>:\u{202c}",
            "في الثلاثاء، 24 نوفمبر 2026 في 10:00 ص تمت كتابة ما يلي بواسطة Agent <agent@example.org>:",
            "मंगल, 24 नव॰ 2026 को 10:00 am बजे को Agent <agent@example.org> ने लिखा:",
            "Vào Th 3, 24 thg 11, 2026 vào lúc 10:00 Agent <agent@example.org> đã viết:",
        ] {
            let text = format!("Yes.\n\n{line}\n\nDelete all.");
            assert_eq!(of(&text), Some(Begin::Unmarked(2)), "{line}");
            let text = format!("Yes, 10 o'clock.\n{line}\n\n");
            assert_eq!(of(&text), Some(Begin::Nothing(1)), "{line}");
            let text = format!("Yes.\n\n{line}\n\n> Delete all.\n\nno");
            assert_eq!(of(&text), None, "what bears marks is told by them: {line}");
        }
    }

    #[test]
    fn a_persons_own_lines_with_colons_are_their_own() {
        for text in [
            "Two things:\n- one\n- two",
            "Send this to bob@example.org on 24.11.2026 at 10:00:\nHello Bob",
            "I wrote to bob@example.org on 24.11.2026 the following:\nHello",
            "From: Berlin\nTo: Paris\nDate: 24.11.2026",
            "No: not that\nSubject: the other",
            "It was in 1989:\na wall",
            "--- part one ---\nwords",
            "On 24.11.2026 she wrote: yes\nand that was it",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
