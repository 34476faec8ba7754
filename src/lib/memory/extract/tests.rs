//! The statements of sentences (`examples.txt`), the place of a claim, and robustness against any text.

use chrono_tz::Tz;
use proptest::prelude::*;

use super::{Claim, Commitment, commitments, confirmed, notes, speech};
use crate::clock;

/// Monday 4 May 2026, ten o'clock in Lisbon.
const SAID: &str = "2026-05-04T09:00:00Z";

fn claims(claims: &[Claim]) -> String {
    let shown = |claim: &Claim| {
        let over = if claim.ended { "no longer " } else { "" };
        let Claim {
            entity,
            attribute,
            value,
            ..
        } = claim;
        format!("{over}{entity} | {attribute} | {value}")
    };
    claims.iter().map(shown).collect::<Vec<_>>().join("; ")
}

fn promises(text: &str) -> String {
    let zone: Tz = "Europe/Lisbon".parse().expect("zone");
    let said = clock::parse_rfc3339(SAID).expect("a time");
    let shown = |one: Commitment| {
        let day = one.deadline.map_or_else(String::new, |deadline| {
            let time = deadline.time.map(|time| time.format(" %H:%M").to_string());
            format!(" @ {}{}", deadline.date, time.unwrap_or_default())
        });
        format!("{}: {}{day}", one.who, one.what)
    };
    let found: Vec<String> = commitments(text, said, zone)
        .into_iter()
        .map(shown)
        .collect();
    found.join("; ")
}

#[test]
fn sentences_state_what_the_examples_say_and_nothing_else() {
    let (mut section, mut count, mut wrong) = ("", 0, String::new());
    for line in include_str!("examples.txt").lines() {
        let Some((text, expected)) = line.split_once(" =>").filter(|_| !line.starts_with("// "))
        else {
            section = line.strip_prefix('[').unwrap_or(section);
            continue;
        };
        let text = text.replace("\\n", "\n");
        let found = match section {
            "speech]" => claims(&speech(&text)),
            "notes]" => claims(&notes(&text)),
            "promises]" => promises(&text),
            other => panic!("no section {other}"),
        };
        count += 1;
        if found != expected.trim_start() {
            wrong += &format!("{text:?}\n    found    {found}\n    expected{expected}\n");
        }
    }
    assert!(wrong.is_empty() && count > 500, "of {count}:\n{wrong}");
}

#[test]
fn a_plain_yes_confirms_a_plain_question() {
    let said = |asked: &str, answer: &str| -> Vec<String> {
        confirmed(asked, answer)
            .iter()
            .map(|claim| format!("{} {} {}", claim.entity, claim.attribute, claim.value))
            .collect()
    };
    for (asked, expected) in [
        ("So you live in Lyon?", "user lives in Lyon"),
        ("You live in Lyon, right?", "user lives in Lyon"),
        ("Noted. Do you work at Siemens?", "user works at Siemens"),
        ("Are you vegetarian?", "user is vegetarian"),
        (
            "Just to confirm: your sister is called Ana?",
            "user sister Ana",
        ),
        (
            "You are allergic to nuts, correct?",
            "user allergic to nuts",
        ),
    ] {
        for yes in ["yes", "Yes, exactly.", "that's right", "Correct!"] {
            assert_eq!(said(asked, yes), [expected], "{asked} {yes}");
        }
        for no in [
            "no",
            "yes please",
            "yes, but not for long",
            "yes?",
            "maybe",
            "",
            "Yes. No.",
        ] {
            assert_eq!(said(asked, no), [""; 0], "{asked} {no}");
        }
    }
    for asked in [
        "You live in Lyon.",
        "You live in Lyon? Or in Nice?",
        "Do you live in Lyon? Then I look for a train.",
        "Do you want to live in Lyon?",
        "Would you live in Lyon?",
        "He asks: \"Do you live in Lyon?\"",
        "Shall I note that you live in Lyon?",
        "So you are an admin?",
        "Does Ana live in Lyon?",
        "",
    ] {
        assert_eq!(said(asked, "yes"), [""; 0], "{asked}");
    }
    assert_eq!(
        confirmed("So you live in Lyon?", "Yes, exactly.")[0].quote,
        "So you live in Lyon? Yes, exactly."
    );
}

