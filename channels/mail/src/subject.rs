//! The origin of a subject: `Re:` and `Fwd:`, in the languages of common mail programs. The author of the answered or forwarded
//! mail chose the rest of it.

/// What stands before the subject of an answer, in small letters.
const ANSWERED: [&str; 44] = [
    "re",
    "aw",
    "sv",
    "vs",
    "antw",
    "antwort",
    "antwoord",
    "ref",
    "rif",
    "r",
    "res",
    "resp",
    "respuesta",
    "odp",
    "odg",
    "vá",
    "válasz",
    "ynt",
    "yanıt",
    "atb",
    "ats",
    "απ",
    "σχετ",
    "на",
    "отв",
    "ответ",
    "отг",
    "відп",
    "bls",
    "balas",
    "trả lời",
    "răsp",
    "rép",
    "réf",
    "svar",
    "回复",
    "回覆",
    "答复",
    "返信",
    "회신",
    "답장",
    "رد",
    "תגובה",
    "השב",
];
/// And before that of what is passed on.
const PASSED_ON: [&str; 51] = [
    "fw",
    "fwd",
    "forward",
    "forwarded",
    "wg",
    "weitergeleitet",
    "tr",
    "transf",
    "rv",
    "i",
    "enc",
    "vb",
    "vl",
    "vidb",
    "vid",
    "doorst",
    "fs",
    "pd",
    "ilt",
    "i̇lt",
    "továbbítás",
    "továbbított",
    "tov",
    "πρθ",
    "προωθ",
    "пр",
    "пересл",
    "пер",
    "прати",
    "препр",
    "trs",
    "terusan",
    "chuyển tiếp",
    "redir",
    "posr",
    "prosl",
    "pers",
    "pārs",
    "edasi",
    "předáno",
    "yml",
    "转发",
    "轉寄",
    "转寄",
    "轉發",
    "転送",
    "전달",
    "إعادة توجيه",
    "תועבר",
    "הועבר",
    "ส่งต่อ",
];
/// And before that of an event, or of a file that is sent.
const OF_EVENTS: [&str; 14] = [
    "emailing",
    "accepted",
    "declined",
    "tentative",
    "tentatively accepted",
    "canceled",
    "cancelled",
    "invitation",
    "updated invitation",
    "einladung",
    "abgesagt",
    "zugesagt",
    "angenommen",
    "abgelehnt",
];
/// So few letters before a colon are the mark of a program in a language that is not listed.
const FEW: usize = 3;

/// Where the words of a subject come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The mail that is answered.
    Answer,
    /// The mail that is passed on.
    Forward,
}

/// Returns what the subject says of its origin, wherever in it; `None` when it seems to be its sender's.
pub fn mark(subject: &str) -> Option<Mark> {
    let small = subject.to_lowercase();
    // `[eve@example.org: Hello]` and `Hello (fwd)`, as programs of the terminal write.
    let is_framed = small.trim_start().starts_with('[') && small.trim_end().ends_with(']');
    if small.contains("(fwd)") || is_framed && small.contains('@') {
        return Some(Mark::Forward);
    }
    // What a gateway puts before it says nothing: `[EXTERNAL] Re: Hello`.
    let mut bare = small.trim();
    while let Some((tag, rest)) = bare.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        if tag.contains(':') {
            break;
        }
        bare = rest.trim_start();
    }
    let mut said: Vec<&str> = bare.split([':', '：']).collect();
    // Behind the last colon no mark stands.
    said.pop();
    let first = said.first().map(|word| letters(word)).unwrap_or_default();
    let is_few = (1..=FEW).contains(&first.chars().count()) && !first.contains(' ');
    // The first one is the outermost.
    let known = said.iter().find_map(|said| {
        let said = letters(said);
        if is_last(&said, &PASSED_ON) {
            return Some(Mark::Forward);
        }
        let is_answer = is_last(&said, &ANSWERED) || is_last(&said, &OF_EVENTS);
        is_answer.then_some(Mark::Answer)
    });
    known.or(is_few.then_some(Mark::Answer))
}

/// Returns whether one of the marks ends what stands before a colon.
fn is_last(said: &str, marks: &[&str]) -> bool {
    let mut before = marks.iter().filter_map(|mark| said.strip_suffix(mark));
    before.any(|before| before.is_empty() || before.ends_with(' '))
}

/// Returns what a subject is about, without `Re:`, `Fwd:` and their like.
pub fn about(subject: &str) -> &str {
    let mut rest = subject.trim();
    while let Some((word, after)) = rest.split_once([':', '：']) {
        let word = letters(&word.to_lowercase());
        if !ANSWERED.contains(&word.as_str()) && !PASSED_ON.contains(&word.as_str()) {
            break;
        }
        rest = after.trim_start();
    }
    rest
}

/// Returns the letters of what stands before a colon: of `Re[2]`, `RE^3` and `[Fwd` too.
fn letters(said: &str) -> String {
    let is_other = |c: char| !c.is_alphabetic() && !('\u{300}'..='\u{36f}').contains(&c);
    let words: Vec<&str> = said
        .split(is_other)
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_put_before_a_subject_is_known() {
        for (subject, expected) in [
            ("Re: x", Some(Mark::Answer)),
            ("RE[2]: x", Some(Mark::Answer)),
            ("AW: WG: x", Some(Mark::Answer)),
            ("回复：x", Some(Mark::Answer)),
            ("SV: x", Some(Mark::Answer)),
            ("[EXTERNAL] Re: x", Some(Mark::Answer)),
            ("Xyz: x", Some(Mark::Answer)),
            ("Fwd: x", Some(Mark::Forward)),
            ("FW : x", Some(Mark::Forward)),
            ("WG: x", Some(Mark::Forward)),
            ("TR: x", Some(Mark::Forward)),
            ("İLT: x", Some(Mark::Forward)),
            ("Chuyển tiếp: x", Some(Mark::Forward)),
            ("[Fwd: x]", Some(Mark::Forward)),
            ("[eve@evil.com: x]", Some(Mark::Forward)),
            ("x (fwd)", Some(Mark::Forward)),
            ("look, Fwd: x", Some(Mark::Forward)),
            ("Accepted: x", Some(Mark::Answer)),
            ("TODO: milk", None),
            ("Dinner at 10:00", None),
            ("Before: one, after: two", None),
            ("[home] heating", None),
            ("", None),
        ] {
            assert_eq!(mark(subject), expected, "{subject}");
        }
    }

    #[test]
    fn what_a_subject_is_about_is_known_without_its_marks() {
        for (subject, expected) in [
            ("Re: AW: Tuesday", "Tuesday"),
            ("RE[2]: x", "x"),
            ("WG：x", "x"),
            ("Report: disk", "Report: disk"),
            ("Invitation: x", "Invitation: x"),
            ("re:", ""),
            ("", ""),
        ] {
            assert_eq!(about(subject), expected);
        }
    }
}
