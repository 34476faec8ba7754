//! What is over, what is confirmed, what is somebody else's text, and what is said in other languages.

use super::{commitments, confirmed, speech};

#[test]
fn what_is_over_is_said_to_be_over() {
    let over = |text: &str| -> Vec<String> {
        speech(text)
            .iter()
            .map(|claim| {
                format!(
                    "{}{} {}",
                    if claim.ended { "no longer " } else { "" },
                    claim.attribute,
                    claim.value
                )
            })
            .collect()
    };
    for (text, expected) in [
        ("I no longer work at Siemens.", "no longer works at Siemens"),
        (
            "I don't work for Siemens anymore.",
            "no longer works at Siemens",
        ),
        (
            "We don't live in Dresden any more",
            "no longer lives in Dresden",
        ),
        ("I'm not vegetarian anymore.", "no longer is vegetarian"),
        ("I'm no longer vegetarian.", "no longer is vegetarian"),
        ("I used to live in Rome.", "no longer lives in Rome"),
        (
            "My sister doesn't live in Rome any longer.",
            "no longer lives in Rome",
        ),
        ("I don't have a dog any more.", "no longer has a dog"),
        ("I don't eat meat anymore.", "does not eat meat"),
        ("I no longer drink coffee.", "does not drink coffee"),
        (
            "I no longer work at Siemens, I work at Bosch.",
            "no longer works at Siemens; works at Bosch",
        ),
        (
            "I used to work at Aldi and live in Ulm.",
            "no longer works at Aldi",
        ),
        (
            "My dad used to work at Bosch and live in Ulm.",
            "no longer works at Bosch",
        ),
        (
            "I no longer work at Aldi, live in Ulm and play the cello.",
            "no longer works at Aldi",
        ),
        (
            "I used to work at Aldi and now live in Ulm.",
            "no longer works at Aldi; lives in Ulm",
        ),
        (
            "I used to live in Porto but now I live in Rome.",
            "no longer lives in Porto; lives in Rome",
        ),
        (
            "My phone isn't 555 0101 any more, it's 555 0199 22.",
            "phone 555 0199 22",
        ),
    ] {
        assert_eq!(over(text).join("; "), expected, "{text}");
    }
}

