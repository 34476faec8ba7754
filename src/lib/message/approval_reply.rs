//! The owner's answer to an approval request: the data of buttons, and typed commands.

use super::{Approval, Command, DeadLetters};

/// The longest id of a request, or of a batch of them.
const ID_MAX: usize = 32;
/// Stands for the only request that waits, where no id is named. It has letters that no id has.
pub const ONLY: &str = "only";
/// The verdict on a question that needs no text.
pub const YES_OR_NO: &str = "Yes or No";
/// What is said to a word that names nothing, or more than it may.
const WHICH: &str =
    "Which request do you mean? /approve ID or /deny ID WHY; the ID is in the question.";

impl Approval {
    /// Returns what the button with this verdict about the request `id` brings back: at most 36 bytes.
    pub fn data(self, id: &str) -> String {
        let verdict = match self {
            Self::Approve => 'y',
            Self::Session => 's',
            Self::Always => 'w',
            Self::Deny => 'n',
        };
        format!("a:{verdict}:{id}")
    }
}

/// Returns true for what may be the id of a request: 1 to 32 of `a-z0-9`.
pub fn is_request(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// Returns what is meant by a button that brings back `data`; `None` when it is not one of ours.
pub fn pressed(data: &str) -> Option<Command> {
    if let Some(command) = DeadLetters::pressed(data) {
        return Some(command);
    }
    let (verdict, id) = data.strip_prefix("a:")?.split_once(':')?;
    if let Some(number) = choice_of(verdict).filter(|_| is_request(id)) {
        return Some(Command::Approval {
            id: id.to_owned(),
            verdict: Approval::Approve,
            why: Some(format!("#{number}")),
        });
    }
    let verdict = match verdict {
        "y" => Approval::Approve,
        "s" => Approval::Session,
        "w" => Approval::Always,
        "n" => Approval::Deny,
        _ => return None,
    };
    is_request(id).then(|| Command::Approval {
        id: id.to_owned(),
        verdict,
        why: None,
    })
}

/// Returns what the button of the choice with this number about the request `id` brings back, for 1 to 9.
pub fn choice(number: usize, id: &str) -> String {
    format!("a:{number}:{id}")
}

fn choice_of(verdict: &str) -> Option<u8> {
    match verdict.as_bytes() {
        [digit @ b'1'..=b'9'] => Some(digit - b'0'),
        _ => None,
    }
}

/// Returns what is meant by `/answer REST`: the words for the request that is named first, or for the only one.
pub(super) fn answered(rest: &str) -> Command {
    let rest = rest.trim();
    let (first, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let first = first.to_ascii_lowercase();
    let (id, words) = match more.trim() {
        "" => (ONLY.to_owned(), rest),
        more if is_drawn(&first) => (first, more),
        _ => (ONLY.to_owned(), rest),
    };
    if words.is_empty() {
        return Command::Done {
            text: "What is the answer? /answer ID WORDS; the ID is in the question.".to_owned(),
        };
    }
    Command::Approval {
        id,
        verdict: Approval::Approve,
        why: Some(words.to_owned()),
    }
}

/// Returns true for what looks like an id that was drawn for a request: six letters and digits.
fn is_drawn(id: &str) -> bool {
    id.len() == 6 && is_request(id)
}

/// Returns what is meant by `/approve REST` or `/deny REST`. A yes with conditions is not a yes: what
/// is behind the id of an approval would not be heard by anybody.
pub(super) fn spoken(verdict: Approval, rest: &str) -> Command {
    let rest = rest.trim();
    let (id, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    // The keyboards of telephones begin with a capital letter.
    let (id, more) = match id.to_ascii_lowercase() {
        id if id.is_empty() => (ONLY.to_owned(), ""),
        // Without an id the rest is what is there.
        id if verdict == Approval::Approve && ["session", "always"].contains(&id.as_str()) => {
            (ONLY.to_owned(), rest)
        }
        id if verdict == Approval::Deny && !more.trim().is_empty() && !is_drawn(&id) => {
            (ONLY.to_owned(), rest)
        }
        id => (id, more.trim()),
    };
    let why = (verdict == Approval::Deny && !more.is_empty()).then(|| more.to_owned());
    match (verdict, more) {
        _ if !is_request(&id) => Command::Done {
            text: WHICH.to_owned(),
        },
        (Approval::Deny, _) | (_, "") => Command::Approval { id, verdict, why },
        (_, more) if more.eq_ignore_ascii_case("session") => Command::Approval {
            id,
            verdict: Approval::Session,
            why,
        },
        (_, more) if more.eq_ignore_ascii_case("always") => Command::Approval {
            id,
            verdict: Approval::Always,
            why,
        },
        _ => Command::Done {
            text: format!(
                "Nothing was approved: /approve {id} takes nothing more. To say more: /deny {id} WHY"
            ),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn word(id: &str, verdict: Approval, why: Option<&str>) -> Command {
        Command::Approval {
            id: id.to_owned(),
            verdict,
            why: why.map(str::to_owned),
        }
    }

    #[test]
    fn a_button_brings_back_what_it_says() {
        for (verdict, data) in [
            (Approval::Approve, "a:y:k3f9w2"),
            (Approval::Session, "a:s:k3f9w2"),
            (Approval::Always, "a:w:k3f9w2"),
            (Approval::Deny, "a:n:k3f9w2"),
        ] {
            assert_eq!(verdict.data("k3f9w2"), data);
            assert_eq!(pressed(data), Some(word("k3f9w2", verdict, None)));
        }
        let long = format!("a:y:{}", "k".repeat(33));
        for data in [
            "",
            "a",
            "a:y",
            "a:y:",
            "a:Y:k3f9w2",
            "a:yes:k3f9w2",
            "b:y:k3f9w2",
            "a:y:K3F9W2",
            "a:y:k3f9 2",
            "a:y:../x",
            &long,
            "a:y:k3:f9",
        ] {
            assert_eq!(pressed(data), None, "{data:?}");
        }
    }

    #[test]
    fn a_typed_word_names_one_request_and_a_yes_has_no_conditions() {
        let typed = |word, rest| Command::spoken(word, rest).expect("a command");
        assert_eq!(
            typed("approve", " K3f9w2 "),
            word("k3f9w2", Approval::Approve, None)
        );
        assert_eq!(
            typed("APPROVE", "k3f9w2 Session"),
            word("k3f9w2", Approval::Session, None)
        );
        assert_eq!(
            typed("deny", "k3f9w2"),
            word("k3f9w2", Approval::Deny, None)
        );
        for (rest, verdict) in [
            ("", Approval::Approve),
            ("Session", Approval::Session),
            ("always", Approval::Always),
        ] {
            assert_eq!(typed("approve", rest), word(ONLY, verdict, None));
        }
        assert_eq!(typed("deny", " "), word(ONLY, Approval::Deny, None));
        assert_eq!(
            typed("deny", "k3f9w2 not\nthat one "),
            word("k3f9w2", Approval::Deny, Some("not\nthat one"))
        );
        assert_eq!(
            typed("deny", "because it is late"),
            word(ONLY, Approval::Deny, Some("because it is late"))
        );
        assert!(matches!(typed("approve", "<b>"), Command::Done { text } if text == WHICH));
        let told = typed("approve", "k3f9w2 but only the first");
        assert!(
            matches!(&told, Command::Done { text } if text.starts_with("Nothing was approved: ")),
            "{told:?}"
        );
    }

    #[test]
    fn an_answer_names_its_request_or_is_for_the_only_one() {
        let typed = |rest| Command::spoken("answer", rest).expect("a command");
        let approve = Approval::Approve;
        assert_eq!(
            typed(" K3f9w2 Ada\nKing"),
            word("k3f9w2", approve, Some("Ada\nKing"))
        );
        assert_eq!(typed("Ada King"), word(ONLY, approve, Some("Ada King")));
        assert_eq!(typed("Sunday"), word(ONLY, approve, Some("Sunday")));
        assert!(matches!(typed("  "), Command::Done { .. }));
        assert_eq!(
            pressed(&choice(2, "k3f9w2")),
            Some(word("k3f9w2", approve, Some("#2")))
        );
        for data in ["a:0:k3f9w2", "a:10:k3f9w2", "a:2:", "a:2:K"] {
            assert_eq!(pressed(data), None, "{data}");
        }
    }

    proptest! {
        #[test]
        fn nothing_but_our_own_data_means_anything(data in "\\PC{0,70}") {
            if let Some(Command::Approval { id, verdict, why: None }) = pressed(&data) {
                prop_assert_eq!(verdict.data(&id), data);
            }
        }
    }
}
