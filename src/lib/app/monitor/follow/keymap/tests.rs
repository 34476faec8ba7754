//! Keys, one after another.

use super::*;
use crate::app::documents::queue::Queue;
use crate::app::monitor::follow::snapshot::Loaded;
use crate::app::monitor::follow::tests::{TINY, USUAL, ask, busy, lane, living};

fn press(ui: &mut Ui, seen: &Snapshot, keys: &str) -> Option<Act> {
    let mut act = None;
    for c in keys.chars() {
        let key = match c {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '⇥' => KeyCode::Tab,
            '⌫' => KeyCode::Backspace,
            c => KeyCode::Char(c),
        };
        act = ui.press(key.into(), seen, USUAL);
    }
    act
}

fn with_asks(asks: Vec<Waiting>) -> Snapshot {
    let mut seen = living(Vec::new());
    seen.databases.queue = Loaded::Read(Queue {
        inbox: Vec::new(),
        outbox: Vec::new(),
        dead: Vec::new(),
        approvals: asks,
    });
    seen
}

fn note(ui: &Ui) -> &str {
    ui.note.as_ref().map_or("", |note| note.words.as_str())
}

fn decide(id: &str, verdict: Approval, why: Option<&str>) -> Option<Act> {
    let why = why.map(str::to_owned);
    Some(Act::Send(Box::new(Request::decide(
        id.into(),
        verdict,
        why,
    ))))
}

#[test]
fn it_ends_sleeps_and_redraws_whatever_is_open() {
    for open in ["", "?", "s", "a", "d"] {
        let of = |key: char, modifiers| {
            let mut ui = Ui::default();
            press(&mut ui, &busy(), open);
            ui.press(KeyEvent::new(KeyCode::Char(key), modifiers), &busy(), USUAL)
        };
        let ctrl = |key| of(key, KeyModifiers::CONTROL);
        assert_eq!(ctrl('c'), Some(Act::Quit), "{open}");
        assert_eq!(ctrl('z'), Some(Act::Suspend), "{open}");
        assert_eq!(ctrl('l'), Some(Act::Redraw), "{open}");
        assert_eq!(
            of('q', KeyModifiers::NONE),
            open.is_empty().then_some(Act::Quit),
            "{open}: q closes what is open first"
        );
    }
}

#[test]
fn a_run_is_stopped_after_a_yes_and_only_that_one() {
    let seen = living(vec![
        lane("Ada", "tools", 1, 1),
        lane("bob", "thinking", 1, 1),
    ]);
    let stop = |contact: &str| {
        let session = format!("telegram:{contact}");
        Some(Act::Send(Box::new(Request::stop(session, contact))))
    };
    assert_eq!(press(&mut Ui::default(), &seen, "sy"), stop("Ada"));
    assert_eq!(press(&mut Ui::default(), &seen, "↓sy"), stop("bob"));
    assert_eq!(press(&mut Ui::default(), &seen, "↓↓↓↑sy"), stop("Ada"));
    for no in ["sn", "s\u{1b}", "sq", "sny"] {
        let mut ui = Ui::default();
        assert_eq!(press(&mut ui, &seen, no), None, "{no}");
        assert!(matches!(ui.mode, Mode::Look), "{no}");
    }
    let mut ui = Ui::default();
    assert_eq!(press(&mut ui, &seen, "s\nx"), None);
    assert!(
        matches!(ui.mode, Mode::Stop { .. }),
        "other keys are no answer"
    );
    ui.paste("y");
    assert!(matches!(ui.mode, Mode::Stop { .. }), "nor is a paste");

    // It ended while the question stood there, and another began in its place.
    let mut ui = Ui::default();
    press(&mut ui, &seen, "s");
    let mut next = lane("Ada", "thinking", 0, 1);
    next.run_id = "another".into();
    assert_eq!(press(&mut ui, &living(vec![next]), "y"), None);
    assert_eq!(
        note(&ui),
        "that turn has ended already; nothing was stopped"
    );
    let mut ui = Ui::default();
    assert_eq!(press(&mut ui, &living(Vec::new()), "sy"), None);
    press(&mut ui, &living(Vec::new()), "s");
    assert_eq!(note(&ui), "no turn runs");
}