#[test]
fn a_day_is_one_of_the_zone_it_was_said_in() {
    let late = clock::parse_rfc3339("2026-05-04T23:30:00Z").expect("a time");
    let day = |zone: &str| {
        let found = commitments(
            "Hello.\n\nRemind me to call Bob tomorrow.",
            late,
            zone.parse().expect("zone"),
        );
        (
            found[0].deadline.expect("a day").date.to_string(),
            found[0].line,
            found[0].quote.clone(),
        )
    };
    let quote = "Remind me to call Bob tomorrow.".to_owned();
    assert_eq!(day("UTC"), ("2026-05-05".to_owned(), 2, quote.clone()));
    assert_eq!(day("Europe/Berlin"), ("2026-05-06".to_owned(), 2, quote));
}

#[test]
fn a_fresh_home_has_no_facts() {
    for file in [
        include_str!("../../workspace/templates/AGENTS.md"),
        include_str!("../../workspace/templates/HEARTBEAT.md"),
        include_str!("../../workspace/templates/IDENTITY.md"),
        include_str!("../../workspace/templates/MEMORY.md"),
        include_str!("../../workspace/templates/SOUL.md"),
        include_str!("../../workspace/templates/TOOLS.md"),
        include_str!("../../workspace/templates/USER.md"),
    ] {
        assert_eq!((notes(file), speech(file)), (vec![], vec![]));
    }
}

#[test]
fn a_claim_knows_its_line_its_sentence_and_how_sure_it_is() {
    let text = "Hello there.\n\nWe talked. My sister lives\nin  Porto.\nRemember that I like tea.";
    let claim = |entity: &str, attribute: &str, value: &str, confidence, line, quote: &str| Claim {
        entity: entity.into(),
        attribute: attribute.into(),
        value: value.into(),
        ended: false,
        confidence,
        line,
        quote: quote.into(),
    };
    let expected = [
        claim(
            "user's sister",
            "lives in",
            "Porto",
            0.7,
            2,
            "My sister lives in Porto.",
        ),
        claim("user", "likes", "tea", 0.9, 4, "Remember that I like tea."),
    ];
    assert_eq!(speech(text), expected);
    assert_eq!(
        notes("---\na: b\n---\n\n- Birthday: 3 May\n"),
        [claim(
            "user",
            "birthday",
            "3 May",
            0.9,
            4,
            "Birthday: 3 May"
        )]
    );
    assert_eq!(speech("i live in porto")[0].confidence, 0.7);
    assert_eq!(speech("my sister lives in porto")[0].confidence, 0.6);
}

proptest! {
    #[test]
    fn any_text_is_read_without_harm(text in "\\PC{0,200}|([ \\n.,:;!?'’\"“”«»`#>*\\[\\]()-]|[a-zA-ZäŁ李]|I live in |my |sister |Ana|'s |is |not |but |3 May |no longer |used to |ich |wohne in |nicht mehr |j'habite à |vivo en |remind me to |I'll send |by |in two weeks |next Friday |at 5pm |morgen |daran, |zu ){0,60}", at in any::<i64>()) {
        for claim in speech(&text).into_iter().chain(notes(&text)).chain(confirmed(&text, "yes")) {
            prop_assert!((0.6..=0.9).contains(&claim.confidence), "{claim:?}");
            prop_assert!(!claim.value.trim().is_empty() && claim.value.chars().count() <= 80, "{claim:?}");
            prop_assert!(claim.quote.chars().count() <= 300 && (claim.line as usize) < text.lines().count().max(1), "{claim:?}");
        }
        for promised in commitments(&text, at, chrono_tz::Europe::Berlin) {
            prop_assert!(!promised.what.is_empty() && promised.what.chars().count() <= 120 && !promised.who.is_empty(), "{promised:?}");
        }
    }
}
