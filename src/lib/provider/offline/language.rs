//! Notices that a person does not write English, when it is plain to see.
//!
//! Letters of another script say it by themselves. In Latin letters the small words do: at least
//! two of one language, a fifth of all words, and twice as many as English ones. No crate: those
//! that do more bring hundreds of kilobytes of tables for a sentence that is said once.

/// Fewer letters in Latin script are no sentence to judge.
const MIN_LETTERS: usize = 20;
/// No more of a text is looked at, characters.
const MAX_CHARS: usize = 2000;

/// Small words that English has not, by language.
const SMALL: &[(&str, &str)] = &[
    (
        "Deutsch",
        "aber auch auf aus bei bin bist das dass dem den der des dich dir du ein eine einen er es euch für haben habe hast hat ich ihr \
      im ist kann kannst kein mein meine mich mir mit nicht noch nur oder sich sie sind über und uns von wann warum war wenn wer wie wir wird wo zu zum zur",
    ),
    (
        "Français",
        "au aux avec c'est ce ces cette dans de des du elle est et être il ils j'ai je la le les leur lui ma mais mes moi mon ne nous où \
      par pas pour quand que qu'est quel quelle qui sa ses sont suis sur ta tu un une vous y",
    ),
    (
        "Español",
        "cómo como con cuál cuando cuándo de del dónde donde el ella en eres es está este esto estoy la las lo los me mi mis muy no para \
      pero por porque qué que quién se ser soy su sus te tengo tu un una y yo",
    ),
    (
        "Italiano",
        "anche che chi come con cosa da dal del della di dove e è gli ho il io la le lei lo ma mi mia mio nel nella non per perché più \
      quando questo sei si sono sul tu un una",
    ),
    (
        "Português",
        "ao as com como da de do dos e é ela ele em está estou eu foi isso isto mais mas meu minha na não no onde o os para pela por qual \
      quando que quem se seu sua tem um uma você",
    ),
    (
        "Nederlands",
        "aan als bij dat de deze dit een en er haar heb heeft het hij hoe ik is je kan maar mij mijn naar niet nog of ook op te uit van voor \
      waar wanneer wat we welke wie wij zij zijn",
    ),
    (
        "Polski",
        "ale będzie czy dla gdzie jak jest jestem kiedy kto mam mnie moja moje mój na nie od po się to w z za że",
    ),
    (
        "Svenska",
        "att av den det du en ett för från har hon honom hur i inte jag kan med men mig min mitt när och om på som till var vad vi är",
    ),
    (
        "Türkçe",
        "ama ben bir bu çok da daha de değil gibi için ile mi ne nerede neden o olarak sen ve var yok zaman",
    ),
];
const ENGLISH: &str = "a about an and are as at be but by can did do does for from had has have he her his how i i'm if in is it it's me my no not of on \
    or our she so that the their them they this to was we were what when where which who why will with would you your";

/// A language that is not English.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Foreign {
    /// What it is called in itself, where it can be told.
    pub name: Option<&'static str>,
}

/// Returns the language of `text` when it is certainly not English.
pub(super) fn foreign(text: &str) -> Option<Foreign> {
    let (mut letters, mut scripts) = (0_usize, std::collections::BTreeMap::<&str, usize>::new());
    for c in text.chars().take(MAX_CHARS).filter(|c| c.is_alphabetic()) {
        letters += 1;
        *scripts.entry(script(c)).or_default() += 1;
    }
    let latin = scripts.get("latin").copied().unwrap_or(0);
    if letters >= 2 && latin * 2 < letters {
        // Japanese is Chinese letters with its own between them.
        let kana = scripts.contains_key("日本語");
        let most = scripts
            .iter()
            .filter(|(name, _)| **name != "latin")
            .max_by_key(|(_, count)| **count)
            .map(|(name, _)| *name);
        let name = if kana { Some("日本語") } else { most };
        return Some(Foreign {
            name: name.filter(|name| !name.is_empty()),
        });
    }
    if latin < MIN_LETTERS {
        return None;
    }
    let words: Vec<String> = super::words::plain(crate::text::head(text, MAX_CHARS))
        .split(' ')
        .map(str::to_owned)
        .collect();
    let count = |list: &str| {
        words
            .iter()
            .filter(|word| list.split_whitespace().any(|small| small == **word))
            .count()
    };
    let english = count(ENGLISH);
    let mut best = ("", 0);
    for (name, list) in SMALL {
        let hits = count(list);
        if hits > best.1 {
            best = (name, hits);
        }
    }
    let (name, hits) = best;
    (hits >= 2 && hits * 5 >= words.len() && hits >= english * 2)
        .then_some(Foreign { name: Some(name) })
}

/// Returns the language a letter belongs to; empty where several share the script.
fn script(c: char) -> &'static str {
    match c {
        '\u{0}'..='\u{24f}'
        | '\u{1e00}'..='\u{1eff}'
        | '\u{2c60}'..='\u{2c7f}'
        | '\u{ff21}'..='\u{ff5a}' => "latin",
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => "Ελληνικά",
        '\u{530}'..='\u{58f}' => "Հայերեն",
        '\u{590}'..='\u{5ff}' => "עברית",
        '\u{e00}'..='\u{e7f}' => "ไทย",
        '\u{10a0}'..='\u{10ff}' => "ქართული",
        '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}' => "한국어",
        '\u{3040}'..='\u{30ff}' => "日本語",
        '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' => "中文",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_named_only_when_it_is_plain() {
        let check = |text: &str, expected: Option<Option<&str>>| {
            assert_eq!(
                foreign(text).map(|foreign| foreign.name),
                expected,
                "{text}"
            );
        };
        check(
            "Wann hat meine Schwester Geburtstag, und wo ist das Fest?",
            Some(Some("Deutsch")),
        );
        check(
            "Ich wohne seit zwei Jahren mit meiner Katze in Berlin.",
            Some(Some("Deutsch")),
        );
        check(
            "Quand est l'anniversaire de ma sœur et où sont les clés ?",
            Some(Some("Français")),
        );
        check(
            "¿Cuándo es el cumpleaños de mi hermana?",
            Some(Some("Español")),
        );
        check(
            "Quando è il compleanno di mia sorella?",
            Some(Some("Italiano")),
        );
        check(
            "Wanneer is de verjaardag van mijn zus?",
            Some(Some("Nederlands")),
        );
        check("Когда день рождения моей сестры?", Some(None));
        check("妹の誕生日はいつですか？", Some(Some("日本語")));
        check("我妹妹的生日是什么时候？", Some(Some("中文")));
        check("너는 누구니?", Some(Some("한국어")));
        check("ok danke", None);
        check("Grüß\n dich", None);
        check(
            "When is my sister's birthday, and where are the keys?",
            None,
        );
        check("Berlin Hamburg München Wuppertal Osnabrück", None);
        check(
            "I drove from Los Angeles to La Paz with my friend Jean de la Tour",
            None,
        );
        check("", None);
        check("1234 5678 !!", None);
    }
}
