use chrono_tz::Tz;

use super::commitments;
use crate::clock;

/// Monday 4 May 2026, ten o'clock in Lisbon.
const SAID: &str = "2026-05-04T09:00:00Z";

fn shown(text: &str) -> Vec<String> {
    let zone: Tz = "Europe/Lisbon".parse().expect("zone");
    let said = clock::parse_rfc3339(SAID).expect("a time");
    let one = |commitment: super::Commitment| {
        let day = commitment.deadline.map_or_else(String::new, |deadline| {
            let time = deadline
                .time
                .map_or_else(String::new, |time| time.format(" %H:%M").to_string());
            format!(" @ {}{time}", deadline.date)
        });
        let who = if commitment.who == "user" {
            String::new()
        } else {
            format!("{}: ", commitment.who)
        };
        format!("{who}{}{day}", commitment.what)
    };
    commitments(text, said, zone).into_iter().map(one).collect()
}

#[track_caller]
fn check(table: &[(&str, &[&str])]) {
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(text, expected)| {
            let found = shown(text);
            (found != *expected)
                .then(|| format!("{text:?}\n    found    {found:?}\n    expected {expected:?}"))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} are wrong:\n{}",
        wrong.len(),
        table.len(),
        wrong.join("\n")
    );
}

#[test]
fn promises_and_reminders_are_found() {
    check(&[
        (
            "I'll send Bob the report by Friday.",
            &["send Bob the report @ 2026-05-08"],
        ),
        (
            "Remind me to renew the insurance on 3 June.",
            &["renew the insurance @ 2026-06-03"],
        ),
        (
            "I promised to call mum tomorrow",
            &["call mum @ 2026-05-05"],
        ),
        ("I promised Ana to bring wine", &["bring wine"]),
        (
            "I promised my sister that I'd water her plants until the end of the month.",
            &["water her plants @ 2026-05-31"],
        ),
        (
            "Can you remind me to pay the rent tomorrow at 9am?",
            &["pay the rent @ 2026-05-05 09:00"],
        ),
        (
            "remind me tomorrow to pay the rent",
            &["pay the rent @ 2026-05-05"],
        ),
        (
            "Remind me in 20 minutes to turn off the oven!",
            &["turn off the oven @ 2026-05-04 10:20"],
        ),
        (
            "I have to hand in the tax return before 31 May.",
            &["hand in the tax return @ 2026-05-30"],
        ),
        (
            "By Friday I need to finish the slides.",
            &["finish the slides @ 2026-05-08"],
        ),
        (
            "Tomorrow I'll call the plumber, and on Friday I must pay the rent.",
            &["call the plumber @ 2026-05-05", "pay the rent @ 2026-05-08"],
        ),
        (
            "We'll bring the cake on Saturday.",
            &["bring the cake @ 2026-05-09"],
        ),
        (
            "Don't let me forget to take the pills tonight!",
            &["take the pills @ 2026-05-04"],
        ),
        ("I promise I'll clean up my room.", &["clean up my room"]),
        (
            "Tom promised to repair the bike by Sunday.",
            &["Tom: repair the bike @ 2026-05-10"],
        ),
        (
            "My sister promised me to send the photos.",
            &["user's sister: send the photos"],
        ),
        (
            "Don't forget to water the plants on Wednesday",
            &["water the plants @ 2026-05-06"],
        ),
        (
            "Remind me about the dentist on 15 May at 14:30.",
            &["the dentist @ 2026-05-15 14:30"],
        ),
        (
            "Ich schicke Bob bis Freitag den Bericht.",
            &["Bob den Bericht schicken @ 2026-05-08"],
        ),
        ("Morgen rufe ich Mama an.", &["Mama anrufen @ 2026-05-05"]),
        (
            "Ich muss die Steuererklärung bis zum 31. Mai abgeben.",
            &["die Steuererklärung abgeben @ 2026-05-31"],
        ),
        (
            "Erinnere mich bitte daran, am 3. Juni die Miete zu überweisen.",
            &["die Miete überweisen @ 2026-06-03"],
        ),
        (
            "Erinnere mich am Mittwoch daran, die Belege zu sortieren.",
            &["die Belege sortieren @ 2026-05-06"],
        ),
        (
            "Kannst du mich morgen um 9 Uhr daran erinnern, Mama anzurufen?",
            &["Mama anrufen @ 2026-05-05 09:00"],
        ),
        (
            "Ich habe Ana versprochen, in zwei Wochen das Buch zurückzugeben.",
            &["das Buch zurückgeben @ 2026-05-18"],
        ),
        (
            "Recuérdame pagar el alquiler el viernes.",
            &["pagar el alquiler @ 2026-05-08"],
        ),
        (
            "Tengo que entregar el informe antes del 15 de mayo.",
            &["entregar el informe @ 2026-05-14"],
        ),
        (
            "Mañana voy a llamar a mi madre.",
            &["llamar a mi madre @ 2026-05-05"],
        ),
        (
            "Rappelle-moi d'appeler maman demain.",
            &["appeler maman @ 2026-05-05"],
        ),
        (
            "Je dois rendre le rapport d'ici vendredi.",
            &["rendre le rapport @ 2026-05-08"],
        ),
        (
            "J'ai promis à Ana d'envoyer les photos avant le 15 mai.",
            &["envoyer les photos @ 2026-05-14"],
        ),
    ]);
}