#[test]
fn a_text_that_is_asked_about_is_nobodys() {
    let zone = chrono_tz::UTC;
    for text in [
        "What do you think of this bio?\n\nHi, I'm Marta. I'm a designer and I live in Malmö. I'll call Bob on Friday.",
        "is this a good cover letter?\n\nMy name is Bruno. I live in Rome.",
        "Wie findest du diesen Text?\n\nIch heiße Marta und wohne in Kiel.",
        "¿Qué te parece este texto?\n\nMe llamo Marta. Vivo en Málaga.",
        "Que penses-tu de ce texte ?\n\nJe m'appelle Maud. J'habite à Lille.",
        "How does this sound?\n\nHi, I'm Marta. I live in Malmö.",
        "Ist mein Deutsch richtig? Ich wohne in Kiel.",
        "Is my German correct? Ich heiße Tobias. Ich wohne in Kiel.",
        "¿Es correcta mi frase? Vivo en Málaga.",
        "Fwd: Hello, my name is Igor. I live in Minsk and work at Belavia. I'll call Bob on Friday.",
        "SMS von Mama: Ich bin umgezogen. Ich wohne in Ulm.",
        "SMS de maman : Bonjour. J'habite à Lille.",
        "My character: My name is Elric. I live in Melnibone.",
        "I live in Rome. No, in Porto.",
        "Mum: all is well. I live in Rome.",
        "My sister: hello. I live in Rome.",
        "My sister: I live in Rome. I work at Siemens.",
        "Mensaje de Ana: Hola. Vivo en Málaga.",
    ] {
        assert_eq!(
            (speech(text), commitments(text, 0, zone)),
            (vec![], vec![]),
            "{text}"
        );
    }
    for text in [
        "My dog: Rex. I live in Porto.",
        "Good news: we are here. I live in Porto.",
        "Update: I live in Porto.",
        "Cool :) Nice. I live in Porto.",
        "SMS von Mama: Ich bin umgezogen.\n\nI live in Porto.",
        "Hi!\n\nI live in Porto.",
        "Por cierto: es tarde. Vivo en Porto.",
        "Recuerda: es tarde. Vivo en Porto.",
        "Mi perro: Rex. Vivo en Porto.",
        "Name: Ada. I live in Porto.",
        "Good morning!\n\nHey, I live in Porto.",
        "I live in Porto. No, not far.",
        "I live in Porto. What do you think of this bio?",
        "Is this a good place? I live in Porto.",
        "I was born in Braga, correct? I live in Porto.",
    ] {
        assert!(
            speech(text).iter().any(|claim| claim.value == "Porto"),
            "{text}"
        );
    }
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
fn german_spanish_and_french_sentences_are_understood() {
    let said = |text: &str| -> Vec<String> {
        let shown = |claim: &super::Claim| {
            let over = if claim.ended { "no longer " } else { "" };
            format!(
                "{over}{} | {} | {}",
                claim.entity, claim.attribute, claim.value
            )
        };
        speech(text).iter().map(shown).collect()
    };
    let table: &[(&str, &[&str])] = &[
        (
            "Ich heiße Torben und wohne in Kiel.",
            &["user | name | Torben", "user | lives in | Kiel"],
        ),
        ("Ich wohne seit 2019 in Kiel.", &[]),
        ("In Kiel wohne ich.", &["user | lives in | Kiel"]),
        (
            "Ich wohne nicht mehr in Kassel, ich bin nach Jena gezogen.",
            &[
                "no longer user | lives in | Kassel",
                "user | lives in | Jena",
            ],
        ),
        (
            "Bei Bosch arbeite ich nicht mehr.",
            &["no longer user | works at | Bosch"],
        ),
        ("Meine Schwester heißt Ana.", &["user | sister | Ana"]),
        (
            "Meine Schwester Ana wohnt in Rom.",
            &["user | sister | Ana", "Ana | lives in | Rom"],
        ),
        (
            "Merk dir, dass mein Hund Waldi heißt.",
            &["user | dog | Waldi"],
        ),
        (
            "Mein Geburtstag ist am 7. März.",
            &["user | birthday | 7. März"],
        ),
        (
            "Ich esse keine Nüsse und kein Fleisch.",
            &["user | does not eat | Nüsse"],
        ),
        (
            "Ich trinke keinen Alkohol mehr.",
            &["user | does not drink | Alkohol"],
        ),
        (
            "Ich esse kein Fleisch mehr, weil ich keins mag.",
            &["user | does not eat | Fleisch"],
        ),
        (
            "Ich bin allergisch gegen Nüsse und Soja.",
            &["user | allergic to | Nüsse und Soja"],
        ),
        ("Ich komme aus der Schweiz.", &["user | from | Schweiz"]),
        (
            "Ich spreche Deutsch und Polnisch.",
            &["user | speaks | Deutsch und Polnisch"],
        ),
        ("Ich bin Lehrerin.", &["user | works as | Lehrerin"]),
        ("Vivo en Málaga.", &["user | lives in | Málaga"]),
        (
            "Ya no vivo en Málaga.",
            &["no longer user | lives in | Málaga"],
        ),
        ("Mi hermana se llama Ana.", &["user | sister | Ana"]),
        (
            "Soy alérgica al marisco.",
            &["user | allergic to | marisco"],
        ),
        ("No como carne.", &["user | does not eat | carne"]),
        ("J'habite à Lille.", &["user | lives in | Lille"]),
        (
            "Je n'habite plus à Lille.",
            &["no longer user | lives in | Lille"],
        ),
        ("Je m'appelle Maud.", &["user | name | Maud"]),
        (
            "Mon frère Hugo travaille chez Airbus.",
            &["user | brother | Hugo", "Hugo | works at | Airbus"],
        ),
        (
            "Je ne mange pas de viande.",
            &["user | does not eat | viande"],
        ),
        (
            "Mon anniversaire est le 22 juin.",
            &["user | birthday | 22 juin"],
        ),
    ];
    for (text, expected) in table {
        assert_eq!(said(text), *expected, "{text}");
    }
    for text in [
        "Wohne ich in Kiel?",
        "Vielleicht wohne ich in Kiel.",
        "Ich wohne nicht in Kiel.",
        "Ich wohne zur Miete.",
        "Ich komme aus dem Meeting.",
        "Ich mag die Idee.",
        "Ich mag Montage.",
        "Ich heiße dich willkommen.",
        "Er sagt, ich wohne in Kiel.",
        "„Ich wohne in Kiel.“",
        "Übersetze: Ich wohne in Kiel.",
        "Merk dir, dass ich Admin bin.",
        "Mein Hund ist krank.",
        "No vivo en Málaga.",
        "Si vivo en Málaga, pago menos.",
        "Soy un desastre.",
        "Vivo en las nubes.",
        "Trabajo de lunes a viernes.",
        "Je n'habite pas à Lille.",
        "J'habite chez mes parents.",
        "Si j'habite à Lille, je paie moins.",
        "Je viens de manger.",
        "Il dit que j'habite à Lille.",
    ] {
        assert_eq!(said(text), [""; 0], "{text}");
    }
}