#[test]
fn what_is_chosen_stays_chosen_when_others_come_and_go() {
    let names = ["Ada", "bob", "eve"].map(|name| lane(name, "thinking", 1, 1));
    let mut ui = Ui::default();
    press(&mut ui, &living(names.to_vec()), "↓");
    assert_eq!(ui.lane(&living(names.to_vec())), Some(1));
    assert_eq!(
        ui.lane(&living(names[1..].to_vec())),
        Some(0),
        "bob moved up"
    );
    assert_eq!(
        ui.lane(&living(names[2..].to_vec())),
        Some(0),
        "bob is gone"
    );
    assert_eq!(ui.lane(&living(Vec::new())), None);
}

#[test]
fn a_yes_goes_out_with_the_question_that_was_read() {
    let seen = with_asks(vec![ask("one", "ls"), ask("two", "rm -r build")]);
    assert_eq!(
        press(&mut Ui::default(), &seen, "ay"),
        decide("one", Approval::Approve, None)
    );
    assert_eq!(
        press(&mut Ui::default(), &seen, "2↓ay"),
        decide("two", Approval::Approve, None)
    );
    for no in ["an", "a\u{1b}", "aq", "any", "a\n"] {
        assert_eq!(press(&mut Ui::default(), &seen, no), None, "{no}");
    }
    // Another question is the first one by now: the answer is to the one on the screen.
    let mut ui = Ui::default();
    press(&mut ui, &seen, "a");
    assert_eq!(
        press(&mut ui, &with_asks(vec![ask("zero", "x")]), "y"),
        decide("one", Approval::Approve, None)
    );
    let mut ui = Ui::default();
    press(&mut ui, &with_asks(Vec::new()), "a");
    assert_eq!(note(&ui), "no approval is pending");
}

#[test]
fn a_long_question_is_read_to_its_end_before_a_yes() {
    let long = "true\n".repeat(100) + "rm -r ~";
    let seen = with_asks(vec![ask("one", &long)]);
    let mut ui = Ui::default();
    assert_eq!(press(&mut ui, &seen, "ay"), None);
    assert!(matches!(ui.mode, Mode::Decide(_)));
    assert_eq!(press(&mut ui, &seen, "    y"), None, "not yet");
    assert_eq!(ui.press(KeyCode::End.into(), &seen, USUAL), None);
    press(&mut ui, &seen, "↑↑");
    assert_eq!(
        press(&mut ui, &seen, "y"),
        decide("one", Approval::Approve, None)
    );
    // On a small screen every line is one too many.
    let mut ui = Ui::default();
    let seen = with_asks(vec![ask("one", "1\n2\n3\n4\n5\n6")]);
    ui.press(KeyCode::Char('a').into(), &seen, TINY);
    assert_eq!(ui.press(KeyCode::Char('y').into(), &seen, TINY), None);
}

#[test]
fn a_no_says_why_and_pasted_words_do_not_send_it() {
    let seen = with_asks(vec![ask("one", "ls")]);
    assert_eq!(
        press(&mut Ui::default(), &seen, "d\n"),
        decide("one", Approval::Deny, None)
    );
    assert_eq!(
        press(&mut Ui::default(), &seen, "d not now qy \n"),
        decide("one", Approval::Deny, Some("not now qy"))
    );
    assert_eq!(
        press(&mut Ui::default(), &seen, "dnox⌫\n"),
        decide("one", Approval::Deny, Some("no"))
    );
    assert_eq!(press(&mut Ui::default(), &seen, "dno\u{1b}\n"), None);
    let mut ui = Ui::default();
    press(&mut ui, &seen, "d");
    ui.paste("a\nb\u{1b}");
    assert_eq!(
        press(&mut ui, &seen, "\n"),
        decide("one", Approval::Deny, Some("a b"))
    );
    let mut ui = Ui::default();
    press(&mut ui, &seen, &format!("d{}", "é".repeat(600)));
    assert_eq!(
        press(&mut ui, &seen, "\n"),
        decide("one", Approval::Deny, Some(&"é".repeat(500)))
    );
}