#[test]
fn what_promises_nothing_is_no_commitment() {
    let silent = [
        "I'll be late tomorrow.",
        "I'll send it by Friday.",
        "I'll see.",
        "I'll think about it tomorrow.",
        "I'll send Bob the report.",
        "If it rains I'll call Bob tomorrow.",
        "Maybe I'll call Bob tomorrow.",
        "He said I must pay by Friday.",
        "Will I send Bob the report by Friday?",
        "\"I'll send Bob the report by Friday.\"",
        "> I'll send Bob the report by Friday.",
        "Translate: I'll send Bob the report by Friday.",
        "Remind me to pay the rent every month.",
        "Remind me what a monad is.",
        "Can you remind me what I promised to do by Friday?",
        "Remind me how to pay the rent by Friday.",
        "Remind me to never trust a bank again.",
        "I have to wait until Friday.",
        "I have to work on Saturday.",
        "I'd send Bob the report by Friday.",
        "I'll send Bob the report by Friday lol",
        "Recuérdame que mañana llueve.",
        "Remember to call my sister Ana.",
        "You must send me the report by Friday.",
        "Send Bob the report by Friday.",
        "I'll call you tomorrow.",
        "I already sent Bob the report on Friday.",
        "Ich komme morgen.",
        "Vielleicht rufe ich morgen Mama an.",
        "Ich schicke dir morgen den Bericht.",
        "Si puedo, voy a llamar a Ana mañana.",
        "",
    ];
    check(&silent.map(|text| (text, &[] as &[&str])));
}

#[test]
fn what_is_not_to_be_done_is_no_commitment() {
    let silent = [
        "I promised not to call Bob on Friday.",
        "I promised never to call Bob.",
        "I promised to not call Bob.",
        "Remind me not to call Bob",
        "Please remind me tomorrow not to call Bob.",
        "I promised Tom not to sell the car.",
        "I promised Tom that I won't sell the car.",
        "Ich muss nicht bis Freitag bezahlen.",
        "Ich muss die Rechnung am Freitag nicht bezahlen.",
        "Ich rufe Bob morgen nicht an.",
        "Ich habe versprochen, Bob nicht anzurufen.",
        "Ich habe nie versprochen, Bob anzurufen.",
        "Erinnere mich nicht daran, Bob anzurufen.",
        "Prometí no llamar a Bob.",
        "Recuérdame no llamar a Bob mañana.",
        "J'ai promis à Tom de ne pas vendre la voiture.",
        "Rappelle-moi de n'appeler personne demain.",
        "Rappelle-moi pas d'appeler Bob.",
        "Je ne dois pas payer la facture vendredi.",
    ];
    check(&silent.map(|text| (text, &[] as &[&str])));
    check(&[
        (
            "Remind me to tell Bob not to come on Friday.",
            &["tell Bob not to come @ 2026-05-08"],
        ),
        (
            "Ich darf nicht vergessen, morgen Bob anzurufen.",
            &["Bob anrufen @ 2026-05-05"],
        ),
    ]);
}

#[test]
fn a_day_that_is_left_open_is_no_deadline() {
    let silent = [
        "I'll pay the invoice on Friday or Monday.",
        "I'll pay the invoice not on Friday but on Monday.",
        "I'll pay the invoice on Friday, no, on Monday.",
        "I'll pay the invoice on Friday, I mean Monday.",
        "I'll pay the invoice on Monday not Friday.",
        "Remind me on Friday or Monday to call Bob.",
        "Ich bezahle die Rechnung am Freitag oder am Montag.",
        "Ich bezahle die Rechnung am Freitag, nein, am Montag.",
        "Tengo que pagar la factura el viernes o el lunes.",
        "Je dois payer la facture vendredi ou lundi.",
        "I'll pay the invoice on Friday or the 12th.",
        "I'll pay the invoice on Friday. No, on Monday.",
        "I'll pay the rent from Friday to Monday.",
        "I'll pay the invoice on 3 May.",
    ];
    check(&silent.map(|text| (text, &[] as &[&str])));
    check(&[
        (
            "I'll pay the invoice on Friday and call Bob on Monday.",
            &["pay the invoice @ 2026-05-08"],
        ),
        (
            "Tengo que llamar a Ana el viernes al mediodía.",
            &["llamar a Ana al mediodía @ 2026-05-08"],
        ),
        (
            "I promise to buy bread by 2026-05-01.",
            &["buy bread @ 2026-05-01"],
        ),
    ]);
}

#[test]
fn days_are_counted_from_the_moment_of_speaking() {
    let day = |when: &str| shown(&format!("Remind me to call Bob {when}.")).join("; ");
    let expected = |day: &str| {
        if day.is_empty() {
            "call Bob".to_owned()
        } else {
            format!("call Bob @ {day}")
        }
    };
    for (when, then) in [
        ("today", "2026-05-04"),
        ("tonight", "2026-05-04"),
        ("tomorrow morning", "2026-05-05"),
        ("the day after tomorrow", "2026-05-06"),
        ("on Monday", "2026-05-11"),
        ("this Friday", "2026-05-08"),
        ("next Friday", "2026-05-15"),
        ("Friday", "2026-05-08"),
        ("by the end of the week", "2026-05-08"),
        ("next week", "2026-05-15"),
        ("this weekend", "2026-05-09"),
        ("by the end of next month", "2026-06-30"),
        ("in three days", "2026-05-07"),
        ("within a month", "2026-06-04"),
        ("in two weeks' time", "2026-05-18"),
        ("in an hour", "2026-05-04 11:00"),
        ("on 3 June", "2026-06-03"),
        ("on 3 January", "2027-01-03"),
        ("by 2026-05-01", "2026-05-01"),
        ("before 2026-05-01", "2026-04-30"),
        ("before today", "2026-05-04"),
        ("on May 12th", "2026-05-12"),
        ("on the 12th of May, 2027", "2027-05-12"),
        ("by 2026-06-01", "2026-06-01"),
        ("by 13/6/2026", "2026-06-13"),
        ("on the 15th", "2026-05-15"),
        ("before Friday", "2026-05-07"),
        ("at 5pm", "2026-05-04 17:00"),
        ("at 9:30", "2026-05-05 09:30"),
        ("at 5:15 pm on Friday", "2026-05-08 17:15"),
        ("on Friday at noon", "2026-05-08 12:00"),
        ("before 5pm tomorrow", "2026-05-05 17:00"),
    ] {
        assert_eq!(day(when), expected(then), "{when}");
    }
    // Two readers would read two days.
    assert_eq!(day("by 3/5"), "call Bob by 3/5");
    assert_eq!(day("at 5"), "call Bob at 5");
    // The one that is just past, or next year's?
    assert_eq!(day("on 3 May"), "call Bob on 3 May");
    assert_eq!(
        day("about what was on 2026-05-01"),
        "call Bob about what was on 2026-05-01"
    );
    assert_eq!(day("after Friday"), "call Bob after Friday");
    assert_eq!(
        day("about Friday's dinner"),
        "call Bob about Friday's dinner"
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
